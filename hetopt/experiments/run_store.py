"""The folder in which results of simulations are stored: a record and the tables of the log for each run."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, get_args

import pandas as pd

from hetopt.checks import shown
from hetopt.data.saving import save
from hetopt.errors import InvalidInstance, InvalidOption, UnusableFile
from hetopt.metrics.log_reading import seats_in
from hetopt.simulation.log import ROUNDS, SPANS, Log

ENDINGS = ("csv.gz", "parquet")
"""Endings of files of tables."""


@dataclass(frozen=True)
class TableLayout:
    """Columns of a table of a run.

    Attributes
    ----------
    index:
        Type of the index.
    columns:
        Required columns; None: a column of numbers per tenant.
    texts:
        Columns of text (the index included), in which numbers and words such as NA are names.
    json:
        Columns of JSON.
    """

    index: type
    columns: tuple[str, ...] | None
    texts: tuple[str, ...] = ()
    json: tuple[str, ...] = ()


TABLES: Mapping[str, TableLayout] = {
    "jobs": TableLayout(
        str,
        ("tenant", "demand", "arrival", "start", "finish", "jct", "work", "done", "rounds", "lost"),
        texts=("job", "tenant"),
    ),
    "spans": TableLayout(int, tuple(SPANS), texts=("job", "tenant", "servers", "gpu_type", "seats")),
    "rounds": TableLayout(int, tuple(ROUNDS), json=("given_up",)),
    "throughput": TableLayout(int, None),
    "estimated": TableLayout(float, None),
    "decision_seconds": TableLayout(float, ("seconds",)),
}
"""Stored tables of a log; events follow from the others."""


def read_table(folder: Path, name: str) -> pd.DataFrame:
    """Read a table of a run with the types that the simulation used.

    Raises
    ------
    FileNotFoundError
        It does not exist.
    ValueError, OSError, EOFError, ImportError
        It cannot be read, lacks a column, or has an invalid cell.
    """
    path, layout = folder / f"{name}.csv.gz", TABLES[name]
    frame = _read_csv(path, layout) if path.exists() else pd.read_parquet(folder / f"{name}.parquet")
    if missing := [column for column in layout.columns or () if column not in frame]:
        raise ValueError(f"column {missing[0]} is missing")
    frame.index = frame.index.astype(layout.index)
    if layout.columns is None:
        frame.columns.name = "tenant"
    for column in frame.columns:
        if column in layout.json:
            frame[column] = frame[column].map(json.loads)
        elif column in layout.texts:
            frame[column] = _names(frame[column])
        else:
            _check_numbers(frame[column])
    if name == "jobs":
        frame["rounds"] = frame["rounds"].astype("Int64")
    if name == "spans":
        for text in frame["seats"].unique().tolist():
            seats_in(text)
    return frame


def _read_csv(path: Path, layout: TableLayout) -> pd.DataFrame:
    """Read a CSV table without changing names: a job may be named 001, 1e3 or NA, and a tenant "servers"."""
    columns = pd.read_csv(path, nrows=0).columns
    texts = [column for column in columns if column in (*layout.texts, *layout.json)]
    return pd.read_csv(
        path,
        index_col=0,
        dtype=dict.fromkeys(texts, str),
        keep_default_na=False,
        na_values={column: [""] for column in columns if column not in texts},
    )


def _names(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column of text; missing cells are None, or "" for servers."""
    none, missing = "" if column.name == "servers" else None, (column.isna() | (column == "")).tolist()
    texts = [none if gone else str(value) for value, gone in zip(column, missing, strict=True)]
    return pd.Series(texts, index=column.index, dtype=object)


def _check_numbers(column: pd.Series[Any]) -> None:
    """Raise ValueError for a cell that is not a number."""
    try:
        pd.to_numeric(column)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"column {column.name}: {problem}") from None


TableFormat = Literal["csv", "parquet"]

ANOTHER_FOLDER = "give RunStore another path (--out on the command line)"
RUN_STORES = "Experiment.run stores runs (hetopt simulate on the command line)"

VERSION = 1
"""Version of the format of run.json."""


