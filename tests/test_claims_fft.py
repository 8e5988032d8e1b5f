"""FFT's claims: each verdict, what is computed for them against the library and by hand, and each counterexample."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from simulated import MINUTE, Shortest, fig_2

import hetopt
from hetopt import Overheads, instances, simulate
from hetopt.errors import NotSolved
from hetopt.models import fft, gavel
from hetopt.placement import HierarchicalPlacer
from hetopt.proofs.fft import (
    approximation,
    backlog,
    claims,
    coefficient,
    compensation,
    idle,
    largest_first,
    migration,
    owed,
    packing,
    placement,
    preferences,
    rates,
    runs,
    service,
    shares,
    starvation,
    table_1,
    units,
)
from hetopt.proofs.fft.rounds import WAITS, Gang, Round, rounds
from hetopt.proofs.ledger.claim import Effort
from hetopt.proofs.ledger.means import ForAll
from hetopt.proofs.ledger.space import Space, whole
from hetopt.proofs.ledger.stored import kept, stored_numbers
from hetopt.tolerances import EQUAL, PROVEN

F = Fraction
SECONDS = 300.0
FEW = settings(max_examples=30)
ALL = {claim.key: claim for claim in claims()}
OWING = rounds(n=(1, 4), ages=whole(0, 9), rho=whole(0, 6))


def cases(space: Space[Any]) -> st.SearchStrategy[Any]:
    return space.strategy().map(lambda pair: pair[1])


REFUTED = [(key, name) for key, claim in ALL.items() if isinstance(claim.means, ForAll) for name in kept(key)]


def case_of(key: str) -> Any:
    """The smallest counterexample that is stored."""
    means = ALL[key].means
    assert isinstance(means, ForAll)
    return means.space.build(stored_numbers(kept(key)[0]))


# -- verdicts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [claim.key for claim in ALL.values() if claim.mechanical])
def test_the_mechanical_parts_hold(key: str) -> None:
    assert all(part().holds for part in ALL[key].mechanical)


def test_what_is_false_and_general_has_its_counterexample_and_leads_somewhere() -> None:
    general = [c for c in ALL.values() if isinstance(c.means, ForAll) and c.expected == "false"]
    assert all(kept(c.key) for c in general)
    assert not any(c.proof for c in general)
    for claim in ALL.values():
        assert not claim.instead or ALL[claim.instead].expected == "true"
        assert claim.expected != "true" or isinstance(claim.means, ForAll) <= bool(claim.proof)


@pytest.mark.parametrize(("key", "name"), REFUTED)
def test_stored_counterexamples_are_what_their_files_say(key: str, name: str) -> None:
    said, case = instances.expected(name)["counterexample"], case_of(key)
    means = ALL[key].means
    assert isinstance(means, ForAll)
    finding = means.found(case)
    assert said.claim == key
    assert finding.refutes
    assert finding.slack == said.correct["slack"]
    assert finding.certificate
    assert finding.pictures or key == "fft/placement"
    assert means.quick(case) < 0
    if name != "refuted/fft-lower-bound":  # an older file
        assert instances.load(name).replace(name="", source="") == case.instance


@pytest.mark.parametrize("key", ["fft/eq-2", "fft/eq-3-srsf", "fft/eq-5-running", "fft/eq-6-faster", "fft/eq-7"])
def test_a_search_finds_counterexamples_from_the_claim_alone(key: str) -> None:
    means = ALL[key].means
    assert isinstance(means, ForAll)
    found = means.decide(replace(ALL[key], key="nothing is kept"), Effort(instances=1, seconds=20, mechanical=False))
    assert found.verdict == "false"


# -- a round ---------------------------------------------------------------------------------------------------------


@FEW
@given(cases(OWING))
def test_costs_are_those_of_the_library(case: Round) -> None:
    entities = case.instance.entities("jobs")
    owed_ = dict(zip((job.name for job in case.instance.jobs), map(float, case.rho), strict=True))
    for normalise in (True, False):
        parts = (fft.AgeCost(), fft.VolumeCost(), fft.Compensation(owed_, normalise=normalise))
        gain = sum(part.coefficients(entities) for part in parts)
        exact = replace(case, normalise=normalise)
        for j, gang in enumerate(case.gangs):
            for i in gang.usable(case.gpus):
                assert -gain[j, i] == pytest.approx(float(exact.cost(j, i)), rel=EQUAL, abs=EQUAL)


@FEW
@given(cases(OWING))
def test_plans_are_counted_through(case: Round) -> None:
    ways = product(range(-1, len(case.gpus)), repeat=len(case.gangs))
    every = {
        where
        for where in ways
        if all(i == WAITS or gang.speed[i] > 0 for gang, i in zip(case.gangs, where, strict=True))
        and all(
            sum(gang.demand for gang, i in zip(case.gangs, where, strict=True) if i == k) <= y
            for k, y in enumerate(case.gpus)
        )
    }
    assert set(case.packings) == every
    assert all(map(case.within, every))
    assert packing.largest_packing(case) == case.most == max(map(case.used, every))
    assert case.planned() in case.optima
    best = min(case.total(where) for where in every if case.used(where) == case.most)
    assert all(case.total(where) == best for where in case.optima)


def test_a_round_by_hand() -> None:
    gangs = (Gang(2, F(4), (F(1), F(2)), 1), Gang(1, F(3), (F(1), F(0))))
    case = Round(gangs, (2, 2), 4, (F(1), F(0)))
    assert case.cost(0, 0) == F(3, 4) + 8 - F(1, 4)
    assert replace(case, normalise=False).cost(0, 1) == F(3, 2) + 4 - 2
    assert case.most == 3
    assert case.optima == ((1, 0),)
    assert not case.within((0, 0))
    assert {(bar.lane, bar.job) for bar in case.picture("", (1, 0)).bars} == {
        ("GPU1, no. 1", "j2"),
        ("GPU2, no. 1", "j1"),
        ("GPU2, no. 2", "j1"),
    }


# -- equation (2), preferences ---------------------------------------------------------------------------------------


def test_equation_2_by_hand() -> None:
    case = approximation.Service(F(4), (F(0), F(3), F(3)))
    assert case.completion == 2
    assert case.done == (0, 3, 1)
    assert case.average(case.speeds) == F(9, 4) > case.completion
    assert case.average(case.done) == F(5, 4)
    assert approximation.truncated(case).slack == F(3, 4)
    assert approximation.nearness(case) == F(5, 8)
    late = approximation.Service(F(1), (F(0), F(3)))
    assert late.average(late.speeds) > late.completion + 1, "no bound with the finishing round counted either"


def test_the_age_term_is_the_librarys() -> None:
    case = case_of("fft/age-term")
    gain = fft.AgeCost().coefficients(case.instance.entities("jobs"))
    assert (-gain).ravel().tolist() == [0, 0.5], "the longer job costs more and goes last"


def planned(name: str, **settings: Any) -> dict[str, str | None]:
    return dict(fft.FFT(**settings)(instances.load(f"refuted/{name}"))[0].assigned)


def test_the_policy_prefers_what_the_counterexamples_say() -> None:
    assert planned("fft-longer-first") == {"j1": None, "j2": "GPU1"}
    assert planned("fft-idle-fast-gpu") == {"j1": "GPU1"}
    assert planned("fft-larger-gang") == {"j1": None, "j2": "GPU1"}
    assert planned("fft-remaining") == {"j1": None, "j2": "GPU1"}


@pytest.mark.parametrize("age", [1, 2])
def test_up_to_the_threshold_the_policy_prefers_the_shorter_job_and_the_faster_gpu(age: int) -> None:
    """Demand 1, 1 and 2 rounds: equal costs at age 2, where the earlier job goes first."""
    short = preferences.two_lengths(stored_numbers("refuted/fft-longer-first").replaced("age", 0, 0, F(age)))
    fast = preferences.two_types(stored_numbers("refuted/fft-idle-fast-gpu").replaced("age", 0, 0, F(age)))
    assert short is not None
    assert fast is not None
    assert preferences.shorter(short) == preferences.faster(fast) == (F(1, 2) if age == 1 else 0)
    assert (0, WAITS) in short.optima
    assert (1,) in fast.optima
    assert short.planned() == (0, WAITS)


@FEW
@given(cases(Space({}, preferences.EXACT, preferences.pairs, preferences._pairs)))
def test_the_condition_is_exact_for_the_librarys_costs(case: preferences.Pair) -> None:
    gang = Gang(int(case.demand), F(1), (1 / case.few, 1 / case.many))
    now = Round((gang,), (gang.demand, gang.demand), int(case.age), (case.rho,))
    assert (case.cost(case.few), case.cost(case.many)) == (now.cost(0, 0), now.cost(0, 1))
    assert preferences.exactly(case).slack == 0
    room = case.demand * case.few * case.many - (case.age - case.rho)
    assert (0,) in now.optima if room >= 0 else now.optima == ((1,),)


def test_a_half_done_job_is_stopped_in_a_run_from_the_start() -> None:
    case = case_of("fft/eq-3-srsf")
    log = simulate(fft.FFT(), Round(case.present.gangs, (1,)).instance)
    order = log.spans.sort_values("start")[["job", "start"]].to_numpy().tolist()
    assert order[:2] == [["j1", 0.0], ["j2", 300.0]]
    assert case.left == 1


def test_order_of_service_by_hand() -> None:
    """Services 2 * 3 and 1 * 4 at age 0."""
    case = Round((Gang(2, F(3), (F(1),)), Gang(1, F(4), (F(1),))), (2,))
    assert (case.cost(0, 0), case.cost(1, 0)) == (6, 4)
    assert service.by_service(case).slack == 0
    assert service.by_service(replace(case, gangs=(case.gangs[0], replace(case.gangs[1], arrival=-40)))).slack < 0
    assert service.nobody(case).slack == 4
    assert service.smaller_cost(replace(case, gangs=case.gangs[::-1])).slack == 2


# -- compensation ----------------------------------------------------------------------------------------------------


@FEW
@given(cases(compensation.PASTS))
def test_rho_is_the_librarys(case: compensation.Past) -> None:
    policy, state = fft.FFT(), None
    for t in range(len(case.served) + 1):
        held: dict[str, dict[str, int]] = {job.name: {} for job in case.instance.jobs}
        if t and case.served[t - 1] != WAITS:
            held["j1"] = {f"GPU{case.served[t - 1] + 1}": case.gang.demand}
        now = case.instance.replace(time=SECONDS * t, held=held if t else {})
        state = policy.advanced(now, state)
        assert state.rho["j1"] == pytest.approx(float(case.rho[t]), rel=EQUAL, abs=PROVEN)
        assert state.tau["j1"] / SECONDS == pytest.approx(float(case.fair), rel=EQUAL)


def test_compensation_by_hand() -> None:
    """A slow round after one of waiting: (0 + 1/1 * (1 - 1/2)); a fast one: 0."""
    slow, fast = (compensation.Past(Gang(1, F(4), (F(2), F(4))), (1, 1), 1, (WAITS, i)) for i in (0, 1))
    assert slow.rho == (0, 0, F(1, 2))
    assert fast.rho == (0, 0, 0)
    assert compensation.falls_while_running(slow).slack == -F(1, 2)
    assert compensation.falls_while_served(slow).slack == 1, "no round with the fair part"
    assert compensation.falls_while_served(fast).slack == 0
    starved = compensation.Past(Gang(1, F(4), (F(4),)), (1,), 2, (WAITS, WAITS, WAITS, 0))
    assert starved.rho == (0, 0, F(1, 4), F(3, 4), F(3, 4) + F(3, 2) * (F(1, 2) - 1))
    assert compensation.grows_while_starved(starved).slack == F(1, 4)
    assert compensation.never_negative(starved).slack == 0
    assert compensation.falls_while_served(starved).slack == F(3, 4)


@FEW
@given(cases(coefficient.ARRIVALS))
def test_mu_is_the_librarys(case: coefficient.Arrivals) -> None:
    for t in range(case.rounds):
        state = fft.FFT().advanced(case.instance.at(SECONDS * t), None)
        assert SECONDS * t / state.tau["j1"] == pytest.approx(float(case.mu(t)), rel=EQUAL)


def test_mu_by_hand() -> None:
    """Mu of a job of 4 rounds is 1/4 and 1/2 alone, and 3/8 when there are two."""
    case = coefficient.Arrivals(4, 1, (0, 3))
    assert [case.mu(t) for t in range(4)] == [0, F(1, 4), F(1, 2), F(3, 8)]
    assert coefficient.mu_grows(case).slack == -F(1, 8)
    assert coefficient.mu_grows(case, undisturbed=True).slack == F(1, 4)


@FEW
@given(cases(rounds(n=(1, 4))))
def test_the_level_of_fair_progress_is_scipys(case: Round) -> None:
    n, k = len(case.gangs), len(case.gpus)
    fair = [float(shares.on_fastest(case, gang)) for gang in case.gangs]
    assert fair == pytest.approx([v / SECONDS for v in fft.FFT()(case.instance)[1].tau.values()], rel=EQUAL)
    speed = np.array([[float(v) if i in g.usable(case.gpus) else 0 for i, v in enumerate(g.speed)] for g in case.gangs])
    rate = speed / np.array([[float(gang.work)] for gang in case.gangs])
    demand = np.array([gang.demand for gang in case.gangs])
    rows = [np.append(np.kron(np.eye(n)[j], np.ones(k)), 0) for j in range(n)]
    rows += [np.append(np.kron(demand, np.eye(k)[i]), 0) for i in range(k)]
    rows += [np.append(np.kron(np.eye(n)[j], -rate[j]), 1 / fair[j]) for j in range(n)]
    found = linprog([0] * (n * k) + [-1], np.array(rows), [1] * n + list(case.gpus) + [0] * n)
    assert shares.library(case).slack + 1 == pytest.approx(F(-found.fun).limit_denominator(10**6), rel=EQUAL)


def test_fair_shares_by_hand() -> None:
    """Table 1: half of each type, without preemption, is half of the time on GPU0."""
    case = Round((Gang(1, F(16), (F(8), F(1))),) * 2, (1, 1))
    assert [shares.on_own_part(case, gang) for gang in case.gangs] == [4, 4]
    assert [shares.on_fastest(case, gang) for gang in case.gangs] == [2, 2]
    assert shares.library(case).slack == F(9, 16) - 1
    assert shares.paper(case).slack == F(9, 8) - 1


@FEW
@given(cases(owed._space(True)))
def test_above_the_threshold_and_not_below_it_the_policy_runs_the_job(case: Round) -> None:
    least = owed.threshold(case)
    assert owed.owing(case, least + F(1, 100)).planned()[0] != WAITS
    if least:
        assert owed.owing(case, least * F(99, 100)).planned()[0] == WAITS


def test_a_job_that_no_fullest_plan_has_waits_at_any_rho() -> None:
    instance = instances.load("refuted/fft-never-packed")
    state = replace(fft.FFT().advanced(instance, None), rho={"j1": 1e12, "j2": 0.0})
    assert fft.FFT()(instance, state)[0].assigned == {"j1": None, "j2": "GPU1"}


def test_chances_by_hand() -> None:
    """Costs 1 and 2: the longer job runs once its rho / 2 exceeds 1; then its pace grows from 0 to 1/2."""
    case = Round((Gang(1, F(2), (F(1),)), Gang(1, F(1), (F(1),))), (1,), rho=(F(1), F(0)))
    assert owed.threshold(case) == 2
    assert owed.grows(case).slack == 0
    assert owed.grows(replace(case, rho=(F(3, 2), F(0)))).slack == 0
    assert [owed.pace(case, where) for where in owed.owing(case, F(5)).optima] == [F(1, 2)]


# -- runs, units -----------------------------------------------------------------------------------------------------


@FEW
@given(cases(units.UNITS), st.booleans())
def test_runs_are_the_librarys_as_long_as_optima_are_unique(case: units.Jobs, normalise: bool) -> None:
    steps = list(runs.played(case.gangs, (1,), normalise=normalise))
    first = next((t for t, step in enumerate(steps) if len(step.round.optima) > 1), len(steps))
    own = runs.decided(case.gangs, (1,), first, normalise=normalise)
    assert own == [step.executed for step in steps[:first]]
    assert runs.unique_so_far(steps) == (first == len(steps))


def test_the_unit_changes_who_runs() -> None:
    case = case_of("fft/units")
    second = []
    for gangs in (case.gangs, case.anew()):
        instance = Round(gangs, (1,)).instance
        for normalise in (False, True):
            log = simulate(fft.FFT(normalise=normalise), instance)
            now = log.spans[(log.spans["start"] <= 600) & (log.spans["end"] > 600)]
            second.append(now["job"].item())
    assert second == ["j2", "j2", "j1", "j2"]
    assert units.independent(case, normalise=True).slack == 0


def test_a_run_leaves_the_fast_gpu_idle() -> None:
    log = simulate(fft.FFT(), instances.load("refuted/fft-slow-at-last"))
    now = log.spans[(log.spans["start"] <= 900) & (log.spans["end"] > 900)]
    assert now[["job", "gpu_type"]].to_numpy().tolist() == [["j2", "GPU1"]]
    case = case_of("fft/eq-6-faster")
    last = idle.until_idle(case)[-1].round
    assert (last.cost(0, 0), last.cost(0, 1), last.rho) == (F(27, 8), F(163, 48), (F(1, 4),))
    assert idle.margin(case) == F(27, 8) - F(163, 48)


# -- packing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AtLeast:
    """The constraint (7) as printed."""

    gpus: int
    name: str = "at_least"

    def add(self, block: Any, model: hetopt.Model) -> float:
        block.row = pyo.Constraint(expr=model.weighted_shares(model.entities.demand[:, None]) >= self.gpus)
        return 0


def test_the_printed_k_is_infeasible_for_the_solver() -> None:
    case = case_of("fft/eq-7")
    assert packing.wanted(case) == 3
    with pytest.raises(NotSolved, match="infeasible"):
        hetopt.solve(fft.FFT().formulation(case.instance) + AtLeast(3), case.instance)
    assert packing.reaches_printed(Round(case.gangs[:1], (3,))).slack == 0
    table_2 = Round(tuple(Gang(d, F(1), (F(1),)) for d in (8, 3, 3)), (12,))
    assert packing.reaches_printed(table_2).slack == -1


@pytest.mark.parametrize(
    ("key", "where"), [("fft/largest-first", (0, WAITS, WAITS)), ("fft/largest-first-memory", (0, WAITS))]
)
def test_the_largest_first_is_no_match_for_the_policy(key: str, where: tuple[int, ...]) -> None:
    case = case_of(key)
    assert largest_first.largest_first(case) == where
    assert case.used(case.planned()) > case.used(where)


def test_checks_of_plans_see_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans that the policy would not make: two types for a job, too many GPUs, somebody left out."""
    case = Round((Gang(1, F(1), (F(1), F(1))),) * 2, (1, 1))
    for x, slack in (([[1, 0], [0, 1]], 0), ([[1, 1], [0, 0]], -1), ([[1, 0], [1, 0]], -1), ([[0, 0.5], [0, 0]], -1)):
        wrong = replace(case.plan(), x=np.array(x, dtype=float))
        with monkeypatch.context() as patch:
            patch.setattr(Round, "plan", Mock(return_value=wrong))
            assert packing.keeps_rows(case).slack == slack
    unable = Round((Gang(1, F(1), (F(1), F(0))),), (1, 1))
    with monkeypatch.context() as patch:
        patch.setattr(Round, "plan", Mock(return_value=replace(unable.plan(), x=np.array([[0.0, 1.0]]))))
        assert packing.keeps_rows(unable).slack == -1
    monkeypatch.setattr(Round, "planned", Mock(return_value=(0, WAITS)))
    assert packing.leaves_nobody(case).slack == -1
    assert packing.reaches_most(case).slack == -1


