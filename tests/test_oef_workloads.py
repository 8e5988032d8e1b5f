"""OEF's workloads: who has which jobs when, against what the module says, and the level against the linear program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from hetopt import InvalidOption, instances
from hetopt.experiments.trace_workload import TraceWorkload
from hetopt.registry import make_generator
from hetopt.traces.oef_generator import (
    ENDLESS,
    GANGS,
    LEVEL,
    MINUTE_40,
    MODELS,
    SECOND,
    USERS,
    FiftyTenants,
    FourUsers,
    TwentyTenants,
)
from hetopt.traces.paper_models import OEF
from hetopt.traces.sampling import Generator


def test_the_four_users_are_those_of_the_instance() -> None:
    made = TraceWorkload("oef-four-users", "oef/cluster", count=96, tenants="users").instance()
    named = instances.load("oef/four-users")
    assert [t.name for t in made.tenants] == [t.name for t in named.tenants]
    for own, other in zip(made.tenants, named.tenants, strict=True):
        assert dict(own.job_types[0].speedup) == dict(other.job_types[0].speedup)
    assert {job.demand for job in made.jobs} == {1}
    assert [sum(job.tenant == name for job in made.jobs) for name in USERS] == [24] * 4


def test_the_level_is_that_of_equal_throughput() -> None:
    """The largest common rate of the four, by scipy on the program written by hand."""
    speeds = [[OEF[model].speed[t] for t in OEF.types] for model in USERS.values()]
    c = np.append(np.zeros(12), -1.0)
    equal = np.zeros((4, 13))
    for i, row in enumerate(speeds):
        equal[i, 3 * i : 3 * i + 3], equal[i, 12] = row, -1
    used = np.hstack([np.tile(np.eye(3), 4), np.zeros((3, 1))])
    best = -linprog(c, A_ub=used, b_ub=np.full(3, 8.0), A_eq=equal, b_eq=np.zeros(4)).fun
    assert round(best, 4) == LEVEL


@pytest.mark.parametrize("jobs", [4, 96])
def test_user_4_has_work_for_40_minutes(jobs: int) -> None:
    table = FourUsers().table(jobs)
    work = table.groupby("user")["duration"].sum()
    assert work["User-4"] == pytest.approx(LEVEL * MINUTE_40)
    assert set(table[table["user"] != "User-4"]["duration"]) == {ENDLESS}
    assert set(FourUsers(quits=False).table(jobs)["duration"]) == {ENDLESS}


def test_user_1_adds_a_type_at_minute_40() -> None:
    table = FourUsers(quits=False, second_type=True).table(120)
    late = table[table["arrival"] > 0]
    assert set(late["user"]) == {"User-1"}
    assert set(late["model"]) == {SECOND}
    assert set(late["arrival"]) == {MINUTE_40}
    assert table.groupby(["user", "model"]).size().to_list() == [24] * 5
    made = TraceWorkload("oef-four-users", "oef/cluster", count=120, tenants="users", settings={"second_type": True})
    assert [len(tenant.job_types) for tenant in made.instance().tenants] == [2, 1, 1, 1]


@given(seed=st.integers(0, 50))
def test_twenty_tenants_have_one_model_each_and_are_there_all_the_time(seed: int) -> None:
    table = TwentyTenants().table(240, seed)
    assert (table["arrival"] == 0).all()
    assert (table["duration"] == ENDLESS).all()
    assert (table.groupby("user").size() == 12).all()
    assert table["user"].nunique() == 20
    assert (table.groupby("user")["model"].nunique() == 1).all()
    assert set(table["model"]) <= set(MODELS) == set(OEF)
    assert set(table["gpus"]) <= set(GANGS)


@given(seed=st.integers(0, 50), jobs=st.integers(1, 300))
def test_fifty_tenants_come_at_once_with_all_their_jobs(seed: int, jobs: int) -> None:
    """In the part of three days that the jobs are of 1000."""
    table = FiftyTenants().table(jobs, seed)
    assert len(table) == jobs
    assert table["arrival"].iloc[0] == 0
    assert table["arrival"].is_monotonic_increasing
    assert table["arrival"].iloc[-1] <= 3 * 86_400 * jobs / 1000
    by_user = table.groupby("user")
    assert (by_user["arrival"].nunique() == 1).all()
    assert (by_user["model"].nunique() == 1).all()
    assert table["duration"].between(60.0, 8 * 3600.0).all()


def test_seeds_and_numbers() -> None:
    """As many jobs per tenant as on average in the paper; draws are even; the same seed gives the same."""
    whole = FiftyTenants().table(1000, 3)
    assert whole.equals(FiftyTenants().table(1000, 3))
    assert not whole.equals(FiftyTenants().table(1000, 4))
    assert whole["user"].nunique() == 50
    assert whole.groupby("user").size().mean() == 20
    many = FiftyTenants(tenants=6000).table(60_000, 1)
    models = many.groupby("user")["model"].first().value_counts(normalize=True)
    assert (abs(models - 1 / 6) < 0.02).all()
    assert (abs(many["gpus"].value_counts(normalize=True) - 1 / 3) < 0.02).all()


def test_lengths_are_alike_within_a_batch_and_those_of_philly_over_all() -> None:
    """The logarithm spreads by 0.302 within a batch, as batches of PhillyBatches; over all as the mixture."""
    many = FiftyTenants(tenants=400).table(40_000, 2)
    many["log"] = np.log(many["duration"])
    within = many.groupby("user")["log"].std().median()
    assert 0.2 < within < 0.35
    lengths = FiftyTenants().lengths
    levels = np.random.default_rng(0)
    part = lengths.part(levels.random(40_000))
    expected = np.log(lengths.seconds(part, levels.standard_normal(40_000)))
    assert abs(many["log"].mean() - expected.mean()) < 0.25
    assert abs(many["log"].std() / expected.std() - 1) < 0.25


@pytest.mark.parametrize(
    ("name", "settings", "kind"),
    [
        ("oef-four-users", {"quits": False}, FourUsers(quits=False)),
        ("oef-twenty-tenants", {"tenants": 5}, TwentyTenants(5)),
        ("oef-fifty-tenants", {"days": 1.0}, FiftyTenants(days=1.0)),
    ],
)
def test_they_are_found_by_name(name: str, settings: dict[str, Any], kind: Generator) -> None:
    assert make_generator(name, settings) == kind
    assert list(make_generator(name).table(5).columns) == ["job", "arrival", "duration", "gpus", "model", "user"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: FourUsers(quits=1),  # type: ignore[arg-type]
        lambda: FourUsers().table(0),
        lambda: FourUsers().table(3, -1),
        lambda: TwentyTenants(0),
        lambda: TwentyTenants().table(3, -1),
        lambda: FiftyTenants(days=0.0),
        lambda: FiftyTenants().table(1.5),  # type: ignore[arg-type]
    ],
)
def test_settings_that_are_none(make: Any) -> None:
    with pytest.raises(InvalidOption, match=r"quits|jobs|tenants|seed|days"):
        make()
