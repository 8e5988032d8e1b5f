"""Errors and warnings of hetopt. Each error is a :class:`HetoptError` and the builtin that a caller would expect.

``except ValueError`` and ``except HetoptError`` therefore both work. The problem and its position are fields;
the message names the key, its value, and the allowed values.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, Self, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""Attributes, names (:class:`Item`) and positions that lead to a value."""


class Item(str):
    """A name that a mapping or a list is indexed with: shown as ``['name']``, an attribute as ``.name``."""

    __slots__ = ()


def format_path(path: str | KeyPath) -> str:
    """``("jobs", Item("a"), "stages", 0, "replicas")`` as ``jobs['a'].stages[0].replicas``."""
    if isinstance(path, str):
        return path
    parts = (f"[{str(p)!r}]" if isinstance(p, Item) else f"[{p}]" if isinstance(p, int) else f".{p}" for p in path)
    return "".join(parts).removeprefix(".")


class HetoptError(Exception):
    """Base of every error that hetopt raises on purpose.

    Attributes
    ----------
    problem:
        The problem, without its position.
    path:
        The path to the value, or the name of the argument; empty if neither is known.
    file, line:
        The file and the line; None if there is none.
    table, row:
        The table and the label of the row; None if there is none.
    """

    def __init__(self, problem: str = "", path: str | KeyPath = ()) -> None:
        super().__init__(problem, path)
        self.problem = problem
        self.path: KeyPath = (path,) if isinstance(path, str) else path
        self.file: str | None = None
        self.line: int | None = None
        self.table: str | None = None
        self.row: Any = None

    @property
    def key(self) -> str:
        """The path as text, e.g. ``jobs['a'].demand``."""
        return format_path(self.path)

    def __str__(self) -> str:
        """Place, key and problem."""
        text = " ".join(filter(None, (self.key, self.problem)))
        place = self._place()
        return " ".join(f"{place}: {text}".split()) if place else text

    def _place(self) -> str:
        if self.row is not None:
            row = f"row {self.row!r}"
            return f"{self.file}: {row}" if self.file else f"{row} of table {self.table}"
        if self.file is not None:
            return self.file if self.line is None else f"{self.file}:{self.line}"
        line = "" if self.line is None else f"line {self.line} of "
        return "" if self.table is None else f"{line}table {self.table}"

    def at(self, path: KeyPath) -> Self:
        """The same error about another path."""
        return self._with(path=path)

    def within(self, *prefix: str | int) -> Self:
        """The same error about a part of ``prefix``."""
        return self._with(path=(*prefix, *self.path))

    def in_file(self, file: str, line: int | None = None) -> Self:
        """The same error with its file and line, unless it has a file already."""
        return self if self.file is not None else self._with(file=file, line=self.line if line is None else line)

    def in_table(self, table: str, row: Any = None, line: int | None = None) -> Self:
        """The same error with its table and the label of its row, or its line in the table's file."""
        return self._with(table=table, row=row, line=line)

    def with_hint(self, hint: str) -> Self:
        """The same error with a further hint on its cause or remedy."""
        return self._with(problem=f"{self.problem}; {hint}")

    def _with(self, **fields: Any) -> Self:
        changed = copy.copy(self)
        changed.__dict__ = {**self.__dict__, **fields}  # a copy may share its dictionary, where Dask is imported
        return changed

    @property
    def reason(self) -> str:
        """The message for a list that names the policy anyway."""
        return str(self)


class InvalidInstance(HetoptError, ValueError):
    """The data (cluster, tenants, jobs, held GPUs) are not a valid instance."""


class NotApplicable(InvalidInstance):
    """A policy shares among tenants (or jobs), and the instance has none; its path is the name of the policy."""

    @property
    def reason(self) -> str:
        """The message without the name of the policy."""
        return self.problem


class SuspiciousSpeedups(UserWarning):
    """Speedups that are not relative to the tenant's slowest GPU type: as if they were throughputs.

    Use :meth:`hetopt.Instance.from_throughputs` for throughputs, or ``throughput`` in files and tables.
    ``any_scale=True`` accepts such speedups.
    """


class UnusableFile(HetoptError, OSError):
    """A file cannot be read or written: it is absent, a folder, protected, or already there."""

    @classmethod
    def of(cls, problem: Exception, path: object, what: str) -> Self:
        """The error for one of the operating system about ``path``, which cannot be ``what`` (read, written)."""
        return cls(f"cannot be {what}: {getattr(problem, 'strerror', None) or problem}").in_file(str(path))


class OtherCheckpoint(UnusableFile):
    """A checkpoint belongs to another simulation than the one that is to continue."""


class InvalidFormulation(HetoptError, ValueError):
    """Components do not fit together, or do not fit the instance."""


