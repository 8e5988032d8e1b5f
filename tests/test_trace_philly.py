"""Philly's own log, by hand, and the simulators' CSV files beside this checkout."""

from __future__ import annotations

import copy
import gzip
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused
from trace_formats import JOBS, SHARED, Row, clock, expected

from hetopt import InvalidInstance, UnusableFile
from hetopt.errors import format_path
from hetopt.traces.philly_reader import read_philly


def attempt(start: str | None, end: str | None, *gpus: int) -> dict[str, Any]:
    servers = [{"ip": f"m{i}", "gpus": [f"gpu{k}" for k in range(n)]} for i, n in enumerate(gpus)]
    return {"start_time": start, "end_time": end, "detail": servers}


def job(name: str, submitted: str | None, *attempts: dict[str, Any], **more: Any) -> dict[str, Any]:
    begin = {"status": "Pass", "vc": "ee9e8c", "jobid": name, "attempts": list(attempts)}
    return begin | {"submitted_time": submitted, "user": "ce2f4c"} | more


PUBLISHED = job(
    "application_1506638472020_14199",
    "2017-10-07 01:11:39",
    attempt("2017-10-07 01:12:09", "2017-10-07 01:13:23", 8),
    attempt("2017-10-07 01:13:30", "2017-10-09 06:53:12", 8),
)
"""Times of the job that the trace's description shows; ``philly.csv`` of Pollux has it with 193,256 s on 8 GPUs."""


def write(folder: Path, jobs: Any, name: str = "cluster_job_log") -> Path:
    content = json.dumps(jobs, indent=4).encode()
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return folder / name


@pytest.mark.parametrize("name", ["cluster_job_log", "log.json.gz"])
def test_a_small_log(name: str, tmp_path: Path) -> None:
    day = "2017-10-0"
    jobs = [
        PUBLISHED,
        job("two-servers", f"{day}6 23:59:59", attempt(f"{day}7 00:00:00", f"{day}7 00:01:40", 8, 4), vc="b", user="u"),
        job("none", f"{day}1 00:00:00"),
        job("running", f"{day}1 00:00:00", attempt(f"{day}1 00:00:01", None, 1)),
        job("lost", f"{day}1 00:00:00", attempt("None", f"{day}1 00:00:01", 1), attempt(f"{day}2 00:00:00", "", 1)),
        job("unsubmitted", None, attempt(f"{day}1 00:00:01", f"{day}1 00:00:02", 1)),
        job("back", f"{day}1 00:00:00", attempt(f"{day}1 00:00:05", f"{day}1 00:00:02", 1)),
        job("idle", f"{day}1 00:00:00", attempt(f"{day}1 00:00:05", f"{day}1 00:00:05", 1)),
        job("no-gpu", f"{day}1 00:00:00", attempt(f"{day}1 00:00:05", f"{day}1 00:00:09")),
        job(
            "failed", f"{day}7 01:11:39", attempt(f"{day}8 00:00:00", f"{day}8 00:00:01", 1), status="Failed", user=None
        ),
    ]
    table = read_philly(write(tmp_path, jobs, name))
    assert table.to_dict("list") == {
        "job": ["two-servers", "application_1506638472020_14199", "failed"],
        "arrival": [0.0, 4300.0, 4300.0],
        "duration": [100.0, 193_256.0, 1.0],
        "gpus": [12, 8, 1],
        "tenant": ["b", "ee9e8c", "ee9e8c"],
        "user": ["u", "ce2f4c", ""],
        "status": ["Pass", "Pass", "Failed"],
        "hour": [23, 1, 1],
    }
    assert table.attrs["left_out"] == {
        "no attempt": 1,
        "no time of submission": 1,
        "an attempt without start or end": 2,
        "an attempt that ends before it starts": 1,
        "no GPU": 1,
        "0 seconds of training": 1,
    }


@settings(max_examples=30)
@given(rows=JOBS, cuts=st.lists(st.integers(0, 1000), max_size=3))
def test_what_is_written_is_read(rows: list[Row], cuts: list[int], tmp_path_factory: pytest.TempPathFactory) -> None:
    """However the training is cut into attempts, with pauses between them."""
    jobs = []
    for row in rows:
        ends = sorted({min(cut, row["duration"]) for cut in cuts} | {0, row["duration"]})
        begin = row["arrival"] + row["wait"]
        tries = [
            attempt(clock(begin + 7 * i + a), clock(begin + 7 * i + b), *([1] * row["gpus"]))
            for i, (a, b) in enumerate(pairwise(ends))
        ]
        texts = {"vc": row["tenant"], "user": row["user"], "status": row["status"]}
        jobs.append(job(f"application_{row['id']}", clock(row["arrival"]), *tries, **texts))
    table = read_philly(write(tmp_path_factory.mktemp("log"), jobs))
    wanted = expected(rows, ("tenant", "user", "status", "hour"), lambda row, _: f"application_{row['id']}")
    pd.testing.assert_frame_equal(table, wanted, check_dtype=False, check_exact=True)


DAMAGE: list[tuple[tuple[Any, ...], Any, str]] = [
    ((), 5, "is 5; it must be an object with jobid, vc, user, status, submitted_time, attempts"),
    (("jobid",), "", "is ''; it must be a non-empty name"),
    (("jobid",), "first", "is 'first'; it must be unlike the names above it"),
    (("vc",), 7, "is 7; it must be a name"),
    (("vc",), {"a": []}, r"is {'a': \[\]}; it must be a name"),
    (("submitted_time",), "soon", "is 'soon'; it must be a time such as 2017-09-04 10:30:41"),
    (("submitted_time",), 20171003, "is 20171003; it must be a time"),
    (("submitted_time",), [], r"is \[\]; it must be a time"),
    (("attempts",), None, "is None; it must be a list of attempts"),
    (("attempts",), "", "is ''; it must be a list of attempts"),
    (("attempts", 1), 3, "is 3; it must be an object with start_time, end_time, detail"),
    (("attempts", 1, "start_time"), "x", "is 'x'; it must be a time"),
    (("attempts", 0, "end_time"), 1.5, "is 1.5; it must be a time"),
    (("attempts", 0, "detail"), {}, "is {}; it must be a list of servers"),
    (("attempts", 0, "detail", 0), "m1", "is 'm1'; it must be an object with gpus"),
    (("attempts", 0, "detail", 0, "gpus"), "gpu0", "is 'gpu0'; it must be a list of GPUs"),
]


