"""Checkpoints of a simulation: its whole state in a file, so that an interrupted run continues with the same result.

The file begins with digests of everything that determines the result, and of the state itself. The state is a pickle:
loading it runs code that it names, so only files of one's own should be loaded.
"""

from __future__ import annotations

import json
import pickle
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, is_dataclass
from hashlib import sha256
from os import PathLike
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any, TypeAlias

import numpy as np

from hetopt.checks import at_least, expect, shown
from hetopt.data.saving import check_writable, save
from hetopt.errors import CheckpointWarning, InvalidOption, OtherCheckpoint, UnusableFile
from hetopt.versions import versions

HEADER = b"hetopt simulation checkpoint 1 "
"""Start of the first line, which continues with JSON; the state follows."""

SPACING = 20
"""The time between two checkpoints is at least this multiple of the time that the last one took."""


@dataclass(frozen=True)
class Checkpoints:
    """Where and how often a simulation writes its state.

    Parameters
    ----------
    path:
        The file. It stays after the simulation, so that it can be removed once the result is stored.
    every:
        Wall-clock seconds between two checkpoints. Large states are written less often, so that writing takes at most
        1 / :data:`SPACING` of the time.
    settings:
        Anything else that determines the result, in JSON types, such as digests of files with code.

    Raises
    ------
    InvalidOption
        No path, or negative seconds.
    """

    path: Path
    every: float = 60.0
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | PathLike):
            raise InvalidOption(f"is {shown(self.path)}; it must be a path", "Checkpoints.path")
        object.__setattr__(self, "path", Path(self.path))
        if self.every != float("inf"):
            at_least(self.every, "Checkpoints.every", 0.0, InvalidOption)

    @classmethod
    def of(cls, given: str | PathLike[str] | Checkpoints) -> Checkpoints:
        """The argument of :func:`hetopt.simulate`: a path, or with other settings."""
        return (
            cls(Path(given)) if isinstance(given, str | PathLike) else expect(cls, given, "checkpoint", InvalidOption)
        )

    def remove(self) -> None:
        """Remove the file, and what an interrupted write has left."""
        for path in (self.path, *self.path.parent.glob(f".{self.path.name}.*.part")):
            path.unlink(missing_ok=True)


Digests: TypeAlias = dict[str, str]
"""What determines the result -> its digest, or itself if it is short."""


