"""The induction of the proof of Theorem 3 from k to k + 1 jobs, and its remarks on the remaining rounds."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from math import ceil
from typing import Any

from hetopt.checks import counted
from hetopt.data.rationals import number_text
from hetopt.proofs.hadar.copy_cases import (
    CopyCase,
    alike,
    between,
    copy_space,
    longer,
    strictly_positive,
    within_nodes,
)
from hetopt.proofs.hadar.copy_utilisation import FORMULA, ROUNDS
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import Timeline, TimelineBar
from hetopt.proofs.ledger.mechanical import by_sympy, by_z3
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import Space, hypothesis, integers, rationals

F = Fraction
Left = tuple[Fraction, ...]
"""Work left of each job, in rounds of a node."""

ALL_ASSIGNMENTS = "the fewest rounds of all assignments of nodes to copies, round by round"


# -- batches on equal nodes ------------------------------------------------------------------------------------------


@cache
def fewest_rounds(n: int, work: Left, copies: int) -> int:
    """The fewest rounds on n equal nodes, by a search over the nodes of every job in every round.

    Parameters
    ----------
    work:
        Work of the jobs, in rounds of a node.
    copies:
        The largest number of nodes of a job at once.
    """
    states, rounds = {tuple(sorted(work))}, 0
    while not any(all(w <= 0 for w in left) for left in states):
        states = {tuple(sorted(after)) for left in states for after in _after_a_round(n, left, copies)}
        rounds += 1
    return rounds


def _after_a_round(n: int, left: Left, copies: int) -> Iterator[list[Fraction]]:
    """The work left after a round, for all numbers of nodes of the jobs."""
    for nodes in product(*(range(min(copies, max(0, ceil(w))) + 1) for w in left)):
        if sum(nodes) <= n:
            yield [w - y for w, y in zip(left, nodes, strict=True)]


def by_formula(n: int, work: Left, copies: int) -> int:
    """The fewest rounds as max(ceil(sum m_j / n), max ceil(m_j / x)), m_j = ceil(w_j / v)."""
    whole = [ceil(w) for w in work]
    return max(ceil(F(sum(whole), n)), *(ceil(F(m, copies)) for m in whole))


def in_rounds(case: CopyCase) -> Left:
    """Work of the jobs in rounds of a node, which are all equal."""
    return tuple(w / case.speed[0] for w in case.work)


def utilisation(n: int, work: Left, copies: int) -> Fraction:
    """CRU in the fewest rounds: the work over the time of all nodes."""
    return sum(work, F(0)) / (n * fewest_rounds(n, work, copies))


def increases(n: int, work: Left, copies: int) -> bool:
    """Whether the utilisation of these jobs increases strictly from 1 to x and to n copies."""
    return all(a < b for a, b in pairwise(utilisation(n, work, x) for x in (1, copies, n)))


def increases_further(case: CopyCase) -> Finding:
    """Equation (13), for all jobs."""
    used = [utilisation(case.n, in_rounds(case), x) for x in (1, case.copies, case.n)]
    words = f"1, {case.copies} and {case.n} copies of all {len(case.work)} jobs use {', '.join(map(number_text, used))}"
    margin = min(b - a for a, b in pairwise(used))
    pictures = tuple(batch_picture(case, x) for x in (case.copies, case.n))
    return Finding(strictly_positive(margin), words, (ALL_ASSIGNMENTS,), pictures)


def batch_picture(case: CopyCase, copies: int) -> Timeline:
    """A schedule with the fewest rounds: the rounds of a job's nodes are given to the rounds in turn."""
    rounds, filled, bars, unit = (
        fewest_rounds(case.n, in_rounds(case), copies),
        dict[int, int](),
        list[TimelineBar](),
        0,
    )
    for j, work in enumerate(in_rounds(case)):
        for i in range(ceil(work)):
            r = unit % rounds
            node, unit = filled.get(r, 0), unit + 1
            filled[r] = node + 1
            bars.append(TimelineBar(f"node{node + 1}", F(r), r + min(F(1), work - i), f"j{j + 1}"))
    return Timeline(f"{copies} copies of every job", tuple(bars), "rounds")


