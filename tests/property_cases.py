"""Cases of properties from plain tables."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hetopt.data.entities import Kind
from hetopt.proofs.ledger.claim import Effort
from hetopt.proofs.ledger.space import CaseNumbers
from hetopt.proofs.properties.policy_cases import PolicyCase, policy_space
from hetopt.proofs.properties.property_checks import PROPERTIES

F = Fraction
BY_KEY = {p.key: p for p in PROPERTIES}
SMALL = Effort(instances=12, seconds=0)


def of(kind: Kind, way: Any = None, **tables: Any) -> PolicyCase:
    numbers = CaseNumbers({k: tuple(tuple(F(v) for v in row) for row in rows) for k, rows in tables.items()})
    case = policy_space(kind, way).build(numbers)
    assert case is not None
    return case
