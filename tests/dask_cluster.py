"""A Dask cluster of this machine's processes, for a test and no longer: a scheduler, and workers with their nannies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from left_processes import PARENTS, children, gone
from waiting import PATIENCE, until


@contextmanager
def dask_cluster(
    folder: Path, workers: int, *, hosts: int = 1, hidden: Path | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The address of the scheduler, once all workers have joined it.

    Parameters
    ----------
    folder:
        For files of Dask, and the folders in which hosts start.
    workers:
        Number of workers of each host.
    hosts:
        Number of commands ``dask worker``, as on that many hosts.
    hidden:
        A folder that is another, empty one for the hosts.
    settings:
        Variables of the environment.
    """
    from distributed import Client

    shown = folder / "scheduler.json"
    common = ("--scheduler-file", str(shown), "--no-dashboard")
    commands = [[sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", *common]]
    for host in range(hosts):
        own = folder / f"host-{host}"
        own.mkdir()
        threads = ("--nworkers", str(workers), "--nthreads", "1", "--local-directory", str(own))
        commands.append([*hiding(hidden), sys.executable, "-m", "dask", "worker", *threads, *common])
    with ExitStack() as started:
        for command in commands:
            environment = os.environ | dict(settings or {})
            process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
            started.callback(_end, process)
            PARENTS.add(process.pid)  # a killed worker is started again at any time
        until(shown.exists, "the scheduler is there")
        with Client(scheduler_file=str(shown), timeout=PATIENCE, set_as_default=False) as client:
            client.wait_for_workers(hosts * workers, PATIENCE)
            address = str(client.scheduler.address)
        yield address


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command of Dask and its workers, which this process adopts if they end after the command."""
    below = children(process.pid)
    process.terminate()
    process.communicate(timeout=PATIENCE)
    until(lambda: all(gone(pid) for pid in below), "its workers have ended")
    PARENTS.discard(process.pid)


def hiding(folder: Path | None) -> list[str]:
    """The start of a command for which this folder is another, empty one; nothing if that is not possible here."""
    if folder is None or shutil.which("unshare") is None:
        return []
    start = ["unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(folder)]
    return start if subprocess.run([*start, "true"], capture_output=True, check=False).returncode == 0 else []
