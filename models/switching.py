"""The price of taking GPUs that one does not hold now."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetopt.checks import at_least
from hetopt.data.entities import Entities, Kind
from hetopt.errors import InvalidOption
from hetopt.programs.arrays import Arrays, Columns, Index, Rows, on_each, on_own
from hetopt.programs.formulation import ArrayComponent
from hetopt.programs.linear import Names
from hetopt.programs.mathematics import Mathematics, Statement, Symbol, Variable
from hetopt.programs.symbols import OVER, gpus, number, shared


@dataclass(frozen=True)
class SwitchingCost(ArrayComponent):
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

    def rows(self, entities: Entities) -> Arrays:
        """The columns ``gained[e, k]`` and their rows; minus the price of what is gained."""
        if entities.held is None or self.price == 0:
            return Arrays()
        k, cells = len(entities.types), entities.speed.size
        index = Names[Index](cells, lambda i: (entities.names[i // k], entities.types[i % k]))
        one = entities.numbers(np.ones(cells))
        used = np.broadcast_to(-entities.demand[:, None], entities.shape)
        terms = (on_each(used), on_own(one, "gained", np.arange(cells)))
        return Arrays(
            own_gain={"gained": -entities.number(self.price) * one},
            columns=(Columns("gained", index),),
            rows=(Rows("row", index, terms, lower=-entities.held.ravel()),),
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
