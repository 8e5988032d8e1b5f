"""The page's script: it fetches what has changed, keeps everybody's place, and says when nobody answers."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

from hetopt.executor.dashboard.style import STYLE

EVERY = 3
"""Seconds between two looks."""

SCRIPT = """
(() => {
  "use strict";
  const EVERY = %d, said = document.getElementById("said"), beat = document.getElementById("beat");
  let asking = false, last = new Date();

  const tell = (text) => {
    if (said.textContent !== text) said.textContent = text;
    said.hidden = !text;
    document.body.classList.toggle("stale", Boolean(text));
    beat.textContent = text ? "" : "renewed every " + EVERY + " s";
  };

  const selecting = () => {
    const chosen = getSelection();
    return chosen && !chosen.isCollapsed && document.getElementById("live").contains(chosen.anchorNode);
  };

  const put = (text) => {
    const box = document.createElement("template");
    box.innerHTML = text;
    const top = (node) => node.getBoundingClientRect().top;
    const below = (node) => node.getBoundingClientRect().bottom > 0;
    const seen = [...document.querySelectorAll("#live > section")].find(below);
    const key = seen && window.scrollY > 0 ? seen.id : null, before = key ? top(seen) : 0;
    const focused = document.activeElement && document.activeElement.id;
    for (const fresh of [...box.content.children]) {
      const old = document.getElementById(fresh.id);
      if (!old || old.outerHTML === fresh.outerHTML) continue;
      const places = [...old.querySelectorAll(".scroll[id]")].map((node) => [node.id, node.scrollLeft, node.scrollTop]);
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
    const title = document.getElementById("head");
    if (title && title.dataset.title) document.title = title.dataset.title;
  };

  const look = async () => {
    if (asking || document.hidden) return;
    asking = true;
    const stop = new AbortController(), timer = setTimeout(() => stop.abort(), 15000);
    try {
      const answer = await fetch("fragment", {cache: "no-store", credentials: "same-origin", signal: stop.signal});
      const text = await answer.text();
      if (answer.ok) {
        if (!selecting()) put(text);
        last = new Date();
        tell("");
      } else if (answer.status === 401) {
        tell("The server asks for its token: open the page with ?token=... once more. Shown is what was at "
          + last.toLocaleTimeString() + ".");
      } else {
        tell("The server answers, but cannot read the state: " + text + " Shown is what was at "
          + last.toLocaleTimeString() + ".");
      }
    } catch (problem) {
      tell("The server has not answered since " + last.toLocaleTimeString() + "; shown is what was then.");
    } finally {
      clearTimeout(timer);
      asking = false;
    }
  };

  tell("");
  setInterval(look, 1000 * EVERY);
  document.addEventListener("visibilitychange", look);
})();
""".replace("%d", str(EVERY))


def _allowed(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


POLICY = (
    f"default-src 'none'; style-src {_allowed(STYLE)}; script-src {_allowed(SCRIPT)}; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What browsers may load and run: this style, this script, and nothing from elsewhere."""

FILE_POLICY = f"default-src 'none'; style-src {_allowed(STYLE)}; img-src data:; base-uri 'none'; form-action 'none'"
"""The same for a page in a file, which has no script."""
