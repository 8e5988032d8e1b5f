"""Tables I and II, and results that the paper measured."""

from __future__ import annotations

from fractions import Fraction

from hetopt import instances
from hetopt.models.asrpt.networks import network
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict
from hetopt.proofs.ledger.procedures import (
    ByComputation,
    ComparedValue,
    Computation,
    Untestable,
    compare_number,
    compare_values,
)

F = Fraction

NETWORKS = (
    "vgg19",
    "resnet152",
    "inception-v3",
    "bert-large",
    "xlnet-large",
    "t5",
    "gpt-6.7b",
    "gpt-13b",
    "gpt-175b",
)

TOLERANCE = F(1, 20)
"""Relative tolerance of parameter counts, which differ e.g. in heads and vocabularies."""

JOBS = 758_223
"""Jobs of the trace, after cleaning [ASRPT, section V-A]."""


def parameters(name: str) -> ComparedValue:
    """A row of Table I against the network's published shape."""
    (text, _), *_ = instances.expected(f"asrpt/{name}")["network"].printed.values()
    unit = {"M": 10**6, "B": 10**9}[text[-1]]
    printed, derived = F(text[:-1]) * unit, network(name).parameters
    agrees = abs(derived - printed) <= TOLERANCE * printed
    return ComparedValue(network(name).name, text, f"{derived / unit:.4g}{text[-1]}", agrees)


def table_1() -> Computation:
    """All rows of Table I."""
    return Computation(tuple(map(parameters, NETWORKS)))


def table_2() -> Computation:
    """Consequences of the numbers of Table II."""
    vgg19, gpt = F("88.11") / F("82.96"), F("2288.12") / F("1.52")
    return Computation(
        (
            compare_number("VGG19, iteration, Heavy-Edge over ILP: 6% longer", "1.06", vgg19),
            compare_values("GPT-175B: Heavy-Edge over 1500 times as fast", True, gpt >= 1500),
            compare_values(
                "VGG19: under two milliseconds against 55 seconds and more", True, F("1.94") < 2 and F("55.31886") > 55
            ),
        ),
        f"88.11 / 82.96 = {float(vgg19):.3f}, 2288.12 / 1.52 = {float(gpt):.0f}",
    )


def shares() -> Computation:
    """Jobs of Fig. 6 as percentages of the trace."""
    return Computation(
        tuple(
            compare_number(f"{n:,} of {JOBS:,} jobs, %", p, F(100 * n, JOBS)) for n, p in ((37_500, 5), (150_000, 20))
        )
    )


def measured(key: str, place: str, statement: str, why: str) -> Claim:
    """A claim that cannot be computed here."""
    return Claim(
        key=f"asrpt/{key}",
        place=place,
        statement=statement,
        procedure=Untestable(why),
        expected=ClaimVerdict.UNTESTABLE,
    )


CLAIMS = (
    Claim(
        key="asrpt/table-1",
        place="Table I",
        statement="Parameters of the nine networks, to 5 %.",
        procedure=ByComputation(table_1),
        expected=ClaimVerdict.FALSE,
        note="Derived from the networks' published shapes. XLNet-large has 360 million parameters; the others agree.",
        policies=(),
    ),
    Claim(
        key="asrpt/table-2",
        place="Table II and section V-B",
        statement="Heavy-Edge's iteration is 6% longer than that of the ILP for VGG19, and it is 1500 times faster for "
        "GPT-175B.",
        procedure=ByComputation(table_2),
        expected=ClaimVerdict.TRUE,
        note="The quotients of the printed numbers. The worst case of Heavy-Edge is another question.",
    ),
    measured(
        "table-2-times",
        "Table II",
        "Milliseconds of iterations and of computing placements.",
        "averages over 20 patterns of free GPUs, which are not printed, nor are the numbers of GPUs, the profiles of "
        "the networks, or the formulation of the ILP",
    ),
    Claim(
        key="asrpt/fig-6-shares",
        place="section V-B",
        statement="37,500 to 150,000 jobs are 5% to 20% of the trace of 758,223 jobs.",
        procedure=ByComputation(shares),
        expected=ClaimVerdict.TRUE,
        policies=(),
    ),
    measured(
        "training-times",
        "sections IV-C and V-A",
        "Training the forest takes 80 s with 700,000 jobs, and 84 s with the first 80% of the 758,223 jobs.",
        "needs the trace and that machine; 80 % of the jobs are 606,578, so fewer jobs took longer",
    ),
    measured(
        "fig-4",
        "Fig. 4",
        "About 60% of the jobs are predicted correctly.",
        "needs the trace with the groups and users of its jobs, and the iterations that were assigned to them",
    ),
    measured(
        "fig-5",
        "Fig. 5",
        "On the testbed total flow times are 7% longer than with perfect predictions, and up to 44% shorter than "
        "those of the baselines.",
        "needs two GPUs split into 14, and the three sets of 75 jobs",
    ),
    measured(
        "fig-6-to-8",
        "Figs. 6 to 8",
        "In simulations total completion times are 31% to 91%, 16% to 57%, and 12% to 92% shorter than those of the "
        "baselines.",
        "depends on the sampled jobs, the assignment of networks to groups, the profiles, and the delay factor, none "
        "of which is printed",
    ),
    measured(
        "fig-9",
        "Fig. 9",
        "The average errors of random forest, median and mean are 369, 563 and 593 iterations; the forest's total is "
        "14% above that of perfect predictions.",
        "depends on the sampled jobs and on the iterations that were assigned to them",
    ),
)
