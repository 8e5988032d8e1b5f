"""Goodput: the best batch size against enumeration, the fits against the measurements, and the jobs made from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetopt.errors import InvalidOption
from hetopt.experiments.trace_workload import TraceWorkload
from hetopt.traces.goodput import Goodput, gang_sizes
from hetopt.traces.sia_generator import GOODPUTS, ITERATIONS, SiaLike, tuned_gpus

MEASURED = Path(__file__).parents[2] / "shared" / "data" / "throughput" / "pollux_t4_profiles.csv.gz"
KEYS = {
    "ResNet-18": "cifar10",
    "BERT": "bert",
    "DeepSpeech2": "deepspeech2",
    "YOLOv3": "yolov3",
    "ResNet-50": "imagenet",
}


def by_hand(model: Goodput, gpus: int, servers: int, local: int, accumulated: int, faster: float) -> float:
    """Iterations of M0 per second for one choice, from the formulas of Pollux, without arrays."""
    compute = (model.compute[0] + model.compute[1] * local) / faster
    alpha, beta = model.several_servers if servers > 1 else model.one_server
    network = 0.0 if gpus == 1 else alpha + beta * max(gpus - 2, 0)
    seconds = accumulated * compute + (compute**model.overlap + network**model.overlap) ** (1 / model.overlap)
    batch, noise = gpus * local * (accumulated + 1), model.noise
    return batch / model.batch_size / seconds * (1 + noise) / (batch / model.batch_size + noise)


@given(st.sampled_from(sorted(GOODPUTS)), st.sampled_from([1, 2, 4, 8, 16, 32]), st.floats(0.5, 4))
def test_the_best_batch_size_is_nearly_that_of_all(name: str, gpus: int, faster: float) -> None:
    """At most 3 % below the best of all batch sizes, of which 50 are tried; never above it."""
    model, servers = GOODPUTS[name], -(-gpus // 4)
    rate, batch = model.best(gpus, servers, faster)
    low, high = model.local
    every = [
        by_hand(model, gpus, servers, local, s, faster)
        for s in range(-(-model.most // (low * gpus)) + 1)
        for local in range(low, high + 1)
        if model.batch_size <= gpus * local * (s + 1) <= model.most + gpus * (s + 1)
    ]
    assert rate <= max(every) * (1 + 1 / 2**40)
    assert rate >= 0.97 * max(every)
    assert model.batch_size <= batch <= model.most + gpus * (model.most // (low * gpus) + 1)


def test_at_m0_an_example_counts_once() -> None:
    model = GOODPUTS["BERT"]
    assert model.efficiency(np.array([model.batch_size, 2 * model.batch_size])) == pytest.approx([1, 65.5 / 66.5])


@pytest.mark.skipif(not MEASURED.exists(), reason="the measurements of Pollux are not there")
@pytest.mark.parametrize("name", sorted(GOODPUTS))
def test_the_fits_agree_with_the_measurements(name: str) -> None:
    """Median relative error of the seconds of an iteration: at most 8 %."""
    table = pd.read_csv(MEASURED)
    own = table[(table["model"] == KEYS[name]) & (table["kind"] == "placements")]
    places = own["placement"].astype(int).astype(str)
    servers, gpus = places.str.len(), places.map(lambda text: sum(map(int, text)))
    zero = np.zeros(1)
    found = [
        float(GOODPUTS[name].seconds(k, n, np.array([float(m)]), zero)[0])
        for k, n, m in zip(gpus, servers, own["local_bsz"], strict=True)
    ]
    assert np.median(np.abs(np.log(np.array(found) / own["step_time_s"].to_numpy()))) < 0.08


def test_the_jobs_of_sia_are_elastic() -> None:
    """Work is iterations of M0; the rate of the demand agrees with the duration, and sizes are configurations."""
    table = SiaLike().table(40, seed=1)
    instance = TraceWorkload("sia-like", "lab36", count=40).instance(1)
    duration = table.set_index("job")["duration"]
    for job in instance.jobs:
        assert job.work == ITERATIONS[str(job.model)]
        assert job.demand in tuned_gpus(GOODPUTS[str(job.model)])
        assert job.throughput["T4"] == pytest.approx(job.work / duration[job.name])
        assert set(job.rates) <= {1, 2, 4, 8, 12}
        assert job.rate("V100", 4) > job.rate("A10", 4) / 1.5
        one, four = (job.rate("T4", n) for n in (1, 4))
        assert one < four <= 4 * one * (1 + 1 / 2**40)
    assert any(size.batch_size["T4"] > 128 for job in instance.jobs for size in job.sizes)


def test_the_local_batch_is_rounded_up_above_the_largest_batch() -> None:
    """4,096 examples of 24 GPUs are 170.7 each, of which AdaptDL makes 171."""
    assert GOODPUTS["ResNet-18"].most == 4096
    assert GOODPUTS["ResNet-18"].best(24, 6)[1] == 171 * 24


def test_sizes_of_gangs() -> None:
    assert list(gang_sizes(12, 4)) == [1, 2, 4, 8, 12]
    assert list(gang_sizes(3, 8)) == [1, 2]
    assert list(gang_sizes(18, 6)) == [1, 2, 4, 6, 12, 18]


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InvalidOption, match=r"SiaLike\.models has the model 'GPT'"):
        SiaLike(models={"GPT": 1.0})
    with pytest.raises(InvalidOption, match=r"SiaLike\.models is \{\}; at least one must have a share above 0"):
        SiaLike(models={})
    with pytest.raises(InvalidOption, match=r"Goodput\.overlap is 0\.5"):
        Goodput((1, 1), (1, 1), (1, 1), 0.5, 1, 2, (1, 2), 1.0)
