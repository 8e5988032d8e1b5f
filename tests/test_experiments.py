"""Experiments: what is run, stored, resumed, and refused."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refused import refused

import hetopt
from hetopt import (
    Cluster,
    GPUType,
    Instance,
    InvalidInstance,
    InvalidOption,
    Job,
    NotSolved,
    Server,
    Stalled,
    UnknownName,
)
from hetopt.errors import PolicyFailed, UnusableFile
from hetopt.experiments.environment_settings import EnvironmentSettings
from hetopt.experiments.experiment import Experiment, SystemVariant
from hetopt.experiments.run_store import ADDED, KINDS, TABLES, RunKey, RunRecord, RunStore
from hetopt.experiments.trace_workload import TraceWorkload, workload_of
from hetopt.metrics.overall import summary
from hetopt.proofs.evaluations.evaluation import EvaluationPart, run_parts
from hetopt.simulation.progress import SimulationProgress
from hetopt.traces.offered_load import offered_load

SMALL = TraceWorkload("gavel-like", "hadar/cluster60", count=12)
PAIR = Experiment((SMALL,), (SystemVariant("gavel"), SystemVariant("srtf")), (0, 1))


def test_results_are_those_of_a_simulation_by_hand(tmp_path: Path) -> None:
    """The stored log and summary equal those of hetopt.simulate with the same parts."""
    store = RunStore(tmp_path)
    environment = EnvironmentSettings(restart_seconds=30.0, work_error=0.2)
    Experiment((SMALL,), (SystemVariant("fft", {"restart_seconds": 30.0}),), (3,), environment).run(store)
    (run,) = store
    instance = SMALL.instance(3)
    log = hetopt.simulate(
        SystemVariant("fft", {"restart_seconds": 30.0}).build(),
        instance,
        environment=environment.build(instance.cluster, 3),
    )
    for name in TABLES:
        if name != "decision_seconds":
            pd.testing.assert_frame_equal(getattr(run.log, name), getattr(log, name), check_dtype=False)
    expected = summary(log, instance)
    timed = [key for key in expected.index if key.startswith("decision")]
    stored = pd.Series(run.record.summary, dtype=float).drop(timed)
    pd.testing.assert_series_equal(stored, expected.drop(timed), check_names=False)
    assert run.key == RunKey("gavel-like", "fft[restart_seconds=30.0]", 3)
    assert run.record.settings["world"] == {"restart_seconds": 30.0, "work_error": 0.2}
    assert run.record.capacity == 60


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_is_there_is_not_run_again(tmp_path: Path, kind: Any) -> None:
    """An interruption after the first run: the second call runs the other three, the third none."""
    store = RunStore(tmp_path, kind)
    reported: list[tuple[str, Any]] = []

    def interrupt(key: RunKey, now: SimulationProgress | RunRecord | None) -> None:
        reported.append((str(key), now))
        if isinstance(now, RunRecord):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PAIR.run(store, watch=interrupt)
    assert {name for name, _ in reported} == {"gavel on gavel-like, seed 0"}
    *before, last = [now for _, now in reported]
    assert last.key == RunKey("gavel-like", "gavel", 0)
    assert [now.part for now in before] == sorted(now.part for now in before)
    assert before[-1].part == 1.0
    assert last.seconds >= before[-1].seconds > 0
    assert len(store.runs()) == 1
    first = (store.runs()[0].folder / "run.json").read_text()
    assert [str(outcome.key) for outcome in PAIR.run(store)] == [
        "srtf on gavel-like, seed 0",
        "gavel on gavel-like, seed 1",
        "srtf on gavel-like, seed 1",
    ]
    assert PAIR.run(store) == []
    assert (store.runs()[0].folder / "run.json").read_text() == first
    table = store.table()
    assert table[["system", "seed"]].to_numpy().tolist() == [["gavel", 0], ["gavel", 1], ["srtf", 0], ["srtf", 1]]
    assert (table["finished"] == 12).all()
    assert store.runs()[0].log.jobs["finish"].notna().all()


def test_a_run_of_which_only_tables_were_written_is_run_again(tmp_path: Path) -> None:
    store, one = RunStore(tmp_path), Experiment((SMALL,), (SystemVariant("srtf"),))
    one.run(store)
    record = store.runs()[0].folder / "run.json"
    record.unlink()
    assert len(one.run(store)) == 1
    assert record.exists()


def test_other_settings_under_the_same_name_are_refused(tmp_path: Path) -> None:
    store, one = RunStore(tmp_path), Experiment((SMALL,), (SystemVariant("srtf"),))
    one.run(store)
    other = replace(one, environment=EnvironmentSettings(restart_seconds=5.0))
    with pytest.raises(InvalidOption, match=r"with other settings \(.*restart_seconds was the default and is to be 5"):
        other.run(store)
    assert store.runs()[0].record.settings["world"] == {}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_names_come_back_as_they_were(tmp_path: Path, kind: Any) -> None:
    trace = tmp_path / "own.csv"
    names = ["001", "1.10", "1.1", "1e3", "1000", "NA", "nan", "None", "true", "-0", "名"]
    users = ["0007", "null", "servers", "given_up"]
    rows = [f"{name},{60 * i},60,1,{users[i % 4]},VGG-16" for i, name in enumerate(names)]
    trace.write_text("\n".join(["job,arrival,duration,gpus,user,model", *rows]) + "\n", encoding="utf-8")
    store = RunStore(tmp_path / "runs", kind)
    workload = TraceWorkload(str(trace), "lab36", tenants="users")
    Experiment((workload,), (SystemVariant("srtf"),)).run(store)
    (run,) = store
    log = hetopt.simulate(SystemVariant("srtf").build(), workload.instance())
    assert run.log.jobs.index.tolist() == names
    assert run.log.throughput.columns.tolist() == users
    for name in ("jobs", "spans", "throughput"):
        pd.testing.assert_frame_equal(getattr(run.log, name), getattr(log, name), check_dtype=False)


@pytest.mark.parametrize(
    ("name", "content", "expected_message"),
    [
        ("jobs.csv.gz", "job,tenant\na,b\n", r"table 'jobs' cannot be read: column demand is missing; remove"),
        ("spans.csv.gz", "", r"table 'spans' cannot be read: .*; remove .* and run it again"),
        ("run.json", {"capacity": "many"}, r"run\.json: capacity is 'many', which is not valid"),
        ("run.json", {"seed": None}, r"run\.json: seed is None"),
        ("run.json", {"summary": [1]}, r"run\.json: summary is \[1\]"),
        ("run.json", {"summary": {"jct_mean": "foo"}}, r"run\.json: summary\.jct_mean is 'foo', which is not a number"),
        ("jobs.csv.gz", ("work", "zz"), r"table 'jobs' cannot be read: column work: .*zz.*; remove .* run it again"),
        ("jobs.csv.gz", ("rounds", "zz"), r"table 'jobs' cannot be read: column rounds: "),
        ("spans.csv.gz", ("seats", "a: 1"), r"table 'spans' cannot be read: the seats 'a: 1', which are not JSON"),
        ("throughput.csv.gz", ("u", "zz"), r"table 'throughput' cannot be read: column u: "),
    ],
)
def test_damaged_folders_are_reported(tmp_path: Path, name: str, content: Any, expected_message: str) -> None:
    store = RunStore(tmp_path)
    Experiment((SMALL,), (SystemVariant("srtf"),)).run(store)
    file = store.runs()[0].folder / name
    if isinstance(content, tuple):
        table = pd.read_csv(file, index_col=0, dtype=str)
        table[content[0]] = content[1]
        table.to_csv(file)
    elif isinstance(content, dict):
        file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | content), encoding="utf-8")
    else:
        file.write_bytes(gzip.compress(content.encode()))
    with pytest.raises(InvalidInstance, match=expected_message):
        store.runs()[0].log  # noqa: B018


def test_a_record_comes_back_with_all_its_fields(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    (made,) = Experiment((SMALL,), (SystemVariant("gavel"),)).run(store)
    (run,) = store
    assert set(json.loads((run.folder / "run.json").read_text(encoding="utf-8"))) == {"version", *KINDS}
    pd.testing.assert_series_equal(pd.Series(run.record.summary), pd.Series(made.summary))
    assert replace(run.record, summary={}) == replace(made, summary={}, settings=run.record.settings)
    assert (made.round_seconds, made.end) == (360.0, run.log.end)


def test_a_record_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    Experiment((SMALL,), (SystemVariant("srtf"),)).run(store)
    path = store.runs()[0].folder / "run.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({key: value for key, value in data.items() if key not in ADDED}), encoding="utf-8")
    record = store.runs()[0].record
    assert (record.seconds, record.source, record.round_seconds) == (0.0, "", None)


def test_a_run_that_lost_a_table_is_run_again(tmp_path: Path) -> None:
    store, one = RunStore(tmp_path), Experiment((SMALL,), (SystemVariant("srtf"),))
    one.run(store)
    table = store.runs()[0].folder / "jobs.csv.gz"
    table.unlink()
    assert len(one.run(store)) == 1
    assert table.exists()


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    twice = tuple(SystemVariant("srtf", label=label) for label in ("a b", "a?b"))
    with pytest.raises(InvalidOption, match=r"a\?b on .*, seed 0 and a b on .*, seed 0 would share a folder"):
        Experiment((SMALL,), twice)
    own = tuple(SystemVariant("srtf", label=label) for label in ("Längste", "Lüngste"))
    Experiment((SMALL,), own).run(RunStore(tmp_path))
    assert {run.key.system for run in RunStore(tmp_path)} == {"Längste", "Lüngste"}
    shutil.move(tmp_path / "gavel-like" / "Längste", tmp_path / "gavel-like" / "x")
    other = Experiment((SMALL,), (SystemVariant("srtf", label="x"),))
    with pytest.raises(InvalidOption, match=r"would be stored in .* which holds Längste on gavel-like, seed 0"):
        other.run(RunStore(tmp_path))


def test_processes_side_by_side_give_the_same(tmp_path: Path) -> None:
    one, two = RunStore(tmp_path / "one"), RunStore(tmp_path / "two")
    PAIR.run(one)
    PAIR.run(two, jobs=2)
    timed = [name for name in one.table() if name.startswith("decision")]
    pd.testing.assert_frame_equal(one.table().drop(columns=timed), two.table().drop(columns=timed))


def test_a_system_that_cannot_run_says_why_and_others_go_on(tmp_path: Path) -> None:
    """AlloX needs jobs of one demand."""
    store = RunStore(tmp_path)
    Experiment((SMALL,), (SystemVariant("allox"), SystemVariant("srtf"))).run(store)
    refused, ran = store.runs()
    assert "demand" in refused.record.refused
    assert ran.record.refused is None
    assert store.table()["jct_mean"].notna().tolist() == [False, True]
    with pytest.raises(UnusableFile, match="has no table 'jobs'"):
        refused.table("jobs")


def broken(instance: Instance, state: object = None) -> hetopt.Plan:
    """A user's policy with a mistake that shows at its first decision."""
    raise KeyError(len(instance.jobs))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_policy_that_fails_is_named_once_the_others_have_run(tmp_path: Path, jobs: int) -> None:
    store = RunStore(tmp_path)
    mistaken = SystemVariant(f"{__name__}:broken", label="mine")
    both = Experiment((SMALL,), (mistaken, SystemVariant("srtf")), (0, 1))
    with pytest.raises(PolicyFailed, match=r"mine on gavel-like, seed .: the policy failed: .*KeyError.*; and 1 more;"):
        both.run(store, jobs=jobs)
    assert [str(run.key) for run in store] == ["srtf on gavel-like, seed 0", "srtf on gavel-like, seed 1"]


