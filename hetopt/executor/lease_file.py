"""The content of ``lease.json``: all that a runner and a job need to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetopt.executor import lease_directory as files
from hetopt.executor.engines.engine import Grant


def written(
    grant: Grant,
    addresses: Mapping[str, str],
    *,
    command: Sequence[str],
    cwd: str,
    bound_by_engine: bool,
    job: str = "job",
    copy: int = 0,
    kind: str = "train",
    environment: Mapping[str, str] | None = None,
    launch: str = "worker",
    port: int = 20000,
    resume_step: int = 0,
    resume_dir: str | None = None,
    until_step: int | None = None,
    total_steps: int | None = None,
    checkpoint_seconds: float = 600.0,
    ttl_seconds: float = 60.0,
    grace_seconds: float = 30.0,
    most_seconds: float | None = None,
    most_seconds_to_first_tick: float = 600.0,
) -> dict[str, Any]:
    """What stands in the file.

    Parameters
    ----------
    addresses:
        Host -> where others reach it.
    command, cwd, environment, launch:
        What to run, see :class:`~hetopt.executor.job_file.JobSpec`.
    bound_by_engine:
        The engine picks the GPUs and sets ``CUDA_VISIBLE_DEVICES``; otherwise the seats name them.
    job, copy, kind:
        Whose lease it is, and what for: ``train`` or ``profile``.
    port:
        On the first host, for the ranks to find each other.
    resume_step, resume_dir, until_step, total_steps:
        Steps that are done, the checkpoint after them, the step to stop at, steps of the whole job.
    checkpoint_seconds, ttl_seconds, grace_seconds:
        Between checkpoints; without a renewal; between the request to stop and the kill.
    most_seconds, most_seconds_to_first_tick:
        Of a profiling run: from the first step on, and until then.
    """
    nodes = []
    for name in grant.nodes:
        own = [seat for seat in grant.seats if seat.node == name]
        nodes.append(
            {
                "name": name,
                "address": addresses.get(name, name),
                "workers": len(own),
                "gpu_types": sorted({seat.gpu_type for seat in own}),
                "devices": [seat.device for seat in own if seat.device],
            }
        )
    return {
        "version": files.VERSION,
        "tag": grant.tag,
        "job": job,
        "copy": copy,
        "kind": kind,
        "command": list(command),
        "cwd": cwd,
        "environment": dict(environment or {}),
        "launch": launch,
        "nodes": nodes,
        "port": port,
        "bound_by_engine": bound_by_engine,
        "resume_step": resume_step,
        "resume_dir": resume_dir,
        "until_step": until_step,
        "total_steps": total_steps,
        "checkpoint_seconds": checkpoint_seconds,
        "ttl_seconds": ttl_seconds,
        "grace_seconds": grace_seconds,
        "most_seconds": most_seconds,
        "most_seconds_to_first_tick": most_seconds_to_first_tick,
    }
