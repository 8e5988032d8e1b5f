"""What is written in any format is what is read; and one damaged cell is named by file, line and column."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused
from trace_formats import FORMATS, JOBS, Row

from hetopt import InvalidInstance
from hetopt.traces.kinds import detect_kind, read_trace
from hetopt.traces.trace_table import TEXTS


@pytest.fixture(scope="module")
def folder() -> Any:
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=20)
@given(rows=JOBS, packed=st.booleans())
def test_what_is_written_is_read(name: str, folder: Path, rows: list[Row], packed: bool) -> None:
    """In order of arrival, which the file need not be in; ties stay as they were. The kind is detected."""
    form = FORMATS[name]
    file = form.write(folder / f"{name}.txt{'.gz' * packed}", form.lines(rows))
    table = read_trace(file)
    assert sorted(table.pop("line")) == list(range(1 + form.header, 1 + form.header + len(rows)))
    wanted = form.expected(rows)
    if name == "plain":
        wanted["arrival"] += min(row["arrival"] for row in rows)  # stay as they are
    pd.testing.assert_frame_equal(table, wanted, check_dtype=False, check_exact=True)
    assert {key: table[key].dtype.kind for key in ("arrival", "duration", "gpus")} == {
        "arrival": "f",
        "duration": "f",
        "gpus": "i",
    }
    assert table.attrs["left_out"] == {}
    assert detect_kind(file) == form.kind


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=25)
@given(data=st.data(), rows=JOBS)
def test_a_damaged_cell_is_named(name: str, folder: Path, data: st.DataObject, rows: list[Row]) -> None:
    form = FORMATS[name]
    lines = form.lines(rows)
    column = data.draw(st.sampled_from(sorted(form.wrong)), "column")
    at = data.draw(st.integers(form.header, len(lines) - 1), "line")
    wrong = data.draw(st.sampled_from(form.wrong[column]), "cell")
    lines[at][list(form.cells(rows[0])).index(column)] = wrong
    file = form.write(folder / f"bad-{name}.txt", lines)
    with pytest.raises(InvalidInstance) as problem:
        read_trace(file, form.kind)
    error = str(problem.value)
    assert re.match(rf"{re.escape(str(file))}:{at + 1}: {column} is {re.escape(repr(wrong))}; it must be ", error)
    assert "\n" not in error


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=10)
@given(rows=JOBS, blank=st.integers(0, 6))
def test_empty_lines_are_no_rows_but_count_as_lines(name: str, folder: Path, rows: list[Row], blank: int) -> None:
    form = FORMATS[name]
    lines = form.lines(rows)
    at = min(blank, len(lines))
    column = next(iter(form.wrong))
    lines.insert(at, [])
    blanked = read_trace(form.write(folder / f"blank-{name}.txt", lines), form.kind)
    without = read_trace(form.write(folder / f"none-{name}.txt", lines[:at] + lines[at + 1 :]), form.kind)
    assert (blanked.pop("line") == without["line"] + (without.pop("line") > at)).all()
    pd.testing.assert_frame_equal(blanked, without)
    if at < len(lines) - 1:
        lines[-1][list(form.cells(rows[0])).index(column)] = "a\x07b"
        with refused(InvalidInstance, column, line=len(lines)):
            read_trace(form.write(folder / f"blank-{name}.txt", lines), form.kind)


@pytest.mark.parametrize("name", [name for name, form in FORMATS.items() if form.header])
def test_every_column_that_is_needed_is_missed(name: str, tmp_path: Path) -> None:
    form = FORMATS[name]
    row = {"id": 1, "arrival": 5, "duration": 2, "gpus": 1, "iterations": 4, "wait": 0}
    row |= dict.fromkeys(TEXTS, "a")  # type: ignore[dict-item]
    header, cells = form.lines([row])
    spare = {"jobname", "iterations"} if form.kind in ("helios", "tiresias") else set()
    spare |= set(header) - {"job", "arrival", "duration", "gpus"} if form.kind == "plain" else spare
    for column in form.wrong:
        if column in spare:
            continue
        at = header.index(column)
        file = form.write(tmp_path / "t.csv", [[*header[:at], "other", *header[at + 1 :]], cells])
        with pytest.raises(InvalidInstance, match=rf"t\.csv: has no column .*{column}"):
            read_trace(file, form.kind)
