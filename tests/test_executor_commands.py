"""The commands that drive a cluster, from the job's file to its end; errors are reported in one line."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from operator import mul
from pathlib import Path
from typing import Any

import pytest
from executor_job import model_after
from executor_lab import QUICK, Run, job_file, jobs_of, some_lab  # noqa: F401 - the last a fixture
from waiting import until

from hetopt.executor.processes import tagged
from hetopt.executor.state_database import StateDatabase


@pytest.mark.parametrize(
    "policy",
    [
        "fft",
        "gavel",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("oef-noncooperative", "hadar", "tiresias")),
    ],
)
def test_a_submitted_job_runs_to_its_end(lab: Path, run: Run, policy: str) -> None:
    for i in range(3):
        assert run("submit", job_file(lab, f"j{i}", tenant=f"t{i % 2}", steps=100))[0] == 0
    code, out, err = run("run", "--policy", policy, "--round", "1s", *QUICK)
    assert (code, out) == (0, ""), err
    jobs = jobs_of(run)
    assert [job["state"] for job in jobs.values()] == ["done"] * 3, jobs
    assert all(set(job["speeds"]) == {"slow", "fast"} for job in jobs.values())
    models = sorted((lab / "state" / "leases").glob("*/checkpoints/step-100/model.json"))
    assert len(models) == 3
    assert all(json.loads(path.read_text())["model"] == model_after(100) for path in models)


def test_forked_copies_share_the_steps(lab: Path, run: Run) -> None:
    """HadarE on real processes: no step is done twice, and there is a copy on each node."""
    program = [sys.executable, "-m", "hetopt.executor.demos.numpy_mlp", "--pace", "slow=60", "--pace", "fast=180"]
    assert run("submit", job_file(lab, "forked", command=program, steps=900, fork=True))[0] == 0
    code, _, err = run("run", "--policy", "hadare", "--round", "10s", "--no-profile", *QUICK)
    assert code == 0, err
    with StateDatabase(lab / "state") as database, database.reading() as connection:
        leases = connection.tuples("SELECT copy, forked, from_step, end_step, gpu_types FROM leases ORDER BY id")
        assert all(forked for _, forked, *_ in leases)
        assert sum(end - start for _, _, start, end, _ in leases) == 900
        by_type = {kind: sum(e - s for _, _, s, e, k in leases if k == kind) for kind in ("slow", "fast")}
        assert min(by_type.values()) > 0
        assert connection.value("SELECT count(*) FROM events WHERE kind = 'merging'")
    assert jobs_of(run)["forked"]["state"] == "done"


def test_a_job_that_may_not_be_forked_runs_alone(lab: Path, run: Run) -> None:
    """It keeps its GPUs over rounds; a forked one would stop after each."""
    assert run("submit", job_file(lab, "alone", fork=False, steps=400, gpu_types=["fast"]))[0] == 0
    assert run("run", "--policy", "hadare", "--round", "1s", "--no-profile", *QUICK)[0] == 0
    with StateDatabase(lab / "state") as database, database.reading() as connection:
        assert not connection.value("SELECT count(*) FROM leases WHERE forked")
        assert connection.value("SELECT count(*) FROM leases") == 1
        assert connection.value("SELECT count(*) FROM rounds") > 2


def test_status_logs_and_cancel(lab: Path, run: Run) -> None:
    code, _, err = run("status")
    assert (code, "has no state of a cluster" in err) == (2, True)
    run("submit", job_file(lab, "quick", command=["sh", "-c", "echo hello; echo there"]))
    run("submit", job_file(lab, "never"))
    assert run("cancel", "never")[1] == "never: cancelled\n"
    assert run("logs", "quick")[1] == "quick has printed nothing yet\n"
    assert run("run", "--no-profile", *QUICK)[0] == 0
    code, out, _ = run("logs", "quick", "-n", "1")
    assert (code, out.splitlines()[-1]) == (0, "there")
    assert "hello" not in out
    code, out, _ = run("status", "--all")
    assert code == 0
    assert "quick" in out
    assert "cancelled" in out
    assert run("cancel", "quick")[0] == 2


def test_a_failed_job_has_a_reason_and_can_be_retried(lab: Path, run: Run) -> None:
    run("submit", job_file(lab, "bad", command=["sh", "-c", "test -e ready && exit 0; echo no data; exit 3"]))
    assert run("run", "--no-profile", *QUICK)[0] == 0
    bad = jobs_of(run)["bad"]
    assert (bad["state"], bad["failures"]) == ("failed", 3)
    assert "exited with code 3" in bad["reason"]
    (lab / "ready").write_text("")
    assert run("retry", "bad")[1] == "bad: queued again, from step 0\n"
    assert run("run", "--no-profile", *QUICK)[0] == 0
    assert jobs_of(run)["bad"]["state"] == "done"


def test_too_little_memory_is_found_by_profiling(lab: Path, run: Run) -> None:
    """Out of memory on the small type: it is marked, and the job runs on the other."""
    program = (
        "import os\nfrom hetopt.executor import lease\n"
        "with lease() as job:\n"
        "    if 'slow' in job.gpu_types: raise MemoryError('too small')\n"
        "    import time\n"
        "    step = job.resume_step\n"
        "    while step < 100 and not job.should_stop():\n"
        "        time.sleep(0.01); step += 1; job.tick(step)\n"
        "    job.save(step, lambda d: (d / 'x').write_text('x'))\n"
        "    job.done(step >= 100)\n"
    )
    run("submit", job_file(lab, "large", command=[sys.executable, "-c", program], steps=100))
    assert run("run", "--policy", "fft", "--round", "1s", *QUICK)[0] == 0
    job = jobs_of(run)["large"]
    assert (job["state"], set(job["speeds"])) == ("done", {"fast"}), job
    everywhere = program.replace("'slow' in job.gpu_types", "True")
    run("submit", job_file(lab, "huge", command=[sys.executable, "-c", everywhere]))
    assert run("run", "--policy", "fft", "--round", "1s", *QUICK)[0] == 0
    assert jobs_of(run)["huge"]["reason"].startswith("it ran out of memory on every GPU type that it may use; ")


@contextmanager
def controller(lab: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """``hetopt run`` as a process; it does not outlive the test, nor do its jobs."""
    command = [
        sys.executable,
        "-m",
        "hetopt",
        "run",
        "--no-profile",
        "--poll",
        "0.05s",
        "--slots",
        "slots.yaml",
        *words,
    ]
    with subprocess.Popen(command, cwd=lab, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            for pid in processes():
                os.kill(pid, signal.SIGKILL)
            raise


def processes() -> list[int]:
    with StateDatabase(Path(os.environ["HETOPT_STATE"])) as database:
        return [pid for pid, tag in tagged() if tag.startswith(f"hetopt-{database.cluster}-")]


def test_a_new_controller_takes_over_after_drain_and_cancel(lab: Path, run: Run) -> None:
    """Ctrl-C ends the controller, not the jobs; the next one goes on with them."""
    run("submit", job_file(lab, "long", steps=100000, gpu_types=["slow"]))
    run("submit", job_file(lab, "short", steps=300, gpu_types=["fast"]))
    words = ("--policy", "fft", "--round", "1s", "--ttl", "600s")
    with controller(lab, *words) as first:
        until(lambda: jobs_of(run)["long"]["step"] > 5)
        assert run("run", *QUICK)[0] == 2  # one controller at a time
        first.send_signal(signal.SIGINT)
        assert "jobs continue for 600 s" in first.communicate()[1]
    assert first.returncode == 130
    before = jobs_of(run)["long"]
    assert before["state"] == "running"
    pids = processes()
    with controller(lab, *words) as second:
        until(lambda: jobs_of(run)["short"]["state"] == "done")
        assert set(processes()) & set(pids), "the job was started again"
        assert run("drain", "a")[1] == "a: is being drained\n"
        until(lambda: jobs_of(run)["long"]["state"] == "queued")
        why = "it needs 1 GPU; of those that it may use 0 slow are available; the others are drained, "
        until(lambda: (jobs_of(run)["long"]["reason"] or "").startswith(why))
        assert run("drain", "a", "--undo")[1] == "a: in use again\n"
        until(lambda: jobs_of(run)["long"]["state"] == "running")
        assert run("cancel", "long")[1] == "long: is being stopped\n"
        until(lambda: jobs_of(run)["long"]["state"] == "cancelled")
        second.send_signal(signal.SIGTERM)
        second.communicate()
    assert second.returncode == 130
    assert not processes()


@pytest.mark.parametrize("strict", [False, True])
def test_rounds_can_be_strict(lab: Path, run: Run, strict: bool) -> None:
    """With strict rounds a new job waits for the next round also on an idle cluster."""
    length = "2s" if strict else "600s"  # so that no round can begin on time
    words = ("--policy", "fifo", "--round", length, "--no-profile", *(["--strict-rounds"] if strict else []), *QUICK)
    assert run("run", *words)[0] == 0
    following = json.loads(run("status", "--json")[1])["next_round"]
    run("submit", job_file(lab, "quick", command=["true"]))
    assert run("run", *words)[0] == 0
    assert (jobs_of(run)["quick"]["started"] >= following) is strict


def test_jobs_stop_when_their_leases_are_not_renewed(lab: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the controller is killed and the lease timeout is over, the job has saved and stopped; no step is lost."""
    gate = lab / "gate"
    path = job_file(lab, "long", steps=400, gate=gate)  # seconds up to the gate, so that progress is written before it
    for timeout in itertools.accumulate(
        itertools.repeat(4), mul, initial=2
    ):  # until this machine is fast enough for it
        state = lab / f"state-{timeout}"
        monkeypatch.setenv("HETOPT_STATE", str(state))
        run("submit", path)
        with controller(lab, "--policy", "fft", "--round", "1s", "--ttl", f"{timeout}s") as first:
            until(lambda: jobs_of(run)["long"]["step"] > 5 or outcomes(state) & {"fenced", "lost"})  # noqa: B023
            first.kill()
        until(lambda: not processes())
        if not outcomes(state) & {"fenced", "lost"}:
            break
    with StateDatabase(state) as database, database.reading() as connection:
        number = connection.value("SELECT max(id) FROM leases")
    gate.touch()
    until(lambda: jobs_of(run)["long"]["state"] == "stopped", "its lease has certainly expired")
    step = jobs_of(run)["long"]["step"]
    assert 5 < step < 400
    assert run("run", "--no-profile", *QUICK)[0] == 0
    job = jobs_of(run)["long"]
    assert (job["state"], job["lost"]) == ("done", 0)
    with StateDatabase(state) as database, database.reading() as connection:
        query = "SELECT outcome, end_step FROM leases WHERE id = :number"
        ((outcome, end),) = connection.tuples(query, number=number)
    assert outcome in ("fenced", "ended"), "the runner or the job itself has seen it first"
    assert end == step


