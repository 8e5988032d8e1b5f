"""The virtual machine of A-SRPT: shortest remaining time first, with preemption."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

from asrpt_oracles import srpt
from hypothesis import given
from hypothesis import strategies as st

from hetopt.models.asrpt.non_preemptive import VirtualMachine

JOBS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), min_size=1, max_size=6).map(sorted)


def completions(jobs: list[tuple[Any, Any]], asked: list[Any] | None = None) -> list[tuple[Any, int]]:
    """(completion, job), asked at every arrival, at every completion, and at the times ``asked``."""
    machine, done = VirtualMachine(), []
    coming = [(a, i, s) for i, (a, s) in enumerate(jobs)]
    extra = sorted(asked or [])
    while coming or machine.next < float("inf"):
        time = min([a for a, _, _ in coming[:1]] + [machine.next] + extra[:1])
        extra = [t for t in extra if t > time]
        while coming and coming[0][0] == time:
            _, i, size = coming.pop(0)
            machine.arrive(time, str(i), size)
        done += [(time, int(name)) for name in machine.completed(time)]
    return done


@given(JOBS)
def test_shortest_remaining_time_first(jobs: list[tuple[int, int]]) -> None:
    exact = [(Fraction(a), Fraction(s, 3)) for a, s in jobs]
    assert completions(exact) == srpt(*map(list, zip(*exact, strict=True)))


@given(JOBS, st.lists(st.integers(0, 40).map(lambda n: Fraction(n, 2)), max_size=5))
def test_asking_in_between_changes_nothing(jobs: list[tuple[int, int]], asked: list[Fraction]) -> None:
    exact = [(Fraction(a), Fraction(s)) for a, s in jobs]
    copy = VirtualMachine()
    copy.arrive(Fraction(0), "x", Fraction(5))
    other = copy.copy()
    other.arrive(Fraction(1), "y", Fraction(1))
    assert copy.completed(Fraction(5)) == ["x"], "a copy lives on its own"
    assert sorted(completions(exact, asked)) == sorted(completions(exact))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3)), min_size=1, max_size=4))
def test_no_other_order_completes_sooner_in_total(jobs: list[tuple[int, int]]) -> None:
    """Against all ways to give each unit of time to a job that has arrived."""

    @cache
    def best(time: int, left: tuple[int, ...]) -> int:
        if not any(left):
            return 0
        there = [i for i, n in enumerate(left) if n and jobs[i][0] <= time]
        if not there:
            return best(time + 1, left)
        ends = []
        for i in there:
            rest = tuple(n - (j == i) for j, n in enumerate(left))
            ends.append(best(time + 1, rest) + (time + 1 if not rest[i] else 0))
        return min(ends)

    jobs = sorted(jobs)
    total = sum(t for t, _ in completions([(Fraction(a), Fraction(s)) for a, s in jobs]))
    assert total == best(0, tuple(s for _, s in jobs))


def by_slots(jobs: list[tuple[int, int]], gone: dict[int, int]) -> list[tuple[int, int]]:
    """(completion, job), second by second; ``gone``: job -> when it is withdrawn."""
    left: dict[int, int] = {}
    done, last = [], -1
    for t in range(100):
        for i, (arrival, size) in enumerate(jobs):
            if arrival == t and size:
                left[i] = size
            elif arrival == t:
                done.append((t, i))
        left = {i: n for i, n in left.items() if gone.get(i) != t}
        if left:
            last = min(left, key=lambda i: (left[i], i != last, i))
            left[last] -= 1
            if not left[last]:
                done.append((t + 1, last))
                del left[last]
    return done


@given(JOBS, st.data())
def test_who_withdraws_takes_no_more_time(jobs: list[tuple[int, int]], data: st.DataObject) -> None:
    gone = {
        i: data.draw(st.integers(arrival, 30), label=f"job {i} leaves at")
        for i, (arrival, _) in enumerate(jobs)
        if data.draw(st.booleans())
    }
    machine, done = VirtualMachine(), []
    for t in range(100):
        for i, (arrival, size) in enumerate(jobs):
            if arrival == t:
                machine.arrive(t, str(i), size)
        done += [(t, int(name)) for name in machine.completed(t)]
        for i in (i for i, at in gone.items() if at == t):
            machine.withdraw(t, str(i))
    assert sorted(done) == sorted(by_slots(jobs, gone))
