"""HadarE round by round: which node runs whose copy, in the simulator and against enumeration."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hadar_oracles import PlainForking
from hypothesis import event, given, settings
from hypothesis import strategies as st
from refused import refused

import hetopt
from hetopt import Cluster, GPUType, Instance, InvalidInstance, InvalidOption, Job, Server, instances
from hetopt.decisions.system import check_placement, check_whole_gangs
from hetopt.models import gavel, hadar, hadare
from hetopt.models.hadar.appraisal import RoundSettings
from hetopt.models.hadare.copy_assignment import SEVERAL, ForkingRound, LargestEntry, assign
from hetopt.models.hadare.hadare_policy import HadarEState
from hetopt.proofs.strategies import PLAIN, mixed_instances
from hetopt.tolerances import EQUAL, PROVEN

FREE = hetopt.Overheads(transfer=False)
MIXES = [f"hadar/{where}m{n}" for where in ("", "lab-") for n in (1, 3, 4, 5, 8, 10, 12)]


def single(speeds: list[list[float]], work: list[float], **fields: Any) -> Instance:
    """One GPU per node; speeds (jobs, nodes) in work per second."""
    types = [f"G{h}" for h in range(len(speeds[0]))]
    cluster = Cluster(tuple(map(GPUType, types)), tuple(Server(f"n{h}", {t: 1}) for h, t in enumerate(types)))
    jobs = tuple(
        Job(f"j{i}", dict(zip(types, row, strict=True)), w) for i, (row, w) in enumerate(zip(speeds, work, strict=True))
    )
    return Instance(cluster, jobs=jobs, **fields)


def alike(job: Job, gpu_type: str) -> float:
    """An estimate that knows no difference."""
    return 1.0


def copies(plan: Any) -> dict[str, set[str]]:
    return {name: set(own) for name, own in plan.placement.dispatch.items()}


@pytest.mark.parametrize("name", MIXES)
def test_the_mixes_run_to_the_end(name: str) -> None:
    """Under Gavel, Hadar and HadarE with 10 s for every new allocation; HadarE is done first, and uses most."""
    mix = instances.load(name)
    policies = {"gavel": gavel.max_min_fairness(), "hadar": hadar.Hadar(90.0), "hadare": hadare.HadarE(90.0)}
    logs = {
        key: hetopt.simulate(policy, mix, round_seconds=90.0, overheads=hadar.RESTART)
        for key, policy in policies.items()
    }
    for log in logs.values():
        assert log.jobs["finish"].notna().all()
        assert log.spans.groupby("job")["work"].sum().to_numpy() == pytest.approx(1.0, rel=EQUAL)
    assert logs["hadare"].utilisation > max(logs["gavel"].utilisation, logs["hadar"].utilisation)
    assert logs["hadare"].makespan < min(logs["gavel"].makespan, logs["hadar"].makespan)


@given(mixed_instances(jobs=(1, 4), servers=(1, 4), gpus=(0, 2), most_demand=1, latest=0, memory=True), st.data())
@settings(max_examples=60, deadline=None)
def test_plans_can_be_carried_out_and_no_node_is_idle(instance: Instance, data: st.DataObject) -> None:
    """Copies are whole gangs on one server where they can run; a server is idle only if no job may use it."""
    most = data.draw(st.sampled_from([None, 1, 2]))
    policy = hadare.HadarE(60.0, copies=most, last_round="all", worth=data.draw(st.sampled_from(["added", "alone"])))
    plan, _ = policy(instance)
    own = copies(plan)
    check_whole_gangs(plan.entities, plan.x, {name: len(servers) for name, servers in own.items()})
    check_placement(plan, plan.placement, instance)
    for name, work in plan.placement.dispatch.items():
        assert sum(work.values()) == pytest.approx(instance.work_left(name), rel=PROVEN)
        assert len(work) <= (most or len(instance.cluster.servers))
    for server in instance.cluster.servers:
        held = sum(n for there in plan.placement.hosts.values() for n in there.get(server.name, {}).values())
        for job in instance.jobs:
            speed = dict(
                zip(plan.entities.types, plan.entities.task_speed[plan.entities.position[job.name]], strict=True)
            )
            fits = sum(n for t, n in server.gpus.items() if speed[t] > 0) >= job.demand
            if fits and held == 0:
                assert most is not None
                assert len(own.get(job.name, ())) == most


@given(
    mixed_instances(jobs=(1, 5), servers=(1, 4), gpus=(1, 2), most_demand=1, most_work=90, latest=40, utilities=PLAIN),
    st.sampled_from(["fastest", "all"]),
)
@settings(max_examples=40, deadline=None)
def test_all_jobs_are_done_in_the_end(instance: Instance, last_round: Any) -> None:
    policy = hadare.HadarE(20.0, restart_seconds=2.0, last_round=last_round)
    log = hetopt.simulate(policy, instance, overheads=hetopt.Overheads(2, 0, 2, False, 0.5))
    assert log.jobs["finish"].notna().all()
    assert log.jobs["done"].to_numpy() == pytest.approx(log.jobs["work"].to_numpy(), rel=PROVEN)


@given(st.lists(st.lists(st.integers(1, 9), min_size=3, max_size=3), min_size=1, max_size=2), st.data())
@settings(max_examples=60, deadline=None)
def test_greedy_is_at_least_half_of_the_best_assignment(speeds: list[list[int]], data: st.DataObject) -> None:
    """Utilities grow concavely with the rate: copies given out one by one reach half of the best of all assignments."""
    work = [float(data.draw(st.integers(1, 99))) for _ in speeds]
    instance = single([[float(v) for v in row] for row in speeds], work)
    plan, _ = hadare.HadarE(1e6, utility="relative-throughput", restart_seconds=0.0, last_round="all")(instance)

    def total(assignment: tuple[int, ...]) -> float:
        """Effective throughput relative to the ideal: (rate / best rate), all jobs being at their beginning."""
        rate = [sum(row[h] for h, own in enumerate(assignment) if own == i) for i, row in enumerate(speeds)]
        return sum(r / max(row) for r, row in zip(rate, speeds, strict=True))

    best = max(total(choice) for choice in product(range(len(speeds)), repeat=3))
    servers = {server: i for i in range(len(speeds)) for server in copies(plan).get(f"j{i}", ())}
    reached = total(tuple(servers.get(f"n{h}", -1) for h in range(3)))
    assert reached >= best / 2 * (1 - EQUAL)


@given(
    mixed_instances(jobs=(1, 6), servers=(1, 4), gpus=(0, 4), most_demand=6, most_work=400, utilities=PLAIN),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 2, 4]),
    st.data(),
)
@settings(max_examples=150, deadline=None)
def test_copies_are_those_of_the_plain_greedy_rule(
    instance: Instance, added: bool, fill: bool, most: int, data: st.DataObject
) -> None:
    """Payoffs computed on arrays, row and column at a time, against every payoff computed again for every copy."""
    servers = [server.name for server in instance.cluster.servers]
    last = {job.name: frozenset(data.draw(st.sets(st.sampled_from(servers)))) for job in instance.jobs}
    settings_ = RoundSettings(60.0, 10.0)
    forking = ForkingRound(instance.replace(time=2.0), instance.entities("jobs"), settings_, last, most, added)
    found = assign(forking, fill=fill)
    several = any(SEVERAL in own for own in found.values())
    event("a gang on several servers" if several else "each gang on one server")
    plain = PlainForking(forking).assigned(fill=fill)
    assert {j: {h: copy.gpus for h, copy in own.items()} for j, own in found.items()} == {
        j: own for j, own in enumerate(plain) if own
    }


@given(st.integers(1, 5), st.integers(1, 30), st.data())
@settings(max_examples=100, deadline=None)
def test_largest_entry(rows: int, columns: int, data: st.DataObject) -> None:
    """After changes of rows and columns; in ties the first column, then the first row."""
    table, largest = np.full((rows, columns), -np.inf), LargestEntry(rows, columns)
    value = st.sampled_from([-np.inf, -1.0, 0.0, 2.0])
    for _ in range(data.draw(st.integers(0, 6))):
        if data.draw(st.booleans()):
            row = data.draw(st.integers(0, rows - 1))
            table[row] = data.draw(st.lists(value, min_size=columns, max_size=columns))
            largest.set_row(row, table[row])
        else:
            column = data.draw(st.integers(0, columns - 1))
            table[:, column] = data.draw(st.lists(value, min_size=rows, max_size=rows))
            largest.set_column(column, table[:, column])
    where = int(table.T.argmax())
    assert largest.find() == (table.max(), where % rows, where // rows)


def test_one_job_on_all_nodes_takes_the_time_of_their_sum() -> None:
    mix = single([[4.0, 2.0, 1.0]], [700.0])
    log = hetopt.simulate(hadare.HadarE(60.0, last_round="all"), mix, overheads=FREE)
    assert log.jobs["finish"]["j0"] == pytest.approx(100.0)
    alone = hetopt.simulate(hadare.HadarE(60.0, copies=1), mix, overheads=FREE)
    assert alone.jobs["finish"]["j0"] == pytest.approx(175.0)


def test_the_last_round_takes_the_fewest_fastest_nodes() -> None:
    """40 units are left after a round of 60 s on all nodes: the node of speed 4 alone does them within the next."""
    mix = single([[4.0, 2.0, 1.0]], [460.0])
    policy = hadare.HadarE(60.0, restart_seconds=0.0)
    plan, state = policy(mix)
    assert copies(plan) == {"j0": {"n0", "n1", "n2"}}
    last, _ = policy(mix.replace(time=60.0, done={"j0": 420.0}), state)
    assert copies(last) == {"j0": {"n0"}}
    more, _ = policy(mix.replace(time=60.0, done={"j0": 460.0 - 300.0}), state)
    assert copies(more) == {"j0": {"n0", "n1"}}
    assert hetopt.simulate(policy, mix, overheads=FREE).jobs["finish"]["j0"] == pytest.approx(70.0)
    every = hetopt.simulate(hadare.HadarE(60.0, last_round="all"), mix, overheads=FREE)
    assert every.jobs["finish"]["j0"] == pytest.approx(460 / 7)


def test_memory_limits_are_kept() -> None:
    cluster = Cluster(
        (GPUType("T400", 4e9), GPUType("RTX 3090", 24e9)), (Server("a", {"T400": 1}), Server("b", {"RTX 3090": 1}))
    )
    big = Job("big", {"T400": 1.0, "RTX 3090": 9.0}, 1e4, memory_bytes=8e9)
    plan = hetopt.solve(hadare.HadarE(), Instance(cluster, jobs=(big,)))
    assert copies(plan) == {"big": {"b"}}
    assert plan.given_up == {"waiting_gpus": 0.0}


def test_a_gang_larger_than_any_server_is_not_forked() -> None:
    cluster = Cluster.of({"A": 6}, gpus_per_server=2)
    jobs = (Job("wide", {"A": 1.0}, 4000, demand=3), Job("thin", {"A": 1.0}, 4000))
    instance = Instance(cluster, jobs=jobs)
    plan = hetopt.solve(hadare.HadarE(), instance)
    assert sum(n for own in plan.placement.hosts["wide"].values() for n in own.values()) == 3
    assert copies(plan) == {"thin": copies(plan)["thin"]}
    log = hetopt.simulate(hadare.HadarE(), instance, overheads=FREE)
    assert log.jobs["done"].tolist() == [4000, 4000]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_wide_gang_stays_when_copies_that_pay_less_come(order: tuple[int, ...]) -> None:
    """Any three GPUs are worth the same to it, so it stays on its own; the copies take what is around it."""
    jobs = (Job("thin", {"A": 1.0}, 400_000), Job("wide", {"A": 1.0}, 4000, demand=3))
    cluster = Cluster.of({"A": 6}, gpus_per_server=2)
    one, two, free = (cluster.servers[h].name for h in order)
    own = {one: {"A": 1}, two: {"A": 2}}
    plan = hetopt.solve(hadare.HadarE(), Instance(cluster, jobs=jobs, placed={"wide": own}))
    assert plan.placement.hosts["wide"] == own
    assert copies(plan)["thin"] == {one, free}


def test_estimates_are_corrected_by_what_is_measured() -> None:
    """Believed to be alike, the nodes get equal parts; after a round they are known, and parts are as the speeds."""
    mix = single([[4.0, 1.0]], [5000.0])
    policy = hadare.HadarE(60.0, restart_seconds=0.0, initial=alike)
    plan, state = policy(mix)
    assert plan.placement.dispatch["j0"] == {"n0": 2500.0, "n1": 2500.0}
    after, state = policy(mix.replace(time=60.0, done={"j0": 300.0}), state)
    assert after.placement.dispatch["j0"] == pytest.approx({"n0": 4700 * 0.8, "n1": 4700 * 0.2})
    assert state.estimates is not None
    assert state.estimates.table().loc["j0"].tolist() == [4.0, 1.0]
    known = hetopt.simulate(hadare.HadarE(60.0, last_round="all"), mix, overheads=FREE)
    learnt = hetopt.simulate(hadare.HadarE(60.0, last_round="all", initial=alike), mix, overheads=FREE)
    assert known.jobs["finish"]["j0"] == pytest.approx(1000.0)
    assert learnt.jobs["finish"]["j0"] == pytest.approx(1000.0)  # only the first split was wrong, and no job was done


def test_a_wrong_estimate_costs_time_in_a_short_job() -> None:
    """All is done in the first round, of which the slow node has half: the fast one waits for it."""
    mix = single([[4.0, 1.0]], [100.0])
    for initial, seconds in ((None, 20.0), (alike, 50.0)):
        policy = hadare.HadarE(60.0, last_round="all", initial=initial)
        assert hetopt.simulate(policy, mix, overheads=FREE).jobs["finish"]["j0"] == pytest.approx(seconds)


def test_equation_10_as_the_initial_estimate() -> None:
    """The lab's mix M-5 without any profile: done, and within 1.5 times what known throughputs take."""
    mix = instances.load("hadar/lab-m5")
    size = {"cifar10": "S", "wikitext2": "L", "multi30k": "L", "ml20m": "XL", "mima": "M"}
    equation = hadare.Estimate()

    def initial(job: Job, gpu_type: str) -> float:
        return equation.throughput(
            gpu_type, batch_size=128, model_weight="modest", dataset_size=size[job.dataset or ""]
        )

    known, guessed = (
        hetopt.simulate(hadare.HadarE(90.0, initial=given), mix, overheads=hadar.RESTART) for given in (None, initial)
    )
    assert guessed.jobs["finish"].notna().all()
    assert guessed.makespan <= 1.5 * known.makespan


