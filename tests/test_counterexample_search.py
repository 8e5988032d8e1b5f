"""The search for counterexamples: it finds what is there, proves it by the finding, and makes it small."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_smaller_shapes_are_searched_after_the_first_counterexample() -> None:
    """Numbers in a row of three are found at once; the only pair, (30, 29), has to be searched for afterwards."""

    def slack(case: tuple[F, ...]) -> F:
        return F(-1) if len(case) > 2 or case == (30, 29) else F(1 + abs(case[0] - 30) + abs(case[1] - 29))

    class OnlyLarger(Space[tuple[F, ...]]):
        def smaller(self, numbers: CaseNumbers) -> Iterator[CaseNumbers]:
            return iter(())  # shrinking drops no row

    every = numbers(2, 3)
    space = OnlyLarger(every.sizes, every.tables, every.build)
    found = search_counterexample(space, slack, lambda case: by(slack(case)), 60).found
    assert found is not None
    assert found[0].row("a") == (30, 29)


def test_a_screen_estimates_many_cases_and_the_finding_decides() -> None:
    """The screen likes all sums below 9; only (1, 1, 5) is a counterexample, whatever the exact slack says."""
    blocks = []

    def screen(cases: Sequence[tuple[F, ...]]) -> list[float]:
        blocks.append(len(cases))
        return [float(sum(case)) - 9 for case in cases]

    def finding(case: tuple[F, ...]) -> Finding:
        return by(F(-1) if case == (1, 1, 5) else F(1))

    def never(case: tuple[F, ...]) -> F:
        raise AssertionError("the screen takes the place of the slack")

    found = search_counterexample(numbers(2, 3, integers(1, 6)), never, finding, 20, screen=screen).found
    assert found is not None
    assert found[0].row("a") == (1, 1, 5)
    assert max(blocks) > 20


def test_a_screen_that_misses_smaller_counterexamples_does_not_prove_that_there_are_none() -> None:
    """Numbers from 3 on refute; the screen does not see those below 6."""

    def screen(cases: Sequence[tuple[F, ...]]) -> list[float]:
        return [5.0 - max(case) for case in cases]

    space = numbers(1, 2, integers(1, 12))
    search = search_counterexample(space, lambda _: F(1), lambda case: by(F(2 - max(case))), 20, screen=screen)
    assert search.found is not None
    assert search.smallest
    assert search.found[0].row("a") == (3,)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 4))
def test_structured_draws_have_the_shape_and_the_values(seed: int, n: int, k: int) -> None:
    values = integers(1, 7)
    space = Space({"n": (1, 4), "k": (1, 4)}, {"a": TableShape("n", "k", values)}, lambda numbers: numbers["a"])
    for drawn in space.structured({"n": n, "k": k}, 20, Random(seed)):
        assert len(drawn["a"]) == n
        assert {len(row) for row in drawn["a"]} == {k}
        assert all(v in values for row in drawn["a"] for v in row)


def test_structured_draws_have_what_independent_ones_rarely_have() -> None:
    """Of four rows of four in 1 to 30: sorted rows, rows that are close to each other, a column of the least value."""
    space = Space({"n": (4, 4)}, {"a": TableShape("n", 4, integers(1, 30))}, lambda numbers: numbers["a"])
    drawn = [one["a"] for one in space.structured({"n": 4}, 400, Random(0))]
    wanted = {
        "rising": lambda a: all(list(row) == sorted(row) for row in a),
        "close": lambda a: all(max(column) - min(column) <= 2 for column in zip(*a, strict=True)),
        "scarce": lambda a: any(set(column) == {1} for column in zip(*a, strict=True)),
        "far apart": lambda a: {v for row in a for v in row} <= {1, 2, 29, 30},
    }
    for name, holds in wanted.items():
        assert sum(map(holds, drawn)) >= 20, name


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
        numbers(1, 4), lambda case: 70 - sum(case), lambda case: by(F(70 - sum(case))), 200, 0
    )
    assert found is not None
    assert sum(found[0].row("a")) == 71
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
