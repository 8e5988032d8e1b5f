"""Errors and warnings of hetopt. Each error is a :class:`HetoptError` and the builtin that a caller would expect.

``except ValueError`` and ``except HetoptError`` therefore both work. A message names the
offending key, its value, and what would be right.
"""

from __future__ import annotations

from collections.abc import Sequence


class HetoptError(Exception):
    """Base of every error that hetopt raises on purpose."""


class InvalidInstance(HetoptError, ValueError):
    """The data (cluster, tenants, jobs, held GPUs) are not a valid instance."""


class SuspiciousSpeedups(UserWarning):
    """Speedups that are not relative to the tenant's slowest GPU type: they look like throughputs.

    Throughputs go to :meth:`hetopt.Instance.from_throughputs`, or stand under ``throughput`` in files and tables. Where
    speedups are meant as they are, ``any_scale=True`` says so.
    """


class UnusableFile(HetoptError, OSError):
    """A file cannot be read or written: it is absent, a folder, protected, or already there."""


class InvalidFormulation(HetoptError, ValueError):
    """Components that do not fit together, or do not fit the instance."""


class InvalidOption(HetoptError, ValueError):
    """An option or a setting of a policy is out of its range or unknown."""


class NotLinear(HetoptError, TypeError):
    """A Pyomo model holds a term that is not linear, where a linear program was asked for."""


class NotSolved(HetoptError, RuntimeError):
    """The solver returned no usable solution.

    Attributes
    ----------
    status:
        What stopped it: ``"infeasible"``, ``"unbounded"``, ``"time_limit"``, ``"inexact"`` (an exact optimum that is
        not that of floats), ``"error"``.
    conflict:
        For an infeasible program, names of rows and column bounds that cannot hold together.
    """

    def __init__(self, message: str, status: str, conflict: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.conflict = tuple(conflict)

    @classmethod
    def unbounded(cls) -> NotSolved:
        """The error for an objective that has no limit."""
        return cls("the objective can grow without limit; a row that bounds it is missing", "unbounded")

    @classmethod
    def out_of_time(cls, limit: float | None) -> NotSolved:
        """The error for a time limit, in seconds, that left nothing usable; None: a limit of the solver itself."""
        which = "its own time limit" if limit is None else f"time_limit={limit:g} s"
        return cls(f"no usable point within {which}; raise the limit", "time_limit")


class InvalidPlan(HetoptError, ValueError):
    """A policy's result that the cluster could not carry out: too many GPUs, part of a gang, a forbidden type."""


class Stalled(HetoptError, RuntimeError):
    """A simulation in which no job makes progress any more, so that it would never end."""


class SolverUnavailable(HetoptError, ImportError):
    """The solver is unknown, not installed, or has no valid licence."""


class UnknownName(HetoptError, KeyError):
    """A name of a policy, an instance, a GPU type … that does not exist; known ones are listed."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class LargeModel(UserWarning):
    """A Pyomo model will have millions of terms; building it takes seconds to minutes, and gigabytes."""
