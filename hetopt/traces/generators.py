"""What a generator of traces is. Those that come with hetopt are announced in the group ``hetopt.generators``."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import pandas as pd


@runtime_checkable
class Generator(Protocol):
    """Something that makes traces: its settings say of which kind, a seed which one."""

    def table(self, jobs: int, seed: int = 0) -> pd.DataFrame:
        """So many jobs in the order in which they arrive, with the columns of :mod:`hetopt.traces.table`."""
        ...
