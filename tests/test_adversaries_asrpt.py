"""Adversaries of A-SRPT: they find known counterexamples and planted errors, and no fault in true claims."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from adversary_cases import some_cases

from hetopt.proofs.adversaries import asrpt
from hetopt.proofs.adversaries.asrpt import ADVERSARIES
from hetopt.proofs.adversaries.asrpt_jobs import (
    Links,
    Stages,
    every_table,
    heavy_edge,
    iteration,
    paths,
    stages_of,
)
from hetopt.proofs.adversaries.asrpt_runs import (
    Started,
    Variant,
    by_priority,
    least_total,
    shortest_first,
)
from hetopt.proofs.asrpt.scheduling_cases import total_completion
from hetopt.proofs.asrpt.single_machine import best_seconds

F = Fraction
FEW = 10
"""Cases of each claim."""


def later(runs: list[Started]) -> list[Started]:
    """The schedule, a second later."""
    return [run._replace(start=run.start + 1, end=run.end + 1) for run in runs]


def together(runs: list[Started]) -> list[Started]:
    """All jobs at once, on the GPUs of the last."""
    return [run._replace(start=runs[0].start, end=runs[-1].end + 1, table=runs[-1].table) for run in runs]


def backwards(runs: list[Started]) -> list[Started]:
    """Jobs start in the opposite order."""
    return [run._replace(job=other.job) for run, other in zip(runs, reversed(runs), strict=True)]


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ("pending-order", backwards),
        ("larger-later-together", backwards),
        ("delay-limit", later),
        ("eq-3-half-open", together),
        ("eq-3-half-open", lambda runs: [run._replace(start=run.start - 9) for run in runs]),
        ("appendix-b-starts", lambda runs: [run._replace(start=100 * (run.start + 1)) for run in runs]),
        ("eq-11-starts", lambda runs: [run._replace(start=100 * (run.start + 1)) for run in runs]),
        *(
            (key, lambda runs: [run._replace(end=1000 * (run.end + 1)) for run in runs])
            for key in ("lemma-2-sharper", "eq-12-sharper", "thm-1-sharper", "thm-1-combined")
        ),
    ],
)
def test_wrong_schedules_are_found(
    key: str, error: Callable[[list[Started]], list[Started]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Variant, "continuous", property(lambda own: error(own.run(own.virtual(own.predicted).ends))))
    assert any(ADVERSARIES[f"asrpt/{key}"].slack(case) < 0 for case in some_cases(f"asrpt/{key}", 40))


def twice(found: Any) -> Any:
    return found * 2


def half(found: Any) -> Any:
    return found / 2


def too_early(found: Any) -> Any:
    """Completions of a machine that is twice as fast."""
    return found._replace(ends=tuple(end / 2 for end in found.ends))


def delayed(found: Any) -> Any:
    """The machine is idle for as long as the first job takes."""
    wait = found.ends[0]
    return found._replace(bars=tuple(bar._replace(start=bar.start + wait, end=bar.end + wait) for bar in found.bars))


@pytest.mark.parametrize(
    ("key", "name", "error"),
    [
        ("srpt", "least_total", half),
        ("eq-4", "computing", twice),
        ("eq-5-repaired", "neighbours", lambda found: found[:1]),
        ("eq-6-repaired", "ring_seconds", lambda found: {m: 2 * seconds for m, seconds in found.items()}),
        ("eq-7", "longest_path", twice),
        ("eq-8-completion-within", "longest_path", half),
        ("link-weight", "handed_over", lambda found: (found[0], 2 * found[1])),
        ("allreduce-mean", "tree_traffic", lambda found: (found[0][:-1], found[1])),
        ("alpha-max-needed", "all_apart", twice),
        ("alpha-ratio-bound", "greedy", lambda found: 100 * found),
        ("cut-and-inside", "bytes_inside", lambda found: -found),
        ("one-server", "bytes_cut", lambda found: found + 1),
        ("np-complete", "_equal_parts", lambda _: []),
        ("eq-8-np-hard", "_equal_parts", lambda _: []),
        ("lemma-1-any-bandwidth", "total_of", lambda found: 100 * found),
        ("lemma-3-exact", "total_of", lambda found: found**3),
        ("thm-1-least", "total_of", lambda found: found / 100),
        ("eq-13-continuous", "least_total", lambda found: found + 1),
        ("eq-14-remaining", "shortest_first", delayed),
        ("eq-15-continuous", "total_of", lambda found: 100 * found + 1),
        ("unseen-jobs", "shortest_first", too_early),
    ],
)
def test_planted_errors_are_found(
    key: str, name: str, error: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = getattr(asrpt, name)
    monkeypatch.setattr(asrpt, name, lambda *args, **kwargs: error(right(*args, **kwargs)))
    assert any(ADVERSARIES[f"asrpt/{key}"].slack(case) < 0 for case in some_cases(f"asrpt/{key}", 60))


@pytest.mark.parametrize(
    ("key", "name", "error"),
    [
        *(
            (key, "run", lambda runs: [run._replace(end=1000 * run.end) for run in runs])
            for key in ("lemma-2-all-slots", "thm-1-starts-in-slots")
        ),
        ("appendix-b-work", "virtual", too_early),
        ("eq-10", "virtual", lambda found: found._replace(ends=(F(0),) * len(found.ends))),
    ],
)
def test_errors_of_a_variant_are_found(
    key: str, name: str, error: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = getattr(Variant, name)
    monkeypatch.setattr(Variant, name, lambda *args, **kwargs: error(right(*args, **kwargs)))
    assert any(ADVERSARIES[f"asrpt/{key}"].slack(case) < 0 for case in some_cases(f"asrpt/{key}", 60))


@pytest.mark.parametrize(
    ("key", "name", "wrong"),
    [
        ("appendix-a-shares", "apart", lambda own: [alpha / 3 for alpha in own.shortest]),  # so rho is 1/3
        ("appendix-b-own", "optimum", lambda own: (own.total / F(100), [])),
        ("lemma-1-continuous", "optimum", lambda own: (own.total / F(100), [])),
        ("error-seconds", "apart", lambda own: [alpha / 100 for alpha in own.shortest]),
    ],
)
def test_wrong_quantities_are_found(
    key: str, name: str, wrong: Callable[[Variant], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Variant, name, property(wrong))
    assert any(ADVERSARIES[f"asrpt/{key}"].slack(case) < 0 for case in some_cases(f"asrpt/{key}", 40))


# -- the second formulation against the first, and by hand -----------------------------------------------------------


@pytest.mark.parametrize("key", ["asrpt/lemma-2-sharper", "asrpt/thm-1-starts-in-slots", "asrpt/larger-later-together"])
def test_quantities_are_those_of_the_checkers(key: str) -> None:
    for case in some_cases(key, 25):
        own = Variant(case, last=False)
        assert (own.apart, own.longest) == (case.apart, case.longest)
        assert own.greedy == [task.options[0].least for task in case.tasks]
        assert own.optimum[0] == total_completion(case.optimum())
        for predicted, iterations in ((True, own.predicted), (False, own.true)):
            virtual = case.virtual(predicted=predicted)
            assert own.virtual(iterations).ends == virtual.ends
            assert least_total(own.arrivals, own.sizes(iterations)) == virtual.total
        if len(set(virtual.ends)) == len(virtual.ends):  # else the order of the queue is open
            runs = case.asrpt()
            assert sorted((r.job, r.start, r.end, r.use) for r in own.continuous) == sorted(
                (r.job, r.start, r.end, r.use) for r in runs
            )


@pytest.mark.parametrize("key", ["asrpt/alpha-order", "asrpt/alpha-max-needed"])
def test_placements_are_those_of_the_checkers(key: str) -> None:
    for case in some_cases(key, 25):
        stages, links = stages_of(case.job), Links(case.nic, case.intra)
        tables = every_table(stages, case.free)
        assert sorted(tables) == sorted(tuple(map(tuple, x.tolist())) for x in case.placements)
        assert sorted(iteration(stages, table, links) for table in tables) == sorted(case.alphas)


def test_the_sum_by_priorities_is_the_least_of_all_seconds() -> None:
    for case in some_cases("asrpt/srpt", 25):
        arrivals, sizes = [F(r) for r in case.arrivals], [F(n) for n in case.sizes]
        assert least_total(arrivals, sizes) == best_seconds(case.arrivals, case.sizes)[0]


def test_one_machine_by_hand() -> None:
    """A job of 3 s that is interrupted at 1 s by one of 1 s, and a tie of two jobs of 2 s."""
    assert by_priority([F(0), F(1)], [F(3), F(1)], [1, 0]) == 2 + 4
    assert by_priority([F(0), F(1)], [F(3), F(1)], [0, 1]) == 3 + 4
    first, last = (shortest_first([F(0), F(0)], [F(2), F(2)], last=last).ends for last in (False, True))
    assert (first, last) == ((F(2), F(4)), (F(4), F(2)))
    assert shortest_first([F(0), F(0)], [F(1, 2), F(0)], last=False, slots=True).ends == (F(1), F(0))


def test_heavy_edge_of_figure_2() -> None:
    """Three stages of two replicas, servers with 4, 1 and 1 free GPUs: both pairs are on the first server."""
    stages = Stages((2, 2, 2), (F(0),) * 3, (F(20), F(1), F(1)), (F(1), F(1, 2), F(0)))
    assert heavy_edge(stages, (4, 1, 1), False) == ((2, 0, 0), (2, 0, 0), (0, 1, 1))
    assert heavy_edge(stages, (1, 1, 4), True) == ((0, 0, 2), (0, 0, 2), (1, 1, 0))


def test_paths_through_iterations_and_stages() -> None:
    """Each path visits every stage, and moves by one stage or one iteration."""
    assert sorted(paths(2, 3)) == [(1, 3), (2, 2), (3, 1)]
    assert list(paths(1, 5)) == [(5,)]
