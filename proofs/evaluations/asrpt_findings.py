"""What A-SRPT's figures give of several runs: total completion times beside each other, and errors of predictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, nan

import pandas as pd

from hetopt.experiments.published_results import TIMES
from hetopt.experiments.run_folder import instance_of
from hetopt.experiments.run_store import RunStore, StoredRun
from hetopt.experiments.trace_workload import workload_of
from hetopt.models.asrpt.virtual_machine import VirtualMachine
from hetopt.prediction.accuracy import errors
from hetopt.proofs.evaluations.evaluation import Finding, Stores
from hetopt.proofs.evaluations.measures import ran, ratios, values
from hetopt.proofs.evaluations.recurring import Recurring, drawn, foretold, single_share
from hetopt.registry import make_predictor

FOREST, PERFECT = "asrpt", "asrpt-perfect"
"""A-SRPT as it is, and with the truth."""

OTHER_PREDICTORS = {"asrpt-median": "median", "asrpt-mean": "mean"}
"""Label -> predictor."""

SPJF, SPWF, DURATION = "asrpt-spjf", "asrpt-spwf", "asrpt-wcs-duration"
CONSERVING = (DURATION, "asrpt-wcs-workload", "asrpt-wcs-subtime")
BASELINES = (SPJF, SPWF, *CONSERVING)
SIZES = (37_500, 75_000, 112_500, 150_000)
SHARES = (0.8, 0.6, 0.4, 0.2, 0.0)
NICS = (1.0, 10.0, 25.0, 50.0)
LENGTHS = (0.1, 0.3, 1.0)
RATES = (0.25, 0.5, 0.75)
CORRECT = "within 10 %"
"""What counts as predicted correctly; the paper does not say."""

V_A, V_B = "section V-A", "section V-B"


def findings(stores: Stores) -> list[Finding]:
    """All that the parts which were run give."""
    found: list[Finding] = []
    for part, own in _FOUND.items():
        if part in stores:
            found += own(stores[part])
    if {"lengths", "predictors"} <= set(stores):
        found += _lengths(stores["lengths"], stores["predictors"])
    return found


def totals(store: RunStore, above: str, below: str) -> pd.Series[float]:
    """Total completion time of one system over that of another; index ``(workload, seed)``."""
    return ratios(values(store, "total_flow", above), values(store, "total_flow", below))


def _against_each(
    store: RunStore, key: str, place: str, least: float, most: float, names: Sequence[str]
) -> Iterator[Finding]:
    """A-SRPT over each baseline, on workloads of these names."""
    for baseline in BASELINES:
        ours = totals(store, FOREST, baseline)
        if len(ours):
            each = ours.groupby(level="workload").mean()
            told = ", ".join(f"{name}: {each[name]:.3g}" for name in names if name in each.index)
            what = f"Total JCT: asrpt / {baseline}"
            printed = f"{100 * least:.0f} to {100 * most:.0f} % less"
            yield Finding(key, place, what, printed, 1 - most, ours.tolist(), f"{baseline}: {told}", 1 - least)


def _sizes(store: RunStore) -> Iterator[Finding]:
    yield from _against_each(store, "ASRPT-017", f"{V_B}, Fig. 6", 0.31, 0.91, [f"jobs-{n}" for n in SIZES])
    every = {name: values(store, "total_flow", name) for name in BASELINES}
    others = pd.concat([own for name, own in every.items() if name != SPJF], axis=1).max(axis=1)
    what = "Total JCT of SPJF over the worst of the other baselines"
    yield Finding("ASRPT-017", f"{V_B}, Fig. 6", what, "SPJF the worst", nan, ratios(every[SPJF], others).tolist())
    waits = pd.DataFrame([(run.key.workload, queue_part(run)) for run in ran(store, FOREST)], columns=["on", "part"])
    mean = waits.groupby("on")["part"].mean()
    told = ", ".join(f"{name}: {mean[name]:.2f}" for n in SIZES if (name := f"jobs-{n}") in mean.index)
    what = "Part of A-SRPT's wait that comes after the virtual machine has completed a job"
    yield Finding("ASRPT-017", f"{V_B}, Fig. 6", what, "", nan, waits["part"].tolist(), f"Wait: {told}")
    alone = [single_share(instance_of(run)) for run in ran(store, FOREST)]
    yield Finding("ASRPT-019", V_B, "Share of jobs on one GPU", "over 0.7", 0.7, alone)


def queue_part(run: StoredRun) -> float:
    """Of the time that A-SRPT's jobs wait, the part after their completion on the virtual machine; NaN without any."""
    workload, seed, jobs = _workload(run.data["settings"]["workload"]), run.key.seed, run.table("jobs")
    instance, least = workload.instance(seed), drawn(workload.trace, seed).networks.of
    predicted = foretold(workload.trace, seed, make_predictor("forest")).predict(instance.jobs).tolist()
    gpus = sum(instance.cluster.capacity.values())
    machine, done = VirtualMachine(), dict[str, float]()
    for job, iterations in zip(instance.jobs, predicted, strict=True):
        done |= _until(machine, job.arrival)
        machine.arrive(job.arrival, job.name, job.demand * iterations * least[str(job.group)][1] / gpus)
    done |= _until(machine, inf)
    after = (jobs["start"] - pd.Series(done).reindex(jobs.index)).clip(lower=0.0)
    waited = float((jobs["start"] - jobs["arrival"]).sum())
    return float(after.sum()) / waited if waited > 0 else nan


