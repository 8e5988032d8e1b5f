"""The directive ``trade-off``: the picture of the demo, with the text of the directive as its caption."""

from __future__ import annotations

from functools import cache

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from hetopt.experiments.comparison import Comparison, compare_or_part
from hetopt.presentation.comparison_page import overview
from hetopt.presentation.pages import environment
from hetopt.registry import find_instance, make_policy, policy_names


@cache
def demo() -> Comparison:
    """The comparison of ``hetopt demo``."""
    whole = find_instance("lab36/jobs")
    there = whole.at(max(job.arrival for job in whole.jobs))
    return compare_or_part(there, {name: make_policy(name) for name in policy_names()})


class TradeOff(SphinxDirective):
    """All policies on the plane of fairness and throughput."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The figure with its caption."""
        drawn = environment().get_template("macros.html.j2").module.picture(overview(demo()))  # type: ignore[attr-defined]
        figure = nodes.container(classes=["trade-off"])
        figure += nodes.raw("", f'<div class="pictures">{drawn}</div>', format="html")
        caption, messages = self.parse_inline(" ".join(self.content))
        figure += nodes.paragraph("", "", *caption, classes=["quiet"])
        return [figure, *messages]


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("trade-off", TradeOff)
    return {"parallel_read_safe": True}
