"""Hadar's workloads: 480 jobs of a trace, and seven mixes on two small clusters."""

from __future__ import annotations

import csv
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

import hetopt
from hetopt import Cluster, InvalidInstance, InvalidOption, Job, instances
from hetopt.experiments.trace_workload import TraceWorkload
from hetopt.models.hadar.hadar_workload import from_trace
from hetopt.registry import make_policy
from hetopt.traces.hadar_generator import CLASSES, HadarJobs
from hetopt.traces.paper_models import HADAR
from hetopt.traces.philly_generator import PhillyLike
from hetopt.traces.philly_reader import read_philly

SHARED = Path(__file__).parents[2] / "shared" / "data"
CLUSTER = instances.load("hadar/cluster60").cluster
MIXES = (1, 3, 4, 5, 8, 10, 12)


def model(job: Job) -> str:
    return job.name.rpartition("-")[0]


def size(seconds: float, gpus: int) -> str | None:
    """The class, as the paper's text has it."""
    hours = Fraction(seconds) * gpus / 3600
    bounds = {"S": (0, 1), "M": (1, 10), "L": (10, 50), "XL": (60, 100)}
    return next((name for name, (above, most) in bounds.items() if above < hours <= most), None)


MODELS_OF = {"S": {"ResNet-18"}, "M": {"CycleGAN"}, "L": {"LM", "Transformer"}, "XL": {"ResNet-50"}}
"""[Hadar, Table III]"""


# The workload of a trace

ROWS = st.lists(
    st.tuples(
        st.sampled_from([1, 60, 3600, 3601, 36_000, 180_000, 180_001, 200_000, 216_000, 216_001, 360_000, 360_001]),
        st.sampled_from([1, 2, 4, 8, 24, 60, 61, 128]),
        st.integers(0, 23),
    ),
    min_size=1,
    max_size=30,
)


@given(rows=ROWS, seed=st.integers(0, 99), hours=st.booleans())
def test_every_job_that_may_be_drawn_is_drawn_once(rows: list[tuple[int, int, int]], seed: int, hours: bool) -> None:
    table = pd.DataFrame(rows, columns=["duration", "gpus", "hour"]).assign(job=[f"j{i}" for i in range(len(rows))])
    if not hours:
        table = table.drop(columns="hour")
    may = {
        f"j{i}": (seconds, gpus)
        for i, (seconds, gpus, hour) in enumerate(rows)
        if size(seconds, gpus) and gpus <= 60 and (not hours or 2 <= hour < 10)
    }
    if not may:
        with pytest.raises(InvalidInstance, match="jobs is 1, but only 0 of the table can be drawn"):
            from_trace(table, CLUSTER, jobs=1, seed=seed)
        return
    instance = from_trace(table, CLUSTER, jobs=len(may), seed=seed)
    assert {job.name.rpartition("-")[2]: (job.work, job.demand) for job in instance.jobs} == may
    for job in instance.jobs:
        assert model(job) in MODELS_OF[size(job.work, job.demand) or ""]
        assert job.dataset == HADAR[model(job)].dataset
        assert job.arrival == 0
        assert job.throughput["V100"] == 1
    counted = sum(map(int, re.findall(r"(\d+) (?:came|request|are of)", instance.source)))
    assert counted == len(rows) - len(may)
    with pytest.raises(InvalidInstance, match=f"jobs is {len(may) + 1}, but only {len(may)} of the table can be drawn"):
        from_trace(table, CLUSTER, jobs=len(may) + 1)


def test_rows_are_drawn_alike() -> None:
    """Each of 20 is among 5 drawn with probability 1/4: within five standard deviations of it under 800 seeds."""
    table = PhillyLike(jobs={1: 1}, seconds={1: (60,) * 12}).table(20)
    drawn = Counter(job.name for seed in range(800) for job in from_trace(table, CLUSTER, jobs=5, seed=seed).jobs)
    assert len(drawn) == 20
    assert all(abs(n - 200) <= 5 * np.sqrt(800 * 3 / 16) for n in drawn.values())


def test_models_of_a_class_are_drawn_alike() -> None:
    large = PhillyLike(jobs={1: 1}, seconds={1: (72_000,) * 12}).table(4000)
    found = Counter(model(job) for job in from_trace(large, CLUSTER, jobs=4000).jobs)
    assert set(found) == {"LM", "Transformer"}
    assert abs(found["LM"] - 2000) <= 4 * np.sqrt(1000)


def test_seeds_and_order() -> None:
    table = PhillyLike().table(1000)
    first = from_trace(table, CLUSTER, jobs=100, seed=3)
    assert first == from_trace(table, CLUSTER, jobs=100, seed=3)
    assert first.jobs != from_trace(table, CLUSTER, jobs=100, seed=4).jobs
    rows = [int(job.name.rpartition("-j")[2]) for job in first.jobs]
    assert rows == sorted(rows)


