"""The engine that most laboratories have: Slurm. One batch job per lease, with plain sbatch, squeue and scancel."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hetopt.checks import choices
from hetopt.errors import InvalidOption
from hetopt.executor import lease_directory as files
from hetopt.executor.engines.engine import EngineDown, Grant, Node, Phase, Refused, Seat
from hetopt.executor.engines.slurm_commands import OVER, Commands, failure
from hetopt.executor.engines.slurm_nodes import KEPT_FREE, Host, Partition, hosts, partitions
from hetopt.executor.engines.slurm_requests import Request, checked
from hetopt.executor.engines.slurm_reservations import Reservations
from hetopt.executor.names import check_name

SCRIPT = '#!/bin/sh\nexec "$@"\n'
"""The batch job; its words are the runner's. Without ``exec`` the shell would die of a signal, and the job with it."""

WAITING = frozenset(
    {"CONFIGURING", "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
)
ENDED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
    | {"PREEMPTED", "RECONFIG_FAIL", "REVOKED", "TIMEOUT"}
)
"""States of jobs; in all others some process may live."""

WARNING_SECONDS = 60
"""So long before a partition's time limit the runner is asked to stop."""

CHOOSE_SECONDS = 60.0
"""How long what Slurm has said of the partition will do: an operator may change what a job may have there."""

WAIT_SECONDS = 10.0
"""What Slurm has not begun for so long is told, and why."""


class Listed(NamedTuple):
    """A job, or a component of one, in Slurm's queue: the GPUs that it has or waits for by their nodes, and why."""

    phase: Phase
    gpus: Mapping[str, int]
    reason: str


