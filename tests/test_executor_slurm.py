"""The engine for Slurm, on a real cluster of this machine's own processes."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from slurm_cluster import SlurmCluster, missing
from waiting import PATIENCE

from hetopt.engine_conformance import CHECKS, RUN_UNTIL_STOPPED, WRITE_ENVIRONMENT, Bench
from hetopt.errors import InvalidOption
from hetopt.executor import lease_directory as files
from hetopt.executor.engines.engine import Engine, EngineDown, LeaseRecord, Node, Phase, Refused, Seat
from hetopt.executor.engines.slurm import SlurmEngine

FEW = {"v100-0": ("v100", 2), "p100-0": ("p100", 1)}

needs_slurm = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with SlurmCluster() as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(made.configuration))
        yield made


@pytest.fixture
def fragile(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """A cluster to break."""
    with SlurmCluster(FEW) as made:
        monkeypatch.setenv("SLURM_CONF", str(made.configuration))
        yield made


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """A cluster that soon sets down a node whose daemon does not answer; on a busy machine also a healthy one."""
    with SlurmCluster(FEW, patience=3) as made:
        monkeypatch.setenv("SLURM_CONF", str(made.configuration))
        yield made


def seats(engine: Engine, **wanted: int) -> tuple[Seat, ...]:
    """This number of GPUs of each node; ``k80_0`` is k80-0."""
    found = {node.name: node for node in engine.nodes()}
    return tuple(s for name, n in wanted.items() for s in found[name.replace("_", "-")].seats[:n])


def node(engine: Engine, name: str) -> Node:
    return next(node for node in engine.nodes() if node.name == name)


def bench_of(folder: Path) -> tuple[Bench, SlurmEngine]:
    made = Bench(SlurmEngine, folder, patience=PATIENCE)
    return made, SlurmEngine(made.cluster)


def phase(engine: Engine, grant: LeaseRecord) -> Phase:
    return engine.status([grant.tag])[grant.tag]


@needs_slurm
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_slurm_engine_passes_the_conformance_suite(
    check: Callable[[Bench], None], cluster: SlurmCluster, tmp_path: Path
) -> None:
    check(Bench(SlurmEngine, tmp_path, patience=PATIENCE))


@needs_slurm
@pytest.mark.parametrize(
    ("wanted", "visible"),
    [
        ({"v100_0": 2, "p100_0": 1}, {"v100-0": 2, "p100-0": 1}),
        ({"k80_0": 3, "k80_1": 1}, {"k80-0": 3, "k80-1": 1}),
        ({"k80_0": 2, "k80_1": 2, "v100_0": 1}, {"k80-0": 2, "k80-1": 2, "v100-0": 1}),
    ],
    ids=["mixed types", "unequal counts", "two alike and one other"],
)
def test_a_gang_can_span_different_nodes(
    wanted: dict[str, int], visible: dict[str, int], cluster: SlurmCluster, tmp_path: Path
) -> None:
    bench, engine = bench_of(tmp_path)
    grant = bench.lease(seats(engine, **wanted), WRITE_ENVIRONMENT, engine)
    engine.start(grant)
    assert list(engine.status([])) == [grant.tag], "components of a job are one lease"
    bench.wait(lambda: len(bench.exits(grant)) == len(visible), "all nodes have ended")
    assert set(bench.exits(grant)) == {"ended"}
    found = [json.loads((grant.folder / f"lines{rank}").read_text()) for rank in range(len(grant.seats))]
    assert {own["WORLD_SIZE"] for own in found} == {str(len(grant.seats))}
    for own in found:
        name = grant.nodes[int(own["HETOPT_NODE_RANK"])]
        assert own["SLURMD_NODENAME"] == name
        assert len(own["CUDA_VISIBLE_DEVICES"].split(",")) == visible[name]
        assert own[files.TAG_VARIABLE] == f"{grant.tag}.{own['HETOPT_NODE_RANK']}"
    bench.wait_ended(engine, grant)


@needs_slurm
def test_a_stop_request_does_not_kill_steps_of_a_gang(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Slurm kills a step that gets SIGTERM; SIGURG has no effect on a training that does not handle it."""
    bench, engine = bench_of(tmp_path)
    program = RUN_UNTIL_STOPPED.replace(
        "while not", "signal.signal(signal.SIGURG, lambda *_: print('asked', file=lines))\nwhile not"
    )
    grant = bench.lease(seats(engine, k80_0=1, v100_0=1), program, engine)
    engine.start(grant)
    bench.wait(lambda: {line.split()[0] for line in bench.lines(grant)} == {"0", "1"}, "both run")
    engine.stop([grant.tag])
    bench.wait(lambda: bench.lines(grant).count("asked") == 2 or bench.exits(grant), "both nodes are asked")
    (grant.folder / files.STOP).write_text("enough")
    bench.wait(lambda: len(bench.exits(grant)) == 2, "both stop")
    assert bench.exits(grant) == ["stopped", "stopped"]
    assert sum(line.endswith("stops") for line in bench.lines(grant)) == 2
    bench.wait_ended(engine, grant)


