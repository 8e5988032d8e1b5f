"""``hetopt place --method``: the stages of jobs on GPUs, in numbers computed by hand, and what is refused."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hetopt
from hetopt import instances
from hetopt.data import instance_tables
from hetopt.data.instance_files import write
from hetopt.data.workload import Job, Stage
from hetopt.formulations.formulation import Formulation
from hetopt.presentation import allocation_pictures as pictures
from hetopt.registry import make_policy, mapper_names
from hetopt.tolerances import EQUAL

Run = Callable[..., tuple[int, str, str]]


def cut(job: Job, where: dict[str, str]) -> float:
    """Bytes between servers, from the words of section IV-B: rings of 2 (k-1)/k h, links of 2 d_out / k_next."""
    total = 0.0
    for s, stage in enumerate(job.stages):
        k = stage.replicas
        own = [where[f"S{s + 1}-R{r + 1}"] for r in range(k)]
        ring = [(r, r + 1) for r in range(k - 1)] + [(0, k - 1)] * (k > 2)
        total += sum(own[a] != own[b] for a, b in ring) * 2 * (k - 1) / k * stage.parameter_bytes
        if s + 1 < len(job.stages):
            after = [where[f"S{s + 2}-R{r + 1}"] for r in range(job.stages[s + 1].replicas)]
            total += sum(a != b for a in own for b in after) * 2 * stage.output_bytes / len(after)
    return total


@pytest.mark.parametrize("method", mapper_names())
def test_every_method_maps_the_papers_example(run: Run, method: str) -> None:
    """Fig. 2: 30 ms of stage 2, 2 MB to stage 3 at 1.25e9 / 4 bytes/s, the rest at 300e9 bytes/s; 9 MB are cut."""
    code, out, err = run("place", "asrpt/fig2", "--method", method, "--json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert (data["instance"], data["method"], data["not_mapped"]) == ("asrpt/fig2", method, {})
    job = data["mappings"]["job"]
    assert (job["gpu_type"], job["gpus"]) == ("GPU", 6)
    assert job["iteration_seconds"] == pytest.approx(0.03 + 2e6 / (1.25e9 / 4) + 12e6 / 300e9)
    assert job["between_servers_bytes"] == pytest.approx(9e6)
    assert job["between_servers_bytes"] == pytest.approx(cut(instances.load("asrpt/fig2").job["job"], job["where"]))
    assert job["exchanged_bytes"] == pytest.approx(20e6 + 10e6 + 5e6 + 8 * 1e6)
    assert job["replicas"] == {"server1": [2, 2, 0], "server2": [0, 0, 1], "server3": [0, 0, 1]}
    assert job["least_iteration_seconds"] <= job["iteration_seconds"] <= job["apart_iteration_seconds"]


def test_fewest_bytes_and_fewest_seconds_differ(run: Run) -> None:
    """The bound is in the unit of what the method minimises."""
    _, out, _ = run("place", "refuted/asrpt-cut-alpha", "-m", "exact-cut", "--json")
    few = json.loads(out)["mappings"]["three"]
    assert [few[key] for key in ("between_servers_bytes", "bound_bytes", "iteration_seconds")] == pytest.approx(
        [2, 2, 6]
    )
    _, out, _ = run("place", "refuted/asrpt-cut-alpha", "-m", "exact-alpha", "--json")
    short = json.loads(out)["mappings"]["three"]
    keys = "between_servers_bytes", "bound_seconds", "iteration_seconds"
    assert [short[key] for key in keys] == pytest.approx([3, 4.25, 4.25])
    assert [few["status"], short["status"]] == ["optimal", "optimal"]
    assert [few["gap"], short["gap"]] == pytest.approx([0, 0], abs=EQUAL)
    _, out, _ = run("place", "refuted/asrpt-cut-alpha", "-m", "exact-cut")
    assert "no mapping sends less than 2 B: gap 0\u202f%" in out
    _, out, _ = run("place", "refuted/asrpt-cut-alpha", "-m", "exact-alpha")
    assert "iteration: 4.25 s; " in out
    assert "no mapping takes less than 4.25 s: gap 0\u202f%" in out


def test_tables_name_runs_of_stages_once(run: Run) -> None:
    _, out, _ = run("place", "asrpt/gpt-175b", "-m", "heavy-edge", "--job", "gpt-175b-24")
    rows = [line for line in out.splitlines() if line.startswith("S")]
    assert [line.split() for line in rows] == [
        ["S1-S8", "each", "1"],
        ["S9-S16", "each", "1"],
        ["S17-S24", "each", "1"],
    ]
    assert len({line.rindex("1") for line in rows}) == 3, "in different columns"
    assert out.startswith("gpt-175b-24: replicas of its stages on servers with V100\n")
    assert "heuristic, found in" in out


def test_many_servers_are_listed_instead(run: Run, tmp_path: Path) -> None:
    cluster = hetopt.Cluster.of({"T4": 12}, gpus_per_server=1)
    job = Job("wide", {"T4": 1.0}, 1, 12, stages=(Stage(11, 1, 1, 1e6, 1e6), Stage(1, 1, 1)))
    write(hetopt.Instance(cluster, jobs=(job,)), tmp_path / "wide.yaml")
    _, out, _ = run("place", tmp_path / "wide.yaml", "-m", "heavy-edge")
    assert " ".join(f"t4-{m}: 1," for m in range(5)) in " ".join(out.split())
    assert max(map(len, out.splitlines()[1:4])) <= 100


def test_a_time_limit_reports_the_gap(run: Run) -> None:
    """Far less than the proof takes: the start stays, and what is known of the optimum."""
    words = ["place", "asrpt/vgg19", "-m", "exact-alpha", "--job", "vgg19-32", "--time-limit", "0.01"]
    code, out, _ = run(*words, "--json")
    job = json.loads(out)["mappings"]["vgg19-32"]
    assert (code, job["status"]) == (0, "time_limit")
    assert job["gap"] == pytest.approx(1 - job["bound_seconds"] / job["iteration_seconds"])
    assert job["gap"] > EQUAL
    code, out, _ = run(*words)
    assert code == 0
    assert "stopped by the time limit, found in" in out
    found = re.search(r"gap ([\d.]+)\s%", out)
    assert found
    assert float(found[1]) == pytest.approx(100 * job["gap"], rel=0.51 / 100)


def test_settings_are_those_of_the_method(run: Run) -> None:
    words = ["place", "asrpt/vgg19", "-m", "exact-cut", "--job", "vgg19-16", "--json"]
    ring = json.loads(run(*words)[1])["mappings"]["vgg19-16"]
    tree = json.loads(run(*words, "--set", "allreduce=tree")[1])["mappings"]["vgg19-16"]
    assert ring["exchanged_bytes"] != tree["exchanged_bytes"], "a ring has k edges, two trees 2 (k-1) of half the bytes"
    slow = json.loads(run(*words[:2], "-m", "exact-alpha", "--job", "vgg19-1", "--json")[1])["mappings"]["vgg19-1"]
    half = ["-m", "exact-alpha", "--job", "vgg19-1", "--json", "--set", "timing={backward: 0.5}"]
    fast = json.loads(run(*words[:2], *half)[1])["mappings"]["vgg19-1"]
    stage = instances.load("asrpt/vgg19").job["vgg19-1"].stages[0]
    assert slow["iteration_seconds"] - fast["iteration_seconds"] == pytest.approx(stage.backward_s / 2)


def test_a_policy_and_a_method_together(run: Run) -> None:
    """The stages of a job stay within the servers that the placer gave it, and its iteration stands beside it."""
    code, out, err = run("place", "asrpt/vgg19", "-p", "gavel-fifo", "-m", "local", "--json")
    data = json.loads(out)
    assert (code, err) == (0, "")
    assert (data["policy"], data["method"]) == ("gavel-fifo", "local")
    assert set(data["mappings"]) == set(data["jobs"]), "every job that runs"
    for name, job in data["jobs"].items():
        mapped = data["mappings"][name]
        assert dict(Counter(mapped["where"].values())) == {m: sum(n.values()) for m, n in job["servers"].items()}
        assert mapped["between_servers_bytes"] == pytest.approx(
            cut(instances.load("asrpt/vgg19").job[name], mapped["where"])
        )
    _, out, _ = run("place", "asrpt/vgg19", "-p", "gavel-fifo", "-m", "local", "--job", "vgg19-8")
    line = next(line for line in out.splitlines() if line.startswith("vgg19-8 "))
    assert re.split(" {2,}", line)[2] == "62.26"
    assert "62.3 ms if all replicas were together" in out
    assert out.count("replicas of its stages") == 1, "of the one that was asked for"


def test_settings_of_both_are_the_policys(run: Run) -> None:
    words = ["place", "asrpt/vgg19", "-p", "fft", "-m", "heavy-edge"]
    assert run(*words, "--set", "round_seconds=60", "--json")[0] == 0
    assert "policy 'fft' has no setting 'allreduce'" in run(*words, "--set", "allreduce=tree")[2]


def test_a_policy_alone_is_as_before(run: Run) -> None:
    data = json.loads(run("place", "asrpt/vgg19", "-p", "fft", "--json")[1])
    assert set(data) == {"instance", "policy", "time", "jobs", "waiting", "given_up"}
    assert "iteration" not in run("place", "asrpt/vgg19", "-p", "fft")[1]


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Two servers of two: one job runs on one GPU of each, one has no stages, one is too large, one arrives later."""
    cluster = hetopt.Cluster.of({"T4": 6}, gpus_per_server=3)
    pair = (Stage(1, 1, 1, output_bytes=1e6), Stage(1, 1, 1))
    jobs = (
        Job("runs", {"T4": 1.0}, 10, 2, stages=pair),
        Job("plain", {"T4": 1.0}, 10, 1),
        Job("large", {"T4": 1.0}, 10, 5, stages=(Stage(5, 1, 1, 1e6),)),
        Job("new", {"T4": 1.0}, 10, 2, stages=pair),
        Job("late", {"T4": 1.0}, 10, 2, stages=pair, arrival=50),
    )
    placed = {"runs": {"t4-0": {"T4": 1}, "t4-1": {"T4": 1}}}
    write(hetopt.Instance(cluster, jobs=jobs, placed=placed, name="mixed"), tmp_path / "mixed.yaml")
    return tmp_path / "mixed.yaml"


