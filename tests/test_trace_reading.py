"""Traces of any kind: detected, requested by name, and read by a user's code."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from refused import refused

from hetopt import Cluster, InvalidInstance, InvalidOption, UnusableFile
from hetopt.errors import UnknownName
from hetopt.plugins import TRACES
from hetopt.registry import make_reader, trace_kinds
from hetopt.traces.conversion import to_instance
from hetopt.traces.kinds import detect_kind, read_trace
from hetopt.traces.paper_models import FFT

KINDS = ["acme", "alibaba-spot", "gavel", "helios", "openb", "pai", "philly", "plain", "tiresias"]

OWN = '''
import pandas as pd
from hetopt.traces.raw_files import recognised_by

@recognised_by(lambda head: head.lines[:1] == ("mine",))
def read(path, copies: int = 1):
    """Jobs of my own cluster."""
    job = {"job": ["a"], "arrival": [0.0], "duration": [float(copies)], "gpus": [1]}
    return pd.DataFrame(job)

def bare(path): return read(path).drop(columns="gpus")
def fails(path): return {}["key"]
def nothing(path): return 5
def made(copies=2):
    return lambda path: read(path, copies)
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_traces.py").write_text(OWN)
    (tmp_path / "jobs.txt").write_text("mine\n")
    return tmp_path / "jobs.txt"


def announce(monkeypatch: pytest.MonkeyPatch, **points: str) -> None:
    """As if an installed package announced these too."""
    more = {name: EntryPoint(name, value, TRACES.group) for name, value in points.items()}
    monkeypatch.setitem(TRACES.__dict__, "points", dict(sorted({**TRACES.points, **more}.items())))


def test_every_kind_is_announced_and_says_what_it_reads() -> None:
    assert [kind for kind in trace_kinds() if kind in KINDS] == KINDS
    assert all(TRACES.description(kind) for kind in KINDS)


def test_what_is_of_no_known_kind(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("colour,size\nred,5\n")
    with pytest.raises(
        InvalidInstance,
        match=r"t\.csv: is not in a known trace format; it begins with 'colour,size'; give kind= .--kind., one of",
    ):
        read_trace(tmp_path / "t.csv")
    with pytest.raises(InvalidInstance, match=f"one of {', '.join(trace_kinds())}, or module:Name"):
        detect_kind(tmp_path)
    with pytest.raises(InvalidInstance, match=r"is a folder without servers\.csv .* and without pai_job_table\.csv"):
        detect_kind(tmp_path)
    for content, message in (
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"\xff\xfe\x00\x80", "is not in a known trace format"),
    ):
        (tmp_path / "t.csv").write_bytes(content)
        with pytest.raises(InvalidInstance, match=message):
            read_trace(tmp_path / "t.csv")
    with pytest.raises(UnusableFile, match="none: cannot be read: No such file"):
        read_trace(tmp_path / "none")


@pytest.mark.parametrize("path", [5, None, b"jobs.csv", ["a"]])
def test_paths_that_are_none(path: Any) -> None:
    with refused(InvalidOption, "path"):
        read_trace(path)
    for kind in KINDS:
        with pytest.raises(InvalidOption, match="path is"):
            read_trace(path, kind)


def test_names_and_settings_that_are_wrong(own: Path) -> None:
    with pytest.raises(UnknownName, match="there is no trace reader 'phily'; did you mean 'philly'"):
        read_trace(own, "phily")
    with pytest.raises(
        InvalidOption, match="trace reader 'gavel' has no setting 'throughput'; did you mean 'throughputs'"
    ):
        read_trace(own, "gavel", throughput=3)
    with pytest.raises(UnknownName, match="own_traces:none"):
        read_trace(own, "own_traces:none")


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_kind_is_refused(kind: str, own: Path) -> None:
    with pytest.raises((InvalidInstance, UnusableFile), match=r"jobs\.txt|pai_task_table"):
        read_trace(own, kind)


def test_readers_of_ones_own(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_trace(own, "own_traces:read", copies=3)["duration"].tolist() == [3.0]
    assert read_trace(own, "own_traces:made")["duration"].tolist() == [2.0]
    assert make_reader("own_traces:made", {"copies": 4})(own)["duration"].tolist() == [4.0]
    with pytest.raises(InvalidInstance, match="is not in a known trace format"):
        read_trace(own)
    announce(monkeypatch, mine="own_traces:read", half="not_installed:read", unmarked="own_traces:nothing")
    assert detect_kind(own) == "mine", "and a package that is half installed, or has no test, takes nothing away"
    assert read_trace(own)["duration"].tolist() == [1.0]
    announce(monkeypatch, twin="own_traces:read")
    with pytest.raises(InvalidInstance, match=r"jobs\.txt: may be of kind mine or twin; give kind= .--kind., one of"):
        read_trace(own)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        (
            "fails",
            InvalidOption,
            r"trace reader 'own_traces:fails' fails on .*jobs\.txt: KeyError: 'key' \(.*own_traces",
        ),
        ("nothing", InvalidOption, "trace reader 'own_traces:nothing' returns 5; it must return a pandas DataFrame"),
        (
            "bare",
            InvalidInstance,
            "from trace reader 'own_traces:bare' for .*has no column gpus; it must have",
        ),
        ("OWN", UnknownName, "own_traces"),
    ],
)
def test_readers_that_are_wrong(name: str, error: type[Exception], message: str, own: Path) -> None:
    with pytest.raises(error, match=message):
        read_trace(own, f"own_traces:{name}")


def test_tables_keep_what_was_counted(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("job_id,num_gpu,submit_time,duration,model_name\n1,0,0,5,a\n2,1,7,5,a\n")
    table = read_trace(tmp_path / "t.csv")
    assert (table.attrs["left_out"], table.attrs["rounded_up"]) == ({"no GPU": 1}, 0)
    assert table["arrival"].tolist() == [0.0], "seconds since the first that is kept"
    pd.testing.assert_frame_equal(table, read_trace(str(tmp_path / "t.csv")))


def test_errors_have_file_line_and_column_as_fields(tmp_path: Path) -> None:
    """Of a cell, of a table that lacks a column, and of a table in memory."""
    file = tmp_path / "own.csv"
    file.write_text("job,arrival,duration,gpus\na,0,5,1\nb,0,5,x\n", encoding="utf-8")
    with pytest.raises(InvalidInstance) as caught:
        read_trace(file, "plain")
    assert (caught.value.file, caught.value.line, caught.value.path) == (str(file), 3, ("gpus",))
    file.write_text("job,arrival,gpus\na,0,1\n", encoding="utf-8")
    with pytest.raises(InvalidInstance) as caught:
        read_trace(file, "plain")
    assert (caught.value.file, caught.value.line, caught.value.path) == (str(file), None, ())
    table = pd.DataFrame({"job": ["a"], "arrival": [0.0], "duration": [5.0], "gpus": [0]}, index=["first"])
    with pytest.raises(InvalidInstance) as caught:
        check_and_convert(table)
    assert (caught.value.table, caught.value.row, caught.value.line) == ("trace", "first", None)
    assert caught.value.path == ("jobs", "a", "gpus")
    with refused(InvalidInstance, "jobs['a'].gpus", line=7, table="trace") as caught:
        check_and_convert(table.assign(line=7))
    assert (caught.value.table, caught.value.row, caught.value.line) == ("trace", None, 7)
    assert str(caught.value.in_file("own.csv")).startswith("own.csv:7: jobs['a'].gpus is 0")


def check_and_convert(table: pd.DataFrame) -> object:
    """The instance of a trace."""
    return to_instance(table, Cluster.of({"T4": 4}, gpus_per_server=4), FFT)
