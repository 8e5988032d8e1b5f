"""Traces of 2023 to 2026: readers by hand, generators against the published statistics of the traces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from hetopt import InvalidInstance, InvalidOption
from hetopt.traces.acme_generator import AcmeLike
from hetopt.traces.acme_reader import read_acme
from hetopt.traces.alibaba_spot_generator import AlibabaSpotLike
from hetopt.traces.alibaba_spot_reader import read_alibaba_spot
from hetopt.traces.kinds import detect_kind
from hetopt.traces.sampling import Lengths, LengthTable

JOBS = 200_000
SPOT = AlibabaSpotLike().table(JOBS, seed=1)
ACME = AcmeLike().table(JOBS, seed=1)
CLASSES = {"Eval": 0.6485, "SFT": 0.1486, "Other": 0.1456, "MLLM": 0.0295, "Debug": 0.0188, "Pretrain": 0.0089}
EVEN = AcmeLike(job_classes=dict.fromkeys(CLASSES, 1)).table(300_000, seed=2)
"""As many jobs of each class: statistics with the classes' shares as weights vary little."""

SHARE = 0.005
"""Allowed distance of a share of 200,000 jobs: more than four standard deviations, and the digits of the settings."""


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# Readers


SPOT_HEADER = "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type"


def test_spot_jobs_by_hand(tmp_path: Path) -> None:
    file = write(
        tmp_path / "job_info_df.csv",
        SPOT_HEADER,
        "7,13,A10,20,1,1,90000,120,HP",
        "8,57,H800,184,8.0,16,86399,3600,Spot",
        "9,13,A10,8,0.3,4,100000,60.5,Spot",
        "10,13,A10,8,0.1,30,100000,60,HP",
        "11,13,A10,8,0,1,100000,60,HP",
        "12,13,A10,8,1,1,100000,0,HP",
    )
    table = read_alibaba_spot(file)
    assert table.to_dict("list") == {
        "job": ["j8", "j7", "j9", "j10"],
        "arrival": [0.0, 3601.0, 13601.0, 13601.0],
        "duration": [3600.0, 120.0, 60.5, 60.0],
        "gpus": [128, 1, 2, 3],  # 4 workers with 0.3 GPUs each have 1.2; 30 with 0.1 have 3
        "tenant": ["57", "13", "13", "13"],
        "gpu_type": ["H800", "A10", "A10", "A10"],
        "job_class": ["Spot", "HP", "Spot", "HP"],
        "hour": [23, 1, 3, 3],
        "line": [3, 2, 4, 5],
    }
    assert table.attrs == {"left_out": {"no GPU": 1, "0 seconds of training": 1}, "rounded_up": 1}
    assert detect_kind(file) == "alibaba-spot"


KALOS_HEADER = (
    "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,"
    "fail_time,stop_time,duration,queue,gpu_time"
)


def kalos(job: str, gpus: str, state: str, *times: str, kind: str = "Pretrain") -> str:
    """A row whose duration counts from the submission, as the published ones."""
    submit, start, end = times
    return f"{job},u1,8,{gpus},960,1000,100.0,{kind},{state},{submit},{start},{end},,,999,10.0,0.0"


def test_acme_jobs_by_hand(tmp_path: Path) -> None:
    file = write(
        tmp_path / "trace_kalos.csv",
        KALOS_HEADER,
        kalos("dlcb", "64", "FAILED", *(f"2023-05-17 {t}+00:00" for t in ("16:01:00", "16:01:10", "16:03:10"))),
        kalos("dlca", "8", "COMPLETED", *(f"2023-05-17 {t}+08:00" for t in ("23:59:30", "23:59:30", "23:59:45"))),
        kalos("dlcc", "0", "COMPLETED", *(["2023-05-17 16:00:00+00:00"] * 3), kind=""),
        kalos("dlcd", "8", "RUNNING", "2023-05-17 16:00:00+00:00", "2023-05-17 16:00:00+00:00", ""),
        kalos("dlce", "8", "CANCELLED", "2023-05-17 16:00:00+00:00", "", "2023-05-17 16:00:00+00:00"),
        kalos("dlcf", "8", "FAILED", *(["2023-05-17 16:00:00+00:00"] * 3)),
    )
    table = read_acme(file)
    assert table.to_dict("list") == {
        "job": ["jdlca", "jdlcb"],
        "arrival": [0.0, 90.0],
        "duration": [15.0, 120.0],
        "gpus": [8, 64],
        "user": ["u1", "u1"],
        "job_class": ["Pretrain", "Pretrain"],
        "status": ["COMPLETED", "FAILED"],
        "hour": [23, 0],
        "line": [3, 2],
    }
    left_out = {"no GPU": 1, "no time of start": 1, "no time of end": 1, "0 seconds of training": 1}
    assert table.attrs == {"left_out": left_out, "rounded_up": 0}
    assert detect_kind(file) == "acme"


