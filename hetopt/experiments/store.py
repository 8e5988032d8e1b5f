"""Tables of a run as they come back from its folder, in the types in which the simulation made them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import pandas as pd

from hetopt.checks import FrozenDict, shown
from hetopt.data.saving import save
from hetopt.errors import InvalidInstance, InvalidOption, UnusableFile
from hetopt.metrics.log_reading import seats_in
from hetopt.simulation.log import ROUNDS, SPANS, Log

ENDINGS = ("csv.gz", "parquet")
"""Of the files."""

COLUMNS = {
    "jobs": ("tenant", "demand", "arrival", "start", "finish", "jct", "work", "done", "rounds", "lost"),
    "spans": tuple(SPANS),
    "rounds": tuple(ROUNDS),
    "decision_seconds": ("seconds",),
}
"""What tables cannot do without; the others have a column for each tenant."""

TEXTS = ("job", "tenant", "servers", "gpu_type", "seats", "given_up")
"""Columns of text: no number, and no word such as NA, is anything else there."""


def read_table(folder: Path, name: str) -> pd.DataFrame:
    """The table of that name.

    Raises
    ------
    FileNotFoundError
        It is not there.
    ValueError, OSError, EOFError, ImportError
        It cannot be read, or lacks a column.
    """
    path = folder / f"{name}.csv.gz"
    frame = _cells(path, name) if path.exists() else pd.read_parquet(folder / f"{name}.parquet")
    if missing := [column for column in COLUMNS.get(name, ()) if column not in frame]:
        raise ValueError(f"column {missing[0]} is missing")
    return _typed(frame, name)


def _cells(path: Path, name: str) -> pd.DataFrame:
    """A table as it was written. A job may be called 001, 1e3 or NA, and a tenant "servers"."""
    columns = pd.read_csv(path, nrows=0).columns
    texts = [column for column in columns if column in TEXTS and name in COLUMNS]
    return pd.read_csv(
        path,
        index_col=0,
        dtype=dict.fromkeys(texts, str),
        keep_default_na=False,
        na_values={column: [""] for column in columns if column not in texts},
    )


def _check(frame: pd.DataFrame, name: str) -> None:
    """Raise ValueError where something else than a number stands in a column of numbers, or seats are none."""
    for column in frame.columns:
        if column in TEXTS and name in COLUMNS:
            continue
        try:
            pd.to_numeric(frame[column])
        except (TypeError, ValueError) as problem:
            raise ValueError(f"column {column}: {problem}") from None
    for text in frame["seats"].unique().tolist() if name == "spans" else ():
        seats_in(text)


def _typed(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The table as the simulation made it."""
    _check(frame, name)
    if name == "jobs":
        frame.index = frame.index.astype(str)
        frame["rounds"] = frame["rounds"].astype("Int64")
    if name == "rounds":
        frame["given_up"] = frame["given_up"].map(json.loads)
    if name not in COLUMNS:
        frame.columns.name = "tenant"
        frame.index = frame.index.astype(float if name == "estimated" else int)
    for column in ("job", "tenant", "servers", "gpu_type", "seats"):
        if column in frame and name in ("jobs", "spans"):
            none, missing = "" if column == "servers" else None, (frame[column].isna() | (frame[column] == "")).tolist()
            texts = [none if gone else str(value) for value, gone in zip(frame[column], missing, strict=True)]
            frame[column] = pd.Series(texts, index=frame.index, dtype=object)
    return frame


Format = Literal["csv", "parquet"]
TABLES = ("jobs", "spans", "rounds", "throughput", "estimated", "decision_seconds")
"""Tables of a log that are stored; events follow from the others."""

VERSION = 1
"""Of the files."""


@dataclass(frozen=True)
class Key:
    """Which run: labels of trace and system, and the seed."""

    workload: str
    system: str
    seed: int

    def folder(self) -> Path:
        """Where it lies in the folder of runs."""
        return Path(_plain(self.workload)) / _plain(self.system) / f"seed-{self.seed}"

    def __str__(self) -> str:
        return f"{self.system} on {self.workload}, seed {self.seed}"


def _plain(label: str) -> str:
    """A label as the name of a folder."""
    return re.sub(r"[^\w.=+-]+", "_", label).strip("._") or "_"


