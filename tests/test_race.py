"""Races of systems: the statistics against scipy and by coverage, the runs, the answer, and one more GPU."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hetopt import Instance
from hetopt.errors import InvalidOption, UnknownName
from hetopt.experiments.experiment import Experiment, SystemVariant
from hetopt.experiments.race import Compared, Dropped, Race, RaceResult, Why, all_systems, metric_of_aim
from hetopt.experiments.run_store import RunStore
from hetopt.experiments.trace_workload import TraceWorkload
from hetopt.models import queues
from hetopt.presentation.recommendation import draw, one_more_table, ranking_table, sentences
from hetopt.tolerances import EQUAL, PROVEN

JCT, JAIN = metric_of_aim("jct"), metric_of_aim("tenants")


def systems(*names: str) -> tuple[SystemVariant, ...]:
    return tuple(map(SystemVariant, names))


SHORT = TraceWorkload("fft-trace-2", "lab36", count=12)


@given(
    st.lists(st.tuples(st.floats(1, 9), st.floats(1, 9)), min_size=2, max_size=8).filter(
        lambda pairs: np.ptp([np.log(a / b) for a, b in pairs]) > 0.01
    )
)
def test_two_systems_are_compared_by_a_paired_t_test(pairs: list[tuple[float, float]]) -> None:
    """With two systems the block design is the paired test, here that of scipy on the logarithms."""
    values = pd.DataFrame(pairs, columns=["a", "b"])
    a, b = np.log(values.to_numpy()).T
    low, high = stats.ttest_rel(b, a).confidence_interval(0.9)
    row = Compared(JCT, values, 0.9).against("a").loc["b"]
    assert (row["low"], row["high"]) == pytest.approx((np.expm1(low), np.expm1(high)))


def test_shares_are_compared_by_differences() -> None:
    values = pd.DataFrame({"a": [0.9, 0.8], "b": [0.7, 0.5]})
    compared = Compared(JAIN, values, 0.9)
    assert compared.best == "a"
    assert compared.table.loc["b", "difference"] == pytest.approx(0.25)


def test_the_best_system_is_rarely_dropped() -> None:
    """Of 400 races of eight equal systems over five samples, at most 5 % drop a given one, which might be the best."""
    random, lost = np.random.default_rng(1), 0
    for _ in range(400):
        scores = random.normal(size=(5, 8)) + random.normal(size=(5, 1)) * 3
        each = 1 - 0.05 / (8 * 5)
        table = pd.DataFrame(np.exp(scores), columns=[f"s{i}" for i in range(8)])
        lost += any("s0" in Compared(JCT, table.iloc[:n], each).worse for n in range(2, 6))
    assert lost <= 20


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_what_is_far_worse_is_dropped(seed: int) -> None:
    random = np.random.default_rng(seed)
    scores = random.normal(size=(4, 6)) * 0.05 + random.normal(size=(4, 1)) + np.arange(6)
    found = Compared(JCT, pd.DataFrame(np.exp(scores), columns=list("abcdef")), 1 - 0.05 / 240).worse
    assert found == ["b", "c", "d", "e", "f"]


@given(st.lists(st.tuples(*[st.floats(0.5, 1e3)] * 3), min_size=1, max_size=5))
def test_means_and_differences_are_of_one_kind(rows: list[tuple[float, ...]]) -> None:
    """The best system has the best mean, and a difference is the ratio of two means."""
    table = Compared(JCT, pd.DataFrame(rows, columns=list("abc")), 0.9).table
    assert table["mean"].tolist() == pytest.approx([np.prod(v) ** (1 / len(v)) for v in zip(*rows, strict=True)])
    assert (table["mean"] / table["mean"].min() - 1).tolist() == pytest.approx(table["difference"].tolist(), abs=EQUAL)


def test_one_system_runs_on_all_samples_for_one_more_gpu(tmp_path: Path) -> None:
    race = Race(SHORT, systems("allox", "srtf"), most_samples=3, seconds=1e4)
    result = race.run(RunStore(tmp_path))
    assert (result.left, len(result.values["jct"]), len(result.more["jct"])) == (["srtf"], 3, 3)
    store = RunStore(tmp_path)
    for run in [run for run in store if run.key.seed or run.key.workload != SHORT.name]:
        shutil.rmtree(run.folder)
    lasted(tmp_path, 4000.0, "srtf")
    result = race.run(store)
    assert (result.more, result.no_time_for_more) == ({}, True)
    assert any(text.startswith("no time for one more GPU") for text in sentences(result))
    lasted(tmp_path, 2000.0, "srtf")
    assert len(race.run(store).values["jct"]) == 1  # a second one would take 2000 s, and six runs for one more GPU


def test_a_race_answers_and_continues(tmp_path: Path) -> None:
    """The values are those of the stored runs; a second race runs nothing again."""
    race = Race(SHORT, systems("srtf", "fifo", "allox"), ("jct", "tail"), most_samples=3)
    result, store = race.run(RunStore(tmp_path)), RunStore(tmp_path)
    assert result.dropped["allox"].detail.startswith("AlloX needs jobs of one common demand")
    for sample, row in result.values["jct"].iterrows():
        for name in ("srtf", "fifo"):
            (run,) = [one for one in store if one.key == race_key(name, int(str(sample)))]
            assert row[name] == run.record.summary["jct_mean"]
    ran = {run.folder: (run.folder / "run.json").stat().st_mtime_ns for run in store}
    again = race.run(RunStore(tmp_path))
    now = {run.folder: (run.folder / "run.json").stat().st_mtime_ns for run in store}
    assert {folder for folder, time in now.items() if ran[folder] != time} == {
        run.folder for run in store if run.key.system == "allox"
    }
    assert again.values["jct"].equals(result.values["jct"])
    assert list(result.more["jct"].columns) == ["T4", "A10", "V100"]


def race_key(system: str, seed: int) -> object:
    from hetopt.experiments.run_store import RunKey

    return RunKey("fft-trace-2", system, seed)


def test_the_answer_in_words_and_pictures(tmp_path: Path) -> None:
    result = Race(SHORT, systems("srtf", "fifo", "allox"), most_samples=2).run(RunStore(tmp_path))
    words = list(sentences(result))
    assert words[0].endswith("; with 95 % confidence the best of 2 systems is fifo or srtf")
    assert any("with one more" in text for text in words)
    table = ranking_table(result)
    assert [row[0].text for row in table.rows] == ["fifo", "srtf", "allox"]
    assert table.rows[2][-1].text.startswith("AlloX needs")
    assert len(one_more_table(result).rows) == 3
    picture = draw(result, "title")
    assert len(picture.axes) == 1
    assert picture.get_suptitle() == "title"  # no system was dropped early


def test_one_sample_is_not_sure(tmp_path: Path) -> None:
    """With one sample nothing is dropped, and the answer says so."""
    result = Race(SHORT, systems("srtf", "fifo"), most_samples=1, one_more=False).run(RunStore(tmp_path))
    assert not result.dropped
    assert "one sample does not show how sure this is" in next(sentences(result))
    assert [row[-1].text for row in ranking_table(result).rows] == ["best", "not decided"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_budget_is_kept(tmp_path: Path, jobs: int) -> None:
    """Systems for which there is no time do not take part; with more time they do."""
    race = Race(SHORT, systems("srtf", "fifo"), most_samples=1, one_more=False)
    with pytest.raises(InvalidOption, match=r"seconds \(--budget\) is 1e-09; no system has ended"):
        replace(race, seconds=PROVEN).run(RunStore(tmp_path), jobs=jobs)
    replace(race, systems=systems("srtf")).run(RunStore(tmp_path))
    result = replace(race, seconds=PROVEN).run(RunStore(tmp_path), jobs=jobs)
    assert (result.left, result.without_time) == (["srtf"], ["fifo"])
    assert any(text.startswith("no time for fifo;") for text in sentences(result))
    assert not race.run(RunStore(tmp_path)).dropped
    assert replace(race, seconds=PROVEN).run(RunStore(tmp_path), jobs=jobs).left == ["srtf", "fifo"]


def lasted(folder: Path, seconds: float, *names: str) -> None:
    """Change how long the stored runs of systems took."""
    for file in folder.rglob("run.json"):
        own = json.loads(file.read_text())
        if own["system"] in names:
            file.write_text(json.dumps(own | {"seconds": seconds}))


def test_slow_systems_leave_for_a_second_sample(tmp_path: Path) -> None:
    """After one sample, the slowest leave until there is time for another; if even two are too slow, none leaves."""
    race = Race(SHORT, systems("srtf", "fifo", "las"), most_samples=2, seconds=1e4, one_more=False)
    assert replace(race, most_samples=1).run(RunStore(tmp_path)).left == ["srtf", "fifo", "las"]
    lasted(tmp_path, 1e5, "srtf", "fifo", "las")
    result = race.run(RunStore(tmp_path))
    assert (result.left, len(result.values["jct"])) == (["srtf", "fifo", "las"], 1)
    lasted(tmp_path, 1.0, "srtf", "las")
    result = race.run(RunStore(tmp_path))
    assert (result.left, result.dropped) == (["srtf", "las"], {"fifo": Dropped(1, Why.NO_TIME)})
    assert result.ranking("jct")["samples"].to_dict() == {"srtf": 2, "fifo": 1, "las": 2}
    assert result.ranking("jct").index.tolist()[-1] == "fifo"  # though it is better on that sample
    assert result.ranking("jct")["difference"]["fifo"] < 0
    assert any(text.startswith("no time for fifo;") for text in sentences(result))


@pytest.mark.parametrize(
    ("seconds", "one_more", "samples"), [(2600.0, False, 3), (4500.0, False, 3), (4500.0, True, 1), (5100.0, False, 1)]
)
def test_two_systems_may_use_all_of_the_time_for_samples(
    tmp_path: Path, seconds: float, one_more: bool, samples: int
) -> None:
    """Of 10 000 s, a fifth is kept for one more GPU; runs are expected to take as long as on the sample before."""
    race = Race(SHORT, systems("srtf", "fifo"), most_samples=3, seconds=1e4, one_more=one_more)
    replace(race, most_samples=1, one_more=False).run(RunStore(tmp_path))
    lasted(tmp_path, seconds, "srtf", "fifo")
    result = race.run(RunStore(tmp_path))
    assert (result.left, len(result.values["jct"])) == (["srtf", "fifo"], samples)


@pytest.mark.parametrize(
    ("late", "left", "samples"),
    [
        ((0, "srtf"), ["fifo", "las"], 3),
        ((1, "srtf"), ["fifo", "las"], 3),
        ((1, "srtf", "las"), ["srtf", "fifo", "las"], 1),
        ((2, "srtf"), ["srtf", "fifo", "las"], 2),
    ],
)
def test_runs_that_end_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: tuple[Any, ...], left: list[str], samples: int
) -> None:
    """In the first two samples their systems leave, if two are left; a later sample does not count."""
    run = Experiment.run

    def limited(self: Experiment, store: RunStore, **settings: Any) -> Any:
        own = [system for system in self.systems if self.seeds != (late[0],) or system.label not in late]
        return run(replace(self, systems=tuple(own)), store, **settings)

    monkeypatch.setattr(Experiment, "run", limited)
    race = Race(SHORT, systems("srtf", "fifo", "las"), most_samples=3, one_more=False)
    result = race.run(RunStore(tmp_path))
    assert (result.left, len(result.values["jct"])) == (left, samples)
    assert result.without_time == [name for name in ("srtf", "fifo", "las") if name not in left]


def slow(instance: Instance, state: Any = None) -> Any:
    """A policy that sleeps before each of its decisions."""
    time.sleep(0.3)
    return queues.SRTF()(instance, state)


def test_a_run_that_has_begun_ends_when_time_is_up(tmp_path: Path) -> None:
    experiment = Experiment((SHORT,), systems("test_race:slow"))
    assert experiment.run(RunStore(tmp_path), seconds=0.5) == []
    assert not list(tmp_path.rglob("run.json"))


def first(instance: Instance, state: Any = None) -> Any:
    raise ValueError("the first reason")


def second(instance: Instance, state: Any = None) -> Any:
    raise ValueError("the second reason")


def test_each_failing_system_has_its_own_reason(tmp_path: Path) -> None:
    race = Race(SHORT, (*systems("srtf"), *map(SystemVariant, ("test_race:first", "test_race:second"))), one_more=False)
    result = replace(race, most_samples=1).run(RunStore(tmp_path))
    for name in ("first", "second"):
        assert result.dropped[f"test_race:{name}"].detail.startswith(
            f"the policy failed: ValueError: the {name} reason"
        )


def test_more_gpus_shorten_the_mean_of_a_full_cluster(tmp_path: Path) -> None:
    """One server of one GPU, and jobs one after another: a second GPU ends them sooner."""
    trace = tmp_path / "jobs.csv"
    rows = "\n".join(f"j{i},{i},1000,1,ResNet-50" for i in range(8))
    trace.write_text(f"job,arrival,duration,gpus,model\n{rows}\n")
    cluster = tmp_path / "one.yaml"
    cluster.write_text("schema: hetopt/instance/1\ncluster: {capacity: {V100: 1}}\n")
    workload = TraceWorkload(str(trace), str(cluster), count=4, blocks=True, models="gavel", unknown_models="draw")
    assert workload.samples() == 2
    result = Race(workload, systems("fifo", "srtf")).run(RunStore(tmp_path / "runs"))
    assert len(result.values["jct"]) == 2  # blocks
    change = result.with_one_more("jct").loc["V100"]
    assert change["difference"] == pytest.approx(1500 / 2500 - 1, rel=0.01)  # 1, 1, 2, 2 in place of 1, 2, 3, 4


def test_blocks_more_gpus_and_deadlines_of_a_workload(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text("job,arrival,duration,gpus\n" + "\n".join(f"j{i},{10 * i},100,1" for i in range(5)) + "\n")
    workload = TraceWorkload(str(trace), "lab36", count=2, blocks=True, deadline_factor=2.0, more_gpus={"T4": 3})
    assert [job.name for job in workload.instance(1).jobs] == ["j2", "j3"]
    assert [job.arrival for job in workload.instance(1).jobs] == [0, 10]
    assert workload.instance(0).cluster.capacity["T4"] == 15
    job = workload.instance(0).jobs[1]
    assert job.deadline == pytest.approx(10 + 2 * job.work / max(job.throughput.values()))
    with pytest.raises(InvalidOption, match="has 5 jobs, too few for block 2"):
        workload.instance(2)
    with pytest.raises(InvalidOption, match="needs the file of a trace"):
        TraceWorkload("fft-trace-2", "lab36", count=2, blocks=True)


def test_a_system_that_failed_is_not_compared() -> None:
    """It had a value on the first sample only."""
    values = {"jct": pd.DataFrame({"a": [10.0, 12.0], "b": [5.0, np.nan], "c": [20.0, 30.0]})}
    result = RaceResult(values, {"b": Dropped(1, Why.FAILED, "the policy failed")}, 0.95, 6, 1.0)
    words = list(sentences(result))
    assert "the best of 2 systems" in words[0]
    assert words[1].startswith("next in mean JCT: c")


def test_deadlines_stay_with_more_gpus() -> None:
    plain = TraceWorkload("fft-trace-2", "lab36", count=5, deadline_factor=2.0)
    deadlines = [
        [job.deadline for job in one.instance(0).jobs] for one in (plain, replace(plain, more_gpus={"V100": 9}))
    ]
    assert deadlines[0] == deadlines[1]


def test_a_short_trace_is_one_block_and_copies_are_limited(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text("job,arrival,duration,gpus,model\na,5,1000,1,ResNet-50\nb,9,1000,1,ResNet-50\n")
    workload = TraceWorkload(str(trace), "lab36", count=3, blocks=True, unknown_models="draw", copies=2)
    assert workload.samples() == 1
    assert [(job.arrival, job.copies) for job in workload.instance(0).jobs] == [(0.0, 2), (4.0, 2)]
    with pytest.raises(InvalidOption, match="too few for block 1 of 3"):
        workload.instance(1)
    rows = "\n".join(f"j{i},{i},1000,1,ResNet-50" for i in range(150))
    trace.write_text(f"job,arrival,duration,gpus,model\n{rows}\n")
    blocks = TraceWorkload(str(trace), "lab36").in_blocks()
    assert (blocks.count, blocks.samples()) == (30, 5)


def test_the_answer_states_what_it_assumes(tmp_path: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    words = ("recommend", "fft-trace-2", "--cluster", "lab36", "--count", "6", "--samples", "1", "-p", "srtf,hadare")
    code, out, _ = run(*words, "--out", tmp_path / "one")
    assert code == 0
    assert "assumed: the work of jobs is known, a restart takes 30 s, jobs are not forked" in " ".join(out.split())
    assert "jobs: fft-trace-2, seed 0. 6 of 6 jobs" in " ".join(out.split())
    code, out, _ = run(*words, "--copies", 3, "--environment", "restart_seconds=5", "--out", tmp_path / "two", "--json")
    assert code == 0
    assert json.loads(out)["assumed"] == (
        "the work of jobs is known, a restart takes 5 s, jobs may run in 3 copies, which train as one gang would"
    )


def test_a_wrong_number_of_processes_leaves_no_folder(tmp_path: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    code, _, error = run("recommend", "fft-trace-2", "--cluster", "lab36", "--jobs", 0, "--out", tmp_path / "new")
    assert code == 2
    assert "jobs is 0; it must be a whole number >= 1, or -1: a process on each core" in " ".join(error.split())
    assert not (tmp_path / "new").exists()


def test_all_systems_run_by_themselves() -> None:
    names = {own.name for own in all_systems()}
    assert {"fft", "oef-cooperative", "hadar", "hadare", "asrpt", "fair-sojourn", "sia", "srsf"} <= names
    assert not names & {"isolated", "gavel-max-min", "efficiency-only"}


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InvalidOption, match=r"aims has 'jct' twice"):
        Race(SHORT, systems("srtf"), ("jct", "jct"))
    with pytest.raises(UnknownName, match="there is no aim 'jtc'; did you mean 'jct'"):
        Race(SHORT, systems("fifo"), ("jtc",))
    for bad, problem in (
        ({"seconds": 0}, r"seconds \(--budget\) is 0"),
        ({"most_samples": 0}, r"most_samples \(--samples\) is 0"),
        ({"confidence": 1}, "conf"),
    ):
        with pytest.raises(InvalidOption, match=problem):
            Race(SHORT, systems("fifo"), **bad)


def test_the_command_prints_the_answer(tmp_path: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    options = ["--cluster", "lab36", "--count", "12", "--samples", "2", "--policy", "srtf,fifo"]
    options += ["--aim", "jct,deadlines"]
    out = ["--out", str(tmp_path / "runs"), "--deadline-factor", "3", "--plot", str(tmp_path / "p.svg"), "--json"]
    code, printed, _ = run("recommend", "fft-trace-2", *options, *out)
    assert code == 0
    found = json.loads(printed)
    assert found["left"] == ["srtf", "fifo"]
    assert set(found["one_more"]) == {"jct", "deadlines"}
    assert 0 <= found["ranking"]["deadlines"]["fifo"]["mean"] <= 1
    assert (tmp_path / "p.svg").exists()


def test_a_result_without_dropped_systems_has_a_rank_for_each() -> None:
    values = {"jct": pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 2.5]})}
    table = RaceResult(values, {}, 0.9, 1, 0.0).ranking("jct")
    assert table["samples"].tolist() == [2, 2]
    assert table.index.tolist() == ["a", "b"]
