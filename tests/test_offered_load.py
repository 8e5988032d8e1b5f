"""How much a trace asks of a cluster: by hand, by a plain loop, and as wanted after scaling."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

from hetopt import Cluster, Instance, InvalidInstance, InvalidOption, Job, instances
from hetopt.traces.catalogue import Catalogue, TrainedModel
from hetopt.traces.conversion import to_instance
from hetopt.traces.fft_generator import FFTTrace
from hetopt.traces.gavel_generator import GavelLike
from hetopt.traces.offered_load import offered_load, scale_to_load
from hetopt.traces.paper_models import FFT
from hetopt.traces.philly_generator import PhillyBatches


def test_the_load_of_two_jobs() -> None:
    """Four T4 and four V100, twice as fast: 1.5 on average. Two GPUs for 300 s and one for 600 s come in 100 s."""
    cluster = Cluster.of({"T4": 4, "V100": 4})
    jobs = (Job("a", {"T4": 1.0, "V100": 2.0}, 450, 2), Job("b", {"T4": 1.0, "V100": 2.0}, 900, 1, arrival=100))
    assert offered_load(Instance(cluster, jobs=jobs)) == (2 * 300 + 600) / 100 / 8


def test_jobs_count_on_types_that_can_run_their_gang() -> None:
    """``a`` has room on V100 alone, ``b`` memory on T4 alone, whatever their speeds elsewhere."""
    cluster = Cluster.of({"T4": 2, "V100": 6}, memory_bytes={"T4": 16, "V100": 8})
    speed = {"T4": 1.0, "V100": 4.0}
    jobs = (Job("a", speed, 800, 4, memory_bytes=4), Job("b", speed, 200, 1, arrival=10, memory_bytes=12))
    assert offered_load(Instance(cluster, jobs=jobs)) == (4 * 200 + 200) / 10 / 8


@pytest.mark.parametrize("load", [0.125, 0.9, 3.0])
def test_scaled_traces_ask_for_what_is_wanted(load: float) -> None:
    cluster = instances.load("lab108").cluster
    table = PhillyBatches().table(3000, seed=1)
    for options in ({}, {"too_large": "cut"}, {"seed": 4}, {"reference": "V100"}):
        more: Any = options
        other = scale_to_load(table, load, cluster, FFT, **more)
        assert offered_load(to_instance(other, cluster, FFT, **more)) == pytest.approx(load)
        changed = {key for key in table.columns if not table[key].equals(other[key])}
        assert changed == {"arrival"}
        ratio = other["arrival"].iloc[1:] / table["arrival"].iloc[1:]
        assert ratio.max() / ratio.min() == pytest.approx(1), "all by one factor"


def test_without_a_catalogue_all_gpus_are_alike() -> None:
    table = pd.DataFrame({"job": ["a", "b"], "arrival": [5.0, 15.0], "duration": [60.0, 20.0], "gpus": [1, 2]})
    cluster = Cluster.of({"X": 3, "Y": 2})
    other = scale_to_load(table, 0.5, cluster)  # 100 GPU-seconds over 5 GPUs are 20 seconds of all; half of that in 40
    assert other["arrival"].tolist() == [5, 45]
    named = scale_to_load(table.assign(model="of no catalogue"), 0.5, cluster)
    assert named["arrival"].tolist() == [5, 45]


def test_jobs_that_are_dropped_ask_for_nothing() -> None:
    table = pd.DataFrame(
        {"job": ["a", "b", "c"], "arrival": [0.0, 10.0, 90.0], "duration": [60.0, 40.0, 9e9], "gpus": [1, 1, 50]}
    )
    other = scale_to_load(table, 1.0, Cluster.of({"X": 1}))
    assert other["arrival"].tolist() == [0, 100, 900], "the third is none of the load, and keeps its distance"


def test_loads_of_ffts_traces_are_those_of_the_documentation() -> None:
    """In its table of what the paper leaves open; of seed 0."""
    page = (Path(__file__).parents[1] / "docs" / "how-to" / "use-a-trace.md").read_text()
    listed = re.search(r"on `lab108` the loads are ([\d., ]+) for 3 to 9", page)
    assert listed is not None
    cluster = instances.load("lab108").cluster
    found = [offered_load(to_instance(FFTTrace(n).table(), cluster, FFT)) for n in range(3, 10)]
    assert [f"{load:.2f}" for load in found] == listed[1].split(", ")


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_any_trace_can_be_scaled(data: st.DataObject) -> None:
    rows = data.draw(st.integers(2, 8))
    numbers = st.lists(st.integers(1, 9), min_size=rows, max_size=rows)
    arrival = np.cumsum(data.draw(numbers)).astype(float)
    table = pd.DataFrame(
        {
            "job": [f"j{i}" for i in range(rows)],
            "arrival": arrival,
            "duration": np.array(data.draw(numbers)) * 100.0,
            "gpus": data.draw(numbers),
        }
    )
    known = Catalogue(
        "c", (TrainedModel("m", {"A": 1.0, "B": 3.0}), TrainedModel("n", {"A": 2.0, "B": 0.5}, gpus=(2, 4)))
    )
    cluster = Cluster.of({"A": data.draw(st.integers(1, 9)), "B": data.draw(st.integers(9, 12))})
    load, seed = data.draw(st.sampled_from([0.25, 1.0, 2.5])), data.draw(st.integers(0, 9))
    made = to_instance(scale_to_load(table, load, cluster, known, seed=seed), cluster, known, seed=seed)
    asked = 0.0
    for job in made.jobs:
        gpus = {t: n for t, n in cluster.capacity.items() if n >= job.demand}
        mean = sum(n * job.throughput[t] for t, n in gpus.items()) / sum(gpus.values())
        asked += job.demand * job.work / mean
    span = made.jobs[-1].arrival - made.jobs[0].arrival
    assert asked / span / sum(cluster.capacity.values()) == pytest.approx(load)
    assert offered_load(made) == pytest.approx(load)


def test_errors_name_what_is_wrong() -> None:
    cluster = instances.load("lab36").cluster
    table = PhillyBatches().table(5)
    for load in (0, -1, float("nan"), "much"):
        with refused(InvalidOption, "load", "0"):
            scale_to_load(table, load, cluster, FFT)  # type: ignore[arg-type]
    with pytest.raises(InvalidInstance, match="all jobs arrive at the same time; a load per second needs"):
        scale_to_load(GavelLike(jobs_per_hour=None, gpus={1: 1}).table(5), 1.0, cluster)
    with refused(InvalidInstance, "table"):
        scale_to_load(5, 1.0, cluster)  # type: ignore[arg-type]
    with refused(InvalidInstance, "cluster"):
        scale_to_load(table, 1.0, 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInstance, match="the instance has no jobs"):
        offered_load(Instance(cluster))
    wide = (Job("a", {"A": 1.0, "B": 1.0}, 1, 2), Job("b", {"A": 1.0, "B": 1.0}, 1, arrival=1))
    with refused(InvalidInstance, "jobs['a']", "alone"):
        offered_load(Instance(Cluster.of({"A": 1, "B": 1}), jobs=wide))
