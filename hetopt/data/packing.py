"""Two jobs on the same GPUs: how fast jobs of two models run together, and who shares GPUs for which part of time.

Each of two jobs that share GPUs counts half of each of them, so that the GPUs of all jobs add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from hetopt.checks import FrozenDict, count, counted, known, mapping, number, shown, text
from hetopt.data.array_types import Floats, Positions
from hetopt.errors import InvalidInstance, Item, KeyPath

WANTED = "it must be two parts above 0 and at most 1, of the first and of the second model"


@dataclass(frozen=True)
class Packing:
    """The parts of their isolated rates that jobs of two models keep while they share their GPUs [Gavel, section 3.1].

    Parameters
    ----------
    models:
        The two models (:attr:`hetopt.Job.model`); they may be the same.
    parts:
        GPU type -> parts of the first and of the second model's job, each above 0 and at most 1. Two jobs of these
        models cannot share GPUs of other types.
    gpus:
        Size of the gangs for which the parts hold, the same for both jobs. None: any size for which no other packing
        of these models holds.

    Raises
    ------
    InvalidInstance
        Not two models, a part out of its range, different parts for one model, no GPU type.
    """

    models: tuple[str, str]
    parts: Mapping[str, tuple[float, float]]
    gpus: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.models, tuple | list) or len(self.models) != 2:
            raise InvalidInstance(f"is {shown(self.models)}; it must be two names of models", "packings[].models")
        first, second = (text(model, "packings[].models") for model in self.models)
        object.__setattr__(self, "models", (first, second))
        if self.gpus is not None:
            size = count(self.gpus, ("packings", Item(packing_name(self.models)), "gpus"), least=1)
            object.__setattr__(self, "gpus", size)
        key: KeyPath = ("packings", Item(self.name), "parts")
        given = mapping(self.parts, key)
        if not given:
            raise InvalidInstance("is empty; it must have at least one GPU type", key)
        parts = {t: _two_parts(own, (*key, Item(t))) for t, own in given.items()}
        for t, own in parts.items():
            if first == second and own[0] != own[1]:
                raise InvalidInstance(f"is {own!r}; two jobs of one model keep the same part", (*key, Item(t)))
        object.__setattr__(self, "parts", FrozenDict(parts))

    @property
    def name(self) -> str:
        """The models and the size of the gangs, for messages."""
        return packing_name(self.models, self.gpus)

    def reversed(self) -> Packing:
        """The same with the models in the other order."""
        parts = {t: (second, first) for t, (first, second) in self.parts.items()}
        return Packing((self.models[1], self.models[0]), parts, self.gpus)


def packing_name(models: Iterable[str], gpus: int | None = None) -> str:
    """``A + B``, or ``A + B on 2 GPUs`` where a packing holds for gangs of one size."""
    names = " + ".join(models)
    return names if gpus is None else f"{names} on {counted(gpus, 'GPU')}"


def _two_parts(own: object, key: KeyPath) -> tuple[float, float]:
    if not isinstance(own, tuple | list) or len(own) != 2:
        raise InvalidInstance(f"is {shown(own)}; {WANTED}", key)
    first, second = (number(part, key, strict=True) for part in own)
    if max(first, second) > 1:
        raise InvalidInstance(f"is {shown(own)}; {WANTED}", key)
    return first, second


PackingTable = Mapping[tuple[str, str, int | None], Packing]
"""(model, other model, size of the gangs) -> their packing, in both orders of the models."""


def packing_table(packings: Iterable[Packing], types: Iterable[str]) -> PackingTable:
    """The packings by their models.

    Raises
    ------
    InvalidInstance
        A GPU type that is not one of ``types``, or two packings for the same models and size.
    """
    types, table = tuple(types), dict[tuple[str, str, int | None], Packing]()
    for one in packings:
        key: KeyPath = ("packings", Item(one.name))
        for t in one.parts:
            known(t, types, (*key, "parts"), "GPU type")
        if (*one.models, one.gpus) in table:
            size = "any size" if one.gpus is None else f"gangs of {one.gpus}"
            raise InvalidInstance(f"occurs twice for {size}; give one packing for two models and a size", key)
        table[one.models[0], one.models[1], one.gpus] = one
        table.setdefault((one.models[1], one.models[0], one.gpus), one.reversed())
    return FrozenDict(table)


def parts_of(table: PackingTable, model: str | None, other: str | None, gpus: int) -> Mapping[str, tuple[float, float]]:
    """GPU type -> parts of a job of ``model`` and of one of ``other`` with gangs of ``gpus``; empty: they never share.

    A packing for this size comes before one for any size.
    """
    if model is None or other is None:
        return FrozenDict()
    found = table.get((model, other, gpus)) or table.get((model, other, None))
    return FrozenDict() if found is None else found.parts


@dataclass(frozen=True, eq=False)
class PackedShares:
    """Parts of time in which jobs run alone and in pairs that share their GPUs.

    Attributes
    ----------
    alone:
        (n, k) part of the time in which each job runs alone on each GPU type.
    pairs:
        (p, 2) positions of the two jobs of each pair.
    together:
        (p, k) part of the time in which they share their GPUs of each type.
    """

    alone: Floats
    pairs: Positions
    together: Floats

    def gpus(self, demand: Floats) -> Floats:
        """(n, k) GPUs on average; ``demand``: (n,) GPUs of each gang. Each job of a pair counts half of the pair's."""
        time = self.alone.copy()
        for jobs in self.pairs.T:
            np.add.at(time, jobs, self.together / 2)
        return np.asarray(demand[:, None] * time)
