"""The array roads of OEF write the program that Pyomo builds: same columns, rows and objective, up to order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import assert_same_program

import hetopt
from hetopt import Cluster, Instance, InvalidInstance, JobType, Tenant, from_pyomo
from hetopt.models import oef
from hetopt.programs.formulation import Formulation
from hetopt.proofs.strategies import ratios, tenant_instances


def same(what: Formulation, inst: Instance) -> None:
    assert what.compile is not None
    fast, slow = what.compile(what.entities(inst)), from_pyomo(what.build(inst))
    assert_same_program(fast, slow)
    assert fast.share is not None
    assert slow.share is not None
    assert [[fast.col_names[i] for i in r] for r in fast.share] == [[slow.col_names[i] for i in r] for r in slow.share]


@given(tenant_instances(weighted=True, zeros=True))
def test_weights_and_zeros(inst: Instance) -> None:
    same(oef.cooperative(), inst)
    same(oef.noncooperative(), inst)


@pytest.mark.parametrize("formulation", [oef.cooperative(), oef.noncooperative(), oef.noncooperative(canonical=True)])
def test_jobs_are_refused(formulation: Formulation) -> None:
    """Each counts work in a unit of its own, so that their rates cannot be compared."""
    with pytest.raises(InvalidInstance, match=r"OEF.* is about tenants, and the instance has none; add tenants"):
        hetopt.solve(formulation, Instance.from_jobs([[1, 2]], [1], [9], [1, 1]))


@given(st.lists(st.lists(ratios(), min_size=1, max_size=3), min_size=1, max_size=3), st.integers(1, 3))
def test_several_job_types(speedups: list[list[float]], weight: int) -> None:
    tenants = tuple(
        Tenant(f"u{i}", tuple(JobType(f"t{j}", {"GPU1": 1.0, "GPU2": w}) for j, w in enumerate(own)), weight + i)
        for i, own in enumerate(speedups)
    )
    inst = Instance(Cluster.of([2, 3]), tenants=tenants)
    same(oef.cooperative(), inst)
    same(oef.noncooperative(), inst)


@settings(max_examples=3)
@given(tenant_instances(tenants=(39, 42), types=(2, 2), weighted=True))
def test_where_envy_rows_become_lazy(inst: Instance) -> None:
    """Up to 40 tenants all rows stand in both programs, above in neither."""
    same(oef.cooperative(), inst)
    n = len(inst.tenants)
    assert oef.cooperative().compile(inst.entities()).shape[0] == 2 + (n * (n - 1) if n <= 40 else 0)  # type: ignore[misc]


def test_reduced_columns_of_a_forbidden_type_stay_at_zero() -> None:
    program = oef.noncooperative().compile(Instance.from_speedups([[1, 0], [1, 2]], [1, 1]).entities())  # type: ignore[misc]
    assert program.col_upper[program.column["share[u1,GPU2]"]] == 0
    assert np.isinf(program.col_upper[program.column["share[u2,GPU2]"]])
