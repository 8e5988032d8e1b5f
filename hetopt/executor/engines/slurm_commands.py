"""Slurm's commands: calls, the meaning of failures, and the records of ``scontrol show``.

All output is text: ``scontrol`` of Slurm 22.05 has no JSON, and that of ``squeue`` and ``sinfo`` needs a plugin that
many sites lack, has no partitions or reservations, and changes with each version.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from hetopt.executor.engines.engine import EngineDown, Refused

PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol")

COMMAND_SECONDS = 15.0
"""Time limit of a command; without slurmctld each would retry for half a minute."""

PASSED_VARIABLES = re.compile(
    "PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_.*|TZ|LD_LIBRARY_PATH|PYTHON.*|VIRTUAL_ENV|CONDA_.*|SLURM_CONF|SLURM_JWT"
)
"""Variables for commands and runners. Others, such as SBATCH_* and SQUEUE_*, would change the meaning of options."""

REFUSALS = re.compile(
    "access/permission denied|cpu count specification invalid|doesn't allow an argument|is ambiguous"
    "|invalid (--|account|feature|generic resource|gres|license|node name|partition|qos|trackable resource)"
    "|memory required by task is not available|more processors requested than permitted|mutually exclusive"
    "|no partition specified|node count specification invalid|not permitted to use this partition"
    "|requested gres option unsupported|requested node configuration is not available"
    "|requested nodes not in this partition|requested reservation is invalid"
    "|time limit specification required|unrecognized (--|option)",
    re.IGNORECASE,
)
"""Errors of sbatch for requests that Slurm will never accept; after any other error a retry may succeed."""

NOTHING_TO_SIGNAL = re.compile(
    "already completing or completed|invalid job id|job is pending execution|job/step already", re.IGNORECASE
)
"""Errors of scancel for jobs without a process to signal."""

READY_STATES = frozenset(
    {"ALLOC", "ALLOCATED", "CLOUD", "COMP", "COMPLETING", "DYNAMIC_FUTURE", "DYNAMIC_NORM", "IDLE", "MIX", "MIXED"}
    | {"PLANNED", "POWERED_DOWN", "POWERING_UP", "POWER_UP", "REBOOT_REQUESTED", "RESUME"}
)
"""States of a node that takes jobs; jobs wake one that saves power."""

SILENT_STATES = frozenset({"NO_RESPOND", "NOT_RESPONDING"})
RESERVED_STATES = frozenset({"MAINT", "MAINTENANCE", "RESERVED"})
"""States of nodes in a reservation; jobs of that reservation start there."""

STATE_MARKS = {"*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "%": "POWERING_DOWN", "$": "MAINT"}
"""Suffixes of states that older versions print."""

NEEDS_OPERATOR = re.compile(
    r"duplicate jobid|kill task failed|unexpectedly rebooted|(prolog|epilog) error|complete failure|gres/gpu"
    r"|\blow (real|tmp|sock|cpu)",
    re.IGNORECASE,
)
"""Reasons that Slurm gives for a drained node; it never resumes such a node without an operator."""

UNLIMITED = 2**62


def call(program: str, *words: str, stdin: str = "", more: Mapping[str, str] | None = None) -> str:
    """The output of a command, which has no shell, few environment variables (and ``more``), and a time limit.

    Raises
    ------
    Refused
        Slurm will never accept this request of sbatch.
    EngineDown
        Any other failure; a retry may succeed.
    """
    passed = {key: value for key, value in os.environ.items() if PASSED_VARIABLES.fullmatch(key)}
    try:
        done = subprocess.run(
            [program, *words],
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=COMMAND_SECONDS,
            env=passed | dict(more or {}),
            check=False,
            start_new_session=True,  # Ctrl-C is for the controller, which shuts down in order
        )
    except subprocess.TimeoutExpired:
        raise EngineDown(f"{program} has not answered within {COMMAND_SECONDS:g} s") from None
    except OSError as problem:
        raise EngineDown(f"{program} cannot be started: {problem.strerror}") from None
    lines = [re.sub(r"^\w+: (error|fatal): ", "", line.strip()) for line in done.stderr.splitlines()]
    message = "; ".join(filter(None, lines)) or f"exit code {done.returncode}"
    if done.returncode == 0 or (program == "scancel" and NOTHING_TO_SIGNAL.search(message)):
        return done.stdout
    if program == "sbatch" and REFUSALS.search(message):
        raise Refused(f"Slurm refuses: {message}")
    raise EngineDown(f"{program}: {message}")


def show(what: str) -> str:
    """All records of ``scontrol show``: ``node``, ``partition`` or ``reservation``."""
    return call("scontrol", "--oneliner", "--details", "--all", "show", what)


# -- records


@dataclass(frozen=True)
class Partition:
    """A partition.

    Parameters
    ----------
    default:
        Whether it is the default one.
    state:
        UP where jobs start.
    most_cpus, most_megabytes:
        Limits of a job on a node.
    shares_cpus:
        Whether several jobs may use the same CPUs.
    """

    name: str
    default: bool = False
    state: str = "UP"
    most_cpus: int = UNLIMITED
    most_megabytes: int = UNLIMITED
    shares_cpus: bool = False


@dataclass(frozen=True)
class SlurmNode:
    """A node.

    Parameters
    ----------
    gpus, used:
        GPU type -> GPUs that it has, and that jobs hold.
    state:
        Words such as IDLE and DRAIN.
    cpus, threads, megabytes:
        For jobs; CPUs are allocated as cores with this number of threads. Without configured memory 0 megabytes.
    free_cpus, free_megabytes:
        Not allocated; where Slurm does not account for memory, all of it.
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
    def _closed(self) -> tuple[str, ...]:
        """States because of which no job starts here."""
        wakes = not {"POWERING_UP", "POWER_UP"}.isdisjoint(self.state)  # it responds once it is awake
        return tuple(word for word in self.state if word not in READY_STATES and not (wakes and word in SILENT_STATES))

    @property
    def up(self) -> bool:
        """Whether a job that is submitted now would start here."""
        return not self._closed

    @property
    def unknown(self) -> bool:
        """Whether slurmctld has had no message of it since its own start."""
        return self.state[0] in ("UNKNOWN", "UNK")

    @property
    def note(self) -> str:
        """Why no job starts here, and what an operator must do."""
        why = ": ".join(filter(None, ["+".join(self._closed), self.reason]))
        responds = SILENT_STATES.isdisjoint(self.state)
        if NEEDS_OPERATOR.search(self.reason) or ("DOWN" in self.state and responds):
            return f"{why}; once repaired, an operator runs: scontrol update nodename={self.name} state=resume"
        return why


