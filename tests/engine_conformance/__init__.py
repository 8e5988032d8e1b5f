"""Conformance suite: what every engine must do, as checks for any engine.

Each check takes a :class:`Bench` and raises AssertionError where the engine is wrong. A package tests its engine so::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_engine(check, tmp_path):
        check(Bench(lambda cluster: MyEngine(cluster), tmp_path))

The engine needs at least one node that is up, with at least one GPU or slot that is free.
"""

from __future__ import annotations

if __name__ != "hetopt.engine_conformance":
    raise ImportError(f"import this package as hetopt.engine_conformance, not as {__name__}")

import secrets
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from hetopt.executor import lease_directory as files
from hetopt.executor.engines.engine import Engine, LeaseRecord, Node, Phase, Seat

RUN_UNTIL_STOPPED = """
import os, signal, sys, time
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
lines = open(sys.argv[1], "a", buffering=1)
print(os.environ["RANK"], os.getpid(), "begins", file=lines)
while not stop:
    print(os.environ["RANK"], os.getpid(), "runs", file=lines)
    time.sleep(0.05)
print(os.environ["RANK"], os.getpid(), "stops", file=lines)
"""
"""A job that appends a line to a file again and again until it gets SIGTERM."""

HELPED = """
import os, signal, sys, time
lines = open(sys.argv[1], "a", buffering=1)
stop = []
child = os.fork()
if child == 0:
    signal.signal(signal.SIGTERM, lambda *_: print("helper: SIGTERM", file=lines))
    print("helper: runs", file=lines)
    while os.getppid() != 1:
        time.sleep(0.05)
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
print("job: runs", file=lines)
while not stop:
    time.sleep(0.05)
time.sleep(1.0)
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
"""
"""A job with a helper process, such as a data loader, that notes a SIGTERM. One second after its own, it ends both."""

IGNORE_SIGTERM = RUN_UNTIL_STOPPED.replace("lambda *_: stop.append(1)", "signal.SIG_IGN")
"""The same, but only SIGKILL ends it."""

WRITE_ENVIRONMENT = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1] + os.environ['RANK'], 'w'))"
"""A job that writes its environment to a file for each rank."""


@dataclass
class Bench:
    """An engine under test, and leases for it.

    Parameters
    ----------
    make:
        Makes an engine for the cluster of this name. It is called again for another controller of the same cluster.
    folder:
        For lease directories; all nodes see it under this path.
    patience:
        Seconds in which the engine must have done what was requested.
    hidden:
        Prefixes of the names of variables of the engine's batch system, which jobs must not see.
    """

    make: Callable[[str], Engine]
    folder: Path
    patience: float = 20.0
    hidden: tuple[str, ...] = ("SLURM_", "SBATCH_", "SRUN_")
    cluster: str = field(default_factory=lambda: secrets.token_hex(3))
    _number: int = 0

    def lease(self, seats: Collection[Seat], program: str, engine: Engine, cluster: str | None = None) -> LeaseRecord:
        """A lease with its directory, not started yet. Its job is a Python program, with the path of a file."""
        self._number += 1
        tag = f"hetopt-{cluster or self.cluster}-{self._number}-0-1"
        folder = self.folder / tag
        folder.mkdir(mode=0o700)
        lease = LeaseRecord(
            tag,
            folder,
            tuple(seats),
            command=(sys.executable, "-c", program, str(folder / "lines")),
            cwd=str(self.folder),
            bound_by_engine=not engine.exact_slots,
            grace_seconds=self.patience,
            ttl_seconds=self.patience,
        )
        lease.write()
        files.renew(folder, 1)
        return lease

    def wait(self, condition: Callable[[], object], meaning: str) -> None:
        """Wait until the condition holds.

        Raises
        ------
        AssertionError
            It does not hold within ``patience`` seconds.
        """
        deadline = files.now() + self.patience
        while not condition():
            assert files.now() < deadline, f"not within {self.patience:g} s: {meaning}; see the files in {self.folder}"
            time.sleep(0.05)

    def lines(self, lease: LeaseRecord) -> list[str]:
        """The lines that the job has written."""
        return (files.read_text(lease.folder / "lines") or "").splitlines()

    def environment(self, lease: LeaseRecord, rank: int) -> dict[str, str] | None:
        """The environment of a rank of :data:`WRITE_ENVIRONMENT`; None before it was written."""
        return files.read_json(lease.folder / f"lines{rank}")

    def exits(self, lease: LeaseRecord) -> list[str]:
        """Why the runners of the lease ended, of those that have: ``ended`` (the job did), ``stopped``, …."""
        found = [files.read_json(lease.folder / files.exit_file(rank)) for rank in range(len(lease.nodes))]
        return [content["reason"] for content in found if content is not None]

    def phase(self, engine: Engine, lease: LeaseRecord) -> Phase:
        """The phase that the engine reports for a lease.

        Raises
        ------
        AssertionError
            It reports none, or something else than a :class:`Phase`.
        """
        phase = engine.status([lease.tag]).get(lease.tag)
        assert isinstance(phase, Phase), f"status() returns {phase!r} for a tag that it is given; it must be a Phase"
        return phase

    def wait_ended(self, engine: Engine, lease: LeaseRecord) -> None:
        """Wait until the engine reports that the lease has ended."""
        self.wait(lambda: self.phase(engine, lease) is Phase.ENDED, f"{lease.tag} is reported as ended")