def _until(machine: VirtualMachine, time: float) -> dict[str, float]:
    """Job -> when it completed, of those that had not been told."""
    done: dict[str, float] = {}
    while (then := machine.next) <= time and then < inf:
        done |= dict.fromkeys(machine.completed(then), float(then))
    return done


def _shares(store: RunStore) -> Iterator[Finding]:
    names = [f"single-{100 * p:g}" for p in SHARES]
    yield from _against_each(store, "ASRPT-018", f"{V_B}, Fig. 7", 0.16, 0.57, names)


def _cards(store: RunStore) -> Iterator[Finding]:
    place, each = f"{V_B}, Fig. 8", _each(store)
    fast = _on("nic-50", each)[DURATION].dropna()
    what = "Total JCT at 50 Gbit/s: asrpt / asrpt-wcs-duration"
    yield Finding("ASRPT-020", place, what, "12 % less", 0.88, fast.tolist())
    for nic in NICS:
        ours = _on(f"nic-{nic:g}", each).min(axis=1)
        claimed, printed = (0.08, "up to 92 % less") if nic == min(NICS) else (nan, "")
        what = f"Total JCT at {nic:g} Gbit/s: asrpt / worst baseline"
        yield Finding("ASRPT-020", place, what, printed, claimed, ours.tolist())


def _rates(store: RunStore) -> Iterator[Finding]:
    """The comparison of Fig. 6 where jobs come more slowly."""
    each = _each(store)
    rows = pd.DataFrame([(run.key.workload, busy_part(run)) for run in ran(store, FOREST)], columns=["on", "part"])
    busy = rows.groupby("on")["part"].mean().to_dict()
    for part in RATES:
        name = f"rate-{100 * part:g}"
        ours, used = _on(name, each), f"{100 * busy.get(name, nan):.0f} % of the GPUs train while jobs arrive"
        for which, column in (("best", ours.max(axis=1)), ("worst", ours.min(axis=1))):
            what = f"Total JCT at {100 * part:g} % of the trace's rate: asrpt / {which} baseline"
            note = f"{100 * part:g} % of the rate: {used}"
            yield Finding("ASRPT-017", f"{V_B}, Fig. 6", what, "", nan, column.tolist(), note)


