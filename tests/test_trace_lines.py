"""Messages about a job of a trace name its line in the file, even after rows were left out, sorted or copied."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from hetopt import InvalidInstance
from hetopt.traces.conversion import with_models
from hetopt.traces.kinds import read_trace
from hetopt.traces.paper_models import FFT
from hetopt.traces.trace_table import line_of

JOBS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 1), st.integers(0, 9)).map(lambda it: (it[0], it[1], it[2] * 10)),
    min_size=1,
    max_size=8,
).filter(lambda rows: any(gpus for _, gpus, _ in rows))
"""Whether an empty line comes before the job, its GPUs (without any it is left out), when it comes."""


@given(JOBS)
def test_every_job_has_its_line(rows: list[tuple[bool, int, int]]) -> None:
    lines, expected = ["job_id,num_gpu,submit_time,duration,model_name"], {}
    for i, (gap, gpus, arrival) in enumerate(rows):
        lines += [""] * gap + [f"{i},{gpus},{arrival},60,VGG-16"]
        if gpus:
            expected[f"j{i}"] = len(lines)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "own.csv"
        path.write_text("\n".join(lines), encoding="utf-8")
        table = read_trace(path)
    assert {job: line_of(table, row) for row, job in enumerate(table["job"])} == expected
    copied = table[table["arrival"] >= table["arrival"].max()].assign(more=1).copy()
    copied.attrs = {}
    assert {job: line_of(copied, row) for row, job in enumerate(copied["job"])}.items() <= expected.items()


def test_an_unknown_model_is_reported_with_its_line(tmp_path: Path) -> None:
    """Also after the rows have a new order and index; without a valid line, by its row."""
    path = tmp_path / "own.csv"
    path.write_text("job,arrival,duration,gpus,model\nb,9,1,1,VGG-16\n\na,0,1,1,Q\n", encoding="utf-8")
    table = read_trace(path)
    with refused(InvalidInstance, "jobs['a'].model", line=4, table="trace"):
        with_models(table, FFT)
    reversed_table = table[::-1].reset_index(drop=True)
    with refused(InvalidInstance, "jobs['a'].model", line=4, table="trace"):
        with_models(reversed_table, FFT)
    with refused(InvalidInstance, "jobs['a'].model", table="trace", row=1):
        with_models(reversed_table.drop(columns="line"), FFT)
    for line in (0, -1, None, "none", float("nan"), 2.5):
        assert line_of(reversed_table.assign(line=line), 1) is None
    assert line_of(pd.DataFrame({"arrival": [0.0]}), 0) is None


@pytest.mark.parametrize(
    ("content", "key", "match", "line"),
    [
        (
            b"job,arrival,duration,gpus\na,0,1e300,1\n",
            "duration",
            None,
            2,
        ),
        (b"job,arrival,duration,gpus\na,0,1,1\n\xe9,0,1,1\n", None, "text.*UTF-8", 3),
    ],
)
def test_invalid_cells_are_reported_with_their_line(
    content: bytes, key: str | None, match: str | None, line: int | None, tmp_path: Path
) -> None:
    (tmp_path / "own.csv").write_bytes(content)
    with refused(InvalidInstance, key, match, line=line):
        read_trace(tmp_path / "own.csv")