def test_bad_cells_of_both_have_their_place(tmp_path: Path) -> None:
    file = write(tmp_path / "spot.csv", SPOT_HEADER, "7,13,A10,20,1,1,0,120,HP", "8,13,A10,20,1,1,0,120,low")
    with refused(InvalidInstance, "job_type", "it must be one of HP, Spot", file="spot.csv", line=3):
        read_alibaba_spot(file)
    times = ["2023-05-17 16:00:00+00:00"] * 2
    file = write(tmp_path / "acme.csv", KALOS_HEADER, kalos("a", "8", "FAILED", "2023-05-17 16:00:00", *times))
    with refused(InvalidInstance, "submit_time", r"2017-09-04 10:30:41\+08:00", file="acme.csv", line=2):
        read_acme(file)


# Alibaba: counts of all 466,867 jobs, as published


def test_spot_jobs_have_the_published_sizes() -> None:
    jobs = {1: 48587 + 297596, 4: 48978, 8: 45752, 16: 12051, 32: 6760, 64: 3262, 128: 1594, 10**9: 2287}
    found = np.diff([0.0, *((SPOT["gpus"] <= most).mean() for most in jobs)])
    assert abs(found - np.array(list(jobs.values())) / 466_867).max() <= SHARE
    types = {"A10": 228643, "A100-SXM4-80GB": 169020, "GPU-series-2": 30397, "GPU-series-1": 18911, "H800": 11097}
    types["A800-SXM4-80GB"] = 8799
    counted = SPOT["gpu_type"].value_counts(normalize=True)
    assert {t: abs(counted[t] - n / 466_867) <= SHARE for t, n in types.items()} == dict.fromkeys(types, True)
    demand = {"A100-SXM4-80GB": 828768, "GPU-series-2": 442571, "GPU-series-1": 40843.5, "H800": 721498}
    mean = SPOT.groupby("gpu_type")["gpus"].mean()
    for t, gpus in demand.items():
        assert mean[t] == pytest.approx(gpus / types[t], rel=0.08), t
    assert 210325 / 228643 < mean["A10"] < (210325 + 48587) / 228643, "parts of a GPU are rounded up"


def test_spot_jobs_have_the_published_lengths() -> None:
    ends = [0, 60, 600, 3600, 21_600, 86_400, 259_200, np.inf]
    jobs = np.array([57687, 115172, 162994, 65561, 28365, 9060, 28028])
    found = pd.cut(SPOT["duration"], ends, right=False).value_counts(normalize=True, sort=False)
    assert abs(found.to_numpy() - jobs / 466_867).max() <= SHARE
    by_class = SPOT.groupby("job_class")["duration"]
    assert by_class.median().to_dict() == pytest.approx({"HP": 1101.0, "Spot": 2095.5}, rel=0.03)
    assert by_class.quantile(0.9).to_dict() == pytest.approx({"HP": 58_770.0, "Spot": 21_740.0}, rel=0.1)
    late = (SPOT["duration"] >= 21_600).groupby(SPOT["job_class"]).mean()
    assert late.to_dict() == pytest.approx({"HP": 0.14496, "Spot": 0.10152}, abs=SHARE)
    assert SPOT["duration"].quantile([0.5, 0.99]).tolist() == pytest.approx([1216.0, 5_663_026.0], rel=0.05)


