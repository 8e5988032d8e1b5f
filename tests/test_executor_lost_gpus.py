"""GPUs that are lost, come back, or are split while a controller runs, with a fake NVML."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from executor_cluster import cards, rows, spec
from executor_nvml import some_nvml  # noqa: F401 - a fixture
from executor_stage import Stage
from waiting import PATIENCE, until

from hetopt.executor.controller import Controller, Settings, system_of
from hetopt.executor.engines import local, nvidia
from hetopt.executor.engines.engine import EngineDown, LeaseRecord, Node, Seat
from hetopt.executor.engines.local import LocalEngine
from hetopt.executor.engines.nvidia import GpuWatch
from hetopt.executor.leases import StopReason
from hetopt.executor.queue import cancel, submit
from hetopt.executor.state_database import StateDatabase
from hetopt.models.hadare.corrected_throughput import estimated

GIB = 1 << 30
BOTH = tuple(f"gpu|NVIDIA H200|GPU-{number}|{141 * GIB}|0|0" for number in range(2))
FIRST = Node("here", tuple(Seat("here", "H200", i, f"GPU-{i}") for i in range(2)), memory_bytes={"H200": 141.0 * GIB})
LOST = "is lost (nvmlDeviceGetHandleByIndex: GPU is lost); reset it or restart this machine"

START = """
import json
from hetopt.executor.engines.engine import EngineDown
from hetopt.executor.engines.local import this_machine
try:
    (node,) = this_machine("c").nodes()
    print(json.dumps([node.note, *(seat.device for seat in node.seats)]))
except EngineDown as problem:
    print(json.dumps(str(problem)))
"""


class Machine:
    """A fake NVML and a watch."""

    def __init__(self, records: Path) -> None:
        self.records = records
        self.says(*BOTH)
        self.watch = GpuWatch(FIRST, 2)

    def says(self, *records: str) -> None:
        new = self.records.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in records))
        new.replace(self.records)

    def sees(self, *records: str) -> Node:
        """What the watch finds with these records."""
        self.says(*records)
        return self.watch.node(0.0)

    def seats(self, *records: str) -> list[tuple[str, int, str]]:
        return [(seat.gpu_type, seat.index, seat.device) for seat in self.sees(*records).seats]


@pytest.fixture(autouse=True)
def own_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other test processes use GPUs of the same names."""
    monkeypatch.setattr(local, "LOCK_PREFIX", f"hetopt-{os.getpid()}/")


@pytest.fixture
def machine(library: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    paths = [str(library()), os.getenv("LD_LIBRARY_PATH")]
    monkeypatch.setenv("LD_LIBRARY_PATH", os.pathsep.join(filter(None, paths)))
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "records"))
    monkeypatch.setenv("FAKE_NVML_LOG", str(tmp_path / "log"))
    monkeypatch.setattr(nvidia, "WAIT_SECONDS", PATIENCE)
    made = Machine(tmp_path / "records")
    yield made
    made.watch.close()


@pytest.mark.parametrize("call", ["nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo"])
def test_a_lost_gpu_is_left_out_and_comes_back(machine: Machine, call: str) -> None:
    lost = f"error|{call}|GPU-0|15"
    assert machine.seats(*BOTH, lost) == [("H200", 0, "GPU-1")]
    assert machine.watch.node().note == f"GPU 0 {LOST}".replace("nvmlDeviceGetHandleByIndex", call)
    third = BOTH[0].replace("GPU-0", "GPU-2")
    assert machine.seats(*BOTH, third, lost) == [("H200", 0, "GPU-1"), ("H200", 1, "GPU-2")]
    assert machine.seats(*BOTH, lost, "error|nvmlShutdown|-|999") == [("H200", 0, "GPU-1")]
    assert machine.seats(*BOTH) == [("H200", 0, "GPU-0"), ("H200", 1, "GPU-1")]


def test_other_errors_of_one_gpu_do_not_harm_the_others(machine: Machine) -> None:
    assert machine.seats(*BOTH, "error|nvmlDeviceGetHandleByIndex|GPU-1|999") == [("H200", 0, "GPU-0")]
    note = "nvmlDeviceGetHandleByIndex fails for GPU 1: Unknown Error (NVML error 999); nvidia-smi must list all GPUs"
    assert machine.watch.node().note.startswith(note)
    assert machine.sees(*BOTH) == FIRST


def test_a_gpu_that_the_driver_does_not_list_has_a_note(machine: Machine) -> None:
    assert machine.seats(BOTH[1]) == [("H200", 0, "GPU-1")]
    assert machine.watch.node().note == "the driver reports 1 of 2 GPUs, without H200 GPU-0"
    assert machine.sees(*BOTH) == FIRST


