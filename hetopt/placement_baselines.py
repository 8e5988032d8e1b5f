"""Placers that papers compare with: one that looks at sizes of tensors, and one that does not consolidate at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hetopt.allocation import Placement, Plan
from hetopt.checks import FrozenDict, at_least, is_text, shown
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.errors import InvalidOption
from hetopt.placement import Packing, Seats, pack

LARGEST_TENSOR: Mapping[str, float] = FrozenDict(
    {"VGG-16": 392 / 526.8, "VGG-19": 392 / 547.1, "ResNet-50": 9 / 80.6, "ResNet-152": 9 / 149.6, "VGG": 392 / 526.8}
)
"""Model -> part of its parameters in the largest tensor: MB of tensors in the simulator that Tiresias' authors
published (Apache-2.0); VGG stands for VGG-16. Of the language models and DenseNets of :mod:`hetopt.traces.catalogues`
none has a quarter of its parameters in one tensor."""

PACK_LIMIT = 0.5
"""Between the VGGs (0.7 and more) and all others (0.25 and less); Tiresias learns the limit and prints none."""


@dataclass(frozen=True)
class TensorSkew:
    """Tiresias' placer, as FFT compares with it: only jobs with one large tensor are consolidated [FFT, section 6.2.4].

    Jobs of models whose largest tensor has more than ``limit`` of the parameters come first, larger ones first, each on
    as few servers as possible. All others, in the order of the plan, take the first free GPUs, as under
    :class:`FirstFree`. How a job communicates (``Job.parallelism``) is not looked at.

    Parameters
    ----------
    largest:
        Model -> part of its parameters in the largest tensor, 0 to 1; models that are missing have no large one.
    limit:
        From 0 to 1.
    sticky:
        Jobs that keep their GPU type keep their servers.

    Raises
    ------
    InvalidOption
        A number out of its range.
    InvalidPlan
        When called: the plan is over tenants or has more GPUs than there are.
    """

    largest: Mapping[str, float] = field(default_factory=lambda: LARGEST_TENSOR)
    limit: float = PACK_LIMIT
    sticky: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.largest, Mapping) or not all(map(is_text, self.largest)):
            raise InvalidOption(
                f"TensorSkew.largest is {shown(self.largest)}; it must be a mapping from models to parts"
            )
        parts = {name: _part(value, f"TensorSkew.largest[{name!r}]") for name, value in self.largest.items()}
        object.__setattr__(self, "largest", FrozenDict(parts))
        _part(self.limit, "TensorSkew.limit")

    def skewed(self, job: Job) -> bool:
        """Whether the job is consolidated."""
        return self.largest.get(job.model or "", 0.0) > self.limit

    def __call__(self, plan: Plan, instance: Instance) -> Placement:
        """The servers of the plan's jobs."""

        def rank(job: Job, gpus: int) -> tuple[int, ...]:
            return (0, -gpus) if self.skewed(job) else (1, 0)

        def seats(job: Job, gpus: int, free: Mapping[str, int], near: Iterable[str]) -> Seats | None:
            return pack(gpus, free, near) if self.skewed(job) else taken(gpus, free)

        return Packing(plan, instance, seats=seats).run(rank, self.sticky, False)


@dataclass(frozen=True)
class FirstFree:
    """No thought of servers: each job, in the order of the plan, takes the first free GPUs of its type.

    GPUs are counted through server by server, as a list of workers is. FFT says of Gavel and AlloX [FFT, section
    6.2.4], and OEF of Gavel and Gandiva_fair [OEF, section 6.3.1], that they do not optimise placement.

    Parameters
    ----------
    sticky:
        Jobs that keep their GPU type keep their servers.

    Raises
    ------
    InvalidPlan
        When called: the plan is over tenants or has more GPUs than there are.
    """

    sticky: bool = True

    def __call__(self, plan: Plan, instance: Instance) -> Placement:
        """The servers of the plan's jobs."""
        return Packing(plan, instance, seats=_first).run(lambda *_: (), self.sticky, False)


def taken(gpus: int, free: Mapping[str, int]) -> Seats | None:
    """The first ``gpus`` free seats, server by server in the order of ``free``; None where there are not so many."""
    seats: Seats = {}
    for server, room in free.items():
        if gpus > 0 and room > 0:
            seats[server] = min(gpus, room)
            gpus -= seats[server]
    return None if gpus > 0 else seats


def _first(_job: Job, gpus: int, free: Mapping[str, int], _near: Iterable[str]) -> Seats | None:
    return taken(gpus, free)


def _part(value: float, key: str) -> float:
    number = at_least(value, key, 0.0, InvalidOption)
    if number > 1:
        raise InvalidOption(f"{key} is {value!r}; it must be a part from 0 to 1")
    return number
