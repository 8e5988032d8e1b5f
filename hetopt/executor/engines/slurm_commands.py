"""Slurm's commands: calls, the meaning of failures, and the records of ``scontrol show``.

All output is text: the JSON plugin of Slurm 22.05 is missing at many sites.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from hetopt.errors import InvalidOption
from hetopt.executor.engines.engine import EngineDown, Refused

PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol")

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

STATE_SUFFIXES = {"*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "%": "POWERING_DOWN", "$": "MAINT"}

NEEDS_OPERATOR = re.compile(
    r"duplicate jobid|kill task failed|unexpectedly rebooted|(prolog|epilog) error|complete failure|gres/gpu"
    r"|\blow (real|tmp|sock|cpu)",
    re.IGNORECASE,
)
"""Reasons that Slurm gives for a drained node; it never resumes such a node without an operator."""


@dataclass(frozen=True)
class CommandResult:
    """Exit code and output of a command."""

    code: int
    out: str
    error: str

    @property
    def problem(self) -> str:
        """The error messages, on one line."""
        lines = [re.sub(r"^\w+: (error|fatal): ", "", line.strip()) for line in self.error.splitlines()]
        return "; ".join(line for line in lines if line) or f"exit code {self.code}"

    @property
    def failure(self) -> EngineDown | Refused:
        """Of sbatch: :class:`Refused` where Slurm will never accept the request; else a retry may succeed."""
        if REFUSALS.search(self.problem):
            return Refused(f"Slurm refuses: {self.problem}")
        return EngineDown(f"sbatch: {self.problem}")


class Commands:
    """Calls Slurm's commands: no shell, few environment variables, a time limit.

    Parameters
    ----------
    seconds:
        Time limit of a command; without slurmctld each would retry for half a minute.

    Raises
    ------
    InvalidOption
        A command is not on this machine.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self._paths = seconds, dict[str, str]()
        for name in PROGRAMS:
            if (path := shutil.which(name)) is None:
                searched = os.environ.get("PATH", "")
                raise InvalidOption(f"Slurm's commands are not on this machine: {name} not found in PATH={searched}")
            self._paths[name] = path

    def call(self, name: str, *words: str, stdin: str = "", more: Mapping[str, str] | None = None) -> CommandResult:
        """Run a command, with ``more`` environment variables.

        Raises
        ------
        EngineDown
            It does not end in time, or cannot be started.
        """
        passed = {key: value for key, value in os.environ.items() if PASSED_VARIABLES.fullmatch(key)}
        try:
            done = subprocess.run(
                [self._paths[name], *words],
                input=stdin.encode(),
                capture_output=True,
                timeout=self.seconds,
                env=passed | dict(more or {}),
                check=False,
                start_new_session=True,  # Ctrl-C is for the controller, which shuts down in order
            )
        except subprocess.TimeoutExpired:
            raise EngineDown(f"{name} has not answered within {self.seconds:g} s") from None
        except OSError as problem:
            raise EngineDown(f"{name} cannot be started: {problem.strerror}") from None
        return CommandResult(done.returncode, *(text.decode(errors="replace") for text in (done.stdout, done.stderr)))

    def output(self, name: str, *words: str) -> str:
        """The output of a command.

        Raises
        ------
        EngineDown
            It fails, for whatever reason.
        """
        result = self.call(name, *words)
        if result.code:
            raise EngineDown(f"{name}: {result.problem}")
        return result.out

    def show(self, what: str) -> str:
        """All records of ``scontrol show``: ``node``, ``partition`` or ``reservation``."""
        return self.output("scontrol", "--oneliner", "--details", "--all", "show", what)


# -- records


@dataclass(frozen=True)
class Partition:
    """A partition.

    Parameters
    ----------
    default:
        Whether it is the default one.
    most_cpus, most_megabytes:
        Limits of a job on a node; None: no limit.
    state:
        UP where jobs start.
    shares_cpus:
        Whether several jobs may use the same CPUs.
    """

    name: str
    default: bool
    most_cpus: int | None
    most_megabytes: int | None
    state: str = "UP"
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
        For jobs; CPUs are allocated as cores with this number of threads.
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
        line, _, reason = line.partition(" Reason=")
        record = {"Reason": reason.strip()}
        keys = list(re.finditer(r"(?:^| )([A-Z]\w*)=", line))
        for this, after in zip(keys, [*keys[1:], None], strict=False):
            record.setdefault(this[1], line[this.end() : None if after is None else after.start()].strip())
        found += [record] * (key in record)
    return found


