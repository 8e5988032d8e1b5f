"""Programs in files: read back by HiGHS they have the same optimum, and JSON gives back every number."""

from __future__ import annotations

import json
import os
import re
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import lp
from scipy import sparse

import hetopt
from hetopt.errors import InvalidFormulation, InvalidOption, NotLinear, UnusableFile
from hetopt.formulations.formulation import Formulation
from hetopt.models.concave import LogRate
from hetopt.models.fairness_components import EnvyFree, EqualRates
from hetopt.models.objectives import TotalRate
from hetopt.programs.encoded_names import from_lp_name, from_mps_name, lp_name, mps_name
from hetopt.programs.linear import LinearProgram, Objective
from hetopt.proofs.strategies import linear_programs
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.tolerances import EQUAL, scale

INST = hetopt.Instance.from_speedups([[1, 2], [1, 5]], {"V100": 1, "A100": 1}, tenants=["u1", "e 2"])
COOPERATIVE = Formulation((TotalRate(), EnvyFree()))
INF = np.inf


def _read(path: Path) -> Any:
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("mip_rel_gap", 0.0)
    assert highs.readModel(str(path)) == highspy.HighsStatus.kOk
    highs.run()
    return highs


@settings(max_examples=40)
@given(linear_programs(integer=True), st.sampled_from(["lp", "mps"]))
def test_highs_reads_back_the_same_program(tmp_path_factory: Any, program: LinearProgram, ending: str) -> None:
    path = hetopt.export(program, tmp_path_factory.mktemp("files") / f"program.{ending}")
    highs, best = _read(path), Session(program, Options(gap=0.0)).solve().objective
    found = highs.getInfo().objective_function_value
    assert abs(found - best) <= EQUAL * scale(best)
    columns = {name: j for j, name in enumerate(highs.getLp().col_names_)}
    write, integer = {"lp": lp_name, "mps": mps_name}[ending], highs.getLp().integrality_
    for j, name in enumerate(program.col_names):
        if write(name) in columns:  # a column that stands nowhere need not be in an LP file
            k = columns[write(name)]
            assert highs.getLp().col_lower_[k] == program.col_lower[j]
            assert highs.getLp().col_upper_[k] == program.col_upper[j]
            assert (bool(integer) and integer[k] == highspy.HighsVarType.kInteger) == program.integer[j]


@pytest.mark.parametrize("ending", ["lp", "mps"])
@pytest.mark.parametrize("column", ["x", "constant"])
def test_gurobi_reads_the_same_optimum(tmp_path: Path, ending: str, column: str) -> None:
    """With a constant in the objective, which it would take for a variable in an LP file."""
    gurobipy = pytest.importorskip("gurobipy")
    program = replace(lp([1, 2], [(-INF, [3, 1], 4)], [(0, 1), (0, 1)]), offset=-7.5, col_names=[column, "y"])
    model = gurobipy.read(str(hetopt.export(program, tmp_path / f"p.{ending}")))
    model.Params.OutputFlag = 0
    model.optimize()
    assert model.ObjVal == pytest.approx(Session(program).solve().objective)


@pytest.mark.parametrize("ending", ["lp", "mps"])
def test_bounds_of_every_kind_survive(tmp_path: Path, ending: str) -> None:
    box = [(-INF, INF), (-INF, 2.5), (-1.5, INF), (0, INF), (1, 1), (-3, -1), (0, 0.1), (-INF, -1)]
    program = lp([1, 1, -1, -1, 1, 1, 1, 1], [(-INF, [1.0] * 8, 1 / 3), (-2, [1.0, *[0.0] * 7], 7)], box)
    highs = _read(hetopt.export(program, tmp_path / f"p.{ending}"))
    inside = highs.getLp()
    assert list(zip(inside.col_lower_, inside.col_upper_, strict=True)) == box
    assert inside.row_upper_[0] == 1 / 3, "the same float"
    assert highs.getInfo().objective_function_value == pytest.approx(Session(program).solve().objective)


