"""Printed results: consistency of printed numbers, and claims that cannot be computed here."""

from __future__ import annotations

from fractions import Fraction

from hetopt.proofs.ledger.claim import Claim, ClaimVerdict
from hetopt.proofs.ledger.procedures import ByComputation, Computation, Untestable, compare_number

F = Fraction


def total_time_of_m5() -> Computation:
    """Section VI-C: total times of mix M-5 and the speedups derived from them."""
    return Computation(
        (
            compare_number("AWS, 4200 s over 3900 s", "1.18", F(4200, 3900)),
            compare_number("laboratory, 3300 s over 2800 s", "1.15", F(3300, 2800)),
        ),
        "4200 / 3900 is 1.08, and 3300 / 2800 is 1.18",
    )


def gains_over_hadar() -> Computation:
    """Section I: gains over Hadar, as quotients of the gains over Gavel of section VI-C."""
    return Computation(
        (
            compare_number("utilisation, AWS", "1.30", F("1.56") / F("1.20")),
            compare_number("utilisation, laboratory", "1.34", F("1.62") / F("1.21")),
            compare_number("mean completion time, AWS", "1.9", F("2.23") / F("1.17")),
            compare_number("mean completion time, laboratory", "2.24", F("2.76") / F("1.23")),
        )
    )


def utilisation_of_the_abstract() -> Computation:
    """The abstract's gain in utilisation against those of section VI-C."""
    return Computation(
        (
            compare_number("over Hadar, AWS", "1.45", F("1.56") / F("1.20")),
            compare_number("over Hadar, laboratory", "1.45", F("1.62") / F("1.21")),
        ),
        "section VI-C has 1.56 and 1.62 over Gavel, so 1.30 and 1.34 over Hadar",
    )


def reduction_of_the_abstract() -> Computation:
    """The abstract's reduction of total time against the speedup of section VI-C."""
    return Computation(
        (
            compare_number("reduction, AWS", "0.50", 1 - 1 / F("1.79")),
            compare_number("reduction, laboratory", "0.80", 1 - 1 / F("1.79")),
        ),
        "a mean speedup of 1.79 over Hadar reduces the total time by 44%",
    )


CLAIMS = (
    Claim(
        key="hadar/m5-speedups",
        place="section VI-C",
        statement="Mix M-5 takes some 4200 s (3300 s) under Gavel and 3900 s (2800 s) under Hadar on AWS (in the "
        "laboratory), a speedup of 1.18 (1.15).",
        procedure=ByComputation(total_time_of_m5),
        expected=ClaimVerdict.FALSE,
        note="The two speedups may have been swapped; then the other one is 1.08.",
    ),
    Claim(
        key="hadar/gains-over-hadar",
        place="section I",
        statement="HadarE gains 30% (34%) in utilisation and 90% (124%) in mean completion time over Hadar on AWS (in "
        "the laboratory).",
        procedure=ByComputation(gains_over_hadar),
        expected=ClaimVerdict.TRUE,
        note="Follows from the gains over Gavel in section VI-C: 1.56 and 1.20 (1.62 and 1.21), 2.23 and 1.17 (2.76 "
        "and 1.23).",
    ),
    Claim(
        key="hadar/abstract-utilisation",
        place="abstract",
        statement="The utilisation of HadarE is 1.45 times that of Hadar.",
        procedure=ByComputation(utilisation_of_the_abstract),
        expected=ClaimVerdict.FALSE,
        instead="hadar/gains-over-hadar",
        note="1.45 is the mean of the four gains over Hadar and over Gavel.",
    ),
    Claim(
        key="hadar/abstract-reduction",
        place="abstract",
        statement="HadarE reduces the total time by 50% on AWS and by 80% in the laboratory, compared with Hadar.",
        procedure=ByComputation(reduction_of_the_abstract),
        expected=ClaimVerdict.FALSE,
        note="Section VI-C has a mean speedup of 1.79 over Hadar, on both clusters together. A reduction by 80% would "
        "be a speedup of 5; section I calls the same numbers a gain.",
    ),
    Claim(
        key="hadar/trace-results",
        place="section IV",
        statement="In simulation Hadar completes 480 jobs in 40 h, and Gavel takes 1.21, Tiresias 1.35, YARN-CS 1.67 "
        "times as long (Figs. 3 to 5).",
        procedure=Untestable(
            "The 480 jobs are a random sample that is not printed. `hetopt reproduce hadar` compares the policies on "
            "another sample."
        ),
        expected=ClaimVerdict.UNTESTABLE,
    ),
    Claim(
        key="hadar/cluster-results",
        place="section VI",
        statement="Utilisation, total time, completion time, latency and slot length on two clusters (Figs. 8 to 13).",
        procedure=Untestable("The paper measured them on hardware; throughputs are not printed."),
        expected=ClaimVerdict.UNTESTABLE,
    ),
    Claim(
        key="hadar/table-5",
        place="Table V",
        statement="Models trained by copies are better than models trained without.",
        procedure=Untestable(
            "Qualities were measured once, on hardware. Measurements of the library's own averaging are in the "
            "documentation of HadarE."
        ),
        expected=ClaimVerdict.UNTESTABLE,
    ),
)
