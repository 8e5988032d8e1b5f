"""The claims of fair sojourn, hetopt's own policy: whether a job can finish later than if the cluster were divided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from hetopt.data.cluster import Cluster
from hetopt.data.instance import Instance
from hetopt.data.rationals import number_text
from hetopt.data.workload import Job
from hetopt.models.fair_sojourn import FairSojourn
from hetopt.models.fair_sojourn.virtual_shares import Divided
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import Timeline, TimelineBar
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import CaseNumbers, Hypothesis, Space, TableShape, integers

F = Fraction
SLACK = F(FairSojourn().slack)
"""Part of the time from its arrival to its fair finish by which a job may be late before it is urgent."""


@dataclass(frozen=True)
class GangCase:
    """Jobs on equal GPUs that can be stopped and moved without a loss.

    Attributes
    ----------
    arrivals, sizes:
        Second of arrival, and seconds of the whole gang.
    gangs:
        GPUs of each job.
    gpus:
        GPUs of the cluster.
    """

    arrivals: tuple[Fraction, ...]
    sizes: tuple[Fraction, ...]
    gangs: tuple[int, ...]
    gpus: int

    @property
    def instance(self) -> Instance:
        """The jobs as an instance of the library."""
        rows = enumerate(zip(self.arrivals, self.sizes, self.gangs, strict=True))
        jobs = tuple(Job(f"job{i + 1}", {"GPU": 1.0}, float(n), g, arrival=float(r)) for i, (r, n, g) in rows)
        return Instance(Cluster.of({"GPU": self.gpus}), jobs=jobs)

    def rates(self, among: Sequence[int]) -> dict[int, Fraction]:
        """Sizes per second of jobs among which the GPUs are divided equally; no gang has more GPUs than its own."""
        return {i: min(F(1), F(self.gpus, len(among) * self.gangs[i])) for i in among}


@dataclass
class VirtualCluster:
    """The cluster divided among jobs: among all that are unfinished in it, or among those that are really present."""

    case: GangCase
    divided: Divided
    left: dict[int, Fraction]
    ends: dict[int, Fraction]
    time: Fraction

    @classmethod
    def of(cls, case: GangCase, divided: Divided = "unfinished") -> VirtualCluster:
        """Without jobs."""
        return cls(case, divided, {}, {}, F(0))

    def advance(self, time: Fraction) -> None:
        """Train the jobs until ``time``, between two changes of the jobs that are really present."""
        while self.left and self.time < time:
            rates, ends = self._rates(), self._coming()
            step = min([time, *ends.values()])
            for i, end in ends.items():
                self.left[i] -= rates[i] * (step - self.time)
                if end <= step:
                    self.ends[i] = end
            self.time = step
            if self.divided == "unfinished":
                self.left = {i: n for i, n in self.left.items() if i not in self.ends}
        self.time = time

    def expected(self) -> dict[int, Fraction]:
        """When each job finishes if the jobs stay as they are, or did finish."""
        return self.ends | self._coming()

    def _rates(self) -> dict[int, Fraction]:
        return self.case.rates([i for i in self.left if self.divided == "present" or i not in self.ends])

    def _coming(self) -> dict[int, Fraction]:
        return {i: self.time + self.left[i] / rate for i, rate in self._rates().items() if i not in self.ends}


def divided_equally(case: GangCase) -> dict[int, Fraction]:
    """When each job finishes if the GPUs are divided equally among the unfinished ones at any time."""
    virtual = VirtualCluster.of(case)
    for time, i in sorted((time, i) for i, time in enumerate(case.arrivals)):
        virtual.advance(time)
        virtual.left[i] = case.sizes[i]
    while virtual.left:
        virtual.advance(max(virtual.expected().values()))
    return virtual.ends


@dataclass(frozen=True)
class GangSchedule:
    """When each job ends, and (job, start, end) of each period in which jobs hold the same GPUs."""

    ends: dict[int, Fraction]
    bars: tuple[tuple[int, Fraction, Fraction], ...]

    def picture(self, title: str) -> Timeline:
        """Picture of the schedule, a row per job."""
        return Timeline(title, tuple(TimelineBar(f"job{i + 1}", a, b, f"job{i + 1}") for i, a, b in self.bars))


def fair_sojourn(case: GangCase, divided: Divided) -> GangSchedule:
    """The schedule of the policy: urgent jobs first, then by fair finish; each whole gang that fits."""
    left, time, virtual = dict(enumerate(case.sizes)), min(case.arrivals), VirtualCluster.of(case, divided)
    ends, bars = dict[int, Fraction](), list[tuple[int, Fraction, Fraction]]()
    while left:
        present = [i for i in left if case.arrivals[i] <= time]
        virtual.advance(time)
        for i in present:
            if i not in virtual.ends:
                virtual.left.setdefault(i, case.sizes[i])
        finish, free, run = virtual.expected(), case.gpus, list[int]()
        latest = {i: finish[i] + SLACK * (finish[i] - case.arrivals[i]) - left[i] for i in present}
        for i in sorted(present, key=lambda i: (latest[i] > time, finish[i], case.arrivals[i], i)):
            if case.gangs[i] <= free:
                free -= case.gangs[i]
                run.append(i)
        coming = [case.arrivals[i] for i in left if i not in present]
        urgent = [latest[i] for i in present if i not in run and latest[i] > time]
        until = min([*coming, *urgent, *(time + left[i] for i in run)])
        for i in run:
            left[i] -= until - time
            bars.append((i, time, until))
        virtual.advance(until)
        time = until
        for i in [i for i in run if not left[i]]:
            del left[i]
            ends[i] = time
            if divided == "present":
                virtual.left.pop(i, None)
    return GangSchedule(ends, tuple(bars))


def no_later(case: GangCase, divided: Divided = "unfinished") -> Finding:
    """Compare the finish of each job with that under equal division."""
    schedule, equal = fair_sojourn(case, divided), divided_equally(case)
    i = min(equal, key=lambda i: (equal[i] - schedule.ends[i], i))
    words = f"job{i + 1} finishes at {number_text(schedule.ends[i])}, and divided equally at {number_text(equal[i])}"
    return Finding(equal[i] - schedule.ends[i], words, (), (schedule.picture("fair sojourn"),))


def _case(numbers: CaseNumbers) -> GangCase:
    gangs = tuple(map(int, numbers.row("gangs")))
    return GangCase(numbers.row("arrivals"), numbers.row("sizes"), gangs, int(numbers.one("gpus")))


FREE = Hypothesis[GangCase](
    "a job can be stopped and moved without a loss, and fits on the cluster", lambda case: max(case.gangs) <= case.gpus
)
ONE_GPU = Hypothesis[GangCase]("there is one GPU", lambda case: case.gpus == 1)
SINGLE = Hypothesis[GangCase]("each job needs one GPU", lambda case: max(case.gangs) == 1)


def _space(gpus: int, gang: int, *hypotheses: Hypothesis[GangCase]) -> Space[GangCase]:
    """Up to four jobs; at most so many GPUs in the cluster, and in a gang."""
    tables = {
        "arrivals": TableShape(1, "i", integers(0, 5)),
        "sizes": TableShape(1, "i", integers(1, 6)),
        "gangs": TableShape(1, "i", integers(1, gang)),
        "gpus": TableShape(1, 1, integers(1, gpus)),
    }
    return Space({"i": (1, 4)}, tables, _case, hypotheses=(FREE, *hypotheses))


ONE = _space(1, 1, ONE_GPU)

FREELY = "equal weights, free moves, decisions at any time"
EQUALLY = "if the GPUs were divided equally among the unfinished jobs at any time"

PROOF = r"""
Let $F_j$ be the time at which job $j$ finishes if the GPU is divided equally among the jobs that are unfinished in this
virtual division. All of these have the same rate, so a later arrival delays them but keeps their order: the expected
finish of present jobs orders them as $F$ does. Suppose first that the policy only follows this order, and that job $j$
finishes at $C_j > F_j$. Let $t$ be the last time before $C_j$ at which the GPU was idle or ran a job with a larger $F$
than $F_j$, or the start if there is none. At $t$ no unfinished job with a finish of at most $F_j$ was present. So all
jobs that run between $t$ and $C_j$ arrive at $t$ or later, and their virtual finish is at most $F_j$: the virtual
division does all of their work between $t$ and $F_j$, at a rate of at most 1. But this work takes $C_j - t > F_j - t$
seconds. So no job is late.

