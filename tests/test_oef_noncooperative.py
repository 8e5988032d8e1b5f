"""The dual simplex of non-cooperative OEF: proof, vertex and few steps for markets of any structure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, target
from hypothesis import strategies as st

import hetopt
from hetopt import Instance, Options
from hetopt.data.array_types import Floats
from hetopt.models import oef
from hetopt.models.oef import noncooperative_method, price_tree
from hetopt.models.oef.noncooperative_method import by_prices, distributed
from hetopt.models.oef.price_tree import Balanced, balance, busiest
from hetopt.programs.compiled import Compiled
from hetopt.tolerances import EQUAL, FEASIBILITY, PROVEN, ROUNDING

Draw = np.random.Generator

SPEEDS: dict[str, Callable[[Draw, int, int], Floats]] = {
    "generic": lambda draw, n, k: draw.uniform(1, 10, (n, k)),
    "equal": lambda _, n, k: np.ones((n, k)),
    "integers": lambda draw, n, k: draw.integers(1, 4, (n, k)).astype(float),
    "curve": lambda draw, n, k: np.asarray(draw.uniform(1, 10, k) ** draw.uniform(0.3, 1.7, (n, 1))),
    "proportional": lambda draw, n, k: draw.uniform(1, 10, (n, 1)) * draw.uniform(1, 10, k),
    "same types": lambda draw, n, k: draw.uniform(1, 10, (n, k))[:, draw.integers(0, k, k)],
    "same tenants": lambda draw, n, k: draw.uniform(1, 10, (n, k))[draw.integers(0, n, n)],
    "nearly equal": lambda draw, n, k: 1 + ROUNDING * draw.integers(0, 99, (n, k)),
    "six orders": lambda draw, n, k: np.asarray(10 ** draw.uniform(-3, 3, (n, k))),
    "steep": lambda draw, n, k: np.asarray(10 ** (draw.uniform(-1, 1, (n, 1)) * np.linspace(0, 6, k))),
}
ABLE: dict[str, Callable[[Draw, int, int], np.typing.NDArray[np.bool_]]] = {
    "all": lambda _, n, k: np.ones((n, k), dtype=bool),
    "most": lambda draw, n, k: draw.random((n, k)) < 0.7,
    "few": lambda draw, n, k: draw.random((n, k)) < 0.2,
    "nested": lambda draw, n, k: np.arange(k) >= draw.integers(0, k, (n, 1)),
    "levels": lambda draw, n, k: draw.integers(0, 3, (n, 1)) <= draw.integers(0, 3, k),
    "blocks": lambda draw, n, k: draw.integers(0, 3, (n, 1)) == draw.integers(0, 3, k),
}
WEIGHTS: dict[str, Callable[[Draw, int], Floats]] = {
    "equal": lambda _, n: np.ones(n),
    "six orders": lambda draw, n: np.asarray(10 ** draw.uniform(-3, 3, n)),
    "one huge": lambda _, n: np.where(np.arange(n) == 0, 1e6, 1.0),
}


@st.composite
def markets(draw: st.DrawFn, tenants: int, types: int) -> tuple[Floats, Floats, Floats]:
    """(n, k) speeds, 0 where a tenant cannot run; (n,) weights; (k,) GPUs."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, k = draw(st.integers(1, tenants)), draw(st.integers(1, types))
    speeds = SPEEDS[draw(st.sampled_from(sorted(SPEEDS)))](rng, n, k)
    able = ABLE[draw(st.sampled_from(sorted(ABLE)))](rng, n, k)
    able[np.arange(n), rng.integers(0, k, n)] = True
    weights = WEIGHTS[draw(st.sampled_from(sorted(WEIGHTS)))](rng, n)
    gpus = rng.integers(1, draw(st.sampled_from([2, 9, 1000])), k).astype(float)
    return np.where(able, speeds, 0.0), weights, gpus


def check_proof(time_on: Floats, found: Balanced) -> None:
    """A vertex, and prices that bound the least time from below by as much as it takes."""
    n, k = time_on.shape
    assert (found.split >= 0).all()
    assert found.split.sum(axis=1) == pytest.approx(np.ones(n))
    assert (found.split > 0).sum() <= n + k - 1
    assert not found.split[np.isinf(time_on)].any()
    assert (found.prices >= 0).all()
    assert found.prices.sum() == pytest.approx(1)
    cost = np.multiply(time_on, found.prices, out=np.full((n, k), np.inf), where=np.isfinite(time_on))
    assert busiest(time_on, found.split) == pytest.approx(cost.min(axis=1).sum(), rel=PROVEN)


@settings(deadline=None)
@given(markets(tenants=200, types=30))
def test_every_market_is_balanced_in_few_steps(market: tuple[Floats, Floats, Floats]) -> None:
    speeds, weights, gpus = market
    with np.errstate(divide="ignore"):
        time_on = weights[:, None] / (speeds * gpus)
    found = balance(time_on, Options())
    check_proof(time_on, found)
    target(found.steps / len(gpus))
    assert found.steps <= 30 * len(gpus)


