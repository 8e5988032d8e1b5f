"""How the page looks: the colours of the project's reports, on light and dark screens, wide and narrow."""

from __future__ import annotations

from hetopt.presentation.simulation_report.report_style import DARK, LIGHT, PAGES
from hetopt.presentation.simulation_report.report_style import STYLE as REPORT

COLOURS = len(LIGHT)

WORDS = {
    "light": {"good": "#0b6b2e", "warn": "#7a4d00", "bad": "#b3003b", "soft": "#f2f3f5", "rest": "#8b8f96"},
    "dark": {"good": "#6fd08c", "warn": "#efbf62", "bad": "#ff8fa3", "soft": "#1e232a", "rest": "#767c85"},
}
"""Scheme -> colours of states, of soft grounds, and of tenants that have no colour of their own."""


def luminance(colour: str) -> float:
    """Of ``#rrggbb``, relative, as WCAG defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Of two colours, from 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def letters_on(ground: str) -> str:
    """Black or white, whichever is easier to read there."""
    return max(("#000000", "#ffffff"), key=lambda colour: contrast(colour, ground))


def _declared(scheme: str) -> str:
    palette = LIGHT if scheme == "light" else DARK
    own = WORDS[scheme] | {f"t{i}": letters_on(colour) for i, colour in enumerate(palette)}
    own["trest"] = letters_on(own["rest"])
    return " ".join(f"--{name}: {colour};" for name, colour in own.items())


_SERIES = " ".join(
    f".s{i} {{ fill: var(--s{i}); }} text.s{i} {{ fill: var(--t{i}); }}" for i in (*range(COLOURS), "rest")
).replace("--srest", "--rest")

STYLE = f"""{REPORT}
:root {{ {_declared("light")} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_declared("dark")} }} }}
@media print {{ :root {{ {_declared("light")} }} .tall {{ max-height: none; }} #beat {{ display: none; }} }}
body {{ font: 15px/1.45 system-ui, sans-serif; margin: 1rem auto 3rem; max-width: 86rem; padding: 0 1rem; }}
h1 {{ font-size: 1.35rem; margin: 0; }} h2 {{ font-size: 1.1rem; margin: 1.8rem 0 .3rem; }} p {{ margin: .4rem 0; }}
header {{ display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; align-items: baseline; justify-content: space-between; }}
table {{ border-collapse: collapse; margin: 0; width: 100%; }}
th, td {{ text-align: left; overflow-wrap: break-word; }}
.whole, .n {{ white-space: nowrap; }} .n {{ text-align: right; }}
thead th {{ border-bottom: 2px solid var(--quiet); white-space: nowrap; position: sticky; top: 0; z-index: 1;
  background: var(--page); }}
tbody th {{ font-weight: 600; min-width: 6rem; max-width: 20rem; white-space: normal; }} .text {{ min-width: 14rem; }}
tbody th, thead th:first-child {{ position: sticky; left: 0; background: var(--page); }}
thead th:first-child {{ z-index: 2; }} tbody th, .text {{ overflow-wrap: anywhere; }} td {{ max-width: 24rem; }}
.tall {{ max-height: 30rem; overflow-y: auto; border: 1px solid var(--grid); }}
.scroll:focus-visible, a:focus-visible {{ outline: 2px solid var(--s0); outline-offset: 2px; }}
.scroll > svg {{ display: block; width: 100%; min-width: 46rem; height: auto; }}
figure {{ margin: .4rem 0; }}
svg text {{ fill: var(--ink); font: 11px system-ui, sans-serif; }} svg text.q {{ fill: var(--quiet); }}
svg .line {{ stroke: var(--grid); }} svg .round {{ stroke: var(--quiet); stroke-width: .9; stroke-dasharray: 2 3; }}
svg .mark {{ fill: var(--quiet); }} svg .capacity {{ fill: none; stroke: var(--ink); stroke-width: 1.4; }}
svg .ground {{ fill: var(--soft); }} svg .bar {{ stroke: var(--page); stroke-width: .7; }}
svg .part {{ fill: var(--page); fill-opacity: .45; }}
svg .pale {{ fill-opacity: .55; }} svg .weave {{ stroke: var(--page); stroke-width: 2.2; }}
{_SERIES}
.tiles {{ display: flex; flex-wrap: wrap; gap: .5rem; margin: .6rem 0 0; padding: 0; list-style: none; }}
.tiles li {{ background: var(--soft); border-radius: .4rem; padding: .35rem .8rem; min-width: 5.5rem; }}
.tiles b {{ display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; }}
.good {{ color: var(--good); }} .bad {{ color: var(--bad); }}
.caution {{ color: var(--warn); }}
p.caution {{ border-left: 4px solid; padding: .3rem .8rem; background: var(--soft); }}
#said {{ position: sticky; top: 0; z-index: 2; border-left: 4px solid; padding: .6rem .8rem; font-weight: 600;
  color: var(--bad); background: var(--soft); }} #said[hidden] {{ display: none; }}
.stale #live {{ opacity: .55; }}
.progress {{ width: 7rem; height: .6rem; vertical-align: middle; }} .progress rect {{ fill: var(--soft); }}
.progress .done {{ fill: var(--good); }} .progress .more {{ fill: var(--good); fill-opacity: .45; }}
.curve {{ width: 7rem; height: 1.6rem; vertical-align: middle; }}
.curve polyline {{ fill: none; stroke: var(--s0); stroke-width: 1.3; vector-effect: non-scaling-stroke; }}
.swatch {{ width: .9rem; height: .9rem; }}
.empty {{ color: var(--quiet); }} code {{ background: var(--soft); padding: 0 .25rem; border-radius: .2rem; }}
@media (max-width: 40rem) {{ body {{ font-size: 14px; padding: 0 .7rem; }} th, td {{ padding: .2rem .4rem; }} }}
"""

assert set(PAGES) == set(WORDS)
