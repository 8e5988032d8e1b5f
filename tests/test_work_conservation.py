"""Work conservation: no waiting gang fits on idle GPUs, except where a system declares why."""

from __future__ import annotations

import numpy as np
import pytest
from effort import examples
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from refused import refused
from work_conservation import decisions, left_waiting

from hetopt import Cluster, Instance, InvalidOption, Job, Tenant
from hetopt.decisions.placers import HierarchicalPlacer, MoreWorkersFirst
from hetopt.decisions.rounders import ByPriority, Rounded, WholeGPUs, WholeJobs
from hetopt.decisions.selection import LongestStarved
from hetopt.decisions.system import OnChange, System
from hetopt.formulations.traits import Traits, traits_of
from hetopt.models import gavel, queues, sia
from hetopt.models.allox import AlloX
from hetopt.models.fft import FFT
from hetopt.models.gandiva_fair import gandiva_fair
from hetopt.models.hadar import Hadar
from hetopt.registry import make_system, policy_names, system_names

REGISTERED = {name: make_system(name) for name in sorted({*system_names(), *policy_names()})}
SETTINGS = {
    "fifo with backfill": System(queues.FIFO(backfill=True)),
    "srtf without moves": System(queues.SRTF(moves=False)),
    "srtf without backfill": System(queues.SRTF(backfill=False)),
    "las on the type with most room": System(queues.LAS(types="roomiest")),
    "tiresias with promotion": System(queues.Tiresias((300.0,), 1.0, within="running", round_seconds=None)),
    "yarn with backfill": System(queues.YARN(backfill=True)),
    "yarn with a maximum": System(queues.YARN(maximum=0.5, backfill=True)),
    "pal as published": System(queues.PAL(moves=True, backfill=False)),
    "pal with fifo": System(queues.PAL("fifo")),
    "themis with all jobs": System(queues.Themis(0.0)),
    "gavel that computes shares every 1920 s": make_system("gavel", {"allocation_seconds": 1920.0}),
    "sia without restarts": System(sia.Sia(restart_seconds=0.0)),
    "gavel without filling": System(OnChange(gavel.max_min_fairness()), 360.0, ByPriority(fill=False)),
}
"""Settings on which conservation depends, or might."""

LENDING = {
    f"{name} with lending": make_system(name, {"lend": True})
    for name in ("oef-cooperative", "oef-noncooperative", "gavel-tenants", "gandiva-fair", "equal-split-tenants")
}

SYSTEMS = REGISTERED | SETTINGS | LENDING


@st.composite
def workloads(draw: st.DrawFn, system: System) -> Instance:
    """Jobs on one or two GPU types; AlloX' have one common demand, and systems among tenants get three tenants."""
    capacity = dict(zip("AB", draw(st.lists(st.integers(2, 5), min_size=1, max_size=2)), strict=False))
    common = draw(st.integers(1, 2)) if isinstance(system.policy, AlloX) else None
    jobs = []
    for i in range(draw(st.integers(2, 7))):
        home = draw(st.sampled_from(sorted(capacity)))
        speed = {t: draw(st.sampled_from([0.0, 1.0, 2.0])) for t in capacity} | {
            home: draw(st.sampled_from([1.0, 2.0]))
        }
        demand = common or draw(st.integers(1, min(3, capacity[home])))
        work, arrival = 64.0 * draw(st.integers(1, 30)), 100.0 * draw(st.integers(0, 6))
        jobs.append(Job(f"j{i}", speed, work, demand, arrival, tenant=draw(st.sampled_from("xyz"))))
    tenants: tuple[Tenant, ...] = ()
    if system.rounder is not None and traits_of(system.rounder).kind == "tenants":
        tenants = tuple(Tenant(name, {t: 1.0 + i for i, t in enumerate(capacity)}) for name in "xyz")
    return Instance(Cluster.of(capacity, gpus_per_server=draw(st.integers(1, 4))), tenants=tenants, jobs=tuple(jobs))


def leaves_a_gang(system: System, instance: Instance) -> bool:
    return any(left_waiting(one.entities, one.gpus) for one in decisions(system, instance))


