"""The engine for Slurm: one batch job per lease, with plain sbatch, squeue, scancel and scontrol."""

from __future__ import annotations

import math
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hetopt.checks import check_name, choices
from hetopt.errors import InvalidOption
from hetopt.executor import lease_directory as files
from hetopt.executor.engines import slurm_commands as commands
from hetopt.executor.engines.engine import EngineDown, LeaseRecord, Node, Phase, Refused, Seat
from hetopt.executor.engines.slurm_commands import Commands, Partition, SlurmNode
from hetopt.executor.engines.slurm_requests import Request, checked

SCRIPT = '#!/bin/sh\nexec "$@"\n'
"""The batch script; its arguments are the runner. Without ``exec`` a signal would end the shell and so the job."""

WAITING_STATES = frozenset(
    {"CONFIGURING", "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
)
ENDED_STATES = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
    | {"PREEMPTED", "RECONFIG_FAIL", "REVOKED", "TIMEOUT"}
)
"""States of jobs; in all others a process may run."""

WARNING_SECONDS = 60
"""Time before a partition's time limit at which the runner gets its signal to stop."""

PARTITION_SECONDS = 60.0
"""Age at which the limits of the partition are read again."""

WAIT_SECONDS = 10.0
"""The reason of a job that waits is reported after this time."""


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
    cpus_per_gpu:
        In place of the share.
    options:
        Further long options of sbatch, such as ``{"account": "vision"}``.
    seconds:
        Time limit of a command.

    Raises
    ------
    InvalidOption
        Slurm is not on this machine; the partition or reservation does not exist or has no GPUs; or an option cannot
        be set.
    """

    name = "slurm"
    exact_slots = False
    look_seconds = 3.0

    def __init__(
        self,
        cluster: str,
        partition: str | None = None,
        *,
        cpus_per_gpu: int | None = None,
        options: Mapping[str, str] | None = None,
        seconds: float = 15.0,
    ) -> None:
        if cpus_per_gpu is not None and cpus_per_gpu < 1:
            raise InvalidOption(f"is {cpus_per_gpu}; it must be 1 at least", "cpus_per_gpu")
        self._prefix = f"hetopt-{check_name(cluster, 'cluster')}-"
        self._partition_name, self._request = partition, Request(cpus_per_gpu, checked(options or {}))
        self._commands = Commands(seconds)
        self._partition: Partition | None = None
        self._partition_read = -math.inf
        self._nodes: dict[str, SlurmNode] = {}
        self._reserved: dict[str, str] = {}
        self._reservations: dict[str, tuple[str, list[str]]] = {}  # name -> its nodes, as n[1-3] and as list
        self._waiting: dict[str, float] = {}  # since when jobs wait
        try:
            self._refresh()
        except EngineDown:
            return  # an invalid partition is reported once Slurm answers

    def check_options(self) -> None:
        """Have Slurm check the options with a request of one GPU, so that no job fails because of them.

        Raises
        ------
        InvalidOption
            Slurm refuses them.
        """
        nodes = sorted(self._nodes.values(), key=lambda node: not node.up)
        if self._request == Request() or not nodes:
            return
        node, gpu_type = nodes[0], next(iter(nodes[0].gpus))
        lease = LeaseRecord(f"{self._prefix}0-0-0", Path("/"), (Seat(node.name, gpu_type, 0),))
        try:
            result, plain = (
                self._commands.call(
                    "sbatch", "--test-only", *self._options(request, lease, [node.name], {gpu_type: 1}), stdin=SCRIPT
                )
                for request in (self._request, Request())
            )
        except EngineDown:
            return
        if not result.code or not isinstance(result.failure, Refused):
            return
        if not (plain.code and plain.problem == result.problem):  # else the options are not the cause
            raise InvalidOption(f"--engine-set: {result.failure} (of one GPU on {node.name})")

    # -- nodes

    def nodes(self) -> tuple[Node, ...]:
        """Nodes of the partition (and reservation) with GPUs, also with those that jobs of others hold."""
        found, now, queue = self._refresh(), files.now(), self._queue()
        own, reasons = Counter[str](), defaultdict[str, list[str]](list)
        waiting = {tag: self._waiting.get(tag, now) for tag in queue}
        for tag, jobs in queue.items():
            for job in jobs:
                if job.phase is Phase.RUNNING:
                    own.update(job.gpus)
                    continue
                if job.reason.startswith("Partition"):  # PartitionDown, PartitionInactive, …
                    self._partition_read = -math.inf
                if job.reason not in ("", "None", "(null)") and now - waiting[tag] >= WAIT_SECONDS:
                    for node in job.gpus:
                        reasons[node].append(f"a lease waits: {job.reason}")
        self._waiting = {t: at for t, at in waiting.items() if all(job.phase is Phase.WAITING for job in queue[t])}
        return tuple(self._node(node, own[node.name], reasons[node.name]) for node in found.values())

    def _node(self, node: SlurmNode, own: int, reasons: Iterable[str]) -> Node:
        """A node as the controller needs it; ``own``: GPUs that leases of this cluster hold."""
        partition, used, notes = self._partition, dict(node.used), [node.note]
        assert partition is not None
        open_ = partition.state == "UP"
        if not open_:
            notes.append(f"partition {partition.name!r} is {partition.state}")
        if (others := sum(node.used.values()) - own) > 0:
            notes.append(f"{others} of {sum(node.gpus.values())} GPUs are in use by others")
        blocked, resource = self._request.blocked(node, partition)
        if blocked:
            plural, are = "s" if blocked > 1 else "", "are" if resource == "cores" else "is"
            notes.append(f"{resource} for {blocked} GPU{plural} {are} not free")
        for gpu_type, number in node.gpus.items():
            if more := min(blocked, max(0, number - used.get(gpu_type, 0))):
                used[gpu_type], blocked = used.get(gpu_type, 0) + more, blocked - more
        seats = tuple(Seat(node.name, gpu_type, i) for gpu_type, number in node.gpus.items() for i in range(number))
        note = "; ".join(filter(None, [*notes, *dict.fromkeys(reasons)]))
        return Node(node.name, seats, node.up and open_, note, address=node.address, used=used)

    def _refresh(self) -> dict[str, SlurmNode]:
        """The nodes by name as Slurm reports them now."""
        partition = self._partition
        age = files.now() - self._partition_read
        if partition is None or partition.state != "UP" or age >= PARTITION_SECONDS:
            partition = self._read_partition()
        every = commands.slurm_nodes(self._commands.show("node"))
        found = {node.name: node for node in every if node.gpus and partition.name in node.partitions}
        if not found:
            self._read_partition()  # which may be gone
        if names := self._request.options.get("reservation"):
            self._reserved = self._read_reservations(names)
            found = {
                name: _within(node, self._reserved[name]) for name, node in found.items() if name in self._reserved
            }
        if not found and not self._nodes:
            if names:
                where = f"partition {partition.name!r} in reservation {names!r}"
                raise InvalidOption(f"no node of {where} has GPUs (gres gpu)")
            others = sorted({name for node in every if node.gpus for name in node.partitions})
            hint = choices(partition.name, others)
            raise InvalidOption(f"no node of partition {partition.name!r} has GPUs (gres gpu); {hint}")
        if all(node.unknown for node in found.values()):
            raise EngineDown(f"Slurm has no state of the nodes of partition {partition.name!r} yet")
        for name, node in found.items():
            if node.unknown and (before := self._nodes.get(name)):  # slurmctld has just started: no news
                found[name] = replace(node, state=before.state, reason=before.reason)
        self._nodes = found
        return found

    def _read_partition(self) -> Partition:
        """The partition as it is now, or as it was where Slurm does not answer; a new default one is not ours."""
        before = self._partition
        name = before.name if before is not None else self._partition_name
        found: list[Partition] = []
        try:
            found = commands.partitions(self._commands.show("partition"))
        except EngineDown:
            if before is None:
                raise
        if not found and before is None:
            raise EngineDown("Slurm lists no partition")
        if not found and before is not None:
            self._partition_read = files.now()  # a retry may take long
            return before
        for one in found:
            if one.default if name is None else one.name == name:
                self._partition, self._partition_read = one, files.now()
                return one
        names = [one.name for one in found]
        if name is None:
            raise InvalidOption(f"Slurm has no default partition; name one by --partition: {', '.join(names)}")
        if before is None:
            raise InvalidOption(f"Slurm has no partition {name!r}; {choices(name, names)}")
        self._partition_read = -math.inf  # read at each refresh until it is back
        raise EngineDown(f"Slurm has no partition {name!r} any more; {choices(name, names)}")

    def _read_reservations(self, names: str) -> dict[str, str]:
        """Node -> why nothing starts there now, or nothing; of reservations that are separated by commas.

        Raises
        ------
        InvalidOption
            There was never such a reservation.
        """
        known, found = commands.reservations(self._commands.show("reservation")), dict[str, str]()
        for name in filter(None, names.split(",")):
            before, nodes = self._reservations.get(name, ("", []))
            if name not in known and name not in self._reservations:
                hint = choices(name, sorted(known)) if known else "it has none now"
                raise InvalidOption(f"Slurm has no reservation {name!r}; {hint}")
            expression, why = known.get(name, (before, f"reservation {name!r} is over"))
            if expression != before:
                empty = expression in ("", "(null)")
                nodes = [] if empty else self._commands.output("scontrol", "show", "hostnames", expression).split()
            self._reservations[name] = expression, nodes
            for node in nodes:
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
            words += self._options(self._request, lease, nodes, dict(gpus))
        runner = [sys.executable, "-P", "-m", "hetopt.executor.runner", str(lease.folder)]
        if len(lease.nodes) == 1:
            runner.append("0")
        else:
            step = ["srun", "--mpi=none", "--kill-on-bad-exit=0", "--wait=0", "--cpu-bind=none", "--quiet"]
            step += [f"--het-group={','.join(map(str, range(len(groups))))}"] * (len(groups) > 1)
            runner = [*step, *runner]
        # The script is read from standard input under a name, so that it can have arguments.
        more = {files.TAG_VARIABLE: f"{lease.tag}.runner"}
        result = self._commands.call("sbatch", "--parsable", *words, "/dev/stdin", *runner, stdin=SCRIPT, more=more)
        if result.code:
            if isinstance(result.failure, Refused):
                self._check_unchanged(lease, result.problem)
            raise result.failure

    def _check_unchanged(self, lease: LeaseRecord, problem: str) -> None:
        """Raise :class:`EngineDown` where a lease was refused since the partition or reservation was changed."""
        before, reserved = self._partition, self._reserved
        if before is not None and self._read_partition() != before:
            raise EngineDown(f"sbatch: {problem}; partition {before.name!r} was changed")
        if names := self._request.options.get("reservation"):
            now = self._read_reservations(names)
            if now != reserved or any(now.get(node) for node in lease.nodes):
                raise EngineDown(f"sbatch: {problem}; the reservation was changed")

    def _options(
        self, request: Request, lease: LeaseRecord, nodes: Collection[str], gpus: Mapping[str, int]
    ) -> list[str]:
        """Options of sbatch for nodes with the same GPUs each."""
        number, folder = sum(gpus.values()), str(lease.folder)
        options = {
            "job-name": lease.tag,
            "comment": ",".join(f"{node}={number}" for node in nodes),
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
        if self._partition is not None:
            options["partition"] = self._partition.name
        known = [self._nodes[node] for node in nodes if node in self._nodes]
        options |= request.limits(known, number, self._partition)
        options |= request.options
        return ["--no-requeue", *(f"--{option}={value}" for option, value in options.items())]

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
        text = self._commands.output("squeue", "--noheader", "--all", f"--user={os.geteuid()}", "--format=%T|%k|%j|%r")
        for line in text.splitlines():
            state, comment, name, reason = [*line.split("|", 3), "", "", ""][:4]
            if name.startswith(self._prefix) and state not in ENDED_STATES:
                phase = Phase.WAITING if state in WAITING_STATES else Phase.RUNNING
                gpus = {node: int(number) for node, number in re.findall(r"([^,=]+)=(\d+)", comment)}
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

    def _cancel(self, tag: str, *words: str) -> None:
        """One call per tag: scancel matches nothing for a list of names."""
        result = self._commands.call("scancel", f"--user={os.geteuid()}", f"--name={tag}", *words)
        if result.code and not commands.NOTHING_TO_SIGNAL.search(result.problem):
            raise EngineDown(f"scancel: {result.problem}")

    def fenced_after(self, tag: str) -> float | None:
        """None: of a node whose slurmd is dead Slurm reports that the job has ended, while its processes live."""
        return None

    def close(self) -> None:
        """Nothing is open."""


def slurm(
    cluster: str, partition: str | None = None, cpus_per_gpu: int | None = None, **options: object
) -> SlurmEngine:
    """Slurm, with any further options of sbatch such as ``account=vision``.

    Raises
    ------
    InvalidOption
        See :class:`SlurmEngine`; or Slurm refuses the options.
    """
    words = {key: str(value) for key, value in options.items()}
    name, value = "cpus_per_gpu", cpus_per_gpu if cpus_per_gpu is None else str(cpus_per_gpu)
    if value is None and "cpus-per-gpu" in words:  # as sbatch spells it
        name, value = "cpus-per-gpu", words.pop("cpus-per-gpu")
    if value is not None and not value.isdecimal():
        raise InvalidOption(f"--engine-set {name}={value}; it must be a whole number")
    engine = SlurmEngine(cluster, partition, cpus_per_gpu=None if value is None else int(value), options=words)
    engine.check_options()
    return engine


def _within(node: SlurmNode, why: str) -> SlurmNode:
    """A node of the leases' reservation; ``why`` nothing starts there now, or nothing."""
    state = tuple(word for word in node.state if word not in commands.RESERVED_STATES) or ("IDLE",)
    if why:
        return replace(node, state=(*state, "RESERVED"), reason="; ".join(filter(None, [why, node.reason])))
    return replace(node, state=state)
