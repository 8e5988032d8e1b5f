"""The NVIDIA GPUs of this machine, by NVML, the library of nvidia-smi; queried periodically in a separate process."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import pynvml  # type: ignore[import-untyped]

from hetopt.errors import HetoptError
from hetopt.executor import lease_directory as files
from hetopt.executor.engines.engine import EngineDown, Node, Seat
from hetopt.executor.processes import belongs, describe

QUERY_SECONDS = 60.0
"""Time between queries, and longest time of one: it wakes sleeping GPUs, one after the other."""

BUSY_SECONDS = 10.0
"""Time between queries while other processes use a GPU."""

RETRY_SECONDS = 5.0
"""Time until the next query after one that has failed."""

WAIT_SECONDS = 5.0
"""Longest time that :meth:`GpuWatch.node` waits for a query."""

CLOSE_SECONDS = 1.0
"""Longest time that :meth:`GpuWatch.close` waits for a killed process."""

LONGEST = 63
"""Longest name of a GPU type (:func:`~hetopt.checks.check_name`)."""

_MAKER = re.compile(r"(?:(?:NVIDIA|Tesla|GeForce)-)+")
_PROFILE = re.compile(r"(?:[0-9]{1,3}c\.)?[0-9]{1,3}g\.[0-9]{1,4}gb(?:[+-][A-Za-z.]{1,12})?")


class NoGPUs(HetoptError, LookupError):
    """This machine has no GPUs; the message is the reason, as a clause."""


class GpuWatch:
    """The node with the GPUs of this machine that work now.

    Each query is a separate process: NVML can hang where a driver is broken, and once loaded it cannot be used after
    an update of the driver. Open only briefly, it does not prevent resets, MIG changes and updates.

    Parameters
    ----------
    first, reported:
        Result of :func:`find_gpus` at the start.
    tag_prefix:
        Prefix of the tags of leases of this cluster.
    """

    def __init__(self, first: Node, reported: int, tag_prefix: str = "hetopt-") -> None:
        self._node, self._tag_prefix = first, tag_prefix
        self._most_reported, self._complete_seats = reported, first.seats
        self._query: subprocess.Popen[bytes] | None = None
        self._output = os.fdopen(os.memfd_create("nvml"), "w+b", 0)  # of queries; a full disk does not matter
        self._taken = self._began = files.now()  # when the last finished query began; the last one of all
        self._due = self._began + QUERY_SECONDS
        self._problem: str | None = None

    def node(self, max_age: float = math.inf) -> Node:
        """The node as it was at most ``max_age`` seconds ago, if NVML answers in time; begins a query when it is due.

        Raises
        ------
        EngineDown
            NVML fails, or all GPUs are lost. An empty node would stop all jobs; the node from before would fail jobs
            that start, for example during an update of the driver.
        """
        now = files.now()
        since, until = now - max_age, now + WAIT_SECONDS
        if self._taken < since:
            self._due = now
        self._poll()
        while self._taken < since and self._query is not None and (left := until - files.now()) > 0:
            with suppress(subprocess.TimeoutExpired):
                self._query.wait(left)
            self._poll()
        if self._problem is not None:
            raise EngineDown(self._problem)
        return self._node

    def close(self) -> None:
        """Kill the running query."""
        if (query := self._query) is not None:
            query.kill()
            with suppress(subprocess.TimeoutExpired):
                query.wait(CLOSE_SECONDS)
            query.returncode = query.poll() or 0  # no warning where it hangs in the driver
        self._output.close()

    def _poll(self) -> None:
        if self._query is not None:
            self._take(self._query)
        if self._query is None and files.now() >= self._due:
            self._begin()

    def _begin(self) -> None:
        self._began = files.now()
        self._due = self._began + (BUSY_SECONDS if self._node.busy else QUERY_SECONDS)
        self._output.seek(0)
        self._output.truncate()
        try:
            self._query = subprocess.Popen(
                [sys.executable, "-P", "-m", "hetopt.executor.engines.nvidia", self._node.name, self._tag_prefix],
                env={key: value for key, value in os.environ.items() if key != files.TAG_VARIABLE},
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # without Ctrl-C, which is for the controller
            )
        except OSError as problem:
            self._fail(f"no process can be started on this machine: {problem.strerror}")

    def _take(self, query: subprocess.Popen[bytes]) -> None:
        """Take the result of the query if it has ended; one that hangs is killed, and awaited."""
        if (code := query.poll()) is None:
            if files.now() - self._began > QUERY_SECONDS:
                query.kill()
                self._fail(f"NVML has not answered within {QUERY_SECONDS:g} s; nvidia-smi must list all GPUs")
            return
        self._taken, self._query = self._began, None
        try:
            self._output.seek(0)
            result = json.loads(self._output.read())
        except ValueError:
            self._fail(f"asking NVML ended with exit code {code}; nvidia-smi must list all GPUs without an error")
            return
        if "down" in result:
            self._fail(result["down"])
        else:
            self._adopt(result["node"], result["reported"])

    def _fail(self, problem: str) -> None:
        self._problem = problem
        self._due = min(self._due, files.now() + RETRY_SECONDS)

    def _adopt(self, found: Mapping[str, Any], reported: int) -> None:
        seats, notes = tuple(Seat(**seat) for seat in found["seats"]), [found["note"]]
        if reported < self._most_reported:  # some drivers do not report a GPU that has fallen off the bus
            there = {seat.device for seat in seats}
            gone = [f"{seat.gpu_type} {seat.device}" for seat in self._complete_seats if seat.device not in there]
            without = ", ".join(gone) or "the others"
            notes.append(f"the driver reports {reported} of {self._most_reported} GPUs, without {without}")
        elif not found["note"]:
            self._complete_seats = seats
        self._most_reported = max(self._most_reported, reported)
        note = "; ".join(filter(None, notes))
        memory = {**self._node.memory_bytes, **found["memory_bytes"]}  # lost types may come back
        self._node = replace(self._node, seats=seats, note=note, memory_bytes=memory, busy=found["busy"])
        self._problem = None


def find_gpus(host: str, tag_prefix: str = "hetopt-") -> tuple[Node, int]:
    """The GPUs of this machine that work, in the order of nvidia-smi, and how many the driver reports.

    A GPU with an NVML error is left out, with a note. A GPU in MIG mode is represented by its instances only.
    ``CUDA_VISIBLE_DEVICES`` has no effect.

    Parameters
    ----------
    host:
        Name of the node.
    tag_prefix:
        Prefix of the tags of leases of this cluster. Other compute processes make a GPU busy; graphics do not.

    Raises
    ------
    NoGPUs
        There is no GPU, driver or library.
    EngineDown
        NVML itself reports an error, or all GPUs do.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound as problem:
        raise NoGPUs(_library(problem.__context__)) from None
    except pynvml.NVMLError_DriverNotLoaded:
        raise NoGPUs("the NVIDIA driver is not loaded") from None
    except pynvml.NVMLError_GpuNotFound:  # other drivers count 0
        raise NoGPUs("the driver reports no GPU") from None
    except pynvml.NVMLError as problem:
        raise _down("nvmlInit", problem) from None
    try:
        if not (count := int(_call(pynvml.nvmlDeviceGetCount))):
            raise NoGPUs("the driver reports no GPU")
        return _node(host, count, tag_prefix), count
    finally:
        with suppress(pynvml.NVMLError):  # e.g. because of a lost GPU
            pynvml.nvmlShutdown()