def busy_part(run: StoredRun) -> float:
    """Part of all GPUs that trained from the first arrival to the last."""
    rounds, arrivals = run.table("rounds"), run.table("jobs")["arrival"]
    during = rounds[rounds["end"] <= arrivals.max()]
    seconds = float(during["end"].max() - arrivals.min())
    return float(during["trained"].sum()) / (seconds * float(run.data["capacity"])) if seconds > 0 else nan


def _testbed(store: RunStore) -> Iterator[Finding]:
    place = f"{V_A}, Fig. 5"
    ours = totals(store, FOREST, PERFECT)
    yield Finding("ASRPT-012", place, "Total JCT: asrpt / asrpt-perfect", f"1.07{TIMES}", 1.07, ours.tolist())
    best = _each(store).min(axis=1)
    yield Finding("ASRPT-013", place, "Total JCT: asrpt / worst baseline", "up to 44 % less", 0.56, best.tolist())
    for name in CONSERVING:
        longer = ratios(values(store, "makespan", FOREST), values(store, "makespan", name))
        yield Finding("ASRPT-013", place, f"Makespan: asrpt / {name}", "longer", nan, longer.tolist())


def _each(store: RunStore) -> pd.DataFrame:
    """A-SRPT over each baseline; index ``(workload, seed)``."""
    return pd.DataFrame({name: totals(store, FOREST, name) for name in BASELINES})


def _on(workload: str, table: pd.DataFrame) -> pd.DataFrame:
    """Rows of that workload; index ``seed``."""
    if "workload" not in table.index.names:  # nothing ran
        return table.iloc[:0]
    return table[table.index.get_level_values("workload") == workload].droplevel("workload")


def _predictors(store: RunStore) -> Iterator[Finding]:
    names = {FOREST: "forest", **OTHER_PREDICTORS}
    tables = []
    for run in ran(store, FOREST):
        workload = _workload(run.data["settings"]["workload"])
        made = {own: make_predictor(own) for own in names.values()}
        tables.append(errors(*workload.predicted(run.key.seed, made)))
    correct = [float(table[CORRECT]["forest"]) for table in tables]
    yield Finding(
        "ASRPT-011", f"{V_A}, Fig. 4", f"Share of jobs that the forest predicts {CORRECT}", "60 %", 0.6, correct
    )
    for predictor, claimed in (("forest", 369.0), ("median", 563.0), ("mean", 593.0)):
        ours = [float(table["mean absolute error"][predictor]) for table in tables]
        what = f"Mean error of the {predictor}, iterations"
        yield Finding("ASRPT-021", f"{V_B}, Fig. 9", what, f"{claimed:g}", claimed, ours)
    for label, predictor in names.items():
        claimed, printed = (1.14, f"1.14{TIMES}") if label == FOREST else (nan, "more than the forest")
        what = f"Total JCT with the {predictor} over that with the truth"
        ours = totals(store, label, PERFECT).tolist()
        yield Finding("ASRPT-022", f"{V_B}, Fig. 9", what, printed, claimed, ours)


def _lengths(wrong: RunStore, right: RunStore) -> Iterator[Finding]:
    """What errors of a known size cost; the paper bounds it in Theorem 1 and measures none."""
    truth = values(right, "total_flow", PERFECT).groupby(level="seed").mean()
    for part in LENGTHS:
        own = _on(f"wrong-{100 * part:g}", values(wrong, "total_flow", FOREST).to_frame("total"))["total"]
        what = f"Total JCT with lengths wrong by up to {100 * part:g} % over that with the truth"
        yield Finding("ASRPT-022", f"{V_B}, Fig. 9", what, "", nan, ratios(own, truth).tolist())


_FOUND = {
    "testbed": _testbed,
    "jobs": _sizes,
    "single": _shares,
    "nic": _cards,
    "rates": _rates,
    "predictors": _predictors,
}
"""Part -> its findings."""


def _workload(said: object) -> Recurring:
    assert isinstance(said, dict)
    workload = workload_of(said)
    assert isinstance(workload, Recurring)
    return workload
