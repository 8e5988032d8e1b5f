"""Names in pictures: shortened, in fonts with their letters, and never parsed as formulas."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import takewhile

from matplotlib.font_manager import fontManager, get_font

FONT = "DejaVu Sans"
"""Part of matplotlib: Latin, Greek, Cyrillic and more, but no Chinese, Japanese or Korean."""

TITLE_LETTER_WIDTH = 0.115
"""Mean width of a letter in a title, in inches."""


def families(names: Iterable[str]) -> list[str]:
    """Font families that together have the letters of these names, as far as this machine has them."""
    return list(dict.fromkeys([FONT, *filter(None, map(family_of, sorted(set("".join(names)))))]))


@contextmanager
def letters_may_lack() -> Iterator[None]:
    """No warning about letters that no font has: :func:`label` adds a number, and SVG files keep the text."""
    with warnings.catch_warnings():
        missing = rf"Glyph \d+ \(.*\) missing from font\(s\) .*{FONT}"
        warnings.filterwarnings("ignore", missing, UserWarning, module=r"hetopt\.")
        yield


@cache
def family_of(letter: str) -> str | None:
    """:data:`FONT` or the first other font family of this machine that has the letter."""
    paths = {font.name: font.fname for font in fontManager.ttflist if font.style == "normal"}
    names = (name for name in (FONT, *sorted(paths)) if "Last Resort" not in name)  # a font of placeholders
    return next((name for name in names if ord(letter) in _codes(paths[name])), None)


@cache
def _codes(path: str) -> frozenset[int]:
    try:
        return frozenset(get_font(path).get_charmap())
    except (OSError, RuntimeError):  # removed meanwhile, or a colour font
        return frozenset()


def labels(names: Mapping[str, int], most: int = 24) -> list[str]:
    """Apply :func:`label` to each name with its number; common parts are removed if results would be equal."""
    shown = [label(name, number, most) for name, number in names.items()]
    if len(set(shown)) == len(shown):
        return shown
    head = _shared(names)
    tail = _shared(name[head:][::-1] for name in names)
    cores = (f"{'…' * (head > 0)}{name[head : len(name) - tail]}{'…' * (tail > 0)}" for name in names)
    return [label(core, number, most) for core, number in zip(cores, names.values(), strict=True)]


def _shared(names: Iterable[str]) -> int:
    """Length of the common prefix."""
    return len(list(takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))))


def label(name: str, number: int, most: int = 24) -> str:
    """``name``, cut in the middle to the width of ``most`` letters; with ``number`` if no font has all its letters.

    Both ends stay, since the last part distinguishes the job types of a tenant.
    """
    if not all(map(family_of, name)):
        name = f"{name} ({number})"
    return cut(name, most)


def heading(title: str, inches: float) -> str:
    """``title``, cut in the middle to that width in the font of titles."""
    return cut(title, int(inches / TITLE_LETTER_WIDTH))


def cut(name: str, most: int) -> str:
    """``name``, cut in the middle to the width of ``most`` letters."""
    shown, kept = name, len(name)
    while kept and text_width(shown) > most:
        kept -= 1
        shown = f"{name[: kept - kept // 2]}…{name[len(name) - kept // 2 :]}"
    return shown


def text_width(text: str) -> int:
    """Width in narrow letters; those of Chinese, Japanese and Korean are twice as wide."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)
