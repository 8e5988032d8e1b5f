"""What policies declare about their results."""

from __future__ import annotations

from dataclasses import dataclass

from hetopt.checks import expect
from hetopt.errors import InvalidOption
from hetopt.stages.speed_models import SpeedModel


@dataclass(frozen=True)
class Traits:
    """What a policy declares about its results, as its attribute ``traits``.

    Attributes
    ----------
    round_seconds:
        Length of its rounds in seconds; None: it decides at arrivals and completions.
    fractional:
        Its allocations share GPUs in time, so they need rounds, or ``fluid=True``.
    places:
        Its plans have the servers on which jobs run.
    mixes:
        A gang may get GPUs of several types.
    forks:
        A job may run in copies on several servers.
    terminates:
        After its last round it runs no more jobs.
    speeds:
        How fast it assumes jobs to be where they are placed; None: it assumes nothing. Simulations use it by default.
    """

    round_seconds: float | None = None
    fractional: bool = False
    places: bool = False
    mixes: bool = False
    forks: bool = False
    terminates: bool = False
    speeds: SpeedModel | None = None


def traits_of(policy: object) -> Traits:
    """The traits that ``policy`` declares; those of :class:`Traits` by default if it declares none.

    Raises
    ------
    InvalidOption
        Its attribute ``traits`` is something else.
    """
    declared = getattr(policy, "traits", Traits())
    return expect(Traits, declared, f"{type(policy).__name__}.traits", InvalidOption)