def test_copies_seen_alone() -> None:
    """Each copy as if it were the only one: both nodes go to the job that is done soonest.

    Hadar, given the copies as jobs (Fig. 7), does the same.
    """
    mix = single([[4.0, 4.0], [1.0, 1.0]], [400.0, 300.0])
    raw = "effective-throughput"
    plan = hetopt.solve(hadare.HadarE(worth="alone", last_round="all", utility=raw), mix)
    assert copies(plan) == {"j0": {"n0", "n1"}}
    forked = hetopt.solve(hadar.Hadar(utility=raw), hadare.fork(mix))
    assert {name.split("#")[0] for name in forked.placement.hosts} == {"j0"}
    shared = hetopt.solve(hadare.HadarE(last_round="all", utility="negative-jct"), mix)
    assert set(copies(shared)) == {"j0", "j1"}


@pytest.mark.parametrize(
    ("settings_", "key", "match"),
    [
        ({"round_seconds": 0}, "HadarE.round_seconds", None),
        ({"restart_seconds": -1}, "HadarE.restart_seconds", "-1"),
        ({"round_seconds": 10.0}, "HadarE.restart_seconds", "10"),
        ({"copies": 0}, "HadarE.copies", "0"),
        ({"copies": 1.5}, "HadarE.copies", r"1\.5"),
        ({"worth": "both"}, "HadarE.worth", None),
        ({"last_round": "none"}, "HadarE.last_round", None),
        ({"utility": 3}, "HadarE.utility", None),
    ],
)
def test_bad_settings_are_refused(settings_: dict[str, Any], key: str | None, match: str | None) -> None:
    with refused(InvalidOption, key, match):
        hadare.HadarE(**settings_)