def more_rounds(case: CopyCase) -> Finding:
    """Whether x copies of every job take more rounds than n."""
    few, many = (fewest_rounds(case.n, in_rounds(case), x) for x in (case.copies, case.n))
    words = f"{case.copies} copies of every job take {counted(few, 'round')}, {case.n} copies {many}"
    pictures = tuple(batch_picture(case, x) for x in (case.copies, case.n))
    return Finding(strictly_positive(F(few - many)), words, (ALL_ASSIGNMENTS,), pictures)


def as_by_formula(case: CopyCase) -> Finding:
    """Compare the fewest rounds with the formula, for 1 to n + 1 copies, and see that they do not increase."""
    copies = range(1, case.n + 2)
    found = [fewest_rounds(case.n, in_rounds(case), x) for x in copies]
    apart = max(abs(r - by_formula(case.n, in_rounds(case), x)) for r, x in zip(found, copies, strict=True))
    least = min(a - b for a, b in pairwise(found))
    constant = found[-1] == found[-2]
    words = f"the fewest rounds for 1, 2, ... copies are {', '.join(map(str, found))}"
    return Finding(F(min(-apart, least, 0 if constant else -1)), words, (ALL_ASSIGNMENTS,))


@hypothesis("(12) holds for all jobs but the last")
def holds_before(case: CopyCase) -> bool:
    """The hypothesis of the induction."""
    return increases(case.n, in_rounds(case)[:-1], case.copies)


@hypothesis("(11) holds for the last job alone")
def holds_alone(case: CopyCase) -> bool:
    """As for every job with enough work."""
    return increases(case.n, in_rounds(case)[-1:], case.copies)


@hypothesis("all copies together are fewer than the nodes, $m x < n$")
def fewer_copies(case: CopyCase) -> bool:
    """The latter case of the proof."""
    return len(case.work) * case.copies < case.n


# -- remaining rounds ------------------------------------------------------------------------------------------------


def unforked(case: CopyCase) -> list[tuple[int, Fraction]]:
    """(unfinished jobs, CRU) of every round, the j-th job alone on the j-th node."""
    runs = [case.run([j], w) for j, w in enumerate(case.work)]
    rounds = range(max(map(len, runs)))
    busy = [[sum(run[r].values(), F(0)) for run in runs if r < len(run)] for r in rounds]
    return [(len(parts), sum(parts, F(0)) / case.n) for parts in busy]


def one_node_each(case: CopyCase) -> Finding:
    """Compare the CRU of every round without copies with 1 / n."""
    used = [cru for _, cru in unforked(case)]
    words = f"the rounds use {', '.join(map(number_text, used))}, not {number_text(F(1, case.n))}"
    bars = tuple(
        TimelineBar(f"node{j + 1}", F(r), r + part[j], f"j{j + 1}")
        for j, w in enumerate(case.work)
        for r, part in enumerate(case.run([j], w))
    )
    furthest = max(abs(cru - F(1, case.n)) for cru in used)
    return Finding(-furthest, words, (ROUNDS,), (Timeline("without forking", bars, "rounds"),))


def one_node_per_job(case: CopyCase) -> Finding:
    """Compare the CRU of every round without copies with the number of unfinished jobs over n."""
    rounds = unforked(case)
    margins = [F(jobs, case.n) - cru for jobs, cru in rounds]
    completes = [a > b for a, b in pairwise([jobs for jobs, _ in rounds] + [0])]
    wrong = any(margin and not ends for margin, ends in zip(margins, completes, strict=True))
    return Finding(
        F(-1) if wrong else min(margins), f"the rounds use {', '.join(number_text(cru) for _, cru in rounds)}"
    )


@hypothesis("fewer jobs than nodes, $m < n$")
def fewer_jobs(case: CopyCase) -> bool:
    """So that every job has a node."""
    return len(case.work) < case.n


