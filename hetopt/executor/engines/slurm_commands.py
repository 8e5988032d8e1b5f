"""Slurm's commands: how they are called, and what their failing means."""

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

KEPT = re.compile(
    "PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_.*|TZ|LD_LIBRARY_PATH|PYTHON.*|VIRTUAL_ENV|CONDA_.*|SLURM_CONF|SLURM_JWT"
)
"""Variables that the commands and runners get: others, such as SBATCH_* and SQUEUE_*, change what an option means."""

REFUSALS = (
    "access/permission denied",
    "cpu count specification invalid",
    "doesn't allow an argument",
    "invalid --",
    "invalid account",
    "invalid feature",
    "invalid generic resource",
    "invalid gres",
    "invalid license",
    "invalid node name",
    "invalid partition",
    "invalid qos",
    "invalid trackable resource",
    "is ambiguous",
    "memory required by task is not available",
    "more processors requested than permitted",
    "mutually exclusive",
    "no partition specified",
    "node count specification invalid",
    "not permitted to use this partition",
    "requested gres option unsupported",
    "requested node configuration is not available",
    "requested nodes not in this partition",
    "requested reservation is invalid",
    "time limit specification required",
    "unrecognized --",
    "unrecognized option",
)
"""What a request is told that will never be carried out; any other trouble may pass."""

OVER = ("already completing or completed", "invalid job id", "job is pending execution", "job/step already")
"""What is said of a job that cannot be signalled because there is nothing to signal."""


@dataclass(frozen=True)
class CommandResult:
    """How a command ended, and what it printed."""

    code: int
    out: str
    error: str

    @property
    def problem(self) -> str:
        """What it complains of, on one line."""
        lines = [re.sub(r"^\w+: (error|fatal): ", "", line.strip()) for line in self.error.splitlines()]
        return "; ".join(line for line in lines if line) or f"exit code {self.code}"


class Commands:
    """Calls the commands: argument lists and never a shell, a clean environment, a time limit.

    Parameters
    ----------
    seconds:
        How long a command may take; without slurmctld they would try for half a minute.

    Raises
    ------
    InvalidOption
        They are not on this machine.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self._paths = seconds, {}
        for name in PROGRAMS:
            path = shutil.which(name)
            if path is None:
                raise InvalidOption(
                    f"Slurm's commands are not on this machine: {name} not found in PATH={os.environ.get('PATH', '')}"
                )
            self._paths[name] = path

    def call(self, name: str, *words: str, stdin: str = "", more: Mapping[str, str] | None = None) -> CommandResult:
        """Run a command, with ``more`` variables in its environment.

        Raises
        ------
        EngineDown
            It does not end in time, or cannot be started.
        """
        environment = {key: value for key, value in os.environ.items() if KEPT.fullmatch(key)} | dict(more or {})
        try:
            done = subprocess.run(
                [self._paths[name], *words],
                input=stdin.encode(),
                capture_output=True,
                timeout=self.seconds,
                env=environment,
                check=False,
                start_new_session=True,  # Ctrl-C is for the controller, which ends in order
            )
        except subprocess.TimeoutExpired:
            raise EngineDown(f"{name} has not answered within {self.seconds:g} s") from None
        except OSError as problem:
            raise EngineDown(f"{name} cannot be started: {problem.strerror}") from None
        return CommandResult(
            done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        )

    def ask(self, name: str, *words: str) -> str:
        """What a command prints.

        Raises
        ------
        EngineDown
            It fails, for whatever reason.
        """
        answer = self.call(name, *words)
        if answer.code:
            raise EngineDown(f"{name}: {answer.problem}")
        return answer.out


def failure(answer: CommandResult) -> EngineDown | Refused:
    """Why sbatch has failed: Slurm will never do it, or (whenever that is not certain) it may later."""
    if any(text in answer.problem.lower() for text in REFUSALS):
        return Refused(f"Slurm refuses: {answer.problem}")
    return EngineDown(f"sbatch: {answer.problem}")
