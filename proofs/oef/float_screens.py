"""Float estimates of the slack of claims about OEF's programs, for many tenant cases at once.

A screen decides nothing: a search judges the cases with a negative estimate in fractions. It formulates the programs
with arrays and solves them by :mod:`hetopt.proofs.float_programs`, so it shares no code with the checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import TypeAlias

import numpy as np

from hetopt.data.array_types import Floats
from hetopt.proofs.float_programs import FloatOptima, maximise_in_floats
from hetopt.proofs.oef.tenant_cases import TenantCase

NOISE = 2.0**-20
"""Shares up to this part of the GPUs of a type may be rounding errors."""


@dataclass(frozen=True)
class Tenants:
    """Tenant cases of the same shape.

    Attributes
    ----------
    speed:
        (cases, n, k) speedups.
    gpus:
        (cases, k) capacities.
    weight:
        (cases, n) weights.
    """

    speed: Floats
    gpus: Floats
    weight: Floats

    @classmethod
    def of(cls, cases: Sequence[TenantCase]) -> Tenants:
        """The arrays of these cases."""
        return cls(
            np.array([[[float(w) for w in row] for row in case.speed] for case in cases]),
            np.array([[float(m) for m in case.gpus] for case in cases]),
            np.array([[float(w) for w in case.weights] for case in cases]),
        )

    def rates(self, share: Floats) -> Floats:
        """(cases, n) rates with these shares."""
        rates: Floats = np.einsum("cnk,cnk->cn", self.speed, share)
        return rates


@dataclass(frozen=True)
class FloatAllocation:
    """The optima of a program of OEF: (cases, n, k) shares, and what the value loses per unit of an unused share."""

    share: Floats
    reduced: Floats


Program: TypeAlias = Callable[[Tenants], FloatAllocation]
Estimate: TypeAlias = Callable[[Tenants, FloatAllocation], Floats]


def cooperative(tenants: Tenants) -> FloatAllocation:
    """Equation (10): the largest total among envy-free allocations."""
    cases, n, k = tenants.speed.shape
    pairs = list(permutations(range(n), 2))
    a = np.zeros((cases, k + len(pairs), n, k))
    a[:, np.arange(k), :, np.arange(k)] = 1
    for row, (e, o) in enumerate(pairs, k):
        a[:, row, e] = -tenants.weight[:, o, None] * tenants.speed[:, e]
        a[:, row, o] = tenants.weight[:, e, None] * tenants.speed[:, e]
    b = np.concatenate([tenants.gpus, np.zeros((cases, len(pairs)))], axis=1)
    return _allocation(maximise_in_floats(tenants.speed.reshape(cases, -1), a.reshape(cases, -1, n * k), b), n, k)


def noncooperative(tenants: Tenants) -> FloatAllocation:
    """Equation (9): the largest t with t pi_l <= w_l.x_l for all users."""
    cases, n, k = tenants.speed.shape
    a, b = np.zeros((cases, k + n, n * k + 1)), np.zeros((cases, k + n))
    b[:, :k] = tenants.gpus
    for j in range(k):
        a[:, j, j : n * k : k] = 1
    for e in range(n):
        a[:, k + e, e * k : (e + 1) * k] = -tenants.speed[:, e]
        a[:, k + e, -1] = tenants.weight[:, e]
    c = np.zeros((cases, n * k + 1))
    c[:, -1] = 1
    return _allocation(maximise_in_floats(c, a, b), n, k)


def _allocation(found: FloatOptima, n: int, k: int) -> FloatAllocation:
    share = np.where(np.isnan(found.value)[:, None], np.nan, found.x)[:, : n * k]
    return FloatAllocation(share.reshape(-1, n, k), found.reduced[:, : n * k].reshape(-1, n, k))


def out_of_order(tenants: Tenants, found: FloatAllocation) -> Floats:
    """Lemma 3.1: minus the part of a type that must move; else the least loss by a share that would violate it."""
    part = found.share[:, 0] / tenants.gpus
    worst, near = np.zeros(len(part)), np.full(len(part), np.inf)
    for a, b in combinations(range(part.shape[1]), 2):
        worst = np.maximum(worst, np.minimum(part[:, b], 1 - part[:, a]))
        loss = found.reduced[:, 1:, a].min(axis=1) / tenants.speed[:, :, a].max(axis=1)
        near = np.where(part[:, b] > NOISE, np.minimum(near, loss), near)
    slack: Floats = np.where(worst > NOISE, -worst, np.minimum(near, 1.0))
    return slack


def gaps(tenants: Tenants, found: FloatAllocation) -> Floats:
    """Theorem 5.2: minus the part of a type that must move to close the largest gap; 0 without a gap."""
    part = found.share / tenants.gpus[:, None, :]
    worst = np.zeros(len(part))
    for a, c in combinations(range(part.shape[2]), 2):
        for b in range(a + 1, c):
            there = np.where(part[:, :, b] > NOISE, 0, np.minimum(part[:, :, a], part[:, :, c]))
            worst = np.maximum(worst, there.max(axis=1))
    slack: Floats = np.where(worst > NOISE, -worst, 0.0)
    return slack


def inefficiency(tenants: Tenants, found: FloatAllocation) -> Floats:
    """Pareto efficiency: 1 minus the largest product of substitution rates around a ring of types."""
    k = tenants.speed.shape[2]
    holds = found.share > NOISE * tenants.gpus[:, None, :]
    with np.errstate(divide="ignore"):
        speed = np.log(tenants.speed)
    best = np.full((len(speed), k, k), -np.inf)
    for i in range(k):
        own = np.where(holds[:, :, i, None], speed - speed[:, :, i, None], -np.inf)
        best[:, i] = own.max(axis=1)
    ring = np.full(len(speed), -np.inf)
    for via in range(k):
        best = np.maximum(best, best[:, :, via, None] + best[:, via, None, :])
        ring = np.maximum(ring, np.diagonal(best, axis1=1, axis2=2).max(axis=1))
    slack: Floats = 1 - np.exp(np.clip(ring, -50, 50)) + NOISE
    return slack


def screened(program: Program, estimate: Estimate) -> Callable[[Sequence[TenantCase]], Floats]:
    """The screen of a claim about one allocation: the estimate for the optimum of a program."""

    def screen(cases: Sequence[TenantCase]) -> Floats:
        slack = np.empty(len(cases))
        for where in _by_shape(cases):
            tenants = Tenants.of([cases[i] for i in where])
            optima = program(tenants)
            unknown = np.isnan(optima.share).any(axis=(1, 2))
            slack[where] = np.where(unknown, -np.inf, estimate(tenants, optima))
        return slack

    return screen


def _by_shape(cases: Sequence[TenantCase]) -> list[list[int]]:
    """Positions of the cases of each shape."""
    found: dict[tuple[int, int], list[int]] = {}
    for i, case in enumerate(cases):
        found.setdefault((case.n, case.k), []).append(i)
    return list(found.values())
