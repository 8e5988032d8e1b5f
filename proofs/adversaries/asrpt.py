"""Adversaries of the claims of A-SRPT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import accumulate, combinations, pairwise, permutations, product
from typing import Any

from hetopt.data.workload import Stage
from hetopt.proofs.adversaries.asrpt_jobs import (
    Links,
    Placement,
    Stages,
    all_apart,
    edges_of,
    every_table,
    greedy,
    heavy_edge,
    iteration,
    neighbours,
    paths,
    stage_seconds,
    stages_of,
)
from hetopt.proofs.adversaries.asrpt_runs import (
    MachineRun,
    Variant,
    least_total,
    shortest_first,
    variants,
)
from hetopt.proofs.asrpt.graph_cuts import CutCase
from hetopt.proofs.asrpt.hardness import BinPackingCase, ThreePartitionCase
from hetopt.proofs.asrpt.iteration_equations import PlacedJob
from hetopt.proofs.asrpt.scheduling_cases import SchedulingCase
from hetopt.proofs.asrpt.single_machine import PreemptiveCase
from hetopt.proofs.asrpt.staged_cases import StagedCase
from hetopt.proofs.ledger.attack import Adversary

F = Fraction


def above(margin: Fraction) -> Fraction:
    """The slack of the claim that ``margin`` is above 0."""
    return margin if margin > 0 else margin - 1


# -- one machine -----------------------------------------------------------------------------------------------------


def shortest_is_best(case: PreemptiveCase) -> Fraction:
    """The least sum of all orders of priority, less the largest that SRPT reaches second by second, for all ties."""
    sums = set[int]()

    def run(time: int, left: tuple[int, ...], total: int) -> None:
        if not any(left):
            sums.add(total)
            return
        here = [i for i, n in enumerate(left) if n and case.arrivals[i] <= time]
        least = min((left[i] for i in here), default=0)
        for i in [i for i in here if left[i] == least] or [-1]:
            after = tuple(n - (j == i) for j, n in enumerate(left))
            run(time + 1, after, total + (time + 1 if i >= 0 and not after[i] else 0))

    run(0, case.sizes, 0)
    return least_total(list(map(F, case.arrivals)), list(map(F, case.sizes))) - max(sums)


# -- Algorithm 1 -----------------------------------------------------------------------------------------------------


def in_every_variant(slack: Callable[[Variant], Fraction]) -> Callable[[SchedulingCase], Fraction]:
    """The least slack of both ways to break ties."""
    return lambda case: min(map(slack, variants(case)))


def starts_in_order(variant: Variant, keys: Sequence[Fraction]) -> Fraction:
    """The least difference of the starts of a job with a larger key and one with a smaller."""
    start = {run.job: run.start for run in variant.continuous}
    pairs = permutations(start, 2)
    return min((start[j] - start[i] for i, j in pairs if keys[i] < keys[j]), default=F(0))


def pending_order(variant: Variant) -> Fraction:
    """Starts in the order of the virtual completions."""
    return starts_in_order(variant, variant.virtual(variant.predicted).ends)


def larger_later(variant: Variant) -> Fraction:
    """Starts in the order of predicted workloads."""
    return starts_in_order(variant, variant.sizes(variant.predicted))


def within_delays(variant: Variant) -> Fraction:
    """Starts between the first moment with enough free GPUs, and the end of the delay of a heavy job."""
    ends, sizes = variant.virtual(variant.predicted).ends, variant.sizes(variant.predicted)
    before, slacks = F(0), list[Fraction]()
    for n, run in enumerate(variant.continuous):
        earlier = variant.continuous[:n]
        head = max(before, ends[run.job])
        moments = sorted({head, *(other.end for other in earlier if other.end > head)})
        ready = next(t for t in moments if sum(variant.idle(earlier, t)) >= variant.gpus[run.job])
        wait = variant.case.delay * sizes[run.job] if variant.is_heavy(run.job) else F(0)
        slacks += [run.start - ready, ready + wait - run.start]
        before = run.start
    return min(slacks)


def feasible(variant: Variant) -> Fraction:
    """(1) and (2), and the least number of free GPUs of a server at any start or end, or between two of them."""
    runs, slack = variant.continuous, F(variant.total)
    moments = sorted({t for run in runs for t in (run.start, run.end)})
    moments += [(a + b) / 2 for a, b in pairwise(moments)]
    for t in moments:
        slack = min(slack, F(min(variant.idle(runs, t))))
    for run in runs:
        placed = tuple(map(sum, run.table)) == variant.stages[run.job].replicas
        slack = min(slack, run.start - variant.arrivals[run.job], F(0) if placed else F(-1))
    return slack


# -- iterations ------------------------------------------------------------------------------------------------------


def placed(case: PlacedJob) -> tuple[Stages, Placement, Links]:
    """The stages, the replicas on each server, and the bandwidths."""
    table = tuple(tuple(int(n) for n in row) for row in case.x.tolist())
    return stages_of(case.placing.job), table, Links(case.placing.nic, case.placing.intra)


def computing(stage: Stage, replicas: int) -> Fraction:
    """Seconds until the last of some replicas has passed forward and backward, all at the same time."""
    clocks = [F(stage.forward_s)] * replicas
    return max((clock + F(stage.backward_s) for clock in clocks), default=F(0))


def side_by_side(case: PlacedJob) -> Fraction:
    """Compare (4) with the clocks of replicas, on each server."""
    worst = F(0)
    for stage, row in zip(case.placing.job.stages, case.x.tolist(), strict=True):
        for count in row:
            stated = F(stage.forward_s) + F(stage.backward_s) if count > 0 else F(0)
            worst = min(worst, -abs(computing(stage, count) - stated))
    return worst


def exchanges(case: PlacedJob) -> Fraction:
    """Compare (5) as repaired with bytes that are handed from replica to replica."""
    stages, table, links = placed(case)
    place = [[m for m, n in enumerate(row) for _ in range(n)] for row in table]  # server of each replica
    k, worst = stages.replicas, F(0)
    for s, row in enumerate(table):
        for m, here in enumerate(row):
            if not here:
                continue
            outside, inside = F(0), F(0)
            if s:
                d_in = k[s - 1] * stages.outputs[s - 1] / k[s]
                outside += 2 * d_in * F(k[s - 1] - table[s - 1][m], k[s - 1])
                inside += 2 * d_in * F(table[s - 1][m], k[s - 1])
            if s + 1 < len(k):
                outside += 2 * stages.outputs[s] * F(k[s + 1] - table[s + 1][m], k[s + 1])
                inside += 2 * stages.outputs[s] * F(table[s + 1][m], k[s + 1])
            stated = outside * here / (here * links.nic) + inside / links.intra
            for mine in place[s]:
                seconds = F(0)
                for r in neighbours(stages, s) if mine == m else ():
                    sent = stages.outputs[min(s, r)] * k[min(s, r)]  # by all replicas together, to all
                    for other in place[r]:
                        seconds += 2 * sent / (k[s] * k[r]) / (links.intra if other == mine else links.nic)
                worst = min(worst, -abs(seconds - stated)) if mine == m else worst
    return worst


def ring_seconds(
    servers: Sequence[int], shares: Sequence[int], parameters: Fraction, links: Links
) -> dict[int, Fraction]:
    """For each server the seconds of its slowest edge in a ring AllReduce over replicas on these servers.

    Chunks are passed on step by step, as the sets of the replicas whose gradients they contain.
    """
    k = len(servers)
    chunks = [[{i} for _ in range(k)] for i in range(k)]
    busy = [F(0)] * k
    for step in range(2 * k - 2):
        sent = [set(chunks[i][(i - step) % k]) for i in range(k)]
        for i, content in enumerate(sent):
            after, chunk = (i + 1) % k, (i - step) % k
            chunks[after][chunk] = chunks[after][chunk] | content if step < k - 1 else content
            band = links.intra if servers[after] == servers[i] else shares[servers[i]] * links.nic
            busy[i] += parameters / k / band
    assert all(len(chunk) == k for own in chunks for chunk in own), "every replica has all sums"
    return {m: max((b for b, own in zip(busy, servers, strict=True) if own == m), default=F(0)) for m in set(servers)}


def reductions(case: PlacedJob) -> Fraction:
    """Compare (6) as repaired with rings in which the replicas of a server follow each other, in all orders."""
    stages, table, links = placed(case)
    worst = F(0)
    for s, row in enumerate(table):
        k = stages.replicas[s]
        used = [m for m, n in enumerate(row) if n]
        for order in permutations(used):
            found = ring_seconds([m for m in order for _ in range(row[m])], row, stages.parameters[s], links)
            for m in used:
                band = k * links.intra if row[m] == k else k * row[m] * links.nic
                worst = min(worst, -abs(found[m] - 2 * (k - 1) * stages.parameters[s] / band))
    return worst


def longest_path(stages: Sequence[Fraction], iterations: int) -> Fraction:
    """Seconds of some iterations of a pipeline: the longest path through the grid of iterations and stages."""
    return max(
        sum((visits * t for visits, t in zip(path, stages, strict=True)), F(0))
        for path in paths(len(stages), iterations)
    )


def paced(case: PlacedJob) -> Fraction:
    """Compare n iterations with n alpha and, once, the stages but a slowest one."""
    own = sorted(stage_seconds(*placed(case)))
    worst = F(0)
    for n in (1, 2, 3, 6):
        worst = min(worst, -abs(longest_path(own, n) - n * own[-1] - sum(own[:-1], F(0))))
    return worst


def within_filling(case: PlacedJob) -> Fraction:
    """``n alpha <= n iterations <= (n + S - 1) alpha``."""
    own = stage_seconds(*placed(case))
    alpha, slacks = max(own), list[Fraction]()
    for n in (1, 2, 3, 6):
        taken = longest_path(own, n)
        slacks += [taken - n * alpha, (n + len(own) - 1) * alpha - taken]
    return min(slacks)


# -- bytes -----------------------------------------------------------------------------------------------------------


def handed_over(before: int, k: int, d_out: Fraction) -> tuple[dict[tuple[int, int], Fraction], Fraction]:
    """Bytes between each replica of a stage and each of the k of the next, and the input of one of the latter."""
    found = {(a, b): F(0) for a in range(before) for b in range(k)}
    d_in = F(0)
    for a, b in found:
        found[a, b] += d_out / k  # forward, from a
        d_in += d_out / k if b == 0 else 0
    for a, b in found:
        found[a, b] += d_in / before  # back, from b, which returns the gradients of its input
    return found, d_in


def evenly_split(case: StagedCase) -> Fraction:
    """Compare both expressions with the outputs and gradients of all replicas, split over their partners."""
    stages = stages_of(case.job)
    (before, k), d_out = stages.replicas, stages.outputs[0]
    found, d_in = handed_over(before, k, d_out)
    return -max(abs(v - rule) for v in found.values() for rule in (2 * d_out / k, 2 * d_in / before))


def tree_traffic(parents: Sequence[int], parameters: Fraction) -> tuple[list[Fraction], list[Fraction]]:
    """Bytes sent by each replica, and carried by each edge, where a tree reduces half of the parameters.

    Entry i is the parent of replica i, -1 for the root.
    """
    sent, carried = [F(0)] * len(parents), [F(0)] * len(parents)
    for child, parent in enumerate(parents):
        if parent >= 0:
            for sender in (child, parent):  # the sum of the subtree up, the total down
                sent[sender] += parameters / 2
                carried[child] += parameters / 2
    return sent, [carried[i] for i, parent in enumerate(parents) if parent >= 0]


def reduced_in_the_mean(case: StagedCase) -> Fraction:
    """Compare rings, and pairs of trees of several shapes, with the statement."""
    stages = stages_of(case.job)
    k, h = stages.replicas[0], stages.parameters[0]
    rule, links = F(2 * (k - 1), k) * h, Links(F(1), F(1))
    worst = -max(abs(v - rule) for v in ring_seconds(range(k), [1] * k, h, links).values())
    shapes = [[i - 1 for i in range(k)], [-1, *[0] * (k - 1)], [(i - 1) // 2 for i in range(k)]]
    for parents in shapes:
        (sent, carried), (other, more) = tree_traffic(parents, h), tree_traffic(_mirrored(parents), h)
        mean = (sum(sent, F(0)) + sum(other, F(0))) / k
        worst = min(worst, -abs(mean - rule), *(-abs(c - h) for c in (*carried, *more)))
    return worst


def _mirrored(parents: Sequence[int]) -> list[int]:
    """The tree with replicas numbered in the opposite order."""
    last = len(parents) - 1
    return [last - parent if parent >= 0 else -1 for parent in reversed(parents)]


# -- bounds of iterations --------------------------------------------------------------------------------------------


def staged(case: StagedCase) -> tuple[Stages, Links, list[Fraction]]:
    """The stages, the bandwidths, and the iterations of all placements."""
    stages, links = stages_of(case.job), Links(case.nic, case.intra)
    return stages, links, [iteration(stages, table, links) for table in every_table(stages, case.free)]


def nothing_above_apart(case: StagedCase) -> Fraction:
    """alpha_max less the longest iteration of all placements."""
    stages, links, alphas = staged(case)
    return all_apart(stages, links) - max(alphas)


def together_is_slower(case: StagedCase) -> Fraction:
    """The iteration with all replicas on the server, less alpha_max."""
    stages, links, alphas = staged(case)
    return above(max(alphas) - all_apart(stages, links))


def greedy_iterations(case: StagedCase) -> list[Fraction]:
    """alpha~_min for both ways to break ties."""
    stages, links, _ = staged(case)
    return [greedy(stages, case.free, links, last=last) for last in (False, True)]


def between_extremes(case: StagedCase) -> Fraction:
    """``alpha_min <= alpha~_min <= alpha_max``."""
    stages, links, alphas = staged(case)
    found = greedy_iterations(case)
    return min(min(found) - min(alphas), all_apart(stages, links) - max(found))


def greedy_is_shortest(case: StagedCase) -> Fraction:
    """Minus the distance of alpha~_min and alpha_min."""
    shortest = min(staged(case)[2])
    return -max(abs(alpha - shortest) for alpha in greedy_iterations(case))


def within_bandwidths(case: StagedCase) -> Fraction:
    """``g B_intra / B_inter alpha_min`` less alpha_max, which bounds rho, and less alpha~_min."""
    stages, links, alphas = staged(case)
    most = links.intra / links.nic * min(alphas)
    return min(most - all_apart(stages, links), *(most - alpha for alpha in greedy_iterations(case)))


def bytes_cut(stages: Stages, servers: Sequence[int]) -> Fraction:
    """Bytes of the edges between replicas on different servers."""
    return sum((w for (a, b), w in edges_of(stages).items() if servers[a] != servers[b]), F(0))


def bytes_inside(stages: Stages, servers: Sequence[int]) -> Fraction:
    """Bytes of the edges between replicas on the same server."""
    return sum((w for (a, b), w in edges_of(stages).items() if servers[a] == servers[b]), F(0))


def cut_or_inside(case: CutCase) -> Fraction:
    """Minus the number of mappings that cut least but have not the most bytes inside, or the other way round."""
    stages = stages_of(case.placing.job)
    seats = [m for m, n in enumerate(case.placing.free) for _ in range(n)]
    mappings = set(permutations(seats))
    cut = {servers: bytes_cut(stages, servers) for servers in mappings}
    inside = {servers: bytes_inside(stages, servers) for servers in mappings}
    least, most = min(cut.values()), max(inside.values())
    return -F(sum((cut[own] == least) != (inside[own] == most) for own in mappings))


def on_one_server(case: StagedCase) -> Fraction:
    """Minus the bytes that Heavy-Edge cuts on one server's GPUs and the excess of its iteration, in both variants."""
    stages, links, alphas = staged(case)
    slacks = list[Fraction]()
    for last in (False, True):
        table = heavy_edge(stages, (stages.gpus,), last)
        servers = [m for row in table for m, n in enumerate(row) for _ in range(n)]
        slacks.append(-bytes_cut(stages, servers) - abs(iteration(stages, table, links) - min(alphas)))
    return min(slacks)


