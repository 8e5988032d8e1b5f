"""From fractional shares to whole GPUs, round after round, so that what is withheld now is repaid later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from typing import Any, Literal, Protocol, get_args

import numpy as np

from hetopt.checks import at_least
from hetopt.data.entities import Entities, Floats, Owner, keys, members, owners
from hetopt.data.instance import Instance
from hetopt.decisions import deviations
from hetopt.decisions import whole_gpus as gangs
from hetopt.decisions.deviations import IDLE, TICKS, Ints, Ledger
from hetopt.decisions.whole_jobs import WholeJobs
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.formulations.policies import Policy, ask
from hetopt.results.allocation import Allocation, Plan


def demands(entities: Entities, instance: Instance) -> list[list[list[int]]]:
    """For each tenants' row and GPU type the demands of its jobs that can run on that type.

    Raises
    ------
    InvalidInstance
        A job demands more GPUs than any type that it can run on has.
    """
    if not instance.jobs:
        return [[[] for _ in entities.types] for _ in entities.names]
    jobs, belongs, names = instance.entities("jobs"), members(instance), owners(instance)
    usable = jobs.allowed
    for i in np.flatnonzero(~usable.any(axis=1)).tolist():
        raise InvalidInstance(
            f"jobs[{jobs.names[i]!r}].demand is {int(jobs.demand[i])} GPUs, more than any GPU type that it can run on "
            f"has; the largest has {int(jobs.capacity[jobs.task_speed[i] > 0].max())}"
        )
    sizes = jobs.demand.astype(int).tolist()
    own: list[Owner] = [names[name] for name in entities.names]
    return [[[sizes[i] for i in belongs[o] if usable[i, k]] for k in range(len(entities.types))] for o in own]


def at_least_the_smallest(demand: Sequence[int], most: int) -> Ints:
    """No GPUs, or enough for the smallest gang: OEF's starvation rule. Without any gang everything is usable."""
    return np.array([0, *range(min(demand), most + 1)] if demand else range(most + 1), dtype=np.int64)


def sums(demand: Sequence[int], most: int) -> Ints:
    """Numbers of GPUs that some of the gangs fill exactly (sums of distinct gangs), at most ``most``."""
    reachable, mask = 1, (1 << (most + 1)) - 1  # bit s: s GPUs can be filled
    for gang in demand:
        reachable |= (reachable << gang) & mask
    return np.array([s for s in range(most + 1) if reachable >> s & 1], dtype=np.int64)


def nearest(target: Floats, sizes: Sequence[Ints], seats: int) -> Ints:
    """The point x with x[e] among ``sizes[e]``, all ``seats`` given, that minimises sum_e (target[e] - x[e])².

    Parameters
    ----------
    target:
        (n + 1,) GPUs due now (they may be negative); the last entry is nobody's, for whom every number is possible.
    sizes:
        n arrays of possible numbers of GPUs, each with 0.
    seats:
        GPUs of the type.

    Returns
    -------
    Ints
        (n + 1,) whole GPUs that sum to ``seats``.

    Notes
    -----
    Dynamic programme over the seats used by the first e entities: exact. If the promised shares are an average of
    possible points, the squared deviation grows by at most the points' squared diameter D² per round (the nearest
    point is at least as near as the average over those points), so that the deviation is at most D·sqrt(rounds).
    """
    best = np.full(seats + 1, np.inf)
    best[0] = 0.0
    chosen: list[Ints] = []
    for due, possible in zip(target[:-1], sizes, strict=True):
        cost = np.full((len(possible), seats + 1), np.inf)
        for row, size in zip(cost, possible.tolist(), strict=True):
            row[size:] = best[: seats + 1 - size] + (due - size) ** 2
        pick = cost.argmin(axis=0)
        best = cost[pick, np.arange(seats + 1)]
        chosen.append(possible[pick])
    used = int(np.argmin(best + (target[-1] - (seats - np.arange(seats + 1))) ** 2))
    x = np.zeros(len(target), dtype=np.int64)
    x[-1] = seats - used
    for e in range(len(chosen) - 1, -1, -1):
        x[e] = chosen[e][used]
        used -= int(x[e])
    return x


Usable = Literal["any", "smallest", "sums"]


class Rounder(Protocol):
    """Turns shares into whole GPUs and remembers what it owes."""

    def __call__(self, allocation: Allocation, instance: Instance, state: Any = None) -> tuple[Plan, Any]:
        """The plan of this round, and the state for the next."""
        ...


