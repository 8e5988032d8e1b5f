"""Numbers, durations, bytes and columns as people read them, read back."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetopt.data.units import Unit
from hetopt.presentation.formatting import (
    MISSING,
    SPACE,
    column_format,
    format_bytes,
    format_duration,
    format_number,
    format_percent,
)

TIMES = {"d": 86_400.0, "h": 3600.0, "min": 60.0, "s": 1.0, "ms": 1 / 1e3, "µs": 1 / 1e6}
BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15}


def number(text: str) -> float:
    return float(text.replace(SPACE, ""))


@given(st.floats(1 / 1e6, 1e9))
def test_durations_keep_three_digits_in_the_largest_unit(value: float) -> None:
    text, unit = format_duration(value).rsplit(" ", 1)
    assert number(text) * TIMES[unit] == pytest.approx(value, rel=0.51 / 100)
    larger = list(TIMES)[list(TIMES).index(unit) - 1]
    assert number(text) >= 1
    assert unit == "d" or number(text) < TIMES[larger] / TIMES[unit]


@given(st.floats(1, 9e17))
def test_bytes_keep_four_digits(value: float) -> None:
    text, unit = format_bytes(value).split(" ")
    assert number(text) * BYTES[unit] == pytest.approx(value, rel=0.51 / 1000)
    assert 1 <= number(text) < 1000
    assert "e" not in text


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        (0.0, "0 s"), (0.03644, "36.4 ms"), (0.99996, "1 s"), (90.0, "1.5 min"), (7200.0, "2 h"), (86_400.0, "1 d"),
        (200_000.0, "2.31 d"), (nan, MISSING), (inf, "∞"),
    ],
)  # fmt: skip
def test_durations(value: float, spelled: str) -> None:
    assert format_duration(value) == spelled


@pytest.mark.parametrize(
    ("value", "spelled"),
    [(0, "0 B"), (9e6, "9 MB"), (999_960, "1 MB"), (999, "999 B"), (3.5, "3.5 B"), (1e18, "1000 PB")],
)
def test_bytes(value: float, spelled: str) -> None:
    assert format_bytes(value) == spelled


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        (0.0, "0"), (-0.0, "0"), (1.0, "1"), (1.23456, "1.235"), (-2.5, "-2.5"), (12_345.6, f"12{SPACE}346"),
        (1.234 / 1e4, "0.0001234"), (1.234 / 1e5, "1.23e-05"), (nan, MISSING), (-inf, "-∞"), (2e9, "2e+09"),
    ],
)  # fmt: skip
def test_numbers(value: float, spelled: str) -> None:
    assert format_number(value) == spelled
    assert format_percent(0.3) == f"30{SPACE}%"


@given(st.lists(st.floats(-1e8, 1e8), min_size=1, max_size=6), st.sampled_from([Unit.NONE, Unit.SECONDS, Unit.SHARE]))
def test_a_column_has_one_unit_and_equal_decimals(values: list[float], unit: Unit) -> None:
    form = column_format(values, unit)
    texts = [form.format(value) for value in values]
    shown = [text for text in texts if "e" not in text]
    assert len({len(text.partition(".")[2]) for text in shown}) <= 1
    for text, value in zip(texts, values, strict=True):
        half = 0.51 * 10.0 ** -len(text.partition(".")[2])
        assert number(text) == pytest.approx(value / form.size, rel=0.51 / 100 if "e" in text else 0, abs=half)


def test_columns() -> None:
    assert [column_format([12.0, 3.0]).format(v) for v in (12.0, nan)] == ["12", MISSING]
    assert [column_format([99.9994, 1.0]).format(v) for v in (99.9994, -1 / 10**12, inf)] == ["100.00", "0.00", "∞"]
    for values, spelled in (((1.5, 3.75), ["1.500", "3.750"]), ((0.005, 3.75), ["0.005", "3.75"])):
        assert [column_format(values, significant=True).format(v) for v in values] == spelled


@pytest.mark.parametrize(
    ("values", "unit", "name", "shown"),
    [
        ([60.0, 7200.0, 1e6], Unit.SECONDS, "h", ["0.0", "2.0", "277.8"]),
        ([60.0, nan], Unit.SECONDS, "min", ["1", MISSING]),
        ([0.002], Unit.SECONDS, "ms", ["2"]),
        ([0.0], Unit.SECONDS, "s", ["0"]),
        ([0.5, 0.12345], Unit.SHARE, "%", ["50.00", "12.35"]),
        ([5.0], Unit.SPEEDUP_GPUS, "GPUs of speedup 1", ["5"]),
    ],
)
def test_the_unit_of_a_column_suits_its_middle(values: list[float], unit: Unit, name: str, shown: list[str]) -> None:
    form = column_format(values, unit)
    assert (form.name, [form.format(value) for value in values]) == (name, shown)
