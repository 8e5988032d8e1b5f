"""A few jobs on a few GPUs: A-SRPT's schedule and an optimal schedule, in fractions.

Lemmas 1 to 3 and Theorem 1 of A-SRPT compare these schedules;
:mod:`hetopt.proofs.asrpt.bound_sides` computes both sides of each bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np

from hetopt.checks import counted
from hetopt.data.instance import Instance
from hetopt.data.workload import Job, Stage
from hetopt.errors import InvalidOption
from hetopt.models.asrpt.fleet import Fleet, PredictedJob, TypeOption
from hetopt.models.asrpt.heavy_edge import HeavyEdge
from hetopt.models.asrpt.non_preemptive import VirtualSRPTScheduler
from hetopt.proofs.asrpt.all_placements import every_placement
from hetopt.proofs.asrpt.single_machine import KnownCompletions, MachineSchedule, srpt, whole_slot
from hetopt.proofs.asrpt.staged_cases import ZERO, cluster_of, exact, servers_of, staged_job
from hetopt.proofs.ledger.finding_pictures import Timeline, TimelineBar
from hetopt.proofs.ledger.space import (
    CaseNumbers,
    Hypothesis,
    Space,
    TableShape,
    ValueChooser,
    hypothesis,
    integers,
)
from hetopt.stages.iteration_time import Asynchronous
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers

F = Fraction

PRINTED_HEAVY = F(3, 2)
"""COMM_HEAVY of the paper's experiments."""


@dataclass(frozen=True)
class PlacedRun:
    """A job that runs on ``use`` GPUs of each server."""

    job: int
    start: Fraction
    end: Fraction
    use: tuple[int, ...]


Runs = tuple[PlacedRun, ...]


def total_completion(runs: Runs) -> Fraction:
    """Sum of completion times."""
    return sum((run.end for run in runs), F(0))


def schedule_picture(title: str, runs: Runs, free: Sequence[int]) -> Timeline:
    """Picture of a schedule, with a row for each GPU."""
    rows = [(m, n) for m, count in enumerate(free) for n in range(count)]
    until = dict.fromkeys(rows, F(0))
    bars = []
    for run in sorted(runs, key=lambda run: (run.start, run.job)):
        for m, count in enumerate(run.use):
            idle = [row for row in rows if row[0] == m and until[row] <= run.start][:count]
            bars += [TimelineBar(f"server{m + 1} GPU{n + 1}", run.start, run.end, f"job{run.job + 1}") for _, n in idle]
            until |= dict.fromkeys(idle, run.end)
    return Timeline(title, tuple(bars))


def overfull(runs: Runs, free: Sequence[int], *, closed: bool) -> tuple[int, Fraction, int]:
    """Largest excess of used GPUs over a server's capacity, its time and server [ASRPT, eq. 3].

    Parameters
    ----------
    closed:
        Whether a job still counts at the moment of its completion.
    """
    found = [(-free[0], F(0), 0)]
    for time in {run.start for run in runs} | {run.end for run in runs}:
        running = [run for run in runs if run.start <= time and (time <= run.end if closed else time < run.end)]
        found += [(sum(run.use[m] for run in running) - n, time, m) for m, n in enumerate(free)]
    return max(found, key=lambda row: row[0])


