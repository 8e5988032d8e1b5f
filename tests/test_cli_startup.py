"""The command line answers at once: what it imports, how its commands are listed, and what a shell completes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from hetopt.cli.app import HEADINGS, app
from hetopt.data.instance_files import PARSERS
from hetopt.executor.state_database import StateDatabase
from hetopt.plugins import COMMANDS

HETOPT = Path(sys.executable).with_name("hetopt")

HEAVY = {"numpy", "pandas", "scipy", "pyomo", "flint", "matplotlib", "highspy", "joblib", "hypothesis", "tornado"}
"""Packages that take long to import; numpy alone takes as long as Python."""

STATE = {"sqlite3", "yaml"}
"""Packages of the state database and of job files."""

OWN = [name for part in HEADINGS.values() for names in part.values() for name in names]

IMPORTED = """
import json, sys
from hetopt.cli.main import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["hetopt", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
print("\\n" + json.dumps(sorted(sys.modules)))
"""


def imported(folder: Path, *commands: list[str], **environment: str) -> tuple[set[str], str]:
    """The packages, and the modules in them, that these commands import; and what they print."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, json.dumps(commands)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    printed, _, names = done.stdout.rstrip().rpartition("\n")
    return set(json.loads(names)), printed


def test_version_and_help_import_no_heavy_package(tmp_path: Path) -> None:
    for words in (["--version"], ["--help"]):
        assert not imported(tmp_path, words)[0] & (HEAVY | STATE | {"pydantic"})


def test_the_help_of_a_command_imports_no_heavy_package(tmp_path: Path) -> None:
    packages, printed = imported(tmp_path, *([name, "--help"] for name in OWN))
    assert not packages & (HEAVY | STATE)
    assert printed.count("Usage: ") == len(OWN)


def test_submit_and_status_import_no_heavy_package(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("{name: train, steps: 10, command: [python, train.py]}")
    packages, printed = imported(tmp_path, ["submit", "job.yaml"], ["status"], HETOPT_STATE=str(tmp_path / "state"))
    assert "train: submitted" in printed
    assert "0/10" in printed
    assert packages >= STATE
    assert not packages & HEAVY


def test_a_job_in_json_is_submitted_without_yaml_and_leases(tmp_path: Path) -> None:
    """Which take 10 and 3 ms to import."""
    (tmp_path / "job.json").write_text('{"name": "train", "steps": 10, "command": ["python", "train.py"]}')
    modules, printed = imported(tmp_path, ["submit", "job.json"], HETOPT_STATE=str(tmp_path / "state"))
    assert "train: submitted" in printed
    assert not modules & {"yaml", "hetopt.executor.lease_record"}


# Completion


def completed(folder: Path, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    environment = {"_HETOPT_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(["hetopt", *words])}
    packages, printed = imported(folder, [], **environment, COMP_CWORD=str(len(words)), HETOPT_STATE="state")
    assert not packages & (HEAVY | {"yaml"})
    return printed.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["so"], ["solve"]),
        (["solve", "lab36"], ["lab36", "lab36/a10", "lab36/jobs"]),
        (["solve", "mi"], ["mixed/"]),
        (["solve", "mixed/"], ["mixed/in.yaml"]),
        (["solve", "-p", "oef-c"], ["oef-cooperative"]),
        (["solve", "--pol"], ["--policy"]),
        (["place", "--method", "heavy"], ["heavy-edge"]),
        (["simulate", "gavel-l"], ["gavel-like"]),
        (["simulate", "gavel-like", "-p", "fft,gavel-t"], ["fft,gavel-tenants", "fft,gavel-total-throughput"]),
        (["run", "--engine", "s"], ["slurm"]),
        (["reproduce", "h"], ["hadar"]),
        (["show", "hadar-p1"], ["hadar-p1"]),
        (["submit", "mi"], []),  # bash then offers files
        (["verify", "h"], ["hadar/*"]),
        (["logs", "t"], ["train", "train-2"]),
        (["drain", "n"], ["node1"]),
        (["cancel", "--state", "other", "t"], []),
    ],
)
def test_names_are_completed(tmp_path: Path, words: list[str], offered: list[str]) -> None:
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "in.yaml").touch()
    with StateDatabase(tmp_path / "state", make=True) as database, database.writing() as connection:
        connection.insert("nodes", name="node1")
        for number, name in enumerate(["other", "train", "train-2"]):
            more = {"tenant": "", "spec": "", "state": "queued", "submitted_at": ""}
            connection.insert("jobs", name=name, submitted=number, **more)
    assert completed(tmp_path, *words) == offered


def test_files_of_every_format_are_completed(tmp_path: Path) -> None:
    files = sorted(f"mine{ending}" for ending in PARSERS)
    for name in (*files, "mine.txt"):
        (tmp_path / name).touch()
    assert completed(tmp_path, "solve", "mi") == files


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_with_the_shown_script(tmp_path: Path) -> None:
    script = """
        eval "$(hetopt --show-completion; true)"
        complete -p hetopt
        COMP_WORDS=(hetopt policies --j) COMP_CWORD=2
        _hetopt_completion hetopt
        echo "${COMPREPLY[@]}"
    """
    path = f"{HETOPT.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["complete -o default -F _hetopt_completion hetopt", "--json"]


# The list of commands


def invoke(*words: str) -> Any:
    return CliRunner().invoke(app, words)


def test_the_help_lists_each_command_below_its_heading() -> None:
    lines = invoke("--help").stdout.splitlines()
    start = lines.index("Solve and explain:")
    listed: dict[str, list[str]] = {}
    for line in lines[start:]:
        if line and not line.startswith(" "):
            heading = line.removesuffix(":")
            listed[heading] = []
        elif line.startswith("  ") and line[2:3].strip():
            listed[heading].append(line.split()[0])
    assert listed == {heading: [n for names in part.values() for n in names] for heading, part in HEADINGS.items()}


def test_a_mistyped_command_is_answered_with_the_nearest() -> None:
    found = invoke("simlate")
    assert found.exit_code == 2
    assert "No such command 'simlate'. Did you mean 'simulate'?" in found.stderr


def test_other_packages_add_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_greeting.py").write_text('def greet(name: str):\n    """Greet."""\n    print("hello", name)\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    points = {
        "greet": EntryPoint("greet", "own_greeting:greet", "hetopt.commands"),
        "solve": EntryPoint("solve", "own_greeting:greet", "hetopt.commands"),
    }
    monkeypatch.setitem(COMMANDS.__dict__, "points", points)
    assert invoke("greet", "you").stdout == "hello you\n"
    assert "Commands of other packages:\n  greet  Greet.\n" in invoke("--help").stdout
    assert "INSTANCE" in invoke("solve", "--help").stdout, "hetopt's own commands are not replaced"


def test_every_flag_can_be_switched_off() -> None:
    group: Any = typer.main.get_command(app)
    commands = {name: group.resolve_command(typer.Context(group), [name])[1] for name in OWN}
    flags = [(name, flag) for name, one in commands.items() for flag in one.params if getattr(flag, "is_flag", False)]
    assert ("solve", "exact") in [(name, flag.name) for name, flag in flags]
    for name, flag in flags:
        longest = max(flag.opts, key=len)
        assert flag.secondary_opts == [f"--no-{longest.removeprefix('--')}"], name
