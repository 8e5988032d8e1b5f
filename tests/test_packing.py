"""Packings: what they accept, what files and tables keep of them, and the pairs of jobs that may share GPUs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from packings import packable, parts_by_hand, with_models
from refused import refused

from hetopt import Cluster, Instance, InvalidInstance, Job
from hetopt.data.packing import Packing
from hetopt.proofs.strategies import job_instances

CLUSTER = Cluster.of({"V100": 2, "K80": 2}, gpus_per_server=1)
SPEED = {"V100": 2.0, "K80": 1.0}
JOBS = (Job("a", SPEED, 10, model="A"), Job("b", SPEED, 10, model="B"), Job("c", SPEED, 10))
AB = Packing(("A", "B"), {"V100": (0.6, 0.7)})
AA = Packing(("A", "A"), {"V100": (0.5, 0.5), "K80": (0.4, 0.4)}, gpus=1)
BOTH = Instance(CLUSTER, jobs=JOBS, packings=(AB, AA))
SHARING = BOTH.replace(
    held={"a": {"V100": 0.5}, "b": {"V100": 0.5}},
    placed={"a": {"v100-0": {"V100": 1}}, "b": {"v100-0": {"V100": 1}}},
)


@pytest.mark.parametrize(
    ("key", "match", "models", "parts", "more"),
    [
        ("packings[].models", "two names", ("A",), {"V100": (1, 1)}, {}),
        ("packings[].models", "one line", ("A", ""), {"V100": (1, 1)}, {}),
        ("packings['A + B'].parts", "is empty", ("A", "B"), {}, {}),
        ("packings['A + B'].parts['V100']", "two parts", ("A", "B"), {"V100": 0.5}, {}),
        ("packings['A + B'].parts['V100']", "at most 1", ("A", "B"), {"V100": (0.5, 1.1)}, {}),
        ("packings['A + B'].parts['V100']", "> 0", ("A", "B"), {"V100": (0.0, 0.5)}, {}),
        ("packings['A + A'].parts['V100']", "the same part", ("A", "A"), {"V100": (0.4, 0.5)}, {}),
        ("packings['A + B'].gpus", "whole", ("A", "B"), {"V100": (1, 1)}, {"gpus": 0}),
    ],
)
def test_packings_out_of_range_are_refused(key: str, match: str, models: Any, parts: Any, more: Any) -> None:
    with refused(InvalidInstance, key, match):
        Packing(models, parts, **more)


def test_packings_of_unknown_types_and_twice_the_same_are_refused() -> None:
    with refused(InvalidInstance, "packings['A + B'].parts", "'T4'"):
        BOTH.replace(packings=[Packing(("A", "B"), {"T4": (1, 1)})])
    with refused(InvalidInstance, "packings['B + A']", "occurs twice for any size"):
        BOTH.replace(packings=[AB, AB.reversed()])
    BOTH.replace(packings=[AB, replace(AB, gpus=1), replace(AB, gpus=2)])


def test_jobs_that_share_gpus_hold_half_of_those_on_which_they_are_placed() -> None:
    assert SHARING.halved == {"a", "b"}
    held = SHARING.entities("jobs").held
    assert held is not None
    assert held.tolist() == [[0.5, 0], [0.5, 0], [0, 0]]
    with refused(InvalidInstance, "placed", "2 V100 of server 'v100-0'; it has 1"):
        SHARING.replace(packings=())  # without packings no job shares GPUs
    with refused(InvalidInstance, "held['a']", "must agree"):
        SHARING.replace(held={"a": {"K80": 0.5}, "b": {"V100": 0.5}})
    assert SHARING.with_jobs(["b", "c"]).held["b"] == {"V100": 0.5}


def test_errors_in_files_name_line_and_key(tmp_path: Path) -> None:
    SHARING.write(tmp_path / "good.yaml")
    text = (tmp_path / "good.yaml").read_text()
    for wrong, key, match in (
        ("[0.6, 1.7]", "packings['A + B'].parts['V100']", "at most 1"),
        ("[0.6]", "packings[0].parts.V100", "list of two"),
    ):
        (tmp_path / "bad.yaml").write_text(text.replace("[0.6, 0.7]", wrong))
        with refused(
            InvalidInstance, key, match, file="bad.yaml", line=text.splitlines().index("    V100: [0.6, 0.7]") + 1
        ):
            Instance.read(tmp_path / "bad.yaml")


def test_errors_name_the_line_of_the_packing_for_that_size(tmp_path: Path) -> None:
    more = Packing(("A", "B"), {"V100": (0.5, 0.9)}, gpus=2)
    BOTH.replace(packings=[AB, more]).write(tmp_path / "good.yaml")
    text = (tmp_path / "good.yaml").read_text().replace("V100: [0.5, 0.9]", "T4: [0.5, 0.9]")
    (tmp_path / "bad.yaml").write_text(text)
    line = next(i for i, own in enumerate(text.splitlines(), 1) if "T4" in own)
    with refused(InvalidInstance, "packings['A + B on 2 GPUs'].parts", "'T4'", file="bad.yaml", line=line):
        Instance.read(tmp_path / "bad.yaml")


def test_errors_in_tables_name_table_and_row() -> None:
    tables = SHARING.tables()
    assert tables["packings"].index.tolist() == [("A", "B", 0), ("B", "A", 0), ("A", "A", 1)]
    lacking = tables | {"packings": tables["packings"].iloc[[0, 2]]}
    with refused(InvalidInstance, None, "give both rows", table="packings", row=("A", "B", 0)):
        Instance.from_tables(**lacking)
    large = tables["packings"].copy()
    large["K80"] = [None, None, 2.0]
    with refused(InvalidInstance, "packings['A + A on 1 GPU'].parts['K80']", table="packings", row=("A", "A", 1)):
        Instance.from_tables(**(tables | {"packings": large}))


@settings(max_examples=examples(10, 100))
@given(packable(job_instances()))
def test_files_and_tables_lose_nothing(instance: Instance) -> None:
    assert Instance.from_tables(**instance.tables()) == instance
    with TemporaryDirectory() as folder:
        for name in ("i.yaml", "i.json"):
            instance.write(Path(folder) / name)
            assert Instance.read(Path(folder) / name) == instance
        instance.write_csv(Path(folder) / "csv")
        assert Instance.read_csv(Path(folder) / "csv") == instance


def test_a_pair_that_runs_survives_files(tmp_path: Path) -> None:
    SHARING.write(tmp_path / "i.json")
    assert Instance.read(tmp_path / "i.json") == SHARING


@settings(max_examples=examples(30, 300))
@given(packable(job_instances(jobs=(1, 7), zeros=True)), st.integers(0, 2**32 - 1))
def test_pairs_are_those_of_plain_loops(instance: Instance, seed: int) -> None:
    types = tuple(replace(t, memory_bytes=3.0) for t in instance.cluster.gpu_types)
    jobs = [replace(job, memory_bytes=float(seed >> i & 1) + 1) for i, job in enumerate(instance.jobs)]
    instance = instance.replace(cluster=replace(instance.cluster, gpu_types=types), jobs=jobs)
    entities = instance.entities("jobs")
    found = {
        (entities.names[i], entities.names[j]): {
            t: tuple(parts[:, k].tolist()) for k, t in enumerate(entities.types) if parts[:, k].any()
        }
        for (i, j), parts in zip(entities.pairs.jobs.tolist(), entities.pairs.parts, strict=True)
    }
    assert found == parts_by_hand(instance)
    assert list(found) == list(parts_by_hand(instance))


def test_a_packing_for_a_size_comes_before_one_for_any() -> None:
    instance = with_models(BOTH, 0).replace(
        jobs=[Job("x", SPEED, 1, 2, model="A"), Job("y", SPEED, 1, 2, model="B"), Job("z", SPEED, 1, model="B")],
        packings=[AB, Packing(("B", "A"), {"K80": (0.1, 0.2)}, gpus=2)],
    )
    pairs = instance.entities("jobs").pairs
    assert pairs.jobs.tolist() == [[0, 1]]
    assert pairs.parts.tolist() == [[[0.0, 0.2], [0.0, 0.1]]]
