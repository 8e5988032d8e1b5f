"""The files that users write: a job for ``hetopt submit``; errors name file, line and key."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError

from hetopt import checks
from hetopt.data.documents import DocumentError, from_json_or_yaml
from hetopt.data.file_values import Natural, Part, Positive, Weight, wrong
from hetopt.data.standard_input import read_bytes
from hetopt.data.units import BYTES, SECONDS
from hetopt.errors import HetoptError, InvalidOption, UnusableFile
from hetopt.executor.lease_directory import LOG_BYTES, SET_FOR_JOBS

Spec = TypeVar("Spec", bound=BaseModel)

MAX_BYTES = 1_000_000
"""A file of ours is never larger; a wrong path must not fill the memory."""


def _with_unit(units: dict[str, float], rule: str, *, strict: bool = False) -> Any:
    """A number (``strict``: above zero), or text of a number and a unit, as a number; else ``rule`` is the error."""

    def read(value: Any) -> float:
        number = value
        if isinstance(value, str):
            unit = value.strip().lstrip("0123456789.eE+-_ ")
            try:
                number = float(value.strip().removesuffix(unit)) * (units[unit] if unit else 1.0)
            except (KeyError, ValueError):
                number = math.nan
        if checks.unfit(number, strict=strict):
            raise wrong(rule)
        return float(number)

    return BeforeValidator(read)


_BYTES = f"bytes (at most {checks.MOST:g}), or a number with a unit ({', '.join(BYTES)}), such as"
_SECONDS = f"seconds > 0 (at most {checks.MOST:g}), or a number with a unit ({', '.join(SECONDS)}), such as 10 min"


def _named(value: Any) -> Any:
    if not checks.is_name(value):
        raise wrong(checks.NAME_RULE)
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


Bytes = Annotated[float, _with_unit(BYTES, f"{_BYTES} 12 GiB")]
LogBytes = Annotated[float, _with_unit(BYTES, f"{_BYTES} 1 GB; 0: no limit")]
Seconds = Annotated[float, _with_unit(SECONDS, _SECONDS, strict=True)]
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
    log: LogBytes = float(LOG_BYTES)
    """Limit of its log on each node; the newest output is retained. 0: none."""
    cwd: str | None = None
    """Working directory; default: that of the job's file."""
    environment: dict[str, Word] = Field(default_factory=dict)
    """Further environment variables; not those that hetopt sets."""
    launch: Literal["worker", "node"] = "worker"
    """One process for each worker, or one on each node (``torchrun`` and the like)."""
    fork: bool = False
    """Whether it may run in several copies whose parameters are averaged each round (HadarE)."""
    estimate: EstimateSpec = Field(default_factory=EstimateSpec)
    deadline: Seconds | None = None
    """Time after submission by which it should be done; read by utilities (Hadar)."""
    utility: str | None = None
    """Name of the utility of its completion time (Hadar)."""


def read_spec(spec: type[Spec], path: Path) -> Spec:
    """The content of a YAML or JSON file.

    Raises
    ------
    UnusableFile
        It cannot be read.
    InvalidOption
        It is no such file.
    """
    try:
        content = read_bytes(path, MAX_BYTES)
        if len(content) > MAX_BYTES:
            raise InvalidOption(f"has more than {MAX_BYTES} bytes; such a file never has").in_file(str(path))
        text = content.decode()
    except OSError as problem:
        raise UnusableFile.of(problem, path, "read") from None
    except UnicodeDecodeError:
        raise InvalidOption("is not text in UTF-8").in_file(str(path)) from None
    try:
        return _as_spec(spec, from_json_or_yaml(text))
    except DocumentError as error:
        cause = error.problem
        found = InvalidOption(cause.problem, cause.path) if isinstance(cause, HetoptError) else InvalidOption(cause)
        raise found.in_file(str(path), error.found_line(text)) from None


def _as_spec(spec: type[Spec], content: Any) -> Spec:
    if not isinstance(content, dict):
        found = "nothing" if content is None else checks.shown(content)
        raise DocumentError(f"holds {found}; it must be a mapping with the keys {', '.join(spec.model_fields)}")
    try:
        return spec.model_validate(content)
    except ValidationError as problem:
        from hetopt.data.instance_files import first_error  # needs all of an instance's classes: only when it is needed

        raise first_error(problem, "the file") from None


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
    try:
        _check(spec, cwd)
    except InvalidOption as problem:
        raise problem.in_file(str(path)) from None
    return spec.model_copy(update={"cwd": str(cwd)})


def _check(spec: JobSpec, cwd: Path) -> None:
    if any("\ud800" <= letter <= "\udfff" for letter in str(cwd)):  # bytes that are no letters
        raise InvalidOption(f"is {str(cwd)!r}, which is not UTF-8", "cwd")
    if not cwd.is_dir():
        raise InvalidOption(f"is {spec.cwd!r}, and {cwd} is no folder", "cwd")
    for name in spec.environment:
        if not name.isidentifier():
            raise InvalidOption(f"has {name!r}; it must be the name of a variable", "environment")
        if name in SET_FOR_JOBS:
            raise InvalidOption(f"has {name}; hetopt sets {', '.join(sorted(SET_FOR_JOBS))}", "environment")
