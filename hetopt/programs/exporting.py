"""Programs as files that other solvers and people read: LP, MPS and JSON, with readable names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from scipy import sparse

from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption
from hetopt.files.saving import check_free, save
from hetopt.programs.formulation import Formulation
from hetopt.programs.json_file import json_text
from hetopt.programs.linear import LinearProgram
from hetopt.programs.lp_file import lp_text
from hetopt.programs.mps_file import mps_text
from hetopt.solving.road import compile_program, every_row


def export(
    what: LinearProgram | Formulation,
    path: str | Path,
    instance: Instance | None = None,
    *,
    form: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a program to a file, which appears whole or not at all.

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
    overwrite:
        Whether to replace a file that is there.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InvalidOption
        An unknown format; a formulation without an instance; a component whose lazy rows cannot be stated; a program
        with earlier objectives as LP or MPS, which hold a single one; one without columns as LP, which needs some.
    UnusableFile
        The file is there already and ``overwrite`` is False, or it cannot be written; nothing was written.
    """
    target = Path(path)
    kind = form if form is not None else target.suffix.removeprefix(".").lower()
    if kind not in _WRITERS:
        raise InvalidOption(f"the format is {kind!r}; it must be one of {', '.join(_WRITERS)} (form=…, or the ending)")
    check_free(target, overwrite=overwrite)
    save(_WRITERS[kind](_tidy(_program(what, instance))), target, overwrite=overwrite)
    return target


def _tidy(program: LinearProgram) -> LinearProgram:
    """``program`` without coefficients of 0, and without the sign of a zero, which text would show."""
    matrix = sparse.csc_array(program.A, copy=True)
    matrix.eliminate_zeros()
    arrays = ("c", "row_lower", "row_upper", "col_lower", "col_upper")
    return replace(program, A=matrix, **{key: getattr(program, key) + 0.0 for key in arrays})


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


_WRITERS: dict[str, Callable[[LinearProgram], str]] = {
    "lp": _single(lp_text),
    "mps": _single(mps_text),
    "json": json_text,
}
