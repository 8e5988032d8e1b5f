"""A-SRPT's evaluation at its smallest, and its numbers against plain sums over the stored tables."""

from __future__ import annotations

import json
import math

import pandas as pd
import pytest
from evaluation_cases import Made

from hetopt.experiments.run_folder import instance_of
from hetopt.experiments.trace_workload import workload_of
from hetopt.prediction.forest import RandomForest
from hetopt.proofs.evaluations import asrpt_evaluation
from hetopt.proofs.evaluations.asrpt_evaluation import BASELINES, DELAYS, LENGTHS
from hetopt.proofs.evaluations.evaluation import EvaluationScale
from hetopt.proofs.evaluations.recurring import Recurring, draw_trace

SCALE = EvaluationScale(1 / 1024)  # 37 to 146 jobs
SIZES, SHARES, NICS, RATES = (37_500, 150_000), (0.8, 0.0), (1.0, 50.0), (0.25, 0.75)
SEED = "seed-0"
OTHER = "-by-communication"
READINGS = {"least-available": BASELINES, "by-communication": tuple(name + OTHER for name in BASELINES)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """With fewer points of each sweep."""
    folder = tmp_path_factory.mktemp("asrpt")
    with pytest.MonkeyPatch.context() as patch:
        for name, points in {"SIZES": SIZES, "SHARES": SHARES, "NICS": NICS, "RATES": RATES}.items():
            patch.setattr(asrpt_evaluation, name, points)
        parts = asrpt_evaluation.EVALUATION.chosen(SCALE)
        return Made.of(asrpt_evaluation.EVALUATION, parts, folder)


def jobs(made: Made, part: str, workload: str, system: str) -> pd.DataFrame:
    return pd.read_csv(made.folder / part / workload / system / SEED / "jobs.csv.gz")


def total(made: Made, part: str, workload: str, system: str) -> float:
    table = jobs(made, part, workload, system)
    return float((table["finish"] - table["arrival"]).sum())


def reductions(made: Made, part: str, workload: str, servers: str) -> dict[str, float]:
    """Baseline with this choice of servers -> A-SRPT's total completion time over its."""
    mine = total(made, part, workload, "asrpt")
    return {name: mine / total(made, part, workload, name) for name in READINGS[servers]}


def row(made: Made, claim: str, what: str) -> pd.Series:  # type: ignore[type-arg]
    found = made.table[(made.table["id"] == claim) & (made.table["what"] == what)]
    assert len(found) == 1, f"{claim}: {what}"
    return found.iloc[0]


def test_baselines_run_with_both_choices_of_servers(made: Made) -> None:
    for part in ("testbed", "jobs", "single", "nic", "rates"):
        for run in made.stores[part]:
            if run.key.system.startswith("asrpt-") and run.key.system != "asrpt-perfect":
                settings = run.record.settings["system_settings"]
                other = run.key.system.endswith(OTHER)
                assert settings["servers"] == ("by-communication" if other else "least-available")
    totals = ([total(made, "nic", "nic-1", name) for name in names] for names in READINGS.values())
    assert all(a != b for a, b in zip(*totals, strict=True))


def test_every_claim_of_section_5_is_compared_or_has_a_reason(made: Made) -> None:
    measured = {f"ASRPT-{n:03}" for n in (11, 12, 13, 17, 18, 19, 20, 21, 22)}
    numbers = made.table.groupby("id")["ours_mean"].max()
    assert set(numbers.dropna().index) == measured
    assert set(numbers[numbers.isna()].index) == {"ASRPT-010", "ASRPT-023"}
    assert made.table.loc[made.table["ours_mean"].isna(), "note"].all(), "it says why"
    assert all(
        asrpt_evaluation.EVALUATION.reason(claim) or asrpt_evaluation.EVALUATION.common_reason for claim in measured
    )


@pytest.mark.parametrize(
    ("part", "claim", "names", "ends"),
    [
        ("jobs", "ASRPT-017", [f"jobs-{n}" for n in SIZES], (1 - 0.91, 1 - 0.31)),
        ("single", "ASRPT-018", [f"single-{100 * p:g}" for p in SHARES], (1 - 0.57, 1 - 0.16)),
    ],
)
def test_total_completion_times_beside_each_baseline(
    made: Made, part: str, claim: str, names: list[str], ends: tuple[float, float]
) -> None:
    each = pd.concat(
        [pd.DataFrame({name: reductions(made, part, name, servers) for name in names}).T for servers in READINGS],
        axis=1,
    )
    for baseline in each:
        found = row(made, claim, f"Total JCT: asrpt / {baseline}")
        assert found["ours_mean"] == pytest.approx(each[baseline].mean())
        assert (found["ours_min"], found["ours_max"]) == pytest.approx((each[baseline].min(), each[baseline].max()))
        assert (found["claim"], found["claim_to"]) == pytest.approx(ends)
        inside = ends[0] <= found["ours_mean"] <= ends[1]
        nearer = 1.0 if inside else found["ours_mean"] / (ends[0] if found["ours_mean"] < ends[0] else ends[1])
        assert found["ratio_ours_over_claimed"] == pytest.approx(nearer)
        assert found["pairs"] == len(names)
        for name in names:
            assert f"{name}: {each[baseline][name]:.3g}" in found["note"]


def test_the_worst_baseline_and_the_share_of_one_gpu(made: Made) -> None:
    for servers, baselines in READINGS.items():
        over = []
        for n in SIZES:
            first, *others = (total(made, "jobs", f"jobs-{n}", name) for name in baselines)
            over.append(first / max(others))
        found = row(made, "ASRPT-017", f"Total JCT of SPJF over the worst of the other baselines, all {servers}")
        assert found["ours_mean"] == pytest.approx(sum(over) / len(over))
    alone = [(jobs(made, "jobs", f"jobs-{n}", "asrpt")["demand"] == 1).mean() for n in SIZES]
    assert row(made, "ASRPT-019", "Share of jobs on one GPU")["ours_mean"] == pytest.approx(sum(alone) / len(alone))


def test_the_wait_behind_the_virtual_machine(made: Made) -> None:
    """Against a plain machine that always runs the job with least left, event by event."""
    row_of = row(made, "ASRPT-017", "Fraction of A-SRPT's waiting time after a job's completion on the virtual machine")
    parts = []
    for run in (run for run in made.stores["jobs"] if run.key.system == "asrpt"):
        workload, instance = workload_of(run.record.settings["workload"]), instance_of(run)
        assert isinstance(workload, Recurring)
        predictions, _ = workload.predicted(0, {"forest": RandomForest()})
        least, gpus = draw_trace(workload.trace, 0).networks.of, sum(instance.cluster.capacity.values())
        sizes = [
            job.demand * n * least[str(job.group)][1] / gpus
            for job, n in zip(instance.jobs, predictions["forest"].tolist(), strict=True)
        ]
        done = shortest_first([job.arrival for job in instance.jobs], sizes)
        table = jobs(made, "jobs", run.key.workload, "asrpt").set_index("job").loc[[job.name for job in instance.jobs]]
        after = [max(0.0, start - end) for start, end in zip(table["start"], done, strict=True)]
        if (waited := float((table["start"] - table["arrival"]).sum())) > 0:
            parts.append(sum(after) / waited)
    assert 0 < max(parts) < 1, "both waits occur"
    assert row_of["ours_mean"] == pytest.approx(sum(parts) / len(parts))


def shortest_first(arrivals: list[float], sizes: list[float]) -> list[float]:
    """When each job completes on one machine."""
    done, left, time = [math.nan] * len(sizes), dict[int, float](), 0.0
    coming = sorted(range(len(sizes)), key=lambda i: arrivals[i])
    while coming or left:
        if not left:
            time = max(time, arrivals[coming[0]])
        while coming and arrivals[coming[0]] <= time:
            first = coming.pop(0)
            left[first] = sizes[first]
        now = min(left, key=lambda i: left[i])
        ends = time + left[now]
        if coming and arrivals[coming[0]] < ends:
            left[now] -= arrivals[coming[0]] - time
            time = arrivals[coming[0]]
        else:
            done[now], time = ends, ends
            del left[now]
    return done


@pytest.mark.parametrize("servers", READINGS)
def test_network_cards(made: Made, servers: str) -> None:
    for nic in NICS:
        each = reductions(made, "nic", f"nic-{nic:g}", servers)
        found = row(made, "ASRPT-020", f"Total JCT at {nic:g} Gbit/s: asrpt / worst baseline, {servers}")
        assert found["ours_mean"] == pytest.approx(min(each.values()))
    (duration,) = (name for name in READINGS[servers] if "wcs-duration" in name)
    fast = row(made, "ASRPT-020", f"Total JCT at 50 Gbit/s: asrpt / {duration}")
    assert fast["ours_mean"] == pytest.approx(reductions(made, "nic", "nic-50", servers)[duration])


@pytest.mark.parametrize("servers", READINGS)
def test_slower_arrivals(made: Made, servers: str) -> None:
    for part in RATES:
        name = f"rate-{100 * part:g}"
        each = reductions(made, "rates", name, servers)
        for which, expected in (("best", max(each.values())), ("worst", min(each.values()))):
            what = f"Total JCT at {100 * part:g} % of the trace's rate: asrpt / {which} baseline, {servers}"
            found = row(made, "ASRPT-017", what)
            assert found["ours_mean"] == pytest.approx(expected)
            assert f"{100 * busy(made, name):.0f} % of the GPUs" in found["note"]


def test_delays(made: Made) -> None:
    for workload, which in (("pai-like", "the trace's jobs"), ("single-0", "no job on one GPU")):
        ours = {tau: total(made, "delays", workload, f"asrpt-delay-{tau:g}") for tau in DELAYS}
        for tau in set(DELAYS) - {1.0}:
            found = row(made, "ASRPT-018", f"Total JCT with tau = {tau:g} over that with tau = 1, {which}")
            assert found["ours_mean"] == pytest.approx(ours[tau] / ours[1.0])
    assert ours[16.0] != ours[0.0], "the delays reach the policy, where all jobs use several GPUs"


def busy(made: Made, workload: str) -> float:
    """GPU-seconds of training until the last decision before the last arrival, by the spans."""
    folder = made.folder / "rates" / workload / "asrpt" / SEED
    spans, rounds = (pd.read_csv(folder / f"{name}.csv.gz") for name in ("spans", "rounds"))
    table = jobs(made, "rates", workload, "asrpt")
    first, last = table["arrival"].min(), rounds["end"][rounds["end"] <= table["arrival"].max()].max()
    begins, ends = (spans["start"] + spans["lost"]).clip(upper=last), spans["end"].clip(upper=last)
    capacity = json.loads((folder / "run.json").read_text())["capacity"]
    return float(((ends - begins) * spans["gpus"]).sum() / (capacity * (last - first)))


def test_the_testbed(made: Made) -> None:
    sets = [f"set-{i}" for i in (1, 2, 3)]
    perfect = [total(made, "testbed", name, "asrpt") / total(made, "testbed", name, "asrpt-perfect") for name in sets]
    assert row(made, "ASRPT-012", "Total JCT: asrpt / asrpt-perfect")["ours_mean"] == pytest.approx(sum(perfect) / 3)
    for servers in READINGS:
        least = [min(reductions(made, "testbed", name, servers).values()) for name in sets]
        found = row(made, "ASRPT-013", f"Total JCT: asrpt / worst baseline, {servers}")
        assert found["ours_mean"] == pytest.approx(sum(least) / 3)
    longer = []
    for name in sets:
        spans = [jobs(made, "testbed", name, system) for system in ("asrpt", "asrpt-wcs-subtime")]
        mine, other = (table["finish"].max() - table["arrival"].min() for table in spans)
        longer.append(mine / other)
        assert len(spans[0]) == asrpt_evaluation.TESTBED_JOBS
        assert spans[0]["demand"].max() <= 14
    found = row(made, "ASRPT-013", "Makespan: asrpt / asrpt-wcs-subtime")
    assert found["ours_mean"] == pytest.approx(sum(longer) / 3)
    assert math.isnan(found["ratio_ours_over_claimed"]), "the paper gives no number"


def test_predictors_and_lengths(made: Made) -> None:
    truth = total(made, "predictors", "pai-like", "asrpt-perfect")
    for label, what in {"asrpt": "forest", "asrpt-median": "median", "asrpt-mean": "mean"}.items():
        found = row(made, "ASRPT-022", f"Total JCT with the {what} over that with true lengths")
        assert found["ours_mean"] == pytest.approx(total(made, "predictors", "pai-like", label) / truth)
    for part in LENGTHS:
        what = f"Total JCT with lengths wrong by up to {100 * part:g} % over that with true lengths"
        mine = total(made, "lengths", f"wrong-{100 * part:g}", "asrpt")
        assert row(made, "ASRPT-022", what)["ours_mean"] == pytest.approx(mine / truth)


def test_errors_of_predictions(made: Made) -> None:
    """Means and medians by hand, of the groups in the past; the forest's are bounded by what its trees can say."""
    run = next(run for run in made.stores["predictors"] if run.key.system == "asrpt")
    workload = workload_of(run.record.settings["workload"])
    assert isinstance(workload, Recurring)
    past = past_works(workload)
    off: dict[str, list[float]] = {"mean": [], "median": []}
    for job in instance_of(run).jobs:
        works = sorted(past.get(str(job.group), [0.0]))
        middle = (works[(len(works) - 1) // 2] + works[len(works) // 2]) / 2
        off["mean"].append(abs(sum(works) / len(works) - job.work))
        off["median"].append(abs(middle - job.work))
    for name, errors in off.items():
        found = row(made, "ASRPT-021", f"Mean error of the {name}, iterations")
        assert found["ours_mean"] == pytest.approx(sum(errors) / len(errors))
    share = row(made, "ASRPT-011", "Share of jobs that the forest predicts within 10 %")["ours_mean"]
    assert 0 < share < 1


def past_works(workload: Recurring) -> dict[str, list[float]]:
    """Group -> iterations of its jobs in the past: duration over the least seconds of an iteration, computed again."""
    given, found = draw_trace(workload.trace, 0), dict[str, list[float]]()
    for group, duration in zip(given.past["group"], given.past["duration"], strict=True):
        found.setdefault(str(group), []).append(max(1.0, duration / given.networks.of[str(group)][1]))
    return found


def test_at_full_size_it_is_the_papers() -> None:
    parts = {part.name: part for part in asrpt_evaluation.parts(EvaluationScale(1.0))}
    assert asrpt_evaluation.servers_of(EvaluationScale(1.0)) == 250
    sizes = parts["jobs"].experiment.workloads
    assert [w.jobs for w in sizes if isinstance(w, Recurring)] == list(asrpt_evaluation.SIZES)
    for workload in (w for part in parts.values() for w in part.experiment.workloads):
        assert isinstance(workload, Recurring)
        assert workload.trace.jobs == 758_223
        assert workload.servers in (None, 250)
        assert workload.rate == (float(workload.name[5:]) / 100 if workload.name.startswith("rate-") else 1.0)
    for part, delays in (("testbed", {0.0}), ("jobs", {1.0}), ("delays", set(DELAYS))):
        systems = parts[part].experiment.systems
        assert {system.settings["delay"] for system in systems if "delay" in system.settings} == delays


@pytest.mark.parametrize("scale", [2.0**-12, 2.0**-7, 0.05, 0.3])
def test_a_smaller_cluster_is_loaded_alike(scale: float) -> None:
    """Arrivals per GPU are those of the whole; no experiment asks for more jobs than come."""
    parts = asrpt_evaluation.parts(EvaluationScale(scale))
    for part in parts:
        for workload in part.experiment.workloads:
            assert isinstance(workload, Recurring)
            if part.name in ("jobs", "single", "nic"):
                assert workload.servers is not None
                assert workload.rate / workload.servers == pytest.approx(1 / 250)
                assert workload.servers >= 16
