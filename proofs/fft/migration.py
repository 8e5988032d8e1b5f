"""Section 2.2: state sizes, Fig. 2, and the cost of moving jobs at every event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hetopt import instances
from hetopt.data.rationals import meant_fractions
from hetopt.models.fft import FFT
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, fraction_text
from hetopt.proofs.ledger.finding_pictures import Timeline, TimelineBar
from hetopt.proofs.ledger.procedures import ByComputation, Computation, Growth, compare_number, compare_values

F = Fraction

GPU_TYPES = ("A10", "T4")
"""The faster GPU first; one of each."""

MOVE = F(2)
"""Minutes of a move."""


START = F(0)
"""Minute 0."""

ALL = F(1)
"""The whole job."""


@dataclass
class MovingJob:
    """A job of Fig. 2 under way; times in minutes.

    Attributes
    ----------
    name, arrival:
        The job.
    alone:
        GPU type -> minutes of the whole job.
    left:
        Fraction of the work left.
    gpu_type:
        GPU type of its last execution.
    moving:
        Remaining minutes of a move.
    """

    name: str
    arrival: Fraction
    alone: dict[str, Fraction]
    left: Fraction = ALL
    gpu_type: str = ""
    moving: Fraction = START

    def minutes(self, gpu_type: str) -> Fraction:
        """Remaining minutes on a type, without moves."""
        return self.left * self.alone[gpu_type]


PlacementRule = Callable[[Sequence[MovingJob]], dict[str, MovingJob]]
"""GPU type -> job to run there, for the jobs that are present."""


def shortest_total(there: Sequence[MovingJob]) -> dict[str, MovingJob]:
    """Fig. 2(a): the shortest job by its whole time on the A10 runs on the A10, the next one on the T4."""
    return dict(zip(GPU_TYPES, sorted(there, key=lambda run: run.alone["A10"]), strict=False))


def shortest_remaining(there: Sequence[MovingJob]) -> dict[str, MovingJob]:
    """Shortest remaining time first."""
    return dict(zip(GPU_TYPES, sorted(there, key=lambda run: run.minutes("A10")), strict=False))


def staying(there: Sequence[MovingJob]) -> dict[str, MovingJob]:
    """Fig. 2(b): running jobs stay; others take free GPUs, the shortest job and the A10 first."""
    where = {run.gpu_type: run for run in there if run.gpu_type}
    new = sorted((run for run in there if not run.gpu_type), key=lambda run: run.alone["A10"])
    return where | dict(zip((gpu_type for gpu_type in GPU_TYPES if gpu_type not in where), new, strict=False))


@dataclass(frozen=True)
class MigrationOutcome:
    """The result: completion times since arrival, minutes lost in moves, and the picture's bars."""

    jct: dict[str, Fraction]
    lost: dict[str, Fraction]
    bars: tuple[TimelineBar, ...]


def simulate_moves(jobs: Sequence[MovingJob], rule: PlacementRule, until: Fraction | None = None) -> MigrationOutcome:
    """Event by event: at each arrival and completion ``rule`` assigns jobs to types; moves take 2 minutes."""
    now, jct, bars = F(0), dict[str, Fraction](), list[TimelineBar]()
    lost = {job.name: F(0) for job in jobs}
    while (until is None or now < until) and len(jct) < len(jobs):
        there = [job for job in jobs if job.arrival <= now and job.left > 0]
        where = rule(there)
        for gpu_type, job in where.items():
            if job.gpu_type not in ("", gpu_type):
                job.moving = MOVE
            job.gpu_type = gpu_type
        events = [job.arrival for job in jobs if job.arrival > now]
        events += [now + job.moving + job.minutes(gpu_type) for gpu_type, job in where.items()]
        after = min(events + ([until] if until is not None else []))
        for gpu_type, job in where.items():
            moved = min(job.moving, after - now)
            lost[job.name] += moved
            job.moving -= moved
            job.left -= (after - now - moved) / job.alone[gpu_type]
            bars += [TimelineBar(gpu_type, now, now + moved, f"{job.name} moves")] if moved else []
            bars += [TimelineBar(gpu_type, now + moved, after, job.name)] if after > now + moved else []
            if job.left == 0:
                jct[job.name] = after - job.arrival
        now = after
    return MigrationOutcome(jct, lost, tuple(bars))


