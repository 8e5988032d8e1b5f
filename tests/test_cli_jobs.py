"""The command line and time: every policy sees the jobs that have arrived, and places them on servers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hetopt
from hetopt import instances
from hetopt.data.instance_files import write
from hetopt.registry import policy_names
from hetopt.tolerances import VISIBLE

Run = Callable[..., tuple[int, str, str]]
LAB = instances.load("lab36/jobs")
ARRIVED = {job.name for job in LAB.jobs if job.arrival <= 1800}


@pytest.mark.parametrize("policy", [name for name in policy_names() if name not in ("allox", "hadar-commit")])
def test_every_policy_sees_the_same_jobs(run: Run, policy: str) -> None:
    """Jobs that arrive later get nothing under any policy.

    AlloX wants jobs of one demand, and Hadar's commitments servers larger than any gang.
    """
    code, out, err = run("place", "lab36/jobs", "-p", policy, "--time", "1800", "--json")
    assert code == 0
    assert err == (
        f"hetopt: lab36/jobs: of 24 jobs {24 - len(ARRIVED)} have not arrived at 1800 s and are left out "
        "(--time SECONDS for another moment)\n"
    )
    data = json.loads(out)
    assert data["time"] == 1800
    assert {*data["jobs"], *data["waiting"]} == ARRIVED
    check_servers(data)


def check_servers(data: Any) -> None:
    """Whole gangs, no server over its capacity, and a reason for each waiting job."""
    used: dict[tuple[str, str], int] = {}
    for name, job in data["jobs"].items():
        assert sum(job["gpus"].values()) == LAB.job[name].demand * len(job.get("copies", ["one"]))
        assert job["rate"] > 0
        for server, gpus in job["servers"].items():
            for kind, n in gpus.items():
                used[server, kind] = used.get((server, kind), 0) + n
    assert sum(used.values()) == sum(sum(job["gpus"].values()) for job in data["jobs"].values())
    for (server, kind), n in used.items():
        assert n <= LAB.cluster.by_name[server].gpus[kind]
    assert all(data["waiting"].values())


def test_the_commands_agree_on_the_moment(run: Run, tmp_path: Path) -> None:
    for words in (
        ["solve", "lab36/jobs", "-p", "fft", "--time", "1800"],
        ["audit", "lab36/jobs", "-p", "gavel-fifo", "--search", "0", "--time", "1800"],
        ["export", "lab36/jobs", "-p", "fft", "--out", tmp_path / "round.lp", "--time", "1800"],
    ):
        code, _, err = run(*words)
        assert code == 0
        assert f"of 24 jobs {24 - len(ARRIVED)} have not arrived at 1800 s" in err
        assert err.count("\n") == 1
    late = next(job.name for job in LAB.jobs if job.arrival > 1800)
    text = (tmp_path / "round.lp").read_text()
    assert "resnet50" in text
    assert late not in text


def test_the_instances_own_time_is_the_default(run: Run, tmp_path: Path) -> None:
    write(LAB.replace(time=1800), tmp_path / "later.yaml")
    _, here, err = run("solve", tmp_path / "later.yaml", "-p", "gavel-max-min", "--json")
    assert "at 1800 s" in err
    _, there, _ = run("solve", "lab36/jobs", "-p", "gavel-max-min", "--json", "--time", "1800")
    assert json.loads(here)["rate"] == json.loads(there)["rate"]
    _, _, err = run("solve", "lab36/jobs", "-p", "fft", "--time", "5400")
    assert err == "", "all are there: nothing to say"


@pytest.mark.parametrize("policy", ["fft", "gavel-fifo", "oef-cooperative"])
def test_before_the_first_arrival_there_is_one_error(run: Run, tmp_path: Path, policy: str) -> None:
    day = hetopt.Instance.from_jobs([[8, 1], [8, 2]], 1, work=16, capacity=[1, 1], arrival=[600, 900], jobs=["a", "b"])
    write(day, tmp_path / "day.yaml")
    code, out, err = run("solve", tmp_path / "day.yaml", "-p", policy)
    assert (code, out) == (2, "")
    assert "day.yaml: time is 0 s; no job has arrived by then, the first is 'a' at 600 s" in err
    assert "--time" in err
    assert err.count("\n") == 1


def test_finished_jobs_are_left_out_too(run: Run, tmp_path: Path) -> None:
    day = hetopt.Instance.from_jobs([[8, 1], [8, 2]], 1, work=16, capacity=[1, 1], jobs=["a", "b"], done={"a": 16})
    write(day, tmp_path / "day.yaml")
    code, out, err = run("place", tmp_path / "day.yaml", "-p", "fft")
    assert code == 0
    assert "of 2 jobs 1 are finished at 0 s and are left out" in err
    assert "running: 1 of 1 job, on 1 of 2 GPUs" in out


def test_place_says_who_waits_and_why(run: Run, tmp_path: Path) -> None:
    """Two GPUs each of one tenant: its gang of three cannot run; the other tenant's job of one does."""
    cluster = hetopt.Cluster.of({"T4": 4}, gpus_per_server=2)
    tenants = tuple(hetopt.Tenant(name, {"T4": 1.0}) for name in ("u", "v"))  # type: ignore[arg-type]
    jobs = (
        hetopt.Job("small", {"T4": 1.0}, 10, 1, tenant="u"),
        hetopt.Job("pair", {"T4": 1.0}, 10, 2, tenant="u", arrival=0),
        hetopt.Job("double", {"T4": 1.0}, 10, 2, tenant="v"),
    )
    write(hetopt.Instance(cluster, tenants, jobs), tmp_path / "f.yaml")
    code, out, _ = run("place", tmp_path / "f.yaml", "-p", "equal-split", "--json")
    data = json.loads(out)
    assert code == 0
    assert set(data["jobs"]) == {"small", "double"}
    assert data["waiting"] == {
        "pair": "u has a share of 2 GPUs and gets 2 T4 in this round, its other jobs use 1; it needs 2 of one type"
    }
    assert data["given_up"]["idle"] == 1
    _, out, _ = run("place", tmp_path / "f.yaml", "-p", "equal-split")
    assert "running: 2 of 3 jobs, on 3 of 4 GPUs" in out
    assert "given up by rounding and placement: idle 1" in out
    assert "pair" in out


