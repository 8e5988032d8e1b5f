"""Water filling: lexicographic max-min, [Gavel, section 4.3]."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hetopt.allocation import Allocation
from hetopt.certificate import certify
from hetopt.data.entities import Kind, check_kind
from hetopt.data.instance import Instance
from hetopt.data.present import present_entities
from hetopt.models.gavel.arrays import Least, least_program
from hetopt.models.gavel.parts import LeastRatio, TimeFraction
from hetopt.programs.formulation import Formulation
from hetopt.solving.highs import Session
from hetopt.tolerances import EQUAL, STAGE


@dataclass(frozen=True)
class WaterFilling:
    """The least ratio as large as possible; of those that can still have more, the least as large as possible; ….

    The ratio is that of :class:`~hetopt.models.gavel.parts.LeastRatio`. Each linear program raises a common level of
    all that are not yet settled; those whose row has a price are stuck at it in every optimum, and settled there. Up
    to n programs, each started from the last.

    Parameters
    ----------
    scale_by_demand:
        See :class:`~hetopt.models.gavel.parts.LeastRatio`.
    kind:
        ``"tenants"`` or ``"jobs"``; None: tenants where there are any.

    Raises
    ------
    InvalidOption
        Another kind.
    InvalidInstance
        On a call: see :func:`~hetopt.data.present.present_entities`.
    """

    scale_by_demand: bool = True
    kind: Kind | None = None

    def __post_init__(self) -> None:
        check_kind("WaterFilling.kind", self.kind)

    def __call__(self, instance: Instance, state: None = None) -> tuple[Allocation, None]:
        """The allocation; its certificate is about the least ratio."""
        entities = present_entities(instance, self.kind, "WaterFilling")
        part = LeastRatio(self.scale_by_demand)
        table, growth = part.scaled(entities)
        n, k = entities.shape
        session = Session(least_program(entities, Least(table, growth, part.name)), presolve=False)
        level_column, open_ = n * k, growth > 0
        first = point = session.solve()
        while True:
            level = float(point.x[level_column])
            dual = point.row_dual
            assert dual is not None
            stuck = open_ & (-dual[k : k + n] * growth > EQUAL / n)
            stuck = stuck if stuck.any() else open_
            for e in np.flatnonzero(stuck).tolist():
                session.set_coefficient(k + e, level_column, 0.0)
                session.set_row_bounds([k + e], [max(0.0, level * growth[e] * (1.0 - STAGE))], [np.inf])
            open_ &= ~stuck
            if not open_.any():
                break
            point = session.solve()
        formulation = Formulation((part, TimeFraction()), kind=self.kind)
        last = replace(point, objective=first.objective, bound=first.bound, method="water filling")
        share = np.maximum(point.share, 0.0)
        return Allocation(entities, share, certify(formulation, entities, last, point.seconds)), None
