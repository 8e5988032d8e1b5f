"""Data of the pictures of a finding; :mod:`~hetopt.proofs.ledger.finding_drawings` draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias


@dataclass(frozen=True)
class SharesPicture:
    """The (n, k) GPUs of n named owners of k types with (k,) GPUs each, titled e.g. "honest".

    ``worth`` is the (n,) rate of each owner with its GPUs; empty if it is not shown.
    """

    title: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    gpus: tuple[tuple[Fraction, ...], ...]
    capacity: tuple[Fraction, ...]
    worth: tuple[Fraction, ...] = ()


@dataclass(frozen=True)
class TimelineBar:
    """A job on a row (a GPU, a server or a GPU type) from ``start`` to ``end``."""

    row: str
    start: Fraction
    end: Fraction
    job: str


@dataclass(frozen=True)
class Timeline:
    """A schedule, titled e.g. "optimum": the executions of jobs, in a unit of time such as "rounds"."""

    title: str
    bars: tuple[TimelineBar, ...]
    unit: str = "s"


FindingPicture: TypeAlias = SharesPicture | Timeline


def placement_picture(
    title: str, owners: Sequence[str], gpus: Sequence[Sequence[int]], capacity: Sequence[int]
) -> SharesPicture:
    """Picture of the GPUs of each owner on server1, server2 …, which have ``capacity`` GPUs."""
    return shares_picture(title, gpus, capacity, (), owners, "server")


def shares_picture(
    title: str,
    gpus: Sequence[Sequence[Any]],
    capacity: Sequence[Any],
    worth: Sequence[Any],
    names: Sequence[str] = (),
    types: str = "GPU",
) -> SharesPicture:
    """Picture of the shares of tenants u1, u2 … (or ``names``) of GPU1, GPU2 … (or other ``types``)."""
    return SharesPicture(
        title,
        tuple(names) or tuple(f"u{i + 1}" for i in range(len(gpus))),
        tuple(f"{types}{j + 1}" for j in range(len(capacity))),
        tuple(tuple(map(Fraction, row)) for row in gpus),
        tuple(map(Fraction, capacity)),
        tuple(map(Fraction, worth)),
    )
