"""The file that ``hetopt submit`` reads: what a job runs, on what, for how long."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from hetopt.checks import MOST_COUNTED
from hetopt.data.file_values import Amount, Natural, Part, Positive, Weight, wrong
from hetopt.data.units import SECONDS
from hetopt.errors import InvalidOption
from hetopt.executor.lease_directory import LOG_BYTES
from hetopt.executor.names import WANTED, is_name
from hetopt.executor.spec_files import read_spec
from hetopt.executor.units import BYTES


def with_unit(units: dict[str, float], example: str) -> Any:
    """Numbers, or text of a number and a unit, as numbers."""

    def read(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        text = value.strip()
        unit = text.lstrip("0123456789.eE+-_ ")
        number = text.removesuffix(unit).strip()
        try:
            return float(number) * (units[unit] if unit else 1.0)
        except (KeyError, ValueError):
            raise wrong(f"a number, or one with a unit ({', '.join(units)}), such as {example}") from None

    return BeforeValidator(read)


Bytes = Annotated[Amount, with_unit(BYTES, "12 GiB")]
Seconds = Annotated[Positive, with_unit(SECONDS, "10 min")]


def _named(value: Any) -> Any:
    if not is_name(value):
        raise wrong(WANTED)
    return value


def _word(value: Any) -> Any:
    """A word of a command; numbers are taken as they are written."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise wrong("a word of the command, in quotes where YAML would read something else")
    if "\0" in str(value):
        raise wrong("a word without null characters")
    return str(value)


def _program(words: list[str]) -> list[str]:
    """A command begins with the name of a program."""
    if not words[0].strip():
        raise wrong("a program and its arguments")
    return words


Named = Annotated[str, BeforeValidator(_named)]
Word = Annotated[str, BeforeValidator(_word)]


class EstimateSpec(Part):
    """Input of equation (10) of Hadar, which estimates the speed before it was measured."""

    batch_size: Positive = 1.0
    model_weight: Literal["small", "modest", "high", "extra high"] | Positive = "modest"
    dataset_size: Literal["S", "M", "L", "XL"] | Positive = "M"


class JobSpec(Part):
    """A training job, as its owner describes it."""

    name: Named
    """Used once; a number is added where the same file is submitted again with ``--again``."""
    command: Annotated[list[Word], Field(min_length=1), AfterValidator(_program)]
    """Program and arguments. No shell is between: for one, say ``[bash, -c, …]``."""
    workers: Natural = 1
    """GPUs of the gang; it runs on all of them or not at all."""
    steps: Natural
    """Training steps of the whole job."""
    gpu_types: Annotated[list[Named], Field(min_length=1)] | None = None
    """Types that it may run on; default: all."""
    memory: Bytes = 0.0
    """Memory that one worker needs on its GPU, e.g. ``12 GiB``; types with less are left out. 0: found by profiling."""
    tenant: Named = "default"
    """The tenant that gets the fair share."""
    model: Named | None = None
    """What it trains; jobs of a tenant that train the same are one job type."""
    weight: Weight = 1.0
    """Importance under policies that are fair to jobs."""
    checkpoint: Seconds = 600.0
    """Longest time between checkpoints, in seconds or as ``10 min``."""
    grace: Seconds = 30.0
    """Time to write a checkpoint when asked to stop; then it is killed."""
    log: Bytes = float(LOG_BYTES)
    """Limit of its log on each node; the newest output is retained. 0: none."""
    cwd: str | None = None
    """Working directory; default: that of the job's file."""
    environment: dict[str, Word] = Field(default_factory=dict)
    """Further environment variables."""
    launch: Literal["worker", "node"] = "worker"
    """One process for each worker, or one on each node (``torchrun`` and the like)."""
    fork: bool = False
    """Whether it may run in several copies whose parameters are averaged each round (HadarE)."""
    estimate: EstimateSpec = Field(default_factory=EstimateSpec)
    deadline: Seconds | None = None
    """Time after submission by which it should be done; read by utilities (Hadar)."""
    utility: str | None = None
    """Name of the utility of its completion time (Hadar)."""


def read_job(path: Path) -> JobSpec:
    """The job that a file describes, with its working directory made absolute.

    Raises
    ------
    UnusableFile
        The file cannot be read.
    InvalidOption
        It describes no job; file, line and key are named.
    """
    spec = read_spec(JobSpec, path)
    folder = Path(os.path.abspath(path)).parent
    cwd = Path(os.path.normpath(folder / os.path.expanduser(spec.cwd))) if spec.cwd else folder  # never raises
    if any("\ud800" <= letter <= "\udfff" for letter in str(cwd)):  # bytes that are no letters
        raise InvalidOption(f"is {str(cwd)!r}, which is not UTF-8", "cwd").in_file(str(path))
    if not cwd.is_dir():
        raise InvalidOption(f"is {spec.cwd!r}, and {cwd} is no folder", "cwd").in_file(str(path))
    for name, value in spec.environment.items():
        if not name.isidentifier() or "\0" in value:
            problem = InvalidOption(f"has {name!r}; it must be the name of a variable", "environment")
            raise problem.in_file(str(path))
    if spec.steps > MOST_COUNTED:
        raise InvalidOption(f"is {spec.steps}; it may be {MOST_COUNTED} at most", "steps").in_file(str(path))
    return spec.model_copy(update={"cwd": str(cwd)})
