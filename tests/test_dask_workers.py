"""Tasks and simulations in the workers of a Dask cluster on this machine: their results, kills, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from dask_cluster import dask_cluster
from test_interrupted_runs import WAITS, tables
from waiting import until

from hetopt import InvalidOption, dask_workers
from hetopt.errors import MissingPackage, PolicyFailed
from hetopt.experiments import experiment
from hetopt.experiments.experiment import CHECKPOINT, Experiment, SystemVariant
from hetopt.experiments.run_store import RunKey, RunRecord, RunStore
from hetopt.experiments.trace_workload import TraceWorkload
from hetopt.parallel import number_of_workers, run_parallel
from hetopt.presentation import simulation_progress
from hetopt.simulation.progress import SimulationProgress
from hetopt.versions import versions

PAIR = Experiment((TraceWorkload("hadar/m5"),), (SystemVariant("gavel"), SystemVariant("srtf")))
KILL = "__import__('os').kill(__import__('os').getpid(), 9)"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with two workers; Dask gives a task up when its first worker is killed."""
    pytest.importorskip("distributed", reason="dask and distributed are not installed")
    settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    with dask_cluster(tmp_path_factory.mktemp("dask"), 2, settings=settings) as made:
        yield made


def test_every_result_comes_with_its_arguments(address: str) -> None:
    assert number_of_workers(address) == 2
    assert dict(run_parallel(pow, [(2, n) for n in range(5)], address)) == {(2, n): 2**n for n in range(5)}


def test_tasks_begin_in_their_order_in_the_current_folder(address: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    texts = [(f"__import__('os').getcwd() + 'x' * {n}",) for n in range(9)]
    order = [result for _, result in run_parallel(eval, texts, address)]
    assert sorted(order) == [str(tmp_path) + "x" * n for n in range(9)]
    assert order.index(str(tmp_path)) < 4, "one of the first"


def test_a_task_that_kills_its_workers_costs_no_other(address: str) -> None:
    """Though Dask blames those that wait at a killed worker."""
    tasks = [(KILL,), *((f"{n}",) for n in range(6))]
    found = dict(run_parallel(eval, tasks, address, lambda text: f"killed: {text}"))
    assert found == {(KILL,): f"killed: {KILL}"} | {(f"{n}",): n for n in range(6)}


def test_no_task_runs_on_after_the_end(address: str, tmp_path: Path) -> None:
    """Its worker is ended and started again."""
    path, sleep = f"__import__('pathlib').Path({str(tmp_path / 'pid')!r})", "__import__('time').sleep"
    waits = f"[{path}.write_text(str(__import__('os').getpid())), {sleep}(600)]"
    follows = f"[{sleep}(0.01) for _ in iter({path}.exists, True)]"
    results = run_parallel(eval, [(waits,), (follows,)], address)
    next(results)
    results.close()
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not Path(f"/proc/{pid}").exists(), "the worker has ended")