def test_spot_jobs_have_the_published_gpu_time() -> None:
    """Of types and sizes, to which it is fitted; in total and of spot jobs, to which it is not."""
    seconds = SPOT["gpus"] * SPOT["duration"]
    total = 142.3137e9
    published = {"A10": 52.8200e9, "A100-SXM4-80GB": 40.7818e9, "GPU-series-1": 18.7813e9, "GPU-series-2": 10.3588e9}
    published |= {"H800": 17.6782e9, "A800-SXM4-80GB": 1.8941e9}
    found = seconds.groupby(SPOT["gpu_type"]).sum() / seconds.sum()
    assert abs(found - pd.Series(published) / total).max() <= 0.04, "of which 0.015 are parts of a GPU, rounded up"
    sizes = {1: 1.0697e9 + 77.8561e9, 4: 11.1713e9, 10**9: 52.2175e9}
    parts = np.diff([0.0, *(seconds[SPOT["gpus"] <= most].sum() for most in sizes)]) / seconds.sum()
    assert abs(parts - np.array(list(sizes.values())) / total).max() <= 0.04
    assert seconds.mean() == pytest.approx(total / 466_867, rel=0.1)
    assert seconds[SPOT["job_class"] == "Spot"].sum() / seconds.sum() == pytest.approx(0.0243, abs=0.007)