def test_jobs_spread_over_servers_are_shown_with_each(run: Run) -> None:
    _, out, _ = run("place", "lab36/jobs", "-p", "fft")
    assert "v100-0: 4, v100-1: 4" in out


def test_solve_says_what_its_columns_are(run: Run) -> None:
    """Shares of tenants are GPUs, those of jobs are time."""
    assert "ceei: GPUs of each type\n" in run("solve", "lab36", "-p", "ceei")[1]
    _, out, _ = run("solve", "lab36/jobs", "-p", "gavel-fifo")
    assert "part of the time that the gang runs on each type\n" in out
    assert "  rate: work per second (work/s)\n" in out
    slow = min(v for job in LAB.jobs for v in job.throughput.values() if v)
    assert slow < VISIBLE
    assert f"{slow:.3g}" in run("instances", "lab36/jobs")[1], "small speeds keep their digits"


def test_place_names_the_types_that_a_waiting_job_needs(run: Run, tmp_path: Path) -> None:
    """Due T4 of 16 GB, while the job's memory fits a V100 alone."""
    types = (hetopt.GPUType("T4", 16e9), hetopt.GPUType("V100", 32e9))
    cluster = hetopt.Cluster(types, (hetopt.Server("a", {"T4": 2}), hetopt.Server("b", {"V100": 2})))
    tenants = tuple(hetopt.Tenant(name, {"T4": 1.0, "V100": v}) for name, v in (("u", 1.0), ("v", 9.0)))  # type: ignore[arg-type]
    jobs = (
        hetopt.Job("large", {"T4": 1.0, "V100": 1.0}, 10, 1, tenant="u", memory_bytes=20e9),
        hetopt.Job("fast", {"T4": 1.0, "V100": 9.0}, 10, 2, tenant="v"),
    )
    write(hetopt.Instance(cluster, tenants, jobs), tmp_path / "f.yaml")
    _, out, _ = run("place", tmp_path / "f.yaml", "-p", "efficiency-only", "--json")
    assert json.loads(out)["waiting"]["large"].endswith("; it needs 1 of V100")
