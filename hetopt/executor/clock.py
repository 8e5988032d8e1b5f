"""The cluster's clock: seconds since its state was made, never set back or forth."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from hetopt.executor.lease_directory import boot_id, now

JUMP_SECONDS = 5.0
"""The clock on the wall is said to have jumped if it goes by more beside the machine's own."""


@dataclass
class Clock:
    """Runs with the machine's own clock, which nobody sets; over a restart of the machine it stands still.

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
        """The clock that :meth:`text` has told of; after a restart of the machine it goes on from ``latest``."""
        said = json.loads(text)
        if said["boot"] == boot_id():
            return cls(said["boot"], said["base"], said["at"])
        return cls.begin(max(latest, said["base"]))

    @property
    def text(self) -> str:
        """To be kept."""
        return json.dumps({"boot": self.boot, "base": self.base, "at": self.at})

    def now(self) -> float:
        """The cluster's seconds."""
        return self.base + (now() - self.at)  # so that rounding does not go by the machine's uptime


class Wall:
    """Watches the clock on the wall, by which nothing is decided, for jumps."""

    def __init__(self) -> None:
        self._offset = time.time() - now()

    def jumped(self) -> float:
        """Seconds by which it was set since the last call; 0 for less than :data:`JUMP_SECONDS`."""
        offset = time.time() - now()
        jump, self._offset = offset - self._offset, offset
        return jump if abs(jump) > JUMP_SECONDS else 0.0


def today() -> str:
    """Date and time, for people."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
