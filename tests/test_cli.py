"""The command line: right numbers, one clear line and exit code 2 for bad input, nothing lost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import hetopt
from hetopt import NotSolved
from hetopt.cli.arguments import error_context
from hetopt.data.instance import read
from hetopt.data.instance_files import write
from hetopt.programs.linear import LinearProgram
from hetopt.solving import optimising
from hetopt.tolerances import EQUAL

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """OEF's equation 6 in a file."""
    path = tmp_path / "two.yaml"
    write(hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1], name="two"), path)
    return path


def test_solve_prints_the_shares(run: Run, two: Path) -> None:
    code, out, _ = run("solve", two, "--policy", "oef-cooperative")
    assert code == 0
    assert "0.75" in out
    assert "objective 5.25, bound 5.25" in out


def test_solve_as_json_is_data(run: Run, two: Path) -> None:
    code, out, _ = run("solve", two, "-p", "oef-cooperative", "--json", "--exact")
    data = json.loads(out)
    assert code == 0
    assert data["share"]["u1"] == pytest.approx({"GPU1": 1.0, "GPU2": 0.25}, abs=EQUAL)
    assert data["exact_share"]["u2"] == {"GPU1": "0", "GPU2": "3/4"}
    assert data["certificate"]["exact_objective"] == "21/4"


def test_solve_draws_a_picture(run: Run, two: Path, tmp_path: Path) -> None:
    code, out, _ = run("solve", two, "-p", "oef-noncooperative", "--plot", tmp_path / "out.svg")
    assert code == 0
    assert (tmp_path / "out.svg").read_text().startswith("<?xml")
    assert "out.svg" in out


def test_a_proof_is_written_and_checked(run: Run, two: Path, tmp_path: Path) -> None:
    """Also by name and with settings; a file that is there is kept."""
    file = tmp_path / "two.vipr"
    code, out, _ = run("solve", two, "-p", "oef-cooperative", "--certificate", file)
    assert code == 0
    assert "proven in rational numbers: objective 21/4" in out
    assert run("check", file) == (0, f"{file}: proven: the minimum is -21/4 (4 variables, 8 constraints, 1 step)\n", "")
    code, out, _ = run("check", file, two)
    assert code == 0
    assert out.endswith(f"its problem is the program of oef-cooperative for {two}; optimum: 21/4\n")
    code, out, _ = run("check", file, two, "--json")
    assert json.loads(out)["optima"] == ["21/4"]
    before = file.read_bytes()
    run("solve", two, "-p", "oef-cooperative", "--time", "123456.75", "--certificate", tmp_path / "timed.vipr")
    assert "for the time '123456.75'" in run("check", tmp_path / "timed.vipr", two)[2]
    assert run("solve", two, "-p", "efficiency-only", "--certificate", file)[0] == 2
    assert file.read_bytes() == before
    other = tmp_path / "other.yaml"
    write(hetopt.Instance.from_speedups([[1, 2], [1, 6]], capacity=[1, 1]), other)
    code, out, err = run("check", file, other)
    assert (code, out) == (2, "")
    assert err.startswith(f"hetopt: {file}: has ")


