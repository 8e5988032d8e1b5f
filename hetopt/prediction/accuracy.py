"""How good predictions are: figures and picture as in A-SRPT's Fig. 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from hetopt.checks import at_least, members
from hetopt.data.entities import Floats
from hetopt.data.workload import Job
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.prediction.predictors import Predictor
from hetopt.presentation.allocation_pictures import COLOURS, check_picture_path, save_figure
from hetopt.presentation.fonts import label, lettering
from hetopt.tolerances import EQUAL

PERCENT = (0, 1, 5, 10, 25, 50, 100)
"""Relative errors, in percent of the actual work, within which :func:`errors` counts jobs."""

LINES = ("-", "--", ":", "-.")
"""Styles in turn, so that lines that lie on each other are both seen."""


class Trial(NamedTuple):
    """What predictors said of jobs that they had not seen.

    Attributes
    ----------
    predicted:
        Name of the predictor -> (n,) predicted work.
    actual:
        (n,) work.
    """

    predicted: Mapping[str, Floats]
    actual: Floats


def trial(predictors: Mapping[str, Predictor], jobs: Sequence[Job], trained: float = 0.8) -> Trial:
    """Let predictors learn from the first jobs and predict the others [ASRPT, section V-A].

    Parameters
    ----------
    predictors:
        By the names under which they are to appear.
    jobs:
        In the order in which they came.
    trained:
        Share of the jobs that are learnt from, between 0 and 1.

    Raises
    ------
    InvalidOption
        ``trained`` is not between 0 and 1, or leaves no job to learn from or to predict.
    """
    jobs = members(jobs, Job, "jobs")
    first = int(at_least(trained, "trained", 0.0, InvalidOption) * len(jobs))
    if not 0 < first < len(jobs):
        raise InvalidOption(
            f"trained is {trained!r}, so {first} of {len(jobs)} jobs are learnt from; some must be, and some left"
        )
    predicted = {}
    for name, predictor in predictors.items():
        learner = predictor.learner()
        learner.observe(jobs[:first])
        predicted[name] = learner.predict(jobs[first:])
    return Trial(predicted, np.array([job.work for job in jobs[first:]]))


def errors(predicted: Mapping[str, ArrayLike], actual: ArrayLike) -> pd.DataFrame:
    """The errors of predictors as a table.

    Parameters
    ----------
    predicted:
        Name of the predictor -> (n,) predicted work.
    actual:
        (n,) work > 0, in the same unit.

    Returns
    -------
    DataFrame
        A row for each predictor. ``within p %``: share of the jobs whose prediction is off by p percent of their work
        at most, up to rounding (a job predicted as 0 is off by 100 percent); ``mean absolute error``: in the unit of
        work, as in [ASRPT, Fig. 9].

    Raises
    ------
    InvalidInstance
        Numbers that are missing, negative or not finite, or work that is 0.
    """
    work = _numbers(actual, "actual")
    rows = {}
    for name, said in predicted.items():
        off = _relative(said, work, name)
        shares = {f"within {p} %": _share_within(off, p / 100) for p in PERCENT}
        rows[name] = {**shares, "mean absolute error": float(np.mean(off * work))}
    return pd.DataFrame.from_dict(rows, orient="index")


def draw(predicted: Mapping[str, ArrayLike], actual: ArrayLike, title: str = "") -> Figure:
    """Share of the jobs against the relative error of their prediction, a line for each predictor [ASRPT, Fig. 4].

    Parameters and errors are those of :func:`errors`.
    """
    work = _numbers(actual, "actual")
    grid = np.linspace(0.0, 1.0, 201)
    with lettering((title, *predicted)):
        figure = Figure(figsize=(7.0, 4.2), layout="constrained")
        axes = figure.subplots()
        for i, (name, said) in enumerate(predicted.items()):
            off = _relative(said, work, name)
            shares = [100 * _share_within(off, p) for p in grid]
            style = LINES[i % len(LINES)]
            axes.plot(100 * grid, shares, style, color=COLOURS[i % len(COLOURS)], label=label(name, i + 1, 40))
        axes.set_xlim(0, 100)
        axes.set_ylim(0, 102)
        axes.set_xlabel("error of the prediction, at most (% of the job's work)")
        axes.set_ylabel("jobs (%)")
        axes.set_title(title)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="lower right")
        figure.draw_without_rendering()
    return figure


def save(predicted: Mapping[str, ArrayLike], actual: ArrayLike, path: str | Path, title: str = "") -> Path:
    """Write the picture of :func:`draw` to ``path``, over what was there.

    Raises
    ------
    InvalidOption
        The ending of ``path`` is not .png, .svg or .pdf, or its folder does not exist.
    UnusableFile
        It cannot be written.
    """
    target = Path(path)
    check_picture_path(target)
    return save_figure(draw(predicted, actual, title), target)


def _relative(predicted: ArrayLike, work: Floats, name: str) -> Floats:
    said = _numbers(predicted, f"predicted[{name!r}]")
    if said.shape != work.shape:
        raise InvalidInstance(f"predicted[{name!r}] has {said.size} numbers; it must have {work.size}, as actual has")
    if not work.all():
        raise InvalidInstance(f"actual[{int(np.argmin(work))}] is 0; it must be > 0, since errors are relative to it")
    return np.asarray(np.abs(said - work) / work)


def _share_within(off: Floats, most: float) -> float:
    return float(np.mean(off <= most + EQUAL))


def _numbers(values: ArrayLike, key: str) -> Floats:
    try:
        numbers = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise InvalidInstance(f"{key} holds what is no number; it must be a list of numbers >= 0") from None
    if numbers.ndim != 1 or not numbers.size:
        raise InvalidInstance(f"{key} has the shape {numbers.shape}; it must be a list of one number or more")
    wrong = ~(np.isfinite(numbers) & (numbers >= 0))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InvalidInstance(f"{key}[{at}] is {numbers[at]:g}; it must be a finite number >= 0")
    return numbers