def test_workers_import_changed_modules_again(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for value in (1, 2):
        # of another length: Python takes its cached code for files of the same second and length
        (tmp_path / "of_a_user.py").write_text(f"VALUE = {value}" + "\n" * value)
        found = [result for _, result in run_parallel(eval, [("__import__('of_a_user').VALUE",)] * 4, address)]
        assert found == [value] * 4


DIES = WAITS.replace(
    'while number == 3 and not Path("go").exists():\n            time.sleep(0.01)',
    """if number == 3 and not Path("killed").exists():
            Path("killed").touch()
            os.kill(os.getpid(), 9)""",
)


def test_simulations_give_the_same_though_a_worker_is_killed(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The killed run continues from its checkpoint; the folder is shared, so the progress of all is seen."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "dies.py").write_text(DIES)
    systems = (SystemVariant("gavel"), SystemVariant("dies:Waits"), SystemVariant("srtf"))
    three = Experiment((TraceWorkload("hadar/m5"),), systems)
    seen: dict[RunKey, list[object]] = {}
    three.run(
        RunStore(tmp_path / "runs"),
        jobs=address,
        watch=lambda key, now: seen.setdefault(key, []).append(now),
        checkpoint_every=0.0,
    )
    assert Path("killed").exists()
    first, second = sorted(Path().glob("decisions-*"), key=lambda path: path.stat().st_mtime)
    assert first.read_text() == "0 1 2 3 "
    assert not second.read_text().startswith("0")
    assert all(isinstance(found[-1], RunRecord) for found in seen.values())
    (tmp_path / "alone").mkdir()
    three.run(RunStore(tmp_path / "alone" / "runs"))
    found, expected = tables(tmp_path), tables(tmp_path / "alone")
    assert list(found) == list(expected)
    for name, table in expected.items():
        pd.testing.assert_frame_equal(found[name], table, check_exact=True)


def as_if_killed(*systems: str) -> Callable[..., Generator[Any]]:
    """Runs tasks here, but those of these systems as if each had killed all its workers."""

    def run(work: Any, tasks: Any, jobs: Any, killed: Any) -> Generator[Any]:
        for task in tasks:
            yield task, killed(*task) if task[0].system.name in systems else work(*task)

    return run


def test_a_run_that_kills_its_workers_has_failed_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checkpoint stays, so that it can continue on a host with more memory."""
    monkeypatch.setattr(experiment, "run_parallel", as_if_killed("gavel"))
    checkpoint = tmp_path / RunKey("hadar/m5", "gavel", 0).folder() / CHECKPOINT
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    with pytest.raises(PolicyFailed, match=r"^gavel on hadar/m5, seed 0: each worker .* was killed.* are stored$"):
        PAIR.run(RunStore(tmp_path), jobs="tcp://there:1")
    assert [run.key.system for run in RunStore(tmp_path)] == ["srtf"]
    assert checkpoint.exists()


def test_runs_that_took_longest_begin_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As stored of another seed; of a system without stored runs the mean of all is expected."""
    order: list[str] = []

    def run(work: Any, tasks: Any, *_: Any) -> Generator[Any]:
        order.extend(str(spec.key) for spec, *_ in tasks)
        yield from ()

    monkeypatch.setattr(experiment, "run_parallel", run)
    store = RunStore(tmp_path)
    for system, seconds in (("fifo", 1.0), ("srtf", 9.0)):
        store.write(RunRecord(RunKey("hadar/m5", system, 0), {}, seconds=seconds, refused=None), None)
    systems = tuple(map(SystemVariant, ("fifo", "las", "srtf")))
    Experiment((TraceWorkload("hadar/m5"),), systems, (1, 2)).run(store, jobs=2)
    assert order == [f"{system} on hadar/m5, seed {seed}" for system in ("srtf", "las", "fifo") for seed in (1, 2)]


# -- refused


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ("two", r"^jobs is 'two'; it must be a number, or the address of a scheduler of Dask: tcp://HOST:PORT$"),
        ("tcp://127.0.0.1:1", r"^jobs is 'tcp://127\.0\.0\.1:1': no scheduler of Dask answers there \(Timed out"),
        ("ftp://here:1", r"no scheduler of Dask answers there \(unknown address scheme 'ftp'"),
    ],
)
def test_a_scheduler_that_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: str, message: str
) -> None:
    pytest.importorskip("distributed", reason="dask and distributed are not installed")
    monkeypatch.setattr(dask_workers, "ANSWER_SECONDS", 0.1)
    with pytest.raises(InvalidOption, match=message):
        PAIR.run(RunStore(tmp_path), jobs=jobs)


@pytest.mark.parametrize("words", ["simulate hadar/m5 -p srtf", "reproduce fft"])
def test_commands_report_it_in_one_line(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*words.split(), "--jobs", "two")
    assert (code, out) == (2, "")
    assert err == (
        "hetopt: jobs is 'two'; it must be a number, or the address of a scheduler of Dask: tcp://HOST:PORT\n"
    )


def test_stored_runs_need_no_scheduler(tmp_path: Path) -> None:
    store, nowhere = RunStore(tmp_path), "tcp://127.0.0.1:1"
    PAIR.run(store)
    assert PAIR.run(store, jobs=nowhere) == []
    with simulation_progress.shown_runs("simulate", [], nowhere, {}) as work:
        assert work.runs.remaining == 0.0


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetopt.checks.find_spec", lambda _: None)
    with pytest.raises(MissingPackage, match=r"distributed is not installed; pip install 'hetopt\[hosts\]'"):
        number_of_workers("tcp://127.0.0.1:1")


def test_workers_of_another_version_are_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_workers, "versions", lambda: versions() | {"hetopt": "later"})
    with pytest.raises(
        InvalidOption, match=r"worker that cannot run tasks: tcp://.*: it has hetopt .*, and this .* later$"
    ):
        list(run_parallel(pow, [(2, 3)], address))


@pytest.mark.parametrize(
    ("threads", "nanny", "fault"),
    [
        (2, "tcp://here:1", "it runs 2 tasks in one process; start it with --nworkers 2 --nthreads 1"),
        (1, None, "no nanny restarts it when it is killed; start it without --no-nanny"),
        (1, "tcp://here:1", ""),
    ],
)
def test_workers_that_cannot_be_killed_alone_are_refused(threads: int, nanny: str | None, fault: str) -> None:
    worker: Any = SimpleNamespace(state=SimpleNamespace(nthreads=threads), nanny=nanny)
    assert dask_workers._fault(versions(), worker) == fault


def test_a_scheduler_without_workers_is_noted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first one may come later, as where a queue has to start it."""
    monkeypatch.setattr(simulation_progress, "number_of_workers", lambda _: 0)
    key, now = RunKey("hadar/m5", "srtf", 0), SimulationProgress(1.0, 1, 2, 3, 0.5, 10.0)
    with simulation_progress.shown_runs("simulate", [key], "tcp://there:1", {}) as work:
        work.update(key, now)
        assert work.runs.remaining == 10.0
    assert (
        capsys.readouterr().err
        == "hetopt: simulate: no worker has joined tcp://there:1 yet; runs begin when one does\n"
    )
