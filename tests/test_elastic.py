"""Elastic jobs: sizes of a gang in the instance, in plans, and in simulations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetopt
from hetopt import Cluster, GangSize, HierarchicalPlacer, Instance, InvalidInstance, InvalidPlan, Job
from hetopt.data.gangs import gangs_of
from hetopt.decisions.system import check_whole_gangs, gang_rate
from hetopt.metrics.idle import idle_gaps
from hetopt.results.allocation import Plan
from hetopt.simulation.environment import Environment
from hetopt.simulation.estimate_errors import EstimateErrors
from hetopt.stages.speed_models import Spread

RATES = {1: {"A": 1.0, "B": 2.0}, 2: {"A": 1.8}, 4: {"A": 3.0, "B": 6.0}}


def elastic(name: str = "a", demand: int = 1, **more: object) -> Job:
    sizes = tuple(GangSize(n, own) for n, own in RATES.items() if n != demand)
    return Job(name, {t: RATES[demand].get(t, 0.0) for t in "AB"}, 60.0, demand, sizes=sizes, **more)  # type: ignore[arg-type]


def cluster(**more: int) -> Cluster:
    return Cluster.of({"A": 4, "B": 4}, **more)


class Sizes:
    """Gives job ``a`` these GPUs of A in the rounds, the last for ever."""

    traits = hetopt.Traits(round_seconds=10.0)

    def __init__(self, *numbers: int, column: int = 0) -> None:
        self.numbers, self.column = numbers, column

    def __call__(self, instance: Instance, state: int | None = None) -> tuple[Plan, int]:
        number = 0 if state is None else state
        jobs = instance.entities("jobs")
        x = np.zeros(jobs.shape)
        x[0, self.column] = self.numbers[min(number, len(self.numbers) - 1)]
        return Plan(jobs, x), number + 1


def test_a_job_does_its_work_at_the_rate_of_each_size() -> None:
    """Rounds of 10 s on 1, 2, 0 and 4 GPUs: 10 + 18 + 0, then 32 of the 60 units of work at 3 per second."""
    log = hetopt.simulate(Sizes(1, 2, 0, 4), Instance(cluster(), jobs=(elastic(),)))
    assert log.jobs["finish"].item() == pytest.approx(30 + 32 / 3)
    assert log.spans["gpus"].tolist() == [1, 2, 4]
    assert log.spans["work"].tolist() == pytest.approx([10, 18, 32])


def test_servers_and_spread_apply_to_the_size() -> None:
    """4 GPUs on servers of two run at the factor of a gang of 4 on two servers, not of one GPU."""
    spread = Spread({"m": {2: {2: 0.9}, 4: {2: 0.5}}})
    instance = Instance(cluster(gpus_per_server=2), jobs=(elastic(model="m"),))
    placed = hetopt.simulate(Sizes(4), instance, placer=HierarchicalPlacer(), environment=Environment(speeds=spread))
    assert placed.jobs["finish"].item() == pytest.approx(60 / (3.0 * 0.5))
    assert hetopt.simulate(Sizes(4), instance, placer=HierarchicalPlacer()).jobs["finish"].item() == pytest.approx(20)


@pytest.mark.parametrize(("number", "column"), [(3, 0), (2, 1)], ids=["no such size", "not on that type"])
def test_a_plan_with_another_size_is_refused(number: int, column: int) -> None:
    with pytest.raises(InvalidPlan, match=r"'a' .* GPUs; it runs on 1, 2, 4 or on none"):
        hetopt.simulate(Sizes(number, column=column), Instance(cluster(), jobs=(elastic(),)))


def test_a_waiting_job_fits_with_its_smallest_gang() -> None:
    """Demand 4, but 3 idle GPUs of A are a gap, since it also runs on 1 or 2."""
    jobs = (Job("held", {"A": 1.0, "B": 0.0}, 1000.0), elastic("late", 4))
    log = hetopt.simulate(Sizes(1), Instance(cluster(), jobs=jobs), until=100.0)
    gaps = idle_gaps(log, Instance(cluster(), jobs=jobs))
    assert gaps["gpu_seconds"].sum() == pytest.approx(100.0)  # on A and B, at most its smallest gang
    rigid = (jobs[0], Job("late", {"A": 3.0, "B": 0.0}, 60.0, 4))
    assert not len(idle_gaps(log, Instance(cluster(), jobs=rigid)))


def test_wrong_sizes_are_refused() -> None:
    for sizes, problem in (
        ((GangSize(2, {"A": 1.0}), GangSize(2, {"B": 1.0})), r"jobs\['a'\]\.sizes\[1\]\.gpus has 2 GPUs twice"),
        ((GangSize(1, {"A": 3.0}),), r"sizes\[0\]\.throughput is .*, but the throughput of the job, on 1 GPU, is"),
        ((GangSize(2, {"C": 1.0}),), "names GPU type 'C', which does not exist"),
    ):
        with pytest.raises(InvalidInstance, match=problem):
            Job("a", {"A": 1.0, "B": 2.0}, 60.0, sizes=sizes)
    with pytest.raises(InvalidInstance, match=r"batch_size\['A'\] is 0"):
        GangSize(2, {"A": 1.0}, {"A": 0})
    with pytest.raises(InvalidInstance, match=r"has 3 GPUs; .* one of \[1, 2, 4\]"):
        Instance(cluster(), jobs=(elastic(),), placed={"a": {"a-0": {"A": 3}}})


def test_estimates_scale_all_sizes_alike() -> None:
    """An error of the throughput on a type is one of the model there, whatever the number of GPUs."""
    seen = EstimateErrors(throughput=0.5, seed=3).of(Instance(cluster(), jobs=(elastic(),))).jobs[0]
    factor = seen.throughput["A"] / 1.0
    assert factor != 1
    assert [seen.rate("A", n) for n in (2, 4)] == pytest.approx([1.8 * factor, 3.0 * factor])


def test_gangs_are_jobs_of_one_size() -> None:
    instance = Instance(cluster(), jobs=(elastic(), Job("b", {"A": 1.0, "B": 1.0}, 5.0, 2)), held={"a": {"A": 2}})
    gangs = gangs_of(instance, lambda _, t, n: not (t == "B" and n == 4))
    assert dict(gangs.job) == {"a/1": "a", "a/2": "a", "a/4": "a", "b": "b"}
    assert [dict(job.throughput) for job in gangs.instance.jobs][1:3] == [{"A": 1.8, "B": 0.0}, {"A": 3.0, "B": 0.0}]
    assert gangs.instance.entities("jobs").held.tolist() == [[0, 0], [2, 0], [0, 0], [0, 0]]  # type: ignore[union-attr]


def test_gangs_have_names_of_their_own() -> None:
    jobs = (elastic(), Job("a/4", {"A": 1.0, "B": 1.0}, 5.0), elastic("b//"))
    gangs = gangs_of(Instance(cluster(), jobs=jobs))
    a, b = ([f"{name}////{n}" for n in (1, 2, 4)] for name in ("a", "b//"))
    assert list(gangs.job) == [*a, "a/4", *b]
    assert list(gangs.job.values()) == ["a", "a", "a", "a/4", "b//", "b//", "b//"]


def test_a_job_of_which_no_gang_is_allowed_keeps_what_it_holds() -> None:
    instance = Instance(cluster(), jobs=(elastic(demand=2),), held={"a": {"A": 2}})
    gangs = gangs_of(instance, lambda *_: False)
    assert dict(gangs.job) == {"a": "a"}
    assert gangs.instance.held == {"a": {"A": 2}}


@given(st.lists(st.sampled_from([0, 1, 2, 4]), min_size=2, max_size=2), st.sampled_from([1, 2, 4]))
def test_rates_do_not_depend_on_which_size_is_the_demand(numbers: list[int], demand: int) -> None:
    """The same job, described from another of its sizes, has the same plans and rates."""
    instance = Instance(Cluster.of({"A": 8, "B": 8}), jobs=(elastic("a", demand), elastic("b", 1)))
    jobs = instance.entities("jobs")
    x = np.array([[numbers[0], 0.0], [0.0, numbers[1]]])
    if numbers[1] == 2:
        with pytest.raises(InvalidPlan):
            check_whole_gangs(jobs, x)
    else:
        check_whole_gangs(jobs, x)
        expected = [RATES[numbers[0]]["A"] if numbers[0] else 0.0, RATES[numbers[1]]["B"] if numbers[1] else 0.0]
        assert gang_rate(jobs, x).tolist() == expected
