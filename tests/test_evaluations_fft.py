"""FFT's evaluation at its smallest, and its numbers against plain sums over the stored tables."""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evaluation_cases import Made

import hetopt
from hetopt import InvalidOption, UnknownName
from hetopt.experiments.experiment import RunSpec
from hetopt.experiments.trace_workload import TraceWorkload
from hetopt.proofs.evaluations import fft_evaluation
from hetopt.proofs.evaluations.evaluation import ComparedResult, Evaluation, EvaluationPart, EvaluationScale
from hetopt.proofs.evaluations.measures import relative_pace, restarts
from hetopt.stages.speed_models import Spread

SCALE = EvaluationScale(1 / 32)  # 25 jobs on the testbed
TESTBED = ["testbed-1", "disks", "disks-ahead", "placement", "profiling", "errors"]


def shorter(part: EvaluationPart) -> EvaluationPart:
    """With few jobs, and runs cut off after some hours: jobs of weeks make many rounds."""
    few = tuple(replace(workload, count=8) for workload in part.experiment.workloads)
    return replace(part, experiment=replace(part.experiment, workloads=few, until=8 * 3600.0))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("fft")
    large = [shorter(part) for part in fft_evaluation.EVALUATION.chosen(SCALE, ["simulation", "errors-large"])]
    parts = (*fft_evaluation.EVALUATION.chosen(SCALE, TESTBED), *large)
    return Made.of(fft_evaluation.EVALUATION, parts, folder)


def ours(made: Made, claim: str) -> float:
    (value,) = made.table[made.table["id"] == claim]["ours_mean"]
    return float(value)


def rows(made: Made, part: str, workload: str, system: str, table: str) -> list[dict[str, str]]:
    """A stored table as text, read by nothing of hetopt."""
    path = made.folder / part / workload / system / "seed-0" / f"{table}.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def mean_jct(made: Made, part: str, workload: str, system: str) -> float:
    jct = [float(row["jct"]) for row in rows(made, part, workload, system, "jobs") if row["jct"]]
    return sum(jct) / len(jct)


def test_every_claim_of_section_6_is_compared_or_has_a_reason(made: Made) -> None:
    wanted = {f"FFT-{n:03}" for n in range(26, 49)}
    assert {claim.rstrip("abcdefg") for claim in made.table["id"]} == wanted
    hardware = made.table[made.table["id"] == "FFT-040"].iloc[0]
    assert math.isnan(hardware["ours_mean"])
    assert "needs the testbed" in hardware["note"]
    reasons = made.table.set_index("id")["why"]
    assert all(reasons[claim] for claim in ("FFT-026a", "FFT-029", "FFT-038b", "FFT-041d", "FFT-047"))


def test_ratios_of_completion_times(made: Made) -> None:
    def jct(system: str) -> float:
        return mean_jct(made, "testbed-1", "fft-trace-1", system)

    for claim, system in (("FFT-026a", "gavel-sjf"), ("FFT-027", "pal"), ("FFT-029", "allox")):
        assert ours(made, claim) == pytest.approx(jct(system) / jct("fft"))
    row = made.table[made.table["id"] == "FFT-026a"].iloc[0]
    assert row["ratio_ours_over_claimed"] == pytest.approx(row["ours_mean"] / 1.46)


def lost_by_restarts(made: Made, part: str, system: str) -> list[float]:
    """Seconds lost at the beginning of each stretch of a job but its first, where any are."""
    seen: set[str] = set()
    lost = []
    spans = rows(made, part, "fft-trace-1", system, "spans")
    for span in sorted(spans, key=lambda span: float(span["start"])):
        if span["job"] in seen and float(span["lost"]) > 0:
            lost.append(float(span["lost"]))
        seen.add(span["job"])
    return lost


def test_seconds_of_restarts(made: Made) -> None:
    for part, ahead, mean, total in (
        ("disks", "disks-ahead", "FFT-037a", "FFT-037c"),
        ("testbed-1", "testbed-1", "FFT-037b", "FFT-037d"),
    ):
        gavel, own = lost_by_restarts(made, part, "gavel-sjf"), lost_by_restarts(made, ahead, "fft")
        assert gavel, own
        assert ours(made, total) == pytest.approx(sum(gavel) / sum(own))
        assert ours(made, mean) == pytest.approx(sum(gavel) / len(gavel) / (sum(own) / len(own)))


