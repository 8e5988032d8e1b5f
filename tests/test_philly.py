"""Philly's jobs: read from files, and generated, against the laws that the quantiles state and the trace itself."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused
from scipy import stats

from hetopt import InvalidInstance, InvalidOption, UnusableFile
from hetopt.traces.hadar_generator import CLASSES, HOURS
from hetopt.traces.philly_generator import JOBS, LEVELS, SECONDS, PhillyLike
from hetopt.traces.philly_reader import COLUMNS, read_philly
from hetopt.traces.sampling import HOUR

TRACE = Path(__file__).parents[2] / "shared" / "data" / "traces" / "philly_jobs.csv.gz"
MANY = 200_000
TABLE = PhillyLike().table(MANY)

SMALL = """\
job_id,submit_time,submit_s,duration_s,num_gpus,vc
0,2017-09-04 10:30:41,0,90,8,a
2,2017-09-05 00:00:01,48560,7200,1,b
1,2017-09-04 23:59:59,48558,3600.5,2,a
"""


def written(folder: Path, old: str = "", new: str = "", text: str = SMALL) -> Path:
    assert old in text
    file = folder / "jobs.csv"
    file.write_text(text.replace(old, new, 1) if old else text, encoding="utf-8")
    return file


# Reading


def test_a_small_file(tmp_path: Path) -> None:
    table = read_philly(written(tmp_path))
    assert table.to_dict("list") == {
        "job": ["j0", "j1", "j2"],
        "arrival": [0.0, 48558.0, 48560.0],
        "duration": [90.0, 3600.5, 7200.0],
        "gpus": [8, 2, 1],
        "tenant": ["a", "a", "b"],
        "hour": [10, 23, 0],
        "line": [2, 4, 3],
    }


def test_compressed_files_and_other_columns(tmp_path: Path) -> None:
    plain = read_philly(written(tmp_path))
    more = "\n".join(f"{line},{i}" for i, line in enumerate(SMALL.splitlines()))
    (tmp_path / "jobs.csv.gz").write_bytes(gzip.compress(more.encode()))
    pd.testing.assert_frame_equal(read_philly(tmp_path / "jobs.csv.gz"), plain)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("duration_s", "seconds", "no column duration_s; it must have job_id, submit_time, submit_s, duration_s"),
        (",90,", ",0,", ":2: duration_s is '0'; it must be a finite number > 0"),
        (",90,", ",nan,", ":2: duration_s is 'nan'; it must be a finite number > 0"),
        (",7200,", ",,", ":3: duration_s is ''"),
        (",7200,", ",1e19,", ":3: duration_s is '1e19'"),
        (",48558,", ",-1,", ":4: submit_s is '-1'; it must be a finite number >= 0"),
        (",2,a", ",1.5,a", ":4: num_gpus is '1.5'; it must be a whole number >= 0"),
        (",8,a", ",many,a", ":2: num_gpus is 'many'"),
        (",8,a", ",8,", ":2: vc is ''; it must be a non-empty name"),
        ("2017-09-05 00:00:01", "yesterday", ":3: submit_time is 'yesterday'; it must be a time such as 2017-"),
        ("\n1,", "\n0,", ":4: job_id is '0'; it must be unlike the names above it"),
        (SMALL, SMALL.splitlines()[0], "has no row; it must have one for each job"),
        (SMALL, "", "is not CSV"),
        (SMALL, 'a,b\n"c', "is not CSV"),
    ],
)
def test_bad_rows_are_named(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInstance, match=f"jobs.csv.*{message}"):
        read_philly(written(tmp_path, old, new))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UnusableFile, match=r"none\.csv: cannot be read: No such file"):
        read_philly(tmp_path / "none.csv")
    with pytest.raises(UnusableFile, match="cannot be read"):
        read_philly(tmp_path)
    whole = gzip.compress(SMALL.encode())
    for content, error in ((SMALL.encode(), UnusableFile), (whole[:-20], InvalidInstance), (b"", InvalidInstance)):
        (tmp_path / "bad.csv.gz").write_bytes(content)
        with pytest.raises(error, match=r"bad\.csv\.gz"):
            read_philly(tmp_path / "bad.csv.gz")
    (tmp_path / "bad.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInstance, match=":1: is not text in UTF-8"):
        read_philly(tmp_path / "bad.csv")


# Generating


def test_numbers_of_gpus_have_their_shares() -> None:
    found = TABLE["gpus"].value_counts()
    expected = pd.Series(JOBS) / sum(JOBS.values()) * MANY
    assert set(found.index) <= set(expected.index)
    few = expected < 50
    assert stats.chisquare(
        [*found.reindex(expected.index[~few]), found.reindex(expected.index[few]).sum()],
        [*expected[~few], expected[few].sum()],
    ).pvalue > 0.01  # fmt: skip


def below(gpus: int, seconds: float) -> float:
    """Part of the jobs with so many GPUs that take up to so many whole seconds."""
    quantiles = SECONDS[max(n for n in SECONDS if n <= gpus)]
    return float(np.interp(np.log(np.floor(seconds) + 0.5), np.log(quantiles), LEVELS))


@pytest.mark.parametrize("gpus", [1, 2, 4, 8, 16])
def test_lengths_have_the_quantiles_of_their_gpus(gpus: int) -> None:
    lengths = TABLE["duration"][TABLE["gpus"] == gpus]
    assert (lengths == lengths.round()).all()
    for seconds in (10, 60, 300, 1117, 3600, 20_000, 100_000, 500_000):
        share = below(gpus, seconds)
        deviation = np.sqrt(share * (1 - share) / len(lengths))
        assert abs((lengths <= seconds).mean() - share) <= 4 * deviation, "by chance once in 16,000"


def class_shares(hours: Any) -> dict[str, float]:
    return {size.name: float(((size.above < hours) & (hours <= size.most)).mean()) for size in CLASSES}


PUBLISHED = {"S": 0.76799, "M": 0.16784, "L": 0.03465, "XL": 0.00643}
"""Shares of Hadar's classes among all jobs of the trace (hadar_gpu_hour_classes of the fits)."""


