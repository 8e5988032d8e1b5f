"""Rows that join a program after it was compiled: lazily, or between the stages of a solve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


@dataclass(frozen=True, eq=False)
class ExactRow:
    """A row in fractions, where floats hold rounded products of the numbers of an instance.

    Attributes
    ----------
    share:
        (e, j) -> coefficient on ``share[e, j]``.
    own:
        Name of a column that the component declared -> coefficient.
    lower:
        The bound from below where it is a product, too; None: as in the program.
    """

    share: Mapping[tuple[int, int], Fraction]
    own: Mapping[str, Fraction] = field(default_factory=dict)
    lower: Fraction | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """r rows ``lower <= A x <= upper`` over named columns.

    Attributes
    ----------
    share:
        (r, n*k) coefficients on the shares; column e*k + j is ``share[e, j]``.
    own:
        (r, c) coefficients on the columns named in ``own_names``, or None.
    own_names:
        c names of columns that the component declared, e.g. ``"log_utility.log[u1]"``.
    lower, upper:
        (r,) bounds; infinite where there is none.
    names:
        r names.
    """

    share: sparse.csr_array
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    names: Sequence[str]
    own: sparse.csr_array | None = None
    own_names: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.lower)

    @classmethod
    def none(cls, columns: int) -> Rows:
        """No rows at all, over ``columns`` share columns."""
        empty = np.empty(0)
        return cls(sparse.csr_array((0, columns)), empty, empty, ())

    @classmethod
    def stacked(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of several components as one."""
        own = [p.own if p.own is not None else sparse.csr_array((len(p), 0)) for p in parts]
        return cls(
            share=sparse.csr_array(sparse.vstack([p.share for p in parts])),
            lower=np.concatenate([p.lower for p in parts]),
            upper=np.concatenate([p.upper for p in parts]),
            names=[name for p in parts for name in p.names],
            own=sparse.csr_array(sparse.block_diag(own)) if any(o.shape[1] for o in own) else None,
            own_names=[name for p in parts for name in p.own_names],
        )
