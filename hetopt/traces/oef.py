"""The workloads of OEF's experiments [OEF, section 6], as far as the paper says what they are.

What it leaves open is decided here. Who trains what: the four users as in the instance ``oef/four-users``, others draw
one of the six models. Jobs of the four users run on one GPU, so that whole GPUs can follow the shares; those of others
on 1, 2 or 4, drawn evenly, 4 being a host's GPUs. Users and tenants have jobs for all GPUs that they may get; where
throughput alone is measured, their jobs never end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from hetopt.checks import at_least, whole
from hetopt.errors import InvalidOption
from hetopt.traces.drawing import Integers, Names, numbered, streams
from hetopt.traces.lengths import Lengths
from hetopt.traces.philly_batches import HOUR, LENGTHS, PhillyBatches

MODELS = ("VGG", "ResNet", "DenseNet", "LSTM", "RNN", "Transformer")
"""[OEF, section 6.1.2]."""

GANGS = (1, 2, 4)
"""GPUs of a job."""

USERS = {"User-1": "LSTM", "User-2": "Transformer", "User-3": "ResNet", "User-4": "VGG"}
"""User -> what it trains."""

SECOND = "DenseNet"
"""What User-1 trains besides from minute 40 on in [OEF, Fig. 5(b)]: something that nobody else does."""

MINUTE_40 = 2400.0
"""When User-4 quits, and when User-1 adds a type, in seconds."""

LEVEL = 8.5536
"""Normalised throughput of each of the four when all have the same, with the speeds of the catalogue ``oef`` on 8 GPUs
of each type (GPUs of speedup 1). User-4 has work for 40 minutes of it."""

JOBS_EACH = 24
"""A job for every GPU there is."""

ENDLESS = 1e7
"""Seconds on the slowest type: more than anybody gets."""

DAYS = 3
"""Within which the fifty tenants come."""

JOBS_OF_FIFTY = 1000
"""50 tenants with 20 jobs each on average."""

UP_TO_A_WORKING_DAY = replace(LENGTHS, longest=8 * HOUR)
"""As in FFT's traces for a testbed: longer jobs do not fit an evaluation of three days."""


@dataclass(frozen=True)
class FourUsers:
    """Generator of [OEF, section 6.2]: four users, each with a batch of jobs on one GPU, all there from the beginning.

    Jobs are dealt to the users (and to User-1's second type) in turn, so that 24 each (96, or 120 with a second type)
    are jobs for every GPU of the testbed.

    Parameters
    ----------
    quits:
        User-4's jobs take 40 minutes, shared equally among four, together; else nobody's ever end.
    second_type:
        User-1 adds jobs of another type at minute 40.

    Raises
    ------
    InvalidOption
        A setting that is neither true nor false.
    """

    quits: bool = True
    second_type: bool = False

    def __post_init__(self) -> None:
        for key in ("quits", "second_type"):
            if not isinstance(getattr(self, key), bool):
                raise InvalidOption(f"FourUsers.{key} is {getattr(self, key)!r}; it must be true or false")

    def table(self, jobs: int, seed: int = 0) -> pd.DataFrame:
        """So many jobs; nothing is drawn, so that all seeds give the same.

        Raises
        ------
        InvalidOption
            ``jobs`` is no whole number >= 1, or ``seed`` none >= 0.
        """
        jobs = whole(jobs, "jobs", 1)
        whole(seed, "seed", 0)
        batches = [*((user, model, 0.0) for user, model in USERS.items())]
        if self.second_type:
            batches.append(("User-1", SECOND, MINUTE_40))
        who = np.arange(jobs) % len(batches)
        user, model, arrival = ([batch[part] for batch in batches] for part in range(3))
        last = [self.quits and name == "User-4" for name in user]
        seconds = [LEVEL * MINUTE_40 / max(1, int((who == i).sum())) if end else ENDLESS for i, end in enumerate(last)]
        table = pd.DataFrame(
            {
                "arrival": np.array(arrival)[who],
                "duration": np.array(seconds)[who],
                "gpus": 1,
                "model": np.array(model, dtype=object)[who],
                "user": np.array(user, dtype=object)[who],
            }
        )
        return _in_order(table)


