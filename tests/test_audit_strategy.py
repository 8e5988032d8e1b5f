"""The search for misreports: the theorems' are found, strategy-proof policies pass, verdicts state what was tried."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

import hetopt
from hetopt import auditing
from hetopt.auditing.misreports import direction
from hetopt.models import oef
from hetopt.models.fairness_components import EqualRates
from hetopt.models.objectives import SwitchingCost, TotalRate
from hetopt.proofs.strategies import job_instances, tenant_instances
from hetopt.tolerances import EQUAL

EQ6 = [[1, 2], [1, 5]]
FEW = settings(max_examples=12)


def market(speedups=EQ6, capacity=(1, 1), **fields):
    return hetopt.Instance.from_speedups(speedups, list(capacity), **fields)


def gain(verdict, instance, liar):
    """The witness's gain, recomputed from the table under the lie and the true speeds."""
    entities = instance.entities()
    row = entities.speed[entities.position[liar]]
    lying, honest = (
        table.loc[[name for name in table.index if name.split("/")[0] == liar]].reindex(columns=list(entities.types))
        for table in (verdict.witness.untruthful_table, verdict.witness.truthful_table)
    )
    return float(row @ lying.fillna(0).sum().to_numpy() - row @ honest.fillna(0).sum().to_numpy())


def true_rate_of_u1(policy, instance, report):
    """u1's rate at its true speeds when it reports ``report``."""
    misreported = auditing.ReportGenerator(instance, "tenants").apply(auditing.Report("over", {0: report}))
    return float(instance.entities().speed[0] @ hetopt.solve(policy, misreported).x[0])


@pytest.mark.parametrize(("row", "report", "rate"), [((1, 5), (1.0, 4.0), 7 / 4), ((1, 4), (1.0, 3.0), 5 / 3)])
def test_over_reports_pay_under_cooperative_oef(row, report, rate):
    """[THEOREMS, Theorems 3.2, 3.3]: 3/2 -> 7/4 and 3/2 -> 5/3; the search finds at least as much."""
    instance = market([[1, 2], row])
    assert true_rate_of_u1(oef.cooperative(), instance, report) == pytest.approx(rate)
    verdict = auditing.strategy_proof(instance, oef.cooperative(), kinds=("over",), misreporting=("u1",), budget=150)
    assert verdict.holds is False
    assert verdict.witness.before == pytest.approx({"u1": 3 / 2})
    assert verdict.witness.gains["u1"] >= rate - 3 / 2 - EQUAL
    assert verdict.witness.gains["u1"] == pytest.approx(gain(verdict, instance, "u1"))
    assert verdict.slack == pytest.approx(-verdict.witness.gains["u1"] / 3)
    assert min(verdict.witness.reported["u1"].values()) == 1  # a normalised row


def test_under_reports_pay_under_noncooperative_oef():
    """[THEOREMS, Theorem 5.4]: u2 reports (1,1), 15/7 -> 8/3; a report near (1,2) pays more."""
    instance = market()
    verdict = auditing.strategy_proof(instance, oef.noncooperative(), kinds=("under",))
    assert verdict.holds is False
    assert verdict.witness.misreporting == ("u2",)
    assert verdict.witness.before["u2"] == pytest.approx(15 / 7)
    assert verdict.witness.after["u2"] >= 8 / 3 - EQUAL
    assert direction(np.array(list(verdict.witness.reported["u2"].values())), np.array([1, 5])) == "under"
    assert set(verdict.searched) == {"under"}