def usable(engine: Engine) -> list[Node]:
    """Nodes that are up and have a seat.

    Raises
    ------
    AssertionError
        There is none.
    """
    every = engine.nodes()
    nodes = [node for node in every if node.up and node.seats]
    assert nodes, f"no node is up and has a seat: {', '.join(f'{node.name} ({node.note})' for node in every)}"
    return nodes


def one_seat(engine: Engine) -> tuple[Seat, ...]:
    """A single GPU."""
    return (usable(engine)[0].seats[0],)


def node_and_seat_names_are_unique(bench: Bench) -> None:
    """Names of nodes and seats are unique; the next call returns the nodes in the same order."""
    engine = bench.make(bench.cluster)
    nodes = engine.nodes()
    names = [node.name for node in nodes]
    usable(engine)
    assert len(set(names)) == len(names), f"nodes of the same name: {names}"
    seats = [seat for node in nodes for seat in node.seats]
    assert len({(seat.node, seat.gpu_type, seat.index) for seat in seats}) == len(seats), "a seat is listed twice"
    assert len({seat.place for seat in seats}) == len(seats), "a device is listed twice"
    assert all(seat.node == node.name for node in nodes for seat in node.seats), "a node lists a seat of another node"
    again = [[node.name for node in engine.nodes()] for _ in range(10)]
    assert again == [names] * 10, "the order of nodes changes"
    assert isinstance(engine.look_seconds, (int, float)), (
        f"look_seconds is {engine.look_seconds!r}; it must be a number"
    )
    engine.close()


def lease_starts_and_stops(bench: Bench) -> None:
    """A started lease runs; a stopped one ends in order; requests for a lease that has ended change nothing."""
    engine = bench.make(bench.cluster)
    lease = bench.lease(one_seat(engine), RUN_UNTIL_STOPPED, engine)
    assert bench.phase(engine, lease) is Phase.ENDED, "a lease is not reported as ended before its start"
    engine.start(lease)
    bench.wait(lambda: len(bench.lines(lease)) > 1, "the job runs")
    assert bench.phase(engine, lease) is Phase.RUNNING, "a lease whose job runs is not reported as running"
    engine.stop([lease.tag])
    engine.stop([lease.tag])
    bench.wait(lambda: bench.exits(lease) == ["stopped"], "the runner reports that it was stopped")
    assert bench.lines(lease)[-1].endswith("stops"), "the job did not get SIGTERM"
    bench.wait_ended(engine, lease)
    engine.stop([lease.tag])
    engine.kill([lease.tag])
    engine.close()


def repeated_start_runs_once(bench: Bench) -> None:
    """A second start of a tag has no effect, of the same engine object or of the next controller's."""
    engine = bench.make(bench.cluster)
    lease = bench.lease(one_seat(engine), RUN_UNTIL_STOPPED, engine)
    engine.start(lease)
    engine.start(lease)
    other = bench.make(bench.cluster)
    other.start(lease)
    bench.wait(lambda: len(bench.lines(lease)) > 1, "the job runs")
    time.sleep(1.0)
    begun = [line for line in bench.lines(lease) if line.endswith("begins")]
    assert len(begun) == 1, f"{len(begun)} processes have started under one tag"
    other.stop([lease.tag])
    bench.wait(lambda: bench.exits(lease), "the lease that another engine object has started stops")
    bench.wait_ended(other, lease)
    assert bench.exits(lease) == ["stopped"], f"the runner ended as {bench.exits(lease)} after a stop"
    for one in (engine, other):
        one.close()


