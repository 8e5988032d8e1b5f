"""The fewest rounds by exhaustive search, against the integer program; and Hadar's Fig. 1."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hadar_oracles import gangs
from hypothesis import given, settings

import hetopt
from hetopt import Instance, InvalidInstance, InvalidOption, NotSolved, instances
from hetopt.models import gavel, hadar
from hetopt.proofs.hadar.least_rounds import gang_totals, least_rounds
from hetopt.proofs.strategies import mixed_instances


def can_be_done(instance: Instance, slots: int, seconds: float) -> bool:
    """P1 as printed: every job must finish."""
    problem = hadar.OfflineProblem.of(instance, slots, seconds, "finished")
    try:
        return len(hadar.TimeIndexed(admission=False)(problem).schedules) == len(instance.jobs)
    except NotSolved:
        return False


def check(instance: Instance, found: Any, seconds: float) -> None:
    """All work is done by gangs that fit, at the pace of their slowest GPUs."""
    done = dict.fromkeys(instance.job, Fraction(0))
    for chosen in found.gangs:
        for t, there in instance.cluster.capacity.items():
            assert sum(own.get(t, 0) for own in chosen.values()) <= there
        for name, own in chosen.items():
            assert sum(own.values()) == instance.job[name].demand
            done[name] += min(
                Fraction(instance.job[name].throughput[t] * seconds).limit_denominator(10**6) for t in own
            )
    assert all(done[name] >= instance.job[name].work for name in done)


@given(mixed_instances(jobs=(1, 3), latest=0, servers=(1, 2), most_work=5))
@settings(max_examples=40, deadline=None)
def test_no_fewer_rounds_are_enough(instance: Instance) -> None:
    found = least_rounds(instance, 1.0)
    check(instance, found, 1.0)
    assert can_be_done(instance, len(found), 1.0)
    assert len(found) == 1 or not can_be_done(instance, len(found) - 1, 1.0)


def test_the_motivating_example_needs_six_rounds() -> None:
    """[Hadar, Fig. 1]: Hadar's five rounds cannot be; Gavel's six are the fewest of all schedules."""
    example = instances.load("hadar/motivating")
    printed = instances.expected("hadar/motivating")["utilisation"].correct
    found = least_rounds(example, 360.0)
    check(example, found, 360.0)
    assert len(found) == printed["least_rounds"] == 6
    assert not can_be_done(example, 5, 360.0)
    assert can_be_done(example, 6, 360.0)


def test_rounds_of_all_gpus_are_impossible() -> None:
    """Gangs of 3, 2 and 2 use 0, 2, 3, 4 or 5 of the 6 GPUs, never 6: (1e) forbids the printed 100 %."""
    example = instances.load("hadar/motivating")
    assert gang_totals(example) == {0, 2, 3, 4, 5}
    assert (
        max(gang_totals(example)) == instances.expected("hadar/motivating")["utilisation"].correct["most_gpus_in_use"]
    )
    found = least_rounds(example, 360.0)
    assert max(found.utilisation) == Fraction(5, 6)
    joint = [sum(s.values()) for job in example.jobs for s, _ in gangs(example, job)]
    assert set(joint) == {2, 3}


def test_gavels_rounds_as_drawn() -> None:
    """Fig. 1 (a): 28 of 36 GPU-rounds. J1 on P100 four rounds; J2 on V100 once, then twice on P100; J3 on V100 five."""
    example = instances.load("hadar/motivating")
    drawn = [
        {"J1": "P100", "J2": "V100"}, *({"J1": "P100", "J3": "V100"} for _ in range(3)),
        *({"J2": "P100", "J3": "V100"} for _ in range(2)),
    ]  # fmt: skip
    work = {
        name: sum(example.job[name].throughput[own[name]] * 360 for own in drawn if name in own) for name in example.job
    }
    assert work == pytest.approx({"J1": 80, "J2": 35, "J3": 50})
    used = sum(example.job[name].demand for own in drawn for name in own)
    assert Fraction(used, 6 * len(drawn)) == instances.expected("hadar/motivating")["utilisation"].correct["Gavel"]


def test_hadar_on_the_motivating_example() -> None:
    """In the engine Hadar takes 6 rounds at least as well; gangs of one type only (Gavel) cannot run J1 on V100."""
    example = instances.load("hadar/motivating")
    free = hetopt.Overheads(transfer=False)
    rounds = {
        key: hetopt.simulate(policy, example, round_seconds=360.0, overheads=free).makespan / 360
        for key, policy in {"hadar": hadar.Hadar(utility="negative-jct"), "gavel": gavel.max_min_fairness()}.items()
    }
    assert min(rounds.values()) > 5
    assert rounds["hadar"] <= rounds["gavel"]


def test_bad_input() -> None:
    example = instances.load("hadar/motivating")
    with pytest.raises(InvalidInstance, match="the jobs take more than most = 5 rounds"):
        least_rounds(example, 360.0, most=5)
    with pytest.raises(InvalidOption, match="round_seconds is 0"):
        least_rounds(example, 0)
    late = hetopt.Job("late", {"V100": 1, "P100": 1, "K80": 1}, 1, arrival=5)
    with pytest.raises(InvalidInstance, match="job 'late' arrives at 5 s"):
        least_rounds(example.replace(jobs=(late,)), 1.0)