def figure() -> list[MovingJob]:
    """The jobs of Fig. 2."""
    instance = instances.load("fft/fig2")
    entities = instance.entities("jobs")
    alone = meant_fractions(instance.job_array("work")[:, None] / (60 * entities.speed))
    return [
        MovingJob(job.name, F(job.arrival) / 60, dict(zip(entities.types, minutes, strict=True)))
        for job, minutes in zip(instance.jobs, alone.tolist(), strict=True)
    ]


def stream(cycles: int) -> MigrationOutcome:
    """A long J4, and a job like J1 every 10 minutes, ``cycles`` times."""
    j1, _, j4 = figure()
    short = [MovingJob(f"J1, {c + 1}", F(10 * c), j1.alone) for c in range(cycles)]
    long = MovingJob("J4", F(0), {gpu_type: 1000 * cycles * minutes for gpu_type, minutes in j4.alone.items()})
    return simulate_moves([*short, long], shortest_total, F(10 * cycles))


# -- what is claimed -------------------------------------------------------------------------------------------------


def states() -> Computation:
    """Weights, gradients and both moments of Adam, 4 bytes each, of 6.7 billion parameters."""
    return Computation((compare_number("GB of state of OPT-6.7B", 107, F("6.7") * 4 * (1 + 1 + 2)),))


def moving_everywhere() -> Computation:
    """J4 moved at every event against J4 left on the T4."""
    moved, stays = simulate_moves(figure(), shortest_total), simulate_moves(figure(), staying)
    longer = 100 * (moved.jct["J4"] / stays.jct["J4"] - 1)
    rows = (
        compare_number("J4's JCT is longer by, in %", 25, longer),
        compare_number("moves of J4", 3, moved.lost["J4"] / MOVE),
    )
    return Computation(rows, pictures=(Timeline("Fig. 2(a)", moved.bars, "minutes"),))


def fastest_gpu_order() -> Computation:
    """The job on the A10 from minute 10 on by remaining time, and the completion of J4."""
    drawn, by_left = simulate_moves(figure(), shortest_total), simulate_moves(figure(), shortest_remaining)
    has = next(bar.job for bar in by_left.bars if bar.row == "A10" and bar.start <= 10 < bar.end)
    rows = (
        compare_values("on the A10 after minute 10", "J2", has),
        compare_values("J4's JCT in minutes", str(drawn.jct["J4"]), str(by_left.jct["J4"])),
    )
    words = (
        f"at minute 10 {has} has the least time left on the A10 and keeps it; J4 is complete after "
        f"{fraction_text(by_left.jct['J4'])} minutes, sooner than the 14.4 on the T4"
    )
    return Computation(rows, words, (Timeline("by remaining time", by_left.bars, "minutes"),))


def staying_is_better() -> Computation:
    """Compare J4's JCT, and the total, without moves and with moves at every event."""
    moved, stays = simulate_moves(figure(), shortest_total), simulate_moves(figure(), staying)
    rows = (
        compare_number("J4's JCT in minutes", "14.4", stays.jct["J4"]),
        compare_values("less than with moves, in total", True, sum(stays.jct.values()) < sum(moved.jct.values())),
    )
    return Computation(rows, pictures=(Timeline("Fig. 2(b)", stays.bars, "minutes"),))


def placement_by_cost() -> Computation:
    """The cost (6) of J4 at minute 5 on both types, in rounds of a minute, and its type under the policy."""
    age, move, j4 = F(5), MOVE, figure()[2]
    cost = {gpu_type: age / p + p + (move if gpu_type == "A10" else 0) for gpu_type, p in j4.alone.items()}
    rows = [
        compare_values("least cost at minute 5", "T4", min(cost, key=lambda gpu_type: cost[gpu_type])),
        *(compare_values(f"FFT in rounds of {seconds:g} s", "T4", _placed(seconds)) for seconds in (60.0, 300.0)),
    ]
    words = (
        f"the cost of J4 is {float(cost['T4']):.4g} on the T4 and {float(cost['A10']):.4g} on the A10, move included"
    )
    return Computation(tuple(rows), words)


