"""What FFT's evaluation finds beyond the metrics of single runs: several parts together, and sums over spans."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan

import pandas as pd

from hetopt.experiments.run_folder import instance_of
from hetopt.experiments.run_store import RunStore
from hetopt.metrics.finish_time import finish_time_fairness
from hetopt.proofs.evaluations.evaluation import Finding, Stores, times
from hetopt.proofs.evaluations.measures import paces, ran, ratios, restart_seconds, values
from hetopt.simulation.profiling import Profiling

GAVEL, PAL, TIRESIAS = "gavel-sjf", "pal", "tiresias-per-type"
HIERARCHICAL, SKEW, FIRST_FREE = "hierarchical", "tensor-skew", "first-free"
SMOOTH = tuple(f"fft-trace-{i}" for i in (3, 4, 5, 8))
"""Traces with which the paper compares Trace 9."""


def findings(stores: Stores) -> list[Finding]:
    """What the parts give that were run."""
    return [
        *_switching(stores),
        *_placement(stores),
        *_profiling(stores),
        *_traces(stores),
        *_errors(stores),
        *_distributions(stores),
    ]


def _switching(stores: Stores) -> Iterator[Finding]:
    """Seconds that restarts take under Gavel over those under FFT, each and in all."""
    for gavel, fft, letters, claim, how in (
        ("disks", "disks-ahead", "ac", 1.59, "with datasets"),
        ("testbed-1", "testbed-1", "bd", 1.28, "without datasets"),
    ):
        if not {gavel, fft} <= set(stores):
            continue
        for letter, key, which in zip(letters, ("mean", "total"), ("a restart", "all restarts"), strict=True):
            found = ratios(restart_seconds(stores[gavel], GAVEL, key), restart_seconds(stores[fft], "fft", key))
            what = f"Seconds of {which}, Gavel over FFT, {how}"
            yield Finding(f"FFT-037{letter}", "section 6.2.3, Fig. 10(c)", what, times(claim), claim, found.tolist())


def _placement(stores: Stores) -> Iterator[Finding]:
    """Training throughput that other placers lose."""
    if "placement" not in stores:
        return
    ours = paces(stores["placement"], HIERARCHICAL)
    for letter, system, who, loss in (
        ("a", SKEW, "Tiresias' placer", 0.052),
        ("b", FIRST_FREE, "no consolidation", 0.124),
    ):
        lost = 1 - ratios(paces(stores["placement"], system), ours)
        what = f"Training throughput lost by {who}, relative to FFT's"
        yield Finding(f"FFT-038{letter}", "section 6.2.4", what, f"{100 * loss:g} %", loss, lost.tolist())


def profiled_part(store: RunStore) -> list[float]:
    """Seconds of profiling runs and of the pauses for them, over seconds of training, of each run of FFT.

    In a world in which jobs lose time by nothing else.
    """
    found = []
    for run in ran(store, "fft"):
        log, instance = run.log, instance_of(run)
        each = Profiling(float(run.data["settings"]["world"]["profiling_seconds"]))
        own = sum(len(each.types(instance.job[name], instance.cluster)) for name in log.jobs.index) * each.seconds
        trained = float((log.spans["end"] - log.spans["start"] - log.spans["lost"]).sum())
        found.append((own + float(log.jobs["lost"].sum())) / trained)
    return found


def _profiling(stores: Stores) -> Iterator[Finding]:
    if "profiling" in stores:
        what = "Profiling runs and pauses for them, part of the time of training"
        yield Finding("FFT-039", "section 6.2.5", what, "at most 0.8 %", 0.008, profiled_part(stores["profiling"]))


def _traces(stores: Stores) -> Iterator[Finding]:
    """Section 6.3.1 over all traces."""
    if "simulation" not in stores:
        return
    store, place = stores["simulation"], "section 6.3.1, Fig. 11"
    fft = values(store, "jct_mean", "fft")
    for letter, system in zip("def", (GAVEL, PAL, TIRESIAS), strict=True):
        found = ratios(values(store, "jct_mean", system), fft)
        worst = found.groupby(level="workload").mean()
        if len(worst):
            what = f"JCT of {system} over FFT, least of Traces 3 to 9"
            note = f"on {worst.idxmin()}"
            yield Finding(f"FFT-041{letter}", place, what, "FFT better on all", 1.0, [float(worst.min())], note)
    trace = ratios(values(store, "jct_mean", GAVEL), fft).groupby(level="workload").mean()
    if {"fft-trace-9", *SMOOTH} <= set(trace.index):
        ours = float(trace["fft-trace-9"] / trace[list(SMOOTH)].mean())
        what = "JCT of Gavel over FFT, Trace 9 over Traces 3, 4, 5, 8"
        yield Finding("FFT-041g", place, what, "minimal differences", 1.0, [ours])


def _errors(stores: Stores) -> Iterator[Finding]:
    """Rise of FFT's JCT by wrong lengths."""
    for key, wrong, right, what, printed, claim in (
        ("FFT-046", "errors", "testbed-1", "Trace 1", "at most 17 %", 0.17),
        ("FFT-047", "errors-large", "simulation", "Traces 6 and 7", "as low as 8 %", 0.08),
    ):
        if {wrong, right} <= set(stores):
            rise = ratios(*(values(stores[name], "jct_mean", "fft") for name in (wrong, right))) - 1
            told = f"Rise of JCT by lengths that are wrong by up to 30 %, {what}"
            yield Finding(key, "section 6.4.2, Fig. 13(b)", told, printed, claim, rise.tolist())


def _distributions(stores: Stores) -> Iterator[Finding]:
    """Section 6.2.2 beyond means and maxima."""
    if "testbed-1" not in stores:
        return
    store, place = stores["testbed-1"], "section 6.2.2, Fig. 8(a)"
    alike = ratios(values(store, "ftf_themis_mean", PAL), values(store, "ftf_themis_mean", GAVEL))
    what = "Mean finish-time fairness of PAL over Gavel"
    yield Finding("FFT-048a", place, what, "similar", 1.0, alike.tolist())
    better = [
        float((tiresias < fft).mean())
        for tiresias, fft in zip(_fairness(store, TIRESIAS), _fairness(store, "fft"), strict=True)
    ]
    what = "Share of jobs with a smaller finish-time fairness under Tiresias than under FFT"
    yield Finding("FFT-048b", place, what, "a few short jobs", nan, better)


def _fairness(store: RunStore, system: str) -> list[pd.Series[float]]:
    """Of each run, the finish-time fairness of its jobs."""
    return [finish_time_fairness(run.log, instance_of(run))["rho"] for run in ran(store, system)]
