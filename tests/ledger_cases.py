"""Cases of claims, for tests: drawn ones, and counterexamples that are kept."""

from __future__ import annotations

from typing import Any, TypeVar

from hypothesis import strategies as st

from hetopt.proofs.ledger import claims
from hetopt.proofs.ledger.counterexample_files import stored_names
from hetopt.proofs.ledger.procedures import Exists, ForAll
from hetopt.proofs.ledger.space import Space

C = TypeVar("C")


def cases(space: Space[C]) -> st.SearchStrategy[C]:
    """Cases without the numbers of which they are made."""
    return space.strategy().map(lambda pair: pair[1])


def kept_case(key: str) -> Any:
    """The counterexample that is kept against a claim."""
    means = claims()[key].means
    such = means.such if isinstance(means, Exists) else means
    assert isinstance(such, ForAll)
    return such.recheck(stored_names(key)[0]).case