def partitions(text: str) -> list[Partition]:
    """The partitions in the output of ``scontrol show partition``."""
    found = []
    for record in _records(text, "PartitionName"):
        most_cpus, most_megabytes = (_number(record.get(k, ""), 0) or None for k in ("MaxCPUsPerNode", "MaxMemPerNode"))
        forced = re.fullmatch(r"FORCE:(\d+)", record.get("OverSubscribe", ""))
        shares = forced is not None and int(forced[1]) > 1
        name, default, state = record["PartitionName"], record.get("Default") == "YES", record.get("State", "UP")
        found.append(Partition(name, default, most_cpus, most_megabytes, state, shares))
    return found


def reservations(text: str) -> dict[str, tuple[str, str]]:
    """Reservation -> (expression of its nodes, why nothing starts there now or nothing)."""
    found = {}
    for record in _records(text, "ReservationName"):
        name, why = record["ReservationName"], ""
        if record.get("State", "ACTIVE") != "ACTIVE":
            why = f"reservation {name!r} is from {record.get('StartTime')} to {record.get('EndTime')}"
        found[name] = (record.get("Nodes", ""), why)
    return found


def slurm_nodes(text: str) -> list[SlurmNode]:
    """The nodes in the output of ``scontrol show node``, ordered by name, n9 before n10."""
    found = [_node(record) for record in _records(text, "NodeName")]
    return sorted(found, key=lambda node: [int(s) if s.isdecimal() else s for s in re.split(r"(\d+)", node.name)])


def _node(record: Mapping[str, str]) -> SlurmNode:
    cores = _number(record.get("Sockets", ""), 1) * _number(record.get("CoresPerSocket", ""), 1)
    every, threads = _number(record.get("CPUTot", ""), 1), _number(record.get("ThreadsPerCore", ""), 1)
    cpus = _number(record.get("CPUEfctv", ""), every)
    megabytes = _number(record.get("RealMemory", ""), 1) - _number(record.get("MemSpecLimit", ""), 0)
    return SlurmNode(
        name=record["NodeName"],
        gpus=gpus_of(record.get("Gres", "")),
        used=gpus_of(record.get("GresUsed", "")),
        state=_states(record.get("State", "")),
        reason=record["Reason"],
        address=record.get("NodeAddr", record["NodeName"]),
        partitions=tuple(record.get("Partitions", "").split(",")),
        cpus=cpus,
        threads=threads if every == cores * threads else 1,  # else the site counts cores as CPUs
        megabytes=megabytes,
        free_cpus=max(0, cpus - _number(record.get("CPUAlloc", ""), 0)),
        free_megabytes=max(0, megabytes - _number(record.get("AllocMem", ""), 0)),
    )


def gpus_of(gres: str) -> dict[str, int]:
    """GPU type -> number, of generic resources such as ``gpu:v100:2(S:0-1),gpu:4,shard:8``."""
    found: dict[str, int] = {}
    for part in re.sub(r"\([^)]*\)", "", gres).split(","):  # sockets and indices in brackets may hold commas
        name, *words = [word for word in part.strip().split(":") if word not in ("", "no_consume")] or [""]
        if name == "gpu":
            number = _number(words.pop(), 1) if words and re.fullmatch(r"\d+[kKmMgG]?", words[-1]) else 1
            gpu_type = words[0] if words else "gpu"
            found[gpu_type] = found.get(gpu_type, 0) + number
    return {gpu_type: number for gpu_type, number in found.items() if number}


def _states(text: str) -> tuple[str, ...]:
    """The words of a node's state, such as ``MIXED+DRAIN`` or ``idle*``."""
    words = []
    for word in text.upper().split("+"):
        plain = word.rstrip("*~#!%$@^-")
        words += [plain, *(STATE_SUFFIXES[mark] for mark in word[len(plain) :] if mark in STATE_SUFFIXES)]
    return tuple(filter(None, words)) or ("UNKNOWN",)


def _number(text: str, otherwise: int) -> int:
    """A count such as ``8`` or ``2K``; ``otherwise`` where it is none."""
    match = re.fullmatch(r"(\d+)([kKmMgG]?)", text)
    return otherwise if match is None else int(match[1]) * 1024 ** " kmg".index(match[2].lower() or " ")
