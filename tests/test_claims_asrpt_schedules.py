"""A-SRPT's virtual machine and schedules: exact ones against oracles and by brute force."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import pytest
from asrpt_oracles import Machines
from asrpt_oracles import asrpt as asrpt_job_by_job
from asrpt_oracles import srpt as srpt_by_scans
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_cases import cases

from hetopt.models.asrpt.non_preemptive import VirtualMachine
from hetopt.proofs.asrpt import claims, lemmas, queue_order
from hetopt.proofs.asrpt.scheduling_cases import (
    PlacedRun,
    SchedulingCase,
    case_of,
    optimal,
    overfull,
    schedule_picture,
    scheduling_space,
    total_completion,
)
from hetopt.proofs.asrpt.single_machine import (
    ONE_MACHINE,
    PreemptiveCase,
    best_seconds,
    drawn_seconds,
    srpt,
)
from hetopt.proofs.ledger.counterexample_files import stored_names
from hetopt.proofs.ledger.space import CaseNumbers

F = Fraction
FEW = settings(max_examples=30, deadline=None)
CLAIMS = {one.key: one for one in claims()}
STORED = [(key, name) for key in CLAIMS for name in stored_names(key)]


# -- the virtual machine ---------------------------------------------------------------------------------------------

TIMES = st.fractions(0, 6, max_denominator=3)
JOBS = st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=5)


@given(JOBS)
def test_srpt_is_that_of_scans(jobs: list[tuple[Fraction, Fraction]]) -> None:
    arrivals, sizes = map(list, zip(*jobs, strict=True))
    found = srpt(arrivals, sizes)
    assert {i: t for t, i in srpt_by_scans(arrivals, sizes)} == dict(enumerate(found.ends))
    for i, size in enumerate(sizes):
        assert sum(b - a for j, a, b in found.bars if j == i) == size


@given(st.lists(st.tuples(st.integers(0, 5), TIMES), min_size=1, max_size=4))
def test_srpt_in_slots_second_by_second(jobs: list[tuple[int, Fraction]]) -> None:
    arrivals, left = [r for r, _ in jobs], [n for _, n in jobs]
    found, ends, running = srpt([F(r) for r in arrivals], left, slots=True), [F(0)] * len(jobs), -1
    for t in range(100):
        there = [i for i in range(len(jobs)) if arrivals[i] <= t and (left[i] > 0 or (arrivals[i] == t))]
        for i in there:
            ends[i] = max(ends[i], F(t)) if left[i] <= 0 else ends[i]
        work = [i for i in there if left[i] > 0]
        if work:
            running = min(work, key=lambda i: (left[i], i != running, arrivals[i], i))
            left[running] -= 1
            ends[running] = F(t + 1)
    assert ends == list(found.ends)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 2)), min_size=1, max_size=3))
def test_the_least_total_by_all_sequences_of_seconds(jobs: list[tuple[int, int]]) -> None:
    arrivals, sizes = zip(*jobs, strict=True)
    horizon = max(arrivals) + sum(sizes)
    best = horizon * len(jobs)
    for who in product(range(-1, len(jobs)), repeat=min(horizon, 6)):
        slots = [[t for t, j in enumerate(who) if j == i] for i in range(len(jobs))]
        if all(len(s) == n and s[0] >= r for s, n, r in zip(slots, sizes, arrivals, strict=True)):
            best = min(best, sum(s[-1] + 1 for s in slots))
    if horizon <= 6:
        assert best_seconds(arrivals, sizes)[0] == best


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2)), min_size=1, max_size=3))
def test_two_machines_by_all_sequences_of_seconds(jobs: list[tuple[int, int]]) -> None:
    arrivals, sizes = zip(*jobs, strict=True)
    choices = [(), *((i,) for i in range(len(jobs))), *combinations(range(len(jobs)), 2)]
    best = 100
    for who in product(choices, repeat=4):
        seconds = [[t for t, run in enumerate(who) if i in run] for i in range(len(jobs))]
        if all(len(s) == n and s[0] >= r for s, n, r in zip(seconds, sizes, arrivals, strict=True)):
            best = min(best, sum(s[-1] + 1 for s in seconds))
    found, way = best_seconds(arrivals, sizes, 2)
    assert found == sum(max(t for t, run in way if i in run) + 1 for i in range(len(jobs)))
    assert found == best or best == 100
    assert best_seconds(arrivals, sizes, 2, shortest=True)[0] >= found
    assert best_seconds(arrivals, sizes, shortest=True)[0] == srpt([*map(F, arrivals)], [*map(F, sizes)]).total


def test_srpt_on_two_machines_by_hand() -> None:
    """1, 1 and 2 s, and at 2 s two more of 1 s: SRPT leaves a second idle, and has 1 + 1 + 3 + 3 + 4."""
    assert best_seconds((0, 0, 0, 2, 2), (1, 1, 2, 1, 1), 2, shortest=True)[0] == 12
    found, way = best_seconds((0, 0, 0, 2, 2), (1, 1, 2, 1, 1), 2)
    assert found == 11  # 1 + 2 + 2 + 3 + 3
    bars = drawn_seconds("optimum", way).bars
    assert {bar.row for bar in bars if bar.job == "job3"} == {"machine2"}


def test_the_finding_sees_a_better_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_order, "best_seconds", lambda *_: (3, ()))
    assert queue_order.shortest_first_is_best(PreemptiveCase((0, 0), (1, 2))).slack == -1


@given(cases(ONE_MACHINE))
def test_one_machine_as_an_instance(case: PreemptiveCase) -> None:
    jobs = case.instance.jobs
    assert [(job.arrival, job.work) for job in jobs] == list(zip(case.arrivals, case.sizes, strict=True))


# -- schedules -------------------------------------------------------------------------------------------------------

MIXED = scheduling_space(
    communicating=True, predicted=lemmas.PREDICTED, iterations=(F(1), F(2)), delayed=True, spare=False
)


def on_the_virtual_machine(arrivals: list[Fraction], sizes: list[Fraction]) -> Fraction:
    """The sum of completion times on the library's virtual machine."""
    machine, waiting = VirtualMachine(), sorted(range(len(sizes)), key=lambda i: arrivals[i])
    total, done = F(0), 0
    while done < len(sizes):
        time = min(arrivals[waiting[0]], machine.next) if waiting else machine.next
        if waiting and arrivals[waiting[0]] == time:
            i = waiting.pop(0)
            machine.arrive(time, f"job{i}", sizes[i])
        completed = len(machine.completed(time))
        total, done = total + completed * time, done + completed
    return total


