"""What Hadar's figures give beyond single metrics: hours, utilisation by two readings, best slots, costs of latency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import nan

import pandas as pd

from hetopt.experiments.published_results import AWS, LAB, MIXES
from hetopt.experiments.run_store import RunStore
from hetopt.proofs.evaluations.evaluation import Finding, Stores
from hetopt.proofs.evaluations.measures import ran, ratios, values

UTILITY = "effective-throughput"
EXAMPLE = "hadar[effective]"
"""Hadar with the paper's example of a utility."""

SLOTS = (90, 180, 360)
"""Seconds of a round [Hadar, section VI-E]."""

LATENCIES = (100, 200, 100_000)
"""Microseconds [Hadar, section VI-D]."""

RISES = {100: (0.02, 0.02), 200: (0.025, 0.055), 100_000: (0.04, 0.06)}
"""Microseconds -> what JCT and TTD rise by [Hadar, section VI-D]."""

HOUR = 3600.0
CLUSTERS = {"AWS": AWS, "laboratory": LAB}
IV, VI = "section IV-C", "section VI-C"
_SHORT, _LONG = ("m1", "m3", "m4"), ("m8", "m10", "m12")
BEST: Mapping[tuple[str, str], Mapping[str, tuple[int, ...]]] = {
    ("hadare", "AWS"): {mix: (360,) if mix in _LONG else (90,) for mix in MIXES},
    ("hadare", "laboratory"): {mix: (90,) if mix in _SHORT else (360,) for mix in MIXES},
    ("hadar", "AWS"): {mix: (360,) if mix == "m3" else (90, 180) for mix in MIXES},
    ("hadar", "laboratory"): {mix: (90,) if mix in _SHORT else (360,) for mix in MIXES},
}
"""System and cluster -> mix -> the slots with the highest CRU, any of them, by [Hadar, Figs. 12 and 13]."""


def findings(stores: Stores) -> list[Finding]:
    """All that the parts which were run give."""
    slots = {slot: stores[f"slot-{slot}"] for slot in SLOTS if f"slot-{slot}" in stores}
    found: list[Finding] = []
    if "trace" in stores:
        found += [*_hours(stores["trace"]), *_utilisation(stores["trace"]), *_changes(stores["trace"])]
    for slot, store in slots.items():
        if slot != sorted(SLOTS)[1]:
            found += _extremes(store, slot)
    if len(slots) == len(SLOTS):
        found += _slots(slots)
    if (without := slots.get(min(SLOTS))) is not None:
        late = {us: stores[f"latency-{us}us"] for us in LATENCIES if f"latency-{us}us" in stores}
        found += _latency(without, late)
    return found


def _hours(store: RunStore) -> Iterator[Finding]:
    for key, system, claimed in (("015", "hadar", 40.0), ("015", EXAMPLE, 40.0), ("016", "yarn-cs", 68.0)):
        ours = values(store, "makespan", system) / HOUR
        yield Finding(
            f"HADAR-{key}", f"{IV}, Fig. 4", f"TTD of {system}, hours", f"{claimed:g}", claimed, ours.tolist()
        )


def held_part(store: RunStore, system: str) -> pd.Series[float]:
    """Part of the time on GPUs in which jobs train, by the GPU-seconds of all; index ``(workload, seed)``."""
    found = {}
    for run in ran(store, system):
        rounds = run.table("rounds")
        found[run.key.workload, run.key.seed] = float(rounds["trained"].sum() / rounds["held"].sum())
    return pd.Series(found, dtype=float)


def _utilisation(store: RunStore) -> Iterator[Finding]:
    pairs = (
        ("hadar", "yarn-cs", "similar", 1.0),
        (EXAMPLE, "yarn-cs", "similar", 1.0),
        ("gavel", "hadar", "lower", nan),
        ("tiresias", "hadar", "lower", nan),
    )
    used = {name: values(store, "gru", name) for name in ("hadar", EXAMPLE, "gavel", "tiresias", "yarn-cs")}
    trains = {name: held_part(store, name) for name in used}
    for what, own in (("GRU", used), ("Part of the time on GPUs that is training", trains)):
        for above, below, printed, claimed in pairs:
            ours = ratios(own[above], own[below]).tolist()
            yield Finding("HADAR-019", "section IV-C, Fig. 3", f"{what}: {above} / {below}", printed, claimed, ours)


def _changes(store: RunStore) -> Iterator[Finding]:
    for metric, what in (("changed", "in which allocations change"), ("altered", "that move or stop a running job")):
        for system in ("hadar", EXAMPLE):
            ours = values(store, metric, system).tolist()
            yield Finding("HADAR-021", IV, f"Share of rounds {what}, {system}", "30 %", 0.3, ours)


def _extremes(store: RunStore, slot: int) -> Iterator[Finding]:
    """Longest and shortest completion time of M-5 on AWS."""
    for system, most, least in (("hadar", 2918.0, 1210.0), ("gavel", 3159.0, 1283.0)):
        jct = [run.table("jobs")["jct"] for run in ran(store, system) if run.key.workload == "hadar/m5"]
        for what, claimed, ours in (
            ("Longest", most, [float(own.max()) for own in jct]),
            ("Shortest", least, [float(own.min()) for own in jct]),
        ):
            told = f"{what} JCT of M-5, AWS, {system}, slots of {slot} s"
            yield Finding("HADAR-038", f"{VI}, Fig. 10(a)", told, f"{claimed:g} s", claimed, ours)


def best_slots(slots: Mapping[int, RunStore], system: str) -> pd.Series[int]:
    """Workload -> the slot with the highest CRU, the shortest of several."""
    table = pd.DataFrame({slot: values(slots[slot], "cru", system) for slot in sorted(slots)})
    best: pd.Series[int] = table.groupby(level="workload").mean().idxmax(axis=1)
    return best


def _slots(slots: Mapping[int, RunStore]) -> Iterator[Finding]:
    for (system, cluster), wanted in BEST.items():
        best = best_slots(slots, system)
        names = {mix: name for mix, name in zip(MIXES, CLUSTERS[cluster], strict=True) if name in best.index}
        ours = {mix: int(best[name]) for mix, name in names.items()}
        alike = sum(slot in wanted[mix] for mix, slot in ours.items())
        told = "; ".join(f"{mix} {slot} s ({' or '.join(map(str, wanted[mix]))})" for mix, slot in ours.items())
        what = f"Mixes of which the best slot is the paper's, {system}, {cluster}"
        place = f"section VI-E, Fig. {12 if system == 'hadare' else 13}"
        note = f"{system} on {cluster}, in brackets the paper's: {told}"
        yield Finding("HADAR-043", place, what, f"all {len(MIXES)}", float(len(MIXES)), [float(alike)], note)


def _latency(without: RunStore, late: Mapping[int, RunStore]) -> Iterator[Finding]:
    for latency, store in late.items():
        for metric, what, claimed in zip(("jct_mean", "makespan"), ("JCT", "TTD"), RISES[latency], strict=True):
            rise = ratios(values(store, metric, "hadare"), values(without, metric, "hadare")) - 1
            told = f"Rise of HadarE's {what} by {latency:,} microseconds of latency, laboratory"
            yield Finding("HADAR-042", "section VI-D, Fig. 11", told, f"{100 * claimed:g} %", claimed, rise.tolist())
