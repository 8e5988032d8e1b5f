"""Time a method on every family and seed, and report the median and the worst."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from families import Family, judging, tuning
from pytest_benchmark.fixture import BenchmarkFixture

Input = TypeVar("Input")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Times(Generic[Input, Result]):
    """CPU seconds of each run, by family; one thread each, so that other load on the machine counts little.

    Attributes
    ----------
    runs:
        (family, input, result) of each run; empty if each is checked at once.
    """

    seconds: dict[Family, list[float]] = field(default_factory=dict)
    runs: list[tuple[Family, Input, Result]] = field(default_factory=list)

    def of(self, families: Iterable[Family]) -> list[float]:
        """All times of these families."""
        return [seconds for family in families for seconds in self.seconds.get(family, ())]

    def summary(self, families: Sequence[Family]) -> dict[str, Any]:
        """Median and worst over all families, over those for choosing parameters, and over the rest."""
        result: dict[str, Any] = {}
        for name, part in (("all", families), ("tuning", tuning(families)), ("judging", judging(families))):
            if own := self.of(part):
                result[f"{name}: median, s"], result[f"{name}: worst, s"] = statistics.median(own), max(own)
        slowest = max(self.seconds, key=lambda family: max(self.seconds[family]))
        return {**result, "slowest family": slowest.name}


def sweep(
    benchmark: BenchmarkFixture,
    families: Sequence[Family],
    seeds: Iterable[int],
    make: Callable[[Family, int], Input],
    run: Callable[[Input], Result],
    check: Callable[[Family, Input, Result], None] | None = None,
) -> Times[Input, Result]:
    """Run on every family and seed; the summary goes to the benchmark's report.

    ``check`` takes each run, outside its time, so that not all inputs have to fit in memory.
    """
    times: Times[Input, Result] = Times()

    def every() -> None:
        for family in families:
            for seed in seeds:
                made = make(family, seed)
                gc.disable()  # else a run may pay for the collection of all that the process has
                try:
                    began = time.process_time()
                    result = run(made)
                    times.seconds.setdefault(family, []).append(time.process_time() - began)
                finally:
                    gc.enable()
                if check is None:
                    times.runs.append((family, made, result))
                else:
                    check(family, made, result)

    benchmark.pedantic(every, rounds=1)
    benchmark.extra_info |= times.summary(families)
    return times
