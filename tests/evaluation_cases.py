"""An evaluation of a paper, run once for the tests of a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from hetopt.experiments.run_store import RunStore
from hetopt.proofs.evaluations.evaluation import Evaluation, EvaluationPart, Stores, run_parts


class Made(NamedTuple):
    """What was run, where it lies, and the comparison."""

    folder: Path
    parts: tuple[EvaluationPart, ...]
    stores: Stores
    table: pd.DataFrame

    @classmethod
    def of(cls, evaluation: Evaluation, parts: Sequence[EvaluationPart], folder: Path) -> Made:
        """These parts of the evaluation, run and compared."""
        stores = run_parts(tuple(parts), RunStore(folder))
        return cls(folder, tuple(parts), stores, evaluation.compared(tuple(parts), stores))