def test_jobs_keep_their_gpus_and_each_unmapped_job_has_a_reason(run: Run, mixed: Path) -> None:
    code, out, err = run("place", mixed, "-m", "exact-alpha", "--json")
    data = json.loads(out)
    assert code == 0
    assert "of 5 jobs 1 have not arrived" in err
    assert {name: job["replicas"] for name, job in data["mappings"].items()} in (
        {"runs": {"t4-0": [1, 0], "t4-1": [0, 1]}, "new": {server: [1, 1]}} for server in ("t4-0", "t4-1")
    )
    assert data["not_mapped"] == {
        "plain": "jobs['plain'] has no stages",
        "large": "jobs['large'] needs 5 GPUs; free: 4 of type T4",
    }
    _, out, _ = run("place", mixed, "-m", "exact-alpha")
    assert "not mapped" in out
    assert "free: 4 of type T4" in out


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_picture_is_drawn(run: Run, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"fig2.{ending}"
    code, out, _ = run("place", "asrpt/fig2", "-m", "heavy-edge", "--plot", path)
    assert code == 0
    assert f"picture: {path}" in out
    assert path.stat().st_size > 1000
    if ending == "svg":
        text = path.read_text()
        for line in (
            "asrpt/fig2: stages by server",
            "job by heavy-edge: 36.4 ms per iteration",
            "server2: 1 GPU",
        ):
            assert line in text


def test_where_nothing_runs_there_is_no_picture(run: Run, tmp_path: Path) -> None:
    """A policy may give no job GPUs now; its decision is still shown."""
    (tmp_path / "idle.py").write_text(
        "import hetopt\ndef none(instance, state=None):\n"
        "    return hetopt.Plan(instance.entities('jobs'), instance.entities('jobs').speed * 0), None\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        code, out, err = run("place", "asrpt/fig2", "-p", "idle:none", "-m", "local", "--plot", tmp_path / "x.png")
    assert code == 0
    assert "running: 0 of 1 job" in out
    assert err == f"hetopt: no stages are mapped, so {tmp_path / 'x.png'} is not drawn\n"
    assert not (tmp_path / "x.png").exists()


def test_a_picture_that_fails_loses_no_table(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "out.png")

    monkeypatch.setattr(pictures, "save_figure", full)
    code, out, err = run("place", "asrpt/fig2", "-m", "local", "--plot", tmp_path / "out.png")
    assert (code, err) == (2, "hetopt: out.png: No space left on device\n")
    assert "iteration: 36.4 ms" in out


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("methods", {"heavy-edge", "local", "exact-cut", "exact-alpha"}),
        ("predictors", {"forest", "mean", "median", "perfect"}),
    ],
)
def test_names_are_listed(run: Run, command: str, names: set[str]) -> None:
    code, out, _ = run(command, "--json")
    listed = json.loads(out)
    assert code == 0
    assert names <= set(listed)
    assert all(listed.values())
    assert all(name in run(command)[1] for name in names)


