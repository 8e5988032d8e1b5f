"""The weighted average of the parameters of a job's copies, [Hadar, section V-B].

No framework is imported: tensors of PyTorch are recognised where PyTorch is loaded already.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
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

    - Floats: sum_c w[c] x[c] / sum_c w[c] for each number, never outside the range of the copies' numbers; where all
      copies agree it is bitwise their value. The sum is in float64 for NumPy (longer types in their own precision), in
      float32 for PyTorch (float64 in its own).
    - Integers, such as ``num_batches_tracked`` of a batch normalisation: the same in float64, rounded to the nearest
      (halfway: to the even one). Exact up to 2**53.
    - Booleans: true where copies with at least half of the weight have true.

    Beside the result it needs memory for some arrays of the size of the largest entry, for any number of copies.

    Parameters
    ----------
    states:
        Of each copy: name -> NumPy array or scalar, PyTorch tensor, or Python number. All have the same names, and
        under a name the same kind, shape and dtype. Devices may differ.
    weights:
        (copies,) >= 0, not all 0, e.g. the steps that each copy has trained; only their ratios count. A copy of weight
        0 is left out. None: all equal.
    finite:
        Refuse NaN and infinity in copies of positive weight: a diverged copy would spoil the model.

    Returns
    -------
    dict
        In the order of the first state; each value of the kind, dtype and device of the first state's. Nothing of it
        shares memory with ``states``.

    Raises
    ------
    InvalidOption
        No states; names, shapes or dtypes that differ; entries that are not numbers; wrong weights; or, with
        ``finite``, an entry that is not finite.
    """
    _check_names(states)
    parts = _weights(weights, len(states))
    for name in states[0]:
        layouts = [_layout(state[name], f"states[{c}][{name!r}]") for c, state in enumerate(states)]
        for c, layout in enumerate(layouts):
            if layout != layouts[0]:
                raise InvalidOption(f"is {layout}; it must be {layouts[0]} as in states[0]", f"states[{c}][{name!r}]")
    used = [(c, part) for c, part in enumerate(parts) if part > 0]
    for c, _ in used if finite else ():
        if (wrong := diverged(states[c])) is not None:
            text = "has NaN or infinite entries; give a copy that has diverged weight 0, or use finite=False"
            raise InvalidOption(text, f"states[{c}][{wrong!r}]")
    part_of = [part for _, part in used]
    return {name: _merged([states[c][name] for c, _ in used], part_of, first) for name, first in states[0].items()}


def diverged(state: State) -> str | None:
    """Name of the first entry with NaN or infinity; None without one."""
    for name, value in state.items():
        if _is_tensor(value):
            finite = bool(sys.modules["torch"].isfinite(value).all())
        else:
            finite = np.asarray(value).dtype.kind != "f" or bool(np.isfinite(value).all())
        if not finite:
            return name
    return None


def _check_names(states: Sequence[State]) -> None:
    if isinstance(states, Mapping) or not states:
        text = f"is {shown(states)}; it must be a sequence with a state of each copy, at least one"
        raise InvalidOption(text, "states")
    for c, state in enumerate(states):
        if not isinstance(state, Mapping):
            raise InvalidOption(f"is {shown(state)}; it must be a mapping from names to arrays", f"states[{c}]")
        missing, extra = sorted(states[0].keys() - state.keys()), sorted(state.keys() - states[0].keys())
        wrong = [f"lacks {', '.join(map(repr, missing[:5]))}"] * bool(missing)
        wrong += [f"has also {', '.join(map(repr, extra[:5]))}"] * bool(extra)
        if wrong:
            raise InvalidOption(f"states[{c}] {' and '.join(wrong)}; all copies must have the names of states[0]")


def _weights(weights: Sequence[float] | None, copies: int) -> list[float]:
    """(copies,) the checked weights."""
    if isinstance(weights, Mapping) or not (weights is None or isinstance(weights, Iterable)):
        text = f"is {shown(weights)}; it must be a sequence with a number for each state, in order"
        raise InvalidOption(text, "weights")
    given = [1.0] * copies if weights is None else list(weights)
    if len(given) != copies:
        raise InvalidOption(f"has {len(given)} entries for {copies} states; it must have one for each", "weights")
    checked = [at_least(weight, f"weights[{c}]", 0.0, InvalidOption) for c, weight in enumerate(given)]
    if not any(checked):
        raise InvalidOption(f"is {shown(weights)}; at least one weight must be > 0", "weights")
    return checked


def _layout(value: Any, key: str) -> str:
    """Kind, shape and dtype of an entry, as text."""
    if _is_tensor(value):
        valid, text = not value.is_complex(), f"a tensor {tuple(value.shape)} of {value.dtype}"
    else:
        kind = np.asarray(value).dtype.kind if isinstance(value, (bool, int, float, np.generic, np.ndarray)) else "O"
        valid, text = kind in "fiub", f"a number of type {type(value).__name__}"
        if isinstance(value, np.ndarray):
            text = f"an array {value.shape} of {value.dtype}"
    if not valid:
        raise InvalidOption(f"is {shown(value)}; it must be an array of floats, integers or booleans", key)
    return text


def _is_tensor(value: Any) -> bool:
    """Whether it is a tensor of PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _merged(values: Sequence[Any], weights: Sequence[float], first: Any) -> Any:
    """The average of one entry, of the kind and on the device of ``first``."""
    if not _is_tensor(first):
        average = _average([np.asarray(value) for value in values], weights)
        if isinstance(first, np.ndarray):
            return average
        return average[()] if isinstance(first, np.generic) else average.item()
    torch = sys.modules["torch"]
    if not first.is_floating_point():
        average = _average([value.detach().cpu().numpy() for value in values], weights)
        return torch.as_tensor(average, device=first.device)
    wide = torch.promote_types(first.dtype, torch.float32)
    floats = (value.detach().to(device=first.device, dtype=wide) for value in values)
    return _mean(torch, floats, weights).to(first.dtype)


def _average(arrays: Sequence[Array], weights: Sequence[float]) -> Array:
    """The average of NumPy arrays, in their dtype."""
    dtype = arrays[0].dtype
    wide = np.result_type(dtype, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # the range of the copies limits what overflows
        mean = np.asarray(_mean(np, (array.astype(wide, copy=False) for array in arrays), weights))
        if dtype.kind == "f":
            return mean.astype(dtype)
        if dtype.kind == "b":
            return np.asarray(mean >= 0.5)
        high = functools.reduce(np.maximum, arrays)  # as a float it may be rounded up, out of the range of the dtype
        return np.where(mean < high, np.rint(mean).astype(dtype), high)


def _mean(library: Any, values: Iterable[Any], weights: Sequence[float]) -> Any:
    """The average of floats, in a new array; it stays in the range of the values whatever is rounded."""
    _, exponent = math.frexp(math.fsum(weights))
    parts = [math.ldexp(weight, -exponent) for weight in weights]  # sum to at most 1, so no sum overflows
    rest = zip(values, parts, strict=True)
    low, part = next(rest)
    total, high = part * low, low
    for value, part in rest:
        total += part * value
        low, high = library.minimum(low, value), library.maximum(high, value)
    return library.maximum(low, library.minimum(high, total / math.fsum(parts)))
