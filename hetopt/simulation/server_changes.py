"""Servers that fail, come back, or are added during a simulation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hetopt.checks import at_least, boolean, known, members, number, text, whole
from hetopt.data.cluster import Cluster
from hetopt.errors import InvalidInstance, InvalidOption

MOST_FAILURES = 1e6
"""Most failures that :func:`failures` draws."""


@dataclass(frozen=True, order=True)
class ServerChange:
    """A server that goes down or comes up.

    Parameters
    ----------
    time:
        Seconds on the clock of the instance.
    server:
        Its name in the instance's cluster.
    up:
        Whether it comes up (True) or goes down. A server that comes up in its first change is absent before.

    Raises
    ------
    InvalidInstance
        The time is not a number >= 0, or the name is not a text.
    """

    time: float
    server: str
    up: bool = False

    def __post_init__(self) -> None:
        text(self.server, "ServerChange.server")
        object.__setattr__(self, "time", number(self.time, f"changes[{self.server!r}].time"))
        object.__setattr__(self, "up", boolean(self.up, f"changes[{self.server!r}].up", InvalidInstance))


def check_changes(changes: Iterable[ServerChange], cluster: Cluster) -> tuple[ServerChange, ...]:
    """Sort the changes by time, and check that those of each server alternate.

    Raises
    ------
    InvalidInstance
        A server that the cluster does not have, or that goes down (comes up) twice in a row.
    """
    found = sorted(members(tuple(changes), ServerChange, "changes"), key=lambda change: change.time)
    last: dict[str, bool] = {}
    for change in found:
        known(change.server, cluster.by_name, "changes", "server")
        if last.get(change.server) == change.up:
            what = "comes up" if change.up else "goes down"
            raise InvalidInstance(f"changes: server {change.server!r} {what} at {change.time:g} s, as it did before")
        last[change.server] = change.up
    return tuple(found)


def servers_up_at(time: float, changes: tuple[ServerChange, ...], cluster: Cluster) -> set[str]:
    """Names of the servers that are up just before ``time``; ``changes`` in order."""
    there = {server.name for server in cluster.servers}
    seen: set[str] = set()
    for change in changes:
        if change.server not in seen and change.up:
            there.discard(change.server)
        seen.add(change.server)
    for change in changes:
        if change.time < time:
            (there.add if change.up else there.discard)(change.server)
    return there


def failures(cluster: Cluster, mtbf: float, mttr: float, until: float, seed: int = 0) -> tuple[ServerChange, ...]:
    """Random failures and repairs of servers, independent, with exponential times between them.

    Parameters
    ----------
    cluster:
        Its servers.
    mtbf, mttr:
        Mean seconds from a repair to the next failure, and from a failure to its repair.
    until:
        No server fails after this second; failed servers are still repaired.
    seed:
        The same seed gives the same failures; those of a server do not depend on other servers.

    Raises
    ------
    InvalidOption
        A number that is not positive, or an invalid seed.
    """
    for key, value in (("mtbf", mtbf), ("mttr", mttr), ("until", until)):
        at_least(value, key, 0.0, InvalidOption, strict=True)
    if (expected := len(cluster.servers) * until / (mtbf + mttr)) > MOST_FAILURES:
        raise InvalidOption(
            f"is {mtbf:g} s: servers would fail {expected:.3g} times; at most {MOST_FAILURES:g} are simulated", "mtbf"
        )
    found = []
    for i, server in enumerate(cluster.servers):
        random, time = np.random.default_rng([whole(seed, "seed", 0), i]), 0.0
        while (time := _after(time, random.exponential(mtbf))) < until:
            back = _after(time, random.exponential(mttr))
            found += [ServerChange(time, server.name), ServerChange(back, server.name, up=True)]
            time = back
    return tuple(sorted(found))


def _after(time: float, seconds: float) -> float:
    """The time ``seconds`` later, but at least the next float: no server fails and comes back at the same time."""
    return max(time + float(seconds), math.nextafter(time, math.inf))
