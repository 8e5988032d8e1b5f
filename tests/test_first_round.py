"""From any result to a first round on servers: the same steps as by hand, and a true account of them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import hetopt
from hetopt import Parallelism, instances
from hetopt.decisions.first_round import HeldBack, LaterRound, NoShare, place
from hetopt.decisions.placers import NoServerFits
from hetopt.errors import InvalidInstance, NotApplicable
from hetopt.experiments.comparison import COLUMNS, PLACED, by_reason, compare, measure_placed
from hetopt.models import baselines, fft, gavel, oef
from hetopt.presentation.comparison_page import page
from hetopt.tolerances import EQUAL

LAB = instances.load("lab36/jobs").at(5400)


def test_tenants_shares_take_the_steps_of_the_how_to() -> None:
    shares = hetopt.solve(oef.cooperative(), LAB)
    plan, _ = hetopt.WholeGPUs()(shares, LAB)
    jobs, _ = hetopt.LongestStarved()(plan, LAB)
    placement = hetopt.HierarchicalPlacer()(jobs, LAB)
    first = place(LAB, shares)
    assert first.hosts == placement.hosts
    assert np.array_equal(first.plan.x, plan.x)
    assert np.array_equal(first.decision.gpus, jobs.x)


def test_jobs_shares_and_plans_are_placed_too() -> None:
    shares = hetopt.solve(gavel.shortest_job_first(), LAB)
    rounded, _ = hetopt.WholeJobs()(shares, LAB)
    assert np.array_equal(place(LAB, shares).decision.gpus, rounded.x)
    plan, _ = fft.FFT()(LAB)
    assert np.array_equal(place(LAB, plan).decision.gpus, plan.x)


def test_jobs_stay_where_they_are_placed() -> None:
    plan, _ = fft.FFT()(LAB)
    first = place(LAB, plan)
    again = place(LAB.replace(placed=first.hosts), plan)
    assert again.hosts == first.hosts
    assert again.decision.given_up["moved"] == 0


def test_another_placer() -> None:
    plan, _ = fft.FFT()(LAB)
    other = place(LAB, plan, hetopt.MoreWorkersFirst())
    assert other.hosts == hetopt.MoreWorkersFirst()(plan, LAB).hosts


def test_every_job_runs_or_waits_with_a_reason() -> None:
    for policy in (oef.noncooperative(), gavel.fifo(), gavel.max_min_fairness(), baselines.efficiency_only()):
        first = place(LAB, hetopt.solve(policy, LAB))
        assert [row[0] for row in first.rows] == [j.name for j in LAB.jobs if j.name in first.hosts]
        assert sorted([*first.hosts, *first.waiting]) == sorted(j.name for j in LAB.jobs)
        assert all(first.waiting.values())
        assert first.as_dict()["jobs"].keys() == first.hosts.keys()


def test_the_reasons_of_policies_over_jobs() -> None:
    """Two gangs of three GPUs share four: each has half of the time; the third has none."""
    inst = hetopt.Instance.from_jobs([[1.0], [1.0], [1.0]], 3, work=9, capacity=[4], jobs=["a", "b", "c"])
    half = hetopt.solve(gavel.max_min_fairness(), inst.replace(jobs=inst.jobs[:2]))
    shares = hetopt.Allocation(inst.entities("jobs"), np.array([[2 / 3], [2 / 3], [0.0]]), half.certificate)
    first = place(inst, shares)
    assert list(first.hosts) == ["a"]
    assert first.waiting == {"b": LaterRound(pytest.approx(2 / 3)), "c": NoShare()}
    assert first.as_dict()["waiting"] == {
        "b": "its share is 67% of the time; in this round the GPUs go to jobs with a higher deficit",
        "c": "its share of the time is 0",
    }
    plan = hetopt.Plan(inst.entities("jobs"), np.array([[0.0], [3.0], [0.0]]))
    assert place(inst, plan).waiting == dict.fromkeys("ac", HeldBack())


def test_a_gang_without_room_on_one_server_waits_with_the_placers_reason() -> None:
    cluster = hetopt.Cluster.of({"T4": 4}, gpus_per_server=2)
    job = hetopt.Job("j", {"T4": 1.0}, 5, 4, parallelism="tensor")  # type: ignore[arg-type]
    inst = hetopt.Instance(cluster, jobs=(job,))
    plan = hetopt.Plan(inst.entities("jobs"), np.array([[4.0]]))
    first = place(inst, plan, hetopt.HierarchicalPlacer(whole=("tensor",)))  # type: ignore[arg-type]
    assert first.waiting == {"j": NoServerFits(4, "T4", Parallelism.TENSOR)}
    assert str(first.waiting["j"]) == "no single server has 4 free GPUs of 'T4' for a tensor job"
    numbers = measure_placed(first, 4.0)
    assert (numbers["running"], numbers["waiting"], numbers["change"]) == (0, 1, -1)
    assert np.isnan(numbers["servers"])


def test_without_jobs_there_is_nothing_to_place() -> None:
    inst = instances.load("lab36")
    with pytest.raises(InvalidInstance, match="no jobs, and only jobs are placed on servers"):
        place(inst, hetopt.solve(oef.cooperative(), inst))


def test_the_table_of_placement_is_counted_by_hand() -> None:
    """A gang of four on two servers of two and a single on its own: three servers for two jobs."""
    cluster = hetopt.Cluster.of({"T4": 6}, gpus_per_server=2)
    jobs = (
        hetopt.Job("wide", {"T4": 4.0}, 9, 4),
        hetopt.Job("one", {"T4": 1.0}, 9),
        hetopt.Job("late", {"T4": 2.0}, 9, 2),
    )
    inst = hetopt.Instance(cluster, jobs=jobs)
    plan = hetopt.Plan(inst.entities("jobs"), np.array([[4.0], [1.0], [0.0]]))
    assert measure_placed(place(inst, plan), 6.0) == {
        "running": 2,
        "waiting": 1,
        "gpus": 5,
        "total": 5,
        "change": pytest.approx(-1 / 6, abs=EQUAL),
        "servers": 1.5,
        "spread": 1,
        "extra": 0,
    }


def test_a_result_that_cannot_be_placed_keeps_its_row() -> None:
    """Tenants' shares, but a job of no tenant: solved and judged, and the reason is given."""
    inst = hetopt.Instance.from_speedups([[1, 2], [1, 5]], [1, 1], jobs=(hetopt.Job("j", {"GPU1": 1, "GPU2": 1}, 5),))
    made = compare(inst, {"oef": oef.cooperative()})
    assert list(made.table.index) == ["oef"]
    assert "jobs['j'].tenant is None" in made.unplaced["oef"]
    assert made.placed.empty
    assert list(made.table.columns) == list(COLUMNS)
    assert list(made.placed.columns) == list(PLACED)


