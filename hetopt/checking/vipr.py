"""A checker of certificates in VIPR's format, version 1.0, with Python's integers and fractions and nothing else.

Cheung, Gleixner, Steffy: Verifying integer programming results, IPCO 2017. Every derived constraint must follow from
earlier ones, and the last one must be the bound, free of assumptions. Nothing is rounded or tolerated. A file may be
malicious: it is read word by word, and numbers and memory are limited.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import IO, NamedTuple, TypeAlias

from hetopt.errors import InvalidCertificate, UnusableFile

Number: TypeAlias = int | Fraction
Form: TypeAlias = Mapping[int, Number]  # variable -> coefficient, none of them 0
SENSE = {"G": 1, "E": 0, "L": -1}
CUTOFF = frozenset([-1])  # assumption of what holds only for solutions as good as the best one
WHOLE, NUMBER = re.compile(r"-?\d{1,18}"), re.compile(r"-?\d+(/0*[1-9]\d*)?|-?\d*\.\d+")
SHORT, KNOWN = 50, 10**5  # numbers of so many characters are read once for all their places, and at most so many
DIGITS, BITS, MEMORY, PIECE = 10**5, 4 * 10**5, 2 * 10**9, 1 << 16  # of a word, of a denominator; bytes: all, at once


class Constraint(NamedTuple):
    """``form >= right`` (sense 1), ``==`` (0) or ``<=`` (-1), under assumptions with these indices."""

    sense: int
    right: Number
    form: Form
    assumed: frozenset[int] = frozenset()

    def dominates(self, other: Constraint) -> bool:
        """Whether it implies ``other`` at once: it is a contradiction, or has the same form and a tighter side."""
        if not self.form and (self.right > 0 if self.sense > 0 else self.right < 0 if self.sense < 0 else self.right):
            return True
        if other.sense == 0 or self.sense not in (0, other.sense):
            return self.sense == other.sense and self.right == other.right and self.form == other.form
        tighter = self.right >= other.right if other.sense > 0 else self.right <= other.right
        return tighter and self.form == other.form


class Problem(NamedTuple):
    """Names of variables, indices of integer ones, whether the objective is maximised, its form, and constraints."""

    names: tuple[str, ...]
    integer: frozenset[int]
    maximise: bool
    objective: Form
    constraints: tuple[Constraint, ...]


class Verified(NamedTuple):
    """What a certificate proves of its problem.

    Bounds on the optimum, None where infinite or if it is infeasible; the best solution without zeros, or None; the
    number of derived constraints; ``kept``: constraint ``<=`` that is assumed -> assumptions that make it an equation.
    """

    problem: Problem
    lower: Number | None
    upper: Number | None
    infeasible: bool
    solution: Form | None
    derived: int
    kept: Mapping[int, frozenset[int]]
    comments: tuple[str, ...]


def verify(path: str | Path, assume: Callable[[Problem], Collection[int]] = lambda _: ()) -> Verified:
    """Verify a certificate; ``assume`` returns indices of constraints of the problem to be taken as assumptions.

    Raises
    ------
    InvalidCertificate, UnusableFile
        It does not prove what it states, is incomplete, is no certificate, or cannot be read.
    """
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(DIGITS)
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return _Checker(file).verified(assume)
    except OSError as problem:
        raise UnusableFile.of(problem, path, "read") from None
    except InvalidCertificate as problem:
        raise problem.in_file(str(path)) from None
    finally:
        sys.set_int_max_str_digits(before)


def _need(holds: object, message: str) -> None:
    if not holds:
        raise InvalidCertificate(message)


class _Words:
    def __init__(self, file: IO[str]) -> None:
        self.file, self.last, self.comments, self.taken = file, "the beginning", list[str](), 0
        self.known: dict[str, Number] = {}
        while (line := file.readline(PIECE)).startswith("%") and len(self.comments) < 1_000:
            self.comments.append(line[1:].strip())
        self.words = self._read(line)

    def _read(self, piece: str) -> Iterator[str]:
        rest = ""
        while piece:
            words = (rest + piece).split()
            rest = "" if piece[-1].isspace() or not words else words.pop()
            _need(max(map(len, [rest, *words[:1]])) <= DIGITS, f"has a word of more than {DIGITS} characters")
            yield from words
            piece = self.file.read(PIECE)
        yield from rest.split()

    def word(self, *expected: str) -> str:
        """The next word, one of ``expected`` if there are any."""
        found = next(self.words, None)
        if found is None:
            raise InvalidCertificate(f"ends early, after {self.last[:40]!r}")
        if expected and found not in expected:
            raise InvalidCertificate(f"has {found[:40]!r} after {self.last[:40]!r} instead of {' or '.join(expected)}")
        self.last, self.taken = found, self.taken + 100 + len(found)
        if self.taken > MEMORY:
            raise InvalidCertificate("takes too much memory")
        return found

    def index(self, least: int = 0, end: int = 10**15) -> int:
        """A whole number from ``least`` to ``end - 1``."""
        before, found = self.last, self.word()
        if WHOLE.fullmatch(found) and least <= (value := int(found)) < end:
            return value
        raise InvalidCertificate(f"has {found[:40]!r} after {before[:40]!r} instead of an index below {end}")

    def number(self, infinite: str = "") -> Number | None:
        """A number such as 3, -5/2 or 0.25; None for the word ``infinite``."""
        before, found = self.last, self.word()
        if found in self.known or found == infinite:
            return self.known.get(found)
        if not NUMBER.fullmatch(found):
            raise InvalidCertificate(f"has {found[:40]!r} after {before[:40]!r} instead of a number such as -5/2")
        over, _, under = found.partition("/")
        value = Fraction(int(over), int(under)) if under else Fraction(found) if "." in found else int(found)
        value = int(value) if value.denominator == 1 else value
        if len(found) <= SHORT and len(self.known) < KNOWN:
            self.known[found] = value
        return value

    def computed(self, value: Number) -> Number:
        """A number that is not in the file, whose memory counts, too; long denominators also take long to add."""
        bits = value.denominator.bit_length()
        self.taken += (bits + value.numerator.bit_length()) // 8
        _need(bits <= BITS and self.taken <= MEMORY, "has numbers whose sums take too much memory")
        return value


class _Checker:
    def __init__(self, file: IO[str]) -> None:
        self.words, self.live = _Words(file), dict[int, Constraint]()
        self.best: Number | None = None

    def verified(self, assume: Callable[[Problem], Collection[int]]) -> Verified:
        words, word, index = self.words, self.words.word, self.words.index
        for fixed in ("VER", "1.0", "VAR"):
            word(fixed)
        names = tuple(word() for _ in range(index()))
        self.variables = len(names)
        _need(len(set(names)) == len(names), "gives two variables the same name")
        word("INT")
        self.integer = frozenset(index(0, self.variables) for _ in range(index()))
        word("OBJ")
        self.way = 1 if word("min", "max") == "min" else -1
        self.objective: Form = self._pairs(index())
        word("CON")
        stated, bounds = index(), index()
        for i in range(stated):
            self.live[i] = self._constraint()
            _need(i >= bounds or len(self.live[i].form) == 1, f"counts constraint {i} among the {bounds} bounds")
        problem = Problem(names, self.integer, self.way < 0, self.objective, tuple(self.live.values()))
        self.assumed = frozenset(assume(problem))
        self.live |= {i: self.live[i]._replace(assumed=frozenset([i])) for i in self.assumed}
        word("RTP")
        infeasible, solution = word("infeas", "range") == "infeas", None
        lower, upper = (None, None) if infeasible else (words.number("-inf"), words.number("inf"))
        word("SOL")
        for _ in range(index()):
            word()
            x = self._pairs(index())
            value = self._value_of(x, problem.constraints)
            if self.best is None or (value - self.best) * self.way < 0:
                self.best, solution = value, x
        _need(not infeasible or solution is None, "states a solution of a problem that it calls infeasible")
        reach, bound = (upper, lower) if self.way > 0 else (lower, upper)
        reached = reach is None or (self.best is not None and (self.best - reach) * self.way <= 0)
        _need(reached, "has no solution as good as it states")
        word("DER")
        last, kept = self._derived(number := index(), stated)
        _need(next(words.words, None) is None, f"goes on after its {number} derived constraints")
        if infeasible or bound is not None:
            goal = Constraint(1, 1, {}) if bound is None else Constraint(self.way, bound, self.objective)
            _need(last and last.dominates(goal), "does not end with the bound that it states")
            _need(last and last.assumed <= self.assumed | CUTOFF, "ends with a constraint that rests on assumptions")
        return Verified(problem, lower, upper, infeasible, solution, number, kept, tuple(words.comments))

    def _pairs(self, number: int) -> dict[int, Number]:
        pairs: dict[int, Number] = {}
        for _ in range(number):
            j = self.words.index(0, self.variables)
            _need(j not in pairs, "has a variable twice in a form")
            pairs[j] = self.words.number() or 0
        return {j: v for j, v in pairs.items() if v}

    def _constraint(self) -> Constraint:
        self.words.word()
        sense, right = SENSE[self.words.word("L", "E", "G")], self.words.number() or 0
        if (length := self.words.word()) == "OBJ":
            return Constraint(sense, right, self.objective)
        _need(WHOLE.fullmatch(length) and length[0] != "-", f"has {length[:40]!r} instead of a number of variables")
        return Constraint(sense, right, self._pairs(int(length)))

    def _value_of(self, x: Form, constraints: tuple[Constraint, ...]) -> Number:
        """The objective of a solution, after a check that it is one."""
        _need(all(v == int(v) for j, v in x.items() if j in self.integer), "has a solution that is not whole")
        for i, (sense, right, form, _) in enumerate(constraints):
            over = self._dot(form, x) - right
            _need(over * sense >= 0 if sense else not over, f"has a solution that violates constraint {i}")
        return self._dot(self.objective, x)

    def _dot(self, form: Form, x: Form) -> Number:
        total: Number = 0
        for j in form.keys() & x.keys():
            total = self.words.computed(total + form[j] * x[j])
        return total

    def _derived(self, number: int, stated: int) -> tuple[Constraint | None, dict[int, frozenset[int]]]:
        """Check all derived constraints; return the last one, and the assumed rows that are equations."""
        ending, sizes, last = defaultdict[int, list[int]](list), dict[int, int](), None
        kept = dict[int, frozenset[int]]()
        for i in range(stated, stated + number):
            before, claim, after = self.words.taken, self._constraint(), self.words.taken
            self.words.word("{")
            last = self.live[i] = claim._replace(assumed=self._reason(i, claim))
            self.words.word("}")
            self.words.taken = after + 100 * len(last.assumed)  # the reason is not kept
            sizes[i] = self.words.taken - before
            for row in self.assumed if last.form and last.assumed <= self.assumed else ():
                if last.dominates(self.live[row]._replace(sense=1)) and last.assumed <= kept.get(row, self.assumed):
                    kept[row] = last.assumed
            ending[self.words.index(-1)].append(i)
            for old in ending.pop(i, ()):
                self.words.taken -= sizes.pop(old)
                del self.live[old]
        return last, kept

    def _reason(self, i: int, claim: Constraint) -> frozenset[int]:
        """The assumptions of derived constraint ``i``, after a check of its reason."""
        why, known = self.words.word("asm", "sol", "lin", "rnd", "uns"), claim
        if why in ("asm", "uns"):
            return frozenset([i]) if why == "asm" else self._unsplit(i, claim)
        if why == "sol":
            _need(self.best is not None, f"derives constraint {i} from a solution, but has none")
            known = Constraint(-self.way, self.best or 0, self.objective, CUTOFF)
        else:
            known = self._combination()
        if why == "rnd":
            _need(known.sense and self._whole(known.form), f"rounds constraint {i}, which is not whole everywhere")
            known = known._replace(right=-(-known.right // 1) if known.sense > 0 else known.right // 1)
        _need(known.dominates(claim), f"has constraint {i}, which does not follow from its reason")
        return known.assumed

    def _whole(self, form: Form) -> bool:
        return all(j in self.integer and v == int(v) for j, v in form.items())

    def _used(self) -> tuple[int, Constraint]:
        i = self.words.index()
        _need(i in self.live, f"refers to constraint {i}, which is not there")
        return i, self.live[i]

    def _combination(self) -> Constraint:
        sense, form, assumed, computed = 0, dict[int, Number](), frozenset[int](), self.words.computed
        right: Number = 0
        for _ in range(self.words.index()):
            (i, own), factor = self._used(), self.words.number() or 0
            way = own.sense if factor > 0 else -own.sense if factor else 0
            _need(way * sense >= 0, f"adds constraint {i} to others of the opposite direction")
            sense, right, assumed = sense or way, computed(right + factor * own.right), assumed | own.assumed
            for j, v in own.form.items() if factor else ():
                form[j] = computed(form.get(j, 0) + factor * v)
        return Constraint(sense, right, {j: v for j, v in form.items() if v}, assumed)

    def _unsplit(self, i: int, claim: Constraint) -> frozenset[int]:
        (_, first), (a, below), (_, second), (b, above) = (self._used() for _ in range(4))
        _need(first.dominates(claim) and second.dominates(claim), f"has constraint {i}, which one side does not imply")
        low, high = sorted([below, above], key=lambda side: side.sense)
        opposite = (low.sense, high.sense, low.form, low.right + 1) == (-1, 1, high.form, high.right)
        whole = self._whole(low.form) and low.right == int(low.right)
        _need(whole and opposite, f"splits at constraint {i} into two sides that leave something out")
        return (first.assumed - {a}) | (second.assumed - {b})
