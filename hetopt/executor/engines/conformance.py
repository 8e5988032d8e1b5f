"""What every engine must do, as checks that any engine can be put through.

Each check takes a :class:`Bench` and fails with an AssertionError. A package with an engine of its own tests it so::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_engine(check, tmp_path):
        check(Bench(lambda cluster: MyEngine(cluster), tmp_path))
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from hetopt.executor import lease_directory as files
from hetopt.executor.engines.engine import Engine, LeaseRecord, Node, Phase, Seat

COUNT = """
import os, signal, sys, time
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
lines = open(sys.argv[1], "a", buffering=1)
print(os.environ["RANK"], os.getpid(), "begins", file=lines)
while not stop:
    print(os.environ["RANK"], os.getpid(), "lives", file=lines)
    time.sleep(0.05)
print(os.environ["RANK"], os.getpid(), "stops", file=lines)
"""
"""A job that writes down that it lives until it is asked to stop."""

STUBBORN = COUNT.replace("lambda *_: stop.append(1)", "signal.SIG_IGN")
"""The same, but it does not listen."""

TELL = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1] + os.environ['RANK'], 'w'))"
"""A job that writes down its environment."""


@dataclass
class Bench:
    """An engine, and leases for it.

    Parameters
    ----------
    make:
        Makes an engine for a cluster of that name; called again for another controller of the same cluster.
    folder:
        That all hosts see under this path.
    patience:
        Seconds in which the engine must have done what is asked of it.
    """

    make: Callable[[str], Engine]
    folder: Path
    patience: float = 20.0
    cluster: str = field(default_factory=lambda: secrets.token_hex(3))
    _number: int = 0

    def lease(self, seats: Collection[Seat], program: str, engine: Engine, cluster: str | None = None) -> LeaseRecord:
        """A lease with its directory, not started yet; its job is a Python program with the path of a file."""
        self._number += 1
        tag = f"hetopt-{cluster or self.cluster}-{self._number}-0-1"
        folder = self.folder / tag
        folder.mkdir(mode=0o700)
        lease = LeaseRecord(
            tag,
            folder,
            tuple(seats),
            command=(sys.executable, "-c", program, str(folder / "told")),
            cwd=str(self.folder),
            bound_by_engine=not engine.exact_slots,
            grace_seconds=self.patience,
            ttl_seconds=self.patience,
        )
        lease.write()
        files.renew(folder, 1)
        return lease

    def wait(self, what: Callable[[], object], meaning: str) -> None:
        """Until it is so.

        Raises
        ------
        AssertionError
            It did not come to pass.
        """
        deadline = files.now() + self.patience
        while not what():
            assert files.now() < deadline, f"not within {self.patience:g} s: {meaning}"
            time.sleep(0.05)

    def told(self, grant: LeaseRecord) -> list[str]:
        """What the job has written down."""
        return (files.read_text(grant.folder / "told") or "").splitlines()

    def exits(self, grant: LeaseRecord) -> list[str]:
        """How its nodes have ended, as far as they have."""
        found = [files.read_json(grant.folder / files.exit_file(rank)) for rank in range(len(grant.nodes))]
        return [said["reason"] for said in found if said is not None]

    def ended(self, engine: Engine, grant: LeaseRecord) -> None:
        """Wait until the engine says so."""
        self.wait(lambda: engine.status([grant.tag])[grant.tag] is Phase.ENDED, f"{grant.tag} has ended")


def usable(engine: Engine) -> list[Node]:
    """Hosts that are up and have a seat."""
    return [node for node in engine.nodes() if node.up and node.seats]


def one_seat(engine: Engine) -> tuple[Seat, ...]:
    """A single GPU."""
    return (usable(engine)[0].seats[0],)


def nodes_have_distinct_seats(bench: Bench) -> None:
    """Names of hosts, and seats, are there once; asked again, the answer is the same."""
    engine = bench.make(bench.cluster)
    nodes = engine.nodes()
    names = [node.name for node in nodes]
    assert names, "the engine has no host"
    assert len(set(names)) == len(names), f"hosts of the same name: {names}"
    seats = [seat for node in nodes for seat in node.seats]
    assert len({(seat.node, seat.gpu_type, seat.index) for seat in seats}) == len(seats), "a seat is there twice"
    assert len({seat.place for seat in seats}) == len(seats), "a device is there twice"
    assert all(seat.node == node.name for node in nodes for seat in node.seats), "a seat of another host"
    assert [node.name for node in engine.nodes()] == names, "the order of hosts changes"
    engine.close()


def a_lease_runs_and_ends(bench: Bench) -> None:
    """Started, it runs; asked to stop, it ends in order; then the engine knows nothing of it any more."""
    engine = bench.make(bench.cluster)
    grant = bench.lease(one_seat(engine), COUNT, engine)
    assert engine.status([grant.tag])[grant.tag] is Phase.ENDED, "it is said to run before it is started"
    engine.start(grant)
    bench.wait(lambda: len(bench.told(grant)) > 1, "the job lives")
    assert engine.status([grant.tag])[grant.tag] is Phase.RUNNING
    engine.stop([grant.tag])
    engine.stop([grant.tag])
    bench.wait(lambda: bench.exits(grant) == ["stopped"], "the runner says that it was stopped")
    assert bench.told(grant)[-1].endswith("stops"), "the job was not asked to stop"
    bench.ended(engine, grant)
    engine.stop([grant.tag])
    engine.kill([grant.tag])
    engine.close()


def a_second_start_does_nothing(bench: Bench) -> None:
    """Under the same tag, by the same controller or by the next one."""
    engine = bench.make(bench.cluster)
    grant = bench.lease(one_seat(engine), COUNT, engine)
    engine.start(grant)
    engine.start(grant)
    other = bench.make(bench.cluster)
    other.start(grant)
    bench.wait(lambda: len(bench.told(grant)) > 1, "the job lives")
    time.sleep(1.0)
    begun = [line for line in bench.told(grant) if line.endswith("begins")]
    assert len(begun) == 1, f"{len(begun)} processes have begun under one tag"
    other.stop([grant.tag])
    bench.wait(lambda: bench.exits(grant), "it stops")
    bench.ended(other, grant)
    assert bench.exits(grant) == ["stopped"]
    for one in (engine, other):
        one.close()


def a_claimed_lease_never_runs(bench: Bench) -> None:
    """Where the controller has claimed the node, a start comes to nothing."""
    engine = bench.make(bench.cluster)
    grant = bench.lease(one_seat(engine), COUNT, engine)
    assert files.claim(grant.folder, 0, {"controller": True, **files.identity()})
    engine.start(grant)
    bench.ended(engine, grant)
    assert bench.told(grant) == [], "a job has run without a claim"
    engine.close()


def a_killed_lease_is_dead(bench: Bench) -> None:
    """Even a job that does not listen; once the engine says that it is certain, nothing of it writes any more."""
    engine = bench.make(bench.cluster)
    grant = bench.lease(one_seat(engine), STUBBORN, engine)
    engine.start(grant)
    bench.wait(lambda: len(bench.told(grant)) > 1, "the job lives")
    certain = engine.fenced_after(grant.tag)
    assert certain is None or certain > 0, "the engine is certain that a job is dead that lives"
    engine.kill([grant.tag])
    engine.kill([grant.tag])
    bench.ended(engine, grant)
    if (certain := engine.fenced_after(grant.tag)) is not None:
        assert certain >= 0
        time.sleep(certain)
        before = bench.told(grant)
        time.sleep(0.5)
        assert bench.told(grant) == before, "it lives though the engine is certain that it is dead"
    engine.close()


def a_gang_starts_as_a_whole(bench: Bench) -> None:
    """On every host of the lease, with ranks that fit together; where there is one host alone, on all of its GPUs."""
    engine = bench.make(bench.cluster)
    seats = [seat for node in usable(engine)[:2] for seat in node.seats[:2]]
    grant = bench.lease(seats, TELL, engine)
    engine.start(grant)
    bench.wait(lambda: len(bench.exits(grant)) == len(grant.nodes), "all hosts have ended")
    told = [files.read_json(grant.folder / f"told{rank}") for rank in range(len(seats))]
    assert all(own is not None for own in told), "a rank is missing"
    assert {own["WORLD_SIZE"] for own in told if own} == {str(len(seats))}
    assert len({(own["MASTER_ADDR"], own["MASTER_PORT"]) for own in told if own}) == 1
    bench.ended(engine, grant)
    engine.close()


def a_job_sees_its_gpus_alone(bench: Bench) -> None:
    """As many as its lease has, those that the seats name, and nothing that belongs to the engine."""
    engine = bench.make(bench.cluster)
    node = max(usable(engine), key=lambda node: len(node.seats))
    grant = bench.lease(node.seats[:1], TELL, engine)
    engine.start(grant)
    bench.wait(lambda: bench.exits(grant), "it has ended")
    assert bench.exits(grant) == ["ended"], files.read_json(grant.folder / files.exit_file(0))
    own = files.read_json(grant.folder / "told0")
    assert own is not None
    visible = [device for device in own["CUDA_VISIBLE_DEVICES"].split(",") if device]
    if engine.exact_slots:
        assert visible == [seat.device for seat in grant.seats if seat.device]
    else:
        assert len(visible) == 1, f"CUDA_VISIBLE_DEVICES is {own['CUDA_VISIBLE_DEVICES']!r}"
    leaked = [name for name in own if name.startswith(("SLURM_", "SBATCH_", "SRUN_"))]
    assert not leaked, f"the job sees {leaked}"
    engine.close()


def strays_are_told_of(bench: Bench) -> None:
    """A lease that nobody asks about is named all the same; one of another cluster is not."""
    engine, foreign = bench.make(bench.cluster), bench.make("f0e1d2")
    seats = [seat for node in usable(engine) for seat in node.seats]
    grant = bench.lease(seats[:1], COUNT, engine)
    other = bench.lease(seats[1:2] or seats[:1], COUNT, foreign, cluster="f0e1d2")
    engine.start(grant)
    foreign.start(other)
    bench.wait(lambda: bench.told(grant) and (bench.told(other) or len(seats) < 2), "both live")
    told = engine.status([])
    assert told.get(grant.tag) in (Phase.RUNNING, Phase.WAITING), "a stray lease is not told of"
    assert other.tag not in told, "a lease of another cluster is told of"
    for one, own in ((engine, grant), (foreign, other)):
        one.kill([own.tag])
        bench.ended(one, own)
        one.close()


def leases_outlive_the_engine_object(bench: Bench) -> None:
    """A controller that ends takes nothing with it; the next one finds what runs."""
    engine = bench.make(bench.cluster)
    grant = bench.lease(one_seat(engine), COUNT, engine)
    engine.start(grant)
    bench.wait(lambda: bench.told(grant), "the job lives")
    engine.close()
    after = bench.make(bench.cluster)
    assert after.status([grant.tag])[grant.tag] is Phase.RUNNING
    number = len(bench.told(grant))
    bench.wait(lambda: len(bench.told(grant)) > number, "it goes on")
    after.stop([grant.tag])
    bench.wait(lambda: bench.exits(grant) == ["stopped"], "it stops")
    bench.ended(after, grant)
    after.close()


def many_are_asked_about_at_once(bench: Bench) -> None:
    """Also tags that never were."""
    engine = bench.make(bench.cluster)
    tags = [f"hetopt-{bench.cluster}-{n}-0-1" for n in range(1000, 1500)]
    began = time.process_time()
    phases = engine.status(tags)
    assert all(phases[tag] is Phase.ENDED for tag in tags)
    assert time.process_time() - began < 5.0, "it asks one by one"
    engine.stop([])
    engine.kill(tags[:3])
    engine.close()


CHECKS: tuple[Callable[[Bench], None], ...] = (
    nodes_have_distinct_seats,
    a_lease_runs_and_ends,
    a_second_start_does_nothing,
    a_claimed_lease_never_runs,
    a_killed_lease_is_dead,
    a_gang_starts_as_a_whole,
    a_job_sees_its_gpus_alone,
    strays_are_told_of,
    leases_outlive_the_engine_object,
    many_are_asked_about_at_once,
)
"""All of them."""
