"""Digests of the files that settings refer to, so that a run is repeated when one of them changes."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import file_digest, sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

DIGITS = 16
"""Hexadecimal digits of a digest."""


def file_digests(settings: object) -> dict[str, str]:
    """Digests of all files that the settings name, including the module of a ``module:Name``.

    A folder as ``trace`` counts as one file, and so does a module with all modules that it imports, directly or
    indirectly, except installed ones. Unreadable files are left out; the code that needs them reports the error.

    Parameters
    ----------
    settings:
        Settings in JSON types: texts, and mappings and sequences of them.

    Returns
    -------
    dict
        Text -> first digits of the SHA-256 of the file; texts that do not name a file are left out.
    """
    trace = settings.get("trace") if isinstance(settings, Mapping) else None
    found = {}
    for text in dict.fromkeys(_texts(settings)):
        try:
            if text == trace and Path(text).is_dir():
                found[text] = _digest_of_all(sorted(path for path in Path(text).iterdir() if path.is_file()))
            elif Path(text).is_file():
                found[text] = _digest_of(Path(text))
            elif (module := _module(text)) and (files := _own_files(module)):
                found[text] = _digest_of_all(files)
        except (OSError, ValueError, SyntaxError):
            continue
    return found


def _texts(settings: object) -> Iterator[str]:
    if isinstance(settings, str):
        yield settings
    elif isinstance(settings, Mapping):
        for value in settings.values():
            yield from _texts(value)
    elif isinstance(settings, Sequence):
        for value in settings:
            yield from _texts(value)


def _module(text: str) -> str | None:
    """The module of ``module:Name``."""
    module, colon, name = text.partition(":")
    named = colon and name.isidentifier() and all(part.isidentifier() for part in module.split("."))
    return module if named else None


def _own_files(first: str) -> list[Path]:
    """The files of a module and of all modules that it imports, except installed ones."""
    found: dict[str, Path] = {}
    ahead = [first]
    while ahead:
        module = ahead.pop()
        if module in found or (module != first and not _is_own(module.partition(".")[0])):
            continue
        if (spec := _spec(module)) is None or not spec.has_location:
            continue
        found[module] = Path(spec.origin)
        package = module if spec.submodule_search_locations else module.rpartition(".")[0]
        if found[module].suffix == ".py":
            ahead += _imported(found[module].absolute(), _file_state(found[module]), package)
    return [found[module] for module in sorted(found)]


def _is_own(package: str) -> bool:
    """Whether a package is the user's: neither installed nor part of Python or hetopt."""
    if package in sys.stdlib_module_names or package == "hetopt" or (spec := _spec(package)) is None:
        return False
    places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())  # without __init__.py
    return bool(places) and not any(
        part in ("site-packages", "dist-packages") for place in places for part in Path(place).parts
    )


def _spec(module: str) -> Any:
    """Spec of a module; None if there is none."""
    try:
        return find_spec(module)
    except Exception:  # importing a parent package may raise anything; loading the module reports it
        return None


@lru_cache(maxsize=256)
def _imported(file: Path, _state: tuple[int, int], package: str) -> tuple[str, ...]:
    """Modules that a Python file imports, and imported names that may be modules."""
    found: list[str] = []
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            found += (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            if base := ".".join([*above, *([node.module] if node.module else [])]):
                found += (base, *(f"{base}.{name.name}" for name in node.names))
    return tuple(found)


def _digest_of_all(files: Sequence[Path]) -> str:
    """One digest of the names and bytes of several files."""
    if len(files) == 1:
        return _digest_of(files[0])
    own = [f"{path.name} {_digest_of(path)}" for path in files]
    return sha256("\n".join(own).encode()).hexdigest()[:DIGITS]


def _digest_of(path: Path) -> str:
    return _digest(path.absolute(), _file_state(path))


def _file_state(path: Path) -> tuple[int, int]:
    """Modification time and size; what is cached of a file holds while they are the same."""
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=256)
def _digest(path: Path, _state: tuple[int, int]) -> str:
    """Digest of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()[:DIGITS]
