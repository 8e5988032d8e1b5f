"""Sections 2 and 6: measured results, and consequences of printed numbers."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from hetopt.proofs.ledger.claim import Claim, ClaimVerdict
from hetopt.proofs.ledger.procedures import (
    ByComputation,
    Computation,
    Untestable,
    compare_number,
    compare_values,
    rounds_to,
)
from hetopt.proofs.oef.tenant_cases import TenantCase

F = Fraction
HALF = F(1, 200)
"""Rounding error of a speedup that is printed with two decimals."""


def fig_1() -> Computation:
    """Compare max-min with cooperative OEF for VGG (1.39) and LSTM (2.15) on one GPU of each of two types."""
    ratios, losses = [], []
    for a, b in product((F(139, 100) - HALF, F(139, 100) + HALF), (F(215, 100) - HALF, F(215, 100) + HALF)):
        case = TenantCase(((F(1), a), (F(1), b)), (F(1), F(1)))
        found = case.cooperative
        split = [case.worth(e, case.gpus) / 2 for e in range(2)]
        ratios.append(case.worth(1, found.share[1]) / split[1])
        losses.append(1 - sum(split) / found.total)
    reached = any(rounds_to("1.18", ratio) for ratio in ratios)
    times, parts = (f"{float(min(found)):.3f} to {float(max(found)):.3f}" for found in (ratios, losses))
    words = f"User-2 has {times} times its throughput under max-min, and max-min loses {parts} of the total"
    rows = (
        compare_values("1.18 for some speedups that round to the printed ones", True, reached),
        compare_number("loss in total", "0.1", losses[0]),
    )
    return Computation(rows, words)


MEASURED = "measured by the authors on 24 GPUs and in their simulator, on traces that are not published"


def measured(key: str, place: str, statement: str, quote: str, *policies: str) -> Claim:
    """A claim about the paper's evaluation."""
    return Claim(
        key=f"oef/{key}",
        place=place,
        statement=statement,
        quote=quote,
        procedure=Untestable(MEASURED),
        expected=ClaimVerdict.UNTESTABLE,
        policies=policies,
    )


BOTH = ("oef-cooperative", "oef-noncooperative")
CLAIMS = (
    Claim(
        key="oef/fig-1",
        place="Fig. 1(b), section 2.3.3",
        statement="With one GPU of each of two types, User-2 (LSTM, speedup 2.15) beside User-1 (VGG, 1.39) has 1.18 "
        "times as much under cooperative OEF as under max-min, which loses about 10% of the total.",
        quote=r"Illustrated in Fig. 1(b), User-2 experiences a training throughput decline of $1.18\times$ "
        "compared to that achieved under our proposed scheduler OEF … In aggregate, the cluster's overall "
        "efficiency contracts by approximately 10%.",
        procedure=ByComputation(fig_1),
        expected=ClaimVerdict.TRUE,
        policies=("oef-cooperative", "equal-split"),
        note="For some speedups that round to the printed ones.",
    ),
    measured(
        "throughput-measured",
        "sections 6.2, 6.3.1",
        "OEF improves throughput by up to 1.16 times compared to max-min with four users, and the placer by a further "
        "1.24 times; with 20 tenants by 10% (non-cooperative) and 32% (cooperative; 20% estimated) compared to "
        "Gavel and Gandiva_fair.",
        "This significant improvement is further amplified to a 32% actual throughput increase, underscoring the "
        "impact of OEF's meticulous placement design.",
        *BOTH,
    ),
    measured(
        "tenants-measured",
        "section 6.2",
        "Four users have equal throughput after one leaves; a misreporting user gets less, and all lose 10%; each "
        "of two job types of a user has half of the other users' throughput.",
        "In this scenario, we observe that the deceptive user has been penalized, receiving less throughput than "
        "before cheating.",
        "oef-noncooperative",
    ),
    measured(
        "jct-measured",
        "section 6.3.2",
        "OEF reduces the JCT by 17% compared to Gandiva_fair and 19% compared to Gavel, with 14 and 26% fewer "
        "straggling workers.",
        r"OEF surpasses its counterparts, $\text{Gandiva}_{\text{fair}}$ and Gavel, in reducing job training time by "
        "17% and 19%, respectively.",
        *BOTH,
    ),
    measured(
        "profiling-measured",
        "section 6.4",
        "An error of 20% in the profile changes the efficiency by 3%; cooperative OEF takes longer to solve.",
        "As shown in Fig. 10(b), even given a profiling error up to 20%, OEF only yields a deviation about 3%, "
        "demonstrating its robustness in the presence of profiling error.",
        *BOTH,
    ),
)
