"""Adversaries of Hadar and HadarE: they find known counterexamples and planted errors, and no fault in true claims."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from adversary_cases import some_cases
from ledger_cases import stored_case

from hetopt.models import gavel
from hetopt.models.hadar import Hadar
from hetopt.proofs.adversaries import hadar, hadar_rounds
from hetopt.proofs.adversaries.hadar import ADVERSARIES
from hetopt.proofs.adversaries.hadar_slots import (
    alone,
    corrected,
    enlarged,
    plans_of,
    printed,
    runs_of,
    time_indexed,
)
from hetopt.proofs.hadar.competitive_ratio import step_factor
from hetopt.proofs.hadar.copy_cases import CopyCase
from hetopt.proofs.hadar.exact_prices import printed_prices, proven_prices, runs, utilities_alone
from hetopt.proofs.hadar.training_steps import TrainingJob
from hetopt.tolerances import EQUAL

F = Fraction
FEW = 12
"""Cases of each claim."""


@pytest.mark.parametrize(
    ("key", "false"),
    [
        ("eq-8-alike", "eq-8"),
        ("job-id-bounded", "job-id"),
        ("thm-3-rounds-alike", "thm-3-rounds"),
        ("lemma-1-feasible", "lemma-1"),
    ],
)
def test_counterexamples_of_related_claims_are_found(key: str, false: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hadar, "still_feasible", lambda *_: True)  # the hypothesis that Lemma 1 lacks
    assert ADVERSARIES[f"hadar/{key}"].slack(stored_case(f"hadar/{false}")) < 0


def test_a_job_on_two_types_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gavel, "max_min_fairness", Hadar)
    assert hadar.one_type_at_a_time(stored_case("hadar/table-1-hadar-task")) == -1


def more(found: Any) -> Any:
    return found + 1


def much(found: Any) -> Any:
    return found * 1000


def nothing(_: Any) -> Any:
    return 0


def flat(found: Any) -> Any:
    """Prices that do not rise."""
    return found._replace(high=found.low)


def dear(found: Any) -> Any:
    return found._replace(low=tuple(100 * low for low in found.low), high=tuple(100 * high for high in found.high))


def unpaid(found: Any) -> Any:
    """Runs with an alpha of 0."""
    return [run._replace(alpha=Decimal(0)) for run in found]


def reverse(found: Any) -> Any:
    return list(reversed(found))


def without_last(found: Any) -> Any:
    return [{job: nodes[:-1] for job, nodes in jobs.items()} for jobs in found]


def squared(found: Any) -> Any:
    return [part * part for part in found]


def slower(found: Any) -> Any:
    """Plans that do half of the work."""
    return [(plan, [(slot, speed / 2) for slot, speed in speeds]) for plan, speeds in found]


@pytest.mark.parametrize(
    ("key", "name", "error"),
    [
        ("completion-time-slots", "every_plan", slower),
        ("p1-p2-admission", "time_indexed", more),
        ("p3-dual", "least", lambda found: max(found, 2 * found)),  # of the dual only
        ("p3-bound", "time_indexed", much),
        ("eq-4-payoffs", "least", lambda found: found - 1),
        ("admits-any-eta", "gpu_slots", lambda found: [need / 4 for need in found]),
        ("admits-any-corrected", "corrected", dear),
        ("full-server-corrected", "corrected", flat),
        ("initial-dual-corrected", "time_indexed", nothing),
        ("initial-dual-slots", "time_indexed", nothing),
        ("find-alloc-sorted", "combinations", lambda found: list(found)[:1]),
        ("thm-1-states", "decided_as_printed", lambda found: (found[0], range(10**6))),
        ("algorithm-2-skips", "decided_as_printed", lambda found: (range(1), found[1])),
        ("algorithm-2-payoffs", "best_of_all_decisions", more),
        ("lemma-2", "runs_of", unpaid),
        ("eq-5", "price_at", lambda found: found * 2),
        ("lemma-3", "price_at", lambda found: found * found),
        ("step-factor", "price_at", lambda found: found + 1),
        ("lemma-1-feasible", "time_indexed", much),
        ("thm-2-corrected", "time_indexed", much),
        ("thm-2-sharper", "corrected", flat),
        ("thm-2-one-round", "corrected", flat),
        ("thm-2-one-round", "time_indexed", much),
        ("job-id-exactly", "shared_ids", nothing),
        ("eq-10-terms", "estimates", lambda found: tuple(1 / value for value in found)),
        ("steps", "product", lambda _: []),
        ("corollary-assigned", "policy_rounds", without_last),
        ("cru-formula", "used_share", much),
        ("thm-3-fastest", "fastest_first", reverse),
        ("thm-3-batch-alike", "fewest_rounds", more),
        ("unforked-rounds-jobs", "busy_parts", lambda found: [*found, F(1, 2), F(1)]),
        ("remaining-count-within", "rounds_of", lambda found: found * found),
        ("remaining-share-within", "busy_parts", lambda found: [*found, F(1)]),
    ],
)
def test_planted_errors_are_found(
    key: str, name: str, error: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    adversary, right = ADVERSARIES[f"hadar/{key}"], getattr(hadar, name)
    monkeypatch.setattr(hadar, name, lambda *args, **kwargs: error(right(*args, **kwargs)))
    assert any(adversary.slack(case) < -adversary.tolerance for case in some_cases(f"hadar/{key}", 60))


def test_further_planted_errors_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hadar.passes(TrainingJob(5, 2, 1)) < 0  # the data are not whole mini-batches
    case, rounds = CopyCase((F(1), F(2)), (F(6),), 1), hadar_rounds.policy_rounds
    monkeypatch.setattr(hadar, "policy_rounds", lambda case, copies: rounds(case, copies)[copies > 2 :])
    assert hadar.more_copies_than_nodes(case) == -1
    monkeypatch.setattr(hadar, "estimates", lambda node, model: (float(node.tflops**model.batch), 1.0))
    assert min(map(hadar.same_order, some_cases("hadar/eq-10-speedups", FEW))) < -EQUAL


# -- the second formulation against the first ------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["hadar/p1-p2-admission", "hadar/thm-2-corrected", "hadar/initial-dual-slots"])
def test_optima_are_those_of_the_checkers(key: str) -> None:
    for case in some_cases(key, FEW):
        assert time_indexed(case) == pytest.approx(float(case.best[0]), abs=EQUAL)
        assert [len(plans_of(case, j)) for j in range(len(case.jobs))] == list(map(len, case.schedules))
        assert sorted(alone(case).values()) == sorted(utilities_alone(case))


def test_prices_and_runs_are_those_of_the_checkers() -> None:
    for case in some_cases("hadar/thm-2-corrected", FEW):
        for mine, theirs in ((printed(case), printed_prices(case)), (corrected(case), proven_prices(case))):
            assert (mine.low, mine.high, mine.gpus, mine.delta) == (theirs.low, theirs.high, theirs.gpus, theirs.delta)
            for used in range(4):
                assert float(mine.price(0, used)) == pytest.approx(float(theirs.price(0, used)), rel=EQUAL)
        assert float(enlarged(mine)) == pytest.approx(float(step_factor(theirs)), rel=EQUAL)
        found = runs_of(case, mine, checked=False)
        for run in runs(case, theirs, check_capacity=False):
            assert run.utility in {own.total for own in found}
