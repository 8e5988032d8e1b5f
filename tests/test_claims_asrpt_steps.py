"""The steps of A-SRPT's proofs: their exact sides by hand and by brute force, and what machines check of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_cases import cases, stored_case

from hetopt.proofs.asrpt import (
    bound_algebra,
    claims,
    edge_volumes,
    graph_cuts,
    hardness,
    iteration_bounds,
    iteration_equations,
    lemmas,
    prediction_errors,
    proof_steps,
    queue_order,
    reported_results,
)
from hetopt.proofs.asrpt.scheduling_cases import (
    WHOLE_SLOTS,
    PlacedRun,
    SchedulingCase,
    at_least_one_iteration,
    case_of,
    scheduling_space,
)
from hetopt.proofs.asrpt.single_machine import srpt
from hetopt.proofs.asrpt.staged_cases import StagedCase, equal_servers_space, exact, fast_links, full_servers_space
from hetopt.proofs.ledger.claim import Claim, ProofPart
from hetopt.proofs.ledger.space import CaseNumbers
from hetopt.stages.job_graph import job_graph

F = Fraction
FEW = settings(max_examples=30, deadline=None)
CLAIMS = {one.key: one for one in claims()}


# -- what machines check ---------------------------------------------------------------------------------------------


def given_by(part: Any) -> list[Any]:
    """The hypotheses and the negated conclusion of a part for z3."""
    package, _, run = part.args
    assert package == "z3"
    return list(run.args[0]())


def refutes(assertions: list[Any]) -> bool:
    """Whether z3 finds no values."""
    z3 = pytest.importorskip("z3")
    solver = z3.Solver()
    solver.set("timeout", 5000)
    solver.add(*assertions)
    return bool(solver.check() == z3.unsat)


Z3_PARTS = {
    (key, n): part
    for key, one in CLAIMS.items()
    for n, part in enumerate(one.mechanical)
    if part.args[0] == "z3"  # type: ignore[attr-defined]
}
ALGEBRA = [
    part
    for value in vars(bound_algebra).values()
    for part in (value if isinstance(value, tuple) else [value])
    if isinstance(part, partial) and "all real data" in str(part.args)
]


@pytest.mark.parametrize("part", Z3_PARTS.values(), ids=[f"{key}-{n}" for key, n in Z3_PARTS])
def test_a_part_needs_its_hypotheses(part: ProofPart) -> None:
    pytest.importorskip("z3")
    assertions = given_by(part)
    assert refutes(assertions)
    assert not all(refutes(assertions[:n] + assertions[n + 1 :]) for n in range(len(assertions) - 1))


@pytest.mark.parametrize("part", ALGEBRA, ids=lambda part: part.args[1])
def test_the_inequalities_need_every_hypothesis(part: ProofPart) -> None:
    pytest.importorskip("z3")
    assertions = given_by(part)
    for n in range(len(assertions) - 1):
        assert not refutes(assertions[:n] + assertions[n + 1 :]), assertions[n]


def test_sums_of_rounds_see_what_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    sympy = pytest.importorskip("sympy")
    assert hardness.rounds_add_up() == ""
    summed = sympy.summation
    monkeypatch.setattr(sympy, "summation", lambda *args: summed(*args) + 1)
    assert hardness.rounds_add_up().startswith("the sum is")


# -- Appendices A and B ----------------------------------------------------------------------------------------------


def test_the_makespan_by_hand() -> None:
    """Four GPUs, two jobs of one: the machine is done at 1/4 and 1/2, the first job at 5/4, and a second over three."""
    case = stored_case("asrpt/eq-11")
    assert [(run.start, run.end) for run in case.asrpt()] == [(F(1, 4), F(5, 4)), (F(1, 2), F(3, 2))]
    found = proof_steps.makespan(case)
    assert (found.left, found.right) == (F(5, 4), (1 + F(4, 3)) * F(1, 2))
    short = proof_steps.makespan(case, short=True)
    assert (short.left, short.right) == (F(5, 4), F(1, 2) + F(1, 3))
    assert proof_steps.starts(case).finding.slack > proof_steps.starts(case, short=True).finding.slack == 0
    assert found.draw()


@FEW
@given(cases(lemmas.WRONG))
def test_the_steps_of_appendix_b_add_up(case: SchedulingCase) -> None:
    """(10) turns the short limits into those of (11), and these with the own duration and the delays into (12)."""
    runs, virtual = case.asrpt(), case.virtual(predicted=True)
    short, long = (proof_steps.limit_of_starts(case, runs, short=short) for short in (True, False))
    q = proof_steps.BoundTerms.of(case)
    wrong = F(q.widest, q.spare) * q.most * q.error
    for run, less, more in zip(runs, short, long, strict=True):
        own = case.iterations[run.job] * case.apart[run.job]
        eq_12 = (1 + q.delay + q.rho * F(q.gpus, q.spare)) * virtual.ends[run.job] + wrong + own
        assert run.start <= less <= more <= eq_12 - own
        assert run.end <= run.start + own
    assert proof_steps.lemmas_combined(case).right >= proof_steps.lemmas_combined(case).left


@FEW
@given(cases(lemmas.FULL))
def test_work_before_is_what_the_machine_has_done(case: SchedulingCase) -> None:
    virtual = case.virtual(predicted=True)
    found = proof_steps.work_by_then(case, slots=False)
    done = [
        sum((min(until, end) - start for _, start, until in virtual.bars if start < end), F(0)) for end in virtual.ends
    ]
    assert found.left <= max(done)
    assert found.left <= found.right


def test_shares_see_a_schedule_that_is_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    case = stored_case("asrpt/eq-11")
    assert proof_steps.stretched_shares(case).slack == 0
    monkeypatch.setattr(SchedulingCase, "optimum", lambda *_: (PlacedRun(0, F(0), F(1, 2), (1, 0)),) * 2)
    assert proof_steps.stretched_shares(case).slack == -F(1, 8)
    monkeypatch.setattr(SchedulingCase, "optimum", lambda *_: (PlacedRun(0, F(0), F(1), (2, 1)),) * 2)
    assert proof_steps.stretched_shares(case).slack == -F(1, 2)


def test_equality_violates_a_strict_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    case = stored_case("asrpt/eq-11")
    assert proof_steps.below_the_bound(case).slack > 0
    equal = proof_steps.BoundSides(F(1), F(1), ("left", "right"))
    monkeypatch.setattr(proof_steps, "theorem_1", lambda _: equal)
    assert proof_steps.below_the_bound(case).slack == -1


def test_own_durations_and_the_least_total_by_hand() -> None:
    case = stored_case("asrpt/eq-11")
    assert proof_steps.own_durations(case).explanation == "2 <= 2 <= 2"
    assert proof_steps.least_total(case).explanation == "2 >= 3/4 >= 3/4"


# -- the queue -------------------------------------------------------------------------------------------------------


@FEW
@given(cases(queue_order.ANY_JOBS), st.sampled_from((F(-1, 8), F(9))))
def test_starts_that_are_too_early_or_too_late_are_seen(case: SchedulingCase, shift: Fraction) -> None:
    runs = case.asrpt()
    last = runs[-1]
    moved = (*runs[:-1], replace(last, start=last.start + shift, end=last.end + shift))
    changed: Any = SimpleNamespace(
        virtual=case.virtual,
        sizes=case.sizes,
        asrpt=lambda: moved,
        tasks=case.tasks,
        servers=case.servers,
        heavy=case.heavy,
        delay=F(0),
        free=case.free,
    )
    if not case.delay:
        assert queue_order.delayed_as_allowed(changed).slack < 0
    assert queue_order.delayed_as_allowed(case).slack >= 0


def test_a_delay_by_hand() -> None:
    """Two GPUs on two servers are slower than 4/3 of two on one; the job waits for half of its virtual seconds."""
    numbers = {"servers": [[2]], "gpus": [[2]], "replicas": [[3, 2]], "behind": [[0, 0]], "seconds": [[4, 1]]}
    numbers |= {"parameters": [[0, 2]], "outputs": [[1, 1]], "bandwidth": [[1, 2]], "heavy": [[1]], "delay": [["1/2"]]}
    numbers |= {"arrivals": [[0, 4]]}
    case = case_of(CaseNumbers.read(numbers))
    first, second = case.asrpt()
    assert (first.job, first.start) == (0, 3)
    size = case.sizes(predicted=True)[1]
    assert second.start == first.end
    assert size == F(1, 2) * case.tasks[1].options[0].least
    assert queue_order.delayed_as_allowed(case).slack == 0


# -- wrong predictions -----------------------------------------------------------------------------------------------

SECONDS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4), st.integers(0, 4)), min_size=1, max_size=4)


def job_by_second(arrivals: list[int], sizes: list[int]) -> list[int | None]:
    """The job that SRPT runs in each second."""
    left, running, found = list(sizes), -1, list[int | None]()
    for t in range(max(arrivals) + sum(sizes) + 1):
        there = [i for i, n in enumerate(left) if n and arrivals[i] <= t]
        chosen = min(there, key=lambda i: (left[i], i != running, arrivals[i], i), default=None)
        if chosen is not None:
            left[chosen] -= 1
            running = chosen
        found.append(chosen)
    return found


@given(SECONDS)
def test_the_first_difference_is_that_of_seconds(jobs: list[tuple[int, int, int]]) -> None:
    arrivals, sizes, others = map(list, zip(*jobs, strict=True))
    one, other = ([*job_by_second(arrivals, each), *[None] * 20] for each in (sizes, others))
    found = prediction_errors.FirstDifference.of(
        *(srpt([F(r) for r in arrivals], [F(n) for n in each]) for each in (sizes, others))
    )
    time = next((t for t, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    assert (None if found is None else found.time) == time
    if found is not None and time is not None:
        assert found.jobs == (one[time], other[time])
        assert found.work == [one[:time].count(i) for i in range(len(jobs))]


@FEW
@given(cases(lemmas.ANY))
def test_stretched_schedules_period_by_period(case: SchedulingCase) -> None:
    found = prediction_errors.MachinesByErrors.of(case)
    later, ends = F(0), dict[int, Fraction]()
    last = {job: end for job, _, end in found.true.bars}
    for job, _, end in found.true.bars:
        if end == last[job]:
            later += found.over[job]
            ends[job] = end + later
    assert sum(ends.values()) == found.stretched
    assert [a - b for a, b in zip(found.over, found.under, strict=True)] == [
        predicted - size for predicted, size in zip(found.predicted_sizes, found.sizes, strict=True)
    ]
    assert found.true.total == case.virtual(predicted=False).total
    assert found.predicted.total == case.virtual(predicted=True).total


def test_phases_by_hand() -> None:
    """One job of 1 s: predicted 3/2 s, two slots; predicted 1/2 s, one slot as before."""
    more, less = stored_case("asrpt/eq-13"), stored_case("asrpt/eq-15")
    assert prediction_errors.phase_1(more, slots=True).slack == F(3, 2) - 2
    assert prediction_errors.phase_2(less, slots=True).slack == F(1, 2) - 1
    assert prediction_errors.phase_1(more).slack == prediction_errors.phase_2(less).slack == 0


def test_the_machine_that_is_done_runs_another_job() -> None:
    case = stored_case("asrpt/eq-14")
    assert prediction_errors.chosen_by_size(case).slack == F(1, 2) - 1
    corrected = prediction_errors.chosen_by_remaining_time(case)
    assert (corrected.slack, corrected.explanation) == (0, "job1 is complete with predictions")


def test_the_chain_of_remaining_times_by_hand() -> None:
    """2 s, and 3 s predicted as 1 s, on one of two GPUs: AUX prefers the first job, predictions the second."""
    numbers = {"servers": [[1]], "gpus": [[2]], "replicas": [[1, 1]], "seconds": [[1, 1]]}
    case = case_of(CaseNumbers.read({**numbers, "iterations": [[2, 3]], "predicted": [[2, 1]]}))
    assert prediction_errors.chosen_by_remaining_time(case).explanation == "1/2 <= 1 <= 1 <= 3/2"
    assert prediction_errors.chosen_by_size(case).slack == F(1, 2)


def test_unseen_jobs_by_hand() -> None:
    numbers = {"servers": [[1]], "gpus": [[2]], "replicas": [[1, 1]], "seconds": [[1, 1]], "arrivals": [[0, 1]]}
    case = case_of(CaseNumbers.read({**numbers, "iterations": [[4, 1]], "predicted": [[4, 0]]}))
    assert case.virtual(predicted=True).ends == (2, 1)
    assert prediction_errors.unseen_are_complete(case).slack == 0


def test_errors_in_seconds_by_hand() -> None:
    case = stored_case("asrpt/eq-14")  # an iteration of 1 s too few on half of the GPUs; others take 2 s
    assert prediction_errors.error_in_seconds(case).explanation == "1/2 s, at most 1"


def test_long_jobs_by_hand() -> None:
    """Two jobs of 8 s start at 1/2 and 1, four of 1 s end at 19/2, 10, 21/2 and 11; at best 1, 1, 2, 2, 10 and 10."""
    a_srpt, better = F(17, 2) + 9 + F(19, 2) + 10 + F(21, 2) + 11, 1 + 1 + 2 + 2 + 10 + 10
    assert prediction_errors.error_of_long_jobs(2) == a_srpt / better / F(2 * 7, 6)


# -- equations and cuts ----------------------------------------------------------------------------------------------


def two_servers(seconds: tuple[int, int], backward: tuple[int, int]) -> iteration_equations.PlacedJob:
    """Two stages of one replica on two servers."""
    times = [[F(v) for v in row] for row in (seconds, backward)]
    job = iteration_equations.staged_job("j", (F(1),) * 2, times[0], (F(0),) * 2, (F(1),), backward=times[1])
    return iteration_equations.PlacedJob(StagedCase(job, (1, 1), F(1), F(2)), np.eye(2, dtype=int))


def test_computation_is_forward_and_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    case = two_servers((1, 3), (2, 4))
    assert case.placing.pipeline.computing.tolist() == [3, 7]
    assert iteration_equations.computes_side_by_side(case).slack == 0
    wrong = SimpleNamespace(forward=np.array([[F(1), F(0)], [F(5), F(3)]]), backward=np.array([[F(2)] * 2, [F(4)] * 2]))
    monkeypatch.setattr(iteration_equations, "parts", lambda *_: wrong)
    assert iteration_equations.computes_side_by_side(case).slack == -9  # stage 2 on server 1, where it has no replica


def test_a_pipeline_fills_once() -> None:
    """Stages of 1 + 2 and 3 + 2 s: the first iteration takes 8 s, every other one 5."""
    case = two_servers((1, 3), (0, 0))
    assert [iteration_equations.pipeline_seconds(case, n) for n in (1, 2)] == [8, 13]
    found = iteration_equations.takes_iterations_only(case)
    assert found.slack == 5 - 8
    assert found.pictures
    assert iteration_equations.within_a_filling(case).slack == min(8 - 5, 10 - 8)


def test_the_midpoint_is_slower() -> None:
    assert all(row.agrees for row in iteration_equations.midpoint().rows)


@FEW
@given(cases(graph_cuts.cut_space(full_servers_space())))
def test_bytes_within_servers_are_those_of_networkx(case: graph_cuts.CutCase) -> None:
    graph = job_graph(case.placing.pipeline)
    networkx: nx.Graph[Any] = graph.networkx()
    for server in case.mappings[:3]:
        sides = [[v for v, m in zip(graph.labels, server, strict=True) if m == n] for n in set(server)]
        within = sum(exact(b) for side in sides for *_, b in networkx.subgraph(side).edges(data="bytes"))
        assert graph_cuts.bytes_within(case, server) == within


def test_the_ratios_of_bandwidths() -> None:
    found = reported_results.bandwidths()
    assert found.summary == "B_intra over B_inter is 48 with 50 Gbps, 240 with 10 Gbps, 2400 with 1 Gbps"
    assert all(row.agrees for row in found.rows)


# -- hypotheses ------------------------------------------------------------------------------------------------------


def is_case(one: Claim, **tables: list[list[Any]]) -> bool:
    """Whether these tables meet the hypotheses of a claim."""
    procedure: Any = one.procedure
    return procedure.space.case(CaseNumbers.read(tables)) is not None


ONE_JOB: dict[str, list[list[Any]]] = {"servers": [[1]], "gpus": [[2]], "replicas": [[1]], "seconds": [[1]]}
QUIET: dict[str, list[list[Any]]] = {"behind": [[0]], "parameters": [[0]], "outputs": [[1]], "bandwidth": [[1, 1]]}


def test_cases_by_hand_must_meet_the_hypotheses() -> None:
    arrivals: dict[str, list[list[Any]]] = {"arrivals": [[0]]}
    assert is_case(CLAIMS["asrpt/lemma-1"], **ONE_JOB, **arrivals)
    assert not is_case(CLAIMS["asrpt/lemma-1"], **ONE_JOB, arrivals=[["1/2"]])
    assert not is_case(CLAIMS["asrpt/lemma-1"], **{**ONE_JOB, "seconds": [["1/2"]]}, **arrivals)
    assert not is_case(CLAIMS["asrpt/thm-1"], **ONE_JOB, arrivals=[[1]])
    thm = CLAIMS["asrpt/thm-1-continuous"]
    settings_of: dict[str, list[list[Any]]] = {**arrivals, "predicted": [[1]], "heavy": [[1]], "delay": [[0]]}
    assert is_case(thm, **ONE_JOB, **QUIET, **settings_of, iterations=[[1]])
    assert not is_case(thm, **ONE_JOB, **QUIET, **settings_of, iterations=[["1/2"]])


@FEW
@given(cases(scheduling_space(*WHOLE_SLOTS, at_least_one_iteration, iterations=(F(1, 2), F(1), F(2)))))
def test_drawn_cases_meet_the_hypotheses(case: SchedulingCase) -> None:
    assert min(case.iterations) >= 1
    assert {length.denominator for uses in case.lengths for length in uses.values()} == {1}


def test_staged_cases_by_hand_must_meet_the_hypotheses() -> None:
    numbers: dict[str, Any] = {"replicas": [[2]], "seconds": [[1]], "parameters": [[1]], "outputs": [[]]}
    numbers |= {"servers": [[1]], "gpus": [[2]], "bandwidth": [[2, 4]]}
    space = equal_servers_space(fast_links)
    assert space.case(CaseNumbers.read(numbers)) is not None
    assert space.case(CaseNumbers.read({**numbers, "bandwidth": [[2, 3]]})) is None
    assert space.case(CaseNumbers.read({**numbers, "gpus": [[1]]})) is None
    assert not is_case(CLAIMS["asrpt/alpha-max-needed"], bandwidth=[[1, 1]], seconds=[[0]], outputs=[[1]])
    assert is_case(CLAIMS["asrpt/np-complete"], items=[[1, 1]], servers=[[2]])
    assert not is_case(CLAIMS["asrpt/np-complete"], items=[[1, 2]], servers=[[2]])
    assert is_case(CLAIMS["asrpt/eq-8-np-hard"], gpus=[[21]], widths=[[7] * 6])
    assert not is_case(CLAIMS["asrpt/eq-8-np-hard"], gpus=[[21]], widths=[[8, *[7] * 5]])
    assert not is_case(CLAIMS["asrpt/eq-8-np-hard"], gpus=[[21]], widths=[[11, 3, *[7] * 4]])
    assert edge_volumes.REPLICATED.case(CaseNumbers.read({"replicas": [[1]], "parameters": [[1]]})) is None
    assert iteration_bounds.TWO_STAGES.hypotheses == (iteration_bounds.SLOW_INSIDE,)
