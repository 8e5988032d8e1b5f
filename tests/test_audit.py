"""``hetopt.audit`` as a whole: what it answers, in which form, and what it refuses."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

import hetopt
from hetopt import auditing
from hetopt.models import oef
from hetopt.models.fairness_components import EnvyFree
from hetopt.models.objectives import TotalRate
from hetopt.tolerances import EQUAL

PROPERTIES = ["envy_free", "sharing_incentive", "pareto_efficient", "strategy_proof", "capacity", "adjacent_types"]


@pytest.fixture(name="instance")
def eq6():
    return hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])


def test_the_example_of_the_readme(instance):
    allocation = hetopt.solve(oef.cooperative(), instance)
    v = hetopt.audit(instance, allocation, policy=oef.cooperative())
    assert v.envy_free.holds
    assert v.envy_free.slack == pytest.approx(0, abs=EQUAL)
    assert v.envy_free.witness is None
    assert v.sharing_incentive.holds
    assert v.pareto_efficient.holds
    assert v.strategy_proof.holds is False
    assert v.strategy_proof.witness.misreporting == ("u1",)
    witness = v.as_dict()["strategy_proof"]["witness"]
    assert (witness["kind"], witness["misreport_kind"]) == ("Misreport", v.strategy_proof.witness.kind)
    assert hetopt.audit(instance, allocation).strategy_proof.holds is None


def test_the_certificate_is_not_believed(instance):
    """Shares exchanged behind the certificate's back: it still says optimal, the audit does not."""
    allocation = hetopt.solve(oef.cooperative(), instance)
    forged = replace(allocation, x=allocation.x[::-1].copy())
    assert forged.certificate.violation == allocation.certificate.violation
    v = hetopt.audit(instance, forged)
    assert [v.envy_free.holds, v.sharing_incentive.holds, v.pareto_efficient.holds] == [False, False, False]
    assert v.envy_free.witness.envious == "u2"
    assert v.envy_free.witness.excess == pytest.approx(5 * 0.75 - (1 + 5 * 0.25))


def test_results_of_every_form_get_the_same_verdicts(instance):
    allocation = hetopt.solve(oef.cooperative(), instance)
    plan = hetopt.Plan(allocation.entities, allocation.x.copy())
    forms = [
        allocation,
        plan,
        allocation.share,
        allocation.x,
        allocation.x.tolist(),
        auditing.holdings(instance, allocation).gpus,
    ]
    slacks = [[v.slack for _, v in hetopt.audit(instance, form) if v.decided] for form in forms]
    for other in slacks[1:]:
        assert other == pytest.approx(slacks[0])


def test_a_plan_counts_gpus_and_an_allocation_time():
    """Two gangs of 2 GPUs: half the time on 2 GPUs is 1 GPU on average."""
    instance = hetopt.Instance.from_jobs([[4, 8], [4, 4]], demand=[2, 2], work=[9, 9], capacity=[2, 2])
    policy = hetopt.Formulation((TotalRate(), EnvyFree()), kind="jobs")
    allocation = hetopt.solve(policy, instance)
    plan = hetopt.Plan(allocation.entities, allocation.entities.gpus(allocation.x))
    by_time, by_gpus = hetopt.audit(instance, allocation), hetopt.audit(instance, plan)
    assert by_time.envy_free.holds
    assert by_time.as_dict().keys() == by_gpus.as_dict().keys()
    for (_, a), (_, b) in zip(by_time, by_gpus, strict=True):
        assert a.holds is b.holds
    assert hetopt.audit(instance, [[0, 1], [1, 0]]).pareto_efficient.holds
    assert hetopt.audit(instance, [[2, 0], [0, 2]]).capacity.witness.given == 4


def test_a_result_about_others_is_refused(instance):
    """Other names, or the same names in another order."""
    other = hetopt.Instance.from_speedups([[1, 2]], capacity=[1, 1], tenants=["x"])
    allocation = hetopt.solve(oef.cooperative(), other)
    with pytest.raises(hetopt.InvalidInstance, match="the result is for x on GPU1, GPU2, the instance for u1, u2"):
        hetopt.audit(instance, allocation)
    with pytest.raises(hetopt.InvalidInstance, match="audit a result against the instance"):
        hetopt.audit(instance, hetopt.solve(oef.cooperative(), instance).share.iloc[::-1])


@pytest.mark.parametrize("bad", [[[1, 2]], [[1, 2, 3], [1, 2, 3]], [1, 2]])
def test_a_table_of_another_shape_is_refused(instance, bad):
    with pytest.raises(hetopt.InvalidInstance, match=r"it must be \(2, 2\)"):
        hetopt.audit(instance, bad)


def test_nan_and_unknown_levels_are_refused(instance):
    with pytest.raises(hetopt.InvalidInstance, match="NaN"):
        hetopt.audit(instance, [[1, math.nan], [0, 0]])
    with pytest.raises(hetopt.InvalidOption, match="level is 'odd'"):
        auditing.envy_free(instance, [[1, 0], [0, 1]], level="odd")


