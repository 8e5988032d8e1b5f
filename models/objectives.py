"""Objectives that several papers share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetopt.data.entities import Entities, Floats
from hetopt.programs.formulation import Block, Expression, Measure, Model


@dataclass(frozen=True)
class TotalRate:
    """Total rate: gain = sum_e rate[e].

    Tenants: total normalised throughput, [OEF, eq. 9a, 10a]. Jobs: total work per second, [Gavel, section 4.2].
    """

    name: str = "total_rate"

    def add(self, block: Block, model: Model) -> Expression:
        """The gain; no rows."""
        return model.weighted_shares(model.entities.speed)

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """The total rate of ``share``."""
        return Measure(gain=float(entities.rate(share).sum()))


@dataclass(frozen=True)
class WeightedRate:
    """Total rate with weights: gain = sum_e weight[e] * rate[e]; :class:`TotalRate` where all weights are 1."""

    name: str = "weighted_rate"

    def profit(self, entities: Entities) -> Floats:
        """(n, k) gain per unit of share."""
        return np.asarray(entities.weight[:, None] * entities.speed)

    def add(self, block: Block, model: Model) -> Expression:
        """The gain; no rows."""
        return model.weighted_shares(self.profit(model.entities))

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """The weighted total rate of ``share``."""
        return Measure(gain=float(entities.weight @ entities.rate(share)))
