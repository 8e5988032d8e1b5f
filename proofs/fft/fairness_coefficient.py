"""Section 4.2.2: in which rounds the fairness coefficient mu increases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from hetopt.data.instance import Instance
from hetopt.data.rationals import number_text
from hetopt.proofs.fft.compensation import FAIR
from hetopt.proofs.fft.round_cases import RoundCase, RoundJob
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import Timeline, TimelineBar
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import (
    CaseNumbers,
    Space,
    TableShape,
    ValueChooser,
    hypothesis,
    integers,
)

F = Fraction


@dataclass(frozen=True)
class ArrivalCase:
    """Jobs of one GPU and ``rounds`` rounds that arrive over time; none completes before the last arrival.

    Attributes
    ----------
    rounds:
        p.
    gpus:
        Y, of one type.
    arrivals:
        Round of each arrival, the first 0.
    """

    rounds: int
    gpus: int
    arrivals: tuple[int, ...]

    @cached_property
    def instance(self) -> Instance:
        """The instance when all jobs are present."""
        gangs = tuple(RoundJob(1, F(self.rounds), (F(1),), a) for a in self.arrivals)
        return RoundCase(gangs, (self.gpus,), max(self.arrivals)).instance

    def mu(self, time: int) -> Fraction:
        """Mu of the first job."""
        present = sum(a <= time for a in self.arrivals)
        return time / (self.rounds * max(F(1), F(present, self.gpus)))


def _arrivals(numbers: CaseNumbers) -> ArrivalCase:
    rounds, gpus = int(numbers.one("rounds")), int(numbers.one("gpus"))
    return ArrivalCase(rounds, gpus, tuple(map(int, numbers.row("arrival"))))


@hypothesis("$j$ arrives in round 0")
def from_the_start(case: ArrivalCase) -> bool:
    """The first job is present in all rounds."""
    return case.arrivals[0] == 0


@hypothesis("no job is complete: all jobs arrive before round $p_j$, and rounds up to $p_j$ are considered")
def before_completions(case: ArrivalCase) -> bool:
    """Jobs arrive only."""
    return max(case.arrivals) < case.rounds


def _some_arrivals(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
    arrival = [F(0), *(choose(integers(0, 5)) for _ in range(sizes["n"] - 1))]
    rounds = max(arrival) + choose(integers(1, 3))
    return CaseNumbers.of(rounds=rounds, gpus=choose(integers(1, 3)), arrival=arrival)


ARRIVALS = Space(
    {"n": (1, 5)},
    {
        "rounds": TableShape(1, 1, integers(1, 8)),
        "gpus": TableShape(1, 1, integers(1, 3)),
        "arrival": TableShape(1, "n", integers(0, 5)),
    },
    _arrivals,
    _some_arrivals,
    (
        FAIR,
        from_the_start,
        before_completions,
    ),
)


def mu_grows(case: ArrivalCase, *, undisturbed: bool = False) -> Finding:
    """Whether mu of the first job increases in every round, or with ``undisturbed`` in rounds without an arrival."""
    later = [t for t in range(case.rounds - 1) if not (undisturbed and t + 1 in case.arrivals)]
    least, t = min(((case.mu(t + 1) - case.mu(t), t) for t in later), default=(F(1), 0))
    present = sum(a <= t + 1 for a in case.arrivals)
    words = (
        f"jobs of {case.rounds} rounds arrive in rounds {', '.join(map(str, case.arrivals))} on {case.gpus} GPU(s): mu "
        f"of the first job is {number_text(case.mu(t))} in round {t} and {number_text(case.mu(t + 1))} in round "
        f"{t + 1}, with {present} jobs present"
    )
    arrivals = enumerate(case.arrivals, 1)
    bars = tuple(TimelineBar(f"j{j} is present", F(a), F(case.rounds), f"j{j}") for j, a in arrivals)
    return Finding(least, words, ("mu of every round in fractions",), (Timeline("jobs present", bars, "rounds"),))


CLAIMS = (
    Claim(
        key="fft/mu-grows",
        place="section 4.2.2",
        statement=r"The fairness coefficient $\mu_j(t) = (t - a_j)/(\tau_j - a_j)$ increases with the duration a job "
        "has stayed in the cluster.",
        quote="To this end, the scheduler adopts a dynamic fairness coefficient that increases with the duration a job "
        "has stayed in the cluster.",
        procedure=ForAll(ARRIVALS, mu_grows),
        expected=ClaimVerdict.FALSE,
        instead="fft/mu-grows-constant",
        note=r"$\tau_j$ is estimated again when jobs arrive, and increases with the number of jobs.",
    ),
    Claim(
        key="fft/mu-grows-constant",
        place="section 4.2.2",
        statement=r"$\mu_j$ increases from one round to the next if no job arrives between them and the GPUs are the "
        "same.",
        quote=r"When a job has been starved for a long time, $\mu_j(t)$ can become quite large due to its increasing "
        "trend over time.",
        procedure=ForAll(ARRIVALS, lambda case: mu_grows(case, undisturbed=True)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
The age $t - a_j$ increases by 1. $\tau_j - a_j = p_j \max(1,\, d_j |A| / \sum_i Y_i)$ does not increase while $|A|$
does not; the same is true of the paper's estimate on $1/|A|$ of the cluster.""",
    ),
)
