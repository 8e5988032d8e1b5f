"""HadarE merges copies: the average against Fractions, what it keeps, and what it refuses."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from refused import refused

from hetopt.errors import InvalidOption
from hetopt.executor.averaging import consolidate

FLOATS = [np.float16, np.float32, np.float64]
INTEGERS = [np.int8, np.uint8, np.int32, np.int64, np.uint64]


@st.composite
def copies(draw: st.DrawFn, dtypes: list[Any], least: int = 1) -> tuple[list[np.ndarray[Any, Any]], list[float]]:
    """The same array of each copy, and their weights, of which one at least is positive."""
    dtype, shape = np.dtype(draw(st.sampled_from(dtypes))), draw(array_shapes(min_dims=0, max_dims=2, max_side=4))
    numbers: dict[str, Any] = {"allow_nan": False, "allow_infinity": False} if dtype.kind == "f" else {}
    if dtype.itemsize == 8 and dtype.kind in "iu":  # averages are exact up to 2**53
        numbers = {"min_value": 0 if dtype.kind == "u" else -(1 << 53), "max_value": 1 << 53}
    count = draw(st.integers(least, 5))
    values = [draw(arrays(dtype, shape, elements=numbers or None)) for _ in range(count)]
    weights = draw(st.lists(st.one_of(st.integers(0, 9), st.floats(0.125, 1e6)), min_size=count, max_size=count))
    return values, weights if any(weights) else [1.0] * count


def exact(values: list[np.ndarray[Any, Any]], weights: list[float]) -> list[Fraction]:
    """The weighted averages of all entries, in Fractions."""
    shares = [Fraction(weight) for weight in weights]
    columns = zip(*(value.ravel().tolist() for value in values), strict=True)
    return [sum(s * Fraction(x) for s, x in zip(shares, column, strict=True)) / sum(shares) for column in columns]


def merged(values: list[Any], weights: list[float] | None = None) -> Any:
    return consolidate([{"x": value} for value in values], weights)["x"]


# the average


@given(copies(FLOATS))
def test_floats_are_averaged_to_the_last_digits(case: tuple[list[Any], list[float]]) -> None:
    values, weights = case
    result = merged(values, weights)
    assert (type(result), result.dtype, result.shape) == (np.ndarray, values[0].dtype, values[0].shape)
    largest = max(float(np.abs(value).max()) for value in values)
    finfo = np.finfo(result.dtype)
    bound = 10 * (Fraction(largest) * Fraction(float(finfo.eps)) + Fraction(float(finfo.smallest_subnormal)))
    for got, want in zip(result.ravel().tolist(), exact(values, weights), strict=True):
        assert abs(Fraction(got) - want) <= bound


@given(copies(FLOATS))
def test_it_stays_in_the_range_of_the_copies_that_have_a_part(case: tuple[list[Any], list[float]]) -> None:
    values, weights = case
    part = np.stack([value for value, weight in zip(values, weights, strict=True) if weight])
    result = merged(values, weights)
    assert ((part.min(axis=0) <= result) & (result <= part.max(axis=0))).all()


@given(copies([*FLOATS, *INTEGERS, np.bool_]), st.integers(1, 5))
def test_equal_copies_are_their_average_to_the_bit(case: tuple[list[Any], list[float]], count: int) -> None:
    value, weights = case[0][0], [w + 0.1 for w in (case[1] * 5)[:count]]
    assert merged([value] * count, weights).tobytes() == value.tobytes()


@given(copies([*FLOATS, *INTEGERS], least=2), st.randoms(use_true_random=False))
def test_the_order_of_copies_does_not_matter(case: tuple[list[Any], list[float]], random: Any) -> None:
    values, weights = case
    order = random.sample(range(len(values)), len(values))
    one, two = merged(values, weights), merged([values[i] for i in order], [weights[i] for i in order])
    largest = max(float(np.abs(value.astype(float)).max()) for value in values)
    unit = float(np.finfo(one.dtype if one.dtype.kind == "f" else float).eps) * 10
    least = float(np.finfo(one.dtype).smallest_subnormal) if one.dtype.kind == "f" else 1.0  # a tie that rounds apart
    assert (np.abs(one.astype(np.longdouble) - two.astype(np.longdouble)) <= largest * unit + least).all()


@given(copies(FLOATS), st.integers(-20, 20))
def test_only_ratios_of_weights_count(case: tuple[list[Any], list[float]], power: int) -> None:
    """Powers of two, so that the scaled weights are exact."""
    values, weights = case
    scaled = [math.ldexp(weight, power) for weight in weights]
    assert merged(values, weights).tobytes() == merged(values, scaled).tobytes()


@given(copies(FLOATS))
def test_a_copy_of_weight_0_has_no_part(case: tuple[list[Any], list[float]]) -> None:
    values, weights = case
    diverged = np.full_like(values[0], np.nan)
    assert merged([diverged, *values], [0, *weights]).tobytes() == merged(values, weights).tobytes()


@given(copies(INTEGERS))
def test_integers_are_rounded_to_the_nearest(case: tuple[list[Any], list[float]]) -> None:
    values, weights = case
    result = merged(values, weights)
    assert result.dtype == values[0].dtype
    spread = max(int(v.max()) for v in values) - min(int(v.min()) for v in values)
    bound = Fraction(1, 2) + Fraction(spread) * Fraction(2) ** -49  # 53 bits, less a few roundings
    for got, want in zip(result.ravel().tolist(), exact(values, weights), strict=True):
        assert abs(got - want) <= bound


@given(copies([np.bool_]))
def test_booleans_are_decided_by_at_least_half_of_the_weight(case: tuple[list[Any], list[float]]) -> None:
    values, weights = case
    weights = [float(round(weight)) for weight in weights]
    weights = weights if any(weights) else [1.0] * len(values)
    got = merged(values, weights)
    assert got.dtype == np.bool_
    assert got.ravel().tolist() == [want >= Fraction(1, 2) for want in exact(values, weights)]


def test_steps_as_weights_by_hand() -> None:
    first = {"w": np.array([[1.0, 2.0]]), "n": np.int64(100), "scale": 3.0, "flag": True, "steps": 8}
    second = {"flag": False, "w": np.array([[5.0, -2.0]]), "n": np.int64(104), "scale": 7.0, "steps": 9}
    result = consolidate([first, second], [3, 1])
    assert list(result) == ["w", "n", "scale", "flag", "steps"]
    assert result["w"].tolist() == [[2.0, 1.0]]
    assert {k: result[k] for k in ("n", "scale", "flag", "steps")} == {"n": 101, "scale": 4.0, "flag": True, "steps": 8}
    assert [type(result[k]) for k in ("n", "scale", "flag", "steps")] == [np.int64, float, bool, int]


def test_by_default_all_copies_count_alike() -> None:
    values = [np.arange(4.0), np.ones(4), np.full(4, 5.0)]
    assert merged(values).tolist() == np.average(values, axis=0).tolist()


def test_nothing_is_changed_or_shared() -> None:
    states = [{"w": np.arange(3.0), "n": np.array([4])}, {"w": np.ones(3), "n": np.array([9])}]
    for count in (1, 2):
        before = copy.deepcopy(states)
        result = consolidate(states[:count])
        for name in ("w", "n"):
            result[name] += 1
            assert [state[name].tolist() for state in states] == [state[name].tolist() for state in before]


def test_copies_are_not_stacked() -> None:
    """50 copies of an entry: memory for some arrays of its size, the result included."""
    states = [{"w": np.full(100_000, float(c))} for c in range(50)]
    tracemalloc.start()
    consolidate(states)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= 8 * states[0]["w"].nbytes


@pytest.mark.parametrize("dtype", FLOATS)
def test_no_overflow_at_the_largest_float(dtype: Any) -> None:
    most = np.finfo(dtype).max
    result = merged([np.array([most, most]), np.array([most, -most])], [3, 1])
    assert result.tolist() == [most, pytest.approx(float(most) / 2)]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_the_extremes_of_64_bits_do_not_overflow(dtype: Any) -> None:
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    values = [np.array([low, low, high, high], dtype), np.array([high, low, high, high - 1], dtype)]
    result = merged(values).tolist()
    assert result[1:3] == [low, high]
    assert result[0] in ((low + high) // 2, (low + high) // 2 + 1)
    assert high - 1 <= result[3] <= high


# what is refused

GOOD = {"w": np.zeros(2), "b": np.zeros(1)}


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([], "at least one"),
        (GOOD, "sequence with a state of each copy"),
        ([GOOD, 3], r"states\[1\] is 3; it must be a mapping"),
        ([GOOD, {"w": np.zeros(2)}], r"states\[1\] lacks 'b'"),
        ([GOOD, GOOD | {"c": 1.0}], r"states\[1\] has also 'c'"),
        ([GOOD, {"w": np.zeros(2), "B": np.zeros(1)}], r"lacks 'b' and has also 'B'"),
        ([GOOD, GOOD | {"w": np.zeros(3)}], r"states\[1\]\['w'\] is an array \(3,\).*must be an array \(2,\)"),
        ([GOOD, GOOD | {"w": np.zeros(2, np.float32)}], "of float32; it must be .* of float64"),
        ([GOOD, GOOD | {"b": 0.0}], "a number of type float; it must be an array"),
        ([{"w": "text"}], r"states\[0\]\['w'\] is 'text'"),
        ([{"w": np.zeros(2, complex)}], "floats, integers or booleans"),
        ([{"w": 2**70}], "floats, integers or booleans"),
    ],
)
def test_states_that_do_not_fit(states: Any, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        consolidate(states)


@pytest.mark.parametrize(
    ("weights", "key", "match"),
    [
        ([1], "weights", "1 entries"),
        ([1, 2, 3], "weights", "3 entries"),
        ([1, -1], "weights[1]", None),
        ([math.nan, 1], "weights[0]", None),
        ([math.inf, 1], "weights[0]", None),
        (["1", 1], "weights[0]", None),
        ([0, 0.0], "weights", "at least one weight"),
    ],
)
def test_weights_that_do_not_fit(weights: Any, key: str | None, match: str | None) -> None:
    with refused(InvalidOption, key, match):
        consolidate([GOOD, GOOD], weights)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_diverged_copy_is_named(bad: float) -> None:
    spoilt = {"w": np.array([0.0, bad]), "b": np.zeros(1)}
    with pytest.raises(InvalidOption, match=r"states\[2\]\['w'\] has NaN or infinite"):
        consolidate([GOOD, GOOD, spoilt])
    assert consolidate([GOOD, GOOD, spoilt], [1, 1, 0])["w"].tolist() == [0.0, 0.0]
    got = consolidate([GOOD, GOOD, spoilt], finite=False)["w"]
    np.testing.assert_array_equal(got, [0.0, bad])


def test_the_package_does_not_load_torch() -> None:
    code = "import sys, hetopt.executor.averaging; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# tensors


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_tensors_of_floats(torch: Any, kind: str) -> None:
    dtype = getattr(torch, kind)
    random = torch.Generator().manual_seed(0)
    values = [torch.randn(5, 7, generator=random, dtype=torch.float64).to(dtype) for _ in range(4)]
    before, weights = [value.clone() for value in values], [4.0, 2.0, 1.0, 0.0]
    result = merged(values, weights)
    assert (result.dtype, result.device, result.requires_grad) == (dtype, values[0].device, False)
    oracle = np.average([value.double().numpy() for value in values], axis=0, weights=weights)
    assert np.abs(result.double().numpy() - oracle).max() <= 10 * torch.finfo(dtype).eps
    assert all(torch.equal(a, b) for a, b in zip(values, before, strict=True))
    assert torch.equal(merged([values[0]] * 3, [0.1, 0.2, 0.7]), values[0])
    assert merged([values[0]]).data_ptr() != values[0].data_ptr()


def test_half_precision_neither_overflows_nor_loses_small_parts(torch: Any) -> None:
    most = torch.full((2,), torch.finfo(torch.float16).max, dtype=torch.float16)
    assert torch.equal(merged([most] * 3), most)
    ones = [torch.ones(1, dtype=torch.bfloat16)] * 999 + [torch.full((1,), 513.0, dtype=torch.bfloat16)]
    assert merged(ones).item() == pytest.approx(1.512, rel=torch.finfo(torch.bfloat16).eps)


def test_a_whole_state_dict_with_batch_normalisation(torch: Any) -> None:
    def copied(seed: int, steps: int) -> Any:
        torch.manual_seed(seed)
        network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
        for _ in range(steps):
            network(torch.randn(8, 3))
        return network

    one, two = copied(1, 6), copied(2, 3)
    states = [one.state_dict(), two.state_dict()]
    result = consolidate(states, [6, 3])
    assert list(result) == list(states[0])
    assert result["1.num_batches_tracked"].dtype == torch.int64
    assert result["1.num_batches_tracked"].item() == 5  # (6 * 6 + 3 * 3) / 9
    expected = (2 * states[0]["0.weight"].double() + states[1]["0.weight"].double()) / 3
    torch.testing.assert_close(result["0.weight"].double(), expected, check_dtype=False)
    one.load_state_dict(result, strict=True)


def test_tensors_that_do_not_fit(torch: Any) -> None:
    zero = torch.zeros(2)
    for other, message in [
        (torch.zeros(3), r"is a tensor \(3,\)"),
        (torch.zeros(2, dtype=torch.float64), "float64; it must be .*float32"),
        (np.zeros(2), "is an array .* it must be a tensor"),
        (torch.zeros(2, dtype=torch.complex64), "floats, integers or booleans"),
        (torch.tensor([0.0, math.nan]), "has NaN"),
    ]:
        with pytest.raises(InvalidOption, match=message):
            merged([zero, other])
    masks = [torch.tensor([True, False, True]), torch.tensor([True, False, False])]
    assert merged(masks, [1, 2]).tolist() == [True, False, False]


def test_halfway_integers_go_to_the_even_one() -> None:
    for a, b, mean in ((5, 6, 6), (1, 2, 2), (2, 3, 2), (-3, -2, -2), (-2, -1, -2)):
        assert consolidate([{"n": a}, {"n": b}]) == {"n": mean}
        array = consolidate([{"n": np.array([a])}, {"n": np.array([b])}])["n"]
        assert array.tolist() == [mean]


@pytest.mark.parametrize("weights", [{13: 1, 23: 3}, 2])
def test_weights_are_a_sequence(weights: Any) -> None:
    with pytest.raises(InvalidOption, match="it must be a sequence with a number for each state, in order"):
        consolidate([{"w": 0.0}, {"w": 1.0}], weights)