@dataclass(frozen=True)
class RunKey:
    """Identifies a run: labels of workload and system, and the seed."""

    workload: str
    system: str
    seed: int

    def folder(self) -> Path:
        """Its path in the folder of runs."""
        return Path(_folder_name(self.workload)) / _folder_name(self.system) / f"seed-{self.seed}"

    def __str__(self) -> str:
        return f"{self.system} on {self.workload}, seed {self.seed}"


def _folder_name(label: str) -> str:
    """A label as the name of a folder."""
    return re.sub(r"[^\w.=+-]+", "_", label).strip("._") or "_"


@dataclass(frozen=True)
class RunRecord:
    """The result of a run.

    Attributes
    ----------
    key, settings:
        Which run, and everything that determines its result.
    summary:
        Metric -> value (:data:`hetopt.metrics.definitions.METRICS`); empty if it was refused.
    seconds:
        Wall-clock time of the run: making the workload, the simulation (also in earlier processes) and its metrics.
    refused:
        Why the system cannot run it; None if it ran.
    capacity, source:
        GPUs of the cluster; the source of the instance.
    round_seconds:
        Length of a round; None: decisions at arrivals and completions.
    end:
        Last second of the simulation; NaN if it was refused.
    """

    key: RunKey
    settings: Mapping[str, Any]
    summary: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    refused: str | None = None
    capacity: float = 0.0
    source: str = ""
    round_seconds: float | None = None
    end: float = math.nan

    @property
    def system_name(self) -> str:
        """Name of the system that ran, whatever its label."""
        return str(self.settings.get("system", self.key.system))

    @property
    def job_window(self) -> tuple[int, int] | None:
        """The jobs over which its metrics of jobs are, see :class:`~hetopt.Log`."""
        found = self.settings.get("job_window")
        return None if found is None else (int(found[0]), int(found[1]))

    def as_dict(self) -> dict[str, Any]:
        """The contents of ``run.json``; unknown numbers are None."""
        own = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "key"}
        own["settings"] = _round_trip(self.settings)
        own["summary"] = {key: _json_number(value) for key, value in self.summary.items()}
        own["end"] = _json_number(self.end)
        return {"version": VERSION, **asdict(self.key), **own}

    @classmethod
    def read(cls, path: Path) -> RunRecord:
        """The record in a file ``run.json``.

        Raises
        ------
        InvalidInstance
            It cannot be read, or has an invalid value.
        """
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            fault = _fault(data)
        except (OSError, ValueError) as problem:
            data, fault = {}, f"it is not a record of a run: {problem}"
        if fault:
            raise InvalidInstance(f"{fault}; remove its folder and run it again").in_file(str(path))
        key = RunKey(**{item.name: data.pop(item.name) for item in fields(RunKey)})
        own = {item.name: data[item.name] for item in fields(cls) if item.name in data}
        own["summary"] = {name: _known_number(value) for name, value in data["summary"].items()}
        own["end"] = _known_number(data["end"])
        return cls(key, **own)


KINDS: Mapping[str, Any] = {
    "workload": str,
    "system": str,
    "seed": int,
    "settings": dict,
    "summary": dict,
    "seconds": int | float,
    "refused": str | None,
    "capacity": int | float,
    "source": str,
    "round_seconds": int | float | None,
    "end": int | float | None,
}
"""Key of ``run.json`` -> its type."""

ADDED = {"seconds", "source", "round_seconds"}
"""Keys that records of earlier versions may lack; they have the defaults of :class:`RunRecord`."""


def _fault(data: Any) -> str:
    """The first fault of the contents of ``run.json``; empty if there is none."""
    if not isinstance(data, dict) or not {"version", *KINDS} - ADDED <= set(data) or data["version"] != VERSION:
        return "it is not a record of a run of this version"
    for key, kind in KINDS.items():
        if key in data and (not isinstance(data[key], kind) or isinstance(data[key], bool)):
            return f"{key} is {shown(data[key])}, which is not valid"
    for key, value in data["summary"].items():
        if not isinstance(value, int | float | None) or isinstance(value, bool):
            return f"summary.{key} is {shown(value)}, which is not a number"
    return ""


