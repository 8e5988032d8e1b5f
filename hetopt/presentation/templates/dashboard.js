// Renews the sections of the dashboard, keeps places, focus and selection, and reports when the server does not answer.
(() => {
  "use strict";
  const EVERY = 3, problem = document.getElementById("problem"), beat = document.getElementById("beat");
  const live = document.getElementById("live");
  let busy = false, last = new Date();

  const report = (text) => {
    if (problem.textContent !== text) problem.textContent = text;
    problem.hidden = !text;
    live.classList.toggle("stale", Boolean(text));
    beat.textContent = text ? "" : `renewed every ${EVERY} s`;
  };

  const selected = () => {
    const selection = getSelection();
    return selection && !selection.isCollapsed && live.contains(selection.anchorNode);
  };

  const put = (text) => {
    const box = document.createElement("template");
    box.innerHTML = text;
    const top = (node) => node.getBoundingClientRect().top;
    const visible = [...live.children].find((node) => node.getBoundingClientRect().bottom > 0);
    const key = visible && window.scrollY > 0 ? visible.id : null, before = key ? top(visible) : 0;
    const focused = document.activeElement && document.activeElement.id;
    for (const fresh of [...box.content.children]) {
      const old = document.getElementById(fresh.id);
      if (!old || old.outerHTML === fresh.outerHTML) continue;
      const places = [...old.querySelectorAll(".scroll[id]")].map((node) => [node.id, node.scrollLeft, node.scrollTop]);
      const open = [...old.querySelectorAll("details")].map((node) => node.open);
      fresh.querySelectorAll("details").forEach((node, i) => { node.open = Boolean(open[i]); });
      old.replaceWith(fresh);
      for (const [id, left, down] of places) {
        const node = document.getElementById(id);
        if (node) { node.scrollLeft = left; node.scrollTop = down; }
      }
    }
    const again = focused && document.getElementById(focused);
    if (again && again !== document.activeElement) again.focus({preventScroll: true});
    const there = key && document.getElementById(key);
    if (there && top(there) !== before) window.scrollBy(0, top(there) - before);
    document.title = document.getElementById("head").dataset.title;
  };

  const renew = async () => {
    if (busy || document.hidden) return;
    busy = true;
    const time = () => last.toLocaleTimeString();
    try {
      const options = {cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(15000)};
      const answer = await fetch("fragment", options), text = await answer.text();
      if (answer.ok) {
        if (!selected()) put(text);
        last = new Date();
        report("");
      } else if (answer.status === 401) {
        report(`The server requires its token: open the page with ?token=... again. This is the state at ${time()}.`);
      } else {
        report(`The server cannot read the state: ${text} This is the state at ${time()}.`);
      }
    } catch (error) {
      report(`The server has not answered since ${time()}; this is the state at that time.`);
    } finally {
      busy = false;
    }
  };

  report("");
  setInterval(renew, 1000 * EVERY);
  document.addEventListener("visibilitychange", renew);
})();
