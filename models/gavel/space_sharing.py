"""Gavel's space sharing: two jobs at a time on the same GPUs, [Gavel, section 3.1] and its code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities, Kind
from hetopt.data.packing import PackedShares
from hetopt.formulations.formulation import ArrayComponent, Formulation
from hetopt.programs.arrays import Arrays, Columns, Rows, Terms
from hetopt.programs.mathematics import Mathematics
from hetopt.programs.symbols import shared


@dataclass(frozen=True)
class SpaceSharing(ArrayComponent):
    """Time rows and capacity rows for jobs that run alone or in pairs, in place of ``TimeFraction``.

    Columns: ``alone[e, k]``, part of the time in which the gang of e has GPUs of type k for itself, and
    ``together[i, j, k]``, part of the time in which the gangs of i and j share GPUs of type k, for the pairs of
    :func:`~hetopt.data.pairs.packable_pairs`. Rows, with p[e, i, j, k] the part of its rate that e keeps::

        share[e, k]  = alone[e, k] + sum over pairs with e of p[e, i, j, k] together[i, j, k]       for all e, k
        sum over k of alone[e, k] + sum over pairs with e, k of together[i, j, k] <= 1              for all e
        sum over e of demand[e] alone[e, k] + sum over pairs of demand[i] together[i, j, k] <= m[k]  for all k

    So the rates of all other components are those of jobs that run alone and in pairs.
    """

    name: str = "space_sharing"
    kind: Literal["jobs"] = "jobs"

    def rows(self, entities: Entities) -> Arrays:
        """The columns and rows; no gain.

        Raises
        ------
        InvalidInstance
            The entities were built without an instance.
        """
        cells, pairs = np.argwhere(entities.allowed), entities.pairs
        places = np.argwhere(pairs.parts[:, 0] > 0)  # (pair, GPU type)
        names, types, (n, k) = entities.names, entities.types, entities.shape
        alone = Columns("alone", [(names[e], types[t]) for e, t in cells.tolist()])
        index = [(*(names[e] for e in pairs.jobs[p].tolist()), types[t]) for p, t in places.tolist()]
        together = Columns("together", index)
        own, both = np.arange(len(cells)), np.arange(len(places))
        first, second = pairs.jobs[places[:, 0]].T
        parts = entities.numbers(pairs.parts[places[:, 0], :, places[:, 1]])
        one, also = entities.numbers(np.ones(len(cells))), entities.numbers(np.ones(len(places)))
        row = np.full((n, k), -1)
        row[tuple(cells.T)] = own
        shares = (
            Terms(own, cells[:, 0] * k + cells[:, 1], one),
            Terms(own, own, -one, "alone"),
            *(Terms(row[e, places[:, 1]], both, -parts[:, i], "together") for i, e in enumerate((first, second))),
        )
        time = (
            Terms(cells[:, 0], own, one, "alone"),
            *(Terms(e, both, also, "together") for e in (first, second)),
        )
        gpus = (
            Terms(cells[:, 1], own, entities.demand[cells[:, 0]], "alone"),
            Terms(places[:, 1], both, entities.demand[first], "together"),
        )
        scale = np.maximum(1.0, entities.capacity.astype(float))
        return Arrays(
            columns=(alone, together),
            rows=(
                Rows("share", alone.index, shares, lower=0.0, upper=0.0),
                Rows("time", names, time, upper=entities.number(1.0)),
                Rows("capacity", types, gpus, upper=entities.capacity, scale=scale),
            ),
        )

    def packed(self, entities: Entities, own: Mapping[str, Floats]) -> PackedShares:
        """The time alone and together, without the pairs that never share GPUs."""
        pairs = entities.pairs
        alone, together = np.zeros(entities.shape), np.zeros((len(pairs.jobs), len(entities.types)))
        alone[entities.allowed] = np.maximum(own["alone"], 0.0)
        together[pairs.parts[:, 0] > 0] = np.maximum(own["together"], 0.0)
        used = together.any(axis=1)
        return PackedShares(alone, pairs.jobs[used], together[used])

    def mathematics(self, kind: Kind) -> Mathematics:
        """The rows as formulas."""
        return Mathematics.read(
            """
            subject to
              share [Gavel, section 3.1] | what e does alone, and in its pairs
                x[e, k] == y[e, k] + sum(p[e, i, j, k] * c[i, j, k] for i, j in P if e in {i, j})
                for e in E for k in K if v[e, k] > 0
              time [Gavel, section 3.1] | a gang runs at most all the time, alone or in one pair
                sum(y[e, k] for k in K) + sum(c[i, j, k] for i, j in P if e in {i, j} for k in K) <= 1 for e in E
              capacity [Gavel, section 3.1] | no more GPUs than there are; a pair uses those of one gang | GPUs
                sum(d[e] * y[e, k] for e in E) + sum(d[i] * c[i, j, k] for i, j in P) <= m[k] for k in K
            with
              y[e, k] as alone | part of the time in which e has GPUs of type k for itself
                y[e, k] >= 0 for e in E for k in K if v[e, k] > 0, else 0
              c[i, j, k] as together | part of the time in which i and j share GPUs of type k
                c[i, j, k] >= 0 for i, j in P for k in K if p[i, i, j, k] > 0, else 0
            symbols
              P | pairs of jobs that may share GPUs
              p[e, i, j, k] | part of its rate that e of the pair keeps on type k; 0 where they cannot share
            """,
            symbols=shared(kind),
        )


def with_space_sharing(formulation: Formulation) -> Formulation:
    """``formulation`` with :class:`SpaceSharing` in place of its time rows."""
    title = formulation.title and f"{formulation.title} with space sharing"
    return replace(formulation.without("time_fraction") + SpaceSharing(), title=title)
