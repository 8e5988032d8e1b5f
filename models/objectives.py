"""Objectives that several papers share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from hetopt.data.entities import Entities, Kind, Numbers
from hetopt.formulations.formulation import ArrayComponent
from hetopt.programs.arrays import Arrays
from hetopt.programs.mathematics import Mathematics
from hetopt.programs.symbols import OVER, rate_unit, shared


class LinearGain(ArrayComponent):
    """Base of components with a gain that is linear in the shares, sum_ek c[e, k] * share[e, k], and no rows."""

    @abstractmethod
    def coefficients(self, entities: Entities) -> Numbers:
        """(n, k) gain per unit of share; 0 where the entity cannot run."""

    def rows(self, entities: Entities) -> Arrays:
        """The gain; no rows."""
        return Arrays(gain=self.coefficients(entities))


def is_linear_gain(part: object) -> bool:
    """Whether a component is a linear gain and nothing more: its class adds no rows of its own."""
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
