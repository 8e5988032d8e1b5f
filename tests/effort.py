"""How much tests do: little in ``make test``, all of it in ``make long``."""

from __future__ import annotations

import os

LONG = bool(os.environ.get("HETOPT_LONG"))
"""Whether this is ``make long``."""


def examples(few: int, many: int) -> int:
    """Cases that Hypothesis draws for a property: few, or in ``make long`` many."""
    return many if LONG else few
