"""Theorem 4.1: the backlog of FFT compared to an optimal schedule."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from hetopt.data.instance import Instance
from hetopt.decisions.system import ROUND_SECONDS
from hetopt.models.fft import FFT
from hetopt.proofs.fft.round_cases import EXACT, RoundCase, RoundJob
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict
from hetopt.proofs.ledger.mechanical import by_sympy, by_z3
from hetopt.proofs.ledger.procedures import Growth
from hetopt.simulation.simulator import simulate

F = Fraction


def family(s: int) -> Instance:
    """2 L jobs of one round and s jobs of L = s^2 rounds, all present from the start, on one GPU."""
    works = [F(1)] * (2 * s * s) + [F(s * s)] * s
    return RoundCase(tuple(RoundJob(1, work, (F(1),)) for work in works), (1,)).instance


@cache
def served(s: int) -> dict[str, list[int]]:
    """Job -> the rounds in which FFT runs it, in the simulator."""
    log = simulate(FFT(options=EXACT), family(s))
    found: dict[str, list[int]] = {str(name): [] for name in log.jobs.index}
    for name, start, end in zip(*(log.spans[key].tolist() for key in ("job", "start", "end")), strict=True):
        found[name] += range(round(start / ROUND_SECONDS), round(end / ROUND_SECONDS))
    return found


def fractional(s: int) -> Fraction:
    """The total of FFT's fractional completion times, [FFT, eq. 2], with a unit of work per round."""
    return sum((F(sum(runs), len(runs)) for runs in served(s).values()), F(0))


def shortest_first(s: int) -> Fraction:
    """The smallest total of completion times, including the last round, by shortest first."""
    ends, time = F(0), 0
    for work in [1] * (2 * s * s) + [s * s] * s:
        time += work
        ends += time
    return ends


def behind(s: int) -> Fraction:
    """Square of the number of jobs by which FFT is behind when the optimum has finished 2 L short jobs, over N."""
    size = s * s
    late = sum(1 for runs in served(s).values() if len(runs) == 1 and runs[0] >= 2 * size)
    return F(late**2, 2 * size + s)


BEHAVIOUR = r"""
Let $L = s^2$, $s \ge 2$: $2L$ jobs of one round and $s$ of $L$ rounds, all present at $t = 0$, $N = 2L + s$, one GPU.
In every round one job runs, either one of the equal short jobs or a long job. With $n_t$ jobs present,
$\tau - a$ is $n_t$ rounds for a short job and $n_t L$ for a long one. A short job that waits has
$\rho = r_t := \sum_{u < t} u / n_u^2$, a long one $0 \le \rho \le r_t / L^2$. The costs are $t - \rho + 1$ and
$(t - \rho)/L + L$; the first minus the second is
$$\Delta_t = (1 - 1/L)\, t - (L - 1) - r_t + \epsilon_t, \qquad 0 \le \epsilon_t \le r_t / L^3 .$$
*Rounds 0 to L.* Here $(1 - 1/L)\, t \le L - 1$, with equality for $t = L$, where $r_t > 0$. So $\Delta_t < 0$ as long
as short jobs run, which is in rounds $0, \dots, L$.
*Round L + 1.* Up to here $n_u = N - u \ge L + s$, so
$r_{L+1} \le \frac{L (L+1)/2}{(L + s)^2} = \frac{L + 1}{2 (s + 1)^2} < \frac12$.
*The next $L s$ rounds.* Suppose that only long jobs have run since round $L + 1$; while one is left, $n_u \ge L$. For
$t = L + 1 + v$, $0 \le v \le L s - 1$:
$$\Delta_t \ge \Bigl(1 - \frac1L\Bigr)(1 + v) - \frac12 - \frac{v (2L + 1 + v)}{2 L^2},$$
which is concave in $v$. It is $\frac12 - \frac1L > 0$ at $v = 0$, and at $v = L s - 1$ at least
$(L - 1) s - \frac12 - s - \frac{s^2}2 = s^3 - \frac{s^2}{2} - 2 s - \frac12 > 0$. So long jobs run until all are
complete, in rounds $L + 1, \dots, L + L s$, in any order, and then the other $L - 1$ short jobs. (This is with
$\theta / W$ for $\theta$ in (4) to (6), see `fft/units-normalised`. As printed a long job has $\rho \le r_t / L$, so $0
\le \epsilon_t \le r_t / L$, and nothing else changes.) """

