"""Draw findings: shares as bars of GPU types, schedules as bars over time, growth as a curve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache

from hetopt.checks import counted
from hetopt.data.rationals import number_text
from hetopt.presentation.fonts import text_width
from hetopt.presentation.gantt import LETTER, GanttBar, GanttRow, draw_bars, gantt_figure
from hetopt.presentation.pictures import PANEL, Picture, panel, picture
from hetopt.presentation.style import SeriesStyle, canvas, series_styles
from hetopt.presentation.tables import Key
from hetopt.proofs.ledger.claim import ClaimEvidence, GrowthCurve
from hetopt.proofs.ledger.finding_pictures import FindingPicture, SharesPicture, Timeline

LINE, MARGIN = 0.25, 0.05
"""Height of a row, and least margin below and above all rows, in inches."""


def drawings(evidence: ClaimEvidence) -> list[Picture]:
    """All pictures of the evidence."""
    found, curve = evidence.counterexample, evidence.curve
    pictures = evidence.pictures if found is None else found.finding.pictures
    return [*map(draw_finding, pictures), *([] if curve is None else [draw_growth(curve)])]


@cache
def draw_finding(what: FindingPicture) -> Picture:
    """Draw shares or a schedule; equal ones are drawn once."""
    return _shares(what) if isinstance(what, SharesPicture) else _schedule(what)


def _shares(what: SharesPicture) -> Picture:
    """A bar for each GPU type, divided among the owners."""
    rows = [f"{number_text(m)} {name}" for name, m in zip(what.types, what.capacity, strict=True)]
    owners = [*series_styles(what.names).items(), ("idle", None)]
    bars = []
    for j, (row, m) in enumerate(zip(rows, what.capacity, strict=True)):
        amounts = [own[j] for own in what.gpus]
        amounts.append(max(m - sum(amounts), Fraction(0)))
        at, whole = Fraction(0), sum(amounts)
        for (owner, style), amount in zip(owners, amounts, strict=True):
            if amount:
                begin, at, text = at, at + amount / whole, number_text(amount)
                bars.append(GanttBar(j, 0, 1, float(begin), float(at), style, text, f"{owner}: {text} of {row}"))
    worth = [f": {number_text(value)}" for value in what.worth] or [""] * len(what.names)
    labels = [f"{name}{text}" for name, text in zip(what.names, worth, strict=True)]
    keys = [style.key(text) for text, style in series_styles(labels).items()]
    if any(bar.style is None for bar in bars):
        keys.append(Key("idle", "rest"))
    return _drawn(what.title, rows, bars, keys, f"{what.title}: {', '.join(labels)}")


def _schedule(what: Timeline) -> Picture:
    """A row for each GPU, server or type, with a bar for each job."""
    rows, jobs = list(dict.fromkeys(b.row for b in what.bars)), series_styles(dict.fromkeys(b.job for b in what.bars))
    bars = [
        GanttBar(rows.index(b.row), 0, 1, float(b.start), float(b.end), jobs[b.job], b.job,
                 f"{b.job} on {b.row}, {number_text(b.start)} to {number_text(b.end)} {what.unit}")
        for b in what.bars
    ]  # fmt: skip
    keys = [style.key(job) for job, style in jobs.items()] if len(jobs) > 1 else []
    alternative = f"{what.title}: {counted(len(jobs), 'job')} on {counted(len(rows), 'row')}"
    times = {time for b in what.bars for time in (b.start, b.end)}
    return _drawn(what.title, rows or ["nothing runs"], bars, keys, alternative, times, f"time ({what.unit})")


def _drawn(
    title: str,
    rows: Sequence[str],
    bars: Sequence[GanttBar],
    keys: Sequence[Key],
    alternative: str,
    times: Iterable[Fraction] = (),
    unit: str = "",
) -> Picture:
    """Bars in rows, with these exact times on the axis as far as there is room."""
    own, tips = [GanttRow(row) for row in rows], list[str]()
    with canvas((title, *rows, *(key.label for key in keys))):
        figure, axes = gantt_figure(own, LINE, PANEL, MARGIN, 0.42 if unit else MARGIN)
        end = max((bar.end for bar in bars), default=1.0)
        draw_bars(axes, own, bars, (0.0, end), tips, whole=True)
        letter = LETTER * end / (PANEL * axes.get_position().width)
        ticks, left = dict[float, str](), 2 * end
        for time in sorted({Fraction(0), *times} if unit else (), reverse=True):
            text = number_text(time)
            half = letter * text_width(text) / 2
            if float(time) + half < left - letter:
                ticks[float(time)], left = text, float(time) - half
        axes.set_xticks(list(ticks), list(ticks.values()))
        axes.set_xlabel(unit)
        return picture(figure, alternative, title, keys, tips)


def draw_growth(what: GrowthCurve) -> Picture:
    """Draw the quantity over the size, both from 0; dots mark measured values."""
    with canvas((what.quantity, what.size)):
        figure, axes = panel(2.0)
        axes.plot(list(what.points), list(map(float, what.points.values())), **SeriesStyle(0).line())
        for i, (size, value) in enumerate(what.points.items()):
            axes.plot(size, float(value), "o", color=SeriesStyle(0).colour, gid=f"tip{i}")
        axes.set_xlim(0, 1.03 * max(what.points))
        axes.set_ylim(0, 1.05 * max(1.0, *map(float, what.points.values())))
        axes.set_xlabel(what.size)
        axes.locator_params(axis="x", integer=True)
        axes.grid()
        tips = [f"{size}: {number_text(value)}" for size, value in what.points.items()]
        return picture(figure, f"{what.quantity} over {what.size}: {what.formula}", what.quantity, tips=tips)
