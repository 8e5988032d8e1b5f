"""Comparing stored runs with the results that papers report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from hetopt.data.array_types import Floats
from hetopt.experiments.published_results import PUBLISHED_RESULTS, PublishedResult

COLUMNS = (
    "id",
    "paper",
    "place",
    "what",
    "workload",
    "numerator",
    "denominator",
    "metric",
    "printed",
    "claim",
    "claim_to",
    "ours_mean",
    "ours_min",
    "ours_max",
    "pairs",
    "elsewhere",
    "ratio_ours_over_claimed",
    "note",
)
"""Columns of :func:`compare_with_papers`."""


def compare_with_papers(
    table: pd.DataFrame,
    results: Sequence[PublishedResult] = PUBLISHED_RESULTS,
    clusters: Mapping[str, str | None] | None = None,
) -> pd.DataFrame:
    """Compare stored runs with published results, as far as the systems of both sides ran with the same seed.

    A result is compared on its own workloads, and on workloads that belong to no result of its paper (stated in
    ``note``). Ratios are taken seed by seed.

    Parameters
    ----------
    table:
        Table of the runs (:func:`hetopt.experiments.run_store.run_table`).
    results:
        The results to compare.
    clusters:
        Workload -> name of its cluster, to note where the paper's is another.

    Returns
    -------
    DataFrame
        A row per result, workload and pair of systems: ``id``, ``paper``, ``place``, ``what``, ``workload`` (several
        joined by ``, `` for a mean over them), ``numerator``, ``denominator`` (labels; empty for a plain value),
        ``metric``, ``printed``, ``claim``, ``claim_to`` (the ends of a range, else equal), ``ours_mean``, ``ours_min``,
        ``ours_max`` (over ``pairs``: seeds, or workloads and seeds), ``elsewhere`` (whether the result belongs to
        another workload), ``ratio_ours_over_claimed`` (of the mean; for a range to its closer end, 1 inside), ``note``.
    """
    runs = _runs_by_workload(table)
    of_paper: dict[str, set[str]] = {}
    for result in results:
        of_paper.setdefault(result.paper, set()).update(result.workloads or ())
    rows = [
        row
        for result in results
        for where in _workload_groups(result, list(runs), of_paper[result.paper])
        for row in _rows(result, where, runs, clusters or {})
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _runs_by_workload(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Workload -> its runs; index ``(system, seed)``."""
    ran = table[table["refused"].isna()]
    return {
        str(name): own.set_index(["system", "seed"]).sort_index() for name, own in ran.groupby("workload", sort=True)
    }


def _workload_groups(result: PublishedResult, names: list[str], of_paper: set[str]) -> list[tuple[str, ...]]:
    """Workloads of each comparison; several for a mean over them."""
    own = tuple(name for name in result.workloads or () if name in names)
    if result.together:
        return [own] if own else []
    others = [name for name in names if name not in of_paper] if result.elsewhere else []
    return [(name,) for name in (*own, *others)]


def _rows(
    result: PublishedResult,
    where: tuple[str, ...],
    runs: Mapping[str, pd.DataFrame],
    clusters: Mapping[str, str | None],
) -> Iterator[dict[str, object]]:
    """A row per pair of labels, with the keys :data:`COLUMNS`."""
    own = pd.concat([runs[name] for name in where])
    above = _labels(own, result.numerator)
    below = _labels(own, result.denominator) if result.is_ratio else [""]
    for a in above:
        for b in below:
            each = {name: _measured(runs[name], result.metric, a, b) for name in where}
            each = {name: own for name, own in each.items() if len(own)}
            if a == b or not each:
                continue
            ours = np.concatenate(list(each.values()))
            mean = float(np.mean([own.mean() for own in each.values()]))
            used = [_with_label(runs[name], label) for name in each for label in (a, b) if label]
            yield {
                "id": result.id,
                "paper": result.paper,
                "place": result.place,
                "what": result.what,
                "workload": ", ".join(each),
                "numerator": a,
                "denominator": b,
                "metric": result.metric,
                "printed": result.printed,
                "claim": result.value[0],
                "claim_to": result.value[-1],
                "ours_mean": mean,
                "ours_min": float(ours.min()),
                "ours_max": float(ours.max()),
                "pairs": len(ours),
                "elsewhere": result.workloads is not None and not set(where) <= set(result.workloads),
                "ratio_ours_over_claimed": result.relative(mean),
                "note": "; ".join(_notes(result, list(each), used, clusters)),
            }


def _labels(runs: pd.DataFrame, systems: Sequence[str]) -> list[str]:
    """Labels of the runs of ``systems``, which are labels or names of systems."""
    labels = runs.index.get_level_values("system")
    return sorted(set(labels[labels.isin(systems) | runs["system_name"].isin(systems)]))


def _measured(runs: pd.DataFrame, metric: str, above: str, below: str) -> Floats:
    """(seeds,) the metric of one label, relative to that of the other if given; for seeds with both values."""
    if metric not in runs:
        return np.empty(0)
    own, other = (_with_label(runs, label)[metric].astype(float) for label in (above, below or above))
    ratio = own / other.where(other > 0) if below else own
    return np.asarray(ratio.dropna(), dtype=float)


def _with_label(runs: pd.DataFrame, label: str) -> pd.DataFrame:
    """The runs with that label, indexed by seed."""
    return runs[runs.index.get_level_values("system") == label].droplevel("system")


def _notes(
    result: PublishedResult, where: list[str], used: list[pd.DataFrame], clusters: Mapping[str, str | None]
) -> Iterator[str]:
    """Differences between the setups of the paper and of the runs ``used``."""
    if result.bound == "up to":
        yield "the paper's number is the largest of several cases"
    if result.workloads is None:
        yield "no workload here corresponds to it"
    elif not set(where) <= set(result.workloads):
        yield f"another workload; the paper's is {', '.join(result.workloads)}"
    if result.together and result.workloads and len(where) < len(result.workloads):
        yield f"{len(where)} of the {len(result.workloads)} workloads of the mean"
    jobs = sorted({int(most) for runs in used if "jobs" in runs and (most := runs["jobs"].max()) > 0})
    if result.jobs is not None and jobs and jobs != [result.jobs]:
        yield f"{', '.join(map(str, jobs))} jobs, {result.jobs} in the paper"
    other = sorted({str(clusters[name]) for name in where if clusters.get(name) not in (None, result.cluster)})
    if result.cluster is not None and other:
        yield f"on {', '.join(other)}; the paper's cluster is {result.cluster}"
    if any("unfinished" in runs and runs["unfinished"].max() > 0 for runs in used):
        yield "some jobs did not finish"
    if result.note:
        yield result.note
