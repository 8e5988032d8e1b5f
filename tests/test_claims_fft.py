"""FFT's claims: each verdict, what is computed for them against the library and by hand, and each counterexample."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_cases import cases, stored_case
from simulated import MINUTE, Shortest, fig_2

import hetopt
from hetopt import Overheads, instances, simulate
from hetopt.decisions.placers import HierarchicalPlacer
from hetopt.errors import NotSolved
from hetopt.models import fft, gavel
from hetopt.proofs.fft import (
    backlog,
    claims,
    constant_rates,
    gang_packing,
    idle_fast_gpu,
    migration,
    placement_stability,
    round_sequences,
    starvation,
    table_1_schedules,
    work_units,
)
from hetopt.proofs.fft.round_cases import WAITS, RoundCase, RoundJob, round_space
from hetopt.proofs.ledger.claim import ClaimVerdict, Effort
from hetopt.proofs.ledger.discovery import all_claims
from hetopt.proofs.ledger.procedures import ForAll, Growth
from hetopt.proofs.ledger.space import integers
from hetopt.tolerances import EQUAL

F = Fraction
SECONDS = 300.0
FEW = settings(max_examples=30)
ALL = {claim.key: claim for claim in claims()}
OWING = round_space(n=(1, 4), ages=integers(0, 9), rho=integers(0, 6))


@pytest.mark.usefixtures("counted_time")
@pytest.mark.parametrize("key", ["fft/eq-2", "fft/eq-3-srsf", "fft/eq-5-running", "fft/eq-6-faster", "fft/eq-7"])
def test_a_search_finds_counterexamples_from_the_claim_alone(key: str) -> None:
    means = ALL[key].procedure
    assert isinstance(means, ForAll)
    found = means.decide(replace(ALL[key], key="nothing is kept"), Effort(instances=1, seconds=20, mechanical=False))
    assert found.verdict is ClaimVerdict.FALSE


# -- runs, units -----------------------------------------------------------------------------------------------------


@FEW
@given(cases(work_units.UNITS), st.booleans())
def test_runs_are_the_librarys_as_long_as_optima_are_unique(case: work_units.WorkUnitCase, normalise: bool) -> None:
    run = RoundCase(case.gangs, (1,), normalise=normalise)
    steps = list(round_sequences.play_rounds(run))
    first = next((t for t, step in enumerate(steps) if len(step.round.optima) > 1), len(steps))
    own = round_sequences.library_decisions(run, first)
    assert own == [step.executed for step in steps[:first]]
    assert round_sequences.unique_so_far(steps) == (first == len(steps))


def test_the_unit_changes_the_running_job() -> None:
    case = stored_case("fft/units")
    second = []
    for gangs in (case.gangs, case.in_new_units()):
        instance = RoundCase(gangs, (1,)).instance
        for normalise in (False, True):
            log = simulate(fft.FFT(normalise=normalise), instance)
            now = log.spans[(log.spans["start"] <= 600) & (log.spans["end"] > 600)]
            second.append(now["job"].item())
    assert second == ["j2", "j2", "j1", "j2"]
    assert work_units.independent(case, normalise=True).slack == 0


def test_a_run_leaves_the_fast_gpu_idle() -> None:
    log = simulate(fft.FFT(), instances.load("refuted/fft-slow-at-last"))
    now = log.spans[(log.spans["start"] <= 900) & (log.spans["end"] > 900)]
    assert now[["job", "gpu_type"]].to_numpy().tolist() == [["j2", "GPU1"]]
    case = stored_case("fft/eq-6-faster")
    last = idle_fast_gpu.until_idle(case)[-1].round
    assert (last.cost(0, 0), last.cost(0, 1), last.rho) == (F(27, 8), F(163, 48), (F(1, 4),))
    assert idle_fast_gpu.margin(case) == F(27, 8) - F(163, 48)


# -- packing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AtLeast:
    """The constraint (7) as printed."""

    gpus: int
    name: str = "at_least"

    def add(self, block: Any, model: hetopt.Model) -> float:
        block.row = pyo.Constraint(expr=model.weighted_shares(model.entities.demand[:, None]) >= self.gpus)
        return 0


def test_that_the_printed_k_is_infeasible_is_proven(tmp_path: Path) -> None:
    case = stored_case("fft/eq-7")
    assert gang_packing.printed_most(case) == 3
    printed = fft.FFT().formulation(case.instance) + AtLeast(3)
    with pytest.raises(NotSolved, match="infeasible") as error:
        hetopt.solve(printed, case.instance, exact=True)
    assert error.value.proof is not None
    error.value.proof.write(tmp_path / "k.vipr")
    assert hetopt.check(tmp_path / "k.vipr", printed, case.instance).verified.infeasible
    assert gang_packing.reaches_printed(RoundCase(case.gangs[:1], (3,))).slack == 0
    table_2 = RoundCase(tuple(RoundJob(d, F(1), (F(1),)) for d in (8, 3, 3)), (12,))
    assert gang_packing.reaches_printed(table_2).slack == -1


@pytest.mark.parametrize(
    ("key", "where"), [("fft/largest-first", (0, WAITS, WAITS)), ("fft/largest-first-memory", (0, WAITS))]
)
def test_the_largest_first_is_no_match_for_the_policy(key: str, where: tuple[int, ...]) -> None:
    case = stored_case(key)
    assert gang_packing.largest_first(case) == where
    assert case.used(case.planned()) > case.used(where)


def test_checks_of_plans_see_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans that the policy would not make: two types for a job, too many GPUs, a job left out."""
    case = RoundCase((RoundJob(1, F(1), (F(1), F(1))),) * 2, (1, 1))
    for x, slack in (([[1, 0], [0, 1]], 0), ([[1, 1], [0, 0]], -1), ([[1, 0], [1, 0]], -1), ([[0, 0.5], [0, 0]], -1)):
        wrong = replace(case.plan(), x=np.array(x, dtype=float))
        with monkeypatch.context() as patch:
            patch.setattr(RoundCase, "plan", Mock(return_value=wrong))
            assert gang_packing.keeps_rows(case).slack == slack
    unable = RoundCase((RoundJob(1, F(1), (F(1), F(0))),), (1, 1))
    with monkeypatch.context() as patch:
        patch.setattr(RoundCase, "plan", Mock(return_value=replace(unable.plan(), x=np.array([[0.0, 1.0]]))))
        assert gang_packing.keeps_rows(unable).slack == -1
    monkeypatch.setattr(RoundCase, "planned", Mock(return_value=(0, WAITS)))
    assert gang_packing.leaves_no_fitting_job(case).slack == -1
    assert gang_packing.reaches_most(case).slack == -1


