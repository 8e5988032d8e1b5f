"""The command line: hetopt simulate and hetopt systems."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hetopt.cli.simulate import system_variants
from hetopt.errors import InvalidOption
from hetopt.experiments.run_store import RunStore
from hetopt.plugins import SYSTEMS
from hetopt.registry import make_system, policy_names, system_names

Run = Callable[..., tuple[int, str, str]]
SMALL = ("simulate", "gavel-like", "--cluster", "hadar/cluster60", "--count", "10")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rows(out: str) -> dict[str, list[str]]:
    """Policy -> its other cells, in the table of the output."""
    lines = out[out.index("\n──") :].strip("─\n").split("\n\n")[0].splitlines()
    return {name: cells for line in lines for name, *cells in [re.split(" {2,}", line)] if name}


def test_the_table_has_the_means_over_seeds(run: Run) -> None:
    code, out, err = run(*SMALL, "-p", "srtf,gavel", "--seeds", "2")
    assert (code, err) == (0, "")
    table = RunStore(Path("runs")).table()
    means = table.groupby("system")[["jct_mean", "utilisation"]].mean().sort_values("jct_mean")
    found = rows(out)
    assert list(found) == list(means.index)
    units = next(line for line in out.splitlines() if line.startswith("policy "))
    assert units.split()[1:3] == ["min", "h"], "of rounds and of JCT"
    for row, (jct, used) in zip(found.values(), means.to_numpy().tolist(), strict=True):
        assert row[1].lstrip("* ") == f"{jct / 3600:.{len(row[1].partition('.')[2])}f}"
        assert row[-2].lstrip("* ") == f"{100 * used:.2f}"
    assert [row[1].startswith("*") for row in found.values()] == [True, False], "the best is marked"
    assert "mean over 2 seeds" in out
    assert out.splitlines()[-2:] == ["4 runs: runs", "hetopt report runs"]
    again = run(*SMALL, "-p", "srtf,gavel", "--seeds", "2")
    assert again[1].splitlines()[-2] == "0 runs, 4 already stored: runs"


def test_a_damaged_record_of_another_run_spoils_nothing(run: Run) -> None:
    assert run(*SMALL, "-p", "fifo")[0] == 0
    next(Path("runs").rglob("run.json")).write_text("{", encoding="utf-8")
    assert run(*SMALL, "-p", "srtf")[0] == 0
    code, _, err = run(*SMALL, "-p", "fifo")
    assert code == 2
    assert "is not a record of a run" in err


def test_a_policy_that_makes_no_progress_has_failed_and_the_others_are_shown(run: Run) -> None:
    """Gangs are too large for the servers of Hadar's commitments."""
    code, out, err = run(*SMALL[:-1], "12", "-p", "hadar-commit,srtf")
    assert code == 2
    assert err.startswith("hetopt: hadar-commit on gavel-like, seed 0: no progress in 1000 decisions")
    assert err.endswith("; the other runs are stored\n")
    assert list(rows(out)) == ["srtf"]


def test_json_has_every_metric(run: Run) -> None:
    code, out, _ = run(*SMALL, "-p", "srtf", "--json", "-o", "here")
    (row,) = json.loads(out)
    assert code == 0
    assert (row["workload"], row["system"], row["seed"], row["finished"]) == ("gavel-like", "srtf", 0, 10)
    assert row == json.loads(RunStore(Path("here")).table().to_json(orient="records", double_precision=15))[0]


def test_settings_reach_their_systems_and_the_environment(run: Run) -> None:
    own = ("--set", "fft.restart_seconds=30", "--environment", "restart_seconds=30", "--round", "120")
    assert run(*SMALL, "--policy", "fft", "-p", "gavel", *own, "--until", "3600")[0] == 0
    settings = {r.key.system: r.record.settings for r in RunStore(Path("runs"))}
    assert settings["fft[restart_seconds=30]"]["system_settings"] == {"restart_seconds": 30}
    assert settings["gavel"]["system_settings"] == {}
    assert {s["round_seconds"] for s in settings.values()} == {120}
    assert {s["until"] for s in settings.values()} == {3600}
    assert all(s["world"] == {"restart_seconds": 30} for s in settings.values())
    rounds = RunStore(Path("runs")).runs()[0].log.rounds
    assert set((rounds["end"] - rounds["start"]).tolist()) == {120.0}


