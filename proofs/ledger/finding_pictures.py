"""Pictures of a finding as data: shares of GPUs, or a schedule; :mod:`~hetopt.proofs.ledger.picture_svg` draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias


@dataclass(frozen=True)
class SharesPicture:
    """How the GPUs are shared.

    Attributes
    ----------
    title:
        E.g. "honest".
    names, types:
        n entities and k GPU types.
    gpus:
        (n, k) GPUs.
    capacity:
        (k,) GPUs of each type.
    worth:
        (n,) worth of the GPUs to their owner; empty if it does not matter.
    """

    title: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    gpus: tuple[tuple[Fraction, ...], ...]
    capacity: tuple[Fraction, ...]
    worth: tuple[Fraction, ...] = ()


@dataclass(frozen=True)
class TimelineBar:
    """A job that runs on a row (a GPU, a server or a GPU type) from ``start`` to ``end``."""

    row: str
    start: Fraction
    end: Fraction
    job: str


@dataclass(frozen=True)
class Timeline:
    """A schedule.

    Attributes
    ----------
    title:
        E.g. "optimum".
    bars:
        The jobs that run.
    unit:
        Unit of time, e.g. "rounds".
    """

    title: str
    bars: tuple[TimelineBar, ...]
    unit: str = "s"


Picture: TypeAlias = SharesPicture | Timeline


def placement_picture(
    title: str, who: Sequence[str], table: Sequence[Sequence[int]], room: Sequence[int]
) -> SharesPicture:
    """Whole GPUs of each owner on server1, server2 …, which have ``room`` GPUs each."""
    servers = tuple(f"server{m + 1}" for m in range(len(room)))
    gpus = tuple(tuple(map(Fraction, row)) for row in table)
    return SharesPicture(title, tuple(who), servers, gpus, tuple(map(Fraction, room)))


def shares_picture(
    title: str,
    gpus: Sequence[Sequence[Any]],
    capacity: Sequence[Any],
    worth: Sequence[Any],
    names: Sequence[str] = (),
) -> SharesPicture:
    """Shares of tenants u1, u2 … (or ``names``) of GPU1, GPU2 …"""
    return SharesPicture(
        title,
        tuple(names) or tuple(f"u{i + 1}" for i in range(len(gpus))),
        tuple(f"GPU{j + 1}" for j in range(len(capacity))),
        tuple(tuple(Fraction(v) for v in row) for row in gpus),
        tuple(Fraction(v) for v in capacity),
        tuple(Fraction(v) for v in worth),
    )
