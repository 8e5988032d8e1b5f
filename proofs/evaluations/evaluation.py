"""What an evaluation is: experiments in parts, numbers that only several parts together give, and why ours may differ.

No setting is chosen by its result. What a paper leaves open is decided once, in the docstring of its module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan

import pandas as pd

from hetopt.checks import at_least, choices
from hetopt.errors import InvalidOption, UnknownName
from hetopt.experiments.experiment import Experiment, ProgressCallback
from hetopt.experiments.paper_comparison import COLUMNS, compare_with_papers
from hetopt.experiments.published_results import TIMES
from hetopt.experiments.run_store import RunKey, RunStore

Stores = Mapping[str, RunStore]
"""Part -> where its runs are; parts that were not run are absent."""


@dataclass(frozen=True)
class Part:
    """One of the experiments of an evaluation.

    Attributes
    ----------
    name:
        How folders call it.
    about:
        What of the paper it repeats.
    experiment:
        What is run.
    compared:
        Whether the claims about stored runs are compared with it, or which: the beginnings of their ids. False for
        parts that serve :class:`Finding` alone.
    """

    name: str
    about: str
    experiment: Experiment
    compared: bool | tuple[str, ...] = True

    def compares(self, claim: str) -> bool:
        """Whether the claim of that id is compared with it."""
        return self.compared if isinstance(self.compared, bool) else claim.startswith(self.compared)


@dataclass(frozen=True)
class Finding:
    """A number of ours beside a printed one that no single metric of a run gives.

    Attributes
    ----------
    id, place, what:
        Of the claim.
    printed, claim:
        How the paper prints it, and as a number; NaN where it gives none.
    ours:
        One value per seed (or case); none where it cannot be measured here. NaN is left out.
    note:
        What else to know.
    claim_to:
        The other end where the paper gives a range, above ``claim``.
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
        """``ours`` over what is claimed; of a range over its nearer end, and 1 inside. NaN where that is nothing."""
        if isnan(self.claim):
            return nan
        nearest = min(max(ours, self.claim), self.claim if self.claim_to is None else self.claim_to)
        return ours / nearest if nearest else nan


def times(ratio: float) -> str:
    """A ratio as papers print it."""
    return f"{ratio:g}{TIMES}"


@dataclass(frozen=True)
class Scale:
    """How large the evaluation is to be.

    Parameters
    ----------
    jobs:
        Part of the paper's number of jobs, in (0, 1]; traces keep their rates and get shorter.
    seeds:
        Each experiment is run with so many.

    Raises
    ------
    InvalidOption
        A part that is not in (0, 1], or no seed.
    """

    jobs: float = 1.0
    seeds: int = 1

    def __post_init__(self) -> None:
        if at_least(self.jobs, "scale", 0.0, InvalidOption, strict=True) > 1:
            raise InvalidOption(f"scale is {self.jobs!r}; it must be at most 1: the paper's number of jobs")
        at_least(self.seeds, "seeds", 1, InvalidOption)

    def count(self, jobs: int) -> int:
        """So many of the paper's ``jobs``, at least 20."""
        return max(min(20, jobs), round(self.jobs * jobs))

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """The seeds."""
        return tuple(range(self.seeds))


def nothing_besides(_: Stores) -> list[Finding]:
    """No number but those of single runs."""
    return []


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of a paper.

    Attributes
    ----------
    paper:
        As claims call it.
    parts:
        Scale -> its experiments.
    findings:
        What several parts together give.
    why:
        Claim (or the beginning of its id) -> why our number may differ from the paper's, said before it is known.
    for_all:
        The same for all claims.
    scaled:
        Whether the scale decides how many jobs there are; False where there are few enough to run them all.
    unmeasured:
        Claims that no simulation can measure; ``note`` says why, or where it is decided instead.
    """

    paper: str
    parts: Callable[[Scale], tuple[Part, ...]]
    findings: Callable[[Stores], list[Finding]] = nothing_besides
    why: Mapping[str, str] = field(default_factory=dict)
    unmeasured: tuple[Finding, ...] = ()
    for_all: str = ""
    scaled: bool = True

    def chosen(self, scale: Scale, names: Sequence[str] | None = None) -> tuple[Part, ...]:
        """The parts of these names, by default all.

        Raises
        ------
        UnknownName
            There is no such part.
        InvalidOption
            No part is named.
        """
        parts = {part.name: part for part in self.parts(scale)}
        if names is not None and not names:
            raise InvalidOption(f"no part of {self.paper} is named; {choices('', parts)}")
        for name in names or ():
            if name not in parts:
                raise UnknownName(f"{self.paper} has no part {name!r}; {choices(name, parts)}")
        return tuple(part for name, part in parts.items() if names is None or name in names)

    def run(
        self, parts: Sequence[Part], out: RunStore, *, jobs: int = 1, watch: ProgressCallback | None = None
    ) -> Stores:
        """Run what is not there yet; each part has a folder of its own in that of ``out``."""
        stores = {part.name: RunStore(out.path / part.name, out.format) for part in parts}
        for part in parts:
            part.experiment.run(stores[part.name], jobs=jobs, watch=None if watch is None else _of_part(part, watch))
        return stores

    def compared(self, parts: Sequence[Part], stores: Stores) -> pd.DataFrame:
        """Our numbers beside the paper's.

        Returns
        -------
        DataFrame
            The columns of :func:`hetopt.experiments.paper_comparison.compare_with_papers`, ``part`` (empty for a
            finding) and ``why``; a row for each claim that was compared, found, or cannot be measured here (without
            numbers), by id.
        """
        tables = []
        for part in parts:
            if not part.compared:
                continue
            clusters = {workload.name: workload.cluster for workload in part.experiment.workloads}
            table = compare_with_papers(stores[part.name].table(), clusters=clusters)
            table = table[table["paper"] == self.paper]
            tables.append(table[table["id"].map(part.compares).astype(bool)].assign(part=part.name))
        found = [self._row(finding) for finding in (*self.findings(stores), *self.unmeasured)]
        tables.append(pd.DataFrame(found, columns=[*COLUMNS, "part"]))
        whole = pd.concat([table for table in tables if len(table)] or tables[-1:], ignore_index=True)
        whole = whole.assign(why=[self.reason(str(key)) for key in whole["id"]])
        return whole.sort_values("id", kind="stable", ignore_index=True)

    def reason(self, claim: str) -> str:
        """Why our number may differ: by the longest beginning of the claim's id that is known."""
        known = [key for key in self.why if claim.startswith(key)]
        return self.why[max(known, key=len)] if known else ""

    def _row(self, finding: Finding) -> dict[str, object]:
        ours = [float(value) for value in finding.ours if not isnan(value)]
        mean = sum(ours) / len(ours) if ours else nan
        return {
            "id": finding.id,
            "paper": self.paper,
            "place": finding.place,
            "what": finding.what,
            "workload": "",
            "numerator": "",
            "denominator": "",
            "metric": "",
            "printed": finding.printed,
            "claim": finding.claim,
            "claim_to": finding.claim if finding.claim_to is None else finding.claim_to,
            "ours_mean": mean,
            "ours_min": min(ours, default=nan),
            "ours_max": max(ours, default=nan),
            "pairs": len(ours),
            "ratio_ours_over_claimed": finding.over(mean),
            "note": finding.note,
            "part": "",
        }


def _of_part(part: Part, watch: ProgressCallback) -> ProgressCallback:
    """Tells of the runs of a part, by whose name they differ from those of another."""
    return lambda key, done: watch(RunKey(f"{part.name}: {key.workload}", key.system, key.seed), done)
