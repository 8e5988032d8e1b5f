"""Certificates as files in VIPR's format, version 1.0, which its authors' checker and others read.

Cheung, Gleixner, Steffy: Verifying integer programming results, IPCO 2017. The objective is minimised: it is the
program's with the opposite sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hetopt.data.saving import save
from hetopt.errors import InvalidFormulation
from hetopt.programs.encoded_names import mps_name
from hetopt.solving.rational.derivations import LETTER, Constraint, Derivations, Form
from hetopt.solving.rational.kernel import Rational

LONGEST = 10_000
"""Most characters of a line of comments."""


@dataclass(frozen=True, eq=False)
class Proof:
    """The proof of an optimum, or that there is no solution.

    Attributes
    ----------
    derived:
        The constraints of the program, and those derived from them.
    names:
        (columns,) names.
    objective:
        The objective, minimised.
    x:
        (columns,) an optimal solution, None if there is no solution.
    value:
        The least objective.
    """

    derived: Derivations
    names: Sequence[str]
    objective: Form
    x: Sequence[Rational] | None
    value: Rational

    def write(self, path: str | Path, comments: Mapping[str, str] | None = None, *, overwrite: bool = False) -> None:
        """Write :meth:`lines` to a file.

        Raises
        ------
        UnusableFile
            The file exists and ``overwrite`` is False, or it cannot be written.
        """
        save("".join(f"{line}\n" for line in self.lines(comments or {})), path, overwrite=overwrite)

    def lines(self, comments: Mapping[str, str]) -> Iterator[str]:
        """The lines of the file; ``comments``: key -> text, on lines ``% key: text`` at the beginning."""
        derived, objective = self.derived, self.objective
        names = list(map(mps_name, self.names))
        if len(set(names)) < len(names) or "" in names:
            raise InvalidFormulation("a file of a proof needs columns with different names that are not empty")
        for key, text in comments.items():
            line = " ".join(f"% {key}: {text}".split())
            yield line.encode("ascii", "backslashreplace").decode()[:LONGEST]
        yield "VER 1.0"
        yield f"VAR {len(names)}"
        yield from names
        integer = [str(j) for j, whole in enumerate(derived.program.integer) if whole]
        yield f"INT {len(integer)}"
        yield " ".join(integer)
        yield "OBJ min"
        yield _form(objective)
        yield f"CON {derived.stated} {derived.bounds}"
        for i, constraint in enumerate(derived.constraints[: derived.stated]):
            yield f"C{i} {_text(constraint, objective)}"
        if self.x is None:
            yield from ("RTP infeas", "SOL 0")
        else:
            yield from (f"RTP range {self.value} {self.value}", "SOL 1")
            yield f"best {_form({j: v for j, v in enumerate(self.x) if v})}"
        needed = derived.needed()
        yield f"DER {len(needed)}"
        for i, (constraint, reason, last_use) in enumerate(needed, derived.stated):
            yield f"C{i} {_text(constraint, objective)} {{ {reason} }} {last_use}"


def _text(constraint: Constraint, objective: Form) -> str:
    form = "OBJ" if constraint.form is objective else _form(constraint.form)
    return f"{LETTER[constraint.sense]} {constraint.right} {form}"


def _form(form: Form) -> str:
    return " ".join([str(len(form)), *(f"{j} {v}" for j, v in form.items())])
