"""How alike the jobs of a group must be for predictions to be as good as a paper reports."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from hetopt.checks import at_least, expect
from hetopt.errors import InvalidOption
from hetopt.prediction.accuracy import trial
from hetopt.prediction.forest import RandomForest
from hetopt.prediction.predictors import Predictor
from hetopt.traces.jobs import as_jobs
from hetopt.traces.pai import PAILike


class Calibration(NamedTuple):
    """The result of :func:`calibrate`.

    Attributes
    ----------
    spread:
        For :class:`~hetopt.traces.pai.PAILike`.
    share:
        Share of the jobs that are predicted within the error then.
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
    """The largest spread at which a share of the jobs is predicted well: by default 60 % within 10 % [ASRPT, Fig. 4].

    A predictor (default: :class:`~hetopt.prediction.forest.RandomForest`) learns from the first 80 % of the jobs and
    predicts the rest. The spread is halved in again and again between 0 and 0.5. Jobs of groups that were not seen are
    always wrong, so not every share can be had: where even equal lengths are too hard, spread 0 is the result, with the
    share that it gives.

    Parameters
    ----------
    trace:
        The generator; its own spread does not matter.
    jobs:
        Length of the trace.
    share:
        Wanted share of the jobs, between 0 and 1.
    error:
        Relative error that counts as well predicted.
    seed:
        Of the trace.
    steps:
        Halvings: the spread is found to ``0.5 ** (steps + 1)``.

    Raises
    ------
    InvalidOption
        ``share`` is above 1, a number is negative, or there are too few jobs to learn from some and predict others.
    """
    expect(PAILike, trace, "trace", InvalidOption)
    if at_least(share, "share", 0.0, InvalidOption) > 1:
        raise InvalidOption(f"share is {share!r}; it must lie between 0 and 1")
    at_least(error, "error", 0.0, InvalidOption)
    predictor = RandomForest() if predictor is None else predictor

    def reached(spread: float) -> Calibration:
        said, actual = trial({"it": predictor}, as_jobs(replace(trace, spread=spread).table(jobs, seed)))
        return Calibration(spread, float((abs(said["it"] - actual) <= error * actual).mean()))

    best, above = reached(0.0), 0.5
    for _ in range(steps if best.share >= share else 0):
        middle = reached((best.spread + above) / 2)
        if middle.share >= share:
            best = middle
        else:
            above = middle.spread
    return best
