"""Makes controllers by forking after hetopt was imported, so that the next one starts at once.

Reads a line of JSON for each controller: its settings, and the faults in it. Answers with its process id.
"""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hetopt.data.instance import Instance
from hetopt.decisions.placers import MoreWorkersFirst
from hetopt.decisions.system import System
from hetopt.executor import clock, controller, lease_directory, lease_manager, leases
from hetopt.executor.engines import local, slurm_commands
from hetopt.executor.engines.engine import Engine, EngineDown
from hetopt.executor.engines.slots import read_slots
from hetopt.executor.engines.slurm import SlurmEngine
from hetopt.executor.state_database import StateDatabase
from hetopt.formulations.traits import Traits
from hetopt.models.hadare.corrected_throughput import estimated
from hetopt.results.allocation import Plan

KILLED_AT_A_WRITE = b"kill -9 at a write\n"
"""In a controller's log."""


@dataclass(frozen=True)
class Restless:
    """A policy that moves all jobs in each round; its state counts the calls."""

    seed: int = 0
    round_seconds: float = 1.0

    @property
    def traits(self) -> Traits:
        return Traits(self.round_seconds)

    def __call__(self, instance: Instance, state: int | None = None) -> tuple[Plan, int]:
        """Jobs in random order onto random types, as long as there is room; some wait."""
        number = (state or 0) + 1
        draw = random.Random(f"{self.seed}/{number}")
        jobs = instance.entities("jobs")
        x, left = np.zeros(jobs.shape), jobs.capacity.copy()
        for e in draw.sample(range(len(jobs.names)), len(jobs.names)):
            types = [k for k in range(len(jobs.types)) if jobs.speed[e, k] > 0 and left[k] >= jobs.demand[e]]
            if types and draw.random() < 0.9:
                k = draw.choice(types)
                x[e, k] = jobs.demand[e]
                left[k] -= jobs.demand[e]
        return Plan(jobs, x), number


class Saboteur:
    """Counts the points at which something is written, and injects faults there."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan, self.count = plan, 0
        self.began = time.monotonic()

    def point(self, what: str) -> None:
        """One point: kill the process here, or raise ENOSPC."""
        self.count += 1
        if self.count == self.plan.get("die_at"):
            os.write(1, KILLED_AT_A_WRITE)
            os.kill(os.getpid(), signal.SIGKILL)
        first, number = self.plan.get("full_disk", (0, 0))
        if first <= self.count < first + number and what != "engine":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), what)

    def around(self, call: Callable[..., Any], what: str) -> Callable[..., Any]:
        """The call, with a point before it and one after it."""

        def wrapped(*words: Any, **named: Any) -> Any:
            self.point(what)
            result = call(*words, **named)
            if what != "database":
                self.point(what)
            return result

        return wrapped

    def install(self, engine: type[Any]) -> None:
        """Patch this process, with an engine of that class."""
        for name in ("replace", "link", "fsync"):
            setattr(lease_directory.os, name, self.around(getattr(os, name), name))
        before = StateDatabase.writing

        @contextmanager
        def writing(database: StateDatabase) -> Iterator[Any]:
            with before(database) as connection:
                yield connection
                self.point("database")  # all is written, nothing committed
            if self.count + 1 == self.plan.get("die_at"):
                self.point("database")  # committed, and nothing after it done

        StateDatabase.writing = writing  # type: ignore[assignment, method-assign]
        for name in ("start", "stop", "kill"):
            setattr(engine, name, self.around(getattr(engine, name), "engine"))
        first, last = self.plan.get("engine_down", (0.0, 0.0))

        def answers(call: Callable[..., Any]) -> Callable[..., Any]:
            def asked(*words: Any) -> Any:
                if first <= time.monotonic() - self.began < last:
                    raise EngineDown("injected by the test")
                return call(*words)

            return asked

        engine.status, engine.nodes = answers(engine.status), answers(engine.nodes)
        if jump := self.plan.get("clock_jump"):
            real = time.time
            clock.time.time = lambda: real() + (jump if time.monotonic() - self.began > 0.3 else 0.0)  # type: ignore[assignment]


def drive(plan: dict[str, Any]) -> None:
    """Run a controller until all jobs have finished."""
    os.setsid()
    log = os.open(plan["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    database = StateDatabase(Path(plan["state"]))
    if slurm := plan.get("slurm"):
        os.environ["SLURM_CONF"] = slurm
        slurm_commands.COMMAND_SECONDS = 5.0
        engine: Engine = SlurmEngine(database.cluster)
    else:
        engine = local.LocalEngine(read_slots(Path(plan["slots"])), database.cluster)
    timeouts = lease_manager.LeaseTimeouts(
        ttl_seconds=plan["ttl"],
        margin_seconds=5.0 if slurm else 0.5,  # only leases under Slurm are fenced by time alone here
        profile_seconds=0.3,
        first_tick_seconds=20.0,
        visible_seconds=0.2,
        start_seconds=20.0,
    )
    leases.MAX_LOSSES = 10**6  # a busy machine loses leases without a fault
    leases.MAX_FAILURES = 10**6  # and a campaign may kill a job many times in a row
    seconds = plan.get("round", 1.0)
    system = System(Restless(plan["seed"], seconds), placer=MoreWorkersFirst(sticky=True))
    settings = controller.Settings("restless", seconds, plan.get("profile", True), timeouts)
    Saboteur(plan).install(type(engine))
    driver = controller.Controller(
        database, engine, system, estimated, settings, print_line=lambda text: print(text, flush=True)
    )
    driver.run(until_idle=True, poll=0.05)
    driver.close()


def main() -> None:
    """Fork a controller for each line."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            code = 1
            try:
                drive(json.loads(line))
                code = 0
            except BaseException as problem:  # any error goes to the log; no code of the parent may run here
                import traceback

                traceback.print_exc()
                code = 0 if isinstance(problem, SystemExit) else 1
            finally:
                os._exit(code)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
