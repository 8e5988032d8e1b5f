"""Cooperative OEF by a first-order method on an NVIDIA GPU, beside hetopt's method on the CPU.

cuPDLPx (restarted, reflected Halpern PDHG) solves the plain program with all n (n - 1) envy rows, 25 million for
5,000 tenants. It stops at a relative tolerance, so what it claims is measured again: the bound that its duals prove by
weak duality, and the envy and the excess over capacity of its point. Skipped where there is no GPU or no cuPDLPx.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from families import Family, market
from pytest_benchmark.fixture import BenchmarkFixture
from scipy import sparse

import hetopt
from hetopt.data.array_types import Floats
from hetopt.executor.engines.nvidia import NoGPUs, find_gpus
from hetopt.models import oef
from hetopt.tolerances import PROVEN

TYPES = 10
TOLERANCES = (1e-4, 1e-6)
CASES = [
    # tenants, tenants in `make test`, whether hetopt's method runs in the same test
    (400, 30, True),
    (1_000, 40, True),
    (5_000, 50, False),
]
LIMIT = 100.0
"""Seconds for each solve."""


@pytest.fixture(scope="module")
def pdlp() -> Any:
    module = pytest.importorskip("cupdlpx")
    try:
        find_gpus("here")
    except NoGPUs as reason:
        pytest.skip(f"no NVIDIA GPU here: {reason}")
    return module


def envy_rows(speed: Floats) -> sparse.csr_array:
    """(n (n - 1), n k) rows ``speed[e].x[e] - speed[e].x[o]`` >= 0, in the order of e, then o."""
    n, k = speed.shape
    e, o = np.nonzero(~np.eye(n, dtype=bool))
    first, types = np.minimum(e, o).astype(np.int32), np.arange(k, dtype=np.int32)
    columns = np.empty((len(e), 2, k), dtype=np.int32)
    columns[:, 0] = first[:, None] * np.int32(k) + types
    columns[:, 1] = np.maximum(e, o).astype(np.int32)[:, None] * np.int32(k) + types
    values = np.empty((len(e), 2, k))
    values[:, 0], values[:, 1] = speed[e], speed[e]
    values[e < o, 1] *= -1
    values[e > o, 0] *= -1
    starts = np.arange(0, 2 * k * len(e) + 1, 2 * k, dtype=np.int32)
    return sparse.csr_array((values.ravel(), columns.ravel(), starts), shape=(len(e), n * k))


def plain_program(pdlp: Any, speed: Floats, capacity: Floats) -> Any:
    """The program of [OEF, eq. 10] in bundles of GPUs as a model of cuPDLPx; rows: capacity, then envy."""
    n, k = speed.shape
    used = sparse.csr_array(
        (
            np.ones(n * k),
            np.arange(n * k).reshape(n, k).T.ravel().astype(np.int32),
            np.arange(k + 1, dtype=np.int32) * n,
        ),
        shape=(k, n * k),
    )
    matrix = sparse.vstack([used, envy_rows(speed)], format="csr")
    matrix.has_canonical_format = True
    model = pdlp.Model(
        objective_vector=speed.ravel(),
        constraint_matrix=matrix,
        constraint_lower_bound=np.r_[np.full(k, -np.inf), np.zeros(n * (n - 1))],
        constraint_upper_bound=np.r_[capacity, np.full(n * (n - 1), np.inf)],
        variable_lower_bound=np.zeros(n * k),
    )
    model.ModelSense = pdlp.PDLP.MAXIMIZE
    return model


def proven_bound(speed: Floats, capacity: Floats, envy_dual: Floats) -> float:
    """The bound by weak duality from any duals >= 0 of the envy rows: capacity at the smallest feasible prices."""
    n = len(speed)
    dual = np.zeros((n, n))
    dual[~np.eye(n, dtype=bool)] = np.maximum(envy_dual, 0.0)
    gain = speed * (1 + dual.sum(axis=1))[:, None] - dual.T @ speed
    return float(np.maximum(gain.max(axis=0), 0.0) @ capacity)


def measured(model: Any, speed: Floats, capacity: Floats, tolerance: float) -> dict[str, Any]:
    """Solve at this tolerance; measure the point and the bound that its duals prove."""
    model.setParams(OptimalityTol=tolerance, FeasibilityTol=tolerance)
    began = time.perf_counter()
    model.optimize()
    seconds = time.perf_counter() - began
    x, y = np.maximum(model.X, 0.0).reshape(speed.shape), np.asarray(model.Pi)
    value = speed @ x.T
    own = value.diagonal()
    objective = float(own.sum())
    bound = min(proven_bound(speed, capacity, sign * y[len(capacity) :]) for sign in (1, -1))
    report = {
        "status": model.Status,
        "s": seconds,
        "iterations": model.IterCount,
        "objective": objective,
        "proven bound": bound,
        "proven gap": bound / objective - 1,
        "largest envy, parts of the own rate": float((value / own[:, None]).max() - 1),
        "excess over capacity, parts": float((x.sum(axis=0) / capacity).max() - 1),
    }
    print(len(speed), tolerance, report)
    return report


@pytest.mark.parametrize(("tenants", "few", "beside"), CASES)
def test_first_order_method(
    benchmark: BenchmarkFixture, full: bool, pdlp: Any, tenants: int, few: int, beside: bool
) -> None:
    """The point is feasible and optimal up to what is reported; hetopt's optimum lies below the proven bound."""
    n = tenants if full else few
    inst = market(Family("generic"), 0, n, TYPES)
    entities = inst.entities()
    speed, capacity = entities.speed, entities.capacity.astype(float)
    model = plain_program(pdlp, speed, capacity)
    model.setParams(LogToConsole=False, Presolve=False, TimeLimit=LIMIT)
    report = benchmark.pedantic(lambda: {f"{t:g}": measured(model, speed, capacity, t) for t in TOLERANCES}, rounds=1)
    if beside:
        began = time.perf_counter()
        best = hetopt.solve(oef.cooperative(), inst)
        report["hetopt, s"] = time.perf_counter() - began
        report["hetopt, objective"] = best.certificate.objective
        for tolerance in TOLERANCES:
            assert best.certificate.objective <= report[f"{tolerance:g}"]["proven bound"] * (1 + PROVEN)
    benchmark.extra_info.update(report)
