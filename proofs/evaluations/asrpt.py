"""A-SRPT's evaluation [ASRPT, section V].

What the paper leaves open is decided here; nothing is chosen by its result.

- The trace is generated (:class:`~hetopt.traces.pai_generator.PAILike`), since the public part of PAI's has neither
  groups nor users: 758,223 jobs in 63.9 days. Each group trains one of the paper's networks, whose times are derived
  from what is published of them (:mod:`hetopt.models.asrpt.networks`); a job's iterations are its duration over those
  on the fewest servers. Predictors learn from the first four fifths and from nothing later, as the paper trains its
  forest. The jobs that are scheduled are the first of the last fifth, at the rate at which they come in the trace.
- With a scale of s there are s times as many jobs in the trace and in each experiment. So that the cluster is loaded
  alike, it has the square root of s of its servers, at least 16 (twice what the largest job needs), and jobs come at as
  large a part of their rate; the time simulated is then about the square root of s of the whole.
- tau is 1 in simulations, for which the paper prints none, and 0 on the testbed.
- Fig. 5: two servers of 7 GPUs of 12 GB, as fast as those for which times are derived; only networks that they have
  room for. The three sets of 75 jobs are at the beginning, after a third and after two thirds of the last fifth.
- Fig. 7: the share is that of groups which use one GPU; of jobs it is about the same.
- Fig. 8: jobs take as many iterations as with cards of 10 Gbit/s.
- Fig. 9: 75,000 jobs. Means and medians are those of the group, 0 where it was not seen, as for the forest.
"""

from __future__ import annotations

from math import ceil, sqrt

from hetopt.experiments.experiment import Experiment, SystemVariant
from hetopt.proofs.evaluations.asrpt_findings import (
    BASELINES,
    FOREST,
    LENGTHS,
    NICS,
    OTHER_PREDICTORS,
    PERFECT,
    RATES,
    SHARES,
    SIZES,
    findings,
)
from hetopt.proofs.evaluations.evaluation import Evaluation, Finding, Part, Scale
from hetopt.proofs.evaluations.recurring import Recurring, Trace

TRACE, MOST = 758_223, 250
"""Jobs of the trace, and servers of the cluster."""

FEWEST = 16
"""Servers that a scaled cluster has at least."""

FIGS_7_TO_9 = 75_000
TESTBED_JOBS, TESTBED_SETS = 75, 3


def _asrpt(label: str, predictor: str, delay: float = 1.0) -> SystemVariant:
    return SystemVariant("asrpt", {"predictor": predictor, "delay": delay}, label=label)


def _baselines() -> tuple[SystemVariant, ...]:
    return tuple(SystemVariant(name, {"predictor": "forest"}, label=name) for name in BASELINES)


