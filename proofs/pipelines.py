"""Hypothesis strategies of jobs in stages and of servers, small enough to enumerate, in numbers that shrink."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from hetopt.data.workload import Job, Stage
from hetopt.stages.servers import Servers

NUMBERS = st.integers(0, 12)
"""Seconds and bytes; whole, so that fractions stay short."""


@st.composite
def staged_jobs(
    draw: st.DrawFn, *, most_gpus: int = 6, most_stages: int = 4, slices: bool = False, tokens: bool = False
) -> Job:
    """A job of a few stages; with ``slices`` and ``tokens`` some have tensor and expert parallelism."""
    stages: list[Stage] = []
    left = draw(st.integers(1, most_gpus))
    while left and len(stages) < most_stages:
        t = draw(st.sampled_from([1, 1, 2])) if slices and left >= 2 else 1
        k = draw(st.integers(1, left // t))
        left -= k * t
        numbers = {key: float(draw(NUMBERS)) for key in ("forward_s", "backward_s", "parameter_bytes")}
        more = {"output_bytes": float(draw(st.integers(1, 12)))}
        if t > 1:
            more["slice_bytes"] = float(draw(NUMBERS))
        if tokens:
            more["token_bytes"] = float(draw(NUMBERS))
        stages.append(Stage(k, **numbers, **more, slices=t))
    demand = sum(s.gpus for s in stages)
    return Job("job", {"GPU": 1.0}, work=float(draw(st.integers(1, 9))), demand=demand, stages=tuple(stages))


@st.composite
def servers_for(draw: st.DrawFn, gpus: int, *, most: int = 4, fast_inside: bool = True, alike: bool = False) -> Servers:
    """At most ``most`` servers with room for so many GPUs in all; by default B_intra >= B_inter / g on all of them."""
    free = draw(st.lists(st.integers(1, gpus), min_size=1, max_size=most))
    short = gpus - sum(free)
    free[draw(st.integers(0, len(free) - 1))] += max(0, short)
    count = 1 if alike else len(free)
    nic = draw(st.lists(st.integers(1, 4), min_size=count, max_size=count)) * (len(free) // count)
    least = max(nic) if fast_inside else 1
    intra = draw(st.lists(st.integers(least, least + 20), min_size=count, max_size=count)) * (len(free) // count)
    names = tuple(f"server{i + 1}" for i in range(len(free)))
    return Servers(names, np.array(free), np.array(nic, dtype=float), np.array(intra, dtype=float))