def test_a_result_that_cannot_be_measured_is_not_called_a_refusal() -> None:
    """A policy over jobs solves an instance whose job has no tenant; its rate per tenant is not defined."""
    inst = hetopt.Instance.from_speedups([[1, 2], [1, 5]], [1, 1], jobs=(hetopt.Job("j", {"GPU1": 1, "GPU2": 1}, 5),))
    made = compare(inst, {"oef": oef.cooperative(), "fifo": gavel.fifo()})
    assert list(made.table.index) == ["oef"]
    assert not made.refused
    assert "jobs['j'].tenant is None" in made.unmeasured["fifo"]
    assert made.results["fifo"].entities.kind == "jobs"
    assert "<dt>fifo</dt><dd>cannot be measured: jobs[" in page(made, "title", {})


def test_policies_with_the_same_reason_are_listed_together() -> None:
    """Policies over jobs refuse an instance without jobs; their reasons are equal, their messages name each."""
    instance = instances.load("lab36")
    refused = compare(instance, {"fft": fft.FFT(), "fifo": gavel.fifo(), "oef": oef.cooperative()}).refused
    assert list(by_reason(refused).values()) == [["fft", "fifo"]]
    with pytest.raises(NotApplicable, match=r"^FFT is for jobs, and the instance has none") as caught:
        hetopt.solve(fft.FFT(), instance)
    assert (caught.value.path, caught.value.reason) == (("FFT",), refused["fft"])
    assert pickle.loads(pickle.dumps(caught.value)).reason == refused["fft"]


def test_losses_of_plan_and_placement_do_not_overwrite_each_other() -> None:
    """One name for two losses is refused, so that neither is lost."""
    jobs = LAB.entities("jobs")
    plan = hetopt.Plan(jobs, np.zeros(jobs.shape), given_up={"moved": 1.0})
    with pytest.raises(hetopt.InvalidPlan, match="both report the loss 'moved'"):
        place(LAB, plan)


def test_gpus_of_allocations_and_plans_are_read_alike() -> None:
    """Shares of jobs count their gangs; plans count GPUs already."""
    shares = hetopt.solve(gavel.max_min_fairness(), LAB)
    assert np.array_equal(shares.gpu_array, shares.gpus.to_numpy())
    plan = hetopt.Plan(shares.entities, np.rint(shares.gpu_array))
    assert np.array_equal(plan.gpu_array, plan.x)
