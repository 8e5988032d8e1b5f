"""Programs and their changes as HiGHS takes them, checked."""

from __future__ import annotations

from typing import TypeAlias

import highspy
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from hetopt.data.entities import Floats
from hetopt.errors import InvalidFormulation
from hetopt.programs.linear import LinearProgram
from hetopt.tolerances import SMALLEST_COEFFICIENT

Int32s: TypeAlias = NDArray[np.int32]

LARGEST_COEFFICIENT = 1e15
"""HiGHS rejects coefficients of this size and above."""


def check(status: highspy.HighsStatus, what: str) -> None:
    """Raise :class:`InvalidFormulation` if HiGHS has rejected ``what``."""
    if status == highspy.HighsStatus.kError:
        raise InvalidFormulation(f"HiGHS rejected {what}: wrong sizes or positions, or numbers that are not finite")


def check_sizes(coefficients: Floats, what: str, *, approximate: bool = False) -> None:
    """Raise :class:`InvalidFormulation` if HiGHS would reject or drop coefficients.

    ``approximate``: only if it would reject them.
    """
    size = np.abs(coefficients)
    unfit = size >= LARGEST_COEFFICIENT
    if not approximate:
        unfit |= (size <= SMALLEST_COEFFICIENT) & (size > 0)
    if unfit.any():
        raise InvalidFormulation(
            f"HiGHS does not accept {what}: the coefficient {coefficients[unfit][0]:g} is not between "
            f"{SMALLEST_COEFFICIENT:g} and {LARGEST_COEFFICIENT:g} in size; speeds or weights in the data are too far "
            "apart"
        )


def bounds(index: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> tuple[Int32s, Floats, Floats]:
    """Int32s and bounds as arrays of one length."""
    where = np.atleast_1d(np.asarray(index))
    if not np.issubdtype(where.dtype, np.integer):
        raise InvalidFormulation(f"{where.ravel()[:3].tolist()} are not positions; give whole numbers, counted from 0")
    low, up = (np.broadcast_to(np.asarray(b, dtype=float), where.shape) for b in (lower, upper))
    if np.isnan(low).any() or np.isnan(up).any():
        raise InvalidFormulation("a bound is NaN; give numbers, or -inf and inf where there is none")
    return where.astype(np.int32), low.astype(float), up.astype(float)


def numbers(values: ArrayLike, what: str, size: int) -> Floats:
    """``values`` as a new array of this size, checked to be finite: otherwise HiGHS may not terminate."""
    array = np.array(values, dtype=float)
    if array.shape != (size,):
        raise InvalidFormulation(f"{what} has shape {array.shape}; it must be ({size},)")
    if not np.isfinite(array).all():
        raise InvalidFormulation(f"{what} has {array[~np.isfinite(array)][0]}; all its numbers must be finite")
    return array


def arrays(matrix: sparse.csr_array | sparse.csc_array) -> tuple[Int32s, Int32s, Floats]:
    """(starts, indices, values) of a sparse matrix."""
    return matrix.indptr[:-1].astype(np.int32), matrix.indices.astype(np.int32), matrix.data.astype(float)


def pass_program(highs: highspy.Highs, program: LinearProgram) -> highspy.HighsStatus:
    """Pass ``program`` (its last objective) to HiGHS in one call."""
    rows, columns = program.shape
    status: highspy.HighsStatus = highs.passModel(
        columns,
        rows,
        program.A.nnz,
        int(highspy.MatrixFormat.kColwise),
        int(highspy.ObjSense.kMaximize),
        program.offset,
        program.c,
        program.col_lower,
        program.col_upper,
        program.row_lower,
        program.row_upper,
        program.A.indptr.astype(np.int32),
        program.A.indices.astype(np.int32),
        program.A.data.astype(float),
        program.integer.astype(np.int32),
    )
    return status
