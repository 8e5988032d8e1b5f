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
        quote=r"As illustrated in Fig. 1(a), we observe varying acceleration effects ranging from $1.6\times$ to "
        r"$2.71\times$.",
        procedure=Untestable("measured on the authors' GPUs"),
        expected=ClaimVerdict.UNTESTABLE,
        policies=(),
    ),
    Claim(
        key="fft/solver-time",
        place="section 4.2.4, Fig. 13(a)",
        statement="The round of 4000 jobs on 1000 GPUs of eight types is solved in 1.53 seconds (two in section "
        "4.2.4).",
        quote="when scheduling a cluster of 1000 GPUs with eight types for 4000 jobs, the ILP-based solver introduces "
        "a mere overhead of 1.53 seconds.",
        procedure=Untestable("a time on the authors' machine, with inputs that are not published"),
        expected=ClaimVerdict.UNTESTABLE,
        note="In general the round is NP-hard: `fft/packing-hard`.",
    ),
    Claim(
        key="fft/jct-measured",
        place="sections 6.2.1, 6.3.1",
        statement="FFT reduces the JCT by 1.46 and 1.37 times compared to Gavel, 2.11 (PAL), up to 3.15 (Tiresias) "
        "and 5.22 times (AlloX), the makespan by up to 3.12 times; at a large scale by 1.74, 2.38 and 3.88 times.",
        quote=r"achieving significant JCT reductions of $1.46\times$ and $1.37\times$ compared to Gavel across both "
        "experimental traces.",
        procedure=Untestable(TRACES),
        expected=ClaimVerdict.UNTESTABLE,
    ),
    Claim(
        key="fft/fairness-measured",
        place="sections 6.2.2, 6.3.2",
        statement="FFT improves finish-time fairness by 1.64 and 1.67 times (mean) and 1.4 and 2.18 times (worst) "
        "compared to Gavel and Tiresias, at a large scale by 2.19 and 2.48, 1.99 and 2.52; the longest starvation by "
        "2.03 and 6.35. Of all jobs, 70% have a finish-time fairness below 1 (38% under Gavel, 49% under Tiresias).",
        quote=r"FFT reduces the mean FTF value by $1.64\times$ and $1.67\times$, and cut down the maximum FTF value by "
        r"$1.4\times$ and $2.18\times$ against Gavel and Tiresias, respectively.",
        procedure=Untestable(TRACES),
        expected=ClaimVerdict.UNTESTABLE,
        note='The abstract has "more than 2.2 times", section 1 "nearly 2.2 times".',
    ),
    Claim(
        key="fft/overheads-measured",
        place="sections 6.2.3 to 6.4.2",
        statement="63% of moves go to faster GPUs (49% under Gavel), with 1.46 times fewer switches, which take 1.59 "
        "times less time (1.28 times without datasets); placement gains "
        "5.2 and 12.4% of throughput, profiling costs up to 0.8%; errors of 30% in the work cost up to 17% of JCT; "
        "the simulator deviates from the cluster by 4.9%.",
        quote="63% of migrations were towards higher-end devices under FFT, while this number was only 49% under "
        "Gavel.",
        procedure=Untestable(TRACES),
        expected=ClaimVerdict.UNTESTABLE,
    ),
)
