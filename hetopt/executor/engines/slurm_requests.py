"""What a lease requests from Slurm: its share of a node's cores and memory, and further options of sbatch."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hetopt.errors import InvalidOption
from hetopt.executor.engines.slurm_commands import Partition, SlurmNode

_NAMES = "hetopt finds its jobs by it"
_PLACES = "hetopt sets the nodes and GPUs of a lease"
_FILES = "a lease has its own directory, output and environment"
_ONCE = "a lease is one job, which starts at once, and once"

FIXED_OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(("job-name", "comment"), _NAMES),
    **dict.fromkeys(("nodes", "nodelist", "nodefile", "exclude", "exclusive", "gres"), _PLACES),
    **dict.fromkeys(("ntasks", "gpus", "tres"), _PLACES),
    **dict.fromkeys(("chdir", "input", "output", "error", "open-mode"), _FILES),
    **dict.fromkeys(("export", "export-file", "get-user-env", "uid", "gid"), _FILES),
    **dict.fromkeys(("array", "begin", "dependency", "hold", "requeue", "no-requeue", "het-group"), _ONCE),
    **dict.fromkeys(("signal", "wrap", "wait", "parsable", "test-only"), "hetopt submits and stops jobs"),
    **dict.fromkeys(("cluster", "clusters"), "hetopt uses the Slurm cluster of this host"),
    "partition": "use --partition",
    "cpus-per-gpu": "use cpus_per_gpu",
}
"""Options of sbatch that users cannot set, and why."""

FIXED_PREFIXES = ("ntasks-", "gpus-", "tres-")
"""Beginnings of further ones."""

MEMORY_OPTIONS = ("mem", "mem-per-cpu", "mem-per-gpu")
"""Options of which sbatch accepts at most one."""


def checked(options: Mapping[str, str]) -> dict[str, str]:
    """The options as sbatch spells them.

    Raises
    ------
    InvalidOption
        One that hetopt sets, or one that is given twice.
    """
    found: dict[str, str] = {}
    for given, value in options.items():
        option = given.replace("_", "-")
        why = next((why for fixed, why in FIXED_OPTIONS.items() if fixed.startswith(option)), None)  # or abbreviated
        if why is None and option.startswith(FIXED_PREFIXES):
            why = _PLACES
        if why is not None:
            raise InvalidOption(f"--engine-set {given}: this option of sbatch cannot be set; {why}")
        if option in found:
            raise InvalidOption(f"--engine-set {given}: it is given twice; remove one")
        found[option] = value
    return found


@dataclass(frozen=True)
class Request:
    """What leases request.

    Parameters
    ----------
    cpus_per_gpu:
        In place of the share of a node's CPUs.
    options:
        Further options of sbatch.
    """

    cpus_per_gpu: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def limits(self, nodes: Sequence[SlurmNode], gpus: int, partition: Partition | None) -> dict[str, str]:
        """Options for CPUs and memory with ``gpus`` GPUs on each of these nodes."""
        limits = {}
        if cpus := min((self._cpus(node, gpus, partition) for node in nodes), default=0):
            limits["cpus-per-task"] = str(cpus)
        megabytes = min((self._megabytes(node, gpus, partition) for node in nodes), default=0)
        if megabytes and self.options.keys().isdisjoint(MEMORY_OPTIONS):
            limits["mem"] = f"{megabytes}M"
        return limits

    def blocked(self, node: SlurmNode, partition: Partition) -> tuple[int, str]:
        """Free GPUs of the node that no lease could get, since ``cores`` or ``memory`` are in use; and which."""
        free = max(0, sum(node.gpus.values()) - sum(node.used.values()))

        def most(fits: Callable[[int], bool]) -> int:
            return next((gpus for gpus in range(free, 0, -1) if fits(gpus)), 0)

        cores = most(lambda n: partition.shares_cpus or self._allocated_cpus(node, n, partition) <= node.free_cpus)
        memory = most(lambda n: self._allocated_megabytes(node, n, partition) <= node.free_megabytes)
        return free - min(cores, memory), "cores" if cores <= memory else "memory"

    def _cpus(self, node: SlurmNode, gpus: int, partition: Partition | None) -> int:
        """Requested CPUs: whole cores, so that what Slurm rounds up never exceeds the node."""
        if self.cpus_per_gpu is not None:
            return gpus * self.cpus_per_gpu
        limit = partition.most_cpus if partition and partition.most_cpus else node.cpus
        cores = min(limit, node.cpus) // node.threads
        return max(1, cores * gpus // sum(node.gpus.values())) * node.threads

    def _megabytes(self, node: SlurmNode, gpus: int, partition: Partition | None) -> int:
        """Requested megabytes; 0 where the site has not configured the memory."""
        limit = partition.most_megabytes if partition and partition.most_megabytes else node.megabytes
        return min(limit, node.megabytes) * gpus // sum(node.gpus.values()) if node.megabytes > 1 else 0

    def _allocated_cpus(self, node: SlurmNode, gpus: int, partition: Partition) -> int:
        """CPUs that Slurm allocates, in whole cores."""
        option = self.options.get("cpus-per-task", "")
        cpus = int(option) if option.isdecimal() else self._cpus(node, gpus, partition)
        return -(-cpus // node.threads) * node.threads

    def _allocated_megabytes(self, node: SlurmNode, gpus: int, partition: Partition) -> int:
        """Megabytes that Slurm allocates, as far as the options determine it."""
        if node.megabytes <= 1:
            return 0
        if "mem" in self.options:
            return _megabytes(self.options["mem"]) or node.megabytes  # 0 requests all of it
        if "mem-per-gpu" in self.options:
            return gpus * _megabytes(self.options["mem-per-gpu"])
        if "mem-per-cpu" in self.options:
            return self._allocated_cpus(node, gpus, partition) * _megabytes(self.options["mem-per-cpu"])
        return self._megabytes(node, gpus, partition)


def _megabytes(size: str) -> int:
    """Megabytes of a size such as ``500`` or ``2G``; 0 where it is none."""
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", size.lower())
    return 0 if match is None else -(-int(match[1]) * 1024 ** "kmgt".index(match[2] or "m") // 1024)
