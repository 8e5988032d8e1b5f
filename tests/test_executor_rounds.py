"""When a policy is called, and called again; its stored state never blocks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from executor_cluster import node, rows, spec, with_speeds
from executor_stage import Stage

from hetopt.errors import InvalidOption
from hetopt.executor.controller import system_of
from hetopt.executor.queue import cancel, retry, submit
from hetopt.executor.round_decision import RoundDecider
from hetopt.executor.scheduler import OTHERS_FIRST, RECLAIMED
from hetopt.executor.snapshot import snapshot
from hetopt.executor.status_view import status_of

Make = Callable[..., Stage]


@pytest.mark.parametrize("policy", ["gavel", "oef-cooperative", "oef-noncooperative", "fft", "hadar", "fifo"])
def test_targets_of_a_job_that_cannot_run_are_dropped(stage: Make, policy: str) -> None:
    lab = stage(node("v", {"V100": 1}), node("k", {"K80": 2}), policy=policy, seconds=60.0)
    lab.too_small, lab.passes = {"a": {"V100"}}, float("inf")
    for number, name in enumerate("ab", start=1):
        submit(lab.database, spec(name, tenant=name))
        with_speeds(lab.database, number, {"V100": 4.0, "K80": 1.0})
    lab.play(12, 20.0)
    assert "k" in lab.held()["a"]


def test_a_policy_that_has_failed_is_called_again(stage: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in every pass, and also if no job is added or removed."""
    lab = stage(node("n", {"V100": 1}))
    asked, decide = list[float](), RoundDecider.decide

    def fails(*words: Any) -> Any:
        asked.append(lab.database.now())
        if len(asked) < 3:
            raise MemoryError("for a moment")
        return decide(*words)

    monkeypatch.setattr(RoundDecider, "decide", fails)
    submit(lab.database, spec("a"))
    lab.play(150)
    assert lab.states() == {"a": "done"}
    assert min(after - before for before, after in pairwise(asked[:3])) >= 60.0


def test_a_job_that_is_retried_between_two_passes_is_decided_again(stage: Make) -> None:
    """It fails, and is retried before the next pass."""
    lab = stage(node("n", {"V100": 1}))
    lab.passes = float("inf")
    submit(lab.database, spec("a"))
    for number in range(3):
        lab.play(2)
        (lease,) = lab.leases()
        lab.end(lease, "failed", 1)
        lab.controller.manager.advance(lab.leases(), lab.engine.hosts)
        assert (rows(lab.database)[0]["state"] == "failed") == (number == 2)
    retry(lab.database, "a")
    lab.passes = 3
    lab.play(8)
    assert lab.states() == {"a": "done"}


def test_a_change_of_gpu_types_leads_to_a_decision(stage: Make) -> None:
    lab = stage(node("n", {"K80": 1}))
    submit(lab.database, spec("a", gpu_types=["V100"]))
    lab.play(3)
    lab.engine.hosts = [node("n", {"V100": 1})]
    lab.play(8)
    assert lab.states() == {"a": "done"}


def test_an_idle_cluster_needs_no_decision_in_each_pass(stage: Make) -> None:
    """A-SRPT requests a later call; by then there may be no job."""
    lab = stage(node("n", {"V100": 4}), policy="asrpt")
    for name in "ab":
        submit(lab.database, spec(name, workers=3))
    lab.play(2)
    for name in "ab":
        cancel(lab.database, name)
    lab.play(20, 100.0)
    number = lab.controller.scheduler.number
    lab.play(20, 100.0)
    assert lab.controller.scheduler.number == number


def test_a_state_of_another_cluster_does_not_stop_a_policy(stage: Make) -> None:
    """After some failed decisions it starts without its state, and a message reports that."""

    class Grudging:
        """Fails on another cluster than its first."""

        def __call__(self, instance: Any, state: Any = None) -> Any:
            plan, _ = inner(instance, None)
            if state is not None and state != instance.cluster:
                raise KeyError("V100")
            return plan, instance.cluster

    lab = stage(node("n", {"V100": 1}), seconds=60.0)
    rounds = lab.controller.scheduler
    inner, system = rounds.decider.system.policy, rounds.decider.system
    rounds.decider = replace(rounds.decider, system=replace(system, policy=Grudging()))
    lab.passes = float("inf")
    submit(lab.database, spec("a"))
    lab.play(3, 20.0)
    assert lab.held() == {"a": {"n": {"V100": 1}}}
    lab.engine.hosts = [node("n", {"V100": 1}), node("m", {"K80": 1})]
    submit(lab.database, spec("b"))
    lab.play(12, 60.0)
    assert set(lab.held()) == {"a", "b"}
    assert [line for line in lab.messages if "starts without its memory" in line] != []