@given(linear_programs(integer=True), st.booleans())
def test_json_gives_back_every_number(tmp_path_factory: Any, program: LinearProgram, stages: bool) -> None:
    if stages:
        objectives = (Objective(program.c * 2, 3.5, 2), Objective(-program.c, priority=1))
        kept = {0: objectives[0]} if program.shape[0] else {}
        program = replace(program, earlier=objectives, kept=kept, share=np.zeros((1, 1), dtype=np.intp))
        program = replace(program, row_unit=np.full(program.shape[0], 0.25), col_unit=np.full(program.shape[1], 8.0))
    path = hetopt.export(program, tmp_path_factory.mktemp("files") / "program.json")
    back = hetopt.from_json(path)
    for key in ("c", "row_lower", "row_upper", "col_lower", "col_upper", "integer", "share", "row_unit", "col_unit"):
        np.testing.assert_array_equal(getattr(back, key), getattr(program, key))
    np.testing.assert_array_equal(back.A.toarray(), program.A.toarray())
    assert list(back.kept) == list(program.kept)
    pairs = [*zip(back.earlier, program.earlier, strict=True)]
    for own, other in [*pairs, *zip(back.kept.values(), program.kept.values(), strict=True)]:
        np.testing.assert_array_equal(own.c, other.c)
        assert (own.offset, own.priority) == (other.offset, other.priority)
    assert list(back.row_names) == list(program.row_names)
    assert list(back.col_names) == list(program.col_names)
    assert (back.offset, back.priority) == (program.offset, program.priority)


def test_names_are_readable(tmp_path: Path) -> None:
    text = hetopt.export(COOPERATIVE, tmp_path / "p.mps", INST).read_text()
    assert " share[u1,V100] envy_free.row[u1,e~20~2] 1.0" in text.splitlines()
    text = hetopt.export(COOPERATIVE, tmp_path / "p.lp", INST).read_text()
    assert " capacity(V100): + 1.0 share(u1,V100) + 1.0 share(e~20~2,V100) <= 1.0" in text.splitlines()
    content = json.loads(hetopt.export(COOPERATIVE, tmp_path / "p.txt", INST, form="json").read_text())
    assert content["columns"]["name"][0] == "share[u1,V100]"
    assert content["rows"]["name"][2] == "envy_free.row[u1,e 2]"


NAMES = st.text(st.one_of(st.sampled_from(string.printable[:95] + "äµ€~[]()"), st.characters(exclude_categories=["C"])))
KEYWORDS = [
    "st",
    "e5",
    "E+1",
    "end",
    "inf",
    "Infinity",
    "info",
    "nano",
    "free",
    "BIN",
    "1x",
    ".5",
    "s.t.",
    "~41~",
    "$a",
]


@given(st.one_of(NAMES.filter(bool), st.sampled_from(KEYWORDS)))
def test_every_name_can_be_written_and_read_back(tmp_path_factory: Any, name: str) -> None:
    assert from_lp_name(lp_name(name)) == name
    assert from_mps_name(mps_name(name)) == name
    folder = tmp_path_factory.getbasetemp()
    program = replace(lp([1, 2], [(-INF, [3, 1], 4)], [(0, 1), (0, 1)]), col_names=[name, "other z"], row_names=[name])
    for ending, write in (("lp", lp_name), ("mps", mps_name)):
        inside = _read(hetopt.export(program, folder / f"name.{ending}", overwrite=True)).getLp()
        assert inside.col_names_ == [write(name), write("other z")]
        assert inside.row_names_ == [write(name)]


@given(st.lists(NAMES.filter(bool), min_size=2, max_size=2, unique=True))
def test_different_names_stay_different(names: list[str]) -> None:
    assert lp_name(names[0]) != lp_name(names[1])
    assert mps_name(names[0]) != mps_name(names[1])