def test_parting_numbers_by_hand() -> None:
    for numbers, same in (((3, 1, 2), True), ((3, 3, 2), False), ((2, 2, 1, 1), True)):
        case = Round(tuple(Gang(v, F(1), (F(1),)) for v in numbers), (sum(numbers) // 2,))
        assert (packing.largest_packing(case) == sum(numbers) // 2) == same
        assert largest_first.halves(case).slack == 0


def test_jobs_that_stay_stay_and_the_gang_is_spread() -> None:
    """The library's placer keeps j1 and so splits j2; on empty servers it would not."""
    instance = instances.load("refuted/fft-placement")
    plan = hetopt.Plan(instance.entities("jobs"), np.array([[1.0], [2.0]]))
    hosts = HierarchicalPlacer()(plan, instance).hosts
    assert hosts == {"j1": {"server1": {"GPU1": 1}}, "j2": {"server1": {"GPU1": 1}, "server2": {"GPU1": 1}}}
    anew = HierarchicalPlacer(sticky=False)(plan, instance.replace(placed={}, held={})).hosts
    assert anew["j2"] == {"server1": {"GPU1": 2}}
    full = placement.Servers((2, 2), (2,), (0,), 2)
    assert placement.packed_in_place(full).slack == 0
    assert not placement.Servers((2, 1, 1), (1, 1), (0, 1), 3).packable
    assert not placement.Servers((2, 1), (1, 1), (0, 1), 2).packable, "both jobs do not fit on the second server"
    assert placement.packed_in_place(placement.Servers((1, 1, 1), (1,), (0,), 2)).slack == 0, "nowhere on one server"


# -- Theorems 4.1 and 4.2 --------------------------------------------------------------------------------------------


def alone(s: int, *, normalise: bool) -> dict[int, list[int]]:
    """The family on one GPU, the policy written out once more in fractions: job -> its rounds."""
    size = s * s
    work = [1] * (2 * size) + [size] * s
    done, rho, found = [0] * len(work), [F(0)] * len(work), {j: list[int]() for j in range(len(work))}
    for t in range(sum(work)):
        there = [j for j in range(len(work)) if done[j] < work[j]]

        def cost(j: int, t: int = t) -> Fraction:
            return F(t, work[j]) + work[j] - rho[j] * (F(1, work[j]) if normalise else 1)

        best = min(there, key=cost)
        assert {work[j] for j in there if cost(j) == cost(best)} == {work[best]}, "short and long never tie"
        for j in there:
            fair = F(1, len(there) * work[j]) * (1 if normalise else work[j])
            did = (F(1, work[j]) if normalise else F(1)) if j == best else F(0)
            rho[j] = max(F(0), rho[j] + F(t, len(there) * work[j]) * (fair - did))
        found[best].append(t)
        done[best] += 1
    return found


@pytest.mark.parametrize("s", [2, 3])
def test_the_family_of_theorem_4_1_is_served_as_the_proof_says(s: int) -> None:
    size = s * s
    own = backlog.served(s)
    assert sum(map(len, own.values())) == 2 * size + s * size
    for found in (list(own.values()), *(list(alone(s, normalise=n).values()) for n in (True, False))):
        short = sorted(t for runs_ in found[: 2 * size] for t in runs_)
        assert short == [*range(size + 1), *range(size + s * size + 1, 2 * size + s * size)]
        total = sum((F(sum(runs_), len(runs_)) for runs_ in found), F(0))
        assert total == backlog.fractional(s)
        assert sum(runs_[-1] >= 2 * size for runs_ in found[: 2 * size]) == size - 1


def test_the_formula_of_theorem_4_1_is_the_sum_and_grows() -> None:
    for s in range(2, 9):
        size, block = s * s, s**3
        total = F(sum(range(size + 1))) + F(sum(range(size + 1, size + block + 1)), size)
        total += sum(range(size + block + 1, 2 * size + block))
        best = np.cumsum([1] * (2 * size) + [size] * s).sum()
        assert backlog.fractional_formula(s) == total / int(best)
        assert backlog.shortest_first(s) == best
    values = [backlog.fractional_formula(s) / s for s in (10, 100, 1000)]
    assert F(2, 5) < values[2] < values[1] < values[0]


@pytest.mark.parametrize("n", [3, 6])
def test_waits_without_bound(n: int) -> None:
    instance = hetopt.Instance.from_jobs([[1]] * n, 1, 1, [1])
    assert sorted(starvation.waits(instance).values()) == list(range(n))
    assert starvation.stream(n) == n


@FEW
@given(cases(starvation.PACKED))
def test_schedules_are_packed_so_that_nobody_fits_and_fft_keeps_the_bound_too(case: starvation.Packed) -> None:
    left = [gang.work for gang in case.gangs]
    for t, where in enumerate(case.runs):
        there = [j for j, gang in enumerate(case.gangs) if gang.arrival <= t and left[j] > 0]
        now = Round(tuple(case.gangs[j] for j in there), case.gpus)
        plan = tuple(where.get(j, WAITS) for j in there)
        assert set(where) <= set(there)
        assert plan in now.packings
        fuller = [w for w in now.packings if all(a in (b, WAITS) for a, b in zip(plan, w, strict=True))]
        assert fuller == [plan]
        for j, i in where.items():
            left[j] -= case.gangs[j].speed[i]
    assert max(left) <= 0
    own = starvation.waits(case.instance)
    for j, gang in enumerate(case.gangs):
        busy = sum(max(0, case.gpus[i] - gang.demand + 1) for i, v in enumerate(gang.speed) if v > 0)
        others = sum(
            other.demand
            * max(-int(-other.work // v) for v, y in zip(other.speed, case.gpus, strict=True) if fits(v, y, other))
            for o, other in enumerate(case.gangs)
            if o != j and other.arrival < gang.arrival + own[f"j{j + 1}"]
        )
        assert own[f"j{j + 1}"] * busy <= others
        first = next(t for t, where in enumerate(case.runs) if j in where)
        assert case.sides(j)[0] == (first - gang.arrival) * busy


def fits(speed: Fraction, gpus: int, gang: Gang) -> bool:
    return speed > 0 and gpus >= gang.demand


def test_the_bound_of_theorem_4_2_by_hand() -> None:
    """A gang of 2 on three GPUs waits for one of 2 with 3 rounds: 2 GPUs busy for 3 rounds against 6."""
    case = starvation.Packed((Gang(2, F(5), (F(2),)), Gang(2, F(1), (F(1),))), (3,), ((1,), (0,)))
    assert case.runs == ({0: 0}, {0: 0}, {0: 0}, {1: 0})
    assert case.sides(1) == (6, 6)
    assert starvation.tight(case) == 1
    assert starvation.bounded(case).slack == 0
    one = tuple(Gang(1, F(work), (F(1),), arrival) for work, arrival in ((2, 0), (1, 0), (1, 1), (1, 4)))
    later = starvation.Packed(one, (1,), ((3,), (1,), (2,), (0,)))
    assert later.runs == ({0: 0}, {0: 0}, {2: 0}, {1: 0}, {3: 0})
    assert later.sides(1) == (3, 3), "who comes while it waits counts, who comes later does not"
    slow = starvation.Packed((Gang(1, F(4), (F(1), F(2))), Gang(1, F(1), (F(1), F(1)), 1)), (1, 1), ((0,), (0,)))
    assert slow.sides(1) == (0, 4), "on the slowest type"


# -- sections 2.2 and 2.3 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "policy"),
    [
        (migration.shortest_total, Shortest(by_left=False)),
        (migration.shortest_remaining, Shortest(by_left=True)),
        (migration.staying, Shortest(stay=True)),
    ],
)
def test_fig_2_is_the_simulators(rule: Callable[..., Any], policy: Shortest) -> None:
    jobs = migration.figure()
    for job in jobs[:2]:
        job.alone["T4"] = F("2.71") * 5  # as in the tests of the simulator
    own = migration.run(jobs, rule)
    log = simulate(policy, fig_2(), overheads=Overheads(restart_seconds=2 * MINUTE))
    assert own.jct["J4"] * 60 == pytest.approx(F(log.jobs.loc["J4", "jct"]).limit_denominator(10**6), rel=EQUAL)
    moves = [bar for bar in own.bars if bar.job == "J4 moves"]
    assert len({bar.end for bar in moves}) >= log.jobs.loc["J4", "switches"] >= own.lost["J4"] / 2
    ran = sum(bar.end - bar.start for bar in own.bars if bar.job == "J1")
    assert ran == 5


def test_what_moves_take_by_hand() -> None:
    assert migration.run(migration.figure(), migration.shortest_total).jct == {"J1": 5, "J2": 5, "J4": 18}
    assert [migration.stream(c).lost["J4"] for c in (1, 2, 3)] == [2, 6, 10]
    assert migration.states().rows[0].computed == "536/5"
    assert F(instances.load("fft/fig2").job["J4"].checkpoint_bytes) == F(536, 5) * 10**9


def test_table_1_by_gavel_itself() -> None:
    table = rates.table_1()
    for policy in (gavel.mean_completion_time(), gavel.makespan()):
        found = hetopt.solve(policy, table)
        assert found.x == pytest.approx(np.full((2, 2), 0.5), rel=EQUAL)
    assert rates.Fractions(rates.HALVES).total == rates.LEAST
    other = rates.Fractions(((F(9, 16), F(0)), (F(7, 16), F(1))))
    assert other.total == rates.LEAST
    assert rates.least_total(other).slack == 0, "without the rows on time there are more optima"
    assert rates.Rates((F(1), F(2)), (F(1), F(1))).total == 5
    assert rates.Rates((F(1), F(2)), (F(1), F(1))).bound == F(9, 2)


def test_schedules_of_table_1_by_hand() -> None:
    assert table_1.Schedule((), ()).completion == (2, F(15, 4))
    one = table_1.Schedule((F(1), F(3)), ((0, 1), (2, 1)))
    assert one.completion == (4 + F(12, 8), 3)
    assert table_1.Schedule((F(3),), ((2, 0),)).completion == (5, 2)
    assert table_1.no_better(one).slack == one.total - F(23, 4)


def test_more_jobs_than_two_in_the_simulator() -> None:
    """Eight like jobs in rounds of a minute under the shortest first, and all at equal rates."""
    many = hetopt.Instance.from_jobs([[8, 1]] * 8, 1, 16, [1, 1], round_seconds=MINUTE)
    log = simulate(Shortest(), many)
    assert sum(table_1.shortest_first(8)) * 60 == pytest.approx(
        F(log.jobs["jct"].sum()).limit_denominator(10**6), rel=EQUAL
    )
    fluid = simulate(gavel.mean_completion_time(), many, fluid=True)
    assert fluid.jobs["jct"].sum() == pytest.approx(float(table_1.even_rates(8)) * 60, rel=EQUAL)
    assert 2 - table_1.gap(1024) < F(1, 400)
    assert all(table_1.gap(n) <= F(2 * n, n + 1) for n in (2, 5, 9))


def test_random_schedules_end_when_their_work_is_done() -> None:
    rng = random.Random(4)
    for _ in range(200):
        phases = rng.randrange(5)
        on = tuple(rng.choice(((0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1), (0, 0))) for _ in range(phases))
        case = table_1.Schedule(tuple(F(rng.randrange(13), 4) for _ in on), on)
        left = [F(16), F(16)]
        for length, pair in zip(case.minutes, case.on, strict=True):
            for who, speed in zip(pair, (8, 1), strict=True):
                if who:
                    left[who - 1] = max(F(0), left[who - 1] - speed * length)
        short, long = sorted(left)
        rest = short / 8 + (long - short / 8) / 8  # the shorter one on GPU0, the other beside it and then there
        if long:
            assert max(case.completion) == sum(case.minutes) + rest
        else:
            assert max(case.completion) <= sum(case.minutes)
        assert case.total >= F(23, 4)
