"""On a real NVIDIA GPU: it is found, a CUDA job runs on it, is preempted, continues, and has the right result."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from executor_cluster import rows, spec
from executor_cuda_job import NUMBERS
from executor_job import PRIME, advanced
from waiting import PATIENCE

from hetopt.executor.controller import Controller, Settings, system_of
from hetopt.executor.engines.engine import Node
from hetopt.executor.engines.local import LocalEngine, holders, this_machine
from hetopt.executor.engines.nvidia import NoGPUs, find_gpus
from hetopt.executor.lease_record import LeaseTimeouts
from hetopt.executor.processes import tagged
from hetopt.executor.queue import drain, submit
from hetopt.executor.state_database import StateDatabase
from hetopt.models.hadare.corrected_throughput import estimated

STEPS = 600


@pytest.fixture
def gpus() -> Node:
    try:
        return find_gpus("here")[0]
    except NoGPUs as reason:
        pytest.skip(f"no NVIDIA GPU here: {reason}")


class Driven:
    """A controller of this machine's GPUs."""

    def __init__(self, folder: Path, node: Node) -> None:
        self.database = StateDatabase(folder)
        settings = Settings("fifo", None, False, LeaseTimeouts())
        engine = LocalEngine((node,), self.database.cluster)
        self.controller = Controller(self.database, engine, system_of("fifo", {}, None), estimated, settings)

    def until(self, what: Callable[[], Any], meaning: str) -> None:
        """Make passes until the condition holds."""
        deadline = time.monotonic() + PATIENCE
        while not what():
            assert time.monotonic() < deadline, f"not within {PATIENCE:g} s: {meaning}; {rows(self.database)}"
            self.controller.step()
            time.sleep(0.05)

    def preempted_on_its_way(self, steps: int) -> list[Any]:
        """Run the one job; after some steps drain its node, and undo that. Its leases."""
        self.until(self.ticked, "it trains")
        drain(self.database, "here")
        self.until(lambda: not self.controller.manager.leases(), "it has stopped")
        (job,) = rows(self.database)
        assert 0 < job["committed"] < steps, "preempted on its way"
        drain(self.database, "here", undo=True)
        self.until(lambda: rows(self.database)[0]["state"] != "queued", "it is over")
        assert rows(self.database)[0]["state"] == "done", rows(self.database)[0]["reason"]
        with self.database.reading() as connection:
            return connection.rows("SELECT * FROM leases ORDER BY id")

    def ticked(self) -> bool:
        """Whether the job has reported steps."""
        return any(lease.first_tick is not None for lease in self.controller.manager.leases())


@pytest.fixture
def driven(tmp_path: Path, gpus: Node) -> Iterator[Driven]:
    made = Driven(tmp_path / "state", gpus)
    yield made
    made.controller.close()


def test_a_cuda_job_is_preempted_and_goes_on(driven: Driven, gpus: Node, tmp_path: Path) -> None:
    """Each number is what the host computes for this number of steps: none was lost, and none done twice."""
    program, witness = Path(__file__).with_name("executor_cuda_job.py"), tmp_path / "witness"
    submit(driven.database, spec("cuda", command=[sys.executable, str(program), str(witness), "0.005"], steps=STEPS))
    first, second = driven.preempted_on_its_way(STEPS)
    assert (first["outcome"], second["outcome"]) == ("stopped", "ended")
    assert second["from_step"] == first["end_step"]
    records = [json.loads(line) for line in witness.read_text().splitlines()]
    assert [line["from"] for line in records] == [0, first["end_step"]]
    for line in records:
        assert line["visible"] == 1, "it sees the GPU of its lease alone"
        assert line["asked"] in {seat.device for seat in gpus.seats}
        assert line["uuid"] == line["asked"] or line["asked"].startswith("MIG-")
    numbers = array("Q", (Path(rows(driven.database)[0]["checkpoint"]) / "model.bin").read_bytes())
    factor, rest = 1, 0  # of the linear map of this number of steps
    for _ in range(STEPS):
        factor, rest = factor * 48271 % PRIME, advanced(rest)
    assert numbers == array("Q", [(factor * i + rest) % PRIME for i in range(NUMBERS)])


