"""Properties of policies: what the checkers say, against audits, by hand, and for what is proved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from property_cases import BY_KEY, SMALL, of

import hetopt
from hetopt.auditing import envy_free, sharing_incentive
from hetopt.data.entities import Kind
from hetopt.data.instance import Instance
from hetopt.data.rationals import exact_fractions
from hetopt.errors import InvalidPlan, UnusableFile
from hetopt.models import baselines, gavel, oef
from hetopt.models.fft import FFT
from hetopt.models.hadar import Hadar
from hetopt.models.hadare import HadarE
from hetopt.proofs.ledger import all_claims
from hetopt.proofs.ledger.claim import ClaimVerdict, Effort
from hetopt.proofs.ledger.finding_pictures import SharesPicture
from hetopt.proofs.ledger.space import CaseNumbers
from hetopt.proofs.properties import property_matrix
from hetopt.proofs.properties.policy_answers import (
    Undecided,
    ask_policy,
    at_true_owners,
    true_rates,
    within_capacity,
)
from hetopt.proofs.properties.policy_cases import AllowedMisreports, PolicyCase, policy_space
from hetopt.proofs.properties.property_checks import PROPERTIES, no_gain, screened
from hetopt.proofs.properties.property_matrix import PROVED, decide_cell, stored_refutations, supported_kinds
from hetopt.registry import make_policy, policy_names
from hetopt.tolerances import EQUAL

F = Fraction


# -- cases -----------------------------------------------------------------------------------------------------------


def test_tenants_and_their_misreports() -> None:
    case = of("tenants", AllowedMisreports.OVER, speed=[[2], [5]], gpus=[[1, 2]], report=[[4]], liar=[[1]])
    assert case.instance.entities().speed.tolist() == [[1, 2], [1, 5]]
    assert case.reported.entities().speed.tolist() == [[1, 4], [1, 5]]
    assert case.misreporters == (0,)
    numbers = CaseNumbers(
        {"speed": ((F(2),), (F(5),)), "gpus": ((F(1), F(2)),), "report": ((F(4),),), "liar": ((F(2),),)}
    )
    assert policy_space("tenants", AllowedMisreports.OVER).build(numbers) is None  # that is an under-report
    under = policy_space("tenants", AllowedMisreports.UNDER).build(numbers)
    assert under is not None
    assert under.misreporters == (1,)
    assert under.reported.entities().speed.tolist() == [[1, 2], [1, 4]]
    assert (
        policy_space("tenants", AllowedMisreports.UNDER).build(numbers.replaced("liar", 0, 0, F(3))) is None
    )  # there are two


def test_jobs_have_gangs_work_and_arrivals() -> None:
    case = of("jobs", speed=[[1, 2], [3, 1]], gpus=[[2, 3]], demand=[[1, 3]], work=[[4, 12]], arrival=[[0, 2]])
    jobs = case.instance.entities("jobs")
    assert jobs.speed * 300 == pytest.approx(np.array([[1, 2], [0, 1]]))  # a gang of 3 finds no room on 2
    assert jobs.demand.tolist() == [1, 3]
    assert case.instance.time == 600
    none = CaseNumbers(
        {
            "speed": ((F(1), F(2)), (F(3), F(1))),
            "gpus": ((F(2), F(2)),),
            "demand": ((F(1), F(3)),),
            "work": ((F(1), F(1)),),
            "arrival": ((F(0), F(0)),),
        }
    )
    assert policy_space("jobs").build(none) is None  # a gang of 3 fits on no type


def test_a_false_type_divides_the_weight() -> None:
    case = of("tenants", AllowedMisreports.FALSE_TYPE, speed=[[2], [5]], gpus=[[1, 1]], report=[[1]], liar=[[2]])
    entities = case.reported.entities()
    assert entities.names == ("u1", "u2/true", "u2/false")
    assert entities.weight.tolist() == [1, 0.5, 0.5]
    assert case.misreporters == (1,)
    answer = ask_policy(oef.noncooperative(), case.reported)
    share = np.array([[F(1), F(0)], [F(0), F(1, 3)], [F(0), F(2, 3)]], dtype=object)
    truth = at_true_owners(case.instance, case.reported, replace(answer, share=share))
    assert truth.share.tolist() == [[1, 0], [0, 1]]
    assert true_rates(case.instance, truth) == [1, 5]


def test_all_misreporters_are_named_and_pictured_before_and_after() -> None:
    """The equal split of 3 GPU1 and 3 GPU2 does not depend on the reports."""
    case = of("tenants", AllowedMisreports.TOGETHER, speed=[[2], [2], [2]], gpus=[[3, 3]], report=[[2], [3], [4]])
    found = no_gain(case, baselines.equal_split())
    assert found.slack == 0
    sentences = (
        "u2 reports speeds (1, 3), not (1, 2), and has a rate of 3, as before",
        "u3 reports speeds (1, 4), not (1, 2), and has a rate of 3, as before",
    )
    assert found.explanation == "; ".join(sentences)
    false = of("tenants", AllowedMisreports.FALSE_TYPE, speed=[[2], [2]], gpus=[[2, 1]], report=[[3]], liar=[[2]])
    found = no_gain(false, baselines.equal_split())
    assert found.explanation == "u2 adds a false job type of speedups (1, 3) and has a rate of 2, as before"
    before, after = found.pictures
    assert isinstance(before, SharesPicture)
    assert isinstance(after, SharesPicture)
    assert before.names == after.names == ("u1", "u2")
    assert after.gpus == before.gpus == ((1, F(1, 2)), (1, F(1, 2)))
    assert after.worth == (2, 2)


def test_only_the_last_misreport_may_pay() -> None:
    """A policy that gives all GPUs to the last one whose report is (1, 6): no other entity gains."""

    class Deceived:
        def __call__(self, instance: Instance, state: Any = None) -> Any:
            entities = instance.entities()
            x = np.tile(entities.capacity, (len(entities.names), 1))
            x[:-1] = 0 if entities.speed[-1, 1] == 6 else x[:-1] / 2 / len(x[:-1])
            x[-1] /= 1 if entities.speed[-1, 1] == 6 else 2
            return baselines.by_rule(entities, x, "deceived", 0.0), None

    found = decide_cell(Deceived(), "tenants", BY_KEY["over-report"], Effort(instances=100, seconds=0))
    assert found.counterexample is not None
    case = found.counterexample.case
    assert case.misreporters == (case.instance.entities().names.index(f"u{len(case.speed)}"),)


@pytest.mark.parametrize("kind", ["tenants", "jobs"])
@pytest.mark.parametrize("way", [None, AllowedMisreports.OVER, AllowedMisreports.UNDER, AllowedMisreports.TOGETHER])
def test_what_is_drawn_is_meant(kind: Kind, way: Any) -> None:
    @given(policy_space(kind, way).strategy())
    @settings(max_examples=25, deadline=None)
    def look(drawn: tuple[CaseNumbers, PolicyCase]) -> None:
        case = drawn[1]
        pairs = [(a, b) for x, y in zip(case.speed, case.report, strict=True) for a, b in zip(x, y, strict=True)]
        if way in (AllowedMisreports.OVER, AllowedMisreports.TOGETHER):
            assert all(b >= a for a, b in pairs)
        if way is AllowedMisreports.UNDER:
            assert all(b <= a for a, b in pairs)
        assert len(case.misreporters) >= {None: 0, AllowedMisreports.TOGETHER: 2}.get(way, 1)
        assert isinstance(case.instance, Instance)

    look()


# -- answers ---------------------------------------------------------------------------------------------------------


def test_formulations_answer_by_their_exact_optimum_and_others_by_their_word() -> None:
    instance = hetopt.Instance.from_speedups([[1, 2], [1, 5]], [1, 1])
    found = ask_policy(oef.noncooperative(), instance)
    assert found.exact
    assert found.share.tolist() == [[1, F(4, 7)], [0, F(3, 7)]]
    other = ask_policy(baselines.equal_split(), instance)
    assert not other.exact
    assert other.share.tolist() == [[F(1, 2), F(1, 2)]] * 2
    assert exact_fractions([[0.1]])[0, 0] == F(0.1) != F(1, 10)


def test_noise_is_none_but_for_exact_optima() -> None:
    tiny = -F(1, 10**9)
    assert screened(tiny, exact=False) == 0
    assert screened(tiny, exact=True) == tiny
    assert screened(F(-1, 100), exact=False) == F(-1, 100)


def test_whom_a_policy_is_about() -> None:
    assert set(supported_kinds(oef.cooperative())) == {"tenants", "jobs"}
    assert not supported_kinds(oef.cooperative())["tenants"]
    assert "is for tenants" in supported_kinds(oef.cooperative())["jobs"]
    assert "is for jobs" in supported_kinds(FFT())["tenants"]
    assert not any(supported_kinds(gavel.max_min_fairness()).values())


def test_gangs_over_several_types_are_not_judged() -> None:
    """An audit of what they are worth would be wrong, so such cases decide nothing there; how many GPUs is plain."""
    jobs = hetopt.Instance.from_jobs([[1, 1]], [2], [40], [1, 1], round_seconds=300)
    answer = ask_policy(Hadar(), jobs)
    with pytest.raises(Undecided, match="has a gang over 2 GPU types"):
        answer.comparable()
    one = F(1)
    case = PolicyCase("jobs", ((one, one),), (one, one), ((one, one),), (F(2),), (F(40),), (F(0),))
    for key in ("envy-free", "pareto-efficient"):
        with pytest.raises(Undecided, match="has a gang over 2 GPU types"):
            BY_KEY[key].check(case, Hadar())
    assert BY_KEY["capacity"].check(case, Hadar()).slack == 0
    assert BY_KEY["adjacent"].check(case, Hadar()).slack >= 0


def test_copies_are_counted_but_not_judged() -> None:
    case = of("jobs", speed=[[2, 1, 2]], gpus=[[1, 1, 1]], demand=[[1]], work=[[40]], arrival=[[0]])
    with pytest.raises(Undecided, match="runs in 3 copies"):
        BY_KEY["envy-free"].check(case, HadarE())
    assert BY_KEY["capacity"].check(case, HadarE()).slack == 0


class Altered:
    """The equal split with other numbers."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self.change = change

    def __call__(self, instance: Instance, state: Any = None) -> Any:
        result = hetopt.solve(baselines.equal_split(), instance)
        return replace(result, x=self.change(np.array(result.x))), None


