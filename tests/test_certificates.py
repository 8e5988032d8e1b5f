"""Certificates as files: what is changed in them is noticed, and what is malicious ends with one line."""

from __future__ import annotations

import ast
import pickle
import re
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import z3
from effort import LONG, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import hetopt
from hetopt import Formulation, InvalidCertificate, exact_optimum, instances
from hetopt.checking import vipr
from hetopt.checking.certificates import source_of
from hetopt.models import fft, gavel, hadar, oef
from hetopt.models.asrpt import MinimumAlpha
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import LinearProgram, Objective
from hetopt.proofs.asrpt.all_placements import random_case
from hetopt.solving.exact import CompiledData
from hetopt.solving.optimising import run
from hetopt.solving.options import Options

WORDS = re.compile(r"\S+")


def round_of(seed: int, jobs: int = 6) -> tuple[Any, hetopt.Instance]:
    draw = np.random.default_rng(seed)
    instance = hetopt.Instance.from_jobs(
        draw.integers(1, 9, (jobs, 2)).astype(float),
        draw.integers(1, 4, jobs).tolist(),
        draw.integers(2, 30, jobs).tolist(),
        [3, 4],
    )
    return fft.FFT().formulation(instance), instance


def p1() -> LinearProgram:
    instance = hetopt.Instance.from_jobs([[2.0, 1.0], [1.0, 3.0]], [1, 2], [3.0, 4.0], [1, 2], round_seconds=1.0)
    return hetopt.from_pyomo(hadar.TimeIndexed().build(hadar.OfflineProblem.of(instance, 2, 1.0)))


