"""``-`` in place of a file is standard input."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hetopt.executor.queue import form_of, job_row
from hetopt.executor.store import StateStore

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
    with StateStore(state) as store, store.reading() as connection:
        assert form_of(job_row(connection, "train")).cwd == str(tmp_path / "inside")
    code, _, err = piped("name: other\n", "submit", "-", "--state", str(state))
    assert (code, err) == (2, "hetopt: <stdin>, line 1: command is missing; the file must have one\n")


@pytest.mark.parametrize("words", [["-"], ["fft-trace-2", "--cluster", "-"]])
def test_a_simulation_needs_files(piped: Run, words: list[str]) -> None:
    """Runs read their input again, with other seeds, in other processes and on another day."""
    code, out, err = piped(INSTANCE, "simulate", *words, "-p", "fft")
    assert (code, out) == (2, "")
    assert err == "hetopt: standard input cannot be simulated, since each run reads its input again; name a file\n"