def test_changed_mig_instances_are_read(machine: Machine) -> None:
    gpu = BOTH[0].replace("|0|0", "|1|7")
    small, large = (f"NVIDIA H200 MIG {kind}|MIG-{{}}|{GIB}|1|1|1024" for kind in ("1g.18gb", "3g.71gb"))
    one, two = "H200-MIG-1g.18gb", "H200-MIG-3g.71gb"
    own = [("H200", 0, "GPU-1")]
    split = [gpu, f"mig|0|{small.format('a')}", f"mig|1|{small.format('b')}", BOTH[1]]
    assert machine.seats(*split) == [(one, 0, "MIG-a"), (one, 1, "MIG-b"), *own]
    split = [gpu, f"mig|0|{large.format('c')}", f"mig|3|{small.format('d')}", BOTH[1]]
    assert machine.seats(*split) == [(two, 0, "MIG-c"), (one, 0, "MIG-d"), *own]
    assert machine.watch.node().note == "", "they were changed, not lost"
    node = machine.sees(BOTH[1])
    assert node.note == "the driver reports 1 of 2 GPUs, without H200-MIG-3g.71gb MIG-c, H200-MIG-1g.18gb MIG-d"
    assert node.memory_bytes.keys() == {"H200", one, two}, "what is lost may come back"


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (["error|nvmlInit|-|9"], "the NVIDIA driver is not loaded"),
        (["error|nvmlInit|-|18"], "nvmlInit fails: .* \\(NVML error 18\\); nvidia-smi must"),
        ([], "the driver reports no GPU"),
        ([*BOTH, *(f"error|nvmlDeviceGetHandleByIndex|GPU-{i}|15" for i in range(2))], "GPU 1 is lost"),
        (["rubbish, of which it dies"], "asking NVML ended with exit code -6; nvidia-smi must"),
    ],
    ids=["driver away", "driver updated", "all gone", "all lost", "crash"],
)
def test_no_answer_of_nvml_is_no_absence_of_gpus(
    machine: Machine, records: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EngineDown, match=f"^{message}"):
        machine.sees(*records)
    with pytest.raises(EngineDown, match=f"^{message}"):
        machine.watch.node()
    monkeypatch.setattr(nvidia, "RETRY_SECONDS", 0.0)
    with pytest.raises(EngineDown, match=f"^{message}"):
        machine.sees(*records)
    machine.says(*BOTH)
    assert _answer(machine.watch) == FIRST, "it is queried again automatically"


def _answer(watch: GpuWatch) -> Node:
    def answer() -> Node | None:
        try:
            return watch.node()
        except EngineDown:
            return None

    found: Node = until(answer, "NVML answers")
    return found


def test_a_hanging_nvml_does_not_block_the_controller(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia, "WAIT_SECONDS", 0.1)
    machine.says(*BOTH, "error|nvmlInit|-|-300")
    assert machine.watch.node(0.0) == FIRST, "nothing is known yet"
    monkeypatch.setattr(nvidia, "QUERY_SECONDS", 0.5)
    time.sleep(0.5)
    with pytest.raises(EngineDown, match=r"^NVML has not answered within 0\.5 s; nvidia-smi must"):
        machine.watch.node()
    monkeypatch.setattr(nvidia, "QUERY_SECONDS", PATIENCE)
    monkeypatch.setattr(nvidia, "RETRY_SECONDS", 0.0)
    machine.says(*BOTH)
    assert _answer(machine.watch) == FIRST


def test_a_query_that_cannot_be_killed_is_one_process_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """It hangs in the driver."""
    begun = []

    class Stuck:
        returncode = None

        def __init__(self, *words: Any, **more: Any) -> None:
            begun.append(self)

        def poll(self) -> None:
            return None

        def kill(self) -> None:
            """Without effect."""

        def wait(self, timeout: float) -> None:
            raise subprocess.TimeoutExpired("x", timeout)

        communicate = wait

    monkeypatch.setattr(subprocess, "Popen", Stuck)
    for name in ("QUERY_SECONDS", "RETRY_SECONDS", "WAIT_SECONDS"):
        monkeypatch.setattr(nvidia, name, 0.0)
    watch = GpuWatch(FIRST, 2)
    assert watch.node(0.0) == FIRST, "nothing is known yet"
    for _ in range(3):
        with pytest.raises(EngineDown, match="has not answered"):
            watch.node(0.0)
    watch.close()
    assert len(begun) == 1


