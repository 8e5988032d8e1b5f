"""From fractional shares to whole GPUs, round after round, so that what is withheld now is repaid later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hetopt.checks import FrozenDict, at_least
from hetopt.data.entities import Entities, Floats, Owner, keys, members, owners, read_only
from hetopt.data.instance import Instance
from hetopt.errors import InvalidInstance, InvalidOption, InvalidPlan
from hetopt.programs.linear import LinearProgram
from hetopt.results.allocation import Allocation, Plan
from hetopt.solving.optimising import optimise
from hetopt.solving.options import Options
from hetopt.solving.policies import Policy, ask
from hetopt.tolerances import FEASIBILITY

TICKS = 720_720_000
"""Ticks of one GPU (or of one round of a job). A multiple of 1, 2, …, 16, so that small fractions are exact."""


Ints: TypeAlias = NDArray[np.int64]


Ledger: TypeAlias = Mapping[tuple[str, ...], int]
"""(tenant, job type, GPU type) or (job, GPU type) or (IDLE, GPU type) -> ticks owed; absent means 0."""


IDLE = ""
"""Stands for nobody, who gets the GPUs that are left idle. No entity can have this name."""


def to_ticks(gpus: Floats) -> Ints:
    """Shares in ticks; what is below zero by a solver's tolerance is zero."""
    return np.asarray(np.rint(np.maximum(gpus, 0.0) * TICKS), dtype=np.int64)


def promised_ticks(gpus: Floats, capacity: Floats, types: Sequence[str]) -> Ints:
    """(n + 1, k) ticks promised per round, the last row to nobody, so that each type sums to its capacity exactly.

    Parameters
    ----------
    gpus:
        (n, k) fractional GPUs.
    capacity:
        (k,) GPUs of each type.
    types:
        Names of the types, for the error.

    Raises
    ------
    InvalidPlan
        More is promised than there is, by more than a solver's tolerance.
    """
    table = np.vstack([to_ticks(gpus), np.zeros((1, len(capacity)), dtype=np.int64)])
    for k, name in enumerate(types):
        left = to_ticks(capacity[k : k + 1])[0] - table[:, k].sum()
        slack = FEASIBILITY * TICKS * capacity[k] + len(table)  # the solver's tolerance, and half a tick for each entry
        if left < -slack:
            raise InvalidPlan(f"the allocation has {gpus[:, k].sum():g} GPUs of {name!r}; there are {capacity[k]:g}")
        row = int(table[:, k].argmax()) if left < slack and table[:, k].any() else -1
        table[row, k] += left
    return table


def settled_to_zero(owed: Ints) -> Ints:
    """``owed`` made to sum to zero by shrinking the entries of the heavier sign in proportion; no entry grows.

    Needed where someone leaves with a deviation: what it was owed falls away, and with it what the others were ahead.
    """
    total = int(owed.sum())
    if total == 0:
        return owed
    side = np.where(np.sign(owed) == np.sign(total), owed, 0)
    cut = side * (abs(total) / abs(int(side.sum())))
    cut = np.where(side > 0, np.floor(cut), np.ceil(cut)).astype(np.int64)
    rest = total - int(cut.sum())
    for i in np.argsort(-np.abs(side), kind="stable"):  # the few ticks that rounding the cuts has left over
        take = int(np.sign(total)) * min(abs(rest), abs(int(side[i] - cut[i])))
        cut[i] += take
        rest -= take
        if rest == 0:
            break
    return np.asarray(owed - cut)


def read_ledger(ledger: Ledger | None, keys: Sequence[tuple[str, ...]], types: Sequence[str]) -> Ints:
    """(len(keys), k) ticks owed; those who are new are owed nothing."""
    if not ledger:
        return np.zeros((len(keys), len(types)), dtype=np.int64)
    return np.array([[ledger.get((*key, t), 0) for t in types] for key in keys], dtype=np.int64)


