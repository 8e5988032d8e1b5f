"""Fairness as rows: envy-freeness, the sharing incentive, equal rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetopt.checks import whole
from hetopt.data.array_types import Floats, Numbers, Positions
from hetopt.data.entities import Entities, Kind
from hetopt.data.rates import cluster_rate, equal_share_rate, fair_part_rate, most_at_once, usable
from hetopt.formulations.formulation import ArrayComponent
from hetopt.programs.arrays import Arrays, Columns, Index, RowFamily, Rows, on_own, on_shares
from hetopt.programs.linear import Names, nearest_powers
from hetopt.programs.mathematics import Mathematics
from hetopt.programs.symbols import equal_share, rate_unit, shared, total
from hetopt.tolerances import VIOLATED


def row_excess(entities: Entities, share: Floats) -> Floats:
    """(n, n) violation of the rows of :class:`EnvyFree`, divided by ``weight[o]``: above 0 if e envies o.

    The unit is that of rates. For tenants it is ``cross - own`` of :mod:`hetopt.data.rates`; for jobs, whose rate with
    the GPUs of another job is concave, the linear bound that the rows state.
    """
    cross = entities.per_gpu @ entities.gpus(share).T
    own = cross.diagonal()
    return np.asarray(cross * usable(entities.weight, most_at_once(entities)) - own[:, None])


@dataclass(frozen=True)
class EnvyFree(ArrayComponent):
    """No entity prefers the GPUs of another, [OEF, eq. 10c] (the right-hand side is misprinted there).

    Rows, for all e != o:
    ``weight[o] * sum_k v[e,k] gpus[e,k]  >=  weight[e] * sum_k v[e,k] gpus[o,k]``
    with v the speed per GPU. Weights act like replicas of the entity, [OEF, section 4.2.3]. For jobs the right-hand
    side is at most ``weight[o] * demand[e] / demand[o] * sum_k v[e,k] gpus[o,k]``: in the time of a gang larger than
    its own, a job uses as many GPUs as it has workers.

    Parameters
    ----------
    eager_up_to:
        Up to this number of entities, solvers get all n(n-1) rows at once; above it, rows are added lazily.
    """

    eager_up_to: int = 40
    name: str = "envy_free"

    def __post_init__(self) -> None:
        whole(self.eager_up_to, "EnvyFree.eager_up_to", 0)

    def rows(self, entities: Entities) -> Arrays:
        """The row family, indexed by pairs."""
        n, k = entities.shape
        family = RowFamily(
            name="row",
            size=n * (n - 1),
            entries=2 * k,
            make=lambda at: _rows(entities, *pair_of_row(at, n)),
            most_violated=lambda share: _most_envied(entities, share),
            violation=lambda share: _largest_violation(entities, share),
            lazy=n > self.eager_up_to,
        )
        return Arrays(rows=(family,))

    def mathematics(self, kind: Kind) -> Mathematics:
        """The rows as a formula."""
        part = "pi[e]" if kind == "tenants" else "min(pi[e] * d[o] / d[e], pi[o])"
        return Mathematics.read(
            f"""
            subject to
              row [OEF, eq. (10c), right side misprinted]
                | no entity prefers the GPUs of another | {rate_unit(kind)}
                pi[o] * {total("v")} >= {part} * sum(v[e, k] * x[o, k] for k in K) for e in E for o in E if e != o
            """,
            symbols=shared(kind),
        )


def pair_of_row(at: Positions, n: int) -> tuple[Positions, Positions]:
    """The entities e != o of the rows at these positions; o runs fastest."""
    e, o = np.divmod(at, max(n - 1, 1))
    return e, o + (o >= e)


def row_of_pair(e: Positions, o: Positions, n: int) -> Positions:
    """Positions of the rows of these pairs: the inverse of :func:`pair_of_row`."""
    return np.asarray(e * (n - 1) + o - (o > e))


def _most_envied(entities: Entities, share: Floats) -> Positions:
    """For each envious entity, the row of the pair with the largest envy."""
    excess = row_excess(entities, share)
    most = excess.argmax(axis=1)
    found = np.flatnonzero(excess[np.arange(len(most)), most] > VIOLATED * _cluster_rate(entities))
    return row_of_pair(found, most[found], len(most))


def _largest_violation(entities: Entities, share: Floats) -> float:
    return max(0.0, float((row_excess(entities, share) / _cluster_rate(entities)[:, None]).max()))


def _rows(entities: Entities, first: Positions, second: Positions) -> Rows:
    """``own . share[first] - other . share[second] >= 0``; violations are relative to a rate of ``first``."""
    own, other = _coefficients(entities, first, second)
    names = entities.names
    top = np.where(entities.capacity > 0, entities.per_gpu, 0.0).max(axis=1)
    return Rows(
        "row",
        Names[Index](len(first), lambda i: (names[first[i]], names[second[i]])),
        (on_shares(np.concatenate([own, -other], axis=1), np.stack([first, second], axis=1)),),
        lower=0.0,
        unit=nearest_powers(entities.weight[second] * top[first]),
    )


def _coefficients(entities: Entities, first: Positions, second: Positions) -> tuple[Numbers, Numbers]:
    """(r, k) and (r, k) coefficients of the own and of the other's share."""
    pi, demand, v = entities.weight, entities.demand, entities.per_gpu[first]
    most = pi[first] * demand[second]
    if entities.kind == "jobs":
        most = np.minimum(most, pi[second] * demand[first])
    return (pi[second] * demand[first])[:, None] * v, most[:, None] * v


