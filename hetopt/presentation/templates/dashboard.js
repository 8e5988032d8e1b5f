// Renews the sections of the dashboard, and reports when the server does not answer.
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

  // Changes a node in place, so that places, focus and open details stay.
  const sync = (old, fresh) => {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeName !== fresh.nodeName || !old.firstChild) return old.replaceWith(fresh);
    for (const {name, value} of [...fresh.attributes]) old.setAttribute(name, value);
    for (const {name} of [...old.attributes]) if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
    const nodes = [...old.childNodes], count = fresh.childNodes.length;
    [...fresh.childNodes].forEach((node, i) => nodes[i] ? sync(nodes[i], node) : old.append(node));
    nodes.slice(count).forEach((node) => node.remove());
  };

  const put = (text) => {
    const selection = getSelection();
    if (!selection.isCollapsed && live.contains(selection.anchorNode)) return;
    const fresh = live.cloneNode();
    fresh.innerHTML = text;
    const top = (node) => node.getBoundingClientRect().top;
    const visible = [...live.children].find((node) => node.getBoundingClientRect().bottom > 0), before = top(visible);
    sync(live, fresh);
    if (window.scrollY > 0) window.scrollBy(0, top(visible) - before);
    document.title = document.getElementById("head").dataset.title;
  };

  const renew = async () => {
    if (busy || document.hidden) return;
    busy = true;
    let wrong = "";
    try {
      const options = {cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(15000)};
      const answer = await fetch("fragment", options), text = await answer.text();
      if (answer.ok) {
        put(text);
        last = new Date();
      } else {
        const token = "The server requires its token: open the page with ?token=... again.";
        wrong = answer.status === 401 ? token : `The server cannot read the state: ${text}`;
      }
    } catch (error) {
      wrong = "The server does not answer.";
    }
    report(wrong && `${wrong} This is the state at ${last.toLocaleTimeString()}.`);
    busy = false;
  };

  report("");
  setInterval(renew, 1000 * EVERY);
  document.addEventListener("visibilitychange", renew);
})();
