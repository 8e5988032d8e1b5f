"""What driving a cluster costs: CPU of the controller, time from a decision to a running job and from a stop to free
GPUs on each engine, and time until a killed controller is back.

The peer of the latencies is the same program without hetopt: a subprocess, a bare ``sbatch``.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from hetopt.executor import clock as clocks
from hetopt.executor import lease_directory as files
from hetopt.executor.connection import Row
from hetopt.executor.controller import Controller, Settings, system_of
from hetopt.executor.engines.engine import Engine, LeaseRecord, Node, Phase
from hetopt.executor.engines.local import LocalEngine
from hetopt.executor.engines.slurm import SlurmEngine
from hetopt.executor.lease_record import LeaseTimeouts
from hetopt.executor.queue import cancel, submit
from hetopt.executor.state_database import StateDatabase
from hetopt.models.hadare.corrected_throughput import estimated

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from executor_cluster import node, rows, spec, with_speeds
from slurm_cluster import SlurmCluster, missing

SPEEDS = {"K80": 1.0, "P100": 2.0, "V100": 4.0, "A100": 8.0, "H100": 12.0}
MINUTE = 60
"""Looks in a round of 60 s, one a second."""

TURNOVER = 10
"""Jobs that end, and come, in a minute."""

STEPS = 10**6
"""Steps of each job."""

START_SECONDS = 15.0
"""From the start of a lease to its first step: PyTorch jobs took 14.7 s on an H100."""

REPORT_SECONDS = 10.0
"""Between two reports of a job."""


@dataclass
class SimulatedClock:
    """Seconds, which pass when a look is over."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class Simulated:
    """An engine without processes: jobs start, train at their speeds, and stop at once when they are asked to.

    ``seconds`` is the CPU time for the files that runners and jobs would write, which is not the controller's.
    """

    name, exact_slots, look_seconds = "simulated", True, 0.0

    def __init__(self, clock: SimulatedClock, hosts: tuple[Node, ...]) -> None:
        self.clock, self.hosts = clock, hosts
        self.speeds: dict[str, dict[str, float]] = {}
        self.live: dict[str, LeaseRecord] = {}
        self.first: dict[str, float] = {}  # second at which a lease begins to train
        self.due: dict[str, float] = {}  # second of its next report
        self.seconds = 0.0

    def nodes(self) -> tuple[Node, ...]:
        """All hosts, always up."""
        return self.hosts

    def start(self, grant: LeaseRecord) -> None:
        """Its nodes are claimed."""
        self.live[grant.tag], began = grant, cpu_seconds()
        self.first[grant.tag] = self.due[grant.tag] = self.clock.now + START_SECONDS
        for rank in range(len(grant.nodes)):
            (grant.folder / files.claim_file(rank)).write_text("{}")
        self.seconds += cpu_seconds() - began

    def status(self, tags: Collection[str]) -> Mapping[str, Phase]:
        """All that were started and not stopped run, and report their steps."""
        began = cpu_seconds()
        for tag, second in self.due.items():
            if self.clock.now >= second:
                self.report(tag)
        self.seconds += cpu_seconds() - began
        return {tag: Phase.RUNNING if tag in self.live else Phase.ENDED for tag in tags}

    def report(self, tag: str) -> int:
        """The step that the job has reached; it reports it once it is past its first."""
        grant, spent = self.live[tag], self.clock.now - self.first[tag]
        speed = min(self.speeds[grant.job][seat.gpu_type] for seat in grant.seats)
        steps = max(0, int(spent * speed))
        if steps > 0:
            self.due[tag], step = self.clock.now + REPORT_SECONDS, grant.resume_step + steps
            progress = {"step": step, "first_step": grant.resume_step, "seconds": steps / speed, "time": self.clock.now}
            files.write_json(grant.folder / files.PROGRESS, progress, durable=False)
        return grant.resume_step + steps

    def stop(self, tags: Collection[str]) -> None:
        """They have stopped."""
        for tag in tags:
            self.end(tag, "stopped")

    kill = stop

    def end(self, tag: str, reason: str, finished: bool = False) -> None:
        """A lease ends, with a checkpoint of its last step."""
        began = cpu_seconds()
        if (grant := self.live.get(tag)) is not None:
            step = STEPS if finished else self.report(tag)
            if step > grant.resume_step:
                checkpoint = grant.folder / files.CHECKPOINTS / f"step-{step}"
                checkpoint.mkdir(parents=True)
                files.write_json(checkpoint / "files.json", {"bytes": {}}, durable=False)
            if finished:
                files.write_json(grant.folder / files.OUTCOME, {"finished": True, "step": step}, durable=False)
            for rank in range(len(grant.nodes)):
                content = {"reason": reason, "codes": [0], "problem": None, "left": []}
                files.write_json(grant.folder / files.exit_file(rank), content, durable=False)
            for own in (self.live, self.first, self.due):
                own.pop(tag)
        self.seconds += cpu_seconds() - began

    def fenced_after(self, tag: str) -> float | None:
        """What was killed is dead."""
        return 0.0

    def close(self) -> None:
        """Nothing is held."""


