"""Linear programs as JSON, with exact numbers and names, and validated reading of such files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hetopt.data.array_types import Floats
from hetopt.errors import InvalidFormulation, UnusableFile
from hetopt.programs.linear import LinearProgram, Objective

FORMAT, VERSION, SENSE = "hetopt-linear-program", 1, "maximise"
_Entry = TypeVar("_Entry", bound=np.generic)


def json_text(program: LinearProgram) -> str:
    """``program`` as JSON; infinite bounds are null, the matrix is by columns (CSC)."""
    matrix = sparse.csc_array(program.A)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "sense": SENSE,
        "offset": program.offset,
        "priority": program.priority,
        "columns": {
            "name": list(program.col_names),
            "objective": program.c.tolist(),
            "lower": _finite(program.col_lower),
            "upper": _finite(program.col_upper),
            "integer": program.integer.tolist(),
            "unit": None if program.col_unit is None else program.col_unit.tolist(),
        },
        "rows": {
            "name": list(program.row_names),
            "lower": _finite(program.row_lower),
            "upper": _finite(program.row_upper),
            "unit": None if program.row_unit is None else program.row_unit.tolist(),
        },
        "matrix": {"start": matrix.indptr.tolist(), "row": matrix.indices.tolist(), "value": matrix.data.tolist()},
        "share": None if program.share is None else program.share.tolist(),
        "earlier": [_objective(objective) for objective in program.earlier],
        "kept": [{"row": row, **_objective(objective)} for row, objective in program.kept.items()],
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False)


def _objective(objective: Objective) -> dict[str, Any]:
    return {"objective": objective.c.tolist(), "offset": objective.offset, "priority": objective.priority}


def _finite(bounds: Floats) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in bounds.tolist()]


def from_json(source: str | Path) -> LinearProgram:
    """The program in a JSON file that :func:`~hetopt.formulations.exporting.export` has written.

    Raises
    ------
    UnusableFile
        It cannot be read.
    InvalidFormulation
        It is not a program, or has inconsistent lists or invalid values, such as a position out of range or a number
        that is not finite.
    """
    try:
        text = Path(source).read_text(encoding="utf-8")
    except UnicodeDecodeError as found:
        raise InvalidFormulation(f"is not JSON in UTF-8: {found}").in_file(str(source)) from None
    except (OSError, ValueError) as found:  # ValueError: a NUL in the name
        raise UnusableFile.of(found, str(source)[:200], "read") from None
    try:
        return _program(json.loads(text, parse_constant=_no_number))
    except RecursionError:
        problem = "it is nested too deeply"
    except KeyError as missing:
        problem = f"it has no {missing}"
    except (TypeError, ValueError, OverflowError) as found:  # JSON's own errors are ValueErrors
        problem = str(found)
    raise InvalidFormulation(f"is not a linear program as hetopt.export writes it: {problem}").in_file(str(source))


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number; missing bounds are null")


def _program(content: Any) -> LinearProgram:
    if not isinstance(content, dict):
        raise TypeError("it does not contain an object {...}")
    for key, value in (("format", FORMAT), ("version", VERSION), ("sense", SENSE)):
        if content[key] != value:
            raise ValueError(f"{key} is {content[key]!r}; it must be {value!r}")
    columns, rows, matrix = (_object(content[key], key) for key in ("columns", "rows", "matrix"))
    earlier, kept_rows = (_list(content[key], key) for key in ("earlier", "kept"))
    share = content["share"]
    row_names, col_names = _names(rows["name"], "rows"), _names(columns["name"], "columns")
    m, n = len(row_names), len(col_names)
    kept = {
        _position(_object(entry, "an entry of kept")["row"], m, "kept.row"): _read_objective(entry, n)
        for entry in kept_rows
    }
    return LinearProgram(
        c=_numbers(columns["objective"], n, "columns.objective"),
        A=_matrix(matrix, m, n),
        row_lower=_bounds(rows["lower"], m, -np.inf, "rows.lower"),
        row_upper=_bounds(rows["upper"], m, np.inf, "rows.upper"),
        col_lower=_bounds(columns["lower"], n, -np.inf, "columns.lower"),
        col_upper=_bounds(columns["upper"], n, np.inf, "columns.upper"),
        integer=_flags(columns["integer"], n),
        row_names=row_names,
        col_names=col_names,
        offset=float(_numbers([content["offset"]], 1, "offset")[0]),
        share=None if share is None else _shares(share, n),
        priority=int(_integers([content["priority"]], "priority")[0]),
        earlier=tuple(_read_objective(entry, n) for entry in earlier),
        kept=kept,
        row_unit=_units(rows, m, "rows"),
        col_unit=_units(columns, n, "columns"),
    )


def _object(value: Any, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{key} must be an object {{...}}")
    return value


def _list(value: Any, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{key} must be a list [...]")
    return value


def _read_objective(entry: Any, n: int) -> Objective:
    entry = _object(entry, "an entry of earlier or kept")
    offset = float(_numbers([entry["offset"]], 1, "offset")[0])
    priority = int(_integers([entry["priority"]], "priority")[0])
    return Objective(_numbers(entry["objective"], n, "objective"), offset, priority)


def _names(values: Any, key: str) -> list[str]:
    names = _list(values, f"{key}.name")
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"{key}.name must be a list of text")
    return names


def _units(content: Any, size: int, key: str) -> Floats | None:
    if content.get("unit") is None:
        return None
    units = _numbers(content["unit"], size, f"{key}.unit")
    if (units <= 0).any():
        raise ValueError(f"{key}.unit has {units[units <= 0][0]:g}; units must be positive")
    return units


def _flags(values: Any, size: int) -> NDArray[np.bool_]:
    if not all(isinstance(value, bool) for value in _list(values, "columns.integer")):
        raise TypeError("columns.integer must be a list of true and false")
    return _sized(np.array(values, dtype=bool), size, "columns.integer")


def _numbers(values: Any, size: int, key: str) -> Floats:
    for value in _list(values, key):
        if type(value) not in (int, float):  # text and true would become numbers
            raise TypeError(f"{key} has {value!r}; it must hold numbers")
    array: Floats = np.array(values, dtype=float)
    if not np.isfinite(array).all():
        raise ValueError(f"{key} has {array[~np.isfinite(array)][0]}; its numbers must be finite")
    return _sized(array, size, key)


def _bounds(values: Any, size: int, none: float, key: str) -> Floats:
    given = np.array([value is not None for value in _list(values, key)], dtype=bool)
    bounds = np.full(len(given), none)
    bounds[given] = _numbers([value for value in values if value is not None], int(given.sum()), key)
    return _sized(bounds, size, key)


def _sized(array: NDArray[_Entry], size: int, key: str) -> NDArray[_Entry]:
    if array.shape != (size,):
        raise ValueError(f"{key} has {array.size} entries; lists must have one entry per row or column, here {size}")
    return array


def _integers(values: Any, key: str) -> NDArray[np.intp]:
    try:
        array = np.array(_list(values, key))
    except ValueError:  # rows of different lengths
        raise ValueError(f"{key} must have rows of the same length") from None
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"{key} must hold whole numbers, of 64 bits at most")
    return array.astype(np.intp)


def _position(value: Any, size: int, key: str) -> int:
    return int(_positions([value], size, key)[0])


def _positions(values: Any, size: int, key: str) -> NDArray[np.intp]:
    array = _integers(values, key)
    bad = array[(array < 0) | (array >= size)]
    if len(bad):
        raise ValueError(f"{key} has {bad[0]}; positions go from 0 to {size - 1}")
    return array


def _shares(values: Any, n: int) -> NDArray[np.intp]:
    share = _positions(values, n, "share")
    if share.ndim != 2:
        raise ValueError("share must be a table of positions, entities by GPU types")
    return share


def _matrix(content: Any, m: int, n: int) -> sparse.csc_array:
    row, start = _positions(content["row"], m, "matrix.row"), _integers(content["start"], "matrix.start")
    value = _numbers(content["value"], len(row), "matrix.value")
    if start.shape != (n + 1,) or start[0] != 0 or start[-1] != len(row) or (np.diff(start) < 0).any():
        raise ValueError(f"matrix.start must rise from 0 to {len(row)}, the length of matrix.row, in {n + 1} entries")
    matrix = sparse.csc_array((value, row, start), shape=(m, n))
    if len(np.unique(np.repeat(np.arange(n), np.diff(start)) * max(m, 1) + row)) < len(row):
        raise ValueError("matrix.row names a row twice in the same column")
    return matrix
