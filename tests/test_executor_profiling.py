"""Which jobs are profiled: those of one kind once; and speeds of GPUs and MIG instances by their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from executor_cluster import node, spec
from executor_stage import Stage
from hypothesis import given
from hypothesis import strategies as st

from hetopt.executor.engines.nvidia import type_name
from hetopt.executor.queue import cancel, submit
from hetopt.executor.speeds import read_speeds
from hetopt.models.hadare.corrected_throughput import estimated

Make = Callable[..., Stage]


def runs(lab: Stage) -> Counter[tuple[str, str]]:
    """(job, GPU type) -> number of profiling runs."""
    query = "SELECT jobs.name, gpu_types FROM leases JOIN jobs ON jobs.id = leases.job WHERE kind = 'profile'"
    with lab.database.reading() as connection:
        return Counter(connection.tuples(query))


def test_jobs_of_one_kind_are_profiled_once(stage: Make) -> None:
    """On each type by one of them [OEF, section 4.1]; another kind, or another number of workers, separately."""
    lab = stage(node("v", {"V100": 3}), node("k", {"K80": 3}), profile=True)
    for name in "abc":
        submit(lab.database, spec(name, model="bert", tenant="ann"))
    submit(lab.database, spec("other", model="bert", tenant="bob"))
    submit(lab.database, spec("wide", model="bert", tenant="ann", workers=2))
    lab.play(40)
    assert set(lab.states().values()) == {"done"}
    assert runs(lab) == {(job, kind): 1 for job in ("a", "other", "wide") for kind in ("V100", "K80")}


def test_a_job_that_may_use_more_types_is_profiled_on_those(stage: Make) -> None:
    lab = stage(node("v", {"V100": 1}), node("k", {"K80": 1}), profile=True)
    submit(lab.database, spec("a", model="bert", gpu_types=["V100"]))
    submit(lab.database, spec("b", model="bert"))
    lab.play(30)
    assert set(lab.states().values()) == {"done"}
    assert runs(lab) == {("a", "V100"): 1, ("b", "K80"): 1}


def test_profiles_outlive_an_outage_of_the_host(stage: Make) -> None:
    lab = stage(node("v", {"V100": 1}), node("k", {"K80": 1}), profile=True)
    submit(lab.database, spec("a", model="bert"))
    lab.play(20)
    lab.host("v", up=False)
    submit(lab.database, spec("b", model="bert"))
    lab.play(2)
    with lab.database.reading() as connection:
        assert set(read_speeds(connection).of(2)) == {"V100", "K80"}


def test_a_lost_run_that_cannot_be_killed_delays_no_job(stage: Make) -> None:
    """It keeps its GPU; its kind is profiled on others."""
    lab = stage(node("v1", {"V100": 1}), node("v2", {"V100": 1}), profile=True)
    submit(lab.database, spec("a", model="bert"))
    lab.play(1)
    lab.hang(*lab.leases())
    for name in "bc":
        submit(lab.database, spec(name, model="bert"))
    lab.play(60, 20.0)
    assert lab.states() == {"a": "queued", "b": "done", "c": "done"}
    assert runs(lab) == {("a", "V100"): 1, ("b", "V100"): 1}


def test_a_run_that_does_not_begin_delays_jobs_only_for_a_time(stage: Make) -> None:
    lab = stage(node("v1", {"V100": 1}), node("v2", {"V100": 2}), profile=True)
    lab.engine.waits.add("v1")
    for name in "abc":
        submit(lab.database, spec(name, model="bert"))
    lab.play(24, 5.0)
    assert lab.states() == {"a": "queued", "b": "done", "c": "done"}


@pytest.mark.parametrize("how", ["rests", "cancelled"])
def test_a_run_that_cannot_take_place_delays_no_job(stage: Make, how: str) -> None:
    """Because its job backs off, or was cancelled."""
    lab = stage(node("v", {"V100": 1}), profile=True)
    for name in "ab":
        submit(lab.database, spec(name, model="bert"))
    if how == "rests":
        with lab.database.writing() as connection:
            connection.update("jobs", {"not_before": lab.database.now() + 1000.0}, "name = 'a'")
    else:
        cancel(lab.database, "a")
    lab.play(20)
    assert lab.states()["b"] == "done"
    assert runs(lab) == {("b", "V100"): 1}


# -- before anything is measured

MODEL = {"j": {"batch_size": 32, "model_weight": "modest", "dataset_size": "M"}}
NVML = {
    "H100": ["NVIDIA H100 80GB HBM3"],
    "H100 PCIe": ["NVIDIA H100 PCIe"],
    "H100 NVL": ["NVIDIA H100 NVL"],
    "H200": ["NVIDIA H200"],
    "A100": ["NVIDIA A100-SXM4-40GB", "A100-PCIE-40GB", "NVIDIA A100-PCIE-40GB"],
    "A100 80GB": ["NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe"],
    "V100": ["Tesla V100-SXM2-16GB"],
    "V100 PCIe": ["Tesla V100-PCIE-16GB"],
    "P100": ["Tesla P100-PCIE-16GB"],
    "P100 SXM2": ["Tesla P100-SXM2-16GB"],
    "T4": ["Tesla T4"],
    "RTX 3090": ["NVIDIA GeForce RTX 3090"],
    "Quadro RTX 6000": ["Quadro RTX 6000"],
}
"""GPU -> names that the driver has for it."""

SLURM = {"H100": "nvidia_h100_80gb_hbm3", "V100": "tesla_v100-sxm2-16gb", "A100": "nvidia_a100-sxm4-40gb"}
"""The same as Slurm's AutoDetect spells them."""


