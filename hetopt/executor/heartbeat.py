"""Renews leases from a separate thread, so that neither a long decision nor a slow engine lets them expire."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

from hetopt.executor import lease_directory as files


class Heartbeat:
    """Renews each lease four times in its time to live.

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

    def add(self, tag: str, folder: Path) -> None:
        """Renew this lease now and from now on.

        Raises
        ------
        OSError
            No thread can be started.
        """
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

    def remove(self, tag: str) -> None:
        """Do not renew it any more once this returns."""
        with self._lock:
            self._folders.pop(tag, None)

    def close(self) -> None:
        """Stop."""
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
    with suppress(OSError):  # removed with its lease, or its file server is away for now
        files.renew(folder, int(files.now() * 1000))
