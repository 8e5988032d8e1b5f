"""How long policies take to decide as instances grow: measured, as a table and a picture."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption
from hetopt.formulations.policies import Policy, check_policy, solve
from hetopt.presentation.allocation_pictures import COLOURS
from hetopt.presentation.fonts import label, lettering

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
SMALLEST = 0.001
"""Seconds at which the axis begins, at most; it ends at a second or later."""


def decision_seconds(policies: Mapping[str, Policy], instances: Mapping[int, Sequence[Instance]]) -> pd.DataFrame:
    """Median seconds of one decision, from the instance to the plan.

    Every decision begins with a copy of the instance that knows none of its arrays yet. The policies take turns on each
    instance, so that what slows the machine down slows down all.

    Parameters
    ----------
    policies:
        Name -> policy or formulation.
    instances:
        Size, such as the number of jobs -> instances of that size.

    Returns
    -------
    DataFrame
        Index ``size``, a column for each policy.

    Raises
    ------
    InvalidOption
        No policy, no size, or a size without instances.
    """
    if not policies or not instances or not all(instances.values()):
        raise InvalidOption("decision_seconds needs a policy, a size, and an instance of each size")
    for policy in policies.values():
        check_policy(policy)
    rows: dict[int, dict[str, float]] = {}
    for size in sorted(instances):
        seconds: dict[str, list[float]] = {name: [] for name in policies}
        for instance in instances[size]:
            for name, policy in policies.items():
                fresh = instance.replace()
                began = time.perf_counter()
                solve(policy, fresh)
                seconds[name].append(time.perf_counter() - began)
        rows[size] = {name: statistics.median(own) for name, own in seconds.items()}
    table = pd.DataFrame.from_dict(rows, orient="index", columns=list(policies))
    table.index.name = "size"
    return table


def draw(table: pd.DataFrame, title: str = "", size: str = "jobs") -> Figure:
    """Seconds against size, both logarithmic, a line for each policy.

    Parameters
    ----------
    table:
        As :func:`decision_seconds` gives it.
    size:
        What the sizes count.

    Returns
    -------
    Figure
        :func:`~hetopt.presentation.allocation_pictures.save_figure` writes it to a file.
    """
    with lettering((title, size, *map(str, table.columns))):
        figure = Figure(figsize=(7.0, 4.2), layout="constrained")
        axes = figure.subplots()
        for i, name in enumerate(table.columns):
            colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
            axes.plot(table.index, table[name], color=colour, marker=marker, label=label(str(name), i + 1, 40))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_ylim(min(SMALLEST, float(table.min().min())), max(1.0, float(table.max().max())))
        axes.yaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
        axes.set_xticks(list(table.index), [f"{n:,}" for n in table.index])
        axes.minorticks_off()
        axes.set_xlabel(size)
        axes.set_ylabel("seconds of one decision")
        axes.set_title(title)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
        axes.legend(frameon=False, loc="upper left")
        figure.draw_without_rendering()
    return figure
