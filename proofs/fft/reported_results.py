"""Sections 2.2, 4.2.4 and 6: results measured on machines and traces that are not available."""

from __future__ import annotations

from hetopt.proofs.ledger.claim import Claim, ClaimVerdict
from hetopt.proofs.ledger.procedures import Untestable

TRACES = "measured by the authors on 36 GPUs and in their simulator, on traces that are not published"

CLAIMS = (
    Claim(
        key="fft/fig-1-speedups",
        place="Fig. 1(a)",
        statement="High-end GPUs accelerate deep learning jobs by 1.6 to 2.71 times.",
        procedure=Untestable("measured on the authors' GPUs"),
        expected=ClaimVerdict.UNTESTABLE,
        policies=(),
    ),
    Claim(
        key="fft/solver-time",
        place="section 4.2.4, Fig. 13(a)",
        statement="The round of 4000 jobs on 1000 GPUs of eight types is solved in 1.53 seconds (two in section "
        "4.2.4).",
        procedure=Untestable("a time on the authors' machine, with inputs that are not published"),
        expected=ClaimVerdict.UNTESTABLE,
        note="In general the round is NP-hard: `fft/packing-hard`.",
    ),
    Claim(
        key="fft/jct-measured",
        place="sections 6.2.1, 6.3.1",
        statement="FFT reduces the JCT by 1.46 and 1.37 times compared to Gavel, 2.11 (PAL), up to 3.15 (Tiresias) "
        "and 5.22 times (AlloX), the makespan by up to 3.12 times; at a large scale by 1.74, 2.38 and 3.88 times.",
        procedure=Untestable(TRACES),
        expected=ClaimVerdict.UNTESTABLE,
    ),
    Claim(
        key="fft/fairness-measured",
        place="sections 6.2.2, 6.3.2",
        statement="FFT improves finish-time fairness by 1.64 and 1.67 times (mean) and 1.4 and 2.18 times (worst) "
        "compared to Gavel and Tiresias, at a large scale by 2.19 and 2.48, 1.99 and 2.52; the longest starvation by "
        "2.03 and 6.35.",
        procedure=Untestable(TRACES),
        expected=ClaimVerdict.UNTESTABLE,
        note='The abstract has "more than 2.2 times", section 1 "nearly 2.2 times".',
    ),
    Claim(
        key="fft/overheads-measured",
        place="sections 6.2.3 to 6.4.2",
        statement="63% of moves go to faster GPUs (49% under Gavel), with 1.46 times fewer switches; placement gains "
        "5.2 and 12.4% of throughput, profiling costs up to 0.8%; errors of 30% in the work cost up to 17% of JCT; "
        "the simulator deviates from the cluster by 4.9%.",
        procedure=Untestable(TRACES),
        expected=ClaimVerdict.UNTESTABLE,
    ),
    Claim(
        key="fft/dual-method",
        place="section 4.2.5",
        statement=r"The algorithm is the first step of a dual approach, $\rho_j$ the multiplier and $\mu_j$ the "
        "learning rate.",
        procedure=Untestable("an interpretation without computable consequences"),
        expected=ClaimVerdict.UNTESTABLE,
        note="The paper derives Theorems 4.1 and 4.2 from it.",
    ),
)
