"""Errors compared by type and fields; a word of the message distinguishes errors of one key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hetopt import HetoptError


@contextmanager
def refused(
    error: type[Exception] | tuple[type[Exception], ...], key: str | None, match: str | None = None, **place: Any
) -> Iterator[pytest.ExceptionInfo[Any]]:
    """The block ends with ``error`` about ``key`` at ``place``: ``file`` (its name), ``line``, ``table``, ``row``.

    ``key`` is None where the error has none; then ``match``, a pattern of its message, identifies it.
    """
    assert key or match or place, "give at least one of key, match and place"
    with pytest.raises(error) as caught:
        yield caught
    problem = caught.value
    assert isinstance(problem, HetoptError)
    assert key is None or problem.key == key, str(problem)
    text = f"{problem.key} {problem.problem}"  # without the place, which holds the name of the test
    assert match is None or re.search(match, text), text
    found = {field: getattr(problem, field) for field in place}
    if found.get("file"):
        found["file"] = Path(found["file"]).name
    assert found == place, str(problem)