def _records(text: str, key: str) -> list[dict[str, str]]:
    """Records of ``scontrol --oneliner show`` that have this key; values may hold spaces, and free text is last."""
    found = []
    for line in text.splitlines():
        facts, _, reason = line.partition(" Reason=")
        pairs = re.findall(r"(?:^| )([A-Z]\w*)=(.*?) *(?= [A-Z]\w*=|$)", facts)
        found.append(dict(reversed(pairs)) | {"Reason": reason.strip()})  # of two values the first
    return [record for record in found if key in record]


def partitions(text: str) -> dict[str, Partition]:
    """The partitions in the output of ``scontrol show partition``, by name."""
    return {
        record["PartitionName"]: Partition(
            record["PartitionName"],
            default=record.get("Default") == "YES",
            state=record.get("State", "UP"),
            most_cpus=number(record.get("MaxCPUsPerNode", ""), 0) or UNLIMITED,
            most_megabytes=number(record.get("MaxMemPerNode", ""), 0) or UNLIMITED,
            shares_cpus=number(record.get("OverSubscribe", "").removeprefix("FORCE:"), 1) > 1,
        )
        for record in _records(text, "PartitionName")
    }


def reservations(text: str) -> dict[str, tuple[str, str]]:
    """Reservation -> (expression of its nodes, why nothing starts there now or nothing)."""
    found = {}
    for record in _records(text, "ReservationName"):
        name, why = record["ReservationName"], ""
        if record.get("State", "ACTIVE") != "ACTIVE":
            why = f"reservation {name!r} is from {record.get('StartTime')} to {record.get('EndTime')}"
        found[name] = (record.get("Nodes", "").replace("(null)", ""), why)
    return found


def slurm_nodes(text: str) -> list[SlurmNode]:
    """The nodes in the output of ``scontrol show node``, ordered by name, n9 before n10."""
    found = [_node(record) for record in _records(text, "NodeName")]
    return sorted(found, key=lambda node: [int(s) if s.isdecimal() else s for s in re.split(r"(\d+)", node.name)])


def _node(record: Mapping[str, str]) -> SlurmNode:
    def count(key: str, otherwise: int) -> int:
        return number(record.get(key, ""), otherwise)

    every, threads = count("CPUTot", 1), count("ThreadsPerCore", 1)
    cpus, memory = count("CPUEfctv", every), count("RealMemory", 1)  # 1: not configured
    megabytes = max(0, memory - count("MemSpecLimit", 0)) if memory > 1 else 0
    return SlurmNode(
        name=record["NodeName"],
        gpus=gpus_of(record.get("Gres", "")),
        used=gpus_of(record.get("GresUsed", "")),
        state=_states(record.get("State", "")),
        reason=record["Reason"],
        address=record.get("NodeAddr", record["NodeName"]),
        partitions=tuple(record.get("Partitions", "").split(",")),
        cpus=cpus,
        # A site may count cores as CPUs.
        threads=threads if every == count("Sockets", 1) * count("CoresPerSocket", 1) * threads else 1,
        megabytes=megabytes,
        free_cpus=max(0, cpus - count("CPUAlloc", 0)),
        free_megabytes=max(0, megabytes - count("AllocMem", 0)),
    )


def gpus_of(gres: str) -> dict[str, int]:
    """GPU type -> number, of generic resources such as ``gpu:v100:2(S:0-1),gpu:4,shard:8``."""
    found: dict[str, int] = {}
    for part in re.sub(r"\([^)]*\)", "", gres).split(","):  # sockets and indices in brackets may hold commas
        name, *words = [word for word in part.strip().split(":") if word not in ("", "no_consume")] or [""]
        if name == "gpu":
            there = number(words.pop(), 1) if words and re.fullmatch(r"\d+[kKmMgG]?", words[-1]) else 1
            gpu_type = words[0] if words else "gpu"
            found[gpu_type] = found.get(gpu_type, 0) + there
    return {gpu_type: there for gpu_type, there in found.items() if there}


def _states(text: str) -> tuple[str, ...]:
    """The words of a node's state, such as ``MIXED+DRAIN`` or ``idle*``."""
    words = re.findall(r"\w+|[*~#%$]", text.upper())
    return tuple(STATE_MARKS.get(word, word) for word in words) or ("UNKNOWN",)


def number(text: str, otherwise: int) -> int:
    """A count such as ``8`` or ``2K``; ``otherwise`` where it is none."""
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", text.lower())
    return otherwise if match is None else int(match[1]) * 1024 ** " kmgt".index(match[2] or " ")


def megabytes_of(size: str) -> int:
    """Megabytes, rounded up, of a size such as ``500`` or ``2G``; 0 where it is none."""
    return -(-number(f"{size}M" if size.isdecimal() else size, 0) // 2**20)