def test_a_query_without_a_process_is_an_engine_failure(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/nonexistent")
        with pytest.raises(EngineDown, match="no process can be started on this machine: No such file"):
            machine.sees(*BOTH)
    assert machine.sees(*BOTH) == FIRST


def test_nvml_is_queried_at_intervals(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    log = machine.records.with_name("log")
    assert machine.watch.node() == FIRST
    assert not log.exists(), "it was asked just now"
    monkeypatch.setattr(nvidia, "QUERY_SECONDS", 0.0)
    machine.says(BOTH[0])
    watch = GpuWatch(FIRST, 2)
    monkeypatch.setattr(nvidia, "QUERY_SECONDS", PATIENCE)
    until(lambda: len(watch.node().seats) == 1, "it is asked")
    assert log.read_text().count("nvmlInit") == log.read_text().count("nvmlShutdown") == 1
    watch.close()


def test_a_new_controller_uses_the_other_gpus(machine: Machine) -> None:
    """A restarted controller must not end leases on them."""

    def started() -> Any:
        return json.loads(subprocess.run([sys.executable, "-c", START], capture_output=True, check=True).stdout)

    lost = [f"error|nvmlDeviceGetHandleByIndex|GPU-{number}|15" for number in range(2)]
    machine.says(*BOTH, lost[0])
    assert started() == [f"GPU 0 {LOST}", "GPU-1"]
    machine.says(*BOTH, *lost)
    assert started() == f"GPU 1 {LOST}"


PROGRAM = """
import os, sys, time
folder, own = sys.argv[1:]
if own == "True" and not os.path.exists(f"{folder}/mended"):
    open(f"{folder}/mended", "w").close()
    sys.exit("an error of the query itself")
device = os.environ["CUDA_VISIBLE_DEVICES"]
open(f"{folder}/began-on-{device}", "a").write("x")
while not os.path.exists(f"{folder}/lost"):
    time.sleep(0.02)
sys.exit("CUDA error: the GPU is lost" if device == "GPU-0" else 0)
"""


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_job_does_not_fail_because_of_a_lost_gpu(
    machine: Machine, tmp_path: Path, restarted: bool, own: bool
) -> None:
    """Without a new query it would be tried there three times within a second, as the GPU seems free."""
    database, controller = _controller(tmp_path / "state", machine.watch)
    submit(database, spec("only", command=[sys.executable, "-c", PROGRAM, str(tmp_path), str(own)]))
    until(lambda: controller.step() or (tmp_path / "began-on-GPU-0").exists(), "it begins")
    if restarted:
        controller.close()
        database, controller = _controller(tmp_path / "state", GpuWatch(FIRST, 2))
    machine.says(*BOTH, "error|nvmlDeviceGetHandleByIndex|GPU-0|15")
    (tmp_path / "lost").touch()
    until(lambda: controller.step() or rows(database)[0]["state"] != "queued", "it is over")
    assert (rows(database)[0]["state"], rows(database)[0]["reason"]) == ("done", None)
    assert (tmp_path / "began-on-GPU-0").read_text() == "x"
    assert (tmp_path / "began-on-GPU-1").exists()
    controller.close()


def _controller(state: Path, watch: GpuWatch) -> tuple[StateDatabase, Controller]:
    database = StateDatabase(state)
    engine = LocalEngine((FIRST,), database.cluster, watch)
    return database, Controller(database, engine, system_of("fifo", {}, None), estimated, Settings("fifo", None, False))


@pytest.mark.parametrize("lost", ["0", "1"])
@pytest.mark.parametrize("seconds", [None, 600.0])
def test_a_lease_on_a_lost_gpu_is_stopped_and_the_other_goes_on(
    stage: Callable[..., Stage], lost: str, seconds: float | None
) -> None:
    """Its process may hang in the driver; but a single wrong answer of NVML stops no job."""
    lab = stage(cards("n", "0", "1"), seconds=seconds)
    lab.passes = float("inf")
    for name in "ab":
        submit(lab.database, spec(name))
        lab.play(3, 1.0 if seconds is None else seconds)
    gone = next(lease.tag for lease in lab.leases() if lease.seats[0].device == f"GPU-{lost}")
    for answer in ("10"[int(lost)], "01", "10"[int(lost)]):
        lab.engine.hosts = [cards("n", *answer)]
        lab.play(14, 10.0)
        assert [lease.stop_reason for lease in lab.leases()] == [None, None]
    lab.play(2, 10.0)
    reasons = {lease.tag: lease.stop_reason for lease in lab.leases()}
    assert len(reasons) == 2
    assert {tag for tag, reason in reasons.items() if reason == StopReason.GPU_LOST} == {gone}
    assert set(reasons.values()) == {StopReason.GPU_LOST, None}


def test_a_gpu_that_is_missing_once_causes_no_stop_for_profiling(stage: Callable[..., Stage]) -> None:
    lab = stage(cards("n", "0", "1"), profile=True)
    lab.passes = float("inf")
    for name in "ab":
        submit(lab.database, spec(name))
        lab.play(8)
    submit(lab.database, spec("c"))
    lab.engine.hosts = [cards("n", "1")]
    lab.play()
    assert [lease.stop_reason for lease in lab.leases()].count(StopReason.PROFILING) == 1


def test_a_lease_that_has_not_begun_on_a_lost_gpu_moves(stage: Callable[..., Stage]) -> None:
    lab = stage(cards("n", "0", "1"))
    lab.passes = float("inf")
    submit(lab.database, spec("a"))
    start, lab.engine.start = lab.engine.start, _fails  # type: ignore[method-assign]
    lab.play()
    lab.engine.hosts = [cards("n", "1")]
    lab.play(2)
    lab.engine.start = start  # type: ignore[method-assign]
    lab.play(4)
    assert [lease.seats[0].device for lease in lab.leases()] == ["GPU-1"]


def _fails(grant: LeaseRecord) -> None:
    raise EngineDown("GPU-0 is not there any more")


def test_a_gpu_that_others_use_is_not_free(stage: Callable[..., Stage]) -> None:
    """A running job goes on, one that has not begun moves, and new jobs get the remaining GPUs."""
    lab = stage(cards("n", "0", "1", "2"))
    lab.passes = float("inf")
    submit(lab.database, spec("a"))
    lab.play(3)
    start, lab.engine.start = lab.engine.start, _fails  # type: ignore[method-assign]
    submit(lab.database, spec("b"))
    lab.play()
    a, b = lab.leases()
    busy = {seat.device: "process 4711" for lease in (a, b) for seat in lease.seats}
    lab.host("n", busy=busy)
    lab.play()
    (left,) = {"GPU-0", "GPU-1", "GPU-2"} - busy.keys()
    reasons = {lease.job: lease.stop_reason for lease in lab.leases() if lease.tag in (a.tag, b.tag)}
    assert reasons.get("b", StopReason.GPU_BUSY) == StopReason.GPU_BUSY
    assert reasons["a"] is None
    lab.engine.start = start  # type: ignore[method-assign]
    lab.play(4)
    assert {lease.job: lease.seats[0].device for lease in lab.leases()} == {"a": a.seats[0].device, "b": left}
    submit(lab.database, spec("c"))
    lab.play(3)
    assert {lease.job for lease in lab.leases()} == {"a", "b"}
    lab.host("n", busy={})
    lab.play(3)
    assert {lease.job for lease in lab.leases()} == {"a", "b", "c"}


@pytest.mark.parametrize("late", [True, False])
def test_a_job_goes_to_a_gpu_that_no_other_process_uses(machine: Machine, tmp_path: Path, late: bool) -> None:
    """Also if that process has begun since the last query of NVML."""
    if not late:
        machine.says(*BOTH, f"process|GPU-0|{os.getppid()}")
        assert machine.watch.node() == FIRST, "not asked yet"
        assert list(machine.watch.node(0.0).busy) == ["GPU-0"]
    machine.watch._taken = -math.inf
    database, controller = _controller(tmp_path / "state", machine.watch)
    machine.says(*BOTH, f"process|GPU-0|{os.getppid()}")
    submit(database, spec("only", command=[sys.executable, "-c", PROGRAM, str(tmp_path), "0"]))
    (tmp_path / "lost").touch()
    until(lambda: controller.step() or rows(database)[0]["state"] != "queued", "it is over")
    assert rows(database)[0]["state"] == "done"
    assert not (tmp_path / "began-on-GPU-0").exists()
    assert (tmp_path / "began-on-GPU-1").exists()
    with database.reading() as connection:
        reasons = connection.column("SELECT stop_reason FROM leases ORDER BY id")
    assert reasons == [StopReason.GPU_BUSY, None] if late else [None]
    (node,) = controller.engine.nodes()
    assert node.note.startswith(f"GPU-0 is in use by process {os.getppid()}")
    controller.close()


def test_changed_gpu_numbers_do_not_confuse_gpus(stage: Callable[..., Stage]) -> None:
    """Numbers change when a GPU is lost or back, or a controller starts; leases stay on their GPUs."""
    lab = stage(cards("n", "0", "1", "2"))
    lab.passes = float("inf")
    for name in "ab":
        submit(lab.database, spec(name))
        lab.play(2)
    cancel(lab.database, "a")
    lab.play(3)
    lab.engine.hosts = [cards("n", "1", "2")]
    lab.restart()
    submit(lab.database, spec("c"))
    lab.play(3)
    lab.engine.hosts = [cards("n", "2", "0", "1")]
    submit(lab.database, spec("d"))
    lab.play(3)
    where = {lease.job: lease.seats[0].device for lease in lab.leases()}
    assert where == {"b": "GPU-1", "c": "GPU-2", "d": "GPU-0"}
