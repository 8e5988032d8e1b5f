"""Search for inputs on which a method takes longest: ``python benchmarks/slow_inputs.py METHOD --tries 200``.

An evolutionary search over families and seeds: the slowest ones are changed in one setting at a time. The goal is CPU
time, relative to the median of the families that it starts from. What it finds is kept in `families.FOUND`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from families import GANGS, GPUS, MARKETS, NODES, ON_NODES, ROUNDS, SPEEDS, WEIGHTS, Family, jobs, market, on_nodes

import hetopt
from hetopt.models import ceei, fft, gavel, hadar, hadare, oef
from hetopt.models.hadar.utilities import UTILITIES
from hetopt.tolerances import GAP

SURVIVORS = 8
"""Inputs that are changed further."""


INPUTS: dict[str, tuple[Callable[..., hetopt.Instance], Sequence[Family]]] = {
    "tenants": (market, MARKETS),
    "jobs": (jobs, ROUNDS),
    "nodes": (on_nodes, ON_NODES),
}
"""Kind of inputs -> how one is drawn, and the families to begin with."""


@dataclass(frozen=True)
class Method:
    """What is timed.

    Attributes
    ----------
    run:
        Solves an instance.
    size, types, gpus:
        Size of the instances; nodes instead of GPUs for jobs on nodes.
    inputs:
        Kind of its inputs.
    """

    run: Callable[[hetopt.Instance], Any]
    size: int
    types: int
    gpus: int
    inputs: str = "tenants"

    def seconds(self, family: Family, seed: int) -> float:
        """CPU time for one input."""
        inst = INPUTS[self.inputs][0](family, seed, self.size, self.types, self.gpus)
        began = time.process_time()
        self.run(inst)
        return time.process_time() - began


def solving(formulation: hetopt.Formulation) -> Callable[[hetopt.Instance], Any]:
    """Solve this formulation."""
    return lambda inst: hetopt.solve(formulation, inst)


METHODS = {
    "oef-noncooperative": Method(solving(oef.noncooperative()), 5_000, 10, 550),
    "oef-cooperative": Method(solving(oef.cooperative()), 200, 10, 550),
    "ceei": Method(solving(ceei.equal_budgets()), 1_000, 3, 300),
    "max-min": Method(solving(gavel.max_min_fairness()), 2_048, 3, 1_536, inputs="jobs"),
    "makespan": Method(solving(gavel.makespan()), 2_048, 3, 1_536, inputs="jobs"),
    "finish-time fairness": Method(solving(gavel.finish_time_fairness()), 2_048, 3, 1_536, inputs="jobs"),
    "mean completion time": Method(solving(gavel.mean_completion_time()), 2_048, 3, 1_536, inputs="jobs"),
    "fft": Method(fft.FFT(options=hetopt.Options(gap=100 * GAP)), 4_000, 8, 1_000, inputs="jobs"),
    "hadar": Method(hadar.Hadar(), 2_048, 3, 60, inputs="nodes"),
    "hadare": Method(hadare.HadarE(), 2_048, 3, 60, inputs="nodes"),
}


def changed(draw: np.random.Generator, family: Family, inputs: str) -> Family:
    """``family`` with one other setting."""
    choices: dict[str, Sequence[Any]] = {
        "speeds": list(SPEEDS),
        "second": ["", *SPEEDS],
        "gpus": list(GPUS),
        "weights": list(WEIGHTS),
        "power": [0.1, 0.3, 1.0, 2.0, 4.0],
        "spread": [0.0, 1.0, 3.0, 6.0],
        "noise": [0.0, 10.0**-9, 10.0**-6, 0.001, 0.1, 1.0],
        "digits": [0, 1, 2, 3],
    }
    if inputs != "tenants":
        choices["gangs"] = list(GANGS)
    if inputs == "nodes":
        choices |= {
            "nodes": list(NODES),
            "utility": [u for u in UTILITIES if "deadline" not in u],
            "cards": [0.0, 0.5, 2.0, 4.0],
        }
    name = str(draw.choice(list(choices)))
    options = choices[name]
    return replace(family, **{name: options[int(draw.integers(len(options)))]})


def slowest(
    method: Method, tries: int, seed: int = 0, report: Callable[[str], None] = print
) -> list[tuple[float, Family, int]]:
    """The inputs tried, slowest first: (CPU seconds, family, seed)."""
    draw = np.random.default_rng(seed)
    found = [(method.seconds(family, 0), family, 0) for family in INPUTS[method.inputs][1]]
    median = statistics.median(seconds for seconds, _, _ in found)
    known = {(family, number) for _, family, number in found}
    worst = 0.0
    for _ in range(tries):
        found.sort(key=lambda each: -each[0])
        if found[0][0] > worst:
            worst, family, number = found[0]
            report(f"{worst:.3f} s, {worst / median:.1f} times the median: {family.name}; seed {number}")
        _, family, number = found[min(int(draw.integers(SURVIVORS)), len(found) - 1)]
        if draw.random() < 0.2:
            number = int(draw.integers(1_000))
        else:
            family = changed(draw, family, method.inputs)
        if (family, number) in known:
            continue
        known.add((family, number))
        try:
            found.append((method.seconds(family, number), family, number))
        except hetopt.HetoptError as problem:
            report(f"{problem}: {family.name}; seed {number}")
    return sorted(found, key=lambda each: -each[0])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("--tries", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    for seconds, family, number in slowest(METHODS[chosen.method], chosen.tries, chosen.seed)[:10]:
        print(f"{seconds:.3f} s  {family}  seed {number}")


if __name__ == "__main__":
    main()
