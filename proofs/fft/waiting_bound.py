"""Theorem 4.2 for jobs of one GPU: a bound on waits that depends on the numbers and sizes of present jobs only."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from hetopt.data.rationals import number_text
from hetopt.proofs.fft.compensation import FAIR, NORMALISED
from hetopt.proofs.fft.round_cases import FULL_ROUNDS, WAITS, RoundCase, RoundJob, single_gpus, sized, unrestricted
from hetopt.proofs.fft.round_sequences import PlayedRound, play_rounds, rounds_picture
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.mechanical import by_z3
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, ValueChooser, hypothesis, integers

F = Fraction


def longest_wait(case: RoundCase, steps: list[PlayedRound]) -> int:
    """The largest number of rounds from an arrival to the first run."""
    first: dict[int, int] = {}
    for step in steps:
        for j, i in zip(step.present, step.executed, strict=True):
            if i != WAITS:
                first.setdefault(j, step.round.time - case.gangs[j].arrival)
    return max(first.values())


def wait_bound(case: RoundCase, steps: list[PlayedRound]) -> Fraction:
    """4 F^2 max(3, P) rounds with F = n P / Y."""
    most = max(len(step.present) for step in steps)
    longest = ceil(max(gang.rounds(i) for gang in case.gangs for i in range(len(case.gpus))))
    fair = F(most * longest, sum(case.gpus))
    return 4 * fair**2 * max(3, longest)


def waits_bounded(case: RoundCase) -> Finding:
    """Whether all waits are within the bound."""
    steps = list(play_rounds(case))
    wait, bound = longest_wait(case, steps), wait_bound(case, steps)
    words = f"the longest wait is {wait} rounds, the bound {number_text(bound)}"
    return Finding(bound - wait, words, pictures=(rounds_picture("FFT", steps),))


def wait_ratio(case: RoundCase) -> Fraction:
    """The longest wait over the bound."""
    steps = list(play_rounds(case))
    return longest_wait(case, steps) / wait_bound(case, steps)


def _jobs(numbers: CaseNumbers) -> RoundCase:
    rows = zip(numbers.row("work"), numbers["speed"], numbers.row("arrival"), strict=True)
    gangs = tuple(RoundJob(1, work, speed, int(arrival)) for work, speed, arrival in rows)
    return RoundCase(gangs, tuple(map(int, numbers.row("gpus"))))


@hypothesis("every job takes at least one round on every type")
def whole_rounds(case: RoundCase) -> bool:
    """No job is complete within a part of a round."""
    return all(v <= gang.work for gang in case.gangs for v in gang.speed)


def _some(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
    speed = [[choose(integers(1, 3)) for _ in range(sizes["k"])] for _ in range(sizes["n"])]
    return CaseNumbers.of(
        work=[max(row) + choose(integers(0, 3)) for row in speed],
        speed=speed,
        arrival=[choose(integers(0, 4)) for _ in speed],
        gpus=[choose(integers(1, 2)) for _ in range(sizes["k"])],
    )


RUNS = Space(
    {"n": (1, 5), "k": (1, 2)},
    {
        "work": TableShape(1, "n", integers(1, 6)),
        "speed": TableShape("n", "k", integers(1, 3)),
        "arrival": TableShape(1, "n", integers(0, 4)),
        "gpus": TableShape(1, "k", integers(1, 2)),
    },
    _jobs,
    _some,
    (
        sized,
        single_gpus,
        unrestricted,
        whole_rounds,
        FULL_ROUNDS,
        FAIR,
        NORMALISED,
    ),
)


# -- steps of the proof, for z3 --------------------------------------------------------------------------------------


def compensated_late() -> list[object]:
    """A wait of s >= 6 F^2 rounds without a compensation of s."""
    import z3

    fair, s, rho = z3.Reals("F s rho")
    return [fair >= 1, s >= 6 * fair * fair, 2 * fair * fair * rho >= s * (s - 1), rho < s]


def young_and_cheap() -> list[object]:
    """A job of age v with a cost of at most -v^2 / 2."""
    import z3

    v, p, rho = z3.Reals("v p rho")
    return [v >= 0, p >= 1, rho <= v * v / 2, v / p + p - rho / p <= -v * v / 2]


def cheaper_and_young() -> list[object]:
    """A job of age v <= s / (2 F P) that costs no more than one that has waited for s >= 6 F^2 rounds."""
    import z3

    most, fair, s, v, waiting, other = z3.Reals("P F s v waiting other")
    return [
        most >= 1,
        fair >= most,
        s >= 6 * fair * fair,
        v >= 0,
        2 * fair * most * v <= s,
        waiting <= (s - s * (s - 1) / (2 * fair * fair)) / most + most,
        other > -v * v / 2,
        other <= waiting,
    ]


def enough_older_jobs() -> list[object]:
    """More than S / (2 F P) rounds, S >= 2 F^2 P, on Y GPUs of n - 1 jobs of at most P rounds each, n P = F Y."""
    import z3

    most, fair, start, gpus, jobs, rounds = z3.Reals("P F S Y n rounds")
    return [
        most >= 1,
        fair >= most,
        gpus >= 1,
        jobs * most == fair * gpus,
        start >= 2 * fair * fair * most,
        2 * fair * most * rounds > start,
        rounds * gpus <= (jobs - 1) * most,
    ]


CLAIMS = (
    Claim(
        key="fft/thm-4.2-one-gpu-jobs",
        place="Theorem 4.2",
        statement=r"If every job takes at most $P$ rounds on every type ($P$ an integer), and at most $n$ jobs are "
        r"present in each round, every job runs within $4 F^2 \max(3, P)$ rounds of its arrival, $F = n P / \sum_i "
        r"Y_i$, under FFT with any tie-breaking.",
        quote="This grants job $j$ more chances for scheduling, thereby ensuring better long-term fairness guarantees.",
        procedure=ForAll(RUNS, waits_bounded, ratio=wait_ratio),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
Let $Y = \sum_i Y_i$ and let $j$ wait in all rounds up to age $s$. In each of them all $Y$ GPUs are in use by other
jobs, so $n > Y$ and $F > P$; and a job $k$ that runs on type $i$ costs at most as much as $j$ would on $i$, since $j$
could replace it (a cost $s_k^i \ge 0$ of switching only raises the cost of $k$; $j$ has none).
*Job $j$.* $\tau_j - a_j \le F$, so each round at age $u$ adds at least $u / F^2$ to $\rho_j$, and
$\rho_j \ge \frac{s (s-1)}{2 F^2}$. For $s \ge 6 F^2$ this is at least $s$, so on every type the cost of $j$ is at most
$\frac1P \bigl(s - \frac{s (s-1)}{2 F^2}\bigr) + P$.
*Job $k$ of age $v$.* Here $\tau_k - a_k \ge 1$, so $\rho_k \le \sum_{u < v} u \le \frac{v^2}2$; it takes $p \ge 1$
rounds on $i$ and costs $\frac{v - \rho_k}p + p > -\frac{v^2}2$. Both together give $v > \frac{s}{2 F P}$ for
$s \ge 6 F^2$.
*A window.* Let $S$ be the least integer of at least $2 F^2 \max(3, P)$ and $w = \lfloor \frac{S}{2 F P} \rfloor$.
Suppose $j$ waits at all ages from $S$ to $S + w$. A job that runs at age $u$ of $j$ in this window is older than
$\frac{u}{2FP} \ge \frac{S}{2FP} \ge w$, so it arrived before age $S$ of $j$ and was present then. These are at most
$n - 1$ jobs; each runs in at most $P$ rounds, as it does $\frac1P$ of its work in each. So
$(w + 1) Y \le (n - 1) P < F Y$; but $w + 1 > \frac{S}{2FP} \ge F$, a contradiction. Hence $j$ runs at an age of at
most $S + w \le \frac32 S \le 4 F^2 \max(3, P)$, as $F, P \ge 1$.""",
        mechanical=(
            by_z3("from age 6 F^2 on a waiting job has a compensation of at least its age", compensated_late),
            by_z3("a job of age v costs more than -v^2 / 2", young_and_cheap),
            by_z3("only jobs older than s / (2 F P) are cheaper than a job that waits for s rounds", cheaper_and_young),
            by_z3("the jobs of that age do not suffice for the window", enough_older_jobs),
        ),
        note="Here compensation prevents starvation, whatever jobs arrive. With gangs it does not: "
        "`fft/thm-4.2-stream`.",
    ),
)
