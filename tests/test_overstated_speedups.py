"""Tenants that overstate their speedups: what policies receive, and that jobs run at their true speeds."""

from __future__ import annotations

from typing import Any

import pytest
from refused import refused

import hetopt
from hetopt import InvalidOption, instances
from hetopt.experiments.environment_settings import EnvironmentSettings
from hetopt.experiments.trace_workload import TraceWorkload
from hetopt.models import oef
from hetopt.simulation.environment import Environment
from hetopt.simulation.estimate_errors import EstimateErrors

FOUR = TraceWorkload("oef-four-users", "oef/cluster", count=8, tenants="users").instance()


def test_only_the_misreporting_tenant_changes_and_only_its_faster_types() -> None:
    reported = EstimateErrors(overstated={"User-1": 0.5}).of(FOUR)
    for true, report in zip(FOUR.tenants, reported.tenants, strict=True):
        speed, claimed = dict(true.job_types[0].speedup), dict(report.job_types[0].speedup)
        if true.name == "User-1":
            assert claimed == {t: v * (1.5 if v > 1 else 1) for t, v in speed.items()}
        else:
            assert claimed == speed
    assert [job.throughput == other.throughput for job, other in zip(FOUR.jobs, reported.jobs, strict=True)] == [
        job.tenant != "User-1" for job in FOUR.jobs
    ]
    assert EstimateErrors().of(FOUR).tenants == FOUR.tenants


def test_equal_2_of_the_paper_is_a_lie() -> None:
    """[OEF, section 2.4]: u1's speedup of 2, reported as 2.8, is overstated by 40 %."""
    eq1 = instances.load("oef/eq1")
    reported = EstimateErrors(overstated={"u1": 0.4}).of(eq1).tenants[0].job_types[0].speedup
    assert reported == pytest.approx(dict(instances.load("oef/eq1-lie").tenants[0].job_types[0].speedup))


def test_a_lie_changes_what_policies_give_and_not_how_fast_jobs_run() -> None:
    """One round: each user's throughput is that of the GPUs that it has, at its true speeds."""
    log = hetopt.simulate(
        oef.noncooperative(),
        FOUR,
        round_seconds=300.0,
        max_rounds=1,
        environment=Environment(estimate_errors=EstimateErrors(overstated={"User-1": 1.0})),
    )
    speed = {job.name: job.throughput for job in FOUR.jobs}
    for tenant, own in log.spans.groupby("tenant"):
        expected = sum(speed[job][t] for job, t in zip(own["job"], own["gpu_type"], strict=True))
        assert log.throughput[str(tenant)].iloc[0] == pytest.approx(expected)
    estimated = log.estimated.iloc[0].to_list()
    assert estimated == pytest.approx([estimated[0]] * 4)  # equal by the reports


@pytest.mark.parametrize(
    ("make", "key", "match"),
    [
        (lambda: EstimateErrors(overstated={"User-1": -0.5}), "EstimateErrors.overstated['User-1']", None),
        (lambda: EstimateErrors(overstated=3), "EstimateErrors.overstated", None),  # type: ignore[arg-type]
        (lambda: EstimateErrors(overstated={"": 1.0}), "EstimateErrors.overstated", None),
        (
            lambda: EstimateErrors(overstated={"User-5": 1.0}).of(FOUR),
            "EstimateErrors.overstated",
            None,
        ),
        (lambda: EnvironmentSettings(liar="User-1"), "environment setting liar", r"'User-1' and lie is 0\.0"),
        (lambda: EnvironmentSettings(lie=0.5), "environment setting liar", "lie is 0.5; give both"),
        (
            lambda: EnvironmentSettings(liar=3, lie=0.5),
            "environment setting liar",
            "is 3",
        ),  # type: ignore[arg-type]
    ],
)
def test_lies_that_are_none(make: Any, key: str | None, match: str | None) -> None:
    with refused(InvalidOption, key, match):
        make()


def test_settings_name_a_tenant_that_overstates() -> None:
    environment = EnvironmentSettings.of({"liar": "User-1", "lie": 0.25}).build(FOUR.cluster, 7)
    assert environment.estimate_errors == EstimateErrors(seed=7, overstated={"User-1": 0.25})
    assert EnvironmentSettings(liar="User-1", lie=0.25).changed() == {"liar": "User-1", "lie": 0.25}