def _json_number(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return float(value) if math.isfinite(value) else None


def _known_number(value: float | None) -> float:
    """The number that :func:`_json_number` has stored."""
    return math.nan if value is None else value


def _change(before: Mapping[str, Any], now: Mapping[str, Any], place: str = "") -> str:
    """The first setting that differs, in words; empty if none does."""
    for key in {**before, **now}:
        was, new = before.get(key), now.get(key)
        if was == new:
            continue
        if isinstance(was, dict) and isinstance(new, dict):
            return _change(was, new, f"{place}{key}.")
        texts = [json.dumps(given[key]) if key in given else "the default" for given in (before, now)]
        return f"{place}{key} was {texts[0]} and is to be {texts[1]}"
    return ""


def _round_trip(settings: Mapping[str, Any]) -> dict[str, Any]:
    return dict(json.loads(json.dumps(settings, default=str)))


@dataclass(frozen=True)
class RunStore:
    """A folder of runs.

    Parameters
    ----------
    path:
        The folder.
    format:
        Format of the tables: ``"csv"`` (compressed) or ``"parquet"`` (needs pyarrow).

    Raises
    ------
    InvalidOption
        Another format, or parquet without pyarrow.
    """

    path: Path
    format: TableFormat = "csv"

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        if self.format not in get_args(TableFormat):
            raise InvalidOption(f"is {shown(self.format)}; it must be csv or parquet", "format")
        if self.format == "parquet" and find_spec("pyarrow") is None:
            raise InvalidOption(
                "is 'parquet', which needs pyarrow: pip install 'hetopt[parquet]', or take csv", "format"
            )

    def has(self, key: RunKey, settings: Mapping[str, Any]) -> bool:
        """Whether the run is stored with the same settings; refused runs do not count, so that they are repeated.

        Raises
        ------
        InvalidOption
            It is stored with other settings, or its folder holds another run.
        """
        folder = self.path / key.folder()
        if not (folder / "run.json").exists():
            return False
        stored = StoredRun(folder).record
        if stored.key != key:
            raise InvalidOption(f"{key} would be stored in {folder}, which holds {stored.key}; {ANOTHER_FOLDER}")
        if stored.refused is not None:
            return False
        if change := _change(stored.settings, _round_trip(settings)):
            raise InvalidOption(f"{folder} holds {key} with other settings ({change}); remove it, or {ANOTHER_FOLDER}")
        return all(any((folder / f"{name}.{ending}").exists() for ending in ENDINGS) for name in TABLES)

    def record(self, key: RunKey) -> RunRecord | None:
        """The record of that run; None if it is not stored."""
        file = self.path / key.folder() / "run.json"
        return RunRecord.read(file) if file.exists() else None

    def write(self, record: RunRecord, log: Log | None) -> None:
        """Store a run; ``run.json`` is written last, so an interrupted write does not count.

        Raises
        ------
        UnusableFile
            The folder cannot be written.
        """
        folder = self.path / record.key.folder()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise UnusableFile.of(problem, folder, "made") from None
        for name in TABLES if log is not None else ():
            content, ending = self._encoded(getattr(log, name), TABLES[name])
            save(content, folder / f"{name}.{ending}", overwrite=True)
        save(json.dumps(record.as_dict(), indent=1) + "\n", folder / "run.json", overwrite=True)

    def _encoded(self, table: pd.DataFrame | pd.Series[Any], layout: TableLayout) -> tuple[bytes, str]:
        """The bytes of the file of a table, and its ending."""
        frame = table.to_frame() if isinstance(table, pd.Series) else table.copy()
        for column in layout.json:
            frame[column] = frame[column].map(json.dumps)
        buffer = BytesIO()
        if self.format == "parquet":
            frame.columns = frame.columns.astype(str)
            frame.to_parquet(buffer)
            return buffer.getvalue(), "parquet"
        frame.to_csv(buffer, compression={"method": "gzip", "mtime": 0}, float_format="%.17g")
        return buffer.getvalue(), "csv.gz"

    def runs(self) -> list[StoredRun]:
        """All runs, by workload, system and seed.

        Raises
        ------
        UnusableFile, InvalidInstance
            The folder does not exist, holds no run, or has an invalid file.
        """
        if not self.path.is_dir():
            raise UnusableFile(f"is not a folder; {RUN_STORES}").in_file(str(self.path))
        found = [StoredRun(file.parent) for file in sorted(self.path.rglob("run.json"))]
        if not found:
            raise InvalidInstance(f"holds no run; {RUN_STORES}").in_file(str(self.path))
        return sorted(found, key=lambda run: (run.key.workload, run.key.system, run.key.seed))

    def seconds(self) -> dict[RunKey, float]:
        """Wall-clock seconds of the stored runs that were not refused; unreadable records are left out."""
        found = {}
        for file in self.path.rglob("run.json"):
            with suppress(InvalidInstance):
                record = RunRecord.read(file)
                if record.refused is None:
                    found[record.key] = record.seconds
        return found

    def table(self, keys: Iterable[RunKey] | None = None) -> pd.DataFrame:
        """A row per run, see :func:`run_table`.

        Parameters
        ----------
        keys:
            The runs; default: all.

        Raises
        ------
        UnusableFile, InvalidInstance
            As of :meth:`runs`, or a run is not there.
        """
        return run_table(self.runs() if keys is None else [StoredRun(self.path / key.folder()) for key in keys])

    def __iter__(self) -> Iterator[StoredRun]:
        return iter(self.runs())


@dataclass(frozen=True)
class StoredRun:
    """A stored run.

    Attributes
    ----------
    folder:
        Its folder.
    """

    folder: Path

    @cached_property
    def record(self) -> RunRecord:
        """The settings, the summary and further results in ``run.json``."""
        return RunRecord.read(self.folder / "run.json")

    @property
    def key(self) -> RunKey:
        """Which run it is."""
        return self.record.key

    def is_of(self, systems: Collection[str]) -> bool:
        """Whether its label or the name of its system is one of ``systems``."""
        return self.key.system in systems or self.record.system_name in systems

    def table(self, name: str) -> pd.DataFrame:
        """One of the tables of the log.

        Raises
        ------
        UnusableFile, InvalidInstance
            It does not exist, e.g. because the run was refused; or it cannot be read.
        """
        try:
            return read_table(self.folder, name)
        except FileNotFoundError:
            problem = UnusableFile(f"has no table {name!r}; {self.record.refused or 'run it again'}")
            raise problem.in_file(str(self.folder)) from None
        except (ValueError, OSError, EOFError, ImportError) as problem:
            text = " ".join(str(problem).split())
            error = InvalidInstance(f"table {name!r} cannot be read: {text}; remove the folder and run it again")
            raise error.in_table(name).in_file(str(self.folder)) from None

    @cached_property
    def log(self) -> Log:
        """The log, without its events; it stays in memory."""
        return self.read_log()

    def read_log(self) -> Log:
        """Read the log, without its events, for a caller that does not keep it."""
        tables: dict[str, Any] = {name: self.table(name) for name in TABLES}
        tables["decision_seconds"] = tables["decision_seconds"]["seconds"]
        events = pd.DataFrame(columns=["time", "kind", "job"])
        record = self.record
        return Log(**tables, events=events, capacity=record.capacity, end=record.end, job_window=record.job_window)


RUN_COLUMNS = ("workload", "system", "seed", "system_name", "refused", "round_seconds")
"""Columns of :func:`run_table` that are not metrics; ``system`` is the label, ``system_name`` the system that ran."""


def run_table(runs: Iterable[StoredRun]) -> pd.DataFrame:
    """A row per run: :data:`RUN_COLUMNS`, and its metrics.

    Raises
    ------
    InvalidInstance
        A run cannot be read.
    """
    records = [run.record for run in runs]
    rows = [
        {
            **asdict(own.key),
            "system_name": own.system_name,
            "refused": own.refused,
            "round_seconds": own.round_seconds,
            **own.summary,
        }
        for own in records
    ]
    return pd.DataFrame(rows)
