"""The engine for Slurm: one batch job per lease, with plain sbatch, squeue, scancel and scontrol."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hetopt.checks import check_name, choices, counted
from hetopt.errors import InvalidOption
from hetopt.executor import lease_directory as files
from hetopt.executor.engines import slurm_commands as commands
from hetopt.executor.engines.engine import EngineDown, LeaseRecord, Node, Phase, Refused, Seat
from hetopt.executor.engines.slurm_commands import Partition, SlurmNode, call, megabytes_of, number, show

SCRIPT = '#!/bin/sh\nexec "$@"\n'
"""The batch script; its arguments are the runner. Without ``exec`` a signal would end the shell and so the job."""

WAITING_STATES = frozenset(
    {"CONFIGURING", "LAUNCH_FAILED", "PENDING", "RECONFIG_FAIL", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD"}
    | {"RESV_DEL_HOLD", "SPECIAL_EXIT"}
)
"""States of jobs in the queue; in all others a process may run. Jobs that have ended are not in the queue."""

WARNING_SECONDS = 60
"""Time before a partition's time limit at which the runner gets its signal to stop."""

WAIT_SECONDS = 10.0
"""The reason of a job that waits is reported after this time."""

_PLACES = "hetopt sets the nodes and GPUs of a lease"
_FILES = "a lease has its own directory, output and environment"
_ONCE = "a lease is one job, which starts at once, and once"

FIXED_OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(("job-name", "comment"), "hetopt finds its jobs by it"),
    **dict.fromkeys(("nodes", "nodelist", "nodefile", "exclude", "exclusive", "gres"), _PLACES),
    **dict.fromkeys(("ntasks", "gpus", "tres"), _PLACES),
    **dict.fromkeys(("chdir", "input", "output", "error", "open-mode"), _FILES),
    **dict.fromkeys(("export", "export-file", "get-user-env", "uid", "gid"), _FILES),
    **dict.fromkeys(("array", "begin", "dependency", "hold", "requeue", "no-requeue", "het-group"), _ONCE),
    **dict.fromkeys(("signal", "wrap", "wait", "parsable", "test-only"), "hetopt submits and stops jobs"),
    **dict.fromkeys(("cluster", "clusters"), "hetopt uses the Slurm cluster of this host"),
    "partition": "use --partition",
}
"""Options of sbatch that users cannot set, and why."""

FIXED_PREFIXES = ("ntasks-", "gpus-", "tres-")
"""Beginnings of further ones."""

MEMORY_OPTIONS = ("mem", "mem-per-cpu", "mem-per-gpu")
"""Options of which sbatch accepts at most one."""


class QueuedJob(NamedTuple):
    """A job in Slurm's queue, or a component of one; node -> GPUs that it has or waits for."""

    phase: Phase
    gpus: Mapping[str, int]
    reason: str


