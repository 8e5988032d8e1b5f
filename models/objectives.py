"""Objectives that several papers share: total rates, and a price for switching GPUs."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from hetopt.checks import at_least
from hetopt.data.array_types import Numbers
from hetopt.data.entities import Entities, Kind
from hetopt.errors import InvalidOption
from hetopt.formulations.formulation import ArrayComponent
from hetopt.programs.arrays import Arrays, Columns, Index, Rows, on_each, on_own
from hetopt.programs.linear import Names
from hetopt.programs.mathematics import Mathematics
from hetopt.programs.symbols import OVER, formula_number, gpus, rate_unit, shared


class LinearGain(ArrayComponent):
    """Base of components with a gain that is linear in the shares, sum_ek c[e, k] * share[e, k], and no rows."""

    @abstractmethod
    def coefficients(self, entities: Entities) -> Numbers:
        """(n, k) gain per unit of share; 0 where the entity cannot run."""

    def rows(self, entities: Entities) -> Arrays:
        """The gain; no rows."""
        return Arrays(gain=self.coefficients(entities))


def is_linear_gain(part: object) -> bool:
    """Whether a component is only a linear gain: its class adds no rows."""
    return isinstance(part, LinearGain) and type(part).rows is LinearGain.rows


@dataclass(frozen=True)
class TotalRate(LinearGain):
    """Total rate: gain = sum_e rate[e].

    Tenants: total normalised throughput, [OEF, eq. 9a, 10a]. Jobs: total work per second, [Gavel, section 4.2].
    """

    name: str = "total_rate"

    def coefficients(self, entities: Entities) -> Numbers:
        """(n, k) the speeds."""
        return entities.speed

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain as a formula."""
        source = "OEF, eq. (9a), (10a)" if kind == "tenants" else "Gavel, section 4.2"
        what = "total normalised throughput" if kind == "tenants" else "total work per second"
        return Mathematics.read(
            f"""
            maximise
              gain [{source}] | {what} | {rate_unit(kind)}
                sum(v[e, k] * x[e, k] {OVER})
            """,
            symbols=shared(kind),
        )


@dataclass(frozen=True)
class WeightedRate(LinearGain):
    """Weighted total rate: gain = sum_e weight[e] * rate[e]; equals :class:`TotalRate` if all weights are 1."""

    name: str = "weighted_rate"

    def coefficients(self, entities: Entities) -> Numbers:
        """(n, k) weight times speed."""
        return np.asarray(entities.weight[:, None] * entities.speed)

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain as a formula."""
        return Mathematics.read(
            f"""
            maximise
              gain [Gavel, section 4.2] | total rate, by weight | {rate_unit(kind)}
                sum(pi[e] * rate[e] for e in E)
            """,
            symbols=shared(kind),
        )


@dataclass(frozen=True)
class SwitchingCost(ArrayComponent):
    """A price for every GPU gained over those held: gain = -price * sum_ek gained[e, k].

    Rows, for all e, k: ``gained[e, k] >= gpus[e, k] - held[e, k]``, ``gained >= 0``.
    A divisible variant of FFT's s_j^i(t) [FFT, section 4.2.3]. Zero if the instance does not specify held GPUs.

    Parameters
    ----------
    price:
        Least rate for which a gained GPU is worthwhile, in the unit of the rate, >= 0.

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
        """The columns ``gained[e, k]`` and their rows; the gain is minus the price of gained GPUs."""
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
        """The gain and the rows as formulas."""
        if self.price == 0:
            return Mathematics()
        price = formula_number(self.price)
        return Mathematics.read(
            f"""
            maximise
              gain
                | price of moving, {price} for each GPU gained; a divisible variant of FFT, section 4.2.3
                | {rate_unit(kind)}
                -{price} * sum(gained[e, k] {OVER})
            subject to
              row | GPUs beyond those held now are gained | GPUs
                gained[e, k] >= {gpus(kind)} - h[e, k] {OVER}
            with
              gained[e, k] | GPUs of type k that e gains over what it holds | GPUs
                gained[e, k] >= 0 {OVER}
            symbols
              h[e, k] | GPUs of type k that e holds now | GPUs
            """,
            symbols=shared(kind),
        )