@pytest.mark.parametrize(("keys", "value", "message"), DAMAGE)
def test_damage_is_named(keys: tuple[Any, ...], value: Any, message: str, tmp_path: Path) -> None:
    jobs: list[Any] = [PUBLISHED | {"jobid": "first"}, copy.deepcopy(PUBLISHED)]
    place: Any = jobs
    for key in (1, *keys[:-1]) if keys else ():
        place = place[key]
    place[keys[-1] if keys else 1] = value
    with pytest.raises(InvalidInstance) as caught:
        read_philly(write(tmp_path, jobs))
    assert re.match(message, caught.value.problem)
    assert caught.value.path == (1, *keys)
    assert caught.value.file == str(tmp_path / "cluster_job_log")


@pytest.mark.parametrize("keys", [("jobid",), ("user",), ("attempts",), ("attempts", 0, "end_time")])
def test_missing_keys_are_named(keys: tuple[Any, ...], tmp_path: Path) -> None:
    jobs = [copy.deepcopy(PUBLISHED)]
    place: Any = jobs[0]
    for key in keys[:-1]:
        place = place[key]
    del place[keys[-1]]
    with refused(InvalidInstance, format_path((0, *keys[:-1])), keys[-1], file="cluster_job_log"):
        read_philly(write(tmp_path, jobs))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{", "is not JSON: Expecting property name"),
        ("[]", r"is \[\]; it must be a JSON list of jobs, not an empty one"),
        ("[" * 100_000, "is not JSON"),
        ('[{"jobid": "a"}', "is not JSON: Expecting ',' delimiter: line 1"),
    ],
)
def test_what_is_no_log(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(text)
    with pytest.raises(InvalidInstance, match=message):
        read_philly(tmp_path / "log")


def test_a_log_without_any_job_to_use(tmp_path: Path) -> None:
    with pytest.raises(InvalidInstance, match="has no job that can be used: 2 with no attempt"):
        read_philly(write(tmp_path, [job("a", "2017-10-01 00:00:00"), job("b", None)]))
    with pytest.raises(UnusableFile, match="none: cannot be read: No such file"):
        read_philly(tmp_path / "none")


# The files beside this checkout, which were cleaned: back in the simulators' own columns


def beside(name: str) -> pd.DataFrame:
    file = SHARED / "traces" / name
    if not file.exists():
        pytest.skip(f"{name} is not beside this checkout")
    return pd.read_csv(file, dtype=str, keep_default_na=False)


def test_chronus(tmp_path: Path) -> None:
    raw = beside("chronus_philly.csv.gz")
    table = read_philly(SHARED / "traces" / "chronus_philly.csv.gz")
    assert table.attrs["left_out"] == {"no GPU": 205}
    assert len(table) == 30_940 - 205 == len(raw) - 205
    assert table["arrival"].is_monotonic_increasing
    kept = raw[raw["num_gpu"] != "0"]
    by_job = table.set_index("job").loc["j" + kept["job_id"]]
    for key, column in {"gpus": "num_gpu", "duration": "duration", "iterations": "iterations"}.items():
        assert by_job[key].tolist() == kept[column].astype(int).tolist()
    assert by_job["tenant"].tolist() == kept["vc"].tolist()
    raw.rename(columns={"vc": "user"}).to_csv(tmp_path / "own.csv", index=False)
    pd.testing.assert_frame_equal(read_philly(tmp_path / "own.csv"), table)


def test_muri_counts_milliseconds(tmp_path: Path) -> None:
    """Its distribution shows it: a job's duration is its iterations times what one takes."""
    raw = beside("muri_philly.csv.gz").rename(columns={"submit_ms": "submit_time", "duration_ms": "duration"})
    first = raw[raw["trace"] == "1"].drop(columns="trace")
    first.to_csv(tmp_path / "trace1.csv", index=False)
    table = read_philly(tmp_path / "trace1.csv")
    assert len(table) == len(first)
    seconds = first["iterations"].astype(float) * first["iteration_time"].astype(float) / 1000
    found = table.set_index("job").loc["j" + first["job_id"], "duration"].to_numpy()
    step = first["iteration_time"].astype(float).to_numpy() / 1000
    assert (abs(found - seconds.to_numpy()) <= step).all()
    first.assign(user="u").to_csv(tmp_path / "with_users.csv", index=False)
    pd.testing.assert_frame_equal(read_philly(tmp_path / "with_users.csv"), table)


def test_pal(tmp_path: Path) -> None:
    raw = beside("pal_philly_workloads.csv")
    first = raw[(raw["set"] == "philly") & (raw["index"] == "1")].drop(columns=["set", "index"])
    first.to_csv(tmp_path / "workload-1.csv", index=False)
    table = read_philly(tmp_path / "workload-1.csv")
    assert table.iloc[:2].to_dict("list") == {
        "job": ["j0", "j1"],
        "arrival": [0.0, 17.0],
        "duration": [1481.0, 4037.0],
        "gpus": [1, 12],
        "model": ["vgg19", "DCGAN"],
        "line": [2, 3],
    }
    assert len(table) == len(first) == 160
