# ruff: noqa: RUF001
"""Formulations as mathematics: what is printed of the library's components is what their models solve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest
from effort import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from packings import packable, parts_by_hand
from stated import Elsewhere, check_stated

import hetopt
from hetopt.data.entities import Entities, Kind
from hetopt.errors import InvalidFormulation
from hetopt.formulations.formulation import Formulation
from hetopt.models import baselines, ceei, fft, gavel, oef, shockwave
from hetopt.models.concave import CompletionTime
from hetopt.models.fairness_components import EnvyFree, EqualRates, SharingIncentive
from hetopt.models.fft.fft_state import FFTState
from hetopt.models.gavel.gavel_components import FinishTime, LeastRatio, TimeFraction
from hetopt.models.objectives import SwitchingCost, TotalRate, WeightedRate
from hetopt.models.oef.oef_formulations import SortedTypes
from hetopt.proofs.strategies import job_instances, ratios, tenant_instances, with_held

SEEDS = st.integers(0, 2**32 - 1)
ROUND = 60.0

BOTH = {
    "efficiency only": baselines.efficiency_only(),
    "sharing incentive only": baselines.sharing_incentive_only(),
    "envy-free and equal": Formulation((WeightedRate(), EnvyFree(), EqualRates())),
    "CEEI": ceei.equal_budgets(),
    "max-min": gavel.max_min_fairness(),
    "max-min of time": gavel.max_min_fairness(scale_by_demand=False, tenant_gpus=1.5),
    "total throughput": gavel.total_throughput() + SwitchingCost(0.3),
    "most GPUs": Formulation((fft.WorkConserving(), TotalRate(), SwitchingCost(0))),
    "sorted": Formulation((LeastRatio(), SharingIncentive(), SortedTypes(), TimeFraction())),
}
TENANTS = {
    "OEF cooperative": oef.cooperative(),
    "OEF non-cooperative": oef.noncooperative(),
    "OEF non-cooperative, sorted": oef.noncooperative(canonical=True),
    "OEF with switching": oef.cooperative() + SwitchingCost(2) + SharingIncentive(),
}
JOBS = {
    "makespan": gavel.makespan(),
    "space sharing": gavel.max_min_packing(),
    "FIFO": gavel.fifo(),
    "SJF": gavel.shortest_job_first(),
    "finish-time fairness": gavel.finish_time_fairness(),
    "completion time": gavel.mean_completion_time(),
    "both of a kind": Formulation((FinishTime(), CompletionTime(), ceei.LogRate(), TimeFraction())),
    "compensation": gavel.total_throughput() + fft.Compensation({"j1": 0.5}, ROUND),
    "as printed": gavel.total_throughput() + fft.Compensation({"j1": 0.5}, ROUND, normalise=False),
}


def lasts(entities: Entities, last: dict[str, str]) -> dict[str, str]:
    """Job -> the GPU type on which it ran last."""
    held = {} if entities.held is None else dict(zip(entities.names, entities.held, strict=True))
    most = {e: entities.types[int(np.argmax(row))] for e, row in held.items() if row.any()}
    return most | last


def numbers_of(formulation: Formulation, entities: Entities) -> dict[str, Any]:
    """The symbols that are data, by plain loops."""
    E, K, jobs = entities.names, entities.types, entities.kind == "jobs"
    cells = [(e, k) for e in E for k in K]

    def each(values: Any) -> dict[str, float]:
        return dict(zip(E, np.asarray(values, dtype=float).tolist(), strict=True))

    def table(values: Any) -> dict[tuple[str, str], float]:
        return dict(zip(cells, np.asarray(values, dtype=float).ravel().tolist(), strict=True))

    v, m = table(entities.speed), dict(zip(K, entities.capacity.tolist(), strict=True))
    d, pi = each(entities.demand), each(entities.weight)
    usual = {e: pi[e] / sum(pi.values()) * sum(v[e, k] * m[k] for k in K) / d[e] for e in E}
    first = {e: next((v[e, k] for k in K if v[e, k] > 0), 1.0) for e in E}
    key = {e: sum(j * v[e, k] for j, k in enumerate(K)) / max(sum(v[e, k] for k in K), 1e-300) for e in E}
    r = {e: place for place, e in enumerate(sorted(E, key=lambda e: key[e]), 1)}
    w = {(e, k): v[e, k] / first[e] for e, k in cells}
    j = {k: place for place, k in enumerate(K, 1)}
    data = {"E": E, "K": K, "v": v, "m": m, "d": d, "pi": pi, "f": usual, "r": r, "w": w, "j": j}
    data["norm"] = max((r[e] * j[k] * w[e, k] * d[e] for e, k in cells), default=0) or 1.0
    if entities.held is not None:
        data["h"] = table(entities.held)
    if not jobs:
        return data
    jobs_of, now = {job.name: job for job in entities.source.jobs}, entities.source.time
    own = {e: {k: m[k] * pi[e] / sum(pi.values()) for k in K} for e in E}
    data |= {
        "F": {e: most(own[e], {k: v[e, k] / d[e] for k in K}, d[e]) for e in E},
        "W": {e: jobs_of[e].work for e in E},
        "W_left": each(entities.source.job_array("work_left")),
        "u": {e: max((v[e, k] for k in K if m[k]), default=0.0) for e in E},
        "g": {e: max(now - jobs_of[e].arrival, 0.0) for e in E},
    }
    for part in formulation:
        seconds = getattr(part, "round_seconds", ROUND)
        data |= {"t": now / seconds, "a": {e: jobs_of[e].arrival / seconds for e in E}}
        if isinstance(part, gavel.InOrder):
            left = {e: data["W_left"][e] / data["u"][e] if data["u"][e] else np.inf for e in E}
            by = {e: jobs_of[e].arrival for e in E} if part.order == "arrival" else left
            data["o"] = {e: place for place, e in enumerate(sorted(E, key=lambda e: by[e]))}
        if isinstance(part, gavel.SpaceSharing):
            kept = parts_by_hand(entities.source).items()
            parts = {(p[at], *p, k): own[at] for p, of in kept for k, own in of.items() for at in (0, 1)}
            data |= {"P": [pair for pair, _ in kept], "p": Elsewhere(parts)}
        if isinstance(part, fft.Compensation):
            data["rho"] = {e: part.rho.get(e, 0.0) for e in E}
        if isinstance(part, fft.Switching):
            last = lasts(entities, dict(part.last))
            servers = entities.source.cluster.servers
            data |= {
                "moves": {e: [k for k in K if v[e, k] > 0 and e in last and k != last[e]] for e in E},
                "b": {e: jobs_of[e].checkpoint_bytes for e in E},
                "B": {k: min((s.nic_bytes_per_s for s in servers if s.gpus.get(k)), default=np.inf) for k in K},
            }
        data |= numbers_of_shockwave(part, data)
    return data


def numbers_of_shockwave(part: Any, data: dict[str, Any]) -> dict[str, Any]:
    """The symbols of one of its components."""
    E, K = data["E"], data["K"]
    own = {e: shockwave.EpochEstimate(1 - data["W_left"][e] / data["W"][e], data["W"][e], data["W_left"][e]) for e in E}
    own |= getattr(part, "estimates", {})
    found: dict[str, Any] = {"fastest": {e: max(data["v"][e, k] for k in K) for e in E}}
    if isinstance(part, shockwave.LongestTimeLeft):
        found["left"] = {e: own[e].left for e in E}
        found["beyond"] = max((own[e].left - own[e].most) / v for e, v in found["fastest"].items() if v > 0)
    if isinstance(part, shockwave.LogProgress):
        points = [(base, float(np.log(max(base, part.least)))) for base in part.bases]
        slopes = [(high - low) / (c - b) for (b, low), (c, high) in pairwise(points)]
        found |= {
            "progress": {e: own[e].progress for e in E},
            "length": {e: own[e].length for e in E},
            "weight": data["pi"] | dict(part.weight),
            "slope": dict(enumerate(slopes, 1)),
            "start": {i: low - slope * b for i, ((b, low), slope) in enumerate(zip(points, slopes, strict=False), 1)},
            "lowest": points[0][1],
        }
    if isinstance(part, shockwave.TrainingTime):
        found |= {"late": list(part.seconds), "least": dict(part.seconds)}
    if isinstance(part, shockwave.OneTypePerRound):
        size = len(K) // part.rounds
        found["types"] = {r: K[(r - 1) * size : r * size] for r in range(1, part.rounds + 1)}
    if isinstance(part, shockwave.RoundsGiven):
        found["base"] = list(dict.fromkeys(k.partition("@")[0] for k in K))
        found["times"] = {t: [k for k in K if k.startswith(f"{t}@")] for t in found["base"]}
        found["rounds"] = {(e, t): part.rounds_of.get(e, {}).get(t, 0) for e in E for t in found["base"]}
    if isinstance(part, shockwave.EarlyRounds):
        found["weight"] = {e: part.weight.get(e, 1.0) for e in E}
        found["given"] = {e: part.rounds_of.get(e, 0) for e in E}
        found["number"] = {k: int(k.partition("@")[2]) - 1 for k in K}
    return found


def most(gpus: dict[str, float], value: dict[str, float], limit: float) -> float:
    """The rate of a gang with so many GPUs on average, at most ``limit`` at a time: the fastest first."""
    made = 0.0
    for k in sorted(gpus, key=lambda k: -value[k]):
        used = min(gpus[k], limit)
        made, limit = made + used * value[k], limit - used
    return made


def weighted(instance: hetopt.Instance, weights: list[float]) -> hetopt.Instance:
    """Jobs with these weights."""
    jobs = [replace(job, weight=pi) for job, pi in zip(instance.jobs, weights, strict=False)]
    return instance.replace(jobs=jobs)


@st.composite
def cases(draw: st.DrawFn, kind: Kind) -> hetopt.Instance:
    """With weights, speeds of zero, arrivals and held GPUs."""
    if kind == "tenants":
        instance = draw(tenant_instances(tenants=(1, 4), types=(1, 3), weighted=True, zeros=True))
    else:
        instance = draw(job_instances(jobs=(1, 4), zeros=True, arrivals=True, round_seconds=ROUND))
        instance = weighted(instance, draw(st.lists(ratios(1, 4), min_size=4, max_size=4)))
        instance = draw(packable(st.just(instance)))
    return draw(with_held(instance)) if draw(st.booleans()) else instance


def check_formulation(formulation: Formulation, kind: Kind, instance: hetopt.Instance, seed: int) -> None:
    """That its model is what it prints."""
    formulation = replace(formulation, kind=kind)
    model, mathematics = formulation.build(instance), formulation.mathematics()
    if model.component("switching_cost") is not None and not list(model.switching_cost.component_objects()):
        mathematics = formulation.without("switching_cost").mathematics()
    more = {"objective"} | ({"kept"} if len(model.gains) > 1 else set())
    check_stated(
        model, mathematics, numbers_of(formulation, model.entities), seed, besides=more, positive=True, as_printed=True
    )
    levels = sorted({gain.priority for gain in mathematics.gains}, reverse=True)
    sums = [
        sum(pyo.value(model.find_component(gain.name)) for gain in mathematics.gains if gain.priority == level)
        for level in levels
    ]
    assert pyo.value(model.objective) == pytest.approx(sums[levels.index(0)])
    assert levels == list(model.gains)
    for level, made in zip(levels, sums, strict=True):
        assert level == 0 or pyo.value(model.kept[level].body) == pytest.approx(made)
    for statement in mathematics.statements:
        assert statement.meaning
        if statement.name:
            component = model.find_component(statement.name)
            assert component.doc == statement.doc
            assert statement.meaning in component.doc
            assert not statement.unit or component.doc.endswith(f"({statement.unit})")


@pytest.mark.parametrize("name", [*BOTH, *TENANTS])
@given(cases("tenants"), SEEDS)
def test_programs_of_tenants_are_what_is_solved(name: str, instance: hetopt.Instance, seed: int) -> None:
    check_formulation((BOTH | TENANTS)[name], "tenants", instance, seed)


@pytest.mark.parametrize("name", [*BOTH, *JOBS])
@given(cases("jobs"), SEEDS)
def test_programs_of_jobs_are_what_is_solved(name: str, instance: hetopt.Instance, seed: int) -> None:
    check_formulation((BOTH | JOBS)[name], "jobs", instance, seed)


@given(cases("jobs"), SEEDS, st.booleans(), st.sampled_from([0.0, 7.5]))
def test_fft_s_round_is_what_is_solved(instance: hetopt.Instance, seed: int, normalise: bool, restart: float) -> None:
    names, types = [job.name for job in instance.jobs], instance.cluster.type_names
    instance = instance.replace(jobs=[replace(job, checkpoint_bytes=3e9) for job in instance.jobs])
    state = FFTState(instance.time, rho={names[0]: 0.25}, last={names[-1]: types[0]})
    policy = fft.FFT(round_seconds=ROUND, restart_seconds=restart, normalise=normalise)
    check_formulation(policy._round(state), "jobs", instance, seed)


@given(cases("jobs"), SEEDS)
def test_a_round_has_other_components_too(instance: hetopt.Instance, seed: int) -> None:
    policy = fft.FFT(round_seconds=ROUND, extra=(EnvyFree(), SwitchingCost(0.5)))
    check_formulation(policy._round(FFTState(instance.time)), "jobs", instance, seed)


@given(cases("jobs"), SEEDS, st.integers(1, 3), st.booleans())
@settings(max_examples=examples(30, 100))
def test_shockwave_s_window_is_what_is_solved(instance: hetopt.Instance, seed: int, rounds: int, several: bool) -> None:
    assume(instance.entities("jobs").allowed.any())
    made, spread = shockwave.Shockwave(ROUND, rounds).program(instance.replace(held={}), limits=False)
    first, base = spread.jobs[0].name, spread.cluster.type_names[0].partition("@")[0]
    own = shockwave.EpochEstimate(0.25, 90.0, 80.0)
    estimated = replace(made["longest_time_left"], estimates={first: own})  # type: ignore[type-var]
    parts = [shockwave.TrainingTime({first: 7.0}, ROUND), shockwave.RoundsGiven({first: {base: 1}}, rounds, several)]
    check_formulation(made.replaced(estimated) + parts[0] + parts[1], "jobs", spread, seed)
    early = shockwave.EarlyRounds({first: 2.5}, {first: 2}, rounds)
    check_formulation(Formulation((shockwave.OneTypePerRound(rounds), early)), "jobs", spread, seed)


# --- what is shown ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AtLeast:
    """A user's component: rows and a variable without docs, no mathematics."""

    name: str = "at_least"
    priority: int = 0

    def add(self, block: Any, model: hetopt.Model) -> Any:
        block.spare = pyo.Var()
        block.row = pyo.Constraint(expr=model.rate["u1"] >= block.spare)
        return block.spare


