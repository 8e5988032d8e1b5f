"""Which GPUs the gangs of a log ran on: types, servers, and how many of each type where the log tells."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

import numpy as np

from hetopt.data.entities import Floats
from hetopt.data.instance import Instance
from hetopt.errors import InvalidInstance
from hetopt.metrics.tables import parts
from hetopt.simulation.log import Log

Names: TypeAlias = tuple[str, ...]


def types_of(log: Log, instance: Instance) -> list[Names]:
    """The GPU types of each span.

    Raises
    ------
    InvalidInstance
        A type that the cluster does not have.
    """
    return _named(log, "gpu_type", instance.cluster.type_names, "GPU types")


def servers_of(log: Log, instance: Instance) -> list[Names]:
    """The servers of each span; none where its job was not placed on servers.

    Raises
    ------
    InvalidInstance
        A server that the cluster does not have.
    """
    return _named(log, "servers", instance.cluster.by_name, "servers")


def _named(log: Log, column: str, known: Collection[str], what: str) -> list[Names]:
    seen: dict[str, Names] = {"": ()}
    for text in log.spans[column].unique().tolist():
        seen[text] = parts(text, known)
        if text and not seen[text]:
            raise InvalidInstance(
                f"log.spans has the {what} {text!r}, which the instance does not have; "
                "give the instance that was simulated"
            )
    return [seen[text] for text in log.spans[column]]


def by_type(log: Log, instance: Instance) -> Floats:
    """(spans, k) GPUs of each type; a row of NaN where a gang is on several types and the log does not say how.

    A span names types and servers and counts the GPUs. That determines a gang on one type, and one on several where
    its servers leave it no choice. Without servers a span may also be of a job that runs its parts in turns (fluid).
    """
    kinds, servers = types_of(log, instance), servers_of(log, instance)
    position = {t: k for k, t in enumerate(instance.cluster.type_names)}
    result = np.zeros((len(log.spans), len(position)))
    known: dict[object, dict[str, float] | None] = {}
    for row, own, hosts, gpus in zip(result, kinds, servers, log.spans["gpus"].tolist(), strict=True):
        key = (own, hosts, gpus)
        if key not in known:
            known[key] = {own[0]: gpus} if len(own) == 1 else _split(own, hosts, gpus, instance)
        split = known[key]
        if split is None:
            row[:] = np.nan
        else:
            row[[position[t] for t in split]] = list(split.values())
    return result


def _split(types: Names, servers: Names, gpus: float, instance: Instance) -> dict[str, float] | None:
    """GPUs of each type where there is only one way to have so many of all these types on all these servers."""
    least, most = dict.fromkeys(types, 0), dict.fromkeys(types, 0)
    for name in servers:
        here = {t: n for t, n in instance.cluster.by_name[name].gpus.items() if t in least}
        for t, n in here.items():
            least[t] += len(here) == 1
            most[t] += n
    least = {t: max(1, n) for t, n in least.items()}
    room = {t: most[t] - least[t] for t in types}
    rest, free = gpus - sum(least.values()), [t for t in types if room[t] > 0]
    if not servers or (len(free) > 1 and 0 < rest < sum(room.values())):
        return None
    return {t: least[t] + (min(rest, room[t]) if rest > 0 else 0) for t in types}
