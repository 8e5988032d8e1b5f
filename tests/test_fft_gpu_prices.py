"""Prices of GPUs, by exact steps and by a program, against the relaxation of FFT's round by HiGHS."""

from __future__ import annotations

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from hetopt import Options
from hetopt.data.array_types import Floats, Positions
from hetopt.errors import NotSolved
from hetopt.models.fft import gpu_prices
from hetopt.models.fft.gpu_prices import STEP_TYPES, stepped_prices
from hetopt.models.fft.round_search import Round
from hetopt.tolerances import EQUAL, scale


def relaxed(cost: Floats, demand: Positions, room: Positions, idle: int) -> float | None:
    """The least cost of shares of jobs with so many idle GPUs; None if there are none."""
    (n, k), able = cost.shape, np.isfinite(cost)
    use = demand[:, None, None] * np.broadcast_to(np.eye(k), (n, k, k))
    found = linprog(
        np.where(able, cost, 0.0).ravel(),
        np.vstack([use.reshape(n * k, k).T, np.repeat(np.eye(n), k, axis=1)]),
        np.concatenate([room, np.ones(n)]),
        np.repeat(demand, k)[None, :],
        [room.sum() - idle],
        bounds=[(0, 1 if a else 0) for a in able.ravel()],
    )
    return float(found.fun) if found.success else None


@st.composite
def rounds(draw: st.DrawFn) -> tuple[Floats, Positions, Positions, int]:
    """Costs with ties, of both signs and up to six orders of magnitude apart; types that few or no jobs can use."""
    n, k = draw(st.integers(1, 9)), draw(st.integers(1, STEP_TYPES))
    costs = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e3, 1e3).map(lambda c: round(c, 3)), st.just(np.inf))
    size = draw(st.sampled_from([1.0, 1e-3, 1e3]))
    cost = size * np.array([[draw(costs) for _ in range(k)] for _ in range(n)])
    demand = np.array([draw(st.sampled_from([1, 1, 2, 3, 8])) for _ in range(n)])
    room = np.array([draw(st.integers(0, 9)) for _ in range(k)])
    return cost, demand, room, draw(st.integers(0, int(room.sum())))


@given(rounds(), st.booleans())
@settings(max_examples=examples(150, 1500), deadline=None)
def test_the_bound_is_the_optimum_of_the_relaxation(
    round_: tuple[Floats, Positions, Positions, int], at_once: bool
) -> None:
    """Without shares that use so many GPUs, prices are finite."""
    cost, demand, room, idle = round_
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_prices, "ALL", gpu_prices.ALL if at_once else 0)
        price = stepped_prices(cost, demand, room, idle)
    assert np.isfinite(price).all()
    optimum = relaxed(cost, demand, room, idle)
    if optimum is not None:
        size = scale(float(np.abs(cost[np.isfinite(cost)]).sum()))
        assert Round(cost, demand, room, idle, price).relaxed.bound == pytest.approx(optimum, abs=EQUAL * size)


@pytest.mark.parametrize("k", [3, STEP_TYPES + 2])
@pytest.mark.parametrize("n", [150, 600])
@pytest.mark.parametrize("seed", range(3))
def test_many_jobs(seed: int, n: int, k: int) -> None:
    """By steps and by a program; some jobs cannot run everywhere, and some GPUs stay idle."""
    draw = np.random.default_rng(seed)
    cost, demand = draw.lognormal(2, 1, (n, k)) - 5, draw.choice([1, 2, 4, 8], n)
    cost[draw.random(cost.shape) < seed / 4] = np.inf
    room = draw.integers(20, 41, k)
    price = gpu_prices.gpu_prices(cost, demand, room, seed, Options())
    assert Round(cost, demand, room, seed, price).relaxed.bound == pytest.approx(relaxed(cost, demand, room, seed))


def test_the_program_needs_enough_jobs() -> None:
    k = STEP_TYPES + 1
    with pytest.raises(NotSolved):
        gpu_prices.gpu_prices(np.ones((2, k)), np.array([1, 1]), np.full(k, 3), 0, Options())
