"""Who gets GPUs, one after another: everybody in turn takes what suits it of what those before it have left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

Seats: TypeAlias = tuple[tuple[int, int], ...]
"""(place, GPUs) of a gang. A place is a GPU type, or the GPUs of one type in one server."""

Stops: TypeAlias = Literal["nobody", "last", "all"]
"""Which jobs that run may be stopped: none; the last in the order, where those ahead need their GPUs; or all, so that
everybody is placed anew."""


class Choose(Protocol):
    """Which GPUs a job takes."""

    def __call__(self, job: int, free: Sequence[int]) -> Seats | None:
        """The seats of the gang of ``job`` (position) among ``free`` GPUs of each place; None without enough room."""
        ...


class Room:
    """GPUs of each place: given away, held by jobs that run and whose turn has not come, or open.

    Parameters
    ----------
    capacity:
        GPUs of each place.
    running:
        Job -> its seats, in the order in which their turns come; they keep them unless :meth:`serve` needs them.

    Attributes
    ----------
    free:
        GPUs of each place that are not given away.
    open:
        Of these, the GPUs that no job holds.
    left:
        Sum of ``free``.
    given:
        Job -> its seats, of those who have got some.
    """

    def __init__(self, capacity: Sequence[int], running: Mapping[int, Seats]) -> None:
        self.free, self.open, self.left = list(capacity), list(capacity), sum(capacity)
        self.held, self.given = dict(running), dict[int, Seats]()
        for seats in running.values():
            _change(self.open, seats, -1)

    def keep(self, job: int) -> bool:
        """Give a job what it holds; False if it holds nothing, or nothing any more."""
        seats = self.held.pop(job, None)
        if seats is None:
            return job in self.given
        self._take(job, seats)
        return True

    def keep_all(self) -> None:
        """Give all jobs what they hold: nobody is stopped from now on."""
        for job in list(self.held):
            self.keep(job)

    def start(self, job: int, choose: Choose) -> bool:
        """Give a job open GPUs; False without enough room."""
        seats = choose(job, self.open)
        if seats is None:
            return False
        self.give(job, seats)
        return True

    def give(self, job: int, seats: Seats) -> None:
        """Give a job these seats, which are open."""
        _change(self.open, seats, -1)
        self._take(job, seats)

    def serve(self, job: int, choose: Choose) -> bool:
        """The same, but if the open GPUs are too few, jobs that run are stopped until they suffice, the last first.

        Of these, those whose GPUs are not taken hold them on.
        """
        if self.start(job, choose):
            return True
        if not self.held or choose(job, self.free) is None:
            return False
        stopped: list[tuple[int, Seats]] = []
        while not self.start(job, choose):
            stopped.append(self.held.popitem())
            _change(self.open, stopped[-1][1], 1)
        for other, seats in reversed(stopped):
            if all(self.open[place] >= gpus for place, gpus in seats):
                self.held[other] = seats
                _change(self.open, seats, -1)
        return True

    def _take(self, job: int, seats: Seats) -> None:
        self.given[job] = seats
        _change(self.free, seats, -1)
        self.left -= sum(gpus for _, gpus in seats)


def _change(gpus: list[int], seats: Seats, sign: int) -> None:
    for place, number in seats:
        gpus[place] += sign * number


def walk(
    order: Iterable[int],
    capacity: Sequence[int],
    running: Mapping[int, Seats],
    choose: Choose,
    *,
    stops: Stops,
    backfill: bool,
) -> dict[int, Seats]:
    """The seats of those who run from now on.

    Parameters
    ----------
    order:
        Jobs, first in turn first; others get nothing.
    capacity:
        GPUs of each place.
    running:
        Jobs that run now -> their seats.
    choose:
        What a job takes.
    stops:
        Who may be stopped.
    backfill:
        Those behind a job that finds no room may still start; else nobody starts before it does.
    """
    order = list(order)
    room = Room(capacity, {} if stops == "all" else {job: running[job] for job in order if job in running})
    if stops == "nobody":
        room.keep_all()
    for job in order:
        if not room.left or not (room.keep(job) or room.serve(job, choose) or backfill):
            break
    room.keep_all()
    return room.given
