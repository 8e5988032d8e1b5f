"""Water filling: lexicographic max-min, [Gavel, section 4.3]."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from hetopt.data.entities import Kind, check_kind
from hetopt.data.instance import Instance, present_entities
from hetopt.errors import NotSolved
from hetopt.formulations.formulation import Formulation
from hetopt.models.gavel.parts import LeastRatio, TimeFraction
from hetopt.programs.mathematics import Mathematics
from hetopt.results.allocation import Allocation
from hetopt.results.certificate import certify
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.solving.units import restored, scaled
from hetopt.tolerances import EQUAL, STAGE


@dataclass(frozen=True)
class WaterFilling:
    """Lexicographic max-min: maximise the least ratio, then the least of those that can still grow, and so on.

    The ratio is that of :class:`~hetopt.models.gavel.parts.LeastRatio`. Each linear program maximises a common level of
    all entities that are not settled. Those whose row has a nonzero dual stay at this level in every optimum and are
    settled there. Up to n programs, each warm-started from the last.

    Parameters
    ----------
    scale_by_demand:
        See :class:`~hetopt.models.gavel.parts.LeastRatio`.
    kind:
        ``"tenants"`` or ``"jobs"``; None: tenants if the instance has any.
    time_limit:
        Seconds for all programs together, or None.

    Raises
    ------
    InvalidOption
        Another kind; a time limit that is not positive.
    NotSolved
        On a call: the time limit is exceeded before all entities are settled.
    InvalidInstance
        On a call: see :func:`~hetopt.data.instance.present_entities`.
    """

    shares: ClassVar[bool] = True  # results are shares of time

    scale_by_demand: bool = True
    kind: Kind | None = None
    time_limit: float | None = None

    def __post_init__(self) -> None:
        check_kind("WaterFilling.kind", self.kind)
        LeastRatio(self.scale_by_demand)  # rejects values other than True and False
        Options(time_limit=self.time_limit)  # rejects invalid limits

    def mathematics(self) -> Mathematics:
        """The first program as formulas."""
        made = self._first().mathematics(self.kind)
        return replace(made, title=f"{made.title}; later programs hold the rates of those whose level cannot rise")

    def _first(self) -> Formulation:
        return Formulation((LeastRatio(self.scale_by_demand), TimeFraction()), self.kind, "Gavel water filling")

    def __call__(self, instance: Instance, state: None = None) -> tuple[Allocation, None]:
        """The allocation, with a certificate for the least ratio."""
        began, options = time.perf_counter(), Options(time_limit=self.time_limit).started()
        entities = present_entities(instance, self.kind, "WaterFilling")
        compiled = self._first().compiled(entities)
        part = LeastRatio(self.scale_by_demand)
        n, level_column, rows = len(entities.names), entities.speed.size, compiled.rows_of(part.name)
        growth = part.base(entities) / part.sizes(entities)
        session, open_ = Session(scaled(compiled.program), options, presolve=False), growth > 0
        first = point = session.solve()
        seconds, passes = point.seconds, 1
        while True:
            if point.status == "time_limit":
                raise NotSolved(f"not settled within time_limit={self.time_limit:g} s; raise it", "time_limit")
            level = float(point.x[level_column])
            dual = point.row_dual
            assert dual is not None
            stuck = open_ & (-dual[rows] * growth > EQUAL / n)
            stuck = stuck if stuck.any() else open_
            for e in np.flatnonzero(stuck).tolist():
                session.set_coefficient(rows.start + e, level_column, 0.0)
                session.set_row_bounds([rows.start + e], [max(0.0, level * growth[e] * (1.0 - STAGE))], [np.inf])
            open_ &= ~stuck
            if not open_.any():
                break
            point = session.solve()
            seconds, passes = seconds + point.seconds, passes + 1
        last = replace(
            point, objective=first.objective, bound=first.bound, row_dual=first.row_dual, method="water filling"
        )
        last = restored(replace(last, seconds=seconds, passes=passes), compiled.program)
        share = np.maximum(point.share, 0.0)
        certificate = replace(certify(compiled, last, time.perf_counter() - began), _compiled=None)  # of many programs
        return Allocation(entities, share, certificate), None