def write_ledger(owed: Ints, keys: Sequence[tuple[str, ...]], types: Sequence[str]) -> Ledger:
    """The ledger that :func:`read_ledger` reads; those who are owed nothing are left out."""
    return FrozenDict({(*keys[i], types[k]): int(owed[i, k]) for i, k in np.argwhere(owed).tolist()})


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
        share = promised_ticks(entities.gpus(allocation.x), entities.capacity, types)
        sizes = self._sizes(allocation, instance, capacity)
        unusable = _cut(share, sizes)
        before = read_ledger(state, names, types)
        owed = _owed_now(before, sizes)
        forgiven = np.abs(before - owed).sum()
        x = np.zeros_like(share)
        for k, seats in enumerate(capacity.tolist()):
            due = owed[:, k] + share[:, k]
            if all(len(size) in (1, seats + 1) for size in sizes[k]):
                x[:, k] = earliest_deadline(due, share[:, k], seats)
            else:
                x[:, k] = nearest(due / TICKS, sizes[k], seats)
        owed = owed + share - x * TICKS
        kept = np.clip(owed, -2 * TICKS * capacity, 2 * TICKS * capacity)
        forgiven += np.abs(owed - kept).sum()
        given_up = {"idle": float(x[-1].sum()), "unusable": unusable / TICKS, "forgiven": float(forgiven / TICKS)}
        plan = Plan(entities, x[:-1].astype(float), kept[:-1] / TICKS, given_up, allocation.certificate)
        return plan, write_ledger(kept, names, types)

    def _sizes(self, allocation: Allocation, instance: Instance, capacity: Ints) -> list[list[Ints]]:
        """For each type and tenant the numbers of GPUs that are usable."""
        if self.usable == "any" or not instance.jobs:
            return [[np.arange(most + 1) for _ in allocation.entities.names] for most in capacity.tolist()]
        demand = demands(allocation.entities, instance)
        rule = sums if self.usable == "sums" else at_least_the_smallest
        return [[_usable(rule, rows[k], most) for rows in demand] for k, most in enumerate(capacity.tolist())]


def _tenants(allocation: Allocation) -> Entities:
    if allocation.entities.kind != "tenants":
        raise InvalidOption("this rounder is for shares of tenants; for those of jobs take hetopt.WholeJobs")
    return allocation.entities


