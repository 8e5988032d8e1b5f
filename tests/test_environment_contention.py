"""Jobs that want the same dataset, the same GPUs to be profiled on, or lose a server: schedules computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import Shortest
from test_environment import run

import hetopt
from hetopt import Cluster, GPUType, HierarchicalPlacer, Job, Server
from hetopt.models.hadare import HadarE
from hetopt.simulation.datasets import LocalDisks
from hetopt.simulation.environment import Environment
from hetopt.simulation.profiling import Profiling
from hetopt.simulation.server_changes import ServerChange
from hetopt.tolerances import WORK

SLOW = LocalDisks(0.5e9)
"""20 GB take 40 s."""


def job(name: str, work: float, arrival: float = 0.0, *, gpus: int = 1, data: bool = True) -> Job:
    dataset = ("d", 20e9) if data else (None, 0.0)
    return Job(name, {"G": 1.0}, work, gpus, arrival, dataset=dataset[0], dataset_bytes=dataset[1])


def one(gpus: int) -> Cluster:
    return Cluster((GPUType("G"),), (Server("s", {"G": gpus}),))


# -- datasets


def test_two_jobs_wait_for_the_same_fetch() -> None:
    log = run((job("x", 100.0), job("y", 60.0)), one(2), Environment(datasets=SLOW), placer=HierarchicalPlacer())
    assert log.jobs["finish"].tolist() == [140.0, 100.0]
    assert log.jobs["lost"].tolist() == [40.0, 40.0]


def test_a_fetch_without_a_waiting_job_is_cancelled() -> None:
    """From 2 to 7 y runs in x's place; x restarts its fetch at 7."""
    jobs = (job("x", 1000.0), job("y", 5.0, 2.0, data=False))
    log = run(jobs, one(1), Environment(datasets=SLOW), policy=Shortest(), placer=HierarchicalPlacer())
    assert log.jobs["finish"].tolist() == [1047.0, 7.0]
    assert log.jobs.loc["x", "lost"] == 42.0


def test_a_fetch_continues_for_the_jobs_that_still_wait() -> None:
    """X is away from 2 to 7 and then waits for the rest of the fetch, of which z has the first 40 s."""
    jobs = (job("x", 1000.0), job("z", 900.0), job("y", 5.0, 2.0, data=False))
    log = run(jobs, one(2), Environment(datasets=SLOW), policy=Shortest(), placer=HierarchicalPlacer())
    assert log.jobs["finish"].tolist() == [1040.0, 940.0, 7.0]
    assert log.jobs["lost"].tolist() == [35.0, 40.0, 0.0]


def test_the_fetch_begins_when_the_job_has_started() -> None:
    """X and y take 10 s to start, then 40 s to fetch; the dataset is there at 50."""
    environment = Environment(hetopt.Overheads(start_seconds=10.0), datasets=SLOW)
    log = run((job("x", 100.0), job("y", 100.0, 45.0)), one(2), environment, placer=HierarchicalPlacer())
    assert log.jobs["finish"].tolist() == [150.0, 155.0]


def test_copies_that_stay_keep_their_dataset() -> None:
    """Both disks have room for one dataset; that of the job in copies is in use, so x fetches its own each time."""
    servers = tuple(Server(name, {"G": 2}, nic_bytes_per_s=1e9, disk_bytes=10e9) for name in ("s", "t"))
    jobs = (
        Job("big", {"G": 1.0}, 4000.0, dataset="a", dataset_bytes=6e9),
        Job("x", {"G": 1.0}, 300.0, arrival=150.0, dataset="b", dataset_bytes=6e9),
    )
    disks = Environment(datasets=LocalDisks(evict_seconds=50.0))
    log = run(jobs, Cluster((GPUType("G"),), servers), disks, policy=HadarE(round_seconds=100.0))
    assert log.spans[log.spans["job"] == "x"]["lost"].tolist() == [6.0, 6.0, 0.0, 0.0]
    assert log.jobs["lost"].tolist() == [6.0, 6.0]


def test_a_fetch_of_copies_goes_on_over_decisions() -> None:
    log = run((job("x", 100.0),), one(1), Environment(datasets=SLOW), policy=HadarE(10.0, restart_seconds=0.0))
    assert log.jobs.loc["x", ["lost", "finish"]].tolist() == [40.0, 140.0]


@pytest.mark.parametrize("seconds", [10.0, 0.01])
def test_who_waits_long_where_it_is_has_not_stalled(seconds: float) -> None:
    """Many decisions pass until the dataset is there; the job is not moved meanwhile."""
    disks = Environment(datasets=LocalDisks(20e9 / (2000 * seconds)))
    log = run((job("x", 5.0),), one(1), disks, round_seconds=seconds, placer=HierarchicalPlacer())
    assert log.jobs.loc["x", "finish"] == 2000 * seconds + 5.0


# -- profiling


def test_a_pause_is_booked_when_it_is() -> None:
    """A, profiled until 20, runs from 100 on and pauses from 250 to 270, while b is profiled."""
    jobs = (job("a", 400.0, data=False), job("b", 50.0, 250.0, data=False))
    away = ServerChange(460.0, "s"), ServerChange(550.0, "s", up=True)
    environment = Environment(profiling=Profiling(20.0), checkpoint_seconds=130.0, changes=away)
    log = run(jobs, one(1), environment, round_seconds=100.0, placer=HierarchicalPlacer(), until=600.0)
    assert log.spans[["start", "end", "lost", "work"]].to_numpy().tolist() == [
        [100.0, 250.0, 0.0, 150.0],
        [250.0, 460.0, 20.0, 190.0],
    ]
    assert log.rounds["trained"].tolist() == [100.0, 80.0, 100.0, 60.0]
    assert log.jobs.loc["a", ["lost", "wasted", "done"]].tolist() == [20.0, 80.0, 260.0], "checkpoints at 130 and 260"


