"""The jobs of Hadar's simulations: classes by their GPU-hours, the models of each class, and a generator.

Credit: "Microsoft Philly traces (Jeon et al., ATC 2019)" [Philly], CC-BY-4.0; modified: see
:class:`~hetopt.traces.philly_generator.PhillyLike`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from hetopt.checks import whole
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.traces.philly_generator import PhillyLike
from hetopt.traces.sampling import HOUR, streams
from hetopt.traces.trace_table import check_trace, leave_out, names_of, numbers_of

DRAWN_FROM = 20
"""Number of jobs like Philly's that are generated for each job that is drawn."""


class SizeClass(NamedTuple):
    """Jobs of more than ``above`` and up to ``most`` GPU-hours, with their models."""

    name: str
    above: float
    most: float
    models: tuple[str, ...]


CLASSES = (
    SizeClass("S", 0.0, 1.0, ("ResNet-18",)),
    SizeClass("M", 1.0, 10.0, ("CycleGAN",)),
    SizeClass("L", 10.0, 50.0, ("LM", "Transformer")),
    SizeClass("XL", 60.0, 100.0, ("ResNet-50",)),
)
"""From [Hadar, section IV-A] and [Hadar, Table III]; bounds belong to the smaller class."""

HOURS = range(2, 10)
"""[Hadar, section IV-A] draws from "the busiest hour range (hours 3-10)". Counted from one these are the eight hours
from 02:00 to 10:00, which Pollux also draws from in this trace [Pollux]: 34,105 of the 82,247 jobs. From 03:00 to 10:00
there are 30,270; the shares of the classes differ by 0.004 at most."""


def draw_jobs(table: pd.DataFrame, jobs: int, seed: int, most_gpus: int) -> tuple[pd.DataFrame, str]:
    """Draw jobs of a trace, each with a model of its class [Hadar, section IV-A].

    Eligible jobs are equally likely, and so are the models of a class (:data:`CLASSES`). Not eligible are jobs that
    arrived outside of :data:`HOURS` (if the table has a column ``hour``), need more than ``most_gpus`` GPUs, or are of
    no class: the paper leaves 50 to 60 and more than 100 GPU-hours open.

    Returns
    -------
    tuple
        A table with the columns ``job``, ``duration`` (whole seconds >= 1), ``gpus`` and ``model``, in the order of the
        given one; and a sentence with the number of eligible jobs, and of others by their first reason.

    Raises
    ------
    InvalidInstance
        The table is not one, a column is missing, a row is not a job, or there are fewer eligible jobs than ``jobs``.
    InvalidOption
        ``jobs`` is not a whole number >= 1, or ``seed`` not one >= 0.
    """
    jobs, (which, drawn) = whole(jobs, "jobs", 1), streams(seed, 2)
    rows, dropped = _candidates(table, most_gpus)
    if len(rows) < jobs:
        raise InvalidInstance(f"is {jobs}, but only {len(rows)} of the table can be drawn. {dropped}", "jobs")
    found = rows.iloc[np.sort(np.argsort(which.random(len(rows)), kind="stable")[:jobs])]
    pairs = zip(found["models"].tolist(), drawn.random(jobs).tolist(), strict=True)
    columns = {
        "job": found["job"],
        "duration": np.maximum(np.round(found["duration"]), 1.0),
        "gpus": found["gpus"],
        "model": np.array([models[int(level * len(models))] for models, level in pairs], dtype=object),
    }
    return pd.DataFrame(columns), f"{jobs} jobs drawn from {len(rows)} of a trace, all there at the start. {dropped}"


def _candidates(table: pd.DataFrame, most: int) -> tuple[pd.DataFrame, str]:
    """Eligible rows with the models of their class, and a sentence on the others."""
    locate = check_trace(table, ("job", "duration", "gpus"))
    seconds, gpus = numbers_of(table["duration"], locate), numbers_of(table["gpus"], locate, whole=True)
    hours = seconds * gpus / HOUR
    inside = [(size.above < hours) & (hours <= size.most) for size in CLASSES]
    reasons = {
        "came at other hours": ~table["hour"].isin(HOURS) if "hour" in table.columns else np.zeros(len(table), bool),
        "request more GPUs than there are": gpus > most,
        "are of no class by their GPU-hours": ~np.any(inside, axis=0),
    }
    left, counts = leave_out(reasons, len(table))
    columns = {
        "job": names_of(table["job"], locate, unique=True),
        "duration": seconds,
        "gpus": gpus.astype(np.int64),
        "models": [CLASSES[i].models for i in np.argmax(inside, axis=0).tolist()],
    }
    listed = "; ".join(f"{number} {reason}" for reason, number in counts.items())
    dropped = f"Not drawn from: {listed}." if listed else "Every job of it could be drawn."
    return pd.DataFrame(columns)[left], dropped


@dataclass(frozen=True)
class HadarJobs:
    """Generator of the jobs of Hadar's simulations, which all arrive at the start [Hadar, section IV-A].

    They are drawn from jobs like Philly's (:class:`~hetopt.traces.philly_generator.PhillyLike`), twenty times as many;
    each has a model of its class, of the catalogue ``hadar``, and its duration is one on V100. The instance
    ``hadar/trace480`` is one such drawing, without state and sizes of datasets.

    Parameters
    ----------
    most_gpus:
        Jobs that request more are not drawn. The paper's cluster has 60 GPUs, 20 of each type; a job of more than 20
        cannot run on one type alone, and only policies that mix types can place it.

    Raises
    ------
    InvalidOption
        It is not a whole number >= 1.

    Examples
    --------
    >>> HadarJobs().table(480)["model"].value_counts().to_dict()
    {'ResNet-18': 360, 'CycleGAN': 95, 'Transformer': 13, 'LM': 11, 'ResNet-50': 1}
    """

    most_gpus: int = 20

    def __post_init__(self) -> None:
        whole(self.most_gpus, "HadarJobs.most_gpus", 1)

    def table(self, jobs: int, seed: int = 0) -> pd.DataFrame:
        """Generate jobs with models that all arrive at 0, as :class:`~hetopt.traces.sampling.Generator`.

        Raises
        ------
        InvalidOption
            As there, or too few jobs are eligible.
        """
        trace = PhillyLike().table(DRAWN_FROM * whole(jobs, "jobs", 1), seed)
        try:
            found, _ = draw_jobs(trace, jobs, seed, self.most_gpus)
        except InvalidInstance as problem:
            raise InvalidOption(problem.problem, ("HadarJobs", *problem.path)) from None
        return found.reset_index(drop=True).assign(arrival=0.0)[["job", "arrival", "duration", "gpus", "model"]]
