"""Renews leases in a thread of its own, so that neither a long decision nor an engine that hangs lets them run out."""

from __future__ import annotations

import threading
from pathlib import Path

from hetopt.executor import lease_directory as files


class Heartbeat:
    """Renews what it is given four times in the time to live.

    Parameters
    ----------
    ttl_seconds:
        Time to live.
    """

    def __init__(self, ttl_seconds: float) -> None:
        self._pause = ttl_seconds / 4
        self._folders: dict[str, Path] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def keep(self, tag: str, folder: Path) -> None:
        """Renew this lease, now and from now on."""
        with self._lock:
            new = tag not in self._folders
            self._folders[tag] = folder
            if new:
                _renew(folder)
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=self._run, daemon=True)
            try:
                thread.start()
            except RuntimeError as problem:  # this user has too many processes now
                raise OSError(f"leases cannot be renewed: {problem}") from None
            self._thread = thread

    def drop(self, tag: str) -> None:
        """Renew it no longer; once this returns it is not renewed again."""
        with self._lock:
            self._folders.pop(tag, None)

    def close(self) -> None:
        """Renew nothing any more."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(self._pause):
            for tag in list(self._folders):
                with self._lock:
                    if (folder := self._folders.get(tag)) is not None:
                        _renew(folder)


def _renew(folder: Path) -> None:
    try:
        files.renew(folder, int(files.now() * 1000))
    except OSError:
        return  # gone with its lease, or a server that is away for now
