"""Equations (4) to (8): the time of an iteration, compared with sums over replicas and step-by-step AllReduces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hetopt.data.array_types import Integers
from hetopt.data.instance import Instance
from hetopt.data.rationals import number_text
from hetopt.proofs.asrpt.staged_cases import (
    BANDWIDTHS,
    BYTES,
    CONSERVED,
    EVEN,
    StagedCase,
    exact,
    fast_cards,
    staged_job,
)
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import Timeline, TimelineBar
from hetopt.proofs.ledger.mechanical import by_sympy, by_z3
from hetopt.proofs.ledger.procedures import (
    ByComputation,
    Computation,
    ForAll,
    Untestable,
    compare_number,
    compare_values,
)
from hetopt.proofs.ledger.space import CaseNumbers, Hypothesis, Space, TableShape, ValueChooser, integers
from hetopt.stages.iteration_time import parts

F = Fraction
HALF = F(1, 2)


@dataclass(frozen=True, eq=False)
class PlacedJob:
    """A job, and the placement of its replicas.

    Attributes
    ----------
    placing:
        The job, and servers with exactly the GPUs that it uses.
    x:
        (S, M) replicas.
    """

    placing: StagedCase
    x: Integers

    @property
    def instance(self) -> Instance:
        """The job and the servers."""
        return self.placing.instance

    @property
    def replicas(self) -> list[int]:
        """(S,) replicas of each stage."""
        return [int(k) for k in self.placing.pipeline.replicas]

    @property
    def occupied(self) -> list[tuple[int, int]]:
        """(stage, server) with a replica."""
        return [(int(s), int(m)) for s, m in np.argwhere(self.x > 0)]


FAST_CARDS = Hypothesis[PlacedJob](fast_cards.text, lambda case: fast_cards(case.placing))


def placed_space(
    stages: tuple[int, int],
    servers: tuple[int, int],
    *hypotheses: Hypothesis[PlacedJob],
    fast_inside: bool = False,
    backward: bool = False,
) -> Space[PlacedJob]:
    """Placements that meet ``hypotheses``.

    Parameters
    ----------
    fast_inside:
        B_intra >= B_inter, with g the largest number of GPUs of a server.
    backward:
        Whether stages have backward seconds as well.
    """

    def build(numbers: CaseNumbers) -> PlacedJob | None:
        """The case; None for a stage without a replica, or a server without one, which is not listed."""
        x = np.array([[int(v) for v in row] for row in numbers["x"]])
        if not (x.any(axis=0).all() and x.any(axis=1).all()):
            return None
        rows = [numbers.row(key) for key in ("seconds", "parameters", "outputs")]
        behind = numbers.row("backward") if backward else ()
        job = staged_job("job", [F(int(k)) for k in x.sum(axis=1)], *rows, backward=behind)
        return PlacedJob(StagedCase(job, tuple(x.sum(axis=0).tolist()), *numbers.row("bandwidth")), x)

    timed = ("seconds", "parameters", *(("backward",) if backward else ()))

    def draw(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
        s, m = sizes["s"], sizes["m"]
        x = [[choose(integers(0, 3)) for _ in range(m)] for _ in range(s)]
        for i in range(max(s, m)):
            x[i % s][i % m] = max(F(1), x[i % s][i % m])
        most = max(sum(column) for column in zip(*x, strict=True))
        nic = choose(integers(1, 2))
        intra = choose([v for v in BANDWIDTHS if not fast_inside or v >= nic * most] or [nic * most])
        rows = {key: (tuple(choose(BYTES) for _ in range(s)),) for key in timed}
        outputs = (tuple(choose(integers(1, 8)) for _ in range(s - 1)),)
        return CaseNumbers({"x": tuple(map(tuple, x)), **rows, "outputs": outputs, "bandwidth": ((nic, intra),)})

    tables = {
        "x": TableShape("s", "m", integers(0, 3)),
        **{key: TableShape(1, "s", BYTES) for key in timed},
        "outputs": TableShape(1, "s-1", integers(1, 8)),
        "bandwidth": TableShape(1, 2, BANDWIDTHS),
    }
    return Space({"s": stages, "m": servers}, tables, build, draw, ((FAST_CARDS,) if fast_inside else ()) + hypotheses)


# -- computation -----------------------------------------------------------------------------------------------------


def computes_side_by_side(case: PlacedJob) -> Finding:
    """Compare the seconds of computation with those of replicas that work side by side, on every server."""
    found: Any = parts(case.placing.pipeline, case.x, case.placing.servers)
    off = F(0)
    for s, stage in enumerate(case.placing.job.stages):
        for m, count in enumerate(case.x[s].tolist()):
            longest = max([F(stage.forward_s) + F(stage.backward_s)] * count, default=F(0))
            off = max(off, abs(exact(found.forward[s, m] + found.backward[s, m]) - longest))
    return Finding(-off, f"{number_text(off)} s between the equation and the slowest replica of a server")


# -- between stages --------------------------------------------------------------------------------------------------


def stage_outputs(case: PlacedJob) -> list[Fraction]:
    """(S,) d_out, 0 for the last stage."""
    outputs = [exact(d) for d in case.placing.pipeline.outputs]
    return [*outputs[:-1], F(0)]


def exchange_by_pairs(case: PlacedJob, s: int, m: int) -> Fraction:
    """Seconds that a replica of stage s on server m spends on exchanges with replicas of the adjacent stages.

    Its output is split evenly over the replicas of the next stage, and gradients of the same size come back.
    """
    k, d = case.replicas, stage_outputs(case)
    total = F(0)
    for r in (s - 1, s + 1):
        if 0 <= r < len(k):
            first, second = min(r, s), max(r, s)
            for server, count in enumerate(case.x[r].tolist()):
                bandwidth = case.placing.intra if server == m else case.placing.nic
                total += count * 2 * d[first] / k[second] / bandwidth
    return total


def compared(
    case: PlacedJob,
    by_replicas: Callable[[PlacedJob, int, int], Fraction],
    by_equation: Callable[[PlacedJob, int, int], Fraction],
) -> Finding:
    """The largest difference between the seconds of a stage on a server by sums over replicas and by the equation."""
    s, m = max(case.occupied, key=lambda at: abs(by_replicas(case, *at) - by_equation(case, *at)))
    a, b = by_replicas(case, s, m), by_equation(case, s, m)
    where = f"stage {s + 1} on {case.placing.servers.names[m]}"
    words = f"{where}: {number_text(b)} s by the equation, {number_text(a)} s replica by replica"
    return Finding(-abs(a - b), words)


def _library(name: str) -> Callable[[PlacedJob, int, int], Fraction]:
    def seconds(case: PlacedJob, s: int, m: int) -> Fraction:
        found = parts(case.placing.pipeline, case.x, case.placing.servers)
        return exact(getattr(found, name)[s, m])

    return seconds


def beside_the_others() -> list[Any]:
    """For z3: with one more replica beside x others the slowest on the server takes another time than by (4)."""
    from z3 import If, Int, Reals

    x, (forward, backward, others) = Int("x"), Reals("p_f p_b others")
    own = forward + backward
    given = [x >= 0, forward >= 0, backward >= 0, others == If(x > 0, own, 0)]
    return [*given, If(others > own, others, own) != If(x + 1 > 0, own, 0)]


# -- within a stage --------------------------------------------------------------------------------------------------


def ring_bytes(replicas: int, parameters: Fraction) -> list[Fraction]:
    """Bytes that each replica sends to the next in a ring AllReduce, chunk by chunk: first reduced, then collected.

    Raises
    ------
    AssertionError
        Some replica lacks a gradient at the end, or adds one twice.
    """
    k = replicas
    held = [[{i} for _ in range(k)] for i in range(k)]  # replica -> chunk -> replicas with gradients in its sum
    sent = [F(0)] * k
    for step in range(2 * (k - 1)):
        chunks = [(i - step) % k if step < k - 1 else (i + 1 - (step - (k - 1))) % k for i in range(k)]
        moves = [(i, chunk, set(held[i][chunk])) for i, chunk in enumerate(chunks)]
        for i, chunk, gradients in moves:
            after = (i + 1) % k
            assert step >= k - 1 or not held[after][chunk] & gradients, "a gradient would be added twice"
            held[after][chunk] = held[after][chunk] | gradients if step < k - 1 else gradients
            sent[i] += parameters / k
    assert all(chunk == set(range(k)) for chunks in held for chunk in chunks), "the AllReduce is not complete"
    return sent


def reduce_by_steps(case: PlacedJob, s: int, m: int) -> Fraction:
    """Seconds of the slowest edge of the ring that starts on server m: replicas in the order of their servers."""
    k = case.replicas[s]
    sent = ring_bytes(k, exact(case.placing.pipeline.parameters[s]))
    server = [n for n, count in enumerate(case.x[s].tolist()) for _ in range(count)]
    times = [F(0)]
    for i in range(k):
        if server[i] == m and k > 1:
            inside = server[(i + 1) % k] == m
            times.append(sent[i] / (case.placing.intra if inside else int(case.x[s, m]) * case.placing.nic))
    return max(times)


# -- over iterations -------------------------------------------------------------------------------------------------


def pipeline_seconds(case: PlacedJob, iterations: int) -> Fraction:
    """Seconds of this many iterations of an asynchronous pipeline, stage by stage."""
    done = [F(0)] * len(case.replicas)
    for _ in range(iterations):
        before = F(0)
        for s, seconds in enumerate(stage_seconds(case)):
            done[s] = before = max(before, done[s]) + seconds
    return done[-1]


def stage_seconds(case: PlacedJob) -> list[Fraction]:
    """(S,) seconds of each stage on the slowest of its servers: max over m of beta."""
    found: Any = parts(case.placing.pipeline, case.x, case.placing.servers)
    return [exact(v) for v in (found.forward + found.backward + found.exchange + found.reduce).max(axis=1)]


ITERATIONS = (1, 2, 7)


def paced_by_slowest(case: PlacedJob) -> Finding:
    """Whether n iterations take n alpha plus, once, the seconds of the other stages."""
    alpha, once = exact(case.placing.seconds(case.x)[()]), sum(stage_seconds(case), F(0))
    off = max(abs(pipeline_seconds(case, n) - (n - 1) * alpha - once) for n in ITERATIONS)
    return Finding(-off, f"{number_text(once)} s once and {number_text(alpha)} s for each further iteration")


def takes_iterations_only(case: PlacedJob) -> Finding:
    """Whether one iteration takes alpha seconds; n iterations take as much longer than n alpha."""
    alpha, taken = exact(case.placing.seconds(case.x)[()]), pipeline_seconds(case, 1)
    bars, done = [], F(0)
    for s, seconds in enumerate(stage_seconds(case)):
        bars.append(TimelineBar(f"stage {s + 1}", done, done + seconds, "iteration 1"))
        done += seconds
    words = f"the first iteration ends after {number_text(taken)} s, alpha is {number_text(alpha)} s"
    return Finding(-abs(taken - alpha), words, (), (Timeline("the first iteration", tuple(bars)),))


def within_a_filling(case: PlacedJob) -> Finding:
    """``n alpha <= seconds of n iterations <= (n + S - 1) alpha``."""
    alpha, most = exact(case.placing.seconds(case.x)[()]), len(case.replicas) - 1
    slack = min(
        min(taken - n * alpha, (n + most) * alpha - taken)
        for n, taken in ((n, pipeline_seconds(case, n)) for n in ITERATIONS)
    )
    return Finding(slack, f"{number_text(slack)} s within the limits")


def filling() -> list[Any]:
    """For z3: n iterations take less than n alpha, or more than n + S - 1 times alpha; ``rest`` is of S - 1 stages."""
    from z3 import Or, Reals

    alpha, rest, stages, n, taken = Reals("alpha rest S n taken")
    given = [rest >= 0, rest <= (stages - 1) * alpha, taken == (n - 1) * alpha + alpha + rest]
    return [*given, Or(taken < n * alpha, taken > (n + stages - 1) * alpha)]


def midpoint() -> Computation:
    """Iterations of two replicas on either of two servers, and on both, which is the midpoint of these placements."""
    job = staged_job("job", (F(2),), (F(1),), (F(4),), ())
    case = StagedCase(job, (2, 2), F(1), F(2))
    first, second, both = (exact(case.seconds(np.array([x]))[()]) for x in ((2, 0), (0, 2), (1, 1)))
    return Computation(
        (
            compare_number("seconds on the first server", "3", first),
            compare_number("seconds on the second server", "3", second),
            compare_number("seconds on both", "5", both),
            compare_values("more than the mean", True, both > (first + second) / 2),
        ),
        f"alpha is {first} on one server and {both} on both, the midpoint",
    )


def identity() -> str:
    """For sympy: the induction step of the pipeline's recursion, in both cases."""
    import sympy

    earlier, most, mine, i = sympy.symbols("earlier most mine i", positive=True)
    kept = earlier + mine + (i - 1) * most - ((earlier + (i - 1) * most) + mine)
    raised = (earlier + mine + (i - 2) * mine) + mine - (earlier + mine + (i - 1) * mine)
    wrong = [name for name, value in (("kept", kept), ("raised", raised)) if sympy.simplify(value) != 0]
    return f"not an identity: {', '.join(wrong)}" if wrong else ""


