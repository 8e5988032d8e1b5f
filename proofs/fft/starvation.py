"""Theorem 4.2: the time until the first round of a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from hetopt.data.instance import Instance
from hetopt.data.rationals import number_text
from hetopt.decisions.system import ROUND_SECONDS
from hetopt.models.fft import FFT
from hetopt.proofs.fft.round_cases import EXACT, FULL_ROUNDS, RoundCase, RoundJob, runnable, runs_picture, sized
from hetopt.proofs.fft.round_sequences import play_rounds
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import Timeline
from hetopt.proofs.ledger.procedures import ForAll, Growth
from hetopt.proofs.ledger.space import (
    CaseNumbers,
    Hypothesis,
    Space,
    TableShape,
    ValueChooser,
    integers,
)
from hetopt.simulation.simulator import simulate

F = Fraction


def waits(instance: Instance) -> dict[str, Fraction]:
    """Job -> rounds from its arrival to its first service, under FFT in the simulator."""
    log = simulate(FFT(options=EXACT), instance)
    return {str(name): F(round(v / ROUND_SECONDS)) for name, v in log.jobs["starvation"].items()}


def together(n: int) -> Fraction:
    """The longest wait of n jobs of one round on one GPU."""
    return max(waits(RoundCase((RoundJob(1, F(1), (F(1),)),) * n, (1,)).instance).values())


def gangs_of_two(n: int) -> RoundCase:
    """A job of one GPU and one round beside n gangs of two, one arriving per round, on two GPUs."""
    gangs = (RoundJob(1, F(1), (F(1),)), *(RoundJob(2, F(1), (F(1),), t) for t in range(n)))
    return RoundCase(gangs, (2,))


def stream(n: int) -> Fraction:
    """The wait of the job of one GPU."""
    return waits(gangs_of_two(n).instance)["j1"]


def compensation_of_waiting(n: int) -> Fraction:
    """Rho of the job of one GPU after its wait."""
    *_, last = play_rounds(gangs_of_two(n))
    return last.round.rho[0]


@dataclass(frozen=True)
class PackedCase:
    """Jobs that are packed by priorities in every round, so that no waiting job fits.

    Attributes
    ----------
    gangs, gpus:
        The jobs with their arrivals, and the cluster.
    priority:
        (n, m) priorities in m rounds, which repeat; jobs of odd priority try the last type first.
    """

    gangs: tuple[RoundJob, ...]
    gpus: tuple[int, ...]
    priority: tuple[tuple[int, ...], ...]

    @cached_property
    def instance(self) -> Instance:
        """All jobs, at time 0."""
        return RoundCase(self.gangs, self.gpus).instance

    @cached_property
    def runs(self) -> tuple[dict[int, int], ...]:
        """Job -> type in each round."""
        left = [gang.work for gang in self.gangs]
        found: list[dict[int, int]] = []
        while any(left):
            found.append(self._packed(len(found), left))
            for j, i in found[-1].items():
                left[j] = max(F(0), left[j] - self.gangs[j].speed[i])
        return tuple(found)

    def _packed(self, time: int, left: list[Fraction]) -> dict[int, int]:
        now = [row[time % len(row)] for row in self.priority]
        free, where = list(self.gpus), dict[int, int]()
        present = [j for j, gang in enumerate(self.gangs) if gang.arrival <= time and left[j]]
        for j in sorted(present, key=lambda j: -now[j]):
            types = self.gangs[j].usable(self.gpus)
            for i in reversed(types) if now[j] % 2 else types:
                if free[i] >= self.gangs[j].demand:
                    where[j] = i
                    free[i] -= self.gangs[j].demand
                    break
        return where

    def sides(self, j: int) -> tuple[Fraction, Fraction]:
        """Both sides of the bound: wait times busy GPUs, and GPU rounds of jobs that arrive before j first runs."""
        gang = self.gangs[j]
        first = next(t for t, where in enumerate(self.runs) if j in where)
        busy = sum(self.gpus[i] - gang.demand + 1 for i in gang.usable(self.gpus))
        others = F(0)
        for o, other in enumerate(self.gangs):
            if o != j and other.arrival < first:
                slowest = max(other.rounds(i) for i in other.usable(self.gpus))
                others += other.demand * -(-slowest.numerator // slowest.denominator)
        return F((first - gang.arrival) * busy), others

    @property
    def picture(self) -> Timeline:
        """Picture of the schedule."""
        return runs_picture("the schedule", ((t, *run) for t, runs in enumerate(self.runs) for run in runs.items()))


def bounded(case: PackedCase) -> Finding:
    """Whether every wait meets the bound."""
    slack, j, left, right = min((b - a, j, a, b) for j in range(len(case.gangs)) for a, b in [case.sides(j)])
    words = f"j{j + 1}: {number_text(left)} busy GPU rounds during its wait, {number_text(right)} of other jobs"
    return Finding(slack, words, pictures=(case.picture,))


def tight(case: PackedCase) -> Fraction:
    """The largest quotient of both sides."""
    sides = [case.sides(j) for j in range(len(case.gangs))]
    return max((left / right for left, right in sides if right), default=F(0))


def _packed(numbers: CaseNumbers) -> PackedCase:
    rows = zip(numbers.row("demand"), numbers.row("work"), numbers["speed"], numbers.row("arrival"), strict=True)
    gangs = tuple(RoundJob(int(d), work, speed, int(a)) for d, work, speed, a in rows)
    gpus = tuple(map(int, numbers.row("gpus")))
    priority = tuple(tuple(map(int, row)) for row in numbers["priority"])
    return PackedCase(gangs, gpus, priority)


def of_jobs(given: Hypothesis[RoundCase]) -> Hypothesis[PackedCase]:
    """A hypothesis about the jobs and GPUs of a round."""
    return Hypothesis(given.text, lambda case: given(RoundCase(case.gangs, case.gpus)))


MAXIMAL = Hypothesis[PackedCase](
    "in no round a waiting job fits on the idle GPUs; a job runs as a whole on one type, and may be preempted"
)


def _some(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
    gpus = [choose(integers(1, 4)) for _ in range(sizes["k"])]
    demand = [choose(integers(1, int(min(gpus)))) for _ in range(sizes["n"])]
    return CaseNumbers.of(
        gpus=gpus,
        demand=demand,
        speed=[[choose(integers(1, 3)) for _ in gpus] for _ in demand],
        work=[choose(integers(1, 6)) for _ in demand],
        arrival=[choose(integers(0, 3)) for _ in demand],
        priority=[[choose(integers(0, 3)) for _ in range(3)] for _ in demand],
    )


PACKED = Space(
    {"n": (2, 5), "k": (1, 2)},
    {
        "gpus": TableShape(1, "k", integers(1, 4)),
        "demand": TableShape(1, "n", integers(1, 3)),
        "work": TableShape(1, "n", integers(1, 6)),
        "speed": TableShape("n", "k", integers(0, 3)),
        "arrival": TableShape(1, "n", integers(0, 3)),
        "priority": TableShape("n", 3, integers(0, 3)),
    },
    _packed,
    _some,
    (of_jobs(sized), of_jobs(runnable), MAXIMAL, FULL_ROUNDS),
)

CLAIMS = (
    Claim(
        key="fft/thm-4.2",
        place="Theorem 4.2",
        statement="Each job has been executed in at least one round within a constant time from its arrival.",
        quote="Under FFT, each job has been executed in at least one round within a constant time from its arrival.",
        procedure=Growth(
            (2, 4, 8, 16, 32),
            together,
            "N - 1",
            "N",
            "longest wait in rounds",
            most=8,
        ),
        expected=ClaimVerdict.FALSE,
        instead="fft/thm-4.2-packed",
        proof="N jobs of one round, all present from the start, on one GPU: under any policy one of them runs in each "
        "round, so the last one waits for N - 1 rounds.",
    ),
    Claim(
        key="fft/thm-4.2-stream",
        place="Theorem 4.2",
        statement="Theorem 4.2 with a constant that depends on the sizes of jobs and on the number of present jobs.",
        procedure=Growth(
            (2, 4, 8, 16, 32),
            stream,
            "n",
            "n",
            "wait of a job of one GPU and one round in rounds",
            most=8,
        ),
        expected=ClaimVerdict.FALSE,
        printed=False,
        instead="fft/thm-4.2-one-gpu-jobs",
        proof=r"""
