"""Cases of true claims for the tests of adversaries."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

from hetopt.proofs.ledger import all_claims
from hetopt.proofs.ledger.procedures import ForAll


def some_cases(key: str, number: int, seed: int = 0) -> list[Any]:
    """Cases of a claim of all shapes and of moderate numbers."""
    procedure = all_claims()[key].procedure
    assert isinstance(procedure, ForAll)
    space, rng = procedure.space, random.Random(seed)

    def cases() -> Iterator[Any]:
        for height in count(2):
            for sizes in rng.sample(space.shapes(), len(space.shapes())):
                found = [*space.level(sizes, height, 4, rng), *space.structured(sizes, 4, rng)]
                yield from (case for case in map(space.case, rng.sample(found, min(2, len(found)))) if case is not None)

    return list(islice(cases(), number))
