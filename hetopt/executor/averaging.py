"""Merging what a job's copies have learnt: the weighted average of their parameters, [Hadar, section V-B].

No framework is imported. Tensors of PyTorch are recognised where PyTorch is already loaded.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hetopt.checks import at_least, shown
from hetopt.errors import InvalidOption

Array: TypeAlias = NDArray[Any]

State: TypeAlias = Mapping[str, Any]
"""Parameters and buffers by name, e.g. a ``state_dict`` of PyTorch."""


def consolidate(
    states: Sequence[State], weights: Sequence[float] | None = None, *, finite: bool = True
) -> dict[str, Any]:
    """The job's parameters after a round: the weighted average of its copies', [Hadar, section V-B].

    - Floats: sum_c w[c] x[c] / sum_c w[c] for each number, never outside the range of the copies' numbers. So where all
      copies agree the average is bitwise what they have. NumPy's are summed in float64 (longer ones in themselves),
      PyTorch's in float32 (float64 in itself).
    - Integers, such as ``num_batches_tracked`` of a batch normalisation: the weighted average rounded to the nearest
      (halfway: to the even one), in 53 bits. It is a mean of the copies' counts; who adds steps up is the scheduler.
    - Booleans: what copies with at least half of the weight say is true.

    Entry by entry, with a running sum: beside the result, memory for some arrays of the size of the largest entry.

    Parameters
    ----------
    states:
        Of each copy: name -> NumPy array or scalar, PyTorch tensor, or Python number. All have the same names, and
        under a name the same kind, shape and dtype. Devices may differ.
    weights:
        (copies,) >= 0, not all 0, e.g. the steps that each copy has trained; only their ratios count. A copy of weight
        0 has no part. None: all equal.
    finite:
        Refuse NaN and infinity in a copy that has a part: a diverged copy would spoil the model. Weight 0 leaves it
        out.

    Returns
    -------
    dict
        In the order of the first state; each value of the kind, dtype and device of the first state's. Nothing of it
        shares memory with ``states``.

    Raises
    ------
    InvalidOption
        No states, names, shapes or dtypes that differ, entries that are no numbers, weights that are wrong, or, with
        ``finite``, an entry that is not.
    """
    copies = _states(states)
    parts = _weights(weights, len(copies))
    for name in copies[0]:
        _same_layout(copies, name)
    used = [(c, part) for c, part in enumerate(parts) if part > 0]
    if finite:
        for c, _ in used:
            if (wrong := diverged(copies[c])) is not None:
                raise InvalidOption(
                    "has NaN or infinite entries; all must be finite: give a copy that has "
                    "diverged weight 0, or ask for finite=False",
                    f"states[{c}][{wrong!r}]",
                )
    return {
        name: _merged(first, [copies[c][name] for c, _ in used], [p for _, p in used])
        for name, first in copies[0].items()
    }


def _states(states: Sequence[State]) -> tuple[State, ...]:
    """The states, if there are any and all have the same names."""
    copies = () if isinstance(states, Mapping) else tuple(states)
    if not copies:
        raise InvalidOption(
            f"is {shown(states)}; it must be a sequence with a state of each copy, at least one", "states"
        )
    for c, state in enumerate(copies):
        if not isinstance(state, Mapping):
            raise InvalidOption(f"is {shown(state)}; it must be a mapping from names to arrays", f"states[{c}]")
        missing, extra = copies[0].keys() - state.keys(), state.keys() - copies[0].keys()
        if missing or extra:
            parts = [f"lacks {_listed(missing)}"] * bool(missing) + [f"has also {_listed(extra)}"] * bool(extra)
            raise InvalidOption(f"states[{c}] {' and '.join(parts)}; all copies must have the names of states[0]")
    return copies


def _listed(names: set[str]) -> str:
    """Some names, in order."""
    ordered = sorted(map(repr, names))
    return ", ".join(ordered[:5]) + (f" and {len(ordered) - 5} more" if len(ordered) > 5 else "")


def _weights(weights: Sequence[float] | None, copies: int) -> list[float]:
    """(copies,) the checked weights."""
    if isinstance(weights, Mapping) or not (weights is None or isinstance(weights, Iterable)):
        raise InvalidOption(
            f"is {shown(weights)}; it must be a sequence with a number for each state, in order", "weights"
        )
    given = [1.0] * copies if weights is None else list(weights)
    if len(given) != copies:
        raise InvalidOption(f"has {len(given)} entries for {copies} states; it must have one for each", "weights")
    checked = [at_least(weight, f"weights[{c}]", 0.0, InvalidOption) for c, weight in enumerate(given)]
    if not any(checked):
        raise InvalidOption(f"is {shown(weights)}; at least one weight must be > 0", "weights")
    return checked


def _same_layout(copies: Sequence[State], name: str) -> None:
    """Refuse an entry that is not the same kind of numbers in all copies."""
    first = _layout(copies[0][name], f"states[0][{name!r}]")
    for c, state in enumerate(copies[1:], start=1):
        own = _layout(state[name], f"states[{c}][{name!r}]")
        if own != first:
            raise InvalidOption(f"is {own}; it must be {first} as in states[0]", f"states[{c}][{name!r}]")


def _layout(value: Any, key: str) -> str:
    """Kind, shape and dtype of an entry, in words."""
    if _is_tensor(value):
        good, words = not value.is_complex(), f"a tensor {tuple(value.shape)} of {value.dtype}"
    elif isinstance(value, np.ndarray):
        good, words = value.dtype.kind in "fiub", f"an array {value.shape} of {value.dtype}"
    else:
        good = isinstance(value, (bool, int, float)) or (isinstance(value, np.generic) and value.dtype.kind in "fiub")
        good, words = good and np.asarray(value).dtype != object, f"a number of type {type(value).__name__}"
    if not good:
        raise InvalidOption(f"is {shown(value)}; it must be an array of floats, integers or booleans", key)
    return words


def _is_tensor(value: Any) -> bool:
    """Whether it is a tensor of PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def diverged(state: State) -> str | None:
    """The first entry that has NaN or infinity."""
    for name, value in state.items():
        if _is_tensor(value):
            finite = bool(sys.modules["torch"].isfinite(value).all())
        else:
            finite = np.asarray(value).dtype.kind != "f" or bool(np.isfinite(value).all())
        if not finite:
            return name
    return None


