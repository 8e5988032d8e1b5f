// Sorts a table by a click on a heading and filters long tables; opens the folded part that a link leads to. Pages are complete without it.
(() => {
  "use strict";
  const key = (row, column) => {
    const cell = row.cells[column];
    const value = cell.dataset.value;
    return value === undefined ? cell.textContent.trim() : Number(value.replace("inf", "Infinity"));
  };
  const compare = (a, b) => {
    const numbers = typeof a === "number" && typeof b === "number";
    if (numbers) return a - b;
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;  // rows without a number come last
    return a.localeCompare(b, undefined, {numeric: true});
  };
  const sort = (table, column, heading) => {
    const down = heading.ariaSort === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.ariaSort = down ? "descending" : "ascending";
    const body = table.tBodies[0], rows = [...body.rows];
    rows.sort((a, b) => {
      const [x, y] = [key(a, column), key(b, column)];
      return typeof x === typeof y && down ? compare(y, x) : compare(x, y);
    });
    body.append(...rows);
  };
  const unfold = () => {  // a link to a folded part, or into one, opens it
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let box = target?.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  };
  window.addEventListener("hashchange", unfold);
  unfold();
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      heading.tabIndex = 0;
      heading.addEventListener("click", () => sort(table, column, heading));
      heading.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        sort(table, column, heading);
      });
    });
    if (table.tBodies[0].rows.length < 15) continue;
    const box = document.createElement("input");
    box.type = "search";
    box.className = "filter";
    box.placeholder = box.ariaLabel = "Filter rows";
    const none = document.createElement("span");
    none.className = "quiet";
    none.role = "status";
    box.addEventListener("input", () => {
      const wanted = box.value.toLowerCase(), rows = [...table.tBodies[0].rows];
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
      none.textContent = rows.every((row) => row.hidden) ? ` No row matches “${box.value}”.` : "";
    });
    table.closest(".scroll").before(box, none);
  }
})();
