"""Terminals: standard output and standard error as consoles of rich."""

from __future__ import annotations

import sys

from rich.console import Console

# Names are arbitrary, so no text is parsed as markup. Output to a file or a pipe has a fixed width.
OUT = Console(width=None if sys.stdout and sys.stdout.isatty() else 160, markup=False, emoji=False, highlight=False)
ERR = Console(stderr=True, markup=False, emoji=False, highlight=False)

TEXT_WIDTH = 100
"""Width in which sentences are wrapped, unless the terminal is narrower."""
