"""The evaluation of a paper: experiments in parts, results across parts, and reasons why results may differ.

No setting was chosen by its result. The docstring of each paper's module states the choices that the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan

import pandas as pd

from hetopt.checks import at_least, choices, lookup
from hetopt.errors import InvalidOption, PolicyFailed
from hetopt.experiments.experiment import Experiment
from hetopt.experiments.paper_comparison import COLUMNS, compare_with_papers
from hetopt.experiments.published_results import claim_of
from hetopt.experiments.run_progress import ProgressCallback
from hetopt.experiments.run_store import RunKey, RunStore

Stores = Mapping[str, RunStore]
"""Part -> store of its runs; parts that were not run are absent."""


@dataclass(frozen=True)
class EvaluationPart:
    """One experiment of an evaluation.

    Attributes
    ----------
    name:
        Name of the part and its folder.
    about:
        The section of the paper that it repeats.
    experiment:
        The runs.
    compared:
        Whether to compare claims about single runs with this part, or numbers of the claims to compare.
        False for parts that are used only by :class:`ComparedResult`.
    left_out:
        Labels of variants that are used only by :class:`ComparedResult`.
    """

    name: str
    about: str
    experiment: Experiment
    compared: bool | tuple[str, ...] = True
    left_out: tuple[str, ...] = ()

    def compares(self, result: str) -> bool:
        """Whether to compare the result of this id with this part."""
        return self.compared if isinstance(self.compared, bool) else claim_of(result) in self.compared


@dataclass(frozen=True)
class ComparedResult:
    """A printed number and our own, for results that are not a single metric of a run.

    Attributes
    ----------
    id, place, what:
        Id and place of the claim, and the quantity.
    printed, claim:
        The printed text, and its number; NaN if the paper has none.
    ours:
        One value per seed or case; NaN is ignored; empty if it cannot be measured here.
    note:
        Further information.
    claim_to:
        The upper end if the paper gives a range; ``claim`` is the lower end.
    """

    id: str
    place: str
    what: str
    printed: str
    claim: float
    ours: Sequence[float] = ()
    note: str = ""
    claim_to: float | None = None

    def over(self, ours: float) -> float:
        """``ours`` over the claim, or over the nearer end of a range (1 inside it); NaN if the claim is 0 or NaN."""
        if isnan(self.claim):
            return nan
        nearest = min(max(ours, self.claim), self.claim if self.claim_to is None else self.claim_to)
        return ours / nearest if nearest else nan


def times(ratio: float) -> str:
    """A ratio as papers print it."""
    return f"{ratio:g}\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True)
class EvaluationScale:
    """The size of an evaluation.

    Parameters
    ----------
    jobs:
        Fraction of the paper's number of jobs, in (0, 1]; traces keep their arrival rates and become shorter.
    seeds:
        Number of seeds of each experiment.

    Raises
    ------
    InvalidOption
        A fraction outside (0, 1], or no seed.
    """

    jobs: float = 1.0
    seeds: int = 1

    def __post_init__(self) -> None:
        if at_least(self.jobs, "scale", 0.0, InvalidOption, strict=True) > 1:
            raise InvalidOption(f"is {self.jobs!r}; it must be at most 1: the paper's number of jobs", "scale")
        at_least(self.seeds, "seeds", 1, InvalidOption)

    def count(self, jobs: int) -> int:
        """This fraction of the paper's ``jobs``, at least 20."""
        return max(min(20, jobs), round(self.jobs * jobs))

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """The seeds."""
        return tuple(range(self.seeds))


