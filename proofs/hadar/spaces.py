"""Spaces of gangs: which jobs, servers and slots a claim of Hadar's is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from hetopt.proofs.hadar.gangs import Gang, Gangs
from hetopt.proofs.ledger.space import Grid, Numbers, Space, Table, whole

F = Fraction

USUAL: Mapping[str, Fraction] = {"demand": F(1), "work": F(1), "arrival": F(0), "fading": F(0), "speed": F(1)}
"""What tables that a space has not are filled with."""


NO_TABLES: Mapping[str, tuple[Fraction, ...]] = {}


def made(numbers: Numbers) -> Gangs | None:
    """Gangs of the tables; None where a gang has no room on an empty cluster, or a job comes after the last slot.

    Tables are ``worth`` (1, n) and ``gpus`` (h, k), perhaps ``demand``, ``work``, ``arrival``, ``fading`` (1, n),
    ``speed`` (n, k), and ``slots`` (1, 1).
    """
    worth, servers = numbers.row("worth"), tuple(tuple(int(c) for c in row) for row in numbers["gpus"])

    def rows(name: str, rows: int, columns: int) -> Grid:
        return numbers[name] if name in numbers.tables else ((USUAL[name],) * columns,) * rows

    slots = int(numbers.one("slots")) if "slots" in numbers.tables else 1
    n, k = len(worth), len(servers[0])
    columns = zip(*(rows(name, 1, n)[0] for name in ("demand", "work", "arrival", "fading")), strict=True)
    jobs = tuple(
        Gang(int(demand), work, speed, int(arrival), value, bool(fading))
        for value, speed, (demand, work, arrival, fading) in zip(worth, rows("speed", n, k), columns, strict=True)
    )
    case = Gangs(jobs, servers, slots)
    fits = all(
        job.gpus <= sum(c for _, r, c in case.cells if job.speed[r]) and job.arrival < slots and any(job.speed)
        for job in jobs
    )
    return case if fits and all(map(any, servers)) else None


def gangs(
    where: Callable[[Gangs], bool] = lambda _: True,
    *,
    n: tuple[int, int] = (1, 3),
    h: tuple[int, int] = (1, 2),
    k: tuple[int, int] = (1, 2),
    values: Mapping[str, tuple[Fraction, ...]] = NO_TABLES,
) -> Space[Gangs]:
    """Gangs for which ``where`` holds.

    Parameters
    ----------
    values:
        Entries of the tables, of which those that are absent are as usual.
    """
    shapes: dict[str, tuple[str | int, str | int]] = {"gpus": ("h", "k"), "speed": ("n", "k"), "slots": (1, 1)}
    entries = {"worth": whole(1, 9), "gpus": whole(1, 2), **values}
    tables = {name: Table(*shapes.get(name, (1, "n")), ladder) for name, ladder in entries.items()}

    def build(numbers: Numbers) -> Gangs | None:
        case = made(numbers)
        return case if case is not None and where(case) else None

    return Space({"n": n, "h": h, "k": k}, tables, build)
