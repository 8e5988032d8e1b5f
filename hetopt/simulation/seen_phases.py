"""Phases of jobs as policies see them: a change of the batch size is visible once it has happened."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.data.workload import Job
from hetopt.tolerances import WORK


def as_seen(job: Job, begun: int) -> Job:
    """The job while its phase number ``begun`` (from 0) runs: this phase has all epochs that are left.

    So its ``work`` is what it would be if the batch size stayed. Earlier phases stay; batch sizes that occur only later
    have 0 epochs, in ascending order, so that their order and times are not visible. A job without phases is returned
    unchanged.
    """
    if not job.phases:
        return job
    before, now, later = job.phases[:begun], job.phases[begun], job.phases[begun + 1 :]
    known = {phase.batch_size for phase in (*before, now)}
    others = {phase.batch_size: replace(phase, epochs=0) for phase in later if phase.batch_size not in known}
    phases = (
        *before,
        replace(now, epochs=now.epochs + sum(phase.epochs for phase in later)),
        *(others[size] for size in sorted(others)),
    )
    return replace(job, phases=phases, work=sum(phase.work for phase in phases))


class SeenPhases:
    """The phases that n jobs have begun.

    Parameters
    ----------
    true_jobs:
        The jobs, whose work done decides about their phases.
    estimated_jobs:
        The same jobs with the estimates that policies see.

    Attributes
    ----------
    any:
        Whether a job has phases.
    jobs:
        (n,) the jobs as seen now.
    work:
        (n,) their work.
    """

    def __init__(self, true_jobs: tuple[Job, ...], estimated_jobs: tuple[Job, ...]) -> None:
        self._whole = estimated_jobs
        self.jobs = np.empty(len(true_jobs), dtype=object)
        self.jobs[:] = [as_seen(job, 0) for job in estimated_jobs]
        self.work = np.array([job.work for job in self.jobs])
        most = max((len(job.phases) for job in true_jobs), default=0)
        self.any = most > 0
        self._begun = np.zeros(len(true_jobs), dtype=np.intp)
        self._ends = np.full((len(true_jobs), most), np.inf)  # work done at the end of each phase but the last
        for i, job in enumerate(true_jobs if self.any else ()):
            done = np.cumsum([phase.work for phase in job.phases[:-1]])
            self._ends[i, : len(done)] = done - WORK * job.work

    def advance(self, who: Positions, done: Floats) -> bool:
        """Update the jobs ``who``, which have ``done`` this work; whether one is in another phase than before."""
        begun = (self._ends[who] <= done[:, None]).sum(axis=1)
        changed = np.flatnonzero(begun != self._begun[who])
        for i, phase in zip(who[changed].tolist(), begun[changed].tolist(), strict=True):
            self._begun[i] = phase
            self.jobs[i] = as_seen(self._whole[i], phase)
            self.work[i] = self.jobs[i].work
        return bool(len(changed))
