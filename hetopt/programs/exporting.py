"""Programs as files that other solvers and people read: LP, MPS and JSON, with readable names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from hetopt.data.instance import Instance
from hetopt.errors import InvalidFormulation, InvalidOption, UnusableFile
from hetopt.programs.formulation import Formulation
from hetopt.programs.linear import LinearProgram, Objective
from hetopt.programs.lp_file import lp_text
from hetopt.programs.mps_file import mps_text
from hetopt.solving.road import compile_program, every_row

FORMAT, VERSION = "hetopt-linear-program", 1


def export(
    what: LinearProgram | Formulation, path: str | Path, instance: Instance | None = None, *, form: str | None = None
) -> Path:
    """Write a program to a file.

    Parameters
    ----------
    what:
        A program, or a formulation together with ``instance``; rows that a formulation adds lazily are all written.
    path:
        Where to.
    instance:
        The data of a formulation.
    form:
        ``"lp"`` (CPLEX LP), ``"mps"`` (free MPS) or ``"json"``; None: as the ending of ``path`` says. Names in LP
        and MPS files are written by ``lp_name`` and ``mps_name`` of :mod:`hetopt.programs.names` and can be read back;
        JSON keeps them as they are.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InvalidOption
        An unknown format; a formulation without an instance; a component whose lazy rows cannot be stated; a program
        with earlier objectives as LP or MPS, which hold a single one.
    UnusableFile
        The file cannot be written.
    """
    target = Path(path)
    kind = form if form is not None else target.suffix.removeprefix(".").lower()
    if kind not in _WRITERS:
        raise InvalidOption(f"the format is {kind!r}; it must be one of {', '.join(_WRITERS)} (form=…, or the ending)")
    text = _WRITERS[kind](_program(what, instance))
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise UnusableFile(f"{target}: {problem.strerror or problem}; nothing was written") from None
    return target


def _program(what: LinearProgram | Formulation, instance: Instance | None) -> LinearProgram:
    if isinstance(what, LinearProgram):
        return what
    if instance is None:
        raise InvalidOption("instance is None; a formulation is exported together with its data: instance=…")
    rows = every_row(what, what.entities(instance))
    return compile_program(what, instance).with_rows(rows)


def _single(write: Callable[[LinearProgram], str]) -> Callable[[LinearProgram], str]:
    def text(program: LinearProgram) -> str:
        if program.earlier:
            raise InvalidOption(
                f"the program maximises {len(program.earlier)} objectives before its last, and LP and MPS files hold "
                "one; write JSON, or export hetopt.optimise(program).program, where the earlier ones are rows"
            )
        return write(program)

    return text


def json_text(program: LinearProgram) -> str:
    """``program`` as JSON; infinite bounds are null, the matrix is by columns (CSC)."""
    matrix = sparse.csc_array(program.A)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "sense": "maximise",
        "offset": program.offset,
        "priority": program.priority,
        "columns": {
            "name": list(program.col_names),
            "objective": program.c.tolist(),
            "lower": _finite(program.col_lower),
            "upper": _finite(program.col_upper),
            "integer": program.integer.tolist(),
        },
        "rows": {
            "name": list(program.row_names),
            "lower": _finite(program.row_lower),
            "upper": _finite(program.row_upper),
        },
        "matrix": {"start": matrix.indptr.tolist(), "row": matrix.indices.tolist(), "value": matrix.data.tolist()},
        "share": None if program.share is None else program.share.tolist(),
        "earlier": [_objective(objective) for objective in program.earlier],
        "kept": [{"row": row, **_objective(objective)} for row, objective in program.kept.items()],
    }
    return json.dumps(content, ensure_ascii=False)


def from_json(source: str | Path) -> LinearProgram:
    """The program in a JSON file that :func:`export` has written.

    Raises
    ------
    UnusableFile
        It cannot be read.
    InvalidFormulation
        It holds no program, or one whose lists do not fit together.
    """
    try:
        text = Path(source).read_text(encoding="utf-8")
    except OSError as problem:
        raise UnusableFile(f"{source}: {problem.strerror or problem}; it cannot be read") from None
    except UnicodeDecodeError as problem:
        raise InvalidFormulation(f"{source}: {problem}; it must be JSON in UTF-8") from None
    try:
        content = json.loads(text)
        if content["format"] != FORMAT or content["version"] != VERSION:
            raise ValueError(f"format and version must be {FORMAT!r} and {VERSION}")  # noqa: TRY301
        program = _from_dict(content)
        _check(program)
    except (KeyError, TypeError, ValueError, IndexError) as problem:  # JSON's own errors are ValueErrors
        raise InvalidFormulation(
            f"{source} is no linear program as hetopt.export writes it: {type(problem).__name__}: {problem}"
        ) from None
    return program


def _from_dict(content: dict[str, Any]) -> LinearProgram:
    columns, rows, matrix = content["columns"], content["rows"], content["matrix"]
    share = content["share"]
    arrays = (np.array(matrix["value"], dtype=float), matrix["row"], matrix["start"])
    return LinearProgram(
        c=np.array(columns["objective"], dtype=float),
        A=sparse.csc_array(arrays, shape=(len(rows["name"]), len(columns["name"]))),
        row_lower=_bounds(rows["lower"], -np.inf),
        row_upper=_bounds(rows["upper"], np.inf),
        col_lower=_bounds(columns["lower"], -np.inf),
        col_upper=_bounds(columns["upper"], np.inf),
        integer=np.array(columns["integer"], dtype=bool),
        row_names=list(rows["name"]),
        col_names=list(columns["name"]),
        offset=float(content["offset"]),
        share=None if share is None else np.array(share, dtype=np.intp),
        priority=int(content["priority"]),
        earlier=tuple(_read_objective(objective) for objective in content["earlier"]),
        kept={int(objective["row"]): _read_objective(objective) for objective in content["kept"]},
    )


def _objective(objective: Objective) -> dict[str, Any]:
    return {"objective": objective.c.tolist(), "offset": objective.offset, "priority": objective.priority}


def _read_objective(content: dict[str, Any]) -> Objective:
    c = np.array(content["objective"], dtype=float)
    return Objective(c, float(content["offset"]), int(content["priority"]))


def _check(program: LinearProgram) -> None:
    rows, columns = len(program.row_names), len(program.col_names)
    others = [objective.c for objective in (*program.earlier, *program.kept.values())]
    long = (program.c, program.col_lower, program.col_upper, program.integer, *others)
    if any(a.shape != (columns,) for a in long) or any(
        a.shape != (rows,) for a in (program.row_lower, program.row_upper)
    ):
        raise ValueError(f"its lists must have one entry per row ({rows}) or column ({columns})")


def _finite(bounds: Any) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in bounds.tolist()]


def _bounds(values: list[float | None], none: float) -> Any:
    return np.array([none if value is None else value for value in values], dtype=float)


_WRITERS: dict[str, Callable[[LinearProgram], str]] = {
    "lp": _single(lp_text),
    "mps": _single(mps_text),
    "json": json_text,
}