def optimal(
    arrivals: Sequence[Fraction],
    lengths: Sequence[Mapping[tuple[int, ...], Fraction]],
    free: Sequence[int],
    *,
    slots: bool = False,
) -> Runs:
    """A schedule without preemption with the least sum of completion times.

    Parameters
    ----------
    lengths:
        For each job GPUs per server -> seconds; servers are equal.
    slots:
        Jobs start in whole seconds.

    Notes
    -----
    A schedule stays optimal if each job, in the order of starts, starts as early as its GPUs allow. So all orders and
    GPUs are enumerated; partial sums and the earliest possible ends bound the search.
    """
    earliest_ends = [r + min(uses.values()) for r, uses in zip(arrivals, lengths, strict=True)]
    best: list[tuple[Fraction, Runs]] = []

    def search(left: tuple[int, ...], placed: Runs, total: Fraction) -> None:
        if best and total + sum(earliest_ends[i] for i in left) >= best[0][0]:
            return
        if not left:
            best[:] = [(total, placed)]
            return
        unused = [m for m in range(len(free)) if not any(run.use[m] for run in placed)]
        for at, i in enumerate(left):
            if any(arrivals[j] == arrivals[i] and lengths[j] == lengths[i] for j in left[:at]):
                continue  # equal jobs start in their order
            for use, length in lengths[i].items():
                if any(use[m] < use[n] for m, n in pairwise(unused)):
                    continue  # unused servers are equal
                start = _earliest(placed, use, arrivals[i], length, free, slots)
                run = PlacedRun(i, start, start + length, use)
                search(tuple(j for j in left if j != i), (*placed, run), total + run.end)

    search(tuple(range(len(arrivals))), (), F(0))
    return best[0][1]


def _earliest(
    placed: Runs, use: tuple[int, ...], arrival: Fraction, length: Fraction, free: Sequence[int], slots: bool
) -> Fraction:
    """The first start at which the GPUs are free for ``length``; running intervals are half-open."""
    starts = {arrival, *(run.end for run in placed if run.end > arrival)}
    for start in sorted({whole_slot(t) for t in starts} if slots else starts):
        moments = [start, *(run.start for run in placed if start < run.start < start + length)]
        if all(not use[m] or use[m] <= _idle(placed, m, t, free) for t in moments for m in range(len(free))):
            return start
    raise AssertionError("after the last end all GPUs are free")


def _idle(placed: Runs, m: int, time: Fraction, free: Sequence[int]) -> int:
    return free[m] - sum(run.use[m] for run in placed if run.start <= time < run.end)


def asrpt(
    fleet: Fleet,
    tasks: Sequence[PredictedJob],
    arrivals: Sequence[Fraction],
    iterations: Sequence[Fraction],
    *,
    heavy: Fraction = PRINTED_HEAVY,
    delay: Fraction = ZERO,
    virtual: MachineSchedule | None = None,
    slots: bool = False,
) -> Runs:
    """A-SRPT's schedule, in the order of starts [ASRPT, Algorithm 1].

    Parameters
    ----------
    virtual:
        The virtual machine's schedule; by default that of the library, in continuous time.
    slots:
        Jobs start in whole seconds.
    """
    number = {task.name: i for i, task in enumerate(tasks)}
    machine = None if virtual is None else KnownCompletions({name: virtual.ends[i] for name, i in number.items()})
    scheduler = VirtualSRPTScheduler([fleet.copy()], heavy, delay, machine)
    pending = sorted(range(len(tasks)), key=lambda i: (arrivals[i], i), reverse=True)
    running: list[tuple[Fraction, str]] = []
    runs: list[PlacedRun] = []
    while pending or running or len(runs) < len(tasks):
        moments = [arrivals[pending[-1]]] if pending else []
        moments += [running[0][0]] if running else []
        time = min([*moments, scheduler.wake])
        time = whole_slot(time) if slots else time
        while running and running[0][0] <= time:
            scheduler.finish(heappop(running)[1])
        while pending and arrivals[pending[-1]] <= time:
            scheduler.arrive(time, tasks[pending.pop()])
        for started in scheduler.decide(time):
            i = number[started.job.name]
            use = [0] * len(fleet.servers)
            for slot in started.placement.slots:
                use[slot.server] = slot.gpus
            runs.append(PlacedRun(i, time, time + iterations[i] * started.placement.seconds, tuple(use)))
            heappush(running, (runs[-1].end, started.job.name))
    return tuple(runs)


MOST_GPUS, MOST_JOBS = 6, 4
"""Limits within which enumeration finds an optimal schedule in seconds."""

DurationByPlacement: TypeAlias = Mapping[tuple[int, ...], Fraction]
"""GPUs per server -> seconds."""


