"""Changes to a running cluster, and errors of one job or policy, which must not affect the others."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from executor_cluster import granted
from executor_lab import QUICK, Run, job_file, jobs_of, some_lab  # noqa: F401 - the last a fixture
from waiting import until

from hetopt.errors import InvalidOption
from hetopt.executor import leases
from hetopt.executor.controller import lease_facts
from hetopt.executor.engines.engine import Seat
from hetopt.executor.merging import Merges
from hetopt.executor.queue import retry
from hetopt.executor.snapshot import snapshot
from hetopt.executor.state_database import Cache, StateDatabase

SLOW = [*QUICK[:-1]]


class Interrupts:
    """In place of received signals: true once a condition holds."""

    def __init__(self, over: Callable[[], bool]) -> None:
        self.over = over

    def __bool__(self) -> bool:
        return self.over()


@contextmanager
def interrupted_when(over: Callable[[], bool]) -> Iterator[None]:
    """A controller ends as after Ctrl-C once the condition holds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hetopt.executor.commands._interrupts", lambda: nullcontext(Interrupts(over)))
        yield


def status(run: Run) -> dict[str, Any]:
    """The status as JSON."""
    content: dict[str, Any] = json.loads(run("status", "--json")[1])
    return content


def test_another_engine_does_not_take_leases_over(lab: Path, run: Run) -> None:
    """It cannot see their processes, and would treat them as dead."""
    run("submit", job_file(lab))
    with StateDatabase(lab / "state") as database:
        with database.writing() as connection:
            for key, value in lease_facts(database, "slurm", None).items():
                database.set_meta(connection, key, value)
        granted(database, 1, [Seat("a", "slow", 0)])
    code, _, err = run("run", *QUICK)
    assert code == 2
    assert "--engine is local, but leases that run are of --engine slurm" in err
    with StateDatabase(lab / "state") as database:
        with pytest.raises(
            InvalidOption, match="--leases is /elsewhere, but leases that run are of --leases by default"
        ):
            lease_facts(database, "slurm", Path("/elsewhere"))
        lease_facts(database, "slurm", None)


def test_a_second_controller_is_refused_with_a_message(lab: Path, run: Run) -> None:
    with StateDatabase(lab / "state") as database:
        database.lock()
        code, _, err = run("run", "--leases", "mine", *QUICK)
    assert code == 2
    assert "has a controller already" in err


POLICIES = r"""
from hetopt import Plan
import numpy as np

class First:
    def __call__(self, instance, state=None):
        jobs = instance.entities("jobs")
        x = np.zeros(jobs.shape)
        x[0, jobs.speed[0].argmax()] = jobs.demand[0]
        return Plan(jobs, x), None

class Unpicklable(First):
    def __call__(self, instance, state=None):
        return super().__call__(instance)[0], lambda: 1

class Crash:
    def __call__(self, instance, state=None):
        raise ValueError("boom\nsecond line")
"""


@pytest.fixture
def policies(lab: Path) -> None:
    """A module of policies in the folder, not yet imported."""
    (lab / "my_policies.py").write_text(POLICIES)
    sys.modules.pop("my_policies", None)  # an example of the docs has this name


@pytest.mark.usefixtures("policies")
def test_a_policy_from_a_module_in_the_folder_drives_the_cluster(lab: Path, run: Run) -> None:
    run("submit", job_file(lab))
    code, _, err = run("run", "--policy", "my_policies:First", "--round", "1s", "--no-profile", *QUICK)
    assert code == 0, err
    assert jobs_of(run)["train"]["state"] == "done"


@pytest.mark.usefixtures("policies")
@pytest.mark.parametrize(("policy", "why"), [("Crash", "ValueError: boom second line"), ("Unpicklable", "pickle")])
def test_a_policy_that_cannot_decide_is_reported_once(lab: Path, run: Run, policy: str, why: str) -> None:
    """The status shows it too; with another policy the cluster continues."""
    run("submit", job_file(lab))
    passes = 0

    def enough() -> bool:
        nonlocal passes
        with StateDatabase(lab / "state") as database:
            passes += snapshot(database).undecided is not None
        return passes > 30  # for more than a second, in which it has tried again

    with interrupted_when(enough):
        code, _, err = run("run", "--policy", f"my_policies:{policy}", "--round", "0.5s", "--no-profile", *SLOW)
    assert code == 130
    assert err.count("\n") == 3, err  # the start, this error, and the stop
    assert "cannot decide, so running jobs continue: " in err
    assert why in err
    assert "stopped\n" in err
    assert why.split(":")[-1].split()[0] in status(run)["undecided"]
    assert "The policy cannot decide" in run("status")[1] or "No controller runs" in run("status")[1]
    assert run("run", "--policy", "fifo", "--no-profile", *QUICK)[0] == 0
    assert jobs_of(run)["train"]["state"] == "done"
    assert status(run)["undecided"] is None