def shown(formulation: Formulation, capsys: pytest.CaptureFixture[str], **settings: Any) -> str:
    formulation.show(**settings)
    return capsys.readouterr().out


def test_cooperative_oef_reads_like_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(oef.cooperative(), capsys, width=120).split("\n") == [
        "OEF cooperative",
        "maximise",
        "  total_rate.gain [OEF, eq. (9a), (10a)]: total normalised throughput",
        "      Σ_{e,k} v[e,k]·x[e,k]",
        "subject to",
        "  capacity [OEF, eq. (9b), (10b)]: no more GPUs than there are (GPUs)",
        "      Σ_e x[e,k] ≤ m[k]    ∀ k ∈ K",
        "  envy_free.row [OEF, eq. (10c), right side misprinted]: no entity prefers the GPUs of another",
        "      π[o]·Σ_k v[e,k]·x[e,k] ≥ π[e]·Σ_k v[e,k]·x[o,k]    ∀ e, o ∈ E, e ≠ o",
        "with",
        "  share: x[e,k] ≥ 0    ∀ e ∈ E, k ∈ K, v[e,k] > 0, else 0",
        "where",
        "  rate[e] = Σ_k v[e,k]·x[e,k]    ∀ e ∈ E",
        "symbols",
        "  E        tenants, one for each job type",
        "  K        GPU types",
        "  v[e,k]   speedup: normalised throughput of tenant e on a GPU of type k (1/GPU)",
        "  x[e,k]   GPUs of type k for tenant e (GPUs)",
        "  m[k]     GPUs of type k (GPUs)",
        "  π[e]     weight of e",
        "  rate[e]  normalised throughput of e",
        "",
    ]


