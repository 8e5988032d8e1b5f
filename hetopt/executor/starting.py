"""Makes a controller from the options of `hetopt run`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hetopt.decisions.system import System
from hetopt.errors import InvalidOption
from hetopt.executor import runner
from hetopt.executor.controller import Controller, Settings, lease_facts
from hetopt.executor.engines.engine import make_engine
from hetopt.executor.lease_record import LeaseTimeouts
from hetopt.executor.round_decision import fitted
from hetopt.executor.state_database import StateDatabase
from hetopt.formulations.traits import traits_of
from hetopt.plugins import ESTIMATORS
from hetopt.presentation import console
from hetopt.registry import make_system

READS = 20
"""How often a runner reads the counter at least within a lease's time to live, in which it is renewed four times."""


def controller(
    database: StateDatabase,
    *,
    policy: str,
    settings: Mapping[str, Any],
    engine: str,
    round_seconds: float | None,
    slots: Path | None,
    partition: str | None,
    engine_settings: Mapping[str, Any],
    leases: Path | None,
    profile: bool,
    profile_seconds: float,
    ttl_seconds: float,
    strict_rounds: bool = False,
) -> Controller:
    """The controller of the cluster.

    Raises
    ------
    InvalidOption
        Settings that do not fit together, a policy that cannot drive a cluster, or another controller.
    UnknownName
        No such policy or engine.
    """
    system = driving(policy, settings, round_seconds)
    made = make_engine(engine, database.cluster, engine_settings, {"slots": slots, "partition": partition})
    leases = None if leases is None else leases.expanduser().absolute()
    database.lock()
    facts = lease_facts(database, engine, leases)
    listed = ",".join(f"{key}={value}" for key, value in sorted(settings.items()))
    timeouts = replace(LeaseTimeouts(), ttl_seconds=ttl_seconds, profile_seconds=profile_seconds)
    _check_ttl(timeouts, shared=not made.exact_slots)
    name = f"{policy}[{listed}]" if listed else policy
    chosen = Settings(name, system.seconds, profile, timeouts, leases, strict_rounds, facts)
    return Controller(database, made, system, ESTIMATORS.factory("hadar"), chosen, say=console.note)


def driving(policy: str, settings: Mapping[str, Any], round_seconds: float | None) -> System:
    """The system of that name with rounds of that length.

    Raises
    ------
    InvalidOption
        It runs shares of jobs as rates, which no host can, or runs no job after a number of rounds.
    """
    system = make_system(policy, settings)
    if system.fluid:
        raise InvalidOption(f"{policy} runs shares of jobs as rates, which hosts cannot; take a policy with rounds")
    if traits_of(system.policy).terminates:
        raise InvalidOption(
            f"{policy} plans for a number of rounds, and gives no job GPUs after them; it is for simulations"
        )
    if round_seconds is None:
        return system
    return replace(fitted(system, round_seconds, None), round_seconds=round_seconds)


def _check_ttl(timeouts: LeaseTimeouts, *, shared: bool) -> None:
    """Refuse a time to live in which runners, or a file server twice in a row, may be late to see a renewal."""
    least = max(READS * runner.CHECK_SECONDS, 2 * timeouts.visible_seconds if shared else 0.0)
    if timeouts.ttl_seconds < least:
        raise InvalidOption(
            f"is {timeouts.ttl_seconds:g} s; it must be {least:g} s at least, or jobs may not see their leases "
            "renewed in time",
            "--ttl",
        )
