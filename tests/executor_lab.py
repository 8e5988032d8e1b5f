"""A cluster of declared slots with its own state, driven by commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]
QUICK = ("--slots", "slots.yaml", "--poll", "0.05s", "--profile-seconds", "0.3s", "--ttl", "600s", "--until-idle")
"""Short passes; leases outlive a controller that gets no CPU for minutes."""


@pytest.fixture(name="lab")
def some_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with declared slots, and its own state."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HETOPT_STATE", str(tmp_path / "state"))
    (tmp_path / "slots.yaml").write_text("nodes:\n  a: {slots: {slow: 2}}\n  b: {slots: {fast: 1}}\n")
    return tmp_path


def job_file(folder: Path, name: str = "train", *, gate: Path | None = None, **settings: Any) -> Path:
    """The file of a job that counts; after half of its steps it waits for the file ``gate``."""
    program = Path(__file__).parent / "executor_job.py"
    fields = {
        "name": name,
        "command": [sys.executable, str(program), str(folder / "witness"), "0.01"] + [str(gate)] * (gate is not None),
        "steps": 60,
        "grace": "2s",
        **settings,
    }
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(fields))  # JSON is YAML
    return path


def jobs_of(run: Run) -> dict[str, Any]:
    """The fields of each job in the status."""
    code, out, err = run("status", "--json")
    assert code == 0, err
    return {job["name"]: job for job in json.loads(out)["jobs"]}
