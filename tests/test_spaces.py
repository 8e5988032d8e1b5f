"""Spaces of cases: drawing, enumerating, moving, shrinking, keeping."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, complexity, integers, rationals

F = Fraction


def plain(numbers: CaseNumbers) -> CaseNumbers:
    return numbers


SPACE = Space(
    {"n": (1, 2), "k": (2, 3)},
    {"w": TableShape("n", "k-1", integers(1, 3)), "m": TableShape(1, "k", rationals(1, 2, 2))},
    plain,
)
NUMBERS = CaseNumbers({"w": ((F(1), F(3)), (F(2), F(2))), "m": ((F(1), F(3, 2), F(2)),)})


def test_values() -> None:
    assert integers(2, 4) == (2, 3, 4)
    assert rationals(0, 1, 2, 3) == (0, F(1, 3), F(1, 2), F(2, 3), 1)
    assert TableShape(1, 1, rationals(0, 2, 2)).simplest_first == [0, 1, 2, F(1, 2), F(3, 2)]


def test_shapes_begin_with_the_fewest_entries() -> None:
    assert SPACE.shapes() == [{"n": 1, "k": 2}, {"n": 2, "k": 2}, {"n": 1, "k": 3}, {"n": 2, "k": 3}]
    assert [SPACE.entries(s) for s in SPACE.shapes()] == [3, 4, 5, 7]


def test_a_level_holds_all_numbers_of_the_simplest_values() -> None:
    found = list(SPACE.level({"n": 1, "k": 2}, 2, 100, random.Random(0)))
    assert len(found) == 8
    assert {(n["w"], n["m"]) for n in found} == {(((a,),), ((b, c),)) for a, b, c in product((F(1), F(2)), repeat=3)}
    assert len(list(SPACE.level({"n": 2, "k": 3}, 3, 50, random.Random(0)))) == 50


@given(SPACE.strategy())
def test_what_is_drawn_has_the_sizes_and_values_asked_for(drawn: tuple[CaseNumbers, CaseNumbers]) -> None:
    numbers, case = drawn
    assert numbers == case
    n, k = len(numbers["w"]), len(numbers["m"][0])
    assert (n, k) in {(1, 2), (1, 3), (2, 2), (2, 3)}
    assert all(len(row) == k - 1 for row in numbers["w"])
    assert {v for row in numbers["w"] for v in row} <= set(integers(1, 3))
    assert CaseNumbers.read(numbers.as_dict()) == numbers
    assert SPACE.size_of(numbers, "n") == n
    assert SPACE.size_of(numbers, "k") == k


def test_only_what_meets_the_hypotheses_is_drawn() -> None:
    space = Space(
        {"n": (1, 3)},
        {"w": TableShape(1, "n", integers(0, 3))},
        lambda numbers: numbers if sum(numbers.row("w")) == 3 else None,
    )

    @given(space.strategy())
    @settings(max_examples=50)
    def look(drawn: tuple[CaseNumbers, CaseNumbers]) -> None:
        assert sum(drawn[0].row("w")) == 3

    look()


def test_numbers_that_are_chosen_are_drawn_and_sampled() -> None:
    space = Space(
        {"n": (2, 2)},
        {"w": TableShape(1, "n", integers(0, 9))},
        lambda numbers: numbers if numbers.row("w")[1] == 7 * numbers.row("w")[0] > 0 else None,
        lambda choose, _: CaseNumbers({"w": ((v := choose(integers(1, 5)), 7 * v),)}),
    )
    sampled = [n for n in space.level({"n": 2}, 10, 10, random.Random(1)) if space.build(n)]
    assert len(sampled) >= 5

    @given(space.strategy())
    @settings(max_examples=20)
    def look(drawn: tuple[CaseNumbers, CaseNumbers]) -> None:
        assert drawn[0].row("w")[1] == 7 * drawn[0].row("w")[0]

    look()


def test_neighbours_differ_in_one_entry_by_a_step_or_two() -> None:
    found = list(SPACE.neighbours(NUMBERS))
    assert found
    for other in found:
        changed = [
            (a, b)
            for name in NUMBERS.tables
            for left, right in zip(NUMBERS[name], other[name], strict=True)
            for a, b in zip(left, right, strict=True)
            if a != b
        ]
        assert len(changed) == 1
    assert NUMBERS.replaced("w", 0, 0, F(2)) in found


def test_smaller_drops_rows_and_columns_of_all_tables_at_once() -> None:
    found = list(SPACE.smaller(NUMBERS))
    assert CaseNumbers({"w": ((F(2), F(2)),), "m": NUMBERS["m"]}) in found
    assert CaseNumbers({"w": ((F(3),), (F(2),)), "m": ((F(1), F(2)),)}) in found
    assert all(len(n["m"][0]) == len(n["w"][0]) + 1 for n in found)
    assert NUMBERS.replaced("m", 0, 1, F(1)) in found
    assert all(SPACE.weight(other) < SPACE.weight(NUMBERS) for other in found)


def test_lighter_are_all_of_a_smaller_sum() -> None:
    """Oracle: every combination, summed."""
    sizes, total = {"n": 1, "k": 3}, 8
    entries = [integers(1, 3)] * 2 + [rationals(1, 2, 2)] * 3
    expected = [c for c in product(*entries) if sum(map(complexity, c)) < total]
    found = list(SPACE.lighter(sizes, total))
    assert SPACE.count_lighter(sizes, total) == len(expected) == len(found) == len({n.key() for n in found})
    sums = [SPACE.weight(n)[1] for n in found]
    assert sums == sorted(sums)
    assert {(*n["w"][0], *n["m"][0]) for n in found} == set(expected)


def test_a_size_that_no_table_has() -> None:
    with pytest.raises(KeyError, match="no table has the size 'x'"):
        SPACE.size_of(NUMBERS, "x")


@given(st.integers(0, 10**6))
def test_randomly_changed_numbers_keep_their_shape(seed: int) -> None:
    other = SPACE.randomly_changed(NUMBERS, 3, random.Random(seed))
    assert [len(row) for row in other["w"]] == [2, 2]
    assert len(other["m"][0]) == 3
