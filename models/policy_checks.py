"""Checks of settings and states that several policies and components share."""

from __future__ import annotations

from collections.abc import Mapping

from hetopt.checks import choices
from hetopt.data.entities import Entities
from hetopt.data.instance_data import InstanceData
from hetopt.errors import InvalidFormulation, InvalidInstance


def elapsed_since(instance: InstanceData, then: float) -> float:
    """Seconds from ``then``, the time of a policy's state, to the instance's time.

    Raises
    ------
    InvalidInstance
        ``then`` is later than the instance's time.
    """
    if instance.time < then:
        raise InvalidInstance(
            f"is {instance.time:g} s, before the last call at {then:g} s; a policy cannot go back", "time"
        )
    return instance.time - then


def check_names(names: Mapping[str, object], entities: Entities, key: str) -> None:
    """Raise :class:`InvalidFormulation` if ``names`` contains an unknown job."""
    for name in names:
        if name not in entities.position:
            raise InvalidFormulation(f"names {name!r}, which is no job here; {choices(name, entities.names)}", key)