def rate(gpu_type: str, among: tuple[str, ...] = ("T4",)) -> float:
    return estimated(MODEL, {}, [gpu_type, *among])["j"][gpu_type]


@pytest.mark.parametrize(("gpu", "name"), [(gpu, name) for gpu, names in NVML.items() for name in names])
def test_names_of_the_driver_have_known_speeds(gpu: str, name: str) -> None:
    assert rate(type_name(name)) == rate(gpu)


@pytest.mark.parametrize(("gpu", "name"), SLURM.items())
def test_names_of_slurm_have_known_speeds(gpu: str, name: str) -> None:
    assert rate(name) == rate(gpu)


def test_memory_in_the_name_counts() -> None:
    """A V100 of 32 GB: sqrt(125 / 32) in place of sqrt(125 / 16)."""
    assert rate("V100-SXM2-32GB") == pytest.approx(rate("V100") / 2**0.5)


MIG = [
    ("H100-80GB-HBM3-MIG-1g.10gb", "H100", 1 / 7),
    ("A100-SXM4-40GB-MIG-3g.20gb", "A100", 3 / 7),
    ("A100-SXM4-40GB-MIG-1c.3g.20gb", "A100", 1 / 7),
    ("A100-SXM4-40GB-MIG-1g.5gb+me", "A100", 1 / 7),
    ("A30-MIG-2g.12gb", "A30", 2 / 4),
    ("nvidia_a100_3g.20gb", "A100", 3 / 7),
]


@pytest.mark.parametrize(("name", "whole", "part"), MIG)
def test_a_mig_instance_is_a_part_of_its_gpu(name: str, whole: str, part: float) -> None:
    assert rate(name) == pytest.approx(rate(whole) * part)


WORDS = [
    "NVIDIA",
    "Tesla",
    "T4",
    "A30",
    "A100",
    "MIG",
    "1g.5gb",
    "0g.0gb",
    "1c.2g.10gb+me",
    "0GB",
    "80GB",
    "32GB",
    "HBM3",
    "SXM4",
    "PCIe",
    "NVL",
    "of",
    "x",
    "0",
    "½",
]


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), st.sampled_from([" ", "-", "_"]))
def test_names_of_any_kind_have_a_speed(words: list[str], between: str) -> None:
    """An unknown one gets the mean of the known ones."""
    assert rate(between.join(words)) > 0.0
    assert rate(between.join(["slot", *words])) == pytest.approx(rate("T4"))