def _merged(first: Any, values: Sequence[Any], weights: Sequence[float]) -> Any:
    """The average of one entry, of the kind of ``first``."""
    if not _is_tensor(first):
        result = _average(first, values, weights)
        return (
            result if isinstance(first, np.ndarray) else result[()] if isinstance(first, np.generic) else result.item()
        )
    torch = sys.modules["torch"]
    if not first.is_floating_point():
        arrays = [value.detach().cpu().numpy() for value in values]
        return torch.as_tensor(_average(arrays[0], arrays, weights), device=first.device)
    wide = torch.promote_types(first.dtype, torch.float32)
    numbers = (value.detach().to(device=first.device, dtype=wide) for value in values)
    return _mean(torch, numbers, weights).to(first.dtype)


def _average(first: Any, values: Sequence[Any], weights: Sequence[float]) -> Array:
    """The average of NumPy arrays, or of numbers, as an array of the first's dtype."""
    dtype = np.asarray(first).dtype
    arrays = [np.asarray(value) for value in values]
    if dtype.kind == "b":
        votes = sum(np.asarray(weight * array) for array, weight in zip(arrays, weights, strict=True))
        return np.asarray(2 * votes >= sum(weights))
    if dtype.kind in "iu":
        return _mean_of_integers(arrays, weights)
    wide = np.result_type(dtype, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # beyond the largest float the range of the copies holds
        return np.asarray(_mean(np, (array.astype(wide, copy=False) for array in arrays), weights)).astype(dtype)


def _mean(library: Any, values: Iterator[Any], weights: Sequence[float]) -> Any:
    """The average of floats, in a new array; rounding cannot lead out of the range of the values."""
    _, exponent = math.frexp(math.fsum(weights))
    parts = [math.ldexp(weight, -exponent) for weight in weights]  # at most 1 together, and no digit is lost
    low = high = next(values)
    total = parts[0] * low
    for value, part in zip(values, parts[1:], strict=True):
        total += part * value
        low, high = library.minimum(low, value), library.maximum(high, value)
    return library.maximum(low, library.minimum(high, total / math.fsum(parts)))


def _mean_of_integers(arrays: Sequence[Array], weights: Sequence[float]) -> Array:
    """The average of integers, rounded: the least of them and what the others have beyond it."""
    low, high = arrays[0], arrays[0]
    for array in arrays[1:]:
        low, high = np.minimum(low, array), np.maximum(high, array)
    with np.errstate(over="ignore"):  # differences of 64 bits are right when they wrap around
        start, end = low.astype(np.uint64), high.astype(np.uint64)
        beyond = sum(w * (a.astype(np.uint64) - start).astype(float) for a, w in zip(arrays, weights, strict=True))
        mean = beyond / sum(weights)
        steps = np.floor(mean)
        odd = (start + steps.astype(np.uint64)) % 2 == 1
        steps += (mean - steps > 0.5) | ((mean - steps == 0.5) & odd)
        inside = steps < (end - start).astype(float)
        return np.where(inside, start + np.where(inside, steps, 0).astype(np.uint64), end).astype(low.dtype)
