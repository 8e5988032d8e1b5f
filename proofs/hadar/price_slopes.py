"""Lemma 3, and the step from it to Definition 1: from an infinitesimal amount to a whole gang."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from flint import arb

from hetopt.data.instance import Instance
from hetopt.data.rationals import number_text
from hetopt.proofs.hadar.exact_prices import PriceFunction
from hetopt.proofs.hadar.radicals import ENCLOSED, RadicalSum, enclosed, log, sign
from hetopt.proofs.hadar.slot_cases import SlotCase, SlotJob
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.mechanical import by_sympy
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, hypothesis, integers, rationals

F = Fraction


@dataclass(frozen=True)
class PriceRise:
    """A cell whose price rises.

    Attributes
    ----------
    ratio:
        U_max / U_min > 1; U_min is 1.
    gpus, used, step:
        c, g, and the number of GPUs taken next.
    """

    ratio: Fraction
    gpus: int
    used: int
    step: int

    @cached_property
    def prices(self) -> PriceFunction:
        """The price function."""
        return PriceFunction((F(1),), (self.ratio,), (self.gpus,))

    @property
    def instance(self) -> Instance:
        """One job that takes the step, alone."""
        job = SlotJob(self.step, F(1), (F(1),), 0, self.ratio, False)
        return SlotCase((job,), ((self.gpus,),), 1).instance

    def alpha(self) -> arb:
        """Enclosure of ln(U_max / U_min)."""
        return log(self.ratio)


@hypothesis(r"$U_{\max} > U_{\min} > 0$")
def rises(case: PriceRise) -> bool:
    """U_min is 1, so the ratio decides."""
    return case.ratio > 1


@hypothesis("the step takes at least one GPU and fits on the free GPUs of the cell")
def step_fits(case: PriceRise) -> bool:
    """With those in use at most c."""
    return case.used >= 0 and case.step >= 1 and case.used + case.step <= case.gpus


def price_rise_space() -> Space[PriceRise]:
    """Cells of 1 to 6 GPUs."""

    def build(numbers: CaseNumbers) -> PriceRise:
        gpus, used, step = (int(numbers.one(name)) for name in ("gpus", "used", "step"))
        return PriceRise(numbers.one("ratio"), gpus, used, step)

    entries = {
        "ratio": rationals(1, 9, 2, 5)[1:],
        "gpus": integers(1, 6),
        "used": integers(0, 5),
        "step": integers(1, 6),
    }
    tables = {name: TableShape(1, 1, values) for name, values in entries.items()}
    return Space({}, tables, build, hypotheses=(rises, step_fits))


def price_space() -> Space[PriceRise]:
    """Empty cells of 1 to 6 GPUs, whose first GPU is taken."""
    steps = price_rise_space()
    tables = {name: steps.tables[name] for name in ("ratio", "gpus")}
    return Space(
        {},
        tables,
        lambda numbers: PriceRise(numbers.one("ratio"), int(numbers.one("gpus")), 0, 1),
        hypotheses=(rises,),
    )


def between_slopes(case: PriceRise) -> Finding:
    """The differential relation as a limit: k alpha / c lies strictly between the slopes before and after.

    An exponential is convex, so these slopes enclose its derivative for every step, and tend to it.
    """
    price, c, n = case.prices.price, case.gpus, case.step

    def slope(change: RadicalSum) -> arb:
        return case.alpha() * price(0, case.used).ball() - change.ball() * c / n

    after, margin = enclosed(lambda: -slope(price(0, case.used + n) - price(0, case.used)))
    before, other = enclosed(lambda: slope(price(0, case.used) - price(0, case.used - n)))
    words = f"the slopes are at least {number_text(margin)} above and {number_text(other)} below"
    return Finding(min(margin, other) if min(after, before) > 0 else F(-1), words, (ENCLOSED,))


def least_alpha(case: PriceRise) -> Finding:
    """Definition 1 is an equality at (ratio ** s - 1) / s, s = step / c, and that is above ln(ratio)."""
    k, n = case.prices.price(0, case.used), case.step
    alpha = F(case.gpus, n) * (case.prices.growth(0, n) - 1)
    exact = sign(alpha * k * n - case.gpus * (case.prices.price(0, case.used + n) - k)) == 0
    above, margin = enclosed(lambda: alpha.ball() - case.alpha())
    words = f"the least alpha is {float(alpha):.4f}, {number_text(margin)} above ln {number_text(case.ratio)}"
    return Finding(margin if exact and above > 0 else F(-1), words, (ENCLOSED,))


def multiplied_by_each(case: PriceRise) -> Finding:
    """Equation (5): U_min with no GPU in use, U_max with all, and the same factor for each further GPU."""
    prices = [case.prices.price(0, used) for used in range(case.gpus + 1)]
    ends = prices[0] == 1 and prices[-1] == case.ratio
    equal = all(a * c == b * b for a, b, c in zip(prices, prices[1:], prices[2:], strict=False))
    words = f"from {float(prices[0]):g} to {float(prices[-1]):g} in {case.gpus} steps"
    return Finding(F(0) if ends and equal else F(-1), words, ("products of roots are compared exactly",))


# -- what sympy checks -----------------------------------------------------------------------------------------------


def derivative_of_the_price() -> str:
    """The identity k dg = (c / alpha) dk with alpha = ln(U_max / U_min)."""
    import sympy

    g, c, low, high = sympy.symbols("g c low high", positive=True)
    k = low * (high / low) ** (g / c)
    rest = sympy.simplify(k - c / sympy.log(high / low) * sympy.diff(k, g))
    return "" if rest == 0 else f"the difference is {rest}"


def growth_of_the_factor() -> str:
    """(e^{as} - 1) / s has the derivative (1 + e^{as} (as - 1)) / s^2, whose numerator is 0 at 0 and then grows."""
    import sympy

    a, s, x = sympy.symbols("a s x", positive=True)
    numerator = sympy.simplify(sympy.diff((sympy.exp(a * s) - 1) / s, s) * s**2)
    h = 1 + sympy.exp(x) * (x - 1)
    if sympy.simplify(numerator - h.subs(x, a * s)) != 0:
        return f"the numerator is {numerator}"
    if h.subs(x, 0) != 0 or sympy.simplify(sympy.diff(h, x) - x * sympy.exp(x)) != 0:
        return f"its derivative is {sympy.diff(h, x)}"
    limit = sympy.limit((sympy.exp(a * s) - 1) / s, s, 0, "+")
    return "" if limit == a else f"the limit is {limit}"


def exponential() -> str:
    """The ends of the price (5), and the quotient of the prices with g + 1 and g GPUs in use."""
    import sympy

    g, c, low, high = sympy.symbols("g c low high", positive=True)
    k = low * (high / low) ** (g / c)
    ends = sympy.simplify(k.subs(g, 0) - low), sympy.simplify(k.subs(g, c) - high)
    step = sympy.simplify(sympy.log(k.subs(g, g + 1) / k) - sympy.log(high / low) / c)
    return "" if ends == (0, 0) and sympy.simplify(sympy.expand_log(step, force=True)) == 0 else f"{ends}, {step}"


RELATION = r"""
$k(\gamma + s c) / k(\gamma) = e^{as}$, so Definition 1, $k(\gamma)\, s c \ge \frac{c}{\alpha} (k(\gamma + s c) -
k(\gamma))$, means $\alpha \ge f(s) = (e^{as} - 1) / s$. $f'(s) = (1 + e^{as}(as - 1)) / s^2$, whose numerator is 0
at $s = 0$ and has the derivative $a^2 s\, e^{as} > 0$; so $f$ grows, from its limit $a$ at 0 on, and $f(s) > a$ for
every $s > 0$."""

CLAIMS = (
    Claim(
        key="hadar/eq-5",
        place="eq. (5)",
        statement=r"The price (5) is $U_{\min}^r$ with no GPU in use and $U_{\max}^r$ with all, and grows "
        r"exponentially: each further GPU multiplies it by $(U_{\max}^r / U_{\min}^r)^{1 / c_h^r}$.",
        procedure=ForAll(price_space(), multiplied_by_each),
        expected=ClaimVerdict.TRUE,
        policies=("hadar-commit", "hadar"),
        quote="The price increases exponentially with the growing amount of allocated accelerators, so as to filter "
        "out low-utility jobs.",
        proof=r"""