def test_a_raw_over_report_of_the_slowest_type_is_an_under_report():
    """[THEOREMS, Theorem 5.4]: (5,5) is over (1,5), and after normalising it is (1,1)."""
    instance = market()
    reports = auditing.ReportGenerator(instance, "tenants", "divided")
    misreported = reports.apply(auditing.Report("over", {1: (5.0, 5.0)}))
    assert misreported.entities().speed[1].tolist() == [1, 1]
    divided = auditing.strategy_proof(
        instance, oef.noncooperative(), kinds=("over",), misreporting=("u2",), scale="divided"
    )
    assert divided.holds is False
    assert divided.witness.after["u2"] >= 8 / 3 - EQUAL
    for scale in ("kept", "raw"):
        kept = auditing.strategy_proof(
            instance, oef.noncooperative(), kinds=("over",), misreporting=("u2",), scale=scale
        )
        assert kept.holds is None
    raw = auditing.strategy_proof(
        instance, oef.noncooperative(), kinds=("under",), misreporting=("u2",), scale="raw", budget=60
    )
    assert raw.holds is False  # to report a quarter of all speeds brings four times the GPUs


@FEW
@given(tenant_instances(tenants=(2, 4), types=(2, 3), weighted=True), st.sampled_from(["kept", "raw"]))
def test_over_reports_and_coalitions_of_them_never_pay_under_noncooperative_oef(instance, scale):
    """[OEF, Theorem 5.4] as [THEOREMS] states it, whatever the optimum that the solver picks."""
    reports = auditing.ReportGenerator(instance, "tenants", scale)
    people = tuple(range(len(instance.tenants)))
    speed = instance.entities().speed
    honest = hetopt.solve(oef.noncooperative(), instance).rate.to_numpy()
    whole = speed @ instance.entities().capacity
    tried = 0
    for report in reports.all(("over", "coalition"), people):
        if all(direction(np.array(row), speed[e]) == "over" for e, row in report.rows.items()):
            rate = (speed * hetopt.solve(oef.noncooperative(), reports.apply(report)).x).sum(axis=1)
            assert min((rate[e] - honest[e]) / whole[e] for e in report.rows) <= EQUAL, report
            tried += 1
        if tried == 25:
            break
    assert tried


@FEW
@given(tenant_instances(tenants=(2, 3), types=(2, 3), weighted=True))
def test_the_search_finds_no_over_report_that_pays_under_noncooperative_oef(instance):
    verdict = auditing.strategy_proof(instance, oef.noncooperative(), kinds=("over",), budget=40)
    assert verdict.holds is None
    assert verdict.slack >= -EQUAL


def test_a_fake_job_type_pays_under_noncooperative_oef():
    """[THEOREMS, false job types]: u1 adds (1,1), 15/7 -> 41/19, its GPUs all used by its true jobs."""
    instance = market()
    misreported = auditing.ReportGenerator(instance, "tenants").apply(auditing.Report("job type", {}, (1.0, 1.0), 0))
    result = hetopt.solve(oef.noncooperative(), misreported)
    assert result.entities.names == ("u1/jobs", "u1/fake", "u2")
    assert result.entities.weight.tolist() == [0.5, 0.5, 1]
    assert float(np.array([1, 2]) @ result.x[:2].sum(axis=0)) == pytest.approx(41 / 19)
    verdict = auditing.strategy_proof(
        instance, oef.noncooperative(), kinds=("job type",), misreporting=("u1",), budget=100
    )
    assert verdict.holds is False
    assert verdict.witness.after["u1"] >= 41 / 19 - EQUAL
    assert verdict.witness.gains["u1"] == pytest.approx(gain(verdict, instance, "u1"))
    assert "fake job type of u1" in verdict.witness.reported
    assert " if it adds a fake job type with speeds (" in verdict.witness.explain()


@FEW
@given(tenant_instances(tenants=(2, 3), types=(2, 3)))
def test_over_reporting_fakes_never_pay_under_noncooperative_oef(instance):
    reports, speed = auditing.ReportGenerator(instance, "tenants"), instance.entities().speed
    honest = hetopt.solve(oef.noncooperative(), instance).rate.to_numpy()
    for report in reports.all(("job type",), (0,)):
        if direction(np.array(report.fake), speed[0]) == "over":
            result = hetopt.solve(oef.noncooperative(), reports.apply(report))
            mine = result.x[result.entities.owner == 0].sum(axis=0)
            assert speed[0] @ mine - honest[0] <= EQUAL * (speed[0] @ instance.entities().capacity)


