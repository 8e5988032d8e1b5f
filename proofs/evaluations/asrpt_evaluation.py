"""A-SRPT's evaluation [ASRPT, section V].

These are the choices that the paper leaves open; none was made by its result.

- The trace is generated (:class:`~hetopt.traces.pai_generator.PAILike`), since the public part of PAI's trace has
  neither groups nor users: 758,223 jobs in 63.9 days. Each group trains one of the paper's networks, whose times are
  derived from published data (:mod:`hetopt.models.asrpt.networks`); the iterations of a job are its duration over the
  time of an iteration on the fewest servers. Predictors learn only from the first four fifths, like the paper's forest.
  The scheduled jobs are the first jobs of the last fifth, at the arrival rate of the trace.
- A scale of s multiplies the number of jobs in the trace and in each experiment by s. To keep the load, the number of
  servers (at least 16, twice the demand of the largest job) and the arrival rate are multiplied by the square root of
  s; so the simulated time is multiplied by about the square root of s.
- The paper does not print which servers the baselines get. They get those with the fewest free GPUs, for the reason
  given under "Servers of the baselines" in the documentation of the model; all results are also printed with A-SRPT's
  choice by communication. SPWF does not overtake: the paper says so of SPJF only, but otherwise SPWF would be
  WCS-Workload.
- tau is 1 in simulations, where the paper prints no value, and 0 on the testbed. Part ``delays`` has other values.
- Fig. 5: two servers with 7 GPUs of 12 GB each, as fast as the profiled GPUs; only networks that fit on them.
  The three sets of 75 jobs begin at the start, after one third and after two thirds of the last fifth.
- Fig. 7: the share is the fraction of groups that use one GPU; the fraction of jobs is about the same.
- Fig. 8: jobs have as many iterations as with network cards of 10 Gbit/s.
- Fig. 9: 75,000 jobs. Means and medians are computed per group, and are 0 for unknown groups, as for the forest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, inf, nan, sqrt

import pandas as pd

from hetopt.experiments.experiment import Experiment, SystemVariant
from hetopt.experiments.run_folder import instance_of
from hetopt.experiments.run_store import RunStore, StoredRun
from hetopt.experiments.trace_workload import workload_of
from hetopt.models.asrpt.non_preemptive import VirtualMachine
from hetopt.prediction.accuracy import errors
from hetopt.proofs.evaluations.evaluation import (
    ComparedResult,
    Evaluation,
    EvaluationPart,
    EvaluationScale,
    Stores,
    times,
)
from hetopt.proofs.evaluations.measures import by_run, completed_runs, metric_values, ratios
from hetopt.proofs.evaluations.recurring import Recurring, RecurringTrace, draw_trace, fixed_predictions, single_share
from hetopt.registry import make_predictor

FOREST, PERFECT = "asrpt", "asrpt-perfect"
"""A-SRPT with the forest's predictions, and with true lengths."""

OTHER_PREDICTORS = {"asrpt-median": "median", "asrpt-mean": "mean"}
"""Label -> predictor."""

SPJF, SPWF, DURATION = "asrpt-spjf", "asrpt-spwf", "asrpt-wcs-duration"

CONSERVING = (DURATION, "asrpt-wcs-workload", "asrpt-wcs-subtime")

BASELINES = (SPJF, SPWF, *CONSERVING)

READINGS = {"": "least-available", "-by-communication": "by-communication"}
"""Ending of a baseline's label -> its choice of servers."""

SIZES = (37_500, 75_000, 112_500, 150_000)

SHARES = (0.8, 0.6, 0.4, 0.2, 0.0)

NICS = (1.0, 10.0, 25.0, 50.0)

LENGTHS = (0.1, 0.3, 1.0)

RATES = (0.25, 0.5, 0.75)

DELAYS = (0.0, 1.0, 4.0, 16.0)
"""Values of tau; results are over that of 1, our choice."""

CORRECT = "within 10 %"
"""Definition of a correct prediction; the paper has none."""

V_A, V_B = "section V-A", "section V-B"

TRACE, MOST = 758_223, 250
"""Jobs of the trace, and servers of the cluster."""

FEWEST = 16
"""Least number of servers of a scaled cluster."""

FIGS_7_TO_9 = 75_000

TESTBED_JOBS, TESTBED_SETS = 75, 3


