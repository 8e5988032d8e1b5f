"""Timeouts of leases."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LeaseTimeouts:
    """Timeouts of leases, in seconds.

    Parameters
    ----------
    ttl_seconds:
        A runner stops its job when the lease was not renewed for so long.
    margin_seconds:
        Added where only the passing of time proves that a job is dead.
    profile_seconds, first_tick_seconds:
        How long a profiling run lasts from its first step on, and how long that may take to come.
    visible_seconds:
        How long a file may take to be seen from another host.
    start_seconds:
        A lease that the engine has not begun for so long is taken back, and granted anew where there is room.
    """

    ttl_seconds: float = 60.0
    margin_seconds: float = 10.0
    profile_seconds: float = 30.0
    first_tick_seconds: float = 600.0
    visible_seconds: float = 5.0
    start_seconds: float = 300.0