@dataclass(frozen=True)
class Equal:
    """Everyone gets its part of every type, whatever it says: lies cannot pay."""

    def __call__(self, instance, state=None):
        entities = instance.entities()
        part = entities.weight[:, None] / entities.weight.sum() * entities.capacity
        return hetopt.Plan(entities, part / entities.demand[:, None] * entities.demand[:, None]), None


def test_a_policy_that_ignores_reports_is_not_refuted_and_not_proven():
    verdict = auditing.strategy_proof(market([[1, 2, 4], [1, 5, 6], [1, 3, 3]], (1, 2, 3)), Equal(), budget=300)
    assert verdict.holds is None
    assert verdict.word == "not refuted"
    assert verdict.slack == pytest.approx(0)
    assert set(verdict.searched) == set(auditing.DEFAULT_KINDS)
    assert sum(verdict.searched.values()) < 300
    assert "proves nothing" in verdict.explain()


def test_a_fake_tenant_pays_under_equal_parts_when_asked_for():
    """By hand: two of three equal parts instead of one of two; 2/3 of the cluster's rate 3 instead of 1/2."""
    verdict = auditing.strategy_proof(market(), Equal(), kinds=("tenant",), misreporting=("u1",), budget=5)
    assert verdict.holds is False
    assert verdict.witness.after == pytest.approx({"u1": 2})
    as_allocated = auditing.strategy_proof(market(), Equal(), kinds=("tenant",), budget=5, gpu_use="as allocated")
    assert as_allocated.holds is None


@dataclass(frozen=True)
class Peak:
    """Pays u1 most if it reports ``best`` on the second type; no report of the grid is near enough."""

    best: float

    def __call__(self, instance, state=None):
        entities = instance.entities()
        bonus = 0.5 / (1 + abs(entities.speed[0, 1] - self.best))
        share = np.array([[bonus, bonus], [1 - bonus, 1 - bonus]]) * entities.capacity
        return hetopt.Plan(entities, share), None


@pytest.mark.parametrize("best", [2.63, 7.77, 1.1234])
def test_the_pattern_search_climbs_to_a_peak_between_the_grid(best):
    verdict = auditing.strategy_proof(market(), Peak(best), kinds=("over", "under"), misreporting=("u1",))
    found = verdict.witness.reported["u1"]["GPU2"]
    assert found == pytest.approx(best, rel=2 * auditing.strategy_proofness.STEPS[-1])


def test_a_coalition_pays_only_if_both_gain():
    """A policy that pays the two first tenants only if both report less than 2."""

    @dataclass(frozen=True)
    class Together:
        def __call__(self, instance, state=None):
            entities = instance.entities()
            low = (entities.speed[:2, 1] < 2).all()
            part = np.array([0.4, 0.4, 0.2] if low else [0.3, 0.3, 0.4])
            return hetopt.Plan(entities, part[:, None] * entities.capacity), None

    instance = market([[1, 4], [1, 6], [1, 5]])
    assert auditing.strategy_proof(instance, Together(), kinds=("over", "under", "mixed")).holds is None
    verdict = auditing.strategy_proof(instance, Together(), kinds=("coalition",))
    assert verdict.holds is False
    assert verdict.witness.misreporting == ("u1", "u2")
    assert verdict.witness.gains == pytest.approx({"u1": 0.5, "u2": 0.7})


def test_the_search_is_deterministic_and_keeps_to_its_budget():
    calls = []

    def counted(instance, state=None):
        calls.append(instance)
        return oef.cooperative()(instance)

    first = auditing.strategy_proof(market(), counted, budget=60)
    assert len(calls) <= 61  # the witness is asked for once more
    second = auditing.strategy_proof(market(), oef.cooperative(), budget=60)
    assert first.as_dict() == second.as_dict()
    assert "budget or time ended" in first.why


