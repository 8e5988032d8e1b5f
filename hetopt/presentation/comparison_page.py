"""The page and the tables of a comparison of policies on one instance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from hetopt.checks import counted
from hetopt.data.instance import Instance
from hetopt.data.saving import check_folder, save
from hetopt.experiments.comparison import (
    COLUMNS,
    PLACED,
    Comparison,
    by_reason,
    by_tenant,
    ranked,
    recommend,
    violations,
)
from hetopt.presentation.allocation_pictures import ENVY_KEYS, result_pictures, save_figure, type_keys
from hetopt.presentation.formatting import format_number
from hetopt.presentation.pages import render, slug
from hetopt.presentation.pictures import Picture, picture
from hetopt.presentation.result_tables import comparison_table, placement_table, reason_of
from hetopt.presentation.tables import with_marked
from hetopt.presentation.trade_off_picture import trade_off
from hetopt.results.allocation import Plan


def setting_of(instance: Instance) -> str:
    """The size of an instance in a phrase."""
    capacity = ", ".join(f"{n} {gpu_type}" for gpu_type, n in instance.cluster.capacity.items())
    parts = [f"{counted(len(instance.cluster.servers), 'server')} with {capacity}"]
    if instance.tenants:
        parts.append(counted(len(instance.tenants), "tenant"))
    if instance.jobs:
        parts.append(f"{counted(len(instance.jobs), 'job')}, at {instance.time:.15g} s")
    return "; ".join(parts)


def _policy(comparison: Comparison, name: str, recommended: bool) -> dict[str, Any]:
    result, row = comparison.results[name], dict(comparison.table.T[name])
    broken = violations(row)
    fair = "fair in all three ways" if not broken else f"fails on {', '.join(broken)}"
    judged = Plan(*by_tenant(comparison.instance, result))  # envy as in the table
    return {
        "name": name,
        "link": slug(name),
        "recommended": recommended,
        "summary": f"total {format_number(row['total'])}, {fair}",
        "pictures": result_pictures(result, name, judged),
        "jobs": placement_table(comparison.rounds[name]) if name in comparison.rounds else None,
    }


def page(comparison: Comparison, title: str, versions: Mapping[str, str]) -> str:
    """The whole page as text."""
    found, order = recommend(comparison), ranked(comparison)
    best = found.policy if found else None
    links = {name: f"#{slug(name)}" for name in order}
    results = comparison_table(comparison.table.loc[order], COLUMNS, links=links)
    placed = comparison.placed.loc[[name for name in order if name in comparison.placed.index]]
    types = tuple(comparison.instance.cluster.capacity)
    return render(
        "comparison.html.j2",
        title=title,
        versions=versions,
        setting=setting_of(comparison.instance),
        answer=found and {"policy": best, "link": slug(found.policy), "reason": reason_of(found)},
        overview=overview(comparison),
        results=with_marked(results, [order.index(best)] if best else []),
        refused=by_reason(comparison.refused),
        unmeasured=by_reason(comparison.unmeasured),
        placed=None if placed.empty else comparison_table(placed, PLACED, links=links),
        unplaced=by_reason(comparison.unplaced),
        types=types,
        type_keys=type_keys(types),
        envy_keys=ENVY_KEYS,
        policies=[_policy(comparison, name, name == best) for name in order],
        source=comparison.instance.source,
    )


def trade_off_of(comparison: Comparison) -> Figure:
    """All policies on the plane of fairness and throughput."""
    found = recommend(comparison)
    return trade_off(comparison.table, found.policy if found else None)


def overview(comparison: Comparison) -> Picture:
    """The same on a page."""
    return picture(trade_off_of(comparison), "Total throughput against fairness of every policy")


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
    save_figure(trade_off_of(comparison), target / "trade-off.svg")
    save(comparison.table.to_csv(), target / "comparison.csv", overwrite=True)
    if not comparison.placed.empty:
        save(comparison.placed.to_csv(), target / "placement.csv", overwrite=True)
    return path
