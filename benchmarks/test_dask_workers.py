"""A sweep of simulations in processes of this machine and in workers of Dask: the same results, and the efficiency.

The efficiency of two workers is the time of one, divided by twice their time. Times are those of ``Experiment.run`` and
include what every sweep pays once: connecting, and the imports of new workers.
"""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from pathlib import Path
from statistics import median

import pandas as pd
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from hetopt.experiments.experiment import Experiment, SystemVariant
from hetopt.experiments.run_store import RunStore
from hetopt.experiments.trace_workload import TraceWorkload

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from dask_cluster import dask_cluster, hiding

SYSTEMS = {"even": ("gavel",), "uneven": ("srtf", "las", "fft", "gavel")}
"""Runs of one system take about the same time; those of several are far apart, and the longest come last."""

WORKERS = {"1 worker": {"workers": 1}, "2 workers": {"workers": 2}, "2 hosts": {"workers": 1, "hosts": 2}}
"""Of Dask; hosts are commands in other folders, to which the folder of results is another, empty one."""

TURNS = 3


def table(store: RunStore) -> pd.DataFrame:
    """All results but wall-clock times."""
    found = store.table()
    return found[[name for name in found if not name.startswith("decision_")]]


@pytest.mark.parametrize("systems", SYSTEMS)
def test_workers_of_dask(benchmark: BenchmarkFixture, full: bool, tmp_path: Path, systems: str) -> None:
    """The ways in turn: medians, and of each turn the efficiency and the part of their time in which workers ran."""
    pytest.importorskip("distributed", reason="dask and distributed are not installed")
    if systems == "uneven" and not full:
        pytest.skip("the same, with other runs")
    variants = tuple(map(SystemVariant, SYSTEMS[systems]))
    workload = TraceWorkload("gavel-like", "hadar/cluster60", count=100 if full else 5)
    sweep = Experiment((workload,), variants, tuple(range(12 // len(variants) if full else 2)))
    ways = {"1 process": 1, "2 processes": 2, **WORKERS} if full else {"1 process": 1, "2 hosts": WORKERS["2 hosts"]}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    busy: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(TURNS if full else 1):
        for way, how in ways.items():
            store = RunStore(tmp_path / "stores" / f"{way}-{turn}")
            store.path.mkdir(parents=True)
            folder = tmp_path / f"dask-{way}-{turn}"
            folder.mkdir()
            place = nullcontext(how) if isinstance(how, int) else dask_cluster(folder, hidden=store.path.parent, **how)
            with place as jobs:
                began = time.perf_counter()
                records = sweep.run(store, jobs=jobs)
                seconds[way].append(time.perf_counter() - began)
            busy[way].append(sum(record.seconds for record in records) / (int(way[0]) * seconds[way][-1]))
            pd.testing.assert_frame_equal(table(store), table(RunStore(tmp_path / "stores" / "1 process-0")))
    benchmark.pedantic(lambda: None, rounds=1)
    benchmark.extra_info |= {way: median(found) for way, found in seconds.items()}
    benchmark.extra_info |= {f"busy, {way}": found for way, found in busy.items()}
    benchmark.extra_info["hosts share no folder"] = bool(hiding(tmp_path))
    for one, two in (("1 process", "2 processes"), ("1 worker", "2 workers"), ("1 worker", "2 hosts")):
        if one in seconds and two in seconds:
            found = [alone / (2 * both) for alone, both in zip(seconds[one], seconds[two], strict=True)]
            benchmark.extra_info[f"efficiency of {two}"] = found
