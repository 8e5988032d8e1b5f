"""Section 4.2.3: the exact condition under which a job moves to another GPU type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from hetopt.data.instance import Instance
from hetopt.data.rationals import number_text
from hetopt.proofs.fft.cost_order import EXACT, LengthPair, in_order, pair_of
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.mechanical import by_sympy
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import CaseNumbers, Hypothesis, Space, TableShape, ValueChooser, hypothesis, rationals

F = Fraction


@dataclass(frozen=True)
class MoveCase:
    """A job with GPUs of two types, and the duration s of a move in rounds."""

    job: LengthPair
    move: Fraction

    @property
    def instance(self) -> Instance:
        """The job on a fast and a slow type."""
        return self.job.instance

    @property
    def gain(self) -> Fraction:
        """The cost on the slow type minus that on the fast type, without moves, by the formula of the claim."""
        few, many = self.job.few, self.job.many
        return (many - few) * (self.job.demand - (self.job.age - self.job.rho) / (few * many))


def moves_by_formula(case: MoveCase) -> Finding:
    """Whether the costs with the move differ as the formula states, in both directions."""
    slow, fast = case.job.cost(case.job.many), case.job.cost(case.job.few)
    up, down = (slow - (fast + case.move) > 0, fast - (slow + case.move) > 0)
    same = (up, down) == (case.move < case.gain, case.move < -case.gain)
    return Finding(F(0) if same else F(-1), f"the costs are {number_text(slow)} and {number_text(fast)}")


@hypothesis("a move takes $s \\ge 0$ rounds")
def nonnegative_move(case: MoveCase) -> bool:
    """Moves cost time."""
    return case.move >= 0


def _some(choose: ValueChooser, _: Mapping[str, int]) -> CaseNumbers:
    few, more = (choose(rationals(1, 4, 2, 3)) for _ in range(2))
    others = {name: choose(table.values) for name, table in MOVES.items() if name != "rounds"}
    return CaseNumbers.of(rounds=[few, few + more], **others)


MOVES = EXACT | {"move": TableShape(1, 1, rationals(0, 8, 2))}
CASES = Space(
    {},
    MOVES,
    lambda numbers: MoveCase(pair_of(numbers), numbers.one("move")),
    _some,
    (
        Hypothesis(in_order.text, lambda case: in_order(case.job)),
        nonnegative_move,
        Hypothesis("both types have enough idle GPUs, and no other job is present"),
    ),
)


def difference() -> str:
    """Check in sympy that the gain of a move to the faster type is (q - p) (d - (a - rho) / (p q)) - s."""
    import sympy

    p, q, d, a, rho, s = sympy.symbols("p q d a rho s", positive=True)
    gain = (a - rho) / q + d * q - ((a - rho) / p + d * p + s)
    expected = (q - p) * (d - (a - rho) / (p * q)) - s
    return "" if sympy.simplify(gain - expected) == 0 else f"it is {sympy.factor(gain)}"


def width() -> str:
    """Check in sympy that the two thresholds of a - rho differ by 2 s p q / (q - p)."""
    import sympy

    p, q, d, s, x = sympy.symbols("p q d s x", positive=True)
    up, down = (sympy.solve(sympy.Eq(sign * (q - p) * (d - x / (p * q)), s), x)[0] for sign in (1, -1))
    return "" if sympy.simplify(down - up - 2 * s * p * q / (q - p)) == 0 else f"it is {sympy.factor(down - up)}"


CLAIMS = (
    Claim(
        key="fft/eq-6-move",
        place="equation (6), section 4.2.3",
        statement=r"Let a job of demand $d$, age $a$ and compensation $\rho$ (in fractions of the job) take $p$ and "
        r"$q > p$ rounds on two types, and let $\Delta = (q - p) \bigl(d - \frac{a - \rho}{p q}\bigr)$. From the "
        r"slower type it moves to the faster one if and only if $s < \Delta$, and from the faster to the slower one if "
        r"and only if $s < -\Delta$ (it may if equal).",
        quote="The design principle aims at discouraging over-frequent switching, which leads to substantial migration "
        "overhead between hosts of diverse device type.",
        procedure=ForAll(CASES, moves_by_formula),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
The cost with $p$ rounds is $(a - \rho)/p + d p$. With $q$ rounds it is larger by $\Delta$, see `fft/eq-3-order`. The
move adds $s$ to the cost of the other type.""",
        mechanical=(
            by_sympy("the gain of a move", difference),
            by_sympy("the difference between both thresholds", width),
        ),
        note=r"So between a move and the move back $a - \rho$ changes by more than $2 s p q / (q - p)$: this is how "
        "$s$ discourages frequent moves. The remaining work does not occur, so that a job that is almost complete may "
        "move.",
    ),
)
