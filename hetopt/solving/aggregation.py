"""Aggregation of identical blocks of a binary program into integer columns that count the blocks per choice.

In FFT's first objective (the largest demand that can be packed) jobs differ only in demand and usable GPU types: 4,000
jobs form a few dozen classes. The aggregated program is exact, and free of the symmetry between identical blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.programs.linear import LinearProgram
from hetopt.solving.blocks import Blocks, Flags, restricted


@dataclass(frozen=True, eq=False)
class Classes:
    """Classes of blocks that are identical up to names.

    Attributes
    ----------
    members:
        For each class its blocks, in order; the first represents the class.
    columns:
        (b, s) columns of each block in order, padded with -1 to the size of the largest block.
    """

    blocks: Blocks
    members: tuple[Positions, ...]
    columns: Positions


def classes_of(blocks: Blocks, most: int) -> Classes | None:
    """The classes of ``blocks``: equal objective, coupling rows and bounds, column by column.

    None if they need more than ``most`` columns, or if no two blocks are identical.
    """
    columns = _columns(blocks)
    key = _hashes(blocks, columns)
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    if len(first) * columns.shape[1] > most or len(first) == len(key):
        return None
    alike = _alike(blocks, columns, first[number])
    number[~alike] = len(first) + np.arange(np.count_nonzero(~alike))
    order = np.argsort(number, kind="stable")
    cuts = np.flatnonzero(np.diff(number[order])) + 1
    return Classes(blocks, tuple(np.split(order, cuts)), columns)


def _hashes(blocks: Blocks, columns: Positions) -> Floats:
    """(b,) hash of each block, equal for identical blocks (collisions are rare).

    Computed element by element: in a matrix product, rounding depends on the position in the array.
    """
    program, random = blocks.program, np.random.default_rng(0)
    weights = random.random(4 + columns.shape[1])
    value = weights[0] * program.c + weights[1] * program.col_upper + weights[2]
    value += blocks.coupled.T @ random.random(len(blocks.coupling))
    key = weights[3] * blocks.must
    for weight, column in zip(weights[4:], columns.T, strict=True):
        key = key + weight * np.where(column >= 0, value[column], 0.0)
    return np.asarray(key)


def _columns(blocks: Blocks) -> Positions:
    binary = np.flatnonzero(blocks.of >= 0)
    order = binary[np.argsort(blocks.of[binary], kind="stable")]
    size = np.bincount(blocks.of[binary], minlength=len(blocks.row))
    rank = np.arange(len(order)) - np.repeat(np.cumsum(size) - size, size)
    columns = np.full((len(size), int(size.max(initial=0))), -1)
    columns[blocks.of[order], rank] = order
    return columns


def _alike(blocks: Blocks, columns: Positions, model: Positions) -> Flags:
    """(b,) whether each block is identical to the block ``model``."""
    program, coupled = blocks.program, blocks.coupled
    other = columns[model]
    same = ((columns >= 0) == (other >= 0)).all(axis=1) & (blocks.must == blocks.must[model])
    both = (columns >= 0) & (other >= 0)
    mine, theirs, block = columns[both], other[both], np.nonzero(both)[0]
    unlike = (program.c[mine] != program.c[theirs]) | (program.col_upper[mine] != program.col_upper[theirs])
    difference = coupled[:, mine] - coupled[:, theirs]
    difference.eliminate_zeros()
    unlike |= np.diff(difference.indptr) > 0
    same[block[unlike]] = False
    return np.asarray(same)


def aggregated(classes: Classes) -> tuple[LinearProgram, Positions]:
    """The aggregated program, and the (columns,) original column of each of its columns."""
    blocks, program = classes.blocks, classes.blocks.program
    first = np.array([own[0] for own in classes.members])
    size = np.zeros(len(blocks.row))
    size[first] = [len(own) for own in classes.members]
    stated = blocks.row >= 0
    lower, upper = program.row_lower.copy(), program.row_upper.copy()
    lower[blocks.row[stated & blocks.must]] = size[stated & blocks.must]
    upper[blocks.row[stated]] = size[stated]
    columns = classes.columns[first].ravel()
    kept = np.concatenate([columns[columns >= 0], np.flatnonzero(blocks.of < 0)])
    most = np.where(blocks.of >= 0, program.col_upper * size[blocks.of], program.col_upper)
    counted = replace(program, row_lower=lower, row_upper=upper, col_upper=most)
    return restricted(counted, kept)[0], kept


def disaggregated(classes: Classes, kept: Positions, counts: Floats) -> Floats:
    """A point of the original program in which ``counts`` blocks of each class choose each column."""
    blocks = classes.blocks
    x = np.zeros(len(blocks.program.c))
    x[kept[blocks.of[kept] < 0]] = counts[blocks.of[kept] < 0]
    whole = np.zeros(len(x), dtype=np.intp)
    binary = kept[blocks.of[kept] >= 0]
    whole[binary] = np.rint(counts[blocks.of[kept] >= 0]).astype(np.intp)
    for own in classes.members:
        columns = classes.columns[own[0]]
        choice = np.repeat(np.arange(len(columns)), np.where(columns >= 0, whole[columns], 0))
        x[classes.columns[own[: len(choice)], choice]] = 1.0
    return x