def _asrpt(label: str, predictor: str, delay: float = 1.0) -> SystemVariant:
    return SystemVariant("asrpt", {"predictor": predictor, "delay": delay}, label=label)


def _baselines() -> tuple[SystemVariant, ...]:
    return tuple(
        SystemVariant(name, {"predictor": "forest", "servers": servers}, label=name + ending)
        for name in BASELINES
        for ending, servers in READINGS.items()
    )


def parts(scale: EvaluationScale) -> tuple[EvaluationPart, ...]:
    """The experiments of section V."""
    seeds, many, whole = scale.all_seeds, scale.count(FIGS_7_TO_9), trace_jobs(scale)
    servers = servers_of(scale)
    usual, rate = RecurringTrace(whole), servers / MOST

    def loaded(jobs: int, trace: RecurringTrace, name: str, **settings: float) -> Recurring:
        return Recurring(jobs, trace, **{"rate": rate, "servers": servers} | settings, name=name)  # type: ignore[arg-type]

    every = (_asrpt(FOREST, "forest"), *_baselines())
    sizes = tuple(loaded(scale.count(n), usual, f"jobs-{n}") for n in SIZES)
    rates = tuple(loaded(many, usual, f"rate-{100 * part:g}", rate=part * rate) for part in RATES)
    shares = tuple(loaded(many, RecurringTrace(whole, single_gpu=p), f"single-{100 * p:g}") for p in SHARES)
    cards = tuple(loaded(many, RecurringTrace(whole, single_gpu=0.0), f"nic-{nic:g}", nic_gbps=nic) for nic in NICS)
    small = RecurringTrace(whole, cluster="asrpt/testbed", shrink=0.1)
    third = (small.jobs - small.past) // TESTBED_SETS
    sets = tuple(Recurring(TESTBED_JOBS, small, i * third, name=f"set-{i + 1}") for i in range(TESTBED_SETS))
    testbed = (_asrpt(FOREST, "forest", 0.0), _asrpt(PERFECT, "perfect", 0.0), *_baselines())
    others = tuple(_asrpt(label, predictor) for label, predictor in OTHER_PREDICTORS.items())
    predictors = (every[0], *others, _asrpt(PERFECT, "perfect"))
    wrong = tuple(loaded(many, usual, f"wrong-{100 * part:g}", wrong=part) for part in LENGTHS)
    alone = (loaded(many, usual, "pai-like"),)
    delayed = tuple(_asrpt(f"asrpt-delay-{tau:g}", "perfect", tau) for tau in DELAYS)
    return (
        EvaluationPart("testbed", "Fig. 5: 14 vGPUs, three sets of 75 jobs", Experiment(sets, testbed, seeds), False),
        EvaluationPart("jobs", "Fig. 6: 37,500 to 150,000 jobs", Experiment(sizes, every, seeds), False),
        EvaluationPart("single", "Fig. 7: 80 to 0 % of the jobs on one GPU", Experiment(shares, every, seeds), False),
        EvaluationPart("nic", "Fig. 8: network cards of 1 to 50 Gbit/s", Experiment(cards, every, seeds), False),
        EvaluationPart("predictors", "Fig. 9: four predictors", Experiment(alone, predictors, seeds), False),
        EvaluationPart(
            "lengths",
            "lengths with errors of a known size, beside predictors",
            Experiment(wrong, predictors[:1], seeds),
            False,
        ),
        EvaluationPart(
            "rates", "lower arrival rates, since no load is printed", Experiment(rates, every, seeds), False
        ),
        EvaluationPart(
            "delays",
            "delays of 0 to 16, since tau is not printed",
            Experiment((*alone, shares[-1]), delayed, seeds),
            False,
        ),
    )


def servers_of(scale: EvaluationScale) -> int:
    """Servers of the scaled cluster."""
    return min(MOST, max(FEWEST, ceil(MOST * sqrt(scale.jobs))))


def trace_jobs(scale: EvaluationScale) -> int:
    """Jobs of the whole trace; its last fifth is large enough for every experiment."""
    return max(scale.count(TRACE), 5 * scale.count(max(SIZES)), 5 * TESTBED_SETS * TESTBED_JOBS)