def no_results(_: Stores) -> list[ComparedResult]:
    """Return no results, for evaluations that compare only single runs."""
    return []


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of a paper.

    Attributes
    ----------
    paper:
        Name of the paper in claims.
    parts:
        Scale -> experiments.
    results:
        Stores -> results that are not a single metric.
    reasons:
        Number of a claim -> why our numbers may differ from the paper's, stated before it was measured.
    common_reason:
        Reason that holds for all claims.
    scaled:
        Whether the scale determines the number of jobs; False if all jobs always run.
    unmeasured:
        Claims that no simulation can measure; ``note`` states why, or where they are decided.
    """

    paper: str
    parts: Callable[[EvaluationScale], tuple[EvaluationPart, ...]]
    results: Callable[[Stores], list[ComparedResult]] = no_results
    reasons: Mapping[str, str] = field(default_factory=dict)
    unmeasured: tuple[ComparedResult, ...] = ()
    common_reason: str = ""
    scaled: bool = True

    def chosen(self, scale: EvaluationScale, names: Sequence[str] | None = None) -> tuple[EvaluationPart, ...]:
        """The parts with these names, by default all.

        Raises
        ------
        UnknownName
            There is no such part.
        InvalidOption
            The list of names is empty.
        """
        parts = {part.name: part for part in self.parts(scale)}
        if names is not None and not names:
            raise InvalidOption(f"no part of {self.paper} is named; {choices('', parts)}")
        for name in names or ():
            lookup(parts, name, f"{self.paper} part")
        return tuple(part for name, part in parts.items() if names is None or name in names)

    def compared(self, parts: Sequence[EvaluationPart], stores: Stores) -> pd.DataFrame:
        """Compare our numbers with the paper's.

        Returns
        -------
        DataFrame
            The columns of :func:`hetopt.experiments.paper_comparison.compare_with_papers`, ``part`` (empty for results
            across parts) and ``why``; a row for each compared claim and each claim that cannot be measured here, sorted
            by id.
        """
        tables = []
        for part in (part for part in parts if part.compared):
            clusters = {workload.name: workload.cluster for workload in part.experiment.workloads}
            runs = stores[part.name].table()
            table = compare_with_papers(runs[~runs["system"].isin(part.left_out)], clusters=clusters)
            table = table[table["paper"] == self.paper]
            tables.append(table[table["id"].map(part.compares).astype(bool)].assign(part=part.name))
        rows = [self._row(result) for result in (*self.results(stores), *self.unmeasured)]
        tables.append(pd.DataFrame(rows, columns=[*COLUMNS, "part"]))
        found = pd.concat([table for table in tables if len(table)] or tables[-1:], ignore_index=True)
        found["why"] = [self.reason(str(key)) for key in found["id"]]
        return found.sort_values("id", kind="stable", ignore_index=True)

    def reason(self, result: str) -> str:
        """The reason of the claim that the result with this id belongs to; empty if there is none."""
        return self.reasons.get(claim_of(result), "")

    def _row(self, result: ComparedResult) -> dict[str, object]:
        ours = [float(value) for value in result.ours if not isnan(value)]
        mean = sum(ours) / len(ours) if ours else nan
        return {
            "id": result.id,
            "paper": self.paper,
            "place": result.place,
            "what": result.what,
            "workload": "",
            "numerator": "",
            "denominator": "",
            "metric": "",
            "printed": result.printed,
            "claim": result.claim,
            "claim_to": result.claim if result.claim_to is None else result.claim_to,
            "ours_mean": mean,
            "ours_min": min(ours, default=nan),
            "ours_max": max(ours, default=nan),
            "pairs": len(ours),
            "ratio_ours_over_claimed": result.over(mean),
            "note": result.note,
            "part": "",
        }


def run_parts(
    parts: Sequence[EvaluationPart],
    out: RunStore,
    *,
    jobs: int | str = 1,
    watch: ProgressCallback | None = None,
    checkpoint_every: float = 60.0,
) -> Stores:
    """Execute the missing runs; each part has its own folder in the folder of ``out``.

    The arguments are those of :meth:`~hetopt.experiments.experiment.Experiment.run`; ``watch`` gets the keys of
    :func:`key_in_part`.

    Raises
    ------
    PolicyFailed
        A policy failed; raised after all other runs of all parts are stored.
    """
    stores = {part.name: RunStore(out.path / part.name, out.format) for part in parts}
    failed = []
    for part in parts:
        watch_part = None if watch is None else _of_part(part, watch)
        try:
            part.experiment.run(stores[part.name], jobs=jobs, watch=watch_part, checkpoint_every=checkpoint_every)
        except PolicyFailed as problem:
            failed.append(problem)
    if failed:
        raise failed[0]
    return stores


def key_in_part(part: EvaluationPart, key: RunKey) -> RunKey:
    """The key of a run of a part among those of all parts."""
    return RunKey(f"{part.name}: {key.workload}", key.system, key.seed)


def _of_part(part: EvaluationPart, watch: ProgressCallback) -> ProgressCallback:
    """Report the runs of a part under the part's name."""
    return lambda key, now: watch(key_in_part(part, key), now)
