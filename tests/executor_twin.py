"""The same jobs run for real, on CPU slots, and simulated: completion times side by side."""

from __future__ import annotations

import random
import sys
import threading
import time
from pathlib import Path

import pandas as pd
from executor_cluster import node, with_speeds

from hetopt.executor.controller import Controller, Settings, system_of
from hetopt.executor.engines.local import LocalEngine
from hetopt.executor.job_file import JobSpec
from hetopt.executor.lease_record import LeaseTimeouts
from hetopt.executor.measured_log import instance_of, log_of
from hetopt.executor.queue import job_row, submit
from hetopt.executor.speeds import starting, stopping
from hetopt.executor.state_database import StateDatabase
from hetopt.models.hadare.corrected_throughput import estimated
from hetopt.simulation.overheads import Overheads
from hetopt.simulation.simulator import simulate

PACE = {"slow": 200.0, "mid": 350.0, "fast": 600.0}
"""Steps per round."""

LEAST_ROUND, STARTS = 10.0, 20.0
"""A round lasts at least ``LEAST_ROUND`` seconds, and ``STARTS`` times the slowest of simultaneous starts."""

HOSTS = (node("a", {"slow": 4}), node("b", {"mid": 2}), node("c", {"fast": 2}))


def trace(seed: int, jobs: int, round_seconds: float, mean_gap: float) -> list[tuple[float, JobSpec]]:
    """(arrival in seconds, job) of short jobs of one or two workers, ``mean_gap`` rounds apart on average."""
    draw, now, found = random.Random(seed), 0.05 * round_seconds, []
    for i in range(jobs):
        program = [sys.executable, "-m", "hetopt.executor.demos.numpy_mlp"]
        for kind, rate in PACE.items():
            program += ["--pace", f"{kind}={rate / round_seconds}"]
        spec = JobSpec(
            name=f"j{i}",
            command=program,
            steps=draw.randint(100, 600),
            workers=draw.choice([1, 1, 1, 2]),
            tenant=f"t{i % 3}",
            cwd="/",
            launch="node",
            grace=5.0,
        )
        found.append((now, spec))
        now += draw.expovariate(1 / mean_gap) * round_seconds
    return found


def long_enough(folder: Path) -> float:
    """Seconds of a round that is long compared with starts of processes that share the CPUs: time is scaled."""
    gpus = sum(len(host.seats) for host in HOSTS)
    jobs = [(0.0, spec.model_copy(update={"workers": 1})) for _, spec in trace(0, gpus, LEAST_ROUND, 1.0)]
    database = run_for_real(folder, jobs, "fifo", LEAST_ROUND)
    with database.reading() as connection:
        slowest = max(starting(connection))
    database.close()
    return max(LEAST_ROUND, STARTS * slowest)


def run_for_real(folder: Path, jobs: list[tuple[float, JobSpec]], policy: str, round_seconds: float) -> StateDatabase:
    """Run them; the state database afterwards."""
    database = StateDatabase(folder / "state")
    system = system_of(policy, {}, round_seconds)
    engine = LocalEngine(HOSTS, database.cluster)
    timeouts = LeaseTimeouts(ttl_seconds=20.0)
    settings = Settings(policy, round_seconds, profile=False, timeouts=timeouts, strict_rounds=True)
    began = database.now()

    def hand_in() -> None:
        with StateDatabase(folder / "state") as own:
            for arrival, spec in jobs:
                time.sleep(max(0.0, began + arrival - own.now()))
                submit(own, spec)
                with own.reading() as connection:
                    number = job_row(connection, spec.name)["id"]
                with_speeds(own, number, {kind: rate / round_seconds for kind, rate in PACE.items()})

    hands = threading.Thread(target=hand_in)
    hands.start()
    driver = Controller(database, engine, system, estimated, settings)
    try:
        while hands.is_alive() or not driver.idle():
            driver.step()
            time.sleep(0.1)
    finally:
        hands.join()
        driver.manager.heartbeat.close()
        driver.engine.close()
    return database


def side_by_side(database: StateDatabase, policy: str, round_seconds: float) -> pd.DataFrame:
    """Completion time of each job for real and simulated, in seconds.

    The simulator gets what was measured: submission times, speeds, and the costs of starting and moving.
    """
    real, instance = log_of(database), instance_of(database)
    with database.reading() as connection:
        start, stop = pd.Series(starting(connection)).median(), pd.Series(stopping(connection)).median()
    stop = 0.0 if pd.isna(stop) else float(stop)
    overheads = Overheads(float(start), float(start), float(start), save_seconds=stop)
    twin = simulate(system_of(policy, {}, round_seconds), instance, overheads=overheads, round_seconds=round_seconds)
    return pd.DataFrame({"real": real.jobs["jct"], "simulated": twin.jobs["jct"]})
