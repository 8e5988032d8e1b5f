"""The single machine of [ASRPT, section IV-C] on which jobs of predicted size run, shortest remaining time first."""

from __future__ import annotations

import math
from heapq import heapify, heappop, heappush
from typing import Any

Number = Any
"""Seconds: floats, or fractions where nothing shall be rounded."""


class VirtualMachine:
    """Preemptive SRPT in continuous time, event by event.

    A job of size 0 completes as it arrives. Of jobs with equal time left, the one that runs goes on; else the one that
    arrived first goes first. The paper's machine works in slots; one job per slot would break its Lemma 1.
    """

    def __init__(self) -> None:
        self._now: Number = 0
        self._running: tuple[Number, int, str] | None = None  # (seconds left, counter, job)
        self._waiting: list[tuple[Number, int, str]] = []
        self._counter = 0
        self._done: list[str] = []

    def copy(self) -> VirtualMachine:
        """An independent one in the same state."""
        made = VirtualMachine()
        made.__dict__.update(self.__dict__)
        made._waiting, made._done = list(self._waiting), list(self._done)
        return made

    def arrive(self, time: Number, job: str, size: Number) -> None:
        """``job`` needs ``size`` seconds from ``time`` on, which is no earlier than any time told before."""
        self._advance(time)
        self._counter += 1
        entry = (size, self._counter, job)
        if size <= 0:
            self._done.append(job)
        elif self._running is None:
            self._running = entry
        elif size < self._running[0]:
            heappush(self._waiting, self._running)
            self._running = entry
        else:
            heappush(self._waiting, entry)

    def withdraw(self, time: Number, job: str) -> None:
        """``job`` needs no more; others go on as if it were not there from ``time`` on."""
        self._advance(time)
        if self._running is not None and self._running[2] == job:
            self._running = heappop(self._waiting) if self._waiting else None
        else:
            self._waiting = [entry for entry in self._waiting if entry[2] != job]
            heapify(self._waiting)
            self._done = [name for name in self._done if name != job]

    def completed(self, time: Number) -> list[str]:
        """Jobs that have completed by ``time`` since this was last asked, in the order of completion."""
        self._advance(time)
        done, self._done = self._done, []
        return done

    @property
    def next(self) -> Number:
        """When the next job completes, if none arrives before; infinity without any."""
        if self._done:
            return self._now
        return math.inf if self._running is None else self._now + self._running[0]

    def _advance(self, time: Number) -> None:
        while self._running is not None and self._now + self._running[0] <= time:
            left, _, job = self._running
            self._now += left
            self._done.append(job)
            self._running = heappop(self._waiting) if self._waiting else None
        if time > self._now:
            if self._running is not None:
                left, counter, job = self._running
                self._running = (left - (time - self._now), counter, job)
            self._now = time