def compared_results(stores: Stores) -> list[ComparedResult]:
    """The results of the parts that were run."""
    found: list[ComparedResult] = []
    for part, results in _RESULTS_OF_PARTS.items():
        if part in stores:
            found += results(stores[part])
    if {"lengths", "predictors"} <= set(stores):
        found += _lengths(stores["lengths"], stores["predictors"])
    return found


def totals(store: RunStore, above: str, below: str) -> pd.Series[float]:
    """Total completion time of one system over that of another; index ``(workload, seed)``."""
    return ratios(metric_values(store, "total_flow", above), metric_values(store, "total_flow", below))


def _against_each(
    store: RunStore, key: str, place: str, least: float, most: float, names: Sequence[str]
) -> Iterator[ComparedResult]:
    """A-SRPT over each baseline, on workloads of these names."""
    for baseline in (name + ending for name in BASELINES for ending in READINGS):
        ours = totals(store, FOREST, baseline)
        if len(ours):
            each = ours.groupby(level="workload").mean()
            values = ", ".join(f"{name}: {each[name]:.3g}" for name in names if name in each.index)
            what = f"Total JCT: asrpt / {baseline}"
            printed = f"{100 * least:.0f} to {100 * most:.0f} % less"
            yield ComparedResult(key, place, what, printed, 1 - most, ours.tolist(), f"{baseline}: {values}", 1 - least)


def _sizes(store: RunStore) -> Iterator[ComparedResult]:
    yield from _against_each(store, "ASRPT-017", f"{V_B}, Fig. 6", 0.31, 0.91, [f"jobs-{n}" for n in SIZES])
    for ending, servers in READINGS.items():
        every = {name: metric_values(store, "total_flow", name + ending) for name in BASELINES}
        others = pd.concat([total for name, total in every.items() if name != SPJF], axis=1).max(axis=1)
        what = f"Total JCT of SPJF over the worst of the other baselines, all {servers}"
        yield ComparedResult(
            "ASRPT-017", f"{V_B}, Fig. 6", what, "SPJF the worst", nan, ratios(every[SPJF], others).tolist()
        )
    waits = by_run(store, FOREST, queue_part)
    mean = waits.groupby(level="workload").mean()
    values = ", ".join(f"{name}: {mean[name]:.2f}" for n in SIZES if (name := f"jobs-{n}") in mean.index)
    what = "Fraction of A-SRPT's waiting time after a job's completion on the virtual machine"
    yield ComparedResult("ASRPT-017", f"{V_B}, Fig. 6", what, "", nan, waits.tolist(), f"Wait: {values}")
    alone = by_run(store, FOREST, lambda run: single_share(instance_of(run))).tolist()
    yield ComparedResult("ASRPT-019", V_B, "Share of jobs on one GPU", "over 0.7", 0.7, alone)


def queue_part(run: StoredRun) -> float:
    """Fraction of the waiting time after a job's completion on the virtual machine; NaN if no job waits."""
    workload, seed, jobs = _workload(run.record.settings["workload"]), run.key.seed, run.table("jobs")
    instance, networks = workload.instance(seed), draw_trace(workload.trace, seed).networks
    predicted = fixed_predictions(workload.trace, seed, make_predictor("forest")).predict(instance.jobs).tolist()
    gpus = sum(instance.cluster.capacity.values())
    machine, done = VirtualMachine(), dict[str, float]()
    for job, iterations in zip(instance.jobs, predicted, strict=True):
        done |= _until(machine, job.arrival)
        machine.arrive(job.arrival, job.name, job.demand * iterations * networks.seconds(job) / gpus)
    done |= _until(machine, inf)
    after = (jobs["start"] - pd.Series(done).reindex(jobs.index)).clip(lower=0.0)
    waited = float((jobs["start"] - jobs["arrival"]).sum())
    return float(after.sum()) / waited if waited > 0 else nan


def _until(machine: VirtualMachine, time: float) -> dict[str, float]:
    """Job -> completion time of the jobs completed by ``time`` since the last call."""
    done: dict[str, float] = {}
    while (then := machine.next) <= time and then < inf:
        done |= dict.fromkeys(machine.completed(then), float(then))
    return done


def _shares(store: RunStore) -> Iterator[ComparedResult]:
    names = [f"single-{100 * p:g}" for p in SHARES]
    yield from _against_each(store, "ASRPT-018", f"{V_B}, Fig. 7", 0.16, 0.57, names)


