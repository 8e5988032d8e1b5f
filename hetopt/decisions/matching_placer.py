"""A placer that renames servers so that as few jobs as possible move: assignment problems, as in Tesserae."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from hetopt.checks import FrozenDict, check_no_classes
from hetopt.data.cluster import Cluster
from hetopt.data.gpu_locations import Hosts, Placed
from hetopt.data.instance import Instance
from hetopt.decisions.placers import MoreWorkersFirst, Placer
from hetopt.formulations.traits import Traits, traits_of
from hetopt.results.allocation import Placement, Plan


@dataclass(frozen=True)
class MatchingPlacer:
    """Tesserae's placer: another placer's placement, with servers renamed so that the fewest jobs move [Tesserae].

    Servers that differ in their names only may be exchanged. A first assignment problem, for each pair of servers,
    maps the GPUs of one to those of the other so that as many as possible keep their job. hetopt counts the GPUs of a
    job on a server and does not number them, so its optimum is a sum: each job that has as many GPUs of each type on
    both servers keeps them. The second, over the servers of one kind, maximises the sum of the parts of gangs that are
    kept. For gangs on one server each these are the jobs that do not move. For others it is an approximation; the
    servers keep their names where these move fewer jobs.

    Parameters
    ----------
    placer:
        Places the jobs first, as a rule on as few servers as possible and without regard to where they are.

    Raises
    ------
    InvalidOption
        ``placer`` is a class.
    """

    placer: Placer = field(default_factory=MoreWorkersFirst)

    def __post_init__(self) -> None:
        check_no_classes(self, "placer")

    @property
    def traits(self) -> Traits:
        """Those of the other placer."""
        return traits_of(self.placer)

    def __call__(self, plan: Plan, instance: Instance) -> Placement:
        """The servers of the plan's jobs."""
        placement = self.placer(plan, instance)
        before, now = _without_zeros(instance.placed), _without_zeros(placement.hosts)
        stay = {job for job, hosts in now.items() if _per_type(hosts) == _per_type(before.get(job, {}))}
        moved = sum(now[job] != before[job] for job in stay)
        if not moved:
            return placement
        name = _new_names(instance.cluster, before, now)
        renamed = {job: {name[server]: gpus for server, gpus in hosts.items()} for job, hosts in now.items()}
        still_moved = sum(renamed[job] != before[job] for job in stay)
        if still_moved >= moved:
            return placement
        return replace(
            placement,
            hosts=renamed,
            replicas={job: {name[s]: n for s, n in own.items()} for job, own in placement.replicas.items()},
            dispatch={job: {name[s]: work for s, work in own.items()} for job, own in placement.dispatch.items()},
            given_up={**placement.given_up, "moved": still_moved},
        )


def _without_zeros(placed: Placed) -> dict[str, dict[str, dict[str, int]]]:
    """Job -> server -> GPU type -> GPUs, at least one."""
    rows = {
        job: {server: {t: n for t, n in gpus.items() if n} for server, gpus in hosts.items()}
        for job, hosts in placed.items()
    }
    return {job: {server: gpus for server, gpus in hosts.items() if gpus} for job, hosts in rows.items()}


def _per_type(hosts: Hosts) -> dict[str, int]:
    """GPU type -> GPUs on all servers."""
    total: defaultdict[str, int] = defaultdict(int)
    for gpus in hosts.values():
        for t, n in gpus.items():
            total[t] += n
    return total


def _new_names(cluster: Cluster, before: Placed, now: Placed) -> Mapping[str, str]:
    """Server of the placement -> the server of its kind that takes its jobs."""
    kind = {server.name: replace(server, name="any") for server in cluster.servers}
    kept: defaultdict[tuple[str, str], float] = defaultdict(float)  # (server of the placement, present server)
    for job, hosts in now.items():
        size = sum(sum(gpus.values()) for gpus in hosts.values())
        for server, gpus in hosts.items():
            for present, held in before.get(job, {}).items():
                if gpus == held and kind[server] == kind[present]:
                    kept[server, present] += sum(gpus.values()) / size
    alike: defaultdict[object, list[str]] = defaultdict(list)
    for name in cluster.by_name:
        alike[kind[name]].append(name)
    names: dict[str, str] = {}
    for servers in alike.values():
        names |= _assigned(servers, kept)
    return FrozenDict(names)


def _assigned(servers: Sequence[str], kept: Mapping[tuple[str, str], float]) -> dict[str, str]:
    """Each of ``servers`` -> another one, all different, with the largest sum of ``kept``.

    Servers with which nothing is kept have their own names if these are left, else the first that are.
    """
    there = set(servers)
    pairs = [(server, present) for server, present in kept if server in there]
    rows, columns = (list(dict.fromkeys(names)) for names in (zip(*pairs, strict=True) if pairs else ((), ())))
    gain = np.array([[kept.get((server, present), 0.0) for present in columns] for server in rows])
    found: dict[str, str] = {}
    for i, j in zip(*linear_sum_assignment(gain, maximize=True), strict=True) if pairs else ():
        if gain[i, j] > 0:
            found[rows[i]] = columns[j]
    left = dict.fromkeys(server for server in servers if server not in set(found.values()))
    for server in servers:
        if server not in found and server in left:
            found[server] = server
            del left[server]
    rest = iter(left)
    return {server: found.get(server) or next(rest) for server in servers}