@dataclass(frozen=True)
class Outcome:
    """How a run went.

    Attributes
    ----------
    key, settings:
        Which, and what made it.
    summary:
        Metric -> value (:data:`hetopt.metrics.overall.DEFINITIONS`); empty where it was refused.
    seconds:
        Wall-clock time of the simulation.
    refused:
        Why the system could not run it; None where it did.
    capacity, source:
        GPUs of the cluster; what the instance says of itself.
    round_seconds:
        Length of a round; None: decisions at arrivals and completions.
    """

    key: Key
    settings: Mapping[str, Any]
    summary: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    refused: str | None = None
    capacity: float = 0.0
    source: str = ""
    round_seconds: float | None = None


@dataclass(frozen=True)
class Store:
    """A folder of runs.

    Parameters
    ----------
    path:
        The folder.
    format:
        Of the tables: ``"csv"`` (compressed) or ``"parquet"`` (needs pyarrow).

    Raises
    ------
    InvalidOption
        Another format, or parquet where pyarrow is not installed.
    """

    path: Path
    format: Format = "csv"

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        if self.format not in get_args(Format):
            raise InvalidOption(f"format is {self.format!r}; it must be csv or parquet")
        if self.format == "parquet" and find_spec("pyarrow") is None:
            raise InvalidOption("format is 'parquet', which needs pyarrow: pip install 'hetopt[parquet]', or take csv")

    def has(self, key: Key, settings: Mapping[str, Any]) -> bool:
        """Whether the run is there, made with the same settings; one that was refused is not, and is tried again.

        Raises
        ------
        InvalidOption
            It is there, but was made with others.
        """
        folder = self.path / key.folder()
        if not (folder / "run.json").exists():
            return False
        found = _read(folder / "run.json")
        if (there := Run(folder).key) != key:
            raise InvalidOption(f"{key} would lie in {folder}, where {there} lies; name another folder with --out")
        if found["refused"] is not None:
            return False
        before, now = found["settings"], _round_trip(settings)
        if before != now:
            changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
            was, shall = (json.dumps(own.get(changed[0])) for own in (before, now))
            raise InvalidOption(
                f"{folder} holds {key} with other settings ({changed[0]} was {was} and is to be {shall}); "
                "name another folder with --out, or remove it"
            )
        return all(self._has_table(folder, name) for name in TABLES)

    def _has_table(self, folder: Path, name: str) -> bool:
        return any((folder / f"{name}.{ending}").exists() for ending in ENDINGS)

    def write(self, outcome: Outcome, log: Log | None) -> None:
        """Store a run; it counts as there once all of it is.

        Raises
        ------
        UnusableFile
            The folder cannot be written.
        """
        folder = self.path / outcome.key.folder()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise UnusableFile(f"{folder} cannot be made: {problem.strerror or problem}") from None
        for name in TABLES if log is not None else ():
            content, ending = self._table(getattr(log, name))
            save(content, folder / f"{name}.{ending}", overwrite=True)
        data = {
            "version": VERSION,
            "workload": outcome.key.workload,
            "system": outcome.key.system,
            "seed": outcome.key.seed,
            "settings": _round_trip(outcome.settings),
            "summary": {key: _plain_number(value) for key, value in outcome.summary.items()},
            "seconds": outcome.seconds,
            "refused": outcome.refused,
            "capacity": outcome.capacity,
            "source": outcome.source,
            "round_seconds": outcome.round_seconds,
            "end": None if log is None else log.end,
        }
        save(json.dumps(data, indent=1) + "\n", folder / "run.json", overwrite=True)

    def _table(self, table: pd.DataFrame | pd.Series[Any]) -> tuple[bytes, str]:
        frame = table.to_frame() if isinstance(table, pd.Series) else table.copy()
        if "given_up" in frame:
            frame["given_up"] = frame["given_up"].map(json.dumps)
        buffer = BytesIO()
        if self.format == "parquet":
            frame.columns = frame.columns.astype(str)
            frame.to_parquet(buffer)
            return buffer.getvalue(), "parquet"
        frame.to_csv(buffer, compression={"method": "gzip", "mtime": 0}, float_format="%.17g")
        return buffer.getvalue(), "csv.gz"

    def runs(self) -> list[Run]:
        """All runs, by trace, system and seed.

        Raises
        ------
        UnusableFile, InvalidInstance
            There is no such folder, it holds no run, or a file that is none.
        """
        if not self.path.is_dir():
            raise UnusableFile(f"{self.path} is no folder; hetopt simulate … --out FOLDER makes one")
        found = [Run(file.parent) for file in sorted(self.path.rglob("run.json"))]
        if not found:
            raise InvalidInstance(f"{self.path} holds no run; hetopt simulate … --out {self.path} makes some")
        return sorted(found, key=lambda run: (run.key.workload, run.key.system, run.key.seed))

    def table(self, keys: Iterable[Key] | None = None) -> pd.DataFrame:
        """A row per run (these, or all): ``workload``, ``system``, ``seed``, ``refused``, ``round_seconds``, metrics.

        Raises
        ------
        UnusableFile, InvalidInstance
            As of :meth:`runs`, or one of the keys is not there.
        """
        found = self.runs() if keys is None else [Run(self.path / key.folder()) for key in keys]
        rows = [
            {
                "workload": run.key.workload,
                "system": run.key.system,
                "seed": run.key.seed,
                "refused": run.data["refused"],
                "round_seconds": run.data.get("round_seconds"),
                **{key: math.nan if value is None else value for key, value in run.data["summary"].items()},
            }
            for run in found
        ]
        return pd.DataFrame(rows)

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs())