@pytest.mark.parametrize("name", [name for name, system in SYSTEMS.items() if not system.idles])
def test_no_waiting_gang_fits_on_idle_gpus(name: str) -> None:
    @settings(max_examples=examples(15, 100))
    @given(instance=workloads(SYSTEMS[name]))
    def conserves(instance: Instance) -> None:
        assert not leaves_a_gang(SYSTEMS[name], instance)

    conserves()


@pytest.mark.parametrize("name", [name for name, system in SYSTEMS.items() if system.idles])
def test_where_a_reason_is_declared_there_is_an_example(name: str) -> None:
    system = SYSTEMS[name]
    search = settings(max_examples=1000, derandomize=True, database=None, phases=[Phase.generate])
    find(workloads(system), lambda instance: leaves_a_gang(system, instance), settings=search)


def test_alike_jobs_of_allox_never_wait_for_one_of_several_equal_slots() -> None:
    """With one GPU type."""

    @settings(max_examples=examples(15, 100))
    @given(instance=workloads(SYSTEMS["allox"]).filter(lambda instance: len(instance.cluster.type_names) == 1))
    def conserves(instance: Instance) -> None:
        assert not leaves_a_gang(SYSTEMS["allox"], instance)

    conserves()


def test_the_checker_by_hand() -> None:
    """Of 4 A and 2 B, 1 A and 2 B are idle: only a job that has one GPU of A, or two of B, fits."""
    jobs = [("runs", "A", 3, 9), ("one", "A", 1, 9), ("two", "A", 2, 9), ("b", "B", 2, 9), ("done", "A", 1, 0)]
    made = tuple(Job(name, {"A": float(t == "A"), "B": float(t == "B")}, 9, n) for name, t, n, _ in jobs)
    done = {name: 9.0 - left for name, *_, left in jobs}
    instance = Instance(Cluster.of({"A": 4, "B": 2}), jobs=made, done=done)
    entities = instance.entities("jobs")
    gpus = [[3.0, 0.0]] + [[0.0, 0.0]] * 4
    assert left_waiting(entities, np.array(gpus)) == [("one", "A"), ("b", "B")]


# Reasons are those of the step that chooses the jobs


def test_the_step_that_chooses_the_jobs_declares() -> None:
    shares, tenants = gavel.max_min_fairness(), "tenants do not lend GPUs that their own gangs leave"
    owed = "no job runs on a type on which it is owed no time"
    assert System(shares).idles == f"{owed}; {tenants}"
    assert System(OnChange(shares, 300.0)).idles == f"{owed}; {tenants}"
    assert System(shares, rounder=WholeJobs()).idles == owed
    assert System(gandiva_fair(), rounder=WholeGPUs()).idles == tenants
    assert System(gandiva_fair(), rounder=WholeGPUs(), selection=LongestStarved(lend=True)).idles == ""
    assert System(Rounded(shares, WholeJobs())).idles == owed
    assert System(shares, fluid=True).idles == ""
    assert System(queues.SRTF(), selection=LongestStarved(), rounder=WholeJobs()).idles == ""
    assert System(Hadar(fill=False)).idles
    assert not System(Hadar()).idles


def test_a_job_that_no_server_can_hold_leaves_its_gpus_idle() -> None:
    """FFT gives three of the four GPUs, of two servers, to the tensor-parallel job; the other job could have two."""
    large = Job("large", {"A": 1.0}, 9, 3, parallelism="tensor")  # type: ignore[arg-type]
    jobs = Instance(Cluster.of({"A": 4}, gpus_per_server=2), jobs=(large, Job("small", {"A": 1.0}, 9, 2)))
    for placer in (HierarchicalPlacer(whole=("tensor",)), MoreWorkersFirst(whole=("tensor",))):  # type: ignore[arg-type]
        system = System(FFT(), placer=placer)
        assert system.idles == "jobs that no single server can hold leave their GPUs idle"
        (first,) = [decision for decision, _ in zip(decisions(system, jobs), range(1), strict=False)]
        assert ("small", "A") in left_waiting(first.entities, first.gpus)


def test_traits_out_of_range_are_refused() -> None:
    with refused(InvalidOption, "Traits.idles"):
        Traits(idles=None)  # type: ignore[arg-type]
    with refused(InvalidOption, "Traits.kind"):
        Traits(kind="users")  # type: ignore[arg-type]
