"""Sums of rational multiples of roots, compared exactly, for exponential prices and logarithms.

Every number is a sum ``q_1 m_1 + q_2 m_2 + …`` with rational q and different m, each a product of primes to powers from
0 to below 1. Such m are linearly independent over the rationals (Besicovitch 1940), so a sum is 0 only if it is empty,
and otherwise enclosures that shrink show its sign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, total_ordering

from flint import arb, ctx, fmpq, fmpz

F = Fraction
Monomial = tuple[tuple[int, Fraction], ...]
"""Pairs (prime, exponent between 0 and 1), by prime; empty for 1."""

BITS = (64, 256, 1024, 4096)
"""Precisions in bits for finding a sign; different numbers of this size differ much earlier."""

ENCLOSED = "powers and logarithms are compared in enclosures that exclude equality, or by their primes"
"""Certificate of findings that compare such numbers."""


@total_ordering
@dataclass(frozen=True)
class RadicalSum:
    """A real number: monomial -> rational coefficient, not 0.

    Attributes
    ----------
    terms:
        Pairs, sorted.
    """

    terms: tuple[tuple[Monomial, Fraction], ...]

    @classmethod
    def of(cls, terms: Mapping[Monomial, Fraction]) -> RadicalSum:
        """The sum of these terms."""
        return cls(tuple(sorted((m, q) for m, q in terms.items() if q)))

    @property
    def rational(self) -> Fraction | None:
        """The value if it is rational, else None."""
        if not self.terms:
            return F(0)
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def __add__(self, other: RadicalSum | Fraction | int) -> RadicalSum:
        terms = dict(self.terms)
        for m, q in _as_sum(other).terms:
            terms[m] = terms.get(m, F(0)) + q
        return RadicalSum.of(terms)

    __radd__ = __add__

    def __neg__(self) -> RadicalSum:
        return RadicalSum(tuple((m, -q) for m, q in self.terms))

    def __sub__(self, other: RadicalSum | Fraction | int) -> RadicalSum:
        return self + -_as_sum(other)

    def __rsub__(self, other: Fraction | int) -> RadicalSum:
        return _as_sum(other) + -self

    def __mul__(self, other: RadicalSum | Fraction | int) -> RadicalSum:
        if isinstance(other, (Fraction, int)):
            return RadicalSum.of({m: q * other for m, q in self.terms})
        total = RadicalSum(())
        for m, p in self.terms:
            for n, q in other.terms:
                total += _monomial([*m, *n]) * (p * q)
        return total

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (RadicalSum, Fraction, int)) and self.terms == _as_sum(other).terms

    def __lt__(self, other: RadicalSum | Fraction | int) -> bool:
        return sign(self - other) < 0

    def __hash__(self) -> int:
        return hash(self.terms)

    def __float__(self) -> float:
        return float(self.ball())

    def ball(self) -> arb:
        """An enclosure at the current precision."""
        return sum((_ball(m, ctx.prec) * fmpq(q.numerator, q.denominator) for m, q in self.terms), arb(0))


def _as_sum(value: RadicalSum | Fraction | int) -> RadicalSum:
    return value if isinstance(value, RadicalSum) else RadicalSum.of({(): F(value)})


@cache
def _ball(monomial: Monomial, bits: int) -> arb:  # noqa: ARG001 - keeps the enclosures of all precisions apart
    """An enclosure of the product at ``bits``, the current precision."""
    product = arb(1)
    for prime, e in monomial:
        product *= arb(prime) ** arb(fmpq(e.numerator, e.denominator))
    return product


def _monomial(powers: Iterable[tuple[int, Fraction]]) -> RadicalSum:
    """The product of primes to any powers."""
    exponents: dict[int, Fraction] = {}
    for prime, e in powers:
        exponents[prime] = exponents.get(prime, F(0)) + e
    q = F(1)
    left = []
    for prime, e in sorted(exponents.items()):
        whole = e.numerator // e.denominator
        q *= F(prime) ** whole
        if e != whole:
            left.append((prime, e - whole))
    return RadicalSum(((tuple(left), q),))


@cache
def power(base: Fraction, exponent: Fraction) -> RadicalSum:
    """``base ** exponent`` for a base > 0."""
    primes = [(int(p), exponent * m) for p, m in fmpz(base.numerator).factor()]
    primes += [(int(p), -exponent * m) for p, m in fmpz(base.denominator).factor()]
    return _monomial(primes)


def sign(value: RadicalSum) -> int:
    """-1, 0 or 1."""
    if (known := value.rational) is not None:
        return (known > 0) - (known < 0)
    return enclosed(value.ball)[0]


def enclosed(ball: Callable[[], arb]) -> tuple[int, Fraction]:
    """The sign of a nonzero number, and the number rounded towards 0 to a short fraction of the same sign.

    Parameters
    ----------
    ball:
        Returns an enclosure at the current precision.

    Raises
    ------
    ArithmeticError
        The number cannot be distinguished from 0.
    """
    before = ctx.prec
    try:
        for bits in BITS:
            ctx.prec = bits
            enclosure = ball()
            if enclosure > 0:
                return 1, _short(_fraction(enclosure.lower()))
            if enclosure < 0:
                return -1, -_short(-_fraction(enclosure.upper()))
    finally:
        ctx.prec = before
    raise ArithmeticError("no sign at the highest precision")


def _fraction(end: arb) -> Fraction:
    """An end of an enclosure as a (binary) fraction."""
    mantissa, exponent = end.man_exp()
    return F(int(mantissa)) * F(2) ** int(exponent)


def _short(value: Fraction) -> Fraction:
    """``value`` > 0 rounded down to thousandths; unchanged if that would be 0."""
    return F(int(value * 1000), 1000) or value


def rounded_towards_zero(value: RadicalSum) -> Fraction:
    """A fraction of the same sign: the value if rational, else rounded towards 0 to thousandths."""
    return enclosed(value.ball)[1] if value.rational is None else value.rational


def log(value: Fraction) -> arb:
    """An enclosure of the natural logarithm at the current precision."""
    return arb(fmpq(value.numerator, value.denominator)).log()