def _placed(round_seconds: float) -> str | None:
    """J4's type under the library's policy, alone at minute 5 after 5 minutes on the T4."""
    instance = instances.load("fft/fig2")
    j4 = instance.job["J4"]
    restart = 60 * float(MOVE) - j4.checkpoint_bytes / instance.cluster.servers[0].nic_bytes_per_s
    now = instance.replace(jobs=(j4,), time=300.0, done={"J4": 5.0}, held={"J4": {"T4": 1}})
    return FFT(round_seconds=round_seconds, restart_seconds=restart)(now)[0].assigned["J4"]


CLAIMS = (
    Claim(
        key="fft/state-size",
        paper="FFT",
        place="Fig. 1(b)",
        statement="J4 (OPT-6.7B) with gradient accumulation and Adam has state files of 107 GB.",
        procedure=ByComputation(states),
        expected=ClaimVerdict.TRUE,
        note="16 bytes a parameter: weights, gradients and both moments of Adam in single precision.",
    ),
    Claim(
        key="fft/fig-2-moving",
        paper="FFT",
        place="Fig. 2(a)",
        statement="Moved at every event, J4, 1.6 times as fast on the A10, takes 25% longer than the 14.4 minutes "
        "on the T4.",
        procedure=ByComputation(moving_everywhere),
        expected=ClaimVerdict.TRUE,
        note="1.6 is the lower end of Fig. 1(a): at a speedup of s it takes 14 + 6.4/s "
        'minutes, which is 18 for 1.6 only. The paper writes "improved by 25%".',
    ),
    Claim(
        key="fft/fig-2-srtf",
        paper="FFT",
        place="Fig. 2(a)",
        statement="The execution follows the order of the shortest remaining time.",
        procedure=ByComputation(fastest_gpu_order),
        expected=ClaimVerdict.FALSE,
        note="It follows the order of the whole time on the A10. By remaining time J4 would be complete sooner than "
        "on the T4 alone, so that the example needs the other order.",
    ),
    Claim(
        key="fft/fig-2-staying",
        paper="FFT",
        place="Fig. 2(b)",
        statement="It is more effective to leave J4 on the T4 at minute 5.",
        procedure=ByComputation(staying_is_better),
        expected=ClaimVerdict.TRUE,
        note="Than Fig. 2(a).",
    ),
    Claim(
        key="fft/fig-2-cost",
        paper="FFT",
        place="Fig. 2(b)",
        statement="FFT's cost (6) leaves J4 on the T4 at minute 5, with two minutes of switching.",
        procedure=ByComputation(placement_by_cost),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("fft",),
        note="The paper shows Fig. 2(b) as what is wanted, not as a run of FFT. The cost weighs the whole job, 14.4 "
        "minutes against 9 and a move of 2, and knows of no job to come; it moves J4.",
    ),
    Claim(
        key="fft/wasted",
        paper="FFT",
        place="section 2.2",
        statement="If J4 is long and short jobs continuously enter, nearly 40% of its training time is wasted on "
        "migration.",
        procedure=Growth(
            (1, 2, 4, 8, 16, 64),
            lambda cycles: stream(cycles).lost["J4"] / (10 * cycles),
            lambda cycles: F(2, 5) - F(1, 5 * cycles),
            r"$\frac25 - \frac1{5c}$, limit 2/5",
            "c",
            "part of J4's time that moves take",
            most=16,
            bounded=True,
        ),
        expected=ClaimVerdict.TRUE,
        proof=r"""
A job like J1 comes every 10 minutes and holds the A10 for 5. So J4 moves in minutes $5, 10, 15, \dots$, for 2 minutes
each: $2c - 1$ times before minute $10 c$, which takes $2 (2c - 1) / (10 c) = \frac25 - \frac1{5c}$ of its time.""",
        note="Short jobs as in Fig. 2, one in every 10 minutes.",
    ),
)
