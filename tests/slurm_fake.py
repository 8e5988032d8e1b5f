"""Programs in place of Slurm's commands, for tests without Slurm."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hetopt.executor.engines.slurm_commands import PROGRAMS

NODE = (
    "NodeName={name} Arch=x86_64 CoresPerSocket=8  CPUAlloc={alloc} CPUEfctv={cpus} CPUTot={cpus} CPULoad=0.11 "
    "AvailableFeatures=a,b ActiveFeatures=a Gres={gres} GresDrain=N/A GresUsed={used} NodeAddr=10.0.0.7 "
    "NodeHostName=vm Port=0 Version=22.05.8 OS=Linux 6.1 #1 SMP @0  RealMemory=64000 AllocMem={memory} "
    "Sockets=2 Boards=1 State={state} ThreadsPerCore=2 TmpDisk=0 Partitions={partitions} BootTime=None "
    "CfgTRES=cpu=8,mem=4000M,billing=8 AllocTRES= ExtSensorsTemp=n/s {reason}"
)
"""A line of ``scontrol --oneliner --details show node`` of Slurm 22.05."""

PARTITION = "PartitionName={name} AllowGroups=ALL Default={default} MaxCPUsPerNode={cpus} Nodes=a,b State={state}"

FAKE = """#!{python} -S
import json, os, sys, time
name, folder = os.path.basename(sys.argv[0]), os.path.dirname(os.path.abspath(sys.argv[0]))
standard_input = sys.stdin.read()
with open(folder + "/calls", "a") as file:
    print(json.dumps([[name, *sys.argv[1:]], dict(os.environ), standard_input]), file=file)
key = name + "-" + sys.argv[-1] if name == "scontrol" else name
try:
    content = json.load(open(folder + "/" + key + ".json"))
except FileNotFoundError:
    sys.exit(0)
time.sleep(content[3])
sys.stdout.write(content[1])
sys.stderr.write(content[2])
sys.exit(content[0])
"""


class Fake:
    """Programs that print what a test sets, and record their calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in PROGRAMS:
            (folder / name).write_text(FAKE.format(python=sys.executable))
            (folder / name).chmod(0o755)
        self.partitions()
        self.nodes(("a", "gpu:v100:4", {}), ("b", "gpu:k80:2", {}))

    def prints(self, key: str, out: str = "", *, error: str = "", code: int = 0, after: float = 0.0) -> None:
        (self.folder / f"{key}.json").write_text(json.dumps([code, out, error, after]))

    def partitions(self, default: str = "YES", cpus: str = "UNLIMITED", state: str = "UP") -> None:
        every = (("gpu", default, cpus), ("other", "NO", "UNLIMITED"))
        lines = [PARTITION.format(name=n, default=d, cpus=c, state=state) for n, d, c in every]
        self.prints("scontrol-partition", "\n".join(lines))

    def nodes(self, *every: tuple[str, str, dict[str, Any]]) -> None:
        common = {"state": "IDLE", "used": "gpu:0", "cpus": 32, "partitions": "gpu", "reason": ""}
        common |= {"alloc": 0, "memory": 0}
        lines = [NODE.format(**{"name": name, "gres": gres, **common, **more}) for name, gres, more in every]
        self.prints("scontrol-node", "\n".join(lines))

    def calls(self, name: str) -> list[tuple[list[str], dict[str, str], str]]:
        lines = (self.folder / "calls").read_text().splitlines()
        return [
            (words[1:], environment, given) for words, environment, given in map(json.loads, lines) if words[0] == name
        ]


@pytest.fixture(name="slurm")
def some_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return Fake(folder)
