"""The NVIDIA GPUs of this machine, by NVML, the library of nvidia-smi."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import pynvml  # type: ignore[import-untyped]

from hetopt.executor.engines.engine import EngineDown, Node, Seat
from hetopt.executor.processes import belongs, describe

LONGEST = 63
"""Longest name of a GPU type (:func:`~hetopt.checks.check_name`)."""

_MAKER = re.compile(r"(?:(?:NVIDIA|Tesla|GeForce)-)+")
_PROFILE = re.compile(r"(?:[0-9]{1,3}c\.)?[0-9]{1,3}g\.[0-9]{1,4}gb(?:[+-][A-Za-z.]{1,12})?")


def find_gpus(host: str, own: str = "hetopt-") -> tuple[Node, int] | None:
    """The GPUs of this machine that work, in the order of nvidia-smi, and how many the driver reports.

    A GPU with an NVML error is left out, with a note. A GPU in MIG mode is represented by its instances only.
    ``CUDA_VISIBLE_DEVICES`` has no effect.

    Parameters
    ----------
    host:
        Name of the node.
    own:
        Prefix of the tags of leases of this cluster. Other compute processes make a GPU busy; graphics do not.

    Returns
    -------
    tuple or None
        None without GPUs (:func:`why_no_gpus` has the reason).

    Raises
    ------
    EngineDown
        NVML itself reports an error, or all GPUs do.
    """
    found = None
    try:
        with _nvml() as count:
            found = _node(host, count, own), count
    except _NoGPUs:
        return None
    except EngineDown:
        if found is None:
            raise  # otherwise only nvmlShutdown has failed, e.g. because of a lost GPU
    return found


def why_no_gpus() -> str:
    """The reason why :func:`find_gpus` finds none, as a clause.

    Raises
    ------
    EngineDown
        NVML reports an error.
    """
    try:
        with _nvml() as count:
            return f"the driver reports {count} GPU{'s' * (count > 1)} by now"
    except _NoGPUs as reason:
        return str(reason)


def type_name(name: str) -> str:
    """The GPU type for NVML's ``name``: without the maker, valid in paths and options.

    >>> type_name("NVIDIA GeForce RTX 3090")
    'RTX-3090'
    """
    words = re.sub(r"[^A-Za-z0-9._+-]+", "-", name).lstrip("._+-")
    return _MAKER.sub("", words, count=1).lstrip("._+-")[:LONGEST].rstrip("-") or "GPU"


class _NoGPUs(Exception):
    """This machine has no GPUs; the text is the reason."""


class _Device(NamedTuple):
    """A GPU or a MIG instance."""

    gpu_type: str
    uuid: str
    memory_bytes: int | None
    processes: tuple[int, ...] = ()


@contextmanager
def _nvml() -> Iterator[int]:
    """Open the library; the number of its GPUs, at least 1."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound as problem:
        raise _NoGPUs(_library(problem.__context__)) from None
    except pynvml.NVMLError_DriverNotLoaded:
        raise _NoGPUs("the NVIDIA driver is not loaded") from None
    except pynvml.NVMLError_GpuNotFound:  # other drivers count 0
        raise _NoGPUs("the driver reports no GPU") from None
    except pynvml.NVMLError as problem:
        raise _down("nvmlInit", problem) from None
    try:
        yield _count()
    except BaseException:
        with suppress(pynvml.NVMLError):  # the first error is the one to report
            pynvml.nvmlShutdown()
        raise
    _call(pynvml.nvmlShutdown)


def _count() -> int:
    if not (count := _call(pynvml.nvmlDeviceGetCount)):
        raise _NoGPUs("the driver reports no GPU")
    return int(count)


def _library(problem: BaseException | None) -> str:
    """The loader's error: container images often have an empty file of that name."""
    text, name = str(problem or ""), "the NVIDIA management library (libnvidia-ml.so.1)"
    absent = not text or ("libnvidia-ml.so.1" in text and "No such file" in text)
    return f"{name} is not installed" if absent else f"{name} cannot be loaded: {text}"


def _call(function: Callable[..., Any], *arguments: Any, of: str = "", none_for: tuple[Any, ...] = ()) -> Any:
    """The result of a function of NVML; None for an error of ``none_for``."""
    try:
        return function(*arguments)
    except none_for:
        return None
    except (pynvml.NVMLError, UnicodeDecodeError) as problem:
        raise _down(function.__name__, problem, of) from None


