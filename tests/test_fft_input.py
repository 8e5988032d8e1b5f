"""FFT's settings and input: what is out of range or does not exist is refused with one clear error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from refused import refused

import hetopt
from hetopt.errors import InvalidFormulation, InvalidInstance, InvalidOption
from hetopt.formulations.formulation import Formulation
from hetopt.models import fft
from hetopt.models.objectives import TotalRate


@pytest.mark.parametrize(
    ("make", "key", "match"),
    [
        (lambda: fft.FFT(round_seconds=0), "FFT.round_seconds", None),
        (lambda: fft.FFT(restart_seconds=-1), "FFT.restart_seconds", None),
        (lambda: fft.AgeCost(float("nan")), "AgeCost.round_seconds", None),
        (lambda: fft.VolumeCost(-2), "VolumeCost.round_seconds", None),
        (lambda: fft.Switching(round_seconds=0), "Switching.round_seconds", None),
        (lambda: fft.Switching(restart_seconds=-3), "Switching.restart_seconds", None),
        (lambda: fft.Compensation({"j1": -1}), "Compensation.rho['j1']", None),
        (lambda: fft.Compensation({}, 0), "Compensation.round_seconds", None),
    ],
)
def test_settings_out_of_range_are_refused(make: Callable[[], object], key: str | None, match: str | None) -> None:
    with refused(InvalidOption, key, match):
        make()


PAIR = hetopt.Instance.from_jobs([[8, 1], [8, 1]], [1, 1], [16, 16], [1, 1])


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (fft.Compensation({"absent": 1}), "Compensation.rho names 'absent', which is no job here"),
        (fft.Compensation({f"no {i}": 1 for i in range(30)}), "names 'no 0'"),  # the first: no two runs differ
        (fft.Switching({"absent": "GPU1"}), "Switching.last names 'absent'"),
        (fft.Switching({"j1": "TPU"}), r"Switching.last\['j1'\] is 'TPU'; it must be a GPU type"),
    ],
)
def test_names_that_do_not_exist_are_refused(part: Any, message: str) -> None:
    with pytest.raises(InvalidFormulation, match=message):
        hetopt.solve(Formulation((TotalRate(), fft.OneType(), part)), PAIR)


def test_parts_of_jobs_refuse_tenants() -> None:
    tenants = hetopt.Instance.from_speedups([[1, 2]], [1, 1])
    with refused(InvalidInstance, "FFT"):
        fft.FFT()(tenants)
    with pytest.raises(InvalidFormulation, match="jobs"):
        Formulation((TotalRate(), fft.AgeCost()), kind="tenants")


def test_a_gang_larger_than_every_type_is_refused() -> None:
    """5 GPUs in all, at most 3 of a type; and one that only the small type could run."""
    two = hetopt.Instance.from_jobs([[1, 1], [1, 1]], [1, 4], [4, 4], [3, 2])
    with refused(InvalidInstance, "jobs['j2'].demand"):
        fft.FFT()(two)
    forbidden = hetopt.Instance.from_jobs([[0, 1]], [3], [4], [3, 2])
    with refused(InvalidInstance, "jobs['j1'].demand"):
        fft.FFT()(forbidden)


def test_jobs_that_are_not_there_are_refused() -> None:
    later = hetopt.Instance.from_jobs([[1]], [1], [4], [1], arrival=[10])
    with refused(InvalidInstance, "jobs['j1'].arrival"):
        fft.FFT()(later)
    with refused(InvalidInstance, "done['j1']"):
        fft.FFT()(PAIR.replace(done={"j1": 16.0}))


def test_memory_forbids_types() -> None:
    """[FFT, section 4.4.1]: the fast type is too small for the model, and stays idle."""
    cluster = hetopt.Cluster.of({"small": 1, "large": 1}, memory_bytes={"small": 16e9, "large": 80e9})
    job = hetopt.Job("big", {"small": 8.0, "large": 1.0}, 16, memory_bytes=40e9)
    assert fft.FFT()(hetopt.Instance(cluster, jobs=(job,)))[0].assigned == {"big": "large"}