FRACTIONAL = (
    BEHAVIOUR
    + r"""
*Fractional completion times.* A long job adds $t / L$ for every round $t$ in which it runs, so their order is
irrelevant: the total is $\sum_{t=0}^{L} t + \frac1L \sum_{t=L+1}^{L+Ls} t + \sum_{t=L+Ls+1}^{2L+Ls-1} t
= \frac{L (L+1)}2 + \frac{s (2L + 1 + sL)}2 + \frac{(L-1)(2sL + 3L)}2 = \frac{s}{2} (2 s^4 + 5 s^3 - 2 s +
1)$. The optimum is shortest first, with the total $L (2L+1) + 2 L s + \frac{L s (s+1)}2 = \frac{s}{2} (5 s^3 + 5 s^2 +
2 s)$ with the finishing round counted. The quotient grows like $\frac{2s}5$."""
)

UNFINISHED = (
    BEHAVIOUR
    + r"""
*When the optimum has finished the $2L$ short jobs*, after $2L$ rounds, FFT has finished $L + 1$ of them, since
$2 L \le L + L s$. It is behind by $L - 1$ jobs, and $(L - 1)^2 / N = (s^2 - 1)^2 / (2 s^2 + s)$ grows like
$s^2 / 2$."""
)


def short_jobs_stop() -> list[object]:
    """For z3: r >= 1/2 when the long jobs start, although r <= (L + 1) / (2 (s + 1)^2), L = s^2."""
    import z3

    s, r = z3.Reals("s r")
    return [s >= 2, r * 2 * (s + 1) * (s + 1) <= s * s + 1, 2 * r >= 1]


def long_job_stops() -> list[object]:
    """For z3: v <= L s - 1 rounds after the start of the long jobs, L = s^2, a short job costs no more."""
    import z3

    s, v = z3.Reals("s v")
    size = s * s
    gap = (1 - 1 / size) * (1 + v) - z3.RealVal("1/2") - v * (2 * size + 1 + v) / (2 * size * size)
    return [s >= 2, v >= 0, v <= size * s - 1, gap <= 0]


def wrong_totals() -> str:
    """Check in sympy the closed forms of both totals against the sums over rounds and jobs."""
    import sympy

    s, t = sympy.symbols("s t", positive=True, integer=True)
    size, end = s**2, s**2 + s**3
    rounds = sympy.summation(t, (t, 0, size)) + sympy.summation(t, (t, size + 1, end)) / size
    rounds += sympy.summation(t, (t, end + 1, end + size - 1))
    best = sympy.summation(t, (t, 1, 2 * size)) + sympy.summation(2 * size + t * size, (t, 1, s))
    for total, closed in ((rounds, 2 * s**4 + 5 * s**3 - 2 * s + 1), (best, 5 * s**3 + 5 * s**2 + 2 * s)):
        if sympy.simplify(total - s * closed / 2) != 0:
            return f"a total is {sympy.factor(total)}"
    return ""


ORDER = (
    by_z3("the compensation of a short job when the long jobs start", short_jobs_stop),
    by_z3("long jobs cost less until they are complete", long_job_stops),
)

SIZES = (2, 3, 4, 5, 6)

CLAIMS = (
    Claim(
        key="fft/thm-4.1-fractional",
        place="Theorem 4.1",
        statement="The fractional JCT under FFT (equation (2), in total) is at most a constant times the optimal JCT.",
        quote="the achieved fractional JCT under FFT is upper bounded by a constant factor times the optimal JCT.",
        procedure=Growth(
            SIZES,
            lambda s: fractional(s) / shortest_first(s),
            "(2*s**4 + 5*s**3 - 2*s + 1) / (5*s**3 + 5*s**2 + 2*s)",
            "s",
            "ratio of FFT's fractional JCT to the optimum",
            most=3,
        ),
        expected=ClaimVerdict.FALSE,
        proof=FRACTIONAL,
        mechanical=(*ORDER, by_sympy("the total of both schedules", wrong_totals)),
        note="The second half of the theorem, without a proof in the paper. The ratio grows like $2 s / 5$ with the "
        "number $s$ of long jobs; the JCT is larger than the fractional JCT. The strongest true version is unknown.",
    ),
    Claim(
        key="fft/thm-4.1-unfinished",
        place="Theorem 4.1",
        statement=r"The number of unfinished jobs under FFT is at most $O(\sqrt N)$: of jobs that the optimal schedule "
        "has finished.",
        quote=r"The number of unfinished jobs under FFT is at most $O(\sqrt{N})$",
        procedure=Growth(
            SIZES,
            behind,
            "(s**2 - 1)**2 / (2*s**2 + s)",
            "s",
            "(jobs that FFT is behind)^2 / N",
            most=3,
        ),
        expected=ClaimVerdict.FALSE,
        proof=UNFINISHED,
        mechanical=ORDER,
        note="The first half of the theorem. The time at which unfinished jobs are counted is not defined: at the "
        "start there are N, at the end none. It is read according to the paper's explanation that most jobs complete "
        r"before they would under the optimal schedule. If it were $O(\sqrt N)$, its square over $N$ would be bounded.",
    ),
)