def test_parting_numbers_by_hand() -> None:
    for numbers, same in (((3, 1, 2), True), ((3, 3, 2), False), ((2, 2, 1, 1), True)):
        case = RoundCase(tuple(RoundJob(v, F(1), (F(1),)) for v in numbers), (sum(numbers) // 2,))
        assert (gang_packing.largest_packing(case) == sum(numbers) // 2) == same
        assert gang_packing.halves(case).slack == 0


def test_jobs_that_stay_stay_and_the_gang_is_spread() -> None:
    """The library's placer keeps j1 and so splits j2; on empty servers it would not."""
    instance = instances.load("refuted/fft-placement")
    plan = hetopt.Plan(instance.entities("jobs"), np.array([[1.0], [2.0]]))
    hosts = HierarchicalPlacer()(plan, instance).hosts
    assert hosts == {"j1": {"server1": {"GPU1": 1}}, "j2": {"server1": {"GPU1": 1}, "server2": {"GPU1": 1}}}
    again = HierarchicalPlacer(sticky=False)(plan, instance.replace(placed={}, held={})).hosts
    assert again["j2"] == {"server1": {"GPU1": 2}}
    full = placement_stability.StayingCase((2, 2), (2,), (0,), 2)
    assert placement_stability.packed_in_place(full).slack == 0
    assert placement_stability.StayingCase((2, 1, 1), (1, 1), (0, 1), 3).packed is None
    assert placement_stability.StayingCase((2, 1), (1, 1), (0, 1), 2).packed is None, (
        "both jobs do not fit on the second server"
    )
    assert placement_stability.packed_in_place(placement_stability.StayingCase((1, 1, 1), (1,), (0,), 2)).slack == 0, (
        "nowhere on one server"
    )


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


def test_the_formula_of_theorem_4_1_is_the_sum() -> None:
    growth = all_claims()["fft/thm-4.1-fractional"].procedure
    assert isinstance(growth, Growth)
    for s in range(2, 9):
        size, block = s * s, s**3
        total = F(sum(range(size + 1))) + F(sum(range(size + 1, size + block + 1)), size)
        total += sum(range(size + block + 1, 2 * size + block))
        best = np.cumsum([1] * (2 * size) + [size] * s).sum()
        assert growth.value(s, growth.formula) == total / int(best)
        assert backlog.shortest_first(s) == best


@pytest.mark.parametrize("n", [3, 6])
def test_waits_without_bound(n: int) -> None:
    instance = hetopt.Instance.from_jobs([[1]] * n, 1, 1, [1])
    assert sorted(starvation.waits(instance).values()) == list(range(n))
    assert starvation.stream(n) == n


@FEW
@given(cases(starvation.PACKED))
def test_packed_schedules_leave_no_fitting_job_and_fft_meets_the_bound(case: starvation.PackedCase) -> None:
    left = [gang.work for gang in case.gangs]
    for t, where in enumerate(case.runs):
        there = [j for j, gang in enumerate(case.gangs) if gang.arrival <= t and left[j] > 0]
        now = RoundCase(tuple(case.gangs[j] for j in there), case.gpus)
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


def fits(speed: Fraction, gpus: int, gang: RoundJob) -> bool:
    return speed > 0 and gpus >= gang.demand


def test_the_bound_of_theorem_4_2_by_hand() -> None:
    """A gang of 2 on three GPUs waits for one of 2 with 3 rounds: 2 GPUs busy for 3 rounds against 6."""
    case = starvation.PackedCase((RoundJob(2, F(5), (F(2),)), RoundJob(2, F(1), (F(1),))), (3,), ((1,), (0,)))
    assert case.runs == ({0: 0}, {0: 0}, {0: 0}, {1: 0})
    assert case.sides(1) == (6, 6)
    assert starvation.tight(case) == 1
    assert starvation.bounded(case).slack == 0
    one = tuple(RoundJob(1, F(work), (F(1),), arrival) for work, arrival in ((2, 0), (1, 0), (1, 1), (1, 4)))
    later = starvation.PackedCase(one, (1,), ((3,), (1,), (2,), (0,)))
    assert later.runs == ({0: 0}, {0: 0}, {2: 0}, {1: 0}, {3: 0})
    assert later.sides(1) == (3, 3), "who comes while it waits counts, who comes later does not"
    slow = starvation.PackedCase(
        (RoundJob(1, F(4), (F(1), F(2))), RoundJob(1, F(1), (F(1), F(1)), 1)), (1, 1), ((0,), (0,))
    )
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
    own = migration.simulate_moves(jobs, rule)
    log = simulate(policy, fig_2(), overheads=Overheads(restart_seconds=2 * MINUTE))
    assert own.jct["J4"] * 60 == pytest.approx(F(log.jobs.loc["J4", "jct"]).limit_denominator(10**6), rel=EQUAL)
    moves = [bar for bar in own.bars if bar.job == "J4 moves"]
    assert len({bar.end for bar in moves}) >= log.jobs.loc["J4", "switches"] >= own.lost["J4"] / 2
    ran = sum(bar.end - bar.start for bar in own.bars if bar.job == "J1")
    assert ran == 5


def test_what_moves_take_by_hand() -> None:
    assert migration.simulate_moves(migration.figure(), migration.shortest_total).jct == {"J1": 5, "J2": 5, "J4": 18}
    assert [migration.stream(c).lost["J4"] for c in (1, 2, 3)] == [2, 6, 10]
    assert migration.states().rows[0].computed == "536/5"
    assert F(instances.load("fft/fig2").job["J4"].checkpoint_bytes) == F(536, 5) * 10**9


def test_table_1_by_gavel_itself() -> None:
    table = constant_rates.table_1()
    for policy in (gavel.mean_completion_time(), gavel.makespan()):
        found = hetopt.solve(policy, table)
        assert found.x == pytest.approx(np.full((2, 2), 0.5), rel=EQUAL)
    assert constant_rates.TimeFractions(constant_rates.HALVES).total == constant_rates.LEAST
    other = constant_rates.TimeFractions(((F(9, 16), F(0)), (F(7, 16), F(1))))
    assert other.total == constant_rates.LEAST
    assert constant_rates.least_total(other).slack == 0, "without the rows on time there are more optima"
    assert constant_rates.ConstantRates((F(1), F(2)), (F(1), F(1))).total == 5
    assert constant_rates.ConstantRates((F(1), F(2)), (F(1), F(1))).bound == F(9, 2)


def test_schedules_of_table_1_by_hand() -> None:
    assert table_1_schedules.TwoJobSchedule((), ()).completion == (2, F(15, 4))
    one = table_1_schedules.TwoJobSchedule((F(1), F(3)), ((0, 1), (2, 1)))
    assert one.completion == (4 + F(12, 8), 3)
    assert table_1_schedules.TwoJobSchedule((F(3),), ((2, 0),)).completion == (5, 2)
    assert table_1_schedules.no_better(one).slack == one.total - F(23, 4)


def test_more_jobs_than_two_in_the_simulator() -> None:
    """Eight like jobs in rounds of a minute under the shortest first, and all at equal rates."""
    many = hetopt.Instance.from_jobs([[8, 1]] * 8, 1, 16, [1, 1], round_seconds=MINUTE)
    log = simulate(Shortest(), many)
    assert sum(table_1_schedules.shortest_first(8)) * 60 == pytest.approx(
        F(log.jobs["jct"].sum()).limit_denominator(10**6), rel=EQUAL
    )
    fluid = simulate(gavel.mean_completion_time(), many, fluid=True)
    assert fluid.jobs["jct"].sum() == pytest.approx(float(table_1_schedules.even_rates(8)) * 60, rel=EQUAL)
    assert 2 - table_1_schedules.gap(1024) < F(1, 400)
    assert all(table_1_schedules.gap(n) <= F(2 * n, n + 1) for n in (2, 5, 9))


def test_random_schedules_end_when_their_work_is_done() -> None:
    rng = random.Random(4)
    for _ in range(200):
        phases = rng.randrange(5)
        on = tuple(rng.choice(((0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1), (0, 0))) for _ in range(phases))
        case = table_1_schedules.TwoJobSchedule(tuple(F(rng.randrange(13), 4) for _ in on), on)
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
