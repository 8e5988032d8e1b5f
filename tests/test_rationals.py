"""Floats read as fractions, and fractions of any length as text."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hetopt.auditing.verdict import bundle_text, judged
from hetopt.data.rationals import digits, rational


def test_thirds_are_read_as_thirds() -> None:
    assert rational(0.1 + 0.2) == Fraction(3, 10)
    assert rational(1 / 3) == Fraction(1, 3)
    assert rational(1 / 3 * 0.7) == Fraction(7, 30)
    assert rational(np.pi) == Fraction(np.pi)


def test_fractions_of_any_length_are_printed() -> None:
    """Python refuses to print whole numbers of more than 4,300 digits; exact optima of random data have them."""
    huge = Fraction(7**6000, 2**15000)
    text = digits(huge)
    assert len(text) > 2 * 4300
    top, bottom = text.split("/")
    assert int(top[-9:]) == 7**6000 % 10**9
    assert int(bottom[-9:]) == 2**15000 % 10**9
    assert digits(Fraction(21, 4)) == "21/4"
    assert digits(Fraction(3)) == "3"
    verdict = judged("envy_free", Fraction(7**5000, 2**15000), witness=None)  # type: ignore[arg-type]
    assert repr(verdict).startswith("envy_free holds")
    assert len(verdict.as_dict()["exact_slack"]) > 4300
    assert bundle_text({"V100": huge / 2**1840, "K80": Fraction(1, 3)}).endswith("1/3 K80")
