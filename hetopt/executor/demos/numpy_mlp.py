"""Trains a small network in numpy under a lease: ``python -m hetopt.executor.demos.numpy_mlp [options]``.

The network learns a fixed function of eight numbers by mini-batches of samples; the loss is measured on samples that it
is not trained with. Copies of a forked job draw other samples. ``--pace`` makes types of CPU slots unlike.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hetopt.executor import Lease
from hetopt.executor.demos import run

Array: TypeAlias = NDArray[np.float64]
Weights: TypeAlias = dict[str, Array]

INPUTS, HIDDEN, BATCH, TESTED = 8, 32, 64, 2000


def truth(x: Array) -> Array:
    """(n,) targets for (n, 8) inputs."""
    return np.asarray(np.sin(x[:, 0] * 2) + x[:, 1] * x[:, 2] - 0.5 * np.abs(x[:, 3]) + 0.3 * x[:, 4])


def fresh(seed: int = 0) -> Weights:
    """The network before the first step, with zero momenta."""
    draw = np.random.default_rng(seed)
    weights = {
        "w1": draw.normal(0, INPUTS**-0.5, (INPUTS, HIDDEN)),
        "b1": np.zeros(HIDDEN),
        "w2": draw.normal(0, HIDDEN**-0.5, HIDDEN),
        "b2": np.zeros(1),
    }
    return weights | {f"momentum_{key}": np.zeros_like(value) for key, value in weights.items()}


def outputs(net: Mapping[str, Array], x: Array) -> tuple[Array, Array]:
    """(n, 32) hidden values and (n,) outputs."""
    hidden = np.tanh(x @ net["w1"] + net["b1"])
    return hidden, hidden @ net["w2"] + net["b2"]


def trained(net: Weights, draw: np.random.Generator, rate: float = 0.02) -> Weights:
    """The network after one more mini-batch of stochastic gradient descent with momentum."""
    x = draw.normal(size=(BATCH, INPUTS))
    hidden, y = outputs(net, x)
    error = (y - truth(x))[:, None] / BATCH
    back = error * net["w2"] * (1 - hidden**2)
    slope = {"w1": x.T @ back, "b1": back.sum(axis=0), "w2": hidden.T @ error[:, 0], "b2": error.sum(axis=0)}
    after: Weights = {}
    for key, own in slope.items():
        momentum = 0.9 * net[f"momentum_{key}"] + own
        after |= {key: net[key] - rate * momentum, f"momentum_{key}": momentum}
    return after


def loss_of(net: Mapping[str, Array]) -> float:
    """Mean squared error on fixed samples."""
    x = np.random.default_rng(12345).normal(size=(TESTED, INPUTS))
    return float(np.mean((outputs(net, x)[1] - truth(x)) ** 2))


def load(folder: Path) -> Weights:
    """The network of a checkpoint."""
    with np.load(folder / "model.npz", allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def train(job: Lease, seconds: float, seed: int) -> None:
    """Train until it is done or requested to stop."""
    step = job.resume_step
    net = fresh() if job.resume_dir is None else load(job.resume_dir)
    draw = np.random.default_rng([seed, job.copy, step])  # other samples for each copy, and after each restart
    total = job.total_steps or 1000
    job.tick(step, loss=loss_of(net))

    def save() -> None:
        job.save(step, lambda folder: np.savez(folder / "model.npz", **net))  # type: ignore[arg-type]

    while step < total and not job.should_stop():
        began = time.monotonic()
        net, step = trained(net, draw), step + 1
        time.sleep(max(0.0, seconds - (time.monotonic() - began)))
        job.tick(step, loss=loss_of(net) if step % 20 == 0 or step == total else None)
        if job.checkpoint_due():
            save()
    save()
    job.done(step >= total)
    print(f"step {step} of {total}, loss {loss_of(net):.4f}")


if __name__ == "__main__":
    run(train)