def test_the_objectives_of_a_round_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(fft.FFT(round_seconds=60)._round(FFTState(0.0)), capsys).split("\n")
    first, then = lines.index("first maximise"), lines.index("then, while that is kept, maximise")
    assert lines[first + 2 : then] == ["      Σ_{e,k} d[e]·x[e,k]"]
    assert "      −Σ_{e,k} ((t − a[e])·θ[e,k]/W[e])·x[e,k]" in lines[then:]
    assert "  share: x[e,k] ∈ {0, 1}    ∀ e ∈ E, k ∈ K, v[e,k] > 0, else 0" in lines
    assert fft.FFT().mathematics() == fft.FFT()._round(FFTState(0.0)).mathematics()
    assert "envy_free.row" in fft.FFT(extra=(EnvyFree(),)).mathematics().text()


def test_the_docs_of_a_round_s_model_say_what_is_kept() -> None:
    jobs = hetopt.Instance.from_jobs([[8, 1], [8, 1]], demand=[1, 1], work=[16, 16], capacity=[1, 1])
    model = fft.FFT().formulation(jobs).build(jobs)
    assert model.kept.doc == (
        "gains of other priorities are kept: work_conserving.gain ≥ its optimum: "
        "[FFT, eq. (7)] Σ_{e,k} d[e]·x[e,k]: GPUs in use; K* is the most that can be packed (GPUs)"
    )
    assert model.objective.doc == (
        "age_cost.gain + volume_cost.gain + switching.gain + compensation.gain: the sum of the gains, to be maximised"
    )
    assert model.age_cost.gain.doc == (
        "[FFT, eq. (3), first term] −Σ_{e,k} ((t − a[e])·θ[e,k]/W[e])·x[e,k]: "
        "age times the part of the job that this round does (rounds)"
    )
    assert model.share.doc == (
        "x[e,k] ∈ {0, 1}    ∀ e ∈ E, k ∈ K, v[e,k] > 0: "
        "part of the time that the gang of job e runs on type k; 0 or 1 in a round; 0 elsewhere"
    )


