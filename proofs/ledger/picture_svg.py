"""Draw findings as SVG: shares as bars, schedules as timelines, growth as a curve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from html import escape

from hetopt.data.rationals import number_text
from hetopt.presentation.allocation_pictures import COLOURS
from hetopt.proofs.ledger.claim import GrowthCurve
from hetopt.proofs.ledger.finding_pictures import Picture, SharesPicture, Timeline

WIDTH = 260
"""Pixels of a bar for all GPUs or the whole time."""
LEFT, HIGH, GAP = 64, 22, 8
LETTER = 7
"""Approximate width of a letter in pixels."""


def picture_svg(picture: Picture) -> str:
    """Draw a picture with its title as SVG."""
    return _shares(picture) if isinstance(picture, SharesPicture) else _timeline(picture)


def _svg(width: float, height: float, body: Sequence[str], label: str) -> str:
    return (
        f"<svg role='img' aria-label='{escape(label, quote=True)}' width='{width:g}' height='{height:g}' "
        f"viewBox='0 0 {width:g} {height:g}' xmlns='http://www.w3.org/2000/svg'>{''.join(body)}</svg>"
    )


def _text(x: float, y: float, text: str, extra: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' font-size='12' {extra}>{escape(text)}</text>"


def _bar(x: float, y: float, width: float, colour: str, text: str, tip: str) -> str:
    shown = text if len(text) * LETTER < width else ""
    return (
        f"<g><title>{escape(tip)}</title><rect x='{x:.1f}' y='{y:.1f}' width='{max(width, 1):.1f}' height='{HIGH}' "
        f"fill='{colour}' stroke='white'/>"
        + _text(x + width / 2, y + HIGH - 7, shown, "text-anchor='middle' fill='white'")
        + "</g>"
    )


def _label_width(labels: Iterable[str]) -> int:
    """Pixels to the left of the bars."""
    return max([LEFT, *(len(label) * LETTER + GAP for label in labels)])


def _with_unit(time: Fraction, unit: str) -> str:
    """Format a time with its unit."""
    return f"{number_text(time)} {unit[:-1] if time == 1 and len(unit) > 1 else unit}"


def _shares(picture: SharesPicture) -> str:
    """Draw a bar for each GPU type, divided among the owners; idle GPUs are grey."""
    body, y = [_text(0, 14, picture.title, "font-weight='600'")], 24
    labels = [f"{number_text(m)} {name}" for name, m in zip(picture.types, picture.capacity, strict=True)]
    left = _label_width(labels)
    for j, (label, m) in enumerate(zip(labels, picture.capacity, strict=True)):
        body.append(_text(0, y + HIGH - 7, label))
        body.append(f"<rect x='{left}' y='{y}' width='{WIDTH}' height='{HIGH}' fill='#dddddd'/>")
        x = float(left)
        for e, owner in enumerate(picture.names):
            amount = picture.gpus[e][j]
            if amount:
                width = float(amount / m) * WIDTH if m else 0.0
                tip = f"{owner}: {number_text(amount)} of {label}"
                body.append(_bar(x, y, width, COLOURS[e % len(COLOURS)], number_text(amount), tip))
                x += width
        y += HIGH + GAP
    x, right = 0.0, left + WIDTH
    legend = list(picture.names)
    if picture.worth:
        legend = [f"{owner}: {number_text(worth)}" for owner, worth in zip(legend, picture.worth, strict=True)]
    for e, text in enumerate(legend):
        if x and x + 16 + len(text) * LETTER > right:
            x, y = 0.0, y + 18
        body.append(f"<rect x='{x:.1f}' y='{y + 2}' width='11' height='11' fill='{COLOURS[e % len(COLOURS)]}'/>")
        body.append(_text(x + 15, y + 12, text))
        x += 15 + len(text) * LETTER + 14
    return _svg(left + WIDTH + 4, y + 20, body, f"{picture.title}: {', '.join(legend)}")


def _timeline(picture: Timeline) -> str:
    """Draw a row for each GPU, server or type, with a bar for each job."""
    rows, jobs = list(dict.fromkeys(b.row for b in picture.bars)), list(dict.fromkeys(b.job for b in picture.bars))
    end = max((b.end for b in picture.bars), default=Fraction(1)) or Fraction(1)
    body, y = [_text(0, 14, picture.title, "font-weight='600'")], 24
    left = _label_width(rows)
    if not rows:
        body.append(_text(left, y + 8, "nothing runs"))
        y += HIGH
    for row in rows:
        body.append(_text(0, y + HIGH - 7, row))
        for bar in picture.bars:
            if bar.row == row:
                width = float((bar.end - bar.start) / end) * WIDTH
                tip = f"{bar.job} on {row}, {number_text(bar.start)} to {_with_unit(bar.end, picture.unit)}"
                colour = COLOURS[jobs.index(bar.job) % len(COLOURS)]
                body.append(_bar(left + float(bar.start / end) * WIDTH, y, width, colour, bar.job, tip))
        y += HIGH + GAP
    body.append(_text(left, y + 8, "0"))
    body.append(_text(left + WIDTH, y + 8, _with_unit(end, picture.unit), "text-anchor='end'"))
    return _svg(left + WIDTH + 4, y + 16, body, f"{picture.title}: {len(jobs)} jobs on {len(rows)} rows")


def curve_svg(what: GrowthCurve) -> str:
    """Draw the quantity over the size, both from 0; dots mark measured values."""
    sizes, values = list(what.points), [float(v) for v in what.points.values()]
    right, top, high = max(sizes), max([*values, 1.0]), 150
    places = [
        (LEFT + size / right * WIDTH, 20 + high - value / top * high) for size, value in zip(sizes, values, strict=True)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = [
        f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='{COLOURS[0]}'><title>{size}: "
        f"{number_text(value)}</title></circle>"
        for (x, y), (size, value) in zip(places, what.points.items(), strict=True)
    ]
    body = [
        f"<path d='M{LEFT} 20 V{20 + high} H{LEFT + WIDTH}' fill='none' stroke='#555'/>",
        f"<polyline points='{line}' fill='none' stroke='{COLOURS[0]}' stroke-width='2'/>",
        *dots,
        _text(0, 26, f"{top:.4g}"),
        _text(0, 20 + high, "0"),
        _text(LEFT + WIDTH, 36 + high, f"{what.size} = {right}", "text-anchor='end'"),
        _text(LEFT, 12, what.quantity, "font-weight='600'"),
    ]
    width = LEFT + max(WIDTH, LETTER * len(what.quantity)) + 8
    return _svg(width, high + 44, body, f"{what.quantity} over {what.size}: {what.formula}")
