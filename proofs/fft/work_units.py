"""Section 4.2.2: whether decisions depend on the unit of work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from hetopt.data.instance import Instance
from hetopt.proofs.fft.round_cases import RoundCase, RoundJob
from hetopt.proofs.fft.round_sequences import CONFIRMED, PlayedRound, confirmed_by_library, play_rounds, rounds_picture
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
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

GPU = (1,)
"""One GPU."""


@dataclass(frozen=True)
class WorkUnitCase:
    """Jobs of one GPU each, a GPU with one unit of work per round, and another unit of work.

    Attributes
    ----------
    gangs:
        The jobs, each with its arrival.
    unit:
        Number of new units per old unit.
    """

    gangs: tuple[RoundJob, ...]
    unit: Fraction

    @cached_property
    def instance(self) -> Instance:
        """All jobs in the old unit, at time 0."""
        return RoundCase(self.gangs, GPU).instance

    def in_new_units(self) -> tuple[RoundJob, ...]:
        """The jobs in the new unit."""
        return tuple(
            replace(gang, work=self.unit * gang.work, speed=tuple(self.unit * v for v in gang.speed))
            for gang in self.gangs
        )

    def runs(self, *, normalise: bool) -> list[RoundCase]:
        """The jobs in both units on the GPU."""
        return [RoundCase(gangs, GPU, normalise=normalise) for gangs in (self.gangs, self.in_new_units())]


def difference(case: WorkUnitCase, *, normalise: bool) -> tuple[list[PlayedRound], list[PlayedRound]] | None:
    """The rounds in both units up to the first round with different optima, or None without a difference."""
    old: list[PlayedRound] = []
    new: list[PlayedRound] = []
    for first, second in zip(*map(play_rounds, case.runs(normalise=normalise)), strict=False):
        old.append(first)
        new.append(second)
        if first.round.optima != second.round.optima:
            return old, new
    return None


def independent(case: WorkUnitCase, *, normalise: bool) -> Finding:
    """Whether the optima of all rounds are the same in both units."""
    runs = difference(case, normalise=normalise)
    if runs is None:
        return Finding(F(0), "the same plans in both units")
    last = [steps[-1].present[steps[-1].executed.index(0)] + 1 for steps in runs]
    words = (
        f"jobs of {', '.join(str(gang.work) for gang in case.gangs)} rounds that arrive in rounds "
        f"{', '.join(str(gang.arrival) for gang in case.gangs)}: in round {runs[0][-1].round.time} j{last[0]} runs "
        f"with one unit of work per round, and j{last[1]} with {case.unit} units"
    )
    titles = ("one unit of work per round", f"{case.unit} units of work per round")
    pictures = tuple(map(rounds_picture, titles, runs))
    confirmed = all(map(confirmed_by_library, case.runs(normalise=normalise), runs))
    return Finding(F(-1), words, CONFIRMED, pictures, confirmed)


def _jobs(numbers: CaseNumbers) -> WorkUnitCase:
    rows = zip(numbers.row("work"), numbers.row("arrival"), strict=True)
    gangs = tuple(RoundJob(1, work, (F(1),), int(arrival)) for work, arrival in rows)
    return WorkUnitCase(gangs, numbers.one("unit"))


@hypothesis("rounds are counted from the first arrival on")
def from_first_arrival(case: WorkUnitCase) -> bool:
    """The first job arrives in round 0."""
    return min(gang.arrival for gang in case.gangs) == 0


@hypothesis("the number $u$ of new units per unit is positive")
def positive_unit(case: WorkUnitCase) -> bool:
    """Units can be exchanged."""
    return case.unit > 0


def _some(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
    work = [choose(integers(1, 6)) for _ in range(sizes["n"])]
    arrival = [F(0), *(choose(integers(0, 4)) for _ in work[1:])]
    return CaseNumbers.of(work=work, arrival=arrival, unit=choose(integers(2, 10)))


UNITS = Space(
    {"n": (2, 3)},
    {
        "work": TableShape(1, "n", integers(1, 6)),
        "arrival": TableShape(1, "n", integers(0, 4)),
        "unit": TableShape(1, 1, integers(2, 10)),
    },
    _jobs,
    _some,
    (from_first_arrival, positive_unit),
)

CLAIMS = (
    Claim(
        key="fft/units",
        place="equations (4) to (6)",
        statement=r"The plans of FFT do not depend on the unit of work: $W_j$ and $\theta_j^i$ of all jobs may be "
        "multiplied by the same $u > 0$.",
        procedure=ForAll(
            UNITS,
            lambda case: independent(case, normalise=False),
            slack=lambda case: F(0) if difference(case, normalise=False) is None else F(-1),
        ),
        expected=ClaimVerdict.FALSE,
        printed=False,
        instead="fft/units-normalised",
        note=r"Units are, for example, epochs or iterations. $\rho_j$ is in units of work, so $\rho_j \theta_j^i$ "
        "increases with $u^2$ while the rest of the cost is unchanged. hetopt's policy does so with `normalise=False`.",
    ),
    Claim(
        key="fft/units-normalised",
        place="equations (4) to (6)",
        statement=r"With $\theta_j^i / W_j$ in place of $\theta_j^i$ in $\rho_j \theta_j^i$ and in equation (5), and "
        r"$1$ in place of $W_j$ there, the plans of FFT do not depend on the unit of work.",
        procedure=ForAll(UNITS, lambda case: independent(case, normalise=True)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
Work occurs only in $\theta_j^i / W_j$: in $\varphi_j^i$, in $\tau_j - a_j$, a multiple of $\min_i W_j / \theta_j^i$,
in $\mu_j$, in (5), and in the remaining fraction of the job. These are unchanged if both are multiplied by $u$, and so
are, by induction over the rounds, $\rho_j$, the costs and the plans.""",
        note="The default of hetopt's policy.",
    ),
)