def round_counts(case: CopyCase) -> tuple[int, int, int]:
    """Rounds of the first job with n and with x copies on the fastest nodes, and ceil(R_n n / x)."""
    most, few = (len(case.run(case.fastest[:x], case.work[0])) for x in (case.n, case.copies))
    return most, few, ceil(F(most * case.n, case.copies))


def remaining_count(case: CopyCase) -> Finding:
    """Compare the rounds of x copies with ceil(R_n n / x)."""
    most, few, expected = round_counts(case)
    words = f"{case.n} copies take {counted(most, 'round')}, {case.copies} copies {few}, not {expected}"
    pictures = tuple(case.picture(f"{x} copies", case.fastest[:x]) for x in (case.copies, case.n))
    return Finding(F(-abs(few - expected)), words, (ROUNDS,), pictures)


def remaining_count_within(case: CopyCase) -> Finding:
    """Whether the rounds of x copies are above (R_n - 1) S_n / S_x, and at most ceil(R_n n / x)."""
    most, few, expected = round_counts(case)
    speeds = [sum((case.speed[i] for i in case.fastest[:x]), F(0)) for x in (case.n, case.copies)]
    above = strictly_positive(few - (most - 1) * speeds[0] / speeds[1])
    words = f"{case.n} copies take {counted(most, 'round')}, {case.copies} copies {few}, at most {expected}"
    return Finding(min(above, F(expected - few)), words, (ROUNDS,))


def remaining_share(case: CopyCase) -> Finding:
    """Compare the CRU of the first job with x / n for x copies, and with 1 for n."""
    used = {x: case.utilisation(case.fastest[:x]) for x in (case.copies, case.n)}
    expected = {x: F(x, case.n) for x in used}
    words = ", ".join(
        f"{x} copies use {number_text(u)}, not {number_text(expected[x])}" for x, u in used.items() if u != expected[x]
    )
    pictures = tuple(case.picture(f"{x} copies", case.fastest[:x]) for x in used)
    return Finding(-max(abs(expected[x] - u) for x, u in used.items()), words, (ROUNDS,), pictures)


def remaining_share_within(case: CopyCase) -> Finding:
    """Whether the CRU of x copies on the first x nodes is at most x / n, and equal only if the last round is full."""
    nodes = range(case.copies)
    rounds = case.run(nodes, case.work[0])
    margin = F(case.copies, case.n) - case.utilisation(nodes)
    full = min(rounds[-1].values()) == 1
    before = all(min(busy.values()) == 1 for busy in rounds[:-1])
    words = f"{case.copies} copies use {number_text(case.utilisation(nodes))}"
    return Finding(margin if before and full == (margin == 0) else F(-1), words, (ROUNDS,))


# -- what z3 checks --------------------------------------------------------------------------------------------------


def too_many_in_a_round() -> list[Any]:
    """For z3: of M <= n R numbers, number q R + r is in round r, and has more than n - 1 others before it there."""
    from z3 import Ints

    total, n, rounds, q, r = Ints("total n rounds q r")
    return [rounds > 0, total <= n * rounds, r >= 0, q * rounds + r < total, q >= n]


def more_than_the_ceiling() -> list[Any]:
    """For z3: the x fastest of n nodes take more than R_n n / x rounds for work that n nodes do in R_n."""
    from z3 import Reals

    fast, every, n, x, rounds, work = Reals("fast every n x rounds work")
    return [
        rounds > 0,
        x > 0,
        fast > 0,
        fast * n >= every * x,  # S_x / x >= S_n / n
        work <= every * rounds,
        work / fast > rounds * n / x,
    ]