def type_name(name: str) -> str:
    """The GPU type for NVML's ``name``: without the maker, valid in paths and options.

    >>> type_name("NVIDIA GeForce RTX 3090")
    'RTX-3090'
    """
    words = re.sub(r"[^A-Za-z0-9._+-]+", "-", name).lstrip("._+-")
    return _MAKER.sub("", words, count=1).lstrip("._+-")[:LONGEST].rstrip("-") or "GPU"


class _Device(NamedTuple):
    """A GPU or a MIG instance."""

    gpu_type: str
    uuid: str
    memory_bytes: int | None
    processes: tuple[int, ...]


def _library(problem: BaseException | None) -> str:
    """The loader's error: container images often have an empty file of that name."""
    text, name = str(problem or ""), "the NVIDIA management library (libnvidia-ml.so.1)"
    absent = not text or ("libnvidia-ml.so.1" in text and "No such file" in text)
    return f"{name} is not installed" if absent else f"{name} cannot be loaded: {text}"


def _call(function: Callable[..., Any], *arguments: Any, label: str = "", none_for: tuple[Any, ...] = ()) -> Any:
    """The result of a function of NVML; None for an error of ``none_for``."""
    try:
        return function(*arguments)
    except none_for:
        return None
    except (pynvml.NVMLError, UnicodeDecodeError) as problem:
        raise _down(function.__name__, problem, label) from None


def _down(call: str, problem: Exception, label: str = "") -> EngineDown:
    if isinstance(problem, pynvml.NVMLError_GpuIsLost):
        return EngineDown(f"{label or 'a GPU'} is lost ({call}: {problem}); reset it or restart this machine")
    code = f" (NVML error {problem.value})" if isinstance(problem, pynvml.NVMLError) else ""
    where = f" for {label}" if label else ""
    return EngineDown(f"{call} fails{where}: {problem}{code}; nvidia-smi must list all GPUs without an error")


