"""Names that may stand in paths, tags and messages of an engine."""

from __future__ import annotations

import re

from hetopt.checks import shown
from hetopt.errors import InvalidOption

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,62}")


WANTED = "a name of at most 63 letters, digits, '.', '_', '+' and '-' that begins with a letter or digit"
"""What a name must be."""


def is_name(value: object) -> bool:
    """Whether ``value`` is a name of jobs, tenants and nodes: :data:`WANTED`."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def check_name(value: object, key: str) -> str:
    """``value`` if it is a name of letters, digits, ``.``, ``_``, ``+`` and ``-``, at most 63 of them.

    Raises
    ------
    InvalidOption
        It is not.
    """
    if not is_name(value):
        raise InvalidOption(f"is {shown(value)}; it must be {WANTED}", key)
    return str(value)