def more_than_the_jobs() -> list[Any]:
    """For z3: one more of u unfinished jobs lifts the CRU above its bound, or below it although none completes.

    The jobs before it keep ``busy`` nodes busy; ``ends`` says whether one of them completes in the round.
    """
    from z3 import And, Bool, If, Implies, Not, Or, Reals

    (u, n, busy, left, speed), ends = Reals("u n busy left v"), Bool("ends")
    used, bound = (busy + If(left < speed, left / speed, 1)) / n, (u + 1) / n
    given = [u >= 0, n > u + 1, busy <= u, Implies(Not(ends), busy == u), speed > 0]
    return [*given, Or(used > bound, And(Not(ends), left > speed, used != bound))]


def busy_in_total() -> str:
    """Check in sympy that a node of speed v is busy for w / S rounds in all but the last of R rounds and its part of l.

    The work l = w - (R - 1) S that is left for the last round is divided in proportion to speed.
    """
    import sympy

    work, total, v, rounds = sympy.symbols("w S v R", positive=True)
    left = work - (rounds - 1) * total
    busy = (rounds - 1) + (left * v / total) / v
    return "" if sympy.simplify(busy - work / total) == 0 else f"it is {sympy.factor(busy)}"


def more_than_the_share() -> list[Any]:
    """For z3: x of n nodes, each busy for y of R rounds in total, use more than x / n, or not x / n just for y = R."""
    from z3 import Or, Reals

    busy, rounds, x, n = Reals("y R x n")
    used = x * busy / (n * rounds)
    return [rounds > 0, busy <= rounds, x > 0, n > 0, Or(used > x / n, (used == x / n) != (busy == rounds))]


EQUAL = r"""
Let $m_j = \lceil w_j / v \rceil$ and $M = \sum_j m_j$. *No fewer rounds.* A node works on one job in a round and
does at most $v$ of it, so job $j$ needs the rounds of at least $m_j$ nodes; a round has $n$ of them, and $x$ for
one job.
*These rounds suffice.* Number the $M$ rounds of nodes job by job, and give number $i$ to round $i \bmod R$. At most
$\lceil M / R \rceil \le n$ are in the same round, and of the consecutive numbers of a job at most $\lceil m_j / R
\rceil \le x$. *Utilisation.* On equal nodes any division of the work keeps nodes busy for $\sum_j w_j / v$ rounds
in total, so $\mathrm{CRU}_m^x = \sum_j w_j / (v n R_x)$. $R_x$ does not increase with $x$, and from $x = n$ on it
is $\lceil M / n \rceil$, since $m_j \le M$."""

FAST = r"""
Let $S_x$ be the work of the $x$ fastest nodes in a round. Their mean speed is at least that of all nodes, $S_x / x
\ge S_n / n$, and $w \le S_n R_n$; so $w / S_x \le R_n S_n / S_x \le R_n n / x$, and $R_x = \lceil w / S_x \rceil$
is at most $\lceil R_n n / x \rceil$. As $R_n$ rounds are needed, $w > S_n (R_n - 1)$, and $R_x \ge w / S_x > (R_n -
1) S_n / S_x$."""

SHARE = r"""
So $\mathrm{CRU} = \frac xn \frac{w / S_x}{\lceil w / S_x \rceil}$: at most $x / n$, and equal if and only if $w /
S_x$ is whole."""

BATCH = r"with the fewest rounds of all assignments of nodes to copies"
ONE_SPEED = integers(1, 1)


def one_job_more(most_nodes: int, jobs: int) -> Space[CopyCase]:
    """Cases of the step to this number of jobs, on nodes of one speed."""
    return copy_space(
        alike,
        longer,
        between,
        holds_before,
        holds_alone,
        n=(3, most_nodes),
        m=(jobs, jobs),
        speeds=ONE_SPEED,
        works=integers(2, 6),
        copies=integers(2, 3),
    )