def outcomes(state: Path) -> set[str]:
    """The outcomes of leases."""
    with StateDatabase(state) as database, database.reading() as connection:
        return {word for word in connection.column("SELECT outcome FROM leases") if word}


BAD = [
    ({"gpu_types": ["fsat"]}, "gpu_types names 'fsat', which the cluster does not have; did you mean 'fast'?"),
    ({"workers": 4}, "workers is 4; of GPU types that it may run on the cluster has 2 slow + 1 fast"),
    ({"workers": 2, "gpu_types": ["fast"]}, "workers is 2; of GPU types that it may run on the cluster has 1 fast"),
    ({"workers": 3}, "the cluster has 2 slow + 1 fast, and its policy gives a job GPUs of one type"),
    ({"memory": "99 GB"}, "memory is 99 GB; of GPU types that it may run on fast has the most, 16 GB"),
]


@pytest.mark.parametrize(("settings", "words"), BAD, ids=lambda value: str(value)[:20])
def test_jobs_that_could_never_run_are_refused(lab: Path, run: Run, settings: dict[str, Any], words: str) -> None:
    """Refused as soon as a controller has recorded the nodes."""
    with (lab / "slots.yaml").open("a") as file:
        file.write("memory: {slow: 8 GB, fast: 16 GB}\n")
    assert run("submit", job_file(lab, "first", command=["true"]))[0] == 0
    assert run("run", "--no-profile", *QUICK)[0] == 0
    code, out, err = run("submit", job_file(lab, "bad", **settings))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"hetopt: {lab / 'bad.yaml'}: ")
    assert words in err
    assert list(jobs_of(run)) == ["first"]