def test_tiresias_continues_after_a_type_is_removed(stage: Make) -> None:
    lab = stage(node("n", {"V100": 1}), node("k", {"K80": 1}), policy="tiresias-per-type", seconds=60.0)
    lab.passes = float("inf")
    for name in "ab":
        submit(lab.database, spec(name))
    lab.play(4, 30.0)
    lab.engine.hosts = [node("n", {"V100": 1}), node("p", {"P100": 1})]
    lab.play(20, 60.0)
    assert lab.held()
    assert not [line for line in lab.messages if "cannot decide" in line]


def test_borrowed_gpus_are_shown_and_reclaimed(stage: Make) -> None:
    """Each tenant owns two of four GPUs; d borrows ann's second one until ann has a job for it."""
    lab = stage(node("n", {"V100": 4}), policy="oef-cooperative", seconds=60.0, lend=True)
    lab.passes = float("inf")
    for name, tenant in zip("abcd", ("ann", "bob", "bob", "bob"), strict=True):
        submit(lab.database, spec(name, tenant=tenant))

    def borrowers() -> list[str]:
        return [job["name"] for job in snapshot(lab.database).jobs if job["borrows"]]

    lab.play(3, 20.0)
    assert set(lab.held()) == set("abcd")
    assert borrowers() == ["d"]
    gpus = {row[0].text: row[4].text for row in status_of(snapshot(lab.database)).sections["running"].table.rows}
    assert (gpus["c"], gpus["d"]) == ("1 V100 on n", "1 V100 on n (borrowed)")
    submit(lab.database, spec("e", tenant="ann"))
    lab.restart()
    lab.play(3, 30.0)
    assert set(lab.held()) == set("abce")
    assert borrowers() == []
    (waiting,) = (job for job in snapshot(lab.database).jobs if job["name"] == "d")
    assert waiting["reason"] == RECLAIMED
    lab.play(4, 30.0)  # bob's jobs take turns on bob's own GPUs
    (waiting,) = (job for job in snapshot(lab.database).jobs if job["name"] not in lab.held())
    assert waiting["reason"] == OTHERS_FIRST


def test_a_policy_for_a_finite_schedule_is_refused() -> None:
    with pytest.raises(InvalidOption, match="for a number of rounds, and gives no job GPUs after them"):
        system_of("hadar-commit", {}, None)


@pytest.mark.parametrize("policy", ["fifo", "fft", "gavel"])
def test_on_an_idle_cluster_a_waiting_job_starts_before_the_next_round(stage: Make, policy: str) -> None:
    lab = stage(node("n", {"V100": 2}), policy=policy, seconds=600.0)
    lab.passes = 1
    for i in range(6):
        submit(lab.database, spec(f"j{i}"))
    lab.play(25)
    assert set(lab.states().values()) == {"done"}


def test_on_an_idle_cluster_a_retried_job_starts_at_once(stage: Make) -> None:
    lab = stage(node("n", {"V100": 1}), seconds=600.0)
    lab.passes = float("inf")
    submit(lab.database, spec("a"))
    while lab.states() == {"a": "queued"}:
        lab.play(2)
        for lease in lab.leases():
            lab.end(lease, "failed", 1)
    retry(lab.database, "a")
    lab.passes = 1
    lab.play(6)
    assert lab.states() == {"a": "done"}


def test_a_policy_without_an_allocation_is_not_called_in_each_pass(stage: Make) -> None:
    lab = stage(node("n", {"V100": 1}, up=False), node("k", {"K80": 1}), seconds=600.0)
    submit(lab.database, spec("a", gpu_types=["V100"]))
    lab.play(2)
    number = lab.controller.scheduler.number
    lab.play(20)
    assert lab.controller.scheduler.number == number
    lab.host("n", up=True)
    lab.play(8)
    assert lab.states() == {"a": "done"}
