"""Steps that a killed job has done since its last checkpoint are counted as lost, each of them."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from executor_cluster import node, rows, spec
from waiting import until

from hetopt.executor.controller import Controller, Settings, system_of
from hetopt.executor.engines.local import LocalEngine
from hetopt.executor.queue import cancel, submit
from hetopt.executor.state_database import StateDatabase
from hetopt.models.hadare.corrected_throughput import estimated

PROGRAM = """
import os, sys
from hetopt.executor import lease
every = int(sys.argv[2])
with lease() as job, open(f"{sys.argv[1]}/witness-{os.path.basename(job.folder)}", "a", buffering=1) as witness:
    print("pid", os.getpid(), file=witness)
    step = job.resume_step
    while not job.should_stop():
        step += 1
        print("begins", step, file=witness)
        job.tick(step)
        print("ticked", step, file=witness)
        if step % every == 0:
            job.save(step, lambda folder: (folder / "step").write_text(str(step)))
    job.save(step, lambda folder: (folder / "step").write_text(str(step)))
"""
"""Writes what it does beside each tick; its steps take no time."""


def witnessed(path: Path, word: str) -> list[int]:
    """Numbers after a word, in the lines of a witness that are complete."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [int(line.split()[1]) for line in lines if line.startswith(word)]


def test_lost_steps_of_killed_jobs(tmp_path: Path) -> None:
    """Killed by SIGKILL at random moments, between a step and its tick too, and while checkpoints are written."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    database = StateDatabase(tmp_path / "state")
    engine = LocalEngine((node("here", {"slot": 1}),), database.cluster)
    controller = Controller(database, engine, system_of("fifo", {}, None), estimated, Settings("fifo", None, False))
    every = draw.randint(50, 500)
    submit(database, spec("one", command=[sys.executable, "-c", PROGRAM, str(tmp_path), str(every)], steps=10**9))
    killed: list[Path] = []

    def begun() -> Path | None:
        """Witness of a new lease that has a checkpoint: other jobs fail after three leases without one."""
        controller.step()
        new = (path for path in tmp_path.glob("witness-*") if path not in killed)
        return next((path for path in new if len(witnessed(path, "ticked")) > 2 * every), None)

    for _ in range(6):
        path = until(begun, "the job trains")
        time.sleep(draw.uniform(0.0, 0.05))
        os.kill(witnessed(path, "pid")[0], signal.SIGKILL)
        killed.append(path)
    until(begun, "the last one is sealed, and the job trains again")
    cancel(database, "one")
    until(lambda: controller.step() or rows(database)[0]["state"] == "cancelled", "it is cancelled")
    controller.close()

    with database.reading() as connection:
        leases = {row["tag"]: row for row in connection.rows("SELECT * FROM leases")}
    lost = 0
    for path in killed:
        lease = leases[path.name.removeprefix("witness-")]
        assert witnessed(path, "ticked")[-1] <= lease["ticked_step"] <= witnessed(path, "begins")[-1]
        lost += witnessed(path, "begins")[-1] - lease["end_step"]
    assert lost - len(killed) <= rows(database)[0]["lost"] <= lost
    assert all(witnessed(path, "begins")[-1] - witnessed(path, "ticked")[-1] <= 1 for path in killed)
    first = [witnessed(path, "begins")[0] for path in sorted(tmp_path.glob("witness-*"), key=_epoch)]
    assert first == [1, *(leases[path.name.removeprefix("witness-")]["end_step"] + 1 for path in killed)]


def _epoch(path: Path) -> int:
    return int(path.name.rpartition("-")[2])