@pytest.mark.parametrize("factor", [1, 1 + 2**-50, 1 - 2**-50, 1 + 2**-30, 1 - 2**-30])
def test_rounding_hides_no_violation_and_makes_none(factor: float) -> None:
    """The equal split of (1, 2), (1, 5) is dominated by an eighth, whatever was lost or added in rounding."""
    case = of("tenants", speed=[[2], [5]], gpus=[[1, 1]])
    found = BY_KEY["pareto-efficient"].check(case, Altered(lambda x: x * factor))
    assert float(found.slack) == pytest.approx(-0.125, rel=EQUAL)
    for key in ("envy-free", "sharing-incentive", "capacity"):
        assert BY_KEY[key].check(case, Altered(lambda x: x * factor)).slack == 0


def test_time_beyond_all_of_it_is_rounding_too() -> None:
    jobs = hetopt.Instance.from_jobs([[1, 1]], [1], [40], [1, 1], round_seconds=300)
    share = np.array([[F(1, 2), F(1, 2) + F(1, 2**40)]], dtype=object)
    assert within_capacity(jobs, share).sum() == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x * np.nan, "x has NaN or infinite numbers"),
        (lambda x: x * np.inf, "x has NaN or infinite numbers"),
        (lambda x: x - 1, "a share below 0"),
    ],
)
def test_what_is_no_allocation_is_an_error(change: Callable[[Any], Any], message: str) -> None:
    case = of("tenants", speed=[[2], [5]], gpus=[[1, 1]])
    with pytest.raises(InvalidPlan, match=message):
        ask_policy(Altered(change), case.instance)