@needs_slurm
def test_leases_share_a_node(cluster: SlurmCluster, tmp_path: Path) -> None:
    """By default Slurm would give all memory to the first of them."""
    bench, engine = bench_of(tmp_path)
    own = seats(engine, k80_0=4)
    grants = [bench.lease(part, RUN_UNTIL_STOPPED, engine) for part in (own[:2], own[2:3], own[3:])]
    for grant in grants:
        engine.start(grant)
    bench.wait(lambda: all(map(bench.lines, grants)), "all of them run")
    assert node(engine, "k80-0").note == "", "what leases of this cluster use is not others'"
    foreign = SlurmEngine("another")
    assert node(foreign, "k80-0").note == "4 of 4 GPUs are in use by others"
    engine.stop([grant.tag for grant in grants])
    for grant in grants:
        bench.wait_ended(engine, grant)
        assert bench.exits(grant) == ["stopped"]


@needs_slurm
def test_a_pending_lease_can_be_killed(cluster: SlurmCluster, tmp_path: Path) -> None:
    bench, engine = bench_of(tmp_path)
    number = cluster.submit("--nodelist=v100-0", "--gres=gpu:v100:2", "--mem=100M")
    try:
        bench.wait(lambda: node(engine, "v100-0").note == "2 of 2 GPUs are in use by others", "it runs")
        assert node(engine, "v100-0").up
        assert len(node(engine, "v100-0").seats) == 2, "they may be free again at any time"
        for wanted in ({"v100_0": 1}, {"v100_0": 2, "p100_0": 1}):
            grant = bench.lease(seats(engine, **wanted), RUN_UNTIL_STOPPED, engine)
            engine.start(grant)
            time.sleep(1.5)
            assert phase(engine, grant) is Phase.WAITING
            engine.stop([grant.tag])
            engine.kill([grant.tag])
            bench.wait_ended(engine, grant)
            assert not (grant.folder / files.claim_file(0)).exists()
    finally:
        cluster.call("scancel", number)
    bench.wait(lambda: node(engine, "v100-0").note == "", "it is gone")


@needs_slurm
def test_a_suspended_lease_counts_as_running(cluster: SlurmCluster, tmp_path: Path) -> None:
    bench, engine = bench_of(tmp_path)
    grant = bench.lease(seats(engine, v100_0=1), RUN_UNTIL_STOPPED, engine)
    engine.start(grant)
    bench.wait(lambda: bench.lines(grant), "the job runs")
    number = cluster.call("squeue", "-h", f"--name={grant.tag}", "-o", "%A")
    cluster.call("scontrol", "suspend", number)
    assert phase(engine, grant) is Phase.RUNNING
    engine.kill([grant.tag])
    bench.wait_ended(engine, grant)


@needs_slurm
def test_a_job_that_is_submitted_twice_starts_once(
    cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Submitted twice under one name, the job begins once; both are listed, stopped and killed by that name."""
    bench, engine = bench_of(tmp_path)
    grant = bench.lease(seats(engine, k80_0=1), RUN_UNTIL_STOPPED, engine)
    engine.start(grant)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "_queue", dict)
        engine.start(grant)
    assert cluster.call("squeue", "-h", "-o", "%j").split() == [grant.tag] * 2
    bench.wait(lambda: bench.lines(grant), "the job runs")
    time.sleep(1.5)
    assert sum(line.endswith("begins") for line in bench.lines(grant)) == 1
    engine.kill([grant.tag])
    bench.wait_ended(engine, grant)


@needs_slurm
def test_names_are_never_run_as_commands(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Nor as patterns; the lease's folder may have any name."""
    folder = tmp_path / "a b%j;$(touch pwned) `touch pwned` 'q\" * %% \N{SNOWMAN}"
    folder.mkdir()
    bench, engine = bench_of(folder)
    for wanted in ({"k80_0": 1}, {"k80_0": 1, "p100_0": 1}):
        grant = bench.lease(seats(engine, **wanted), WRITE_ENVIRONMENT, engine)
        engine.start(grant)
        bench.wait_ended(engine, grant)
        assert bench.exits(grant) == ["ended"] * len(grant.nodes)
        assert (grant.folder / "runner.log").exists()
    assert sorted(path.name for path in folder.iterdir()) == sorted(p.name for p in folder.glob("hetopt-*"))


@needs_slurm
def test_partitions_without_gpus_are_refused(cluster: SlurmCluster) -> None:
    assert [node.name for node in SlurmEngine("abc", "gpu").nodes()] == list(cluster.nodes)
    with pytest.raises(InvalidOption, match=r"no partition 'gpus'; did you mean 'gpu'\? known: gpu, plain"):
        SlurmEngine("abc", "gpus")
    with pytest.raises(InvalidOption, match=r"no node of partition 'plain' has GPUs .*; known: gpu"):
        SlurmEngine("abc", "plain")
    with pytest.raises(InvalidOption, match="cluster is 'a b'"):
        SlurmEngine("a b")
    with pytest.raises(InvalidOption, match="cpus_per_gpu=0; it must be a whole number, 1 at least"):
        SlurmEngine("abc", cpus_per_gpu=0)


@needs_slurm
@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        (Seat("v100-0", "a100", 0), "Requested node configuration is not available"),
        (Seat("nowhere", "v100", 0), "Invalid node name"),
    ],
)
def test_an_impossible_request_is_refused(wanted: Seat, problem: str, cluster: SlurmCluster, tmp_path: Path) -> None:
    engine = SlurmEngine("abc")
    with pytest.raises(Refused, match=f"^Slurm refuses: .*{problem}"):
        engine.start(LeaseRecord("hetopt-abc-1-0-1", tmp_path, (wanted,)))
    assert engine.status([]) == {}