# -- reductions ------------------------------------------------------------------------------------------------------


def cuts_decide(case: BinPackingCase) -> Fraction:
    """Whether items fill the servers, by brute force, exactly if some mapping cuts, and some iteration takes, less."""
    count, heavy = len(case.items), max(3, len(case.items))
    bins = product(range(case.servers), repeat=count)
    fits = any(
        all(sum(a for a, b in zip(case.items, own, strict=True) if b == m) <= case.size for m in range(case.servers))
        for own in bins
    )
    weights = [w for a in case.items for w in (*[heavy] * (a - 1), 1)][:-1]
    cut, seconds = sum(weights), F(2 * heavy)
    for servers in _equal_parts(tuple(range(sum(case.items))), case.size):
        where = {v: m for m, part in enumerate(servers) for v in part}
        apart = [where[i] != where[i + 1] for i in range(len(weights))]
        cut = min(cut, sum(w for w, away in zip(weights, apart, strict=True) if away))
        sides = [F(w) if away else F(w, heavy) for w, away in zip(weights, apart, strict=True)]
        slowest = max(a + b for a, b in zip([F(0), *sides], [*sides, F(0)], strict=True))
        seconds = min(seconds, slowest)
    return F(0) if (cut < heavy) == fits == (seconds < heavy) else F(-1)


