"""Whether the GPUs of this machine are still there, asked of NVML again and again."""

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

LOOK_SECONDS = 60.0
"""So often NVML is asked, and so long it may take: it wakes GPUs that sleep, one after the other."""

BUSY_SECONDS = 10.0
"""The same while processes of others use a GPU."""

FRESH_SECONDS = 5.0
"""A result of at most this age is used when a lease starts."""

RETRY_SECONDS = 5.0
"""Until it is asked again where it has not answered."""

WAIT_SECONDS = 5.0
"""How long :meth:`GpuWatch.node` waits for a look that was asked for; what it finds later is known later."""

CLOSE_SECONDS = 1.0
"""How long :meth:`GpuWatch.close` waits for a process that it has killed."""


class GpuWatch:
    """The node of this machine's GPUs as it is now, without those that are lost.

    Each look is a process of its own, which may hang without harm: NVML does where a driver is broken, and who has
    loaded it before the driver was updated cannot ask the new one. It is open for a moment only, so that an operator
    can reset a GPU, split it, or change the driver.

    Parameters
    ----------
    first, reported:
        What :func:`~hetopt.executor.engines.nvidia.find_gpus` has found at the start.
    own:
        Prefix of the tags of leases of this cluster.
    """

    def __init__(self, first: Node, reported: int, own: str = "hetopt-") -> None:
        self._node, self._most, self._whole, self._own = first, reported, first.seats, own
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._began, self._due = 0.0, files.now() + LOOK_SECONDS
        self._asked, self._taken = -math.inf, files.now()  # when a look was requested, and when the last one began
        self._problem: str | None = None

    def node(self) -> Node:
        """What the last look has found; the next is begun when its time has come.

        Raises
        ------
        EngineDown
            NVML as a whole gives no answer, or all GPUs are lost. That is not the absence of GPUs, which would stop
            all jobs. Nor does the picture from before stand: while the driver is updated what runs can go on, but no
            job that is started now would find its GPUs, and after three of these failures it would be given up.
        """
        self._go_on()
        until = files.now() + WAIT_SECONDS
        while self._asked > self._taken and self._process is not None and (left := until - files.now()) > 0:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(left)
            self._go_on()
        self._asked = -math.inf
        if self._problem is not None:
            raise EngineDown(self._problem)
        return self._node

    def soon(self) -> None:
        """Look at once, and let the next :meth:`node` wait for it: a job has failed, perhaps of its GPU."""
        self._due = self._asked = files.now()
        self._go_on()

    def fresh(self) -> Node:
        """The node as it was at most :data:`FRESH_SECONDS` ago; for errors see :meth:`node`."""
        if self._taken < files.now() - FRESH_SECONDS:
            self.soon()
        return self.node()

    def close(self) -> None:
        """End a look that is under way."""
        if self._process is not None:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_SECONDS)
            self._process.returncode = self._process.poll() or 0  # no warning where it hangs in the driver
        self._said()

    def _go_on(self) -> None:
        self._take()
        if self._process is None and files.now() >= self._due:
            self._begin()

    def _begin(self) -> None:
        self._began = files.now()
        self._due = self._began + (BUSY_SECONDS if self._node.busy else LOOK_SECONDS)
        environment = {key: value for key, value in os.environ.items() if key != files.TAG_VARIABLE}
        try:
            self._output = os.fdopen(os.memfd_create("nvml"), "w+b")  # which no full disk stops
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "hetopt.executor.engines.nvidia_watch", self._node.name, self._own],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the controller
            )
        except OSError as problem:
            self._said()
            self._fail(f"no process can be started on this machine: {problem.strerror}")

    def _take(self) -> None:
        """What the look under way has found, if it has ended. One that hangs is killed, and none is begun before."""
        if self._process is None:
            return
        if (code := self._process.poll()) is None:
            if files.now() - self._began > LOOK_SECONDS:
                self._process.kill()
                self._fail(f"NVML has not answered within {LOOK_SECONDS:g} s; nvidia-smi must list all GPUs")
            return
        self._taken = self._began
        try:
            said = json.loads(self._said())
        except ValueError:
            self._fail(f"asking NVML ended with exit code {code}; nvidia-smi must list all GPUs without an error")
            return
        if "down" in said:
            self._fail(said["down"])
        else:
            self._adopt(said["node"], said["reported"])

    def _said(self) -> bytes:
        """All that the look has printed; it is over."""
        self._process, output, self._output = None, self._output, None
        if output is None:
            return b""
        with output:
            output.seek(0)
            return output.read()

    def _fail(self, problem: str) -> None:
        self._problem = problem
        self._due = min(self._due, files.now() + RETRY_SECONDS)

    def _adopt(self, said: Mapping[str, Any], reported: int) -> None:
        """Take what is found for what is there."""
        seats = tuple(Seat(**seat) for seat in said["seats"])
        notes = [said["note"]]
        if reported < self._most:  # some drivers do not speak at all of a GPU that has fallen off the bus
            there = {seat.device for seat in seats}
            gone = [f"{seat.gpu_type} {seat.device}" for seat in self._whole if seat.device not in there]
            notes.append(
                f"the driver reports {reported} of {self._most} GPUs, without {', '.join(gone) or 'the others'}"
            )
        elif not said["note"]:
            self._whole = seats
        self._most = max(self._most, reported)
        # of types that are lost now the memory is still known
        memory = {**self._node.memory_bytes, **said["memory_bytes"]}
        note = "; ".join(filter(None, notes))
        self._node = replace(self._node, seats=seats, note=note, memory_bytes=memory, busy=said["busy"])
        self._problem = None


def main(words: list[str]) -> int:
    """Tell what NVML says of this machine, whose name is given."""
    try:
        found = find_gpus(*words)
        said = {"down": why_no_gpus()} if found is None else {"node": asdict(found[0]), "reported": found[1]}
    except EngineDown as problem:
        said = {"down": str(problem)}
    print(json.dumps(said))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
