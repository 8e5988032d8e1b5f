"""Settings of every test run."""

from __future__ import annotations

import itertools
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib
import pytest
from effort import examples
from executor_leases import Clock, Runners
from executor_stage import Stage
from hypothesis import HealthCheck, settings
from left_processes import adopt_orphans, descendants, end_all_but

from hetopt.executor import lease_directory
from hetopt.executor.engines.engine import Node

os.environ.pop("COLUMNS", None)  # GNU readline, which pytest imports, sets it for the processes of pytest-xdist
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")  # tests run side by side; commands need no workers
matplotlib.use("Agg")
# Derandomised, so that a red run is red again; without deadline, since other work may share the machine.
settings.register_profile(
    "hetopt",
    derandomize=True,
    deadline=None,
    max_examples=examples(20, 60),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("hetopt")

adopt_orphans()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many processes the fault tests of the executor have killed, by engine and kind."""
    found: dict[str, Counter[str]] = {}
    for report in (one for reports in terminalreporter.stats.values() for one in reports):
        for name, content in getattr(report, "user_properties", ()):
            if name == "kills" and report.when == "call":
                found.setdefault(content[0], Counter()).update(content[1])
    for engine, kills in sorted(found.items()):
        kinds = ", ".join(f"{number} {kind}" for kind, number in kills.most_common())
        terminalreporter.write_line(f"kill -9 with {engine}: {kills.total()} ({kinds})")


@pytest.fixture(autouse=True)
def modules_of_a_test_are_forgotten(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Modules that a test has written and imported are not those of the next test."""
    known = len(sys.modules)
    yield
    folder = str(tmp_path_factory.getbasetemp())
    for name, module in list(sys.modules.items())[known:]:  # the last imported ones
        if str(getattr(module, "__file__", None)).startswith(folder):
            del sys.modules[name]


@pytest.fixture(scope="module", autouse=True)
def no_process_is_left_of_a_module() -> Iterator[None]:
    """Fixtures of a module end what they have started."""
    yield from _nothing_is_left()


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Every test ends what it has started; otherwise it is killed here, and the test fails."""
    yield from _nothing_is_left()


def _nothing_is_left() -> Iterator[None]:
    before = descendants()
    yield
    if left := end_all_but(before):
        pytest.fail("processes were left behind: " + "; ".join(left), pytrace=False)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which leases go, at a standstill."""
    made = Clock()
    monkeypatch.setattr(lease_directory, "now", made)
    return made


@pytest.fixture
def counted_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time in searches for counterexamples: each look at the clock is a millisecond, on a machine of any speed."""
    looks = itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: next(looks) / 1000)
    monkeypatch.setattr("hetopt.proofs.ledger.counterexample_search.time", clock)


@pytest.fixture
def runners(tmp_path: Path) -> Iterator[Runners]:
    """Starts runners of leases; none is left at the end."""
    with Runners(tmp_path) as made:
        yield made


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Makes stages: controllers of an engine without processes."""
    made: list[Stage] = []

    def make(*hosts: Node, **named: Any) -> Stage:
        made.append(Stage(tmp_path / f"stage{len(made)}", *hosts, **named))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run ``hetopt …``: (exit code, standard output, standard error)."""

    def call(*words: Any) -> tuple[int, str, str]:
        from hetopt.cli import main as command_line

        monkeypatch.setattr(sys, "argv", ["hetopt", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            command_line.main()
        out, err = capsys.readouterr()
        code = end.value.code
        return (code if isinstance(code, int) else 0 if code is None else 1), out, err

    return call
