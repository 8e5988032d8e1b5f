"""The families differ, make valid instances at every size, and the search finds what is slow."""

from __future__ import annotations

from dataclasses import dataclass

import families
import numpy as np
import pytest
from families import FEW_JOBS, MARKETS, ROUNDS, SPEEDS, Family, judging, tuning
from slow_inputs import Method, slowest


def test_families_are_distinct_and_each_is_in_one_half() -> None:
    for every in (MARKETS, ROUNDS, [family for family, _ in FEW_JOBS]):
        names = [family.name for family in every]
        assert len(set(names)) == len(names)
        assert sorted(family.name for family in [*tuning(every), *judging(every)]) == sorted(names)
    assert {family.speeds for family in MARKETS} == set(SPEEDS)


@pytest.mark.parametrize(("number", "types", "gpus"), [(1, 1, 3), (3, 2, 5), (20, 5, 90)])
def test_every_family_makes_an_instance(number: int, types: int, gpus: int) -> None:
    """Speeds are relative to the slowest type; every gang fits somewhere; the same seed draws the same."""
    for family in MARKETS:
        speed = families.market(family, 0, number, types, gpus).entities().speed
        assert np.array_equal(speed, families.market(family, 0, number, types, gpus).entities().speed)
        assert np.where(speed > 0, speed, np.inf).min(axis=1) == pytest.approx(1.0)
    for family in [*ROUNDS, *(family for family, _ in FEW_JOBS)]:
        entities = families.jobs(family, 0, number, types, gpus).entities()
        most = np.where(entities.speed > 0, entities.capacity, 0).max(axis=1)
        assert (entities.demand <= most).all()


def test_jobs_that_came_together_have_equal_work() -> None:
    family, size = FEW_JOBS[0]
    instance = families.jobs(family, 0, *size)
    entities = instance.entities()
    assert {job.arrival for job in instance.jobs} == {0.0}
    work = np.array([job.work for job in instance.jobs])
    assert work / entities.speed.max(axis=1) == pytest.approx(17 * 300.0)
    assert (entities.capacity[:-1] == 41).all()


def test_settings_change_the_speeds() -> None:
    plain = Family("generic")
    base = plain.speed_table(np.random.default_rng(0), 6, 3)
    for family, expected in (
        (Family("generic", power=2.0), base**2),
        (Family("generic", digits=1), np.array([[float(f"{v:.1g}") for v in row] for row in base])),
    ):
        assert family.speed_table(np.random.default_rng(0), 6, 3) == pytest.approx(expected)
    mixed = Family("generic", second="integers").speed_table(np.random.default_rng(0), 6, 3)
    assert np.array_equal(mixed[::2], base[::2])
    assert (mixed[1::2] == np.rint(mixed[1::2])).all()
    spread = Family("generic", spread=6.0).speed_table(np.random.default_rng(0), 6, 3) / base
    assert spread == pytest.approx(np.broadcast_to(spread[0], (6, 3)))
    noisy = Family("generic", noise=0.001).speed_table(np.random.default_rng(0), 6, 3)
    assert 0 < np.abs(noisy / base - 1).max() < 0.01


@dataclass(frozen=True)
class Planted(Method):
    """Is slow where three settings come together."""

    def seconds(self, family: Family, seed: int) -> float:
        return 1.0 + (family.second == "curve") + (family.spread > 0) + 3 * (family.weights == "one huge")


def test_the_search_finds_what_is_slow() -> None:
    worst = slowest(Planted(lambda _: None, 1, 1, 1), tries=300, report=lambda _: None)[0][1]
    assert (worst.second, worst.spread > 0, worst.weights) == ("curve", True, "one huge")
