"""Whatever goes wrong: no job is lost or runs twice, no GPU is in two leases, no step is lost once committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_faults import Trial, Zygote

FAULTS = 5
"""Of a trial, one after another."""


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    process = Zygote()
    yield process
    process.close()


def _try(zygote: Zygote, folder: Path, seed: int) -> None:
    print(f"seed {seed}")
    trial = Trial(zygote, folder, seed)
    try:
        for _ in range(FAULTS):
            trial.fault()
        trial.finish()
        print(trial.faults)
        trial.check()
    finally:
        trial.kill()
        trial.store.close()


@pytest.mark.parametrize("seed", range(4))
def test_some_faults(zygote: Zygote, tmp_path: Path, seed: int) -> None:
    _try(zygote, tmp_path, seed)


def test_every_write_of_the_controller(zygote: Zygote, tmp_path: Path) -> None:
    """Each of a row of controllers dies one write later, so that all writes are met at all stages of leases."""
    trial = Trial(zygote, tmp_path, 7)
    try:
        trial.die_at_every_write(60)
        trial.finish()
        trial.check()
    finally:
        trial.kill()
        trial.store.close()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_faults(zygote: Zygote, tmp_path: Path, seed: int) -> None:
    _try(zygote, tmp_path, seed)
