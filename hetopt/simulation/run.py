"""Runs a policy on an instance through time."""

from __future__ import annotations

import math

from rich.progress import Progress

from hetopt.checks import at_least, expect
from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption
from hetopt.placement import Placer
from hetopt.rounding.whole_gpus import ByKind, Rounder
from hetopt.selection import LongestStarved, Selection
from hetopt.simulation.engine import Engine
from hetopt.simulation.log import Log
from hetopt.simulation.online import Online
from hetopt.simulation.online_engine import OnlineEngine
from hetopt.simulation.overheads import Overhead, Overheads
from hetopt.simulation.pipeline import Pipeline
from hetopt.simulation.speeds import Speeds, StageSpeeds
from hetopt.solving.road import Policy, check_policy


def simulate(
    policy: Policy,
    instance: Instance,
    *,
    round_seconds: float | None = None,
    fluid: bool = False,
    rounder: Rounder | None = None,
    selection: Selection | None = None,
    placer: Placer | None = None,
    overheads: Overhead | None = None,
    speeds: Speeds | None = None,
    until: float = math.inf,
    max_rounds: int | None = None,
    patience: int = 1000,
    progress: bool = False,
) -> Log:
    """Run ``policy`` on the jobs of ``instance`` until all are finished.

    Parameters
    ----------
    policy:
        A formulation or policy over tenants or jobs. It sees the jobs that have arrived and are unfinished, their
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
        What makes whole jobs of shares (default :class:`~hetopt.rounding.whole_gpus.ByKind`), jobs of tenants' GPUs
        (:class:`~hetopt.selection.LongestStarved`), servers of GPU types (none: jobs get GPU types alone).
    overheads:
        Seconds lost by starting and moving; default :class:`~hetopt.simulation.overheads.Overheads`: the transfer of
        checkpoints.
    speeds:
        Work per second of jobs whose stages are mapped to servers. Default: the policy's attribute of that name, else
        :class:`~hetopt.simulation.speeds.StageSpeeds`.
    until, max_rounds:
        Stop at this second, or after so many decisions; what is unfinished has no finish time.
    patience:
        Decisions in a row without any progress after which the simulation counts as stalled.
    progress:
        Show a progress bar.

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
    check_policy(policy)
    expect(Instance, instance, "instance").entities("jobs")
    seconds = getattr(policy, "round_seconds", None) if round_seconds is None else round_seconds
    if seconds is not None:
        seconds = at_least(seconds, "round_seconds", 0.0, InvalidOption, strict=True)
    limit = math.inf if max_rounds is None else at_least(max_rounds, "max_rounds", 1, InvalidOption)
    at_least(patience, "patience", 1, InvalidOption)
    if until != math.inf and not at_least(until, "until", 0.0, InvalidOption) > instance.time:
        raise InvalidOption(f"until is {until!r} s; it must be later than instance.time = {instance.time:g} s")
    for key, step in (
        ("rounder", rounder),
        ("selection", selection),
        ("placer", placer),
        ("overheads", overheads),
        ("speeds", speeds),
    ):
        if isinstance(step, type):
            raise InvalidOption(f"{key} is the class {step.__name__}; give one of it: {step.__name__}()")
    steps = (rounder or ByKind(), selection or LongestStarved(), placer)
    physics = speeds or getattr(policy, "speeds", None) or StageSpeeds()
    engine: Engine
    if isinstance(policy, Online) and seconds is None and not instance.held and not fluid:
        engine = OnlineEngine(policy, instance, overheads or Overheads(), physics)
    else:
        pipeline = Pipeline(policy, *steps, rounds=seconds is not None, fluid=fluid, speeds=physics)
        engine = Engine(instance, pipeline, overheads or Overheads(), seconds, patience)
    with Progress(disable=not progress, transient=True) as bar:
        task = bar.add_task("jobs finished", total=len(instance.jobs))
        while engine.step(until, limit):
            if progress:
                bar.update(task, completed=engine.finished)
    return engine.log()