def parts(scale: Scale) -> tuple[Part, ...]:
    """The experiments of section V."""
    seeds, many, whole = scale.all_seeds, scale.count(FIGS_7_TO_9), trace_jobs(scale)
    servers = servers_of(scale)
    usual, rate = Trace(whole), servers / MOST

    def loaded(jobs: int, trace: Trace, name: str, **settings: float) -> Recurring:
        return Recurring(jobs, trace, **{"rate": rate, "servers": servers} | settings, name=name)  # type: ignore[arg-type]

    every = (_asrpt(FOREST, "forest"), *_baselines())
    sizes = tuple(loaded(scale.count(n), usual, f"jobs-{n}") for n in SIZES)
    rates = tuple(loaded(many, usual, f"rate-{100 * part:g}", rate=part * rate) for part in RATES)
    shares = tuple(loaded(many, Trace(whole, single_gpu=p), f"single-{100 * p:g}") for p in SHARES)
    cards = tuple(loaded(many, Trace(whole, single_gpu=0.0), f"nic-{nic:g}", nic_gbps=nic) for nic in NICS)
    small = Trace(whole, cluster="asrpt/testbed", shrink=0.1)
    third = (small.jobs - small.past) // TESTBED_SETS
    sets = tuple(Recurring(TESTBED_JOBS, small, i * third, name=f"set-{i + 1}") for i in range(TESTBED_SETS))
    testbed = (_asrpt(FOREST, "forest", 0.0), _asrpt(PERFECT, "perfect", 0.0), *_baselines())
    others = tuple(_asrpt(label, predictor) for label, predictor in OTHER_PREDICTORS.items())
    predictors = (every[0], *others, _asrpt(PERFECT, "perfect"))
    wrong = tuple(loaded(many, usual, f"wrong-{100 * part:g}", wrong=part) for part in LENGTHS)
    alone = (loaded(many, usual, "pai-like"),)
    return (
        Part("testbed", "Fig. 5: 14 vGPUs, three sets of 75 jobs", Experiment(sets, testbed, seeds), False),
        Part("jobs", "Fig. 6: 37,500 to 150,000 jobs", Experiment(sizes, every, seeds), False),
        Part("single", "Fig. 7: 80 to 0 % of the jobs on one GPU", Experiment(shares, every, seeds), False),
        Part("nic", "Fig. 8: network cards of 1 to 50 Gbit/s", Experiment(cards, every, seeds), False),
        Part("predictors", "Fig. 9: four predictors", Experiment(alone, predictors, seeds), False),
        Part(
            "lengths",
            "lengths wrong by a known part, beside predictors",
            Experiment(wrong, predictors[:1], seeds),
            False,
        ),
        Part("rates", "jobs that come more slowly, since no load is printed", Experiment(rates, every, seeds), False),
    )


def servers_of(scale: Scale) -> int:
    """Servers of the scaled cluster."""
    return min(MOST, max(FEWEST, ceil(MOST * sqrt(scale.jobs))))


def trace_jobs(scale: Scale) -> int:
    """Jobs of the whole trace; enough that what comes after its past is as many as any experiment asks for."""
    return max(scale.count(TRACE), 5 * scale.count(max(SIZES)), 5 * TESTBED_SETS * TESTBED_JOBS)


_MACHINE = "depends on the machine, and is none of a simulation"

_MIG = "the paper measured a server split by MIG; scheduling takes no time here"

_QUEUE = (
    "jobs start in the order in which the virtual machine completes them, and nobody overtakes. Where the cluster is "
    "slower than the virtual machine, for which every gang fits and no card is slow, a queue grows that is served as "
    "it came: measured afterwards, most of the wait is there, see docs/how-to/reproduce-a-paper.md"
)

EVALUATION = Evaluation(
    "A-SRPT",
    parts,
    findings,
    why={
        "ASRPT-011": "the generator was calibrated to it: so alike are the jobs of a group",
        "ASRPT-012": f"{_MIG}; jobs of groups not seen before, which are predicted as 0 and go first however long they "
        "are, may be more than in the paper's trace: a fifth",
        "ASRPT-013": _MIG,
        **dict.fromkeys(("ASRPT-017", "ASRPT-018", "ASRPT-020"), _QUEUE),
        "ASRPT-021": "the mean error is ruled by the few longest jobs, and so by the tail of lengths that was fitted; "
        "a fully grown forest is the mean of the group but where the sample of a tree leaves the group out, so that it "
        "cannot be much better",
        "ASRPT-022": "the paper does not say how many jobs there are, nor what mean and median predict for new groups",
    },
    unmeasured=(
        Finding("ASRPT-010", "section V-A", "Training the forest", "84 s", 84.0, note=_MACHINE),
        Finding(
            "ASRPT-023",
            "Table II",
            "Heavy-Edge and integer program: time of an iteration, and of computing it",
            "88.11 and 82.96 ms",
            float("nan"),
            note="decided by `pytest benchmarks/test_asrpt.py --benchmark-only --size full`",
        ),
    ),
    for_all="trace and times of networks are derived from what is published, so that their load on the cluster is not "
    "the paper's, which prints none",
)
