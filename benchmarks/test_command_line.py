"""CPU of a command that answers at once, beside that of importing the libraries of every command line.

Also of `hetopt status` where many jobs are finished: it reads only those that it shows.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from hetopt.executor.job_file import JobSpec
from hetopt.executor.state_database import StateDatabase

HETOPT = [str(Path(sys.executable).with_name("hetopt"))]
PEER = [sys.executable, "-c", "import typer, rich"]
COMPLETION = {"_HETOPT_COMPLETE": "complete_bash", "COMP_WORDS": "hetopt solve lab36 -p oef-c", "COMP_CWORD": "4"}

MOST = 3
"""Times the CPU of the peer."""

FINISHED, STATUS_SECONDS = 5000, 0.3
"""Finished jobs, and most CPU seconds of `hetopt status` with them."""


def cpu(words: list[str], environment: dict[str, str]) -> tuple[float, str]:
    """CPU seconds of a process, and what it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, done.stdout


@pytest.mark.parametrize(
    ("words", "more", "printed"),
    [
        (["--version"], {}, "hetopt "),
        (["--help"], {}, "Run a cluster:"),
        ([], COMPLETION, "oef-cooperative"),
        (["submit", "job.json"], {}, "job: submitted"),
        (["status"], {}, "0/1"),
    ],
    ids=["--version", "--help", "completion", "submit", "status"],
)
def test_start_up(
    benchmark: BenchmarkFixture,
    full: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    more: dict[str, str],
    printed: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # else every process compiles all modules
    Path("job.json").write_text(json.dumps({"name": "job", "command": ["true"], "steps": 1}))
    own, peer = list[float](), list[float]()

    def once() -> None:
        environment = {**os.environ, **more, "HETOPT_STATE": f"state{len(own)}"}
        if words == ["status"]:
            cpu([*HETOPT, "submit", "job.json"], environment)
        peer.append(cpu(PEER, environment)[0])
        seconds, text = cpu([*HETOPT, *words], environment)
        assert printed in text
        own.append(seconds)

    benchmark.pedantic(once, rounds=9 if full else 1)
    times = min(own) / min(peer)
    benchmark.extra_info |= {"CPU seconds": min(own), "peer": min(peer), "times the peer": times}
    if full:
        assert times <= MOST


def test_status_with_many_finished_jobs(
    benchmark: BenchmarkFixture, full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    spec = JobSpec(name="job", command=["true"], steps=1000).model_dump_json()
    with StateDatabase(tmp_path / "state") as database, database.writing() as connection:
        known = {"tenant": "default", "spec": spec, "submitted_at": "2026-01-01T00:00:00+00:00", "committed": 1000}
        rows = [
            {"name": f"job-{i}", "state": "done", "submitted": float(i), "finished": i + 50.0, **known}
            for i in range(FINISHED)
        ]
        connection.insert_all("jobs", rows)
        speeds = [
            {"job": i + 1, "gpu_type": kind, "feasible": True, "steps": 9.0, "seconds": 3.0}
            for i in range(FINISHED)
            for kind in ("K80", "V100")
        ]
        connection.insert_all("speeds", speeds)
    own = list[float]()

    def once() -> None:
        seconds, text = cpu([*HETOPT, "status"], {**os.environ, "HETOPT_STATE": str(tmp_path / "state")})
        assert f"{FINISHED} finished" in text
        own.append(seconds)

    benchmark.pedantic(once, rounds=7 if full else 1, warmup_rounds=1)
    benchmark.extra_info |= {"CPU seconds": statistics.median(own)}
    if full:
        assert statistics.median(own) <= STATUS_SECONDS