@pytest.mark.parametrize("key", ["envy-free", "sharing-incentive", "pareto-efficient"])
def test_ten_times_what_there_is_fails_and_is_judged_no_further(key: str) -> None:
    case = of("tenants", speed=[[2], [5]], gpus=[[1, 1]])
    assert BY_KEY["capacity"].check(case, Altered(lambda x: x * 10)).slack == -9
    with pytest.raises(Undecided, match="the allocation is not possible"):
        BY_KEY[key].check(case, Altered(lambda x: x * 10))
    lie = of("tenants", AllowedMisreports.OVER, speed=[[2], [5]], gpus=[[1, 1]], report=[[3]], liar=[[1]])
    with pytest.raises(Undecided, match="the allocation is not possible"):
        no_gain(lie, Altered(lambda x: x * 10))


# -- properties ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["envy-free", "sharing-incentive"])
def test_a_counterexample_is_one_for_the_audit_too(key: str) -> None:
    audit = {"envy-free": envy_free, "sharing-incentive": sharing_incentive}[key]
    found = decide_cell(baselines.efficiency_only(), "tenants", BY_KEY[key], SMALL)
    assert found.holds is False
    assert found.counterexample is not None
    case = found.counterexample.case
    result = hetopt.solve(baselines.efficiency_only(), case.instance, exact=True)
    verdict = audit(case.instance, result, exact=True)
    assert verdict.holds is False
    assert verdict.exact is not None
    assert verdict.exact <= found.counterexample.finding.slack  # of several optima, the fairest counts there