def test_the_kind_is_the_formulation_s_own_or_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(ceei.equal_budgets(), capsys).startswith("CEEI, for tenants\n")
    jobs = shown(ceei.equal_budgets(), capsys, kind="jobs")
    assert jobs.startswith("CEEI, for jobs\n")
    assert "time_fraction.row" in jobs
    assert "d[e]·x[e,k]" in jobs
    assert shown(gavel.makespan(), capsys) == shown(gavel.makespan(), capsys, kind="jobs")
    with pytest.raises(InvalidFormulation, match="OEF cooperative is for tenants, not jobs"):
        oef.cooperative().mathematics("jobs")
    with pytest.raises(hetopt.InvalidOption, match="kind is 'users'"):
        oef.cooperative().mathematics("users")  # type: ignore[arg-type]


def test_notebooks_get_the_program() -> None:
    made = oef.cooperative()
    assert made._repr_latex_() == made.mathematics()._repr_latex_()


@pytest.mark.parametrize("priority", [0, 1])
def test_a_component_without_mathematics_is_named_and_stays_as_it_is(priority: int) -> None:
    own = oef.cooperative() + AtLeast(priority=priority)
    assert own.mathematics().title == "OEF cooperative (changed); at_least states no mathematics"
    assert own.mathematics().rows == oef.cooperative().mathematics().rows
    instance = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    model = own.build(instance)
    assert model.at_least.row.doc is None
    assert model.total_rate.gain.doc.startswith("[OEF, eq. (9a), (10a)]")
    assert "at_least.gain" in (model.kept if priority else model.objective).doc


def test_two_meanings_of_a_symbol_are_refused_when_shown_and_can_be_solved() -> None:
    both = Formulation((fft.AgeCost(60.0), fft.VolumeCost(300.0), fft.OneType()))
    with pytest.raises(InvalidFormulation, match="one of them needs another name"):
        both.mathematics()
    jobs = hetopt.Instance.from_jobs([[8, 1], [8, 1]], demand=[1, 1], work=[16, 16], capacity=[1, 1])
    assert "300·v" not in both.build(jobs).age_cost.gain.doc