@FEW
@given(cases(MIXED))
def test_schedules_fit_and_the_machine_is_the_library_s(case: SchedulingCase) -> None:
    for predicted in (True, False):
        sizes = case.sizes(predicted=predicted)
        assert case.virtual(predicted=predicted).total == on_the_virtual_machine(case.arrivals, sizes)
    for runs in (case.optimum(), case.asrpt(), case.optimum(slots=True), case.asrpt(slots=True, virtual_slots=True)):
        assert overfull(runs, case.free, closed=False)[0] <= 0
        assert all(run.start >= case.arrivals[run.job] for run in runs)
        assert sorted(run.job for run in runs) == list(range(len(case.jobs)))
        assert all(run.end - run.start >= case.lengths[run.job][run.use] for run in runs)


@FEW
@given(cases(MIXED))
def test_asrpt_is_that_of_the_job_by_job_oracle(case: SchedulingCase) -> None:
    machines = Machines(case.servers, case.heavy)
    predicted = [job.predicted for job in case.jobs]
    asrpt_job_by_job(
        [job.staged for job in case.jobs], [job.pipeline for job in case.jobs], predicted, machines, case.delay
    )
    found = {f"job{run.job + 1}": (run.start, run.end) for run in case.asrpt()}
    assert {name: (ran.start, ran.end) for name, ran in machines.ran.items()} == found


def test_an_announced_machine_changes_nothing() -> None:
    numbers = {"servers": [[2]], "gpus": [[2]], "replicas": [[1, 2, 3]], "seconds": [[3, 1, 2]]}
    case = case_of(CaseNumbers.read({**numbers, "arrivals": [[0, 1, 1]]}))
    from hetopt.proofs.asrpt.scheduling_cases import asrpt

    predicted = asrpt(case.fleet, case.tasks, case.arrivals, case.iterations, virtual=case.virtual(predicted=True))
    assert predicted == case.asrpt()