def knapsack(size: int) -> LinearProgram:
    """Odd numbers that add up to no even one: the relaxation's bound is not attained."""
    weights = 2.0 * np.arange(size) + 7
    row = sparse.csr_array(weights[None, :])
    top = np.array([float(int(weights.sum()) // 4 * 2)])
    return LinearProgram.of(weights + 1, row, np.array([-np.inf]), top, col_upper=1.0, integer=True)


def mapping() -> LinearProgram:
    return hetopt.from_pyomo(MinimumAlpha().build(*random_case(np.random.default_rng(3), 3, 2, 3)))


def linear(formulation: Any) -> tuple[Any, hetopt.Instance]:
    return formulation, hetopt.Instance.from_speedups([[1, 2], [1, 3], [1, 5]], capacity=[2, 1])


CASES: dict[str, Callable[[], Any]] = {
    **{f"round {seed}": lambda seed=seed: round_of(seed) for seed in range(3)},  # type: ignore[misc]
    "P1": lambda: (p1(),),
    "mapping": lambda: (mapping(),),
    **{f"knapsack {size}": lambda size=size: (knapsack(size),) for size in (5, 8, 9)},  # type: ignore[misc]
    "cooperative": lambda: linear(oef.cooperative()),
    "non-cooperative": lambda: linear(oef.noncooperative(canonical=True)),
}


@cache
def certified(name: str) -> tuple[str, tuple[Any, ...], tuple[Fraction, ...]]:
    """The text of the certificate, what it is of, and the optima; with all kinds of cuts."""
    what = CASES[name]()
    with patch("hetopt.solving.rational.root.NODES_BEFORE_CUTS", 0):
        if len(what) == 2:
            exact = hetopt.solve(*what, exact=True).certificate.exact
        else:
            exact = exact_optimum(run(what[0], Options(gap=0.0)))
        assert exact is not None
    return "\n".join(exact.proof.lines({"made": "in a test"})), what, exact.optima


@pytest.mark.parametrize("name", CASES)
def test_it_proves_the_optimum(tmp_path: Path, name: str) -> None:
    text, what, optima = certified(name)
    (tmp_path / "proof.vipr").write_text(text)
    found = hetopt.check(tmp_path / "proof.vipr", *what)
    assert found.optima == optima
    assert found.proven
    assert found.verified.comments == ("made: in a test",)


@pytest.mark.parametrize("name", CASES)
def test_a_change_of_any_number_is_refused_or_changes_nothing(tmp_path: Path, name: str) -> None:
    """Either the file is refused, or what it proves is the same: a step may claim less than it could."""
    text, what, optima = certified(name)
    file, words = tmp_path / "proof.vipr", list(WORDS.finditer(text))
    numbers = [word for word in words if re.fullmatch(r"-?\d+(/\d+)?", word[0])]
    stated = text.index("\nDER ")
    refused = 0
    for i, word in enumerate(numbers[:: examples(3, 1)]):
        top, _, bottom = word[0].partition("/")
        others = sorted({int(top) + 1, int(top) - 1, -int(top)} - {int(top)})
        for other in others if LONG else others[i % len(others) :][:1]:
            file.write_text(f"{text[: word.start()]}{other}{'/' * bool(bottom)}{bottom}{text[word.end() :]}")
            optima_of_other = optima_if_accepted(file, *what)
            refused += optima_of_other is None
            assert optima_of_other in (None, optima), word
            assert optima_of_other is None or word.start() > stated or counts(text, word), word
    assert refused > 0


def optima_if_accepted(file: Path, *what: Any) -> tuple[Fraction, ...] | None:
    try:
        return hetopt.check(file, *what).optima
    except InvalidCertificate:
        return None


def counts(text: str, word: re.Match[str]) -> bool:
    """Whether a number is the count of bounds, which means nothing, or of a solution as good."""
    line = text[text.rfind("\n", 0, word.start()) + 1 : text.find("\n", word.end())]
    return line.startswith(("CON ", "best "))


@given(st.sampled_from(sorted(CASES)), st.data())
def test_a_part_of_a_file_is_refused(tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject) -> None:
    text, _, _ = certified(name)
    length = data.draw(st.integers(0, len(text) - 2))
    file = tmp_path_factory.mktemp("part") / "part.vipr"
    file.write_text(text[:length].rstrip())
    with pytest.raises(InvalidCertificate):
        hetopt.check(file)


HEAD = "VER 1.0 VAR 1 x INT 1 0 OBJ min 1 0 1 CON 1 1 C0 G 1/2 1 0 1 "
SOLVED = "RTP range 1 1 SOL 1 s 1 0 1 "


def test_comments_of_any_text_are_plain(tmp_path: Path) -> None:
    certified_round, instance = round_of(0)
    file = tmp_path / "named.vipr"
    hetopt.solve(certified_round, instance, exact=True).certificate.write(file, {"instance": "Zürich\nVER 9"})
    assert hetopt.check(file).verified.comments == (r"instance: Z\xfcrich VER 9",)


def test_the_smallest_certificate(tmp_path: Path) -> None:
    file = tmp_path / "small.vipr"
    file.write_text(HEAD + SOLVED + "DER 1 C1 G 1 1 0 1 { rnd 1 0 1 } -1")
    assert str(hetopt.check(file)) == "the minimum is 1 (1 variable, 1 constraint, 1 step)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ends early, after 'the beginning'"),
        ("hello", "has 'hello' after 'the beginning' instead of VER"),
        ("VER 1.1", "has '1.1' after 'VER' instead of 1.0"),
        ("VER 1.0 VAR 999999999999 x", "ends early"),
        ("VER 1.0 VAR 99999999999999999999 x", "instead of an index"),
        ("VER 1.0 VAR 1 x INT 1 3", "has '3' after '1' instead of an index below 1"),
        ("VER 1.0 VAR 2 x x INT 0", "gives two variables the same name"),
        ("VER 1.0 VAR 1 x INT 0 OBJ min 1 0 1e999999999", "instead of a number such as -5/2"),
        ("VER 1.0 VAR 1 x INT 0 OBJ min 1 0 1/0", "instead of a number such as -5/2"),
        ("VER 1.0 VAR 1 x INT 0 OBJ min 2 0 1 0 1", "has a variable twice in a form"),
        ("VER 1.0 VAR 1 x INT 0 OBJ min 1 0 " + "1" * 120_000, "has a word of more than 100000 characters"),
        ("VER 1.0 VAR 1 x INT 0 OBJ min 1 0 ." + "1" * 120_000, "has a word of more than 100000 characters"),
        (HEAD + "RTP range 1 inf SOL 0 DER 0", "does not end with the bound that it states"),
        (HEAD + "RTP range 1 1 SOL 0 DER 0", "has no solution as good as it states"),
        (HEAD + "RTP range 1 1 SOL 1 s 1 0 1/2 DER 0", "has a solution that is not whole"),
        (HEAD + "RTP range 0 0 SOL 1 s 0 DER 0", "has a solution that violates constraint 0"),
        (HEAD + "RTP infeas SOL 1 s 1 0 1 DER 0", "states a solution of a problem that it calls infeasible"),
        (HEAD + SOLVED + "DER 1 C1 G 1 1 0 1 { lin 1 0 1 } -1", "does not follow from its reason"),
        (HEAD + SOLVED + "DER 1 C1 G 1 1 0 1 { asm } -1", "ends with a constraint that rests on assumptions"),
        (HEAD + SOLVED + "DER 1 C1 G 1 1 0 1 { rnd 1 1 1 } -1", "refers to constraint 1, which is not there"),
        (HEAD + SOLVED + "DER 1 C1 G 1 -1 0 1 { lin 1 0 1 } -1", "has '-1' instead of a number of variables"),
        (HEAD + SOLVED + "DER 1 C1 G 1 1 0 1 { { rnd 1 0 1 } } -1", "has '{' after '{' instead of asm"),
        (HEAD + SOLVED + "DER 2 C1 L 1 OBJ { sol } -1 C2 G 1 OBJ { lin 2 0 1 1 1 } -1", "of the opposite direction"),
        (HEAD + SOLVED + "DER 1 C1 G 1 1 0 1 { rnd 1 0 1 } -1 C2", "goes on after its 1 derived constraints"),
        (
            HEAD + SOLVED + "DER 3 A L 0 1 0 1 { asm } -1 B G 2 1 0 1 { asm } -1 C G 1 0 { uns 1 1 2 2 } -1",
            "which one side does not imply",
        ),
        (
            HEAD + SOLVED + "DER 4 A L 0 1 0 1 { asm } -1 B G 2 1 0 1 { asm } -1 Z G 1 1 0 1 { rnd 1 0 1 } -1 "
            "C G 1 1 0 1 { uns 3 1 3 2 } -1",
            "into two sides that leave something out",
        ),
        (HEAD + SOLVED + "DER 2 A G 1 1 0 1 { rnd 1 0 1 } 1 B G 1 1 0 1 { lin 1 1 1 } -1", "refers to constraint 1"),
    ],
)
def test_what_proves_nothing_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.vipr"
    file.write_text(text)
    with pytest.raises(InvalidCertificate, match=re.escape(message)) as error:
        hetopt.check(file)
    assert str(error.value).startswith(f"{file}: ")
    assert "\n" not in str(error.value)


