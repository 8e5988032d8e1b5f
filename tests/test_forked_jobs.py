"""Jobs in copies on several servers: what they do together, when they are done, and what plans of them must keep to."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetopt
from hetopt import Cluster, GPUType, Instance, InvalidInstance, InvalidPlan, Job, Overheads, Placement, Plan, Server
from hetopt.decisions.system import JobCopy
from hetopt.formulations.traits import Traits
from hetopt.simulation.job_states import RunningCopies, RunningCopy
from hetopt.tolerances import EQUAL, PROVEN

NODES = Cluster(
    (GPUType("slow"), GPUType("fast")),
    (Server("n1", {"fast": 1}), Server("n2", {"fast": 1}), Server("n3", {"slow": 1})),
)
FREE = Overheads(transfer=False)


@dataclass(frozen=True)
class Fixed:
    """Copies of each job on fixed servers; the work left is split as ``parts`` say, else by speed."""

    servers: dict[str, tuple[str, ...]]
    parts: dict[str, tuple[float, ...]] | None = None
    round_seconds: float = 10.0

    @property
    def traits(self) -> Traits:
        return Traits(self.round_seconds, places=True, forks=True)

    def __call__(self, instance: Instance, state: None = None) -> tuple[Plan, None]:
        jobs, hosts, dispatch = instance.entities("jobs"), {}, {}
        x = np.zeros(jobs.shape)
        for name in jobs.names:
            own = {s: dict(instance.cluster.by_name[s].gpus) for s in self.servers[name]}
            speed = [instance.job[name].throughput[next(iter(gpus))] for gpus in own.values()]
            part = (self.parts or {}).get(name, tuple(v / sum(speed) for v in speed))
            hosts[name] = own
            dispatch[name] = {s: p * instance.work_left(name) for s, p in zip(own, part, strict=True)}
            for gpus in own.values():
                x[jobs.position[name], jobs.types.index(next(iter(gpus)))] += 1
        return Plan(jobs, x, placement=Placement(hosts, dispatch=dispatch)), None


def job(name: str = "j", work: float = 10.5, **fields: Any) -> Job:
    return Job(name, {"slow": 0.1, "fast": 1.0}, work, **fields)


def run(servers: dict[str, tuple[str, ...]], *jobs: Job, overheads: Any = FREE, **fixed: Any) -> hetopt.Log:
    return hetopt.simulate(Fixed(servers, **fixed), Instance(NODES, jobs=jobs), overheads=overheads)


def test_copies_work_together() -> None:
    """1 + 1 + 1/10 of the work per second."""
    log = run({"j": ("n1", "n2", "n3")}, job())
    assert log.jobs["finish"]["j"] == pytest.approx(10.5 / 2.1)
    assert sorted(log.spans["servers"]) == ["n1", "n2", "n3"]
    assert log.spans["end"].tolist() == pytest.approx([5.0] * 3)
    assert log.spans.set_index("servers")["work"].to_dict() == pytest.approx({"n1": 5.0, "n2": 5.0, "n3": 0.5})


def test_utilisation_of_forked_jobs_by_the_formula() -> None:
    """[Hadar, Theorem 3] is false: of 3 nodes, two copies use more than three, since these are done in half a round."""
    for servers, used in ((("n1", "n3"), Fraction(7, 11)), (("n1", "n2", "n3"), Fraction(1, 2))):
        log = run({"j": servers}, job())
        x, w, s = len(servers), Fraction(21, 2), sum(10 if n != "n3" else 1 for n in servers)
        assert log.utilisation == pytest.approx(float(used), rel=EQUAL)
        assert used == x * (w / s) / (3 * -(-w // s))


def test_a_copy_that_is_done_waits() -> None:
    """A split that is not by speed: n1 has done its tenth after 1.05 s and waits, though its job is not done."""
    log = run({"j": ("n1", "n3")}, job(), parts={"j": (0.1, 0.9)})
    spans = log.spans[log.spans["start"] == 0].set_index("servers")
    assert spans["end"].to_dict() == pytest.approx({"n1": 1.05, "n3": 10.0})
    left = 10.5 - 1.05 - 1.0
    assert log.spans[log.spans["start"] == 10].set_index("servers")["work"]["n1"] == pytest.approx(0.1 * left)
    assert log.jobs["done"]["j"] == 10.5
    assert log.spans["work"].sum() == pytest.approx(10.5)
    assert log.utilisation < 0.5


def test_restarts_are_per_copy() -> None:
    """A copy that stays on its server loses nothing; merging costs every copy in every round, if there are several."""
    once = Overheads(start_seconds=2.0, transfer=False)
    log = run({"j": ("n1", "n2")}, job(work=26), overheads=once)
    assert log.spans.set_index(["start", "servers"])["lost"].to_dict() == {
        (0.0, "n1"): 2.0, (0.0, "n2"): 2.0, (10.0, "n1"): 0.0, (10.0, "n2"): 0.0,
    }  # fmt: skip
    assert log.jobs["finish"]["j"] == pytest.approx(15.0)
    assert log.jobs["switches"]["j"] == 0
    merging = run({"j": ("n1", "n2")}, job(work=26), overheads=Overheads(transfer=False, merge_seconds=1.0))
    assert merging.spans["lost"].tolist() == [1.0, 1.0, 1.0, 1.0]
    assert merging.jobs["finish"]["j"] == pytest.approx(15.0)
    alone = run({"j": ("n1",)}, job(work=26), overheads=Overheads(transfer=False, merge_seconds=1.0))
    assert alone.spans["lost"].tolist() == [0.0, 0.0, 0.0]


@dataclass(frozen=True)
class Turns:
    """The job runs in turn on each of these sets of servers; a set of one is not forked where ``plain``."""

    sets: tuple[tuple[str, ...], ...]
    plain: bool = True
    round_seconds: float = 10.0

    @property
    def traits(self) -> Traits:
        return Traits(self.round_seconds, places=True, forks=True)

    def __call__(self, instance: Instance, state: int | None = None) -> tuple[Plan, int]:
        turn = state or 0
        plan, _ = Fixed({"j": self.sets[turn % len(self.sets)]})(instance)
        if self.plain and len(plan.placement.hosts["j"]) == 1:
            plan = Plan(plan.entities, plan.x, placement=Placement(plan.placement.hosts))
        return plan, turn + 1


@given(
    st.lists(st.sets(st.sampled_from(["n1", "n2", "n3"]), min_size=1), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from([0.0, 1.5]),
)
def test_forked_and_plain_rounds_against_a_plain_loop(sets: list[set[str]], plain: bool, restart: float) -> None:
    turns = tuple(tuple(sorted(own)) for own in sets)
    overheads = Overheads(restart, 0.0, restart, transfer=False)
    log = hetopt.simulate(Turns(turns, plain), Instance(NODES, jobs=(job(work=37),)), overheads=overheads)
    left, number, had, finish = 37.0, 0, set[str](), 0.0
    while not finish:
        own = turns[number % len(turns)]
        speed = {s: 0.1 if s == "n3" else 1.0 for s in own}
        ready = {s: 0.0 if s in had else restart for s in own}
        if plain and len(own) == 1 and had != set(own):
            ready = dict.fromkeys(own, restart)
        ends = {s: ready[s] + left / sum(speed.values()) for s in own}  # each has its part of what is left
        done = sum(speed[s] * (min(10.0, ends[s]) - ready[s]) for s in own)
        if max(ends.values()) <= 10.0:
            finish = 10.0 * number + max(ends.values())
        left, number, had = left - done, number + 1, set(own)
    assert log.jobs["finish"]["j"] == pytest.approx(finish, rel=PROVEN)
    assert log.spans["work"].sum() == pytest.approx(37, rel=PROVEN)


copies = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 20), st.integers(0, 5)), min_size=1, max_size=4).map(
    lambda rows: RunningCopies(
        tuple(RunningCopy(JobCopy(f"s{i}", {"A": 1}, v, w), r) for i, (v, w, r) in enumerate(rows))
    )
)


@given(copies, st.fractions(0, 1, max_denominator=20))
def test_when_is_the_inverse_of_by(forked: RunningCopies, part: Fraction) -> None:
    everything = sum(c.decided.work for c in forked.copies)
    work = float(part * everything)
    time = forked.time_of(work)
    assert forked.work_done(time) == pytest.approx(work, abs=EQUAL)
    assert work == 0 or forked.work_done(time - 0.01) < work
    assert forked.time_of(everything * 1.01) == np.inf
    assert forked.time_of(everything) == max(c.end for c in forked.copies)
    assert RunningCopies(()).time_of(1.0) == np.inf


def plan_with(**placement: Any) -> Any:
    @dataclass(frozen=True)
    class Wrong:
        round_seconds: float = 10.0

        @property
        def traits(self) -> Traits:
            return Traits(self.round_seconds, places=True, forks=True)

        def __call__(self, instance: Instance, state: None = None) -> tuple[Plan, None]:
            jobs = instance.entities("jobs")
            hosts = placement["hosts"]
            x = np.zeros(jobs.shape)
            for gpus in hosts.get("j", {}).values():
                for t, n in gpus.items():
                    x[0, jobs.types.index(t)] += n
            return Plan(jobs, x, placement=Placement(**placement)), None

    return Wrong()


TWO = {"n1": {"fast": 1}, "n2": {"fast": 1}}


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        ({"hosts": {"j": TWO}}, "the plan gives job 'j' 2 GPUs; it runs on 1 or on none"),
        ({"hosts": {"j": TWO}, "dispatch": {"j": {"n1": 1.0}}}, "gives job 'j' 2 GPUs; it runs on 1"),
        (
            {"hosts": {"j": TWO}, "dispatch": {"j": {"n1": 1.0, "n3": 1.0}}},
            r"placed on servers \['n1', 'n2'\], and has work on \['n1', 'n3'\]",
        ),
        ({"hosts": {"j": TWO}, "dispatch": {"j": {"n1": 1.0, "n2": 0.0}}}, "on server 'n2' has work 0; it must be > 0"),
        ({"hosts": {"j": TWO}, "dispatch": {"j": {"n1": 1.0, "n2": np.nan}}}, "has work nan"),
        (
            {"hosts": {"j": TWO}, "dispatch": {"k": {"n1": 1.0, "n2": 1.0}}},
            "forks job 'k', which the plan does not have",
        ),
        (
            {"hosts": {"j": {"n1": {"fast": 1}}}, "dispatch": {"j": {"n1": 1.0, "n2": 1.0}}},
            "gives job 'j' 1 GPU; its 2 copies run on 2",
        ),
    ],
)
def test_plans_that_cannot_be_carried_out(placement: Any, message: str) -> None:
    with pytest.raises(InvalidPlan, match=message):
        hetopt.simulate(plan_with(**placement), Instance(NODES, jobs=(job(),)))


def test_an_uneven_gang_is_no_copy() -> None:
    cluster = Cluster((GPUType("A"),), (Server("a", {"A": 3}), Server("b", {"A": 3})))
    two = Job("j", {"A": 1.0}, 5, demand=2)
    wrong = plan_with(hosts={"j": {"a": {"A": 3}, "b": {"A": 1}}}, dispatch={"j": {"a": 1.0, "b": 1.0}})
    with pytest.raises(InvalidPlan, match="on server 'a' has 3 GPUs; a gang has 2"):
        hetopt.simulate(wrong, Instance(cluster, jobs=(two,)))
    Instance(cluster, jobs=(two,), placed={"j": {"a": {"A": 2}, "b": {"A": 2}}})
    with pytest.raises(InvalidInstance, match=r"placed\['j'\] has 4 GPUs; a gang runs on its demand, 2, and each copy"):
        Instance(cluster, jobs=(two,), placed={"j": {"a": {"A": 3}, "b": {"A": 1}}})


def test_a_restart_that_is_not_over_goes_on() -> None:
    """40 s on each of two new servers, rounds of 10 s: training begins after 40 s, not with the next decision."""
    slow = Overheads(start_seconds=40.0, restart_seconds=40.0, transfer=False)
    log = run({"j": ("n1", "n2")}, job(work=20), overheads=slow)
    assert log.jobs["finish"]["j"] == pytest.approx(50.0)
    assert log.spans["lost"].sum() == pytest.approx(80.0)


def test_merging_adds_nothing_to_a_restart_that_is_not_over() -> None:
    """45 s to begin and 1 s of merging in each round of 10 s: 4 s of training from 46 to 50, then 6 s from 51."""
    slow = Overheads(45.0, 0.0, 45.0, transfer=False, merge_seconds=1.0)
    log = run({"j": ("n1", "n2")}, job(work=20), overheads=slow)
    assert log.jobs["finish"]["j"] == pytest.approx(57.0)


@dataclass(frozen=True)
class Pausing:
    """Runs both copies in every other round."""

    round_seconds: float = 10.0

    @property
    def traits(self) -> Traits:
        return Traits(self.round_seconds, places=True, forks=True)

    def __call__(self, instance: Instance, state: int | None = None) -> tuple[Plan, int]:
        turn = state or 0
        plan, _ = Fixed({"j": ("n1", "n2")})(instance)
        return (plan if turn % 2 == 0 else Plan(plan.entities, 0 * plan.x, placement=Placement({}))), turn + 1


def test_a_forked_job_resumes() -> None:
    """10 s, a pause of 10 s, and 7 s to resume: 20 + 4 units of work at 2 a second end at 20 + 7 + 2."""
    resumes = Overheads(resume_seconds=7.0, transfer=False)
    log = hetopt.simulate(Pausing(), Instance(NODES, jobs=(job(work=24),)), overheads=resumes)
    assert log.jobs["finish"]["j"] == pytest.approx(29.0)


def test_without_rounds_the_policy_is_asked_again_when_copies_are_done() -> None:
    """Each decision hands out half of what is left: 5.25, 2.625 … until nothing is left that counts."""
    log = hetopt.simulate(
        Fixed({"j": ("n1", "n2")}, {"j": (0.25, 0.25)}, None),  # type: ignore[arg-type]
        Instance(NODES, jobs=(job(),)), overheads=FREE,
    )  # fmt: skip
    assert log.rounds["start"].tolist()[:3] == pytest.approx([0, 2.625, 2.625 + 1.3125])
    assert log.jobs["finish"]["j"] == pytest.approx(5.25)
