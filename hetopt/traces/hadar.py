"""The jobs of Hadar's simulations: classes by their GPU-hours, the models of each class, and a generator.

Credit: "Microsoft Philly traces (Jeon et al., ATC 2019)" [Philly], CC-BY-4.0; modified: see
:class:`~hetopt.traces.philly.PhillyLike`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from hetopt.checks import whole
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.traces.columns import has, names, numbers, row_of
from hetopt.traces.drawing import streams
from hetopt.traces.philly import PhillyLike

HOUR = 3600.0
"""Seconds."""

DRAWN_FROM = 20
"""So many jobs like Philly's are generated for each that is drawn."""


class SizeClass(NamedTuple):
    """Jobs of more than ``above`` and up to ``most`` GPU-hours, and the models that they may train."""

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
"""From [Hadar, section IV-A] and [Hadar, Table III]. Where two classes meet, a job is of the smaller one."""

HOURS = range(2, 10)
"""[Hadar, section IV-A] draws from "the busiest hour range (hours 3-10)". Counted from one these are the eight hours
from 02:00 to 10:00, the same that Pollux draws from in this trace [Pollux]. Of the 82,247 jobs 34,105 came then; it
would be 30,270 from 03:00 to 10:00, and each class's share of them the same within 0.004."""


def drawn(table: pd.DataFrame, jobs: int, seed: int, most_gpus: int) -> tuple[pd.DataFrame, str]:
    """Jobs of a trace, each with a model of its class [Hadar, section IV-A].

    Every job that can be drawn is as likely as another, and so is every model of its class (:data:`CLASSES`). Not drawn
    are those that came outside of :data:`HOURS` (where the table says when), that ask for more GPUs than ``most_gpus``,
    or that are of no class: the text leaves 50 to 60 and more than 100 GPU-hours open.

    Returns
    -------
    tuple
        A table with the columns ``job``, ``duration`` (whole seconds >= 1), ``gpus`` and ``model``, in the order of the
        one given; and a sentence on how many could be drawn, and how many not, each counted for the first reason.

    Raises
    ------
    InvalidInstance
        The table is none, a column is missing, a row is no job, or there are fewer jobs to draw from than asked for.
    InvalidOption
        ``jobs`` is no whole number >= 1, or ``seed`` none >= 0.
    """
    jobs, (which, kinds) = whole(jobs, "jobs", 1), streams(seed, 2)
    rows, dropped = _candidates(table, most_gpus)
    if len(rows) < jobs:
        raise InvalidInstance(f"jobs is {jobs}, but only {len(rows)} of the table can be drawn. {dropped}")
    found = rows.iloc[np.sort(np.argsort(which.random(len(rows)), kind="stable")[:jobs])]
    pairs = zip(found["models"].tolist(), kinds.random(jobs).tolist(), strict=True)
    columns = {
        "job": found["job"],
        "duration": np.maximum(np.round(found["duration"]), 1.0),
        "gpus": found["gpus"],
        "model": np.array([models[int(level * len(models))] for models, level in pairs], dtype=object),
    }
    return pd.DataFrame(columns), f"{jobs} jobs drawn from {len(rows)} of a trace, all there at the start. {dropped}"


def _candidates(table: pd.DataFrame, most: int) -> tuple[pd.DataFrame, str]:
    """Rows that may be drawn, with the models of their class; and what is said of the others."""
    if not isinstance(table, pd.DataFrame):
        raise InvalidInstance(f"table is a {type(table).__name__}; it must be a pandas DataFrame")
    has(table, ("job", "duration", "gpus"), "table")
    place = row_of(table)
    seconds, gpus = numbers(table["duration"], place), numbers(table["gpus"], place, whole=True)
    hours = seconds * gpus / HOUR
    inside = [(size.above < hours) & (hours <= size.most) for size in CLASSES]
    reasons = {
        "came at other hours": ~table["hour"].isin(HOURS) if "hour" in table.columns else np.zeros(len(table), bool),
        "ask for more GPUs than there are": gpus > most,
        "are of no class by their GPU-hours": ~np.any(inside, axis=0),
    }
    left, said = np.ones(len(table), dtype=bool), []
    for reason, those in reasons.items():
        if number := int((left & np.asarray(those)).sum()):
            said.append(f"{number} {reason}")
        left &= ~np.asarray(those)
    columns = {
        "job": names(table["job"], place, unique=True),
        "duration": seconds,
        "gpus": gpus.astype(np.int64),
        "models": [CLASSES[i].models for i in np.argmax(inside, axis=0).tolist()],
    }
    dropped = f"Not drawn from: {'; '.join(said)}." if said else "Every job of it could be drawn."
    return pd.DataFrame(columns)[left], dropped


@dataclass(frozen=True)
class HadarJobs:
    """Generator of the jobs of Hadar's simulations, all there at the start [Hadar, section IV-A].

    They are drawn from jobs like Philly's (:class:`~hetopt.traces.philly.PhillyLike`), twenty times as many; each has a
    model of its class, of the catalogue ``hadar``, and its duration is one on V100. The instance ``hadar/trace480`` is
    one such drawing, without state and sizes of datasets.

    Parameters
    ----------
    most_gpus:
        Jobs that ask for more are not drawn. The paper's cluster has 60 GPUs, 20 of each type; a job of more than 20
        cannot run on one type alone, and only policies that mix types can place it.

    Raises
    ------
    InvalidOption
        It is no whole number >= 1.

    Examples
    --------
    >>> HadarJobs().table(480)["model"].value_counts().to_dict()
    {'ResNet-18': 360, 'CycleGAN': 95, 'Transformer': 13, 'LM': 11, 'ResNet-50': 1}
    """

    most_gpus: int = 20

    def __post_init__(self) -> None:
        whole(self.most_gpus, "HadarJobs.most_gpus", 1)

    def table(self, jobs: int, seed: int = 0) -> pd.DataFrame:
        """So many jobs.

        Parameters
        ----------
        jobs:
            How many, >= 1.
        seed:
            The same seed gives the same jobs.

        Returns
        -------
        DataFrame
            ``job`` (``j1``, ``j2``, …), ``arrival`` (0) and ``duration`` in seconds, ``gpus``, ``model``.

        Raises
        ------
        InvalidOption
            ``jobs`` is no whole number >= 1, or ``seed`` none >= 0, or too few ask for so few GPUs.
        """
        trace = PhillyLike().table(DRAWN_FROM * whole(jobs, "jobs", 1), seed)
        try:
            found, _ = drawn(trace, jobs, seed, self.most_gpus)
        except InvalidInstance as problem:
            raise InvalidOption(f"HadarJobs: {problem}") from None
        return found.reset_index(drop=True).assign(arrival=0.0)[["job", "arrival", "duration", "gpus", "model"]]