@settings(deadline=None)
@given(markets(tenants=40, types=8))
def test_the_plain_program_has_the_same_optimum(market: tuple[Floats, Floats, Floats]) -> None:
    speeds, weights, gpus = market
    inst = Instance.from_speedups(speeds, gpus.astype(int).tolist(), weights=weights.tolist(), any_scale=True)
    found = hetopt.solve(oef.noncooperative(), inst)
    plain = hetopt.solve(oef.noncooperative(), inst, method="simplex")
    assert found.certificate.method == "prices"
    assert found.certificate.objective == pytest.approx(plain.certificate.objective, rel=EQUAL)
    assert found.certificate.gap <= PROVEN
    assert found.certificate.violation <= FEASIBILITY


def test_types_that_are_not_needed_have_price_zero() -> None:
    """By hand: 4 of work on the first type, of which the others are twice as fast on types of their own."""
    time_on = np.array([[4, np.inf, np.inf], [2, 1, np.inf], [2, 1, 0.5]])
    found = balance(time_on, Options())
    assert found.prices.tolist() == [1, 0, 0]
    assert busiest(time_on, found.split) == 4
    check_proof(time_on, found)


def test_a_layer_gives_work_to_the_layer_above_it() -> None:
    """By hand: 1 + x on the second type and 6 (1 - x) on the third, x = 5 / 7; the first is of no use."""
    time_on = np.array([[np.inf, 1, 6], [np.inf, 1, np.inf]])
    found = balance(time_on, Options())
    assert busiest(time_on, found.split) == pytest.approx(12 / 7)
    assert found.prices == pytest.approx(np.array([0, 6, 1]) / 7)
    check_proof(time_on, found)


def test_layers_change_places() -> None:
    """By hand: the second tenant keeps the first type busy for 8; all others are faster elsewhere."""
    no = np.inf
    time_on = np.array([[no, no, no, 7], [8, no, no, no], [7, no, 5, 6], [8, 2, no, 8]])
    found = balance(time_on, Options())
    assert found.prices.tolist() == [1, 0, 0, 0]
    check_proof(time_on, found)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (1, 5), (3, 7), (50, 5), (1000, 30)])
def test_ties_everywhere(n: int, k: int) -> None:
    found = balance(np.ones((n, k)), Options())
    assert busiest(np.ones((n, k)), found.split) == pytest.approx(n / k)
    check_proof(np.ones((n, k)), found)


def test_speeds_may_be_twelve_orders_apart() -> None:
    """Prices of one tree are as far apart; money of dear types must not drown that of cheap ones."""
    for seed in range(20):
        draw = np.random.default_rng(seed)
        for n in (1, 3, 30):
            time_on = 10 ** draw.uniform(-6, 6, (n, 12))
            check_proof(time_on, balance(time_on, Options()))


def test_at_the_time_limit_the_point_is_feasible_and_the_bound_proven() -> None:
    inst = Instance.from_speedups(np.random.default_rng(0).uniform(1, 9, (300, 8)), [5] * 8, any_scale=True)
    best = hetopt.solve(oef.noncooperative(), inst).certificate.objective
    stopped = hetopt.solve(oef.noncooperative(), inst, time_limit=1e-9)
    assert stopped.certificate.status == "time_limit"
    assert stopped.certificate.violation <= FEASIBILITY
    assert 0 < stopped.certificate.objective < best < stopped.certificate.bound


def test_without_a_proof_a_general_solver_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    inst = Instance.from_speedups(np.random.default_rng(0).uniform(1, 9, (20, 4)), [3, 1, 4, 1], any_scale=True)
    compiled = Compiled(oef.noncooperative(), inst.entities())
    proven = by_prices(compiled, Options())
    monkeypatch.setattr(price_tree, "STEPS", 0)
    point = by_prices(compiled, Options())
    assert (proven.method, point.method) == ("prices", "simplex")
    assert point.objective == pytest.approx(proven.objective, rel=EQUAL)


def test_members_of_a_group_take_one_type_after_the_other() -> None:
    """Weights 1, 1, 2 share half and half: by hand, the first two take type 1 and the last type 2."""
    split = distributed(np.array([[0.5, 0.5]]), np.zeros(3, dtype=np.intp), np.array([1.0, 1.0, 2.0]))
    assert split == pytest.approx(np.array([[1, 0], [1, 0], [0, 1]]))


def test_small_parts_and_light_members_keep_their_digits() -> None:
    tiny = 1e-15
    group = np.zeros(2, dtype=np.intp)
    split = distributed(np.array([[1 - tiny, tiny]]), group[:1], np.array([3.0]))
    assert split[0, 1] == pytest.approx(tiny)
    split = distributed(np.array([[0.5, 0.5]]), group, np.array([1.0, tiny]))
    assert split.sum(axis=1) == pytest.approx(np.ones(2))
    assert split[1].max() == 1


def test_rows_with_the_same_random_sum_stay_apart() -> None:
    rows = np.array([[1, 1e-30], [1, 2e-30], [1, 1e-30]])
    distinct, group = noncooperative_method._distinct(rows)
    assert (distinct[group] == rows).all()
    assert len(distinct) == 2
