"""Cores and memory that others hold on Slurm's nodes, and why Slurm does not start a lease."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from slurm_cluster import SlurmCluster, missing
from slurm_fake import NODE, Fake, some_slurm  # noqa: F401 - the last a fixture
from waiting import PATIENCE

from hetopt.engine_conformance import RUN_UNTIL_STOPPED, Bench
from hetopt.executor.engines import slurm as engines
from hetopt.executor.engines.engine import Engine, EngineDown, Node
from hetopt.executor.engines.slurm import SlurmEngine, unusable_gpus
from hetopt.executor.engines.slurm_commands import Partition, slurm_nodes

needs_slurm = pytest.mark.skipif(missing() is not None, reason=str(missing()))

GPU = Partition("gpu")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    with SlurmCluster() as made:
        monkeypatch.setenv("SLURM_CONF", str(made.configuration))
        yield made


def seen(engine: Engine) -> dict[str, tuple[Mapping[str, int], str]]:
    """Node -> what is used of it, and its note."""
    return {node.name: (dict(node.used), node.note) for node in engine.nodes()}


def node(engine: Engine, name: str) -> Node:
    return next(node for node in engine.nodes() if node.name == name)


@needs_slurm
def test_gpus_without_cores_or_memory_are_in_use(cluster: SlurmCluster, tmp_path: Path) -> None:
    """A lease would wait there as long as others hold them; resources of own leases do not count."""
    bench = Bench(SlurmEngine, tmp_path, patience=PATIENCE)
    engine = SlurmEngine(bench.cluster)
    grants = [bench.lease(node(engine, name).seats[:1], RUN_UNTIL_STOPPED, engine) for name in ("k80-1", "k80-0")]
    for grant in grants:
        engine.start(grant)
        bench.wait(lambda grant=grant: bench.lines(grant), "the job runs")
    assert seen(engine)["k80-1"] == ({"k80": 1}, "")
    cluster.submit("--nodelist=k80-0", "--gres=gpu:k80:1", "--mem=2500M")
    cluster.submit("--nodelist=v100-0", "-c", "8", "--mem=100M")
    cluster.submit("--nodelist=p100-0", "-c", "2", "--mem=100M")
    whole = cluster.submit("--nodelist=k80-1", "-c", "2", "--mem=100M")
    cluster._wait(lambda: len(cluster.call("squeue", "-h", "-t", "RUNNING").splitlines()) == 6, "jobs of another user")
    assert seen(engine) == {
        "k80-0": ({"k80": 4}, "1 of 4 GPUs are in use by others; memory for 2 GPUs is not free"),
        "k80-1": ({"k80": 2}, "cores for 1 GPU are not free"),
        "p100-0": ({"p100": 1}, "cores for 1 GPU are not free"),
        "v100-0": ({"v100": 2}, "cores for 2 GPUs are not free"),
    }
    cluster.call("scancel", whole)
    bench.wait(lambda: seen(engine)["k80-1"] == ({"k80": 1}, ""), "they are free again")
    engine.kill([grant.tag for grant in grants])


@pytest.mark.parametrize(
    ("more", "options", "partition", "wanted"),
    [
        ({"alloc": 0}, {}, GPU, (0, "")),
        ({"alloc": 8}, {}, GPU, (1, "cores")),
        ({"alloc": 9}, {}, GPU, (2, "cores")),
        ({"alloc": 31}, {}, GPU, (4, "cores")),
        ({"alloc": 24}, {"cpus-per-gpu": "2"}, GPU, (0, "")),
        ({"alloc": 24}, {"cpus-per-gpu": "3"}, GPU, (2, "cores")),  # of two threads: four CPUs, six, ten, twelve
        ({"alloc": 24}, {}, Partition("gpu", shares_cpus=True), (0, "")),
        ({"alloc": 24}, {}, Partition("gpu", most_cpus=8), (0, "")),
        ({"alloc": 24}, {"cpus-per-task": "8"}, GPU, (0, "")),
        ({"memory": 16000}, {}, GPU, (1, "memory")),
        ({"memory": 64000}, {}, GPU, (4, "memory")),
        ({"memory": 99000}, {}, GPU, (4, "memory")),
        ({"memory": 60000}, {"mem-per-gpu": "2G"}, GPU, (3, "memory")),
        ({"memory": 60000}, {"mem-per-cpu": "100"}, GPU, (0, "")),
        ({"memory": 60000}, {"mem": "4000M"}, GPU, (0, "")),
        ({"memory": 1}, {"mem": "0"}, GPU, (4, "memory")),
        ({"memory": 60000}, {"mem": "odd"}, GPU, (4, "memory")),
        ({"memory": 60000}, {"mem-per-gpu": "odd"}, GPU, (0, "")),
        ({"alloc": 8, "memory": 32000, "used": "gpu:v100:1"}, {}, GPU, (1, "memory")),
        ({"alloc": 32, "used": "gpu:v100:4"}, {}, GPU, (0, "")),
    ],
)
def test_gpus_in_use_by_free_cores_and_memory(
    more: dict[str, Any], options: dict[str, str], partition: Partition, wanted: tuple[int, str]
) -> None:
    """Of four GPUs, 16 cores of two threads and 64000 MB."""
    fields = {
        "used": "",
        "state": "MIXED",
        "reason": "",
        "partitions": "gpu",
        "cpus": 32,
        "alloc": 0,
        "memory": 0,
        **more,
    }
    (host,) = slurm_nodes(NODE.format(name="a", gres="gpu:v100:4", **fields))
    gpus, what = unusable_gpus(options, host, partition)
    assert (gpus, what if gpus else "") == wanted


def test_memory_that_slurm_does_not_track_is_not_counted() -> None:
    """Without configured memory RealMemory is 1, also if jobs have some."""
    fields = {"used": "", "state": "MIXED", "reason": "", "partitions": "gpu", "cpus": 32, "alloc": 0, "memory": 1}
    (host,) = slurm_nodes(
        NODE.format(name="a", gres="gpu:v100:4", **fields).replace("RealMemory=64000", "RealMemory=1")
    )
    assert unusable_gpus({"mem": "100"}, host, GPU)[0] == 0


def test_types_of_a_node_share_what_is_left(slurm: Fake) -> None:
    slurm.nodes(("a", "gpu:v100:2,gpu:k80:2", {"used": "gpu:v100:1", "alloc": 25}))
    (one,) = SlurmEngine("c").nodes()
    assert one.used == {"v100": 2, "k80": 2}
    slurm.nodes(("a", "gpu:v100:2,gpu:k80:2", {"used": "gpu:v100:1", "alloc": 16}))
    (one,) = SlurmEngine("c").nodes()
    assert one.used == {"v100": 2}
    assert one.note == "1 of 4 GPUs are in use by others; cores for 1 GPU are not free"


# -- why leases wait


@needs_slurm
def test_the_note_has_the_reason_of_a_waiting_lease(
    cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(SlurmEngine, tmp_path, patience=PATIENCE)
    engine = SlurmEngine(bench.cluster)
    monkeypatch.setattr(engines, "WAIT_SECONDS", 0.0)
    cluster.call("scontrol", "update", "partitionname=gpu", "state=down")
    grant = bench.lease(node(engine, "v100-0").seats[:1], RUN_UNTIL_STOPPED, engine)
    engine.start(grant)
    down = "partition 'gpu' is DOWN"
    bench.wait(lambda: node(engine, "v100-0").note == f"{down}; a lease waits: PartitionDown", "it is noted")
    assert node(engine, "p100-0").note == down
    cluster.call("scontrol", "update", "partitionname=gpu", "state=up", "allowaccounts=none")
    bench.wait(lambda: "(gpu allows none)" in node(engine, "v100-0").note, "the note has the allowed account")
    cluster.call("scontrol", "update", "partitionname=gpu", "allowaccounts=ALL")
    bench.wait(lambda: bench.lines(grant), "the job runs")
    assert node(engine, "v100-0").note == ""
    engine.kill([grant.tag])


def test_only_long_waits_have_a_note(slurm: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every lease waits for a moment at first."""
    now = [1000.0]
    monkeypatch.setattr(engines.files, "now", lambda: now[0])
    engine = SlurmEngine("c")

    def note(phase: str, reason: str, after: float) -> str:
        now[0] += after
        slurm.prints("squeue", f"{phase}|a=1|hetopt-c-1-0-1|{reason}\n{phase}|a=1|hetopt-c-2-0-1|{reason}")
        return engine.nodes()[0].note

    assert note("PENDING", "Resources", 0.0) == ""
    assert note("PENDING", "Priority", 9.0) == ""
    assert note("PENDING", "None", 1.0) == ""
    assert note("PENDING", "Resources", 0.0) == "a lease waits: Resources"
    assert note("RUNNING", "None", 0.0) == ""
    assert note("PENDING", "Resources", 50.0) == "", "requeued: it waits again"


