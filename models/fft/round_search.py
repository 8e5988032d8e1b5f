"""Least cost of an FFT round: cores of jobs by knapsack bounds, searched by dynamic programming with a limited width.

1. Prices of GPUs from the linear relaxation (:mod:`hetopt.models.fft.gpu_prices`), and a knapsack over the jobs that
   run (:mod:`hetopt.models.fft.running_jobs`), bound the cost, and the loss if a job runs on a type or waits. The
   places of least loss form a core; the other jobs wait, or run where they lose least. The first plan is rounded
   (:mod:`hetopt.models.fft.rounded_plan`); where the core for the proof would be large, an ascent over most places
   comes first, and where its tables would be large, a search of parts of the round.
2. Prices of the jobs improve the bound of the core (:mod:`hetopt.models.fft.job_prices`). The numbers of gangs that the
   knapsacks choose on the way are those of plans, which a transportation problem makes cheapest. Places whose knapsack
   bound is not below the target, the best cost known less the gap, leave the core, which shrinks to some dozen jobs.
3. The jobs of the core are decided one by one. A state is the number of GPUs left on each type: of two states with the
   same numbers, only the cheaper one is kept (dynamic programming), and states whose bound is not below the target are
   cut. If more states than the width remain, those with the least bounds are kept, and the least bound of the others
   limits what is proven. A search that drops none proves its core. Where the widest does not, and in cores of many jobs
   with few sizes of gangs, an integer program in the numbers of gangs does (:mod:`hetopt.models.fft.gang_counts`).

A wider core and a larger width follow until the gap is proven. No step assumes anything about the order, the prices or
the core: these decide only how long it takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, takewhile

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.models.fft.gang_counts import CountProgram
from hetopt.models.fft.job_prices import STEPS, ascended
from hetopt.models.fft.knapsacks import LARGEST, Core, Losses
from hetopt.models.fft.rounded_plan import improved, rounded
from hetopt.models.fft.running_jobs import losses_by_running
from hetopt.solving.blocks import Flags
from hetopt.tolerances import PROVEN

FAST, BOUNDED = 30_000_000, 300_000_000
"""Steps of a bound (0.1 and 1 s) from which parts of the round are searched before, and up to which cores are bounded.
"""

LARGE = 8_000
"""Places up to which the second core has all that may be needed. Larger cores are not searched for a plan of which it
is not known that it exists."""

NARROW = 500
"""Places in the first core, besides the best ones of jobs that run."""

WIDER = 4
"""Growth of the number of places if no good plan is in the core."""

FIRST, FIRST_STEPS, AIM = 32_000, 20, 0.1
"""Places of the core for a first plan, steps of the ascent on it, and part of the bound by which the target exceeds it.
"""

STARTING_WIDTH = 300
"""Width of the searches for a first plan."""

WIDTH, WIDEST = 1_000, 16_000
"""First and last width of the searches that prove the gap."""

GROWTH = 4
"""Growth of the width if states were dropped."""

SMALL = 2_000
"""Places up to which HiGHS proves the whole program faster than the numbers of gangs, if these are not few."""

STAYS = 0.7
"""Part of the jobs that are left if a core has not become much smaller."""

EFFORT = 500_000
"""States after which a search is given up: about half a second."""


@dataclass(frozen=True, eq=False)
class Round:
    """A round as arrays.

    Attributes
    ----------
    cost:
        (n, k) cost of each job on each type; infinite where it cannot run.
    demand:
        (n,) GPUs of each gang.
    room:
        (k,) GPUs of each type.
    idle:
        Number of GPUs that stay idle in all.
    price:
        (k,) costs that a GPU of each type saves; any prices are valid.
    """

    cost: Floats
    demand: Positions
    room: Positions
    idle: int
    price: Floats

    @cached_property
    def _reduced(self) -> Floats:
        return np.asarray(self.cost - self.demand[:, None] * self.price)

    @cached_property
    def relaxed(self) -> Losses:
        """The bound in which each job runs where its reduced cost is least, or waits, and its losses.

        The used GPUs cost least where those of the highest price are idle. Losses are infinite where a job cannot run.
        """
        waits = np.maximum(0.0, -self._reduced.min(axis=1))
        bound = float(self.price @ self.room) - self.idle * float(self.price.max()) - float(waits.sum())
        return Losses(bound, self._reduced + waits[:, None], waits)

    def worth(self, choice: Positions) -> tuple[float, float]:
        """Cost of a plan, and the sum of its costs without their signs."""
        runs = np.flatnonzero(choice >= 0)
        costs = self.cost[runs, choice[runs]]
        return float(costs.sum()), float(np.abs(costs).sum())

    @cached_property
    def whole(self) -> Core:
        """All places."""
        return Core(self.cost, self.demand, self.room, self.idle, np.arange(len(self.demand)))

    @cached_property
    def losses(self) -> Losses:
        """A better bound, and by how much it grows if a job runs on a type, or waits."""
        return self._by_running[0]

    @cached_property
    def first_plan(self) -> Positions | None:
        """(n,) type of each job in a plan near the relaxation, -1 where it waits, or None."""
        losses, runs = self._by_running
        if losses.bound == np.inf or self.demand[runs].sum() != self.room.sum() - self.idle:
            return None
        near = rounded(losses.runs, losses.waits, self.demand, self.room, runs)
        return None if near is None else self.polished(near)

    def polished(self, choice: Positions) -> Positions:
        """A plan of at most the cost of this one: by exchanges, and by the cheapest jobs for its numbers of gangs."""
        while True:
            choice = improved(self.cost, self.demand, choice)
            cheapest = self.whole.with_numbers(self.whole.numbers_of(choice), choice)
            if cheapest is None or self.worth(cheapest)[0] >= self.worth(choice)[0]:
                return choice
            choice = cheapest

    @cached_property
    def _by_running(self) -> tuple[Losses, Flags]:
        return losses_by_running(self._reduced, self.demand, int(self.room.sum()) - self.idle, self.relaxed.bound)

    def core(self, width: float) -> Core | None:
        """The places of at most this loss; None if they cannot hold all jobs that must run."""
        _, runs, waits = self.losses
        return self.whole.restricted((runs <= width) & np.isfinite(self.cost), waits > width)

    @cached_property
    def job_prices(self) -> Floats:
        """(n,) prices of the jobs with which the knapsacks bound the cost at least as well as the prices of GPUs."""
        return np.asarray(self.relaxed.waits - (self.price.max() * self.demand if self.idle else 0.0))

    @cached_property
    def units(self) -> Floats:
        """(n,) units of the prices in an ascent: how much it matters for the bound where a job is."""
        _, runs, waits = self.relaxed
        least = runs.min(axis=1, initial=np.inf)
        return np.asarray(waits + np.where(np.isfinite(least), least, 0.0) / 2)


@dataclass(frozen=True, eq=False)
class Found:
    """Result of a search.

    Attributes
    ----------
    choice:
        (n,) type of each job, -1 where it waits; None if no plan was found.
    cost, bound:
        Cost of the plan (infinite without one), and a proven lower bound on the cost of every plan.
    passes:
        Number of searches.
    method:
        ``"knapsacks"``, or ``"counting"`` if the bound may be that of an integer program.
    """

    choice: Positions | None
    cost: float
    bound: float
    passes: int
    method: str = "knapsacks"


def solve(
    round_: Round,
    gap: float,
    deadline: float | None = None,
    start: Positions | None = None,
    bound: float = -np.inf,
    *,
    feasible: bool = True,
) -> Found:
    """The cheapest plan, proven up to ``gap`` times the sum of its costs and gains without their signs.

    It is proven to less if the deadline (of ``time.perf_counter``) comes first or the largest width does not suffice.

    Parameters
    ----------
    start:
        (n,) type of each job in a good plan, or None.
    bound:
        A lower bound on the cost.
    feasible:
        Whether a plan is known to exist; else only small cores are searched for one.
    """
    search = _Search(round_, gap, deadline, start, feasible)
    search.bound = max(search.bound, bound)
    return search.run()


class _Search:
    def __init__(
        self, round_: Round, gap: float, deadline: float | None, start: Positions | None, feasible: bool
    ) -> None:
        self.round, self.gap, self.deadline, self.feasible = round_, gap, deadline, feasible
        self.choice: Positions | None = None
        self.cost, self.slack, self.bound = np.inf, 0.0, round_.losses.bound
        _, runs, waits = round_.losses
        certain = (runs <= 0) & (waits > 0)[:, None]  # best places of running jobs: in every core
        self.widths = np.sort(np.append(runs[np.isfinite(runs) & ~certain], waits[waits > 0]))
        self.passes, self.method = 0, "knapsacks"
        self.prices = round_.job_prices.copy()
        # parts of the round with small tables; each is searched once
        self.parts = takewhile(lambda part: part.knapsacks.cells <= LARGEST, self._narrowed(round_.whole))
        if start is not None:
            self._take(start)

    def run(self) -> Found:
        """Search growing cores until the gap is proven."""
        if self.choice is None and not self._is_late():
            self._first()
        many = NARROW
        while not self._is_done():
            is_last = self._explore(many)
            if is_last or (self.choice is None and not self.feasible and many >= LARGE):
                break
            many = self.needed if self.needed <= LARGE else many * WIDER
        return Found(self.choice, self.cost, min(self.bound, self.cost), self.passes, self.method)

    def _is_done(self) -> bool:
        return self.bound >= self.target or self._is_late()

    def _is_late(self) -> bool:
        return self.deadline is not None and time.perf_counter() >= self.deadline

    @property
    def target(self) -> float:
        """Plans of at least this cost need not be found."""
        return self.cost - self.slack

    @property
    def needed(self) -> int:
        """Number of places that a plan below the target may have."""
        return int(np.searchsorted(self.widths, self.target - self.round.losses.bound))

    @property
    def _alternate(self) -> int:
        """The first two orders of :func:`_order` in turn."""
        return self.passes % 2

    def _explore(self, many: int) -> bool:
        """Search the core of this many places; whether it was the last one."""
        round_ = self.round
        width = float(self.widths[many]) if many < len(self.widths) else np.inf
        largest = self.target - round_.losses.bound
        if np.isfinite(largest):
            width = min(max(width, 2 * self.slack), largest)
        is_last = width >= largest or not np.isfinite(width)
        core = round_.core(width)
        if core is not None and (steps := core.knapsacks.steps) > FAST:
            if self._improves_by_parts():
                return False
            if steps > BOUNDED:
                return True
        limit = min(round_.losses.bound + width, self.target)
        if core is not None:
            proven = self._prove(core, limit, is_last)
            if proven < limit:
                self.bound = max(self.bound, proven)
                return is_last
        self.bound = max(self.bound, min(limit, self.cost))
        return is_last

    def _prove(self, core: Core, limit: float, is_last: bool) -> float:
        """A bound on all plans in the core; better plans are taken on the way."""
        prices = self.prices[core.jobs]
        bound, _ = core.knapsacks.bound(prices)
        if not np.isfinite(bound):
            return np.inf
        if self.choice is None:
            if (program := CountProgram(core)).preferred:
                return min(self._count(program), limit)
            self._start(core, prices, chain(_best_places(core, prices), [core]), range(1))
        limit = min(limit, self.target)
        if self.choice is not None:  # the rest proves no more than the limit
            if (smaller := _shrunk(core, prices, limit)) is None:
                return limit
            core, prices = smaller
        aim = limit if np.isfinite(limit) else bound + float(self.round.relaxed.waits[core.jobs].sum())
        bound, prices = self._ascended(core, prices, aim)
        if not np.isfinite(bound):
            return limit
        if (self.passes <= 1 and bound < limit) or self.choice is None:
            self._start(core, prices, chain(_best_places(core, prices), [core]), range(ORDERS))
        return self._shrink(core, prices, bound, limit, is_last) if self.choice is not None else min(bound, limit)

    def _shrink(self, core: Core, prices: Floats, proven: float, limit: float, is_last: bool) -> float:
        """:meth:`_prove` with a plan and a bound: smaller and smaller parts of the core are searched."""
        width = WIDTH
        while proven < (limit := min(limit, self.target)) and not self._is_late():
            smaller = _shrunk(core, prices, limit)
            if smaller is None:
                return limit
            stays = len(smaller[0].demand) > STAYS * len(core.demand)
            core, prices = smaller
            if stays and (program := CountProgram(core)).preferred:
                return min(max(proven, self._count(program)), limit)
            bound, prices = self._ascended(core, prices, limit)
            if bound >= limit:
                return limit
            if self._improves(core, prices):
                continue
            proven = max(proven, bound, self._search(core, prices, self._alternate, width, limit))
            if not is_last:
                break
            program = CountProgram(core)
            if program.few and proven < min(limit, self.target):
                return min(max(proven, self._count(program)), limit)
            if width >= WIDEST:
                if core.cost.size > SMALL:
                    return min(max(proven, self._count(program)), limit)
                break
            width *= GROWTH
        return min(proven, limit)

    def _first(self) -> None:
        """Search for a first plan: near the relaxation, and if it is not good, on an ascent."""
        round_ = self.round
        if (plan := round_.first_plan) is not None:
            self._take(plan)
        if self._is_done():
            return
        core = round_.core(float(self.widths[FIRST]) if len(self.widths) > FIRST else np.inf)
        if core is None or core.knapsacks.cells > LARGEST:
            return
        prices = self.prices[core.jobs]
        bound, _ = core.knapsacks.bound(prices)
        if not np.isfinite(bound):
            return
        aim = bound + AIM * abs(bound)
        if self.choice is None:
            self._ascended(core, prices, aim, 1)
            self._start(core, prices, islice(self._narrowed(core), 1), range(1))
        aim = min(self.target, aim)
        if bound >= aim or self.needed <= WIDER * NARROW:
            return
        _, prices = self._ascended(core, prices, aim, FIRST_STEPS)
        self.prices[core.jobs] = prices
        for narrow in islice(_best_places(core, prices), 2):
            if not self._is_done():
                self._search(narrow, narrow.part_of(core, prices), self._alternate, STARTING_WIDTH, self.cost)

    def _narrowed(self, core: Core) -> Iterator[Core]:
        """Growing parts of the core around the places of least loss."""
        _, runs, waits = self.round.losses
        return _narrowed(core, runs[core.jobs], waits[core.jobs])

    def _improves_by_parts(self) -> bool:
        """Whether the parts of the round that were not searched yet contain a better plan, which then is taken."""
        before = self.cost
        for narrow in self.parts:
            self._start(self.round.whole, self.prices, [narrow], range(ORDERS))
            if self._is_done():
                break
        return self.cost < before

    def _start(self, core: Core, prices: Floats, cores: Iterable[Core], orders: Sequence[int]) -> None:
        """Search the first of the ``cores``, parts of ``core``, that contains a plan."""
        for narrow in cores:
            own = narrow.part_of(core, prices)
            bound, _ = narrow.knapsacks.bound(own)
            for order in orders if np.isfinite(bound) else ():
                if self.cost - bound > self.slack:
                    self._search(narrow, own, order, STARTING_WIDTH, self.cost)
            if self.choice is not None or self._is_late():
                break

    def _ascended(self, core: Core, prices: Floats, aim: float, steps: int = STEPS) -> tuple[float, Floats]:
        """A better bound and its prices; takes the cheapest plans with the numbers of gangs that knapsacks choose."""
        near = np.full(len(core.demand), -1)

        def take(chosen: Flags) -> float:
            nonlocal near
            numbers = [chosen[jobs].sum(axis=0) for _, jobs in core.by_demand]
            if (choice := core.with_numbers(numbers, near)) is not None:
                near = choice
                self._take_in(core, choice)
            return self.target

        return ascended(core, prices, self.round.units[core.jobs], aim, take, self._is_late, steps)

    def _improves(self, core: Core, prices: Floats) -> bool:
        """Whether the places of least loss in a large core contain a better plan, which then is taken."""
        before = self.cost
        for narrow in _best_places(core, prices):
            if self.cost == before and not self._is_late():
                self._search(narrow, narrow.part_of(core, prices), self._alternate, STARTING_WIDTH, before)
        return self.cost < before

    def _search(self, core: Core, prices: Floats, order: int, width: int, target: float) -> float:
        """Search the core; the bound on its plans that this proves."""
        if core.knapsacks.cells > LARGEST:
            return -np.inf  # as if given up
        self.passes += 1
        bound, choice = searched(core, prices, _order(core, prices, order), width, target, self._is_late, EFFORT)
        self._take_in(core, choice)
        return bound

    def _count(self, program: CountProgram) -> float:
        """Solve the program of a core; the bound on its plans that this proves."""
        self.passes, self.method = self.passes + 1, "counting"
        free = abs(self.target - program.core.base)
        gap = min(self.slack / max(free, self.slack), 1.0) if self.slack > 0 else self.gap
        seconds = None if self.deadline is None else max(self.deadline - time.perf_counter(), PROVEN)
        bound, choice = program.solve(gap, seconds)
        self._take_in(program.core, choice)
        return bound

    def _take_in(self, core: Core, choice: Positions | None) -> None:
        """Keep this plan of a core if it is the best so far."""
        if choice is not None:
            plan = np.full(len(self.round.demand), -1)
            for e, i in core.fixed:
                plan[e] = i
            plan[core.jobs] = choice
            self._take(plan)

    def _take(self, choice: Positions) -> None:
        """Keep this plan if it is the best so far."""
        cost, size = self.round.worth(choice)
        if cost < self.cost:
            self.choice, self.cost, self.slack = choice, cost, max(self.gap, PROVEN) * size


ORDERS = 3
"""Number of orders in which jobs are decided."""


def _order(core: Core, prices: Floats, which: int) -> Positions:
    """The surest jobs first (0: per GPU, 1: times GPUs), or the largest gangs (2), so that flexible ones fill gaps."""
    value = (core.cost + prices[:, None]).min(axis=1)
    sure = np.maximum(prices, value)
    key = (sure / core.demand, sure * core.demand, core.demand)[which]
    return np.argsort(-key, kind="stable")


def _best_places(core: Core, prices: Floats) -> Iterator[Core]:
    """Growing parts of the core around the places of least loss in the knapsacks."""
    if np.isfinite(core.cost).sum() > 2 * NARROW:
        _, runs, waits = core.knapsacks.losses(prices)
        yield from _narrowed(core, runs, waits)


def _narrowed(core: Core, runs: Floats, waits: Floats) -> Iterator[Core]:
    """Growing cores around the places of least loss: for each demand and type, some jobs may enter and some may leave.

    One limit on all losses would leave no choice on types where all jobs cost much, or no other on those where they
    cost little.

    Parameters
    ----------
    runs, waits:
        Loss (m, k) if a job runs on a type, and (m,) if it waits.
    """
    places, many = np.isfinite(core.cost), NARROW
    least = np.minimum(runs.min(axis=1), waits)
    if np.isinf(least).any():
        return  # a job can neither run nor wait: there is no plan
    best = (np.arange(runs.shape[1]) == runs.argmin(axis=1)[:, None]) & (waits > least)[:, None]
    enters = np.where(best, np.inf, runs - least[:, None])
    leaving = np.minimum(enters.min(axis=1), waits - least)
    enter_rank, leave_rank = _ranks(core, enters), _ranks(core, np.where(best, leaving[:, None], np.inf))
    while places.sum() > 2 * many:
        number = max(1, many // (2 * len(core.by_demand) * len(core.room)))
        stays = (best & (leave_rank >= number)).any(axis=1)
        allowed = (best | ((enter_rank < number) & ~stays[:, None])) & places
        for needed in (stays, np.zeros_like(stays)):
            narrow = core.restricted(allowed, needed)
            if narrow is not None:
                yield narrow
                break
        many *= WIDER


def _ranks(core: Core, key: Floats) -> Positions:
    """(m, k) rank of each place among those of the same demand and type."""
    ranks = np.empty(key.shape, dtype=np.intp)
    for _, jobs in core.by_demand:
        ranks[jobs] = np.argsort(np.argsort(key[jobs], axis=0), axis=0)
    return ranks


def _shrunk(core: Core, prices: Floats, limit: float) -> tuple[Core, Floats] | None:
    """The core without places where no plan costs less than ``limit``, and the prices of its jobs; None if empty."""
    bound, runs, waits = core.knapsacks.losses(prices)
    room = limit - bound
    if room <= 0:
        return None
    smaller = core.restricted((runs < room) & np.isfinite(core.cost), waits >= room)
    return None if smaller is None else (smaller, smaller.part_of(core, prices))


def searched(
    core: Core,
    prices: Floats,
    order: Positions,
    width: int,
    target: float,
    is_late: Callable[[], bool] = lambda: False,
    effort: float = np.inf,
) -> tuple[float, Positions | None]:
    """The cheapest plan below ``target`` that a search of this width finds, and a bound on all plans of the core.

    Returns
    -------
    tuple
        The bound, at most ``target``; (m,) the type of each job, -1 where it waits, or None without such a plan.
    """
    sack, k = core.knapsacks, len(core.room)
    value = sack.values(prices)
    table = sack.tables(value, order)
    left = core.room[None, :].copy()
    cost = np.array([core.base])
    dropped, steps = np.inf, []
    mix = np.random.default_rng(0).integers(1, 2**62, k)
    for t, j in enumerate(order.tolist()):
        effort -= len(left)
        if is_late() or effort < 0:
            return -np.inf, None
        demand = int(core.demand[j])
        rest = table[t + 1]
        places = np.concatenate(
            [sack.start[:k] + left, (sack.start[k] + left.sum(axis=1) - core.idle)[:, None]], axis=1
        )
        ahead = rest[places]
        types = np.flatnonzero(sack.able[j])
        bounds = [cost + ahead.sum(axis=1)]
        with_root = rest[places[:, k] - demand]
        for i in types.tolist():
            others = ahead[:, :k].copy()
            others[:, i] = rest[places[:, i] - demand]
            bounds.append(cost + core.cost[j, i] + others.sum(axis=1) + with_root)
        bound = np.stack(bounds)
        option, parent = np.nonzero(bound < target)
        bound = bound[option, parent]
        type_ = np.append(-1, types)[option]
        left = left[parent]
        runs = np.flatnonzero(type_ >= 0)
        left[runs, type_[runs]] -= demand
        cost = cost[parent]
        cost[runs] += core.cost[j, type_[runs]]
        kept = _cheapest(left, left @ mix, cost)
        if len(kept) > width:
            part = np.argpartition(bound[kept], width)
            dropped = min(dropped, float(bound[kept[part[width:]]].min()))
            kept = kept[part[:width]]
        left, cost = left[kept], cost[kept]
        steps.append((parent[kept], type_[kept]))
        if not len(kept):
            return min(dropped, target), None
    choice = np.full(len(core.jobs), -1)
    at = int(np.argmin(cost))
    bound_ = min(dropped, float(cost[at]))
    for j, (parents, types) in zip(order[::-1].tolist(), reversed(steps), strict=True):
        choice[j], at = types[at], int(parents[at])
    return bound_, choice


def _cheapest(left: Positions, key: Positions, cost: Floats) -> Positions:
    """The states of least cost for each row of ``left``; ``key``: equal for equal rows."""
    order = np.lexsort((cost, key))
    rows = left[order]
    return order[np.append(True, (rows[1:] != rows[:-1]).any(axis=1))] if len(order) else order
