"""What papers claim of systems beside each other, compared with stored runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from hetopt.checks import at_least, members
from hetopt.data.entities import Floats
from hetopt.errors import InvalidOption
from hetopt.metrics.overall import DEFINITIONS

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
"""Columns of :func:`against`."""

Bound = Literal["", "up to"]


@dataclass(frozen=True)
class Claim:
    """A number that a paper gives of one system, or of two beside each other.

    Parameters
    ----------
    id:
        Its name.
    paper, place, what:
        Which paper, where in it, and what the number is.
    metric:
        A name in :data:`hetopt.metrics.overall.DEFINITIONS`.
    numerator:
        Systems that may stand for the one that it is about, by label or by name without settings.
    denominator:
        Systems that may stand for the one that it is divided by; none where the number is a value of its own.
    claimed:
        The number: numerator over denominator (0.83 where the paper says 17 % less), or the value. Two numbers: from
        the first to the second.
    printed:
        How the paper prints it.
    workloads:
        Names of the workloads that are meant for it; None: none of ours.
    bound:
        ``"up to"`` where the paper gives the largest of several cases.
    elsewhere:
        Whether comparing is of use on other workloads, too.
    together:
        Whether it is a mean over all of ``workloads``.
    jobs, cluster:
        Number of jobs and cluster of the paper; None: not said here.
    note:
        What else to know.

    Raises
    ------
    InvalidOption
        An unknown metric, no system, a number that is not positive, or more than two.
    """

    id: str
    paper: str
    place: str
    what: str
    metric: str
    numerator: tuple[str, ...]
    denominator: tuple[str, ...]
    claimed: tuple[float, ...]
    printed: str
    workloads: tuple[str, ...] | None = None
    bound: Bound = ""
    elsewhere: bool = True
    together: bool = False
    jobs: int | None = None
    cluster: str | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if self.metric not in DEFINITIONS:
            raise InvalidOption(
                f"claim {self.id}: metric is {self.metric!r}; it must be one of {', '.join(DEFINITIONS)}"
            )
        for key in ("numerator", "denominator"):
            object.__setattr__(self, key, members(getattr(self, key), str, f"claim {self.id}: {key}"))
        if not self.numerator:
            raise InvalidOption(f"claim {self.id}: numerator is empty; name at least one system")
        numbers = tuple(at_least(v, f"claim {self.id}: claimed", 0.0, InvalidOption, strict=True) for v in self.claimed)
        if len(numbers) not in (1, 2) or list(numbers) != sorted(numbers):
            raise InvalidOption(f"claim {self.id}: claimed is {self.claimed}; give one number, or two in order")
        object.__setattr__(self, "claimed", numbers)
        if self.together and not self.workloads:
            raise InvalidOption(f"claim {self.id}: together is True without workloads; name those of the mean")

    @property
    def relative(self) -> bool:
        """Whether it is about two systems."""
        return bool(self.denominator)

    def over(self, ours: float) -> float:
        """``ours`` over what is claimed; of a claimed range over its nearer end, and 1 inside."""
        return ours / min(max(ours, self.claimed[0]), self.claimed[-1])


def against(
    table: pd.DataFrame, claims: Sequence[Claim] | None = None, clusters: Mapping[str, str | None] | None = None
) -> pd.DataFrame:
    """The claims that can be compared with stored runs, beside what these give.

    A claim is compared on the workloads that are meant for it, and on workloads that are meant for no claim of its
    paper (``note`` says so), wherever systems of both sides ran with the same seed. Ratios are taken seed by seed.

    Parameters
    ----------
    table:
        As :meth:`hetopt.experiments.store.Store.table` gives it.
    claims:
        Those to compare; default: :data:`hetopt.experiments.paper_claims.CLAIMS`.
    clusters:
        Workload -> name of the cluster that it ran on, to note where a claim is about another one.

    Returns
    -------
    DataFrame
        A row per claim, workload and pair of systems: ``id``, ``paper``, ``place``, ``what``, ``workload`` (several
        joined by ``, `` where the claim is a mean over them), ``numerator``, ``denominator`` (labels; empty for a
        value), ``metric``, ``printed``, ``claim``, ``claim_to`` (the ends of a range, else equal), ``ours_mean``,
        ``ours_min``, ``ours_max`` (over ``pairs``: seeds, or workloads and seeds), ``elsewhere`` (whether another
        workload is meant for it), ``ratio_ours_over_claimed`` (of the mean; of a range to its nearer end, 1 inside),
        ``note``.
    """
    if claims is None:
        from hetopt.experiments.paper_claims import CLAIMS

        claims = CLAIMS
    values = _values(table)
    meant: dict[str, set[str]] = {}
    for claim in claims:
        meant.setdefault(claim.paper, set()).update(claim.workloads or ())
    names = list(values)
    rows = []
    for claim in claims:
        for where in _places(claim, names, meant[claim.paper]):
            rows += list(_compared(claim, where, values, clusters or {}))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _values(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Workload -> its runs; index ``(system, seed)``."""
    ran = table[table["refused"].isna()]
    return {
        str(name): own.set_index(["system", "seed"]).sort_index() for name, own in ran.groupby("workload", sort=True)
    }


