"""Fair sojourn: jobs in the order in which they would finish if the cluster were divided, forked where that helps.

A policy of hetopt, composed of ideas of the papers that it implements: the order of the fair sojourn protocol
[FairSojourn] in the virtual cluster of Themis' ideal; the costs of moves of FFT; copies of HadarE; Heavy-Edge of A-SRPT
for jobs with stages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from hetopt.checks import at_least, boolean, check_no_classes, check_round_seconds, expect, one_of, shown, whole
from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance, present_entities
from hetopt.data.workload import Job
from hetopt.errors import InvalidOption
from hetopt.formulations.traits import Traits
from hetopt.models.asrpt.heavy_edge import HeavyEdge
from hetopt.models.fair_sojourn.seating import Seating
from hetopt.models.fair_sojourn.virtual_shares import Among, Divided, VirtualShares
from hetopt.models.fft.fft_components import held_types, starting_seconds
from hetopt.results.allocation import Placement, Plan
from hetopt.stages.mapping import Mapper, check_mapping
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers


@dataclass(frozen=True)
class FairSojourn:
    """Fair sojourn: jobs in the order of their fair finish, on the GPUs where each finishes soonest, in copies.

    Urgent jobs are first: those that would be too late for their fair finish if they waited any longer. In this order
    each job gets its gang on the type on which it finishes soonest, the time of a move included, or, if its gang fits
    on one server, copies on several servers, which share its work as in HadarE. A running job comes before others by
    the seconds that it would lose if it were stopped.

    Parameters
    ----------
    round_seconds:
        Length of a round in seconds; None: decisions at arrivals and completions, and when a job becomes urgent.
    forks:
        Whether jobs run in several copies; each at most in :attr:`hetopt.Job.copies`.
    restart_seconds:
        Seconds that a job loses when it starts on other GPUs, besides the transfer of its checkpoint.
    least_restarts:
        A further copy must leave the copies of a job with work for this many times the seconds of its start, and for a
        round.
    catch_up:
        Copies with which an urgent job that can be forked is expected to catch up, and that it gets at most.
    slack:
        Part of the time from its arrival to its fair finish by which a job may be late before it is urgent. With 0, a
        job that becomes urgent may stop another one shortly before its end.
    among:
        Whether the virtual cluster is divided among jobs, or among tenants and then among the jobs of each.
    divided:
        Whether it is divided among the jobs that are present, or among those that would be unfinished in it, as in the
        fair sojourn protocol.
    mapper:
        Maps the stages of jobs that have some to their GPUs; None: their rate does not depend on the servers.

    Raises
    ------
    InvalidOption
        A setting out of range.

    Examples
    --------
    >>> import hetopt
    >>> from hetopt.models.fair_sojourn import FairSojourn
    >>> jobs = hetopt.Instance.from_jobs([[1.0], [1.0]], 1, work=[100, 300], capacity=[1], round_seconds=1.0)
    >>> log = hetopt.simulate(FairSojourn(), jobs)
    >>> log.jobs["finish"].tolist()  # divided, they would finish at 200 and 400
    [100.0, 400.0]
    """

    round_seconds: float | None = None
    forks: bool = True
    restart_seconds: float = 30.0
    least_restarts: float = 3.0
    catch_up: int = 3
    slack: float = 0.25
    among: Among = "jobs"
    divided: Divided = "present"
    mapper: Mapper | None = field(default_factory=HeavyEdge)

    def __post_init__(self) -> None:
        check_round_seconds(self, or_none=True)
        boolean(self.forks, "FairSojourn.forks")
        for key in ("restart_seconds", "least_restarts", "slack"):
            at_least(getattr(self, key), f"FairSojourn.{key}", 0.0, InvalidOption)
        whole(self.catch_up, "FairSojourn.catch_up", 1)
        check_no_classes(self, "mapper")
        if self.mapper is not None and not callable(self.mapper):
            raise InvalidOption(f"is {shown(self.mapper)}; it must be a mapper, or None", "FairSojourn.mapper")
        one_of(self.among, get_args(Among), "FairSojourn.among")
        one_of(self.divided, get_args(Divided), "FairSojourn.divided")

    @property
    def traits(self) -> Traits:
        """It chooses servers, and may fork jobs."""
        return Traits(self.round_seconds, places=True, mixes=self.forks, forks=self.forks)

    def __call__(self, instance: Instance, state: VirtualShares | None = None) -> tuple[Plan, VirtualShares]:
        """The GPUs of every job from now on, and the virtual shares.

        Raises
        ------
        InvalidInstance
            See :func:`~hetopt.data.instance.present_entities`; the time is before that of the state.
        """
        jobs = present_entities(instance, "jobs", "FairSojourn")
        before = VirtualShares(instance.time) if state is None else expect(VirtualShares, state, "state", InvalidOption)
        shares = before.advanced(instance, jobs, self.among, self.divided)
        finish = shares.finish[: len(jobs.names)]
        start, last = starting_seconds(jobs, self.restart_seconds), held_types(jobs)
        seating = Seating(instance, jobs, start, last)
        limit = [seating.most_copies(e) if self._can_fork(job) else 1.0 for e, job in enumerate(instance.jobs)]
        latest = self._latest_starts(instance, jobs, finish, start, np.minimum(limit, self.catch_up))
        urgent = latest <= instance.time
        to_stop = np.where(last >= 0, np.take_along_axis(start, last[:, None], 1)[:, 0], 0.0)
        order = np.lexsort((instance.job_array("arrival"), finish - to_stop, ~urgent)).tolist()
        for e in order:
            if seating.full():
                break
            if limit[e] > 1:
                most = min(limit[e], self.catch_up) if urgent[e] else limit[e]
                if seating.copies(e, most, self.least_restarts, self.round_seconds or 0.0):
                    continue
            seating.gang(e)
        waiting = [at for name, at in zip(jobs.names, latest.tolist(), strict=True) if name not in seating.hosts]
        wake = min((at for at in waiting if at > instance.time), default=np.inf)
        return self._plan(instance, jobs, seating, None if np.isinf(wake) else wake), shares

    def _can_fork(self, job: Job) -> bool:
        """Whether a job may run in copies; stages are mapped for one gang only."""
        return self.forks and not (job.stages and self.mapper is not None)

    def _latest_starts(
        self, instance: Instance, jobs: Entities, finish: Floats, start: Floats, copies: Floats
    ) -> Floats:
        """(n,) second until which a job may wait before it is urgent: on its fastest type it would end in time."""
        best = jobs.speed.argmax(axis=1)[:, None]
        fastest = np.take_along_axis(jobs.speed, best, 1)[:, 0] * copies
        can = fastest > 0  # a job that can run nowhere may wait forever
        seconds = np.divide(instance.job_array("work_left"), fastest, out=np.zeros(len(can)), where=can)
        allowed = finish + self.slack * (finish - instance.job_array("arrival"))
        return np.where(can, allowed - np.take_along_axis(start, best, 1)[:, 0] - seconds, np.inf)

    def _plan(self, instance: Instance, jobs: Entities, seating: Seating, wake: float | None) -> Plan:
        x = np.zeros(jobs.shape)
        dispatch: dict[str, dict[str, float]] = {}
        replicas: dict[str, dict[str, tuple[int, ...]]] = {}
        for name, own in seating.hosts.items():
            for gpus in own.values():
                for t, n in gpus.items():
                    x[jobs.position[name], jobs.types.index(t)] += n
            if parts := seating.dispatch(instance.job[name]):
                dispatch[name] = parts
            elif self.mapper is not None and instance.job[name].stages:
                replicas[name] = self._mapped(instance, name, own)
        placement = Placement(seating.hosts, replicas=replicas, dispatch=dispatch)
        idle = {"idle": float(jobs.capacity.sum() - x.sum())}
        return Plan(jobs, x, given_up=idle, placement=placement, wake=wake)

    def _mapped(self, instance: Instance, name: str, own: dict[str, dict[str, int]]) -> dict[str, tuple[int, ...]]:
        """Server -> replicas of each stage of a job on these GPUs of one type."""
        assert self.mapper is not None
        gpu_type = next(iter(next(iter(own.values()))))
        every = Servers.of(instance, gpu_type, busy=False)
        position = {server: m for m, server in enumerate(every.names)}
        servers = every.take({position[server]: gpus[gpu_type] for server, gpus in own.items()})
        mapping = check_mapping(self.mapper(Pipeline.of(instance.job[name], gpu_type), servers))
        return {
            server: tuple(column)
            for server, column in zip(servers.names, mapping.replicas.T.tolist(), strict=True)
            if any(column)
        }
