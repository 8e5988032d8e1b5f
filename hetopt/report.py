"""An HTML page of a comparison: table, pictures, what each column means. One file, nothing is loaded from elsewhere."""

from __future__ import annotations

import io
from collections.abc import Mapping
from html import escape
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from hetopt.allocation import Plan
from hetopt.comparison import COLUMNS, Comparison, by_tenant, is_bad
from hetopt.data.instance import Instance
from hetopt.lettering import lettering
from hetopt.overview import overview
from hetopt.pictures import draw

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1a1a1a; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { padding: .3rem .8rem; text-align: right; }
th { border-bottom: 2px solid #4477aa; } td { border-bottom: 1px solid #ddd; }
td:first-child, th:first-child { text-align: left; }
td.bad { color: #b3003b; } svg { max-width: 100%; height: auto; }
dt { font-weight: 600; } dd { margin: 0 0 .4rem 1.2rem; } .quiet { color: #555; }
"""


def svg(figure: Figure) -> str:
    """A figure as SVG text that can stand in a page; the same picture gives the same text."""
    buffer = io.StringIO()
    with lettering(()):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _number(value: float) -> str:
    if not np.isfinite(value):
        return "∞" if value > 0 else "-"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"


def _table(comparison: Comparison) -> str:
    table = comparison.table
    head = "".join(f"<th title='{escape(text)}'>{escape(key)}</th>" for key, text in COLUMNS.items())
    lines, bad = [], " class='bad'"
    for name, row in table.iterrows():
        cells = "".join(f"<td{bad if is_bad(key, row[key]) else ''}>{_number(row[key])}</td>" for key in COLUMNS)
        lines.append(f"<tr><td><a href='#{escape(str(name))}'>{escape(str(name))}</a></td>{cells}</tr>")
    return f"<table><thead><tr><th>policy</th>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _describe(instance: Instance) -> str:
    capacity = ", ".join(f"{n} {kind}" for kind, n in instance.cluster.capacity.items())
    parts = [f"{len(instance.cluster.servers)} servers with {capacity}"]
    if instance.tenants:
        parts.append(f"{len(instance.tenants)} tenants")
    if instance.jobs:
        parts.append(f"{len(instance.jobs)} jobs")
    return "; ".join(parts)


def page(comparison: Comparison, title: str, versions: Mapping[str, str]) -> str:
    """The whole page as text."""
    pictures = "".join(
        f"<h2 id='{escape(name)}'>{escape(name)}</h2>"
        f"{svg(draw(result, judged=Plan(*by_tenant(comparison.instance, result))))}"  # envy as in the table
        for name, result in comparison.results.items()
    )
    refused = "".join(f"<li><b>{escape(n)}</b>: {escape(why)}</li>" for n, why in comparison.refused.items())
    meaning = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in COLUMNS.items())
    made = ", ".join(f"{escape(k)} {escape(v)}" for k, v in versions.items())
    source = f"<p class='quiet'>{escape(comparison.instance.source)}</p>" if comparison.instance.source else ""
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(title)}</title><style>{STYLE}</style>"
        f"<h1>{escape(title)}</h1><p>{escape(_describe(comparison.instance))}.</p>{source}{_table(comparison)}"
        + (f"<h2>Not applicable</h2><ul>{refused}</ul>" if refused else "")
        + f"<h2>What the columns mean</h2><dl>{meaning}</dl>{svg(overview(comparison))}{pictures}"
        f"<p class='quiet'>Made by {made}.</p></html>"
    )


def write(comparison: Comparison, folder: str | Path, title: str, versions: Mapping[str, str]) -> Path:
    """Write ``report.html`` and ``comparison.csv`` into ``folder`` (made if absent); the page's path."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    comparison.table.to_csv(target / "comparison.csv")
    path = target / "report.html"
    path.write_text(page(comparison, title, versions), encoding="utf-8")
    return path
