"""What an error is about: its key, or a part of its message where it has none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hetopt.errors import HetoptError


class Worded(str):
    """A part of the message, or a regular expression for it, of an error without a key."""

    __slots__ = ()


def blames(error: HetoptError, expected: str) -> bool:
    """Whether the error has the key ``expected``, or the message if it is :class:`Worded`."""
    if isinstance(expected, Worded):
        return expected in str(error) or re.search(expected, str(error)) is not None
    return error.key == expected


@contextmanager
def refused(
    kind: type[HetoptError] | tuple[type[HetoptError], ...], expected: str
) -> Iterator[pytest.ExceptionInfo[HetoptError]]:
    """As ``pytest.raises``, for an error about ``expected``, see :func:`blames`."""
    with pytest.raises(kind) as caught:
        yield caught
    assert blames(caught.value, expected), f"{caught.value!s} ({caught.value.key}) is not about {expected}"
