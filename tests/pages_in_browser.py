"""Pages in headless Chromium: what is measured at each width and colour scheme. Skipped where Chromium is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from left_processes import PARENTS, children

WIDTHS = (1400, 768, 390)
LEAST_LETTERS = 8.0
"""Least height of letters of pictures, in CSS pixels."""
LEAST_CONTRAST = 3.0
"""Least contrast of text by WCAG 2 (large text)."""
SCROLLS = ".scroll, pre, p:has(math), div.math"
"""Elements that may scroll sideways."""

MEASURE = (
    """() => {
  const rgb = (text) => {
    const parts = (text.match(/[\\d.]+/g) || []).map(Number);
    return parts.length < 3 || parts[3] === 0 ? null : parts.slice(0, 3);
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.map((x) => x / 255).map((x) => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (light + 0.05) / (dark + 0.05);
  };
  const ground = (node, x, y) => {  // what is painted below the text at this point
    for (const other of document.elementsFromPoint(x, y)) {
      if (other === node || node.contains(other) || other.tagName === "text") continue;
      const style = getComputedStyle(other);
      const inSvg = other instanceof SVGElement && other.tagName !== "svg";
      if (inSvg && Number(style.fillOpacity) < 0.5) continue;
      const colour = inSvg ? (style.fill === "none" ? null : rgb(style.fill)) : rgb(style.backgroundColor);
      if (colour) return colour;
    }
    return rgb(getComputedStyle(document.body).backgroundColor) || [255, 255, 255];  // that of the canvas
  };
  const faint = [], small = [], outside = [];
  for (const box of document.querySelectorAll("details")) box.open = true;
  const texts = [...document.querySelectorAll("svg text, th, td, p, li, h1, h2, h3, dt, dd, figcaption, summary")];
  for (const node of texts) {
    if (!node.textContent.trim() || !node.getClientRects().length) continue;
    node.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
    const box = node.getBoundingClientRect(), style = getComputedStyle(node);
    const svg = node.tagName === "text";
    const colour = rgb(svg ? style.fill : style.color);
    const value = contrast(colour, ground(node, box.x + Math.min(box.width / 2, 3), box.y + box.height / 2));
    if (value < %CONTRAST%) faint.push([node.textContent.trim().slice(0, 40), value]);
    if (svg) {
      const letters = parseFloat(style.fontSize) * Math.abs(node.getScreenCTM().a || node.getScreenCTM().b);
      if (letters < %LETTERS%) small.push([node.textContent.trim().slice(0, 40), letters]);
    }
  }
  window.scrollTo(0, 0);
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) {
    for (const node of document.querySelectorAll("body *")) {
      if (node.closest(".scroll") === null && node.getBoundingClientRect().right > innerWidth + 1)
        outside.push(node.tagName + "." + node.className);
    }
  }
  const sideways = [...document.querySelectorAll("body *")].filter((node) =>
    ["auto", "scroll"].includes(getComputedStyle(node).overflowX) && node.scrollWidth > node.clientWidth + 1
    && !node.matches("%SCROLLS%")).map((node) => node.tagName + "." + node.className);
  return {wide, inner: innerWidth, faint, small, outside: outside.slice(0, 5), sideways,
          viewport: Boolean(document.querySelector("meta[name=viewport]"))};
}""".replace("%CONTRAST%", str(LEAST_CONTRAST))
    .replace("%LETTERS%", str(LEAST_LETTERS))
    .replace("%SCROLLS%", SCROLLS)
)


@dataclass(frozen=True)
class Measured:
    """What is wrong with a page at a width in a colour scheme; empty if nothing is."""

    width: int
    scheme: str
    problems: tuple[str, ...]


@contextmanager
def chromium() -> Iterator[Any]:
    """A headless Chromium; the test is skipped where there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("Chromium is not installed")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    before = set(children())
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        own = set(children()) - before
        PARENTS.update(own)  # Chromium starts helpers again when they have ended
        try:
            yield browser
        finally:
            PARENTS.difference_update(own)
            browser.close()


@contextmanager
def opened(
    browser: Any, page: Path | str, width: int, scheme: str, *, scripts: bool = True, beside: bool = False
) -> Iterator[Any]:
    """A page at a width, as on a phone for the least one; requests to elsewhere fail the test.

    Parameters
    ----------
    beside:
        Whether the page may load files of its folder, as those of the docs do.
    """
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        is_mobile=width == min(WIDTHS),
        java_script_enabled=scripts,
    )
    elsewhere: list[str] = []
    try:
        tab = context.new_page()
        url = page if isinstance(page, str) else page.resolve().as_uri()
        own = (url.rpartition("/")[0] if beside else url, "data:")
        tab.on("request", lambda r: elsewhere.append(r.url) if not r.url.startswith(own) else None)
        tab.goto(url)
        yield tab
        assert not elsewhere, f"{page} loads {elsewhere}"
    finally:
        context.close()


def problems_of(browser: Any, page: Path | str, *, beside: bool = False) -> list[Measured]:
    """What is wrong with a page at all widths, and on a dark ground at one; ``beside`` as for :func:`opened`."""
    found = []
    for width, scheme in (*((width, "light") for width in WIDTHS), (min(WIDTHS), "dark")):
        with opened(browser, page, width, scheme, beside=beside) as tab:
            seen = tab.evaluate(MEASURE)
        wrong = []
        if not seen["viewport"]:
            wrong.append("no viewport meta")
        if seen["inner"] != width or seen["wide"] > width:
            wrong.append(f"{seen['wide']} px wide: {seen['outside']}")
        wrong += [f"{name} scrolls sideways" for name in seen["sideways"]]
        wrong += [f"contrast {value:.1f} of {text!r}" for text, value in seen["faint"]]
        wrong += [f"letters of {high:.1f} px: {text!r}" for text, high in seen["small"]]
        if wrong:
            found.append(Measured(width, scheme, tuple(wrong)))
    return found
