"""The price of taking GPUs that one does not hold now."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyomo.environ as pyo

from hetopt.checks import at_least
from hetopt.data.entities import Entities, Kind
from hetopt.errors import InvalidOption
from hetopt.programs.arrays import Arrays, Columns, Rows, on_each, on_own
from hetopt.programs.linear import Names
from hetopt.programs.mathematics import Mathematics, Statement, Symbol, Variable
from hetopt.programs.model import Block, Expression, Model
from hetopt.programs.symbols import OVER, gpus, number, shared


@dataclass(frozen=True)
class SwitchingCost:
    """A price for every GPU gained over what is held: gain = -price * sum_ek gained[e, k].

    Rows, for all e, k: ``gained[e, k] >= gpus[e, k] - held[e, k]``, ``gained >= 0``.
    A divisible relative of FFT's s_j^i(t) [FFT, section 4.2.3]. Zero where the instance does not say what is held.

    Parameters
    ----------
    price:
        Rate that one gained GPU must bring to be worth it, in the unit of the rate, >= 0.

    Raises
    ------
    InvalidOption
        Negative or NaN price.
    """

    price: float
    name: str = "switching_cost"

    def __post_init__(self) -> None:
        at_least(self.price, "SwitchingCost.price", 0.0, InvalidOption)

    def add(self, block: Block, model: Model) -> Expression:
        """The columns ``gained[e, k]`` and their rows; minus the price of what is gained."""
        held = model.entities.held
        if held is None or self.price == 0:
            return 0
        block.gained = pyo.Var(model.E, model.K, domain=pyo.NonNegativeReals)
        block.row = pyo.Constraint(model.E, model.K)
        for e, entity in enumerate(model.entities.names):
            for k, kind in enumerate(model.entities.types):
                now = float(held[e, k])
                block.row[entity, kind] = block.gained[entity, kind] - model.gpus[entity, kind] >= -now
        return -self.price * pyo.quicksum(block.gained.values())

    def rows(self, entities: Entities) -> Arrays:
        """The same in arrays."""
        if entities.held is None or self.price == 0:
            return Arrays()
        k, cells = len(entities.types), entities.speed.size
        label = Names(cells, lambda i: f"{entities.names[i // k]},{entities.types[i % k]}")
        one = entities.numbers(np.ones(cells))
        used = np.broadcast_to(-entities.demand[:, None], entities.shape)
        terms = (on_each(used), on_own(one, "gained", np.arange(cells)))
        return Arrays(
            own_gain={"gained": -entities.number(self.price) * one},
            columns=(Columns("gained", label),),
            rows=(Rows("row", label, terms, lower=-entities.held.ravel()),),
        )

    def mathematics(self, kind: Kind) -> Mathematics:
        """The same in formulas."""
        if self.price == 0:
            return Mathematics()
        unit = "" if kind == "tenants" else "work/s"
        cost = Statement(
            "gain",
            f"-{number(self.price)} * sum(gained[e, k] {OVER})",
            "",
            "",
            f"price of moving, {number(self.price)} for each GPU gained; a divisible relative of FFT, section 4.2.3",
            unit,
        )
        row = f"gained[e, k] >= {gpus(kind)} - h[e, k]"
        what = "GPUs of type k that e gains over what it holds"
        return Mathematics(
            gains=(cost,),
            rows=(Statement("row", row, OVER, "", "what is not held now is gained", "GPUs"),),
            variables=(Variable("gained", what, "GPUs", "e, k", formula="gained[e, k] >= 0", over=OVER),),
            symbols=(*shared(kind), Symbol("h", "GPUs of type k that e holds now", "GPUs", "e, k")),
        )