def test_throughput_that_placers_lose(made: Made) -> None:
    """By the factor of each stretch's number of servers, weighted by GPUs and seconds of training."""
    workload = next(part for part in made.parts if part.name == "placement").experiment.workloads[0]
    instance, spread = workload.instance(0), Spread(otherwise=0.55)
    pace = {}
    for system in ("hierarchical", "tensor-skew", "first-free"):
        gained = trained = 0.0
        for span in rows(made, "placement", "fft-trace-2", system, "spans"):
            seconds = float(span["end"]) - float(span["start"]) - float(span["lost"])
            factor = spread.factor(instance.job[span["job"]], len(span["servers"].split("+")))
            gained += float(span["gpus"]) * seconds * factor
            trained += float(span["gpus"]) * seconds
        pace[system] = gained / trained
    assert ours(made, "FFT-038a") == pytest.approx(1 - pace["tensor-skew"] / pace["hierarchical"])
    assert ours(made, "FFT-038b") == pytest.approx(1 - pace["first-free"] / pace["hierarchical"])


def test_time_of_profiling(made: Made) -> None:
    """Profiling runs counted by the simulator's events, and pauses as time on GPUs without work."""
    part = next(part for part in made.parts if part.name == "profiling")
    task = next(iter(part.experiment.runs()))
    _, log = RunSpec(task.workload, task.system, task.seed, task.environment).run()
    assert log is not None
    instance, spread = task.workload.instance(0), Spread(otherwise=0.55)
    on_gpus = worked = 0.0
    for span in log.spans.to_dict("records"):
        job = instance.job[span["job"]]
        on_gpus += span["end"] - span["start"]
        worked += span["work"] / (
            job.throughput[span["gpu_type"]] * spread.factor(job, len(span["servers"].split("+")))
        )
    runs = 30.0 * int((log.events["kind"] == "profile").sum())
    assert ours(made, "FFT-039") == pytest.approx((runs + on_gpus - worked) / worked)


def test_rises_by_wrong_lengths(made: Made) -> None:
    rise = mean_jct(made, "errors", "fft-trace-1", "fft") / mean_jct(made, "testbed-1", "fft-trace-1", "fft") - 1
    assert ours(made, "FFT-046") == pytest.approx(rise)
    both = [
        mean_jct(made, "errors-large", trace, "fft") / mean_jct(made, "simulation", trace, "fft") - 1
        for trace in ("fft-trace-6", "fft-trace-7")
    ]
    assert ours(made, "FFT-047") == pytest.approx(sum(both) / 2)


def test_all_large_traces_together(made: Made) -> None:
    gain: dict[str, dict[int, float]] = defaultdict(dict)
    for number in range(3, 10):
        own = mean_jct(made, "simulation", f"fft-trace-{number}", "fft")
        for system in ("gavel-sjf", "pal", "tiresias-per-type"):
            gain[system][number] = mean_jct(made, "simulation", f"fft-trace-{number}", system) / own
    for claim, system in (("FFT-041d", "gavel-sjf"), ("FFT-041e", "pal"), ("FFT-041f", "tiresias-per-type")):
        assert ours(made, claim) == pytest.approx(min(gain[system].values()))
    others = [gain["gavel-sjf"][number] for number in (3, 4, 5, 8)]
    assert ours(made, "FFT-041g") == pytest.approx(gain["gavel-sjf"][9] / (sum(others) / 4))
    assert set(made.table[made.table["part"] == "simulation"]["workload"]) == {"fft-trace-6", "fft-trace-7"}


def test_how_fairness_is_distributed(made: Made) -> None:
    """Both divide by the same jobs, so that counting pairs is enough."""
    summaries = {
        system: json.loads((made.folder / "testbed-1/fft-trace-1" / system / "seed-0/run.json").read_text())["summary"]
        for system in ("pal", "gavel-sjf")
    }
    expected = summaries["pal"]["ftf_themis_mean"] / summaries["gavel-sjf"]["ftf_themis_mean"]
    assert ours(made, "FFT-048a") == pytest.approx(expected)
    instance = TraceWorkload("fft-trace-1", "lab36", 25, tenants=None).instance(0)
    rho = {
        run.key.system: hetopt.metrics.finish_time_fairness(run.log, instance)["rho"]
        for run in made.stores["testbed-1"].runs()
    }
    smaller = [rho["tiresias-per-type"][job] < rho["fft"][job] for job in rho["fft"].index]
    assert ours(made, "FFT-048b") == sum(smaller) / len(smaller)


# -- the measures by hand


def test_pace_and_restarts_of_a_schedule_by_hand() -> None:
    """Two GPUs on two servers at half the speed: 8 s of work take 16; moved, it loses 4 s and goes on at full speed."""
    cluster = hetopt.Cluster.of({"G": 4}, gpus_per_server=2)
    job = hetopt.Job("a", {"G": 1.0}, 16.0, 2, model="net")
    instance = hetopt.Instance(cluster, jobs=(job,))
    spans = pd.DataFrame(
        [
            ("a", None, 0.0, 16.0, "G", "g-0+g-1", 2, 0.0, 8.0),
            ("a", None, 16.0, 28.0, "G", "g-0", 2, 4.0, 8.0),
            ("a", None, 30.0, 31.0, "G", "g-0", 2, 0.0, 1.0),
        ],
        columns=["job", "tenant", "start", "end", "gpu_type", "servers", "gpus", "lost", "work"],
    )
    empty = pd.DataFrame()
    log = hetopt.Log(empty, spans, empty, empty, empty, 4.0)
    assert relative_pace(log, instance) == 17 / 25
    assert restarts(log, instance).to_dict() == {"mean": 4.0, "total": 4.0}


