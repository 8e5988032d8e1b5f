"""Which NVIDIA GPUs this machine has, by NVML: the library that nvidia-smi asks as well."""

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
"""Letters of a name (:func:`~hetopt.executor.names.check_name`)."""

_MAKER = re.compile(r"(?:(?:NVIDIA|Tesla|GeForce)-)+")
_PROFILE = re.compile(r"(?:[0-9]{1,3}c\.)?[0-9]{1,3}g\.[0-9]{1,4}gb(?:[+-][A-Za-z.]{1,12})?")


def find_gpus(host: str, own: str = "hetopt-") -> tuple[Node, int] | None:
    """The GPUs of this machine that are well, in the order of nvidia-smi, and how many the driver reports.

    One that NVML reports an error of is left out, and the node's note says so: others are not to suffer for it. A GPU
    in MIG mode cannot be used as a whole: its instances stand for it, and if it has none, nothing does.
    ``CUDA_VISIBLE_DEVICES`` changes nothing: that is how jobs are told of their seats.

    Parameters
    ----------
    host:
        Name of the node.
    own:
        Prefix of the tags of leases of this cluster. Other processes that compute on a GPU make it busy; graphics do
        not.

    Returns
    -------
    tuple or None
        None if it has none (:func:`why_no_gpus` says why).

    Raises
    ------
    EngineDown
        NVML as a whole reports an error, or none of the GPUs is well.
    """
    found = None
    try:
        with _nvml() as count:
            found = _node(host, count, own), count
    except _NoGPUs:
        return None
    except EngineDown:
        if found is None:
            raise  # otherwise it is only closed badly, say because of the one that is lost
    return found


def why_no_gpus() -> str:
    """Why :func:`find_gpus` finds none, in one clause.

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
    """The GPU type that NVML's ``name`` stands for: without the maker, and fit for paths and options.

    >>> type_name("NVIDIA GeForce RTX 3090")
    'RTX-3090'
    """
    words = re.sub(r"[^A-Za-z0-9._+-]+", "-", name).lstrip("._+-")
    return _MAKER.sub("", words, count=1).lstrip("._+-")[:LONGEST].rstrip("-") or "GPU"


class _NoGPUs(Exception):
    """There is none, and that is no error. Says why."""


class _Device(NamedTuple):
    """What a job can be given: a GPU or a MIG instance."""

    gpu_type: str
    uuid: str
    memory_bytes: int | None
    processes: tuple[int, ...] = ()


@contextmanager
def _nvml() -> Iterator[int]:
    """Hold the library open; the number of GPUs that it knows, at least 1."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound as problem:
        raise _NoGPUs(_library(problem.__context__)) from None
    except pynvml.NVMLError_DriverNotLoaded:
        raise _NoGPUs("the NVIDIA driver is not loaded") from None
    except pynvml.NVMLError_GpuNotFound:  # some drivers say it here, others count 0
        raise _NoGPUs("the driver reports no GPU") from None
    except pynvml.NVMLError as problem:
        raise _down("nvmlInit", problem) from None
    try:
        yield _count()
    except BaseException:
        with suppress(pynvml.NVMLError):  # what went wrong first is what must be told
            pynvml.nvmlShutdown()
        raise
    _ask(pynvml.nvmlShutdown)


def _count() -> int:
    if not (count := _ask(pynvml.nvmlDeviceGetCount)):
        raise _NoGPUs("the driver reports no GPU")
    return int(count)


def _library(problem: BaseException | None) -> str:
    """What the loader said: images often carry an empty file of that name, which is no library."""
    said, name = str(problem or ""), "the NVIDIA management library (libnvidia-ml.so.1)"
    absent = not said or ("libnvidia-ml.so.1" in said and "No such file" in said)
    return f"{name} is not installed" if absent else f"{name} cannot be loaded: {said}"