CLAIMS = (
    Claim(
        key="asrpt/eq-4",
        place="eq. (4)",
        statement="On a server with replicas of stage $s$ the computation of an iteration takes $p_s^f + p_s^b$, "
        "elsewhere 0.",
        quote=r"$comp_{i,s}^{m} = \begin{cases} p_{i,s}^{f} + p_{i,s}^{b}, & x_{i,s}^{m} > 0, \\ 0, & x_{i,s}^{m} = 0. "
        r"\end{cases}$",
        procedure=ForAll(placed_space((1, 4), (1, 3), backward=True), computes_side_by_side, share=HALF),
        expected=ClaimVerdict.TRUE,
        proof="The replicas of a stage work side by side, each on its part of the mini-batch, one pass forward and one "
        "backward.",
        mechanical=(by_z3("one more replica beside any number of others, all real data", beside_the_others),),
        note='The paper introduces it as *the communication time*, a slip for "the computation time". The library\'s '
        "function is compared with the slowest replica of each server.",
    ),
    Claim(
        key="asrpt/eq-5",
        place="eq. (5)",
        statement="The time of a replica's exchanges with the adjacent stages, as printed.",
        quote="To compute the inter-stage communication time …, we evenly distribute the data being transmitted across "
        "inter-stage links.",
        procedure=Untestable(
            "both available copies have the bytes within the server, over B_intra, in the denominator of those between "
            "servers, where bytes per second and seconds are added: probably an error of their conversion"
        ),
        expected=ClaimVerdict.UNTESTABLE,
        instead="asrpt/eq-5-repaired",
    ),
    Claim(
        key="asrpt/eq-5-repaired",
        place="eq. (5)",
        statement=r"A replica's exchanges with the adjacent stages, of stage $s$ on server $m$, take "
        r"$\mathit{comm}_s^m = \frac{(2 d^{in}_s \frac{k_{s-1} - x_{s-1}^m}{k_{s-1}} + 2 d^{out}_s \frac{k_{s+1} - "
        r"x_{s+1}^m}{k_{s+1}}) x_s^m}{(x_s^m / g) B_{inter}} + \frac{2 d^{in}_s \frac{x_{s-1}^m}{k_{s-1}} + 2 "
        r"d^{out}_s \frac{x_{s+1}^m}{k_{s+1}}}{B_{intra}}$.",
        procedure=ForAll(
            placed_space((2, 4), (1, 3), CONSERVED, EVEN),
            lambda c: compared(c, exchange_by_pairs, _library("exchange")),
            share=HALF,
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
The output of all replicas of stage $s - 1$ is the input of all of stage $s$, $k_{s-1} d^{out}_{s-1} = k_s d^{in}_s$.
Split evenly, each pair of replicas sends $d^{out}_{s-1} / k_s = d^{in}_s / k_{s-1}$ forwards, and as much backwards.
Of the $k_{s-1}$ pairs of a replica on $m$, $x_{s-1}^m$ are within the server, at $B_{intra}$; the others use its share
$B_{inter} / g$ of the network card, and the $x_s^m$ replicas do so at the same time, each with its own share. The same
holds for stage $s + 1$ with $2 d^{out}_s / k_{s+1}$ per pair.""",
        note="The library's function is compared with sums over pairs of replicas.",
    ),
    Claim(
        key="asrpt/eq-6",
        place="eq. (6)",
        statement="The time of an AllReduce, as printed.",
        quote="the data communication time is bottlenecked by the minimum bandwidth between stage replicas",
        procedure=Untestable(
            "no available copy is complete: the denominator of the first case is cut off, in one copy also that of the "
            "second; the legible part agrees with the repaired form"
        ),
        expected=ClaimVerdict.UNTESTABLE,
        instead="asrpt/eq-6-repaired",
    ),
    Claim(
        key="asrpt/eq-6-repaired",
        place="eq. (6)",
        statement=r"An AllReduce takes $\frac{2 (k_s - 1) h_s}{k_s (x_s^m / g) B_{inter}}$ seconds if $x_s^m < k_s$ "
        r"and $\frac{2 (k_s - 1) h_s}{k_s B_{intra}}$ if $x_s^m = k_s$, for rings and $B_{intra} \ge B_{inter}$.",
        procedure=ForAll(
            placed_space((1, 2), (1, 3), fast_inside=True), lambda c: compared(c, reduce_by_steps, _library("reduce"))
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
In a ring the parameters are split into $k$ chunks. In each of $k - 1$ steps every replica sends a chunk to the next,
which adds it; then each has one complete chunk, and $k - 1$ more steps pass these round. So every edge carries $2 (k -
1) h / k$ bytes. With the replicas of a server adjacent in the ring, one edge leaves the server, with the $x$ shares
$B_{inter} / g$ of the network card; edges within have $B_{intra}$. Where $x < k$ the slowest edge is the one that
leaves, since $(x / g) B_{inter} \le B_{inter} \le B_{intra}$; where $x = k$ all are within.""",
        note=r"The library's function is compared with rings that are run chunk by chunk. Where $B_{intra} < (x / g) "
        r"B_{inter}$ an edge within the server is the slowest, and the first case is too short.",
    ),
    Claim(
        key="asrpt/eq-7",
        place="eq. (7)",
        statement=r"The time per iteration of an asynchronous pipeline is that of its slowest stage, "
        r"$\alpha = \max_{s, m} \beta_s^m$: $n$ iterations take $n \alpha$ plus, once, the times of the other stages.",
        quote="the per-iteration training time is the maximum per-stage computation-communication time of a single "
        "stage (i.e., the bottleneck stage)",
        procedure=ForAll(placed_space((1, 4), (1, 3)), paced_by_slowest, share=HALF),
        expected=ClaimVerdict.TRUE,
        proof=r"""
Let $\beta_s = \max_m \beta_s^m$. Stage $s$ completes iteration $i$ at $f_{i,s} = \max(f_{i-1,s}, f_{i,s-1}) +
\beta_s$. Then $f_{i,s} = \sum_{r \le s} \beta_r + (i - 1) \max_{r \le s} \beta_r$, by induction over $i$ and $s$
($i = 1$ and $s = 1$ are trivial): with $M_s = \max_{r \le s} \beta_r$ the two terms under the maximum, plus $\beta_s$,
are $a = \sum_{r \le s} \beta_r + (i - 2) M_s + \beta_s$ and $b = \sum_{r \le s} \beta_r + (i - 1) M_{s-1}$. If $M_s =
\beta_s$, then $a = \sum_{r \le s} \beta_r + (i - 1) M_s \ge b$; else $M_s = M_{s-1} \ge \beta_s$ and $b = \sum_{r \le
s} \beta_r + (i - 1) M_s \ge a$. So $n$ iterations take $(n - 1) \alpha + \sum_s \beta_s$.""",
        mechanical=(by_sympy("both cases of the induction step", identity),),
        note=r"The completion times $t_i + n_i \alpha_i$ of eq. (8) omit the $\sum_s \beta_s - \alpha$ seconds in "
        r"which the pipeline fills once (`asrpt/eq-8-completion`).",
    ),
    Claim(
        key="asrpt/eq-8-completion",
        place="eq. (8)",
        statement=r"A job that starts at $t_i$ is complete at $t_i + n_i \alpha_i$.",
        quote=r"our goal is to minimize the total DDLwMP job completion in a time horizon of length $T$, which can be "
        r"evaluated as $\sum_{i \in [I]} (t_i + n_i \alpha_i)$.",
        procedure=ForAll(placed_space((1, 2), (1, 2)), takes_iterations_only),
        expected=ClaimVerdict.FALSE,
        instead="asrpt/eq-8-completion-within",
        note="The pipeline must fill: the first iteration passes through all stages.",
    ),
    Claim(
        key="asrpt/eq-8-completion-within",
        place="eq. (8)",
        statement=r"A job of $S$ stages takes between $n \alpha$ and $(n + S - 1) \alpha$ seconds.",
        procedure=ForAll(placed_space((1, 4), (1, 3)), within_a_filling, share=HALF),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"By `asrpt/eq-7` it takes $(n - 1) \alpha + \sum_s \beta_s$ seconds, where $\beta_s \le \alpha$ for all "
        r"stages, with equality for the slowest.",
        mechanical=(by_z3("the stages but the slowest, all real data", filling),),
    ),
    Claim(
        key="asrpt/eq-8-not-convex",
        place="eq. (8)",
        statement=r"Problem (8) is not convex: $\alpha$ is not a convex function of the placement. Two replicas, 4 "
        "bytes of parameters and a second of computation, with $B_{inter} / g = 1$ and $B_{intra} = 2$: an iteration "
        "takes 3 s on either of two servers, and 5 s on both.",
        quote="Problem (8) is an integer non-convex program due to the intricate modeling of the per-iteration "
        r"training time $\alpha_i$.",
        procedure=ByComputation(midpoint),
        expected=ClaimVerdict.TRUE,
    ),
)
