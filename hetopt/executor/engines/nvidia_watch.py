"""Queries NVML periodically, so that lost, returned and split GPUs are noticed."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import IO, Any

from hetopt.executor import lease_directory as files
from hetopt.executor.engines.engine import EngineDown, Node, Seat
from hetopt.executor.engines.nvidia import find_gpus, why_no_gpus

QUERY_SECONDS = 60.0
"""Time between queries, and longest time of one: it wakes sleeping GPUs, one after the other."""

BUSY_SECONDS = 10.0
"""Time between queries while other processes use a GPU."""

FRESH_SECONDS = 5.0
"""Greatest age of a result when a lease starts."""

RETRY_SECONDS = 5.0
"""Time until the next query after one that has failed."""

WAIT_SECONDS = 5.0
"""Longest time that :meth:`GpuWatch.node` waits for a requested query."""

CLOSE_SECONDS = 1.0
"""Longest time that :meth:`GpuWatch.close` waits for a killed process."""


class GpuWatch:
    """The node with the GPUs of this machine that work now.

    Each query is a separate process: NVML can hang where a driver is broken, and once loaded it cannot be used after
    an update of the driver. Open only briefly, it does not prevent resets, MIG changes and updates.

    Parameters
    ----------
    first, reported:
        Result of :func:`~hetopt.executor.engines.nvidia.find_gpus` at the start.
    own:
        Prefix of the tags of leases of this cluster.
    """

    def __init__(self, first: Node, reported: int, own: str = "hetopt-") -> None:
        self._node, self._most, self._whole, self._own = first, reported, first.seats, own
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._began, self._due = 0.0, files.now() + QUERY_SECONDS
        self._asked, self._taken = (
            -math.inf,
            files.now(),
        )  # when a query was requested; when the last finished one began
        self._problem: str | None = None

    def node(self) -> Node:
        """The result of the last query; begins the next one when it is due.

        Raises
        ------
        EngineDown
            NVML fails, or all GPUs are lost. An empty node would stop all jobs; the node from before would fail jobs
            that start, for example during an update of the driver.
        """
        self._poll()
        until = files.now() + WAIT_SECONDS
        while self._asked > self._taken and self._process is not None and (left := until - files.now()) > 0:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(left)
            self._poll()
        self._asked = -math.inf
        if self._problem is not None:
            raise EngineDown(self._problem)
        return self._node

    def soon(self) -> None:
        """Begin a query now, for which the next :meth:`node` waits: a job has failed, perhaps because of its GPU."""
        self._due = self._asked = files.now()
        self._poll()

    def fresh(self) -> Node:
        """The node as it was at most :data:`FRESH_SECONDS` ago; for errors see :meth:`node`."""
        if self._taken < files.now() - FRESH_SECONDS:
            self.soon()
        return self.node()

    def close(self) -> None:
        """Kill the running query."""
        if self._process is not None:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_SECONDS)
            self._process.returncode = self._process.poll() or 0  # no warning where it hangs in the driver
        self._output_of_query()

    def _poll(self) -> None:
        self._take()
        if self._process is None and files.now() >= self._due:
            self._begin()

    def _begin(self) -> None:
        self._began = files.now()
        self._due = self._began + (BUSY_SECONDS if self._node.busy else QUERY_SECONDS)
        environment = {key: value for key, value in os.environ.items() if key != files.TAG_VARIABLE}
        try:
            self._output = os.fdopen(os.memfd_create("nvml"), "w+b")  # in memory: a full disk does not matter
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "hetopt.executor.engines.nvidia_watch", self._node.name, self._own],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # without Ctrl-C, which is for the controller
            )
        except OSError as problem:
            self._output_of_query()
            self._fail(f"no process can be started on this machine: {problem.strerror}")

    def _take(self) -> None:
        """Take the result of the running query if it has ended; one that hangs is killed, and awaited."""
        if self._process is None:
            return
        if (code := self._process.poll()) is None:
            if files.now() - self._began > QUERY_SECONDS:
                self._process.kill()
                self._fail(f"NVML has not answered within {QUERY_SECONDS:g} s; nvidia-smi must list all GPUs")
            return
        self._taken = self._began
        try:
            result = json.loads(self._output_of_query())
        except ValueError:
            self._fail(f"asking NVML ended with exit code {code}; nvidia-smi must list all GPUs without an error")
            return
        if "down" in result:
            self._fail(result["down"])
        else:
            self._adopt(result["node"], result["reported"])

    def _output_of_query(self) -> bytes:
        """Forget the query, which has ended; its output."""
        self._process, output, self._output = None, self._output, None
        if output is None:
            return b""
        with output:
            output.seek(0)
            return output.read()

    def _fail(self, problem: str) -> None:
        self._problem = problem
        self._due = min(self._due, files.now() + RETRY_SECONDS)

    def _adopt(self, found: Mapping[str, Any], reported: int) -> None:
        """Make the result of a query the state of the node."""
        seats = tuple(Seat(**seat) for seat in found["seats"])
        notes = [found["note"]]
        if reported < self._most:  # some drivers do not report a GPU that has fallen off the bus
            there = {seat.device for seat in seats}
            gone = [f"{seat.gpu_type} {seat.device}" for seat in self._whole if seat.device not in there]
            notes.append(
                f"the driver reports {reported} of {self._most} GPUs, without {', '.join(gone) or 'the others'}"
            )
        elif not found["note"]:
            self._whole = seats
        self._most = max(self._most, reported)
        # lost types may come back
        memory = {**self._node.memory_bytes, **found["memory_bytes"]}
        note = "; ".join(filter(None, notes))
        self._node = replace(self._node, seats=seats, note=note, memory_bytes=memory, busy=found["busy"])
        self._problem = None


def main(words: list[str]) -> int:
    """Print the result of a query as JSON; the words are the parameters of ``find_gpus``."""
    try:
        found = find_gpus(*words)
        result = {"down": why_no_gpus()} if found is None else {"node": asdict(found[0]), "reported": found[1]}
    except EngineDown as problem:
        result = {"down": str(problem)}
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
