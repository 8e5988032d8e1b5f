"""Validation helpers: each returns the checked value, or raises an error with key, value and allowed values."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from numbers import Real
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

from hetopt.errors import HetoptError, InvalidInstance, InvalidOption, KeyPath, MissingPackage, UnknownName

K = TypeVar("K")
V = TypeVar("V")

Key: TypeAlias = str | KeyPath
"""The name of a value in messages: an argument, or a path."""


class FrozenDict(dict[K, V]):
    """A dict that cannot be changed, so that frozen dataclasses may hold it, hash it and pickle it."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Raise: this mapping is read-only."""
        raise TypeError("this mapping is read-only; make a changed copy with dict(mapping) or .replace()")

    __setitem__ = __delitem__ = pop = popitem = clear = update = setdefault = __ior__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type[FrozenDict[K, V]], tuple[dict[K, V]]]:
        return (type(self), (dict(self),))


MOST = 1e18
"""Largest number accepted. Seconds, bytes and work stay far below it; sums and products of such numbers stay finite."""

LEAST = 1 / MOST
"""Smallest positive speed or weight accepted. Solvers drop smaller coefficients, and products of them underflow."""

MOST_COUNTED = 10**9
"""Largest number of GPUs accepted."""


def require(package: str) -> None:
    """Raise :class:`~hetopt.errors.MissingPackage` unless the package (of an extra of hetopt) is installed."""
    if find_spec(package) is None:
        raise MissingPackage(package)


def number(value: Any, key: Key, *, least: float = 0.0, strict: bool = False) -> float:
    """``value`` as a float from ``least`` (``strict``: above it) to :data:`MOST`; text is refused."""
    if type(value) is float and (value > least or (value == least and not strict)) and value <= MOST:
        return value
    return _fit(value, key, unfit(value, least=least, strict=strict))


def coefficient(value: Any, key: Key, *, strict: bool = False) -> float:
    """A speed or a weight as a float: zero (not if ``strict``), or from :data:`LEAST` to :data:`MOST`."""
    if type(value) is float and (LEAST <= value <= MOST or (value == 0 and not strict)):
        return value
    return _fit(value, key, unfit(value, strict=strict, smallest=LEAST))


def count(value: Any, key: Key, *, least: int = 0) -> int:
    """``value`` as an integer from ``least`` to :data:`MOST_COUNTED`; floats with a fraction are refused."""
    return int(_fit(value, key, unfit_count(value, least)))


NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
"""A decimal number as text."""

CONVERT = "convert it with float"
"""Advice for a number given as text, in Python."""


def unfit(
    value: Any,
    *,
    least: float = 0.0,
    strict: bool = False,
    smallest: float = 0.0,
    alternative: str = "",
    remedy: str = CONVERT,
) -> str:
    """The requirement that ``value`` violates, in words; empty if it is a number within the limits.

    Parameters
    ----------
    least, strict:
        Lower bound (``strict``: exclusive).
    smallest:
        Smallest value other than zero.
    alternative:
        Text appended to the requirement: what is accepted instead of a number.
    remedy:
        Advice for a number given as text.
    """
    result = _float(value)
    if not (result > least or (result == least and not strict)) or math.isinf(result):  # NaN compares false
        return f"a finite number {'>' if strict else '>='} {least:g}{alternative}{_hint(value, remedy)}"
    if result > MOST:
        return f"at most {MOST:g}"
    if 0 < result < smallest:
        return f"at least {smallest:g}" + ("" if strict else ", or 0")
    return ""


def unfit_count(value: Any, least: int = 0, *, remedy: str = CONVERT) -> str:
    """As :func:`unfit`, for whole numbers from ``least`` to :data:`MOST_COUNTED`."""
    result = _float(value)
    if not result >= least or math.isinf(result) or result != int(result):
        return f"a whole number >= {least}{_hint(value, remedy)}"
    return f"at most {MOST_COUNTED:g}" if result > MOST_COUNTED else ""


