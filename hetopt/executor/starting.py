"""Puts a controller together from what the command line says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hetopt.decisions.system import System
from hetopt.errors import InvalidOption, UnusableFile
from hetopt.executor import runner
from hetopt.executor.controller import Controller, Settings, check_same
from hetopt.executor.engines.by_name import make_engine
from hetopt.executor.lease_record import LeaseTimeouts
from hetopt.executor.leases_folder import check_not_away
from hetopt.executor.round_decision import fitted
from hetopt.executor.state_database import StateDatabase
from hetopt.formulations.traits import traits_of
from hetopt.plugins import ESTIMATORS
from hetopt.presentation import console
from hetopt.registry import make_system

LOOKS = 20
"""Within a time to live runners look at least so often whether the lease was renewed, which it is four times."""


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
    check_same(database, engine, leases)
    if leases is not None:
        check_not_away(database, leases)
        _check_leases(leases)
    said = ",".join(f"{key}={value}" for key, value in sorted(settings.items()))
    timeouts = replace(LeaseTimeouts(), ttl_seconds=ttl_seconds, profile_seconds=profile_seconds)
    _check_ttl(timeouts, shared=not made.exact_slots)
    chosen = Settings(f"{policy}[{said}]" if said else policy, system.seconds, profile, timeouts, leases, strict_rounds)
    return Controller(database, made, system, ESTIMATORS.factory("hadar"), chosen, say=console.note)


def driving(policy: str, settings: Mapping[str, Any], round_seconds: float | None) -> System:
    """The system of that name with rounds of that length.

    Raises
    ------
    InvalidOption
        It runs shares of jobs as rates, which no host can, or runs nobody after a number of rounds.
    """
    system = make_system(policy, settings)
    if system.fluid:
        raise InvalidOption(f"{policy} runs shares of jobs as rates, which hosts cannot; take a policy with rounds")
    if traits_of(system.policy).terminates:
        raise InvalidOption(
            f"{policy} promises GPUs for a number of rounds, and after them to nobody; it is for simulations"
        )
    if round_seconds is None:
        return system
    return replace(fitted(system, round_seconds, None), round_seconds=round_seconds)


def _check_ttl(timeouts: LeaseTimeouts, *, shared: bool) -> None:
    """Whether runners see the lease renewed in time, though they, or a file server twice in a row, may be late."""
    least = max(LOOKS * runner.CHECK_SECONDS, 2 * timeouts.visible_seconds if shared else 0.0)
    if timeouts.ttl_seconds < least:
        raise InvalidOption(
            f"is {timeouts.ttl_seconds:g} s; it must be {least:g} s at least, or jobs may not see their leases "
            "renewed in time",
            "--ttl",
        )


def _check_leases(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        mode = folder.stat().st_mode & 0o777
        probe = folder / ".probe"
        probe.write_text("")
        probe.unlink()
    except OSError as problem:
        raise UnusableFile(f"--leases {folder}: {problem.strerror}") from None
    if mode & 0o077:
        raise UnusableFile(
            f"--leases {folder} may be entered by others (mode {mode:o}), and would hold what jobs are given; "
            f"name a folder of its own, or chmod 700 {folder}"
        )
