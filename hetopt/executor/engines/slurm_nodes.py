"""What Slurm says of its nodes and partitions (``scontrol --oneliner --details show …``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

UP = frozenset(
    {"ALLOC", "ALLOCATED", "CLOUD", "COMP", "COMPLETING", "DYNAMIC_FUTURE", "DYNAMIC_NORM", "IDLE", "MIX", "MIXED"}
    | {"PLANNED", "POWERED_DOWN", "POWERING_UP", "POWER_UP", "REBOOT_REQUESTED", "RESUME"}
)
"""Words in the state of a node that takes jobs; one that saves power is woken by them."""

SILENT = frozenset({"NO_RESPOND", "NOT_RESPONDING"})
KEPT_FREE = frozenset({"MAINT", "MAINTENANCE", "RESERVED"})
"""Words for nodes in a reservation; they keep nobody away who has it."""

MARKS = {"*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "%": "POWERING_DOWN", "$": "MAINT"}
"""Short forms of flags at the end of a state."""

STICKS = re.compile(
    r"duplicate jobid|kill task failed|unexpectedly rebooted|(prolog|epilog) error|complete failure|gres/gpu"
    r"|\blow (real|tmp|sock|cpu)",
    re.IGNORECASE,
)
"""Reasons that Slurm gives, and does not take back by itself."""


@dataclass(frozen=True)
class Partition:
    """A partition.

    Parameters
    ----------
    default:
        Whether it is the default.
    most_cpus, most_megabytes:
        The most of a node that a job may have there.
    state:
        UP where jobs begin.
    shares_cpus:
        Several jobs may have the same CPUs there.
    """

    name: str
    default: bool
    most_cpus: int | None
    most_megabytes: int | None
    state: str = "UP"
    shares_cpus: bool = False


@dataclass(frozen=True)
class Host:
    """A node as Slurm sees it.

    Parameters
    ----------
    gpus:
        Type -> number.
    used:
        Type -> number that jobs hold.
    state:
        Words, such as IDLE and DRAIN.
    cpus, threads, megabytes:
        What jobs may have of it; CPUs come by cores of so many threads.
    free_cpus, free_megabytes:
        What of it nobody has; of memory all where Slurm does not keep account of it.
    """

    name: str
    gpus: Mapping[str, int]
    used: Mapping[str, int]
    state: tuple[str, ...]
    reason: str
    address: str
    partitions: tuple[str, ...]
    cpus: int
    threads: int
    megabytes: int
    free_cpus: int
    free_megabytes: int

    @property
    def matters(self) -> tuple[str, ...]:
        """Words of its state that keep jobs from it."""
        wakes = not {"POWERING_UP", "POWER_UP"}.isdisjoint(self.state)  # it will respond once it is awake
        return tuple(word for word in self.state if word not in UP and not (wakes and word in SILENT))

    @property
    def up(self) -> bool:
        """Whether a job that is submitted now would start there."""
        return not self.matters

    @property
    def unknown(self) -> bool:
        """Whether the controller has not heard of it since it was started itself."""
        return self.state[0] in ("UNKNOWN", "UNK")

    @property
    def note(self) -> str:
        """What is the matter with it, for people."""
        said = ": ".join(filter(None, ["+".join(self.matters), self.reason]))
        heard = SILENT.isdisjoint(self.state)
        if STICKS.search(self.reason) or ("DOWN" in self.state and heard):
            return f"{said}; when it is well, an operator says: scontrol update nodename={self.name} state=resume"
        return said


def fields(line: str) -> dict[str, str]:
    """``Key=value`` pairs of a record of ``scontrol --oneliner``; values may hold spaces, and free text stands last."""
    line, _, reason = line.partition(" Reason=")
    found = {"Reason": reason.strip()}
    keys = list(re.finditer(r"(?:^| )([A-Z]\w*)=", line))
    for key, after in zip(keys, [*keys[1:], None], strict=False):
        found.setdefault(key[1], line[key.end() : None if after is None else after.start()].strip())
    return found


def partitions(text: str) -> list[Partition]:
    """All in the output of ``scontrol show partition``."""
    found = []
    for line in text.splitlines():
        if name := (said := fields(line)).get("PartitionName"):
            cpus, memory = (_number(said.get(key, ""), 0) or None for key in ("MaxCPUsPerNode", "MaxMemPerNode"))
            shares = re.fullmatch(r"FORCE:(\d+)", said.get("OverSubscribe", ""))
            state, default = said.get("State", "UP"), said.get("Default") == "YES"
            found.append(Partition(name, default, cpus, memory, state, shares is not None and int(shares[1]) > 1))
    return found


def hosts(text: str) -> list[Host]:
    """All in the output of ``scontrol show node``, in the order of their names."""
    found = [_host(said) for line in text.splitlines() if "NodeName" in (said := fields(line))]
    return sorted(found, key=lambda host: [int(s) if s.isdecimal() else s for s in re.split(r"(\d+)", host.name)])


def _host(said: Mapping[str, str]) -> Host:
    cores = _number(said.get("Sockets", ""), 1) * _number(said.get("CoresPerSocket", ""), 1)
    every, threads = _number(said.get("CPUTot", ""), 1), _number(said.get("ThreadsPerCore", ""), 1)
    cpus = _number(said.get("CPUEfctv", ""), every)
    megabytes = _number(said.get("RealMemory", ""), 1) - _number(said.get("MemSpecLimit", ""), 0)
    return Host(
        name=said["NodeName"],
        gpus=gpus(said.get("Gres", "")),
        used=gpus(said.get("GresUsed", "")),
        state=states(said.get("State", "")),
        reason=said["Reason"],
        address=said.get("NodeAddr", said["NodeName"]),
        partitions=tuple(said.get("Partitions", "").split(",")),
        cpus=cpus,
        threads=threads if every == cores * threads else 1,  # otherwise a site counts cores as CPUs
        megabytes=megabytes,
        free_cpus=max(0, cpus - _number(said.get("CPUAlloc", ""), 0)),
        free_megabytes=max(0, megabytes - _number(said.get("AllocMem", ""), 0)),
    )


def gpus(gres: str) -> dict[str, int]:
    """Type -> number of the GPUs among generic resources such as ``gpu:v100:2(S:0-1),gpu:4,shard:8``."""
    found: dict[str, int] = {}
    for part in re.sub(r"\([^)]*\)", "", gres).split(","):  # sockets and indices in brackets may hold commas
        name, *words = [word for word in part.strip().split(":") if word not in ("", "no_consume")] or [""]
        if name != "gpu":
            continue
        number = _number(words.pop(), 1) if words and re.fullmatch(r"\d+[kKmMgG]?", words[-1]) else 1
        if number:
            gpu_type = words[0] if words else "gpu"
            found[gpu_type] = found.get(gpu_type, 0) + number
    return found


def states(said: str) -> tuple[str, ...]:
    """The words of a node's state, such as ``MIXED+DRAIN`` or ``idle*``."""
    words = []
    for word in said.upper().split("+"):
        plain = word.rstrip("*~#!%$@^-")
        words += [plain, *(MARKS[mark] for mark in word[len(plain) :] if mark in MARKS)]
    return tuple(word for word in words if word) or ("UNKNOWN",)


def _number(said: str, otherwise: int) -> int:
    """A count such as ``8`` or ``2K``; ``otherwise`` where it is none."""
    match = re.fullmatch(r"(\d+)([kKmMgG]?)", said)
    if match is None:
        return otherwise
    return int(match[1]) * {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}[match[2].lower()]