@dataclass(frozen=True, eq=False)
class SmallJob:
    """A job whose numbers are fractions.

    Attributes
    ----------
    pipeline:
        Its stages (:meth:`hetopt.stages.pipeline.Pipeline.exact`).
    arrival:
        r_i in seconds.
    iterations, predicted:
        n_i, and the prediction n~_i that the scheduler uses.
    staged:
        The same job for an instance of the library; None if no instance is needed.
    """

    pipeline: Pipeline
    arrival: Fraction
    iterations: Fraction
    predicted: Fraction
    staged: Job | None = None


@dataclass(frozen=True, eq=False)
class SchedulingCase:
    """Jobs on equal servers, with predictions and A-SRPT's settings [ASRPT, section IV-C].

    Attributes
    ----------
    jobs:
        At most four.
    servers:
        Equal servers with at most six GPUs in all; bandwidths as fractions.
    heavy, delay:
        COMM_HEAVY and tau.

    Raises
    ------
    InvalidOption
        Too many jobs or GPUs to enumerate, servers that differ, or a job that does not fit on the empty servers.
    """

    jobs: tuple[SmallJob, ...]
    servers: Servers
    heavy: Fraction = PRINTED_HEAVY
    delay: Fraction = ZERO

    def __post_init__(self) -> None:
        if len(self.jobs) > MOST_JOBS or self.servers.total > MOST_GPUS:
            raise InvalidOption(
                f"{counted(len(self.jobs), 'job')} on {counted(self.servers.total, 'GPU')}; "
                f"at most {MOST_JOBS} on {MOST_GPUS} are enumerated"
            )
        kinds = set(zip(self.servers.free.tolist(), self.servers.nic, self.servers.intra, strict=True))
        if len(kinds) > 1:
            raise InvalidOption("the servers differ in GPUs or bandwidths; the enumeration needs equal servers")
        if not all(self.fastest):
            raise InvalidOption("a job does not fit on the empty servers")

    @cached_property
    def instance(self) -> Instance:
        """The jobs with their true iterations, without predictions, as an instance of the library."""
        jobs = tuple(job.staged for job in self.jobs if job.staged is not None)
        assert len(jobs) == len(self.jobs)
        return Instance(cluster_of(self.free, exact(self.servers.nic[0]), exact(self.servers.intra[0])), jobs=jobs)

    @property
    def free(self) -> tuple[int, ...]:
        """GPUs of each server."""
        return tuple(self.servers.free.tolist())

    @cached_property
    def fastest(self) -> tuple[DurationByPlacement, ...]:
        """For each job GPUs per server -> seconds of the fastest iteration on them."""
        return tuple(fastest_iterations(job.pipeline, self.servers) for job in self.jobs)

    @cached_property
    def lengths(self) -> list[DurationByPlacement]:
        """For each job GPUs per server -> seconds of all its iterations."""
        rows = zip(self.fastest, self.iterations, strict=True)
        return [{use: n * alpha for use, alpha in uses.items()} for uses, n in rows]

    @cached_property
    def arrivals(self) -> list[Fraction]:
        """r_i."""
        return [job.arrival for job in self.jobs]

    @cached_property
    def iterations(self) -> list[Fraction]:
        """n_i."""
        return [job.iterations for job in self.jobs]

    @property
    def widest(self) -> int:
        """g_max."""
        return max(job.pipeline.gpus for job in self.jobs)

    @cached_property
    def fleet(self) -> Fleet:
        """The empty servers with Heavy-Edge as their mapper."""
        return Fleet(self.servers, HeavyEdge(), Asynchronous())

    @cached_property
    def tasks(self) -> tuple[PredictedJob, ...]:
        """The jobs as the scheduler's input."""
        tasks = []
        for i, job in enumerate(self.jobs):
            most = Asynchronous().most(job.pipeline, self.servers)
            choice = TypeOption(0, job.pipeline, self.fleet.fewest(job.pipeline), most)
            tasks.append(PredictedJob(f"job{i + 1}", job.pipeline.gpus, (choice,), job.predicted))
        return tuple(tasks)

    def sizes(self, *, predicted: bool) -> list[Fraction]:
        """Seconds of the jobs on the virtual machine."""
        rows = zip(self.tasks, self.jobs, strict=True)
        scaled = [(task, job.predicted if predicted else job.iterations) for task, job in rows]
        return [Fraction(task.gpus, self.servers.total) * n * task.options[0].least for task, n in scaled]

    def virtual(self, *, predicted: bool, slots: bool = False) -> MachineSchedule:
        """The virtual machine's schedule: A_1, or with predicted iterations A~_1."""
        return srpt(self.arrivals, self.sizes(predicted=predicted), slots=slots)

    def optimum(self, *, slots: bool = False) -> Runs:
        """An optimal schedule."""
        return optimal(self.arrivals, self.lengths, self.free, slots=slots)

    def asrpt(self, *, slots: bool = False, virtual_slots: bool = False) -> Runs:
        """A-SRPT's schedule."""
        virtual = self.virtual(predicted=True, slots=virtual_slots) if slots else None
        return asrpt(
            self.fleet,
            self.tasks,
            self.arrivals,
            self.iterations,
            heavy=self.heavy,
            delay=self.delay,
            virtual=virtual,
            slots=slots,
        )

    @property
    def apart(self) -> list[Fraction]:
        """For each job alpha_max as printed."""
        return [task.options[0].most for task in self.tasks]

    @cached_property
    def longest(self) -> list[Fraction]:
        """For each job the longest iteration of all placements in the empty cluster."""
        longest = []
        for job in self.jobs:
            tables: Any = np.array(list(every_placement(job.pipeline, self.servers)))
            longest.append(max(exact(v) for v in Asynchronous()(job.pipeline, tables, self.servers).tolist()))
        return longest


