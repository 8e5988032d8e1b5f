"""What speedups are relative to: the slowest GPU type that a tenant can run on at all (OEF, section 2.3)."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hetopt.errors import SuspiciousSpeedups
from hetopt.tolerances import EQUAL

if TYPE_CHECKING:
    from hetopt.data.entities import Floats
    from hetopt.data.instance import Instance
    from hetopt.data.workload import JobType, Tenant


def slowest(speeds: Mapping[str, float]) -> float:
    """The speed on the slowest GPU type that can be run on at all; one is positive."""
    return min(v for v in speeds.values() if v > 0)


def slowest_of_rows(table: Floats) -> Floats:
    """(n,) :func:`slowest` of each row of an (n, k) table."""
    return np.asarray(np.where(table > 0, table, np.inf).min(axis=1))


def check_scale(smallest: ArrayLike, where: Callable[[int], str], remedy: str) -> None:
    """Warn of speedups that do not begin at 1; the warning points at the caller outside hetopt.

    Parameters
    ----------
    smallest:
        (n,) smallest speedup above zero of each row; no unit.
    where:
        Position of a row -> what it is called.
    remedy:
        What to do where they are throughputs.

    Warns
    -----
    SuspiciousSpeedups
        A row's smallest is not 1, within :data:`~hetopt.tolerances.EQUAL`.
    """
    values = np.asarray(smallest, dtype=float)
    off = np.flatnonzero(np.abs(values - 1.0) > EQUAL).tolist()
    if not off:
        return
    others = f" (rows like this: {len(off)})" if len(off) > 1 else ""
    warnings.warn(
        f"{where(off[0])} has {values[off[0]]:g} as its smallest value above 0, not 1{others}; speedups are relative "
        f"to the slowest GPU type that a tenant can run on. If these are throughputs, {remedy}; "
        "if they are meant as they are, any_scale=True in Python accepts them without this warning",
        SuspiciousSpeedups,
        stacklevel=_caller(),
    )


def check_instance(instance: Instance, where: Callable[[int, Tenant, JobType], str], remedy: str) -> None:
    """As :func:`check_scale` for the tenants of ``instance``; ``where`` gets position, tenant and job type."""
    rows = [(i, tenant, kind) for i, tenant in enumerate(instance.tenants) for kind in tenant.job_types]
    check_scale([slowest(kind.speedup) for _, _, kind in rows], lambda i: where(*rows[i]), remedy)


def _caller() -> int:
    """The ``stacklevel``, seen from who asks, of the nearest frame that is not hetopt's: whom a warning is about."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "hetopt":
        level, frame = level + 1, frame.f_back
    return level
