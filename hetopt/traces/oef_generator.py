"""The workloads of OEF's experiments [OEF, section 6], as far as the paper defines them.

Assumptions about what the paper leaves open: the four users train the models of the instance ``oef/four-users``, other
tenants one of the six models at random. Jobs of the four users run on one GPU, so that whole GPUs can follow the
shares; other jobs run on 1, 2 or 4 GPUs with equal probability, 4 being the GPUs of a host. Each tenant has jobs for
all GPUs that it may get; where only throughput is measured, jobs never end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from hetopt.checks import at_least, boolean, whole
from hetopt.data.array_types import Integers
from hetopt.errors import InvalidOption
from hetopt.traces.philly_generator import LENGTHS, PhillyBatches
from hetopt.traces.sampling import HOUR, Lengths, Names, numbered, streams

MODELS = ("VGG", "ResNet", "DenseNet", "LSTM", "RNN", "Transformer")
"""[OEF, section 6.1.2]."""

GANGS = (1, 2, 4)
"""Numbers of GPUs of a job."""

USERS = {"User-1": "LSTM", "User-2": "Transformer", "User-3": "ResNet", "User-4": "VGG"}
"""User -> its model."""

SECOND = "DenseNet"
"""Second model of User-1 from minute 40 on [OEF, Fig. 5(b)]; no other user trains it."""

MINUTE_40 = 2400.0
"""Seconds until User-4 leaves and User-1 adds a job type."""

LEVEL = 8.5536
"""Equal normalised throughput of the four users (GPUs of speedup 1), with the speeds of the catalogue ``oef`` on 8 GPUs
of each type. User-4 has work for 40 minutes at this throughput."""

JOBS_EACH = 24
"""Jobs of each user: one per GPU of the testbed."""

ENDLESS = 1e7
"""Seconds on the slowest type of a job that never ends."""

DAYS = 3
"""Days within which the fifty tenants arrive."""

JOBS_OF_FIFTY = 1000
"""50 tenants with 20 jobs each on average."""

UP_TO_A_WORKING_DAY = replace(LENGTHS, longest=8 * HOUR)
"""As in FFT's traces for its testbed: longer jobs do not fit an evaluation of three days."""


@dataclass(frozen=True)
class FourUsers:
    """Generator of [OEF, section 6.2]: four users with single-GPU jobs that all arrive at the start.

    Jobs are assigned to the users (and to User-1's second type) in turn: 96 jobs (120 with a second type) are one per
    user and GPU of the testbed.

    Parameters
    ----------
    quits:
        Whether User-4's jobs together take 40 minutes at an equal split; all others never end.
    second_type:
        Whether User-1 adds jobs of another type at minute 40.

    Raises
    ------
    InvalidOption
        A setting is not True or False.
    """

    quits: bool = True
    second_type: bool = False

    def __post_init__(self) -> None:
        for key in ("quits", "second_type"):
            boolean(getattr(self, key), f"FourUsers.{key}")

    def table(self, jobs: int, seed: int = 0) -> pd.DataFrame:
        """Generate jobs as :class:`~hetopt.traces.sampling.Generator`; all seeds give the same jobs."""
        jobs = whole(jobs, "jobs", 1)
        whole(seed, "seed", 0)
        batches = [(user, model, 0.0) for user, model in USERS.items()]
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
    """Generator of [OEF, section 6.3.1]: tenants that are present all the time, each with jobs of one model.

    Jobs are assigned to the tenants in turn: 240 jobs, 12 each, suffice for every GPU of the testbed.

    Parameters
    ----------
    tenants:
        Number of tenants.

    Raises
    ------
    InvalidOption
        It is below 1.
    """

    tenants: int = 20

    def __post_init__(self) -> None:
        object.__setattr__(self, "tenants", whole(self.tenants, "TwentyTenants.tenants", 1))

    def table(self, jobs: int, seed: int = 0) -> pd.DataFrame:
        """Generate jobs that never end, as :class:`~hetopt.traces.sampling.Generator`."""
        jobs = whole(jobs, "jobs", 1)
        models, gangs = streams(seed, 2)
        who = np.arange(jobs) % self.tenants
        return _in_order(_of_tenants(who, self.tenants, models, gangs).assign(arrival=0.0, duration=ENDLESS))


@dataclass(frozen=True)
class FiftyTenants:
    """Generator of [OEF, section 6.3.2]: tenants that arrive with a batch of jobs of one model and leave when done.

    Arrivals of tenants are uniform over three days; fewer than 1000 jobs arrive in a proportional part of them. The
    tenant of a job is drawn uniformly. Lengths on the slowest type are those of
    :class:`~hetopt.traces.philly_generator.PhillyBatches` up to 8 hours, similar within a batch as there.

    Parameters
    ----------
    tenants:
        Number of tenants; those without a drawn job do not appear.
    days:
        Days within which they arrive, for 1000 jobs.
    lengths:
        Distribution of the lengths.

    Raises
    ------
    InvalidOption
        No tenant, or no time.
    """

    tenants: int = 50
    days: float = DAYS
    lengths: Lengths = UP_TO_A_WORKING_DAY

    def __post_init__(self) -> None:
        object.__setattr__(self, "tenants", whole(self.tenants, "FiftyTenants.tenants", 1))
        object.__setattr__(self, "days", at_least(self.days, "FiftyTenants.days", 0.0, InvalidOption, strict=True))

    def table(self, jobs: int, seed: int = 0) -> pd.DataFrame:
        """Generate jobs with models and users, as :class:`~hetopt.traces.sampling.Generator`."""
        jobs = whole(jobs, "jobs", 1)
        models, gangs, owners, times, parts, usual, own = streams(seed, 7)
        who = owners.integers(0, self.tenants, jobs)
        come = times.uniform(0.0, self.days * 24 * HOUR * jobs / JOBS_OF_FIFTY, self.tenants)
        part = self.lengths.part(parts.random(self.tenants))[who]
        middle = usual.standard_normal(self.tenants)[who]
        seconds = self.lengths.similar(part, middle, own.standard_normal(jobs), PhillyBatches().within)
        table = _of_tenants(who, self.tenants, models, gangs)
        return _in_order(table.assign(arrival=come[who] - come[who].min(), duration=seconds))


def _of_tenants(who: Integers, tenants: int, models: np.random.Generator, gangs: np.random.Generator) -> pd.DataFrame:
    """Model of each tenant and GPUs of each job."""
    drawn = np.array(MODELS, dtype=object)[models.integers(0, len(MODELS), tenants)]
    names: Names = numbered("t", tenants)
    gpus = np.array(GANGS)[gangs.integers(0, len(GANGS), len(who))]
    return pd.DataFrame({"gpus": gpus, "model": drawn[who], "user": names[who]})


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    """Sort by arrival, add names, order the columns."""
    table = table.sort_values("arrival", kind="stable", ignore_index=True)
    table.insert(0, "job", numbered("j", len(table)))
    return table[["job", "arrival", "duration", "gpus", "model", "user"]]
