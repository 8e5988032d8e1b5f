"""Adversaries of the claims of Hadar and HadarE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import combinations, pairwise, permutations, product
from math import sqrt
from typing import Any, TypeVar

import hetopt
from hetopt.data.cluster import Cluster, GPUType, Server
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.models import gavel
from hetopt.proofs.adversaries.hadar_rounds import (
    SECONDS,
    Price,
    best_by_recursion,
    best_of_all_decisions,
    busy_parts,
    choices,
    decided_as_printed,
    fastest_first,
    fewest_rounds,
    policy_rounds,
    served_in_rounds,
    used_share,
)
from hetopt.proofs.adversaries.hadar_slots import (
    Plan,
    Prices,
    Run,
    by_schedules,
    cells_of,
    corrected,
    decimal,
    enlarged,
    every_plan,
    fewest_slots,
    gpu_slots,
    least,
    least_free,
    least_utility,
    payoff_of,
    plans_of,
    printed,
    runs_of,
    solve_binary,
    time_indexed,
    utility,
)
from hetopt.proofs.hadar.copy_cases import CopyCase
from hetopt.proofs.hadar.copy_ids import CopyIds
from hetopt.proofs.hadar.initial_estimate import EstimatedModel, EstimatedNode, TwoByTwo
from hetopt.proofs.hadar.price_slopes import PriceRise
from hetopt.proofs.hadar.problem_equivalence import PricedCase
from hetopt.proofs.hadar.slot_cases import SlotCase
from hetopt.proofs.hadar.training_steps import TrainingJob
from hetopt.proofs.ledger.attack import Adversary

F = Fraction


N = TypeVar("N", Fraction, Decimal, float)


def above(margin: N) -> N:
    """The slack of the claim that ``margin`` is above 0."""
    return margin if margin > 0 else margin - 1


# -- Table I ---------------------------------------------------------------------------------------------------------


def one_type_at_a_time(case: SlotCase) -> float:
    """Minus the largest number of types, less one, on which Gavel runs a job at any moment of a simulation."""
    types = tuple(GPUType(f"type{r}") for r in range(len(case.servers[0])))
    servers = tuple(
        Server(f"server{h}", {t.name: n for t, n in zip(types, row, strict=True) if n})
        for h, row in enumerate(case.servers)
    )
    jobs = tuple(
        Job(
            f"job{j}",
            {t.name: float(v) / SECONDS for t, v in zip(types, job.speed, strict=True)},
            float(job.work),
            job.gpus,
            arrival=SECONDS * job.arrival,
        )
        for j, job in enumerate(case.jobs)
    )
    spans = hetopt.simulate(
        gavel.max_min_fairness(), Instance(Cluster(types, servers), jobs=jobs), round_seconds=SECONDS
    ).spans
    worst = 1
    for moment in spans["start"]:
        here = spans[(spans["start"] <= moment) & (moment < spans["end"])]
        for _, own in here.groupby("job"):
            worst = max(worst, len({name for text in own["gpu_type"] for name in text.split("+")}))
    return float(1 - worst)


# -- schedules and programs ------------------------------------------------------------------------------------------


def whole_slots(case: SlotCase) -> Fraction:
    """Compare f_j - a_j + 1 with the time of all schedules that hold GPUs only while work is left."""
    worst = F(0)
    for job in case.jobs:
        for _, speeds in every_plan(case, job):
            left = job.work - sum((v for _, v in speeds[:-1]), F(0))
            last, speed = speeds[-1]
            if left > 0:
                time = last - job.arrival + left / speed
                worst = min(worst, F(-abs(-(-time // 1) - (last - job.arrival + 1))))
    return worst


def half_of_the_subsets(work: int) -> int:
    """The number of subsets of 2 m slots that have m slots, less 2 ** m."""
    return sum(chosen.bit_count() == work for chosen in range(1 << 2 * work)) - (1 << work)


def same_optimum(case: SlotCase) -> float:
    """Compare P1 with admission, slot by slot, with P2 over all schedules, both by HiGHS."""
    return -abs(time_indexed(case) - solve_binary(*by_schedules(case)))


def strong_duality(case: SlotCase) -> float:
    """Compare the relaxation of P2 over all schedules with P3, both by HiGHS."""
    value, rows, most = by_schedules(case)
    if not value:
        return 0.0
    relaxed = -least([-v for v in value], rows, most)  # (2b) limits every variable to 1
    return -abs(relaxed - least(most, -rows.T, [-v for v in value]))


def cost_at(priced: PricedCase, plan: Plan) -> Fraction:
    """The cost of a schedule at the given prices."""
    flat = [price for row in priced.prices for price in row]
    return sum((price * n for price, n in zip(flat, plan.uses, strict=True)), F(0))


def payoffs(priced: PricedCase) -> list[list[Fraction]]:
    """phi_j(s) of all schedules of all jobs."""
    case = priced.case
    return [
        [plan.value - cost_at(priced, plan) for plan in plans_of(case, j, lean=False)] for j in range(len(case.jobs))
    ]


def weak_duality(priced: PricedCase) -> float:
    """The objective of P3 at the prices, less the optimum by HiGHS."""
    dual = sum((max([F(0), *own]) for own in payoffs(priced)), F(0))
    for row in priced.prices:
        dual += sum((price * gpus for price, (_, gpus) in zip(row, cells_of(priced.case), strict=True)), F(0))
    return float(dual) - time_indexed(priced.case)


def least_dual(priced: PricedCase) -> float:
    """The least sum of mu that (3a) allows, by HiGHS, less the sum by (4)."""
    own = payoffs(priced)
    rows = [[-float(i == j) for i in range(len(own))] for j, each in enumerate(own) for _ in each]
    below = [-float(v) for each in own for v in each]
    used = sum((max([F(0), *each]) for each in own), F(0))
    return (least([1.0] * len(own), rows, below) if rows else 0.0) - float(used)


# -- prices ----------------------------------------------------------------------------------------------------------


def best_on_the_empty_cluster(case: SlotCase, low: Fraction) -> Fraction:
    """The least of the best payoffs of all feasible jobs, all GPUs at the price ``low``."""
    best = []
    for j, job in enumerate(case.jobs):
        slots = fewest_slots(case, j)
        last = job.arrival + slots - 1
        if last < case.slots:
            best.append(utility(job, last) - low * slots * job.gpus)
    return above(min(best, default=F(1)))


def admitted_at_eta(case: SlotCase) -> Fraction:
    """Payoffs on the empty cluster with eta hardly above 1/4, the worst of all that the claim allows."""
    eta = F(1, 4) + F(1, 10**6)
    low = min(least_utility(case, j) / need for j, need in enumerate(gpu_slots(case))) / (4 * eta)
    return best_on_the_empty_cluster(case, low)


def admitted_when_corrected(case: SlotCase) -> Fraction:
    """Payoffs on the empty cluster at the corrected prices."""
    return best_on_the_empty_cluster(case, corrected(case).low[0])


def within_capacity(case: SlotCase) -> int:
    """The least number of free GPUs of a cell in all runs without a check of it."""
    return min(least_free(case, run.used) for run in runs_of(case, corrected(case), checked=False))


def value_of_all(case: SlotCase, prices: Prices) -> Fraction:
    """D_0."""
    return case.slots * sum((low * gpus for low, gpus in zip(prices.low, prices.gpus, strict=True)), F(0))


def starts_below_half(case: SlotCase) -> float:
    """Half of the optimum by HiGHS, less D_0 at the corrected prices."""
    return time_indexed(case) / 2 - float(value_of_all(case, corrected(case)))


def starts_below_a_quarter(case: SlotCase) -> float:
    """T / 4 times the least utility less D_0, and for up to two slots half of the optimum less D_0.

    D_0 is the larger of those with t_max in whole slots and in exact time.
    """
    whole = gpu_slots(case)
    parts = [job.work / min(v for v in job.speed if v) * job.gpus for job in case.jobs]
    worth = [least_utility(case, j) for j in range(len(case.jobs))]
    start = case.slots * max(
        min(need) * min(u / n for u, n in zip(worth, need, strict=True)) for need in (whole, parts)
    )
    slack = float(case.slots * min(worth) - start) / 4
    return min(slack, time_indexed(case) / 2 - float(start) / 4) if case.slots <= 2 else slack


NEAR = Decimal(10) ** -6
"""Distances of the slopes of prices: their squares are far below the tolerance."""


def price_at(case: PriceRise, used: Decimal) -> Decimal:
    """The price (5) with any number of GPUs in use, U_min being 1."""
    return (decimal(case.ratio).ln() * used / case.gpus).exp()


def from_root_to_root(case: PriceRise) -> Decimal:
    """Compare the price (5) with products of the c-th root, which Newton's method finds."""
    root, ratio = Decimal(1), decimal(case.ratio)
    for _ in range(200):
        root -= (root**case.gpus - ratio) / (case.gpus * root ** (case.gpus - 1))
    return -max(abs(price_at(case, Decimal(used)) - root**used) for used in range(case.gpus + 1))


