"""Small training jobs to try a cluster with: ``python -m hetopt.executor.demos.numpy_mlp``."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from hetopt.executor import Lease, lease


def run(train: Callable[[Lease, float, int], None]) -> None:
    """Read the options, and call ``train(job, seconds, seed)`` under the lease; a step takes at least these seconds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pace", action="append", default=[], help="TYPE=STEPS_PER_SECOND, to make slots unlike")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    pace = {kind: float(rate) for kind, _, rate in (pair.partition("=") for pair in options.pace)}
    with lease() as job:
        train(job, 1 / min((pace[t] for t in job.gpu_types if t in pace), default=float("inf")), options.seed)