def test_no_node_of_a_partition_that_is_down_is_up(slurm: Fake) -> None:
    slurm.partitions(state="DRAIN")
    engine = SlurmEngine("c")
    assert {node.note for node in engine.nodes()} == {"partition 'gpu' is DRAIN"}
    assert not any(node.up for node in engine.nodes())
    slurm.partitions()
    assert {(node.up, node.note) for node in engine.nodes()} == {(True, "")}


# -- reservations


@needs_slurm
def test_leases_run_in_a_reservation(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Only its nodes are hosts, and they are up although reserved; an expired reservation is noted."""
    make = ("scontrol", "create", "reservation", "duration=60", "user=root")
    cluster.call(*make, "reservationname=mine", "starttime=now", "nodes=k80-1,v100-0", "flags=maint")
    cluster.call(*make, "reservationname=later", "starttime=now+1hour", "nodes=p100-0")
    bench = Bench(lambda name: SlurmEngine(name, reservation="mine"), tmp_path, patience=PATIENCE)
    engine = bench.make(bench.cluster)
    reserved = ("scontrol", "show", "node", "v100-0")
    bench.wait(lambda: "RESERVED" in cluster.call(*reserved), "Slurm has marked its nodes")
    assert [(one.name, one.up, one.note) for one in engine.nodes()] == [("k80-1", True, ""), ("v100-0", True, "")]
    grant = bench.lease(node(engine, "v100-0").seats, RUN_UNTIL_STOPPED, engine)
    engine.start(grant)
    bench.wait(lambda: bench.lines(grant), "the job runs")
    cluster.call("scontrol", "update", "reservationname=mine", "nodes=k80-1,p100-0", check=False)
    engine.kill([grant.tag])
    bench.wait_ended(engine, grant)
    cluster.call("scontrol", "delete", "reservation", "mine")
    assert [one.up for one in engine.nodes()] == [False, False]
    assert node(engine, grant.nodes[0]).note == "RESERVED: reservation 'mine' is over"
    with pytest.raises(EngineDown, match="the partition or reservation was changed"):
        engine.start(bench.lease(grant.seats, RUN_UNTIL_STOPPED, engine))
    (later,) = SlurmEngine("abc", reservation="later").nodes()
    assert (later.name, later.up) == ("p100-0", False)
    assert later.note.startswith("RESERVED: reservation 'later' is from 20")