def test_bad_jobs_are_refused() -> None:
    small = Cluster((GPUType("A"), GPUType("B")), (Server("a", {"A": 2, "B": 2}),))
    wide = Instance(small, jobs=(Job("j", {"A": 1.0, "B": 0.0}, 1, demand=3),))
    with refused(InvalidInstance, "jobs['j'].demand"):
        hetopt.solve(hadare.HadarE(), wide)
    with pytest.raises(InvalidOption, match="increases from"):
        hetopt.solve(hadare.HadarE(utility=lambda _, s: np.asarray(s)), single([[1.0]], [5.0]))
    with refused(InvalidOption, "estimates['j0']['G0']"):
        hetopt.solve(hadare.HadarE(initial=lambda *_: 0.0), single([[1.0]], [5.0]))


def test_states_are_values() -> None:
    mix = single([[4.0, 2.0], [3.0, 3.0]], [4000.0, 6000.0])
    one, two = (hadare.HadarE()(mix)[1] for _ in range(2))
    assert one == two
    assert HadarEState() == HadarEState(None, {})


def test_copies_go_where_they_pay_most_next() -> None:
    """Three copies of one job on nodes of speeds 1, 2, 5, 3, 1 take the three fastest."""
    mix = single([[1.0, 2.0, 5.0, 3.0, 1.0]], [23.0])
    plan = hetopt.solve(hadare.HadarE(1.0, copies=3, restart_seconds=0.0, last_round="all"), mix)
    assert copies(plan) == {"j0": {"n1", "n2", "n3"}}


