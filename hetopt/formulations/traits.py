"""Traits: declarations of policies, rounders, selections and placers about their results."""

from __future__ import annotations

from dataclasses import dataclass

from hetopt.checks import boolean, check_round_seconds, expect, shown
from hetopt.data.entities import Kind, check_kind
from hetopt.errors import InvalidOption
from hetopt.stages.speed_models import SpeedModel


@dataclass(frozen=True)
class Traits:
    """Declarations of a policy about its results, as its attribute ``traits``.

    Attributes
    ----------
    round_seconds:
        Length of its rounds in seconds; None: it decides at arrivals and completions.
    fractional:
        Allocations share GPUs in time, so they need rounds, or ``fluid=True``.
    places:
        Plans include the servers of jobs.
    mixes:
        Of policies, rounders and selections: a gang may get GPUs of several types.
    forks:
        A job may run in copies on several servers.
    terminates:
        After its last round it runs no more jobs.
    speeds:
        Speeds of placed jobs that it assumes; None: no assumption. Simulations use them by default.
    kind:
        Of rounders: the entities whose shares they round; None: both.
    idles:
        Why a job may be left without GPUs although its gang fits on the idle GPUs of one type, in a few words; empty:
        no job is (work conservation). Of a policy that returns plans, a rounder of jobs' shares, a selection, a placer;
        :attr:`System.idles <hetopt.decisions.system.System.idles>` follows from it.
    """

    round_seconds: float | None = None
    fractional: bool = False
    places: bool = False
    mixes: bool = False
    forks: bool = False
    terminates: bool = False
    speeds: SpeedModel | None = None
    kind: Kind | None = None
    idles: str = ""

    def __post_init__(self) -> None:
        check_round_seconds(self, or_none=True)
        for key in ("fractional", "places", "mixes", "forks", "terminates"):
            boolean(getattr(self, key), f"Traits.{key}")
        check_kind("Traits.kind", self.kind)
        if not isinstance(self.idles, str):
            raise InvalidOption(f"is {shown(self.idles)}; it must be a text", "Traits.idles")
        if self.speeds is not None and not callable(getattr(self.speeds, "on", None)):
            raise InvalidOption(f"is {shown(self.speeds)}; it must have a method on()", "Traits.speeds")


def traits_of(policy: object) -> Traits:
    """The traits that ``policy`` (or a rounder, selection or placer) declares, or the defaults of :class:`Traits`.

    Raises
    ------
    InvalidOption
        The attribute ``traits`` is something else.
    """
    declared = getattr(policy, "traits", Traits())
    return expect(Traits, declared, f"{type(policy).__name__}.traits", InvalidOption)