def _cluster_rate(entities: Entities) -> Floats:
    """(n,) rate with the whole cluster, as in audits."""
    return cluster_rate(entities.per_gpu, entities.capacity, most_at_once(entities))


@dataclass(frozen=True)
class SharingIncentive(ArrayComponent):
    """Each entity gets at least the rate of its fair part of the cluster, [OEF, section 2.3.1 (3)].

    Rows, for all e: ``rate[e] >= fair[e]``, the :func:`~hetopt.data.rates.fair_part_rate`. A job's gang runs at most
    all the time on its fair part, as in :func:`hetopt.auditing.sharing_incentive`.
    """

    name: str = "sharing_incentive"

    def rows(self, entities: Entities) -> Arrays:
        """The rows; violations are relative to the fair-part rates."""
        fair = fair_part_rate(entities.per_gpu, entities.weight, entities.capacity, most_at_once(entities))
        size = np.where(fair > 0, fair, 1).astype(float)
        row = Rows("row", entities.names, (on_shares(entities.speed),), fair, scale=size, unit=nearest_powers(fair))
        return Arrays(rows=(row,))

    def mathematics(self, kind: Kind) -> Mathematics:
        """The rows as a formula."""
        fair_part_text = "with its fair part, by weight, of every GPU type"
        return Mathematics.read(
            f"""
            subject to
              row [OEF, section 2.3.1 (3)] | no entity is slower than {fair_part_text} | {rate_unit(kind)}
                {total("v")} >= {"f" if kind == "tenants" else "F"}[e] for e in E
            symbols
              F[e] | most work per second that e can do {fair_part_text}, running at most all the time | work/s
            """,
            definitions=(equal_share(kind),) if kind == "tenants" else (),
            symbols=shared(kind),
        )


@dataclass(frozen=True)
class EqualRates(ArrayComponent):
    """All rates are equal per unit of weight, [OEF, eq. 9c].

    Rows, with one column ``level``, for all e: ``rate[e] = weight[e] * level``. An entity that can use none of the
    available GPUs has the row ``rate[e] = 0`` and does not limit the level.
    """

    name: str = "equal_rates"

    def rows(self, entities: Entities) -> Arrays:
        """The column and the rows; solvers see them in units of about the smallest equal-share rate."""
        reach = np.asarray(equal_share_rate(entities) / entities.weight, dtype=float)
        able = reach[reach > 0]
        unit = float(nearest_powers(able.min())) if len(able) else 1.0
        size = nearest_powers(np.asarray(entities.weight, dtype=float) * unit)
        terms = (on_shares(entities.speed), on_own(-self.growth(entities), "level"))
        return Arrays(
            columns=(Columns("level", unit=unit),),
            rows=(Rows("row", entities.names, terms, lower=0.0, upper=0.0, scale=size, unit=size),),
        )

    def mathematics(self, kind: Kind) -> Mathematics:
        """The column and the rows as formulas."""
        return Mathematics.read(
            f"""
            subject to
              row [OEF, eq. (9c)] | equal rates by weight; 0 for entities that can use no GPU | {rate_unit(kind)}
                {total("v")} == (pi[e] * level if f[e] > 0 else 0) for e in E
            with
              level | common rate per unit of weight | {rate_unit(kind)}
                level >= 0
            """,
            symbols=shared(kind),
        )

    def growth(self, entities: Entities) -> Numbers:
        """(n,) rate at level 1: the weight, or 0 for entities that can use no GPU."""
        return np.where(equal_share_rate(entities) > 0, entities.weight, 0)