def test_a_name_with_a_dot_and_beside_a_folder_of_its_name(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "asrpt" / "fig2").mkdir(parents=True)
    assert run("place", "asrpt/gpt-6.7b", "-m", "heavy-edge", "--job", "gpt-6.7b-8")[0] == 0
    assert run("place", "asrpt/fig2", "-m", "heavy-edge")[0] == 0


def test_what_settings_name_is_also_looked_for_here(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in sys.path if path])
    Path("of_mine.py").write_text("from hetopt.prediction.predictors import GroupMean as Mine\n")
    assert run("place", "asrpt/fig2", "-p", "asrpt", "--set", "predictor=of_mine:Mine")[0] == 0


def test_a_folder_of_csv_files_is_placed_like_the_instance_in_it(run: Run, tmp_path: Path) -> None:
    instance_tables.write_csv(instances.load("asrpt/fig2"), tmp_path / "fig2")
    answers = [
        json.loads(run("place", where, "-m", "local", "--json")[1]) for where in ("asrpt/fig2", tmp_path / "fig2")
    ]
    assert answers[0]["mappings"]["job"]["where"] == answers[1]["mappings"]["job"]["where"]
    code, _, err = run("place", tmp_path, "-m", "local")
    assert (code, "servers.csv" in err) == (2, True)