CLAIMS = (
    Claim(
        key="hadar/thm-3-induction",
        place="proof of Theorem 3, eq. (12), (13)",
        statement=r"If $\mathrm{CRU}_k^1 < \mathrm{CRU}_k^x < \mathrm{CRU}_k^n$ for $k > 1$ jobs, eq. (12), and the "
        r"same for the additional job alone, eq. (11), then $\mathrm{CRU}_{k+1}^1 < \mathrm{CRU}_{k+1}^x < "
        r"\mathrm{CRU}_{k+1}^n$, eq. (13); "
        f"{BATCH}.",
        procedure=ForAll(one_job_more(most_nodes=5, jobs=3), increases_further),
        expected=ClaimVerdict.FALSE,
        policies=("hadare",),
        instead="hadar/thm-3-batch-alike",
        quote="With the aforementioned fact about the CRUs of $k + 1$ jobs under different cases … and the facts of "
        "Eqs. (11) and (12), we infer that CRU is smaller without job forking than with every job forked into x "
        "copies and that the maximum CRU is obtained when each job is forked into n copies",
        note="Where $x$ copies of more jobs fill all nodes, further copies gain nothing. The step from one job to "
        "two fails in the same way: `hadar/thm-3-second-job`.",
    ),
    Claim(
        key="hadar/thm-3-second-job",
        place="proof of Theorem 3, eq. (11)",
        statement=r"If $\mathrm{CRU}_1^1 < \mathrm{CRU}_1^x < \mathrm{CRU}_1^n$ for each of two jobs alone, eq. (11), "
        rf"then $\mathrm{{CRU}}_2^1 < \mathrm{{CRU}}_2^x < \mathrm{{CRU}}_2^n$; {BATCH}.",
        procedure=ForAll(one_job_more(most_nodes=4, jobs=2), increases_further),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("hadare",),
        instead="hadar/thm-3-batch-alike",
        note="The first step of the induction. Two copies of each of two jobs can keep three nodes busy in all rounds.",
    ),
    Claim(
        key="hadar/thm-3-batch-alike",
        place="Theorem 3",
        statement="On $n$ equally fast nodes the fewest rounds of $m$ jobs with $x$ copies each are $R_x = "
        r"\max\{\lceil \sum_j m_j / n \rceil, \max_j \lceil m_j / x \rceil\}$, $m_j = \lceil w_j / v \rceil$, and "
        r"$\mathrm{CRU}_m^x = \sum_j w_j / (v n R_x)$. So $\mathrm{CRU}_m^1 \le \mathrm{CRU}_m^2 \le \dots \le "
        r"\mathrm{CRU}_m^n = \mathrm{CRU}_m^{n+j}$.",
        procedure=ForAll(
            copy_space(alike, n=(1, 4), m=(1, 3), speeds=integers(1, 3), works=rationals(1, 6, 2)), as_by_formula
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadare",),
        proof=EQUAL,
        mechanical=(by_z3("no round receives more than n of at most n R numbers, all integers", too_many_in_a_round),),
    ),
    Claim(
        key="hadar/more-rounds",
        place="proof of Theorem 3",
        statement=r"If all copies together are fewer than the nodes, $m x < n$, the jobs take more rounds with $x$ "
        f"copies than with $n$; {BATCH}.",
        procedure=ForAll(
            copy_space(
                alike,
                longer,
                fewer_copies,
                n=(2, 4),
                m=(1, 2),
                speeds=ONE_SPEED,
                works=rationals(1, 6, 2),
                copies=integers(1, 3),
            ),
            more_rounds,
        ),
        expected=ClaimVerdict.FALSE,
        policies=("hadare",),
        instead="hadar/thm-3-batch-alike",
        quote="Evidently, for the latter case, the total number of rounds to complete the remaining jobs when forked "
        "into x copies is higher than when forked into n copies",
        note="It is never lower.",
    ),
    Claim(
        key="hadar/unforked-rounds",
        place="proof of Theorem 3",
        statement=r"Without copies, and with fewer jobs than nodes, the utilisation of every round is $1/n$.",
        procedure=ForAll(copy_space(longer, fewer_jobs, n=(3, 4), m=(2, 3)), one_node_each),
        expected=ClaimVerdict.FALSE,
        policies=("hadar",),
        instead="hadar/unforked-rounds-jobs",
        quote="Similarly, for jobs without forking, when number of jobs is less than number of nodes ($(k + 1) < "
        r"n$), the CRU in each round (without considering overhead) is $\frac{1 * 100}{n} \%$.",
        note="Every job is on a separate node. $1/n$ is the share of one job.",
    ),
    Claim(
        key="hadar/unforked-rounds-jobs",
        place="proof of Theorem 3",
        statement="Without copies, with fewer jobs than nodes and every job on a separate node, the utilisation of a "
        "round that begins with $u$ unfinished jobs is at most $u / n$, and equal if none of them completes in it.",
        procedure=ForAll(copy_space(fewer_jobs, n=(2, 4), m=(1, 3)), one_node_per_job),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar",),
        proof=r"""
Each of the $u$ jobs keeps its node busy until it completes or the round ends, and the other $n - u$ nodes are idle.""",
        mechanical=(by_z3("one more job uses at most 1/n, and all of it unless it completes", more_than_the_jobs),),
    ),
    Claim(
        key="hadar/remaining-count",
        place="proof of Theorem 3",
        statement=r"A job that takes $R_n$ rounds with $n$ copies takes $\lceil R_n n / x \rceil$ with $x$.",
        procedure=ForAll(copy_space(alike, between, longer, n=(3, 4), copies=integers(2, 3)), remaining_count),
        expected=ClaimVerdict.FALSE,
        policies=("hadare",),
        instead="hadar/remaining-count-within",
        quote=r"assume only one job is remaining when $(k * x) \leq n$, and it takes $R_n^{re}$ rounds to complete "
        r"the remaining job when forked into $n$ copies, then the remaining job will complete in $\lceil "
        r"\frac{R_n^{re} * n}{x} \rceil$ rounds when forked into $x$ copies.",
        note=r"$R_n$ is itself rounded up: the last of the $R_n$ rounds may be nearly empty.",
    ),
    Claim(
        key="hadar/remaining-count-within",
        place="proof of Theorem 3",
        statement=r"On the $x$ fastest nodes a job takes more than $(R_n - 1) S_n / S_x$ rounds and at most $\lceil "
        r"R_n n / x \rceil$, $S_x$ being the work of the $x$ nodes in a round.",
        procedure=ForAll(copy_space(within_nodes, copies=integers(1, 4)), remaining_count_within),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadare",),
        proof=FAST,
        mechanical=(by_z3("w / S_x is at most R_n n / x, all real numbers", more_than_the_ceiling),),
    ),
    Claim(
        key="hadar/remaining-share",
        place="proof of Theorem 3",
        statement=r"The utilisation over the rounds of a remaining job is $x / n$ with $x$ copies, and 100% with $n$.",
        procedure=ForAll(copy_space(alike, between, longer, n=(3, 4), copies=integers(2, 3)), remaining_share),
        expected=ClaimVerdict.FALSE,
        policies=("hadare",),
        instead="hadar/remaining-share-within",
        quote=r"The CRU for the remaining rounds (without considering the overheads) is $\frac{x * 100}{n} \%$ (or "
        "100%) when forked into $x$ (or $n$) copies.",
        note="In the last round the nodes are busy for part of it only.",
    ),
    Claim(
        key="hadar/remaining-share-within",
        place="proof of Theorem 3",
        statement="The utilisation over the rounds of a job on $x$ nodes is at most $x / n$, its work divided in "
        "proportion to speed; it is $x / n$ in every round but the last, and over all rounds if and only if they do "
        "$w$ exactly.",
        procedure=ForAll(copy_space(within_nodes, copies=integers(1, 4)), remaining_share_within),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadare",),
        proof=FORMULA + SHARE,
        mechanical=(
            by_sympy("each node is busy for w / S_x rounds in total", busy_in_total),
            by_z3("the CRU is at most x / n, and equal if and only if all R rounds are full", more_than_the_share),
        ),
    ),
)