def test_runs_on_one_gpu_come_one_after_another() -> None:
    """A trains from 20 on and pauses from 100 to 200, for five runs of 20 s."""
    jobs = (job("a", 500.0), *(job(f"b{i}", 1.0, 100.0) for i in range(5)))
    log = run(jobs, one(1), Environment(profiling=Profiling(20.0)))
    assert log.events[log.events["kind"] == "profile"]["time"].tolist() == [0.0, 100.0, 120.0, 140.0, 160.0, 180.0]
    assert log.jobs["finish"].tolist() == [620.0, 621.0, 622.0, 623.0, 624.0, 625.0]


def test_a_gang_begins_when_the_run_on_its_gpus_is_over() -> None:
    """A is known at 50, when b's run begins on both GPUs; so it trains from 100 on, and b after it."""
    jobs = (job("a", 100.0, gpus=2), job("b", 100.0, 1.0, gpus=2))
    log = run(jobs, one(2), Environment(profiling=Profiling(50.0)))
    assert log.events[log.events["kind"] == "profile"]["time"].tolist() == [0.0, 50.0]
    assert log.jobs["start"].tolist() == [50.0, 200.0]
    assert log.jobs["lost"].tolist() == [50.0, 0.0]
    assert log.jobs["finish"].tolist() == [200.0, 300.0]


def test_runs_side_by_side_where_there_are_gpus() -> None:
    """Three GPUs for gangs of one and two: both runs at 0, the third job's after the first that ends."""
    jobs = (job("a", 10.0), job("b", 10.0, gpus=2), job("c", 10.0, gpus=1))
    log = run(jobs, one(3), Environment(profiling=Profiling(8.0)))
    assert log.events[log.events["kind"] == "profile"]["time"].tolist() == [0.0, 0.0, 8.0]


def test_who_waits_for_a_run_goes_on_without_the_type_that_fails() -> None:
    """The only server with B goes at 5, while b waits for a's run there: b is known at once, a when its run ends."""
    cluster = Cluster((GPUType("A", 8.0), GPUType("B", 16.0)), (Server("s", {"A": 2}), Server("t", {"B": 1})))
    jobs = tuple(Job(name, {"A": 1.0, "B": 1.0}, 10.0) for name in "ab")
    log = run(jobs, cluster, Environment(profiling=Profiling(8.0), changes=(ServerChange(5.0, "t"),)))
    assert log.events[log.events["kind"] == "profile"]["time"].tolist() == [0.0, 8.0, 8.0]
    assert log.jobs["start"].tolist() == [16.0, 16.0]


# -- failures


@pytest.mark.parametrize("rate", [0.17, 0.34, 0.81, 1.0, 1.35])
def test_a_checkpoint_that_is_due_when_the_server_fails_is_written(rate: float) -> None:
    """Three are, whatever rounding makes of rates times seconds."""
    environment = Environment(
        changes=(ServerChange(1800.0, "s"), ServerChange(1850.0, "s", up=True)), checkpoint_seconds=600.0
    )
    log = run((Job("a", {"G": rate}, 20_000.0 * rate),), one(1), environment, placer=HierarchicalPlacer())
    assert log.jobs.loc["a", "wasted"] <= WORK * 20_000
    assert log.jobs.loc["a", "finish"] == pytest.approx(20_050.0, rel=WORK)


@pytest.mark.parametrize(("back", "lost"), [(False, 6.0), (True, 1005.0)])
def test_the_checkpoint_comes_from_shared_storage(back: bool, lost: float) -> None:
    """1 GB over the card of the server that is entered; nothing is saved on the one that failed, nothing resumed."""
    cluster = Cluster(
        (GPUType("G"),),
        (Server("slow", {"G": 1}, nic_bytes_per_s=1e6), Server("fast", {"G": 1}, nic_bytes_per_s=1e9)),
    )
    away = (ServerChange(0.0, "fast"), ServerChange(270.0, "slow", up=True)) if back else ()
    costs = hetopt.Overheads(restart_seconds=5.0, save_seconds=50.0, resume_seconds=3.0)
    environment = Environment(costs, changes=(*away, ServerChange(260.0, "slow")), checkpoint_seconds=100.0)
    alone = Job("a", {"G": 1.0}, 500.0, checkpoint_bytes=1e9)
    log = run((alone,), cluster, environment, placer=hetopt.MoreWorkersFirst())
    where = log.spans["servers"].tolist()
    assert where == (["slow", "slow"] if back else ["slow", "fast"])
    assert log.jobs.loc["a", ["lost", "wasted", "finish"]].tolist() == [lost, 60.0, 560.0 + lost + 10.0 * back]


def test_a_copy_that_fails_loses_what_it_did_since_the_decision() -> None:
    cluster = Cluster((GPUType("G"),), (Server("s1", {"G": 1}), Server("s2", {"G": 1})))
    environment = Environment(changes=(ServerChange(50.0, "s2"),), checkpoint_seconds=10.0)
    log = run((Job("a", {"G": 1.0}, 1000.0),), cluster, environment, policy=HadarE(round_seconds=100.0))
    assert log.jobs.loc["a", "wasted"] == 50.0
    assert np.isclose(log.spans["work"].sum(), 1050.0)