def test_an_error_in_one_job_does_not_stop_the_others(lab: Path, run: Run) -> None:
    run("submit", job_file(lab, "odd", utility="nonsense"))
    run("submit", job_file(lab, "good"))

    def over() -> bool:
        return jobs_of(run)["good"]["state"] == "done"

    with interrupted_when(over):
        run("run", "--policy", "hadar", "--round", "0.5s", "--no-profile", *SLOW)
    jobs = jobs_of(run)
    assert (jobs["good"]["state"], jobs["odd"]["state"]) == ("done", "queued")
    assert jobs["odd"]["reason"].startswith("jobs['odd'].utility is 'nonsense'")
    assert status(run)["undecided"] is None


def test_a_gpu_type_that_no_node_has_is_named_in_the_reason(lab: Path, run: Run) -> None:
    """Submitted before a controller has recorded the nodes; the job waits for such a node."""
    run("submit", job_file(lab, "late", gpu_types=["h100"]))
    run("submit", job_file(lab, "good"))

    def over() -> bool:
        jobs = jobs_of(run)
        return jobs["good"]["state"] == "done" and jobs["late"]["reason"] is not None

    with interrupted_when(over):
        run("run", "--round", "0.5s", *SLOW)
    late = jobs_of(run)["late"]
    assert (late["state"], late["reason"]) == ("queued", "no node has a GPU of its gpu_types (h100)")


def test_a_new_round_length_applies_at_once(lab: Path, run: Run) -> None:
    run("submit", job_file(lab, "first", command=["true"]))
    assert run("run", "--round", "600s", "--no-profile", *QUICK)[0] == 0
    run("submit", job_file(lab, "second", command=["true"]))
    run("submit", job_file(lab, "third", command=["true"]))
    assert run("run", "--round", "1s", "--no-profile", *QUICK)[0] == 0
    assert [job["state"] for job in jobs_of(run).values()] == ["done"] * 3


def test_a_cancelled_job_whose_copies_do_not_fit_is_cancelled(lab: Path, run: Run) -> None:
    run("submit", job_file(lab))
    with StateDatabase(lab / "state") as database:
        with database.writing() as connection:
            connection.update("jobs", {"cancelled": True})
            parts = json.dumps([[str(lab / "a"), 1.0], [str(lab / "b"), 1.0]])
            connection.insert("merges", job=1, step=5, parts=parts, folder=str(lab / "m" / "step-5"))
        for name, file in (("a", "x.npz"), ("b", "y.npz")):
            (lab / name).mkdir()
            (lab / name / file).write_bytes(b"")
        merges = Merges(database, lab / "leases", Cache(database))
        until(lambda: merges.step() or jobs_of(run)["train"]["state"] != "queued", "it is over")
        merges.close()
        job = jobs_of(run)["train"]
        assert (job["state"], job["reason"]) == ("cancelled", "cancelled")
        with database.writing() as connection:
            connection.update("jobs", {"state": "failed"})
        retry(database, "train")
        with database.reading() as connection:
            assert connection.value("SELECT cancelled FROM jobs") is False


SABOTAGE = {
    "takes its directory away": "shutil.rmtree(folder); time.sleep(0.5)",
    "asks itself to stop": "(folder / 'stop').write_text('now'); time.sleep(1000)",
    "ends without a word": "exec('from hetopt.executor import lease\\nwith lease() as job: job.done(False)')",
}


@pytest.mark.parametrize(("what", "profile"), [*((what, True) for what in SABOTAGE), ("asks itself to stop", False)])
def test_a_job_whose_leases_are_lost_again_and_again_is_given_up(
    lab: Path, run: Run, monkeypatch: pytest.MonkeyPatch, what: str, profile: bool
) -> None:
    """It backs off longer each time; the others go on."""
    monkeypatch.setattr(leases, "MAX_BACKOFF", 0.05)
    monkeypatch.setattr(leases, "MAX_LOSSES", 4)
    program = "import os, pathlib, shutil, time; folder = pathlib.Path(os.environ['HETOPT_LEASE']);" + SABOTAGE[what]
    run("submit", job_file(lab, "odd", command=[sys.executable, "-c", program]))
    run("submit", job_file(lab, "good"))
    code, _, err = run("run", "--policy", "fifo", *([] if profile else ["--no-profile"]), *QUICK)
    assert code == 0, err
    jobs = jobs_of(run)
    assert jobs["good"]["state"] == "done"
    assert jobs["odd"]["state"] == "failed"
    assert "leases in a row ended early, without a request or a checkpoint" in jobs["odd"]["reason"]
    code, _, err = run("retry", "odd")
    assert code == 0, err
    assert (jobs_of(run)["odd"]["losses"], jobs_of(run)["odd"]["state"]) == (0, "queued")
