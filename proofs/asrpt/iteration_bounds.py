"""Sections III-B and IV-B: the longest and the shortest iteration, and the paper's approximations of them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from hetopt.data.rationals import number_text
from hetopt.proofs.asrpt.staged_cases import (
    ALL_PLACEMENTS,
    BANDWIDTHS,
    StagedCase,
    equal_servers_space,
    exact,
    fast_inside,
    fast_links,
    staged_job,
)
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.mechanical import by_z3
from hetopt.proofs.ledger.procedures import ForAll, Growth
from hetopt.proofs.ledger.space import CaseNumbers, Hypothesis, Space, TableShape, hypothesis, integers

F = Fraction
HALF = F(1, 2)
DOUBLING = tuple(map(F, (0, 1, 2, 4, 8)))


@hypothesis("the job fits on one server")
def fits_on_one(case: StagedCase) -> bool:
    """It needs no more GPUs than a server has."""
    return case.pipeline.gpus <= case.free[0]


@hypothesis("the job needs more than one server, and there is one more than it needs")
def one_to_spare(case: StagedCase) -> bool:
    """One server is too small for the job, and all but one are enough."""
    gpus, size = case.pipeline.gpus, case.free[0]
    return size < gpus <= size * (len(case.free) - 1)


def nothing_above_apart(case: StagedCase) -> Finding:
    """Compare the computed alpha_max with the longest iteration of all placements."""
    longest = max(case.alphas)
    x = case.placements[case.alphas.index(longest)]
    words = f"{case.text_of(x)} takes {number_text(longest)} s, all apart {number_text(case.apart)} s"
    return Finding(case.apart - longest, words, (ALL_PLACEMENTS,), (case.picture("the longest", x, longest),))


def side_by_side_is_slower(case: StagedCase) -> Finding:
    """Compare two replicas on one server with both apart: the slack is positive only if one server is slower."""
    together = exact(case.seconds(np.array([[1], [1]]))[()])
    slack = together - case.apart if together > case.apart else F(-1)
    return Finding(slack, f"{number_text(together)} s together, {number_text(case.apart)} s apart")


def side_by_side(numbers: CaseNumbers) -> StagedCase:
    """Two stages of one replica that exchange 2 d bytes, on a server of two GPUs."""
    job = staged_job("job", (F(1), F(1)), numbers.row("seconds") * 2, (F(0), F(0)), numbers.row("outputs"))
    return StagedCase(job, (2,), *numbers.row("bandwidth"))


SLOW_INSIDE = Hypothesis[StagedCase](r"$B_{intra} < B_{inter} / g$", lambda case: not fast_inside(case))
"""Two GPUs of a server exchange bytes faster over the network card."""

TWO_STAGES = Space(
    {},
    {
        "bandwidth": TableShape(1, 2, BANDWIDTHS),
        "seconds": TableShape(1, 1, integers(0, 8)),
        "outputs": TableShape(1, 1, integers(1, 8)),
    },
    side_by_side,
    hypotheses=(SLOW_INSIDE,),
)


def greedy_is_shortest(case: StagedCase) -> Finding:
    """Compare alpha~_min with the shortest iteration of all placements."""
    x = case.placements[case.alphas.index(case.shortest)]
    words = (
        f"servers filled one after another: {number_text(case.greedy)} s; {case.text_of(x)}: "
        f"{number_text(case.shortest)} s"
    )
    pictures = (
        case.picture("one server after another", case.greedy_placement, case.greedy),
        case.picture("the shortest", x, case.shortest),
    )
    return Finding(case.shortest - case.greedy, words, (ALL_PLACEMENTS,), pictures)


def greedy_between(case: StagedCase) -> Finding:
    """alpha_min <= alpha~_min <= alpha_max."""
    values = (case.shortest, case.greedy, case.apart)
    return Finding(min(case.greedy - case.shortest, case.apart - case.greedy), " <= ".join(map(number_text, values)))


def fewest_servers_are_best(case: StagedCase) -> Finding:
    """Compare the shortest iteration on the fewest servers with the shortest one on more servers."""
    servers = [int(x.any(axis=0).sum()) for x in case.placements]
    least = min(servers)
    (few, i), (many, j) = (
        min((alpha, i) for i, (alpha, m) in enumerate(zip(case.alphas, servers, strict=True)) if (m > least) is more)
        for more in (False, True)
    )
    first, second = case.placements[i], case.placements[j]
    words = f"on {least} servers at best {number_text(few)} s; {case.text_of(second)}: {number_text(many)} s"
    pictures = (case.picture(f"on {least} servers at best", first, few), case.picture("on more", second, many))
    return Finding(many - few, words, (ALL_PLACEMENTS,), pictures)


def within_bandwidths(case: StagedCase) -> Finding:
    """alpha_max <= B_intra / (B_inter / g) alpha_min."""
    ratio = case.intra / case.nic
    words = f"{number_text(case.apart)} <= {number_text(ratio)} * {number_text(case.shortest)}"
    return Finding(ratio * case.shortest - case.apart, words)


# -- the ratio of the greedy iteration to the shortest ---------------------------------------------------------------

INTRA = 12
"""B_intra of the family, at B_inter / g = 1."""


def two_by_two(parameters: int) -> StagedCase:
    """Two stages of two replicas without computation on two servers of three GPUs; B_inter / g = 1."""
    h, none = F(parameters), F(0)
    job = staged_job("job", (F(2), F(2)), (none, none), (h, h), (F(1),))
    return StagedCase(job, (3, 3), F(1), F(INTRA))


def greedy_over_shortest(parameters: int) -> Fraction:
    """alpha~_min / alpha_min."""
    case = two_by_two(parameters)
    return case.greedy / case.shortest


def exchange_grows(neighbours: int) -> Callable[[], list[Any]]:
    """For z3: a stage on one server that is slower than apart although B >= b, with ``neighbours`` adjacent stages."""

    def problem() -> list[Any]:
        from z3 import And, Int, Or, Real, Sum, ToReal

        b, inner, a, k, x = Real("b"), Real("B"), Real("a"), Int("k"), Int("x")
        links = [(Real(f"l{r}"), Int(f"k{r}"), Int(f"x{r}")) for r in range(neighbours)]
        # both sides times b B, the AllReduce also times x, to avoid division
        exchange = [weight * (ToReal(kr - xr) * inner + ToReal(xr) * b) for weight, kr, xr in links]
        apart = [weight * ToReal(kr) * inner for weight, kr, _ in links]
        reduce = Or(
            And(x == k, Sum([*exchange, a * b]) > Sum([*apart, a * inner])),
            And(x < k, ToReal(x) * Sum([F(0), *exchange]) + a * inner > ToReal(x) * Sum([*apart, a * inner])),
        )
        limits = [And(weight >= 0, xr >= 0, xr <= kr) for weight, kr, xr in links]
        return [b > 0, inner >= b, a >= 0, x >= 1, x <= k, *limits, reduce]

    return problem


def less_than_inside(neighbours: int) -> list[Any]:
    """For z3: a stage that is faster than with all bytes within servers, although B >= g b and x <= g replicas share.

    Its ``neighbours`` adjacent stages have k replicas, x of them on its server.
    """
    from z3 import And, Int, Or, Real, Sum, ToReal

    b, inner, a, g, x = Real("b"), Real("B"), Real("a"), Int("g"), Int("x_s")
    links = [(Real(f"l{r}"), Int(f"k{r}"), Int(f"x{r}")) for r in range(neighbours)]
    # all sides times b B, the AllReduce also times x, to avoid division
    exchange = [weight * (ToReal(kr - xr) * inner + ToReal(xr) * b) for weight, kr, xr in links]
    inside = [weight * ToReal(kr) * b for weight, kr, _ in links]
    limits = [And(weight >= 0, xr <= kr) for weight, kr, xr in links]
    split = ToReal(x) * Sum([F(0), *exchange]) + a * inner < ToReal(x) * Sum([F(0), *inside, a * b])
    whole = Sum([F(0), *exchange, a * b]) < Sum([F(0), *inside, a * b])
    return [b > 0, inner >= ToReal(g) * b, a >= 0, x >= 1, x <= g, *limits, Or(split, whole)]


def apart_above_ratio() -> list[Any]:
    """For z3: a stage apart takes more than B / b times as long as within servers."""
    from z3 import Reals

    b, inner, seconds, load = Reals("b B p bytes")
    return [b > 0, inner >= b, seconds >= 0, seconds + load / b > inner / b * (seconds + load / inner)]


def split_is_faster() -> list[Any]:
    """For z3: splitting a stage of the family, h seconds at least, is faster than a stage on each server."""
    from z3 import Reals

    h, inner = Reals("h B")
    return [h >= 3, inner >= 3, h < h / inner + 2]


APART = r"""
Let $b = B_{inter} / g$ and $B = B_{intra} \ge b$. A replica of stage $s$ exchanges $l$ bytes with each of the $k_r$
replicas of an adjacent stage $r$, $x_r$ of them on its server: $l ((k_r - x_r) / b + x_r / B) \le l k_r / b$, which
is the time apart. Its AllReduce takes $a / (x b) \le a / b$ or $a / B \le a / b$. Computation takes the same time on
every server. So $\beta_s^m$ is at most its value apart, for every stage and server."""

INSIDE = r"""
Let $b = B_{inter} / g$ and $B = B_{intra} \ge g b$. On any server $\beta_s^m \ge p_s + \sum_r l_r k_r / B + a_s /
B$: links take $l_r ((k_r - x_r) / b + x_r / B) \ge l_r k_r / B$, and the AllReduce $a_s / B$ or, with $x \le g$
replicas on the server, $a_s / (x b) \ge a_s / (g b) \ge a_s / B$."""

WITHIN = tuple(
    by_z3(f"a stage with {r} neighbouring stages is no faster than within servers", partial(less_than_inside, r))
    for r in (0, 1, 2)
)

CLAIMS = (
    Claim(
        key="asrpt/alpha-max",
        place="section III-B",
        statement=r"The longest iteration $\alpha^{max}$ of a job has every replica on a separate server with a "
        r"bandwidth of $B_{inter} / g$.",
        quote=r"$\alpha_i^{\max}$ can be computed using Eq. (7) if the job is assigned to $g_i$ servers, with each "
        r"server holding a single-stage replica and assigned a bandwidth of $1/g \times B_{inter}$.",
        procedure=ForAll(equal_servers_space(), nothing_above_apart),
        expected=ClaimVerdict.FALSE,
        instead="asrpt/alpha-max-fast-inside",
        note="As a bound: with fewer servers than replicas this placement does not exist.",
    ),
    Claim(
        key="asrpt/alpha-max-fast-inside",
        place="section III-B",
        statement=r"No placement has a longer iteration than $\alpha^{max}$ if $B_{intra} \ge B_{inter} / g$.",
        procedure=ForAll(equal_servers_space(fast_inside), nothing_above_apart, share=HALF),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=APART,
        mechanical=tuple(
            by_z3(f"a stage with {r} neighbouring stages, all real data, all numbers of replicas", exchange_grows(r))
            for r in (0, 1, 2)
        ),
    ),
    Claim(
        key="asrpt/alpha-max-needed",
        place="section III-B",
        statement=r"For all $B_{intra} < B_{inter} / g$ with $g \ge 2$ some job has a longer iteration than "
        r"$\alpha^{max}$: two stages of one replica, side by side.",
        procedure=ForAll(TWO_STAGES, side_by_side_is_slower),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof="The stages exchange $2 d > 0$ bytes: $p + 2 d / B_{intra} > p + 2 d / (B_{inter} / g)$.",
    ),
    Claim(
        key="asrpt/alpha-tilde",
        place="section IV-B",
        statement=r"$\tilde\alpha^{min}$, reached by Heavy-Edge on servers that contribute all $g$ GPUs but the last, "
        r"is the minimum achievable time of an iteration ($B_{intra} \ge B_{inter}$).",
        quote="With the Heavy-Edge GPU mapping algorithm, we obtain the minimum achievable per-iteration training "
        r"time $\tilde{\alpha}_i^{\min}$ for jobs",
        procedure=ForAll(equal_servers_space(fast_links), greedy_is_shortest),
        expected=ClaimVerdict.FALSE,
        instead="asrpt/alpha-order",
        note="Filling servers splits a stage that fits on another server, or isolates a replica with its share of the "
        "network bandwidth.",
    ),
    Claim(
        key="asrpt/alpha-fewest-servers",
        place="section IV-B",
        statement="An iteration is shortest on the fewest servers possible, filled in some way "
        r"($B_{intra} \ge B_{inter}$).",
        quote="To minimize per-iteration time, each job is allocated to the fewest servers possible",
        procedure=ForAll(
            equal_servers_space(fast_links, one_to_spare, stages=(1, 2), servers=(2, 3), gpus=(2, 3), values=DOUBLING),
            fewest_servers_are_best,
        ),
        expected=ClaimVerdict.FALSE,
        instead="asrpt/alpha-one-server",
    ),
    Claim(
        key="asrpt/alpha-order",
        place="section IV-B",
        statement=r"$\alpha^{min} \le \tilde\alpha^{min} \le \alpha^{max}$ if $B_{intra} \ge B_{inter} / g$.",
        procedure=ForAll(equal_servers_space(fast_inside), greedy_between, share=HALF),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"$\tilde\alpha^{min}$ is the iteration of a placement, so no less than the shortest of all." + APART,
    ),
    Claim(
        key="asrpt/alpha-one-server",
        place="section IV-B",
        statement=r"$\tilde\alpha^{min} = \alpha^{min}$ if the job fits on one server and $B_{intra} \ge B_{inter}$.",
        procedure=ForAll(equal_servers_space(fast_links, fits_on_one), greedy_is_shortest, share=F(1, 4)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=INSIDE
        + " With all replicas on one server, as Heavy-Edge places them, equality holds for all stages at once.",
        mechanical=WITHIN,
    ),
    Claim(
        key="asrpt/alpha-ratio-bound",
        place="section IV-B",
        statement=r"$\alpha^{max} \le \frac{g B_{intra}}{B_{inter}} \alpha^{min}$, and so $\rho$ and "
        r"$\tilde\alpha^{min} / \alpha^{min}$ are at most that, if $B_{intra} \ge B_{inter}$.",
        procedure=ForAll(equal_servers_space(fast_links), within_bandwidths, share=HALF),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=INSIDE
        + r" Apart it is $p_s + \sum_r l_r k_r / b + a_s / b \le \frac{B}{b} (p_s + \sum_r l_r k_r / B + a_s / B)$. "
        r"For $\tilde\alpha^{min} \le \alpha^{max}$ see `asrpt/alpha-order`.",
        mechanical=(*WITHIN, by_z3("a stage apart against one within servers, all real data", apart_above_ratio)),
    ),
    Claim(
        key="asrpt/alpha-ratio",
        place="section IV-B",
        statement=r"For all $g \ge 3$ and $B_{intra} \ge B_{inter}$, on two servers or more, $\tilde\alpha^{min} / "
        r"\alpha^{min}$ comes arbitrarily close to $g B_{intra} / B_{inter}$.",
        procedure=Growth(
            sizes=(10, 100, 1_000, 10_000, 100_000),
            measure=greedy_over_shortest,
            formula=f"{INTRA}*(h + 2) / (h + {2 * INTRA})",
            size="h",
            quantity=f"ratio of Heavy-Edge's iteration to the shortest, with g B_intra / B_inter = {INTRA},",
            limit=F(INTRA),
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
Let $b = B_{inter} / g$ and $B = B_{intra}$. Two stages, of $2$ and of $g - 1$ replicas, do not compute, the first has
$d^{out} = 1$, and $h_s = \frac{k_s}{2 (k_s - 1)} h$, so that both AllReduces carry $h$ bytes per edge. Filled servers
have $g$ replicas and one, which is of a stage with at least one more: its AllReduce takes $h / b$, so
$\tilde\alpha^{min} \ge h / b$. A stage on each server takes at most $h / B + 2 / b$. So the ratio is at least $B / (b +
2 B / h)$, which tends to $B / b$ as $h$ grows, and at most $B / b$ (`asrpt/alpha-ratio-bound`). In the family that is
computed, $g = 3$ and $b = 1$: the replica on the second server takes $h$, and $2$ for its two links, so
$\tilde\alpha^{min} = h + 2$ (the other one of its stage takes $h + 2 / B$). Splitting a stage takes at least $h$, which
is no less than $h / B + 2$ for $h \ge 3$ and $B \ge 3$. So there the ratio is $(h + 2) / (h / B + 2) = B (h + 2) / (h +
2 B)$.""",
        mechanical=(by_z3("a stage on each server is the fastest, all real data", split_is_faster),),
        note=f"The ratios are computed for $g = 3$, $B_{{inter}} = 3$ and $B_{{intra}} = {INTRA}$, on two servers.",
    ),
)
