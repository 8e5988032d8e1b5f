"""Who shares the cluster now: one rule for every policy, be it a formulation or a procedure."""

from __future__ import annotations

import numpy as np

from hetopt.data.entities import Entities, Kind
from hetopt.data.instance import Instance
from hetopt.errors import InvalidInstance


def present_entities(instance: Instance, kind: Kind | None, policy: str, *, mixed: bool = False) -> Entities:
    """The entities of ``kind`` among which ``policy`` (its name, for messages) shares the cluster.

    Jobs must have arrived, and a job's gang must fit on a GPU type that can run it; with ``mixed``, on all such types
    together. Where the types that someone can run on have no GPUs at all now, say because servers are drained, it
    stays among the entities and gets nothing.

    Raises
    ------
    InvalidInstance
        There is none of that kind; a job that arrives later; a gang that is too large for every type that can run it.
    """
    if kind is not None and not (instance.tenants if kind == "tenants" else instance.jobs):
        other = "jobs" if kind == "tenants" else "tenants"
        raise InvalidInstance(
            f"{policy} is about {kind}, and the instance has none; add {kind}, or take a policy that is about {other}"
        )
    entities = instance.entities(kind)
    if entities.kind == "jobs":
        _check_arrived(instance)
        check_mixed_gangs(entities) if mixed else _check_gangs(entities)
    return entities


def check_mixed_gangs(entities: Entities) -> None:
    """Raise :class:`InvalidInstance` for a gang that is too large for all GPUs that can run it, where there are any."""
    room = (entities.task_speed > 0) @ entities.capacity
    for i in np.flatnonzero((entities.demand > room) & (room > 0)).tolist():
        raise InvalidInstance(
            f"jobs[{entities.names[i]!r}].demand is {entities.demand[i]:g} GPUs; "
            f"the types that can run it have {room[i]:g} together"
        )


def _check_arrived(instance: Instance) -> None:
    arrival = instance.job_array("arrival")
    for i in np.flatnonzero(arrival > instance.time)[:1].tolist():
        moment = max(instance.time, float(arrival.min()))
        raise InvalidInstance(
            f"jobs[{instance.jobs[i].name!r}].arrival is {arrival[i]:.15g} s, after time = {instance.time:.15g} s; "
            f"leave jobs out until they have arrived: instance.at({moment:.15g}) has those present then"
        )


def _check_gangs(entities: Entities) -> None:
    for i in np.flatnonzero(~entities.allowed.any(axis=1)).tolist():
        if largest := entities.capacity[entities.task_speed[i] > 0].max():
            raise InvalidInstance(
                f"jobs[{entities.names[i]!r}].demand is {entities.demand[i]:g} GPUs, and its gang runs on one type; "
                f"the types that can run it have at most {largest:g}"
            )