@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("torch", "safetensors")), reason="PyTorch is not installed"
)
def test_a_preempted_pytorch_job_reduces_its_loss(driven: Driven) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    command = [sys.executable, "-m", "hetopt.executor.demos.torch_mlp"]
    submit(driven.database, spec("torch", command=command, steps=3000, grace=60.0))
    leases = driven.preempted_on_its_way(3000)
    from hetopt.executor.losses import losses

    curve = losses(driven.database, "torch")["loss"]
    assert len(leases) == 2
    assert curve.iloc[-1] < curve.iloc[0] / 2


HOLD = """
import sys; sys.path.insert(0, sys.argv[1])
from array import array
from executor_cuda_job import Cuda
cuda = Cuda(array("Q", range(1 << 16)))
print("computes", flush=True)
input()
"""
"""Has memory of the first GPU until it is given a line."""


def test_a_gpu_that_another_program_uses_is_not_granted(gpus: Node, tmp_path: Path) -> None:
    """NVML lists a process without a lease: the job waits for it. Processes of the job itself do not count."""
    device = gpus.seats[0].device
    hold = [sys.executable, "-c", HOLD, str(Path(__file__).parent)]
    database = StateDatabase(tmp_path / "state")
    with subprocess.Popen(
        hold,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": device},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "computes\n"
        engine = this_machine(database.cluster)
        controller = Controller(
            database, engine, system_of("fifo", {}, None), estimated, Settings("fifo", None, False, LeaseTimeouts())
        )
        program, witness = Path(__file__).with_name("executor_cuda_job.py"), tmp_path / "witness"
        command = [sys.executable, str(program), str(witness), "0.005"]
        submit(database, spec("cuda", command=command, steps=400, gpu_types=[gpus.seats[0].gpu_type]))
        for _ in range(20):
            controller.step()
        (node,) = engine.nodes()
        print(node.note)
        assert f"{device} is in use by process {other.pid} (" in node.note
        if len(gpus.seats) == 1:
            assert controller.manager.leases() == []
        other.communicate("\n")
    deadline, busy = time.monotonic() + PATIENCE, []
    while rows(database)[0]["state"] == "queued":
        assert time.monotonic() < deadline, rows(database)
        controller.step()
        if witness.exists() and engine._gpus is not None:
            busy += engine._gpus.node(max_age=0.0).busy.values()
        time.sleep(0.05)
    assert rows(database)[0]["state"] == "done", rows(database)[0]["reason"]
    assert busy == [], "the processes of its own lease"
    controller.close()


def test_two_state_folders_do_not_share_a_real_gpu(gpus: Node, tmp_path: Path) -> None:
    """Each job gets the first GPU alone, one after the other."""
    program, witness = Path(__file__).with_name("executor_cuda_job.py"), tmp_path / "witness"
    one = replace(gpus, seats=gpus.seats[:1])
    labs = [Driven(tmp_path / name, one) for name in ("s1", "s2")]
    for lab in labs:
        submit(lab.database, spec("cuda", command=[sys.executable, str(program), str(witness), "0.005"], steps=200))
    seen, together = set(), 0

    def over() -> bool:
        nonlocal together
        for lab in labs:
            lab.controller.step()
        seen.add(tuple(sorted(holders())))
        jobs = {tag.split("-")[1] for _, tag in tagged() if tag.endswith(".0")}
        together = max(together, len(jobs & {lab.database.cluster for lab in labs}))
        return all(rows(lab.database)[0]["state"] != "queued" for lab in labs)

    labs[0].until(over, "both are over")
    assert [rows(lab.database)[0]["state"] for lab in labs] == ["done", "done"]
    assert together == 1
    assert (one.seats[0].device,) in seen
    for lab in labs:
        lab.controller.close()
