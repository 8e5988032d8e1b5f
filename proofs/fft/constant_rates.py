"""Section 2.3: Table 1 with constant rates, and with rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from hetopt import instances
from hetopt.data.instance import Instance
from hetopt.data.rationals import number_text, numbers_text, simple_fractions
from hetopt.models.gavel import max_min_fairness
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import shares_picture
from hetopt.proofs.ledger.mechanical import by_sympy, by_z3
from hetopt.proofs.ledger.procedures import ByComputation, Computation, ForAll, compare_number, compare_values
from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, ValueChooser, hypothesis, rationals
from hetopt.proofs.small_programs import RowVector, maximise_exactly
from hetopt.simulation.simulator import simulate

F = Fraction

FAST = F(8)
"""Epochs per minute on GPU0."""

SLOW = F(1)
"""Epochs per minute on GPU1."""

WORK = F(16)
"""Epochs of a job."""

LEAST = F(64, 9)
"""The smallest total for constant rates, in minutes."""

HALVES = ((F(1, 2),) * 2,) * 2
"""Half of the time of each job on each GPU."""


def table_1() -> Instance:
    """Table 1 of the paper."""
    return instances.load("fft/table1")


@dataclass(frozen=True)
class ConstantRates:
    """Jobs of work v^2 that run at constant rates r."""

    root: tuple[Fraction, ...]
    rate: tuple[Fraction, ...]

    @cached_property
    def instance(self) -> Instance:
        """The jobs, one GPU each."""
        n = len(self.root)
        return Instance.from_jobs([[float(r)] for r in self.rate], 1, [float(v * v) for v in self.root], [n])

    @property
    def total(self) -> Fraction:
        """Sum of the completion times W / r."""
        return sum((v * v / r for v, r in zip(self.root, self.rate, strict=True)), F(0))

    @property
    def bound(self) -> Fraction:
        """(sum of sqrt(W))^2 / sum of r."""
        return F(sum(self.root)) ** 2 / sum(self.rate)


@hypothesis("all works and rates are positive")
def positive(case: ConstantRates) -> bool:
    """Every job has work and runs."""
    return min(*case.root, *case.rate) > 0


RATES = Space(
    {"n": (1, 5)},
    {"root": TableShape(1, "n", rationals(1, 9, 2)), "rate": TableShape(1, "n", rationals(1, 9, 3))},
    lambda numbers: ConstantRates(numbers.row("root"), numbers.row("rate")),
    hypotheses=(positive,),
)


def gap_of_two() -> str:
    """Check in sympy that v^2/r + w^2/s - (v + w)^2/(r + s) = (v s - w r)^2 / (r s (r + s))."""
    import sympy

    v, w, r, s = sympy.symbols("v w r s", positive=True)
    gap = v**2 / r + w**2 / s - (v + w) ** 2 / (r + s)
    return "" if sympy.simplify(gap - (v * s - w * r) ** 2 / (r * s * (r + s))) == 0 else f"it is {sympy.factor(gap)}"


@dataclass(frozen=True)
class TimeFractions:
    """Fractions of the time of both jobs of Table 1 on both GPUs."""

    time: tuple[tuple[Fraction, ...], ...]

    @property
    def instance(self) -> Instance:
        """Table 1."""
        return table_1()

    @property
    def rate(self) -> tuple[Fraction, ...]:
        """Epochs per minute of each job."""
        return tuple(FAST * row[0] + SLOW * row[1] for row in self.time)

    @property
    def total(self) -> Fraction:
        """The objective, in minutes."""
        return sum((WORK / r for r in self.rate), F(0))


@hypothesis(r"parts of the time are nonnegative, $m_0, m_1, n_0, n_1 \ge 0$")
def nonnegative(case: TimeFractions) -> bool:
    """No negative parts."""
    return min(v for row in case.time for v in row) >= 0


@hypothesis(r"no GPU is in use for more than the whole time, $m_0 + n_0 \le 1$ and $m_1 + n_1 \le 1$")
def within_time(case: TimeFractions) -> bool:
    """The rows on the time of GPUs."""
    return all(sum(column) <= 1 for column in zip(*case.time, strict=True))


@hypothesis("both jobs run for some time")
def both_run(case: TimeFractions) -> bool:
    """Both completion times are finite."""
    return min(case.rate) > 0


def _some_fractions(choose: ValueChooser, _: Mapping[str, int]) -> CaseNumbers:
    steps = rationals(0, 1, 9, 16)
    first = [choose(steps) for _ in range(2)]
    return CaseNumbers.of(time=[first, [choose([v for v in steps if v <= 1 - m]) for m in first]])


FRACTIONS = Space(
    {},
    {"time": TableShape(2, 2, rationals(0, 1, 9, 16))},
    lambda numbers: TimeFractions(numbers["time"]),
    _some_fractions,
    (nonnegative, within_time, both_run),
)


def least_total(case: TimeFractions) -> Finding:
    """Whether the total is at least 64/9, and larger except for halves if no job runs for more than the whole time."""
    slack = case.total - LEAST
    if slack == 0 and max(map(sum, case.time)) <= 1 and case.time != HALVES:
        slack = F(-1)
    return Finding(slack, f"a total of {number_text(case.total)} minutes")


def makespan() -> Computation:
    """Gavel's smallest makespan by a linear program in fractions: max v, 16 v <= rate of each job."""
    rows: list[tuple[RowVector, Fraction]] = [
        ((1, 0, 1, 0, 0), F(1)),
        ((0, 1, 0, 1, 0), F(1)),
        ((1, 1, 0, 0, 0), F(1)),
        ((0, 0, 1, 1, 0), F(1)),
        ((-FAST, -SLOW, 0, 0, WORK), F(0)),
        ((0, 0, -FAST, -SLOW, WORK), F(0)),
    ]
    found = maximise_exactly((0, 0, 0, 0, 1), rows)
    time = (found.x[:2], found.x[2:4])
    picture = shares_picture("the least makespan", time, (1, 1), TimeFractions(time).rate, ("I0", "I1"))
    compared = (
        *(compare_values(f"parts of the time of I{j}", numbers_text(HALVES[j]), numbers_text(time[j])) for j in (0, 1)),
        compare_values("the only optimum", True, found.unique),
        compare_number("makespan in minutes", "32/9", 1 / found.value),
    )
    return Computation(compared, "each job has half of the time on each GPU, the only optimum", (picture,))