def test_a_failing_policy_does_not_keep_an_evaluation_from_its_other_parts(tmp_path: Path) -> None:
    parts = tuple(
        EvaluationPart(name, "none", Experiment((SMALL,), (SystemVariant(system),)))
        for name, system in (("first", f"{__name__}:broken"), ("second", "srtf"))
    )
    with pytest.raises(PolicyFailed, match="KeyError"):
        run_parts(parts, RunStore(tmp_path))
    assert [run.key.system for run in RunStore(tmp_path / "second")] == ["srtf"]


def idle(instance: Instance, state: object = None) -> tuple[hetopt.Plan, None]:
    """A policy that never gives a GPU to a job."""
    jobs = instance.entities("jobs")
    return hetopt.Plan(jobs, np.zeros(jobs.shape)), None


def slow(instance: Instance, state: object = None) -> hetopt.Plan:
    """A policy whose solver finds nothing in time."""
    raise NotSolved.out_of_time(1.0)


@pytest.mark.parametrize(("policy", "cause"), [("idle", Stalled), ("slow", NotSolved)])
def test_a_policy_without_result_has_failed_and_is_not_stored_as_a_refusal(
    tmp_path: Path, policy: str, cause: type[Exception]
) -> None:
    store, mine = RunStore(tmp_path), SystemVariant(f"{__name__}:{policy}", label="mine")
    with pytest.raises(PolicyFailed, match=r"^mine on gavel-like, seed 0: .*; the other runs are stored$") as caught:
        Experiment((SMALL,), (mine, SystemVariant("allox"), SystemVariant("srtf"))).run(store)
    assert isinstance(caught.value.__cause__, cause)
    assert {run.key.system: run.record.refused is None for run in store} == {"allox": False, "srtf": True}


