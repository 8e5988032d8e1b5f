"""Theorems of the ledger that Coq's kernel checks: which claims they state, their text, and how to check them.

A file of ``proofs/coq`` names the keys of the claims in the comment above each theorem::

    (* Claim oef/thm-5.1-sharing: cooperative OEF gives each user at least its share of the cluster. *)
    Theorem cooperative_sharing pi w x : weights n pi -> nonneg n k w -> cooperative n k m pi w x -> ...

A theorem that states a part of a claim says which: ``Claim asrpt/srpt (1 of 2)``. Above a theorem that states that a
claim does not hold, the comment begins with ``Refutes``. ``Example cooperative_sharing_met`` below it proves that the
hypotheses can be met. Coq itself forms that statement from the theorem, see ``Hypotheses.v``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hetopt.errors import InvalidOption, UnusableFile

LIBRARY = "Hetopt"
"""Logical name of the folder in Coq."""

AXIOMS = frozenset(
    {
        "ClassicalDedekindReals.sig_forall_dec",
        "ClassicalDedekindReals.sig_not_dec",
        "FunctionalExtensionality.functional_extensionality_dep",
        "Classical_Prop.classic",
    }
)
"""Axioms that a theorem may rest on: those of the real numbers of Coq's standard library, and the excluded middle."""

KEY = r"[\w./-]+(?: \(\d of \d\))?"
CLAIMS = re.compile(rf"(?P<kind>Claims?|Refutes) (?P<keys>{KEY}(?:, {KEY})*): (?P<sentence>.*)", re.DOTALL)
PART = re.compile(r"(?P<key>\S+)(?: \((?P<part>\d) of (?P<parts>\d)\))?")
THEOREM = re.compile(
    r"\(\*(?P<comment>(?:(?!\*\)).)*)\*\)\s*Theorem\s+(?P<name>\w+)(?P<statement>.*?)\.\s+Proof\.", re.DOTALL
)
LEMMA = re.compile(r"\bLemma\b(?:(?!\b(?:Qed|Defined)\.).)*\bQed\.", re.DOTALL)
PROOF = re.compile(r"\s*\bProof\b[^.]*\.(?:(?!\bDefined\.).)*?\bQed\.", re.DOTALL)
UNSAFE = re.compile(r"\b(?:Abort|Admitted|admit|give_up|Axioms?|Parameters?|Conjectures?|Unset|bypass_check)\b|::=")
"""What no file may contain: statements without proof, switches of the kernel, and redefined tactics."""

LEXEMES = re.compile(r'"[^"]*"|\(\*|\*\)|[^"(*]+|[(*]')
PROOFS = re.compile(r"\b(?:Lemma|Theorem|Example|Proof|Qed|Defined)\b")
FOLLOWS = {"Lemma": ("Proof",), "Theorem": ("Proof",), "Example": ("Proof",), "Proof": ("Qed", "Defined")}
IMPORTS = re.compile(rf"From {LIBRARY} Require (?:Import |Export )?([\w\s]+)\.")


@dataclass(frozen=True)
class KernelTheorem:
    """A theorem in Coq.

    Attributes
    ----------
    file, name:
        Its file without ``.v``, and its name.
    claims:
        Keys of the claims that it states.
    parts:
        For each claim, which part of it the theorem states, and the number of parts; (1, 1) is the whole claim.
    refutes:
        Whether it states that the claims do not hold.
    sentence:
        The theorem in words.
    statement:
        The text of the statement, from the name on.
    """

    file: str
    name: str
    claims: tuple[str, ...]
    parts: tuple[tuple[int, int], ...]
    refutes: bool
    sentence: str
    statement: str

    @property
    def says(self) -> str:
        """The claims that it states or refutes, with their parts."""
        keys = (
            f"{key} ({part} of {parts})" if parts > 1 else key
            for key, (part, parts) in zip(self.claims, self.parts, strict=True)
        )
        return f"{'refutes' if self.refutes else 'states'} {', '.join(keys)}"

    @property
    def witness(self) -> str:
        """Name of the proof that the hypotheses can be met."""
        return f"{self.name}_met"


@dataclass(frozen=True)
class KernelCheck:
    """The result of checking one theorem.

    Attributes
    ----------
    axioms:
        Names of the axioms that the theorems checked together and their witnesses rest on.
    why:
        The reason why it is not accepted; empty if it is.
    """

    theorem: KernelTheorem
    axioms: tuple[str, ...]
    why: str = ""


