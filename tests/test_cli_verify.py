"""The command ``hetopt verify``: tables, JSON, pages, properties, bad input."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from hetopt.cli.app import app
from hetopt.errors import HetoptError, InvalidOption, UnknownName
from hetopt.proofs.ledger.claim import ClaimVerdict

QUICK = ("--quick", "--instances", "5", "--jobs", "1")

POLICIES = '''
"""Policies of a test."""
import numpy as np
from hetopt.models.baselines import by_rule


class All:
    """Everything to the first."""

    def __call__(self, instance, state=None):
        entities = instance.entities()
        x = np.zeros(entities.shape)
        x[0] = entities.capacity / entities.demand[0]
        return by_rule(entities, x, "all", 0.0), None


class Broken:
    """Fails."""

    def __call__(self, instance, state=None):
        raise KeyError("oh")


class Leaves:
    """Ends the program."""

    def __call__(self, instance, state=None):
        raise SystemExit(3)


class Talks(All):
    """Prints."""

    def __call__(self, instance, state=None):
        print("here I am")
        return super().__call__(instance, state)


class Sometimes(All):
    """Fails for three."""

    def __call__(self, instance, state=None):
        if len(instance.entities().names) > 2:
            raise KeyError("three")
        return super().__call__(instance, state)


class Wrong:
    """Answers something else."""

    def __call__(self, instance, state=None):
        return 7
'''


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["verify", *words])


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_verified.py").write_text(POLICIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "own_verified"


def test_verdicts_and_evidence_are_printed() -> None:
    found = run("oef/thm-5.4", "oef/eq-6", *QUICK)
    assert found.exit_code == 0
    for part in (
        "oef/thm-5.4",
        "false",
        "5/3 instead of 3/2",
        "oef/eq-6",
        "true",
        "2 printed claims: 1 false, 1 true;",
    ):
        assert part in found.output


def test_useless_files_of_counterexamples_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from hetopt.proofs.ledger import counterexample_files

    monkeypatch.setattr(counterexample_files, "_index", lambda: ({"oef/thm-9": ("refuted/one",)}, ["refuted/other"]))
    found = run("oef/eq-6", *QUICK)
    assert found.exit_code == 1
    assert "instance refuted/other cannot be read" in found.stderr
    assert "instance refuted/one is a counterexample to 'oef/thm-9', which is no claim of the ledger" in found.stderr
    assert "1 true" in found.stdout


def test_as_json() -> None:
    found = run("oef/thm-5.3*", *QUICK, "--json")
    assert found.exit_code == 0
    data = json.loads(found.stdout)
    assert len(data) == 6
    assert {row["paper"] for row in data} == {"OEF"}
    assert all(row["verdict"] == row["expected"] for row in data)


def test_the_list() -> None:
    found = run("--list", "oef/*")
    assert found.exit_code == 0
    assert "oef/lemma-3.1" in found.output
    data = json.loads(run("--list", "--json").stdout)
    assert {"paper", "place", "claim", "expected", "statement", "hypotheses", "quote"} == set(data[0])


def test_an_attack() -> None:
    found = run("oef/thm-5.1-sharing", "oef/thm-5.4", "--attack", "--seconds", "1", "--jobs", "1")
    assert found.exit_code == 0
    assert "1 true claim attacked in" in found.output
    (one,) = json.loads(run("oef/thm-5.1-sharing", "--attack", "--seconds", "1", "--jobs", "1", "--json").stdout)
    assert (one["claim"], one["outcome"]) == ("oef/thm-5.1-sharing", "stands")
    assert one["cases"] > 0


def test_an_attack_that_succeeds_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from hetopt.proofs.ledger import attack

    own = attack.adversaries()["oef/thm-5.1-sharing"]
    monkeypatch.setattr(attack, "adversaries", lambda: {"oef/thm-5.1-sharing": replace(own, slack=lambda _: -1)})
    found = run("oef/thm-5.1-sharing", "--attack", "--seconds", "1", "--jobs", "1")
    assert found.exit_code == 1
    assert "1 refuted or in dispute" in found.output


def test_theorems_of_claims_without_any() -> None:
    found = run("fft/fig-1-speedups", "--kernel")
    assert isinstance(found.exception, InvalidOption)
    assert "no theorem in Coq is about these claims" in str(found.exception)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--kernel", "--attack"], "--attack cannot be combined with --kernel"),
        (["--policy", "fft", "--attack"], "--policy cannot be combined with --attack"),
        (["--list", "--keep", "kept"], "--keep is not for --list"),
        (["--kernel", "--html", "page.html"], "--html is not for --kernel"),
        (["oef/*", "--policy", "fft"], "leave out the claims"),
        (["oef/thm-5.4", "--attack"], "none of these claims is true"),
    ],
)
def test_options_that_do_not_go_together(words: list[str], text: str) -> None:
    found = run(*words)
    assert isinstance(found.exception, InvalidOption)
    assert text in str(found.exception)


def test_another_verdict_than_expected_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from hetopt.proofs.ledger import discovery

    one = discovery.all_claims()["oef/eq-6"]
    monkeypatch.setattr(discovery, "all_claims", lambda: {"oef/eq-6": replace(one, expected=ClaimVerdict.FALSE)})
    found = run("oef/eq-6", *QUICK)
    assert found.exit_code == 1
    assert "true, not false" in found.output


def test_claims_decided_before_a_stop_are_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from hetopt.proofs.ledger import verification

    every = verification.decide_all

    def stopped(*given: Any) -> Iterator[verification.DecidedClaim]:
        yield from islice(every(*given), 1)
        raise KeyboardInterrupt

    monkeypatch.setattr(verification, "decide_all", stopped)
    page = tmp_path / "page.html"
    page.write_text("all claims")
    found = run("oef/eq-6", "oef/thm-5.4", *QUICK, "--html", str(page))
    assert found.exit_code == 130
    assert page.read_text() == "all claims", "a part of the claims does not replace a whole page"
    assert "stopped; 1 of 2 claims decided" in found.output
    assert "1 true" in found.output


def test_the_page_and_stored_counterexamples(tmp_path: Path) -> None:
    page = tmp_path / "ledger.html"
    found = run("oef/thm-5.4", *QUICK, "--html", str(page), "--keep", str(tmp_path / "kept"))
    assert found.exit_code == 0
    assert "<svg" in page.read_text()
    assert "stored: none" in found.output  # nothing smaller than what is stored
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["oef/thm-9"], UnknownName, "there is no claim 'oef/thm-9'; did you mean 'oef/thm-"),
        (["--instances", "0"], InvalidOption, "instances is 0"),
        (["--seconds", "-1"], InvalidOption, "seconds is -1"),
        (["--jobs", "-2"], InvalidOption, "jobs is -2"),
        (["--jobs", "0"], InvalidOption, "jobs is 0"),
        (["--policy", "nothing"], UnknownName, "there is no policy 'nothing'"),
        (["--policy", "fft", "oef/eq-6"], InvalidOption, "--policy tests properties, not claims"),
        (["--policy", "fft", "--set", "nothing=1"], InvalidOption, "has no setting 'nothing'"),
        (["--markdown", "x.md"], InvalidOption, "--set and --markdown are for --policy"),
        (["--html", "/nowhere/x.html"], HetoptError, "/nowhere"),
    ],
)
def test_bad_input(words: list[str], error: type[Exception], message: str) -> None:
    found = run(*words)
    assert found.exit_code != 0
    assert isinstance(found.exception, error)
    assert message in str(found.exception)


def test_properties_of_a_policy_of_ones_own(own: str, tmp_path: Path) -> None:
    page, matrix = tmp_path / "p.html", tmp_path / "m.md"
    words = ("--policy", f"{own}:All", "--instances", "8", "--seconds", "0", "--jobs", "1")
    found = run(*words, "--html", str(page), "--markdown", str(matrix))
    assert found.exit_code == 0
    assert "All, tenants" in found.output
    assert "would have" in found.output  # the envy of u2
    assert "holds on " in found.output
    fails = r'<a href="#\S+">✗</a>'
    assert re.search(rf"\n\| `{own}:All`, tenants \| {fails} \| {fails} \|", matrix.read_text())
    assert "<svg" in page.read_text()
    data = json.loads(run(*words, "--json").stdout)
    assert [row["about"] for row in data] == ["tenants", "jobs"]
    assert data[0]["properties"]["envy-free"]["holds"] is False
    assert data[0]["properties"]["envy-free"]["counterexample"]["slack"].startswith("-")
    assert data[1]["properties"]["false-type"]["why"] == "the property does not apply to jobs"


def test_side_by_side(own: str) -> None:
    words = ("--policy", "equal-split", "--instances", "3", "--seconds", "0", "--json")
    assert [
        {key: cell["holds"] for key, cell in row["properties"].items()} for row in json.loads(run(*words).stdout)
    ] == [
        {key: cell["holds"] for key, cell in row["properties"].items()}
        for row in json.loads(run(*words, "--jobs", "1").stdout)
    ]


def test_a_policy_that_fails_or_answers_something_else(own: str) -> None:
    found = run("--policy", f"{own}:Broken", "--jobs", "1")
    assert isinstance(found.exception, InvalidOption)
    assert "policy Broken fails on an instance: KeyError: 'oh'" in str(found.exception)
    found = run("--policy", f"{own}:Leaves", "--jobs", "1")
    assert "policy Leaves fails on an instance: SystemExit: 3" in str(found.exception)
    found = run("--policy", f"{own}:Wrong", "--jobs", "1")
    assert isinstance(found.exception, HetoptError)
    assert "returned 7" in str(found.exception)


@pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=pytest.mark.long)])
def test_what_policies_print_is_no_result_and_no_folder_is_left(own: str, tmp_path: Path, jobs: str) -> None:
    words = ["--policy", f"{own}:Talks", "--instances", "2", "--seconds", "0", "--json", "--jobs", jobs]
    (tmp_path / "empty").mkdir()
    given = {**os.environ, "PYTHONPATH": str(tmp_path)}
    given.pop("HYPOTHESIS_STORAGE_DIRECTORY", None)
    found = subprocess.run(
        [str(Path(sys.executable).with_name("hetopt")), "verify", *words],
        capture_output=True,
        cwd=tmp_path / "empty",
        env=given,
        check=True,
    )
    assert json.loads(found.stdout)[0]["policy"] == f"{own}:Talks"
    assert b"here I am" in found.stderr
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_policy_that_fails_at_times_leaves_what_is_known_of_others(own: str) -> None:
    words = ["--instances", "12", "--seconds", "0", "--jobs", "1", "--json"]
    found = run("--policy", "equal-split", "--policy", f"{own}:Sometimes", *words)
    assert found.exit_code == 2
    data = json.loads(found.stdout)
    assert data[0]["properties"]["envy-free"]["holds"] is True
    broken = next(row for row in data if row["policy"] == f"{own}:Sometimes")["properties"]["pareto-efficient"]
    assert broken["broken"]
    assert "policy Sometimes fails on an instance: KeyError: 'three'; with speeds (1, " in broken["why"]
    assert f"{own}:Sometimes, pareto-efficient: policy Sometimes fails" in found.stderr


def test_a_policy_about_jobs_alone_says_so() -> None:
    found = run("--policy", "fft", "--instances", "3", "--seconds", "0", "--jobs", "1")
    assert found.exit_code == 0
    assert "fft does not support tenants" in found.output