def fastest_iterations(pipeline: Pipeline, servers: Servers) -> DurationByPlacement:
    """GPUs per server -> seconds of the fastest iteration on exactly these."""
    found: dict[tuple[int, ...], Fraction] = {}
    for x in every_placement(pipeline, servers):
        use = tuple((pipeline.slices @ x).tolist())
        seconds: Any = Asynchronous()(pipeline, x, servers)[()]
        found[use] = min(found.get(use, seconds), seconds)
    return found


Bandwidths = Literal["fast", "slow", "any"]
"""B_intra >= B_inter / g, B_intra < B_inter / g, or any."""

HEAVY = (F(1), F(3, 2), F(4))
DELAY = (F(0), F(1, 2), F(1), F(2))
PREDICTED = (F(0), F(1, 2), *integers(1, 6))

DEFAULTS = {"behind": F(0), "parameters": F(0), "outputs": F(1), "arrivals": F(0), "iterations": F(1)}
"""Entries of absent tables; without a table of predictions these are the true iterations."""


@hypothesis(r"every job fits on the empty cluster, $g^{max} \le G$")
def fitting(case: SchedulingCase) -> bool:
    """No job needs more than all GPUs."""
    return case.widest <= case.servers.total


@hypothesis(r"no job needs all GPUs, $g^{max} < G$")
def sparing(case: SchedulingCase) -> bool:
    """A GPU stays free next to every job."""
    return case.widest < case.servers.total


@hypothesis(r"every iteration takes some time, $\alpha_i^{min} > 0$")
def lasting(case: SchedulingCase) -> bool:
    """The bounds divide by it."""
    return all(seconds > 0 for uses in case.fastest for seconds in uses.values())


@hypothesis("jobs do not communicate, so that an iteration takes the same time on all GPUs")
def silent(case: SchedulingCase) -> bool:
    """Jobs of one stage without parameters."""
    return all(job.pipeline.silent for job in case.jobs)


BANDWIDTHS: dict[Bandwidths, tuple[Hypothesis[SchedulingCase], ...]] = {
    "fast": (Hypothesis(r"$B_{intra} \ge B_{inter} / g$", lambda case: case.servers.fast_inside),),
    "slow": (Hypothesis(r"$B_{intra} < B_{inter} / g$", lambda case: not case.servers.fast_inside),),
    "any": (),
}