def test_the_misreport_of_the_paper_pays_what_it_prints() -> None:
    """Fig. 2: u1 of (1,2), (1,4) reports 3 and has 5/3 instead of 3/2, of 3 with the whole cluster."""
    case = of("tenants", AllowedMisreports.OVER, speed=[[2], [4]], gpus=[[1, 1]], report=[[3]], liar=[[1]])
    found = no_gain(case, oef.cooperative())
    assert found.slack == (F(3, 2) - F(5, 3)) / 3
    assert found.explanation == "u1 reports speeds (1, 3), not (1, 2), and has a rate of 5/3 instead of 3/2"
    honest = of("tenants", AllowedMisreports.UNDER, speed=[[4], [2]], gpus=[[1, 1]], report=[[3]], liar=[[1]])
    assert no_gain(honest, oef.cooperative()).slack >= 0


@pytest.mark.usefixtures("counted_time")
def test_with_search_the_counterexample_is_smaller() -> None:
    found = decide_cell(oef.noncooperative(), "tenants", BY_KEY["under-report"], Effort(instances=5, seconds=1))
    assert found.counterexample is not None
    space = BY_KEY["under-report"].space("tenants")
    assert space.weight(found.counterexample.numbers)[0] == 6  # two tenants, two types, who lies and what
    assert found.searched > 0


@pytest.mark.parametrize(("policy", "kind", "key"), sorted(PROVED))
def test_what_is_proved_holds_and_has_a_claim(policy: str, kind: Kind, key: str) -> None:
    assert all_claims()[PROVED[policy, kind, key]].expected is ClaimVerdict.TRUE
    assert policy in all_claims()[PROVED[policy, kind, key]].policies
    found = decide_cell(make_policy(policy), kind, BY_KEY[key], SMALL, policy)
    assert found.holds
    assert found.text == "proved"


@pytest.mark.parametrize("name", policy_names())
def test_every_policy_stays_within_the_gpus(name: str) -> None:
    policy = make_policy(name)
    for kind, why in supported_kinds(policy).items():
        if not why:
            found = decide_cell(policy, kind, BY_KEY["capacity"], Effort(instances=4, seconds=0), name)
            assert found.holds is not False


def test_too_many_gpus_are_found_out() -> None:
    class Greedy:
        """All GPUs to each entity."""

        def __call__(self, instance: Instance, state: Any = None) -> tuple[hetopt.Plan, None]:
            entities = instance.entities()
            x = np.tile(entities.capacity, (len(entities.names), 1))
            return hetopt.Plan(entities, x, None, {}, None), None

    found = decide_cell(Greedy(), "tenants", BY_KEY["capacity"], SMALL)
    assert found.holds is False
    assert found.counterexample is not None
    assert "too many" in found.counterexample.finding.explanation


@pytest.mark.parametrize("key", [p.key for p in PROPERTIES if any(one.key == p.key for one in stored_refutations())])
def test_every_stored_case_refutes_its_policies(key: str) -> None:
    for one in stored_refutations():
        if one.key == key:
            case = BY_KEY[key].space(one.about).build(one.numbers)
            assert case is not None
            for name in one.policies:
                assert BY_KEY[key].check(case, make_policy(name)).refutes, (name, one.numbers.as_dict())


@pytest.mark.parametrize("text", ["nonsense", "[1]", '[{"about": "jobs", "property": "group", "policies": []}]'])
def test_a_broken_file_of_stored_cases_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    there = tmp_path / "refuting.json"
    there.write_text(text)
    monkeypatch.setattr(property_matrix, "STORED", there)
    with pytest.raises(UnusableFile, match=r"refuting.json cannot be read: \w+Error"):
        property_matrix.stored_refutations.__wrapped__()


def test_stored_cases_are_found_at_once() -> None:
    """A joint lie that a search of 20 seconds does not find."""
    found = decide_cell(baselines.efficiency_only(), "tenants", BY_KEY["group"], Effort(instances=1, seconds=0))
    assert found.counterexample is not None
    assert len(found.counterexample.case.misreporters) == 2
