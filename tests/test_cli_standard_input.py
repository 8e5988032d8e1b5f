"""``-`` in place of a file is standard input."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from hetopt.executor.queue import job_row, spec_of
from hetopt.executor.state_database import StateDatabase

Run = Callable[..., tuple[int, str, str]]

INSTANCE = """schema: hetopt/instance/1
cluster: {capacity: {GPU1: 1, GPU2: 1}}
tenants:
  - {name: u1, speedup: {GPU1: 1, GPU2: 2}}
  - {name: u2, speedup: {GPU1: 1, GPU2: 5}}
"""
"""OEF's equation 6: the cooperative total is 21/4."""

JSON = """{
\t"schema": "hetopt/instance/1",
\t"cluster": {"capacity": {"GPU1": 1, "GPU2": 1}},
\t"tenants": [
\t\t{"name": "u1", "speedup": {"GPU1": 1, "GPU2": 2}},
\t\t{"name": "u2", "speedup": {"GPU1": 1, "GPU2": 5}}
\t]
}"""
"""The same, indented with tabs, as YAML may not be."""


@pytest.fixture
def piped(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run ``hetopt …`` in an empty folder; the first argument is its standard input."""
    monkeypatch.chdir(tmp_path)

    def call(text: str, *words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return run(*words)

    return call


@pytest.mark.parametrize("text", [INSTANCE, JSON], ids=["YAML", "JSON"])
def test_an_instance_is_read(piped: Run, text: str) -> None:
    code, out, _ = piped(text, "solve", "-", "-p", "oef-cooperative", "--json")
    assert code == 0
    assert json.loads(out)["certificate"]["objective"] == pytest.approx(5.25)
    assert json.loads(out)["instance"] == "<stdin>"


@pytest.mark.parametrize(
    "words",
    [
        ["audit", "-", "-p", "equal-split", "--search", "0"],
        ["export", "-", "-p", "oef-cooperative", "--out", "program.lp"],
        ["instances", "-", "--out", "copy.yaml"],
        ["demo", "--instance", "-", "--out", "demo"],
    ],
    ids=lambda words: words[0],
)
def test_other_commands_read_it_too(piped: Run, words: list[str]) -> None:
    assert piped(INSTANCE, *words)[0] == 0


def test_a_shown_instance_is_read_again(piped: Run) -> None:
    shown = piped("", "instances", "oef/eq6", "--json")[1]
    code, out, _ = piped(shown, "solve", "-", "-p", "oef-cooperative", "--json")
    assert (code, json.loads(out)["instance"]) == (0, "oef/eq6")


def test_an_error_names_its_line(piped: Run) -> None:
    code, out, err = piped(INSTANCE.replace("GPU2: 5", "GPU2: -5"), "solve", "-", "-p", "ceei")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("hetopt: <stdin>:5: tenants[1].speedup.GPU2 is -5; it must be ")


def test_a_job_is_submitted_from_the_current_folder(piped: Run, tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    state = tmp_path / "state"
    job = "{name: train, steps: 10, command: [python, train.py], cwd: inside}"
    assert piped(job, "submit", "-", "--state", str(state))[0] == 0
    with StateDatabase(state) as database, database.reading() as connection:
        assert spec_of(job_row(connection, "train")).cwd == str(tmp_path / "inside")
    code, _, err = piped("name: other\n", "submit", "-", "--state", str(state))
    assert (code, err) == (2, "hetopt: <stdin>:1: command is missing; the file must have one\n")


@pytest.fixture
def jobs(run: Run, piped: Run, tmp_path: Path) -> str:
    """Hadar's motivating instance, as JSON."""
    assert run("instances", "hadar/m5", "--out", "m5.json")[0] == 0
    text = (tmp_path / "m5.json").read_text()
    (tmp_path / "m5.json").unlink()
    return text


@pytest.mark.parametrize("as_yaml", [False, True])
def test_a_simulation_keeps_its_input(run: Run, piped: Run, jobs: str, as_yaml: bool, tmp_path: Path) -> None:
    """The results are those of the file, and are found again by a second call."""
    text = yaml.safe_dump(json.loads(jobs)) if as_yaml else jobs
    words = ["-p", "srtf,fifo", "--out", "runs", "--json"]
    code, out, _ = piped(text, "simulate", "-", *words)
    assert code == 0
    expected = json.loads(run("simulate", "hadar/m5", "-p", "srtf,fifo", "--out", "named", "--json")[1])
    assert [row["jct_mean"] for row in json.loads(out)] == [row["jct_mean"] for row in expected]
    (kept,) = (tmp_path / "runs" / "inputs").glob(f"stdin-*.{'yaml' if as_yaml else 'json'}")
    assert kept.read_text() == text
    assert piped(text, "simulate", "-", *words[:-1])[1].endswith("0 runs, 2 already stored: runs\nhetopt report runs\n")
    assert run("report", "runs")[0] == 0


def test_servers_and_a_trace_may_be_standard_input(piped: Run, run: Run, tmp_path: Path) -> None:
    run("instances", "lab36", "--out", "lab.json")
    words = ["--count", "3", "-p", "srtf", "--out", "runs", "--json"]
    code, out, _ = piped((tmp_path / "lab.json").read_text(), "simulate", "fft-trace-2", "--cluster", "-", *words)
    assert code == 0
    assert json.loads(out)[0]["jobs"] == 3
    trace = "job,arrival,gpus,duration\na,0,1,60\nb,10,2,60\n"
    code, out, err = piped(trace, "simulate", "-", "--kind", "plain", "--cluster", "lab36", *words[2:])
    assert code == 0, err
    assert json.loads(out)[0]["jobs"] == 2


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        (INSTANCE, ["-"], "jobs"),
        (
            INSTANCE.replace("GPU2: 5", "GPU2: -5"),
            ["-"],
            "hetopt: <stdin>:5: tenants[1].speedup.GPU2 is -5; it must be ",
        ),
        (INSTANCE, ["-", "--cluster", "-"], "only one can be standard input"),
        (INSTANCE, ["-", "--round", "-5"], "--round is -5.0; it must be a finite number > 0"),
    ],
)
def test_of_input_that_cannot_be_simulated_nothing_is_kept(
    piped: Run, text: str, words: list[str], message: str, tmp_path: Path
) -> None:
    code, out, err = piped(text, "simulate", *words, "-p", "fft")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [["solve", "-", "-p", "fft"], ["submit", "-"], ["simulate", "-", "-p", "fft"]])
def test_standard_input_that_is_closed_is_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", None)
    code, out, err = run(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("hetopt: <stdin>")
    assert "it is closed" in err
