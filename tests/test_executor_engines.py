"""This machine's engine, and that of the how-to, pass the conformance suite."""

from __future__ import annotations

import importlib
import os
import re
import signal
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from executor_leases import AWAY, Runners, alive, content_of, lines_of
from waiting import until

from hetopt.engine_conformance import CHECKS, Bench
from hetopt.executor import lease_directory as files
from hetopt.executor.engines.engine import LeaseRecord, Node, Seat
from hetopt.executor.engines.local import LocalEngine

HOSTS = (
    Node("a", tuple(Seat("a", "slow", i) for i in range(2))),
    Node("b", tuple(Seat("b", "fast", i, f"GPU-{uuid.uuid4()}") for i in range(3))),
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_local_engine_passes_the_conformance_suite(check: Callable[[Bench], None], tmp_path: Path) -> None:
    check(Bench(lambda cluster: LocalEngine(HOSTS, cluster), tmp_path))


GUIDE = Path(__file__).parents[1] / "docs" / "how-to" / "add-an-engine.md"


@pytest.mark.parametrize("engine", ["remote", "queued"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_engines_of_the_guide_pass_the_conformance_suite(
    check: Callable[[Bench], None], engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the benches that the guide shows."""
    shown = dict(re.findall(r"^:caption: (\S+)\n\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL))
    for name in ("remote", "queued", "test_engines"):
        (tmp_path / f"{name}.py").write_text(shown[f"{name}.py"])
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    getattr(importlib.import_module("test_engines"), f"test_{engine}")(check, tmp_path)


def test_a_kill_leaves_no_process(runners: Runners, tmp_path: Path) -> None:
    """Also processes without the tag and without a parent in the lease, of a runner that hangs."""
    book = tmp_path / "book"
    folder = runners.lease(AWAY, book, "stays")
    tag = content_of(folder, files.LEASE)["tag"]
    engine = LocalEngine(HOSTS, "x")
    engine.start(LeaseRecord(tag, folder, HOSTS[0].seats[:1]))
    until(lambda: len(lines_of(book)) == 2, "they live")
    os.kill(content_of(folder, files.claim_file(0))["pid"], signal.SIGSTOP)
    engine.kill([tag])
    assert engine.fenced_after(tag) == 0.0
    assert [line[1] for line in lines_of(book) if alive(line[1])] == []
    assert content_of(folder, files.exit_file(0))["reason"] == "lost"
    engine.close()