$(U_{\max} / U_{\min})^{\gamma / c}$ is 1 for $\gamma = 0$ and $U_{\max} / U_{\min}$ for $\gamma = c$, and its
quotient for $\gamma + 1$ and $\gamma$ is $(U_{\max} / U_{\min})^{1/c}$.""",
        mechanical=(by_sympy("the ends of the price, and its quotient for one more GPU", exponential),),
    ),
    Claim(
        key="hadar/lemma-3",
        place="Lemma 3",
        statement=r"With $\alpha_h^r = \ln(U_{\max}^r / U_{\min}^r) > 0$ the price (5) keeps the differential "
        r"allocation-cost relation $k_h^r(t)\, d\gamma_h^r(t) \ge \frac{c_h^r}{\alpha_h^r}\, dk_h^r(t)$.",
        procedure=ForAll(price_rise_space(), between_slopes),
        expected=ClaimVerdict.TRUE,
        quote=r"$\alpha_r^r = \ln \frac{U_r^{max}}{U_r^{min}}$ and the price function defined in Eq. (5) satisfies the "
        "differential allocation-cost relationship.",
        proof=r"""
$k = U_{\min} (U_{\max} / U_{\min})^{\gamma / c}$ has $dk / d\gamma = k \ln(U_{\max} / U_{\min}) / c = k \alpha /
c$: an equality.""",
        mechanical=(by_sympy("the derivative of the price", derivative_of_the_price),),
        note=r"Definition 2 requires $\alpha \ge 1$; a larger $\alpha$ keeps the relation, so $\max(1, \cdot)$ does.",
    ),
    Claim(
        key="hadar/step-factor",
        place="proof of Theorem 2",
        statement=r"A step of $s c$ GPUs keeps the allocation-cost relation if and only if $\alpha \ge (e^{as} - 1) / "
        r"s$, $a = \ln(U_{\max} / U_{\min}) > 0$; that grows with $s$ and is above $a$ for every $s > 0$.",
        procedure=ForAll(price_rise_space(), least_alpha),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=RELATION,
        mechanical=(by_sympy("the factor grows from a on", growth_of_the_factor),),
    ),
)
