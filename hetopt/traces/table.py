"""The table that every reader and generator of traces returns.

One row per job in the order in which the jobs arrive, with the columns :data:`REQUIRED` and, where the source says so,
any of :data:`OPTIONAL`:

``job``
    Text, unique.
``arrival``, ``duration``
    Seconds since the first job came, and of training.
``gpus``
    How many the job uses at once, whole and >= 1.
``tenant``, ``user``, ``group``, ``model``, ``gpu_type``, ``status``
    Text, empty for jobs of which the source does not say it: virtual cluster or organisation; who submitted the job;
    what recurring submissions share; what is trained; GPUs that it asks for or got; how it ended.
``iterations``
    Steps in all.
``hour``
    Hour of the day in which the job came, 0 to 23.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from hetopt.errors import InvalidInstance
from hetopt.traces.columns import Place
from hetopt.traces.lines import KEY, InFile, packed

REQUIRED = ("job", "arrival", "duration", "gpus")
"""Columns that every trace has."""

TEXTS = ("tenant", "user", "group", "model", "gpu_type", "status")
"""Columns of text that a trace may have."""

OPTIONAL = ("tenant", "user", "group", "model", "iterations", "gpu_type", "status", "hour")
"""Columns that a trace may have, in their order."""


def finished(
    columns: Mapping[str, Any],
    source: str,
    left_out: Mapping[str, Any] | None = None,
    *,
    since_first: bool = True,
    rounded_up: Any = False,
    place: Place | None = None,
) -> pd.DataFrame:
    """The table of these columns without the rows that are left out, in order of arrival.

    Parameters
    ----------
    columns:
        Of checked values; which of them may be wrong in rows that are left out, such as no GPU.
    source:
        What messages call it, such as the file's name.
    left_out:
        Reason -> which rows. Each is counted for the first reason that holds.
    since_first:
        Whether arrivals are counted from the first that is kept; else they stay as they are.
    place:
        What messages call the rows; where these are of a file (:class:`~hetopt.traces.lines.InFile`), the table knows
        the line of each.
    rounded_up:
        Which rows ask for a fraction of a GPU more than whole ones, and have the next whole number in ``gpus``.

    Returns
    -------
    DataFrame
        Its ``attrs`` hold ``left_out``, a dict of reason -> how many, ``rounded_up``, how many of the kept, and
        ``lines``, from which :func:`~hetopt.traces.lines.line_of` tells the line of a job.

    Raises
    ------
    InvalidInstance
        No row is left.
    """
    table = pd.DataFrame({key: columns[key] for key in (*REQUIRED, *OPTIONAL) if key in columns})
    kept, counts = np.ones(len(table), dtype=bool), {}
    for reason, rows in (left_out or {}).items():
        if number := int(np.count_nonzero(kept & np.asarray(rows, dtype=bool))):
            counts[reason] = number
        kept &= ~np.asarray(rows, dtype=bool)
    if not kept.any():
        said = ", ".join(f"{number} with {reason}" for reason, number in counts.items())
        raise InvalidInstance(f"{source} has no job that can be used: {said or 'it is empty'}")
    rounded = int(np.count_nonzero(kept & np.asarray(rounded_up, dtype=bool)))
    table = table[kept].sort_values("arrival", kind="stable")
    order, table = table.index.to_numpy(), table.reset_index(drop=True)
    if since_first:
        table["arrival"] -= table["arrival"].iloc[0]
    for key in ("gpus", "hour", "iterations"):
        if key in table and not (key == "iterations" and table[key].isna().any()):
            table[key] = table[key].astype(np.int64)
    table.attrs = {"left_out": counts, "rounded_up": rounded}
    if isinstance(place, InFile):
        table.attrs[KEY] = packed(place.lines[order], table["job"])
    return table
