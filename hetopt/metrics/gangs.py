"""Which GPUs the gangs of a log ran on: types, servers, and how many of each type where the log tells."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import TypeAlias

import numpy as np

from hetopt.data.entities import Floats
from hetopt.data.instance import Instance
from hetopt.errors import InvalidInstance
from hetopt.metrics.tables import parts
from hetopt.simulation.log import Log

Names: TypeAlias = tuple[str, ...]
Seats: TypeAlias = Mapping[str, Mapping[str, float]]


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

    The column ``seats`` says it. Logs of others may lack it: types, servers and the number of GPUs then determine a
    gang on one type, and one on several where its servers leave it no choice.
    """
    if "seats" in log.spans:
        return _told(log, instance)
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


def seats_of(log: Log) -> list[Seats]:
    """Server -> GPU type -> how many, of each span.

    Raises
    ------
    InvalidInstance
        The column ``seats`` holds something else.
    """
    told: dict[str, Seats] = {}
    for text in log.spans["seats"].unique().tolist():
        try:
            told[text] = seats_in(text)
        except ValueError as problem:
            raise InvalidInstance(f"log.spans has {problem}") from None
    return [told[text] for text in log.spans["seats"]]


def seats_in(text: str) -> Seats:
    """Server -> GPU type -> how many, as one cell of the column ``seats`` says it.

    Raises
    ------
    ValueError
        It says something else.
    """
    try:
        return {server: {t: float(n) for t, n in here.items()} for server, here in dict(json.loads(text)).items()}
    except (TypeError, ValueError, AttributeError):
        raise ValueError(f"the seats {text!r}, which are no JSON of server: type: GPUs") from None


def places(log: Log) -> list[str]:
    """Columns of the spans that tell where a gang is; without ``seats`` they leave open how it is divided."""
    return ["seats"] if "seats" in log.spans else ["gpu_type", "servers", "gpus"]


def _told(log: Log, instance: Instance) -> Floats:
    servers_of(log, instance)  # refuse what the instance does not have
    position = {t: k for k, t in enumerate(instance.cluster.type_names)}
    result = np.zeros((len(log.spans), len(position)))
    for row, kinds, seats in zip(result, types_of(log, instance), seats_of(log), strict=True):
        for t, n in (pair for here in seats.values() for pair in here.items()):
            if t not in kinds:
                raise InvalidInstance(
                    f"log.spans has the seats {json.dumps(seats)!r}, but the GPU types {'+'.join(kinds)!r}"
                )
            row[position[t]] += n
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