class SlurmEngine:
    """Slurm starts the runners. A lease's tag is the job's name, since Slurm may reuse a job's number after a crash.

    A lease requests its GPUs' share of a node's CPUs and memory: with k of n GPUs, k/n of both. Slurm's defaults are
    one CPU and often the whole memory, so that a second lease would wait although GPUs are free.

    Parameters
    ----------
    cluster:
        Part of the tags of its leases.
    partition:
        For all jobs; None: the default one.
    options:
        Further long options of sbatch, such as ``account="vision"``; ``cpus_per_gpu`` replaces the share of CPUs.

    Raises
    ------
    InvalidOption
        Slurm is not on this machine; the partition or reservation does not exist or has no GPUs; or an option cannot
        be set, or Slurm refuses it.
    """

    name = "slurm"
    exact_slots = False
    look_seconds = 3.0

    def __init__(self, cluster: str, /, partition: str | None = None, **options: object) -> None:
        self._prefix = f"hetopt-{check_name(cluster, 'cluster')}-"
        self._options, self._partition_name = checked_options(options), partition
        for program in commands.PROGRAMS:
            if shutil.which(program) is None:
                path = os.environ.get("PATH", "")
                raise InvalidOption(f"Slurm's commands are not on this machine: {program} not found in PATH={path}")
        self._partition: Partition | None = None
        self._nodes: dict[str, SlurmNode] = {}
        self._reservations: dict[str, list[str]] = {}  # name -> nodes, as last seen
        self._waiting: dict[str, float] = {}  # since when jobs wait
        try:
            self._refresh()
            self._check_options()
        except EngineDown:
            return  # an invalid partition is reported once Slurm answers

    def _check_options(self) -> None:
        """Have Slurm check the options with a request of one GPU, so that no job fails because of them."""
        node = min(self._nodes.values(), key=lambda node: not node.up)
        gpu_type = next(iter(node.gpus))
        lease = LeaseRecord(f"{self._prefix}0-0-0", Path("/"), (Seat(node.name, gpu_type, 0),))

        def refusal(options: Mapping[str, str]) -> str:
            words = self._words(options, lease, [node.name], {gpu_type: 1})
            try:
                call("sbatch", "--test-only", *words, stdin=SCRIPT)
            except Refused as problem:
                return str(problem)
            return ""

        if self._options and (why := refusal(self._options)) and why != refusal({}):  # else they are not the cause
            raise InvalidOption(f"--engine-set: {why} (of one GPU on {node.name})")

    # -- nodes

    def nodes(self) -> tuple[Node, ...]:
        """Nodes of the partition (and reservation) with GPUs, also with those that jobs of others hold."""
        self._refresh()
        now, queue = files.now(), self._queue()
        waiting = [tag for tag, jobs in queue.items() if all(job.phase is Phase.WAITING for job in jobs)]
        self._waiting = {tag: self._waiting.get(tag, now) for tag in waiting}
        own, reasons = Counter[str](), defaultdict[str, list[str]](list)
        for tag, jobs in queue.items():
            for job in jobs:
                if job.phase is Phase.RUNNING:
                    own.update(job.gpus)
                elif job.reason not in ("", "None", "(null)") and now - self._waiting.get(tag, now) >= WAIT_SECONDS:
                    for node in job.gpus:
                        reasons[node].append(f"a lease waits: {job.reason}")
        return tuple(self._node(node, own[node.name], reasons[node.name]) for node in self._nodes.values())

    def _node(self, node: SlurmNode, own: int, reasons: Iterable[str]) -> Node:
        """A node as the controller needs it; ``own``: GPUs that leases of this cluster hold."""
        partition, used, notes = self._partition, dict(node.used), [node.note]
        assert partition is not None
        open_ = partition.state == "UP"
        if not open_:
            notes.append(f"partition {partition.name!r} is {partition.state}")
        if (others := sum(node.used.values()) - own) > 0:
            notes.append(f"{others} of {sum(node.gpus.values())} GPUs are in use by others")
        unusable, resource = unusable_gpus(self._options, node, partition)
        if unusable:
            are = "are" if resource == "cores" else "is"
            notes.append(f"{resource} for {counted(unusable, 'GPU')} {are} not free")
        for gpu_type, there in node.gpus.items():
            if more := min(unusable, max(0, there - used.get(gpu_type, 0))):
                used[gpu_type], unusable = used.get(gpu_type, 0) + more, unusable - more
        seats = tuple(Seat(node.name, gpu_type, i) for gpu_type, there in node.gpus.items() for i in range(there))
        note = "; ".join(filter(None, [*notes, *dict.fromkeys(reasons)]))
        return Node(node.name, seats, node.up and open_, note, address=node.address, used=used)

    def _refresh(self) -> None:
        """Read the partition, its nodes and the reservation as they are now."""
        partition = self._partition = self._read_partition()
        every = commands.slurm_nodes(show("node"))
        found = {node.name: node for node in every if node.gpus and partition.name in node.partitions}
        if names := self._options.get("reservation"):
            reserved = self._read_reservations(names)
            found = {name: _node_in_reservation(one, reserved[name]) for name, one in found.items() if name in reserved}
        where = f"partition {partition.name!r}" + (f" in reservation {names!r}" if names else "")
        if not found and self._nodes:
            raise EngineDown(f"no node of {where} has GPUs any more")
        if not found:
            others = sorted({name for node in every if node.gpus for name in node.partitions})
            hint = "" if names else f"; {choices(partition.name, others)}"
            raise InvalidOption(f"no node of {where} has GPUs (gres gpu){hint}")
        if all(node.unknown for node in found.values()):
            raise EngineDown(f"Slurm has no state of the nodes of partition {partition.name!r} yet")
        for name, node in found.items():
            if node.unknown and (before := self._nodes.get(name)):  # slurmctld has just started: no news
                found[name] = replace(node, state=before.state, reason=before.reason)
        self._nodes = found

    def _read_partition(self) -> Partition:
        """The partition as it is now; where none was named, the one that was the default one at first."""
        found = commands.partitions(show("partition"))
        if not found:
            raise EngineDown("Slurm lists no partition")
        name = self._partition_name or next((one.name for one in found.values() if one.default), None)
        if name is None:
            raise InvalidOption(f"Slurm has no default partition; name one by --partition: {', '.join(found)}")
        if name not in found and self._partition is not None:
            raise EngineDown(f"Slurm has no partition {name!r} any more; {choices(name, found)}")
        if name not in found:
            raise InvalidOption(f"Slurm has no partition {name!r}; {choices(name, found)}")
        self._partition_name = name
        return found[name]

    def _read_reservations(self, names: str) -> dict[str, str]:
        """Node -> why nothing starts there now, or nothing; of reservations that are separated by commas."""
        known, found = commands.reservations(show("reservation")), dict[str, str]()
        for name in filter(None, names.split(",")):
            expression, why = known.get(name, ("", f"reservation {name!r} is over"))
            if name in known:
                nodes = call("scontrol", "show", "hostnames", expression).split() if expression else []
                self._reservations[name] = nodes
            elif name not in self._reservations:
                hint = choices(name, sorted(known)) if known else "it has none now"
                raise InvalidOption(f"Slurm has no reservation {name!r}; {hint}")
            for node in self._reservations[name]:
                found[node] = min(found.get(node, why), why)  # one that is active suffices
        return found

    # -- leases

    def start(self, lease: LeaseRecord) -> None:
        """Submit the lease's job unless Slurm has one of that name.

        Where the answer is lost the job is submitted again; of two runners the second finds the claim and exits.
        """
        if lease.tag in self._queue():
            return
        if not all(node in self._nodes for node in lease.nodes):
            self._refresh()
        groups = defaultdict[tuple[tuple[str, int], ...], list[str]](list)
        for node in lease.nodes:
            types = Counter(seat.gpu_type for seat in lease.seats if seat.node == node)
            groups[tuple(sorted(types.items()))].append(node)
        words: list[str] = []
        for gpus, nodes in groups.items():  # unlike nodes are components of a heterogeneous job
            words += [":"] if words else []
            words += self._words(self._options, lease, nodes, dict(gpus))
        runner = [sys.executable, "-P", "-m", "hetopt.executor.runner", str(lease.folder)]
        if len(lease.nodes) == 1:
            runner.append("0")
        else:
            step = ["srun", "--mpi=none", "--kill-on-bad-exit=0", "--wait=0", "--cpu-bind=none", "--quiet"]
            step += [f"--het-group={','.join(map(str, range(len(groups))))}"] * (len(groups) > 1)
            runner = [*step, *runner]
        # The script is read from standard input under a name, so that it can have arguments.
        more = {files.TAG_VARIABLE: f"{lease.tag}.runner"}
        try:
            call("sbatch", "--parsable", *words, "/dev/stdin", *runner, stdin=SCRIPT, more=more)
        except Refused as problem:
            before = self._partition, self._nodes.keys()
            self._refresh()
            up = all(node.up for name, node in self._nodes.items() if name in lease.nodes)
            if not up or (self._partition, self._nodes.keys()) != before:
                raise EngineDown(f"{problem}; the partition or reservation was changed") from None
            raise

    def _words(
        self, options: Mapping[str, str], lease: LeaseRecord, nodes: Collection[str], gpus: Mapping[str, int]
    ) -> list[str]:
        """Options of sbatch for nodes with the same GPUs each."""
        partition, there, folder = self._partition, sum(gpus.values()), str(lease.folder)
        assert partition is not None
        words = {
            "job-name": lease.tag,
            "comment": ",".join(f"{node}={there}" for node in nodes),
            "partition": partition.name,
            "nodes": str(len(nodes)),
            "nodelist": ",".join(nodes),
            "ntasks-per-node": "1",
            "gres": ",".join(f"gpu:{n}" if kind == "gpu" else f"gpu:{kind}:{n}" for kind, n in gpus.items()),
            "chdir": folder,
            "output": "/dev/null" if "\\" in folder else folder.replace("%", "%%") + "/runner.log",
            "open-mode": "append",
            "export": "ALL",  # sbatch itself gets only what a job needs
            "signal": f"URG@{WARNING_SECONDS}" if len(lease.nodes) > 1 else f"B:TERM@{WARNING_SECONDS}",
        }
        known = [self._nodes[name] for name in nodes if name in self._nodes]
        shares = [requested_share(options, node, there, partition) for node in known]
        if shares:
            words["cpus-per-task"] = str(min(cpus for cpus, _ in shares))
        if (megabytes := min((own for _, own in shares), default=0)) and options.keys().isdisjoint(MEMORY_OPTIONS):
            words["mem"] = f"{megabytes}M"
        words |= {option: value for option, value in options.items() if option != "cpus-per-gpu"}
        return ["--no-requeue", *(f"--{option}={value}" for option, value in words.items())]

    def status(self, tags: Collection[str]) -> Mapping[str, Phase]:
        """The phase of each tag, and of each further lease of this cluster in the queue."""
        phases = dict.fromkeys(tags, Phase.ENDED)
        for tag, jobs in self._queue().items():
            running = any(job.phase is Phase.RUNNING for job in jobs)
            phases[tag] = Phase.RUNNING if running else Phase.WAITING
        return phases

    def _queue(self) -> dict[str, list[QueuedJob]]:
        """Jobs of this cluster that wait or run by name; the components of a heterogeneous job are listed each."""
        found = defaultdict[str, list[QueuedJob]](list)
        text = call("squeue", "--noheader", "--all", f"--user={os.geteuid()}", "--format=%T|%k|%j|%r")
        for line in text.splitlines():
            state, comment, name, reason = [*line.split("|", 3), "", "", ""][:4]
            if name.startswith(self._prefix):
                phase = Phase.WAITING if state in WAITING_STATES else Phase.RUNNING
                gpus = {node: int(there) for node, there in re.findall(r"([^,=]+)=(\d+)", comment)}
                found[name].append(QueuedJob(phase, gpus, reason))
        return dict(found)

    def stop(self, tags: Collection[str]) -> None:
        """Signal the runners, which also read the request in their directory.

        A gang's training gets the signal too, and of SIGTERM srun would kill it soon; SIGURG harms no training.
        """
        for tag, jobs in self._queue().items() if tags else ():
            if tag in tags and any(job.phase is Phase.RUNNING for job in jobs):
                single = len({node for job in jobs for node in job.gpus}) == 1
                self._cancel(tag, *(["--batch", "--signal=TERM"] if single else ["--signal=URG"]))

    def kill(self, tags: Collection[str]) -> None:
        """Cancel the jobs: Slurm sends SIGTERM to all their processes, and SIGKILL after its KillWait."""
        for tag in self._queue() if tags else ():
            if tag in tags:
                self._cancel(tag)

    @staticmethod
    def _cancel(tag: str, *words: str) -> None:
        """One call per tag: scancel matches nothing for a list of names."""
        call("scancel", f"--user={os.geteuid()}", f"--name={tag}", *words)

    def fenced_after(self, tag: str) -> float | None:
        """None: of a node whose slurmd is dead Slurm reports that the job has ended, while its processes live."""
        return None

    def close(self) -> None:
        """Nothing is open."""