def revoked_lease_never_runs(bench: Bench) -> None:
    """Where the controller has claimed the lease before the runner, the runner ends and the job does not start."""
    engine = bench.make(bench.cluster)
    lease = bench.lease(one_seat(engine), RUN_UNTIL_STOPPED, engine)
    assert files.claim(lease.folder, 0, {"controller": True, **files.identity()})
    engine.start(lease)
    bench.wait_ended(engine, lease)
    assert bench.lines(lease) == [], "a job has run without a claim"
    engine.close()


def killed_lease_is_dead(bench: Bench) -> None:
    """A kill ends a job that ignores SIGTERM; after :meth:`Engine.fenced_after` nothing of it runs."""
    engine = bench.make(bench.cluster)
    lease = bench.lease(one_seat(engine), IGNORE_SIGTERM, engine)
    engine.start(lease)
    bench.wait(lambda: len(bench.lines(lease)) > 1, "the job runs")
    certain = engine.fenced_after(lease.tag)
    assert certain is None or certain > 0, "fenced_after is 0 for a job that runs"
    engine.kill([lease.tag])
    engine.kill([lease.tag])
    bench.wait_ended(engine, lease)
    if (certain := engine.fenced_after(lease.tag)) is not None:
        assert certain >= 0, "fenced_after is negative"
        time.sleep(certain)
        before = bench.lines(lease)
        time.sleep(0.5)
        assert bench.lines(lease) == before, "the job runs after the time that fenced_after has returned"
    engine.close()


def gang_starts_on_all_nodes(bench: Bench) -> None:
    """A gang starts on two nodes (or on one with several GPUs), and its ranks find each other."""
    engine = bench.make(bench.cluster)
    seats = [seat for node in usable(engine)[:2] for seat in node.seats[:2]]
    lease = bench.lease(seats, WRITE_ENVIRONMENT, engine)
    engine.start(lease)
    bench.wait(lambda: len(bench.exits(lease)) == len(lease.nodes), "the runners of all nodes have ended")
    found = [bench.environment(lease, rank) for rank in range(len(seats))]
    assert all(own is not None for own in found), "a rank has not run"
    assert {own["WORLD_SIZE"] for own in found if own} == {str(len(seats))}
    assert len({(own["MASTER_ADDR"], own["MASTER_PORT"]) for own in found if own}) == 1
    bench.wait_ended(engine, lease)
    engine.close()


def job_sees_only_its_gpus(bench: Bench) -> None:
    """``CUDA_VISIBLE_DEVICES`` has the GPUs of the lease; no variable of the engine's batch system is set."""
    engine = bench.make(bench.cluster)
    node = max(usable(engine), key=lambda node: len(node.seats))
    lease = bench.lease(node.seats[:1], WRITE_ENVIRONMENT, engine)
    engine.start(lease)
    bench.wait(lambda: bench.exits(lease), "the runner has ended")
    assert bench.exits(lease) == ["ended"], files.read_json(lease.folder / files.exit_file(0))
    own = bench.environment(lease, 0)
    assert own is not None
    visible = [device for device in own.get("CUDA_VISIBLE_DEVICES", "").split(",") if device]
    if engine.exact_slots:
        devices = [seat.device for seat in lease.seats if seat.device]
        assert visible == devices, f"CUDA_VISIBLE_DEVICES has {visible}; the lease has {devices}"
    else:
        assert len(visible) == 1, f"CUDA_VISIBLE_DEVICES has {visible}; the lease has one GPU"
    leaked = [name for name in own if name.startswith(bench.hidden)]
    assert not leaked, f"the job sees {leaked}"
    engine.close()