def short_makespan() -> list[object]:
    """For z3: parts of the time other than halves with both jobs complete after 32/9 minutes."""
    import z3

    m0, m1, n0, n1 = z3.Reals("m0 m1 n0 n1")
    rows = [m0 + n0 <= 1, m1 + n1 <= 1, m0 + m1 <= 1, n0 + n1 <= 1]
    done = [32 * (8 * m0 + m1) >= 16 * 9, 32 * (8 * n0 + n1) >= 16 * 9]
    half = z3.RealVal("1/2")
    return [*(v >= 0 for v in (m0, m1, n0, n1)), *rows, *done, z3.Or([v != half for v in (m0, m1, n0, n1)])]


def utilisation() -> Computation:
    """Simulate Gavel's max-min fairness on Table 1, with moves that take 40% of a round."""
    log = simulate(max_min_fairness(), instances.load("fft/fig3"), round_seconds=300.0, max_rounds=6)
    used = [F(v) for v in simple_fractions(log.rounds["utilisation"].to_numpy())]
    rows = tuple(compare_number(f"utilisation in round {t}, in %", 60, 100 * v) for t, v in enumerate(used) if t)
    return Computation(rows, "the jobs exchange GPUs in every round after the first")


CAUCHY = r"""
$\bigl(\sum_l v_l\bigr)^2 = \bigl(\sum_l \frac{v_l}{\sqrt{r_l}} \sqrt{r_l}\bigr)^2
\le \sum_l \frac{v_l^2}{r_l} \sum_l r_l$, by Cauchy and Schwarz, with equality where all $v_l / r_l$ are equal."""

