"""The cluster's clock: seconds since its state was made; setting the wall clock does not change it."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from hetopt.executor.lease_directory import boot_id, now

JUMP_SECONDS = 5.0
"""A jump of the wall clock is reported from this many seconds beside the machine's own clock."""


@dataclass
class Clock:
    """Runs with the machine's time since boot; over a restart of the machine it stands still.

    Attributes
    ----------
    boot:
        The run of the machine in which ``base`` was read.
    base, at:
        The cluster's second at the machine's second ``at``.
    """

    boot: str
    base: float
    at: float

    @classmethod
    def begin(cls, base: float = 0.0) -> Clock:
        """A clock that shows ``base`` now."""
        return cls(boot_id(), base, now())

    @classmethod
    def of(cls, text: str, latest: float) -> Clock:
        """The clock with this :attr:`text`; after a restart of the machine it continues from ``latest``.

        Raises
        ------
        ValueError, LookupError, TypeError
            The text is not one of a clock.
        """
        content = json.loads(text)
        clock = cls(str(content["boot"]), float(content["base"]), float(content["at"]))
        return clock if clock.boot == boot_id() else cls.begin(max(latest, clock.base))

    @property
    def text(self) -> str:
        """For the database."""
        return json.dumps(asdict(self))

    def now(self) -> float:
        """The cluster's seconds."""
        return self.base + (now() - self.at)  # so that rounding does not depend on the machine's uptime


class Wall:
    """Watches the wall clock, on which no decision depends, for jumps."""

    def __init__(self) -> None:
        self._offset = time.time() - now()

    def jumped(self) -> float:
        """Seconds by which it was set since the last call; 0 for less than :data:`JUMP_SECONDS`."""
        offset = time.time() - now()
        jump, self._offset = offset - self._offset, offset
        return jump if abs(jump) > JUMP_SECONDS else 0.0


def today() -> str:
    """Date and time, for display."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