def _ask(function: Callable[..., Any], *arguments: Any, of: str = "", none_for: tuple[Any, ...] = ()) -> Any:
    """What NVML answers; None where it answers with an error of ``none_for``."""
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
    """What the open library tells of those of these GPUs that are well."""
    busy: dict[str, str] = {}
    seats: list[Seat] = []
    memory: dict[str, float] = {}
    notes: list[str] = []
    seen: Counter[str] = Counter()
    failed = 0
    for number in range(count):
        found = list(_devices(number))
        well = [device for device in found if isinstance(device, _Device)]
        problems = [device for device in found if isinstance(device, EngineDown)]
        notes += [str(problem) for problem in (problems if well else problems[:1])]
        failed += bool(problems) and not well
        if not found:
            notes.append(f"GPU {number} is in MIG mode and has no instance")
        elif failed == count:
            raise problems[-1]
        for device in well:
            kind = device.gpu_type
            seats.append(Seat(host, kind, seen[kind], device.uuid))
            seen[kind] += 1
            if others := [describe(pid) for pid in device.processes if not belongs(pid, own)]:
                busy[device.uuid] = ", ".join(others)
            if device.memory_bytes is not None:  # jobs are told of the type only: what every GPU of it has
                memory[kind] = min(memory.get(kind, device.memory_bytes), device.memory_bytes)
    return Node(host, tuple(seats), note="; ".join(notes), memory_bytes=memory, busy=busy)


def _devices(number: int) -> Iterator[_Device | EngineDown]:
    """The GPU of this number, or its MIG instances; in place of one that is not well why it is not."""
    of = f"GPU {number}"
    try:
        gpu = _ask(pynvml.nvmlDeviceGetHandleByIndex, number, of=of)
        model = type_name(_ask(pynvml.nvmlDeviceGetName, gpu, of=of))
        # GPUs before Ampere, and drivers of their time, know no such mode
        without = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound)
        modes = _ask(pynvml.nvmlDeviceGetMigMode, gpu, of=of, none_for=without)
        if modes is None or modes[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
            yield _Device(model, _ask(pynvml.nvmlDeviceGetUUID, gpu, of=of), _memory(gpu, of), _processes(gpu, of))
            return
        places = range(_ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, gpu, of=of))
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
    """A MIG instance of the GPU; None for a place that is free, as places in between may be."""
    part = f"MIG device {place} of {of}"
    handle = _ask(
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, place, of=part, none_for=(pynvml.NVMLError_NotFound,)
    )
    if handle is None:
        return None
    profile = f"-MIG-{_profile(handle, part, gpu, of)}"
    kind = f"{model[: LONGEST - len(profile)]}{profile}"
    uuid = _ask(pynvml.nvmlDeviceGetUUID, handle, of=part)
    return _Device(kind, uuid, _memory(handle, part), _processes(handle, part))


def _processes(handle: Any, of: str) -> tuple[int, ...]:
    """Processes that compute on the device, as far as the driver lists them; without the server of MPS."""
    unknown = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_NoPermission)
    found = _ask(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle, of=of, none_for=unknown)
    if found is None:  # drivers before 510
        found = _ask(pynvml.nvmlDeviceGetComputeRunningProcesses_v2, handle, of=of, none_for=unknown) or ()
    return tuple(p.pid for p in found if "nvidia-cuda-mps" not in describe(p.pid))


def _memory(handle: Any, of: str) -> int | None:
    """Bytes of the device; None where it shares the memory of the host (GB10), for which NVML has no number."""
    info = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle, of=of, none_for=(pynvml.NVMLError_NotSupported,))
    return (int(info.total) or None) if info is not None else None  # some drivers say 0


def _profile(instance: Any, part: str, gpu: Any, of: str) -> str:
    """Such as ``1g.5gb``: at the end of NVML's name, or made from its numbers as NVIDIA makes it.

    NVIDIA counts memory in eighths of the whole GPU, whose gigabytes are rounded up: what an instance can use is less.
    """
    if found := _PROFILE.search(_ask(pynvml.nvmlDeviceGetName, instance, of=part)):
        return found[0]
    shape = _ask(pynvml.nvmlDeviceGetAttributes_v2, instance, of=part)
    own, whole = shape.memorySizeMB << 20, _memory(gpu, of)
    if whole is None:
        gigabytes = -(-own >> 30)
    else:
        eighths = -(-8 * own // whole)
        gigabytes = (2 * eighths * -(-whole >> 30) + 8) // 16  # to the nearest, halves upwards
    compute, slices = shape.computeInstanceSliceCount, shape.gpuInstanceSliceCount
    return f"{'' if compute == slices else f'{compute}c.'}{slices}g.{gigabytes}gb"
