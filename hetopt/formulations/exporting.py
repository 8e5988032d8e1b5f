"""Export of programs to LP, MPS and JSON files with readable names."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import pyomo.environ as pyo
from scipy import sparse

from hetopt.checks import counted, shown
from hetopt.data.instance import Instance
from hetopt.data.saving import check_free, save
from hetopt.errors import InvalidOption
from hetopt.formulations.formulation import Formulation
from hetopt.formulations.policies import Policy, program_of
from hetopt.programs.json_file import json_text
from hetopt.programs.linear import LinearProgram
from hetopt.programs.lp_file import lp_text
from hetopt.programs.mps_file import mps_text
from hetopt.solving.optimising import optimise


def export(
    what: LinearProgram | Formulation | Policy,
    path: str | Path,
    instance: Instance | None = None,
    *,
    form: str | None = None,
    state: Any = None,
    overwrite: bool = False,
) -> Path:
    """Write a program to a file, atomically.

    Parameters
    ----------
    what:
        A program, or a formulation together with ``instance``; all lazy rows are written. For a policy that solves a
        program each round (``hetopt.models.fft.FFT()``), the program of the round that begins with ``state``. LP and
        MPS files have a single objective: with several priorities, the higher ones are maximised first and written as
        rows that keep their optima.
    path:
        The file to write.
    instance:
        The data of a formulation or policy.
    form:
        ``"lp"`` (CPLEX LP), ``"mps"`` (free MPS) or ``"json"``; None: by the suffix of ``path``. Names in LP and MPS
        files are encoded (:mod:`hetopt.programs.encoded_names`) and can be read back; JSON keeps them unchanged.
    state:
        State of the policy after the previous round; None: the first round.
    overwrite:
        Whether to replace an existing file.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InvalidOption
        An unknown format; a formulation without an instance; a policy without a program (a procedure); a program with
        earlier objectives in LP or MPS format; a program without columns in LP format.
    NotLinear
        A component is concave.
    UnusableFile
        The file exists and ``overwrite`` is False, or it cannot be written; nothing was written.
    """
    if not isinstance(path, str | PathLike):
        raise InvalidOption(f"is {shown(path)}; it must name a file: export(what, path, instance)", "path")
    target = Path(path)
    form = target.suffix.removeprefix(".").lower() if form is None else form
    if form not in _WRITERS:
        raise InvalidOption(
            f"is {form!r}; it must be one of {', '.join(_WRITERS)} (form=…, or the ending)", "the format"
        )
    check_free(target, overwrite=overwrite)
    program = what if isinstance(what, LinearProgram) else stated_program(what, instance, state)
    if program.earlier and form != "json":
        if isinstance(what, LinearProgram):
            raise InvalidOption(
                f"the program maximises {counted(len(program.earlier), 'objective')} before its last, and LP and MPS "
                "files hold one; write JSON, or export hetopt.optimise(program).program, in which the earlier are rows"
            )
        program = optimise(program).program
    save(_WRITERS[form](_tidy(program)), target, overwrite=overwrite)
    return target


def _tidy(program: LinearProgram) -> LinearProgram:
    """``program`` without zero coefficients and negative zeros."""
    matrix = sparse.csc_array(program.A, copy=True)
    matrix.eliminate_zeros()
    arrays = ("c", "row_lower", "row_upper", "col_lower", "col_upper")
    return replace(program, A=matrix, **{key: getattr(program, key) + 0.0 for key in arrays})


def stated_program(what: Formulation | Policy, instance: Instance | None, state: Any = None) -> LinearProgram:
    """The program of a formulation, or of a policy's next round, with all lazy rows."""
    if isinstance(what, pyo.Block):
        raise InvalidOption(
            f"{what.name!r} is a Pyomo model; export hetopt.from_pyomo(model), or call model.write(path) of Pyomo"
        )
    formulation, data = formulation_and_data(what, instance, state)
    return formulation.compile(data)


def formulation_and_data(
    what: Formulation | Policy, instance: Instance | None, state: Any
) -> tuple[Formulation, Instance]:
    """A formulation itself, or that of a policy's round that begins with ``state``; and its data.

    Raises
    ------
    InvalidOption
        There is no instance, or the policy has no program (a procedure).
    """
    if instance is None:
        raise InvalidOption("is None; a formulation needs its data: instance=…", "instance")
    if isinstance(what, Formulation):
        return what, instance
    stated = program_of(what, instance, state)
    if stated is None:
        raise InvalidOption(f"{type(what).__name__} is a procedure, not a program")
    return stated


_WRITERS = {"lp": lp_text, "mps": mps_text, "json": json_text}