def test_a_proof_that_there_is_no_allocation_is_written(
    run: Run, two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = LinearProgram.of(np.ones(1), sparse.csr_array([[2.0]]), np.ones(1), np.ones(1), integer=True)
    with pytest.raises(NotSolved) as caught:
        optimising.run(program, hetopt.Options(exact=True))
    monkeypatch.setattr("hetopt.formulations.policies.solve", Mock(side_effect=caught.value))
    file = tmp_path / "none.vipr"
    code, out, err = run("solve", two, "-p", "oef-cooperative", "--certificate", file)
    assert (code, out) == (1, "")
    assert err.startswith(f"certificate: {file}\nhetopt: {two}: the program is infeasible")
    assert (
        run("check", file)[1] == f"{file}: proven: the problem has no solution (1 variable, 2 constraints, 8 steps)\n"
    )


@pytest.mark.parametrize(
    ("before", "after", "options", "message"),
    [
        ("policy: oef-cooperative", "policy: os:system", (), "--policy is missing: the certificate names no policy"),
        ("policy: oef-cooperative", "policy", (), "--policy is missing: the certificate names no policy"),
        ("VER 1.0", "% settings: {broken\nVER 1.0", (), "--set is missing: the certificate was made with the settings"),
        ("VER 1.0", "% time: 7\nVER 1.0", (), "--time is missing: the certificate was made for the time '7'"),
        (None, "", (), "is no certificate in VIPR's format: it does not begin with VER"),
        ("VER 1.0", "{}", (), "is no certificate in VIPR's format: it does not begin with VER"),
        ("RTP range -21/4", "RTP range -5", ("-p", "oef-cooperative"), "does not end with the bound that it states"),
        ("VER 1.0", "VER 2.0", ("-p", "oef-cooperative"), "has '2.0' after 'VER' instead of 1.0"),
    ],
)
def test_comments_of_a_proof_are_not_trusted(
    run: Run, two: Path, tmp_path: Path, before: str | None, after: str, options: tuple[str, ...], message: str
) -> None:
    """They may name a policy that is installed; a module would be imported."""
    file = tmp_path / "two.vipr"
    run("solve", two, "-p", "oef-cooperative", "--certificate", file)
    file.write_text("" if before is None else file.read_text().replace(before, after))
    code, out, err = run("check", file, two, *options)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_policy_of_ones_own_works_by_module_and_name(run: Run, two: Path) -> None:
    code, out, _ = run("solve", two, "-p", "hetopt.models.oef:cooperative", "--json")
    assert code == 0
    assert json.loads(out)["certificate"]["objective"] == pytest.approx(5.25)


def test_audit_says_who_gains_by_what_lie(run: Run, two: Path) -> None:
    code, out, _ = run("audit", two, "-p", "oef-cooperative", "--json")
    verdicts = json.loads(out)
    assert code == 0
    assert verdicts["envy_free"]["holds"] is True
    assert verdicts["strategy_proof"]["holds"] is False
    assert "u1" in verdicts["strategy_proof"]["explanation"]
    code, out, _ = run("audit", two, "-p", "oef-cooperative", "--search", "0")
    assert "not searched for (--search 0)" in " ".join(out.split())
    assert "undecided" in out


@pytest.mark.parametrize("ending", [".lp", ".mps", ".json"])
def test_export_writes_readable_names(run: Run, two: Path, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"program{ending}"
    code, _, _ = run("export", two, "-p", "oef-cooperative", "--out", path)
    assert code == 0
    assert "envy_free.row" in path.read_text()


def test_export_of_a_round(run: Run, tmp_path: Path) -> None:
    """A policy that solves a program each round exports the one of its first round."""
    jobs = hetopt.Instance.from_jobs([[8, 1], [8, 1]], demand=[1, 1], work=[16, 16], capacity=[1, 1])
    write(jobs, tmp_path / "jobs.yaml")
    code, _, err = run("export", tmp_path / "jobs.yaml", "-p", "fft", "--out", tmp_path / "round.lp")
    assert (code, err) == (0, "")
    assert "share" in (tmp_path / "round.lp").read_text()


def test_settings_reach_the_policy(run: Run, tmp_path: Path) -> None:
    jobs = hetopt.Instance.from_jobs([[8, 1], [8, 1]], demand=[1, 1], work=[16, 16], capacity=[1, 1])
    write(jobs, tmp_path / "jobs.yaml")
    code, out, _ = run("solve", tmp_path / "jobs.yaml", "-p", "fft", "--set", "round_seconds=60", "--json")
    assert code == 0
    assert sum(sum(row.values()) for row in json.loads(out)["gpus"].values()) == 2


def test_instances_are_listed_shown_and_written(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("instances", "--json")
    assert code == 0
    assert {"oef/eq6", "lab36"} <= set(json.loads(out))
    code, out, _ = run("instances", "oef/eq6")
    assert code == 0
    assert "u2" in out
    path = tmp_path / "eq6.yaml"
    code, _, _ = run("instances", "oef/eq6", "--out", path)
    assert code == 0
    assert read(path).entities().speed.tolist() == [[1, 2], [1, 5]]
    code, _, err = run("instances", "oef/eq6", "--out", path)
    assert code == 2, "what is there is not overwritten"
    assert "exists already" in err


def test_policies_are_listed(run: Run) -> None:
    code, out, _ = run("policies", "--json")
    listed = json.loads(out)
    assert code == 0
    assert {"oef-cooperative", "oef-noncooperative", "fft", "gavel-max-min", "ceei"} <= set(listed)
    assert all(text for text in listed.values()), "each says what it does"


BAD = [
    (["solve", "nowhere.yaml", "-p", "oef-cooperative"], "nowhere.yaml"),
    (["solve", "oef/eq7", "-p", "oef-cooperative"], "there is no instance 'oef/eq7'; did you mean 'oef/eq"),
    (["solve", "oef/eq6", "-p", "oef-coperative"], "did you mean 'oef-cooperative'?"),
    (["solve", "oef/eq6", "-p", "no.such.module:Name"], "cannot be loaded"),
    (["solve", "oef/eq6", "-p", "oef-cooperative", "--set", "speed=1"], "has no setting 'speed'"),
    (["solve", "oef/eq6", "-p", "oef-cooperative", "--set", "speed"], "must have the form key=value"),
    (["solve", "oef/eq6", "-p", "oef-cooperative", "--plot", "x.gif"], "must end in one of .png"),
    (["solve", "oef/eq6", "-p", "oef-cooperative", "--solver", "abacus"], "abacus"),
    (["solve", "oef/eq6", "-p", "oef-cooperative", "--gap", "-1"], "gap"),
    (["solve", "oef/eq6", "-p", "fft"], "jobs"),
    (["export", "oef/eq6", "-p", "oef-cooperative", "--out", "x.xlsx"], "it must be one of lp, mps, json"),
    (["instances", "--out", "x.yaml"], "--out needs the name of an instance"),
    (["audit", "oef/eq6", "-p", "ceei", "--search", "-1"], "--search is -1.0"),
    (["audit", "oef/eq6", "-p", "ceei", "--search", "nan"], "--search is nan"),
    (["solve", "oef/eq6", "-p", "ceei", "--plot", "no/x.png"], "no"),
    (["solve", "oef/eq6", "-p", "oef-noncooperative", "--set", "canonical=maybe"], "it must be true or false"),
    (
        ["solve", "oef/eq6", "-p", "oef-noncooperative", "--set", "canonical=[1"],
        "--set 'canonical=[1': the value is not",
    ),
    (["solve", "oef/eq6", "-p", ":x"], "name your own as module:Name"),
    (["place", "oef/eq6", "-p", "oef-cooperative"], "oef/eq6: the instance has no jobs, and only jobs are placed"),
    (["solve", "lab36/jobs", "-p", "fft", "--time", "-1"], "time is -1"),
]


@pytest.mark.parametrize(("words", "message"), BAD)
def test_bad_input_is_one_line_and_exit_code_2(
    run: Run, words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*words)
    assert code == 2
    assert message in err
    assert err.startswith("hetopt: ")
    assert err.count("\n") == 1, "one line"
    assert not out
    assert not list(tmp_path.iterdir()), "nothing half-written"


def test_a_broken_file_names_file_line_and_key(run: Run, two: Path) -> None:
    two.write_text(two.read_text().replace("GPU2: 5", "GPU2: -5"))
    code, _, err = run("solve", two, "-p", "oef-cooperative")
    assert code == 2
    assert "two.yaml:9" in err
    assert "-5" in err


IMPOSSIBLE = """
import pyomo.environ as pyo
from hetopt.models import oef

class Promise:
    name = "promise"
    def add(self, block, model):
        block.row = pyo.Constraint(expr=model.rate["u1"] >= 100)
        return 0

def impossible():
    return oef.cooperative() + Promise()
"""


def test_no_solution_is_exit_code_1(run: Run, two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A promise of more GPUs than the cluster has is infeasible: the conflicting rows are named.

    The policy's module lies in the folder in which the command is run, as a user's own would.
    """
    (two.parent / "promises.py").write_text(IMPOSSIBLE)
    monkeypatch.chdir(two.parent)
    code, out, err = run("solve", two, "-p", "promises:impossible")
    assert (code, out) == (1, "")
    assert "promise.row" in err
    assert err.count("\n") == 1


def test_the_file_and_the_hint_are_added_to_a_copy_of_an_error() -> None:
    wide = hetopt.Instance.from_speedups([[1, 2], [1, 5e6]], capacity=[1, 1])
    problem = NotSolved("the program is infeasible", "infeasible", ("row",))
    with pytest.raises(NotSolved) as caught, error_context("two.yaml", wide):
        raise problem
    assert str(caught.value).startswith("two.yaml: the program is infeasible; numbers far apart: tenants['u2'].")
    assert (caught.value.status, caught.value.conflict) == ("infeasible", ("row",))
    assert str(problem) == "the program is infeasible"


def test_the_demo_compares_every_policy_and_writes_a_report(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("demo", "--out", tmp_path / "demo")
    assert code == 0
    page = (tmp_path / "demo" / "report.html").read_text()
    for name in ("oef-cooperative", "fft", "gavel-max-min", "ceei", "gandiva-fair", "allox"):
        assert name in page
        assert name in out
    assert len(page) < 600_000, "bytes"
    assert not re.findall(r"""(?:src|href)=["']http|url\(["']?http|@import""", page), "nothing is loaded from elsewhere"
    assert (tmp_path / "demo" / "comparison.csv").exists()
    assert "report:" in out
    placed = pd.read_csv(tmp_path / "demo" / "placement.csv", index_col=0)
    solved = pd.read_csv(tmp_path / "demo" / "comparison.csv", index_col=0)
    assert list(placed.index) == list(solved.index), "every policy is rounded and placed"
    assert (placed["running"] + placed["waiting"])["oef-cooperative"] == 24
    assert (placed["gpus"] <= 36).all()
    assert (placed["change"] - (placed["total"] / solved["total"] - 1)).abs().max() < EQUAL
    assert "rounded to whole GPUs and placed" in out
    assert page.count("<caption>jobs on servers in the first round</caption>") == len(placed)
    assert (tmp_path / "demo" / "trade-off.svg").exists()
    assert "at 5400 s" in page, "the moment at which the last job has arrived"