class InvalidOption(HetoptError, ValueError):
    """An option or a setting of a policy is out of its range or unknown."""


class NotLinear(HetoptError, TypeError):
    """A Pyomo model has a nonlinear term, where a linear program is required."""


class WritableProof(Protocol):
    """A proof that can be written to a file."""

    def write(self, path: str | Path, comments: Mapping[str, str] | None = None, *, overwrite: bool = False) -> None:
        """Save it as a file in VIPR's format."""


class NotSolved(HetoptError, RuntimeError):
    """The solver returned no usable solution.

    Attributes
    ----------
    status:
        ``"infeasible"``, ``"unbounded"``, ``"time_limit"``, ``"inexact"`` (the exact optimum differs from that in
        floats), or ``"error"``.
    conflict:
        For an infeasible program, names of rows and column bounds that cannot hold together.
    objective, bound:
        For an exact integer program at its time limit, that of the best solution found, and the least upper bound that
        is proven; else None.
    proof:
        For an infeasible program with ``exact=True``, the proof in rational numbers, which its ``write`` saves; None if
        it was not proven within the time limit.
    """

    def __init__(self, message: str, status: str, conflict: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.conflict = tuple(conflict)
        self.objective: Fraction | None = None
        self.bound: Fraction | None = None
        self.proof: WritableProof | None = None

    @classmethod
    def unbounded(cls) -> NotSolved:
        """The error for an objective that has no limit."""
        return cls("the objective can grow without limit; a row that bounds it is missing", "unbounded")

    @classmethod
    def out_of_time(cls, limit: float | None) -> NotSolved:
        """The error for a time limit, in seconds, that left nothing usable; None: a limit of the solver itself."""
        which = "its own time limit" if limit is None else f"time_limit={limit:g} s"
        return cls(f"no usable point within {which}; raise the limit", "time_limit")


class InvalidCertificate(HetoptError, ValueError):
    """A certificate does not prove what it states, or states another program."""


class InvalidPlan(HetoptError, ValueError):
    """A policy's result is not possible in the cluster: too many GPUs, part of a gang, or a forbidden type."""


class Stalled(HetoptError, RuntimeError):
    """No job of a simulation makes progress any more, so that it would never end."""


class PolicyFailed(HetoptError, RuntimeError):
    """A policy failed in a run of an experiment, in whatever way; the cause is its error.

    Attributes
    ----------
    failures:
        Run -> its error, where several may fail.
    """

    failures: Mapping[Any, PolicyFailed] = MappingProxyType({})


class WorkersKilled(PolicyFailed):
    """Each process on other hosts in which a run of an experiment was tried was killed."""


class SolverUnavailable(HetoptError, ImportError):  # type: ignore[misc]  # ImportError defines path, too
    """The solver is unknown, not installed, or has no valid licence."""


class MissingPackage(HetoptError, ImportError):  # type: ignore[misc]
    """A package that comes with an extra of hetopt is not installed.

    Attributes
    ----------
    package, extra:
        The package, and the extra that installs it: ``pip install 'hetopt[extra]'``.
    """

    EXTRAS: ClassVar = {
        "hypothesis": "prove",
        "z3": "prove",
        "sklearn": "predict",
        "pynvml": "run",
        "prometheus_client": "run",
        "networkx": "graphs",
        "dask": "hosts",
        "distributed": "hosts",
        "pyarrow": "parquet",
        "gurobipy": "gurobi",
        "pyscipopt": "scip",
        "torch": "torch",
        "safetensors": "torch",
    }
    """Package, as it is imported -> the extra that installs it."""

    @classmethod
    def of(cls, problem: Exception) -> MissingPackage | None:
        """The error for an import that has failed because of a package of an extra; else None."""
        if isinstance(problem, MissingPackage):
            return problem
        missing = (problem.name or "").partition(".")[0] if isinstance(problem, ModuleNotFoundError) else ""
        return cls(missing) if missing in cls.EXTRAS else None

    def __init__(self, package: str) -> None:
        extra = self.EXTRAS[package]
        super().__init__(f"{package} is not installed; pip install 'hetopt[{extra}]'")
        self.args = (package,)
        self.package, self.extra = package, extra


class UnknownName(HetoptError, KeyError):
    """There is no policy, instance, GPU type … of that name; the message lists the known ones."""


class MetricUnavailable(InvalidOption, UnknownName):
    """The log of a simulation lacks what a metric needs."""


class CheckpointWarning(UserWarning):
    """A checkpoint of a simulation is damaged or cannot be written; the simulation runs nevertheless."""


class LargeModel(UserWarning):
    """A Pyomo model will have millions of terms; building it takes seconds to minutes, and gigabytes."""
