"""Files that appear complete or not at all, and checks of an output path before long work."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hetopt.errors import UnusableFile


def save(content: str | bytes, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write text (in UTF-8) or bytes to a temporary file in the same folder, then rename it.

    Raises
    ------
    UnusableFile
        There is a file and ``overwrite`` is False, or the folder is absent or not allowed to be written.
    """
    check_free(path, overwrite=overwrite)
    with _system_errors(path, "written"):
        target = Path(path).resolve()
        draft = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            with draft.open("wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            if overwrite:
                draft.replace(target)
            else:
                _claim(draft, target)
        finally:
            draft.unlink(missing_ok=True)


def _claim(draft: Path, target: Path) -> None:
    """Rename the draft without overwriting: unlike a move, a link or a new file raises FileExistsError."""
    try:
        os.link(draft, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        target.open("x").close()
        try:
            draft.replace(target)
        except OSError:
            target.unlink(missing_ok=True)
            raise


def check_free(path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Refuse an existing path, unless it is a file and ``overwrite`` is True.

    Raises
    ------
    UnusableFile
        The path exists; nothing has been written.
    """
    with _system_errors(path, "written"):
        if Path(path).is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if Path(path).exists() and not Path(path).is_file():
            raise OSError(errno.EINVAL, "it is not a regular file")
        if Path(path).exists() and not overwrite:
            raise FileExistsError


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a path that cannot be written, by writing a test file to its folder.

    Raises
    ------
    UnusableFile
        The folder is absent or not allowed to be written, or ``path`` is a folder.
    """
    check_free(path, overwrite=True)
    with _system_errors(path, "written"), tempfile.TemporaryFile(dir=Path(path).resolve().parent):
        pass


def check_folder(path: str | os.PathLike[str]) -> None:
    """Make the folder ``path`` if it is absent and refuse one where no file can be written.

    Raises
    ------
    UnusableFile
        It cannot be made, is a file, or is not allowed to be written.
    """
    with _system_errors(path, "used as a folder"):
        if Path(path).exists() and not Path(path).is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "it is a file")
        Path(path).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass


@contextmanager
def _system_errors(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Convert errors of the operating system to :class:`UnusableFile` with one line."""
    try:
        yield
    except FileExistsError:
        raise UnusableFile(
            "exists already; use overwrite=True (--overwrite on the command line) to replace it"
        ).in_file(str(path)) from None
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the name, text that is not Unicode
        raise UnusableFile.of(problem, path, what) from None
