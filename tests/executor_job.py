"""A training job for tests of the executor: its model is a number that depends on the number of steps.

``python executor_job.py WITNESS SECONDS_PER_STEP [stubborn] [GATE]``: a line in WITNESS for each step has
time, process and lease. Half of the steps are done only once there is the file GATE.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from hetopt.executor import lease
from hetopt.executor.lease_directory import TAG_VARIABLE, now

PRIME = 2**31 - 1


def advanced(model: int) -> int:
    """The model after one more step."""
    return (48271 * model + 11) % PRIME


def model_after(steps: int) -> int:
    """The model after this number of steps."""
    model = 1
    for _ in range(steps):
        model = advanced(model)
    return model


def main(witness: str, seconds: float, stubborn: bool, gate: str | None) -> None:
    """Train."""
    tag = os.environ[TAG_VARIABLE]
    file = os.open(witness, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def record(step: int) -> None:
        line = {"tag": tag, "pid": os.getpid(), "time": now(), "step": step, "rank": job.rank, "copy": job.copy}
        os.write(file, (json.dumps(line) + "\n").encode())

    with lease() as job:
        if stubborn:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        step, model = job.resume_step, 1
        if job.resume_dir is not None:
            content = json.loads((job.resume_dir / "model.json").read_text())
            assert content["step"] == step, f"a checkpoint of step {content['step']} for step {step}"
            model = content["model"]
        total = job.total_steps or 1
        record(step)
        while step < total and (stubborn or not job.should_stop()):
            time.sleep(seconds)
            if gate is not None and 2 * step >= total and not os.path.exists(gate):
                continue
            model, step = advanced(model), step + 1
            record(step)
            job.tick(step, loss=1 / step)
            if job.checkpoint_due():
                _save(job, step, model)
        _save(job, step, model)
        job.done(step >= total)


def _save(job: object, step: int, model: int) -> None:
    def write(folder: Path) -> None:
        (folder / "model.json").write_text(json.dumps({"step": step, "model": model}))

    if getattr(job, "rank", 0) == 0:
        job.save(step, write)  # type: ignore[attr-defined]


if __name__ == "__main__":
    more = sys.argv[3:]
    main(sys.argv[1], float(sys.argv[2]), "stubborn" in more, next((word for word in more if word != "stubborn"), None))