def _node(host: str, count: int, tag_prefix: str) -> Node:
    """The working GPUs, by the open library."""
    busy, memory = dict[str, str](), dict[str, float]()
    seats, notes = list[Seat](), list[str]()
    seen = Counter[str]()
    failed = 0
    for number in range(count):
        found = list(_devices(number))
        working = [device for device in found if isinstance(device, _Device)]
        problems = [device for device in found if isinstance(device, EngineDown)]
        notes += [str(problem) for problem in (problems if working else problems[:1])]
        failed += bool(problems) and not working
        if not found:
            notes.append(f"GPU {number} is in MIG mode and has no instance")
        elif failed == count:
            raise problems[-1]
        for kind, uuid, memory_bytes, processes in working:
            seats.append(Seat(host, kind, seen[kind], uuid))
            seen[kind] += 1
            if others := [describe(pid) for pid in processes if not belongs(pid, tag_prefix)]:
                busy[uuid] = ", ".join(others)
            if memory_bytes is not None:  # of a type the smallest: decisions are about types
                memory[kind] = min(memory.get(kind, memory_bytes), memory_bytes)
    return Node(host, tuple(seats), note="; ".join(notes), memory_bytes=memory, busy=busy)


def _devices(number: int) -> Iterator[_Device | EngineDown]:
    """The GPU of this number, or its MIG instances; an error in place of one that does not work."""
    label = f"GPU {number}"
    try:
        gpu = _call(pynvml.nvmlDeviceGetHandleByIndex, number, label=label)
        model = type_name(_call(pynvml.nvmlDeviceGetName, gpu, label=label))
        # GPUs before Ampere and old drivers
        without = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound)
        modes = _call(pynvml.nvmlDeviceGetMigMode, gpu, label=label, none_for=without)
        if modes is None or modes[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
            yield _device(model, gpu, label)
            return
        places = range(_call(pynvml.nvmlDeviceGetMaxMigDeviceCount, gpu, label=label))
    except EngineDown as problem:
        yield problem
        return
    unused = (pynvml.NVMLError_NotFound,)
    for place in places:
        part = f"MIG device {place} of {label}"
        try:
            handle = _call(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, place, label=part, none_for=unused)
            if handle is not None:
                profile = f"-MIG-{_profile(handle, part, gpu, label)}"
                yield _device(model[: LONGEST - len(profile)] + profile, handle, part)
        except EngineDown as problem:
            yield problem


def _device(gpu_type: str, handle: Any, label: str) -> _Device:
    uuid = _call(pynvml.nvmlDeviceGetUUID, handle, label=label)
    return _Device(gpu_type, uuid, _memory(handle, label), _processes(handle, label))


def _processes(handle: Any, label: str) -> tuple[int, ...]:
    """Compute processes on the device, as far as the driver lists them; without the server of MPS."""
    unknown = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_NoPermission)
    found = _call(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle, label=label, none_for=unknown)
    if found is None:  # drivers before 510
        found = _call(pynvml.nvmlDeviceGetComputeRunningProcesses_v2, handle, label=label, none_for=unknown) or ()
    return tuple(p.pid for p in found if "nvidia-cuda-mps" not in describe(p.pid))


def _memory(handle: Any, label: str) -> int | None:
    """Bytes of the device; None where it shares the memory of the host (GB10)."""
    info = _call(pynvml.nvmlDeviceGetMemoryInfo, handle, label=label, none_for=(pynvml.NVMLError_NotSupported,))
    return (int(info.total) or None) if info is not None else None  # some drivers report 0


def _profile(instance: Any, part: str, gpu: Any, label: str) -> str:
    """Such as ``1g.5gb``: from the end of NVML's name, or computed as NVIDIA does.

    Memory is counted in eighths of the whole GPU, whose gigabytes are rounded up; an instance has less.
    """
    if found := _PROFILE.search(_call(pynvml.nvmlDeviceGetName, instance, label=part)):
        return found[0]
    shape = _call(pynvml.nvmlDeviceGetAttributes_v2, instance, label=part)
    own, whole = shape.memorySizeMB << 20, _memory(gpu, label)
    if whole is None:
        gigabytes = -(-own >> 30)
    else:
        eighths = -(-8 * own // whole)
        gigabytes = (2 * eighths * -(-whole >> 30) + 8) // 16  # to the nearest, halves upwards
    compute, slices = shape.computeInstanceSliceCount, shape.gpuInstanceSliceCount
    return f"{'' if compute == slices else f'{compute}c.'}{slices}g.{gigabytes}gb"


def main(words: list[str]) -> None:
    """Print the result of a query as JSON; the words are the parameters of :func:`find_gpus`."""
    try:
        node, reported = find_gpus(*words)
        result = {"node": asdict(node), "reported": reported}
    except (EngineDown, NoGPUs) as problem:
        result = {"down": str(problem)}
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1:])
