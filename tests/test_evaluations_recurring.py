"""Recurring jobs after a past from which predictors have learnt."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

import hetopt
from hetopt import InvalidInstance, InvalidOption, instances
from hetopt.decisions.system import System
from hetopt.errors import HetoptError
from hetopt.experiments.experiment import Experiment, SystemVariant
from hetopt.experiments.run_folder import instance_of
from hetopt.experiments.run_store import RunStore
from hetopt.experiments.trace_workload import TraceWorkload, workload_of
from hetopt.models.asrpt import ASRPT, SPJF, networks
from hetopt.models.asrpt.asrpt_workload import GroupNetworks, with_networks
from hetopt.prediction.forest import RandomForest
from hetopt.prediction.predictors import GroupMean, Perfect, Pretrained
from hetopt.proofs.evaluations.hadar_trace import HadarTrace
from hetopt.proofs.evaluations.recurring import Recurring, RecurringTrace, draw_trace, fixed_predictions
from hetopt.registry import make_system
from hetopt.traces.pai_generator import PAILike

TRACE = RecurringTrace(400)
SMALL = Recurring(30, TRACE, skip=5, rate=0.5, servers=16)
CATALOGUE = [job for name in networks.NAMES for job in networks.configurations(name)]


def test_jobs_are_those_of_the_whole_trace() -> None:
    """The same as if the whole trace got its networks, and the jobs were taken from it."""
    cluster = instances.load("asrpt/cluster250").cluster
    whole = with_networks(PAILike().table(400, seed=3), CATALOGUE, cluster, seed=3).jobs
    found = SMALL.instance(3)
    assert found.jobs == tuple(replace(job, arrival=job.arrival / 0.5) for job in whole[325:355])
    assert found.time == found.jobs[0].arrival
    assert [s.name for s in found.cluster.servers] == [s.name for s in cluster.servers[:16]]


def test_a_predictor_knows_the_past_and_nothing_else() -> None:
    """The policy of a prepared system predicts as one that was taught by hand; it learns nothing from what finishes."""
    past = draw_trace(TRACE, 1).networks.jobs(draw_trace(TRACE, 1).past)
    assert len(past) == 320
    coming = SMALL.instance(1).jobs
    for predictor in (GroupMean(), RandomForest(trees=5)):
        system = SMALL.prepare(System.of(SPJF(predictor=predictor)), 1)
        assert isinstance(system.policy, SPJF)
        learner = system.policy.predictor.learner()
        taught = Pretrained(predictor, past).learner()
        before = learner.predict(coming)
        assert before.tolist() == taught.predict(coming).tolist()
        learner.observe(coming)
        assert learner.copy().predict(coming).tolist() == before.tolist()
        assert (before > 0).any()


def test_truth_and_what_has_no_predictor_stay_as_they_are() -> None:
    for system in (System.of(ASRPT()), make_system("gavel")):
        assert SMALL.prepare(system, 0) is system
        assert TraceWorkload("hadar/m1").prepare(system, 0) is system
        assert HadarTrace().prepare(system, 0) is system


@given(wrong=st.sampled_from([0.125, 0.5, 1.0]), seed=st.integers(0, 3))
def test_wrong_lengths_are_wrong_by_no_more(wrong: float, seed: int) -> None:
    workload = replace(SMALL, wrong=wrong)
    jobs = workload.instance(seed).jobs
    for policy in (ASRPT(), ASRPT(predictor=GroupMean())):
        prepared = workload.prepare(System.of(policy), seed).policy
        assert isinstance(prepared, ASRPT)
        off = prepared.predictor.learner().predict(jobs) / np.array([job.work for job in jobs]) - 1
        assert np.abs(off).max() <= wrong
        assert np.abs(off).max() > wrong / 2, "of thirty jobs one is far off"
        assert np.sign(off).min() < 0 < np.sign(off).max()


@given(nic=st.sampled_from([1.0, 25.0]), seed=st.integers(0, 2))
def test_cards_change_neither_jobs_nor_links_within(nic: float, seed: int) -> None:
    usual, other = SMALL.instance(seed), replace(SMALL, nic_gbps=nic).instance(seed)
    assert usual.jobs == other.jobs
    assert {s.nic_bytes_per_s for s in other.cluster.servers} == {nic * 125e6}
    assert {s.intra_bytes_per_s for s in other.cluster.servers} == {s.intra_bytes_per_s for s in usual.cluster.servers}


def test_the_testbed_has_room_for_all() -> None:
    """Networks that fit on 14 GPUs of 12 GB, and everything a tenth as long."""
    small = RecurringTrace(400, cluster="asrpt/testbed", shrink=0.125)
    jobs = Recurring(40, small).instance(0).jobs
    plain = PAILike().table(400, seed=0).iloc[320:360]
    assert [job.arrival for job in jobs] == (plain["arrival"] / 8).tolist()
    assert all(job.demand <= 14 and job.memory_bytes <= 12e9 and set(job.throughput) == {"vGPU"} for job in jobs)
    least = [draw_trace(small, 0).networks.seconds(job) for job in jobs]
    assert [job.work for job in jobs] == [
        max(1.0, d / 8 / s) for d, s in zip(plain["duration"].tolist(), least, strict=True)
    ]


def test_it_is_stored_and_made_again(tmp_path: Path) -> None:
    """A run with it cannot be repeated, but its instance can be built from the stored data."""
    experiment = Experiment((SMALL,), (SystemVariant("asrpt", {"predictor": "mean"}, label="asrpt"),), (1,))
    store = RunStore(tmp_path)
    assert len(experiment.run(store)) == 1
    assert experiment.run(store) == []
    (run,) = store
    assert workload_of(json.loads(json.dumps(SMALL.as_settings()))) == SMALL
    assert instance_of(run) == SMALL.instance(1)
    system = SMALL.prepare(make_system("asrpt", {"predictor": "mean"}), 1)
    log = hetopt.simulate(system, SMALL.instance(1))
    assert run.record.summary["total_flow"] == pytest.approx(log.jobs["jct"].sum())
    assert SMALL.cluster == "16 servers of asrpt/cluster250"
    assert workload_of(TraceWorkload("hadar/m1").as_settings()) == TraceWorkload("hadar/m1")
    assert workload_of(HadarTrace().as_settings()) == HadarTrace()


@dataclass
class Changing:
    """A predictor that cannot be hashed."""

    answer: float = 2.0

    def learner(self) -> Any:
        """What the mean says, times a number."""
        return GroupMean().learner()


def test_any_predictor_can_be_used() -> None:
    jobs = draw_trace(TRACE, 0).networks.jobs(draw_trace(TRACE, 0).later)
    assert (
        fixed_predictions(TRACE, 0, Changing()).predict(jobs).tolist()
        == fixed_predictions(TRACE, 0, GroupMean()).predict(jobs).tolist()
    )
    assert fixed_predictions(TRACE, 0, Perfect()).predict(jobs).tolist() == [job.work for job in jobs]


@pytest.mark.parametrize(
    ("wrong", "error", "key", "match"),
    [
        (lambda: RecurringTrace(3), InvalidOption, "Trace.jobs", None),
        (lambda: RecurringTrace(50, shrink=0.0), InvalidOption, "Trace.shrink", None),
        (lambda: RecurringTrace(50, single_gpu=2.0), InvalidOption, "PAILike.single_gpu", None),
        (lambda: Recurring(0, TRACE), InvalidOption, "Recurring.jobs", None),
        (lambda: Recurring(70, TRACE, skip=20), InvalidOption, "Recurring.skip", "the 80 jobs"),
        (lambda: replace(SMALL, wrong=1.5), InvalidOption, "Recurring.wrong", "at most 1"),
        (lambda: replace(SMALL, rate=0), InvalidOption, "Recurring.rate", None),
        (lambda: replace(SMALL, nic_gbps=-1), InvalidOption, "Recurring.nic_gbps", None),
        (lambda: replace(SMALL, servers=251), InvalidOption, "Recurring.servers", None),
        (lambda: workload_of({"made_by": "hetopt.nowhere:It"}), InvalidInstance, None, "do not describe a workload"),
        (lambda: workload_of({"colour": "red"}), InvalidInstance, None, "do not describe a workload: .*colour"),
        (
            lambda: GroupNetworks({}).jobs(PAILike().table(1)),
            InvalidInstance,
            None,
            "job 'j1' is of group 'g1', for which no",
        ),
    ],
)
def test_what_cannot_be_is_refused(wrong: Any, error: type[HetoptError], key: str | None, match: str | None) -> None:
    with refused(error, key, match):
        wrong()
