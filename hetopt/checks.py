"""Validation helpers: each returns the checked value or raises naming the key, its value and what would be right."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

from hetopt.errors import HetoptError, InvalidInstance, UnknownName

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """A dict that cannot be changed, so that frozen dataclasses may hold it, hash it and pickle it."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: this mapping is read-only."""
        raise TypeError("this mapping is read-only; make a changed copy with dict(mapping) or .replace()")

    __setitem__ = __delitem__ = pop = popitem = clear = update = setdefault = __ior__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type[FrozenDict[K, V]], tuple[dict[K, V]]]:
        return (type(self), (dict(self),))


def number(value: Any, key: str, *, least: float = 0.0, strict: bool = False, finite: bool = True) -> float:
    """``value`` as a float that is at least (``strict``: more than) ``least``."""
    if type(value) is float and least < value < math.inf:
        return value
    wanted = f"a {'finite ' if finite else ''}number {'>' if strict else '>='} {least:g}"
    try:
        result = float(value)
    except (TypeError, ValueError):
        raise InvalidInstance(f"{key} is {value!r}; it must be {wanted}") from None
    bad = math.isnan(result) or (finite and math.isinf(result)) or result < least or (strict and result == least)
    if bad or isinstance(value, bool):
        raise InvalidInstance(f"{key} is {value!r}; it must be {wanted}")
    return result


def count(value: Any, key: str, *, least: int = 0) -> int:
    """``value`` as an integer that is at least ``least``; floats with a fraction are refused."""
    result = number(value, key, least=least)
    if result != int(result):
        raise InvalidInstance(f"{key} is {value!r}; it must be a whole number >= {least}")
    return int(result)


def text(value: Any, key: str) -> str:
    """``value`` as a non-empty name without line breaks."""
    if not isinstance(value, str) or not value.strip() or any(c in value for c in "\n\r\t\0"):
        raise InvalidInstance(f"{key} is {value!r}; it must be a non-empty name on one line")
    return value


def unique(names: Iterable[str], what: str) -> None:
    """Refuse a name that occurs twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidInstance(f"{what} {name!r} occurs twice; every {what} needs its own name")
        seen.add(name)


def known(name: str, names: Iterable[str], key: str, what: str) -> str:
    """``name`` if it is one of ``names``; else an error that lists them and the nearest."""
    names = list(names)
    if name not in names:
        raise InvalidInstance(f"{key} names {what} {name!r}, which does not exist; {choices(name, names)}")
    return name


def choices(name: str, names: Iterable[str]) -> str:
    """The end of an error message: the nearest of ``names`` and, where few, all of them."""
    names = sorted(names)
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    listed = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return f"{hint}known: {listed or 'none'}"


def lookup(table: Mapping[str, V], name: str, what: str) -> V:
    """``table[name]``, or :class:`UnknownName` listing what there is."""
    try:
        return table[name]
    except KeyError:
        raise UnknownName(f"there is no {what} {name!r}; {choices(name, table)}") from None


def mapping(value: Any, key: str) -> Mapping[str, Any]:
    """``value`` if it is a mapping with text keys."""
    if not isinstance(value, Mapping):
        raise InvalidInstance(f"{key} is {value!r}; it must be a mapping from names to values")
    for name in value:
        text(name, f"a key of {key}")
    return value


def at_least(value: Any, key: str, least: float, error: type[HetoptError], *, strict: bool = False) -> float:
    """Like :func:`number`, raising ``error`` (settings of policies raise ``InvalidOption``)."""
    try:
        return number(value, key, least=least, strict=strict)
    except InvalidInstance as problem:
        raise error(str(problem)) from None