def _equal_parts(items: tuple[int, ...], size: int) -> list[list[tuple[int, ...]]]:
    """All partitions into parts of this size."""
    if not items:
        return [[]]
    first, rest = items[0], items[1:]
    found = []
    for others in combinations(rest, size - 1):
        left = tuple(v for v in rest if v not in others)
        found += [[(first, *others), *parts] for parts in _equal_parts(left, size)]
    return found


def triples_decide(case: ThreePartitionCase) -> Fraction:
    """Whether triples fill the server, by brute force, exactly if no sequence of sets of jobs has a smaller sum."""
    n = len(case.widths)
    triples = _equal_parts(tuple(range(n)), 3)
    fits = any(all(sum(case.widths[i] for i in part) == case.gpus for part in parts) for parts in triples)
    sets = [own for own in range(1, 1 << n) if sum(w for i, w in enumerate(case.widths) if own >> i & 1) <= case.gpus]
    least = {0: 0}  # jobs left -> least sum of their completion times if they start now
    for left in range(1, 1 << n):  # each second of waiting costs one for each job that is left
        least[left] = left.bit_count() + min(least[left ^ own] for own in sets if own & left == own)
    rounds = n // 3
    return F(0) if (least[(1 << n) - 1] == 3 * rounds * (rounds + 1) // 2) == fits else F(-1)


# -- the bounds ------------------------------------------------------------------------------------------------------


class Terms:
    """The quantities of the bounds; ``sharper``: the longest iteration of all placements, and one more GPU."""

    def __init__(self, variant: Variant, *, sharper: bool = False) -> None:
        self.count, self.gpus, self.widest = len(variant.stages), variant.total, max(variant.gpus)
        self.longest = variant.longest if sharper else variant.apart
        self.rho = max(a / b for a, b in zip(self.longest, variant.shortest, strict=True))
        self.most, self.least = max(self.longest), min(variant.shortest)
        self.error = sum((abs(n - guess) for n, guess in zip(variant.true, variant.predicted, strict=True)), F(0))
        self.spare = self.gpus - self.widest + sharper
        self.tau = variant.case.delay


def total_of(variant: Variant, iterations: Sequence[Fraction]) -> Fraction:
    """OPT of the virtual machine: the least sum of all orders of priority."""
    return least_total(variant.arrivals, variant.sizes(iterations))


def gamma(variant: Variant) -> Fraction:
    """Gamma_A."""
    return sum((run.end for run in variant.continuous), F(0))


def lemma_1(variant: Variant, *, sharper: bool = False) -> Fraction:
    """``rho OPT_A - OPT_A1``."""
    return Terms(variant, sharper=sharper).rho * variant.optimum[0] - total_of(variant, variant.true)


def lemma_2(variant: Variant, *, sharper: bool = False) -> Fraction:
    """The slack of Lemma 2."""
    return _lemma_2(variant, Terms(variant, sharper=sharper), gamma(variant), total_of(variant, variant.predicted))


def lemma_2_in_slots(variant: Variant) -> Fraction:
    """Lemma 2 where jobs start in slots, and a slot of the virtual machine serves one job."""
    ends = variant.virtual(variant.predicted, slots=True).ends
    reached = sum((run.end for run in variant.run(ends, slots=True)), F(0))
    return _lemma_2(variant, Terms(variant), reached, sum(ends, F(0)))


def _lemma_2(variant: Variant, q: Terms, reached: Fraction, virtual: Fraction) -> Fraction:
    bound = (1 + q.tau + q.rho * q.gpus / q.spare) * virtual + q.rho * variant.optimum[0]
    return bound + q.count * q.widest * q.most / q.spare * q.error - reached


def each_job(variant: Variant, *, sharper: bool = False) -> Fraction:
    """The least slack of (12) of all jobs."""
    q, ends = Terms(variant, sharper=sharper), variant.virtual(variant.predicted).ends
    factor = 1 + q.tau + q.rho * q.gpus / q.spare
    wrong = q.widest * q.most / q.spare * q.error
    return min(
        factor * ends[run.job] + wrong + variant.true[run.job] * q.longest[run.job] - run.end
        for run in variant.continuous
    )


def lemma_3(variant: Variant) -> Fraction:
    """The slack of Lemma 3."""
    q = Terms(variant)
    wrong = q.count * q.widest * q.most / q.gpus * q.error
    return total_of(variant, variant.true) + wrong - total_of(variant, variant.predicted)


def over_and_under(variant: Variant) -> tuple[Fraction, Fraction]:
    """Seconds on the virtual machine by which jobs are overestimated, and underestimated."""
    errors = [b - a for a, b in zip(variant.sizes(variant.true), variant.sizes(variant.predicted), strict=True)]
    return sum((v for v in errors if v > 0), F(0)), sum((-v for v in errors if v < 0), F(0))


def lemma_3_exact(variant: Variant) -> Fraction:
    """The slack of the last line of Appendix C."""
    over, under = over_and_under(variant)
    bound = total_of(variant, variant.true) + len(variant.stages) * over - under
    return bound - total_of(variant, variant.predicted)


def theorem_factor(q: Terms) -> Fraction:
    """The multiple of OPT_A in Theorem 1."""
    share = F(q.gpus, q.spare)
    wrong = 2 * q.rho * q.widest * q.most / q.least * (1 + q.tau + (1 + q.rho) * share) * q.error / q.count
    return (2 + q.tau + q.rho * share) * q.rho + wrong


def theorem_1(variant: Variant, *, sharper: bool = False) -> Fraction:
    """The slack of Theorem 1."""
    return theorem_factor(Terms(variant, sharper=sharper)) * variant.optimum[0] - gamma(variant)


def theorem_1_strict(variant: Variant) -> Fraction:
    """The slack of Theorem 1 with a strict inequality."""
    return above(theorem_1(variant))


def theorem_1_in_slots(variant: Variant) -> Fraction:
    """Theorem 1 plus OPT_A, where jobs start in slots and the virtual machine runs in continuous time."""
    runs = variant.run(variant.virtual(variant.predicted).ends, slots=True)
    return (theorem_factor(Terms(variant)) + 1) * variant.optimum[0] - sum((run.end for run in runs), F(0))


def combined(variant: Variant) -> Fraction:
    """The slack of the sum of the lemmas."""
    q = Terms(variant)
    bound = (2 + q.tau + q.rho * q.gpus / q.spare) * q.rho * variant.optimum[0]
    wrong = q.count * q.widest * q.most * ((1 + q.tau) / q.gpus + (1 + q.rho) / q.spare) * q.error
    return bound + wrong - gamma(variant)


def least_optimum(variant: Variant) -> Fraction:
    """``rho OPT_A >= OPT_A1 >= alpha_min I (I + 1) / (2 G)``."""
    q, middle = Terms(variant), total_of(variant, variant.true)
    least = sum((k * q.least / q.gpus for k in range(1, q.count + 1)), F(0))
    return min(q.rho * variant.optimum[0] - middle, middle - least)


def own_durations(variant: Variant) -> Fraction:
    """``sum n alpha_max <= rho sum n alpha_min <= rho OPT_A``."""
    q = Terms(variant)
    longest = sum((n * alpha for n, alpha in zip(variant.true, variant.apart, strict=True)), F(0))
    middle = q.rho * sum((n * alpha for n, alpha in zip(variant.true, variant.shortest, strict=True)), F(0))
    return min(middle - longest, q.rho * variant.optimum[0] - middle)


# -- steps of the proofs ---------------------------------------------------------------------------------------------


def stretched_shares(variant: Variant) -> Fraction:
    """The shares of the machine in every optimal schedule stretched by rho, and what each job receives in time."""
    rho, sizes, slack = Terms(variant).rho, variant.sizes(variant.true), F(1)
    for schedule in variant.optimum[1]:
        for time in {rho * run.start for run in schedule}:
            here = [run for run in schedule if rho * run.start <= time < rho * run.end]
            slack = min(slack, 1 - sum((F(variant.gpus[run.job], variant.total) for run in here), F(0)))
        for run in schedule:
            received = F(variant.gpus[run.job], variant.total) * (rho * run.end - rho * run.start)
            slack = min(slack, received - sizes[run.job], rho * run.start - variant.arrivals[run.job])
    return slack


def work_by_then(variant: Variant) -> Fraction:
    """Completion times less the sizes of all jobs up to then, in continuous time and in slots."""
    sizes, slacks = variant.sizes(variant.predicted), list[Fraction]()
    for slots in (False, True):
        ends = variant.virtual(variant.predicted, slots=slots).ends
        order = variant.queue(ends)
        slacks += [ends[i] - done for i, done in zip(order, accumulate(sizes[i] for i in order), strict=True)]
    return min(slacks)


def limits_of_starts(variant: Variant) -> list[tuple[Fraction, Fraction, Fraction]]:
    """For each job in its turn: the GPU seconds before it over G - g_max, their bound in (10), and all delays."""
    q, ends, found = (
        Terms(variant),
        variant.virtual(variant.predicted).ends,
        list[tuple[Fraction, Fraction, Fraction]](),
    )
    before, delays, sizes = F(0), F(0), variant.sizes(variant.predicted)
    for i in variant.queue(ends):
        delays += q.tau * sizes[i]
        bound = q.rho * q.gpus / q.spare * ends[i] + q.widest * q.most / q.spare * q.error
        found.append((before, bound, delays))
        before += variant.gpus[i] * variant.true[i] * variant.apart[i] / q.spare
    return found


def seconds_before(variant: Variant) -> Fraction:
    """The least slack of (10)."""
    return min(bound - before for before, bound, _ in limits_of_starts(variant))


def starts_by(variant: Variant, *, short: bool) -> Fraction:
    """The least slack of the starts by (11), or ``short`` by the inequality before it."""
    ends = variant.virtual(variant.predicted).ends
    rows = zip(variant.continuous, limits_of_starts(variant), strict=True)
    return min(
        ends[run.job] + (before if short else bound) + delays - run.start for run, (before, bound, delays) in rows
    )


def unseen_jobs(variant: Variant) -> Fraction:
    """Compare completions with jobs of size 0 on the virtual machine, and without."""
    sizes = variant.sizes(variant.predicted)
    ends = variant.virtual(variant.predicted).ends
    seen = [i for i, size in enumerate(sizes) if size]
    slack = -max((abs(ends[i] - variant.arrivals[i]) for i, size in enumerate(sizes) if not size), default=F(0))
    if seen:
        alone = shortest_first([variant.arrivals[i] for i in seen], [sizes[i] for i in seen], last=variant.last)
        slack = min(slack, *(-abs(ends[i] - end) for i, end in zip(seen, alone.ends, strict=True)))
    return slack


def longer_sizes(variant: Variant) -> list[Fraction]:
    """For each job the larger of its true and its predicted size."""
    return list(map(max, variant.sizes(variant.true), variant.sizes(variant.predicted)))


def phase_1(variant: Variant) -> Fraction:
    """(13): AUX[1], SRPT with extended jobs, period by period, and the bound."""
    true, longer = variant.sizes(variant.true), longer_sizes(variant)
    run, shift, total = variant.virtual(variant.true), F(0), F(0)
    last = {bar.job: n for n, bar in enumerate(run.bars)}
    for n, bar in enumerate(run.bars):
        if last[bar.job] == n:
            shift += longer[bar.job] - true[bar.job]
            total += bar.end + shift
    bound = sum(run.ends, F(0)) + len(true) * over_and_under(variant)[0]
    return min(total - least_total(variant.arrivals, longer), bound - total)


def phase_2(variant: Variant) -> Fraction:
    """The slack of (15)."""
    longer = least_total(variant.arrivals, longer_sizes(variant))
    return longer - over_and_under(variant)[1] - total_of(variant, variant.predicted)


def running(run: MachineRun, time: Fraction) -> int | None:
    """The job that the machine runs at a moment."""
    return next((bar.job for bar in run.bars if bar.start <= time < bar.end), None)


def first_difference(variant: Variant) -> Fraction:
    """The corrected (14) where AUX and the machine with predictions first differ, ties being broken alike."""
    longer, guessed = longer_sizes(variant), variant.sizes(variant.predicted)
    aux, pred = (shortest_first(variant.arrivals, sizes, last=variant.last) for sizes in (longer, guessed))
    moments = sorted({t for run in (aux, pred) for bar in run.bars for t in (bar.start, bar.end)})
    work = [F(0)] * len(longer)
    for time, until in pairwise(moments):
        one, other = running(aux, time), running(pred, time)
        if one == other:
            if one is not None:
                work[one] += until - time
            continue
        if one is None:
            return F(-1)
        if guessed[one] == work[one] < longer[one]:
            return F(0)  # complete with predictions, and underestimated
        if other is None or longer[other] == guessed[other]:
            return F(-1)
        chain = [guessed[other], guessed[one], longer[one], longer[other]]
        left = [size - work[i] for size, i in zip(chain, (other, one, one, other), strict=True)]
        return min(b - a for a, b in pairwise(left))
    return F(0)


def error_seconds(variant: Variant) -> Fraction:
    """``g_max alpha_max / G epsilon`` less the seconds of all errors."""
    q = Terms(variant)
    return q.widest * q.most / q.gpus * q.error - sum(over_and_under(variant), F(0))


# -- the claims ------------------------------------------------------------------------------------------------------


def exact(method: str, slack: Callable[[Any], Any], blind: str = "") -> Adversary:
    """An adversary in fractions."""
    return Adversary(method, slack, blind, tolerance=0.0)


TIES = "ties broken in more than two ways"


def of_schedules(slack: Callable[[Variant], Fraction], method: str = "") -> Adversary:
    """An adversary that runs Algorithm 1, the virtual machine and the optimum with both ways to break ties."""
    own = "an own Algorithm 1, SRPT and Heavy-Edge; brute force over all starts and placements for the optimum"
    return exact(method or own, in_every_variant(slack), TIES)


MACHINE = "an own SRPT, its sum by brute force over all orders of priority"
ALL_TABLES = "all placements, replica by replica"

ADVERSARIES: dict[str, Adversary] = {
    "asrpt/srpt": exact("all orders of priority, against SRPT with all ties second by second", shortest_is_best),
    "asrpt/pending-order": of_schedules(pending_order, "an own Algorithm 1"),
    "asrpt/delay-limit": of_schedules(within_delays, "an own Algorithm 1"),
    "asrpt/larger-later-together": of_schedules(larger_later, "an own Algorithm 1"),
    "asrpt/eq-3-half-open": of_schedules(feasible, "an own Algorithm 1, at and between all starts and ends"),
    "asrpt/eq-4": exact("replicas side by side", side_by_side),
    "asrpt/eq-5-repaired": exact("bytes from replica to replica", exchanges),
    "asrpt/eq-6-repaired": exact(
        "rings in all orders of the servers, step by step", reductions, "edges that the receiving card slows down"
    ),
    "asrpt/eq-7": exact("longest of all paths through iterations and stages", paced, "more than six iterations"),
    "asrpt/eq-8-completion-within": exact(
        "longest of all paths through iterations and stages", within_filling, "more than six iterations"
    ),
    "asrpt/link-weight": exact("bytes from replica to replica", evenly_split),
    "asrpt/allreduce-mean": exact(
        "rings step by step, and pairs of trees of three shapes, edge by edge", reduced_in_the_mean, "other trees"
    ),
    "asrpt/alpha-max-fast-inside": exact(ALL_TABLES, nothing_above_apart),
    "asrpt/alpha-max-needed": exact(ALL_TABLES, together_is_slower),
    "asrpt/alpha-order": exact(f"{ALL_TABLES}; an own Heavy-Edge", between_extremes, TIES),
    "asrpt/alpha-one-server": exact(f"{ALL_TABLES}; an own Heavy-Edge", greedy_is_shortest, TIES),
    "asrpt/alpha-ratio-bound": exact(f"{ALL_TABLES}; an own Heavy-Edge", within_bandwidths, TIES),
    "asrpt/cut-and-inside": exact("all mappings of replicas, edge by edge", cut_or_inside),
    "asrpt/one-server": exact(f"{ALL_TABLES}; an own Heavy-Edge", on_one_server, TIES),
    "asrpt/np-complete": exact("all packings, and all partitions into servers", cuts_decide),
    "asrpt/eq-8-np-hard": exact("all triples, and all sequences of sets of jobs", triples_decide),
    "asrpt/lemma-1-continuous": of_schedules(lemma_1),
    "asrpt/lemma-1-any-bandwidth": of_schedules(partial(lemma_1, sharper=True)),
    "asrpt/lemma-2-all-slots": of_schedules(lemma_2_in_slots),
    "asrpt/lemma-2-continuous": of_schedules(lemma_2),
    "asrpt/lemma-2-sharper": of_schedules(partial(lemma_2, sharper=True)),
    "asrpt/eq-12": of_schedules(each_job),
    "asrpt/eq-12-sharper": of_schedules(partial(each_job, sharper=True)),
    "asrpt/lemma-3-continuous": of_schedules(lemma_3, MACHINE),
    "asrpt/lemma-3-exact": of_schedules(lemma_3_exact, MACHINE),
    "asrpt/thm-1-continuous": of_schedules(theorem_1),
    "asrpt/thm-1-sharper": of_schedules(partial(theorem_1, sharper=True)),
    "asrpt/thm-1-starts-in-slots": of_schedules(theorem_1_in_slots),
    "asrpt/appendix-a-shares": of_schedules(stretched_shares, "all optimal schedules, by brute force"),
    "asrpt/appendix-b-work": of_schedules(work_by_then, "an own SRPT"),
    "asrpt/appendix-b-starts": of_schedules(partial(starts_by, short=True)),
    "asrpt/eq-10": of_schedules(seconds_before, "an own SRPT"),
    "asrpt/eq-11-starts": of_schedules(partial(starts_by, short=False)),
    "asrpt/appendix-b-own": of_schedules(own_durations),
    "asrpt/thm-1-combined": of_schedules(combined),
    "asrpt/thm-1-least": of_schedules(least_optimum),
    "asrpt/thm-1-strict": of_schedules(theorem_1_strict),
    "asrpt/unseen-jobs": of_schedules(unseen_jobs, "an own SRPT"),
    "asrpt/eq-13-continuous": of_schedules(phase_1, MACHINE),
    "asrpt/eq-14-remaining": of_schedules(first_difference, "an own SRPT"),
    "asrpt/eq-15-continuous": of_schedules(phase_2, MACHINE),
    "asrpt/error-seconds": of_schedules(error_seconds, "an own Heavy-Edge"),
}