def law(above: float, most: float, gpus: int) -> float:
    """Part of all jobs that use so many GPUs, and GPU-hours between these."""
    often = JOBS[gpus] / sum(JOBS.values())
    return often * (below(gpus, most * HOUR / gpus) - below(gpus, above * HOUR / gpus))


def test_classes_have_the_shares_of_the_trace() -> None:
    """By the quantiles, within what lies between them; and generated, within four standard deviations of that."""
    found = class_shares(TABLE["duration"] * TABLE["gpus"] / HOUR)
    for size in CLASSES:
        share = sum(law(size.above, size.most, gpus) for gpus in JOBS)
        assert abs(share - PUBLISHED[size.name]) <= 0.008
        assert abs(share / PUBLISHED[size.name] - 1) <= 0.05
        assert abs(found[size.name] - share) <= 4 * np.sqrt(share * (1 - share) / MANY)


def test_many_gpus_are_in_use_where_many_gpu_hours_are() -> None:
    """Of the jobs of 60 to 100 GPU-hours 36 % have one GPU in the trace; were lengths independent it would be 85 %."""
    hours = TABLE["duration"] * TABLE["gpus"] / HOUR
    large = TABLE["gpus"][(hours > 60) & (hours <= 100)]
    share = law(60, 100, 1) / sum(law(60, 100, gpus) for gpus in JOBS)
    assert share == pytest.approx(0.361, abs=0.02)
    assert abs((large == 1).mean() - share) <= 4 * np.sqrt(share * (1 - share) / len(large))