def _places(claim: Claim, names: list[str], meant: set[str]) -> list[tuple[str, ...]]:
    """Workloads of each comparison."""
    own = tuple(name for name in claim.workloads or () if name in names)
    if claim.together:
        return [own] if own else []
    others = [name for name in names if name not in meant] if claim.elsewhere else []
    return [(name,) for name in (*own, *others)]


def _compared(
    claim: Claim, where: tuple[str, ...], values: Mapping[str, pd.DataFrame], clusters: Mapping[str, str | None]
) -> Iterator[tuple[object, ...]]:
    """A row per pair of systems."""
    systems = sorted({str(system) for name in where for system in values[name].index.get_level_values("system")})
    above = [label for label in systems if stands_for(label, claim.numerator)]
    below = [label for label in systems if stands_for(label, claim.denominator)] if claim.relative else [""]
    for a in above:
        for b in below:
            each = {name: _ratios(values[name], claim.metric, a, b) for name in where}
            each = {name: own for name, own in each.items() if len(own)}
            if a == b or not each:
                continue
            ours = np.concatenate(list(each.values()))
            mean = float(np.mean([own.mean() for own in each.values()]))
            used = [_of(values[name], label) for name in each for label in (a, b) if label]
            note = "; ".join(_notes(claim, list(each), used, clusters))
            said = (claim.id, claim.paper, claim.place, claim.what, ", ".join(each), a, b, claim.metric, claim.printed)
            elsewhere = claim.workloads is not None and not set(where) <= set(claim.workloads)
            found = (mean, float(ours.min()), float(ours.max()), len(ours), elsewhere, claim.over(mean), note)
            yield *said, claim.claimed[0], claim.claimed[-1], *found


def stands_for(label: str, names: Sequence[str]) -> bool:
    """Whether a label is one of ``names``, with or without its settings in brackets."""
    return label in names or label.split("[", 1)[0] in names


def _ratios(runs: pd.DataFrame, metric: str, above: str, below: str) -> Floats:
    """(seeds,) the metric of one system over that of the other, or by itself; of seeds where both are known."""
    if metric not in runs:
        return np.empty(0)
    own, other = (_of(runs, label)[metric].astype(float) for label in (above, below or above))
    ratio = own / other.where(other > 0) if below else own
    return np.asarray(ratio.dropna(), dtype=float)


def _of(runs: pd.DataFrame, label: str) -> pd.DataFrame:
    """The runs of a system by seed; no rows where it has none."""
    return runs[runs.index.get_level_values("system") == label].droplevel("system")


def _notes(
    claim: Claim, where: list[str], used: list[pd.DataFrame], clusters: Mapping[str, str | None]
) -> Iterator[str]:
    """What differs between the paper's case and ours, whose runs are ``used``."""
    if claim.bound == "up to":
        yield "the paper's number is the largest of several cases"
    if claim.workloads is None:
        yield "no workload of ours is meant for it"
    elif not set(where) <= set(claim.workloads):
        yield f"another workload; {', '.join(claim.workloads)} is meant for it"
    if claim.together and claim.workloads and len(where) < len(claim.workloads):
        yield f"{len(where)} of the {len(claim.workloads)} workloads of the mean"
    jobs = sorted({int(most) for runs in used if "jobs" in runs and (most := runs["jobs"].max()) > 0})
    if claim.jobs is not None and jobs and jobs != [claim.jobs]:
        yield f"{', '.join(map(str, jobs))} jobs, {claim.jobs} in the paper"
    other = sorted({str(clusters[name]) for name in where if clusters.get(name) not in (None, claim.cluster)})
    if claim.cluster is not None and other:
        yield f"on {', '.join(other)}; the paper's cluster is {claim.cluster}"
    if any("unfinished" in runs and runs["unfinished"].max() > 0 for runs in used):
        yield "some jobs did not finish"
    if claim.note:
        yield claim.note