def test_a_time_limit_ends_the_search():
    """No time at all: only the honest run is made."""
    verdict = auditing.strategy_proof(market(), oef.cooperative(), time_limit=0.0)
    assert verdict.holds is None
    assert not verdict.searched
    assert "time" in verdict.why


def test_reports_that_a_policy_turns_away_gain_nothing():
    def picky(instance, state=None):
        if instance.entities().speed.tolist() != EQ6:
            raise hetopt.NotSolved("no", "infeasible")
        return oef.noncooperative()(instance)

    verdict = auditing.strategy_proof(market(), picky, budget=20)
    assert verdict.holds is None
    assert math.isnan(verdict.slack)
    assert "rejected" in verdict.why


def test_an_impossible_allocation_is_no_profit():
    """A policy that gives more than there is to liars: the gain is not counted."""

    def generous(instance, state=None):
        entities = instance.entities()
        honest = entities.speed.tolist() == EQ6
        return hetopt.Plan(entities, np.full(entities.shape, 0.5 if honest else 2.0)), None

    assert auditing.strategy_proof(market(), generous, kinds=("over",), budget=20).holds is None


def test_what_is_held_stays_with_the_true_job_type():
    """A fake job type renames the tenant's entity; its GPUs held now must follow."""
    instance = market(held=[[0, 1], [1, 0]])
    misreported = auditing.ReportGenerator(instance, "tenants").apply(auditing.Report("job type", {}, (1.0, 3.0), 0))
    assert misreported.entities().held.tolist() == [[0, 1], [0, 0], [1, 0]]
    policy = oef.noncooperative() + SwitchingCost(0.5)
    assert sum(auditing.strategy_proof(instance, policy, kinds=("job type",), budget=20).searched.values()) == 19


@FEW
@given(job_instances(jobs=(2, 3), types=(2, 2)))
def test_jobs_may_lie_too(instance):
    """Equal rates among gangs: the theorem's proof needs no tenants, but work for any number of GPUs."""
    policy = hetopt.Formulation((TotalRate(), EqualRates()), kind="jobs")
    verdict = auditing.strategy_proof(instance, policy, kinds=("over", "job type"), budget=20, demand_limited=False)
    assert verdict.holds is None
    assert set(verdict.searched) <= {"over"}


def test_a_lie_for_gpus_that_a_job_cannot_use_pays_nothing():
    """GPU2 goes to the larger report on it; a job that runs all the time on its part has no use for the rest."""

    def proportional(instance, state=None):
        entities = instance.entities()
        part = entities.speed / entities.speed.sum(axis=0)
        return hetopt.Plan(entities, part * entities.capacity), None

    instance = hetopt.Instance.from_jobs([[1, 1], [1, 1]], demand=[1, 1], work=[9, 9], capacity=[2, 2])
    asked = {"kinds": ("over",), "budget": 30}
    assert auditing.strategy_proof(instance, proportional, **asked).slack == 0
    assert auditing.strategy_proof(instance, proportional, demand_limited=False, **asked).holds is False
    scarce = hetopt.Instance.from_jobs([[2, 1], [2, 1]], demand=[2, 2], work=[9, 9], capacity=[2, 2])
    assert auditing.strategy_proof(scarce, proportional, **asked).holds is False


@pytest.mark.parametrize(
    ("settings_", "key", "match"),
    [
        ({"kinds": ("false",)}, "kinds", None),
        ({"scale": "odd"}, "scale", None),
        ({"gpu_use": "odd"}, "gpu_use", None),
        ({"misreporting": ("u9",)}, "misreporting", "one of u1, u2"),
        ({"budget": 1}, "budget", None),
        ({"tolerance": -1}, "tolerance", None),
        ({"time_limit": -1}, "time_limit", None),
    ],
)
def test_settings_are_checked(settings_, key, match):
    with refused(hetopt.InvalidOption, key, match):
        auditing.strategy_proof(market(), Equal(), **settings_)
