"""GPUs of this machine: nvidia-ml-py with a fake NVML, and with the real one if there is."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from executor_leases import Python
from executor_nvml import some_nvml  # noqa: F401 - a fixture
from hypothesis import given
from hypothesis import strategies as st
from waiting import PATIENCE

from hetopt.checks import check_name
from hetopt.executor.engines.nvidia import find_gpus, type_name

SCRIPT = """
import dataclasses, json
from hetopt.executor.engines.engine import EngineDown
from hetopt.executor.engines.nvidia import NoGPUs, find_gpus
def report():
    try:
        return dataclasses.asdict(find_gpus("here")[0])
    except NoGPUs as reason:
        return {"none": str(reason)}
    except EngineDown as problem:
        return {"down": str(problem)}
print(json.dumps([report(), report()]))
"""

GIB, MIB = 1 << 30, 1 << 20
A100 = f"gpu|NVIDIA A100-SXM4-40GB|GPU-a|{40536 * MIB}|1|7"
H200S = (f"gpu|NVIDIA H200|GPU-0|{141 * GIB}|0|0", f"gpu|NVIDIA H200|GPU-1|{141 * GIB}|0|0")


class Answer:
    """The result of find_gpus, twice the same in one process, and the calls of NVML."""

    def __init__(self, answers: list[Any], calls: list[str]) -> None:
        self.node, again = answers
        self.calls = calls
        assert again == self.node, "the library can be opened again"

    @property
    def none(self) -> str:
        reason: str = self.node["none"]
        return reason

    @property
    def down(self) -> str:
        message: str = self.node["down"]
        assert "\n" not in message
        return message

    @property
    def seats(self) -> list[tuple[str, int, str]]:
        assert all(seat["node"] == self.node["name"] == "here" for seat in self.node["seats"])
        return [(seat["gpu_type"], seat["index"], seat["device"]) for seat in self.node["seats"]]


def _ask(folder: Path | None, where: Path, *records: str, encoding: str = "utf-8") -> Answer:
    given, log = where / "records", where / "log"
    given.write_text("".join(f"{line}\n" for line in records), encoding=encoding)
    log.write_text("")
    environment = {**os.environ, "FAKE_NVML": str(given), "FAKE_NVML_LOG": str(log)}
    environment["CUDA_VISIBLE_DEVICES"] = "GPU-none"  # it must not be read: it is for jobs
    if folder is not None:
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(folder), os.getenv("LD_LIBRARY_PATH")]))
    command = [sys.executable, "-c", SCRIPT]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (result.returncode, result.stderr) == (0, "")
    return Answer(json.loads(result.stdout), log.read_text().splitlines())


@pytest.fixture
def ask(library: Callable[..., Path], tmp_path: Path) -> Callable[..., Answer]:
    """Query a fake with these records."""

    def call(*records: str, flags: tuple[str, ...] = (), encoding: str = "utf-8") -> Answer:
        answer = _ask(library(*flags), tmp_path, *records, encoding=encoding)
        calls = Counter(answer.calls)
        assert calls["nvmlInitWithFlags"] == 2, "two questions, and the fake was asked"
        opened = 0 if any(line.startswith("error|nvmlInit") for line in records) else 2
        assert calls["nvmlShutdown"] == opened, "once for each init that succeeds"
        return answer

    return call


def test_gpus_of_two_types(ask: Callable[..., Answer]) -> None:
    answer = ask(
        f"gpu|Tesla V100-SXM2-16GB|GPU-v0|{16 * GIB}|-|0",
        f"gpu|NVIDIA H200|GPU-h0|{141 * GIB}|0|0",
        f"gpu|Tesla V100-SXM2-16GB|GPU-v1|{15 * GIB}|-|0",
        f"gpu|NVIDIA H200|GPU-h1|{141 * GIB}|2|7",  # will be in MIG mode, and is not yet
        f"gpu|Tesla V100-SXM2-16GB|GPU-v2|{16 * GIB}|-|0",
    )
    v100, h200 = "V100-SXM2-16GB", "H200"
    found = [(v100, 0, "GPU-v0"), (h200, 0, "GPU-h0"), (v100, 1, "GPU-v1"), (h200, 1, "GPU-h1"), (v100, 2, "GPU-v2")]
    assert answer.seats == found
    assert answer.node["memory_bytes"] == {v100: 15 * GIB, h200: 141 * GIB}
    assert (answer.node["up"], answer.node["note"]) == (True, "")


def test_processes_of_others_make_a_gpu_busy(ask: Callable[..., Answer]) -> None:
    """Not those of leases, whatever of them computes: a process with the tag, one below, or one in the cgroup."""
    child = (
        "import subprocess, sys; p = subprocess.Popen(['sleep', '1000'], env={}); print(p.pid, flush=True); p.wait()"
    )
    with Python(child, HETOPT_TAG="hetopt-abc123-1-0-1.0") as lease, Python("input()") as other:
        below, gone = int(lease.read()), 2**22 + 1
        pids = (lease.process.pid, below, other.process.pid, gone)
        answer = ask(*H200S, *(f"process|GPU-0|{pid}" for pid in pids[:2]), *(f"process|GPU-1|{pid}" for pid in pids))
        os.kill(below, 9)
    name = pwd.getpwuid(os.geteuid()).pw_name
    assert list(answer.node["busy"]) == ["GPU-1"], "on the other is nothing but a lease"
    first, second = answer.node["busy"]["GPU-1"].split(", ")
    assert re.fullmatch(rf"process {other.process.pid} \(python[\d.]*\) of {name}", first)
    assert second == f"process {gone}", "of another container, say"


def test_the_library_is_open_only_during_a_query(ask: Callable[..., Answer]) -> None:
    calls = ask(H200S[0]).calls
    one = calls[: calls.index("nvmlShutdown") + 1]
    assert one[0] == "nvmlInitWithFlags"
    assert {"nvmlDeviceGetCount_v2", "nvmlDeviceGetName", "nvmlDeviceGetUUID"} <= set(one)
    assert calls == [*one, *one]


def test_instances_stand_for_a_gpu_in_mig_mode(ask: Callable[..., Answer]) -> None:
    a100 = "A100-SXM4-40GB"
    answer = ask(
        f"gpu|NVIDIA {a100}|GPU-whole|{40536 * MIB}|0|7",
        A100,
        f"mig|0|NVIDIA {a100} MIG 3g.20gb|MIG-0|{20096 * MIB}|3|3|20096",
        f"mig|2|NVIDIA {a100} MIG 1g.5gb|MIG-2|{4864 * MIB}|1|1|4864",
        f"mig|5|NVIDIA {a100} MIG 1g.5gb+me|MIG-5|{4864 * MIB}|1|1|4864",
        f"mig|6|NVIDIA {a100} MIG 1g.5gb|MIG-6|{4863 * MIB}|1|1|4864",
    )
    small, media, large = f"{a100}-MIG-1g.5gb", f"{a100}-MIG-1g.5gb+me", f"{a100}-MIG-3g.20gb"
    found = [(a100, 0, "GPU-whole"), (large, 0, "MIG-0"), (small, 0, "MIG-2"), (media, 0, "MIG-5"), (small, 1, "MIG-6")]
    assert answer.seats == found
    memory = {a100: 40536, large: 20096, small: 4863, media: 4864}
    assert answer.node["memory_bytes"] == {kind: mib * MIB for kind, mib in memory.items()}
    assert answer.node["note"] == ""


def test_a_profile_without_a_name_is_derived_from_its_numbers(ask: Callable[..., Answer]) -> None:
    cases = [  # MiB of the GPU and of the instance as drivers say them, slices, and what NVIDIA calls it
        ("A100-SXM4-40GB", 40536, 4864, 1, 1, "1g.5gb"),
        ("A100-SXM4-40GB", 40536, 9984, 2, 2, "2g.10gb"),
        ("A100-SXM4-40GB", 40536, 20096, 3, 3, "3g.20gb"),
        ("A100-SXM4-40GB", 40536, 20096, 3, 1, "1c.3g.20gb"),
        ("A100-SXM4-80GB", 81251, 80768, 7, 7, "7g.80gb"),
        ("A30", 24258, 5952, 1, 1, "1g.6gb"),
        ("H200", 143771, 16384, 1, 1, "1g.18gb"),
        ("H200", 143771, 71424, 3, 3, "3g.71gb"),
    ]
    records = []
    for number, (gpu, whole, own, gi, ci, _) in enumerate(cases):
        records.append(f"gpu|NVIDIA {gpu}|GPU-{number}|{whole * MIB}|1|7")
        records.append(f"mig|0|NVIDIA {gpu}|MIG-{number}|{own * MIB}|{gi}|{ci}|{own}")
    answer = ask(*records)
    named = [f"{gpu}-MIG-{profile}" for gpu, *_, profile in cases]
    assert answer.seats == [(name, 0, f"MIG-{number}") for number, name in enumerate(named)]
    assert ask(*records[4:6], "error|nvmlDeviceGetMemoryInfo|GPU-2|3").seats == [(named[2], 0, "MIG-2")]


def test_a_gpu_in_mig_mode_without_instances_has_a_note_and_no_seat(ask: Callable[..., Answer]) -> None:
    answer = ask(H200S[0], A100)
    assert answer.seats == [("H200", 0, "GPU-0")]
    assert answer.node["note"] == "GPU 1 is in MIG mode and has no instance"
    assert ask(A100).seats == [], "not a host without GPUs: instances can be created"


def test_drivers_without_mig_are_supported(ask: Callable[..., Answer]) -> None:
    answer = ask(f"gpu|Tesla P100-PCIE-16GB|GPU-p|{16 * GIB}|1|0", flags=("-DBEFORE_MIG",))
    assert answer.seats == [("P100-PCIE-16GB", 0, "GPU-p")]


@pytest.mark.parametrize("records", [[], ["error|nvmlDeviceGetMemoryInfo|GPU-g|3"]], ids=["none", "not supported"])
def test_memory_shared_with_the_host_is_unknown(ask: Callable[..., Answer], records: list[str]) -> None:
    answer = ask("gpu|NVIDIA GB10|GPU-g|0|-|0", *records)
    assert answer.seats == [("GB10", 0, "GPU-g")]
    assert answer.node["memory_bytes"] == {}


def test_names_are_fit_for_paths(ask: Callable[..., Answer]) -> None:
    cases = {
        "NVIDIA GeForce RTX 3090": "RTX-3090",
        "GeForce GTX 1080 Ti": "GTX-1080-Ti",
        "Quadro RTX 6000/8000": "Quadro-RTX-6000-8000",
        "NVIDIA Tesla™ T4 (rev. B)": "T4-rev.-B",
        "  NVIDIA  RTX  A6000 ": "RTX-A6000",
        "NVIDIA": "NVIDIA",
        "NVIDIA .5": "5",
        "\u00b5\u00b5": "GPU",
        "N" * 95: "N" * 63,
    }
    answer = ask(*(f"gpu|{name}|GPU-{number}|{GIB}|-|0" for number, name in enumerate(cases)))
    assert answer.seats == [(kind, 0, f"GPU-{number}") for number, kind in enumerate(cases.values())]


def test_a_long_name_keeps_its_profile(ask: Callable[..., Answer]) -> None:
    long = "X" * 70
    answer = ask(f"gpu|{long}|GPU-x|{80 * GIB}|1|2", f"mig|1|{long} MIG 1g.10gb|MIG-x|{GIB}|1|1|1024")
    [(kind, _, _)] = answer.seats
    assert kind == check_name("X" * (63 - len("-MIG-1g.10gb")) + "-MIG-1g.10gb", "kind")


@given(st.text(max_size=95))
def test_every_product_name_gives_a_type_name(name: str) -> None:
    assert check_name(type_name(name), "kind")
    assert check_name(type_name(f"NVIDIA {name}"), "kind")


def test_a_missing_library_means_no_gpus(tmp_path: Path) -> None:
    with contextlib.suppress(OSError):
        ctypes.CDLL("libnvidia-ml.so.1")
        pytest.skip("this machine has libnvidia-ml.so.1, which cannot be hidden from the loader")
    answer = _ask(None, tmp_path)
    assert answer.none == "the NVIDIA management library (libnvidia-ml.so.1) is not installed"


def test_an_invalid_library_means_no_gpus(tmp_path: Path) -> None:
    """Container images carry an empty one where they were built beside a GPU."""
    (tmp_path / "libnvidia-ml.so.1").touch()
    answer = _ask(tmp_path, tmp_path)
    assert answer.none.startswith("the NVIDIA management library (libnvidia-ml.so.1) cannot be loaded: ")
    assert str(tmp_path / "libnvidia-ml.so.1") in answer.none


@pytest.mark.parametrize(
    ("records", "why"),
    [
        (["error|nvmlInit|-|9"], "the NVIDIA driver is not loaded"),
        ([], "the driver reports no GPU"),
        (["error|nvmlInit|-|28"], "the driver reports no GPU"),
    ],
    ids=["no driver", "none counted", "none found"],
)
def test_a_machine_without_gpus_has_a_reason(ask: Callable[..., Answer], records: list[str], why: str) -> None:
    assert ask(*records).none == why


@pytest.mark.parametrize(
    ("call", "device", "of"),
    [
        ("nvmlInit", "-", ""),
        ("nvmlDeviceGetCount", "-", ""),
        ("nvmlDeviceGetHandleByIndex", "GPU-1", " for GPU 1"),
        ("nvmlDeviceGetName", "GPU-1", " for GPU 1"),
        ("nvmlDeviceGetUUID", "GPU-1", " for GPU 1"),
        ("nvmlDeviceGetMemoryInfo", "GPU-1", " for GPU 1"),
        ("nvmlDeviceGetMigMode", "GPU-1", " for GPU 1"),
        ("nvmlDeviceGetMaxMigDeviceCount", "GPU-a", " for GPU 2"),
        ("nvmlDeviceGetMigDeviceHandleByIndex", "MIG-3", " for MIG device 3 of GPU 2"),
        ("nvmlDeviceGetName", "MIG-3", " for MIG device 3 of GPU 2"),
        ("nvmlDeviceGetUUID", "MIG-3", " for MIG device 3 of GPU 2"),
        ("nvmlDeviceGetMemoryInfo", "MIG-3", " for MIG device 3 of GPU 2"),
        ("nvmlDeviceGetAttributes_v2", "MIG-3", " for MIG device 3 of GPU 2"),
    ],
)
def test_an_error_is_never_the_absence_of_gpus(ask: Callable[..., Answer], call: str, device: str, of: str) -> None:
    migs = [f"mig|{i}|NVIDIA A100-SXM4-40GB|MIG-{i}|{GIB}|1|1|4864" for i in (3, 5)]
    for code, message in ((999, "Unknown Error"), (29, "the fake says 29")):
        answer = ask(*H200S, A100, *migs, f"error|{call}|{device}|{code}")
        why = f"{call} fails{of}: {message} (NVML error {code}); nvidia-smi must "
        if not of:
            assert answer.down.startswith(why)
            continue
        assert answer.node["note"].startswith(why)
        wrong = [device] if device in ("GPU-1", "MIG-3") else ["MIG-3", "MIG-5"]
        there = ["GPU-0", "GPU-1", "MIG-3", "MIG-5"]
        assert [seat for _, _, seat in answer.seats] == [one for one in there if one not in wrong]


def test_a_lost_gpu_has_a_note(ask: Callable[..., Answer]) -> None:
    for call in ("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID"):
        answer = ask(*H200S, f"error|{call}|GPU-1|15", "error|nvmlShutdown|-|999")  # which is no harm any more
        assert answer.node["note"] == f"GPU 1 is lost ({call}: GPU is lost); reset it or restart this machine"
        assert [seat for _, _, seat in answer.seats] == ["GPU-0"]
        alone = ask(H200S[1], f"error|{call}|GPU-1|15")
        assert alone.down == f"GPU 0 is lost ({call}: GPU is lost); reset it or restart this machine"


def test_a_name_that_is_not_utf8_is_an_error(ask: Callable[..., Answer]) -> None:
    answer = ask(f"gpu|NVIDIA \u00b5|GPU-x|{GIB}|-|0", encoding="latin-1")
    assert answer.down.startswith("nvmlDeviceGetName fails for GPU 0: ")


def _nvidia_smi(*options: str) -> list[str]:
    result = subprocess.run(["nvidia-smi", *options], capture_output=True, text=True, check=False, timeout=PATIENCE)
    return result.stdout.splitlines() if result.returncode == 0 else []


@pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no nvidia-smi here")
def test_the_gpus_are_those_of_nvidia_smi() -> None:
    listed = [line.partition("UUID: ")[2].rstrip(")") for line in _nvidia_smi("-L") if "UUID: " in line]
    if not listed:
        pytest.skip("nvidia-smi lists no GPU here")
    modes = dict(line.split(", ") for line in _nvidia_smi("--query-gpu=uuid,mig.mode.current", "--format=csv,noheader"))
    assert modes.keys() <= set(listed)
    node, _ = find_gpus("here")
    assert [seat.device for seat in node.seats] == [uuid for uuid in listed if modes.get(uuid) != "Enabled"]
    assert all(check_name(seat.gpu_type, "type") for seat in node.seats)
