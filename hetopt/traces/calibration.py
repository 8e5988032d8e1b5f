"""Fit the spread of lengths within groups of jobs to the accuracy of predictions that a paper reports."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from hetopt.checks import at_least, expect
from hetopt.errors import InvalidOption
from hetopt.prediction.accuracy import hold_out
from hetopt.prediction.forest import RandomForest
from hetopt.prediction.predictors import Predictor
from hetopt.traces.conversion import as_jobs
from hetopt.traces.pai_generator import PAILike


class Calibration(NamedTuple):
    """The result of :func:`calibrate`.

    Attributes
    ----------
    spread:
        Value for :class:`~hetopt.traces.pai_generator.PAILike`.
    share:
        Share of the jobs that are predicted within the error.
    """

    spread: float
    share: float


def calibrate(
    trace: PAILike,
    jobs: int,
    *,
    share: float = 0.6,
    error: float = 0.1,
    predictor: Predictor | None = None,
    seed: int = 0,
    steps: int = 7,
) -> Calibration:
    """Find the largest spread at which a share of the jobs is predicted well: 60 % within 10 % [ASRPT, Fig. 4].

    A predictor (default: :class:`~hetopt.prediction.forest.RandomForest`) trains on the first 80 % of the jobs and
    predicts the others. The spread is found by bisection between 0 and 0.5. Jobs of unseen groups are always wrong, so
    not every share is reachable: if even equal lengths miss it, the result is spread 0 with its share.

    Parameters
    ----------
    trace:
        The generator; its own spread is ignored.
    jobs:
        Number of jobs of the trace.
    share:
        The share of the jobs, between 0 and 1.
    error:
        Largest relative error of a good prediction.
    seed:
        Seed of the trace.
    steps:
        Bisections: the spread is found to ``0.5 ** (steps + 1)``.

    Raises
    ------
    InvalidOption
        ``share`` is above 1, a number is negative, or there are too few jobs to train on some and predict others.
    """
    expect(PAILike, trace, "trace", InvalidOption)
    at_least(share, "share", 0.0, InvalidOption, most=1.0)
    at_least(error, "error", 0.0, InvalidOption)
    predictors = {"": RandomForest() if predictor is None else predictor}

    def reached(spread: float) -> Calibration:
        predicted, actual = hold_out(predictors, as_jobs(replace(trace, spread=spread).table(jobs, seed)))
        return Calibration(spread, float((abs(predicted[""] - actual) <= error * actual).mean()))

    best, above = reached(0.0), 0.5
    for _ in range(steps if best.share >= share else 0):
        middle = reached((best.spread + above) / 2)
        if middle.share >= share:
            best = middle
        else:
            above = middle.spread
    return best
