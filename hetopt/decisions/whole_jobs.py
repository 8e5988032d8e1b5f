"""From the parts of time that jobs should run on each GPU type to the jobs that run in this round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from hetopt.checks import at_least
from hetopt.data.entities import Entities, Floats, keys
from hetopt.data.instance import Instance
from hetopt.decisions import deviations
from hetopt.decisions.deviations import TICKS, Ledger
from hetopt.errors import InvalidOption
from hetopt.programs.linear import LinearProgram
from hetopt.results.allocation import Allocation, Plan
from hetopt.solving.optimising import optimise
from hetopt.solving.options import Options


@dataclass(frozen=True)
class WholeJobs:
    """Jobs' shares of time as rounds: each job runs on one GPU type or waits, gangs whole, capacity kept.

    Of the jobs that something is due to (share plus what is owed), those are run that together have the most GPUs
    due: max sum_jk demand[j]·due[j,k]·x[j,k]. As long as the shares are an average of packings, what is owed grows
    at most like sqrt(rounds): the packing chosen has at least the due GPUs of that average. (Gavel fills rounds
    greedily by share over rounds received, [Gavel, section 5]; this is the exact counterpart.)

    Parameters
    ----------
    most_owed:
        Rounds that a job can be owed at most per GPU type; more is forgiven. Shares that no sequence of packings
        reaches (two jobs of three GPUs on four) would pile up and be repaid at the cost of those who come later.
    time_limit:
        Seconds for the search, after which the best packing found is taken; None: until one is proven best.

    Raises
    ------
    InvalidOption
        ``most_owed`` is below 1; a time limit that is not positive.
    """

    most_owed: float = 4.0
    time_limit: float | None = 10.0

    def __post_init__(self) -> None:
        at_least(self.most_owed, "WholeJobs.most_owed", 1, InvalidOption)
        Options(time_limit=self.time_limit)  # refuses what is no limit

    def __call__(self, allocation: Allocation, instance: Instance, state: Ledger | None = None) -> tuple[Plan, Ledger]:
        """The jobs that run now, and what is owed from now on."""
        entities = allocation.entities
        if entities.kind != "jobs":
            raise InvalidOption("WholeJobs rounds shares of jobs; for those of tenants take hetopt.WholeGPUs")
        names = keys(entities, instance)
        due = deviations.read(state, names, entities.types) + deviations.to_ticks(allocation.x)
        x = most_due(entities, due / TICKS, Options(time_limit=self.time_limit))
        owed = due - np.rint(x).astype(np.int64) * TICKS
        kept = np.minimum(owed, int(self.most_owed * TICKS))
        gpus = entities.gpus(x)
        given_up = {
            "idle": float(entities.capacity.sum() - gpus.sum()),
            "forgiven": float(entities.gpus((owed - kept) / TICKS).sum()),
        }
        plan = Plan(entities, gpus, entities.gpus(kept / TICKS), given_up, allocation.certificate)
        return plan, deviations.write(kept, names, entities.types)


def most_due(entities: Entities, due: Floats, options: Options) -> Floats:
    """(n, k) zeros and ones: the packing, one GPU type per job, with the most due GPUs; only where something is due.

    Parameters
    ----------
    due:
        (n, k) rounds due to each job on each type.
    options:
        Of the search.
    """
    n, k = entities.shape
    open_ = (due > 0) & entities.allowed
    job, kind = np.nonzero(open_)
    if not len(job):
        return np.zeros((n, k))
    columns = np.arange(len(job))
    per_job = sparse.csr_array((np.ones(len(job)), (job, columns)), shape=(n, len(job)))
    per_type = sparse.csr_array((entities.demand[job], (kind, columns)), shape=(k, len(job)))
    program = LinearProgram.of(
        entities.demand[job] * due[job, kind],
        sparse.csc_array(sparse.vstack([per_job, per_type])),
        np.full(n + k, -np.inf),
        np.concatenate([np.ones(n), entities.capacity]),
        col_upper=1.0,
        integer=True,
    )
    x = np.zeros((n, k))
    x[job, kind] = np.rint(optimise(program, options).x)
    return x
