"""CPU of a command that answers at once, beside that of importing the libraries of every command line."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

HETOPT = [str(Path(sys.executable).with_name("hetopt"))]
PEER = [sys.executable, "-c", "import typer, rich"]
COMPLETION = {"_HETOPT_COMPLETE": "complete_bash", "COMP_WORDS": "hetopt solve lab36 -p oef-c", "COMP_CWORD": "4"}

MOST = 3
"""Times the CPU of the peer."""


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