def ordered(*costs: float) -> LinearProgram:
    """One binary column; objectives of these coefficients, in order."""
    one = np.ones(1)
    program = LinearProgram.of(one, sparse.csr_array([[1.0]]), -np.inf * one, one, col_upper=1.0, integer=True)
    return program.with_objectives(*(Objective(c * one, priority=-i) for i, c in enumerate(costs)))


BOX = "VER 1.0 VAR 1 column[0] INT 1 0 OBJ min 1 0 1 CON {} 2 A G 0 1 0 1 B L 1 1 0 1 R L 1 1 0 1 "


@pytest.mark.parametrize(
    ("costs", "rest"),
    [
        (  # from the cutoff: of all solutions whose last objective is as good
            (1.0, -1.0),
            BOX.format(4) + "K L 0 1 0 -1 RTP range 0 0 SOL 1 s 0 DER 3 S L 0 OBJ { sol } -1 "
            "T G 0 1 0 -1 { lin 1 4 -1 } -1 Z G 0 OBJ { lin 1 0 1 } -1",
        ),
        (  # from the row that keeps the second objective
            (1.0, -2.0, -1.0),
            BOX.format(5) + "K L 0 1 0 -1 M L 0 1 0 2 RTP range 0 0 SOL 1 s 0 DER 3 T G 0 1 0 -1 { lin 1 4 -1/2 } -1 "
            "U G 0 1 0 2 { lin 1 0 2 } -1 Z G 0 OBJ { lin 1 0 1 } -1",
        ),
    ],
)
def test_an_earlier_optimum_may_not_rest_on_later_ones(tmp_path: Path, costs: tuple[float, ...], rest: str) -> None:
    """The first objective is largest at 1; that it is at most 0 holds only where later objectives are as good."""
    file = tmp_path / "turned.vipr"
    file.write_text(rest)
    assert hetopt.check(file).proven  # of its own problem, in which both are rows
    assert exact_optimum(hetopt.optimise(ordered(*costs))).optima[0] == 1
    with pytest.raises(InvalidCertificate, match="does not prove that 0 is optimal for objective 1"):
        hetopt.check(file, ordered(*costs))


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of assumptions, which each step may unite."""
    file = tmp_path / "huge.vipr"
    monkeypatch.setattr(vipr, "MEMORY", 100_000)
    steps = ["A L 0 1 0 1 { asm } -1"] * 60
    steps += [f"B L 0 1 0 60 {{ lin 60 {' '.join(f'{i} 1' for i in range(1, 61))} }} -1"] * 60
    for text in ("VER 1.0 VAR 9999 " + "x " * 9_999, HEAD + SOLVED + f"DER {len(steps)} " + " ".join(steps)):
        file.write_text(text)
        with pytest.raises(InvalidCertificate, match="takes too much memory"):
            hetopt.check(file)
    monkeypatch.setattr(vipr, "DIGITS", 1_000)
    file.write_text("VER 1.0 VAR 1 " + "x" * 70_000)
    with pytest.raises(InvalidCertificate, match="has a word of more than 1000 characters"):
        hetopt.check(file)


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.vipr").write_bytes(bytes(range(256)))
    with pytest.raises(InvalidCertificate, match="after 'the beginning' instead of VER"):
        hetopt.check(tmp_path / "binary.vipr")
    with pytest.raises(hetopt.UnusableFile, match="cannot be read"):
        hetopt.check(tmp_path / "absent.vipr")
    with pytest.raises(hetopt.UnusableFile, match="cannot be read"):
        hetopt.check(tmp_path)


@settings(max_examples=examples(10, 40))
@given(st.sampled_from(["round 0", "knapsack 8", "cooperative", "P1"]), st.data())
def test_another_solver_agrees_with_each_step(name: str, data: st.DataObject) -> None:
    """z3: at no point do the constraints that a step uses hold, with whole forms where it says so, but not its own."""
    text, _, _ = certified(name)
    lines = text.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith("DER "))
    stated = next(i for i, line in enumerate(lines) if line.startswith("CON "))
    number = int(lines[stated].split()[1])
    whole = set(map(int, lines[next(i for i, line in enumerate(lines) if line.startswith("INT ")) + 1].split()))
    objective = lines[stated - 1].split()
    known = [*lines[stated + 1 : stated + 1 + number], *(line for line in lines[start + 1 :] if line)]
    x = {j: z3.Real(f"x{j}") for j in range(int(lines[2].split()[1]))}

    def parts(line: str) -> tuple[Any, str, Any]:
        _, sense, right, *words = line.split(" { ")[0].split()
        words = objective if words == ["OBJ"] else words
        pairs = zip(map(int, words[1::2]), words[2::2], strict=True)
        return z3.Sum([z3.RealVal(0)] + [z3.RealVal(v) * x[j] for j, v in pairs]), sense, z3.RealVal(right)

    def formula(line: str) -> Any:
        left, sense, right = parts(line)
        return {"G": left >= right, "L": left <= right, "E": left == right}[sense]

    def is_whole(line: str) -> Any:
        """Its form is whole: whole coefficients of integer variables."""
        words = line.split(" { ")[0].split()[3:]
        words = objective if words == ["OBJ"] else words
        assert all(int(j) in whole and "/" not in v for j, v in zip(words[1::2], words[2::2], strict=True))
        return parts(line)[0] == z3.ToReal(z3.Int("whole"))

    derived = [i for i in range(number, len(known)) if known[i].split(" { ")[1].startswith(("lin", "rnd", "uns"))]
    i = data.draw(st.sampled_from(derived))
    why = known[i].split(" { ")[1].split(" } ")[0].split()
    solver = z3.Solver()
    if why[0] == "uns":
        first, below, second, above = (known[int(word)] for word in why[1:])
        solver.add(
            is_whole(below), z3.Or(z3.And(formula(below), formula(first)), z3.And(formula(above), formula(second)))
        )
        neither = z3.Solver()
        neither.add(is_whole(below), z3.Not(z3.Or(formula(below), formula(above))))
        assert neither.check() == z3.unsat
    else:
        solver.add(*(formula(known[int(word)]) for word in why[2::2]))
        if why[0] == "rnd":
            solver.add(is_whole(known[i]))
    solver.add(z3.Not(formula(known[i])))
    assert solver.check() == z3.unsat


def test_the_checker_is_short_and_apart_from_the_solvers() -> None:
    """At most 300 lines, which import the standard library and errors."""
    text = Path(vipr.__file__).read_text()
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    modules = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imports}
    assert {name for name in modules if str(name).partition(".")[0] not in sys.stdlib_module_names} == {"hetopt.errors"}
    assert len(text.splitlines()) <= 300


def test_sums_of_fractions_with_long_denominators_are_refused(tmp_path: Path) -> None:
    """Their sum would take hours."""
    fractions = ["1/1" + "0" * 90_000 + str(2 * i + 1) for i in range(3)]
    stated = " ".join(f"C{i} G {v} 1 0 1" for i, v in enumerate(fractions))
    file = tmp_path / "long.vipr"
    problem = f"VER 1.0 VAR 1 x INT 0 OBJ min 1 0 1 CON 3 3 {stated}"
    file.write_text(f"{problem} {SOLVED} DER 1 D G 1 1 0 1 {{ lin 3 0 1 1 1 2 1 }} -1")
    with pytest.raises(InvalidCertificate, match="has numbers whose sums take too much memory"):
        hetopt.check(file)


def test_sums_that_take_too_much_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long number times a form of many variables."""
    monkeypatch.setattr(vipr, "MEMORY", 10**8)
    n, file = 10_000, tmp_path / "wide.vipr"
    form = " ".join(f"{j} 1" for j in range(n))
    problem = f"VER 1.0 VAR {n} {' '.join(f'x{j}' for j in range(n))} INT 0 OBJ min {n} {form} CON 1 0 C0 G 0 OBJ"
    file.write_text(f"{problem} RTP range 0 inf SOL 0 DER 1 D G 0 OBJ {{ lin 1 0 {'9' * 90_000} }} -1")
    with pytest.raises(InvalidCertificate, match="has numbers whose sums take too much memory"):
        hetopt.check(file)


