"""Checks of settings and states that several policies share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hetopt.checks import at_least, choices, mapping, shown
from hetopt.data.instance_data import InstanceData
from hetopt.errors import InvalidInstance, InvalidOption


def check_round_seconds(value: Any, key: str) -> None:
    """Raise :class:`~hetopt.errors.InvalidOption` unless ``value`` is a round length in seconds > 0, or None."""
    if value is not None:
        at_least(value, key, 0.0, InvalidOption, strict=True)


def check_choice(value: Any, known: Iterable[str], key: str) -> None:
    """Raise :class:`~hetopt.errors.InvalidOption` unless ``value`` is one of ``known``."""
    if not isinstance(value, str) or value not in (known := tuple(known)):
        raise InvalidOption(f"{key} is {shown(value)}; {choices(str(value), known)}")


def mapping_option(value: Any, key: str) -> Mapping[str, Any]:
    """``value`` if it is a mapping with text keys.

    Raises
    ------
    InvalidOption
        It is not.
    """
    try:
        return mapping(value, key)
    except InvalidInstance as problem:
        raise InvalidOption(str(problem)) from None


def elapsed_since(instance: InstanceData, then: float) -> float:
    """Seconds from ``then``, the time of a policy's state, to the instance's time.

    Raises
    ------
    InvalidInstance
        ``then`` is later than the instance's time.
    """
    if instance.time < then:
        raise InvalidInstance(
            f"time is {instance.time:g} s, before the last call at {then:g} s; a policy cannot go back"
        )
    return instance.time - then
