"""Components of FFT's round: one GPU type per job, the costs of a round, compensation, and work conservation.

Mo, Xu, Lau: Fast and Fair Training for Deep Learning in Heterogeneous GPU Clusters, ICS 2025. Costs are negative gains.
Time is in rounds of ``round_seconds``, and theta is the work that a job's whole gang does in one round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hetopt.checks import FrozenDict, at_least, boolean, check_round_seconds, choices
from hetopt.data.array_types import Numbers, Positions
from hetopt.data.entities import Entities, Kind
from hetopt.decisions.system import ROUND_SECONDS
from hetopt.errors import InvalidFormulation, InvalidOption
from hetopt.formulations.formulation import ArrayComponent
from hetopt.models.objectives import LinearGain
from hetopt.models.policy_checks import check_names
from hetopt.programs.arrays import Arrays, Rows, on_shares
from hetopt.programs.mathematics import Mathematics
from hetopt.programs.symbols import OVER, formula_number, gpus, shared


@dataclass(frozen=True)
class OneType(ArrayComponent):
    """A job runs on one GPU type or waits: share is 0 or 1, [FFT, eq. 1].

    Rows, for all jobs e: ``sum_k share[e, k] <= 1``.
    """

    name: str = "one_type"
    kind: Kind = field(default="jobs", init=False)
    binary: bool = field(default=True, init=False)

    def rows(self, entities: Entities) -> Arrays:
        """The rows."""
        ones = entities.numbers(np.ones(entities.shape))
        return Arrays(rows=(Rows("row", entities.names, (on_shares(ones),), upper=1.0),))

    def mathematics(self, kind: Kind) -> Mathematics:
        """The rows as a formula."""
        return Mathematics.read(
            """
            subject to
              row [FFT, eq. (1)] | a job runs on one type or waits
                sum(x[e, k] for k in K) <= 1 for e in E
            """,
            symbols=shared(kind),
        )


@dataclass(frozen=True)
class WorkConserving(LinearGain):
    """Use as many GPUs as can be packed, before costs are minimised: the repaired [FFT, eq. 7].

    Gain of priority 1: ``sum_ek demand[e] * share[e, k]``. So the first objective finds the largest packable demand K*,
    and the second the least cost with ``sum demand * share >= K*``. The paper's K(t), the minimum of available and
    demanded GPUs, may be infeasible: 4 GPUs and two gangs of 3.
    """

    name: str = "work_conserving"
    priority: int = field(default=1, init=False)

    def coefficients(self, entities: Entities) -> Numbers:
        """(n, k) GPUs."""
        return np.where(entities.allowed, entities.demand[:, None], 0)

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain as a formula."""
        return Mathematics.read(
            f"""
            maximise with priority {self.priority}
              gain [FFT, eq. (7)] | GPUs in use; K* is the most that can be packed | GPUs
                sum({gpus(kind)} {OVER})
            """,
            symbols=shared(kind),
        )


@dataclass(frozen=True)
class AgeCost(LinearGain):
    """The round's part of the (approximate) completion time: cost (t - a) theta / W, [FFT, eq. 3], first term.

    The age t - a is in rounds, theta / W is the part of the job done in the round; so the cost is in rounds.

    Parameters
    ----------
    round_seconds:
        Length of a round in seconds.
    """

    round_seconds: float = ROUND_SECONDS
    name: str = "age_cost"
    kind: Kind = field(default="jobs", init=False)

    def __post_init__(self) -> None:
        check_round_seconds(self)

    def coefficients(self, entities: Entities) -> Numbers:
        """(n, k) minus the cost, in rounds."""
        return np.asarray(-age(entities, self.round_seconds)[:, None] * theta(entities, self.round_seconds, True))

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain as a formula."""
        work = _work(self.round_seconds)
        return Mathematics.read(
            f"""
            maximise
              gain [FFT, eq. (3), first term] | age times the part of the job that this round does | rounds
                -sum((t - a[e]) * theta[e, k] / W[e] * x[e, k] {OVER})
            """,
            definitions=work.definitions,
            symbols=work.symbols,
        )


@dataclass(frozen=True)
class VolumeCost(LinearGain):
    """The volume of the whole job, GPUs times rounds on the type: cost d W / theta, [FFT, eq. 3], second term.

    Parameters
    ----------
    round_seconds:
        Length of a round in seconds.
    """

    round_seconds: float = ROUND_SECONDS
    name: str = "volume_cost"
    kind: Kind = field(default="jobs", init=False)

    def __post_init__(self) -> None:
        check_round_seconds(self)

    def coefficients(self, entities: Entities) -> Numbers:
        """(n, k) minus the cost, in GPU rounds."""
        return -volume(entities, theta(entities, self.round_seconds, True))

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain as a formula."""
        work = _work(self.round_seconds)
        return Mathematics.read(
            f"""
            maximise
              gain [FFT, eq. (3), second term] | volume of the whole job on its type | GPU rounds
                -sum(d[e] * W[e] / theta[e, k] * x[e, k] {OVER} if theta[e, k] > 0)
            """,
            definitions=work.definitions,
            symbols=work.symbols,
        )


