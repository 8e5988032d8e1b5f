"""Errors of predictions, as in A-SRPT's Fig. 4; :func:`hetopt.presentation.line_charts.draw_errors` draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from hetopt.checks import at_least, members, shown
from hetopt.data.array_types import Floats
from hetopt.data.workload import Job
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.prediction.predictors import Predictor
from hetopt.tolerances import EQUAL

PERCENT = (0, 1, 5, 10, 25, 50, 100)
"""Relative errors, in percent of the actual work, up to which :func:`errors` counts jobs."""


class HoldOut(NamedTuple):
    """Predictions for jobs that were not used for training.

    Attributes
    ----------
    predicted:
        Name of the predictor -> (n,) predicted work.
    actual:
        (n,) work.
    """

    predicted: Mapping[str, Floats]
    actual: Floats


def hold_out(predictors: Mapping[str, Predictor], jobs: Sequence[Job], trained: float = 0.8) -> HoldOut:
    """Train predictors on the first jobs and predict the others [ASRPT, section V-A].

    Parameters
    ----------
    predictors:
        Name -> predictor.
    jobs:
        Jobs in order of arrival.
    trained:
        Share of the jobs for training, between 0 and 1.

    Raises
    ------
    InvalidOption
        ``trained`` is not between 0 and 1, or leaves no job for training or for prediction.
    """
    jobs = members(jobs, Job, "jobs")
    first = int(at_least(trained, "trained", 0.0, InvalidOption) * len(jobs))
    if not 0 < first < len(jobs):
        raise InvalidOption(
            f"is {shown(trained)}, so {first} of {len(jobs)} are for training; both parts need jobs", "trained"
        )
    predicted = {}
    for name, predictor in predictors.items():
        learner = predictor.learner()
        learner.observe(jobs[:first])
        predicted[name] = learner.predict(jobs[first:])
    return HoldOut(predicted, np.array([job.work for job in jobs[first:]]))


def errors(predicted: Mapping[str, ArrayLike], actual: ArrayLike) -> pd.DataFrame:
    """Errors of predictors as a table.

    Parameters
    ----------
    predicted:
        Name of the predictor -> (n,) predicted work.
    actual:
        (n,) work > 0, in the same unit.

    Returns
    -------
    DataFrame
        A row per predictor. ``within p %``: share of the jobs with an error of at most p percent of their work, up to
        rounding (the error of the prediction 0 is 100 percent); ``mean absolute error``: in the unit of work, as in
        [ASRPT, Fig. 9].

    Raises
    ------
    InvalidInstance
        A number is missing, negative or not finite, or a work is 0.
    """
    work = vector_of(actual, "actual")
    rows = {}
    for name, values in predicted.items():
        off = relative_errors(values, work, name)
        shares = {f"within {p} %": share_within(off, p / 100) for p in PERCENT}
        rows[name] = {**shares, "mean absolute error": float(np.mean(off * work))}
    return pd.DataFrame.from_dict(rows, orient="index")


def relative_errors(predicted: ArrayLike, work: Floats, name: str) -> Floats:
    """(n,) errors of one predictor, relative to the work."""
    values = vector_of(predicted, f"predicted[{name!r}]")
    if values.shape != work.shape:
        raise InvalidInstance(
            f"has {values.size} numbers; it must have {work.size}, as actual has", f"predicted[{name!r}]"
        )
    if not work.all():
        raise InvalidInstance(
            "is 0; it must be > 0, since errors are relative to it", f"actual[{int(np.argmin(work))}]"
        )
    return np.asarray(np.abs(values - work) / work)


def share_within(off: Floats, most: float) -> float:
    """Share of the errors up to ``most``."""
    return float(np.mean(off <= most + EQUAL))


def vector_of(values: ArrayLike, key: str) -> Floats:
    """Check that ``values`` are a vector of finite numbers >= 0; ``key`` is their name in errors."""
    try:
        numbers = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise InvalidInstance("holds values that are not numbers; it must be a list of numbers >= 0", key) from None
    if numbers.ndim != 1 or not numbers.size:
        raise InvalidInstance(f"has the shape {numbers.shape}; it must be a list of one number or more", key)
    wrong = ~(np.isfinite(numbers) & (numbers >= 0))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InvalidInstance(f"is {numbers[at]:g}; it must be a finite number >= 0", f"{key}[{at}]")
    return numbers
