"""Catalogues of trained models as CSV files: a row for each model, a column for each GPU type."""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pandas as pd

from hetopt.checks import MOST, choices, expect
from hetopt.data.saving import save
from hetopt.data.workload import Parallelism
from hetopt.errors import InvalidInstance, InvalidOption, UnknownName
from hetopt.traces.catalogue import Catalogue, TrainedModel
from hetopt.traces.catalogues import CATALOGUES
from hetopt.traces.cells import FilePath, csv_cells, located
from hetopt.traces.columns import has, names, numbers, refuse

BYTES = ("memory_bytes", "state_bytes", "dataset_bytes")
TEXTS = ("model", "gpus", "dataset", "parallelism")
"""Columns that are no GPU types, with :data:`BYTES`."""


def read_catalogue(path: FilePath) -> Catalogue:
    """The catalogue in a CSV file.

    Parameters
    ----------
    path:
        With the column ``model``, any of ``gpus`` (numbers of GPUs on which it is trained, joined by ``+``, such as
        ``1+2+4``; default 1), ``memory_bytes``, ``state_bytes``, ``dataset``, ``dataset_bytes`` and ``parallelism``,
        and a column for each GPU type, called like it, with the throughput of a gang there, in any unit that is the
        same for all types; 0 or nothing where it cannot run. Empty cells are as of
        :class:`~hetopt.traces.catalogue.TrainedModel`. Durations of traces refer to the first type.

    Returns
    -------
    Catalogue
        Called as the file, without its ending.

    Raises
    ------
    UnusableFile
        The file is absent or cannot be read.
    InvalidInstance
        No such table: the message says file, line and column.
    """
    raw, place = csv_cells(path)
    has(raw, ("model",), str(path), "model")
    types = [str(name) for name in raw.columns if name not in (*TEXTS, *BYTES)]
    if not types:
        raise InvalidInstance(f"{path} has no column of a GPU type; it must have one with speeds for each")
    columns: dict[str, Any] = {"model": names(raw["model"], place, unique=True).tolist()}
    for key in BYTES:
        columns[key] = _numbers(raw, key, place) if key in raw else np.zeros(len(raw))
    speeds = np.column_stack([_numbers(raw, t, place) for t in types])
    refuse(raw[types[0]], speeds.any(axis=1), place, "a speed > 0, or one of another GPU type must be")
    gpus = _cells(raw, "gpus", "1")
    refuse(gpus, [_counts(cell) is not None for cell in gpus], place, "numbers of GPUs joined by +, such as 1+2+4")
    parallelism = _cells(raw, "parallelism", Parallelism.DATA.value)
    refuse(parallelism, parallelism.isin(list(Parallelism)), place, f"one of {', '.join(Parallelism)}")
    dataset = _cells(raw, "dataset", "")
    models = [
        TrainedModel(
            name,
            dict(zip(types, speeds[i].tolist(), strict=True)),
            float(columns["memory_bytes"][i]),
            float(columns["state_bytes"][i]),
            dataset.iloc[i] or None,
            float(columns["dataset_bytes"][i]),
            Parallelism(parallelism.iloc[i]),
            _counts(gpus.iloc[i]) or (1,),
        )
        for i, name in enumerate(columns["model"])
    ]
    return Catalogue(located(path).name.partition(".")[0], tuple(models))


def catalogue_of(name: str) -> Catalogue:
    """The catalogue of that name, in that file, or behind ``module:Name``.

    Raises
    ------
    UnknownName
        There is none.
    UnusableFile, InvalidInstance
        See :func:`read_catalogue`.
    InvalidOption
        ``module:Name`` is something else.
    """
    if name in CATALOGUES:
        return CATALOGUES[name]
    if Path(name).suffix in (".csv", ".gz") or Path(name).is_file():
        return read_catalogue(name)
    if ":" in name:
        try:
            found = resolve_name(name)
        except (ImportError, AttributeError, ValueError) as problem:
            raise UnknownName(f"catalogue {name!r} cannot be loaded: {problem}") from None
        return expect(Catalogue, found, name, InvalidOption)
    raise UnknownName(
        f"there is no catalogue {name!r}; {choices(name, CATALOGUES)}; one of your own is a CSV file or module:Name"
    )


def write_catalogue(catalogue: Catalogue, path: FilePath, *, overwrite: bool = False) -> None:
    """Write a catalogue as a CSV file that :func:`read_catalogue` reads; its reference becomes the first GPU type.

    Raises
    ------
    UnusableFile
        The file is there already, or its folder is absent or not allowed to be written.
    """
    types = [catalogue.reference, *(t for t in catalogue.types if t != catalogue.reference)]
    rows = [
        {
            "model": model.name,
            "gpus": "+".join(map(str, model.gpus)),
            **{t: model.speed[t] for t in types},
            **{key: getattr(model, key) for key in ("memory_bytes", "state_bytes")},
            "dataset": model.dataset or "",
            "dataset_bytes": model.dataset_bytes,
            "parallelism": model.parallelism.value,
        }
        for model in catalogue.models
    ]
    text = pd.DataFrame(rows).to_csv(index=False, lineterminator="\n")
    save(text, Path(located(path)), overwrite=overwrite)


def _numbers(raw: pd.DataFrame, key: str, place: Any) -> Any:
    """A column of numbers >= 0; nothing is 0."""
    return np.nan_to_num(numbers(raw[key], place, strict=False, empty=True, most=MOST))


def _cells(raw: pd.DataFrame, key: str, default: str) -> pd.Series[Any]:
    if key not in raw:
        return pd.Series([default] * len(raw), name=key, dtype=object)
    return raw[key].astype(object).where(raw[key] != "", default)


def _counts(cell: str) -> tuple[int, ...] | None:
    """Numbers of GPUs, None where the cell has something else."""
    parts = [part.strip() for part in str(cell).split("+")]
    good = all(part.isascii() and part.isdigit() and 0 < int(part) <= 1_000_000 for part in parts)
    return tuple(int(part) for part in parts) if good else None
