"""The page and the tables of a comparison of policies on one instance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hetopt.data.saving import check_folder, save
from hetopt.experiments.comparison import Comparison, by_tenant, ranked, recommend, violations
from hetopt.presentation.allocation_pictures import ENVY_KEYS, result_pictures, save_figure
from hetopt.presentation.formatting import slug
from hetopt.presentation.pages import render
from hetopt.presentation.pictures import Picture, picture
from hetopt.presentation.style import series_styles
from hetopt.presentation.trade_off_picture import drawn, trade_off
from hetopt.presentation.views import comparison_view, reason_of, view
from hetopt.results.allocation import Plan


def _policy(comparison: Comparison, name: str) -> dict[str, Any]:
    result, row = comparison.results[name], dict(comparison.table.T[name])
    judged = Plan(*by_tenant(comparison.instance, result))  # envy as in the table
    return {
        "name": name,
        "link": slug(name),
        "total": row["total"],
        "violations": violations(row),
        "pictures": result_pictures(result, name, judged),
        "placed": view(comparison.rounds[name]) if name in comparison.rounds else [],
    }


def page(comparison: Comparison, title: str, versions: Mapping[str, str]) -> str:
    """The whole page as text."""
    found, order = recommend(comparison), ranked(comparison)
    return render(
        "comparison.html.j2",
        title=title,
        versions=versions,
        instance=comparison.instance,
        reason=reason_of(found) if found else "",
        overview=overview(comparison),
        tables=comparison_view(comparison, {name: f"#{slug(name)}" for name in order}),
        type_keys=[own.key(name) for name, own in series_styles(comparison.instance.cluster.capacity).items()],
        envy_keys=ENVY_KEYS,
        policies=[_policy(comparison, name) for name in order],
    )


def overview(comparison: Comparison) -> Picture:
    """Policies on the plane of fairness and throughput; the text says how many, if some are not there."""
    shown, every = len(drawn(comparison)), len(comparison.results) + len(comparison.refused)
    some = f"{shown} of {every} policies; below the tables is why others have no result." if shown < every else ""
    narrow = trade_off(comparison, narrow=True)
    return picture(trade_off(comparison), "Total throughput against fairness", some, narrow=narrow)


def write(comparison: Comparison, folder: str | Path, title: str, versions: Mapping[str, str]) -> Path:
    """Write ``report.html``, ``trade-off.svg``, ``comparison.csv`` and ``placement.csv``; return the page's path.

    Raises
    ------
    UnusableFile
        The folder cannot be made or written.
    """
    target = Path(folder)
    check_folder(target)
    path = target / "report.html"
    save(page(comparison, title, versions), path, overwrite=True)
    save_figure(trade_off(comparison), target / "trade-off.svg")
    save(comparison.table.to_csv(), target / "comparison.csv", overwrite=True)
    if not comparison.placed.empty:
        save(comparison.placed.to_csv(), target / "placement.csv", overwrite=True)
    return path
