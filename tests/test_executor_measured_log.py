"""The example of the how-to works on any state, and the measured instance equals that of the policies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from executor_cluster import rows, spec, with_speeds
from executor_lab import QUICK, Run, job_file, jobs_of, some_lab  # noqa: F401 - the last a fixture

from hetopt.errors import InvalidInstance
from hetopt.executor.cluster_state import ClusterState
from hetopt.executor.controller import system_of
from hetopt.executor.engines.engine import Node, Seat
from hetopt.executor.lease_record import SEALED
from hetopt.executor.leases import LeaseResult, grant, open_leases, seal
from hetopt.executor.measured_log import instance_of, log_of
from hetopt.executor.queue import cancel, submit
from hetopt.executor.round_decision import RoundDecider
from hetopt.executor.speeds import read_speeds
from hetopt.executor.state_database import StateDatabase
from hetopt.metrics import summary
from hetopt.models.hadare.corrected_throughput import estimated
from hetopt.simulation.simulator import simulate

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "run-a-lab.md"
SLOW, FAST = Seat("a", "slow", 0), Seat("b", "fast", 0)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[StateDatabase]:
    with StateDatabase(tmp_path / "state") as made:
        yield made


def with_nodes(
    database: StateDatabase, nodes: Mapping[str, Mapping[str, int]], memory: Mapping[str, float] | None = None
) -> None:
    """Record nodes as an engine reports them."""
    with database.writing() as connection:
        connection.change("DELETE FROM nodes")
        for name, gpus in nodes.items():
            content = json.dumps({"gpus": gpus, "up": True, "note": "", "memory_bytes": memory or {}})
            connection.insert("nodes", name=name, drained=False, content=content)


def with_round(database: StateDatabase) -> None:
    with database.writing() as connection:
        more = {"policy": "fft", "jobs": 1, "placed": 1, "gpus": 1, "capacity": 3, "seconds": 0.5}
        connection.insert("rounds", time=database.now(), **more)


def number(database: StateDatabase, name: str) -> int:
    return next(int(row["id"]) for row in rows(database) if row["name"] == name)


def ran(
    database: StateDatabase, name: str, seats: Sequence[Seat], ending: LeaseResult | None, copies: bool = False
) -> None:
    """Leases of a job (of a copy on each seat), with this outcome; None: they are open."""
    parts = [[seat] for seat in seats] if copies else [list(seats)]
    with database.writing() as connection:
        for i, part in enumerate(parts, start=1):
            more: dict[str, Any] = {"copy": i, "forked": True, "until_step": 500} if copies else {}
            assert grant(connection, database, number(database, name), part, **more) is not None
    with database.writing() as connection:
        now = database.now()
        connection.update("leases", {"running": now, "first_tick": now}, "state != :sealed", sealed=SEALED)
    with database.reading() as connection:
        leases = [lease for lease in open_leases(connection, database.folder) if lease.job == name]
    for lease in leases if ending is not None else ():
        assert ending is not None
        seal(database, lease, ending)


def out_of_memory(database: StateDatabase, name: str, *types: str) -> None:
    with database.writing() as connection:
        for kind in types:
            more = {"feasible": False, "steps": 0.0, "seconds": 0.0, "note": "out of memory"}
            connection.insert("speeds", job=number(database, name), gpu_type=kind, **more)


def all_outcomes(database: StateDatabase) -> None:
    """Jobs in all states."""
    for one in (
        spec("done", tenant="done"),
        spec("nocmd"),
        spec("queued", deadline="1 h", utility="throughput", weight=2.0, model="bert", tenant="ann"),
        spec("runs", tenant="ann", workers=2),
        spec("forked", fork=True, model="mlp"),
        spec("cancelled"),
        spec("large"),
        spec("huge"),
        spec("picky", gpu_types=["fast"]),
        spec("elsewhere", gpu_types=["other"]),
        spec("crowd", workers=7),
    ):
        submit(database, one)
    with_nodes(database, {"a": {"slow": 2}, "b": {"fast": 1}})
    with_round(database)
    failed = LeaseResult("failed", failure="'nocmd' cannot be started")
    with_speeds(database, number(database, "done"), {"slow": 2.0, "fast": 6.0})
    with_speeds(database, number(database, "forked"), {"slow": 4.0})
    with_speeds(database, number(database, "large"), {"fast": 3.0})
    out_of_memory(database, "large", "slow")
    out_of_memory(database, "huge", "slow", "fast", "old")
    ran(database, "done", [SLOW], LeaseResult("ended", step=1000, finished=True))
    for _ in range(3):
        ran(database, "nocmd", [SLOW], failed)
    with_round(database)
    ran(database, "forked", [SLOW, FAST], LeaseResult("stopped", step=200), copies=True)
    ran(database, "cancelled", [Seat("gone", "old", 0)], LeaseResult("stopped", step=10))
    ran(database, "huge", [FAST], LeaseResult("failed", failure="out of memory"))
    cancel(database, "cancelled")
    ran(database, "runs", [SLOW, Seat("a", "slow", 1)], None)


def measured(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The output of the page's example for this state."""
    monkeypatch.setenv("HETOPT_STATE", str(folder))
    found = re.search(r"^## Measure it$.*?^```text\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    exec(found[1], {})
    return capsys.readouterr().out


def test_the_example_of_the_page_measures_any_state(
    database: StateDatabase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    all_outcomes(database)
    printed = measured(database.folder, monkeypatch, capsys)
    log, instance = log_of(database), instance_of(database)
    could_never_run = {"huge", "elsewhere", "crowd"}
    assert set(instance.job) == set(log.jobs.index) == {str(row["name"]) for row in rows(database)} - could_never_run
    assert set(log.spans["job"]) == {"done", "nocmd", "forked", "cancelled", "runs"}
    assert not could_never_run & set(log.events["job"].dropna())
    numbers = summary(log, instance)
    assert re.search(r"^jobs +8\.0", printed, re.MULTILINE), printed
    assert (numbers["finished"], numbers["started"], numbers["unfinished"]) == (1.0, 5.0, 7.0)
    assert instance.cluster.capacity == {"slow": 2, "fast": 1, "old": 1}


def test_the_example_of_the_page_measures_a_real_lab(
    lab: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("submit", job_file(lab, "trained"))
    run("submit", job_file(lab, "nocmd", command=["/nowhere/nothing"]))
    run("submit", job_file(lab, "unaware", command=["true"]))
    run("submit", job_file(lab, "never"))
    run("cancel", "never")
    assert run("run", *QUICK)[0] == 0
    run("submit", job_file(lab, "queued"))
    assert {name: job["state"] for name, job in jobs_of(run).items()} == {
        "trained": "done",
        "nocmd": "failed",
        "unaware": "done",
        "never": "cancelled",
        "queued": "queued",
    }
    printed = measured(lab / "state", monkeypatch, capsys)
    assert re.search(r"^jobs +5\.0", printed, re.MULTILINE), printed
    assert re.search(r"^finished +2\.0", printed, re.MULTILINE), printed


def test_a_state_without_jobs_is_an_error(
    database: StateDatabase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InvalidInstance, match="knows no node with a GPU yet"):
        measured(database.folder, monkeypatch, capsys)
    with_nodes(database, {"a": {"slow": 2}})
    with_round(database)
    with pytest.raises(InvalidInstance, match="has no job yet that its nodes could run"):
        measured(database.folder, monkeypatch, capsys)
    submit(database, spec("never"))
    cancel(database, "never")
    with_round(database)  # after the last job has finished
    assert re.search(r"^unfinished +1\.0", measured(database.folder, monkeypatch, capsys), re.MULTILINE)
    submit(database, spec("waits"))
    assert re.search(r"^unfinished +2\.0", measured(database.folder, monkeypatch, capsys), re.MULTILINE)


def test_before_the_first_round_jobs_are_profiled(
    database: StateDatabase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    submit(database, spec("new"))
    with_nodes(database, {"a": {"slow": 2}})
    ran(database, "new", [SLOW], None)
    assert re.search(r"^started +1\.0", measured(database.folder, monkeypatch, capsys), re.MULTILINE)


def test_the_instance_equals_that_of_the_policies(database: StateDatabase) -> None:
    """The same jobs in all fields, whatever was measured."""
    for one in (
        spec("a", tenant="ann", fork=True, memory="10 GB", weight=3.0, model="bert", deadline="1 h", utility="x"),
        spec("b", tenant="bob"),
        spec("c", tenant="bob", gpu_types=["fast", "mid"], estimate={"batch_size": 64, "model_weight": "high"}),
    ):
        submit(database, one)
    gpus, memory = {"n": {"slow": 2, "mid": 1}, "m": {"fast": 2}}, {"slow": 12e9, "mid": 8e9, "fast": 16e9}
    with_nodes(database, gpus, memory)
    with_speeds(database, 1, {"slow": 2.0, "fast": 6.0})
    with_speeds(database, 3, {"mid": 5.0})
    out_of_memory(database, "b", "slow")
    seats = {n: tuple(Seat(n, t, i) for t, k in own.items() for i in range(k)) for n, own in gpus.items()}
    nodes = [Node(n, own, memory_bytes={s.gpu_type: memory[s.gpu_type] for s in own}) for n, own in seats.items()]
    with database.reading() as connection:
        cluster_state = ClusterState(database.now(), nodes, rows(database), [], read_speeds(connection))
    shown, _ = RoundDecider(system_of("fft", {}, None), estimated).instance(cluster_state)
    found = instance_of(database)
    assert shown is not None
    types = shown.cluster.type_names
    assert set(types) == set(found.cluster.type_names) == {"slow", "mid", "fast"}
    assert found.jobs == shown.jobs
    assert found.tenants == shown.tenants
    assert [[job.throughput[t] > 0 for t in ("slow", "mid", "fast")] for job in found.jobs] == [
        [True, False, True],
        [False, False, True],
        [False, True, True],
    ]
    assert [job.copies for job in found.jobs] == [None, 1, 1]


@pytest.mark.parametrize("policy", ["fft", "gavel", "hadare", "hadar"])
def test_jobs_without_measurements_run_in_the_simulation(database: StateDatabase, policy: str) -> None:
    """Also on types where they never ran, and in one copy if they may not be forked."""
    for name in ("first", "second"):
        submit(database, spec(name, steps=300))
    with_nodes(database, {"a": {"slow": 1}, "b": {"fast": 1}, "c": {"fast": 1}})
    with_speeds(database, 1, {"slow": 10.0})
    log = simulate(system_of(policy, {}, 10.0), instance_of(database), round_seconds=10.0)
    assert log.jobs["finish"].notna().all()
    assert set(log.spans["gpu_type"]) & {"fast"}
    for _, own in log.spans.groupby("job"):
        own = own.sort_values("start")
        assert (own["start"].iloc[1:].to_numpy() >= own["end"].iloc[:-1].to_numpy()).all(), "two copies at once"


def test_throughput_is_relative_to_the_slowest_type_of_the_job(database: StateDatabase) -> None:
    """Also for a job that was measured only on the fast type."""
    submit(database, spec("a"))
    with_nodes(database, {"n": {"K80": 1, "V100": 1}})
    with_speeds(database, 1, {"V100": 6.0})
    with_round(database)
    ran(database, "a", [Seat("n", "V100", 0)], LeaseResult("ended", step=1000, finished=True))
    log, instance = log_of(database), instance_of(database)
    span, speeds = log.spans.iloc[0], instance.job["a"].throughput
    share = (span["end"] - span["start"] - span["lost"]) / (log.rounds["end"] - log.rounds["start"]).iloc[0]
    had = pd.Series(log.throughput.iloc[0])
    assert had["default"] == pytest.approx(share * speeds["V100"] / speeds["K80"])
    assert speeds["V100"] > speeds["K80"]


def test_a_damaged_event_of_another_kind_does_not_matter(database: StateDatabase) -> None:
    submit(database, spec("a"))
    with database.writing() as connection:
        database.record_event(connection, "drained")
        connection.execute("UPDATE events SET content = CAST(x'ff' AS TEXT) WHERE kind = 'drained'")
    assert log_of(database).events["kind"].tolist() == ["arrive"]
