"""The proof of the optima of a linear program, from the duals of their bases."""

from __future__ import annotations

from collections.abc import Sequence

from hetopt.programs.linear import BASIC
from hetopt.solving.rational.derivations import AT_LEAST, Constraint, Derivations, Form
from hetopt.solving.rational.kernel import ZERO, Rational
from hetopt.solving.rational.program import RationalProgram
from hetopt.solving.rational.simplex import Vertex
from hetopt.solving.rational.vipr_file import Proof


def linear_proof(
    program: RationalProgram, optima: Sequence[Vertex], costs: Sequence[Sequence[Rational]], names: Sequence[str]
) -> Proof:
    """The proof that the last of ``optima`` is optimal among the points that keep the earlier ones.

    A later optimum is found on the face of the earlier ones, whose variables with a reduced cost are fixed. In the
    program its own reduced costs of these may have the wrong sign. Multiples of the earlier proof and of the row that
    keeps the earlier optimum correct this, as both together add nothing at the optimum.

    Parameters
    ----------
    program:
        The program; its first rows are those of the vertices, the others hold at the last one.
    optima:
        The optimum of each objective, on the face of the earlier ones.
    costs:
        For each objective its (columns,) coefficients, maximised.
    """
    _, n = optima[0].program.shape
    forms: list[Form] = [{j: -v for j, v in enumerate(cost) if v} for cost in costs]
    derived, proofs = Derivations(program, forms[:-1]), list[dict[int, Rational]]()
    sides: list[dict[int, Rational]] = []
    for k, vertex in enumerate(optima):
        own = {v: -price for v, price in enumerate(vertex.price) if price and vertex.status[v] != BASIC}
        total = dict(own)
        kept = dict[int, Rational]()
        for i in reversed(range(k)):
            factor = max(
                (-v / sides[i][j] for j, v in total.items() if j in sides[i] and v / sides[i][j] < 0), default=ZERO
            )
            if factor:
                for j, v in sides[i].items():
                    total[j] = total.get(j, ZERO) + factor * v
                kept[i] = kept.get(i, ZERO) + factor
                for other, v in proofs[i].items():
                    kept[other] = kept.get(other, ZERO) + factor * v
        sides.append({j: v for j, v in total.items() if v})
        proofs.append(kept)
        terms = {derived.kept[i]: -v for i, v in kept.items()}
        for j, v in sides[k].items():
            at = (derived.lower if v > 0 else derived.upper)[j]
            assert at is not None, "the reduced cost belongs to a bound"
            terms[at] = v
        value = -vertex.objective()
        if k < len(derived.kept):
            derived.keep(derived.kept[k], value)
        derived.objective = forms[k]
        derived.ends.append(derived.add_stated(Constraint(AT_LEAST, value, forms[k]), terms))
    x = list(optima[-1].value[:n])
    return Proof(derived, names, derived.objective, x, -optima[-1].objective())
