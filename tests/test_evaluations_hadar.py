"""Hadar's evaluation on some mixes, and its numbers against plain sums over the stored tables."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest
from evaluation_cases import Made

from hetopt import instances
from hetopt.experiments.run_folder import instance_of
from hetopt.models.hadar.hadar_workload import from_trace
from hetopt.proofs.evaluations import hadar_evaluation
from hetopt.proofs.evaluations.evaluation import EvaluationPart, EvaluationScale
from hetopt.proofs.evaluations.hadar_evaluation import BEST, LAB, LATENCIES, MIXES, SLOTS
from hetopt.proofs.evaluations.hadar_trace import HadarTrace
from hetopt.traces.philly_generator import PhillyLike

SOME = ("hadar/m3", "hadar/m5", "hadar/lab-m3", "hadar/lab-m5")


def fewer(part: EvaluationPart) -> EvaluationPart:
    """Without most of the mixes."""
    few = tuple(w for w in part.experiment.workloads if w.name in (*SOME, "hadar/trace480"))
    return replace(part, experiment=replace(part.experiment, workloads=few))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("hadar")
    parts = tuple(fewer(part) for part in hadar_evaluation.EVALUATION.chosen(EvaluationScale()))
    return Made.of(hadar_evaluation.EVALUATION, parts, folder)


def stored(made: Made, part: str, workload: str, system: str, table: str) -> pd.DataFrame:
    folder = made.folder / part / workload.replace("/", "_") / system / "seed-0"
    return pd.read_csv(folder / f"{table}.csv.gz")


def row(made: Made, claim: str, what: str = "", part: str = "") -> pd.Series:  # type: ignore[type-arg]
    found = made.table[(made.table["id"] == claim) & (made.table["part"] == part)]
    exact = found["what"] == what
    found = found[exact if exact.any() else found["what"].str.contains(what, regex=False)]
    assert len(found) == 1, f"{claim}: {what}"
    return found.iloc[0]


def makespan(made: Made, part: str, workload: str, system: str) -> float:
    jobs = stored(made, part, workload, system, "jobs")
    return float(jobs["finish"].max() - jobs["arrival"].min())


def test_every_claim_is_compared_or_listed_as_unmeasured(made: Made) -> None:
    wanted = {f"HADAR-{n:03}" for n in (*range(15, 22), *range(31, 44))}
    assert {claim.rstrip("abcd") for claim in made.table["id"]} == wanted
    untold = made.table[made.table["ours_mean"].isna()]
    assert set(untold["id"]) == {"HADAR-020", "HADAR-041"}
    assert untold["note"].all()
    assert all(hadar_evaluation.EVALUATION.reason(claim) for claim in wanted - {"HADAR-020", "HADAR-041"})


def test_hours_of_the_simulations(made: Made) -> None:
    for key, what, system in (
        ("HADAR-015", "TTD of hadar, hours", "hadar"),
        ("HADAR-015", "TTD of hadar[effective], hours", "hadar_effective"),
        ("HADAR-016", "TTD of yarn-cs, hours", "yarn-cs"),
    ):
        assert row(made, key, what)["ours_mean"] == pytest.approx(
            makespan(made, "trace", "hadar/trace480", system) / 3600
        )


def training(made: Made, system: str) -> tuple[float, float, float]:
    """GPU-seconds of training, GPU-seconds held, and seconds until the last job is done."""
    spans = stored(made, "trace", "hadar/trace480", system, "spans")
    held = (spans["end"] - spans["start"]) * spans["gpus"]
    trained = held - (spans["lost"] * spans["gpus"]).where(spans["lost"] < spans["end"] - spans["start"], held)
    return float(trained.sum()), float(held.sum()), float(spans["end"].max())


def test_utilisation_by_two_readings(made: Made) -> None:
    """Of all GPUs until the last job is done; and of the rounds in which jobs hold GPUs, also when they are done."""
    trained = {name: training(made, name) for name in ("hadar", "gavel", "tiresias", "yarn-cs")}
    gru = {name: own / (60 * end) for name, (own, _, end) in trained.items()}
    for above, below in (("hadar", "yarn-cs"), ("gavel", "hadar"), ("tiresias", "hadar")):
        found = row(made, "HADAR-019", f"GRU: {above} / {below}")
        assert found["ours_mean"] == pytest.approx(gru[above] / gru[below])
        part = row(made, "HADAR-019", f"training: {above} / {below}")["ours_mean"]
        kept = {}
        for name in (above, below):
            rounds = stored(made, "trace", "hadar/trace480", name, "rounds")
            kept[name] = trained[name][0] / rounds["held"].sum()
            assert rounds["held"].sum() >= trained[name][1] * (1 - 2.0**-30)
        assert part == pytest.approx(kept[above] / kept[below])


def test_changes(made: Made) -> None:
    """The share of rounds from which on a job is on other GPUs than before, counted by sets."""
    spans = stored(made, "trace", "hadar/trace480", "hadar", "spans")
    rounds = stored(made, "trace", "hadar/trace480", "hadar", "rounds")["start"]
    jobs = stored(made, "trace", "hadar/trace480", "hadar", "jobs").set_index("job")["finish"]
    before: dict[str, tuple[object, ...]] = {}
    changed = 0
    for start in rounds:
        running = spans[(spans["start"] <= start) & (spans["end"] > start)]
        now = {r.job: (r.gpu_type, r.servers, r.gpus) for r in running.itertuples()}
        new = any(before.get(name) != where for name, where in now.items())
        lost = any(name not in now and jobs[name] > start for name in before)
        changed += new or lost
        before = now
    found = row(made, "HADAR-021", "Share of rounds in which allocations change, hadar")
    assert found["ours_mean"] == pytest.approx(changed / len(rounds))


def cru(made: Made, slot: int, workload: str, system: str) -> float:
    """Busy time of the five nodes over that of their slots; no two jobs are on a node at once."""
    spans = stored(made, f"slot-{slot}", workload, system, "spans")
    busy = (spans["end"] - spans["start"] - spans["lost"]).clip(lower=0.0).sum()
    slots = math.ceil(spans["end"].max() / slot - 2.0**-20)
    return float(busy) / (5 * slots * slot)


def test_best_slots(made: Made) -> None:
    for (system, cluster), wanted in BEST.items():
        names = [name for name in SOME if ("lab" in name) == (cluster == "laboratory")]
        alike, named = 0, []
        for name in names:
            mix = name.rpartition("/")[2].removeprefix("lab-")
            best = max(sorted(SLOTS), key=lambda slot: cru(made, slot, name, system))
            alike += best in wanted[mix]
            named.append(f"{mix} {best} s")
        found = row(made, "HADAR-043", f"{system}, {cluster}")
        assert found["ours_mean"] == alike
        assert all(text in found["note"] for text in named), (found["note"], named)


def test_what_the_paper_says_of_slots_covers_all_mixes() -> None:
    assert set(BEST) == {(system, cluster) for system in ("hadar", "hadare") for cluster in ("AWS", "laboratory")}
    for own in BEST.values():
        assert set(own) == set(MIXES)
        assert all(slots and set(slots) <= set(SLOTS) for slots in own.values())


def test_longest_and_shortest_job_of_m5(made: Made) -> None:
    for slot in (90, 360):
        for system in ("hadar", "gavel"):
            jct = stored(made, f"slot-{slot}", "hadar/m5", system, "jobs")["jct"]
            for what, expected in (("Longest", jct.max()), ("Shortest", jct.min())):
                found = row(made, "HADAR-038", f"{what} JCT of M-5, AWS, {system}, slots of {slot} s")
                assert found["ours_mean"] == pytest.approx(expected)


def test_ratios_of_the_mixes_are_means_over_them(made: Made) -> None:
    for slot in (90, 360):
        part = f"slot-{slot}"
        each = [makespan(made, part, name, "hadar") / makespan(made, part, name, "hadare") for name in SOME[:2]]
        assert row(made, "HADAR-036a", part=part)["ours_mean"] == pytest.approx(sum(each) / 2)


def test_latency(made: Made) -> None:
    """Four messages of each copy are late in each round, and nothing else differs."""
    usual = next(part for part in made.parts if part.name == "slot-90").experiment.environment
    for latency in LATENCIES:
        (part,) = (part for part in made.parts if part.name == f"latency-{latency}us")
        assert part.experiment.environment == replace(usual, merge_seconds=2.0 + 4 * latency / 10**6)
        assert {w.name for w in part.experiment.workloads} <= set(LAB)
        rises = []
        for name in ("hadar/lab-m3", "hadar/lab-m5"):
            late, early = (
                stored(made, folder, name, "hadare", "jobs")["jct"].mean() for folder in (part.name, "slot-90")
            )
            rises.append(late / early - 1)
        found = row(made, "HADAR-042", f"JCT by {latency:,} microseconds")
        assert found["ours_mean"] == pytest.approx(sum(rises) / 2)
        assert (found["ours_min"], found["ours_max"]) == pytest.approx((min(rises), max(rises)))


def test_drawings_of_the_trace(made: Made) -> None:
    """Seed 0 is the named instance; the others are the next drawings without a job of 40 hours or of 20 GPUs."""
    assert HadarTrace().instance(0) == instances.load("hadar/trace480")
    run = next(run for run in made.stores["trace"])
    assert instance_of(run) == instances.load("hadar/trace480")
    cluster, found = instances.load("hadar/cluster60").cluster, []
    table = PhillyLike().table(10_000, seed=0)
    for drawing in range(4, 14):
        drawn = from_trace(table, cluster, seed=drawing)
        if max(job.work for job in drawn.jobs) <= 40 * 3600 and max(job.demand for job in drawn.jobs) <= 20:
            found.append(drawn.jobs)
    assert found[0] == HadarTrace().instance(0).jobs
    assert [HadarTrace().instance(seed).jobs for seed in (1, 2)] == found[1:3]
    assert len(set(found[:3])) == 3
