"""Checks of settings and states that several policies share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hetopt.checks import at_least, choices, shown
from hetopt.data.instance_data import InstanceData
from hetopt.errors import InvalidInstance, InvalidOption


def seconds_or_events(value: Any, key: str) -> None:
    """Raise :class:`~hetopt.errors.InvalidOption` unless ``value`` is the length of a round, or None."""
    if value is not None:
        at_least(value, key, 0.0, InvalidOption, strict=True)


def one_of(value: Any, known: Iterable[str], key: str) -> None:
    """Raise :class:`~hetopt.errors.InvalidOption` unless ``value`` is one of ``known``."""
    if not isinstance(value, str) or value not in (known := tuple(known)):
        raise InvalidOption(f"{key} is {shown(value)}; {choices(str(value), known)}")


def forward(instance: InstanceData, then: float) -> float:
    """Seconds since ``then``, the time of a policy's state.

    Raises
    ------
    InvalidInstance
        That is later than the instance's time.
    """
    if instance.time < then:
        raise InvalidInstance(
            f"time is {instance.time:g} s, before the last call at {then:g} s; a policy cannot go back"
        )
    return instance.time - then