def _node_in_reservation(node: SlurmNode, why: str) -> SlurmNode:
    """A node of the leases' reservation; ``why`` nothing starts there now, or nothing."""
    state = tuple(word for word in node.state if word not in commands.RESERVED_STATES) or ("IDLE",)
    if why:
        return replace(node, state=(*state, "RESERVED"), reason="; ".join(filter(None, [why, node.reason])))
    return replace(node, state=state)


# -- options of sbatch


def checked_options(options: Mapping[str, object]) -> dict[str, str]:
    """The options as sbatch spells them; refuses those that hetopt sets, and those that are given twice."""
    found: dict[str, str] = {}
    for given, value in options.items():
        option = given.replace("_", "-")
        why = next((why for fixed, why in FIXED_OPTIONS.items() if fixed.startswith(option)), "")  # or abbreviated
        if why or option.startswith(FIXED_PREFIXES):
            why = why or _PLACES
            raise InvalidOption(f"--engine-set {given}: this option of sbatch cannot be set; {why}")
        if option in found:
            raise InvalidOption(f"--engine-set {given}: it is given twice; remove one")
        if option == "cpus-per-gpu" and number(str(value), 0) < 1:
            raise InvalidOption(f"--engine-set {given}={value}; it must be a whole number, 1 at least")
        found[option] = str(value)
    return found