def _owed_now(owed: Ints, sizes: list[list[Ints]]) -> Ints:
    """Deviations that sum to zero per type, none of a tenant that can use nothing of the type."""
    owed = owed.copy()
    for k, possible in enumerate(sizes):
        owed[:-1, k][[len(size) == 1 for size in possible]] = 0
        owed[:, k] = settled_to_zero(owed[:, k])
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
class PrintedWholeGPUs:
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
        due = read_ledger(state, names, entities.types) + to_ticks(entities.gpus(allocation.x))
        x = np.maximum((2 * due + TICKS) // (2 * TICKS), 0)  # halves are rounded up
        if self.starvation_rule:
            demand = demands(entities, instance)
            least = np.array([[min(sizes, default=1) for sizes in rows] for rows in demand], dtype=np.int64)
            x = np.where(x < least, 0, x)
        owed = due - x * TICKS
        plan = Plan(entities, x.astype(float), owed / TICKS, {}, allocation.certificate)
        return plan, write_ledger(owed, names, entities.types)


@dataclass(frozen=True)
class WholeJobs:
    """Jobs' shares of time as rounds: each job runs on one GPU type or waits, gangs whole, capacity kept.

    Of the jobs that something is due to (share plus what is owed), those are run that together have the most GPUs
    due: max sum_jk demand[j]·due[j,k]·x[j,k]. As long as the shares are an average of packings, what is owed grows
    at most like sqrt(rounds): the packing chosen has at least the due GPUs of that average. (Gavel fills rounds
    greedily by share over rounds received, [Gavel, section 5]; this is the exact counterpart.)

    Parameters
    ----------
    most_owed:
        Rounds that a job can be owed at most per GPU type; more is forgiven. Shares that no sequence of packings
        reaches (two jobs of three GPUs on four) would pile up and be repaid at the cost of those who come later.
    time_limit:
        Seconds for the search, after which the best packing found is taken; None: until one is proven best.

    Raises
    ------
    InvalidOption
        ``most_owed`` is below 1; a time limit that is not positive.
    """

    most_owed: float = 4.0
    time_limit: float | None = 10.0

    def __post_init__(self) -> None:
        at_least(self.most_owed, "WholeJobs.most_owed", 1, InvalidOption)
        Options(time_limit=self.time_limit)  # refuses what is no limit

    def __call__(self, allocation: Allocation, instance: Instance, state: Ledger | None = None) -> tuple[Plan, Ledger]:
        """The jobs that run now, and what is owed from now on."""
        entities = allocation.entities
        if entities.kind != "jobs":
            raise InvalidOption("WholeJobs rounds shares of jobs; for those of tenants take hetopt.WholeGPUs")
        names = keys(entities, instance)
        due = read_ledger(state, names, entities.types) + to_ticks(allocation.x)
        x = most_due(entities, due / TICKS, Options(time_limit=self.time_limit))
        owed = due - np.rint(x).astype(np.int64) * TICKS
        kept = np.minimum(owed, int(self.most_owed * TICKS))
        gpus = entities.gpus(x)
        given_up = {
            "idle": float(entities.capacity.sum() - gpus.sum()),
            "forgiven": float(entities.gpus((owed - kept) / TICKS).sum()),
        }
        plan = Plan(entities, gpus, entities.gpus(kept / TICKS), given_up, allocation.certificate)
        return plan, write_ledger(kept, names, entities.types)


def most_due(entities: Entities, due: Floats, options: Options) -> Floats:
    """(n, k) zeros and ones: the packing, one GPU type per job, with the most due GPUs; only where something is due.

    Parameters
    ----------
    due:
        (n, k) rounds due to each job on each type.
    options:
        Of the search.
    """
    n, k = entities.shape
    open_ = (due > 0) & entities.allowed
    job, kind = np.nonzero(open_)
    if not len(job):
        return np.zeros((n, k))
    columns = np.arange(len(job))
    per_job = sparse.csr_array((np.ones(len(job)), (job, columns)), shape=(n, len(job)))
    per_type = sparse.csr_array((entities.demand[job], (kind, columns)), shape=(k, len(job)))
    program = LinearProgram.of(
        entities.demand[job] * due[job, kind],
        sparse.csc_array(sparse.vstack([per_job, per_type])),
        np.full(n + k, -np.inf),
        np.concatenate([np.ones(n), entities.capacity]),
        col_upper=1.0,
        integer=True,
    )
    x = np.zeros((n, k))
    x[job, kind] = np.rint(optimise(program, options).x)
    return x


Positions: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Received:
    """What :class:`ByPriority` remembers of the shares that are being given.

    Attributes
    ----------
    allocation:
        The shares.
    job, kind:
        (m,) positions of the pairs with a share, the larger share first, then the earlier job and type.
    share:
        (m,) their shares.
    rounds:
        (m,) rounds that each has run since these shares hold.
    number:
        Rounds since then.
    """

    allocation: Allocation
    job: Positions
    kind: Positions
    share: Floats
    rounds: Floats = field(repr=False)
    number: int = 0

    @classmethod
    def of(cls, allocation: Allocation) -> Received:
        """Nothing has been given yet."""
        job, kind = np.nonzero((allocation.x > 0) & allocation.entities.allowed)
        share = allocation.x[job, kind]
        order = np.lexsort((kind, job, -share))
        return cls(allocation, job[order], kind[order], share[order], np.zeros(len(order)))


@dataclass(frozen=True)
class ByPriority:
    """Jobs' shares of time as rounds, greedily by priority: Gavel's mechanism.

    The priority of job j on type k is ``x[j, k] / f[j, k]``, with f the part of the rounds in which j ran on k since
    the shares hold (infinite where it has not run there yet; the larger share first among equal priorities, then the
    earlier job, then the earlier type). In that order, jobs that do not run in this round yet and whose gang fits get
    their type. Types on which a job has no share are given to nobody: GPUs may stay idle. A new allocation starts the
    count anew. :class:`~hetopt.decisions.rounders.WholeJobs` is the exact counterpart, which searches each round.

    Raises
    ------
    InvalidOption
        When called: the allocation is over tenants.
    """

    def __call__(
        self, allocation: Allocation, instance: Instance, state: Received | None = None
    ) -> tuple[Plan, Received]:
        """The jobs that run now, and what they have received with that."""
        entities = allocation.entities
        if entities.kind != "jobs":
            raise InvalidOption("ByPriority rounds shares of jobs; for those of tenants take hetopt.WholeGPUs")
        if state is None or state.allocation is not allocation:
            state = Received.of(allocation)
        due = np.full(len(state.share), -np.inf)  # minus the priority: infinite where it has not run
        np.divide(-max(state.number, 1) * state.share, state.rounds, out=due, where=state.rounds > 0)
        order = np.argsort(due, kind="stable")
        chosen = order[_greedy(state.job[order], state.kind[order], entities)]
        gpus, rounds = np.zeros(entities.shape), state.rounds.copy()
        gpus[state.job[chosen], state.kind[chosen]] = entities.demand[state.job[chosen]]
        rounds[chosen] += 1
        idle = float(entities.capacity.sum() - gpus.sum())
        plan = Plan(entities, read_only(gpus), None, {"idle": idle}, allocation.certificate)
        return plan, Received(allocation, state.job, state.kind, state.share, rounds, state.number + 1)


def _greedy(job: Positions, kind: Positions, entities: Entities) -> list[int]:
    """Positions of the pairs, in order, whose job is not there yet and that fit."""
    free, taken, chosen = entities.capacity.tolist(), set[int](), []
    left = sum(free)
    for i, (j, k, need) in enumerate(zip(job.tolist(), kind.tolist(), entities.demand[job].tolist(), strict=True)):
        if need <= free[k] and j not in taken:
            free[k] -= need
            left -= need
            taken.add(j)
            chosen.append(i)
            if left <= 0:
                break
    return chosen


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