# -- the frame and the command


def test_the_command_prints_the_same(made: Made, run: Callable[..., tuple[int, str, str]]) -> None:
    """With results that are there, it runs nothing; parts in an order of its own."""
    before = {path: path.stat().st_mtime_ns for path in made.folder.rglob("run.json")}
    words = ["reproduce", "fft", "--scale", SCALE.jobs, "--parts", ",".join(TESTBED), "--out", made.folder]
    code, out, err = run(*words, "--json")
    assert code == 0, err
    found = {(row["id"], row["numerator"], row["workload"]): row["ours_mean"] for row in json.loads(out)}
    for (claim, system, workload), value in found.items():
        same = made.table[(made.table["id"] == claim) & (made.table["numerator"] == system)]
        same = same[same["workload"] == workload]["ours_mean"]
        if not claim.startswith(("FFT-041", "FFT-042", "FFT-043", "FFT-047")):
            assert value is None if same.isna().all() else value == pytest.approx(float(same.iloc[0]))
    assert {path: path.stat().st_mtime_ns for path in made.folder.rglob("run.json")} == before
    code, out, err = run(*words)
    assert code == 0, err
    assert "FFT-038b" in out
    assert "All: the traces are not published" in out
    assert "FFT-040: not measured: needs the testbed" in out


def test_the_command_lists_its_parts(run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = run("reproduce", "fft", "--list")
    assert code == 0
    assert all(part.name in out for part in fft_evaluation.EVALUATION.parts(EvaluationScale()))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ftf"], "there is no evaluation 'ftf'; did you mean 'fft'? known: asrpt, fft, hadar, oef"),
        (["fft", "--parts", "testbed"], "there is no FFT part 'testbed'; did you mean 'testbed-2'? known: disks"),
        (["fft", "--parts", ","], "--parts is empty; name at least one"),
        (["fft", "--scale", "0"], "scale is 0.0; it must be a finite number > 0"),
        (["fft", "--scale", "2"], "scale is 2.0; it must be at most 1: the paper's number of jobs"),
        (["fft", "--seeds", "0"], "seeds is 0; it must be a"),
    ],
)
def test_what_cannot_be_reproduced(
    words: list[str], message: str, run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    code, _, err = run("reproduce", *words, "--out", tmp_path)
    assert code == 2
    assert message in err


def test_other_settings_in_the_same_folder_are_refused(made: Made, run: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = run("reproduce", "fft", "--scale", "0.0625", "--parts", "errors", "--out", made.folder)
    assert code == 2
    assert "with other settings" in err


def test_scales() -> None:
    assert [EvaluationScale(0.5).count(n) for n in (800, 30, 10)] == [400, 20, 10]
    assert EvaluationScale(seeds=3).all_seeds == (0, 1, 2)
    with pytest.raises(InvalidOption, match="scale is nan"):
        EvaluationScale(math.nan)


def test_findings_without_numbers_and_reasons_by_the_longest_beginning() -> None:
    evaluation = Evaluation(
        "P",
        lambda _: (),
        lambda _: [
            ComparedResult("P-001a", "", "x", "2", 2.0, [1.0, math.nan, 2.0]),
            ComparedResult("P-002", "", "y", "", math.nan),
        ],
        {"P-001": "short", "P-00": "of no claim"},
    )
    table = evaluation.compared((), {}).set_index("id")
    assert table.loc["P-001a", ["ours_mean", "ours_min", "ours_max", "pairs"]].to_list() == [1.5, 1.0, 2.0, 2]
    assert table.loc["P-001a", "ratio_ours_over_claimed"] == 0.75
    assert table["why"].to_dict() == {"P-001a": "short", "P-002": ""}
    assert table.loc["P-002", ["ours_mean", "ratio_ours_over_claimed"]].isna().all()
    part = EvaluationPart("p", "", made_up(), ("P-001", "P-1"))
    assert [part.compares(claim) for claim in ("P-001", "P-001b", "P-1", "P-12")] == [True, True, True, False]
    with pytest.raises(UnknownName, match="there is no P part 'a'; known: none"):
        evaluation.chosen(EvaluationScale(), ["a"])


def made_up() -> Any:
    return fft_evaluation.EVALUATION.parts(SCALE)[0].experiment