@dataclass(frozen=True)
class WholeGPUs:
    """Tenants' shares in whole GPUs, never more than there are: [OEF, section 4.3] made to respect capacity.

    Every round and type, what is due to a tenant is its share plus what it is owed. GPUs that the allocation gives
    to nobody are due to nobody, who is treated like a tenant; so all GPUs of a type are handed out and the
    deviations (nobody's included) sum to zero, exactly.

    Where every number of GPUs is usable, the next GPU goes to the one whose next whole GPU falls due first
    (earliest deadline; Tijdeman's and Pfair schedules), and to none before it is due in part. Every deviation is
    above -1; for shares that have been the same since nobody was owed anything, also below 1. Where gangs need
    several GPUs, the nearest usable point is taken (:func:`nearest`); deviations then grow at most like sqrt(rounds),
    and none is let beyond twice the GPUs of the type: what no gang could ever use would otherwise pile up and be
    repaid at the cost of those who come later.

    Parameters
    ----------
    usable:
        ``"smallest"`` (default): no GPUs, or at least what the tenant's smallest job needs (OEF's starvation rule).
        ``"sums"``: only numbers that some of the tenant's jobs fill exactly. ``"any"``: every number.
        Where the instance has no jobs at all, every number is usable; else a tenant without jobs can use none.

    Raises
    ------
    InvalidOption
        Another ``usable``.
    InvalidInstance
        When called: a job demands more GPUs than any type that it can run on has.
    InvalidPlan
        When called: the allocation promises more GPUs than there are.
    """

    usable: Usable = "smallest"

    def __post_init__(self) -> None:
        if self.usable not in get_args(Usable):
            raise InvalidOption(f"usable is {self.usable!r}; it must be one of {', '.join(get_args(Usable))}")

    def __call__(self, allocation: Allocation, instance: Instance, state: Ledger | None = None) -> tuple[Plan, Ledger]:
        """Whole GPUs of this round, and what is owed from now on."""
        entities = _tenants(allocation)
        types, capacity = entities.types, np.rint(entities.capacity).astype(np.int64)
        names = [*keys(entities, instance), (IDLE,)]
        share = deviations.promised(entities.gpus(allocation.x), entities.capacity, types)
        sizes = self._sizes(allocation, instance, capacity)
        unusable = _cut(share, sizes)
        before = deviations.read(state, names, types)
        owed = _settled(before, sizes)
        forgiven = np.abs(before - owed).sum()
        x = np.zeros_like(share)
        for k, seats in enumerate(capacity.tolist()):
            due = owed[:, k] + share[:, k]
            if all(len(size) in (1, seats + 1) for size in sizes[k]):
                x[:, k] = earliest_deadline(due, share[:, k], seats)
            else:
                x[:, k] = gangs.nearest(due / TICKS, sizes[k], seats)
        owed = owed + share - x * TICKS
        kept = np.clip(owed, -2 * TICKS * capacity, 2 * TICKS * capacity)
        forgiven += np.abs(owed - kept).sum()
        given_up = {"idle": float(x[-1].sum()), "unusable": unusable / TICKS, "forgiven": float(forgiven / TICKS)}
        plan = Plan(entities, x[:-1].astype(float), kept[:-1] / TICKS, given_up, allocation.certificate)
        return plan, deviations.write(kept, names, types)

    def _sizes(self, allocation: Allocation, instance: Instance, capacity: Ints) -> list[list[Ints]]:
        """For each type and tenant the numbers of GPUs that are usable."""
        if self.usable == "any" or not instance.jobs:
            return [[np.arange(most + 1) for _ in allocation.entities.names] for most in capacity.tolist()]
        demand = gangs.demands(allocation.entities, instance)
        rule = gangs.sums if self.usable == "sums" else gangs.at_least_the_smallest
        return [[_usable(rule, rows[k], most) for rows in demand] for k, most in enumerate(capacity.tolist())]


def _tenants(allocation: Allocation) -> Entities:
    if allocation.entities.kind != "tenants":
        raise InvalidOption("this rounder is for shares of tenants; for those of jobs take hetopt.WholeJobs")
    return allocation.entities


def _settled(owed: Ints, sizes: list[list[Ints]]) -> Ints:
    """Deviations that sum to zero per type, none of a tenant that can use nothing of the type."""
    owed = owed.copy()
    for k, possible in enumerate(sizes):
        owed[:-1, k][[len(size) == 1 for size in possible]] = 0
        owed[:, k] = deviations.settled(owed[:, k])
    return owed


def _usable(rule: Any, demand: list[int], most: int) -> Ints:
    """Nothing is usable on a type on which none of the tenant's jobs runs."""
    return np.asarray(rule(demand, most)) if demand else np.zeros(1, dtype=np.int64)


def _cut(share: Ints, sizes: list[list[Ints]]) -> float:
    """Hand to nobody what is promised above the largest usable number, in place; the ticks cut."""
    total = 0
    for k, possible in enumerate(sizes):
        most = np.array([size[-1] for size in possible], dtype=np.int64) * TICKS
        over = np.maximum(share[:-1, k] - most, 0)
        share[:-1, k] -= over
        share[-1, k] += over.sum()
        total += int(over.sum())
    return float(total)