def by_whole_starts(case: SchedulingCase) -> Fraction:
    """The least sum over all starts in whole seconds and all uses."""
    horizon = int(max(case.arrivals) + sum(max(uses.values()) for uses in case.lengths)) + 1
    best = None
    for chosen in product(*(uses.items() for uses in case.lengths)):
        for begins in product(*(range(int(r), horizon) for r in case.arrivals)):
            runs = tuple(
                PlacedRun(i, F(t), t + length, use)
                for i, (t, (use, length)) in enumerate(zip(begins, chosen, strict=True))
            )
            if (best is None or total_completion(runs) < best) and overfull(runs, case.free, closed=False)[0] <= 0:
                best = total_completion(runs)
    assert best is not None
    return best


@settings(max_examples=15, deadline=None)
@given(cases(scheduling_space(jobs=(1, 3), most_gpus=3, iterations=(F(1, 2), F(1)))))
def test_the_optimum_in_slots_by_brute_force(case: SchedulingCase) -> None:
    assert total_completion(case.optimum(slots=True)) == by_whole_starts(case)


def test_jobs_that_are_alike_start_in_their_order() -> None:
    lengths: list[dict[tuple[int, ...], Fraction]] = [{(1,): F(2)}, {(1,): F(2)}, {(1,): F(1)}]
    runs = optimal([F(0)] * 3, lengths, (1,))
    assert [run.job for run in runs] == [2, 0, 1]
    assert total_completion(runs) == 1 + 3 + 5


def test_jobs_that_come_at_other_times_are_not_alike() -> None:
    lengths: list[dict[tuple[int, ...], Fraction]] = [{(1,): F(10)}, {(1,): F(10)}]
    assert total_completion(optimal([F(5), F(0)], lengths, (1,))) == 10 + 20


def test_asrpt_in_slots_goes_by_predictions() -> None:
    numbers = {"servers": [[1]], "gpus": [[2]], "replicas": [[1, 1]], "seconds": [[1, 1]]}
    case = case_of(CaseNumbers.read({**numbers, "iterations": [[1, 4]], "predicted": [[4, 1]]}))
    assert [(run.job, run.start) for run in case.asrpt(slots=True, virtual_slots=True)] == [(1, 1), (0, 3)]


def test_hypotheses_of_workloads() -> None:
    numbers = {"servers": [[1]], "gpus": [[3]], "replicas": [[2]], "behind": [[0]], "seconds": [[1]]}
    numbers |= {"parameters": [[1]], "outputs": [[1]], "bandwidth": [[2, 1]]}
    wanted = {"fast": False, "slow": True, "any": True}
    for inside, there in wanted.items():
        space = scheduling_space(communicating=True, arriving=False, inside=inside)  # type: ignore[arg-type]
        assert (space.case(CaseNumbers.read(numbers)) is not None) == there
    whole_cluster = CaseNumbers.read({**numbers, "gpus": [[2]]})
    for spare in (True, False):
        space = scheduling_space(communicating=True, arriving=False, inside="any", spare=spare)
        assert (space.case(whole_cluster) is None) == spare
    assert (
        scheduling_space(most_gpus=2, communicating=True, arriving=False, inside="any").case(CaseNumbers.read(numbers))
        is None
    )


def test_asrpt_in_slots_by_hand() -> None:
    """Four GPUs; on the virtual machine the jobs are done at 1 and 2 in slots, at 1/4 and 3/4 in continuous time."""
    case = case_of(CaseNumbers.read({"servers": [[1]], "gpus": [[4]], "replicas": [[1, 2]], "seconds": [[1, 1]]}))
    both = [[(run.start, run.end) for run in case.asrpt(slots=True, virtual_slots=slots)] for slots in (False, True)]
    assert both == [[(1, 2), (1, 2)], [(1, 2), (2, 3)]]
    assert [(run.start, run.end) for run in case.asrpt()] == [(F(1, 4), F(5, 4)), (F(3, 4), F(7, 4))]


def test_jobs_counted_at_a_time() -> None:
    runs = (PlacedRun(0, F(0), F(1), (2, 0)), PlacedRun(1, F(1), F(2), (1, 1)))
    assert overfull(runs, (2, 1), closed=False)[0] == 0
    assert overfull(runs, (2, 1), closed=True) == (1, 1, 0)
    assert overfull(runs, (1, 1), closed=False) == (1, 0, 0)
    drawn = schedule_picture("t", runs, (2, 1))
    assert [(bar.row, bar.job) for bar in drawn.bars] == [
        ("server1 GPU1", "job1"),
        ("server1 GPU2", "job1"),
        ("server1 GPU1", "job2"),
        ("server2 GPU1", "job2"),
    ]