def test_arrivals_come_in_bursts() -> None:
    """Counts of hours have mean and variance of the negative binomial law."""
    arrivals = TABLE["arrival"].to_numpy()
    assert (np.diff(arrivals) >= 0).all()
    counts = np.bincount((arrivals // HOUR).astype(int))[:-1]
    variance = 31.452 + 31.452**2 / 0.1931
    assert counts.mean() == pytest.approx(31.452, abs=4 * np.sqrt(variance / len(counts)))
    assert counts.var() == pytest.approx(variance, rel=0.3)
    assert (counts == 0).mean() == pytest.approx((1 + 31.452 / 0.1931) ** -0.1931, abs=0.03)


@settings(max_examples=30)
@given(jobs=st.integers(1, 2000), seed=st.integers(0, 99))
def test_any_length_and_seed(jobs: int, seed: int) -> None:
    table = PhillyLike().table(jobs, seed)
    assert list(table.columns) == ["job", "arrival", "duration", "gpus"]
    assert len(table) == jobs == table["job"].nunique()
    assert (table["duration"] >= 1).all()
    assert table["arrival"].is_monotonic_increasing
    pd.testing.assert_frame_equal(table, PhillyLike().table(jobs, seed))
    if jobs > 5:
        assert not table.equals(PhillyLike().table(jobs, seed + 1))


def test_settings_change_what_they_name() -> None:
    lengths = tuple(range(10, 130, 10))
    table = PhillyLike(jobs={3: 1, 6: 1}, seconds={3: list(lengths), 5: [7] * 12}).table(1000)  # type: ignore[dict-item]
    assert set(table["gpus"]) == {3, 6}
    assert table["duration"][table["gpus"] == 3].between(10, 120).all()
    assert (table["duration"][table["gpus"] == 6] == 7).all(), "6 GPUs take the lengths of 5"
    assert PhillyLike(jobs={1: 1}) == PhillyLike(jobs={1: 1})
    assert hash(PhillyLike()) == hash(PhillyLike(jobs=dict(JOBS)))
    even = PhillyLike(evenness=100.0, jobs_per_hour=5.0).table(5000)["arrival"]
    assert even.iloc[-1] / HOUR == pytest.approx(1000, rel=0.1)


@pytest.mark.parametrize(
    ("setting", "key", "match"),
    [
        ({"jobs": {}}, "PhillyLike.jobs", r"\{\}"),
        ({"jobs": {1: 0}}, "PhillyLike.jobs", r"\{1: 0\}"),
        ({"jobs": {1: -1}}, "PhillyLike.jobs[1]", None),
        ({"jobs": {0: 1}}, "a key of PhillyLike.jobs", "0"),
        ({"jobs": {1.5: 1}}, "a key of PhillyLike.jobs", r"1\.5"),
        ({"jobs": [1, 2]}, "PhillyLike.jobs", r"\[1, 2\]"),
        ({"jobs": {1: 1}, "seconds": {2: SECONDS[2]}}, "PhillyLike.seconds", None),
        ({"seconds": {1: (1, 2)}}, "PhillyLike.seconds[1]", r"\(1, 2\)"),
        ({"seconds": {1: (0, *range(1, 12))}}, "PhillyLike.seconds[1]", "> 0"),
        ({"seconds": {1: range(12)}}, "PhillyLike.seconds[1]", "12"),
        ({"seconds": {1: tuple(range(12, 0, -1))}}, "PhillyLike.seconds[1]", "length.*before"),
        ({"jobs_per_hour": 0}, "PhillyLike.jobs_per_hour", None),
        ({"evenness": float("nan")}, "PhillyLike.evenness", None),
    ],
)
def test_settings_out_of_range_are_refused(setting: dict[str, Any], key: str | None, match: str | None) -> None:
    with refused(InvalidOption, key, match):
        PhillyLike(**setting)


@pytest.mark.parametrize(("jobs", "seed"), [(0, 0), (1.5, 0), ("many", 0), (10**12, 0), (5, -1), (5, 0.5)])
def test_lengths_and_seeds_out_of_range_are_refused(jobs: Any, seed: Any) -> None:
    with pytest.raises(InvalidOption, match=r"jobs is|seed is"):
        PhillyLike().table(jobs, seed)


# The trace itself


@pytest.fixture(scope="module")
def trace() -> pd.DataFrame:
    if not TRACE.exists():
        pytest.skip("the Philly trace is not beside this checkout")
    return read_philly(TRACE)


def test_the_trace_is_read_whole(trace: pd.DataFrame) -> None:
    raw = pd.read_csv(TRACE)
    assert list(raw.columns) == list(COLUMNS)
    assert len(trace) == len(raw) == 82_247
    assert trace["duration"].sum() == raw["duration_s"].sum()
    assert (trace["gpus"] * trace["arrival"]).sum() == (raw["num_gpus"] * raw["submit_s"]).sum()
    assert trace["hour"].equals(((trace["arrival"] + 10 * 3600 + 30 * 60 + 41) // 3600 % 24).astype(int).rename("hour"))


def test_shares_and_quantiles_are_those_of_the_trace(trace: pd.DataFrame) -> None:
    assert (trace["gpus"].value_counts(normalize=True) * 1e5).round().to_dict() == JOBS
    for gpus, quantiles in SECONDS.items():
        found = trace["duration"][trace["gpus"] == gpus].quantile(LEVELS[1:])
        assert found.to_numpy() == pytest.approx(quantiles[1:], abs=0.051), "to one digit"
    assert trace["duration"].min() == 1
    found = class_shares(trace["duration"] * trace["gpus"] / HOUR)
    assert {name: round(share, 5) for name, share in found.items()} == PUBLISHED


def test_the_hours_are_as_their_docstring_says(trace: pd.DataFrame) -> None:
    hours = trace["duration"] * trace["gpus"] / HOUR
    ours, other = trace["hour"].isin(HOURS), trace["hour"].between(3, 9)
    assert (ours.sum(), other.sum()) == (34_105, 30_270)
    a, b = class_shares(hours[ours]), class_shares(hours[other])
    assert max(abs(a[name] - b[name]) for name in a) <= 0.004