def _read(path: Traversable) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise UnusableFile.of(problem, path, "read") from None


@cache
def sources() -> dict[str, str]:
    """File without ``.v`` -> text, each file after those that it imports."""
    folder = files("hetopt.proofs") / "coq"
    text = {path.name.removesuffix(".v"): _read(path) for path in folder.iterdir() if path.name.endswith(".v")}
    ordered: dict[str, str] = {}

    def place(name: str) -> None:
        for found in IMPORTS.finditer(text[name]):
            for other in found[1].split():
                if other not in ordered and other in text:  # Coq reports a file that does not exist
                    place(other)
        ordered[name] = text[name]

    for name in sorted(text):
        if name not in ordered:
            place(name)
    return ordered


@cache
def theorems() -> tuple[KernelTheorem, ...]:
    """All theorems with the claims they state, in the order of files.

    Raises
    ------
    InvalidOption
        The comment above a theorem names no claim.
    """
    found = []
    for file, text in sources().items():
        stated = {match["name"]: match for match in THEOREM.finditer(text)}
        for name in re.findall(r"^Theorem (\w+)", text, re.MULTILINE):
            claims = CLAIMS.fullmatch(" ".join(stated[name]["comment"].split())) if name in stated else None
            if claims is None:
                raise InvalidOption(f"{file}.v: the comment above theorem {name} names no claim")
            stating = [PART.fullmatch(one) for one in claims["keys"].split(", ")]
            keys = tuple(one["key"] for one in stating if one)
            parts = tuple((int(one["part"] or 1), int(one["parts"] or 1)) for one in stating if one)
            statement, refutes = name + stated[name]["statement"], claims["kind"] == "Refutes"
            found.append(KernelTheorem(file, name, keys, parts, refutes, claims["sentence"], statement))
    return tuple(found)


@cache
def by_claim() -> dict[str, tuple[KernelTheorem, ...]]:
    """Key of a claim -> the theorems that state it, or that it does not hold."""
    found: dict[str, tuple[KernelTheorem, ...]] = {}
    for theorem in theorems():
        for key in theorem.claims:
            found[key] = (*found.get(key, ()), theorem)
    return found


def decides(key: str, refuted: bool) -> bool:
    """Whether theorems state all parts of a claim, or that it does not hold."""
    stating = [theorem for theorem in by_claim().get(key, ()) if theorem.refutes is refuted]
    parts = {theorem.parts[theorem.claims.index(key)] for theorem in stating}
    return any(parts == {(i + 1, count) for i in range(count)} for _, count in parts)


def statements() -> str:
    """Definitions and theorems of all files, and the claims that theorems state: what a reader must trust.

    Lemmas, proofs and comments are left out.
    """
    return "\n\n".join(map(_stated, sources())) + "\n"


def _stated(file: str) -> str:
    bare = PROOF.sub("", LEMMA.sub("", _without_comments(sources()[file])))
    lines = [line.rstrip() for line in bare.splitlines()]
    stating = (f"  {theorem.name} {theorem.says}" for theorem in theorems() if theorem.file == file)
    return "\n".join([f"{file}.v", *(f"  {line}" for line in lines if line), *stating])


def locked_statements() -> str:
    """What :func:`statements` returned when it was last reviewed."""
    return _read(files("hetopt.proofs") / "coq" / "statements.txt")


def check_theorems(chosen: Iterable[KernelTheorem]) -> Generator[str | KernelCheck]:
    """Compile all files that ``chosen`` needs, compare what they state with the locked text, and check the axioms.

    Yields the name of each compiled file, then checks.

    Raises
    ------
    InvalidOption
        Coq is not installed.
    """
    wanted = list(chosen)
    coqc = shutil.which("coqc")
    if coqc is None:
        raise InvalidOption("Coq is not installed: there is no command coqc; in Debian, apt-get install coq")
    with TemporaryDirectory(prefix="hetopt-coq-") as name:
        folder, failed = Path(name), dict[str, str]()
        for file in _needed(wanted):
            (folder / f"{file}.v").write_text(sources()[file])
            if problem := _unsafe(file) or _compile(coqc, folder, file)[1]:
                failed[file] = problem
            yield file
        usable = [theorem for theorem in wanted if theorem.file not in failed]
        yield from (KernelCheck(theorem, (), failed[theorem.file]) for theorem in wanted if theorem.file in failed)
        if usable:
            yield from _audited(coqc, folder, usable)


