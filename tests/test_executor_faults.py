"""After any faults: no job is lost or runs twice, no GPU is in two leases, no committed step is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


Record = Callable[[str, object], None]


def _try(
    zygote: Zygote, folder: Path, seed: int, record: Record, slurm: SlurmCluster | None = None, *, kills: int = 0
) -> None:
    """A trial of some faults; or of this number of ``kills``, as long as jobs are left."""
    print(f"seed {seed}")
    trial = Trial(zygote, folder, seed, slurm, longer=8 if kills else 1)
    try:
        for _ in range(0 if kills else FAULTS):
            trial.fault()
        while trial.kills.total() < kills and not trial.done():
            trial.fault("kill|die_at")
            trial.operator()
        trial.finish()
        print(trial.faults)
        trial.check()
    finally:
        _record_kills(trial, record)
        trial.close()


def _record_kills(trial: Trial, record: Record) -> None:
    """For the summary at the end, see conftest.py."""
    record("kills", ["Slurm" if trial.slurm else "this machine", dict(trial.kills)])


@pytest.mark.parametrize("seed", range(3))
def test_jobs_survive_some_faults(zygote: Zygote, tmp_path: Path, seed: int, record_property: Record) -> None:
    _try(zygote, tmp_path, seed, record_property)


def test_the_controller_can_be_killed_at_every_write(zygote: Zygote, tmp_path: Path, record_property: Record) -> None:
    """Each controller of a sequence dies one write later, so that all writes are covered in all states of leases."""
    trial = Trial(zygote, tmp_path, 7)
    try:
        trial.die_at_every_write(60)
        trial.finish()
        trial.check()
    finally:
        _record_kills(trial, record_property)
        trial.close()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
def test_jobs_survive_many_faults(zygote: Zygote, tmp_path: Path, seed: int, record_property: Record) -> None:
    _try(zygote, tmp_path, seed, record_property)


@pytest.mark.parametrize("seed", range(200, 202))
def test_jobs_survive_some_faults_under_slurm(
    zygote: Zygote, slurm: SlurmCluster, tmp_path: Path, seed: int, record_property: Record
) -> None:
    _try(zygote, tmp_path, seed, record_property, slurm)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(300, 340))
def test_jobs_survive_many_faults_under_slurm(
    zygote: Zygote, slurm: SlurmCluster, tmp_path: Path, seed: int, record_property: Record
) -> None:
    _try(zygote, tmp_path, seed, record_property, slurm)


KILLS = 20
"""Of a trial; with the seeds below at least 500 on each engine."""


@pytest.mark.long
@pytest.mark.parametrize("seed", range(400, 426))
def test_many_kills(zygote: Zygote, tmp_path: Path, seed: int, record_property: Record) -> None:
    _try(zygote, tmp_path, seed, record_property, kills=KILLS)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(500, 526))
def test_many_kills_under_slurm(
    zygote: Zygote, slurm: SlurmCluster, tmp_path: Path, seed: int, record_property: Record
) -> None:
    _try(zygote, tmp_path, seed, record_property, slurm, kills=KILLS)
