"""What happens to jobs besides what policies decide, on schedules computed by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from refused import refused
from simulated import Shortest

import hetopt
from hetopt import Cluster, GPUType, HierarchicalPlacer, Instance, InvalidInstance, InvalidOption, Job, Plan, Server
from hetopt.errors import Stalled
from hetopt.formulations.traits import Traits
from hetopt.models import asrpt, baselines, gavel
from hetopt.simulation.datasets import LocalDisks
from hetopt.simulation.environment import Environment
from hetopt.simulation.estimate_errors import EstimateErrors
from hetopt.simulation.profiling import Profiling, fewest
from hetopt.simulation.server_changes import ServerChange, check_changes, failures, servers_up_at
from hetopt.stages.speed_models import Spread, Variability

TWO = Cluster((GPUType("G"),), (Server("s1", {"G": 1}), Server("s2", {"G": 1})))


@dataclass(frozen=True)
class First:
    """Jobs in the order of the instance, each on the first type with room for its gang."""

    round_seconds: float | None = None

    @property
    def traits(self) -> Traits:
        return Traits(self.round_seconds)

    def __call__(self, instance: Instance, state: None = None) -> tuple[Plan, None]:
        jobs = instance.entities("jobs")
        x, free = np.zeros(jobs.shape), jobs.capacity.copy()
        for i, need in enumerate(jobs.demand):
            for k in np.flatnonzero(jobs.allowed[i] & (free >= need))[:1]:
                x[i, k] = need
                free[k] -= need
        return Plan(jobs, x), None


def run(jobs: tuple[Job, ...], cluster: Cluster, environment: Environment, **options: Any) -> hetopt.Log:
    return hetopt.simulate(
        options.pop("policy", First()), Instance(cluster, jobs=jobs), environment=environment, **options
    )


# -- checkpoints


def test_the_checkpoint_is_written_before_a_job_pauses_or_moves() -> None:
    """Paused at 16 by a shorter job of 4 s: resumes at 20, 2 s for the old save, 1 s to resume."""
    jobs = (Job("long", {"G": 1.0}, 32.0), Job("short", {"G": 1.0}, 4.0, arrival=16.0))
    costs = hetopt.Overheads(resume_seconds=1.0, save_seconds=2.0)
    log = run(jobs, Cluster.of({"G": 1}), Environment(costs), policy=Shortest())
    assert log.jobs["finish"].tolist() == [39.0, 20.0]
    assert log.jobs["lost"].tolist() == [3.0, 0.0]


# -- datasets


def test_datasets_are_fetched_once_per_server() -> None:
    """100 bytes at 10 bytes/s: 10 s for the first job on the server, none for the second, again on the other server."""
    jobs = tuple(Job(name, {"G": 1.0}, 20.0, dataset="d", dataset_bytes=100.0) for name in "abc")
    log = run(jobs, TWO, Environment(datasets=LocalDisks(10.0)), placer=HierarchicalPlacer())
    assert log.jobs["finish"].tolist() == [30.0, 30.0, 50.0]
    assert log.jobs["lost"].tolist() == [10.0, 10.0, 0.0]
    without = run(jobs, TWO, Environment(), placer=HierarchicalPlacer())
    assert without.jobs["finish"].tolist() == [20.0, 20.0, 40.0]


def test_the_network_card_limits_the_fetch() -> None:
    cluster = Cluster((GPUType("G"),), (Server("s", {"G": 1}, nic_bytes_per_s=4.0),))
    job = Job("a", {"G": 1.0}, 1.0, dataset="d", dataset_bytes=100.0)
    assert LocalDisks().on(cluster).enter(job, ["s"], 0.0) == 25.0
    assert LocalDisks(2.0).on(cluster).enter(job, ["s"], 0.0) == 50.0


@pytest.mark.parametrize("proactive", [False, True])
def test_eviction(proactive: bool) -> None:
    """A disk for two of three datasets: the least recently used is evicted, at once or when space is needed."""
    cluster = Cluster((GPUType("G"),), (Server("s", {"G": 4}, disk_bytes=250.0),))
    job = {name: Job(name, {"G": 1.0}, 1.0, dataset=name, dataset_bytes=100.0) for name in "abc"}
    disks = LocalDisks(100.0, evict_seconds=8.0, proactive=proactive).on(cluster)
    assert disks.enter(job["a"], ["s"], 0.0) == 1.0
    assert disks.enter(job["b"], ["s"], 0.0) == 1.0
    assert disks.enter(job["a"], ["s"], 100.0) == 0.0  # now b is the one not used for longest
    disks.leave(job["b"], ["s"], 100.0)
    disks.leave(job["a"], ["s"], 100.0)
    assert disks.bytes_on("s") == (100.0 if proactive else 200.0)
    assert disks.enter(job["c"], ["s"], 100.0) == (1.0 if proactive else 9.0)
    assert disks.bytes_on("s") == 200.0
    assert disks.enter(job["a"], ["s"], 200.0) == 0.0
    assert disks.enter(job["b"], ["s"], 200.0) == 1.0  # both others are in use: fetched, and not kept
    assert disks.bytes_on("s") == 200.0
    disks.lose("s")
    assert disks.bytes_on("s") == 0.0


def test_what_fits_on_no_disk_is_fetched_each_time() -> None:
    cluster = Cluster((GPUType("G"),), (Server("s", {"G": 1}, disk_bytes=50.0),))
    job = Job("a", {"G": 1.0}, 1.0, dataset="d", dataset_bytes=100.0)
    disks = LocalDisks(10.0).on(cluster)
    assert [disks.enter(job, ["s"], 0.0) for _ in range(2)] == [10.0, 10.0]
    assert disks.bytes_on("s") == 0.0


def test_datasets_need_servers() -> None:
    with refused(InvalidOption, "Environment.datasets", "needs.*placer"):
        run((Job("a", {"G": 1.0}, 1.0),), TWO, Environment(datasets=LocalDisks()))
    with refused(InvalidOption, "LocalDisks.source_bytes_per_s"):
        LocalDisks(0.0)


# -- where a gang sits


def test_gangs_on_several_servers_are_slower() -> None:
    """Two GPUs on two servers at half the speed; alone on one server at full speed."""
    spread = Spread({"net": {2: {2: 0.5}}}, {"mine": "net"})
    job = Job("a", {"G": 1.0}, 8.0, 2, model="mine")
    assert run((job,), TWO, Environment(speeds=spread), placer=HierarchicalPlacer()).jobs.loc["a", "finish"] == 16.0
    one = Cluster.of({"G": 2})
    assert run((job,), one, Environment(speeds=spread), placer=HierarchicalPlacer()).jobs.loc["a", "finish"] == 8.0


def test_numbers_that_were_not_measured() -> None:
    spread = Spread({"net": {2: {2: 0.5}, 8: {2: 0.75, 4: 0.25}}}, otherwise=0.125)
    job = Job("a", {"G": 1.0}, 8.0, 4, model="net")
    assert [spread.factor(job, m) for m in (1, 2, 3)] == [1.0, 0.5, 0.5]
    wide = Job("b", {"G": 1.0}, 8.0, 16, model="net")
    assert [spread.factor(wide, m) for m in (2, 3, 4, 9)] == [0.75, 0.75, 0.25, 0.25]
    assert spread.factor(Job("c", {"G": 1.0}, 1.0, 4), 2) == 0.125
    assert Spread().factor(Job("d", {"G": 1.0}, 1.0, 4, model="vgg16"), 4) == 0.318


def test_slow_servers() -> None:
    """s2 takes twice as long for this model: a gang over both goes at its pace."""
    uneven = Variability({"s2": {"net": 2.0}})
    both, alone = Job("a", {"G": 1.0}, 8.0, 2, model="net"), Job("b", {"G": 1.0}, 8.0, 2, model="other")
    environment = Environment(speeds=uneven)
    assert run((both,), TWO, environment, placer=HierarchicalPlacer()).jobs.loc["a", "finish"] == 16.0
    assert run((alone,), TWO, environment, placer=HierarchicalPlacer()).jobs.loc["b", "finish"] == 8.0
    with refused(InvalidOption, "Variability.slowdown", "'s3'"):
        run((both,), TWO, Environment(speeds=Variability({"s3": 2.0})), placer=HierarchicalPlacer())


@pytest.mark.parametrize(
    ("make", "key", "match"),
    [
        (lambda: Spread({"net": {2: {2: 1.5}}}), "Spread.table['net'][2][2]", None),
        (lambda: Spread({"net": {}}), "Spread.table['net']", None),
        (lambda: Spread({"net": {2: {1: 0.5}}}), "a key of Spread.table['net'][2]", None),
        (lambda: Spread(families={"a": "b"}), "Spread.families['a']", None),
        (lambda: Spread(otherwise=0.0), "Spread.otherwise", None),
        (lambda: Spread(3), "Spread.table", None),
        (lambda: Variability({"s": 0.0}), "Variability.slowdown['s']", None),
    ],
)
def test_spreads_that_are_none(make: Any, key: str | None, match: str | None) -> None:
    with refused(InvalidOption, key, match):
        make()


# -- profiling


def test_new_jobs_are_profiled_first() -> None:
    """B arrives at 10: 4 s on the type with more memory, where a pauses, then 4 s on the other; it starts at 18."""
    cluster = Cluster((GPUType("A", 8.0), GPUType("B", 16.0)), (Server("s", {"A": 1, "B": 1}),))
    jobs = (
        Job("a", {"A": 0.0, "B": 1.0}, 40.0),
        Job("b", {"A": 1.0, "B": 1.0}, 10.0, arrival=10.0, memory_bytes=4.0),
    )
    log = run(jobs, cluster, Environment(profiling=Profiling(4.0)))
    # a itself is profiled from 0 to 4 and runs from then on, but for b's run from 10 to 14: 4 + 40 + 4.
    assert log.jobs["start"].tolist() == [4.0, 18.0]
    assert log.jobs["finish"].tolist() == [48.0, 28.0]
    assert log.jobs["lost"].tolist() == [4.0, 0.0]
    assert log.events[log.events["kind"] == "profile"]["time"].tolist() == [0.0, 10.0, 14.0]


def test_types_with_too_little_memory_are_not_profiled() -> None:
    cluster = Cluster((GPUType("A", 8.0), GPUType("B", 16.0)), (Server("s", {"A": 1, "B": 1}),))
    job = Job("b", {"A": 1.0, "B": 1.0}, 10.0, memory_bytes=12.0)
    assert Profiling().types(job, cluster) == ("B",)
    assert Profiling().types(Job("c", {"A": 1.0, "B": 1.0}, 10.0), cluster) == ("B", "A")
    assert Profiling().types(Job("d", {"A": 1.0, "B": 1.0}, 10.0, 2), cluster) == ()


def test_the_fewest_jobs_that_make_room() -> None:
    holders = [(0, 1.0), (1, 4.0), (2, 2.0), (3, 2.0)]
    assert fewest(0, holders) == []
    assert fewest(1, holders) == [0]
    assert fewest(2, holders) == [2]
    assert fewest(5, holders) == [1, 0]
    assert fewest(7, holders) == [1, 2, 0]


def test_profiles_are_made_in_rounds_too() -> None:
    """Known at 4 s, the job waits for the round at 10."""
    log = run((Job("a", {"G": 1.0}, 5.0),), TWO, Environment(profiling=Profiling(4.0)), policy=First(10.0))
    assert log.jobs.loc["a", ["start", "finish"]].tolist() == [10.0, 15.0]


# -- servers that fail


def test_a_failed_server_takes_what_was_not_saved() -> None:
    """Checkpoints every 8 s: after 20 s of training, 16 are saved. Restart on s2 takes 2 s."""
    job = Job("a", {"G": 1.0}, 40.0)
    environment = Environment(
        hetopt.Overheads(restart_seconds=2.0), changes=(ServerChange(20.0, "s1"),), checkpoint_seconds=8.0
    )
    log = run((job,), TWO, environment, placer=HierarchicalPlacer())
    assert log.jobs.loc["a", ["finish", "wasted", "done"]].tolist() == [46.0, 4.0, 40.0]
    assert log.spans["work"].tolist() == [20.0, 24.0]
    assert log.events["kind"].tolist() == ["arrive", "decide", "down", "decide", "finish"]
    saved = run((job,), TWO, Environment(changes=(ServerChange(20.0, "s1"),)), placer=HierarchicalPlacer())
    assert saved.jobs.loc["a", ["finish", "wasted"]].tolist() == [40.0, 0.0]


def test_no_job_runs_while_no_server_is_available() -> None:
    one = Cluster.of({"G": 1})
    name = one.servers[0].name
    away = (ServerChange(10.0, name), ServerChange(50.0, name, up=True))
    for policy, finish in ((First(), 70.0), (First(20.0), 80.0)):  # with rounds, the one at 60 is the first with it
        log = run((Job("a", {"G": 1.0}, 30.0),), one, Environment(changes=away), policy=policy)
        assert log.jobs.loc["a", "finish"] == finish
    with pytest.raises(Stalled, match="too few servers are up, and none comes back"):
        run((Job("a", {"G": 1.0}, 30.0),), one, Environment(changes=away[:1]), policy=First(20.0))


def test_a_gang_waits_while_no_type_has_enough_gpus_for_its_rounder() -> None:
    """Also where gangs may mix GPU types: the numbers of GPUs that suit a gang are those of one type."""
    speeds = {"A": 1.0, "B": 1.0}
    tenant = hetopt.Tenant("u", (hetopt.JobType("jobs", speeds),))
    job = Job("j", {"A": 4.0, "B": 4.0}, 80.0, 4, tenant="u")
    instance = Instance(Cluster.of({"A": 4, "B": 2}, gpus_per_server=2), (tenant,), (job,))
    name = instance.cluster.servers[0].name
    log = hetopt.simulate(
        baselines.equal_split(),
        instance,
        round_seconds=10.0,
        selection=hetopt.LongestStarved(mix=True),
        environment=Environment(changes=(ServerChange(10.0, name), ServerChange(40.0, name, up=True))),
    )
    assert log.jobs.loc["j", "finish"] == pytest.approx(50.0)


def test_servers_may_be_added() -> None:
    """s2 comes at 10; before that a gang of two is hidden from the policy."""
    log = run(
        (Job("a", {"G": 1.0}, 8.0, 2), Job("b", {"G": 1.0}, 16.0)),
        TWO,
        Environment(changes=(ServerChange(10.0, "s2", up=True),)),
        placer=HierarchicalPlacer(),
    )
    assert log.jobs["start"].tolist() == [10.0, 0.0]
    assert log.jobs["finish"].tolist() == [18.0, 24.0]  # b is interrupted at 10 with 6 left: First prefers a


def test_without_servers_the_latest_jobs_lose_their_gpus() -> None:
    jobs = (Job("a", {"G": 1.0}, 16.0), Job("b", {"G": 1.0}, 16.0, arrival=1.0))
    log = run(jobs, TWO, Environment(changes=(ServerChange(9.0, "s2"),)))
    assert log.jobs["finish"].tolist() == [16.0, 24.0]


def test_changes_of_a_server_alternate() -> None:
    with pytest.raises(InvalidInstance, match="server 's1' goes down at 2 s, as it did before"):
        check_changes([ServerChange(1.0, "s1"), ServerChange(2.0, "s1")], TWO)
    with refused(InvalidInstance, "changes", "'s9'"):
        check_changes([ServerChange(1.0, "s9")], TWO)
    changes = check_changes([ServerChange(5.0, "s2", up=True), ServerChange(3.0, "s1")], TWO)
    assert [servers_up_at(t, changes, TWO) for t in (3.0, 4.0, 6.0)] == [{"s1"}, set(), {"s2"}]


def test_random_failures_are_as_often_as_asked() -> None:
    """On average a server is there mtbf / (mtbf + mttr) of the time."""
    cluster = Cluster.of({"G": 50})
    found = failures(cluster, 90.0, 10.0, 20_000.0, seed=1)
    assert found == failures(cluster, 90.0, 10.0, 20_000.0, seed=1)
    at_once = check_changes(failures(cluster, 2.0**-40, 3600.0, 200_000.0), cluster)
    assert len(at_once) > 50, "it fails as soon as it is back"
    assert check_changes(found, cluster)
    down = sum(c.time if c.up else -c.time for c in found) / len(cluster.servers)
    assert down / 20_000.0 == pytest.approx(0.1, rel=0.1)


def test_policies_that_start_jobs_for_good_refuse_failures() -> None:
    with pytest.raises(InvalidOption, match="ASRPT decides event by event"):
        run((Job("a", {"G": 1.0}, 1.0),), TWO, Environment(changes=(ServerChange(1.0, "s1"),)), policy=asrpt.ASRPT())


# -- wrong estimate_errors


def test_policies_see_wrong_numbers_and_jobs_run_by_the_right_ones() -> None:
    seen: list[Instance] = []

    @dataclass(frozen=True)
    class Watching:
        round_seconds: float = 10.0

        @property
        def traits(self) -> Traits:
            return Traits(self.round_seconds)

        def __call__(self, instance: Instance, state: None = None) -> tuple[Plan, None]:
            seen.append(instance)
            return First()(instance)

    job = Job("a", {"G": 2.0}, 100.0)
    environment = Environment(estimate_errors=EstimateErrors(throughput=0.5, work=0.5, seed=3))
    log = run((job,), Cluster.of({"G": 1}), environment, policy=Watching())
    assert log.jobs.loc["a", "finish"] == 50.0
    believed = environment.estimate_errors.of(Instance(Cluster.of({"G": 1}), jobs=(job,))).jobs[0]
    assert believed.throughput["G"] != 2.0
    assert seen[0].jobs[0] == believed
    left = [float(i.job_array("work_left")[0]) for i in seen]
    assert left == [
        max(believed.work - 20.0 * n, 0.05 * believed.work) if 20.0 * n < believed.work else 0.05 * believed.work
        for n in range(5)
    ]
    assert [i.work_left("a") for i in seen] == pytest.approx(left)


def test_errors_are_within_bounds_and_repeat() -> None:
    instance = hetopt.instances.load("lab36/jobs")
    estimate_errors = EstimateErrors(throughput=0.2, work=0.3, seed=1)
    wrong = estimate_errors.of(instance)
    ratio = wrong.job_array("work") / instance.job_array("work")
    assert ratio.min() >= 0.7
    assert ratio.max() <= 1.3
    assert len(set(ratio.tolist())) == len(ratio)
    assert wrong == estimate_errors.of(instance)
    assert (EstimateErrors(work=0.3, seed=1).of(instance).job_array("work") == wrong.job_array("work")).all()
    with refused(InvalidOption, "EstimateErrors.work"):
        EstimateErrors(work=1.0)


def test_estimates_do_not_change_fluid_rates() -> None:
    """Gavel believes both types equal; the job runs at the true 3 on one and 1 on the other."""
    instance = Instance.from_jobs([[4, 2], [4, 2]], 1, [64, 64], [1, 1], round_seconds=1.0)
    environment = Environment(estimate_errors=EstimateErrors(throughput=0.1, seed=0))
    log = hetopt.simulate(gavel.total_throughput(), instance, environment=environment, fluid=True)
    assert log.spans.groupby("job")["work"].sum().to_dict() == pytest.approx({"j1": 64.0, "j2": 64.0})
    assert log.spans["work"].iloc[0] == pytest.approx(64.0)


def test_an_environment_with_wrong_parts_is_refused() -> None:
    with refused(InvalidOption, "Environment.datasets", "3"):
        Environment(datasets=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match=r"Environment\.overheads is the class Overheads"):
        Environment(overheads=hetopt.Overheads)  # type: ignore[arg-type]
    with refused(InvalidOption, "Environment.checkpoint_seconds"):
        Environment(checkpoint_seconds=0.0)