def test_who_waits_says_until_when(run: Run) -> None:
    """A-SRPT starts a job once the virtual machine is done with it."""
    _, out, _ = run("place", "asrpt/fig2", "-p", "asrpt", "--json")
    policy = make_policy("asrpt")
    assert not isinstance(policy, Formulation)
    plan, _ = policy(instances.load("asrpt/fig2"))
    assert f"waits in this round, and decides again at {plan.wake:.6g} s" in out.replace("keeps it waiting", "waits")


M = ["-m", "local"]
BAD: list[tuple[list[str], str]] = [
    (["asrpt/fig2"], "give --policy NAME to put jobs on servers, --method NAME to map the stages"),
    (["asrpt/fig2", "-m", "heavyedge"], "there is no mapping method 'heavyedge'; did you mean 'heavy-edge'?"),
    (["asrpt/fig2", "-m", "no.module:Name"], "mapping method 'no.module:Name' cannot be loaded"),
    (["asrpt/fig2", "-m", "hetopt.models.asrpt:ASRPT"], "is a policy, not a mapping method"),
    (["asrpt/fig2", *M, "--set", "step=3"], "has no setting 'step'; did you mean 'steps'?"),
    (["asrpt/fig2", "-p", "asrpt-spjf", "--set", "predictor=3"], "predictor of policy 'asrpt-spjf' is 3; it must be"),
    (["asrpt/fig2", "-p", "asrpt", "--set", "predictor=oracle"], "there is no predictor 'oracle'; known: forest, mean"),
    (["asrpt/fig2", *M, "--set", "steps=half"], "LocalSearch.steps is 'half'"),
    (["asrpt/fig2", *M, "--set", "timing=slow"], "setting timing of mapping method 'local' is 'slow'"),
    (["asrpt/fig2", *M, "--job", "jab"], "there is no job 'jab'; did you mean 'job'?"),
    (["asrpt/fig2", *M, "--gpu-type", "V100"], "asrpt/fig2: gpu_type names GPU type 'V100', which does not exist"),
    (["asrpt/fig2", "-m", "heavy-edge", "--time-limit", "3"], "mapping method 'heavy-edge' has none; leave it out"),
    (["asrpt/fig2", *M, "--time-limit", "0"], "LocalSearch.time_limit is 0"),
    (["asrpt/fig2", "-m", "exact-cut", "--time-limit", "-3"], "time_limit is -3"),
    (["asrpt/fig2", "-m", "exact-cut", "--set", "options=3", "--time-limit", "3"], "is 3; it must be of class Options"),
    (["asrpt/fig2", "-m", "exact-cut", "--set", "options={solver: abacus}"], "abacus"),
    (["lab36/jobs", *M, "--time", "7200"], "lab36/jobs: none of the 24 jobs has stages"),
    (["lab36", *M], "lab36: the instance has no jobs, and only jobs have stages"),
    (["nowhere.yaml", *M], "nowhere.yaml"),
    (["asrpt/gpt-6.8b", *M], "there is no instance 'asrpt/gpt-6.8b'; did you mean 'asrpt/gpt-6.7b'?"),
    (
        ["asrpt/fig2", "-m", "exact-cut", "--set", "options=gurobi"],
        "or a mapping of its fields: solver, method, time_limit, gap, threads, seed, exact\n",
    ),
    (["small.yaml", *M], "small.yaml: none of 2 jobs can be mapped; the first: jobs['big'] needs 3 GPUs; free: 2"),
    (["asrpt/fig2", "-p", "fft", "--job", "job"], "--job needs a --method, which maps stages to GPUs"),
    (["asrpt/fig2", "-p", "fft", "--plot", "x.png"], "--plot needs a --method"),
    (["asrpt/fig2", "-p", "fft", "--time-limit", "3"], "--time-limit needs a --method"),
    (["asrpt/fig2", "-p", "fft", *M, "--gpu-type", "GPU"], "--gpu-type: the policy chooses the type"),
    (["asrpt/fig2", *M, "--plot", "x.gif"], "must end in one of .png"),
    (["asrpt/fig2", *M, "--plot", "no/x.png"], "the folder no of x.png does not exist"),
    (["asrpt/fig2", *M, "--plot", "/proc/x.png"], "/proc/x.png: cannot be written"),
    (["asrpt/fig2", "-p", "fft", *M, "--plot", "x.gif"], "must end in one of .png"),
]


@pytest.mark.parametrize(("words", "message"), BAD)
def test_bad_input_is_one_line_and_exit_code_2(
    run: Run, words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    big = Job("big", {"T4": 1.0}, 1, 3, stages=(Stage(3, 1, 1, 1e6),))
    busy = Job("busy", {"T4": 1.0}, 1, 1)
    here = hetopt.Instance(hetopt.Cluster.of({"T4": 3}), jobs=(big, busy), placed={"busy": {"t4-0": {"T4": 1}}})
    write(here, tmp_path / "small.yaml")
    if "--plot" in words:

        def never(*_: Any, **__: Any) -> None:
            raise AssertionError("computed before the place was checked")

        for name in ("hetopt.stages.mapping.map_jobs", "hetopt.formulations.policies.solve"):
            monkeypatch.setattr(name, never)
    code, out, err = run("place", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("hetopt: ")
    assert err.count("\n") == 1, "one line"
    assert [path.name for path in tmp_path.iterdir()] == ["small.yaml"], "nothing half-written"
