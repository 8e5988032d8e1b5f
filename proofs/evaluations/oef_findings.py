"""What OEF's evaluation finds beyond the metrics of single runs: who got what when, and what others would do with it.

OEF-030d, 036c, 036d, 037c, 039c and 039d look for why our numbers differ: what no lie and no allocation could do, and
what OEF gains over Gavel where that is held to one GPU for each tenant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import nan

import numpy as np
import pandas as pd

import hetopt
from hetopt.data.entities import Floats
from hetopt.data.instance import Instance
from hetopt.experiments.run_folder import instance_of
from hetopt.experiments.run_store import RunStore
from hetopt.models import oef
from hetopt.proofs.evaluations.evaluation import Finding, Stores, times
from hetopt.proofs.evaluations.measures import ran, ratios, values
from hetopt.simulation.estimates import Beliefs

COOPERATIVE, NONCOOPERATIVE, EQUAL = "oef-cooperative", "oef-noncooperative", "equal-split-tenants"
BADLY_PLACED = "oef-cooperative, first free GPUs"
GAVEL, ONE_GPU = "gavel-tenants", "gavel, one GPU each"
ANY_LIES = tuple(2.0**i for i in range(-4, 11))
"""From 6 % more to a thousand times as much."""

LIES: Mapping[str, float] = {"lie-20": 0.2, "lie-50": 0.5, "lie-100": 1.0}
"""Part -> by how much User-1 overstates."""

BEFORE, AFTER = (300.0, 2100.0), (2700.0, 4500.0)
"""Seconds while User-4 is there, and when it has quit."""

STAYING = ("User-1", "User-2", "User-3")
EVERYBODY = (*STAYING, "User-4")
_FIG_4, _FIG_5A, _FIG_5B, _FIG_6 = (
    "section 6.2.1, Fig. 4",
    "section 6.2.2, Fig. 5(a)",
    "section 6.2.3, Fig. 5(b)",
    "section 6.2.4, Fig. 6",
)


def findings(stores: Stores) -> list[Finding]:
    """What the parts give that were run."""
    return [
        *_four_users(stores),
        *_lies(stores),
        *_sharing(stores),
        *_second_type(stores),
        *_placement(stores),
        *_gavel(stores),
        *_profiles(stores),
    ]


def throughputs(store: RunStore, system: str, span: tuple[float, float]) -> pd.Series[float]:
    """Mean normalised throughput of each tenant from one second to another, in the first run of a system."""
    return next(ran(store, system)).log.mean_throughput(*span)


def _four_users(stores: Stores) -> Iterator[Finding]:
    """Least over largest throughput, before and after User-4 quits."""
    if "four-users" in stores:
        for letter, who, span, when in (("a", EVERYBODY, BEFORE, "four users"), ("b", STAYING, AFTER, "User-4 quit")):
            own = throughputs(stores["four-users"], NONCOOPERATIVE, span)[list(who)]
            what = f"Least over largest throughput of a user, {when}"
            yield Finding(f"OEF-029{letter}", _FIG_4, what, "equal", 1.0, [float(own.min() / own.max())])


def _lies(stores: Stores) -> Iterator[Finding]:
    """What a lie changes, for who lies and for the others."""
    if "four-users" not in stores:
        return
    for letter, (part, lie) in zip("abc", LIES.items(), strict=True):
        if part not in stores:
            continue
        said = f"User-1 overstates by {lie:.0%}"
        (honest, lying), (later, still) = (
            [throughputs(stores[name], NONCOOPERATIVE, span) for name in ("four-users", part)]
            for span in (BEFORE, AFTER)
        )
        others = list(EVERYBODY[1:])
        gain = float(lying[others].sum() / honest[others].sum())
        for number, what, printed, ours in (
            ("c", "Throughput of User-1 over that without the lie", "less", float((lying / honest)["User-1"])),
            ("d", "Throughput of the other users over that without the lie", "more", gain),
            ("e", "The first when User-4 has quit", "less", float((still / later)["User-1"])),
        ):
            yield Finding(f"OEF-029{number}", _FIG_4, f"{what}, {said}", printed, nan, [ours])
        lost = 1 - float(lying[list(EVERYBODY)].sum() / honest[list(EVERYBODY)].sum())
        yield Finding(f"OEF-030{letter}", _FIG_4, f"Throughput lost in all, {said}", "around 10 %", 0.1, [lost])
    most = largest_loss(instance_of(next(ran(stores["four-users"], NONCOOPERATIVE))), "User-1")
    what = "Throughput lost in all by the lie of User-1 that costs most, as allocated"
    yield Finding("OEF-030d", _FIG_4, what, "around 10 %", 0.1, [most])


def largest_loss(instance: Instance, liar: str) -> float:
    """Part of the total rate that non-cooperative OEF loses when somebody tells the lie of ANY_LIES that costs most."""

    def total(told: Instance) -> float:
        found = hetopt.solve(oef.noncooperative(), told)
        return float(instance.entities("tenants").rate(found.x).sum())

    return 1 - min(total(Beliefs(lies={liar: lie}).of(instance)) for lie in ANY_LIES) / total(instance)


def promised(store: RunStore, system: str) -> pd.Series[float]:
    """Mean over all decisions of what the allocations promise each tenant, in the first run of a system."""
    return next(ran(store, system)).log.estimated.mean()


def with_others(instance: Instance) -> Floats:
    """(n, n) rate of the row's tenant with the GPUs that cooperative OEF gives to the column's."""
    found = hetopt.solve(oef.cooperative(), instance)
    return np.asarray(found.entities.per_gpu @ found.entities.gpus(found.x).T)


def _sharing(stores: Stores) -> Iterator[Finding]:
    """Cooperative OEF beside equal division, and each user with the GPUs of others."""
    if "sharing" not in stores:
        return
    gain = promised(stores["sharing"], COOPERATIVE) / promised(stores["sharing"], EQUAL)
    most = str(gain.idxmax())
    what = "Estimated throughput over max-min, {} of the users"
    yield Finding("OEF-031a", _FIG_5A, what.format("most"), times(1.16), 1.16, [float(gain.max())], f"most has {most}")
    yield Finding("OEF-031b", _FIG_5A, what.format("least"), "at least 1", 1.0, [float(gain.min())])
    instance = instance_of(next(ran(stores["sharing"], COOPERATIVE)))
    rate, at = with_others(instance), instance.entities("tenants").position
    own, first = rate[at["User-4"], at["User-4"]], rate[at["User-4"], at["User-1"]]
    what = "Throughput of User-4 with its own GPUs over that with User-1's"
    yield Finding("OEF-034a", _FIG_6, what, times(1.58), 1.58, [float(own / first)])
    better = np.diag(rate)[:, None] / rate
    what = "Throughput of a user with its own GPUs over that with another's, {} of all pairs"
    others = better[~np.eye(len(rate), dtype=bool)]
    yield Finding("OEF-034b", _FIG_6, what.format("least"), "at least 1", 1.0, [float(others.min())])
    yield Finding("OEF-034c", _FIG_6, what.format("most"), f"{times(1.58)} or more", 1.58, [float(others.max())])


def _second_type(stores: Stores) -> Iterator[Finding]:
    """User-1's two job types beside the other users, from minute 40 on."""
    if "second-type" in stores:
        own = throughputs(stores["second-type"], NONCOOPERATIVE, AFTER)
        types = own[[name for name in own.index if str(name).startswith("User-1/")]]
        others = own[list(EVERYBODY[1:])]
        what = "Throughput of a job type of User-1 over that of another user"
        yield Finding("OEF-033a", _FIG_5B, what, "half", 0.5, [float(types.mean() / others.mean())])
        what = "Least over largest throughput of User-1's two job types"
        yield Finding("OEF-033b", _FIG_5B, what, "almost equal", 1.0, [float(types.min() / types.max())])


