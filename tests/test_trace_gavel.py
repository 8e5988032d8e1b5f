"""Gavel's and Shockwave's traces, by hand and as they are."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refused import refused
from trace_formats import SHARED

from hetopt import InvalidInstance, InvalidOption
from hetopt.traces.gavel_reader import FORMS, read_gavel
from hetopt.traces.kinds import detect_kind, read_trace

CELLS = {
    "job_type": "LM (batch size 10)",
    "command": "cd %s && python main.py --cuda --batch_size 10 ",
    "working_directory": "language_modeling",
    "num_steps_arg": "--steps",
    "needs_data_dir": "1",
    "total_steps": "8601",
    "scale_factor": "2",
    "mode": "gns",
    "priority_weight": "1",
    "SLO": "-1.000000",
    "duration": "1418",
    "arrival_time": "11.500000",
}


def write(folder: Path, number: int, *changes: dict[str, str]) -> Path:
    """A trace of so many columns, each job with some cells changed."""
    lines = ["\t".join((CELLS | change)[name] for name in FORMS[number]) for change in changes]
    (folder / "jobs.trace").write_text("\n".join(lines) + "\n")
    return folder / "jobs.trace"


@pytest.mark.parametrize("number", [6, 7, 10, 11, 12])
def test_every_form(number: int, tmp_path: Path) -> None:
    """The columns as Gavel's and Shockwave's programs name them, distinguished by their number."""
    later = {"arrival_time": "20", "job_type": "A3C", "total_steps": "5", "scale_factor": "1"}
    file = write(tmp_path, number, later, {}, {"scale_factor": "0"})
    table = read_trace(file)
    assert detect_kind(file) == "gavel"
    pd.testing.assert_frame_equal(table, read_gavel(file))
    seconds = table.pop("duration").tolist()
    assert seconds == [1418.0, 1418.0] if number == 12 else all(map(math.isnan, seconds))
    assert table.to_dict("list") == {
        "job": ["j1", "j0"],
        "arrival": [0.0, 8.5],
        "gpus": [2, 1],
        "model": ["LM (batch size 10)", "A3C"],
        "iterations": [8601, 5],
        "line": [2, 1],
    }
    assert table.attrs["left_out"] == {"no GPU": 1}


UNKNOWN = {"job_type": "unknown"}

SPEEDS = pd.DataFrame(
    {
        "job_type": ["LM (batch size 10)", "LM (batch size 10)", "A3C"],
        "scale_factor": [2, 1, 1],
        "v100": [4.0, 8.0, 0.0],
        "k80": [0.5, 2.0, 1.0],
    }
)


@pytest.mark.parametrize("number", [10, 12])
def test_throughputs_say_how_long(number: int, tmp_path: Path) -> None:
    file = write(tmp_path, number, {}, {"scale_factor": "1"}, {"job_type": "A3C", "scale_factor": "1"}, UNKNOWN)
    SPEEDS.to_csv(tmp_path / "speeds.csv", index=False)
    nan = float("nan")
    for gpu_type, wanted in {"v100": [8601 / 4, 8601 / 8, nan, nan], "k80": [8601 * 2, 8601 / 2, 8601.0, nan]}.items():
        table = read_gavel(file, throughputs=SPEEDS, gpu_type=gpu_type)
        np.testing.assert_array_equal(table["duration"], wanted)
        path: Any = tmp_path / "speeds.csv"
        pd.testing.assert_frame_equal(read_trace(file, throughputs=path, gpu_type=gpu_type), table)


@pytest.mark.parametrize(
    ("speeds", "gpu_type", "key", "match", "row"),
    [
        (
            SPEEDS,
            "v10",
            "gpu_type",
            "'v10'",
            None,
        ),
        (SPEEDS, 7, "gpu_type", "7", None),
        (SPEEDS.drop(columns="job_type"), "v100", None, "column.*job_type", None),
        (
            SPEEDS.replace(4.0, -1.0),
            "v100",
            "v100",
            None,
            0,
        ),
        (SPEEDS.assign(scale_factor=[1, 1, 1]), "v100", "job_type", "twice", 1),
        (
            SPEEDS.assign(scale_factor=[1, 1.5, 1]),
            "v100",
            "scale_factor",
            None,
            1,
        ),
        (3, "v100", "path", None, None),
    ],
)
def test_bad_throughputs_are_refused(
    speeds: Any, gpu_type: Any, key: str | None, match: str | None, row: Any, tmp_path: Path
) -> None:
    with refused((InvalidInstance, InvalidOption), key, match, row=row):
        read_gavel(write(tmp_path, 10, {}), throughputs=speeds, gpu_type=gpu_type)


@pytest.mark.parametrize(
    ("text", "key", "match", "line"),
    [
        ("a\tb\n", None, "2 cells", 1),
        ("\n\na\tb\n", None, "2 cells", 3),
        ("", None, "no row", None),
        ("\n", None, "no row", None),
        ("\t".join("abcdef") + "\n" + "\t".join("abcdefg") + "\n", None, "line.*2", None),
    ],
)
def test_what_is_no_trace(text: str, key: str | None, match: str | None, line: int | None, tmp_path: Path) -> None:
    (tmp_path / "bad.trace").write_text(text)
    with refused(InvalidInstance, key, match, file="bad.trace", line=line):
        read_gavel(tmp_path / "bad.trace")


# The traces beside this checkout, back in their own columns


def beside(*names: str) -> pd.DataFrame:
    file = SHARED.joinpath(*names)
    if not file.exists():
        pytest.skip(f"{names[-1]} is not beside this checkout")
    return pd.read_csv(file, dtype=str, keep_default_na=False)


def test_gavels_physical_cluster(tmp_path: Path) -> None:
    raw = beside("traces", "gavel_physical.csv").rename(columns={"arrival_s": "arrival_time"})
    for _, jobs in raw.groupby("trace"):
        table = read_gavel(write(tmp_path, 10, *jobs.drop(columns="trace").to_dict("records")))
        assert len(table) == len(jobs)
        assert table["iterations"].sum() == jobs["total_steps"].astype(int).sum()
        assert (table["gpus"] * table["arrival"]).sum() == pytest.approx(
            (jobs["scale_factor"].astype(int) * (jobs["arrival_time"].astype(float))).sum()
            - jobs["scale_factor"].astype(int).sum() * jobs["arrival_time"].astype(float).min()
        )


def test_durations_are_steps_over_gavels_throughputs(tmp_path: Path) -> None:
    """Looked up job by job."""
    raw = beside("traces", "gavel_physical.csv").rename(columns={"arrival_s": "arrival_time"})
    speeds = {
        (row["job_type"], row["scale_factor"]): row
        for row in beside("throughput", "gavel_throughputs.csv").to_dict("records")
    }
    jobs = raw[raw["trace"] == "max_min_fairness"].drop(columns="trace").to_dict("records")
    file = write(tmp_path, 10, *jobs)
    for gpu_type in ("v100", "k80"):
        table = read_gavel(file, throughputs=SHARED / "throughput" / "gavel_throughputs.csv", gpu_type=gpu_type)
        found = table.set_index("job")["duration"]
        for i, job in enumerate(jobs):
            speed = float(speeds[job["job_type"], job["scale_factor"]][gpu_type])
            assert found[f"j{i}"] == int(job["total_steps"]) / speed if speed else math.isnan(found[f"j{i}"])


def test_shockwaves_jobs_have_the_steps_that_fit_into_their_seconds(tmp_path: Path) -> None:
    """Its generator made steps = whole part of seconds times steps/s, one number for each type of jobs in a trace."""
    raw = beside("traces", "shockwave.csv.gz").rename(columns={"arrival_s": "arrival_time", "duration_s": "duration"})
    groups = 0
    for _, jobs in raw.groupby("trace"):
        table = read_gavel(write(tmp_path, 12, *jobs.drop(columns="trace").to_dict("records")))
        assert len(table) == len(jobs)
        least, above = table["iterations"] / table["duration"], (table["iterations"] + 1) / table["duration"]
        by_type = pd.DataFrame({"least": least, "above": above}).groupby([table["model"], table["gpus"]])
        assert (by_type["least"].max() < by_type["above"].min()).all()
        groups += int((by_type.size() > 1).sum())
    assert groups == 215