def status_reports_unrequested_leases(bench: Bench) -> None:
    """Status lists every lease of this cluster that waits or runs, whatever tags it is given, and none of another."""
    other_cluster = secrets.token_hex(3)
    engine, foreign = bench.make(bench.cluster), bench.make(other_cluster)
    seats = [seat for node in usable(engine) for seat in node.seats]
    lease = bench.lease(seats[:1], RUN_UNTIL_STOPPED, engine)
    other = bench.lease(seats[1:2] or seats[:1], RUN_UNTIL_STOPPED, foreign, cluster=other_cluster)
    engine.start(lease)
    foreign.start(other)
    bench.wait(lambda: bench.lines(lease), "the job of the first cluster runs")
    bench.wait(lambda: bench.lines(other) or len(seats) < 2, "the job of the second cluster runs on another seat")
    found = engine.status([])
    assert found.get(lease.tag) in (Phase.RUNNING, Phase.WAITING), "a lease that runs is not reported"
    assert other.tag not in found, "a lease of another cluster is reported"
    for one, own in ((engine, lease), (foreign, other)):
        one.kill([own.tag])
        bench.wait_ended(one, own)
        one.close()


def leases_survive_close(bench: Bench) -> None:
    """After :meth:`Engine.close` leases run on, and another engine object reports and stops them."""
    engine = bench.make(bench.cluster)
    lease = bench.lease(one_seat(engine), RUN_UNTIL_STOPPED, engine)
    engine.start(lease)
    bench.wait(lambda: bench.lines(lease), "the job runs")
    engine.close()
    after = bench.make(bench.cluster)
    assert bench.phase(after, lease) is Phase.RUNNING, "another engine object does not report a lease that runs"
    number = len(bench.lines(lease))
    bench.wait(lambda: len(bench.lines(lease)) > number, "the job runs on")
    after.stop([lease.tag])
    bench.wait(lambda: bench.exits(lease) == ["stopped"], "the job stops")
    bench.wait_ended(after, lease)
    after.close()


def stop_leaves_processes_of_the_job_alone(bench: Bench) -> None:
    """Only the runner gets SIGTERM; it decides which processes of the job are asked: others would die of the signal."""
    engine = bench.make(bench.cluster)
    lease = bench.lease(one_seat(engine), HELPED, engine)
    engine.start(lease)
    bench.wait(lambda: len(bench.lines(lease)) == 2, "the job and its helper run")
    engine.stop([lease.tag])
    bench.wait(lambda: bench.exits(lease), "the runner has ended")
    assert "helper: SIGTERM" not in bench.lines(lease), "a helper process of the job got SIGTERM from the engine"
    bench.wait_ended(engine, lease)
    engine.close()


def killed_lease_in_the_queue_never_runs(bench: Bench) -> None:
    """Where leases wait (:attr:`Phase.WAITING`) while others hold the GPUs, a kill removes them from the queue."""
    engine = bench.make(bench.cluster)
    seats = usable(engine)[0].seats
    first = bench.lease(seats, RUN_UNTIL_STOPPED, engine)
    engine.start(first)
    bench.wait(lambda: bench.lines(first), "the job runs")
    second = bench.lease(seats, RUN_UNTIL_STOPPED, engine)
    engine.start(second)
    if waits := bench.phase(engine, second) is Phase.WAITING:
        engine.kill([second.tag])
        bench.wait_ended(engine, second)
    else:  # an engine without a queue
        engine.kill([second.tag])
    engine.kill([first.tag])
    bench.wait_ended(engine, first)
    if waits:
        time.sleep(2.0)
        assert bench.lines(second) == [], "a lease runs that was killed while it waited"
    engine.close()


def status_answers_for_many_tags(bench: Bench) -> None:
    """Status takes 500 unknown tags in one call; stop and kill take none and unknown ones."""
    engine = bench.make(bench.cluster)
    tags = [f"hetopt-{bench.cluster}-{n}-0-1" for n in range(1000, 1500)]
    began = time.process_time()
    phases = engine.status(tags)
    assert all(phases[tag] is Phase.ENDED for tag in tags), "an unknown tag is not reported as ended"
    assert time.process_time() - began < 5.0, "status looks up one tag at a time"
    engine.stop([])
    engine.kill(tags[:3])
    engine.close()


CHECKS: tuple[Callable[[Bench], None], ...] = (
    node_and_seat_names_are_unique,
    lease_starts_and_stops,
    repeated_start_runs_once,
    revoked_lease_never_runs,
    killed_lease_is_dead,
    gang_starts_on_all_nodes,
    job_sees_only_its_gpus,
    status_reports_unrequested_leases,
    leases_survive_close,
    stop_leaves_processes_of_the_job_alone,
    killed_lease_in_the_queue_never_runs,
    status_answers_for_many_tags,
)
"""All checks."""