def _cards(store: RunStore) -> Iterator[ComparedResult]:
    place = f"{V_B}, Fig. 8"
    for ending, servers in READINGS.items():
        each = _each(store, ending)
        fast = _on("nic-50", each)[DURATION].dropna()
        what = f"Total JCT at 50 Gbit/s: asrpt / {DURATION}{ending}"
        yield ComparedResult("ASRPT-020", place, what, "12 % less", 0.88, fast.tolist())
        for nic in NICS:
            ours = _on(f"nic-{nic:g}", each).min(axis=1)
            claimed, printed = (0.08, "up to 92 % less") if nic == min(NICS) else (nan, "")
            what = f"Total JCT at {nic:g} Gbit/s: asrpt / worst baseline, {servers}"
            yield ComparedResult("ASRPT-020", place, what, printed, claimed, ours.tolist())


def _rates(store: RunStore) -> Iterator[ComparedResult]:
    """The comparison of Fig. 6 at lower arrival rates."""
    busy = by_run(store, FOREST, busy_part).groupby(level="workload").mean().to_dict()
    for part in RATES:
        name = f"rate-{100 * part:g}"
        used = f"{100 * busy.get(name, nan):.0f} % of the GPUs train while jobs arrive"
        for ending, servers in READINGS.items():
            ours = _on(name, _each(store, ending))
            for which, column in (("best", ours.max(axis=1)), ("worst", ours.min(axis=1))):
                what = f"Total JCT at {100 * part:g} % of the trace's rate: asrpt / {which} baseline, {servers}"
                note = f"{100 * part:g} % of the rate: {used}"
                yield ComparedResult("ASRPT-017", f"{V_B}, Fig. 6", what, "", nan, column.tolist(), note)


def _delays(store: RunStore) -> Iterator[ComparedResult]:
    usual = metric_values(store, "total_flow", "asrpt-delay-1")
    for workload, jobs in (("pai-like", "the trace's jobs"), ("single-0", "no job on one GPU")):
        for tau in (tau for tau in DELAYS if tau != 1):
            ours = ratios(metric_values(store, "total_flow", f"asrpt-delay-{tau:g}"), usual).to_frame("ratio")
            what = f"Total JCT with tau = {tau:g} over that with tau = 1, {jobs}"
            yield ComparedResult("ASRPT-018", f"{V_B}, Fig. 7", what, "", nan, _on(workload, ours)["ratio"].tolist())


def busy_part(run: StoredRun) -> float:
    """Fraction of all GPUs that train between the first and the last arrival."""
    rounds, arrivals = run.table("rounds"), run.table("jobs")["arrival"]
    during = rounds[rounds["end"] <= arrivals.max()]
    seconds = float(during["end"].max() - arrivals.min())
    return float(during["trained"].sum()) / (seconds * run.record.capacity) if seconds > 0 else nan


def _testbed(store: RunStore) -> Iterator[ComparedResult]:
    place = f"{V_A}, Fig. 5"
    ours = totals(store, FOREST, PERFECT)
    yield ComparedResult("ASRPT-012", place, "Total JCT: asrpt / asrpt-perfect", times(1.07), 1.07, ours.tolist())
    for ending, servers in READINGS.items():
        best, what = _each(store, ending).min(axis=1), f"Total JCT: asrpt / worst baseline, {servers}"
        yield ComparedResult("ASRPT-013", place, what, "up to 44 % less", 0.56, best.tolist())
        for name in (name + ending for name in CONSERVING):
            longer = ratios(metric_values(store, "makespan", FOREST), metric_values(store, "makespan", name))
            yield ComparedResult("ASRPT-013", place, f"Makespan: asrpt / {name}", "longer", nan, longer.tolist())


def _each(store: RunStore, ending: str) -> pd.DataFrame:
    """A-SRPT over each baseline with this ending; columns: baselines, index ``(workload, seed)``."""
    return pd.DataFrame({name: totals(store, FOREST, name + ending) for name in BASELINES})


def _on(workload: str, table: pd.DataFrame) -> pd.DataFrame:
    """Rows of this workload; index ``seed``."""
    if "workload" not in table.index.names:  # nothing ran
        return table.iloc[:0]
    return table[table.index.get_level_values("workload") == workload].droplevel("workload")


