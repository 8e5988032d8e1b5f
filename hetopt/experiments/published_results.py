"""Results that the four papers report for the systems, as far as :mod:`hetopt.metrics` measures them.

They are in ``published_results.csv``, each with its place in the paper. Left out are results that need hardware or
other tools (training quality, the effect of placement on speed, times of solvers, errors of predictors), and the
largest and smallest completion times of single mixes [Hadar, Fig. 10], which no metric covers. FFT's Gavel is
represented by the policy that FFT names [FFT, section 6.1.4], and by Gavel's default.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources
from string import ascii_lowercase
from typing import Any, Literal

from hetopt.checks import at_least, members, shown
from hetopt.errors import InvalidOption
from hetopt.metrics.definitions import METRICS

Bound = Literal["", "up to"]


def claim_of(result: str) -> str:
    """The number of the claim that the result with this id belongs to: OEF-035 for OEF-035b."""
    return result.rstrip(ascii_lowercase)


@dataclass(frozen=True)
class PublishedResult:
    """A number that a paper reports for one system, or for the ratio of two.

    Parameters
    ----------
    id:
        Number of the claim in its paper, with a letter if the claim has several numbers.
    paper, place, what:
        The paper, the section or figure, and the meaning of the number.
    metric:
        A name in :data:`hetopt.metrics.definitions.METRICS`.
    numerator:
        Names of the systems that may represent the reported one, or labels of variants.
    denominator:
        Systems that may represent the system of the denominator; empty if the number is not a ratio.
    value:
        The number: numerator over denominator (0.83 if the paper states 17 % less), or the value. Two numbers are the
        ends of a range.
    printed:
        The number as printed in the paper.
    workloads:
        Names of the corresponding workloads; None: none corresponds.
    bound:
        ``"up to"`` if the paper reports the largest of several cases.
    elsewhere:
        Whether to compare it on other workloads, too.
    together:
        Whether it is a mean over all ``workloads``.
    jobs, cluster:
        Number of jobs and cluster of the paper; None: not specified.
    note:
        Other remarks.

    Raises
    ------
    InvalidOption
        An unknown metric, no system, a number that is not positive, or more than two numbers.
    """

    id: str
    paper: str
    place: str
    what: str
    metric: str
    numerator: tuple[str, ...]
    denominator: tuple[str, ...]
    value: tuple[float, ...]
    printed: str
    workloads: tuple[str, ...] | None = None
    bound: Bound = ""
    elsewhere: bool = True
    together: bool = False
    jobs: int | None = None
    cluster: str | None = None
    note: str = ""

    def __post_init__(self) -> None:
        key = f"published result {self.id}"
        if self.metric not in METRICS:
            raise InvalidOption(f"is {shown(self.metric)}; it must be one of {', '.join(METRICS)}", f"{key}: metric")
        for side in ("numerator", "denominator"):
            object.__setattr__(self, side, members(getattr(self, side), str, f"{key}: {side}"))
        if not self.numerator:
            raise InvalidOption("is empty; name at least one system", f"{key}: numerator")
        numbers = tuple(at_least(v, f"{key}: value", 0.0, InvalidOption, strict=True) for v in self.value)
        if len(numbers) not in (1, 2) or list(numbers) != sorted(numbers):
            raise InvalidOption(f"is {self.value}; give one number, or two in order", f"{key}: value")
        object.__setattr__(self, "value", numbers)
        if self.together and not self.workloads:
            raise InvalidOption("is True without workloads; name those of the mean", f"{key}: together")

    @property
    def is_ratio(self) -> bool:
        """Whether it is the ratio of two systems."""
        return bool(self.denominator)

    def relative(self, measured: float) -> float:
        """``measured`` over the reported value; for a range over its closer end, and 1 inside."""
        return measured / min(max(measured, self.value[0]), self.value[-1])


def _load() -> tuple[PublishedResult, ...]:
    """Read the CSV file; several systems, workloads or values of one result are separated by spaces."""
    results = []
    text = resources.files(__package__).joinpath("published_results.csv").read_text("utf-8")
    row: dict[str, Any]
    for row in csv.DictReader(text.splitlines()):
        row |= {key: tuple(row[key].split()) for key in ("numerator", "denominator", "workloads")}
        row |= {key: row[key] == "yes" for key in ("elsewhere", "together")}
        row["value"] = tuple(map(float, row["value"].split()))
        row["jobs"] = int(row["jobs"]) if row["jobs"] else None
        row["cluster"] = row["cluster"] or None
        results.append(PublishedResult(**row))
    return tuple(results)


PUBLISHED_RESULTS = _load()
"""All results, by paper."""
