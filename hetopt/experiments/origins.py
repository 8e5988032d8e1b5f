"""What files settings speak of, by their contents: a result is only as good as what it was made of."""

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

SHORT = 16
"""Hexadecimal digits of a digest that are kept."""


def digests(said: object) -> dict[str, str]:
    """Every file that is named somewhere in these settings, or holds the module of a ``module:Name``, and its digest.

    Where the ``trace`` is a folder, its files count as one. So do a module and the modules that it imports, and these
    in turn, of those that are not installed. What cannot be read is left out: whoever needs it says so.

    Parameters
    ----------
    said:
        Settings as JSON can hold them: texts, and mappings and sequences of such.

    Returns
    -------
    dict
        Text -> first digits of the SHA-256 of the file's bytes; texts that name no file are left out.
    """
    folder = said.get("trace") if isinstance(said, Mapping) else None
    found = {}
    for text in dict.fromkeys(_texts(said)):
        try:
            if text == folder and Path(text).is_dir():
                found[text] = _digest_of_all(sorted(path for path in Path(text).iterdir() if path.is_file()))
            elif Path(text).is_file():
                found[text] = _digest_of(Path(text))
            elif (module := _module(text)) and (files := _own_files(module)):
                found[text] = _digest_of_all(files)
        except (OSError, ValueError, SyntaxError):
            continue
    return found


def _texts(said: object) -> Iterator[str]:
    if isinstance(said, str):
        yield said
    elif isinstance(said, Mapping):
        for value in said.values():
            yield from _texts(value)
    elif isinstance(said, Sequence):
        for value in said:
            yield from _texts(value)


def _module(text: str) -> str | None:
    """The module of ``module:Name``."""
    module, colon, name = text.partition(":")
    named = colon and name.isidentifier() and all(part.isidentifier() for part in module.split("."))
    return module if named else None


def _own_files(first: str) -> list[Path]:
    """The file of a module, and of all that it imports and that are not installed."""
    found: dict[str, Path] = {}
    ahead = [first]
    while ahead:
        module = ahead.pop()
        if module in found or (module != first and not _is_own(module.partition(".")[0])):
            continue
        if (spec := _spec(module)) is None:
            continue
        found[module] = Path(spec.origin)
        package = module if spec.submodule_search_locations else module.rpartition(".")[0]
        ahead += _imported(found[module], package)
    return [found[module] for module in sorted(found)]


def _is_own(package: str) -> bool:
    """Whether somebody is at work on it: it is neither installed nor a part of Python or hetopt."""
    if package in sys.stdlib_module_names or package == "hetopt" or (spec := _spec(package)) is None:
        return False
    return not any(part in ("site-packages", "dist-packages") for part in Path(spec.origin).parts)


def _spec(module: str) -> Any:
    """Where a module lies; None where it has no file."""
    try:
        spec = find_spec(module)
    except Exception:  # a package around the module raises whatever it likes when it is imported; loading it says so
        return None
    return spec if spec is not None and spec.has_location else None


def _imported(file: Path, package: str) -> Iterator[str]:
    """Modules that a file of Python imports, and names that may be such; nothing where it is no Python."""
    if file.suffix != ".py":
        return
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (base, *(f"{base}.{name.name}" for name in node.names)) if base else ()


def _digest_of_all(files: Sequence[Path]) -> str:
    """Of several files one: of their names and bytes."""
    if len(files) == 1:
        return _digest_of(files[0])
    own = [f"{path.name} {_digest_of(path)}" for path in files]
    return sha256("\n".join(own).encode()).hexdigest()[:SHORT]


def _digest_of(path: Path) -> str:
    state = os.stat(path)
    return _digest(path.absolute(), (state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=256)
def _digest(path: Path, _state: tuple[int, int]) -> str:
    """Of the file as it is while its time and size stay the same."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()[:SHORT]
