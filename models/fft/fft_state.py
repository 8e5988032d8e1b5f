"""State of FFT between rounds: mappings from jobs, kept as arrays in the order of the jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from hetopt.checks import FrozenDict
from hetopt.data.array_types import Floats, Numbers, Positions
from hetopt.data.entities import Entities, read_only
from hetopt.models.fft.proven_round import ProvenRound

Value = TypeVar("Value", float, str)


class ByJob(Mapping[str, Value], Generic[Value]):
    """Job -> value, read-only, as an array over the jobs of a round.

    A mapping that is built in every round costs more than all the arithmetic of the round.

    Parameters
    ----------
    names:
        n jobs.
    array:
        (n,) numbers, NaN where the job has no value; with ``labels``, their positions, -1 where it has none.
    labels:
        The values that positions stand for; None: the numbers are the values.
    """

    def __init__(
        self, names: tuple[str, ...], array: Floats | Positions, labels: Sequence[Value] | None = None
    ) -> None:
        self.names = names
        self.labels: Sequence[Value] | None = labels
        self.array: Numbers = read_only(array)
        self._dict: dict[str, Value] | None = None

    @property
    def _made(self) -> dict[str, Value]:
        if self._dict is None:
            found = np.flatnonzero(~np.isnan(self.array) if self.labels is None else self.array >= 0)
            values: list[Any] = self.array[found].tolist()
            own = values if self.labels is None else [self.labels[i] for i in values]
            self._dict = dict(zip([self.names[e] for e in found.tolist()], own, strict=True))
        return self._dict

    def of(self, names: tuple[str, ...]) -> Numbers:
        """(n,) as :attr:`array`, for these jobs."""
        if names == self.names:
            return self.array
        none = np.array([np.nan if self.labels is None else -1], dtype=self.array.dtype)
        return np.concatenate([self.array, none])[_rows(names, self.names)]

    def __getitem__(self, job: str) -> Value:
        return self._made[job]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __setitem__(self, job: str, value: Value) -> NoReturn:
        raise TypeError("this mapping is read-only; make a changed copy with dict(mapping)")

    def __repr__(self) -> str:
        return repr(self._made)

    def __hash__(self) -> int:
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type[FrozenDict[str, Value]], tuple[dict[str, Value]]]:
        """Pickle as a dict: names are then stored once, and the order of the jobs may change."""
        return FrozenDict, (self._made,)


@lru_cache(maxsize=2)
def _rows(names: tuple[str, ...], of: tuple[str, ...]) -> Positions:
    """(n,) position of each of the ``names`` in ``of``, -1 where it is missing."""
    position = {name: i for i, name in enumerate(of)}
    return read_only(np.array([position.get(name, -1) for name in names], dtype=np.intp))


def numbers_of(given: Mapping[str, float], entities: Entities, missing: float) -> Floats:
    """(n,) value of each job."""
    if isinstance(given, ByJob):
        values = given.of(entities.names)
        return np.asarray(np.where(np.isnan(values), missing, values))
    return np.array([given.get(name, missing) for name in entities.names])


def types_of(given: Mapping[str, str], entities: Entities) -> Positions:
    """(n,) position of each job's GPU type, -1 where it has none or the type does not exist."""
    if isinstance(given, ByJob) and given.labels == entities.types:
        return np.asarray(given.of(entities.names))
    place = {name: i for i, name in enumerate(entities.types)}
    return np.array([place.get(given.get(name, ""), -1) for name in entities.names], dtype=np.intp)


def covers(given: Mapping[str, float], entities: Entities, jobs: NDArray[np.bool_]) -> bool:
    """Whether the keys are exactly these of the jobs, given as (n,) True or False."""
    if isinstance(given, ByJob):
        own = ~np.isnan(given.of(entities.names))
        return np.array_equal(own, jobs) and np.count_nonzero(~np.isnan(given.array)) == np.count_nonzero(own)
    return given.keys() == {entities.names[e] for e in np.flatnonzero(jobs).tolist()}


@dataclass(frozen=True)
class FFTState:
    """State of FFT between calls.

    Attributes
    ----------
    time:
        Start of the last round, in seconds.
    rho:
        Job -> its deficit relative to the fair share at that time, [FFT, eq. 5]: in parts of the job (normalised), or
        in work as printed.
    tau:
        Job -> completion time under the fair share, in seconds since the instance's time 0. Its keys are the jobs that
        were present and could run.
    last:
        Job -> GPU type on which it was last executed before that round.
    planned:
        Job -> GPU type assigned in the round; waiting jobs are absent.
    proven:
        The last round that was searched or proven by prices, and its bound; None: the next round is solved. It changes
        only how the next plan is proven, so states that differ only here are equal.
    """

    time: float
    rho: Mapping[str, float] = field(default_factory=dict)
    tau: Mapping[str, float] = field(default_factory=dict)
    last: Mapping[str, str] = field(default_factory=dict)
    planned: Mapping[str, str] = field(default_factory=dict)
    proven: ProvenRound | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for key in ("rho", "tau", "last", "planned"):
            if not isinstance(given := getattr(self, key), ByJob):
                object.__setattr__(self, key, FrozenDict(given))