@needs_slurm
def test_changed_limits_of_a_partition_are_read(fragile: SlurmCluster, tmp_path: Path) -> None:
    """A job that requests more waits for ever."""
    bench, engine = bench_of(tmp_path)
    fragile.call("scontrol", "update", "partition=gpu", "MaxCPUsPerNode=2")
    grant = bench.lease(seats(engine, v100_0=2), RUN_UNTIL_STOPPED, engine)
    engine.start(grant)
    bench.wait(lambda: bench.lines(grant), "the job runs")
    engine.stop([grant.tag])
    bench.wait_ended(engine, grant)
    fragile.call("scontrol", "delete", "partition=gpu")
    with pytest.raises(EngineDown, match="Slurm has no partition 'gpu' any more; known: plain"):
        engine.nodes()
    fragile.call("scontrol", "create", "partition=gpu", "nodes=v100-0,p100-0")
    assert len(engine.nodes()) == 2, "it is back"


@needs_slurm
def test_a_drained_node_has_a_note_for_the_operator(fragile: SlurmCluster, tmp_path: Path) -> None:
    bench, engine = bench_of(tmp_path)
    fragile.call("scontrol", "update", "nodename=v100-0", "state=drain", "reason=Duplicate jobid")
    drained = node(engine, "v100-0")
    assert not drained.up
    assert len(drained.seats) == 2
    assert drained.note.startswith("DRAIN: Duplicate jobid [")
    why, _, remedy = drained.note.rpartition(": ")
    assert why.endswith("an operator runs")
    fragile.call(*remedy.split())
    bench.wait(lambda: node(engine, "v100-0").up, "it is back")


@needs_slurm
def test_all_nodes_that_are_drained_are_down_at_once(fragile: SlurmCluster, tmp_path: Path) -> None:
    """With Slurm's reason, while a lease runs on one of them and another waits."""
    bench, engine = bench_of(tmp_path)
    own = seats(engine, v100_0=2)
    running, waiting = bench.lease(own, RUN_UNTIL_STOPPED, engine), bench.lease(own, RUN_UNTIL_STOPPED, engine)
    for grant in (running, waiting):
        engine.start(grant)
    bench.wait(lambda: bench.lines(running) or bench.lines(waiting), "one of them runs")
    fragile.call("scontrol", "update", "nodename=v100-0,p100-0", "state=drain", "reason=new disks; call Ann")
    for one in engine.nodes():
        assert (one.name, one.up) in {("v100-0", False), ("p100-0", False)}
        assert re.match(r"DRAIN: new disks; call Ann \[\w+@[0-9T:-]+\]$", one.note), one.note
    assert sorted(engine.status([]).values()) == [Phase.RUNNING, Phase.WAITING], "what runs there goes on"
    fragile.call("scontrol", "update", "partitionname=gpu", "state=drain")
    assert node(engine, "p100-0").note.endswith("]; partition 'gpu' is DRAIN")
    for state in ("nodename=v100-0,p100-0 state=resume", "partitionname=gpu state=up"):
        fragile.call("scontrol", "update", *state.split())
    bench.wait(lambda: all(one.up and not one.note for one in engine.nodes()), "they are back")
    engine.kill([running.tag, waiting.tag])