@pytest.mark.parametrize("reference", ["K80", "P100", "V100"])
def test_durations_are_those_on_the_reference(reference: str) -> None:
    table = PhillyLike().table(300)
    cluster = Cluster.of({"V100": 4, "K80": 60})
    for job in from_trace(table, cluster, jobs=100, reference=reference).jobs:
        speedup = HADAR[model(job)].speed
        assert dict(job.throughput) == {t: round(speedup[t] / speedup[reference], 4) for t in ("V100", "K80")}


@pytest.mark.parametrize(
    ("wrong", "error", "key", "match"),
    [
        ({"jobs": 0}, InvalidOption, "jobs", None),
        ({"jobs": 2.5}, InvalidOption, "jobs", None),
        ({"seed": -1}, InvalidOption, "seed", None),
        ({"reference": "A100"}, InvalidOption, "reference", None),
        ({"reference": ["V100"]}, InvalidOption, "reference", None),
        ({"cluster": Cluster.of({"A100": 4})}, InvalidInstance, "cluster", None),
        ({"cluster": {"V100": 4}}, InvalidInstance, "cluster", None),
        ({"table": [1]}, InvalidInstance, "table", None),
        ({"table": pd.DataFrame({"job": ["a"]})}, InvalidInstance, None, "has no column duration, gpus"),
    ],
)
def test_what_cannot_be_is_refused(
    wrong: dict[str, Any], error: type[Exception], key: str | None, match: str | None
) -> None:
    given = {"table": PhillyLike().table(20), "cluster": CLUSTER, "jobs": 5, **wrong}
    with refused(error, key, match):
        from_trace(given.pop("table"), given.pop("cluster"), **given)


@pytest.mark.parametrize(
    ("column", "value", "key"),
    [
        ("duration", float("nan"), "jobs['j8'].duration"),
        ("gpus", 1.5, "jobs['j8'].gpus"),
        ("job", "j1", "jobs['j1'].job"),
        ("job", 7, "job"),
    ],
)
def test_rows_that_are_no_jobs_are_refused(column: str, value: Any, key: str) -> None:
    table = PhillyLike().table(20).astype({column: object})
    table.loc[7, column] = value
    with refused(InvalidInstance, key):
        from_trace(table, CLUSTER, jobs=5)


def test_the_real_trace() -> None:
    file = SHARED / "traces" / "philly_jobs.csv.gz"
    if not file.exists():
        pytest.skip("the Philly trace is not beside this checkout")
    table = read_philly(file)
    instance = from_trace(table, CLUSTER)
    rows = table.set_index("job").loc[[job.name.rpartition("-")[2] for job in instance.jobs]]
    assert len(instance.jobs) == 480
    assert rows["hour"].between(2, 9).all()
    assert rows["duration"].tolist() == [job.work for job in instance.jobs]
    assert rows["gpus"].tolist() == [job.demand for job in instance.jobs]
    assert "drawn from 33374 of a trace" in instance.source
    assert "48142 came at other hours; 5 request more GPUs than there are; 726 are of no class" in instance.source


def test_speeds_are_the_measured_medians() -> None:
    file = SHARED / "throughput" / "gpu_speedups.csv"
    if not file.exists():
        pytest.skip("the measured speedups are not beside this checkout")
    measured = {
        (row["model"], row["gpu"]): float(row["speedup"])
        for row in csv.DictReader(file.read_text().splitlines())
        if row["source"].startswith("gavel") and row["base_gpu"] == "K80"
    }
    for name, trained in HADAR.items():
        assert dict(trained.speed) == {"K80": 1, **{t: measured[name, t] for t in ("P100", "V100")}}


def test_classes_are_those_of_table_3() -> None:
    assert {kind.name: set(kind.models) for kind in CLASSES} == MODELS_OF
    assert {name for kind in CLASSES for name in kind.models} == set(HADAR)


# The generator


@given(jobs=st.integers(1, 60), seed=st.integers(0, 10**6), most=st.sampled_from([1, 4, 20, 60]))
def test_generated_jobs_have_a_model_of_their_class(jobs: int, seed: int, most: int) -> None:
    table = HadarJobs(most).table(jobs, seed)
    assert len(table) == table["job"].nunique() == jobs
    assert (table["arrival"] == 0).all()
    assert (table["gpus"] <= most).all()
    assert (table["duration"] == table["duration"].round()).all()
    for row in table.itertuples():
        assert row.model in MODELS_OF[size(row.duration, row.gpus) or ""]
    pd.testing.assert_frame_equal(table, HadarJobs(most).table(jobs, seed))


def test_generated_jobs_are_run_with_hadars_models() -> None:
    """Of the catalogues that know the GPU types the one is taken that knows the models, too."""
    made = TraceWorkload("hadar-jobs", "hadar/cluster60", tenants=None).instance(3)
    assert len(made.jobs) == 480
    assert "catalogue 'hadar'" in made.source
    table = HadarJobs().table(480, 3)
    for job, seconds, name in zip(made.jobs, table["duration"].tolist(), table["model"].tolist(), strict=True):
        assert (job.model, job.work) == (name, seconds)
        assert dict(job.throughput) == {t: v / HADAR[name].speed["V100"] for t, v in HADAR[name].speed.items()}
    assert "catalogue 'gavel'" in TraceWorkload("gavel-like", "hadar/cluster60", tenants=None).instance().source
    with pytest.raises(InvalidOption, match=r"HadarJobs\.most_gpus is 0"):
        HadarJobs(0)