def test_a_refused_run_is_reported(run: Run) -> None:
    code, out, err = run(*SMALL, "-p", "allox,srtf")
    assert code == 0
    assert "srtf" in out
    assert err.startswith("hetopt: allox did not run: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("simulate", "philly-like"), "cluster is missing; trace 'philly-like' needs one, such as lab36"),
        (("simulate", "nosuch"), "there is no file, instance or trace generator 'nosuch'"),
        (("simulate", "absent.csv", "--cluster", "lab36"), "absent.csv: cannot be read"),
        ((*SMALL, "-p", "gave1"), "no system or policy 'gave1'"),
        ((*SMALL, "-p", " , "), "--policy is empty"),
        ((*SMALL, "-p", "srtf", "--seeds", "0"), "--seeds is 0"),
        ((*SMALL, "-p", "srtf", "--jobs", "0"), "jobs is 0"),
        ((*SMALL, "-p", "srtf", "--too-large", "keep"), "too_large is 'keep'"),
        ((*SMALL, "-p", "srtf", "--reference", "T4"), "reference names the GPU type 'T4'"),
        ((*SMALL, "-p", "srtf", "--unknown-models", "keep"), "unknown_models is 'keep'"),
        ((*SMALL, "-p", "srtf", "--models", "absent"), "or give a CSV file or module:Name"),
        ((*SMALL, "-p", "srtf", "--set", "gavel.x=1"), "name.key=value with one of srtf"),
        ((*SMALL, "-p", "srtf", "--environment", "restart=1"), "no environment setting 'restart'"),
        (
            (*SMALL, "-p", "srtf", "--environment", "liar=Zed", "--environment", "lie=0.2"),
            "names tenant 'Zed', which does not exist",
        ),
        (
            (*SMALL, "-p", "srtf", "--environment", "mtbf_hours=1e-9", "--environment", "mttr_hours=1e-9"),
            "servers would fail",
        ),
        ((*SMALL, "-p", "srtf", "--environment", "spread"), "--environment 'spread' must have the form key=value"),
        ((*SMALL, "-p", "srtf", "--trace-set", "x"), "--trace-set 'x' must have the form key=value"),
        ((*SMALL, "-p", "srtf", "--weight", "HP"), "--weight 'HP' must have the form key=value"),
        ((*SMALL, "-p", "srtf", "--weight", "HP=4"), "has no column job_class"),
        ((*SMALL, "-p", "srtf", "--reference", "recorded"), "has no column gpu_type"),
        ((*SMALL, "-p", "srtf", "--format", "xml"), "must be csv or parquet"),
        ((*SMALL, "-p", "srtf", "--tenants", "rich"), "rich"),
        ((*SMALL, "-p", "srtf", "--models", "fft"), "GPU type"),
        ((*SMALL, "-p", "srtf", "--count", "0"), "count"),
        ((*SMALL, "-p", "srtf", "--round", "-1"), "--round is -1.0"),
        (("simulate", "oef/eq1", "-p", "srtf"), "has no jobs"),
    ],
)
def test_one_clear_line_and_nothing_written(run: Run, words: tuple[str, ...], message: str) -> None:
    code, out, err = run(*words)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert not list(Path().iterdir())


def test_omitted_results_are_reported(run: Run) -> None:
    """A gang for which no type has enough GPUs, and jobs for which the time was too short."""
    Path("own.csv").write_text("job,arrival,duration,gpus\na,0,60,1\nb,0,60,64\nc,0,1e6,2\n", encoding="utf-8")
    code, out, _ = run("simulate", "own.csv", "--cluster", "lab36", "-p", "srtf,gavel", "--until", "3600")
    assert code == 0
    assert "Of them 1 request more GPUs than any type has that can train their model (dropped)." in " ".join(
        out.split()
    )
    assert "srtf: 1 job did not finish; completion times are of the other jobs" in out
    found = rows(out)
    assert found["srtf"][3] == "\N{EN DASH}", "there is no makespan"
    assert [found[name][0] for name in ("srtf", "gavel")] == ["events", "6"]
    cut = run("simulate", "own.csv", "--cluster", "lab36", "-p", "srtf", "--too-large", "cut", "-o", "cut")[1]
    assert "cut to as many GPUs as there are" in cut
    assert "the same with every seed" in run("simulate", "hadar/m5", "-p", "srtf", "--seeds", "2", "-o", "m5")[1]


