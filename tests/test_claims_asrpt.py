"""A-SRPT's claims: each verdict, and the exact computations behind them against the library and by brute force."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from ledger_cases import cases, stored_case

import hetopt
from hetopt import instances
from hetopt.data.array_types import Floats
from hetopt.data.workload import Job
from hetopt.models import asrpt as library
from hetopt.proofs.asrpt import approximation_ratio, claims, graph_cuts, lemmas, queue_order, reported_results
from hetopt.proofs.asrpt.bound_sides import BoundTerms, each_job, lemma_1, lemma_2, lemma_3, over_and_under, theorem_1
from hetopt.proofs.asrpt.scheduling_cases import PlacedRun, SchedulingCase, case_of, total_completion
from hetopt.proofs.ledger.counterexample_files import stored_names
from hetopt.proofs.ledger.finding_pictures import Timeline
from hetopt.proofs.ledger.space import CaseNumbers

F = Fraction
FEW = settings(max_examples=30, deadline=None)
CLAIMS = {one.key: one for one in claims()}
STORED = [(key, name) for key in CLAIMS for name in stored_names(key)]


# -- lemmas and theorem ----------------------------------------------------------------------------------------------


@FEW
@given(cases(lemmas.WRONG))
def test_the_sharper_bounds_are_sharper(case: SchedulingCase) -> None:
    for bound in (lemma_1, lemma_2, lemma_3, theorem_1):
        assert bound(case, sharper=True).right <= bound(case).right
    assert over_and_under(case).right <= lemma_3(case, sharper=True).right
    assert theorem_1(case, more=1).right - theorem_1(case).right == total_completion(case.optimum())
    alone, together = each_job(case, sharper=True), lemma_2(case, sharper=True)
    assert alone.right - alone.left <= together.right - together.left


def test_terms_by_hand() -> None:
    """Two stages on servers of three GPUs, 3 s together and 3/2 s apart; 4 iterations predicted, 1 done."""
    numbers = {"servers": [[2]], "gpus": [[3]], "replicas": [[1]], "behind": [[1]], "seconds": [[1]]}
    numbers |= {"parameters": [[0]], "outputs": [[1]], "bandwidth": [[4, 1]], "predicted": [[4]]}
    case = case_of(CaseNumbers.read(numbers))
    found = BoundTerms.of(case)
    assert (found.rho, found.most, found.least) == (1, F(3, 2), F(3, 2))
    assert (found.jobs, found.gpus, found.widest, found.spare, found.error) == (1, 6, 2, 4, 3)
    sharper = BoundTerms.of(case, sharper=True)
    assert (sharper.rho, sharper.most, sharper.spare) == (2, 3, 5)


@dataclass(frozen=True)
class FixedPrediction:
    """Predicts the same of every job."""

    work: float

    def learner(self) -> FixedPrediction:
        return self

    def observe(self, jobs: Any) -> None:
        """Learn nothing."""

    def predict(self, jobs: Any) -> Floats:
        return np.full(len(jobs), self.work)

    def copy(self) -> FixedPrediction:
        return self


def simulated(key: str, predicted: float | None = None, **how: Any) -> list[float]:
    """Completion times of A-SRPT in the simulator on a stored counterexample."""
    policy = library.ASRPT(delay=0.0) if predicted is None else library.ASRPT(FixedPrediction(predicted), delay=0.0)
    log = hetopt.simulate(policy, instances.load(stored_names(f"asrpt/{key}")[0]), **how)
    jobs = log.jobs
    return [float(v) for v in jobs["arrival"] + jobs["jct"]]


@pytest.mark.parametrize(
    ("key", "predicted", "how", "expected"),
    [
        ("larger-later", None, {}, [3, F(5, 2)]),
        ("eq-3", None, {}, [2, 3]),
        ("lemma-1", None, {}, [F(3, 2), 2]),
        ("lemma-2", None, {"round_seconds": 1.0}, [2]),
        ("lemma-2", None, {}, [F(5, 4)]),
        ("lemma-2-slow-inside", 0.0, {}, [5]),
        ("eq-11", None, {}, [F(5, 4), F(3, 2)]),
        ("eq-12-slots", None, {"round_seconds": 1.0}, [2]),
        ("thm-1", None, {}, [F(5, 4), F(3, 2), F(7, 4), 2]),
        ("thm-1-short-jobs", 1.0, {}, [F(17, 32)]),
        ("thm-1-slow-inside", None, {}, [F(25, 3)]),
    ],
)
def test_the_simulator_agrees(key: str, predicted: float | None, how: dict[str, Any], expected: list[Any]) -> None:
    """In slots only where the cluster alone has them: the library's virtual machine runs in continuous time."""
    assert simulated(key, predicted, **how) == pytest.approx([float(t) for t in expected])
    case = stored_case(f"asrpt/{key}")
    ends = {run.job: run.end for run in case.asrpt(slots=bool(how))}
    assert [ends[i] for i in range(len(ends))] == expected