def _placement(stores: Stores) -> Iterator[Finding]:
    """What OEF's placer adds to its throughput."""
    if {"throughput", "placement"} <= set(stores):
        found = ratios(
            values(stores["throughput"], "throughput", COOPERATIVE),
            values(stores["placement"], "throughput", BADLY_PLACED),
        )
        what = "Throughput of OEF over that with the first free GPUs"
        yield Finding("OEF-032", "section 6.2.2", what, times(1.24), 1.24, found.tolist())


def most_of_any(store: RunStore) -> pd.Series[float]:
    """The largest total rate of any allocation, fair or not, on the workload of each run of Gavel."""
    found = {}
    for run in ran(store, GAVEL):
        tenants = instance_of(run).entities("tenants")
        found[run.key.workload, run.key.seed] = float(tenants.capacity @ tenants.per_gpu.max(axis=0))
    return pd.Series(found, dtype=float)


def _gavel(stores: Stores) -> Iterator[Finding]:
    """What any allocation could gain over Gavel, and what OEF gains where each tenant has at most one GPU."""
    if "throughput" not in stores:
        return
    store, place = stores["throughput"], "section 6.3.1, Fig. 8"
    bound = ratios(most_of_any(store), values(store, "throughput_estimated", GAVEL))
    what = "Estimated throughput of the most efficient allocation, however unfair, over Gavel"
    yield Finding("OEF-036c", place, what, "20 % more", 1.2, bound.tolist())
    for key, metric, word, claim in (
        ("OEF-036d", "throughput_estimated", "Estimated throughput", 1.2),
        ("OEF-037c", "throughput", "Throughput", 1.32),
    ):
        found = ratios(values(store, metric, COOPERATIVE), values(store, metric, ONE_GPU))
        what = f"{word} over Gavel where no tenant has more than one GPU [OEF, eq. 3]"
        yield Finding(key, place, what, f"{100 * (claim - 1):.0f} % more", claim, found.tolist())
    for letter, system in (("c", COOPERATIVE), ("d", NONCOOPERATIVE)):
        found = ratios(values(store, "stragglers", system), values(store, "stragglers", ONE_GPU))
        what = f"Straggling workers of {system} over Gavel where no tenant has more than one GPU, twenty tenants"
        yield Finding(f"OEF-039{letter}", "section 6.3.3", what, "26 % less", 0.74, found.tolist())


def _profiles(stores: Stores) -> Iterator[Finding]:
    """How far throughput falls behind what was promised on wrong profiles, and behind that on right ones."""
    if "profiles" not in stores:
        return
    place, what = "section 6.4.2, Fig. 10(b)", "Throughput below the estimated one, profiles wrong by up to 20 %"
    for letter, system in (("a", COOPERATIVE), ("c", NONCOOPERATIVE)):
        wrong = values(stores["profiles"], "deviation", system)
        yield Finding(f"OEF-041{letter}", place, f"{what}, {system}", "about 3 %", 0.03, wrong.tolist())
    if "throughput" not in stores:
        return
    for letter, system in (("b", COOPERATIVE), ("d", NONCOOPERATIVE)):
        wrong, right = (values(stores[part], "throughput", system) for part in ("profiles", "throughput"))
        lost = 1 - ratios(wrong, right)
        told = f"Throughput lost by profiles that are wrong by up to 20 %, {system}"
        yield Finding(f"OEF-041{letter}", place, told, "about 3 %", 0.03, lost.tolist())
