"""Instances in files: YAML or JSON in the form of :mod:`hetopt.files.schema`, read and written without loss."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hetopt.checks import boolean
from hetopt.data.instance import Instance
from hetopt.data.scale import check_instance
from hetopt.data.workload import JobType, Tenant
from hetopt.errors import InvalidInstance, InvalidOption, UnusableFile
from hetopt.files import documents
from hetopt.files.decoding import to_instance
from hetopt.files.documents import Fault
from hetopt.files.encoding import encode
from hetopt.files.saving import save

LARGEST = 2**30
"""Bytes of the largest file that is read; beyond that make the instance from arrays or tables."""

PARSERS = {".yaml": documents.from_yaml, ".yml": documents.from_yaml, ".json": documents.from_json}


def read(path: str | os.PathLike[str], *, any_scale: bool = False) -> Instance:
    """The instance in a YAML or JSON file.

    Parameters
    ----------
    path:
        Ends with ``.yaml``, ``.yml`` or ``.json``.
    any_scale:
        Speedups that are relative to something else than the slowest GPU type are meant so; nothing is warned of.

    Raises
    ------
    UnusableFile
        The file is absent, a folder, not allowed to be read, or above 1 GiB.
    InvalidInstance
        What it holds is no instance. The one line names file, line, key, value, and what would be right.
    InvalidOption
        Another ending.

    Warns
    -----
    SuspiciousSpeedups
        The smallest ``speedup`` of a tenant above zero is not 1: it looks like throughputs.
    """
    return decode(read_document(path), path, any_scale=any_scale)


def read_document(path: str | os.PathLike[str]) -> Any:
    """The plain data in a YAML or JSON file, not yet checked against the schema; errors as :func:`read`."""
    parse, text = _parser(path), _text(Path(path))
    try:
        return parse(text)
    except Fault as fault:
        raise _located(fault, path, text) from None


def decode(document: Any, path: str | os.PathLike[str] = "document", *, any_scale: bool = False) -> Instance:
    """The instance that plain data (mappings, lists, text, numbers) in the form of the schema stand for.

    Parameters
    ----------
    document:
        As :func:`hetopt.files.encoding.encode` returns.
    path:
        Named in errors; where it is a file, the line is looked up in it.
    any_scale:
        As of :func:`read`, which says too what is warned of.

    Raises
    ------
    InvalidInstance
        The data are no instance.
    """
    file = Path(path)
    try:
        instance = to_instance(document)
    except Fault as fault:
        raise _located(fault, path, _text(file) if file.is_file() else "") from None
    if not boolean(any_scale, "any_scale", InvalidInstance):

        def where(i: int, tenant: Tenant, kind: JobType) -> str:
            short = "speedup" in document["tenants"][i]
            inside: documents.Path = () if short else ("job_types", tenant.job_types.index(kind))
            at = ("tenants", i, *inside, "speedup")
            place = f"tenants[{tenant.name!r}]" if short else f"tenants[{tenant.name!r}].job_types[{kind.name!r}]"
            return str(_located(Fault(f"{place}.speedup", at), path, _text(file) if file.is_file() else ""))

        check_instance(instance, where, "write throughput instead of speedup")
    return instance


def write(instance: Instance, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write an instance as YAML or JSON (the ending decides); :func:`read` gives an equal one.

    The file appears whole or not at all: it is written beside its place and then moved there.

    Raises
    ------
    UnusableFile
        There is a file and ``overwrite`` is False, or the folder is absent or not allowed to be written.
    InvalidOption
        An ending other than ``.yaml``, ``.yml``, ``.json``.
    """
    dump = documents.to_json if _parser(path) is documents.from_json else documents.to_yaml
    save(dump(encode(instance)), path, overwrite=overwrite)


def _parser(path: str | os.PathLike[str]) -> Any:
    ending = Path(path).suffix.lower()
    if ending not in PARSERS:
        raise InvalidOption(f"{path} ends with {ending!r}; it must end with one of {', '.join(PARSERS)}")
    return PARSERS[ending]


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST:
            raise UnusableFile(f"{path} is larger than 1 GiB; make the instance from arrays or tables instead")
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise InvalidInstance(f"{path} is not UTF-8 text (byte {problem.start}); it must be YAML or JSON") from None
    except (OSError, ValueError) as problem:
        if isinstance(problem, UnusableFile):
            raise
        raise UnusableFile(f"{path} cannot be read: {getattr(problem, 'strerror', None) or problem}") from None


def _located(fault: Fault, path: str | os.PathLike[str], text: str) -> InvalidInstance:
    line = fault.line if fault.line is not None or not text else documents.line_of(text, fault.path)
    place = f"{path}:{line}" if line else f"{path}"
    return InvalidInstance(" ".join(f"{place}: {fault}".split()))