class SlurmEngine:
    """Has Slurm start the runners. The tag of a lease is the job's name: after a crash Slurm may use a number again.

    A lease asks for its GPUs' share of a node's CPUs and memory: with k of n GPUs, k/n of them. Slurm by itself would
    give one CPU, and often the whole memory, so that a second lease would wait though GPUs are free.

    Parameters
    ----------
    cluster:
        Its leases' tags begin with it.
    partition:
        Where jobs are submitted; None: the default one.
    cpus_per_gpu:
        In place of the share.
    options:
        More of sbatch's long options, such as ``{"account": "vision"}``.
    seconds:
        How long a command may take.

    Raises
    ------
    InvalidOption
        Slurm is not on this machine, there is no such partition or reservation, or it has no GPUs; or an option is
        not to be set.
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
        self._wanted, self._asks = partition, Request(cpus_per_gpu, checked(options or {}))
        self._commands = Commands(seconds)
        names = self._asks.options.get("reservation")
        self._reserved = None if names is None else Reservations(self._commands, names)
        self._within: Mapping[str, str] | None = None
        self._waits: dict[str, float] = {}
        self._partition: Partition | None = None
        self._chosen = -math.inf
        self._hosts: dict[str, Host] = {}
        try:
            self._look()
        except EngineDown:
            return  # what is wrong with the partition is told once Slurm answers

    def check_options(self) -> None:
        """Ask Slurm whether a lease of one GPU could be with these options: else each job would fail of them.

        Raises
        ------
        InvalidOption
            It could not, and Slurm says why.
        """
        hosts = sorted(self._hosts.values(), key=lambda host: not host.up)
        if self._asks == (plain := Request()) or not hosts:
            return  # or nobody knows now
        host, kind = hosts[0], next(iter(hosts[0].gpus))
        lease = Grant(f"{self._prefix}0-0-0", Path("/"), (Seat(host.name, kind, 0),))
        try:
            answers = []
            for asks in (self._asks, plain):
                words = self._component(asks, lease, [host.name], {kind: 1}, gang=False)
                answers.append(self._commands.call("sbatch", "--test-only", *words, stdin=SCRIPT))
        except EngineDown:
            return
        wanted, without = answers
        if not wanted.code or not isinstance(problem := failure(wanted), Refused):
            return
        if without.code and without.problem == wanted.problem:
            return  # they are not to blame
        raise InvalidOption(f"--engine-set: {problem} (of one GPU on {host.name})")

    # -- nodes

    def nodes(self) -> tuple[Node, ...]:
        """Those of the partition that have GPUs, also GPUs that jobs of others hold."""
        found = self._look().values()
        ours: dict[str, int] = {}
        why: dict[str, list[str]] = {}
        now, queue = files.now(), self._queue()
        since = {tag: self._waits.get(tag, now) for tag in queue}
        for tag, jobs in queue.items():
            for job in jobs:
                for node, number in job.gpus.items():
                    if job.phase is Phase.RUNNING:
                        ours[node] = ours.get(node, 0) + number
                    elif job.reason not in ("", "None", "(null)") and now - since[tag] >= WAIT_SECONDS:
                        why.setdefault(node, []).append(f"a lease waits: {job.reason}")
        self._waits = {tag: at for tag, at in since.items() if all(job.phase is Phase.WAITING for job in queue[tag])}
        return tuple(
            self._node(host, sum(host.used.values()) - ours.get(host.name, 0), why.get(host.name, ())) for host in found
        )

    def _node(self, host: Host, others: int, why: Collection[str]) -> Node:
        notes, partition, used = [host.note], self._partition, dict(host.used)
        assert partition is not None
        if partition.state != "UP":
            notes.append(f"partition {partition.name!r} is {partition.state}")
        if others > 0:
            notes.append(f"{others} of {sum(host.gpus.values())} GPUs are in use by others")
        missing, what = self._asks.missing(host, partition)
        if missing:
            plural, are = "s" if missing > 1 else "", "are" if what == "cores" else "is"
            notes.append(f"{what} for {missing} GPU{plural} {are} not free")
        for kind, number in host.gpus.items():
            if more := min(missing, max(0, number - used.get(kind, 0))):
                used[kind], missing = used.get(kind, 0) + more, missing - more
        seats = tuple(Seat(host.name, kind, i) for kind, number in host.gpus.items() for i in range(number))
        note = "; ".join(filter(None, [*notes, *dict.fromkeys(why)]))
        return Node(host.name, seats, host.up and partition.state == "UP", note, address=host.address, used=used)

    def _look(self) -> dict[str, Host]:
        """The hosts by their names, as Slurm sees them now."""
        partition = self._partition or self._choose()
        every = hosts(self._commands.ask("scontrol", "--oneliner", "--details", "--all", "show", "node"))
        found = {host.name: host for host in every if host.gpus and partition.name in host.partitions}
        old = partition.state != "UP" or files.now() - self._chosen >= CHOOSE_SECONDS
        if self._partition is not None and (not found or old):
            partition = self._choose_again(self._partition)
        if self._reserved is not None:
            self._within = self._reserved.nodes()
            found = {name: _there(host, self._within[name]) for name, host in found.items() if name in self._within}
        if not found and self._within is not None and not self._hosts:
            names = self._asks.options["reservation"]
            raise InvalidOption(f"no node of partition {partition.name!r} in reservation {names!r} has GPUs (gres gpu)")
        if not found and not self._hosts:
            others = sorted({name for host in every if host.gpus for name in host.partitions})
            raise InvalidOption(
                f"no node of partition {partition.name!r} has GPUs (gres gpu); {choices(partition.name, others)}"
            )
        if all(host.unknown for host in found.values()):
            raise EngineDown(f"Slurm knows nothing of the nodes of partition {partition.name!r} yet")
        for name, host in found.items():
            if host.unknown and name in self._hosts:  # slurmctld has just started: no news
                found[name] = replace(host, state=self._hosts[name].state, reason=self._hosts[name].reason)
        self._partition, self._hosts = partition, found
        return found

    def _choose(self) -> Partition:
        """The partition that is wanted."""
        every = self._partitions()
        names = [partition.name for partition in every]
        found = [one for one in every if (one.default if self._wanted is None else one.name == self._wanted)]
        if not found and self._wanted is None:
            raise InvalidOption(f"Slurm has no default partition; name one by --partition: {', '.join(names)}")
        if not found:
            raise InvalidOption(f"Slurm has no partition {self._wanted!r}; {choices(str(self._wanted), names)}")
        self._chosen = files.now()
        return found[0]

    def _choose_again(self, before: Partition) -> Partition:
        """The partition of that name as it is now; as it was where Slurm does not say. Another default is not ours."""
        try:
            every = self._partitions()
        except EngineDown:
            self._chosen = files.now()  # the next try is not soon: each may take long
            return before
        for one in every:
            if one.name == before.name:
                self._chosen = files.now()
                return one
        self._chosen = -math.inf  # asked at every look, until it is back
        names = [one.name for one in every]
        raise EngineDown(f"Slurm has no partition {before.name!r} any more; {choices(before.name, names)}")

    def _partitions(self) -> list[Partition]:
        every = partitions(self._commands.ask("scontrol", "--oneliner", "--all", "show", "partition"))
        if not every:
            raise EngineDown("Slurm names no partition")
        return every

    # -- leases

    def start(self, grant: Grant) -> None:
        """Submit the lease's job, unless Slurm has one of that name.

        Where the answer is lost, the same is submitted again; of two runners the second finds the claim and leaves.
        """
        if grant.tag in self._queue():
            return
        if not all(node in self._hosts for node in grant.nodes):
            self._look()
        groups: dict[tuple[tuple[str, int], ...], list[str]] = {}
        for node in grant.nodes:
            types = [seat.gpu_type for seat in grant.seats if seat.node == node]
            groups.setdefault(tuple((kind, types.count(kind)) for kind in sorted(set(types))), []).append(node)
        gang = len(grant.nodes) > 1
        words: list[str] = []
        for gpus, nodes in groups.items():  # unlike nodes are components of a heterogeneous job
            words += [":"] if words else []
            words += self._component(self._asks, grant, nodes, dict(gpus), gang=gang)
        runner = [sys.executable, "-P", "-m", "hetopt.executor.runner", str(grant.folder)]
        if gang:
            step = ["srun", "--mpi=none", "--kill-on-bad-exit=0", "--wait=0", "--cpu-bind=none", "--quiet"]
            if len(groups) > 1:
                step.append(f"--het-group={','.join(map(str, range(len(groups))))}")
            runner = [*step, *runner]
        else:
            runner.append("0")
        # The script comes by standard input under a name, so that it can be given words.
        more = {files.TAG_VARIABLE: f"{grant.tag}.runner"}
        answer = self._commands.call("sbatch", "--parsable", *words, "/dev/stdin", *runner, stdin=SCRIPT, more=more)
        if answer.code:
            problem, before, within = failure(answer), self._partition, self._within
            if isinstance(problem, Refused) and before is not None:
                self._partition = self._choose_again(before)
                if self._partition != before:
                    raise EngineDown(f"sbatch: {answer.problem}; partition {before.name!r} was changed")
                if self._reserved is not None and self._reserved.nodes() != within:
                    raise EngineDown(f"sbatch: {answer.problem}; the reservation was changed")
            raise problem

    def _component(
        self, asks: Request, grant: Grant, nodes: Collection[str], gpus: Mapping[str, int], *, gang: bool
    ) -> list[str]:
        """What sbatch is told of nodes that give the same."""
        number, folder = sum(gpus.values()), str(grant.folder)
        said = {
            "job-name": grant.tag,
            "comment": ",".join(f"{node}={number}" for node in nodes),
            "nodes": str(len(nodes)),
            "nodelist": ",".join(nodes),
            "ntasks-per-node": "1",
            "gres": ",".join(f"gpu:{n}" if kind == "gpu" else f"gpu:{kind}:{n}" for kind, n in gpus.items()),
            "chdir": folder,
            "output": "/dev/null" if "\\" in folder else folder.replace("%", "%%") + "/runner.log",
            "open-mode": "append",
            "export": "ALL",  # sbatch itself gets no more than a job needs
            "signal": f"URG@{WARNING_SECONDS}" if gang else f"B:TERM@{WARNING_SECONDS}",
        }
        if self._partition is not None:
            said["partition"] = self._partition.name
        said |= asks.words([self._hosts[node] for node in nodes if node in self._hosts], number, self._partition)
        return ["--no-requeue", *(f"--{option}={value}" for option, value in {**said, **asks.options}.items())]

    def status(self, tags: Collection[str]) -> Mapping[str, Phase]:
        """What the queue says; a job that ends may have processes until it is out of the queue."""
        queue = self._queue()
        phases = dict.fromkeys(tags, Phase.ENDED)
        for tag, jobs in queue.items():
            running = any(job.phase is Phase.RUNNING for job in jobs)
            phases[tag] = Phase.RUNNING if running else Phase.WAITING
        return phases

    def _queue(self) -> dict[str, list[Listed]]:
        """Jobs of this cluster that wait or run, by their names; unlike nodes of a gang are listed one by one."""
        found: dict[str, list[Listed]] = {}
        text = self._commands.ask("squeue", "--noheader", "--all", f"--user={os.geteuid()}", "--format=%T|%k|%j|%r")
        for line in text.splitlines():
            state, comment, name, reason = [*line.split("|", 3), "", "", ""][:4]
            if name.startswith(self._prefix) and state not in ENDED:
                phase = Phase.WAITING if state in WAITING else Phase.RUNNING
                gpus = {node: int(number) for node, number in re.findall(r"([^,=]+)=(\d+)", comment)}
                found.setdefault(name, []).append(Listed(phase, gpus, reason))
        return found

    def stop(self, tags: Collection[str]) -> None:
        """Ask the runners, which read it in their directory as well.

        The signals of a gang reach its training too, and SIGTERM would make srun kill it before long; SIGURG harms
        nobody, and is for runners alone.
        """
        wanted = set(tags)
        for tag, jobs in self._queue().items() if wanted else ():
            if tag in wanted and any(job.phase is Phase.RUNNING for job in jobs):
                alone = len({node for job in jobs for node in job.gpus}) == 1
                self._cancel(tag, *(["--batch", "--signal=TERM"] if alone else ["--signal=URG"]))

    def kill(self, tags: Collection[str]) -> None:
        """Take them out of the queue; Slurm sends SIGTERM to all that runs and SIGKILL after its KillWait."""
        wanted = set(tags)
        for tag in self._queue() if wanted else ():
            if tag in wanted:
                self._cancel(tag)

    def _cancel(self, tag: str, *words: str) -> None:
        """One call for each: a list of names matches nothing."""
        answer = self._commands.call("scancel", f"--user={os.geteuid()}", f"--name={tag}", *words)
        if answer.code and not any(text in answer.problem.lower() for text in OVER):
            raise EngineDown(f"scancel: {answer.problem}")

    def fenced_after(self, tag: str) -> float | None:
        """Never certain: of a node whose slurmd has died Slurm says that the job is gone, and its processes live on."""
        return None

    def close(self) -> None:
        """Nothing is held."""


def slurm(
    cluster: str, partition: str | None = None, cpus_per_gpu: int | None = None, **options: object
) -> SlurmEngine:
    """Slurm, with any further options of sbatch such as ``account=vision``.

    Raises
    ------
    InvalidOption
        See :class:`SlurmEngine`; or Slurm does not know the options.
    """
    if cpus_per_gpu is not None and not (isinstance(cpus_per_gpu, int) and not isinstance(cpus_per_gpu, bool)):
        raise InvalidOption(f"--engine-set cpus_per_gpu={cpus_per_gpu}; it must be a whole number")
    words = {key: str(value) for key, value in options.items()}
    if cpus_per_gpu is None and (said := words.pop("cpus-per-gpu", None)) is not None:  # as sbatch spells it
        if not said.isdecimal():
            raise InvalidOption(f"--engine-set cpus-per-gpu={said}; it must be a whole number")
        cpus_per_gpu = int(said)
    engine = SlurmEngine(cluster, partition, cpus_per_gpu=cpus_per_gpu, options=words)
    engine.check_options()
    return engine


def _there(host: Host, why: str) -> Host:
    """A host of the reservation that leases are for; ``why`` it cannot be used now, or nothing."""
    state = tuple(word for word in host.state if word not in KEPT_FREE) or ("IDLE",)
    if why:
        return replace(host, state=(*state, "RESERVED"), reason="; ".join(filter(None, [why, host.reason])))
    return replace(host, state=state)