def test_continuous_time_saves_what_slots_break() -> None:
    for key, side in (("lemma-1", lemma_1), ("lemma-2", lemma_2), ("lemma-3", lemma_3), ("thm-1", theorem_1)):
        assert side(stored_case(f"asrpt/{key}")).finding.slack >= 0
    for key, side in (("lemma-1", lemma_1), ("lemma-2", lemma_2), ("lemma-3", lemma_3), ("thm-1", theorem_1)):
        case = stored_case(f"asrpt/{key}-slow-inside")
        assert not case.servers.fast_inside
        assert side(case, sharper=True).finding.slack >= 0


def test_findings_that_refute_show_schedules() -> None:
    for key in ("lemma-1", "lemma-2", "lemma-3", "thm-1", "eq-3", "larger-later"):
        means: Any = CLAIMS[f"asrpt/{key}"].procedure
        shown = means.finding(stored_case(f"asrpt/{key}")).pictures
        assert shown
        assert all(isinstance(one, Timeline) and one.bars for one in shown)


# -- families --------------------------------------------------------------------------------------------------------


def test_turns_by_hand() -> None:
    """Four GPUs, four narrow jobs of 3/2 s and four wide ones of 1 s: pairs of 5/2 s from 3/4 s on."""
    jobs = [(2, F(3, 2)), (3, F(1))] * 4
    runs = approximation_ratio.run_plain(4, jobs)
    assert [run.job for run in runs] == list(range(8))
    assert [run.end for run in runs][1::2] == [F(3, 4) + F(5, 2) * i for i in (1, 2, 3, 4)]
    better = (1 + 2 + 3 + 4) + 2 * (4 + F(3, 2)) + 2 * (4 + 3)
    assert approximation_ratio.in_turns(2) == total_completion(runs) / better


def test_a_schedule_that_does_not_fit_is_refused() -> None:
    with pytest.raises(AssertionError, match="capacity"):
        approximation_ratio.checked((PlacedRun(0, F(0), F(2), (2,)), PlacedRun(1, F(1), F(2), (1,))), 2)


def test_one_a_slot_by_hand() -> None:
    runs = approximation_ratio.run_plain(3, [(1, F(1))] * 3, slots=True)
    assert [(run.start, run.end) for run in runs] == [(1, 2), (2, 3), (3, 4)]
    assert approximation_ratio.one_a_slot(3) == F(9, 3)


# -- what is printed -------------------------------------------------------------------------------------------------


def test_figure_2_says_what_the_instance_says() -> None:
    found = {row.quantity: row for row in graph_cuts.figure_2().rows}
    assert found["MB on it"].computed == "20"
    assert found["bytes cut: the least possible"].computed == "9000000"
    assert all(row.agrees for row in found.values())


def test_one_network_is_misprinted() -> None:
    wrong = {row.quantity for row in reported_results.table_1().rows if not row.agrees}
    misprinted = {
        name.removeprefix("asrpt/")
        for name in instances.names()
        if name.startswith("asrpt/") and any(printed.misprinted for printed in instances.expected(name).values())
    }
    assert (wrong, misprinted) == ({"XLNet-large"}, {"xlnet-large"})


def test_order_of_starts_is_looked_at_in_pairs() -> None:
    case = stored_case("asrpt/larger-later")
    assert queue_order.in_virtual_order(case).slack >= 0
    assert queue_order.smaller_starts_first(case).slack == F(-1, 2)


def test_a_job_of_the_library_has_the_case_s_numbers() -> None:
    case = stored_case("asrpt/alpha-fewest-servers")
    job: Job = case.instance.jobs[0]
    assert [(s.replicas, s.parameter_bytes, s.output_bytes) for s in job.stages] == [(2, 2, 1), (4, 2, 0)]
    assert all(s.nic_bytes_per_s == 3 for s in case.instance.cluster.servers)