def differential_relation(case: PriceRise) -> Decimal:
    """The differential relation, k dg less (c / alpha) dk, at 41 numbers of GPUs, by central differences."""
    alpha, slacks = decimal(case.ratio).ln(), list[Decimal]()
    for part in range(41):
        used = Decimal(case.gpus * part) / 40
        slope = (price_at(case, used + NEAR) - price_at(case, used - NEAR)) / (2 * NEAR)
        slacks.append(price_at(case, used) - case.gpus / alpha * slope)
    return min(slacks)


def least_factor(case: PriceRise) -> Decimal:
    """Find the least alpha of Definition 1 by bisection, and compare (e^(as) - 1) / s, its growth and its limit."""
    a, found = decimal(case.ratio).ln(), list[Decimal]()
    for step in range(1, case.gpus + 1):
        low, high = Decimal(0), Decimal(10**6)
        before, after = price_at(case, Decimal(case.used)), price_at(case, Decimal(case.used + step))
        for _ in range(90):
            middle = (low + high) / 2
            keeps = before * step * middle >= case.gpus * (after - before)
            low, high = (low, middle) if keeps else (middle, high)
        found.append(high)
    parts = [Decimal(step) / case.gpus for step in range(1, case.gpus + 1)]
    off = max(abs(alpha - ((a * s).exp() - 1) / s) for alpha, s in zip(found, parts, strict=True))
    grows = min((second - first for first, second in pairwise([a, *found])), default=Decimal(1))
    return min(-off, above(grows))