def test_rows_that_are_added_lazily_are_all_written(tmp_path: Path) -> None:
    lazy = Formulation((TotalRate(), EnvyFree(eager_up_to=0)))
    highs = _read(hetopt.export(lazy, tmp_path / "p.mps", INST))
    assert highs.getInfo().objective_function_value == pytest.approx(5.25)


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    program = COOPERATIVE.compile(INST)
    with pytest.raises(NotLinear, match=r"'log_rate' is concave: .* cannot be solved exactly or written to a file"):
        hetopt.export(COOPERATIVE + LogRate(), tmp_path / "p.lp", INST)
    with pytest.raises(InvalidOption, match="format is 'txt'; it must be one of lp, mps, json"):
        hetopt.export(program, tmp_path / "p.txt")
    with pytest.raises(InvalidOption, match="instance is None"):
        hetopt.export(COOPERATIVE, tmp_path / "p.lp")
    with pytest.raises(UnusableFile, match="cannot be written: No such file"):
        hetopt.export(program, tmp_path / "absent" / "p.lp")
    staged = replace(program, earlier=(Objective(program.c, priority=1),))
    for ending in ("lp", "mps"):
        with pytest.raises(InvalidOption, match=r"1 objective before its last.*hetopt\.optimise\(program\)\.program"):
            hetopt.export(staged, tmp_path / f"p.{ending}")
    solved = hetopt.optimise(staged).program
    found = _read(hetopt.export(solved, tmp_path / "p.lp")).getInfo().objective_function_value
    assert found == pytest.approx(5.25), "the remedy works"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name"),
        ("[]", "it does not contain an object"),
        ("{}", "it has no 'format'"),
        ('{"format": "other"}', "format is 'other'; it must be 'hetopt-linear-program'"),
        ('{"format": "hetopt-linear-program", "version": 2}', "version is 2; it must be 1"),
        ('{"format": "hetopt-linear-program", "version": 1, "sense": "minimise"}', "sense is 'minimise'"),
        ('{"format": "hetopt-linear-program", "version": 1, "sense": "maximise"}', "it has no 'columns'"),
        ('{"format": NaN}', "NaN is not a number"),
        ("[" * 100_000, "nested too deeply"),
    ],
    ids=str,
)
def test_a_file_without_a_program_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(InvalidFormulation, match=message):
        hetopt.from_json(path)


STAGED = replace(
    Formulation((TotalRate(), EqualRates())).compile(INST),
    earlier=(Objective(np.ones(5)),),
    kept={1: Objective(np.ones(5))},
)
WRONG = [
    (("columns", "lower"), [0.0], "columns.lower has 1 entries"),
    (("columns", "lower", 0), "a", "it must hold numbers"),
    (("columns", "objective", 0), 10**400, "too large"),
    (("columns", "integer", 0), 1, "columns.integer must be a list of true and false"),
    (("columns", "name", 0), 7, "columns.name must be a list of text"),
    (("rows", "name"), "abcd", "rows.name must be a list"),
    (("rows", "upper", 0), "nan", "it must hold numbers"),
    (("rows", "upper", 0), "inf", "it must hold numbers"),
    (("offset",), "inf", "offset has 'inf'"),
    (("priority",), 0.5, "priority must hold whole numbers"),
    (("matrix", "row", 0), 10**9, "matrix.row has 1000000000; positions go from 0 to 3"),
    (("matrix", "row", 0), -1, "matrix.row has -1"),
    (("matrix", "row", 0), 10**30, "matrix.row must hold whole numbers"),
    (("matrix", "row", 0), 0.5, "matrix.row must hold whole numbers"),
    (("matrix", "row", 1), 0, "names a row twice"),
    (("matrix", "value", 0), "nan", "matrix.value has 'nan'"),
    (("matrix", "value"), [1.0], "matrix.value has 1 entries"),
    (("matrix", "start", 1), 99, "matrix.start must rise"),
    (("matrix", "start", 0), 1, "matrix.start must rise"),
    (("matrix", "start"), [0], "matrix.start must rise"),
    (("share", 0, 0), 99, "share has 99; positions go from 0 to 4"),
    (("share", 0, 0), -1, "share has -1"),
    (("share",), [0, 1], "share must be a table"),
    (("kept", 0, "row"), 77, "kept.row has 77; positions go from 0 to 3"),
    (("kept", 0, "objective", 0), "nan", "objective has 'nan'"),
    (("earlier", 0, "offset"), "nan", "offset has 'nan'"),
    (("earlier", 0, "objective"), [], "objective has 0 entries"),
    (("earlier", 0), [], "an entry of earlier or kept must be an object"),
    (("columns",), "x", "columns must be an object"),
    (("kept",), "x", "kept must be a list"),
    (("rows", "lower"), 5, "rows.lower must be a list"),
    (("share",), [[0], [1, 2]], "share must have rows of the same length"),
]