def _fit(value: Any, key: Key, wanted: str) -> float:
    if wanted:
        raise InvalidInstance(f"is {shown(value)}; it must be {wanted}", key)
    return float(value)


def _float(value: Any) -> float:
    """``value`` as a float, NaN if it is not a number."""
    if not is_real(type(value)):
        return math.nan
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):
        return math.nan


def is_real(cls: type) -> bool:
    """Whether values of that class count as numbers; text, booleans and numpy's durations do not."""
    return cls is float or (issubclass(cls, Real) and cls.__name__ not in ("bool", "timedelta64"))


def is_boolean(value: Any) -> bool:
    """Whether ``value`` is True or False, of Python or numpy (which is not imported: that takes 50 ms)."""
    return type(value).__name__ == "bool"


def _hint(value: Any, remedy: str) -> str:
    """Advice for a boolean, or a number given as text."""
    if is_boolean(value):
        return " (True and False are not numbers; write 1 or 0)"
    if isinstance(value, str) and NUMBER.fullmatch(value.strip()):
        return f" (text is not a number; {remedy})"
    return ""


def is_text(value: Any) -> bool:
    """Whether ``value`` can be a name: text that is not blank, without line breaks or control characters."""
    return isinstance(value, str) and value.isprintable() and not value.isspace() and value != ""


def text(value: Any, key: Key) -> str:
    """``value`` as a non-empty name without line breaks."""
    if not is_text(value):
        raise InvalidInstance(f"is {shown(value)}; it must be a non-empty name on one line", key)
    return str(value)


NAME_RULE = "a name of at most 63 letters, digits, '.', '_', '+' and '-' that begins with a letter or digit"
"""What a name must be that stands in paths and tags: of a job, a tenant, a GPU type, or a node of a cluster."""


def is_name(value: object) -> bool:
    """Whether ``value`` obeys :data:`NAME_RULE`."""
    return isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,62}", value) is not None


def check_name(value: object, key: Key) -> str:
    """``value`` if it obeys :data:`NAME_RULE`."""
    if not is_name(value):
        raise InvalidOption(f"is {shown(value)}; it must be {NAME_RULE}", key)
    return str(value)