def check_as_dict(check: KernelCheck) -> dict[str, Any]:
    """A check as plain data for JSON."""
    theorem = check.theorem
    return {
        "theorem": f"{theorem.file}.{theorem.name}",
        "claims": list(theorem.claims),
        "parts": [f"{part} of {parts}" for part, parts in theorem.parts],
        "refutes": theorem.refutes,
        "states": theorem.sentence,
        "statement": theorem.statement,
        "axioms": list(check.axioms),
        "accepted": not check.why,
        "why": check.why or None,
    }


def _needed(wanted: Iterable[KernelTheorem]) -> list[str]:
    """The files of these theorems and those they import, in the order of compilation."""
    needed = {theorem.file for theorem in wanted}
    for file, text in reversed(sources().items()):
        if file in needed:
            needed |= {other for found in IMPORTS.finditer(text) for other in found[1].split()}
    return [file for file in sources() if file in needed]


def _unsafe(file: str) -> str:
    """The first thing in a file by which it could prove less than it shows; empty if there is none."""
    if _stated(file) not in locked_statements().removesuffix("\n").split("\n\n"):
        return f"{file}.v: its statements or definitions are not those of statements.txt"
    text = _without_comments(sources()[file])
    if found := UNSAFE.search(text):
        return f"{file}.v: {found[0]} is not allowed"
    steps = [found[0] for found in PROOFS.finditer(text)]
    for step, then in pairwise([*steps, "Lemma"]):
        if then not in FOLLOWS.get(step, (then,)):
            return f"{file}.v: a {step} without {' or '.join(FOLLOWS[step])}"
    return ""


def _without_comments(text: str) -> str:
    """The text as Coq reads it: comments can be nested, and what looks like one in a string is none."""
    depth, kept = 0, list[str]()
    for found in LEXEMES.finditer(text):
        depth += found[0] == "(*"
        if not depth:
            kept.append(found[0])
        depth -= found[0] == "*)" and depth > 0
    return "".join(kept)


def _compile(coqc: str, folder: Path, file: str) -> tuple[str, str]:
    """Standard output, and the error; empty if the file compiles."""
    command = [coqc, "-q", "-Q", str(folder), LIBRARY, f"{file}.v"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout, "" if done.returncode == 0 else f"{file}.v: {done.stderr.strip()}"


def _audited(coqc: str, folder: Path, chosen: list[KernelTheorem]) -> Generator[KernelCheck]:
    """Check the witnesses and the axioms of theorems together, and in halves as long as that fails."""
    lines = [
        f"From {LIBRARY} Require {' '.join(sorted({theorem.file for theorem in chosen}))}.",
        f"From {LIBRARY} Require Import Hypotheses.",  # last, so that names, such as can_be_met, are those of this file
    ]
    names = [f"{theorem.file}.{name}" for theorem in chosen for name in (theorem.name, theorem.witness)]
    lines += [
        f"Goal can_be_met {theorem}. exact {witness}. Qed."
        for theorem, witness in zip(names[::2], names[1::2], strict=True)
    ]
    lines.append(f"Definition all_of_them := {' '.join(f'(conj {name}' for name in names)} I{')' * len(names)}.")
    (folder / "Audit.v").write_text("\n".join([*lines, "Print Assumptions all_of_them."]))
    printed, problem = _compile(coqc, folder, "Audit")
    axioms = [] if problem else _axioms(printed)
    if others := sorted(set(axioms) - AXIOMS):
        problem = f"it rests on {', '.join(others)}"
    if problem and len(chosen) > 1:
        half = len(chosen) // 2
        yield from _audited(coqc, folder, chosen[:half])
        yield from _audited(coqc, folder, chosen[half:])
    else:
        yield from (KernelCheck(theorem, tuple(sorted(axioms)), problem) for theorem in chosen)


def _axioms(printed: str) -> list[str]:
    """Names in the output of Print Assumptions; everything that is not of the known form counts as one."""
    if printed.strip() == "Closed under the global context":
        return []
    first, *rest = printed.splitlines()
    if first.strip() != "Axioms:":
        return [printed.strip()]
    return [line.partition(":")[0].strip() for line in rest if line.strip() and not line.startswith(" ")]
