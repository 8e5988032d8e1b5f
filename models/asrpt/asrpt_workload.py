"""Pipeline-parallel jobs from a table of recurring jobs, with networks assigned as in [ASRPT, section V-A]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hetopt.checks import FrozenDict
from hetopt.data.cluster import Cluster
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.errors import InvalidInstance
from hetopt.models.asrpt.fleet import Fleet, TypeOptions
from hetopt.models.asrpt.heavy_edge import HeavyEdge
from hetopt.stages.iteration_time import Asynchronous
from hetopt.stages.servers import Servers

COLUMNS = ("job", "arrival", "duration", "gpus", "user", "group")


def with_networks(table: pd.DataFrame, catalogue: Sequence[Job], cluster: Cluster, *, seed: int = 0) -> Instance:
    """An instance whose jobs train networks: one configuration per group, drawn once for all of its jobs.

    A group of one GPU gets a configuration of one GPU. Any other group gets a configuration whose number of GPUs (more
    than one) has the ratio nearest to 1 to its own, since the trace has numbers of GPUs without planned stages. A job
    takes as many iterations as fit into its duration on the fewest servers, ``n = duration / alpha~_min``, at least
    one.

    Parameters
    ----------
    table:
        As from :meth:`hetopt.traces.pai_generator.PAILike.table`: job, arrival (s), duration (s), gpus, user, group.
    catalogue:
        Configurations, e.g. those of :func:`hetopt.models.asrpt.networks.configurations`.
    cluster:
        The cluster.
    seed:
        Seed of the draw.

    Raises
    ------
    InvalidInstance
        A column is missing, the catalogue lacks a needed configuration of one GPU or of several, or a drawn
        configuration does not fit on the cluster.
    """
    return Instance(cluster, jobs=GroupNetworks.drawn(table, catalogue, cluster, seed=seed).jobs(table))


@dataclass(frozen=True)
class GroupNetworks:
    """The network of each group of jobs, e.g. for a trace of which only some jobs are simulated.

    Attributes
    ----------
    of:
        Group -> its configuration, and seconds of an iteration on the fewest servers, alpha~_min.
    """

    of: Mapping[str, tuple[Job, float]]

    @classmethod
    def drawn(cls, table: pd.DataFrame, catalogue: Sequence[Job], cluster: Cluster, *, seed: int = 0) -> GroupNetworks:
        """Draw the networks of all groups in the table, with parameters and errors of :func:`with_networks`."""
        _check(table)
        fleets = [
            Fleet(Servers.of(Instance(cluster), t), HeavyEdge(), Asynchronous(), i) if n else None
            for i, (t, n) in enumerate(cluster.capacity.items())
        ]
        choices, found = TypeOptions(cluster, fleets), dict[str, tuple[Job, float]]()
        for group, config in _configured(table, catalogue, seed).items():
            best = choices.of(config)
            if not best:
                raise InvalidInstance(
                    f"configuration {config.name!r} can run on none of {', '.join(cluster.type_names)}"
                )
            found[group] = config, float(best[0].least)
        return cls(FrozenDict(found))

    def seconds(self, job: Job) -> float:
        """Seconds of an iteration of the network of the job's group, on the fewest servers."""
        return self.of[str(job.group)][1]

    def jobs(self, table: pd.DataFrame) -> tuple[Job, ...]:
        """The jobs in the table, whose groups must have networks.

        Raises
        ------
        InvalidInstance
            A column is missing, or a group unknown.
        """
        _check(table)
        jobs = []
        columns: list[list[Any]] = [table[column].tolist() for column in COLUMNS]
        for name, arrival, duration, _, user, group in zip(*columns, strict=True):
            if group not in self.of:
                raise InvalidInstance(f"job {name!r} is of group {group!r}, for which no network was drawn")
            config, least = self.of[group]
            jobs.append(
                Job(
                    str(name),
                    config.throughput,
                    work=max(1.0, float(duration) / least),
                    demand=config.demand,
                    arrival=float(arrival),
                    tenant=str(user),
                    memory_bytes=config.memory_bytes,
                    checkpoint_bytes=config.checkpoint_bytes,
                    parallelism=config.parallelism,
                    stages=config.stages,
                    group=str(group),
                )
            )
        return tuple(jobs)


def _check(table: pd.DataFrame) -> None:
    if missing := [column for column in COLUMNS if column not in table.columns]:
        raise InvalidInstance(f"the table has no column {missing[0]!r}; it must have {', '.join(COLUMNS)}")


def _configured(table: pd.DataFrame, catalogue: Sequence[Job], seed: int) -> dict[str, Job]:
    """Group -> its configuration."""
    random = np.random.default_rng(seed)
    by_gpus: dict[int, list[Job]] = {}
    for config in catalogue:
        by_gpus.setdefault(config.demand, []).append(config)
    several = np.array(sorted(n for n in by_gpus if n > 1))
    found = {}
    for group, gpus in table.drop_duplicates("group")[["group", "gpus"]].itertuples(index=False):
        if gpus == 1 and 1 not in by_gpus:
            raise InvalidInstance("the catalogue has no configuration of one GPU; add one")
        if gpus > 1 and not len(several):
            raise InvalidInstance("the catalogue has no configuration of more than one GPU; add one")
        near = 1 if gpus == 1 else int(several[np.abs(np.log(several / gpus)).argmin()])
        found[group] = by_gpus[near][int(random.integers(len(by_gpus[near])))]
    return found