class Lab:
    """A cluster without processes, with jobs whose speeds are known."""

    def __init__(self, folder: Path, policy: str, clock: SimulatedClock, nodes: int, jobs: int) -> None:
        self.folder, self.policy, self.draw, self.number = folder, policy, random.Random(1), 0
        self.clock, types = clock, list(SPEEDS)
        hosts = (node(f"n{i:02}", {types[i % 5]: 8}) for i in range(nodes))
        self.engine = Simulated(clock, tuple(hosts))
        self.database = StateDatabase(folder)
        for _ in range(jobs):
            self.submit()
        self.driver = self.controller()

    def controller(self) -> Controller:
        """Of this cluster."""
        settings = Settings(self.policy, 60.0, True, LeaseTimeouts())
        return Controller(self.database, self.engine, system_of(self.policy, {}, 60.0), estimated, settings)

    def submit(self) -> None:
        """A job more."""
        self.number += 1
        workers, tenant = self.draw.choice([1, 1, 1, 2, 4]), f"t{self.number % 10}"
        submit(self.database, spec(f"j{self.number}", steps=STEPS, workers=workers, tenant=tenant))
        speeds = {kind: speed * self.draw.uniform(0.8, 1.2) for kind, speed in SPEEDS.items()}
        self.engine.speeds[f"j{self.number}"] = speeds
        with_speeds(self.database, self.number, speeds)

    def turn_over(self) -> None:
        """A job that runs is done, and another comes."""
        if self.engine.live:
            self.engine.end(self.draw.choice(sorted(self.engine.live)), "ended", finished=True)
        self.submit()

    def look(self) -> None:
        """A pass, a second after the one before."""
        self.clock.now += 1.0
        self.driver.step()

    def settle(self) -> None:
        """Let what was decided come about, in half a minute."""
        for _ in range(MINUTE // 2):
            self.look()

    def restart(self) -> None:
        """Another controller starts, as after a crash, and makes one pass."""
        self.driver.close()
        self.database = StateDatabase(self.folder)
        self.driver = self.controller()
        self.driver.step()

    def number_of_leases(self) -> int:
        """All that were ever started."""
        with self.database.reading() as connection:
            return int(connection.value("SELECT count(*) FROM leases"))

    def leases(self) -> list[Row]:
        """All that are open."""
        with self.database.reading() as connection:
            return connection.rows("SELECT * FROM leases WHERE state != 'sealed'")

    def check(self) -> None:
        """The cluster is full of leases on GPUs that it has, and every job that has ended is done."""
        with self.database.reading() as connection:
            held = connection.rows("SELECT * FROM seats WHERE held")
        seats = {(seat["node"], seat["gpu_type"], seat["number"]) for seat in held}
        there = {(seat.node, seat.gpu_type, seat.index) for host in self.engine.hosts for seat in host.seats}
        assert len(seats) == len(held)
        assert seats <= there
        assert len(seats) > len(there) / 2
        assert {lease["tag"] for lease in self.leases()} == set(self.engine.live)
        assert all(row["committed"] == STEPS for row in rows(self.database) if row["state"] == "done")
        assert {row["state"] for row in rows(self.database)} == {"done", "queued"}


@pytest.fixture
def lab(request: pytest.FixtureRequest, full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """50 hosts of 8 GPUs under way, with 150 jobs, which fit on them, or 500, which take turns."""
    policy, jobs = request.param
    clock = SimulatedClock()
    monkeypatch.setattr(clocks, "now", clock)
    monkeypatch.setattr(files, "now", clock)
    made = Lab(tmp_path / "state", policy, clock, *((50, jobs) if full else (5, jobs // 10)))
    made.settle()
    yield made
    made.driver.close()


def cpu_seconds() -> float:
    """Of this process, its threads, and its children that have ended."""
    own = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in own)


LABS = list(product(["fft", "oef-cooperative", "hadar", "gavel"], [150, 500]))
"""Policies, with numbers of jobs."""


@pytest.mark.parametrize("lab", LABS, indirect=True, ids=lambda own: f"{own[0]}-{own[1]}")
def test_controller_cpu(benchmark: BenchmarkFixture, full: bool, lab: Lab) -> None:
    """Rounds of 60 s, a look each second, ten jobs a minute that end and come."""
    minutes, stamps = 5 if full else 1, list[float]()
    users = 0.0  # seconds of CPU in which jobs are submitted, and end
    while int(lab.clock.now) % MINUTE != MINUTE - 1:
        lab.look()
    rounds, leases = lab.driver.scheduler.number, lab.number_of_leases()

    def seconds() -> float:
        return cpu_seconds() - lab.engine.seconds - users

    def between_passes() -> bool:
        nonlocal users
        lab.clock.now += 1.0
        if int(lab.clock.now) % MINUTE == 0:
            stamps.append(seconds())
        if int(lab.clock.now) % (MINUTE // TURNOVER) == 0:
            began = seconds()
            lab.turn_over()
            users += seconds() - began
        return len(stamps) > minutes

    benchmark.pedantic(lambda: lab.driver.run(poll=0.0, stop=between_passes), rounds=1)
    assert lab.driver.scheduler.number - rounds == minutes, "one decision a minute"
    shares = [(after - before) / MINUTE for before, after in pairwise(stamps)]
    started = (lab.number_of_leases() - leases) / minutes
    lab.settle()
    lab.check()
    benchmark.extra_info |= {
        "% of a core": 100 * statistics.median(shares),
        "leases": len(lab.leases()),
        "started a minute": started,
    }
    if full:
        assert statistics.median(shares) < 0.05


@pytest.mark.parametrize("lab", [("fft", 500)], indirect=True)
def test_restart(benchmark: BenchmarkFixture, full: bool, lab: Lab) -> None:
    """Until another controller has looked at everything; nothing is stopped for it."""
    before = [lease["tag"] for lease in lab.leases()]
    benchmark.pedantic(lab.restart, rounds=5 if full else 1)
    assert [lease["tag"] for lease in lab.leases()] == before
    assert [lease["stop_requested"] for lease in lab.leases()] == [None] * len(before)


def test_restart_of_a_process(benchmark: BenchmarkFixture, full: bool, tmp_path: Path) -> None:
    """``hetopt run`` is killed; from its start on until the lease of a job is renewed again."""
    folder, slots = tmp_path / "state", tmp_path / "slots.yaml"
    slots.write_text("nodes:\n  a: {slots: {cpu: 1}}\n")
    with StateDatabase(folder) as database:
        submit(database, spec("sleeper", command=["sleep", "1000"]))
        words = ["run", "--policy", "fft", "--no-profile", "--slots", str(slots), "--state", str(folder)]
        driver = subprocess.Popen([sys.executable, "-m", "hetopt", *words])
        try:
            (lease,) = soon(lambda: list(folder.glob("leases/*/claim-0")))
            counter = lease.with_name(files.RENEWED)
            took = []
            for _ in range(5 if full else 1):
                driver.kill()
                driver.wait()
                was, began = counter.read_text(), time.perf_counter()
                driver = subprocess.Popen([sys.executable, "-m", "hetopt", *words])
                soon(lambda was=was: counter.read_text() != was)
                took.append(time.perf_counter() - began)
            cancel(database, "sleeper")
            soon(lambda: [row["state"] for row in rows(database)] == ["cancelled"])
            with database.reading() as connection:
                outcomes = connection.column("SELECT outcome FROM leases")
        finally:
            driver.send_signal(signal.SIGTERM)
            driver.wait()
    assert outcomes == ["stopped"], "one lease through it all"
    benchmark.pedantic(lambda: None, rounds=1)
    benchmark.extra_info["seconds"] = statistics.median(took)


# -- engines

PROGRAM = """
import os, signal, sys, time
stop, own = [], f"{sys.argv[1]}.{os.getpid()}"
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
with open(own, "w") as file:
    file.write(str(time.clock_gettime(time.CLOCK_BOOTTIME)))
os.rename(own, sys.argv[1])
while not stop:
    time.sleep(0.005)
"""
"""Writes down when it began, and lives until it is asked to stop."""


def soon(what: Callable[[], Any], step: Callable[[], object] = lambda: None) -> Any:
    """Wait for something."""
    deadline = time.monotonic() + 60.0
    while not (found := what()):
        assert time.monotonic() < deadline
        step()
        time.sleep(0.01)
    return found


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    if why := missing():
        pytest.skip(why)
    with SlurmCluster() as cluster, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(cluster.configuration))
        yield cluster


def local(database: StateDatabase, _: pytest.FixtureRequest) -> Engine:
    """This machine."""
    return LocalEngine((node("a", {"slow": 2}), node("b", {"slow": 2})), database.cluster)


def slurms(database: StateDatabase, request: pytest.FixtureRequest) -> Engine:
    """A cluster of three nodes."""
    request.getfixturevalue("slurm")
    return SlurmEngine(database.cluster)


def bare_local(stamp: Path) -> tuple[float, float]:
    """(seconds until the program runs, seconds until it is gone) as a subprocess."""
    began = files.now()
    process = subprocess.Popen([sys.executable, "-S", "-c", PROGRAM, str(stamp)])
    soon(stamp.exists)
    asked = files.now()
    process.terminate()
    process.wait()
    return float(stamp.read_text()) - began, files.now() - asked


def bare_slurm(stamp: Path) -> tuple[float, float]:
    """The same by sbatch, with a GPU, until the queue has it no longer."""
    words = ["sbatch", "--parsable", "--gres=gpu:1", "--output=/dev/null", "/dev/stdin", sys.executable, PROGRAM]
    script = '#!/bin/sh\nexec "$1" -S -c "$2" "$3"\n'
    began = files.now()
    answer = subprocess.run([*words, str(stamp)], input=script, capture_output=True, text=True, check=True)
    number = answer.stdout.strip()
    soon(stamp.exists)
    asked = files.now()
    subprocess.run(["scancel", "--batch", "--signal=TERM", number], check=True)
    listed = ["squeue", "--noheader", f"--jobs={number}"]
    soon(lambda: not subprocess.run(listed, capture_output=True, text=True, check=False).stdout.strip())
    return float(stamp.read_text()) - began, files.now() - asked


@pytest.mark.parametrize("workers", [1, 4], ids=["one GPU", "gang on two nodes"])
@pytest.mark.parametrize(("engine", "bare"), [(local, bare_local), (slurms, bare_slurm)], ids=["local", "slurm"])
def test_latencies(
    benchmark: BenchmarkFixture,
    full: bool,
    engine: Callable[[StateDatabase, pytest.FixtureRequest], Engine],
    bare: Callable[[Path], tuple[float, float]],
    workers: int,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    """From the decision until the job's first line has run, and from the stop until its GPUs are free.

    Passes follow without a pause here; one pass per second adds up to a second. The peer always has one GPU.
    """
    running, free, cost, peer = [], [], [], []
    with StateDatabase(tmp_path / "state") as database:
        made = engine(database, request)
        settings = Settings("fifo", None, False, LeaseTimeouts())
        driver = Controller(database, made, system_of("fifo", {}, None), estimated, settings)
        for number in range(15 if full else 1):
            stamp = tmp_path / f"stamp{number}"
            own = spec(f"j{number}", command=[sys.executable, "-S", "-c", PROGRAM, str(stamp)], workers=workers)
            submit(database, own)
            soon(stamp.exists, driver.step)
            (lease,) = driver.manager.leases()
            assert len(lease.seats) == workers
            granted = lease.granted + files.now() - database.now()  # by the machine's clock
            running.append(float(stamp.read_text()) - granted)
            cancel(database, own.name)
            soon(lambda: not driver.manager.leases(), driver.step)
            with database.reading() as connection:
                row = connection.row("SELECT * FROM leases ORDER BY id DESC")
            assert row is not None
            assert (row["outcome"], row["tag"]) == ("stopped", lease.tag)
            free.append(row["sealed"] - row["stop_requested"])
            peer.append(bare(tmp_path / f"bare{number}"))
        for _ in range(20 if full else 1):
            began = cpu_seconds()
            made.nodes(), made.status([])
            cost.append(cpu_seconds() - began)
        driver.manager.heartbeat.close()
        made.close()
    benchmark.pedantic(lambda: None, rounds=1)
    medians = {
        "decision to running (s)": running,
        "stop to free (s)": free,
        "CPU of a query (s)": cost,
        "bare start (s)": [start for start, _ in peer],
        "bare stop (s)": [stop for _, stop in peer],
    }
    benchmark.extra_info |= {name: statistics.median(found) for name, found in medians.items()}
    assert min(running) > 0
    assert min(free) > 0
    assert not [pid for pid in os.listdir("/proc") if pid.isdecimal() and lives(int(pid), str(tmp_path))]


def lives(pid: int, word: str) -> bool:
    """Whether a process has that in its command."""
    return pid != os.getpid() and word in (files.read_text(Path(f"/proc/{pid}/cmdline")) or "")
