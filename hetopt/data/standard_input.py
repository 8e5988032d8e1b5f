"""Standard input in place of a file."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

STANDARD_INPUT = "<stdin>"
"""Name of standard input among files; on the command line it is ``-``."""


def read_bytes(path: Path, most: int) -> bytes:
    """The first ``most`` bytes, and one more if there are more, of a file or of :data:`STANDARD_INPUT`.

    Raises
    ------
    OSError
        It cannot be read.
    """
    if str(path) == STANDARD_INPUT:
        if sys.stdin is None:
            raise OSError(errno.EBADF, "it is closed", STANDARD_INPUT)
        return sys.stdin.buffer.read(most + 1)
    with path.open("rb") as file:
        return file.read(most + 1)
