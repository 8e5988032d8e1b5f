"""Numbers and names: which are taken, and that every field of every class refuses the others by its key."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from hetopt import Cluster, GPUType, Instance, InvalidInstance, Job, JobType, Server, Stage, Tenant, TrainingPhase
from hetopt.checks import MOST, count, is_text, number

SPEEDS = {"T4": 1.0}
ONE = Cluster.of(SPEEDS)  # type: ignore[arg-type]

BAD_NUMBERS = [
    -1,
    math.nan,
    math.inf,
    -math.inf,
    10**400,
    "1",
    "x",
    None,
    True,
    np.True_,
    [1],
    np.array([1.0]),
    pd.NA,
    1j,
]
BAD_NAMES = ["", " ", "\t", "a\nb", "a\0", "\x7f", "\ud800", "\u2028", 1, None, ("a",), b"a"]


# Numbers and names


@pytest.mark.parametrize("value", [*BAD_NUMBERS, Decimal(1)], ids=repr)
def test_what_is_no_amount(value: Any) -> None:
    """Text is refused too: a forgotten conversion must not pass as a number."""
    with refused(InvalidInstance, "key", ">= 0"):
        number(value, "key")


@pytest.mark.parametrize("value", [0, 0.0, 3, 2.5, np.float32(0.5), np.int64(7), Fraction(1, 3)], ids=repr)
def test_what_is_an_amount_becomes_a_float(value: Any) -> None:
    assert type(number(value, "key")) is float
    assert number(value, "key") == float(value)


@given(st.floats(), st.floats(-10, 10), st.booleans())
def test_a_number_is_finite_and_above_its_bound(value: float, least: float, strict: bool) -> None:
    good = value <= MOST and (value > least or (value == least and not strict))
    if good:
        assert number(value, "key", least=least, strict=strict) == value
    else:
        with pytest.raises(InvalidInstance):
            number(value, "key", least=least, strict=strict)


@pytest.mark.parametrize("value", [1.5, "2", -1, math.nan, math.inf], ids=repr)
def test_what_is_no_count(value: Any) -> None:
    with pytest.raises(InvalidInstance):
        count(value, "key")
    assert count(np.float64(3), "key") == 3
    with refused(InvalidInstance, "key", r"1e\+09"):
        count(10**9 + 1, "key")


@given(st.text(max_size=3))
def test_names_are_printable_and_not_blank(value: str) -> None:
    assert is_text(value) == (bool(value.strip()) and value.isprintable())


# Each field of each class refuses bad values

FIELDS: list[tuple[str, Callable[[Any], object]]] = [
    ("gpu_types['A'].memory_bytes", lambda v: GPUType("A", v)),
    ("servers['s'].gpus['T4']", lambda v: Server("s", {"T4": v})),
    ("servers['s'].nic_bytes_per_s", lambda v: Server("s", {"T4": 1}, nic_bytes_per_s=v)),
    ("servers['s'].intra_bytes_per_s", lambda v: Server("s", {"T4": 1}, intra_bytes_per_s=v)),
    ("servers['s'].disk_bytes", lambda v: Server("s", {"T4": 1}, disk_bytes=v)),
    ("capacity['T4']", lambda v: Cluster.of({"T4": v})),
    ("memory_bytes", lambda v: Cluster.of({"T4": 1}, memory_bytes={"T4": v})),
    ("job_types['k'].speedup['T4']", lambda v: JobType("k", {"T4": v})),
    ("job_types['k'].throughput['T4']", lambda v: JobType.from_throughput("k", {"T4": v})),
    ("job_types['k'].memory_bytes", lambda v: JobType("k", SPEEDS, v)),
    ("tenants['a'].speedup['T4']", lambda v: Tenant("a", {"T4": v})),  # type: ignore[arg-type]
    ("tenants['a'].weight", lambda v: Tenant("a", SPEEDS, v)),  # type: ignore[arg-type]
    ("stages[].replicas", lambda v: Stage(v, 1, 1)),
    ("stages[].forward_s", lambda v: Stage(1, v, 1)),
    ("stages[].output_bytes", lambda v: Stage(1, 1, 1, output_bytes=v)),
    ("phases[].epochs", lambda v: TrainingPhase(v, 32, 1)),
    ("phases[].batch_size", lambda v: TrainingPhase(1, v, 1)),
    ("phases[].epoch_work", lambda v: TrainingPhase(1, 32, v)),
    ("jobs['j'].throughput['T4']", lambda v: Job("j", {"T4": v}, 1)),
    ("jobs['j'].work", lambda v: Job("j", SPEEDS, v)),
    ("jobs['j'].demand", lambda v: Job("j", SPEEDS, 1, v)),
    ("jobs['j'].arrival", lambda v: Job("j", SPEEDS, 1, arrival=v)),
    ("jobs['j'].weight", lambda v: Job("j", SPEEDS, 1, weight=v)),
    ("jobs['j'].memory_bytes", lambda v: Job("j", SPEEDS, 1, memory_bytes=v)),
    ("jobs['j'].checkpoint_bytes", lambda v: Job("j", SPEEDS, 1, checkpoint_bytes=v)),
    ("jobs['j'].dataset_bytes", lambda v: Job("j", SPEEDS, 1, dataset_bytes=v)),
    ("time", lambda v: Instance(ONE, time=v)),
]
OPTIONAL = {"gpu_types['A'].memory_bytes", "servers['s'].disk_bytes", "memory_bytes"}


@pytest.mark.parametrize(("key", "make"), FIELDS, ids=[key for key, _ in FIELDS])
def test_every_number_is_checked(key: str, make: Callable[[Any], object]) -> None:
    for value in BAD_NUMBERS:
        if value is None and key in OPTIONAL:
            continue
        with pytest.raises(InvalidInstance) as caught:
            make(value)
        assert key in caught.value.key


NAMED: list[tuple[str, Callable[[Any], object]]] = [
    ("GPU type name", lambda v: GPUType(v)),
    ("server name", lambda v: Server(v, {"T4": 1})),
    ("servers['s'].gpus", lambda v: Server("s", {v: 1})),
    ("job type name", lambda v: JobType(v, SPEEDS)),
    ("speedup", lambda v: JobType("k", {v: 1})),
    ("tenant name", lambda v: Tenant(v, SPEEDS)),  # type: ignore[arg-type]
    ("job name", lambda v: Job(v, SPEEDS, 1)),
    ("jobs['j'].tenant", lambda v: Job("j", SPEEDS, 1, tenant=v)),
    ("jobs['j'].dataset", lambda v: Job("j", SPEEDS, 1, dataset=v)),
    ("jobs['j'].utility", lambda v: Job("j", SPEEDS, 1, utility=v)),
    ("jobs['j'].job_type", lambda v: Job("j", SPEEDS, 1, job_type=v)),
    ("capacity", lambda v: Cluster.of({v: 1})),
    ("held", lambda v: Instance(ONE, held={v: {}})),
    ("done", lambda v: Instance(ONE, done={v: 1})),
    ("placed", lambda v: Instance(ONE, placed={v: {}})),
]


@pytest.mark.parametrize(("key", "make"), NAMED, ids=[key for key, _ in NAMED])
def test_every_name_is_checked(key: str, make: Callable[[Any], object]) -> None:
    for value in BAD_NAMES:
        if value is None and key.startswith("jobs["):
            continue
        with pytest.raises(InvalidInstance) as caught:
            make(value)
        assert key in caught.value.key
