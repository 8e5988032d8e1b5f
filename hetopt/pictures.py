"""Pictures of a result: shares, envy, prices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from hetopt.allocation import Allocation, Plan
from hetopt.data.entities import Entities, Floats
from hetopt.errors import InvalidOption

if TYPE_CHECKING:
    import pandas as pd

FORMATS = (".png", ".svg", ".pdf")
COLOURS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#BBBBBB", "#332288", "#999933", "#882255")
"""Paul Tol's bright scheme, extended: told apart by colour-blind readers and in print."""


def _gpus(result: Allocation | Plan) -> Floats:
    return result.entities.gpus(result.x) if isinstance(result, Allocation) else result.x


def _short(names: tuple[str, ...], most: int = 40) -> list[int]:
    """Positions of at most ``most`` names, evenly spread: more bars than that cannot be read."""
    return [int(i) for i in np.unique(np.linspace(0, len(names) - 1, min(len(names), most)).round())]


def draw_shares(axes: Axes, result: Allocation | Plan) -> None:
    """GPUs of each tenant or job, stacked by GPU type."""
    entities, gpus = result.entities, _gpus(result)
    shown = _short(entities.names)
    left = np.zeros(len(shown))
    places = np.arange(len(shown))
    for k, kind in enumerate(entities.types):
        width = gpus[shown, k]
        axes.barh(
            places, width, left=left, color=COLOURS[k % len(COLOURS)], label=kind, edgecolor="white", linewidth=0.5
        )
        left = left + width
    axes.set_yticks(places, [entities.names[i] for i in shown])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("GPUs")
    axes.set_title(
        "GPUs by type" if len(shown) == len(entities.names) else f"GPUs by type ({len(shown)} of {len(entities.names)})"
    )
    axes.legend(title="GPU type", frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes.spines[["top", "right"]].set_visible(False)


def envy_ratio(entities: Entities, gpus: Floats) -> Floats:
    """(n, n) rate of the row's entity with the column's GPUs (per weight), relative to its own rate; 1 on the diagonal.

    Above 1 the row's entity envies the column's. An entity that has nothing and would like something gets infinity.
    """
    other = entities.per_gpu @ gpus.T / entities.weight[None, :]
    own = np.diag(other)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(own > 0, other / own, np.where(other > 0, np.inf, 1.0))
    return np.asarray(ratio)


def draw_envy(axes: Axes, result: Allocation | Plan) -> None:
    """What each would gain with another's GPUs: white is indifferent, red is envy."""
    entities = result.entities
    shown = _short(entities.names)
    ratio = envy_ratio(entities, _gpus(result))[np.ix_(shown, shown)]
    top = max(1.05, float(np.max(ratio[np.isfinite(ratio)], initial=1.05)))
    drawn = np.minimum(ratio, top)
    norm = TwoSlopeNorm(1.0, min(0.0, float(drawn.min()) - 0.01), top)
    image = axes.imshow(drawn, cmap="RdBu_r", norm=norm)
    names = [entities.names[i] for i in shown]
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    if len(names) <= 8:
        for (i, j), value in np.ndenumerate(ratio):
            dark = abs(float(norm(float(drawn[i, j]))) - 0.5) > 0.35
            shown_value = f"{value:.2f}" if np.isfinite(value) else "∞"
            axes.text(j, i, shown_value, ha="center", va="center", fontsize=8, color="white" if dark else "black")
    axes.set_xlabel("with the GPUs of")
    axes.set_ylabel("rate of")
    axes.set_title("Envy: rate with another's GPUs / own rate")
    axes.figure.colorbar(image, ax=axes, shrink=0.8)


def draw_prices(axes: Axes, result: Allocation | Plan) -> bool:
    """Shadow prices of the GPU types; False (and nothing drawn) where the result has none."""
    prices = _prices(result)
    if prices is None:
        return False
    colours = [COLOURS[k % len(COLOURS)] for k in range(len(prices))]
    axes.bar(range(len(prices)), prices.to_numpy(), color=colours)
    axes.set_xticks(range(len(prices)), list(prices.index))
    axes.set_ylabel("objective per GPU more")
    axes.set_title("Prices of the GPU types")
    axes.spines[["top", "right"]].set_visible(False)
    return True


def _prices(result: Allocation | Plan) -> pd.Series[float] | None:
    if result.certificate is None or result.certificate.prices.empty:
        return None
    return result.certificate.prices


def draw(result: Allocation | Plan, title: str = "") -> Figure:
    """One figure with shares, envy and (where the result has them) prices."""
    has_prices = _prices(result) is not None
    rows = min(len(result.entities.names), 40)
    panels = 3 if has_prices else 2
    figure = Figure(figsize=(6 * panels, max(3.6, 1.6 + 0.28 * rows)), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    draw_shares(axes[0], result)
    draw_envy(axes[1], result)
    if has_prices:
        draw_prices(axes[2], result)
    if title:
        figure.suptitle(title)
    return figure


def save(result: Allocation | Plan, path: str | Path, title: str = "") -> Path:
    """Draw ``result`` and write it to ``path``.

    Raises
    ------
    InvalidOption
        The ending of ``path`` is not .png, .svg or .pdf, or its folder does not exist.
    """
    target = Path(path)
    check_picture_path(target)
    draw(result, title).savefig(target, dpi=120)
    return target


def check_picture_path(target: Path) -> None:
    """Refuse a path that :func:`save` could not write, before any work is done."""
    if target.suffix.lower() not in FORMATS:
        raise InvalidOption(f"{target} ends in {target.suffix!r}; a picture must end in one of {', '.join(FORMATS)}")
    if not target.parent.is_dir():
        raise InvalidOption(f"the folder {target.parent} of {target.name} does not exist")
