// Sorts a table by a click on a heading and filters long tables and lists; opens the folded part that a link leads to. Pages are complete without it.
(() => {
  "use strict";
  const key = (row, column) => {
    const {dataset: {value}, textContent} = row.cells[column];
    return value === undefined ? textContent.trim() : Number(value.replace("inf", "Infinity"));
  };
  const order = (a, b, sign) => {
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;  // rows without a number come last
    return sign * (typeof a === "number" ? a - b : a.localeCompare(b, undefined, {numeric: true}));
  };
  const sort = (heading) => {
    const column = heading.cellIndex, sign = heading.ariaSort === "ascending" ? -1 : 1;
    for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
    heading.ariaSort = sign > 0 ? "ascending" : "descending";
    const body = heading.closest("table").tBodies[0];
    body.append(...[...body.rows].sort((a, b) => order(key(a, column), key(b, column), sign)));
  };
  const unfold = () => {  // a link to a folded part, or into one, opens it
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let box = target?.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  };
  window.addEventListener("hashchange", unfold);
  unfold();
  for (const heading of document.querySelectorAll("table.sortable > thead th")) {
    heading.tabIndex = 0;
    heading.addEventListener("click", () => sort(heading));
    heading.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sort(heading);
    });
  }
  const make = (tag, settings) => Object.assign(document.createElement(tag), settings);
  for (const list of document.querySelectorAll("table.sortable > tbody, .claims")) {
    const rows = [...list.children], shown = (row) => (row.querySelector(":scope > summary") || row).textContent.toLowerCase();
    if (rows.length < 15) continue;
    const box = make("input", {type: "search", className: "filter", placeholder: "Filter rows", ariaLabel: "Filter rows"});
    const none = make("span", {className: "quiet", role: "status"});
    const value = (row, column) => row.cells[column].firstChild.textContent.trim();
    const choices = [...list.parentNode.querySelectorAll(":scope > thead th[data-choices]")].map(({cellIndex: column, textContent}) => {
      const select = make("select", {className: "filter", ariaLabel: textContent});
      const values = [...new Set(rows.map((row) => value(row, column)))].sort();
      select.append(new Option(`${textContent}: all`, ""), ...values.map((text) => new Option(text, text)));
      return {select, column};
    });
    const update = () => {
      const wanted = box.value.toLowerCase();
      const chosen = (row) => choices.every(({select, column}) => !select.value || value(row, column) === select.value);
      for (const row of rows) row.hidden = !(shown(row).includes(wanted) && chosen(row));
      const count = rows.filter((row) => !row.hidden).length;
      const text = [box.value, ...choices.map(({select}) => select.value)].filter(Boolean).join("” and “");
      none.textContent = count === rows.length ? "" : count ? ` ${count} of ${rows.length} rows` : ` No row matches “${text}”.`;
    };
    for (const one of [box, ...choices.map(({select}) => select)]) one.addEventListener("input", update);
    (list.closest(".scroll") || list).before(box, ...choices.map(({select}) => select), none);
  }
})();