FILES = [
    ("", "holds nothing; it must be a mapping"),
    ("name: x\nsteps: 5\n", "command is missing"),
    ("name: x\ncommand: []\nsteps: 5\n", "job.yaml:2: command is []"),
    ("name: x\ncommand: python train.py\nsteps: 5\n", "job.yaml:2: command is 'python train.py'; it must be a list"),
    ("name: ../x\ncommand: [a]\nsteps: 5\n", "job.yaml:1: name is '../x'; it must be a name of at most"),
    ("name: x\ncommand: [a]\nsteps: -5\n", "job.yaml:3: steps is -5; it must be a whole number >= 1"),
    (
        "name: x\ncommand: [a]\nsteps: 5\nmemory: lots\n",
        "job.yaml:4: memory is 'lots'; it must be bytes (at most 1e+18), or a number with a unit (kB, MB, GB, TB, "
        "KiB, MiB, GiB, TiB), such as 12 GiB\n",
    ),
    ("name: x\ncommand: [a]\nsteps: 5\nlog: -1\n", "job.yaml:4: log is -1; it must be bytes (at most 1e+18), or"),
    ("name: x\ncommand: [a]\nsteps: 5\nlog: 1/3\n", "such as 1 GB; 0: no limit\n"),
    (
        "name: x\ncommand: [a]\nsteps: 5\ngrace: 0\n",
        "job.yaml:4: grace is 0; it must be seconds > 0 (at most 1e+18), or",
    ),
    (
        "name: x\ncommand: [a]\nsteps: 5\ncheckpoint: 5 m 3\n",
        "a number with a unit (s, min, m, h, d), such as 10 min\n",
    ),
    ("name: x\ncommand: [a]\nstep: 5\n", "job.yaml:3: step is an unknown key; did you mean 'steps'?"),
    ("name: x\ncommand: [a]\nsteps: 5\ncwd: nowhere\n", "cwd is 'nowhere', and"),
    ("name: x\ncommand: [a]\nsteps: 5\nenvironment: {a b: c}\n", "environment has 'a b'"),
    ("name: x\ncommand: [a]\nsteps: 5\ncwd: none\nenvironment: {a b: c, RANK: 1}\n", "cwd is 'none', and"),
    ("name: x\ncommand: [a]\nsteps: 5\nenvironment: {a b: c, RANK: 1}\n", "environment has 'a b'"),
    (
        "name: x\ncommand: [a]\nsteps: 5\nenvironment: {A: b, MASTER_PORT: 29500}\n",
        "job.yaml: environment has MASTER_PORT; hetopt sets CUDA_VISIBLE_DEVICES, HETOPT_GPU_TYPES, HETOPT_LEASE, "
        "HETOPT_NODES, HETOPT_NODE_RANK, HETOPT_TAG, HETOPT_WORKERS_HERE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, "
        "MASTER_PORT, RANK, SPT_NOENV, WORLD_SIZE\n",
    ),
    ("name: x\ncommand: ['']\nsteps: 5\n", "job.yaml:2: command is ['']; it must be a program and its arguments"),
    ("name: x\ncommand: [a]\nsteps: 9223372036854775807\n", "it must be at most 1e+09"),
    ("name: [\n", "is not YAML"),
    ("name: x\ncommand: [a]\nsteps: 5\ncwd: ~nobodyhere\n", "cwd is '~nobodyhere', and"),
    ("name: x\ncommand: [a]\nsteps: 5\nfork: maybe\n", "job.yaml:4: fork is 'maybe'; it must be true or false"),
    (f"name: {'x' * 1_100_000}\n", "job.yaml: has more than 1000000 bytes"),
]