Urgency changes nothing, by induction over the decisions. Up to a decision at time $s$ the schedule follows the order.
What happened until $s$ does not depend on later arrivals, so suppose that there are none; then the expected finish of
each job is at least its $F$. No job is late if the order is kept from $s$ on, so the jobs with a finish of at most
$F_j$ have together at most $F_j - s$ work left. If job $j$, with work $r_j$ left, is urgent, then $r_j \ge F_j - s$.
Without slack, no other of them has work left, and $j$ is first in the order anyway. With slack $r_j > F_j - s$, so no
job is ever urgent."""


def claims() -> tuple[Claim, ...]:
    """All claims of the policy."""
    return CLAIMS


CLAIMS = (
    Claim(
        key="fair-sojourn/no-later",
        place="one GPU",
        statement='On one GPU, with free moves and `divided="unfinished"`, no job finishes later than if the GPU were '
        "divided equally among the unfinished jobs at any time.",
        procedure=ForAll(ONE, no_later),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=PROOF,
        note="The theorem of the fair sojourn protocol of Friedman and Henderson; so the mean completion time is at "
        "most that of equal division.",
    ),
    Claim(
        key="fair-sojourn/present",
        place="one GPU",
        statement='The same holds with `divided="present"`, where a job that is done has no virtual part any more.',
        procedure=ForAll(ONE, partial(no_later, divided="present")),
        expected=ClaimVerdict.FALSE,
        printed=False,
        instead="fair-sojourn/no-later",
        note="The part of a job that is done early speeds up all others, and a job that arrives later is not owed it. "
        "This setting is the default nevertheless: it was chosen by measurement.",
    ),
    Claim(
        key="fair-sojourn/several-gpus",
        place="several GPUs",
        statement=f'On several equal GPUs, with {FREELY} and `divided="unfinished"`, no job with one GPU finishes '
        f"later than {EQUALLY}.",
        procedure=ForAll(_space(2, 1, SINGLE), no_later),
        expected=ClaimVerdict.FALSE,
        printed=False,
        instead="fair-sojourn/no-later",
        note="In the stored case, three jobs of 1 on two GPUs, another schedule finishes all by 3/2: it stops the "
        "second job at 1/2, and continues it at 1 on the other GPU. The policy stops a job at 7/8.",
    ),
    Claim(
        key="fair-sojourn/gangs",
        place="several GPUs",
        statement=f'On several equal GPUs, with {FREELY} and `divided="unfinished"`, no gang finishes later than '
        f"{EQUALLY}.",
        procedure=ForAll(_space(2, 2), no_later),
        expected=ClaimVerdict.FALSE,
        printed=False,
        instead="fair-sojourn/no-later",
        note="In the stored case no schedule of whole gangs finishes all jobs in time: the job with one GPU must run "
        "from 0 to 1, and then the gang of two ends at 2.",
    ),
)