class CheckpointFile:
    """The checkpoint of one simulation: what an earlier process has left, and writing new ones.

    Parameters
    ----------
    checkpoints:
        Path and interval.
    inputs:
        Name -> what determines the result, as in the message about a checkpoint of another simulation.
    clock:
        Seconds of wall-clock time.

    Raises
    ------
    UnusableFile
        No file can be written there.
    """

    def __init__(
        self, checkpoints: Checkpoints, inputs: Mapping[str, object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.path, self.every, self.clock = checkpoints.path, checkpoints.every, clock
        check_writable(self.path)
        self._next = clock() + self.every
        self._failed = False
        self._digests: Digests | None = None
        try:
            self._digests = versions() | {
                key: digest(value) for key, value in {**inputs, "settings": checkpoints.settings}.items()
            }
        except Exception as problem:  # an object of the caller, which may raise anything
            self._report(f"the simulation cannot be identified ({problem}); it continues without checkpoints")

    def read(self) -> Any:
        """The state in the file; None, with a warning, if it is damaged, and None if there is none.

        Raises
        ------
        OtherCheckpoint
            It belongs to another simulation, or is another file than a checkpoint.
        UnusableFile
            The file cannot be read.
        """
        if self._digests is None:
            return None
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise UnusableFile.of(problem, self.path, "read") from None
        if not HEADER.startswith(content[: len(HEADER)]):
            raise OtherCheckpoint("is not a checkpoint of a simulation; remove it, or give another path").in_file(
                str(self.path)
            )
        try:
            header, state = _split(content)
        except (ValueError, KeyError, TypeError) as problem:
            return self._damaged(problem)
        other = [key for key in {**self._digests, **header} if self._digests.get(key) != header.get(key)]
        if other:
            what = ", other ".join(other)
            raise OtherCheckpoint(
                f"is the checkpoint of a simulation with other {what}; remove it, or give another path"
            ).in_file(str(self.path))
        try:
            return pickle.loads(state)
        except Exception as problem:  # code that it names
            return self._damaged(problem)

    def _damaged(self, problem: Exception) -> None:
        warnings.warn(
            f"{self.path}: the checkpoint is damaged ({problem}); the simulation starts from the beginning",
            CheckpointWarning,
            stacklevel=2,
        )

    def write_if_due(self, state: object) -> None:
        """Write the state if the time has come; a state that cannot be written is reported once."""
        if self._digests is None or self.clock() < self._next:
            return
        began = self.clock()
        try:
            content = pickle.dumps(state, pickle.HIGHEST_PROTOCOL)
        except Exception as problem:  # a policy of the caller, whose state may raise anything
            self._report(
                f"the state of the simulation cannot be pickled ({problem}); it continues without new checkpoints"
            )
            self._digests = None
            return
        header = json.dumps({**self._digests, "state": sha256(content).hexdigest()}).encode()
        try:
            save(b"".join((HEADER, header, b"\n", content)), self.path, overwrite=True)
        except UnusableFile as problem:
            self._report(f"{problem}; the simulation continues, and tries again later")
        ended = self.clock()
        self._next = ended + max(self.every, SPACING * (ended - began))

    def _report(self, text: str) -> None:
        """Warn once."""
        if not self._failed:
            warnings.warn(" ".join(text.split()), CheckpointWarning, stacklevel=2)
        self._failed = True


def _split(content: bytes) -> tuple[Digests, bytes]:
    """The digests and the state in a file; ValueError, KeyError or TypeError if it is damaged."""
    first, _, state = content.partition(b"\n")
    header = dict(json.loads(first.removeprefix(HEADER)))
    if header.pop("state") != sha256(state).hexdigest():
        raise ValueError("its state is incomplete")
    return header, state


def digest(value: object) -> str:
    """Hexadecimal digits that depend on values alone: not on identities, caches and the order in sets.

    Functions and classes count by name.
    """
    found = sha256()
    for part in _parts(value):
        found.update(part)
    return found.hexdigest()


PLAIN = (bool, int, float, complex, str, bytes, type(None))
"""Types whose ``repr`` determines the value."""


def _parts(value: Any) -> Iterator[bytes]:
    """Bytes that determine a value."""
    if type(value) in PLAIN:
        yield repr(value).encode(errors="surrogatepass")
    elif isinstance(value, type | FunctionType | BuiltinFunctionType):
        yield f"{value.__module__} {value.__qualname__}".encode()
    elif isinstance(value, np.ndarray) and value.dtype.names is not None:  # bytes between fields have no value
        yield from _parts({name: value[name] for name in value.dtype.names})
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        yield f"{value.dtype.str} {value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, Mapping):
        yield from _items("mapping", [item for pair in value.items() for item in pair])
    elif isinstance(value, Set):
        yield from _items("set", sorted(digest(item) for item in value))
    elif isinstance(value, Sequence):
        yield from _items("sequence", value)
    elif is_dataclass(value):
        yield from _parts(type(value))
        yield from _items("fields", [getattr(value, item.name) for item in fields(value)])
    else:
        yield from _parts(type(value))
        yield from _parts(value.__reduce_ex__(pickle.HIGHEST_PROTOCOL))


def _items(kind: str, items: Sequence[Any]) -> Iterator[bytes]:
    """Bytes that determine a list of values: for the plain ones together, which is fast."""
    yield f"{kind} {[item if type(item) in PLAIN else ... for item in items]!r}".encode(errors="surrogatepass")
    for item in items:
        if type(item) not in PLAIN:
            yield from _parts(item)