@dataclass(frozen=True)
class Run:
    """A stored run.

    Attributes
    ----------
    folder:
        Where it lies.
    """

    folder: Path

    @cached_property
    def data(self) -> Mapping[str, Any]:
        """What ``run.json`` says: settings, summary (None for what is not known), wall-clock seconds."""
        return FrozenDict(_read(self.folder / "run.json"))

    @property
    def key(self) -> Key:
        """Which run it is."""
        return Key(self.data["workload"], self.data["system"], self.data["seed"])

    def table(self, name: str) -> pd.DataFrame:
        """One of the tables of the log.

        Raises
        ------
        UnusableFile, InvalidInstance
            It is not there, say because the system refused the run; or it cannot be read.
        """
        try:
            return read_table(self.folder, name)
        except FileNotFoundError:
            raise UnusableFile(
                f"{self.folder} has no table {name!r}; {self.data['refused'] or 'run it again'}"
            ) from None
        except (ValueError, OSError, EOFError, ImportError) as problem:
            text = " ".join(str(problem).split())
            raise InvalidInstance(
                f"{self.folder}: table {name!r} cannot be read: {text}; remove {self.folder} and run it again"
            ) from None

    @cached_property
    def log(self) -> Log:
        """The log, without its events."""
        took = self.table("decision_seconds")["seconds"]
        tables = {name: self.table(name) for name in TABLES if name != "decision_seconds"}
        events = pd.DataFrame(columns=["time", "kind", "job"])
        return Log(
            **tables, events=events, capacity=float(self.data["capacity"]), decision_seconds=took, end=self.data["end"]
        )


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise InvalidInstance(f"{path} is no record of a run: {problem}; remove its folder and run it again") from None
    if not isinstance(data, dict):
        raise InvalidInstance(f"{path} is no record of a run; remove its folder and run it again")
    missing = {"version", "workload", "system", "seed", "settings", "summary", "refused", "capacity", "end"} - set(data)
    if missing or data["version"] != VERSION:
        raise InvalidInstance(f"{path} is no record of a run of this version; remove its folder and run it again")
    for key, kind in KINDS.items():
        if not isinstance(data[key], kind) or isinstance(data[key], bool):
            raise InvalidInstance(
                f"{path}: {key} is {shown(data[key])}, as no run has written it; remove its folder and run it again"
            )
    for key, value in data["summary"].items():
        if not isinstance(value, int | float | None) or isinstance(value, bool):
            raise InvalidInstance(
                f"{path}: summary.{key} is {shown(value)}, which is no number; remove its folder and run it again"
            )
    return data


KINDS: Mapping[str, Any] = {
    "workload": str,
    "system": str,
    "seed": int,
    "settings": dict,
    "summary": dict,
    "refused": str | None,
    "capacity": int | float,
    "end": int | float | None,
}
"""What ``run.json`` says -> of which type it is; ``capacity`` in GPUs, ``end`` in seconds."""


def _round_trip(settings: Mapping[str, Any]) -> dict[str, Any]:
    return dict(json.loads(json.dumps(settings, default=str)))


def _plain_number(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return float(value) if math.isfinite(value) else None


def folder_of(path: str | PathLike[str]) -> Store:
    """The folder of runs at ``path``; tables of both formats can be read."""
    return Store(Path(path))