@dataclass(frozen=True)
class Switching(LinearGain):
    """Rounds that a job loses when it moves to another GPU type: cost s[e, k], [FFT, section 4.2.3].

    ``s[e, k] = (checkpoint_bytes[e] / bandwidth[k] + restart_seconds) / round_seconds`` if the type on which e was last
    executed is known and is not k, else 0; bandwidth[k] in bytes/s is that of the slowest network card among the
    servers that have GPUs of type k. A job that paused resumes on its last type at no cost.

    Parameters
    ----------
    last:
        Job -> GPU type on which it was last executed. For missing jobs, the type that they hold now.
    round_seconds:
        Length of a round in seconds.
    restart_seconds:
        Duration of a restart besides the transfer (containers, communication groups).
    """

    last: Mapping[str, str] = field(default_factory=dict)
    round_seconds: float = ROUND_SECONDS
    restart_seconds: float = 0.0
    name: str = "switching"
    kind: Kind = field(default="jobs", init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "last", FrozenDict(self.last))
        check_round_seconds(self)
        at_least(self.restart_seconds, "Switching.restart_seconds", 0.0, InvalidOption)

    def coefficients(self, entities: Entities) -> Numbers:
        """(n, k) minus the cost, in rounds."""
        last = positions(self.last, entities, "Switching.last")
        last = np.where(last >= 0, last, held_types(entities))
        return -moving_rounds(entities, last, self.round_seconds, self.restart_seconds)

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain as a formula, with the duration of a move."""
        length, restart = formula_number(self.round_seconds), formula_number(self.restart_seconds)
        lost = f"(b[e] / B[k] + {restart}) / {length}" if self.restart_seconds else f"b[e] / ({length} * B[k])"
        return Mathematics.read(
            f"""
            maximise
              gain [FFT, eq. (6)] | time lost by moves | rounds
                -sum(s[e, k] * x[e, k] for e in E for k in moves[e])
            where
              s[e, k] [FFT, section 4.2.3] | rounds that e loses by a move to type k | rounds
                s[e, k] == {lost} for e in E for k in moves[e]
            symbols
              moves[e] | types that can run e other than its last one; none if it has none | | M_{{#1}}
              b[e] | checkpoint of e | bytes
              B[k] | slowest network card of the servers with GPUs of type k | bytes/s
            """,
            symbols=shared(kind),
        )


@dataclass(frozen=True)
class Compensation(LinearGain):
    """Fairness compensation of jobs: gain rho[e] * theta[e, k] * share[e, k], [FFT, eq. 4].

    Also valid for divisible shares, where ``theta * share`` is the work done in part of a round.

    Parameters
    ----------
    rho:
        Job -> rho >= 0; 0 for missing jobs.
    round_seconds:
        Length of a round in seconds.
    normalise:
        True: theta is the part of the job done in a round (1 / rounds). False, as printed: work per round, so that
        doubling the unit of work changes decisions (rho theta grows with its square).

    Raises
    ------
    InvalidOption
        rho is negative or not finite.
    """

    rho: Mapping[str, float]
    round_seconds: float = ROUND_SECONDS
    normalise: bool = True
    name: str = "compensation"
    kind: Kind = field(default="jobs", init=False)

    def __post_init__(self) -> None:
        boolean(self.normalise, "Compensation.normalise")
        rho = {job: at_least(r, f"Compensation.rho[{job!r}]", 0.0, InvalidOption) for job, r in self.rho.items()}
        object.__setattr__(self, "rho", FrozenDict(rho))
        check_round_seconds(self)

    def coefficients(self, entities: Entities) -> Numbers:
        """(n, k) gain."""
        check_names(self.rho, entities, "Compensation.rho")
        rho = entities.numbers(np.array([self.rho.get(name, 0.0) for name in entities.names]))
        return rho[:, None] * theta(entities, self.round_seconds, self.normalise)

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain as a formula."""
        done, unit, squared = (
            ("theta[e, k] / W[e]", "part of the job", "") if self.normalise else ("theta[e, k]", "work", "work²")
        )
        work = _work(self.round_seconds)
        return Mathematics.read(
            f"""
            maximise
              gain [FFT, eq. (4)] | compensation of jobs | {squared}
                sum(rho[e] * {done} * x[e, k] {OVER})
            symbols
              rho[e] | how far e is behind its fair share | {unit}
            """,
            definitions=work.definitions,
            symbols=work.symbols,
        )


def _work(round_seconds: float) -> Mathematics:
    """The definition of the work in a round, and the symbols of programs that use it."""
    seconds = formula_number(round_seconds)
    return Mathematics.read(
        f"""
        where
          theta[e, k] [FFT, section 4.1] | work of the whole gang of e on type k in a round of {seconds} s | work
            theta[e, k] == {seconds} * v[e, k] {OVER}
        symbols
          t | now, in rounds of {seconds} s | rounds
          a[e] | arrival of e, in rounds of {seconds} s | rounds
        """,
        symbols=shared("jobs"),
    )


def age(entities: Entities, round_seconds: float) -> Numbers:
    """(n,) rounds since each job's arrival."""
    since = entities.number(entities.source.time) - entities.job_array("arrival")
    return np.asarray(since / entities.number(round_seconds))


def volume(entities: Entities, part: Numbers) -> Numbers:
    """(n, k) GPU rounds of each whole job, of which a round does ``part``; 0 where it cannot run."""
    return np.where(entities.allowed, entities.demand[:, None] / np.where(entities.allowed, part, 1), 0)


def moving_rounds(entities: Entities, last: Positions, round_seconds: float, restart_seconds: float) -> Numbers:
    """(n, k) rounds that a job loses by running on each type after its (n,) ``last`` one, -1 where it has none."""
    seconds = starting_seconds(entities, restart_seconds)
    moves = (last[:, None] >= 0) & (last[:, None] != np.arange(len(entities.types))) & entities.allowed
    return np.where(moves, seconds / entities.number(round_seconds), 0)


def starting_seconds(entities: Entities, restart_seconds: float) -> Numbers:
    """(n, k) seconds that a job loses when it starts on a type: a restart, and the transfer of its checkpoint."""
    cards = entities.source.cluster.slowest_cards
    bandwidth = np.array([cards.get(t, np.inf) for t in entities.types])
    limited = np.isfinite(bandwidth)
    transfer = entities.job_array("checkpoint_bytes")[:, None] / entities.numbers(np.where(limited, bandwidth, 1.0))
    return np.asarray(np.where(limited, transfer, 0) + entities.number(restart_seconds))


def theta(entities: Entities, round_seconds: float, normalise: bool) -> Numbers:
    """(n, k) progress of a job's gang in one round: part of the job if ``normalise``, else work."""
    done = entities.speed * entities.number(round_seconds)
    return np.asarray(done / entities.job_array("work")[:, None] if normalise else done)


def held_types(entities: Entities) -> np.ndarray:
    """(n,) position of the GPU type of which a job holds most GPUs now, -1 where it holds none."""
    if entities.held is None:
        return np.full(len(entities.names), -1)
    return np.where(entities.held.any(axis=1), entities.held.argmax(axis=1), -1)


def positions(types: Mapping[str, str], entities: Entities, key: str) -> np.ndarray:
    """(n,) position of the GPU type of each job, -1 for jobs that ``types`` does not name."""
    check_names(types, entities, key)
    place = {name: i for i, name in enumerate(entities.types)}
    for job, kind in types.items():
        if kind not in place:
            raise InvalidFormulation(f"is {kind!r}; it must be a GPU type: {choices(kind, place)}", f"{key}[{job!r}]")
    return np.array([place[types[name]] if name in types else -1 for name in entities.names], dtype=np.intp)
