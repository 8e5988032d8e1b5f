"""Puts a controller together from what the command line says."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hetopt import console
from hetopt.arguments import look_here
from hetopt.checks import choices
from hetopt.errors import InvalidOption, UnusableFile
from hetopt.executor.controller import Controller, Settings, check_same
from hetopt.executor.deciding import fitted
from hetopt.executor.engines.engine import Engine, Node
from hetopt.executor.engines.local import LocalEngine
from hetopt.executor.engines.slots import read_slots
from hetopt.executor.names import check_name
from hetopt.executor.speeds import ESTIMATORS
from hetopt.executor.store import StateStore
from hetopt.executor.tending import Terms
from hetopt.registry import make_system
from hetopt.simulation.system import System

ENGINES = ("local", "slurm")


def controller(
    store: StateStore,
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
    made = _engine(store, engine, slots, partition, engine_settings)
    if leases is not None:
        leases = leases.expanduser().absolute()
        _check_leases(leases)
    store.lock()
    check_same(store, made.name, leases)
    said = ",".join(f"{key}={value}" for key, value in sorted(settings.items()))
    terms = replace(Terms(), ttl_seconds=ttl_seconds, profile_seconds=profile_seconds)
    chosen = Settings(f"{policy}[{said}]" if said else policy, system.seconds, profile, terms, leases)
    return Controller(store, made, system, ESTIMATORS.factory("hadar"), chosen, say=console.note)


def driving(policy: str, settings: Mapping[str, Any], round_seconds: float | None) -> System:
    """The system of that name with rounds of that length.

    Raises
    ------
    InvalidOption
        It runs shares of jobs as rates, which no host can.
    """
    look_here(policy, *settings.values())
    system = make_system(policy, settings)
    if system.fluid:
        raise InvalidOption(f"{policy} runs shares of jobs as rates, which hosts cannot; take a policy with rounds")
    if round_seconds is None:
        return system
    return fitted(replace(system, round_seconds=round_seconds), round_seconds, None)


def _engine(
    store: StateStore, name: str, slots: Path | None, partition: str | None, settings: Mapping[str, Any]
) -> Engine:
    if name not in ENGINES:
        raise InvalidOption(f"--engine is {name!r}; {choices(name, ENGINES)}")
    if name == "slurm":
        from hetopt.executor.engines.slurm import SlurmEngine

        if slots is not None:
            raise InvalidOption("--slots is for --engine local; Slurm knows its own nodes")
        cpus = settings.get("cpus_per_gpu")
        if cpus is not None and not (isinstance(cpus, int) and not isinstance(cpus, bool)):
            raise InvalidOption(f"--engine-set cpus_per_gpu={cpus}; it must be a whole number")
        options = {key: str(value) for key, value in settings.items() if key != "cpus_per_gpu"}
        slurm = SlurmEngine(store.cluster, partition=partition, cpus_per_gpu=cpus, options=options)
        slurm.check_options()
        return slurm
    if settings:
        raise InvalidOption("--engine-set is for --engine slurm")
    if partition is not None:
        raise InvalidOption("--partition is for --engine slurm")
    return LocalEngine(_hosts(slots), store.cluster)


def _hosts(slots: Path | None) -> tuple[Node, ...]:
    """Declared slots, else this machine's GPUs."""
    if slots is not None:
        return read_slots(slots)
    from hetopt.executor.engines.nvidia import find_gpus, why_no_gpus

    host = check_name(socket.gethostname().partition(".")[0], "this machine's name")
    if (found := find_gpus(host)) is None:
        raise InvalidOption(f"{why_no_gpus()}; declare CPU slots in a file and name it by --slots")
    return (found,)


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