@hypothesis("all jobs arrive at time 0")
def together(case: SchedulingCase) -> bool:
    """All arrival times are 0."""
    return not any(case.arrivals)


@hypothesis("jobs arrive at whole seconds")
def whole_arrivals(case: SchedulingCase) -> bool:
    """Every arrival is the beginning of a slot."""
    return all(r.denominator == 1 for r in case.arrivals)


@hypothesis("every job takes whole seconds on any GPUs")
def whole_lengths(case: SchedulingCase) -> bool:
    """Every end is the beginning of a slot, if every start is."""
    return all(length.denominator == 1 for uses in case.lengths for length in uses.values())


WHOLE_SLOTS = (whole_arrivals, whole_lengths)
"""Jobs arrive at the beginning of a slot, and take whole slots."""


@hypothesis(r"each job has at least one iteration, $n_i \ge 1$")
def at_least_one_iteration(case: SchedulingCase) -> bool:
    """As the paper assumes in the proof of Theorem 1."""
    return all(n >= 1 for n in case.iterations)


@hypothesis(r"each job has one iteration, $n_i = 1$")
def one_iteration(case: SchedulingCase) -> bool:
    """Durations are those of an iteration."""
    return all(n == 1 for n in case.iterations)


@hypothesis(r"predictions are correct, $\tilde n_i = n_i$")
def predicted_correctly(case: SchedulingCase) -> bool:
    """Every prediction is the true number of iterations."""
    return all(job.predicted == job.iterations for job in case.jobs)


@hypothesis(r"no job is delayed, $\tau = 0$")
def undelayed(case: SchedulingCase) -> bool:
    """The delay factor is 0, as on the paper's testbed."""
    return not case.delay


