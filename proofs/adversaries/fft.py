"""Adversaries of the claims of FFT: all plans of a round, runs with all tie-breaks, and formulas by hand."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, permutations, product
from math import ceil
from typing import Any

from hetopt.proofs.adversaries.fft_policy import (
    ROUNDS,
    lets_a_fitting_job_wait,
    uses_other_number,
    violates_rows,
    without,
)
from hetopt.proofs.adversaries.fft_rounds import (
    MOST_STATES,
    TIE_BREAKS,
    WAITS,
    Gang,
    Plan,
    Round,
    Run,
    all_rounds,
    fair_time,
    one_run,
    owed_next,
    part_time,
    plain_cost,
)
from hetopt.proofs.adversaries.linear_optima import (
    FAILS,
    HOLDS,
    Form,
    amounts,
    column,
    compare,
    constant,
    model_of,
    require,
)
from hetopt.proofs.ledger.attack import Adversary

F = Fraction


def holds(condition: bool) -> Fraction:
    """The slack of a conclusion without a measure."""
    return HOLDS if condition else FAILS


def sign(value: Fraction) -> int:
    """-1, 0 or 1."""
    return (value > 0) - (value < 0)


# -- Table 1 ---------------------------------------------------------------------------------------------------------


def gap_of_sums(root: Sequence[Fraction], rate: Sequence[Fraction]) -> Fraction:
    """Both sides of the inequality of Cauchy and Schwarz, times the product of all rates and their sum."""
    every = F(1)
    for r in rate:
        every *= r
    left = sum((v * v * every / r for v, r in zip(root, rate, strict=True)), F(0)) * sum(rate)
    return left - F(sum(root)) ** 2 * every


def cauchy_schwarz(case: Any) -> Fraction:
    """The smallest gap for the case, and for rates near those of equality, in proportion to the roots."""
    root = case.root
    nearly = (F(99, 100), F(1), F(101, 100))
    near = ([v * part if i == j else v for i, v in enumerate(root)] for j in range(len(root)) for part in nearly)
    return min(gap_of_sums(root, rate) for rate in (case.rate, *near))


def gavel_total(first: Sequence[Fraction], second: Sequence[Fraction]) -> Fraction:
    """16 / (8 m_0 + m_1) + 16 / (8 n_0 + n_1)."""
    return sum((16 / (8 * fast + slow) for fast, slow in (first, second)), F(0))


def least_gavel_total(case: Any) -> Fraction:
    """The smallest total minus 64/9 of the case, and of both jobs if the other one has all the remaining time."""
    half = (F(1, 2),) * 2
    if gavel_total(half, half) != F(64, 9):
        return FAILS
    found = [tuple(case.time)]
    for row in case.time:
        rest = (1 - row[0], 1 - row[1])
        found += [(tuple(row), rest)] if sum(row) > 0 and sum(rest) > 0 else []
    slack = HOLDS
    for pair in found:
        more = gavel_total(*pair) - F(64, 9)
        elsewhere = more == 0 and max(map(sum, pair)) <= 1 and pair != (half, half)
        slack = min(slack, FAILS if elsewhere else more)
    return slack


def finish(left: Sequence[Fraction], now: Fraction, on: Sequence[int]) -> Fraction:
    """Sum of the completion times after ``now``, with jobs ``on`` GPU0 and GPU1; the last job runs on GPU0."""
    total, rest = F(0), [(j, left[j]) for j in on if left[j]]
    if len(rest) == 2:
        (first, a), (second, b) = rest
        step = min(a / 8, b)
        now += step
        rest = [(j, w) for j, w in ((first, a - 8 * step), (second, b - step)) if w]
        total += now * (2 - len(rest))
    for _, work in rest:
        now += work / 8
        total += now
    return total


def two_job_total(case: Any) -> Fraction:
    """The least total minus 23/4, over both continuations after the phases; phases are simulated event by event."""
    left, now, total = [F(16), F(16)], F(0), F(0)
    for minutes, on in zip(case.minutes, case.on, strict=True):
        end = now + minutes
        while now < end:
            speed = [F(0), F(0)]
            for job, v in zip(on, (8, 1), strict=True):
                if job:
                    speed[job - 1] += v if left[job - 1] else 0
            step = min([end - now, *(left[j] / speed[j] for j in (0, 1) if speed[j])])
            now += step
            for j in (0, 1):
                if speed[j]:
                    left[j] -= speed[j] * step
                    total += now if not left[j] else 0
    return total + min(finish(left, now, on) for on in ((0, 1), (1, 0))) - F(23, 4)


# -- equations (2) and (3) -------------------------------------------------------------------------------------------


def truncated_average(case: Any) -> Fraction:
    """C minus the mean age of the work, if the printed sum is larger by the claimed excess."""
    done, mean, printed, completion = F(0), F(0), F(0), None
    for t, theta in enumerate(case.speeds):
        counted = min(theta, case.work - done)
        mean += t * counted / case.work
        printed += t * theta / case.work
        done += theta
        if completion is None and done >= case.work:
            completion, excess = F(t), t * (theta - counted) / case.work
    if completion is None or printed != mean + excess:
        return FAILS
    return completion - mean


def longer_by_age(case: Any) -> Fraction:
    """Whether every optimum of the sum of ages, with one job on the GPU, runs the longer job."""
    step = Round.of(case)
    plans = [plan for plan in step.plans() if sum(i != WAITS for i in plan) == 1]

    def ages(plan: Plan) -> Fraction:
        gangs = zip(step.gangs, plan, strict=True)
        return sum(((step.time - g.arrival) * g.speed[i] / g.work for g, i in gangs if i != WAITS), F(0))

    least = min(map(ages, plans))
    long = max(range(len(step.gangs)), key=lambda j: step.gangs[j].work / step.gangs[j].speed[0])
    return holds({plan for plan in plans if ages(plan) == least} == {tuple(0 if j == long else WAITS for j in (0, 1))})


WORKS = (F(1), F(6), F(7, 3))
"""Works of a job for which costs are computed."""


def costs_of_pair(job: Any, work: Fraction) -> tuple[Fraction, Fraction]:
    """The costs (4) of a job of this work that takes p, and q, rounds; rho is in fractions of the job."""

    def cost(theta: Fraction) -> Fraction:
        return F(job.age * theta / work + job.demand * (work / theta) - job.rho * theta / work)

    return cost(work / job.few), cost(work / job.many)


def order_of_costs(case: Any) -> Fraction:
    """Whether the cheaper number of rounds is that of the condition, for jobs of several works."""
    expected = sign(case.demand * case.few * case.many - (case.age - case.rho))
    differences = ([*costs_of_pair(case, work)] for work in WORKS)
    return holds(all(sign(many - few) == expected for few, many in differences))


def moves(case: Any) -> Fraction:
    """Whether the sets of best types with the cost of a move are those of the condition, in both directions."""
    job, s = case.job, case.move
    delta = (job.many - job.few) * (job.demand - (job.age - job.rho) / (job.few * job.many))
    for work in WORKS:
        fast, slow = costs_of_pair(job, work)
        if sign(slow - (fast + s)) != sign(delta - s) or sign(fast - (slow + s)) != sign(-delta - s):
            return FAILS
    return HOLDS


def ways(step: Round) -> list[Plan]:
    """The plans of a single running job, whatever the others need."""
    return [plan for plan in step.plans() if sum(i != WAITS for i in plan) == 1]


def smaller_gang(case: Any) -> Fraction:
    """The cost of the larger gang minus that of the smaller gang, strictly."""
    first, second = (plain_cost(Round.of(case), plan) for plan in ((0, WAITS), (WAITS, 0)))
    return second - first if second > first else FAILS


def least_service(case: Any) -> Fraction:
    """Whether the jobs and types of least service are those of least cost, and no others."""
    step = Round.of(case)
    gangs = {plan: next((g, i) for g, i in zip(step.gangs, plan, strict=True) if i != WAITS) for plan in ways(step)}
    service = {plan: g.demand * g.work / g.speed[i] for plan, (g, i) in gangs.items()}
    cost = {plan: step.cost(plan) for plan in gangs}
    least, cheapest = min(service.values()), min(cost.values())
    return holds({p for p, v in service.items() if v == least} == {p for p, v in cost.items() if v == cheapest})


def only_idle(case: Any) -> Fraction:
    """Whether the plan without jobs is the only plan of least cost among all of them."""
    step = Round.of(case)
    return holds(step.optima(list(step.plans())) == {(WAITS,) * len(step.gangs)})


# -- compensation ----------------------------------------------------------------------------------------------------


def compensations(case: Any, unit: Fraction) -> Iterator[tuple[int, Fraction, Fraction, Fraction, Fraction]]:
    """(Age, fair work, work, rho before, rho after) of each round by [FFT, eq. 5] as printed, in a unit of work."""
    gang, rho = Gang.of(case.gang), F(0)
    time = fair_time(gang, int(case.present), case.gpus)
    for age, i in enumerate(case.served):
        fair, work = unit * gang.work / time, F(0) if i == WAITS else unit * gang.speed[i]
        after = owed_next(rho, age / time, fair, work)
        yield age, fair, work, rho, after
        rho = after


UNITS = (F(1), F(1, 7), F(12))
"""Units of work."""


def least_compensation(case: Any) -> Fraction:
    """The smallest rho."""
    return min(after for unit in UNITS for *_, after in compensations(case, unit))


def starved_rounds(case: Any) -> Fraction:
    """Whether rho is larger after each round without service but the first."""
    rounds = (one for unit in UNITS for one in compensations(case, unit))
    return holds(all(after > before for age, _, work, before, after in rounds if age and not work))


def served_rounds(case: Any) -> Fraction:
    """Whether rho does not increase with the fair work, and is smaller after more of it."""
    for unit in UNITS:
        for age, fair, work, before, after in compensations(case, unit):
            if work >= fair and after > before:
                return FAILS
            if work > fair and before > 0 and age > 0 and after >= before:
                return FAILS
    return HOLDS


def coefficients(case: Any) -> Fraction:
    """The smallest growth of mu of any job between rounds without an arrival, with both estimates of tau."""
    gang, least = Gang(1, F(case.rounds), (F(1),)), F(1)
    for estimate, arrival in product((fair_time, part_time), case.arrivals):
        mu = [
            (t - arrival) / estimate(gang, sum(a <= t for a in case.arrivals), (case.gpus,))
            for t in range(ceil(arrival), case.rounds)
        ]
        growth = (b - a for t, (a, b) in enumerate(pairwise(mu), ceil(arrival) + 1) if t not in case.arrivals)
        least = min(least, *growth, F(1))
    return least if least > 0 else FAILS


def starving(case: Any) -> Fraction:
    """Whether the long job, with or without the others at a constant mu, runs in no optimum that ties can reach."""
    gpus, long = (case.gpus,), Gang(1, case.long, (F(1),))
    new = tuple(Gang(1, rounds, (F(1),), t) for t, rounds in enumerate(case.short) for _ in range(case.gpus))
    gangs = (long, *new)
    runs = (Run(gangs, gpus, (case.mu,) * constants) for constants in (1, len(gangs)))
    every = (one for run in runs for one in all_rounds(run, len(case.short)))
    return holds(all(plan[0] == WAITS for _, _, optima in every for plan in optima))


def values_of_rho(step: Round, j: int) -> list[Fraction]:
    """Rho at which plans of different pace of a job cost the same, and values between and beyond."""
    best: dict[Fraction, Fraction] = {}
    free = step.owing(j, F(0))
    for plan in step.fullest:
        pace, cost = free.pace(j, plan), free.cost(plan)
        best[pace] = min(cost, best.get(pace, cost))
    ties = ((cost - other) / (pace - slow) for (slow, other), (pace, cost) in permutations(best.items(), 2))
    values = sorted({F(0), *(max(F(0), tie) for tie in ties)})
    return sorted({*values, *((a + b) / 2 for a, b in pairwise(values)), values[-1] + 1})


def both_units(case: Any) -> list[Round]:
    """The round with rho in fractions of the job, and in work as printed."""
    return [Round.of(case, fractions=way) for way in (True, False)]


def chances(case: Any) -> Fraction:
    """The smallest pace of any job at a larger rho minus its largest pace at a smaller one, over all optima."""
    least = F(1)
    for step in both_units(case):
        plans = step.fullest
        for j in range(len(step.gangs)):
            paces = [
                [step.pace(j, plan) for plan in step.owing(j, rho).optima(plans)] for rho in values_of_rho(step, j)
            ]
            least = min([least, *(min(after) - max(before) for before, after in pairwise(paces))])
    return least


BEYOND = (F(1, 10**9), F(1, 3), F(1000))
"""By how much rho exceeds a threshold."""


def packed_above(case: Any) -> Fraction:
    """Whether every optimum contains a job above the threshold, for each job that some fullest plan contains."""
    for step in both_units(case):
        plans = step.fullest
        for j in range(len(step.gangs)):
            free = step.owing(j, F(0))
            costs = {plan: free.cost(plan) for plan in plans}
            others = [cost for plan, cost in costs.items() if plan[j] == WAITS]
            own = [(cost, free.pace(j, plan)) for plan, cost in costs.items() if plan[j] != WAITS]
            if not own:
                continue
            least = max(F(0), min((cost - min(others)) / pace for cost, pace in own)) if others else F(0)
            levels = [least + more for more in BEYOND] if others else [F(0), F(1)]
            if any(plan[j] == WAITS for rho in levels for plan in step.owing(j, rho).optima(plans)):
                return FAILS
    return HOLDS


def fastest_above(case: Any) -> Fraction:
    """Whether every optimum has the largest pace of a job above the threshold."""
    for step in both_units(case):
        plans = step.fullest
        for j in range(len(step.gangs)):
            free = step.owing(j, F(0))
            values = [(free.pace(j, plan), free.cost(plan)) for plan in plans]
            most = max(pace for pace, _ in values)
            best = min(cost for pace, cost in values if pace == most)
            least = max([F(0), *((best - cost) / (most - pace) for pace, cost in values if pace < most)])
            levels = (least + more for more in BEYOND)
            if any(step.pace(j, plan) < most for rho in levels for plan in step.owing(j, rho).optima(plans)):
                return FAILS
    return HOLDS


def same_in_units(case: Any, *, fractions: bool = True) -> Fraction:
    """Whether all rounds that any tie-breaking can reach have the same optima in other units of work."""
    gangs, gpus = tuple(map(Gang.of, case.gangs)), (1,)
    horizon = ceil(sum(g.work for g in gangs)) + max(g.arrival for g in gangs)
    old = list(all_rounds(Run(gangs, gpus, fractions=fractions), horizon))
    for unit in (case.unit, 1 / case.unit):
        changed = tuple(Gang(g.demand, unit * g.work, tuple(unit * v for v in g.speed), g.arrival) for g in gangs)
        new = list(all_rounds(Run(changed, gpus, fractions=fractions), horizon))
        if [(step.time, optima) for _, step, optima in old] != [(step.time, optima) for _, step, optima in new]:
            return FAILS
    return HOLDS


def dual_step(case: Any) -> Fraction:
    """Whether the optima are those of the Lagrangian, g is a supergradient, and (5) a step along it."""
    return min(_dual_step(step, estimate) for step in both_units(case) for estimate in (fair_time, part_time))


def _dual_step(step: Round, estimate: Callable[[Gang, int, Sequence[int]], Fraction]) -> Fraction:
    """The same with one estimate of tau; other multipliers are random."""
    plans, jobs, rng = step.fullest, range(len(step.gangs)), random.Random(step.time)
    times = [estimate(gang, len(jobs), step.gpus) for gang in step.gangs]
    units = [gang.work if step.fractions else F(1) for gang in step.gangs]
    fair = [gang.work / time / unit for gang, time, unit in zip(step.gangs, times, units, strict=True)]
    behind = {plan: [fair[j] - step.pace(j, plan) for j in jobs] for plan in plans}
    plain = {plan: plain_cost(step, plan) for plan in plans}

    def lagrangian(plan: Plan, rho: Sequence[Fraction]) -> Fraction:
        return plain[plan] + sum((r * g for r, g in zip(rho, behind[plan], strict=True)), F(0))

    values = {plan: lagrangian(plan, step.owed) for plan in plans}
    dual, optima = min(values.values()), step.optima(plans)
    if optima != {plan for plan, value in values.items() if value == dual}:
        return FAILS
    slack = F(0)
    for _ in range(6):
        rho = [F(rng.randint(0, 40), rng.randint(1, 4)) for _ in jobs]
        other = min(lagrangian(plan, rho) for plan in plans)
        for plan in optima:
            rise = sum(((b - a) * g for a, b, g in zip(step.owed, rho, behind[plan], strict=True)), F(0))
            slack = min(slack, dual + rise - other)
    for plan, j in product(optima, jobs):
        mu = (step.time - step.gangs[j].arrival) / times[j]
        printed = owed_next(step.owed[j], mu, fair[j], step.pace(j, plan))
        if printed != max(F(0), step.owed[j] + mu * behind[plan][j]):
            return FAILS
    return slack if slack < 0 else HOLDS


# -- fair progress ---------------------------------------------------------------------------------------------------


def average_use(case: Any) -> Fraction:
    """The least idle GPUs on average if each job progresses fairly on any of its best types, or the idle time."""
    gangs, gpus = tuple(map(Gang.of, case.gangs)), case.gpus
    best = []
    for gang in gangs:
        time = part_time(gang, len(gangs), gpus)
        rounds = {i: gang.work / gang.speed[i] for i in gang.types(gpus)}
        part = {i: r * max(F(1), F(gang.demand * len(gangs), gpus[i])) for i, r in rounds.items()}
        best.append([(i, rounds[i] / time) for i in part if part[i] == min(part.values())])
    slack = F(1)
    for chosen in product(*best):
        idle = list(map(F, gpus))
        for gang, (i, time) in zip(gangs, chosen, strict=True):
            idle[i] -= gang.demand * time
            slack = min(slack, 1 - time)
        slack = min(slack, *idle)
    return slack


def by_turns(case: Any, estimate: Callable[[Gang, int, Sequence[int]], Fraction]) -> Fraction:
    """Whether parts of the time for all plans of whole gangs exist in which each job progresses fairly."""
    step = Round.of(case)
    plans = list(step.plans())
    part = [column(f"part{i}") for i in range(len(plans))]
    lines = amounts(f"part{i}" for i in range(len(plans)))
    lines += require(compare(Form.total(part), "<=", constant(1)))
    for j, gang in enumerate(step.gangs):
        own = Form.total(gang.speed[plan[j]] * part[i] for i, plan in enumerate(plans) if plan[j] != WAITS)
        lines += require(compare(own, ">=", constant(gang.work / estimate(gang, len(step.gangs), step.gpus))))
    return holds(model_of(lines) is not None)


# -- packing ---------------------------------------------------------------------------------------------------------


def most_in_use(demands: Sequence[int], gpus: Sequence[int]) -> int:
    """K* for jobs that can use every type with enough GPUs: the best of all choices of jobs for each type in turn."""
    every = 1 << len(demands)
    sums = [sum(d for j, d in enumerate(demands) if chosen >> j & 1) for chosen in range(every)]
    reached = {0}
    for y in gpus:
        reached |= {
            taken | chosen for taken in reached for chosen in range(every) if not taken & chosen and sums[chosen] <= y
        }
    return max(sums[taken] for taken in reached)


def demands_of(case: Any) -> list[int]:
    """The demands of all jobs."""
    return [int(gang.demand) for gang in case.gangs]


def printed_number(case: Any) -> Fraction:
    """K* minus the printed K."""
    demands = demands_of(case)
    return F(most_in_use(demands, case.gpus) - min(sum(case.gpus), sum(demands)))


def largest_first(demands: Sequence[int], gpus: Sequence[int]) -> int:
    """GPUs in use if the largest gangs go first, each on the first type with room."""
    left = list(gpus)
    for d in sorted(demands, reverse=True):
        room = next((i for i, y in enumerate(left) if y >= d), None)
        if room is not None:
            left[room] -= d
    return sum(gpus) - sum(left)


def largest_first_gap(case: Any) -> Fraction:
    """Minus the GPUs that the largest first leave idle compared with K*, for every order of the types."""
    demands = demands_of(case)
    most = most_in_use(demands, case.gpus)
    return F(min(largest_first(demands, gpus) for gpus in set(permutations(case.gpus))) - most)


def partition(case: Any) -> Fraction:
    """Whether half of the sum is a sum of some numbers exactly where K* is all GPUs."""
    numbers, (half,) = demands_of(case), case.gpus
    sums = 1
    for number in numbers:
        sums |= sums << number
    return holds(bool(sums >> half & 1) == (most_in_use(numbers, (half,)) == half))


# -- waits -----------------------------------------------------------------------------------------------------------


def slowest_first(gangs: Sequence[Gang]) -> Callable[[list[int], Plan], Fraction]:
    """The work of a plan: running jobs on slow types makes them last."""

    def work(present: list[int], plan: Plan) -> Fraction:
        return sum((gangs[j].speed[i] for j, i in zip(present, plan, strict=True) if i != WAITS), F(0))

    return work


def slowest_time(gang: Gang, gpus: Sequence[int]) -> Fraction:
    """Rounds on the slowest type that a job can use."""
    return max(gang.work / gang.speed[i] for i in gang.types(gpus))


def delayed(run: Run, victim: int, order: Callable[[list[int], Plan], Any]) -> tuple[int, list[int]]:
    """The first run of a job, if every round has the first plan in ``order`` that keeps it waiting.

    In no round a waiting job fits on the idle GPUs. Also returns the jobs that arrive before.
    """
    state, time = run.start, 0
    while True:
        present = run.present(state, time)
        if present:
            step = run.round(state, time)
            full = maximal(step)
            plan = min(full, key=lambda p: (victim in present and p[present.index(victim)] != WAITS, order(present, p)))
            if victim in present and plan[present.index(victim)] != WAITS:
                return time, [k for k, gang in enumerate(run.gangs) if k != victim and gang.arrival < time]
            state = run.after(state, time, plan)
        time += 1


def maximal(step: Round) -> list[Plan]:
    """The plans that leave no waiting job that fits on the idle GPUs."""
    every = set(step.plans())

    def extended(plan: Plan) -> bool:
        waiting = (j for j, i in enumerate(plan) if i == WAITS)
        types = range(len(step.gpus))
        return any((*plan[:j], i, *plan[j + 1 :]) in every for j, i in product(waiting, types))

    return [plan for plan in every if not extended(plan)]


def delayed_waits(case: Any) -> Fraction:
    """The smallest gap of the bound for jobs that adverse maximal plans delay; the order of the case is not used."""
    gangs, gpus = tuple(map(Gang.of, case.gangs)), tuple(map(int, case.gpus))
    run, rng, slack = Run(gangs, gpus), random.Random(len(gangs)), None
    work = slowest_first(gangs)

    def shuffled(present: list[int], plan: Plan) -> tuple[float, list[int], Plan]:
        return rng.random(), present, plan

    orders: tuple[Callable[[list[int], Plan], Any], ...] = (work, shuffled)
    for (j, gang), order in product(enumerate(gangs), orders):
        first, others = delayed(run, j, order)
        busy = sum(max(0, gpus[i] - gang.demand + 1) for i in gang.types(gpus))
        rounds = (gangs[k].demand * ceil(slowest_time(gangs[k], gpus)) for k in others)
        gap = F(sum(rounds) - (first - gang.arrival) * busy)
        slack = gap if slack is None else min(slack, gap)
    return F(0) if slack is None else slack


def fair_waits(case: Any) -> Fraction:
    """The bound minus the longest wait under FFT, with ties broken in three ways."""
    gangs, gpus = tuple(map(Gang.of, case.gangs)), tuple(map(int, case.gpus))
    longest, slack = ceil(max(gang.work / v for gang in gangs for v in gang.speed)), None
    for choose in TIE_BREAKS:
        first: dict[int, int] = {}
        most = 0
        for time, present, plan in one_run(Run(gangs, gpus), choose):
            most = max(most, len(present))
            for j, i in zip(present, plan, strict=True):
                if i != WAITS:
                    first.setdefault(j, time)
        load = F(most * longest, sum(gpus))
        wait = max(time - gangs[j].arrival for j, time in first.items())
        gap = 4 * load**2 * max(3, longest) - wait
        slack = gap if slack is None else min(slack, gap)
    return F(0) if slack is None else slack


# -- all adversaries -------------------------------------------------------------------------------------------------

PLANS = "all plans of the round by enumeration, in fractions"
RUNS = "all runs over several rounds, with every tie-break"
HANDS = "the formulas as printed, by hand in fractions"
POLICY = f"the library's policy in floats in {ROUNDS} consecutive rounds, with all plans by enumeration"
LATER = f"rounds after the first {ROUNDS}; the checker runs the same policy"
SUBSETS = "all subsets of the gangs for each type in turn"
TIES = f"tie-breaks beyond {MOST_STATES} states in a round"


def exact(method: str, slack: Callable[[Any], Any], blind: str = "") -> Adversary:
    """An adversary without tolerance."""
    return Adversary(method, slack, blind, 0.0)


ADVERSARIES: dict[str, Adversary] = {
    "fft/cauchy-schwarz": exact("both sides in fractions, also near equality", cauchy_schwarz),
    "fft/table-1-gavel": exact("the total in fractions, also with all remaining time in use", least_gavel_total),
    "fft/table-1-optimum": exact(
        "simulation event by event, with both continuations", two_job_total, "schedules that continue otherwise"
    ),
    "fft/eq-2-truncated": exact(HANDS, truncated_average),
    "fft/age-term-equal": exact(PLANS, longer_by_age),
    "fft/eq-3-order": exact(f"{HANDS}, for jobs of three works", order_of_costs),
    "fft/eq-3-fewer-cost": exact(HANDS, smaller_gang),
    "fft/eq-3-service": exact(PLANS, least_service),
    "fft/eq-3-nobody": exact(PLANS, only_idle),
    "fft/eq-5-nonnegative": exact(f"{HANDS}, in three units of work", least_compensation),
    "fft/fig-5-starved": exact(f"{HANDS}, in three units of work", starved_rounds),
    "fft/fig-5-served": exact(f"{HANDS}, in three units of work", served_rounds),
    "fft/mu-grows-constant": exact(f"{HANDS}, for all jobs and both estimates of tau", coefficients),
    "fft/mu-constant": exact(RUNS, starving, TIES),
    "fft/tau-average": exact("the best types of all jobs in all combinations, in fractions", average_use),
    "fft/tau-equal-gangs": exact("parts of the time of all plans, by z3", lambda case: by_turns(case, part_time)),
    "fft/tau-one-gpu-jobs": exact("parts of the time of all plans, by z3", lambda case: by_turns(case, fair_time)),
    "fft/fig-5-chances": exact(f"{PLANS}, for all jobs and at all values of rho where plans tie", chances),
    "fft/rho-large-packed": exact(f"{PLANS}, for all jobs and both units of rho", packed_above),
    "fft/rho-large-fastest": exact(f"{PLANS}, for all jobs and both units of rho", fastest_above),
    "fft/units-normalised": exact(RUNS, same_in_units, TIES),
    "fft/eq-6-move": exact(f"{HANDS}, for jobs of three works", moves),
    "fft/eq-1": exact(POLICY, without(violates_rows), LATER),
    "fft/work-conserving": exact(POLICY, without(lets_a_fitting_job_wait), LATER),
    "fft/eq-7-packed": exact(POLICY, without(uses_other_number), LATER),
    "fft/eq-7-powers": exact(SUBSETS, printed_number),
    "fft/largest-first-powers": exact(f"{SUBSETS}, for every order of the types", largest_first_gap),
    "fft/packing-partition": exact(SUBSETS, partition),
    "fft/packing-hard": exact(SUBSETS, partition, "the theory of NP-completeness"),
    "fft/dual-method": exact(f"{PLANS}, with random multipliers and both estimates of tau", dual_step),
    "fft/thm-4.2-packed": exact(
        "adverse plans that delay each job",
        delayed_waits,
        "schedules other than two for each job; those that let a fitting job wait, which no case has",
    ),
    "fft/thm-4.2-one-gpu-jobs": exact("runs with three tie-breaks", fair_waits, "other tie-breaks"),
}