def test_organisations_classes_and_arrivals_are_as_published() -> None:
    share = SPOT["tenant"].value_counts(normalize=True)
    first = {"13": 181107, "57": 108911, "66": 45879, "19": 43293, "24": 16584}
    assert {o: abs(share[o] - n / 466_867) <= 2 * SHARE for o, n in first.items()} == dict.fromkeys(first, True)
    assert len(share) == 18
    assert (SPOT["job_class"] == "Spot").mean() == pytest.approx(51154 / 466_867, abs=SHARE)
    per_hour = np.bincount((SPOT["arrival"] // 3600).astype(int))[:-1]
    assert per_hour.mean() == pytest.approx(104.89, rel=0.05)
    assert per_hour.var() == pytest.approx(6517.4, rel=0.2)
    of_hour = SPOT["hour"].value_counts(normalize=True)
    assert of_hour[range(10, 18)].sum() > 1.3 * of_hour[range(0, 8)].sum(), "busy days, quiet nights"


# Acme: shares read from the published figures


def test_acme_jobs_have_the_published_sizes_and_gpu_time() -> None:
    jobs = {1: 54.04, 2: 65.43, 4: 67.95, 8: 96.75, 16: 97.86, 32: 98.82, 64: 99.32, 128: 99.55, 256: 99.73, 512: 99.86}
    time = {1: 1.35, 2: 1.79, 4: 2.37, 8: 11.92, 16: 13.15, 32: 19.12, 64: 27.59, 128: 41.69, 256: 56.30, 512: 69.69}
    seconds = EVEN["gpus"] * EVEN["duration"] * EVEN["job_class"].map(CLASSES)
    for most, share in jobs.items():
        assert (ACME["gpus"] <= most).mean() == pytest.approx(share / 100, abs=SHARE)
        part = seconds[EVEN["gpus"] <= most].sum() / seconds.sum()
        assert part == pytest.approx(time[most] / 100, abs=0.05), "it is not fitted to this"
    of_class = {"Pretrain": 0.695, "MLLM": 0.086, "Other": 0.076, "SFT": 0.064, "Eval": 0.062, "Debug": 0.017}
    assert abs(seconds.groupby(EVEN["job_class"]).sum() / seconds.sum() - pd.Series(of_class)).max() <= 0.025
    share_of = ACME["job_class"].value_counts(normalize=True)
    assert {name: abs(share_of[name] - share) <= SHARE for name, share in CLASSES.items()} == dict.fromkeys(
        CLASSES, True
    )


def test_acme_classes_have_the_published_quartiles_of_gpus() -> None:
    quartiles = {"Eval": [1, 1, 4], "Pretrain": [64, 128, 256], "SFT": [2, 8, 8], "MLLM": [1, 2, 8], "Debug": [8, 8, 8]}
    quartiles["Other"] = [1, 1, 8]
    for name, wanted in quartiles.items():
        gpus = EVEN.loc[EVEN["job_class"] == name, "gpus"]
        assert (gpus.quantile([0.24, 0.49, 0.74]) <= wanted).all(), name
        assert (gpus.quantile([0.26, 0.51, 0.76]) >= wanted).all(), name


def test_acme_lengths_are_those_of_another_figure() -> None:
    """Of all jobs of Seren, in percent below 1, 2, 4, … s; the generator has those of each class."""
    below = [
        2.18,
        2.78,
        5.62,
        11.76,
        23.38,
        31.71,
        37.12,
        48.91,
        65.63,
        79.21,
        88.03,
        92.94,
        95.99,
        97.53,
        98.44,
        99.19,
    ]
    seconds = ACME["duration"].to_numpy()
    for k, share in enumerate(below):
        if k >= 4:  # below, rounding to whole seconds matters
            assert (seconds <= 2**k).mean() == pytest.approx(share / 100, abs=SHARE + 0.01 * (k < 6))
    assert ACME["duration"].min() >= 1
    assert ACME["duration"].max() <= 2**21
    assert ACME["arrival"].iloc[-1] / JOBS == pytest.approx(3600 / 102.04, rel=0.02)


# Any settings


def test_the_same_seed_gives_the_same_jobs() -> None:
    for trace in (AlibabaSpotLike(), AcmeLike()):
        pd.testing.assert_frame_equal(trace.table(500, 3), trace.table(500, 3))
        assert not trace.table(500, 4).equals(trace.table(500, 3))


@pytest.mark.parametrize(
    ("trace", "change", "columns"),
    [
        (AlibabaSpotLike(), {"organisations": {"a": 1, "b": 2}}, {"tenant"}),
        (AlibabaSpotLike(), {"spot_share": 0.5}, {"job_class", "duration"}),
        (AlibabaSpotLike(), {"spot": Lengths(((1, 5, 1),), 1, 1000)}, {"duration"}),
        (AlibabaSpotLike(), {"jobs_per_hour": 1.0}, {"arrival", "hour"}),
        (AlibabaSpotLike(), {"long_by_gpus": {1: 0.5}}, {"duration"}),
        (AcmeLike(), {"jobs_per_hour": 1.0}, {"arrival"}),
        (AcmeLike(), {"correlation": dict.fromkeys(AcmeLike().job_classes, 0.5)}, {"duration"}),
    ],
)
def test_a_setting_changes_its_own_columns_alone(trace: Any, change: dict[str, Any], columns: set[str]) -> None:
    before, after = trace.table(3000, 3), replace(trace, **change).table(3000, 3)
    assert {key for key in before.columns if not before[key].equals(after[key])} == columns


def test_types_and_long_jobs_may_be_left_out() -> None:
    known = {"A10": 3.0, "H800": 1.0}
    few = AlibabaSpotLike(gpu_types=known, long_share=dict.fromkeys(known, 0.0), organisations={}).table(20_000)
    assert "tenant" not in few
    assert few["gpu_type"].value_counts(normalize=True).to_dict() == pytest.approx(
        {"A10": 0.75, "H800": 0.25}, abs=0.02
    )
    assert few.loc[few["job_class"] == "HP", "duration"].max() <= 86_400
    every = AlibabaSpotLike(gpu_types=known, long_share=dict.fromkeys(known, 1.0), long_by_gpus={1: 5.0}).table(5000)
    assert every.loc[every["job_class"] == "HP", "duration"].min() >= 86_400
    assert every.loc[every["gpus"] >= 32, "duration"].max() <= 913_070 < every["duration"].max()


def test_correlated_jobs_have_more_gpu_time() -> None:
    """From -1 to 1, where the longest jobs are the largest."""
    found = []
    for value in (-1.0, 0.0, 1.0):
        table = AcmeLike(job_classes={"SFT": 1}, correlation={"SFT": value}).table(20_000)
        found.append(float((table["gpus"] * table["duration"]).mean()))
        ranks = table[["gpus", "duration"]].corr("spearman").iloc[0, 1]
        assert (ranks < -0.8, abs(ranks) < 0.05, ranks > 0.8) == (value == -1, value == 0, value == 1)
    assert found == sorted(found)


LEVELS = st.floats(0, 1, exclude_min=True)  # a jump at level 0 would hide the first length


@given(st.lists(st.floats(1, 1e6), min_size=2, max_size=6), st.lists(LEVELS, max_size=4), st.floats(0, 1))
def test_tables_of_lengths_are_distributions(seconds: list[float], inner: list[float], level: float) -> None:
    points = min(len(seconds), len(inner) + 2)
    table = LengthTable(tuple(sorted(seconds)[:points]), (0.0, *sorted(inner)[: points - 2], 1.0))
    low, mid, high = table.at(np.array([0.0, level, 1.0]))
    assert (table.seconds[0], table.seconds[-1]) == pytest.approx((low, high))
    assert low <= mid * (1 + 1 / 2**40)
    assert mid <= high * (1 + 1 / 2**40)


def test_lengths_between_two_points_are_even_in_the_logarithm() -> None:
    assert LengthTable((1, 100, 10_000), (0, 0.5, 1)).at(np.array([0.25, 0.5, 0.75])).tolist() == pytest.approx(
        [10, 100, 1000]
    )


TYPES = dict.fromkeys(AlibabaSpotLike().gpu_types, 0.5)


@pytest.mark.parametrize(
    ("make", "key", "match"),
    [
        (lambda: AlibabaSpotLike(gpu_types={"T4": 1}), "AlibabaSpotLike.gpus", "no entry for T4"),
        (lambda: AlibabaSpotLike(gpu_types={}), "AlibabaSpotLike.gpu_types", "at least one"),
        (lambda: AlibabaSpotLike(gpus=5), "AlibabaSpotLike.gpus", "mapping"),  # type: ignore[arg-type]
        (lambda: AlibabaSpotLike(long_share={"A10": 0.5}), "AlibabaSpotLike.long_share", "A100"),
        (lambda: AlibabaSpotLike(long_share=TYPES | {"A10": 2}), "AlibabaSpotLike.long_share['A10']", "at most 1"),
        (lambda: AlibabaSpotLike(long_by_gpus={0: 1}), "a key of AlibabaSpotLike.long_by_gpus", None),
        (lambda: AlibabaSpotLike(long_by_gpus={2: 1}), "AlibabaSpotLike.long_by_gpus", "no entry for 1 GPU"),
        (lambda: AlibabaSpotLike(long={1: 5}), "AlibabaSpotLike.long[1]", "LengthTable"),  # type: ignore[dict-item]
        (lambda: AlibabaSpotLike(spot_share=1.5), "AlibabaSpotLike.spot_share", None),
        (lambda: AlibabaSpotLike(spot=5), "AlibabaSpotLike.spot", None),  # type: ignore[arg-type]
        (lambda: AlibabaSpotLike(short=None), "AlibabaSpotLike.short", None),  # type: ignore[arg-type]
        (lambda: AlibabaSpotLike(evenness=0), "AlibabaSpotLike.evenness", None),
        (lambda: AlibabaSpotLike().table(0), "jobs", None),
        (lambda: AcmeLike(job_classes={"RL": 1}), "AcmeLike.gpus", "no entry for RL"),
        (lambda: AcmeLike(correlation=dict.fromkeys(AcmeLike().gpus, 2)), "AcmeLike.correlation['Eval']", "at most 1"),
        (lambda: AcmeLike(lengths=dict.fromkeys(AcmeLike().gpus, 2)), "AcmeLike.lengths['Eval']", "LengthTable"),  # type: ignore[arg-type]
        (lambda: AcmeLike(jobs_per_hour=0), "AcmeLike.jobs_per_hour", None),
        (lambda: LengthTable((1,), (0, 1)), "LengthTable.seconds", "two or more"),
        (lambda: LengthTable((1, 2, 3), (0, 1)), "LengthTable", "3 and 2 numbers"),
        (lambda: LengthTable((0, 2), (0, 1)), "LengthTable.seconds", "> 0"),
        (lambda: LengthTable((3, 2), (0, 1)), "LengthTable.seconds", "smaller"),
        (lambda: LengthTable((1, 2), (0.5, 1)), "LengthTable.below", "from 0 to 1"),
        (lambda: LengthTable((1, 2), 7), "LengthTable.below", "two or more"),  # type: ignore[arg-type]
    ],
)
def test_bad_settings_are_named(make: Any, key: str, match: str | None) -> None:
    with refused(InvalidOption, key, match):
        make()