def test_exact_verdicts_need_exact_shares(instance):
    allocation = hetopt.solve(oef.cooperative(), instance)
    with pytest.raises(hetopt.InvalidOption, match="exact=True"):
        hetopt.audit(instance, allocation, exact=True)


@dataclass(frozen=True)
class Exact:
    """Stands for the exact optimum of a certificate: what an audit reads of it is its table of Fractions."""

    share: np.ndarray


def test_exact_verdicts_see_what_a_tolerance_hides(instance):
    """A share off by 1/10^9 passes in floats and fails in Fractions, with the amount."""
    off = Fraction(1, 10**9)
    table = np.array([[Fraction(1), Fraction(1, 4) - off], [Fraction(0), Fraction(3, 4) + off]], dtype=object)
    allocation = hetopt.solve(oef.cooperative(), instance)
    exact = replace(allocation, certificate=replace(allocation.certificate, exact=Exact(table)))
    assert hetopt.audit(instance, table.astype(float)).envy_free.holds
    verdict = hetopt.audit(instance, exact, exact=True).envy_free
    assert verdict.holds is False
    assert verdict.exact == -4 * off / 3
    assert verdict.witness.excess == 4 * off
    assert verdict.tolerance == 0


def test_forms_of_an_answer(instance):
    """Table, JSON and text say the same; numbers survive JSON."""
    v = hetopt.audit(instance, [[0, 1], [1, 0]])
    assert [name for name, _ in v] == PROPERTIES
    assert v.table.index.tolist() == PROPERTIES
    assert v.table.loc["envy_free", "verdict"] == "fails"
    data = json.loads(json.dumps(v.as_dict(), allow_nan=False))
    assert data["envy_free"]["holds"] is False
    assert data["envy_free"]["witness"]["own"] == {"GPU1": 1}
    assert data["envy_free"]["witness"]["kind"] == "Envy"
    assert data["strategy_proof"] == {**data["strategy_proof"], "holds": None, "slack": None, "verdict": "undecided"}
    assert data["pareto_efficient"]["witness"]["bundles"].keys() == {"u1", "u2"}
    text = str(v)
    assert "envy_free fails (slack -0.6667): u2 would gain 400 % with the GPUs of u1 (1 GPU2 instead of 1 GPU1)" in text
    assert "capacity holds (slack 0): no GPU type is overused" in text


def test_exact_answers_survive_json(instance):
    v = hetopt.audit(instance, [[Fraction(1, 3), 1], [Fraction(2, 3), 0]], exact=True)
    data = json.loads(json.dumps(v.as_dict(), allow_nan=False))
    assert data["envy_free"]["exact_slack"] == "-7/9"  # (2/3 - 16/3) / 6
    assert "2/3 GPU1" in data["envy_free"]["explanation"]


def test_an_undecided_verdict_is_neither_true_nor_false(instance):
    v = hetopt.audit(instance, [[1, 0], [0, 1]])
    with pytest.raises(TypeError, match="give policy="):
        bool(v.strategy_proof)
    assert bool(v.sharing_incentive) is False
    assert not v.strategy_proof.decided


def test_tenants_with_several_job_types_are_judged_whole_too():
    """Fair to each job type, unfair to the tenant: u's fast jobs could use v's GPUs [THEOREMS, several job types]."""
    kinds = (hetopt.JobType("slow", {"A": 1, "B": 1}), hetopt.JobType("fast", {"A": 1, "B": 2}))
    instance = hetopt.Instance(
        hetopt.Cluster.of({"A": 1, "B": 1}),
        tenants=(hetopt.Tenant("u", kinds), hetopt.Tenant("v", {"A": 1, "B": 2})),
    )
    allocation = hetopt.solve(oef.cooperative(), instance)
    v = hetopt.audit(instance, allocation)
    assert list(v.by_tenant) == [
        "envy_free (even split)",
        "sharing_incentive (even split)",
        "envy_free (free reuse)",
        "sharing_incentive (free reuse)",
        "pareto_efficient (free reuse)",
    ]
    assert v.envy_free.holds
    assert v.sharing_incentive.holds
    assert v.by_tenant["envy_free (even split)"].holds
    assert v.by_tenant["sharing_incentive (even split)"].holds
    assert v.by_tenant["envy_free (free reuse)"].holds is False
    assert v.by_tenant["sharing_incentive (free reuse)"].witness.fair == {"A": 0.5, "B": 0.5}
    assert set(v.table.index) == {*PROPERTIES, *v.by_tenant}
    assert "envy_free (free reuse) " in str(v)


def test_a_cluster_without_a_type_that_a_job_needs():
    """Types without GPUs do not count; an entity that could run only there has a rate of 0 and no envy."""
    instance = hetopt.Instance.from_speedups([[1, 2], [0, 1]], capacity=[2, 0])
    v = hetopt.audit(instance, [[2, 0], [0, 0]])
    assert all(verdict.holds for name, verdict in v if name != "strategy_proof")
    assert hetopt.audit(instance, [[2, 0], [0, 0]], exact=True).pareto_efficient.holds