OWN = """
import sys
import numpy as np
from hetopt import Plan

class Wrong:
    def __init__(self, what: float | None = 1000.0):
        self.what = what
    def __call__(self, instance, state=None):
        if self.what is None:
            sys.exit(3)
        jobs = instance.entities("jobs")
        return Plan(jobs, np.full(jobs.shape, self.what)), None
"""


@pytest.mark.parametrize(
    ("setting", "expected_message"),
    [
        ("1000", "own_wrong:Wrong[what=1000] on gavel-like, seed 0: the plan "),
        ("null", "the policy failed: SystemExit: 3"),
    ],
)
def test_a_policy_of_ones_own_that_is_wrong_keeps_no_other_from_running(
    run: Run, monkeypatch: pytest.MonkeyPatch, setting: str, expected_message: str
) -> None:
    Path("own_wrong.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(".")
    code, _, err = run(*SMALL, "-p", "own_wrong:Wrong,srtf", "--set", f"own_wrong:Wrong.what={setting}")
    assert code == 2
    assert expected_message in err
    assert err.count("\n") == 1
    assert [one.key.system for one in RunStore(Path("runs"))] == ["srtf"]


def test_a_refused_run_stands_in_nobodys_way(run: Run) -> None:
    assert run(*SMALL, "-p", "allox,srtf")[0] == 0
    code, out, err = run(*SMALL, "-p", "allox", "--until", "7200")
    assert (code, err.startswith("hetopt: allox did not run: ")) == (0, True)
    assert "1 run: runs" in out


def test_a_misspelt_column_is_named(run: Run) -> None:
    Path("own.csv").write_text("job,arrival,durations,gpus\na,0,60,1\n", encoding="utf-8")
    assert (
        "own.csv: has no column duration; it must have job, arrival, duration, gpus"
        in run("simulate", "own.csv", "--cluster", "lab36", "-p", "srtf")[2]
    )
    Path("log.json").write_text("[]", encoding="utf-8")
    assert "--kind philly" in run("simulate", "log.json", "--cluster", "lab36", "-p", "srtf")[2]


def test_settings_belong_to_the_longest_name() -> None:
    found = system_variants(["gavel,gavel-sjf"], ["gavel-sjf.round_seconds=60", "gavel.round_seconds=30"])
    assert [(c.label, dict(c.settings)) for c in found] == [
        ("gavel[round_seconds=30]", {"round_seconds": 30}),
        ("gavel-sjf[round_seconds=60]", {"round_seconds": 60}),
    ]
    with pytest.raises(InvalidOption, match="must have the form"):
        system_variants(["gavel"], ["gavel.round_seconds"])


def test_every_system_and_policy_is_made_by_name(run: Run) -> None:
    for name in {*system_names(), *policy_names()}:
        assert make_system(name).policy is not None
        system = make_system(name)
        assert system.placer is not None or system.fluid, f"{name} would not pay for spread gangs and datasets"
    code, out, _ = run("systems", "--json")
    assert code == 0
    listed = json.loads(out)
    assert {name: row["description"] for name, row in listed.items()} == SYSTEMS.descriptions()
    assert {name: row["idles"] for name, row in listed.items()} == {n: make_system(n).idles for n in SYSTEMS.points}


def test_an_interruption_reports_how_to_continue(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (*SMALL, "-p", "srtf,fifo,gavel", "-o", "some")
    write, written = RunStore.write, list[object]()

    def once(self: RunStore, *given: Any) -> None:
        if written:
            raise KeyboardInterrupt
        written.append(given)
        write(self, *given)

    monkeypatch.setattr(RunStore, "write", once)
    code, _, err = run(*words)
    assert code == 130
    assert "stopped; 1 of 3 runs stored in some; repeat the command for the others" in err
    monkeypatch.setattr(RunStore, "write", write)
    assert "2 runs, 1 already stored: some" in run(*words)[1]


def test_failures_that_end_before_the_runs_are_reported(run: Run) -> None:
    words = ("-p", "srtf", "--environment", "mtbf_hours=5", "--environment", "failing_hours=2")
    assert "servers fail in the first 2 h only, and runs took longer" in run(*SMALL, *words)[1]
    longer = ("-p", "srtf", "--environment", "mtbf_hours=5", "--environment", "failing_hours=2000")
    assert "servers fail" not in run(*SMALL, *longer)[1]