CLAIMS = (
    Claim(
        key="fft/cauchy-schwarz",
        place="section 2.3",
        statement=r"$\sum_l W_l / r_l \ge \bigl(\sum_l \sqrt{W_l}\bigr)^2 / \sum_l r_l$ for all works and rates (two "
        "in the paper).",
        quote=r"$\min \frac{16}{8m_0 + m_1} + \frac{16}{8n_0 + n_1} \geq \frac{(\sqrt{16} + \sqrt{16})^2}{8(m_0 + n_0) "
        r"+ (m_1 + n_1)} \geq \frac{64}{9},$ where the inequality is due to Cauchy-Schwarz Inequality",
        procedure=ForAll(
            RATES,
            lambda case: Finding(case.total - case.bound, f"{number_text(case.total)} and {number_text(case.bound)}"),
            ratio=lambda case: case.bound / case.total,
        ),
        expected=ClaimVerdict.TRUE,
        policies=("gavel-mean-completion-time",),
        proof=r"With $W_l = v_l^2$, $v_l > 0$: " + CAUCHY.strip(),
        mechanical=(by_sympy("the difference for two jobs is a square over positive numbers", gap_of_two),),
    ),
    Claim(
        key="fft/table-1-gavel",
        place="section 2.3, Table 1",
        statement=r"$\frac{16}{8 m_0 + m_1} + \frac{16}{8 n_0 + n_1} \ge \frac{64}9$ for all parts of the time of "
        r"both jobs, attained at $m_0 = m_1 = n_0 = n_1 = \frac12$ (and nowhere else with $m_0 + m_1 \le 1$, "
        r"$n_0 + n_1 \le 1$).",
        quote="The equality is attained when $m_0 = m_1 = n_0 = n_1 = 0.5$, which is equivalent to … fair allocation.",
        procedure=ForAll(FRACTIONS, least_total, ratio=lambda case: LEAST / case.total),
        expected=ClaimVerdict.TRUE,
        policies=("gavel-mean-completion-time",),
        proof=r"""
By the inequality of Cauchy and Schwarz the sum is at least $(4 + 4)^2 / (8 (m_0 + n_0) + m_1 + n_1) \ge 64 / 9$,
since no GPU is in use for more than the whole time. Equality requires equal rates and both GPUs in use all the time:
$8 m_0 + m_1 = \frac92$, $m_0 + n_0 = m_1 + n_1 = 1$. Then the parts of both jobs sum to 2; with at most 1 each,
$m_0 + m_1 = 1$, so $m_0 = \frac12$.""",
        note="Without the rows on the time of a job, which the paper does not print, $(9/16, 0)$ and $(7/16, 1)$ are "
        "optimal, too.",
    ),
    Claim(
        key="fft/table-1-makespan",
        place="section 2.3",
        statement="With the makespan as Gavel's objective, and the rows on the time of GPUs and jobs, the same "
        "allocation results.",
        quote="This results in the same allocation policy as above.",
        procedure=ByComputation(makespan),
        expected=ClaimVerdict.TRUE,
        policies=("gavel-makespan",),
        mechanical=(by_z3("no other parts of the time have a makespan of at most 32/9", short_makespan),),
    ),
    Claim(
        key="fft/fig-3",
        place="Fig. 3",
        statement="With these parts, and migrations that take 40% of a round, the utilisation is as low as 60%.",
        quote="each job alternates their training on both GPU types within each scheduling round, as visually depicted "
        "in Figure 3, resulting in a utilization as low as 60%.",
        procedure=ByComputation(utilisation),
        expected=ClaimVerdict.TRUE,
        policies=("gavel-max-min",),
        note="From the second round on; in the first round no job moves.",
    ),
)
