"""What a pass of the controller takes from the passes before is what it would find out again."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from effort import examples
from executor_cluster import LAB, opened, spec, with_speeds
from executor_stage import Stage
from hypothesis import given, settings
from hypothesis import strategies as st

from hetopt.executor.cluster_state import ClusterObserver
from hetopt.executor.queue import cancel, drain, submit
from hetopt.executor.reconciler import Reconciler
from hetopt.executor.speeds import read_speeds
from hetopt.executor.state_database import Cache

ACTS = ("submit", "submit", "pass", "pass", "wait", "cancel", "drain", "undrain", "down", "up", "used", "restart")


@given(st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 5)), max_size=14), st.sampled_from([None, 5.0]))
@settings(max_examples=examples(25, 250), deadline=None)
def test_what_is_kept_between_passes_is_what_is_read_again(acts: list[tuple[str, int]], seconds: float | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder) / "state", *LAB, seconds=seconds)
        stage.play(1, 0.5)
        for number, (act, which) in enumerate(acts):
            _do(stage, act, which, number)
            stage.play(1, 0.5)
            check(stage)
        stage.controller.close()


def _do(stage: Stage, act: str, which: int, number: int) -> None:
    hosts, at = stage.engine.hosts, which % len(LAB)
    if act == "submit":
        submit(stage.database, spec(f"j{number}", workers=1 + which % 2))
        with_speeds(stage.database, len(stage.states()), dict.fromkeys(("K80", "P100", "V100"), 1.0 + which))
    elif act == "wait":
        stage.play(1, 40.0)
    elif act == "cancel" and (jobs := [name for name, state in stage.states().items() if state == "queued"]):
        cancel(stage.database, jobs[which % len(jobs)])
    elif act in ("drain", "undrain"):
        drain(stage.database, LAB[at].name, undo=act == "undrain")
    elif act in ("down", "up"):
        hosts[at] = replace(hosts[at], up=act == "up")
    elif act == "used":
        hosts[at] = replace(hosts[at], used={LAB[at].seats[0].gpu_type: which % 3})
    elif act == "restart":
        stage.restart()


def check(stage: Stage) -> None:
    one, database = stage.controller, stage.database
    leases = one.manager.leases()
    assert leases == opened(database)
    state = one.observer.observe(leases)
    fresh = ClusterObserver(database, Cache(database), one.monitor, profile=False).observe(leases)
    assert state == replace(fresh, now=state.now)
    with database.reading() as connection:
        assert state.speeds == read_speeds(connection)
    monitor = one.monitor
    if monitor._leases is leases and monitor._used_by_others == monitor._others:
        before, monitor._leases = (monitor.drained, monitor.usable(leases)), ()
        monitor.observe(leases)
        assert (monitor.drained, monitor.usable(leases)) == before
    if one.reconciler._settled and all(
        a is b for a, b in zip(one.reconciler._settled, (leases, state.usable), strict=False)
    ):
        version = database.version()
        Reconciler(database, one.manager).reconcile(state, one._targets(), one.scheduler.number)
        assert database.version() == version
    nodes, jobs = one.scheduler._basis(state)
    assert one.scheduler._explained == ((nodes, state.all_gpus), jobs)
    assert one.scheduler._unable == one.scheduler.decider.unable(state)