@needs_slurm
def test_without_slurmctld_the_engine_is_down_and_jobs_go_on(
    fragile: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, engine = bench_of(tmp_path)
    grant = bench.lease(seats(engine, v100_0=1), RUN_UNTIL_STOPPED, engine)
    engine.start(grant)
    bench.wait(lambda: bench.lines(grant), "the job runs")
    seen, state = time.time(), fragile.folder / "controller" / "job_state"
    fragile.call("scontrol", "update", f"jobname={grant.tag}", "nice=1")  # or it may never write that it runs
    bench.wait(lambda: state.exists() and state.stat().st_mtime > seen, "slurmctld has written down that it runs")
    fragile.kill_daemon("slurmctld")
    asked: list[Callable[[], Any]] = [
        engine.nodes,
        lambda: engine.status([grant.tag]),
        lambda: engine.start(grant),
        lambda: engine.stop([grant.tag]),
        lambda: engine.kill([grant.tag]),
        lambda: SlurmEngine(bench.cluster, "nowhere").nodes(),
    ]
    impatient = fragile.folder / "impatient.conf"
    impatient.write_text(fragile.configuration.read_text().replace("MessageTimeout=30", "MessageTimeout=1"))
    with monkeypatch.context() as patch:
        patch.setenv("SLURM_CONF", str(impatient))
        for ask in asked:
            with pytest.raises(EngineDown, match=r"Unable to contact slurm controller|has not answered within"):
                ask()
    fragile.start_controller()
    bench.wait(lambda: _answers(engine), "slurmctld has heard of its nodes")
    assert all(node.up and not node.note for node in engine.nodes()), "it still knows whose the GPUs are"
    assert phase(engine, grant) is Phase.RUNNING
    number = len(bench.lines(grant))
    bench.wait(lambda: len(bench.lines(grant)) > number, "it has gone on")
    engine.stop([grant.tag])
    bench.wait_ended(engine, grant)
    assert bench.exits(grant) == ["stopped"]


def _answers(engine: Engine) -> bool:
    try:
        return bool(engine.nodes())
    except EngineDown:
        return False


@needs_slurm
def test_a_lease_that_outlives_its_slurmd_is_fenced_by_time_alone(hasty: SlurmCluster, tmp_path: Path) -> None:
    """Slurm reports a failed job and a node that is down, while the process runs: only the lease timeout ends it.

    Slurm kills it when slurmd comes back, after it has reported the node as idle.
    """
    bench, engine = bench_of(tmp_path)
    grant = bench.lease(seats(engine, v100_0=1), RUN_UNTIL_STOPPED, engine)
    engine.start(grant)
    bench.wait(lambda: bench.lines(grant), "the job runs")
    hasty.kill_daemon("v100-0")
    assert phase(engine, grant) is Phase.RUNNING, "nothing is known yet"
    bench.wait(lambda: not node(engine, "v100-0").up, "it is noticed")
    bench.wait(lambda: node(engine, "p100-0").up, "the other is not given up, or not for long")
    bench.wait(lambda: phase(engine, grant) is Phase.ENDED, "Slurm calls it ended")
    engine.kill([grant.tag])
    assert node(engine, "v100-0").note.startswith("DOWN+NOT_RESPONDING: Not responding [")
    number = len(bench.lines(grant))
    bench.wait(lambda: len(bench.lines(grant)) > number + 10, "it runs all the same")
    assert engine.fenced_after(grant.tag) is None
    hasty.start_node("v100-0")
    bench.wait(lambda: node(engine, "v100-0").up, "the node is back")
    bench.wait(lambda: bench.exits(grant), "Slurm has found the process and killed it")


@needs_slurm
def test_clusters_run_side_by_side_and_leave_nothing(
    cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a test fails while a job runs. This one has GPUs of no type."""
    other = SlurmCluster({"any": (None, 2)})
    monkeypatch.setenv("SLURM_CONF", str(other.configuration))

    def fail() -> None:
        with other:
            bench, engine = bench_of(tmp_path)
            assert [seat.gpu_type for seat in node(engine, "any").seats] == ["gpu", "gpu"]
            grant = bench.lease(seats(engine, any=2), RUN_UNTIL_STOPPED, engine)
            engine.start(grant)
            bench.wait(lambda: bench.lines(grant), "the job runs")
            raise RuntimeError("the test fails")

    with pytest.raises(RuntimeError, match="the test fails"):
        fail()
    assert other.processes() == []
    assert not other.folder.exists()
    assert cluster.processes()


@needs_slurm
def test_options_that_slurm_does_not_accept_are_refused_at_once(cluster: SlurmCluster) -> None:
    """Before any job fails because of them; valid options, and none, pass, and nothing was submitted."""
    for options, problem in (
        ({"nonsense": "1"}, "unrecognized option"),
        ({"constraint": "nothing"}, "Invalid feature"),
    ):
        with pytest.raises(InvalidOption, match=f"--engine-set: Slurm refuses: .*{problem}"):
            SlurmEngine("abc", **options)
    SlurmEngine("abc", nice="5", time="10")
    assert cluster.call("squeue", "-h", "-n", "sbatch").strip() == ""
