"""Runs a policy on an instance through time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from rich.progress import Progress

from hetopt.checks import at_least, expect
from hetopt.data.instance import Instance
from hetopt.decisions.job_rates import Speeds, StageSpeeds
from hetopt.decisions.online import Online
from hetopt.decisions.placement import Placer
from hetopt.decisions.selection import Selection
from hetopt.decisions.system import System
from hetopt.decisions.whole_gpus import Rounder
from hetopt.errors import InvalidOption
from hetopt.formulations.policies import Policy
from hetopt.simulation.engine import Engine, OnlineEngine
from hetopt.simulation.environment import World
from hetopt.simulation.log import Log
from hetopt.simulation.overheads import Overhead


def simulate(
    policy: Policy | System,
    instance: Instance,
    *,
    round_seconds: float | None = None,
    fluid: bool = False,
    rounder: Rounder | None = None,
    selection: Selection | None = None,
    placer: Placer | None = None,
    overheads: Overhead | None = None,
    speeds: Speeds | None = None,
    world: World | None = None,
    until: float = math.inf,
    max_rounds: int | None = None,
    patience: int = 1000,
    progress: bool | Callable[[int, int], None] = False,
) -> Log:
    """Run ``policy`` on the jobs of ``instance`` until all are finished.

    Parameters
    ----------
    policy:
        A formulation or policy over tenants or jobs, or a :class:`~hetopt.decisions.system.System`, whose steps those
        given here override. It sees the jobs that have arrived and are unfinished, their
        tenants and job types, the time, the work done, the GPUs held and the servers; what it remembers is the state
        that it returns.
    instance:
        The jobs, with their arrivals; time starts at ``instance.time``. Jobs that hold GPUs or are placed then, run.
    round_seconds:
        Length of a round: decisions at each round's start, jobs that arrive in between wait, and a job that finishes
        frees its GPUs at the round's end. Default: the policy's attribute of that name. Without one, there is a
        decision at each arrival and at each completion.
    fluid:
        Run shares of jobs as rates, without rounding and restarts.
    rounder, selection, placer:
        What makes whole jobs of shares (default :class:`~hetopt.decisions.whole_gpus.ByKind`), jobs of tenants' GPUs
        (:class:`~hetopt.decisions.selection.LongestStarved`), servers of GPU types (none: jobs get GPU types alone).
    world:
        What happens to jobs whatever the policy believes: costs, speeds, datasets, profiling, servers that fail, wrong
        profiles. Default :class:`~hetopt.simulation.environment.World`: the transfer of checkpoints alone.
    overheads, speeds:
        These parts of the world, in place of its own.
    until, max_rounds:
        Stop at this second, or after so many decisions; what is unfinished has no finish time.
    patience:
        Decisions in a row without any progress after which the simulation counts as stalled.
    progress:
        Show a progress bar; or a function that is told how many jobs are finished, and how many there are.

    Returns
    -------
    Log

    Raises
    ------
    Stalled
        No job makes progress any more.
    InvalidPlan
        The policy, rounder or placer returned what the cluster cannot carry out.
    InvalidInstance, InvalidOption
        No jobs, or settings out of range.

    Examples
    --------
    >>> import hetopt
    >>> from hetopt.models import gavel
    >>> jobs = hetopt.Instance.from_jobs([[8, 1], [8, 1]], demand=[1, 1], work=[16, 16], capacity=[1, 1])
    >>> log = hetopt.simulate(gavel.max_min_fairness(), jobs, fluid=True)
    >>> round(float(log.jobs["jct"].sum()) / 300, 4)
    7.1111
    """
    system = System.of(
        policy, round_seconds=round_seconds, rounder=rounder, selection=selection, placer=placer, fluid=fluid
    )
    expect(Instance, instance, "instance").entities("jobs")
    limit = math.inf if max_rounds is None else at_least(max_rounds, "max_rounds", 1, InvalidOption)
    at_least(patience, "patience", 1, InvalidOption)
    if until != math.inf and not at_least(until, "until", 0.0, InvalidOption) > instance.time:
        raise InvalidOption(f"until is {until!r} s; it must be later than instance.time = {instance.time:g} s")
    engine = _engine(system, instance, _world(world, overheads, speeds), patience)
    with Progress(disable=progress is not True, transient=True) as bar:
        task, told = bar.add_task("jobs finished", total=len(instance.jobs)), -1
        while engine.step(until, limit):
            if progress is False or engine.finished == told:
                continue
            told = engine.finished
            if progress is True:
                bar.update(task, completed=told)
            else:
                progress(told, len(instance.jobs))
    return engine.log()


def _world(world: World | None, overheads: Overhead | None, speeds: Speeds | None) -> World:
    world = World() if world is None else expect(World, world, "world", InvalidOption)
    overheads, speeds = overheads or world.overheads, speeds or world.speeds
    return replace(world, overheads=overheads, speeds=speeds)


def _engine(system: System, instance: Instance, world: World, patience: int) -> Engine:
    """The clockwork that suits the policy, and what it is asked for."""
    policy, seconds = system.policy, system.seconds
    speeds = world.speeds or getattr(policy, "speeds", None) or StageSpeeds()
    pipeline = system.pipeline(speeds)
    if world.datasets is not None and not pipeline.places:
        raise InvalidOption("World.datasets needs servers, and this policy chooses none: give a placer")
    if isinstance(policy, Online) and seconds is None and not instance.held and not system.fluid:
        if world.changes or world.beliefs is not None:
            raise InvalidOption(
                f"{type(policy).__name__} starts jobs for good and is told of each event once; World.changes and "
                "World.beliefs are for policies that decide anew: give round_seconds"
            )
        return OnlineEngine(policy, instance, pipeline, world)
    return Engine(instance, pipeline, world, seconds, patience)