# -- schedules of least cost -----------------------------------------------------------------------------------------


def round_by_round(priced: PricedCase) -> Fraction:
    """Compare the least cost of all schedules for each finish time with that of the cheapest rounds."""
    case, cells = priced.case, cells_of(priced.case)
    job, worst = case.jobs[0], F(0)
    speed = min(v for v in job.speed if v)
    rounds = -(-job.work // speed)
    for last in range(job.arrival, case.slots):
        ends = replace(case, slots=last + 1)
        cut = replace(priced, case=ends, prices=priced.prices[: last + 1])
        costs = [cost_at(cut, plan) for plan in plans_of(ends, 0, lean=False)]
        each = sorted(
            sum(sorted(p for p, (r, n) in zip(row, cells, strict=True) if job.speed[r] for _ in range(n))[: job.gpus])
            for row in priced.prices[job.arrival : last + 1]
        )
        if bool(costs) != (len(each) >= rounds):
            return F(-1)
        if costs:
            worst = min(worst, -abs(min(costs) - sum(each[:rounds], F(0))))
    return worst


def cheapest_gpus(priced: PricedCase) -> Fraction:
    """Compare the cheapest GPUs of fast types with all sets of W single GPUs, for every speed."""
    job, cells, worst = priced.case.jobs[0], cells_of(priced.case), F(0)
    gpus = [(priced.prices[0][i], job.speed[r]) for i, (r, n) in enumerate(cells) for _ in range(n) if job.speed[r]]
    sets = [(sum((p for p, _ in chosen), F(0)), min(v for _, v in chosen)) for chosen in combinations(gpus, job.gpus)]
    for speed in {v for v in job.speed if v}:
        costs = [cost for cost, slowest in sets if slowest >= speed]
        fast = sorted(price for price, v in gpus if v >= speed)[: job.gpus]
        if bool(costs) != (len(fast) == job.gpus):
            return F(-1)
        if costs:
            worst = min(worst, -abs(min(costs) - sum(fast, F(0))))
    return worst


# -- Algorithm 2 -----------------------------------------------------------------------------------------------------


def few_states(case: SlotCase) -> int:
    """The bound on the states less their number, for both ways to break the last ties."""
    combined = 1
    for _, gpus in cells_of(case):
        combined *= gpus + 1
    most = sum(min(1 << i, combined) for i in range(len(case.jobs) + 1))
    return min(most - len(decided_as_printed(case, printed(case).price, last=last)[1]) for last in (False, True))


def takes_nothing(case: SlotCase) -> int:
    """Minus the largest number of jobs that Algorithm 2 runs, at printed, equal and linear prices."""
    prices: list[Price] = [printed(case).price, lambda _, __: Decimal(1) / 16, lambda i, n: Decimal(1 + i + n) / 16]
    return -max(len(decided_as_printed(case, price, last=last)[0]) for price in prices for last in (False, True))


def finds_the_best(case: SlotCase) -> Decimal:
    """The recursion's sum of payoffs less the largest of all decisions, at printed and linear prices."""
    prices: list[Price] = [printed(case).price, lambda i, n: Decimal(1 + i + n) / 16]
    return min(
        best_by_recursion(case, price, last=last) - best_of_all_decisions(case, price, last=last)
        for price in prices
        for last in (False, True)
    )


# -- Algorithm 1 -----------------------------------------------------------------------------------------------------


def each_step_gains(case: SlotCase) -> Decimal:
    """The least alpha (P_j - P_{j-1}) - (D_j - D_{j-1}) in all runs, alpha being the least of the run."""
    runs = runs_of(case, printed(case), checked=True)
    return min(run.alpha * decimal(step.value) - step.growth for run in runs for step in run.steps)


def still_feasible(case: SlotCase, prices: Prices, run: Run) -> bool:
    """Whether the payoffs of a run meet (3a) at its last prices."""
    tie = Decimal(10) ** -12
    return all(
        step.payoff >= payoff_of(prices, run.used, plan) - tie
        for step in run.steps
        for plan in plans_of(case, step.job)
    )


def bounded_if_feasible(case: SlotCase) -> float:
    """2 alpha ALG less the optimum by HiGHS, in all runs with a feasible last dual solution."""
    prices, best, slacks = printed(case), time_indexed(case), [1.0]
    for run in runs_of(case, prices, checked=True):
        if still_feasible(case, prices, run):
            grown = [step.growth / decimal(step.value) for step in run.steps if step.value]
            slacks.append(float(2 * max([Decimal(1), *grown]) * decimal(run.total)) - best)
    return min(slacks)


def competitive(case: SlotCase, factor: Callable[[Decimal], Decimal]) -> float:
    """Free GPUs, and the factor of alpha' times ALG less the optimum by HiGHS, in all runs without a check of (8)."""
    prices, best = corrected(case), time_indexed(case)
    most = factor(enlarged(prices))
    runs = runs_of(case, prices, checked=False)
    return min(min(float(least_free(case, run.used)), float(most * decimal(run.total)) - best) for run in runs)


def competitive_in_rounds(case: SlotCase) -> float:
    """Free GPUs, and (1 + alpha') ALG less the optimum by HiGHS, in all runs that decide again in every round."""
    prices = corrected(case)
    free, total = served_in_rounds(case, prices)
    return min(float(free), float((1 + enlarged(prices)) * decimal(total)) - time_indexed(case))


# -- HadarE ----------------------------------------------------------------------------------------------------------


def shared_ids(case: CopyIds) -> int:
    """The number of pairs of copies of the two jobs with the same ID."""
    numbers = range(1, case.copies + 1)
    first, second = case.parents
    return sum(case.most * i + first == case.most * k + second for i in numbers for k in numbers)


def no_shared_ids(case: CopyIds) -> int:
    """Minus the number of shared IDs."""
    return -shared_ids(case)


def shared_as_stated(case: CopyIds) -> int:
    """Whether IDs are shared exactly if the parents differ by max_job_count times 1, ..., n - 1."""
    apart = {case.most * times for times in range(1, case.copies)}
    stated = abs(case.parents[0] - case.parents[1]) in apart
    return 0 if stated == (shared_ids(case) > 0) else -1


def estimates(node: EstimatedNode, model: EstimatedModel) -> tuple[float, float]:
    """Equation (10) in both readings of PMI."""
    tflops, memory = float(node.tflops), float(node.memory)
    rest = float(model.batch * node.pcie) / float(model.weight * model.dataset)
    return sqrt(tflops / memory) * rest, tflops / sqrt(memory) * rest


def same_order(case: TwoByTwo) -> float:
    """Minus the largest relative difference of the speedups of two models."""
    first, second = ([estimates(node, model) for node in case.nodes] for model in case.models)
    return -max(abs(second[1][pmi] * first[0][pmi] / (second[0][pmi] * first[1][pmi]) - 1) for pmi in (0, 1))


def moves_as_described(case: TwoByTwo) -> float:
    """The least relative change of the estimate in the described direction where a term grows by any of some parts."""
    slack = 1.0
    for node, model, part in product(case.nodes, case.models, (F(11, 10), F(2), F(9))):
        before = estimates(node, model)
        for name, value in {**vars(node), **vars(model)}.items():
            more = {name: value * part}
            changed = replace(node, **more) if name in vars(node) else node
            other = replace(model, **more) if name in vars(model) else model
            sign = 1 if name in ("batch", "pcie", "tflops") else -1
            after = estimates(changed, other)
            slack = min(slack, *(sign * (b / a - 1) for a, b in zip(before, after, strict=True)))
    return above(slack)


def divisible(case: CopyCase) -> Fraction:
    """One less the least possible largest distance of integer parts from the exact parts, by trying all near ones."""
    steps, pace = int(case.work[0]), sum(case.speed, F(0))
    exact = [steps * v / pace for v in case.speed]
    near = product(*(range(max(0, int(part) - 1), int(part) + 3) for part in exact))
    whole = [max(abs(n - part) for n, part in zip(parts, exact, strict=True)) for parts in near if sum(parts) == steps]
    return above(1 - min(whole, default=F(1)))


def nodes_without_copy(case: CopyCase) -> int:
    """Minus the largest number of nodes without a copy in the first rounds of the library's policy."""
    nodes = len(case.speed)
    return min(len({i for own in jobs.values() for i in own}) - nodes for jobs in policy_rounds(case, nodes))


def passes(case: TrainingJob) -> Fraction:
    """Compare epochs with the samples seen by the threshold, one mini-batch or phi of them per step."""
    phi, apart = F(case.samples, case.batch), F(0)
    for batches in (F(1), phi):
        seen = sum((case.batch * batches for _ in range(int(phi * case.epochs))), F(0))
        apart = max(apart, abs(seen / case.samples - case.epochs * batches))
    return -apart


def share_by_formula(case: CopyCase) -> Fraction:
    """Compare the utilisation with the formula, for all choices of x nodes."""
    worst = F(0)
    for nodes in choices(case):
        rounds = case.work[0] / sum((case.speed[i] for i in nodes), F(0))
        formula = case.copies * rounds / (len(case.speed) * -(-rounds // 1))
        worst = min(worst, -abs(used_share(case, nodes) - formula))
    return worst


def rounds_of(case: CopyCase, copies: int) -> int:
    """Rounds of the first job on its fastest nodes."""
    return len(busy_parts([case.speed[i] for i in fastest_first(case)[:copies]], case.work[0]))


def rounds_divided(case: CopyCase) -> int:
    """Compare the rounds of x copies with R_1 over x, rounded up."""
    return -abs(rounds_of(case, case.copies) - -(-rounds_of(case, 1) // case.copies))


def grows_with_copies(case: CopyCase) -> Fraction:
    """The least growth of the utilisation with one more of the fastest nodes."""
    order = fastest_first(case)
    shares = [used_share(case, order[:x]) for x in range(1, len(order) + 1)]
    return min((b - a for a, b in pairwise(shares)), default=F(0))


def more_copies_than_nodes(case: CopyCase) -> Fraction:
    """Compare rounds and busy nodes of the library's policy with n copies and with more."""
    few, many = (policy_rounds(case, copies) for copies in (len(case.speed), len(case.speed) + case.copies))
    apart = abs(len(few) - len(many))
    for jobs, others in zip(few, many, strict=False):
        busy = [sorted(i for own in each.values() for i in own) for each in (jobs, others)]
        apart += busy[0] != busy[1]
    return F(-apart)


def batch_by_formula(case: CopyCase) -> Fraction:
    """Compare the fewest rounds by HiGHS with the formula for 1 to n + 1 copies, and see that the utilisation grows."""
    nodes, work = len(case.speed), [w / case.speed[0] for w in case.work]
    whole = [-(-w // 1) for w in work]
    apart, shares = 0, list[Fraction]()
    for copies in range(1, nodes + 2):
        rounds = fewest_rounds(case, copies)
        stated = max(-(-sum(whole) // nodes), *(-(-m // copies) for m in whole))
        apart = max(apart, abs(rounds - stated))
        shares.append(sum(work, F(0)) / (nodes * rounds))
    grows = min(b - a for a, b in pairwise(shares))
    return min(F(-apart), grows, -abs(shares[-1] - shares[-2]))


def unforked(case: CopyCase) -> Fraction:
    """U / n less the utilisation of each round, equal if no job completes in it, for all nodes of the jobs."""
    worst, n = F(1), len(case.speed)
    for nodes in permutations(range(n), len(case.work)):
        parts = [busy_parts([case.speed[i]], work) for i, work in zip(nodes, case.work, strict=True)]
        for r in range(max(map(len, parts))):
            busy = [own[r] for own in parts if r < len(own)]
            margin = F(len(busy), n) - sum(busy, F(0)) / n
            worst = min(worst, margin if r + 1 in map(len, parts) or not margin else F(-1))
    return worst


def rounds_remaining(case: CopyCase) -> Fraction:
    """The rounds of x copies between (R_n - 1) S_n / S_x, exclusively, and R_n n / x, rounded up."""
    n, order = len(case.speed), fastest_first(case)
    few, most = rounds_of(case, case.copies), rounds_of(case, n)
    pace, every = sum((case.speed[i] for i in order[: case.copies]), F(0)), sum(case.speed, F(0))
    return min(above(few - (most - 1) * every / pace), F(-(-most * n // case.copies) - few))


def share_remaining(case: CopyCase) -> Fraction:
    """X / n less the utilisation of any x nodes, 0 in all rounds but the last, and in all if they do w exactly."""
    worst, most = F(1), F(case.copies, len(case.speed))
    for nodes in choices(case):
        speeds = [case.speed[i] for i in nodes]
        parts, exactly = busy_parts(speeds, case.work[0]), case.work[0] / sum(speeds, F(0))
        margin = most - used_share(case, nodes)
        right = set(parts[:-1]) <= {F(1)} and (margin == 0) == (exactly.denominator == 1)
        worst = min(worst, margin if right else F(-1))
    return worst


def exact(method: str, slack: Callable[[Any], Any], blind: str = "") -> Adversary:
    """An adversary in fractions or integers."""
    return Adversary(method, slack, blind, tolerance=0.0)


HIGHS = "HiGHS on a time-indexed program"
RUNS = "an own simulation of Algorithm 1 with decimal prices, with all orders of equal arrivals and all best schedules"
PRICES = "payoffs that differ by less than 1e-18 count as equal"
SMALL = "differences below 1e-6"
ROUNDED = "violations below 1e-6, the tolerance of HiGHS"

ADVERSARIES: dict[str, Adversary] = {
    "hadar/table-1-gavel-task": exact(
        "types of each job at every moment of a simulation",
        one_type_at_a_time,
        "other implementations: checker and adversary run the library's Gavel",
    ),
    "hadar/completion-time-slots": exact(
        "brute force over all gangs in all slots, also schedules with a superfluous slot before the last",
        whole_slots,
        "schedules that hold GPUs after all work is done: there f_j is later than the completion",
    ),
    "hadar/many-schedules": exact("all subsets of slots, counted", half_of_the_subsets),
    "hadar/p1-p2-admission": Adversary(
        f"{HIGHS}, against HiGHS on all schedules",
        same_optimum,
        f"the correspondence of solutions that are not optimal; {ROUNDED}",
    ),
    "hadar/p3-dual": Adversary("HiGHS on both programs over all schedules", strong_duality, ROUNDED),
    "hadar/p3-bound": Adversary(f"{HIGHS} for the optimum; all schedules for P3", weak_duality, ROUNDED),
    "hadar/eq-4-payoffs": Adversary("HiGHS on (3a) with all schedules", least_dual, ROUNDED),
    "hadar/admits-any-eta": exact(
        "the fewest slots on the fastest GPUs, at eta = 1/4 + 1e-6, in fractions",
        admitted_at_eta,
        "eta closer to 1/4; utilities that increase with the completion time, which no case has",
    ),
    "hadar/admits-any-corrected": exact("the fewest slots on the fastest GPUs, in fractions", admitted_when_corrected),
    "hadar/full-server-corrected": exact(RUNS, within_capacity, PRICES),
    "hadar/initial-dual-corrected": Adversary(HIGHS, starts_below_half, ROUNDED),
    "hadar/initial-dual-slots": Adversary(
        HIGHS, starts_below_a_quarter, f"{ROUNDED}; eta above the least that the proof allows, which lowers D_0"
    ),
    "hadar/eq-8-alike": exact("brute force over all schedules for every finish time", round_by_round),
    "hadar/find-alloc-sorted": exact("brute force over all sets of single GPUs", cheapest_gpus),
    "hadar/thm-1-states": exact("an own recursion, which counts its calls", few_states, PRICES),
    "hadar/algorithm-2-skips": exact(
        "an own recursion, line by line, also at other prices", takes_nothing, "prices besides the three tried"
    ),
    "hadar/algorithm-2-payoffs": Adversary(
        "an own recursion against all sets of jobs, also at other prices", finds_the_best, PRICES
    ),
    "hadar/lemma-2": Adversary(RUNS, each_step_gains, PRICES),
    "hadar/eq-5": Adversary("products of a root by Newton's method", from_root_to_root, SMALL),
    "hadar/lemma-3": Adversary(
        "central differences at 41 numbers of GPUs", differential_relation, "slopes within 1e-6"
    ),
    "hadar/step-factor": Adversary("bisection for the least alpha", least_factor, SMALL),
    "hadar/lemma-1-feasible": Adversary(f"{RUNS}; {HIGHS}", bounded_if_feasible, f"{ROUNDED}; {PRICES}"),
    "hadar/thm-2-corrected": Adversary(
        f"{RUNS}; {HIGHS}", partial(competitive, factor=lambda alpha: 2 * alpha), f"{ROUNDED}; {PRICES}"
    ),
    "hadar/thm-2-sharper": Adversary(
        f"{RUNS}; {HIGHS}", partial(competitive, factor=lambda alpha: 1 + alpha), f"{ROUNDED}; {PRICES}"
    ),
    "hadar/thm-2-one-round": Adversary(
        f"an own simulation of all rounds, for all orders of equal arrivals and all ties; {HIGHS}",
        competitive_in_rounds,
        f"{ROUNDED}; {PRICES}",
    ),
    "hadar/job-id-bounded": exact("all pairs of copies", no_shared_ids),
    "hadar/job-id-exactly": exact("all pairs of copies", shared_as_stated),
    "hadar/eq-10-speedups": Adversary("(10) in floats, with its roots", same_order),
    "hadar/eq-10-terms": Adversary("(10) in floats, each term larger by 10%, 100% and 800%", moves_as_described),
    "hadar/steps": exact("all integer parts near the exact ones", divisible),
    "hadar/corollary-assigned": exact(
        "the library's policy, round by round to the completion",
        nodes_without_copy,
        "rounds after the eighth; the checker runs the same policy",
    ),
    "hadar/step-threshold-batches": exact("samples counted step by step", passes),
    "hadar/cru-formula": exact("round by round, for all choices of x nodes", share_by_formula),
    "hadar/thm-3-rounds-alike": exact("rounds counted", rounds_divided),
    "hadar/thm-3-fastest": exact("round by round, the last of equally fast nodes first", grows_with_copies),
    "hadar/thm-3-more": exact(
        "the library's policy, round by round to the completion",
        more_copies_than_nodes,
        "rounds after the eighth; the checker runs the same policy",
    ),
    "hadar/thm-3-batch-alike": exact("HiGHS on nodes of each job in each round", batch_by_formula),
    "hadar/unforked-rounds-jobs": exact("round by round, for all nodes of the jobs", unforked),
    "hadar/remaining-count-within": exact("rounds counted", rounds_remaining),
    "hadar/remaining-share-within": exact("round by round, for all choices of x nodes", share_remaining),
}