def earliest_deadline(due: Ints, share: Ints, seats: int) -> Ints:
    """Give each of ``seats`` GPUs to the one whose next whole GPU falls due first.

    Parameters
    ----------
    due:
        (n,) ticks due now: owed before plus the share of this round. They sum to ``seats`` GPUs.
    share:
        (n,) ticks per round.

    Returns
    -------
    Ints
        (n,) GPUs that sum to ``seats``.

    Notes
    -----
    The c-th GPU of e may be given once more than c - 1 are due (release) and falls due after ceil((c - due) / share)
    more rounds (deadline). Unit jobs with whole release times and deadlines on identical machines: earliest deadline
    first meets all deadlines if any schedule does, and for constant shares one does (the fractional shares are a flow
    with these bounds, so a whole one exists). Released GPUs never run out, since ``due`` sums to ``seats``.
    """
    x = np.zeros(len(due), dtype=np.int64)
    part = share.tolist()

    def rank(e: int, missing: int) -> tuple[int, int, int]:
        """(rounds until due, ticks missing until due, position); what is overdue goes by how much."""
        if missing <= 0:
            return 0, missing, e
        return -(-missing // part[e]) if part[e] else TICKS, missing, e

    line = [rank(e, TICKS - d) for e, d in enumerate(due.tolist()) if d > 0]
    heapify(line)
    for _ in range(seats):
        _, missing, e = line[0]
        x[e] += 1
        more = missing + TICKS
        heapreplace(line, rank(e, more) if missing < 0 else (2 * TICKS, more, e))
    return x


@dataclass(frozen=True)
class AsPrinted:
    """OEF's rule as printed, for study: round(share + deviation), and nothing below the smallest demand.

    It keeps every deviation within 1/2 (without the starvation rule) but not the capacity: two tenants with half of
    one GPU each get one each. The simulator refuses such a plan.

    Parameters
    ----------
    starvation_rule:
        Nothing instead of less than the tenant's smallest job needs, [OEF, section 4.3].
    """

    starvation_rule: bool = True

    def __call__(self, allocation: Allocation, instance: Instance, state: Ledger | None = None) -> tuple[Plan, Ledger]:
        """Whole GPUs of this round, and the deviations."""
        entities = _tenants(allocation)
        names = keys(entities, instance)
        due = deviations.read(state, names, entities.types) + deviations.to_ticks(entities.gpus(allocation.x))
        x = np.maximum((2 * due + TICKS) // (2 * TICKS), 0)  # halves are rounded up
        if self.starvation_rule:
            demand = gangs.demands(entities, instance)
            least = np.array([[min(sizes, default=1) for sizes in rows] for rows in demand], dtype=np.int64)
            x = np.where(x < least, 0, x)
        owed = due - x * TICKS
        plan = Plan(entities, x.astype(float), owed / TICKS, {}, allocation.certificate)
        return plan, deviations.write(owed, names, entities.types)


@dataclass(frozen=True)
class ByKind:
    """Tenants' allocations by one rounder, jobs' by another: the simulator's default.

    Parameters
    ----------
    tenants, jobs:
        The rounders.
    """

    tenants: Rounder = field(default_factory=WholeGPUs)
    jobs: Rounder = field(default_factory=WholeJobs)

    def __call__(self, allocation: Allocation, instance: Instance, state: Any = None) -> tuple[Plan, Any]:
        """The plan by the rounder for the allocation's kind."""
        rounder = self.tenants if allocation.entities.kind == "tenants" else self.jobs
        return rounder(allocation, instance, state)


@dataclass(frozen=True)
class Rounded:
    """A policy that rounds the allocations of another policy; its state holds the states of both.

    Parameters
    ----------
    policy:
        A formulation or any policy; what already is a plan is passed on.
    rounder:
        How to round.
    round_seconds:
        Length of a round in seconds; None: what ``policy`` says, if it says anything.

    Raises
    ------
    InvalidOption
        ``round_seconds`` is not positive.
    """

    policy: Policy
    rounder: Rounder = field(default_factory=ByKind)
    round_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.round_seconds is None:
            object.__setattr__(self, "round_seconds", getattr(self.policy, "round_seconds", None))
        if self.round_seconds is not None:
            at_least(self.round_seconds, "Rounded.round_seconds", 0.0, InvalidOption, strict=True)

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Plan, tuple[Any, Any]]:
        """The rounded result, and (policy's state, rounder's state)."""
        own, owed = state if state is not None else (None, None)
        result, own = ask(self.policy, instance, own)
        if isinstance(result, Plan):
            return result, (own, owed)
        plan, owed = self.rounder(result, instance, owed)
        return plan, (own, owed)
