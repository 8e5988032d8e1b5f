"""The directive ``trade-off``: the picture of the demo, with the text of the directive as its caption.

``python docs/trade_off.py`` writes the picture of the README.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from hetopt.experiments.comparison import Comparison, compare_with_fallback
from hetopt.presentation.comparison_page import overview
from hetopt.presentation.pages import fragment
from hetopt.presentation.style import declared
from hetopt.registry import find_instance, make_policy, policy_names


@cache
def demo() -> Comparison:
    """The comparison of ``hetopt demo``."""
    whole = find_instance("lab36/jobs")
    there = whole.at(max(job.arrival for job in whole.jobs))
    return compare_with_fallback(there, {name: make_policy(name) for name in policy_names()})


class TradeOff(SphinxDirective):
    """All policies on the plane of fairness and throughput."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The figure with its caption."""
        figure = nodes.container(classes=["trade-off"])
        figure += nodes.raw("", fragment("picture", overview(demo())), format="html")
        caption, messages = self.parse_inline(" ".join(self.content))
        figure += nodes.paragraph("", "", *caption, classes=["quiet"])
        return [figure, *messages]


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("trade-off", TradeOff)
    return {"parallel_read_safe": True}


def picture_file() -> str:
    """The picture as a file of its own, in the colours of light and of dark screens."""
    style = f":root {{ {declared(0)} background: var(--page); fill: var(--ink); font: 9px system-ui, sans-serif; }}"
    dark = f"@media (prefers-color-scheme: dark) {{ :root {{ {declared(1)} }} }}"
    size = 'xmlns="http://www.w3.org/2000/svg" width="640" height="346"'
    tag, _, rest = overview(demo()).svg.partition(">")
    return f"{tag} {size}><style>{style} {dark}</style>{rest}"


if __name__ == "__main__":
    (Path(__file__).parent / "static" / "trade-off.svg").write_text(picture_file())
