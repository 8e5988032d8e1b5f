"""Checks of settings and states that several policies share."""

from __future__ import annotations

from hetopt.data.instance_data import InstanceData
from hetopt.errors import InvalidInstance


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
