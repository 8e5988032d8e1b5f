"""What files settings speak of, by their contents: a result is only as good as what it was made of."""

from __future__ import annotations

import os
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

    Where the ``trace`` is a folder, its files count as one. What cannot be read is left out: whoever needs it says so.

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
                own = [f"{path.name} {_digest_of(path)}" for path in sorted(Path(text).iterdir()) if path.is_file()]
                found[text] = sha256("\n".join(own).encode()).hexdigest()[:SHORT]
            elif (file := _file(text)) is not None:
                found[text] = _digest_of(file)
        except (OSError, ValueError):
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


def _file(text: str) -> Path | None:
    """The file of that name, or the one with that module."""
    if Path(text).is_file():
        return Path(text)
    module, colon, name = text.partition(":")
    if not (colon and name.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        return None
    try:
        spec: Any = find_spec(module)
    except Exception:  # a package around the module raises whatever it likes when it is imported; loading it says so
        return None
    return Path(spec.origin) if spec is not None and spec.has_location else None


def _digest_of(path: Path) -> str:
    state = os.stat(path)
    return _digest(path.absolute(), (state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=256)
def _digest(path: Path, _state: tuple[int, int]) -> str:
    """Of the file as it is while its time and size stay the same."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()[:SHORT]