@pytest.mark.parametrize(("text", "words"), FILES, ids=[words[:25] for _, words in FILES])
def test_invalid_job_files_are_refused(lab: Path, run: Run, text: str, words: str) -> None:
    (lab / "job.yaml").write_text(text)
    code, out, err = run("submit", "job.yaml")
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert words in err
    assert not (lab / "state").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "--policy", "ftf"), "there is no system or policy 'ftf'"),
        (("run", "--policy", "isolated"), "isolated runs shares of jobs as rates"),
        (("run", "--engine", "slrum"), "there is no engine 'slrum'; did you mean 'slurm'?"),
        (("run", "--round", "5 parsecs"), "--round is '5 parsecs'; it must be a time above zero"),
        (("run", "--slots", "absent.yaml"), "absent.yaml: cannot be read: No such file or directory"),
        (("run", "--slots", "job.yaml"), "job.yaml:1: name is an unknown key"),
        (("run", "--partition", "gpu"), "--partition is not for --engine local"),
        (("run", "--slots", "slots.yaml", "--leases", "/proc/nowhere"), "--leases /proc/nowhere"),
        (("run", "--slots", "slots.yaml", "--state", "/proc/nowhere"), "/proc/nowhere: cannot be made"),
        (("run", "--slots", "slots.yaml", "--until-idle", "--ttl", "1.9s"), "--ttl is 1.9 s; it must be 2 s at least"),
        (("submit", "job.yaml", "--name", "a b"), "--name is 'a b'; it must be a name of"),
        (("submit", "absent.yaml"), "absent.yaml: cannot be read: No such file or directory"),
        (("logs", "absent", "-n", "-1"), "--lines is -1"),
        (("run", "--slots", "slots.yaml", "--metrics-port", "99999"), "--metrics-port is 99999; it must be from 0 to"),
    ],
)
def test_invalid_arguments_are_refused_in_one_line(lab: Path, run: Run, words: tuple[str, ...], message: str) -> None:
    job_file(lab, "job")
    code, out, err = run(*words)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert message in err