Take two GPUs, a job of one GPU and one round, and a gang of two GPUs and one round that arrives in each of the rounds
$0, \dots, n - 1$. In each of these rounds $K^* = 2$, which requires the gang, for any $\rho$ of the job. So the gang
runs and the job waits for $n$ rounds, with at most two jobs present.""",
        note="A policy without the constraint (7) could run the job at once.",
    ),
    Claim(
        key="fft/rho-bounded",
        place="section 4.2.5",
        statement=r"$\rho_j(t)$ has an upper bound, which depends on the sizes of jobs and on the number of present "
        "jobs.",
        quote=r"Through this process, we can establish an upper bound for $\rho_j(t)$, which directly reflects the "
        "amount of workload completed under FFT.",
        procedure=Growth(
            (2, 4, 8, 16, 32),
            compensation_of_waiting,
            "n*(n - 1) / 2",
            "n",
            "rho of a job of one GPU and one round, in fractions of the job",
        ),
        expected=ClaimVerdict.FALSE,
        proof=r"""
In the stream of `fft/thm-4.2-stream` two jobs are present in each of $n$ rounds, so that the job of one GPU has
$\tau - a = \max(1,\, 2 / 2) = 1$. It waits, so round $t$ adds $\mu \cdot 1 = t$ to $\rho$: in $n$ rounds
$\sum_{t < n} t = \frac{n (n - 1)}2$.""",
        note="The step by which the paper proves Theorem 4.1.",
    ),
    Claim(
        key="fft/thm-4.2-packed",
        place="Theorem 4.2",
        statement=r"If in no round a waiting job fits on the idle GPUs, then $\text{wait}_j \sum_i \max(0, Y_i - d_j + "
        r"1) \le \sum_{k \ne j} d_k \lceil \max_i W_k / \theta_k^i \rceil$, on the left over the types that $j$ can "
        "use, on the right over the jobs that arrive before the first run of $j$ and the types that they can use.",
        procedure=ForAll(PACKED, bounded, ratio=tight, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
While $j$ waits in a round, each type $i$ that it can use has fewer than $d_j$ idle GPUs, so at least $\max(0, Y_i -
d_j + 1)$ busy GPUs. Summed over the rounds of its wait this is the left side, in GPU rounds. The GPUs are used by
other jobs that arrived before its first run. Job $k$ does at least $\min_i \theta_k^i$ in each round in which it runs,
so it runs in at most $\lceil \max_i W_k / \theta_k^i \rceil$ rounds, on $d_k$ GPUs.""",
        note="FFT's plans satisfy the condition, see `fft/work-conserving`. N jobs of one round on one GPU attain it.",
    ),
)
