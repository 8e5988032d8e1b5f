"""Terminals: standard output and standard error as consoles of rich."""

from __future__ import annotations

import shutil
import sys

from rich.console import Console

# Names are arbitrary, so no text is parsed as markup. Output to a file or a pipe has the width $COLUMNS, or 160.
_WIDTH = None if sys.stdout and sys.stdout.isatty() else shutil.get_terminal_size((160, 24)).columns
OUT = Console(width=_WIDTH, markup=False, emoji=False, highlight=False)
ERR = Console(stderr=True, markup=False, emoji=False, highlight=False)

TEXT_WIDTH = 100
"""Width in which sentences are wrapped, unless the terminal is narrower."""
