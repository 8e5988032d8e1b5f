"""Cases of claims for tests: drawn cases and stored counterexamples."""

from __future__ import annotations

from typing import Any, TypeVar

from hypothesis import strategies as st

from hetopt.proofs.ledger import all_claims
from hetopt.proofs.ledger.counterexample_files import stored_names
from hetopt.proofs.ledger.procedures import universal_part
from hetopt.proofs.ledger.space import Space

C = TypeVar("C")


def cases(space: Space[C]) -> st.SearchStrategy[C]:
    """Cases without their numbers."""
    return space.strategy().map(lambda pair: pair[1])


def stored_case(key: str) -> Any:
    """The stored counterexample of a claim."""
    universal = universal_part(all_claims()[key].procedure)
    assert universal is not None
    return universal.recheck(stored_names(key)[0]).case
