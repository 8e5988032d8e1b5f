"""PAL: who runs by any of the orders, and where by locality and variability (Jain et al., SC'24)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hetopt.checks import FrozenDict, at_least, boolean, mapping
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance, present_entities
from hetopt.decisions.speed_models import Variability
from hetopt.errors import InvalidInstance, InvalidOption, Item
from hetopt.models.fft.parts import ROUND_SECONDS
from hetopt.models.queues.checking import one_of, seconds_or_events
from hetopt.models.queues.choosing import in_order
from hetopt.models.queues.locality import LeastProduct, Place, places_of
from hetopt.models.queues.ordered import ORDERS
from hetopt.models.queues.room import Seats, Stops, walk
from hetopt.results.allocation import Placement, Plan

ACROSS = 1.7
"""What spreading over servers costs: the constant in the code that PAL's authors published."""


@dataclass(frozen=True)
class PAL:
    """Jobs in some order, each on the free GPUs with the least product of locality and variability.

    See :class:`~hetopt.models.queues.locality.LeastProduct`. It chooses servers itself.

    Parameters
    ----------
    order:
        ``"srtf"``, ``"srsf"``, ``"las"`` or ``"fifo"``, which never stops a job: as the policies of these names.
    across:
        How many times as long a job takes as it expects when its GPUs are not all in one server, >= 1.
    variability:
        Server -> how many times as long jobs take on its GPUs; or server -> model (``Job.model``) -> that: what
        :class:`~hetopt.decisions.speed_models.Variability` simulates. What is absent is 1, and servers that are not
        there, say because they have failed, mean nothing.
    moves:
        In each decision all jobs are placed anew; else those that run keep their GPUs unless they are stopped.
    backfill:
        Those behind a job that finds no room may start.
    round_seconds:
        Length of a round; None: decisions at arrivals and completions.

    Raises
    ------
    InvalidOption
        A setting out of range.
    """

    order: str = "srtf"
    across: float = ACROSS
    variability: Mapping[str, float | Mapping[str, float]] = field(default_factory=dict)
    moves: bool = False
    backfill: bool = True
    round_seconds: float | None = ROUND_SECONDS

    def __post_init__(self) -> None:
        one_of(self.order, ORDERS, "PAL.order")
        at_least(self.across, "PAL.across", 1.0, InvalidOption)
        rows = {name: _factors(row, f"PAL.variability[{name!r}]") for name, row in _names(self.variability).items()}
        object.__setattr__(self, "variability", FrozenDict(rows))
        for key in ("moves", "backfill"):
            boolean(getattr(self, key), f"PAL.{key}")
        seconds_or_events(self.round_seconds, "PAL.round_seconds")

    @property
    def places(self) -> bool:
        """It chooses servers itself."""
        return True

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Plan, Any]:
        """Who runs where from now on; the state is that of the order.

        Raises
        ------
        InvalidInstance
            See :func:`~hetopt.data.instance.present_entities`; with a state, a time before it. Under ``"fifo"`` a job
            that holds GPUs without its whole gang being placed on one type.
        """
        jobs = present_entities(instance, "jobs", "PAL")
        order, stops = ORDERS[self.order], self._stops
        keys, state = order.ranked(jobs, state)
        places = places_of(instance.cluster)
        running = _running(jobs, places, may_stop=stops != "nobody")
        choose = LeastProduct(jobs, places, self.across, Variability(self.variability))
        capacity = [place.gpus for place in places]
        given = walk(in_order(jobs, keys), capacity, running, choose, stops=stops, backfill=self.backfill)
        return _plan(jobs, places, given), state

    @property
    def _stops(self) -> Stops:
        return "nobody" if ORDERS[self.order].stops == "nobody" else "all" if self.moves else "last"


def _running(jobs: Entities, places: list[Place], *, may_stop: bool) -> dict[int, Seats]:
    """Job -> where its gang is placed now, all on one type that can run it; others count as waiting."""
    instance, position = jobs.source, {(place.server, jobs.types[place.kind]): i for i, place in enumerate(places)}
    result: dict[int, Seats] = {}
    for e, name in enumerate(jobs.names):
        hosts = instance.placed.get(name, {})
        seats = tuple((position[server, t], n) for server, own in hosts.items() for t, n in own.items() if n)
        kinds = {places[place].kind for place, _ in seats}
        if sum(n for _, n in seats) == jobs.demand[e] and len(kinds) == 1 and jobs.allowed[e, min(kinds)]:
            result[e] = seats
        elif not may_stop and any(instance.held.get(name, {}).values()):
            raise InvalidInstance(
                f"holds GPUs and placed[{name!r}] is {dict(hosts)!r}; under PAL with order 'fifo' a job that runs is "
                f"placed on its {jobs.demand[e]:g} GPUs, all of one type on which it can run",
                ("jobs", Item(name)),
            )
    return result


def _plan(jobs: Entities, places: list[Place], given: Mapping[int, Seats]) -> Plan:
    x = np.zeros(jobs.shape)
    hosts: dict[str, dict[str, dict[str, int]]] = {}
    for job, seats in given.items():
        for i, n in seats:
            x[job, places[i].kind] += n
            hosts.setdefault(jobs.names[job], {})[places[i].server] = {jobs.types[places[i].kind]: n}
    spread = float(sum(len(own) > 1 for own in hosts.values()))
    given_up = {"idle": float(jobs.capacity.sum() - x.sum()), "spread": spread}
    return Plan(jobs, x, given_up=given_up, placement=Placement(hosts))


def _names(value: Any, key: str = "PAL.variability") -> Mapping[str, Any]:
    try:
        return mapping(value, key)
    except InvalidInstance as problem:
        raise InvalidOption(str(problem)) from None


def _factors(value: Any, key: str) -> float | FrozenDict[str, float]:
    """A factor > 0, or such factors by model."""
    if not isinstance(value, Mapping):
        return at_least(value, key, 0.0, InvalidOption, strict=True)
    rows = _names(value, key).items()
    return FrozenDict({m: at_least(v, f"{key}[{m!r}]", 0.0, InvalidOption, strict=True) for m, v in rows})
