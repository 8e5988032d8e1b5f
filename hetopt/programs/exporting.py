"""Programs as files that other solvers and people read: LP, MPS and JSON, with readable names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import pyomo.environ as pyo
from scipy import sparse

from hetopt.checks import shown
from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption
from hetopt.files.saving import check_free, save
from hetopt.programs.formulation import Formulation
from hetopt.programs.json_file import json_text
from hetopt.programs.linear import LinearProgram
from hetopt.programs.lp_file import lp_text
from hetopt.programs.mps_file import mps_text
from hetopt.solving.optimising import optimise
from hetopt.solving.policies import Policy


def export(
    what: LinearProgram | Formulation | Policy,
    path: str | Path,
    instance: Instance | None = None,
    *,
    form: str | None = None,
    state: Any = None,
    overwrite: bool = False,
) -> Path:
    """Write a program to a file, which appears whole or not at all.

    Parameters
    ----------
    what:
        A program, or a formulation together with ``instance``; rows that a formulation adds lazily are all written.
        Of a policy that solves a program each round (``hetopt.models.fft.FFT()``) it is that of the round that begins
        with ``state``. LP and MPS files hold a single objective: of a formulation or policy with several priorities
        the first ones are maximised before, and stand in the file as the rows that keep them.
    path:
        Where to.
    instance:
        The data of a formulation or policy.
    form:
        ``"lp"`` (CPLEX LP), ``"mps"`` (free MPS) or ``"json"``; None: as the ending of ``path`` says. Names in LP
        and MPS files are written by ``lp_name`` and ``mps_name`` of :mod:`hetopt.programs.names` and can be read back;
        JSON keeps them as they are.
    state:
        Of the policy, from the round before; None: its first round.
    overwrite:
        Whether to replace a file that is there.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InvalidOption
        An unknown format; a formulation without an instance; a policy that is a procedure, without a program; a program
        with earlier objectives as LP or MPS, which hold a single one; one without columns as LP, which needs some.
    NotLinear
        A component is concave.
    UnusableFile
        The file is there already and ``overwrite`` is False, or it cannot be written; nothing was written.
    """
    if not isinstance(path, str | PathLike):
        raise InvalidOption(f"path is {shown(path)}; it must name a file: export(what, path, instance)")
    target = Path(path)
    kind = form if form is not None else target.suffix.removeprefix(".").lower()
    if kind not in _WRITERS:
        raise InvalidOption(f"the format is {kind!r}; it must be one of {', '.join(_WRITERS)} (form=…, or the ending)")
    check_free(target, overwrite=overwrite)
    program = what if isinstance(what, LinearProgram) else stated_program(what, instance, state)
    if program.earlier and kind in ("lp", "mps") and not isinstance(what, LinearProgram):
        program = optimise(program).program
    save(_WRITERS[kind](_tidy(program)), target, overwrite=overwrite)
    return target


def _tidy(program: LinearProgram) -> LinearProgram:
    """``program`` without coefficients of 0, and without the sign of a zero, which text would show."""
    matrix = sparse.csc_array(program.A, copy=True)
    matrix.eliminate_zeros()
    arrays = ("c", "row_lower", "row_upper", "col_lower", "col_upper")
    return replace(program, A=matrix, **{key: getattr(program, key) + 0.0 for key in arrays})


def stated_program(what: Formulation | Policy, instance: Instance | None, state: Any = None) -> LinearProgram:
    """The program of a formulation, or of a policy's next round, with every row that would be added lazily."""
    if isinstance(what, pyo.Block):
        raise InvalidOption(
            f"{what.name!r} is a Pyomo model; export hetopt.from_pyomo(model), or call model.write(path) of Pyomo"
        )
    if instance is None:
        raise InvalidOption("instance is None; a formulation is exported together with its data: instance=…")
    formulation = what
    if not isinstance(formulation, Formulation):
        make = getattr(what, "formulation", None)
        if make is None:
            raise InvalidOption(f"{shown(what)} is a procedure, not a program; there is nothing to export")
        formulation = make(instance, state)
    return formulation.compile(instance)


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