# The instance with 480 jobs


def test_the_instance_is_what_its_source_says() -> None:
    loaded, table = instances.load("hadar/trace480"), PhillyLike().table(10_000, seed=0)
    made = from_trace(table, CLUSTER, seed=4)
    assert loaded == made.replace(name=loaded.name, source=loaded.source)
    assert loaded.cluster == CLUSTER
    longest = [max(job.work for job in from_trace(table, CLUSTER, seed=s).jobs) for s in range(5)]
    assert [seconds <= 40 * 3600 for seconds in longest] == [False] * 4 + [True], "seed 4 is the first"


def test_the_480_jobs_have_the_classes_of_the_trace() -> None:
    """Within four standard deviations of the published shares among the jobs of the four classes."""
    published = {"S": 0.76799, "M": 0.16784, "L": 0.03465, "XL": 0.00643}
    jobs = instances.load("hadar/trace480").jobs
    found = Counter(size(job.work, job.demand) for job in jobs)
    assert sum(found.values()) == len(jobs) == 480
    for name, share in published.items():
        part = share / sum(published.values())
        assert abs(found[name] - 480 * part) <= 4 * np.sqrt(480 * part * (1 - part)), name
    for job in jobs:
        assert model(job) in MODELS_OF[size(job.work, job.demand) or ""]
        assert job.demand <= 20, "every job fits the GPUs of one type, too"
    printed = instances.expected("hadar/trace480")["classes"].correct
    assert list(printed.values()) == [(kind.above, kind.most) for kind in CLASSES]


# The mixes

K80_SECONDS = {"S": 1800, "M": 2700, "L": 3600, "XL": 5400}
SIZE_OF = {"IC": "S", "LM": "L", "LT": "L", "RS": "XL", "MM": "M"}
"""[Hadar, Table IV]"""
V100_OVER_K80 = {"IC": 6.75, "LM": 3.93, "LT": 3.48, "RS": 0.72, "MM": 3.48}
TFLOPS = {"T400": 1.094, "RTX A2000": 7.99, "T4": 8.14, "Titan RTX": 16.3, "RTX 3090": 35.6}
GBYTES_PER_S = {"T400": 80, "RTX A2000": 288, "T4": 320, "Titan RTX": 672, "RTX 3090": 936}


def kind_of(job: Job) -> str:
    return re.sub(r"\d+$", "", job.name)


def over_k80(kind: str) -> dict[str, float]:
    """Speeds relative to K80; half of the V100's is given to one digit."""
    t4 = 1.4 if kind == "RS" else round(V100_OVER_K80[kind] / 2, 1)
    peak = GBYTES_PER_S if kind == "RS" else TFLOPS
    laboratory = {t: t4 * peak[t] / peak["T4"] for t in TFLOPS}
    return {"K80": 1.0, "V100": V100_OVER_K80[kind], **laboratory}


@pytest.mark.parametrize("name", [f"hadar/{where}m{n}" for where in ("", "lab-") for n in MIXES])
def test_speeds_of_mixes_follow_from_the_assumptions(name: str) -> None:
    """To six digits, as the files have them."""
    instance = instances.load(name)
    for job in instance.jobs:
        ratio, seconds = over_k80(kind_of(job)), K80_SECONDS[SIZE_OF[kind_of(job)]]
        assert job.work == 1
        for t, speed in job.throughput.items():
            assert f"{speed:.6g}" == f"{ratio[t] / seconds:.6g}", (job.name, t)


@pytest.mark.parametrize("n", MIXES)
def test_both_clusters_train_the_same_mix(n: int) -> None:
    lab, aws = instances.load(f"hadar/lab-m{n}"), instances.load(f"hadar/m{n}")
    assert lab.cluster == instances.load("hadar/lab").cluster
    assert [(job.name, job.dataset, job.throughput["T4"]) for job in lab.jobs] == [
        (job.name, job.dataset, job.throughput["T4"]) for job in aws.jobs
    ]
    (mix,) = instances.expected(f"hadar/lab-m{n}")["mix"].correct.values()
    wanted: Counter[str] = Counter()
    for part in mix:
        times, _, kind = part.rpartition("x")
        wanted[kind] += int(times or 1)
    assert Counter(map(kind_of, lab.jobs)) == wanted
    assert len(lab.jobs) == n


def test_the_sources_state_the_numbers_that_are_used() -> None:
    source = instances.load("hadar/lab-m5").source
    for kind in SIZE_OF:
        assert f"{over_k80(kind)['T4']:g}" in source
        assert f"{K80_SECONDS[SIZE_OF[kind]]}" in source
    assert ", ".join(f"{t} {v:g}" for t, v in TFLOPS.items()) in source
    assert ", ".join(map(str, GBYTES_PER_S.values())) in source


def test_mixes_can_be_simulated() -> None:
    log = hetopt.simulate(make_policy("gavel-makespan"), instances.load("hadar/lab-m5"), fluid=True)
    assert log.jobs["finish"].notna().all()
