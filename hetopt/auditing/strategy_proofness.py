"""Strategy-proofness: a search for profitable misreports among structured ones, and around the best of them."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal, get_args

import numpy as np

from hetopt.auditing.audited_holdings import bundle, holdings
from hetopt.auditing.feasibility import capacity_verdict
from hetopt.auditing.misreports import MisreportKind, Report, ReportGenerator, ReportScale, Row, direction
from hetopt.auditing.verdict import PART, AuditProperty, Misreport, Verdict, undecided
from hetopt.checks import at_least, shown
from hetopt.data.array_types import Floats
from hetopt.data.instance import Instance
from hetopt.data.rates import cluster_rate, most_at_once, rate_with
from hetopt.errors import InvalidFormulation, InvalidInstance, InvalidOption, NotSolved
from hetopt.formulations.policies import Policy, call_policy, check_policy
from hetopt.results.allocation import Allocation, Plan
from hetopt.tolerances import EQUAL

GPUUse = Literal["free reuse", "as allocated"]
"""Use of its GPUs by a misreporting tenant, see :func:`strategy_proof`."""

DEFAULT_KINDS: tuple[MisreportKind, ...] = ("over", "under", "mixed", "coalition", "job type")
"""Kinds of misreports that are tried by default."""

STEPS = tuple(2.0**-i for i in range(1, 9))
"""Relative steps of the pattern search, coarse to fine."""

STARTS = 6
"""Number of structured reports (the best ones) from which the pattern search starts."""


def strategy_proof(
    instance: Instance,
    policy: Policy,
    *,
    kinds: tuple[MisreportKind, ...] = DEFAULT_KINDS,
    budget: int = 400,
    misreporting: tuple[str, ...] | None = None,
    scale: ReportScale = "kept",
    gpu_use: GPUUse = "free reuse",
    tolerance: float = EQUAL,
    time_limit: float | None = None,
    demand_limited: bool | None = None,
) -> Verdict:
    """Search for a profitable misreport under ``policy``. **A search: it can refute, never prove.**

    ``holds`` is False with the best misreport found as witness, or None ("not refuted"): no misreport that was tried is
    profitable, which is no proof that none is. ``searched`` counts the misreports of each kind. The search is
    deterministic: structured reports first (rows and ratios of other entities and values close to them, multiples,
    flat and steep rows), in turn of all kinds and entities, then a pattern search around the best.

    Parameters
    ----------
    instance:
        With the true speeds.
    policy:
        Any callable ``policy(instance, state=None) -> (Allocation | Plan, state)``; each call begins without a state.
    kinds:
        Kinds of misreports to try, see :data:`~hetopt.auditing.misreports.MisreportKind`.
    budget:
        Most calls of the policy.
    misreporting:
        Names of the tenants (or jobs) that may misreport; all by default.
    scale:
        Whether reports are normalised, see :data:`~hetopt.auditing.misreports.ReportScale`.
    gpu_use:
        ``"free reuse"``: each GPU of a tenant runs its fastest true job type. ``"as allocated"``: each true job type
        uses its own GPUs, and those of a fake count nothing. Both are the same for a single job type without a
        fake.
    tolerance:
        A gain up to this part of the rate with the whole cluster counts as none.
    time_limit:
        Seconds after which no further report is tried; None: no limit. Two runs may differ only with a limit.
    demand_limited:
        As in :func:`~hetopt.auditing.audited_holdings.holdings`.

    Returns
    -------
    Verdict
        Slack: minus the largest gain over all misreports tried, as a part of the entity's rate with the whole cluster
        (of a coalition: the gain of the member that gains least).

    Raises
    ------
    InvalidOption
        Unknown kind, scale or entity, a budget below 2, a negative tolerance or time limit.
    """
    check_policy(policy)
    _check(kinds, scale, gpu_use, budget)
    at_least(tolerance, "tolerance", 0.0, InvalidOption)
    seconds = math.inf if time_limit is None else at_least(time_limit, "time_limit", 0.0, InvalidOption)
    search = MisreportSearch(instance, policy, int(budget), scale, gpu_use, seconds, demand_limited)
    search.run(kinds, search.positions(misreporting))
    return search.verdict(tolerance)


def _check(kinds: tuple[MisreportKind, ...], scale: str, gpu_use: str, budget: float) -> None:
    at_least(budget, "budget", 2, InvalidOption)
    if isinstance(kinds, str):
        raise InvalidOption(f"is {shown(kinds)}; it must be a sequence, such as ('over',)", "kinds")
    for value, known, key in (
        *((kind, MisreportKind, "kinds") for kind in kinds),
        (scale, ReportScale, "scale"),
        (gpu_use, GPUUse, "gpu_use"),
    ):
        if value not in get_args(known):
            raise InvalidOption(f"has {shown(value)}; it must be one of {', '.join(get_args(known))}", key)


class MisreportSearch:
    """The state of one search: the reports tried and their gains."""

    def __init__(
        self,
        instance: Instance,
        policy: Policy,
        budget: int,
        scale: ReportScale,
        gpu_use: GPUUse,
        seconds: float = math.inf,
        demand_limited: bool | None = None,
    ) -> None:
        self.deadline = time.perf_counter() + seconds
        self.instance, self.policy, self.left, self.gpu_use = instance, policy, budget - 1, gpu_use
        self.truthful = call_policy(policy, instance)[0]
        holdings(instance, self.truthful)  # raises for a result for other entities
        self.reports = ReportGenerator(instance, self.truthful.entities.kind, scale)
        self.truth = self.reports.entities
        self.most = most_at_once(self.truth, demand_limited)
        self.owners = self.truth.names if self.truth.kind == "jobs" else tuple(t.name for t in instance.tenants)
        self.before = self.rates(self.truthful)
        self.gains: dict[tuple[object, ...], tuple[float, Report]] = {}
        self.rejected = 0
        self.complete = True

    def positions(self, names: tuple[str, ...] | None) -> tuple[int, ...]:
        """Positions of the owners of these names; None: all."""
        for name in names or ():
            if name not in self.owners:
                raise InvalidOption(f"has {name!r}; it must be one of {', '.join(self.owners)}", "misreporting")
        return tuple(i for i, name in enumerate(self.owners) if names is None or name in names)

    def rates(self, result: Allocation | Plan) -> Floats:
        """(owners,) rates at true speeds; :meth:`after` adds the GPUs of a fake tenant."""
        gpus = result.gpu_array
        if self.most is not None:
            return rate_with(self.truth.per_gpu, gpus, self.most)
        rate = np.zeros(len(self.owners))
        for owner in range(len(self.owners)):
            theirs = gpus[result.entities.owner == owner]
            true = self.truth.per_gpu[self.truth.owner == owner]
            if self.gpu_use == "free reuse":
                rate[owner] = float(true.max(axis=0) @ theirs.sum(axis=0))
            else:
                rate[owner] = float((true * theirs[: len(true)]).sum())
        return rate

    def after(self, report: Report) -> tuple[Allocation | Plan, Floats]:
        """The result under a report, and the true rate of each owner."""
        result = call_policy(self.policy, self.reports.apply(report))[0]
        rate = self.rates(result)
        if report.kind == "tenant" and self.gpu_use == "free reuse":
            fake = result.gpu_array[result.entities.owner == len(self.owners)].sum(axis=0)
            true = self.truth.per_gpu[self.truth.owner == report.faker]
            rate[report.faker] += float(true.max(axis=0) @ fake)
        return result, rate

    def misreporting(self, report: Report) -> list[int]:
        """Positions of the owners whose speeds ``report`` changes."""
        if report.fake is not None:
            return [report.faker]
        return sorted({int(self.truth.owner[e]) for e in report.rows})

    def cluster_rate(self, owner: int) -> float:
        """An owner's rate with the whole cluster; 1 where it is 0."""
        if self.most is not None:
            return float(cluster_rate(self.truth.per_gpu, self.truth.capacity, self.most)[owner])
        best = self.truth.per_gpu[self.truth.owner == owner].max(axis=0, keepdims=True)
        return float(cluster_rate(best, self.truth.capacity)[0])

    def gain(self, report: Report) -> float:
        """Gain of the misreporting owner (of a coalition: the least), as a part of the rate with the whole cluster."""
        key = report.key()
        if key in self.gains:
            return self.gains[key][0]
        self.left -= 1
        try:
            _, rate = self.after(report)
            gain = min((rate[p] - self.before[p]) / self.cluster_rate(p) for p in self.misreporting(report))
        except (NotSolved, InvalidFormulation, InvalidInstance):  # a report that the policy rejects gains nothing
            self.rejected += 1
            gain = -math.inf
        self.gains[key] = (float(gain), report)
        return float(gain)

    def run(self, kinds: tuple[MisreportKind, ...], misreporting: tuple[int, ...]) -> None:
        """Try structured reports with two thirds of the budget, then a pattern search around the best."""
        reserve = self.left // 3
        for report in self.reports.all(kinds, misreporting):
            if self._spent(reserve):
                self.complete = False
                break
            self.gain(report)
        starts = self._starts()
        for place, report in enumerate(starts):
            self._climb(report, self.left // (len(starts) - place))

    def _spent(self, reserve: int) -> bool:
        return self.left <= reserve or time.perf_counter() > self.deadline

    def _starts(self) -> list[Report]:
        """The best of each kind, best first, then the best of all."""
        ranked = sorted(self.gains.values(), key=lambda item: -item[0])
        first: dict[str, Report] = {}
        for gain, report in ranked:
            if math.isfinite(gain):
                first.setdefault(report.kind, report)
        rest = [report for gain, report in ranked if math.isfinite(gain) and report not in first.values()]
        return [*first.values(), *rest][:STARTS]

    def _climb(self, report: Report, budget: int) -> None:
        """Move single entries up and down while the gain grows, with ever smaller steps, within the report's kind."""
        end = self.left - budget
        best = self.gain(report)
        for step in STEPS:
            moved = True
            while moved:
                moved = False
                for neighbour in self._neighbours(report, step):
                    if self._spent(max(end, 0)):
                        return
                    gain = self.gain(neighbour)
                    if gain > best:
                        report, best, moved = neighbour, gain, True
                        break

    def _neighbours(self, report: Report, step: float) -> Iterator[Report]:
        for factor in (1 + step, 1 / (1 + step)):
            for e, row in report.rows.items():
                way = direction(np.array(row), self.truth.speed[e])
                for changed in self._moved(e, row, factor):
                    if direction(np.array(changed), self.truth.speed[e]) == way:
                        yield Report(report.kind, {**report.rows, e: changed})
            if report.fake is not None:
                for fake in self._moved(self.reports.rows_of(report.faker)[0], report.fake, factor):
                    yield Report(report.kind, {}, fake, report.faker)

    def _moved(self, e: int, row: Row, factor: float) -> Iterator[Row]:
        for j in self.reports.rows.free(e):
            yield self.reports.rows.normal(e, (*row[:j], row[j] * factor, *row[j + 1 :]))

    def verdict(self, tolerance: float) -> Verdict:
        """The verdict, with the best misreport that a second call of the policy verifies as its witness."""
        tried: dict[str, int] = dict(Counter(report.kind for _, report in self.gains.values()))
        if not tried:
            return undecided(
                AuditProperty.STRATEGY_PROOF,
                "there is no misreport to try" if self.complete else "budget or time ended before the first try",
            )
        ranked = sorted((item for item in self.gains.values() if item[0] > tolerance), key=lambda item: -item[0])
        for gain, report in ranked:
            witness = self._verified(report, tolerance)
            if witness is not None:
                return Verdict(
                    AuditProperty.STRATEGY_PROOF,
                    False,
                    -gain,
                    witness,
                    PART,
                    self._summary(tried),
                    tolerance,
                    searched=tried,
                )
        best = max((gain for gain, _ in self.gains.values()), default=-math.inf)
        slack = 0.0 - best if math.isfinite(best) else math.nan
        why = f"no profitable misreport found, which proves nothing; {self._summary(tried)}"
        return Verdict(AuditProperty.STRATEGY_PROOF, None, slack, None, PART, why, tolerance, searched=tried)

    def _summary(self, tried: dict[str, int]) -> str:
        listed = ", ".join(f"{count} {kind}" for kind, count in tried.items())
        rest = "" if self.complete else "; budget or time ended before all structured reports were tried"
        rejected = f"; the policy rejected {self.rejected}" if self.rejected else ""
        return f"misreports tried: {listed}{rest}{rejected}"

    def _verified(self, report: Report, tolerance: float) -> Misreport | None:
        """The witness, if a second call of the policy gives the gain with a feasible allocation."""
        seen = self.reports.apply(report)
        result, rate = self.after(report)
        owners = self.misreporting(report)
        if any(rate[p] - self.before[p] <= tolerance * self.cluster_rate(p) for p in owners):
            return None
        if not all(capacity_verdict(holdings(i, r)).holds for i, r in ((self.instance, self.truthful), (seen, result))):
            return None
        names, types = self.truth.names, self.truth.types
        reported = {names[e]: dict(zip(types, row, strict=True)) for e, row in report.rows.items()}
        if report.fake is not None:
            reported[f"fake {report.kind} of {self.owners[report.faker]}"] = dict(zip(types, report.fake, strict=True))
        return Misreport(
            kind=report.kind,
            misreporting=tuple(self.owners[p] for p in owners),
            true={names[e]: dict(zip(types, self.truth.speed[e].tolist(), strict=True)) for e in report.rows},
            reported=reported,
            before={self.owners[p]: float(self.before[p]) for p in owners},
            after={self.owners[p]: float(rate[p]) for p in owners},
            truthful=_bundles(self.truthful),
            untruthful=_bundles(result),
        )


def _bundles(result: Allocation | Plan) -> dict[str, dict[str, Any]]:
    entities = result.entities
    return {name: bundle(entities.types, row) for name, row in zip(entities.names, result.gpu_array, strict=True)}
