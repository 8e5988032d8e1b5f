"""GPUs that other users hold on shared hosts: decisions leave them out, and no job waits for them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from executor_cluster import cluster_state, granted, lab_of_jobs, node, opened, spec
from executor_lab import Run, job_file, jobs_of, some_lab  # noqa: F401 - the last a fixture
from hypothesis import given
from hypothesis import strategies as st
from slurm_cluster import SlurmCluster, missing

from hetopt.executor.controller import system_of
from hetopt.executor.engines.engine import Engine, Node, Seat
from hetopt.executor.leases import mark_started, set_leases
from hetopt.executor.node_monitor import NodeMonitor
from hetopt.executor.reconciler import free_seats
from hetopt.executor.round_decision import RoundDecider
from hetopt.executor.state_database import Cache, StateDatabase
from hetopt.models.hadare.corrected_throughput import estimated


class Host:
    """An engine with one host, which others use too.

    Parameters
    ----------
    total:
        Its V100s; it has two unused K80s too.
    zeros:
        Whether it reports types of which none is in use.
    """

    def __init__(self, total: int, *, zeros: bool = True) -> None:
        self.total, self.zeros, self.used = total, zeros, 0

    def nodes(self) -> tuple[Node, ...]:
        """As it is now."""
        used = {"V100": self.used, "K80": 0}
        reported = used if self.zeros else {gpu_type: number for gpu_type, number in used.items() if number}
        return (node("n", {"V100": self.total, "K80": 2}, used=reported),)


@st.composite
def hosts(draw: st.DrawFn) -> tuple[int, set[int], set[int], int]:
    """GPUs, those of leases that run, those of leases that wait, and how many others use; at most all together."""
    total = draw(st.integers(1, 6))
    kinds = draw(st.lists(st.sampled_from(["free", "runs", "waits"]), min_size=total, max_size=total))
    runs, waits = ({i for i, kind in enumerate(kinds) if kind == which} for which in ("runs", "waits"))
    return total, runs, waits, draw(st.integers(0, total - len(runs)))


def lease(database: StateDatabase, job: int, numbers: set[int], *, runs: bool) -> None:
    """Of these GPUs, if there are any."""
    if granted(database, job, [Seat("n", "V100", i) for i in sorted(numbers)]) is None:
        return
    mine = opened(database)[-1]
    mark_started(database, [mine])
    if runs:
        set_leases(database, {mine.id: {"running": database.now()}})


def numbers(usable: list[Node], gpu_type: str = "V100") -> set[int]:
    return {seat.index for one in usable for seat in one.seats if seat.gpu_type == gpu_type}


@given(host=hosts(), earlier=st.integers(0, 6), zeros=st.booleans())
def test_gpus_that_others_use_are_left_out(
    host: tuple[int, set[int], set[int], int], earlier: int, zeros: bool
) -> None:
    """Running leases keep their GPUs; as many others as were in use in two passes are left out, free ones first."""
    total, runs, waits, others = host
    engine = Host(total, zeros=zeros)
    with tempfile.TemporaryDirectory() as folder, StateDatabase(Path(folder) / "state") as database:
        lab_of_jobs(database, [spec("a"), spec("b")])
        for job, own in ((1, runs), (2, waits)):
            if own:
                lease(database, job, own, runs=job == 1)
        monitor = NodeMonitor(database, cast(Engine, engine), Cache(database))
        engine.used = len(runs) + min(earlier, total - len(runs))
        monitor.observe(opened(database))
        engine.used = len(runs) + others
        monitor.observe(opened(database))
        usable = monitor.usable(opened(database))
        gone = min(others, engine.total - len(runs), earlier)
        kept = numbers(usable)
        assert runs <= kept
        assert len(kept) == total - gone
        free = set(range(total)) - runs - waits
        assert kept.isdisjoint(free) or waits <= kept, "no GPU of a waiting lease is taken while one is free"
        assert numbers(usable, "K80") == {0, 1}
        startable = {seat.index for seat in free_seats(usable, opened(database)) if seat.gpu_type == "V100"}
        assert startable == kept - runs - waits
        engine.used = len(runs)
        monitor.observe(opened(database))
        assert numbers(monitor.usable(opened(database))) == set(range(total))


def test_a_new_user_of_gpus_counts_after_two_observations(tmp_path: Path) -> None:
    """Between two queries of Slurm an own lease may begin."""
    engine = Host(2, zeros=False)
    with StateDatabase(tmp_path / "state") as database:
        monitor = NodeMonitor(database, cast(Engine, engine), Cache(database))
        seen = []
        for engine.used in (0, 1, 1, 0):
            monitor.observe([])
            seen.append(len(numbers(monitor.usable([]))))
    assert seen == [2, 2, 1, 2]


def test_a_job_that_waits_for_gpus_of_others_is_placed_elsewhere(tmp_path: Path) -> None:
    engine = Host(2)
    with StateDatabase(tmp_path / "state") as database:
        lab_of_jobs(database, [spec("a", workers=2)])
        lease(database, 1, {0, 1}, runs=False)
        monitor = NodeMonitor(database, cast(Engine, engine), Cache(database))
        decider = RoundDecider(system_of("fifo", {}, None), estimated)
        placed = []
        for engine.used in (0, 2):
            monitor.observe(opened(database))
            monitor.observe(opened(database))
            now = cluster_state(
                database, {"a": {"V100": 9.0, "K80": 1.0}}, monitor.usable(opened(database)), opened(database)
            )
            instance, waits = decider.instance(now)
            assert instance is not None
            assert waits == {}
            placed.append((dict(instance.placed), [dict(target.seats) for target in decider.decide(now).targets]))
    assert placed[0][0] == {"a": {"n": {"V100": 2}}}
    assert placed[1] == ({}, [{"n": {"K80": 2}}])


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """A cluster of which another user has all fast GPUs but one."""
    if why := missing():
        pytest.skip(why)
    gpus = {"v100-0": ("v100", 2), "a100-0": ("a100", 2), "p100-0": ("p100", 2), "k80-0": ("k80", 2)}
    with SlurmCluster(gpus) as made:
        monkeypatch.setenv("SLURM_CONF", str(made.configuration))
        made.submit("--nodelist=v100-0", "--gres=gpu:v100:2", "--mem=100M")
        made.submit("--nodelist=p100-0", "--gres=gpu:p100:1", "--mem=100M")
        made.submit("--nodelist=a100-0", "--cpus-per-task=8", "--mem=100M")  # no GPU, but all cores
        yield made


@pytest.mark.parametrize("profile", [True, False])
def test_a_gang_on_a_shared_slurm_cluster_uses_free_gpus(
    shared: SlurmCluster, lab: Path, run: Run, profile: bool
) -> None:
    """A gang of two is neither profiled nor started where others are, and finishes on the other GPUs."""
    shared._wait(lambda: len(shared.call("squeue", "-h", "-t", "RUNNING").splitlines()) == 3, "jobs of another user")
    run("submit", job_file(lab, "gang", workers=2))
    words = ["--policy", "fifo", "--profile-seconds", "0.3s", "--poll", "0.2s", "--until-idle"]
    code, _, err = run("run", "--engine", "slurm", *words, *([] if profile else ["--no-profile"]))
    assert code == 0, err
    job = jobs_of(run)["gang"]
    assert job["state"] == "done", job
    assert set(job["speeds"]) == {"k80"}