@pytest.mark.parametrize(("where", "value", "message"), WRONG, ids=str)
def test_a_file_that_holds_what_it_cannot_is_refused(
    tmp_path: Path, where: tuple[Any, ...], value: Any, message: str
) -> None:
    """Positions that are not there would let the process crash, and NaN makes every violation look like none."""
    path = hetopt.export(STAGED, tmp_path / "p.json")
    content = json.loads(path.read_text())
    place = content
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidFormulation, match=re.escape(message)):
        hetopt.from_json(path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.json", tmp_path, "a\0b"):
        with pytest.raises(UnusableFile, match="cannot be read"):
            hetopt.from_json(path)
    (tmp_path / "p.json").write_bytes(b"\xff")
    with pytest.raises(InvalidFormulation, match="UTF-8"):
        hetopt.from_json(tmp_path / "p.json")


def test_an_existing_file_stays_unless_overwriting_is_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that fails half-way leaves what was there."""
    path = hetopt.export(COOPERATIVE, tmp_path / "p.lp", INST)
    before = path.read_bytes()
    other = Formulation((TotalRate(), EqualRates()))
    with pytest.raises(UnusableFile, match="exists already; use overwrite=True"):
        hetopt.export(other, path, INST)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UnusableFile, match="No space left"):
            hetopt.export(other, path, INST, overwrite=True)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["p.lp"], "no draft is left behind"
    assert hetopt.export(other, path, INST, overwrite=True).read_bytes() != before


@pytest.mark.parametrize("ending", ["lp", "mps", "json"])
def test_zeros_are_not_written(tmp_path: Path, ending: str) -> None:
    """Neither as coefficients nor with a sign: a program made by hand may state 0 where nothing is."""
    program = COOPERATIVE.compile(INST)
    data = program.A.data.copy()
    data[::3] = 0.0
    program = replace(program, A=sparse.csc_array((data, program.A.indices, program.A.indptr), program.A.shape))
    assert (program.A.data == 0).any()
    program = replace(program, row_lower=np.where(program.row_lower == 0, -0.0, program.row_lower))
    path = hetopt.export(program, tmp_path / f"p.{ending}")
    assert not re.search(r"-0\.0|- 0\.0|[-+] 0\.0 \w", path.read_text())
    if ending == "json":
        assert 0.0 not in json.loads(path.read_text())["matrix"]["value"]
        np.testing.assert_array_equal(hetopt.from_json(path).A.toarray(), program.A.toarray())
    else:
        assert not [
            line for line in path.read_text().splitlines() if line.startswith(" share[") and line.endswith(" 0.0")
        ]
        _read(path)


def test_a_program_without_columns(tmp_path: Path) -> None:
    empty = lp([], [(-1, [], 1)], [])
    with pytest.raises(InvalidOption, match="no columns, and an LP file must name one"):
        hetopt.export(empty, tmp_path / "p.lp")
    assert hetopt.from_json(hetopt.export(empty, tmp_path / "p.json")).shape == (1, 0)
    assert _read(hetopt.export(empty, tmp_path / "p.mps")).getLp().num_row_ == 1
    with pytest.raises(hetopt.NotSolved, match="no columns: there is nothing to decide"):
        hetopt.optimise(empty)


@pytest.mark.parametrize("ending", ["lp", "mps"])
def test_a_row_may_be_named_like_the_objective(tmp_path: Path, ending: str) -> None:
    program = lp([1], [(-INF, [2], 4), (-INF, [1], 5)], [(0, INF)], names=["objective", "a"])
    highs = _read(hetopt.export(program, tmp_path / f"p.{ending}"))
    assert highs.getLp().row_names_ == ["objective", "a"]
    assert highs.getInfo().objective_function_value == pytest.approx(2)


def test_crossed_bounds_of_a_row_are_no_range(tmp_path: Path) -> None:
    """MPS would take the absolute value of the range, and the program would become feasible."""
    program = lp([1], [(2, [1], 1)], [(0, 3)])
    with pytest.raises(InvalidOption, match="lower bound above its upper one, not possible in MPS"):
        hetopt.export(program, tmp_path / "p.mps")
    assert _read(hetopt.export(program, tmp_path / "p.lp")).getModelStatus() == highspy.HighsModelStatus.kInfeasible
