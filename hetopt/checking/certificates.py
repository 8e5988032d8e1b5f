"""Whether a certificate holds, and whether its problem is the program of a formulation for an instance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from hetopt.checking.vipr import Constraint, Form, Number, Problem, Verified, verify
from hetopt.checks import counted, expect
from hetopt.data.instance import Instance
from hetopt.data.rationals import digits, exact_texts, number_text
from hetopt.errors import InvalidCertificate, UnusableFile
from hetopt.formulations.exporting import formulation_and_data
from hetopt.formulations.formulation import Formulation
from hetopt.formulations.policies import Policy
from hetopt.programs.compiled import Compiled
from hetopt.programs.encoded_names import mps_name
from hetopt.programs.linear import LinearProgram
from hetopt.solving.exact import CompiledData, ExactData
from hetopt.solving.rational.kernel import Rational
from hetopt.solving.rational.program import RationalProgram, fraction
from hetopt.solving.rational.vipr_file import LONGEST

MOST_COMMENTS = 100
"""Comments that are read for the source of a certificate."""


@dataclass(frozen=True, eq=False)
class Checked:
    """What a certificate proves.

    Attributes
    ----------
    verified:
        Its problem, the bounds that are proven, and the best solution.
    optima:
        Proven optima of the program's objectives, in order; None if the certificate was checked without a program.
    """

    verified: Verified
    optima: tuple[Fraction, ...] | None = None

    @property
    def proven(self) -> bool:
        """Whether the optimum is proven (or that there is no solution), and not only a bound."""
        own = self.verified
        return own.infeasible or (own.lower is not None and own.lower == own.upper)

    def as_dict(self) -> dict[str, Any]:
        """JSON types; fractions as text."""
        own = self.verified
        return {
            "proven": self.proven,
            "infeasible": own.infeasible,
            "lower": None if own.lower is None else digits(Fraction(own.lower)),
            "upper": None if own.upper is None else digits(Fraction(own.upper)),
            "variables": len(own.problem.names),
            "constraints": len(own.problem.constraints),
            "steps": own.derived,
            "optima": None if self.optima is None else list(map(digits, self.optima)),
        }

    def __str__(self) -> str:
        own, problem = self.verified, self.verified.problem
        size = f"{counted(len(problem.names), 'variable')}, {counted(len(problem.constraints), 'constraint')}"
        goal = "maximum" if problem.maximise else "minimum"
        if own.infeasible:
            what = "the problem has no solution"
        elif self.proven:
            what = f"the {goal} is {exact_texts([Fraction(own.lower or 0)])}"
        else:
            low = "-inf" if own.lower is None else exact_texts([Fraction(own.lower)])
            high = "inf" if own.upper is None else exact_texts([Fraction(own.upper)])
            what = f"the {goal} is between {low} and {high}"
        return f"{what} ({size}, {counted(own.derived, 'step')})"


def check(
    path: str | Path,
    what: LinearProgram | Formulation | Policy | None = None,
    instance: Instance | None = None,
    *,
    state: Any = None,
) -> Checked:
    """Check a certificate in VIPR's format, with a checker that shares no code with the solvers.

    Parameters
    ----------
    path:
        The file.
    what:
        A program, or a formulation or a policy together with ``instance``: the problem of the certificate must be this
        program, with each number read as the simple fraction that it rounds. None: any problem.
    state:
        State of the policy after the previous round; None: the first round.

    Raises
    ------
    InvalidCertificate
        It does not prove what it states, is incomplete or no certificate, or has another problem than that.
    InvalidOption
        A formulation without an instance, or a policy without a program.
    NotLinear
        A component of the formulation is concave.
    UnusableFile
        It cannot be read.

    Examples
    --------
    >>> import hetopt, tempfile, pathlib
    >>> from hetopt.models import oef
    >>> inst = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    >>> a = hetopt.solve(oef.cooperative(), inst, exact=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "oef.vipr")
    ...     a.certificate.write(file)
    ...     found = hetopt.check(file, oef.cooperative(), inst)
    >>> found.optima
    (Fraction(21, 4),)
    """
    stated = None if what is None else _stated(what, instance, state)
    if stated is None:
        return Checked(verify(path))
    kept = list[int]()

    def compare(problem: Problem) -> list[int]:
        kept.extend(_compared(problem, stated))
        return kept

    verified = verify(path, compare)
    try:
        return Checked(verified, _optima(verified, kept, stated))
    except InvalidCertificate as problem:
        raise problem.in_file(str(path)) from None


def source_of(path: str | Path) -> dict[str, str]:
    """What the first comments of a certificate say of its source: key -> text.

    Raises
    ------
    InvalidCertificate
        Something else than comments and the version comes first.
    UnusableFile
        The file cannot be read.
    """
    found, line = {}, ""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            for _ in range(MOST_COMMENTS):
                if not (line := file.readline(LONGEST + 1)).startswith("%"):
                    break
                key, _, text = line[1:].partition(":")
                found[key.strip()] = text.strip()
    except OSError as problem:
        raise UnusableFile.of(problem, path, "read") from None
    if not line or (line.strip() and not line.lstrip().startswith(("%", "VER"))):
        raise InvalidCertificate("is no certificate in VIPR's format: it does not begin with VER").in_file(str(path))
    return found


@dataclass(frozen=True, eq=False)
class _Program:
    """A program: objectives (maximised in order, each with its constant), and constraints, over named variables."""

    names: list[str]
    integer: list[bool]
    objectives: list[dict[int, Number]]
    offsets: list[Fraction]
    constraints: list[Constraint]


def _stated(what: LinearProgram | Formulation | Policy, instance: Instance | None, state: Any) -> _Program:
    """The program in fractions."""
    if isinstance(what, LinearProgram):
        program, known = what, ExactData()
    else:
        formulation, data = formulation_and_data(what, instance, state)
        compiled = Compiled(formulation, formulation.entities(expect(Instance, data, "instance")), lazy=False)
        program, known = compiled.linear(), CompiledData(compiled, None)
    rational = RationalProgram.of(program, known.rows(program.row_names))
    n = program.shape[1]
    constraints = list[Constraint]()
    for v, (low, high) in enumerate(zip(rational.lower, rational.upper, strict=True)):
        form = {v: 1} if v < n else {j: _number(a) for j, a in rational.by_row[v - n]}
        if v >= n and low is not None and low == high:
            constraints.append(Constraint(0, _number(low), form))
            continue
        constraints += [Constraint(sense, _number(b), form) for sense, b in ((1, low), (-1, high)) if b is not None]
    return _Program(
        names=[mps_name(name) for name in program.col_names],
        integer=rational.integer,
        objectives=[{j: _number(v) for j, v in enumerate(known.cost(one)) if v} for one in program.objectives],
        offsets=[known.offset(one) for one in program.objectives],
        constraints=constraints,
    )


def _number(value: Rational) -> Number:
    found = fraction(value)
    return found.numerator if found.denominator == 1 else found


def _compared(found: Problem, program: _Program) -> list[int]:
    """Indices of the rows that keep earlier objectives, after a check that the rest is the program."""
    place = {name: j for j, name in enumerate(program.names)}
    _need_same(set(found.names), set(place), "variable")
    column = [place[name] for name in found.names]

    def over_program(form: Form, sign: int = 1) -> dict[int, Number]:
        return {column[j]: sign * v for j, v in form.items()}

    whole = {program.names[j] for j, own in enumerate(program.integer) if own}
    _need_same({found.names[j] for j in found.integer}, whole, "integer variable")
    *earlier, last = program.objectives
    if over_program(found.objective, 1 if found.maximise else -1) != last:
        raise InvalidCertificate("has another objective than the program")
    left, kept = Counter(map(_key, program.constraints)), dict[int, int]()
    for i, (sense, right, form, _) in enumerate(found.constraints):
        own = Constraint(sense, right, over_program(form))
        if left[key := _key(own)]:
            left[key] -= 1
            continue
        at = next((k for k, one in enumerate(earlier) if k not in kept and over_program(form, -1) == one), None)
        if at is None or sense >= 0:
            raise InvalidCertificate(f"has a constraint that the program lacks: {_text(own, program.names)}")
        kept[at] = i
    if lost := next((one for one in program.constraints if left[_key(one)]), None):
        raise InvalidCertificate(f"lacks a constraint of the program: {_text(lost, program.names)}")
    return [at for _, at in sorted(kept.items())]


def _optima(found: Verified, kept: Sequence[int], program: _Program) -> tuple[Fraction, ...]:
    """The optima of the objectives, each of which may rest only on those before it being kept."""
    if found.infeasible and kept:
        raise InvalidCertificate("proves that no solution keeps the earlier objectives, not that there is none")
    if found.infeasible:
        return ()
    if len(kept) < len(program.objectives) - 1:
        raise InvalidCertificate(f"keeps {len(kept)} of the program's {len(program.objectives) - 1} earlier objectives")
    values = list[Number]()
    for k, row in enumerate(kept):
        _, right, form, _ = found.problem.constraints[row]
        value = -right
        trivial = not form and not right
        if not trivial and not found.kept.get(row, frozenset([-1])) <= set(kept[: k + 1]):
            text = number_text(Fraction(value))
            raise InvalidCertificate(f"does not prove that {text} is optimal for objective {k + 1}")
        values.append(value)
    if found.lower is None or found.lower != found.upper:
        raise InvalidCertificate("proves no optimum of the program, only bounds")
    values.append(found.lower if found.problem.maximise else -found.lower)
    return tuple(Fraction(v) + offset for v, offset in zip(values, program.offsets, strict=True))


def _need_same(found: set[str], wanted: set[str], what: str) -> None:
    if more := sorted(found - wanted):
        raise InvalidCertificate(f"has the {what} {more[0]!r}, which the program lacks")
    if fewer := sorted(wanted - found):
        raise InvalidCertificate(f"lacks the {what} {fewer[0]!r} of the program")


def _key(constraint: Constraint) -> tuple[int, int, int, frozenset[tuple[int, int, int]]]:
    """Equal for equal constraints; of integers, as fractions take long to hash."""
    sense, right, form, _ = constraint
    entries = frozenset([(j, v.numerator, v.denominator) for j, v in form.items()])
    return sense, right.numerator, right.denominator, entries


def _text(constraint: Constraint, names: Sequence[str], most: int = 3) -> str:
    """A constraint, of which the first few variables are named."""
    parts = [f"{number_text(Fraction(v))} {names[j]}" for j, v in list(constraint.form.items())[:most]]
    more = " + …" if len(constraint.form) > most else ""
    sense = {1: ">=", 0: "==", -1: "<="}[constraint.sense]
    return f"{' + '.join(parts)}{more} {sense} {number_text(Fraction(constraint.right))}"