@pytest.mark.parametrize("initial", [hadare.Estimate(), hadare.Estimate, {"j0": 1.0}, "x"])
def test_an_estimate_is_a_function(initial: Any) -> None:
    with pytest.raises(
        InvalidOption, match=r"HadarE\.initial is .*; it must be a function \(job, GPU type\) -> throughput"
    ):
        hadare.HadarE(initial=initial)


def test_a_job_says_in_how_many_copies_it_may_run() -> None:
    """Beside one without a limit, which then has the servers that are left."""
    cluster = Cluster.of({"V100": 4}, gpus_per_server=1)
    jobs = (Job("one", {"V100": 1.0}, 10**5, copies=1), Job("two", {"V100": 1.0}, 10**5, copies=2))
    plan, _ = hadare.HadarE()(Instance(cluster, jobs=jobs))
    assert plan.placement is not None
    assert {name: len(work) for name, work in plan.placement.dispatch.items()} == {"one": 1, "two": 2}


@pytest.mark.parametrize("speeds", [[[8, 0], [3, 2]], [[8, 1], [3, 2]]])
def test_finished_jobs_get_no_copies(speeds: list[list[float]]) -> None:
    jobs = Instance.from_jobs(speeds, demand=[1, 1], work=[10, 10], capacity=[1, 1])
    plan, _ = hadare.HadarE()(replace(jobs, done={"j1": 10.0}))
    assert plan.x[0].sum() == 0
    assert plan.x[1].sum() > 0