@dataclass(frozen=True)
class TwentyTenants:
    """Generator of [OEF, section 6.3.1]: tenants that are there all the time, each with jobs of one model.

    Jobs are dealt to the tenants in turn: 12 each (240) are jobs for every GPU of the testbed even where each has two.

    Parameters
    ----------
    tenants:
        How many.

    Raises
    ------
    InvalidOption
        No tenant.
    """

    tenants: int = 20

    def __post_init__(self) -> None:
        object.__setattr__(self, "tenants", whole(self.tenants, "TwentyTenants.tenants", 1))

    def table(self, jobs: int, seed: int = 0) -> pd.DataFrame:
        """So many jobs, none of which ends. The seed draws models and gangs.

        Raises
        ------
        InvalidOption
            ``jobs`` is no whole number >= 1, or ``seed`` none >= 0.
        """
        jobs = whole(jobs, "jobs", 1)
        models, gangs = streams(seed, 2)
        who = np.arange(jobs) % self.tenants
        return _in_order(_of_tenants(who, self.tenants, models, gangs).assign(arrival=0.0, duration=ENDLESS))


@dataclass(frozen=True)
class FiftyTenants:
    """Generator of [OEF, section 6.3.2]: tenants that come, each with a batch of jobs of one model, and go when done.

    Tenants come at any time of three days, as likely as at another; a part of the 1000 jobs comes in that part of the
    three days. Whose a job is is drawn evenly, so that tenants have as many on average. Lengths on the slowest type are
    those of :class:`~hetopt.traces.philly_batches.PhillyBatches` of at most 8 hours, alike within a batch as there.

    Parameters
    ----------
    tenants:
        How many; those for whom no job is drawn do not come.
    days:
        Within which they come, when there are 1000 jobs.
    lengths:
        Of the jobs.

    Raises
    ------
    InvalidOption
        No tenant, or no days.
    """

    tenants: int = 50
    days: float = DAYS
    lengths: Lengths = UP_TO_A_WORKING_DAY

    def __post_init__(self) -> None:
        object.__setattr__(self, "tenants", whole(self.tenants, "FiftyTenants.tenants", 1))
        object.__setattr__(self, "days", at_least(self.days, "FiftyTenants.days", 0.0, InvalidOption, strict=True))

    def table(self, jobs: int, seed: int = 0) -> pd.DataFrame:
        """So many jobs in the order in which they come.

        Raises
        ------
        InvalidOption
            ``jobs`` is no whole number >= 1, or ``seed`` none >= 0.
        """
        jobs = whole(jobs, "jobs", 1)
        models, gangs, owners, times, parts, usual, own = streams(seed, 7)
        who = owners.integers(0, self.tenants, jobs)
        come = times.uniform(0.0, self.days * 24 * HOUR * jobs / JOBS_OF_FIFTY, self.tenants)
        part = self.lengths.part(parts.random(self.tenants))[who]
        alone = np.minimum(1.0, PhillyBatches().within / self.lengths.spreads)[part]
        middle = usual.standard_normal(self.tenants)[who]
        place = np.sqrt(1.0 - alone**2) * middle + alone * own.standard_normal(jobs)
        table = _of_tenants(who, self.tenants, models, gangs)
        table["arrival"] = come[who] - come[who].min()
        return _in_order(table.assign(duration=self.lengths.seconds(part, place)))


def _of_tenants(who: Integers, tenants: int, models: np.random.Generator, gangs: np.random.Generator) -> pd.DataFrame:
    """Model of each tenant and GPUs of each job."""
    drawn = np.array(MODELS, dtype=object)[models.integers(0, len(MODELS), tenants)]
    names: Names = numbered("t", tenants)
    gpus = np.array(GANGS)[gangs.integers(0, len(GANGS), len(who))]
    return pd.DataFrame({"gpus": gpus, "model": drawn[who], "user": names[who]})


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    """Sorted by arrival, with names, and columns in their order."""
    table = table.sort_values("arrival", kind="stable", ignore_index=True)
    table.insert(0, "job", numbered("j", len(table)))
    return table[["job", "arrival", "duration", "gpus", "model", "user"]]
