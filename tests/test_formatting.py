"""Seconds and bytes as people read them, read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetopt.presentation.formatting import format_bytes, format_seconds

UNITS = {"s": 1.0, "ms": 1 / 1e3, "µs": 1 / 1e6, "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15}


@given(st.floats(1 / 1e6, 1e6))
def test_seconds_keep_four_digits(value: float) -> None:
    number, unit = format_seconds(value).split()
    assert float(number) * UNITS[unit] == pytest.approx(value, rel=0.51 / 1000)
    assert unit == "s" or float(number) < 1000


@given(st.floats(1, 9e17))
def test_bytes_keep_four_digits(value: float) -> None:
    number, unit = format_bytes(value).split()
    assert float(number) * UNITS[unit] == pytest.approx(value, rel=0.51 / 1000)
    assert 1 <= float(number) < 1000
    assert "e" not in number


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        (0, "0 s"),
        (0.03644, "36.44 ms"),
        (0.99996, "1 s"),
        (7.361193, "7.361 s"),
        (86400, "86400 s"),
        (3e300, "3e+300 s"),
    ],
)
def test_seconds(value: float, spelled: str) -> None:
    assert format_seconds(value) == spelled


@pytest.mark.parametrize(
    ("value", "spelled"),
    [(0, "0 B"), (9e6, "9 MB"), (999_960, "1 MB"), (999, "999 B"), (3.5, "3.5 B"), (1e18, "1000 PB")],
)
def test_bytes(value: float, spelled: str) -> None:
    assert format_bytes(value) == spelled