def unique(names: Iterable[str], what: str) -> None:
    """Refuse a name that occurs twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidInstance(f"{what} {name!r} occurs twice; every {what} needs its own name")
        seen.add(name)


def known(name: str, names: Collection[str], key: Key, what: str, error: type[HetoptError] = InvalidInstance) -> str:
    """``name`` if it is one of ``names``; else an error that lists them and the nearest."""
    if name not in names:
        raise error(f"names {what} {name!r}, which does not exist; {choices(name, names)}", key)
    return name


def choices(name: str, names: Iterable[str]) -> str:
    """The end of an error message: the nearest of ``names``, and the first 20 of them."""
    names = sorted(names)
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    listed = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return f"{hint}known: {listed or 'none'}"


def lookup(table: Mapping[str, V], name: str, what: str) -> V:
    """``table[name]``; a missing name raises :class:`UnknownName`, which lists the known ones."""
    try:
        return table[name]
    except KeyError:
        raise UnknownName(f"there is no {what} {name!r}; {choices(name, table)}") from None


def mapping(value: Any, key: Key, error: type[HetoptError] = InvalidInstance) -> Mapping[str, Any]:
    """``value`` if it is a mapping with text keys."""
    any_mapping(value, key, error, "from names to values")
    try:  # faster than is_text for every key
        good = "".join(value).isprintable() and all(map(str.strip, value))
    except TypeError:
        good = False
    if not good:
        wrong = next(name for name in value if not is_text(name))
        raise error(f"has the key {wrong!r}; it must be a non-empty name on one line", key)
    return cast(Mapping[str, Any], value)


def any_mapping(value: Any, key: Key, error: type[HetoptError], what: str) -> Mapping[Any, Any]:
    """``value`` if it is a mapping, whatever its keys; ``what``: from what to what, in messages."""
    if not isinstance(value, (dict, Mapping)):  # dict first: the abstract test is slow
        raise error(f"is {shown(value)}; it must be a mapping {what}", key)
    return value


def members(values: Any, cls: type[V], key: Key, error: type[HetoptError] = InvalidInstance) -> tuple[V, ...]:
    """``values`` as a tuple of instances of ``cls``."""
    if type(values) is tuple and all(type(item) is cls for item in values):
        return values
    wanted = f"it must be a sequence of {cls.__name__}"
    if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
        raise error(f"is {shown(values)}; {wanted}", key)
    items = tuple(values)
    for i, item in enumerate(items):
        if not isinstance(item, cls):
            path = (key,) if isinstance(key, str) else key
            raise error(f"is {shown(item)}; {wanted}", (*path, i))
    return items


def at_least(
    value: Any,
    key: Key,
    least: float,
    error: type[HetoptError],
    *,
    strict: bool = False,
    most: float = MOST,
    below: float = math.inf,
) -> float:
    """Like :func:`number`, raising ``error`` (settings of policies raise ``InvalidOption``).

    ``value`` is at most ``most``, and less than ``below``.
    """
    if wanted := unfit(value, least=least, strict=strict):
        raise error(f"is {shown(value)}; it must be {wanted}", key)
    if value > most:
        raise error(f"is {shown(value)}; it must be at most {most:g}", key)
    if value >= below:
        raise error(f"is {shown(value)}; it must be below {below:g}", key)
    return float(value)


def one_of(value: Any, options: Iterable[str], key: Key, error: type[HetoptError] = InvalidOption) -> str:
    """``value`` if it is one of these texts; else an error that lists them and the nearest."""
    options = tuple(options)
    if not isinstance(value, str) or value not in options:
        raise error(f"is {shown(value)}; {choices(value if isinstance(value, str) else '', options)}", key)
    return value


def whole(value: Any, key: Key, least: int, most: int = MOST_COUNTED) -> int:
    """``value``, a setting, as a whole number from ``least`` to ``most``."""
    wanted = unfit_count(value, least)
    if wanted or value > most:
        limits = wanted if most == MOST_COUNTED else f"a whole number from {least} to {most}"
        raise InvalidOption(f"is {shown(value)}; it must be {limits}", key)
    return int(value)


def boolean(value: Any, key: Key, error: type[HetoptError] = InvalidOption) -> bool:
    """``value`` if it is True or False; text and numbers are neither."""
    if not is_boolean(value):
        raise error(f"is {shown(value)}; it must be True or False", key)
    return bool(value)


def check_round_seconds(checked: Any, *, or_none: bool = False) -> None:
    """Raise ``InvalidOption`` unless ``checked.round_seconds`` is a positive number (``or_none``: or None)."""
    if checked.round_seconds is not None or not or_none:
        at_least(checked.round_seconds, f"{type(checked).__name__}.round_seconds", 0.0, InvalidOption, strict=True)


def check_no_classes(checked: Any, *keys: str) -> None:
    """Raise ``InvalidOption`` if one of these attributes of ``checked`` is a class instead of an instance."""
    for key in keys:
        if isinstance(value := getattr(checked, key), type):
            name = value.__name__
            raise InvalidOption(f"is the class {name}; give an instance: {name}()", f"{type(checked).__name__}.{key}")


def counted(number: float | str, noun: str) -> str:
    """``number`` and ``noun``, in the plural unless the number is 1: "1 GPU", "2 GPUs"; floats as by ``:g``.

    The noun's plural ends in "s". Text is a number that is formatted already.
    """
    text = number if isinstance(number, str) else f"{number:g}" if isinstance(number, float) else str(number)
    return f"{text} {noun}{'' if text == '1' else 's'}"


def shown(value: Any) -> str:
    """``repr(value)`` on one line, for messages; long ones are cut."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:50]}… ({type(value).__name__})"


def expect(cls: type[V], value: Any, key: Key, error: type[HetoptError] = InvalidInstance) -> V:
    """``value`` if it is an instance of ``cls``."""
    if not isinstance(value, cls):
        raise error(f"is {shown(value)}, which is not a hetopt {cls.__name__}", key)
    return value
