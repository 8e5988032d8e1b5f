"""The search for counterexamples: it finds what is there, proves it by the finding, and makes it small."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hetopt.proofs.ledger.claim import Finding
from hetopt.proofs.ledger.counterexample_search import draw_counterexample, search_counterexample
from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, integers

F = Fraction
pytestmark = pytest.mark.usefixtures("counted_time")


def numbers(least: int = 2, most: int = 4, values: tuple[F, ...] = integers(1, 30)) -> Space[tuple[F, ...]]:
    return Space({"n": (least, most)}, {"a": TableShape(1, "n", values)}, lambda n: n.row("a"))


def by(slack: F, decided: bool = True) -> Finding:
    return Finding(slack, "", decided=decided)


def test_a_needle_is_found_by_moves_that_lower_the_slack_and_made_the_smallest() -> None:
    """Sums of exactly 97 with four numbers up to 30: none in small grids; the fewest and simplest are wanted."""

    def slack(case: tuple[F, ...]) -> F:
        return abs(sum(case) - 97) - F(1, 2)

    search = search_counterexample(numbers(), slack, lambda case: by(slack(case)), 20)
    assert search.found is not None
    found, finding = search.found
    assert sum(found.row("a")) == 97
    assert len(found.row("a")) == 4
    assert finding.slack == F(-1, 2)


def test_shrinking_drops_what_is_not_needed_and_says_when_nothing_smaller_is_left() -> None:
    """Some number above 6: one is enough, 7 the simplest."""
    space = numbers(1, 4, integers(1, 12))
    search = search_counterexample(space, lambda case: 6 - max(case), lambda case: by(F(6 - max(case))), 20)
    assert search.found is not None
    assert search.found[0] == CaseNumbers({"a": ((F(7),),)})
    assert search.smallest


def test_the_finding_decides_not_the_slack() -> None:
    """The slack is a rough look: it likes everything above 3, the finding only 9; undecided cases do not count."""

    def finding(case: tuple[F, ...]) -> Finding:
        return by(F(-1) if max(case) == 9 else F(1), decided=max(case) != 5)

    search = search_counterexample(numbers(1, 2, integers(1, 9)), lambda case: 3.0 - max(case), finding, 10)
    assert search.found is not None
    assert search.found[0].row("a") == (9,)


def test_cases_outside_the_hypotheses_are_no_counterexamples() -> None:
    space = Space(
        {"n": (1, 2)},
        {"a": TableShape(1, "n", integers(1, 9))},
        lambda n: n.row("a") if sum(n.row("a")) % 2 == 0 else None,
    )
    search = search_counterexample(space, lambda case: 5 - sum(case), lambda case: by(F(5 - sum(case))), 10)
    assert search.found is not None
    assert search.found[0].row("a") == (6,)


def test_of_what_holds_nothing_is_found_in_the_time_and_the_nearest_is_known() -> None:
    search = search_counterexample(numbers(), lambda case: sum(case), lambda case: by(F(sum(case))), 0.5)
    assert search.found is None
    assert search.tried > 100
    assert search.best == (2.0, CaseNumbers({"a": ((F(1), F(1)),)}))


def test_the_same_seed_searches_the_same() -> None:
    def slack(case: tuple[F, ...]) -> F:
        return abs(sum(case) - 61) - F(1, 2)

    runs = [search_counterexample(numbers(), slack, lambda case: by(slack(case)), 20, seed=3).found for _ in range(2)]
    assert runs[0] == runs[1]


def test_drawing_shrinks_a_counterexample() -> None:
    found, tried, _ = draw_counterexample(
        numbers(1, 4), lambda case: 20 - sum(case), lambda case: by(F(20 - sum(case))), 200, 0
    )
    assert found is not None
    assert sum(found[0].row("a")) == 21
    assert tried > 1


def test_drawing_counts_what_it_drew() -> None:
    found, tried, undecided = draw_counterexample(numbers(), lambda _: 1, lambda _: by(F(1)), 50, 0)
    assert undecided == 0
    assert found is None
    assert tried == 50


def test_errors_of_a_claim_are_not_swallowed() -> None:
    def fails(case: tuple[F, ...]) -> F:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        draw_counterexample(numbers(), fails, lambda _: by(F(0)), 5, 0)
    with pytest.raises(ZeroDivisionError):
        search_counterexample(numbers(), fails, lambda _: by(F(0)), 1)