def _predictors(store: RunStore) -> Iterator[ComparedResult]:
    names = {FOREST: "forest", **OTHER_PREDICTORS}
    tables = []
    for run in completed_runs(store, FOREST):
        workload = _workload(run.record.settings["workload"])
        predictors = {name: make_predictor(name) for name in names.values()}
        tables.append(errors(*workload.predicted(run.key.seed, predictors)))
    correct = [float(table[CORRECT]["forest"]) for table in tables]
    yield ComparedResult(
        "ASRPT-011", f"{V_A}, Fig. 4", f"Share of jobs that the forest predicts {CORRECT}", "60 %", 0.6, correct
    )
    for predictor, claimed in (("forest", 369.0), ("median", 563.0), ("mean", 593.0)):
        ours = [float(table["mean absolute error"][predictor]) for table in tables]
        what = f"Mean error of the {predictor}, iterations"
        yield ComparedResult("ASRPT-021", f"{V_B}, Fig. 9", what, f"{claimed:g}", claimed, ours)
    for label, predictor in names.items():
        claimed, printed = (1.14, times(1.14)) if label == FOREST else (nan, "more than the forest")
        what = f"Total JCT with the {predictor} over that with true lengths"
        ours = totals(store, label, PERFECT).tolist()
        yield ComparedResult("ASRPT-022", f"{V_B}, Fig. 9", what, printed, claimed, ours)


def _lengths(wrong: RunStore, right: RunStore) -> Iterator[ComparedResult]:
    """The cost of errors of a known size, which the paper bounds in Theorem 1 but does not measure."""
    truth = metric_values(right, "total_flow", PERFECT).groupby(level="seed").mean()
    for part in LENGTHS:
        total = _on(f"wrong-{100 * part:g}", metric_values(wrong, "total_flow", FOREST).to_frame("total"))["total"]
        what = f"Total JCT with lengths wrong by up to {100 * part:g} % over that with true lengths"
        yield ComparedResult("ASRPT-022", f"{V_B}, Fig. 9", what, "", nan, ratios(total, truth).tolist())


_RESULTS_OF_PARTS = {
    "testbed": _testbed,
    "jobs": _sizes,
    "single": _shares,
    "nic": _cards,
    "rates": _rates,
    "delays": _delays,
    "predictors": _predictors,
}
"""Part -> function that computes its results."""


def _workload(settings: object) -> Recurring:
    assert isinstance(settings, dict)
    workload = workload_of(settings)
    assert isinstance(workload, Recurring)
    return workload


_MACHINE = "depends on the machine; not a result of a simulation"

_MIG = "the paper measured a server split by MIG; here scheduling takes no time"

_QUEUE = (
    "jobs start in the order in which the virtual machine completes them, without backfill. The cluster is slower than "
    "the virtual machine, on which every gang fits and every placement is the fastest; so a first-come-first-served "
    "queue grows and causes most of the waiting time, see docs/how-to/reproduce-a-paper.md"
)

EVALUATION = Evaluation(
    "A-SRPT",
    parts,
    compared_results,
    reasons={
        "ASRPT-011": "the generator is calibrated to this number by the similarity of the jobs of a group",
        "ASRPT-012": f"{_MIG}; jobs of unknown groups, a fifth of all, have a predicted length of 0 and run first; the "
        "paper's trace may have fewer",
        "ASRPT-013": _MIG,
        **dict.fromkeys(("ASRPT-017", "ASRPT-018", "ASRPT-020"), _QUEUE),
        "ASRPT-021": "the few longest jobs, and so the fitted tail of lengths, dominate the mean error; a fully grown "
        "forest equals the mean of the group except where a tree's sample leaves the group out, so it cannot be much "
        "better",
        "ASRPT-022": "the paper states neither the number of jobs nor the predictions of mean and "
        "median for new groups",
    },
    unmeasured=(
        ComparedResult("ASRPT-010", "section V-A", "Training the forest", "84 s", 84.0, note=_MACHINE),
        ComparedResult(
            "ASRPT-023",
            "Table II",
            "Heavy-Edge and integer program: time of an iteration, and of computing it",
            "88.11 and 82.96 ms",
            nan,
            note="decided by `pytest benchmarks/test_asrpt.py --benchmark-only --size full`",
        ),
    ),
    common_reason="trace and times of networks are derived from published data, so the load differs from the paper's, "
    "which is not printed",
)
