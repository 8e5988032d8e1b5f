"""What a lease asks of Slurm: its share of a node's cores and memory, and what sbatch is told besides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hetopt.errors import InvalidOption
from hetopt.executor.engines.slurm_nodes import Host, Partition

_NAMES = "hetopt finds its jobs by it"
_PLACES = "hetopt itself says which nodes and GPUs a lease has"
_FILES = "a lease has its own directory, output and environment"
_ONCE = "a lease is one job, which begins at once, and once"

OWN: Mapping[str, str] = {
    **dict.fromkeys(("job-name", "comment"), _NAMES),
    **dict.fromkeys(("nodes", "nodelist", "nodefile", "exclude", "exclusive", "gres"), _PLACES),
    **dict.fromkeys(("ntasks", "gpus", "tres"), _PLACES),
    **dict.fromkeys(("chdir", "input", "output", "error", "open-mode"), _FILES),
    **dict.fromkeys(("export", "export-file", "get-user-env", "uid", "gid"), _FILES),
    **dict.fromkeys(("array", "begin", "dependency", "hold", "requeue", "no-requeue", "het-group"), _ONCE),
    **dict.fromkeys(("signal", "wrap", "wait", "parsable", "test-only"), "hetopt itself submits jobs and stops them"),
    **dict.fromkeys(("cluster", "clusters"), "hetopt asks the Slurm of this host alone"),
    "partition": "--partition says it",
    "cpus-per-gpu": "cpus_per_gpu says it",
}
"""Options of sbatch that are not to be set, and why."""

FAMILIES = ("ntasks-", "gpus-", "tres-")
"""How others of them begin."""

MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
"""Options of which sbatch takes one at most."""


def checked(options: Mapping[str, str]) -> dict[str, str]:
    """Options as sbatch spells them.

    Raises
    ------
    InvalidOption
        One that hetopt itself sets, or that would make something else of a lease.
    """
    found: dict[str, str] = {}
    for given, value in options.items():
        option = given.replace("_", "-")
        why = next((why for own, why in OWN.items() if own.startswith(option)), None)  # sbatch takes beginnings too
        if why is None and option.startswith(FAMILIES):
            why = _PLACES
        if why is not None:
            raise InvalidOption(f"--engine-set {given}: this option of sbatch cannot be set; {why}")
        if option in found:
            raise InvalidOption(f"--engine-set {given}: it is there twice; leave out one")
        found[option] = value
    return found


@dataclass(frozen=True)
class Request:
    """What leases ask for.

    Parameters
    ----------
    cpus_per_gpu:
        In place of the share of a node's.
    options:
        Further ones of sbatch.
    """

    cpus_per_gpu: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def words(self, hosts: list[Host], number: int, partition: Partition | None) -> dict[str, str]:
        """Options for CPUs and memory on each of these hosts, of so many GPUs there."""
        said = {}
        if cpus := min((self._cpus(host, number, partition) for host in hosts), default=0):
            said["cpus-per-task"] = str(cpus)
        megabytes = min((self._megabytes(host, number, partition) for host in hosts), default=0)
        if megabytes and not any(option in self.options for option in MEMORY):
            said["mem"] = f"{megabytes}M"
        return said

    def missing(self, host: Host, partition: Partition) -> tuple[int, str]:
        """GPUs of nobody that no lease could have now: cores or memory is in use; and which of both."""
        gpus = max(0, sum(host.gpus.values()) - sum(host.used.values()))
        cpus = gpus
        while cpus and not partition.shares_cpus and self._takes_cpus(host, cpus, partition) > host.free_cpus:
            cpus -= 1
        memory = gpus
        while memory and self._takes_megabytes(host, memory, partition) > host.free_megabytes:
            memory -= 1
        return gpus - min(cpus, memory), "cores" if cpus <= memory else "memory"

    def _cpus(self, host: Host, number: int, partition: Partition | None) -> int:
        """Of so many GPUs; whole cores, so that what is rounded up never adds up to more than there is."""
        if self.cpus_per_gpu is not None:
            return number * self.cpus_per_gpu
        most = partition.most_cpus if partition and partition.most_cpus else host.cpus
        cores = min(most, host.cpus) // host.threads
        return max(1, cores * number // sum(host.gpus.values())) * host.threads

    def _megabytes(self, host: Host, number: int, partition: Partition | None) -> int:
        """Of so many GPUs; 0 where a site has not told Slurm of the memory."""
        most = partition.most_megabytes if partition and partition.most_megabytes else host.megabytes
        return min(most, host.megabytes) * number // sum(host.gpus.values()) if host.megabytes > 1 else 0

    def _takes_cpus(self, host: Host, number: int, partition: Partition) -> int:
        """CPUs that Slurm takes for it, by whole cores."""
        said = self.options.get("cpus-per-task", "")
        cpus = int(said) if said.isdecimal() else self._cpus(host, number, partition)
        return -(-cpus // host.threads) * host.threads

    def _takes_megabytes(self, host: Host, number: int, partition: Partition) -> int:
        """Megabytes that it takes, as far as the options tell."""
        if host.megabytes <= 1:
            return 0
        if "mem" in self.options:
            return _size(self.options["mem"]) or host.megabytes  # 0 is sbatch's word for all
        if "mem-per-gpu" in self.options:
            return number * _size(self.options["mem-per-gpu"])
        if "mem-per-cpu" in self.options:
            return self._takes_cpus(host, number, partition) * _size(self.options["mem-per-cpu"])
        return self._megabytes(host, number, partition)


def _size(said: str) -> int:
    """Megabytes of a size such as ``500`` or ``2G``; 0 where it is none."""
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", said.lower())
    if match is None:
        return 0
    return -(-int(match[1]) * {"k": 1, "": 2**10, "m": 2**10, "g": 2**20, "t": 2**30}[match[2]] // 2**10)