def dying(instance: Instance, state: object = None) -> hetopt.Plan:
    """Its process is killed, as where memory is short."""
    os._exit(1)


def test_a_process_that_is_killed_is_reported(tmp_path: Path) -> None:
    experiment = Experiment((SMALL,), (SystemVariant(f"{__name__}:dying", label="dies"),), (0, 1))
    with pytest.raises(InvalidOption, match="jobs is 2: a process was killed, perhaps because memory ran out"):
        experiment.run(RunStore(tmp_path), jobs=2)


def test_a_refused_run_is_tried_again(tmp_path: Path) -> None:
    """The user may have corrected the policy meanwhile."""
    store, one = RunStore(tmp_path), Experiment((SMALL,), (SystemVariant("allox"),))
    assert [outcome.refused is None for outcome in one.run(store)] == [False]
    assert [outcome.refused is None for outcome in one.run(store)] == [False]


# -- workloads


def test_workloads_are_traces_or_instances(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text("job,arrival,duration,gpus,model\na,0,600,1,VGG-16\nb,60,600,4,VGG-16\n", encoding="utf-8")
    read = TraceWorkload(str(trace), "lab36").instance()
    assert [(job.name, job.arrival, job.demand, job.model) for job in read.jobs] == [
        ("a", 0.0, 1, "VGG-16"),
        ("b", 60.0, 4, "VGG-16"),
    ]
    assert len(TraceWorkload(str(trace), "lab36", count=1).instance().jobs) == 1
    m5 = hetopt.instances.load("hadar/m5")
    assert TraceWorkload("hadar/m5").instance() == m5
    begun = m5.replace(done={m5.jobs[0].name: 1.0})
    begun.write(tmp_path / "begun.yaml")
    assert TraceWorkload(str(tmp_path / "begun.yaml"), count=2).instance().done == begun.done
    path = tmp_path / "own.yaml"
    hetopt.instances.load("hadar/m3").write(path)
    assert len(TraceWorkload(str(path)).instance().jobs) == 3
    m5.write_csv(tmp_path / "tables")
    assert TraceWorkload("hadar/m5", str(tmp_path / "tables")).instance() == m5
    generated = TraceWorkload("philly-like", "lab36", count=50, load=0.5)
    assert generated.instance(1) == generated.instance(1)
    assert generated.instance(1) != generated.instance(2)
    spot = TraceWorkload(
        "alibaba-spot-like", "alibaba-spot-2026", 50, 0.5, reference="recorded", weights={"HP": 4, "Spot": 1}
    )
    assert {job.weight for job in spot.instance().jobs} == {4.0, 1.0}
    assert offered_load(spot.instance()) == pytest.approx(0.5)
    assert "catalogue 'lambda', durations on the GPU type of each row" in spot.instance().source
    assert workload_of(json.loads(json.dumps(spot.as_settings()))) == spot


def test_deadlines_count_only_types_on_which_a_job_can_run(tmp_path: Path) -> None:
    """B is faster, but has too little memory for a, and too few GPUs for b."""
    types = (GPUType("A", 16.0), GPUType("B", 8.0))
    cluster = Cluster(types, (Server("s", {"A": 4, "B": 1}),))
    rate = {"A": 1.0, "B": 4.0}
    jobs = (Job("a", rate, 60.0, memory_bytes=12.0), Job("b", rate, 60.0, 2, arrival=10.0), Job("c", rate, 60.0))
    Instance(cluster, jobs=jobs).write(tmp_path / "jobs.yaml")
    found = TraceWorkload(str(tmp_path / "jobs.yaml"), deadline_factor=2.0).instance()
    assert [job.deadline for job in found.jobs] == [120.0, 130.0, 30.0]


@pytest.mark.parametrize(
    ("workload", "error", "key", "match"),
    [
        (TraceWorkload("philly-like"), InvalidOption, "cluster", None),
        (
            TraceWorkload("philly-lik", "lab36"),
            UnknownName,
            None,
            "generator.*'philly-lik'",
        ),
        (TraceWorkload("absent.csv", "lab36"), UnusableFile, None, "cannot be read"),
        (TraceWorkload("philly-like", "lab63"), UnknownName, None, "lab36"),
        (TraceWorkload("philly-like", "oef/testbed", models="fft"), InvalidInstance, None, "GPU.*type"),
        (TraceWorkload("oef/eq1"), InvalidInstance, None, "jobs"),
        (TraceWorkload("hadar/m5", load=0.5), InvalidOption, "load", None),
        (TraceWorkload("hadar/m5", too_large="cut"), InvalidOption, "too_large", None),
        (TraceWorkload("philly-like", "lab36", kind="philly"), InvalidOption, "kind", None),
        (TraceWorkload("hadar/m5", kind="philly"), InvalidOption, "kind", None),
        (TraceWorkload("hadar/m5", settings={"jobs": 3}), InvalidOption, "settings", None),
        (TraceWorkload("hadar/m5", weights={"HP": 3}), InvalidOption, "weights", None),
        (TraceWorkload("philly-like", "lab36", weights={"HP": 3}), InvalidInstance, None, "no column job_class"),
        (TraceWorkload("philly-like", "lab36", settings={"gpus": 3}), InvalidOption, None, "setting.*'gpus'"),
    ],
)
def test_what_is_no_workload(
    workload: TraceWorkload, error: type[Exception], key: str | None, match: str | None
) -> None:
    with refused(error, key, match):
        workload.instance()


@pytest.mark.parametrize(
    ("make", "key", "match"),
    [
        (lambda: Experiment((), PAIR.systems), None, "workloads.*empty"),
        (lambda: Experiment((SMALL,), (SystemVariant("srtf"),) * 2), None, "'srtf'.*twice"),
        (lambda: Experiment((SMALL,), PAIR.systems, (0, 0)), None, "0.*twice"),
        (lambda: Experiment((SMALL,), PAIR.systems, until=0.0), "until", None),
        (lambda: EnvironmentSettings.of({"restart": 3}), None, "'restart'.*restart_seconds"),
        (lambda: EnvironmentSettings.of({"work_error": 1.5}), "EstimateErrors.work", None),
        (lambda: EnvironmentSettings(spread="yes"), None, "spread.*'yes'"),
        (lambda: RunStore(Path("x"), "xml"), None, "csv.*parquet"),
        (lambda: TraceWorkload("philly-like", count=0), "count", None),
        (lambda: TraceWorkload("philly-like", weights=3), "weights", None),
        (
            lambda: TraceWorkload("philly-like", unknown_models="keep"),
            None,
            "unknown_models.*'keep'",
        ),
    ],
)
def test_what_is_no_experiment(make: Any, key: str | None, match: str | None) -> None:
    with refused(InvalidOption, key, match):
        make()


def test_a_trace_of_other_models_runs_with_drawn_ones(tmp_path: Path) -> None:
    """Tiresias' own trace names networks that no catalogue has."""
    file = tmp_path / "other.csv"
    file.write_text("job,arrival,duration,gpus,model\na,0,60,1,alexnet\nb,0,60,2,ResNet-50\n", encoding="utf-8")
    with refused(InvalidInstance, "jobs['a'].model", file="other.csv", line=2):
        TraceWorkload(str(file), "lab36").instance()
    instance = TraceWorkload(str(file), "lab36", unknown_models="draw").instance()
    assert instance.jobs[1].model == "ResNet-50"
    assert "models that are not in the catalogue replaced by drawn ones" in instance.source


def test_unknown_systems_are_refused_before_any_run(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"no system or policy .gave1.*gavel"):
        Experiment((SMALL,), (SystemVariant("srtf"), SystemVariant("gave1"))).run(RunStore(tmp_path))
    assert not any(tmp_path.iterdir())


def test_folders_that_hold_no_runs(tmp_path: Path) -> None:
    with pytest.raises(UnusableFile, match="is not a folder"):
        RunStore(tmp_path / "absent").runs()
    with pytest.raises(InvalidInstance, match="holds no run"):
        RunStore(tmp_path).runs()
    (tmp_path / "run.json").write_text("{", encoding="utf-8")
    with pytest.raises(InvalidInstance, match="is not a record of a run"):
        RunStore(tmp_path).table()
    (tmp_path / "run.json").write_text(json.dumps({"version": 0}), encoding="utf-8")
    with pytest.raises(InvalidInstance, match="of this version"):
        RunStore(tmp_path).table()


def test_names_of_folders_are_plain() -> None:
    key = RunKey("../my trace/a.csv", "fft[restart_seconds=30.0]", 2)
    assert key.folder() == Path("my_trace_a.csv/fft_restart_seconds=30.0/seed-2")


def test_environment_settings_build_environments() -> None:
    """Every setting reaches the part that it is about."""
    cluster = hetopt.instances.load("lab36").cluster
    every = EnvironmentSettings(1, 2, 3, 4, 5, False, True, 0.5, True, 1e9, 1e8, 6, True, 7, 0.1, 0.2, 10, 2, 100, 8)
    environment = every.build(cluster, 4)
    assert environment.overheads == hetopt.Overheads(1, 2, 3, False, 5, 4)
    assert environment.speeds.otherwise == 0.5
    assert (
        environment.datasets.source_bytes_per_s,
        environment.datasets.evict_seconds,
        environment.datasets.proactive,
    ) == (1e8, 6, True)
    assert environment.profiling.seconds == 7
    assert (
        environment.estimate_errors.throughput,
        environment.estimate_errors.work,
        environment.estimate_errors.seed,
    ) == (0.1, 0.2, 4)
    assert environment.checkpoint_seconds == 8
    assert environment.changes
    assert max(change.time for change in environment.changes if not change.up) < 100 * 3600
    assert {server.disk_bytes for server in every.with_disks(cluster).servers} == {1e9}
    assert len(every.changed()) == 20
    plain = EnvironmentSettings().build(cluster, 0)
    assert plain == type(plain)()
    assert Instance(EnvironmentSettings().with_disks(cluster)).cluster is cluster
