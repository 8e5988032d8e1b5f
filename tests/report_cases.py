"""Folders of runs for the tests of the report, and a reader of its page."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from hetopt.experiments.environment_settings import EnvironmentSettings
from hetopt.experiments.experiment import Experiment, SystemVariant
from hetopt.experiments.run_store import RunKey, RunRecord, RunStore
from hetopt.experiments.trace_workload import TraceWorkload
from hetopt.metrics import METRICS

TRACE = TraceWorkload("fft-trace-1", "lab36", count=12)
MIX = TraceWorkload("hadar/m5")
NAME = "<b>Ä & 'ß'\"</b>"
"""A label that is no HTML unless it is escaped."""

SYSTEMS = ("fft", "gavel", "oef-cooperative", "tiresias")


def filled(path: Path) -> Path:
    """Two workloads, two seeds, a name to escape, and a system that refuses."""
    store, environment = RunStore(path), EnvironmentSettings(restart_seconds=30.0)
    trace = (*(SystemVariant(name) for name in SYSTEMS), SystemVariant("srtf", label=NAME))
    Experiment((TRACE,), trace, (0, 1), environment).run(store)
    mix = tuple(SystemVariant(name) for name in ("fft", "hadar", "hadare", "gandiva-fair"))
    Experiment((MIX,), mix, (0,), environment).run(store)
    return path


def invented(path: Path, rows: dict[tuple[str, str, int], dict[str, float] | str]) -> Path:
    """Runs of which only the numbers are stored; text instead of numbers: why it was refused."""
    store = RunStore(path)
    for (workload, system, seed), numbers in rows.items():
        refused = numbers if isinstance(numbers, str) else None
        summary = {} if isinstance(numbers, str) else dict.fromkeys(METRICS, float("nan")) | numbers
        store.write(RunRecord(RunKey(workload, system, seed), {}, summary, refused=refused), None)
    return path


def edit(folder: Path, **changes: Any) -> None:
    """Change what the record of a run says."""
    path = folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@dataclass
class Row:
    """A row of a table: its name, and for each cell what it shows and, if it is one, its whole number."""

    name: str = ""
    cells: list[tuple[str, float | None]] = field(default_factory=list)


@dataclass
class Table:
    """A table of the page."""

    section: str
    head: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def numbers(self) -> dict[tuple[str, str], float]:
        """(row, column) -> whole number."""
        return {
            (row.name, column): value
            for row in self.rows
            for column, (_, value) in zip(self.head[1:], row.cells, strict=True)
            if value is not None
        }


VOID = {"meta", "link", "br", "path", "use", "line", "rect"}


class Page(HTMLParser):
    """Reads the page strictly: every element is closed in order, every id is there once."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.pictures: list[dict[str, str | None]] = []
        self.tables: list[Table] = []
        self.headings: list[str] = []
        self.words: list[str] = []
        self._number: float | None = None
        self._cell = ""
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [str(value) for key, value in attrs if key == "id"]
        self.links += [str(value) for key, value in attrs if key in ("href", "src", "xlink:href")]
        if tag == "svg" and "aria-hidden" not in found:
            self.pictures.append(found)
        if tag == "table":
            self.tables.append(Table(self.headings[-1]))
        if tag == "tr" and "tbody" in self.open:
            self.tables[-1].rows.append(Row())
        if tag in ("th", "td", "h1", "h2", "h3", "h4", "summary"):
            self._cell = ""
            self._number = float(str(found["data-value"])) if "data-value" in found else None
        if tag == "th":
            assert found.get("scope") in ("row", "col"), found

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        assert self.open
        assert self.open.pop() == tag, f"{tag} is closed out of order"
        if tag in ("h1", "h2", "h3", "h4"):
            self.headings.append(self._cell.strip())
        if tag == "th" and "thead" in self.open:
            self.tables[-1].head.append(self._cell.strip())
        elif tag == "th":
            self.tables[-1].rows[-1].name = self._cell.strip()
        if tag == "td":
            self.tables[-1].rows[-1].cells.append((self._cell.strip(), self._number))

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.words.append(data)
        if "small" not in self.open:
            self._cell += data

    @property
    def text(self) -> str:
        """All that can be read, without line breaks."""
        return " ".join("".join(self.words).split())

    def of(self, section: str) -> Table:
        """The first table below this heading."""
        return next(table for table in self.tables if table.section == section)