def test_the_job_file_is_named_only_for_problems_in_it(lab: Path, run: Run) -> None:
    run("submit", job_file(lab, "job"))
    assert run("submit", "job.yaml", "--name", "job")[2].startswith("hetopt: there is a job 'job' already")
    with StateDatabase(lab / "state") as database, database.writing() as connection:
        content = json.dumps({"gpus": {"V100": 1}, "up": True})
        connection.insert("nodes", name="a", drained=False, content=content)
    job_file(lab, "wide", workers=2)
    assert run("submit", "wide.yaml", "--name", "w")[2].startswith("hetopt: wide.yaml: workers is 2")


@pytest.mark.parametrize("command", ["cancel", "logs", "losses", "retry"])
def test_a_name_that_is_not_utf8_is_an_unknown_job(lab: Path, run: Run, command: str) -> None:
    """Python reads bytes on the command line that are not UTF-8 as surrogates, which no database takes."""
    run("submit", job_file(lab))
    code, out, err = run(command, "\udcff")
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert "there is no job" in err


def test_a_folder_that_is_not_utf8_is_refused(lab: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = os.fsencode(lab) + b"/\xff"
    os.mkdir(folder)
    monkeypatch.chdir(os.fsdecode(folder))
    code, out, err = run("submit", job_file(Path.cwd()))
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert "which is not UTF-8" in err


def test_a_cluster_that_others_may_read_is_refused(lab: Path, run: Run) -> None:
    (lab / "state").mkdir(mode=0o755)
    code, _, err = run("submit", job_file(lab, "job"))
    assert code == 2
    assert "chmod 700" in err
    (lab / "state").rmdir()
    (lab / "open").mkdir(mode=0o755)
    code, _, err = run("run", "--leases", "open", *QUICK)
    assert code == 2
    assert "open may be entered by others (mode 755)" in err
    assert (lab / "open").stat().st_mode & 0o777 == 0o755


def test_state_and_leases_are_closed_to_other_users(lab: Path, run: Run) -> None:
    run("submit", job_file(lab, "quick", command=["true"]))
    run("run", "--no-profile", *QUICK)
    for folder, _, names in os.walk(lab / "state"):
        assert Path(folder).stat().st_mode & 0o077 == 0 or Path(folder).parent.stat().st_mode & 0o077 == 0
        assert all((Path(folder) / name).stat().st_mode & 0o007 <= 0o004 for name in names)
    assert (lab / "state").stat().st_mode & 0o777 == 0o700