def _down(call: str, problem: Exception, of: str = "") -> EngineDown:
    if isinstance(problem, pynvml.NVMLError_GpuIsLost):
        return EngineDown(f"{of or 'a GPU'} is lost ({call}: {problem}); reset it or restart this machine")
    code = f" (NVML error {problem.value})" if isinstance(problem, pynvml.NVMLError) else ""
    where = f" for {of}" if of else ""
    return EngineDown(f"{call} fails{where}: {problem}{code}; nvidia-smi must list all GPUs without an error")


def _node(host: str, count: int, own: str) -> Node:
    """The working GPUs, by the open library."""
    busy: dict[str, str] = {}
    seats: list[Seat] = []
    memory: dict[str, float] = {}
    notes: list[str] = []
    seen: Counter[str] = Counter()
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
        for device in working:
            kind = device.gpu_type
            seats.append(Seat(host, kind, seen[kind], device.uuid))
            seen[kind] += 1
            if others := [describe(pid) for pid in device.processes if not belongs(pid, own)]:
                busy[device.uuid] = ", ".join(others)
            if device.memory_bytes is not None:  # of a type the smallest: decisions are about types
                memory[kind] = min(memory.get(kind, device.memory_bytes), device.memory_bytes)
    return Node(host, tuple(seats), note="; ".join(notes), memory_bytes=memory, busy=busy)


def _devices(number: int) -> Iterator[_Device | EngineDown]:
    """The GPU of this number, or its MIG instances; an error in place of one that does not work."""
    of = f"GPU {number}"
    try:
        gpu = _call(pynvml.nvmlDeviceGetHandleByIndex, number, of=of)
        model = type_name(_call(pynvml.nvmlDeviceGetName, gpu, of=of))
        # GPUs before Ampere and old drivers
        without = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound)
        modes = _call(pynvml.nvmlDeviceGetMigMode, gpu, of=of, none_for=without)
        if modes is None or modes[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
            yield _Device(model, _call(pynvml.nvmlDeviceGetUUID, gpu, of=of), _memory(gpu, of), _processes(gpu, of))
            return
        places = range(_call(pynvml.nvmlDeviceGetMaxMigDeviceCount, gpu, of=of))
    except EngineDown as problem:
        yield problem
        return
    for place in places:
        try:
            if (instance := _instance(gpu, place, model, of)) is not None:
                yield instance
        except EngineDown as problem:
            yield problem


def _instance(gpu: Any, place: int, model: str, of: str) -> _Device | None:
    """A MIG instance of the GPU; None for an unused place."""
    part = f"MIG device {place} of {of}"
    handle = _call(
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, place, of=part, none_for=(pynvml.NVMLError_NotFound,)
    )
    if handle is None:
        return None
    profile = f"-MIG-{_profile(handle, part, gpu, of)}"
    kind = f"{model[: LONGEST - len(profile)]}{profile}"
    uuid = _call(pynvml.nvmlDeviceGetUUID, handle, of=part)
    return _Device(kind, uuid, _memory(handle, part), _processes(handle, part))


def _processes(handle: Any, of: str) -> tuple[int, ...]:
    """Compute processes on the device, as far as the driver lists them; without the server of MPS."""
    unknown = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_NoPermission)
    found = _call(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle, of=of, none_for=unknown)
    if found is None:  # drivers before 510
        found = _call(pynvml.nvmlDeviceGetComputeRunningProcesses_v2, handle, of=of, none_for=unknown) or ()
    return tuple(p.pid for p in found if "nvidia-cuda-mps" not in describe(p.pid))


def _memory(handle: Any, of: str) -> int | None:
    """Bytes of the device; None where it shares the memory of the host (GB10)."""
    info = _call(pynvml.nvmlDeviceGetMemoryInfo, handle, of=of, none_for=(pynvml.NVMLError_NotSupported,))
    return (int(info.total) or None) if info is not None else None  # some drivers report 0


def _profile(instance: Any, part: str, gpu: Any, of: str) -> str:
    """Such as ``1g.5gb``: from the end of NVML's name, or computed as NVIDIA does.

    Memory is counted in eighths of the whole GPU, whose gigabytes are rounded up; an instance has less.
    """
    if found := _PROFILE.search(_call(pynvml.nvmlDeviceGetName, instance, of=part)):
        return found[0]
    shape = _call(pynvml.nvmlDeviceGetAttributes_v2, instance, of=part)
    own, whole = shape.memorySizeMB << 20, _memory(gpu, of)
    if whole is None:
        gigabytes = -(-own >> 30)
    else:
        eighths = -(-8 * own // whole)
        gigabytes = (2 * eighths * -(-whole >> 30) + 8) // 16  # to the nearest, halves upwards
    compute, slices = shape.computeInstanceSliceCount, shape.gpuInstanceSliceCount
    return f"{'' if compute == slices else f'{compute}c.'}{slices}g.{gigabytes}gb"