def test_what_is_not_proven_is_not_called_proven(tmp_path: Path) -> None:
    file = tmp_path / "open.vipr"
    file.write_text("VER 1.0 VAR 1 x INT 0 OBJ min 1 0 1 CON 0 0 RTP range -inf inf SOL 0 DER 0")
    found = hetopt.check(file)
    assert not found.proven
    assert str(found) == "the minimum is between -inf and inf (1 variable, 0 constraints, 0 steps)"
    long = f"{3 * 10**400 + 1}/3"
    stated = f"VER 1.0 VAR 1 x INT 0 OBJ min 1 0 1 CON 1 1 C0 G {long} 1 0 1"
    file.write_text(f"{stated} RTP range {long} {long} SOL 1 s 1 0 {long} DER 1 D G {long} OBJ {{ lin 1 0 1 }} -1")
    assert str(hetopt.check(file)).startswith("the minimum is about 1.00000e+400 (")


def test_only_the_first_comments_are_read(tmp_path: Path) -> None:
    file = tmp_path / "comments.vipr"
    file.write_text("".join(f"% {i}: \n" for i in range(100_000)))
    assert len(source_of(file)) == 100


@pytest.mark.parametrize("policy", [gavel.mean_completion_time(), gavel.finish_time_fairness()])
def test_a_program_of_tangents_is_not_that_of_a_concave_policy(tmp_path: Path, policy: Formulation) -> None:
    """A proof about the program with the first tangents proves nothing of the policy."""
    instance = instances.load("lab36/jobs").at(100_000)
    compiled = Compiled(policy, policy.entities(instance), lazy=False)
    file = tmp_path / "relaxed.vipr"
    exact_optimum(hetopt.optimise(compiled.program), known=CompiledData(compiled, None)).write(file)
    assert hetopt.check(file).proven
    with pytest.raises(hetopt.NotLinear, match="is concave"):
        hetopt.check(file, policy, instance)


def test_columns_need_names_of_their_own(tmp_path: Path) -> None:
    one = np.ones(1)
    program = LinearProgram.of(np.ones(2), sparse.csr_array([[1.0, 1.0]]), one, one, col_names=["x", "x"])
    with pytest.raises(hetopt.InvalidFormulation, match="different names"):
        exact_optimum(hetopt.optimise(program)).write(tmp_path / "names.vipr")


@pytest.mark.parametrize("name", ["round 0", "cooperative"])
def test_exact_results_are_pickled_without_their_proof(name: str) -> None:
    what = CASES[name]()
    found = hetopt.solve(*what, exact=True)
    copied = pickle.loads(pickle.dumps(found)).certificate.exact
    assert copied.optima == found.certificate.exact.optima
    with pytest.raises(hetopt.InvalidOption, match="not pickled"):
        _ = copied.proof
