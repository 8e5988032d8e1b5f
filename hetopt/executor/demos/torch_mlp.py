"""Trains a small network in PyTorch under a lease: ``python -m hetopt.executor.demos.torch_mlp [options]``.

On a GPU where there is one. Needs ``pip install 'hetopt[torch]'``. The task is that of
:mod:`~hetopt.executor.demos.numpy_mlp`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from hetopt.executor import Lease
from hetopt.executor.demos import run

INPUTS, HIDDEN, BATCH, TESTED = 8, 64, 64, 2000


def truth(x: torch.Tensor) -> torch.Tensor:
    """(n, 1) targets for (n, 8) inputs."""
    y: torch.Tensor = torch.sin(x[:, 0] * 2) + x[:, 1] * x[:, 2] - 0.5 * x[:, 3].abs() + 0.3 * x[:, 4]
    return y[:, None]


class Training:
    """A network with its optimizer, which can be saved and loaded.

    Parameters
    ----------
    device:
        ``"cuda"`` or ``"cpu"``.
    seed:
        Of the first weights.
    """

    def __init__(self, device: str, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.device = device
        layers = (torch.nn.Linear(INPUTS, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, 1))
        self.model: Any = torch.nn.Sequential(*layers).to(device)
        self.optimizer: Any = torch.optim.SGD(self.model.parameters(), lr=0.02, momentum=0.9)

    def step(self, draw: torch.Generator) -> None:
        """One mini-batch."""
        x = torch.randn(BATCH, INPUTS, generator=draw).to(self.device)
        self.optimizer.zero_grad()
        torch.nn.functional.mse_loss(self.model(x), truth(x)).backward()
        self.optimizer.step()

    def loss(self) -> float:
        """Mean squared error on fixed samples."""
        x = torch.randn(TESTED, INPUTS, generator=torch.Generator().manual_seed(12345)).to(self.device)
        with torch.no_grad():
            return float(torch.nn.functional.mse_loss(self.model(x), truth(x)))

    def save(self, folder: Path) -> None:
        """Write weights and momenta as plain arrays, which can be averaged over copies."""
        weights = {name: value.contiguous().cpu() for name, value in self.model.state_dict().items()}
        save_file(weights, folder / "model.safetensors")
        momenta = {key: own.get("momentum_buffer") for key, own in self.optimizer.state_dict()["state"].items()}
        found = {str(key): value.cpu() for key, value in momenta.items() if value is not None}
        save_file(found, folder / "momenta.safetensors")

    def load(self, folder: Path) -> None:
        """Read what :meth:`save` has written, or a merged checkpoint."""
        self.model.load_state_dict(load_file(folder / "model.safetensors"))
        optimizer = self.optimizer.state_dict()
        momenta = load_file(folder / "momenta.safetensors")
        optimizer["state"] = {int(key): {"momentum_buffer": value} for key, value in momenta.items()}
        self.optimizer.load_state_dict(optimizer)


def train(job: Lease, seconds: float, seed: int) -> None:
    """Train until it is done or requested to stop."""
    torch.set_num_threads(1)  # several jobs share this machine
    training = Training("cuda" if torch.cuda.is_available() else "cpu")
    step = job.resume_step
    if job.resume_dir is not None:
        training.load(job.resume_dir)
    draw = torch.Generator().manual_seed(1000003 * seed + 1009 * job.copy + step)
    total = job.total_steps or 1000
    job.tick(step, loss=training.loss())
    while step < total and not job.should_stop():
        began = time.monotonic()
        training.step(draw)
        step += 1
        time.sleep(max(0.0, seconds - (time.monotonic() - began)))
        memory = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None
        job.tick(step, loss=training.loss() if step % 20 == 0 or step == total else None, memory_bytes=memory)
        if job.checkpoint_due():
            job.save(step, training.save)
    job.save(step, training.save)
    job.done(step >= total)
    print(f"step {step} of {total} on {training.device}, loss {training.loss():.4f}")


if __name__ == "__main__":
    run(train)
