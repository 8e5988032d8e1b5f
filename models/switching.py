"""The price of taking GPUs that one does not hold now."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyomo.environ as pyo

from hetopt.checks import at_least
from hetopt.data.entities import Entities, Floats
from hetopt.errors import InvalidOption
from hetopt.programs.formulation import Block, Expression, Measure, Model


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

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """Minus the price of the GPUs gained."""
        if entities.held is None:
            return Measure()
        gained = np.maximum(entities.gpus(share) - entities.held, 0).sum()
        return Measure(gain=-self.price * float(gained))
