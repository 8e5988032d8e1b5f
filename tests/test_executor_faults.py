"""Whatever goes wrong: no job is lost or runs twice, no GPU is in two leases, no step is lost once committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_faults import Trial, Zygote
from slurm_cluster import SlurmCluster, missing

FAULTS = 5
"""Of a trial, one after another."""


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    process = Zygote()
    yield process
    process.close()


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    if why := missing():
        pytest.skip(why)
    with SlurmCluster(patience=5) as cluster:
        yield cluster


def _try(zygote: Zygote, folder: Path, seed: int, slurm: SlurmCluster | None = None) -> None:
    print(f"seed {seed}")
    trial = Trial(zygote, folder, seed, slurm)
    try:
        for _ in range(FAULTS):
            trial.fault()
        trial.finish()
        print(trial.faults)
        trial.check()
    finally:
        trial.close()


@pytest.mark.parametrize("seed", range(3))
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
        trial.close()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_faults(zygote: Zygote, tmp_path: Path, seed: int) -> None:
    _try(zygote, tmp_path, seed)


@pytest.mark.parametrize("seed", range(200, 202))
def test_some_faults_under_slurm(zygote: Zygote, slurm: SlurmCluster, tmp_path: Path, seed: int) -> None:
    _try(zygote, tmp_path, seed, slurm)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(300, 340))
def test_many_faults_under_slurm(zygote: Zygote, slurm: SlurmCluster, tmp_path: Path, seed: int) -> None:
    _try(zygote, tmp_path, seed, slurm)