def scheduling_space(
    *hypotheses: Hypothesis[SchedulingCase],
    jobs: tuple[int, int] = (1, 3),
    most_gpus: int = 4,
    spare: bool = True,
    inside: Bandwidths = "fast",
    communicating: bool = False,
    arriving: bool = True,
    predicted: tuple[Fraction, ...] = (),
    iterations: tuple[Fraction, ...] = (),
    delayed: bool = False,
) -> Space[SchedulingCase]:
    """Cases that meet ``hypotheses`` and those of the settings.

    Parameters
    ----------
    most_gpus:
        Largest number of GPUs of the cluster.
    spare:
        G > g_max.
    communicating:
        Whether jobs have AllReduces and a second stage; else alpha is the same for all placements.
    arriving:
        Whether jobs arrive over time; else all at once.
    predicted, iterations:
        Possible values; without them predictions are true, and a job has one iteration.
    delayed:
        Whether COMM_HEAVY and tau are part of the case; else they are 3/2 and 0.
    """
    stated = (
        sparing if spare else fitting,
        *(BANDWIDTHS[inside] if communicating else (silent,)),
        *(() if arriving else (together,)),
        *(() if iterations else (one_iteration,)),
        *(() if predicted else (predicted_correctly,)),
        *(() if delayed else (undelayed,)),
    )
    tables = {
        "servers": TableShape(1, 1, integers(1, 3)),
        "gpus": TableShape(1, 1, integers(1, most_gpus)),
        "replicas": TableShape(1, "i", integers(1, 3)),
        "seconds": TableShape(1, "i", integers(1, 4)),
    }
    if communicating:
        tables["behind"] = TableShape(1, "i", integers(0, 2))
        tables["parameters"] = TableShape(1, "i", integers(0, 6))
        tables["outputs"] = TableShape(1, "i", integers(1, 6))
        tables["bandwidth"] = TableShape(1, 2, integers(1, 12))
    if arriving:
        tables["arrivals"] = TableShape(1, "i", integers(0, 4))
    if iterations:
        tables["iterations"] = TableShape(1, "i", iterations)
    if predicted:
        tables["predicted"] = TableShape(1, "i", predicted)
    if delayed:
        tables["heavy"], tables["delay"] = TableShape(1, 1, HEAVY), TableShape(1, 1, DELAY)

    def build(numbers: CaseNumbers) -> SchedulingCase | None:
        """The case; None for more GPUs than are enumerated, or a job that fits nowhere."""
        widest = max(k + b for k, b in zip(numbers.row("replicas"), _column(numbers, "behind"), strict=True))
        return case_of(numbers) if widest <= numbers.one("servers") * numbers.one("gpus") <= most_gpus else None

    def draw(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
        least = 1 + spare
        servers = choose([v for v in integers(1, 3) if v <= most_gpus])
        gpus = choose([v for v in integers(1, most_gpus) if least <= servers * v <= most_gpus])
        room = servers * gpus - spare
        rows: dict[str, list[Fraction]] = {name: [] for name, table in tables.items() if table.columns == "i"}
        for _ in range(sizes["i"]):
            for name in rows:
                values = list(tables[name].values)
                if name in ("replicas", "behind"):
                    taken = rows["replicas"][-1] if name == "behind" else 0
                    values = [v for v in values if v <= room - taken]
                rows[name].append(choose(values))
        found = {name: (tuple(row),) for name, row in rows.items()}
        found |= {"servers": ((servers,),), "gpus": ((gpus,),)}
        if communicating:
            nic = choose(integers(2, 6) if inside == "slow" else integers(1, 6))
            agree = {"fast": integers(int(nic), 12), "slow": integers(1, int(nic) - 1), "any": integers(1, 12)}[inside]
            found["bandwidth"] = ((nic, choose(agree)),)
        found |= {name: ((choose(tables[name].values),),) for name in ("heavy", "delay") if delayed}
        return CaseNumbers({name: found[name] for name in tables})

    return Space({"i": jobs}, tables, build, draw, (*stated, *hypotheses))


def case_of(numbers: CaseNumbers) -> SchedulingCase:
    """The case of these tables."""
    columns = zip(*(_column(numbers, key) for key in ("replicas", "seconds", *DEFAULTS)), strict=True)
    jobs = tuple(_job(i, *column) for i, column in enumerate(columns))
    iterations = _column(numbers, "iterations")
    predicted = numbers.row("predicted") if "predicted" in numbers.tables else iterations
    arrivals = _column(numbers, "arrivals")
    small = tuple(
        SmallJob(_pipeline(job.stages), r, n, guess, job)
        for job, r, n, guess in zip(jobs, arrivals, iterations, predicted, strict=True)
    )
    free = (int(numbers.one("gpus")),) * int(numbers.one("servers"))
    settings = {key: numbers.one(key) for key in ("heavy", "delay") if key in numbers.tables}
    return SchedulingCase(small, servers_of(free, *_bandwidth(numbers)), **settings)


def _bandwidth(numbers: CaseNumbers) -> tuple[Fraction, ...]:
    """B_inter / g and B_intra."""
    return numbers.row("bandwidth") if "bandwidth" in numbers.tables else (F(1), F(1))


def _column(numbers: CaseNumbers, key: str) -> tuple[Fraction, ...]:
    return numbers.row(key) if key in numbers.tables else (DEFAULTS[key],) * len(numbers.row("replicas"))


def _job(i: int, k: Fraction, p: Fraction, behind: Fraction, h: Fraction, d: Fraction, r: Fraction, n: Fraction) -> Job:
    replicas = (k, behind) if behind else (k,)
    seconds, parameters, outputs = ((p, p), (h, F(0)), (d,)) if behind else ((p,), (h,), ())
    return staged_job(f"job{i + 1}", replicas, seconds, parameters, outputs, work=n, arrival=r)


@lru_cache(maxsize=4096)
def _pipeline(stages: tuple[Stage, ...]) -> Pipeline:
    """The pipeline of these stages; equal stages share one object and its cached properties."""
    gpus = sum(stage.gpus for stage in stages)
    return Pipeline.of(Job("job", {"GPU": 1.0}, 1.0, gpus, stages=stages)).exact()