def requested_share(options: Mapping[str, str], node: SlurmNode, gpus: int, partition: Partition) -> tuple[int, int]:
    """CPUs and megabytes that a lease requests: its GPUs' share of the node, in whole cores.

    So what Slurm rounds up never exceeds the node.
    """
    every = sum(node.gpus.values())
    cores = min(partition.most_cpus, node.cpus) // node.threads
    share = max(1, cores * gpus // every) * node.threads
    cpus = gpus * number(options["cpus-per-gpu"], 1) if "cpus-per-gpu" in options else share
    return cpus, min(partition.most_megabytes, node.megabytes) * gpus // every


def allocated_share(options: Mapping[str, str], node: SlurmNode, gpus: int, partition: Partition) -> tuple[int, int]:
    """CPUs in whole cores, and megabytes, that Slurm allocates for it, as far as the options determine them."""
    cpus, megabytes = requested_share(options, node, gpus, partition)
    cpus = -(-number(options.get("cpus-per-task", ""), cpus) // node.threads) * node.threads
    if "mem" in options:
        megabytes = megabytes_of(options["mem"]) or node.megabytes  # 0 requests all of it
    elif "mem-per-gpu" in options:
        megabytes = gpus * megabytes_of(options["mem-per-gpu"])
    elif "mem-per-cpu" in options:
        megabytes = cpus * megabytes_of(options["mem-per-cpu"])
    return cpus, megabytes if node.megabytes else 0


def unusable_gpus(options: Mapping[str, str], node: SlurmNode, partition: Partition) -> tuple[int, str]:
    """Free GPUs of the node that no lease could get, since ``cores`` or ``memory`` are in use; and which."""
    free, cores, memory = max(0, sum(node.gpus.values()) - sum(node.used.values())), 0, 0
    for gpus in range(1, free + 1):
        cpus, megabytes = allocated_share(options, node, gpus, partition)
        cores = gpus if partition.shares_cpus or cpus <= node.free_cpus else cores
        memory = gpus if megabytes <= node.free_megabytes else memory
    return free - min(cores, memory), "cores" if cores <= memory else "memory"
