"""Trained models with their speeds and requirements; catalogues of models, also as CSV files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from hetopt.checks import MOST, FrozenDict, choices, count, known, mapping, members, number, one_of, shown, text, unique
from hetopt.data.array_types import Floats
from hetopt.data.cluster import Cluster
from hetopt.data.packing import Packing, packing_table
from hetopt.data.saving import save
from hetopt.data.workload import Parallelism
from hetopt.errors import InvalidInstance, UnknownName
from hetopt.traces.goodput import Goodput
from hetopt.traces.raw_files import FilePath, as_path, csv_cells
from hetopt.traces.trace_table import Locate, check_cells, names_of, numbers_of, require_columns


@dataclass(frozen=True)
class TrainedModel:
    """A model that jobs train.

    Parameters
    ----------
    name:
        Name in tables and jobs, e.g. ``"VGG-16"``.
    speed:
        GPU type -> throughput of a gang relative to that on the first type (no unit), for all sizes of gangs; 0 where
        the model cannot run.
    memory_bytes:
        Memory that one worker needs, in bytes; 0 if unknown.
    state_bytes:
        State that migrates with the job: 16 bytes per parameter, i.e. its value (4), two moments of Adam (8) and an
        accumulated gradient (4) [FFT, Fig. 1(b)].
    dataset, dataset_bytes:
        Name and size in bytes of the dataset; None if nothing is on the disk.
    parallelism:
        How it uses several GPUs.
    gpus:
        Numbers of GPUs that train it.
    goodput:
        Its goodput on the first GPU type, if its jobs are elastic; on other types it computes at ``speed``.

    Raises
    ------
    InvalidInstance
        A negative number or NaN, no speed above 0, no number of GPUs.
    """

    name: str
    speed: Mapping[str, float]
    memory_bytes: float = 0.0
    state_bytes: float = 0.0
    dataset: str | None = None
    dataset_bytes: float = 0.0
    parallelism: Parallelism = Parallelism.DATA
    gpus: tuple[int, ...] = (1,)
    goodput: Goodput | None = None

    def __post_init__(self) -> None:
        key = f"models[{text(self.name, 'model name')!r}]"
        speed = {t: number(v, f"{key}.speed[{t!r}]") for t, v in mapping(self.speed, f"{key}.speed").items()}
        if not any(speed.values()):
            raise InvalidInstance(f"is {shown(speed)}; at least one GPU type must have a value > 0", f"{key}.speed")
        object.__setattr__(self, "speed", FrozenDict(speed))
        for name in ("memory_bytes", "state_bytes", "dataset_bytes"):
            object.__setattr__(self, name, number(getattr(self, name), f"{key}.{name}"))
        if self.dataset is not None:
            text(self.dataset, f"{key}.dataset")
        one_of(self.parallelism, Parallelism, f"{key}.parallelism", InvalidInstance)
        object.__setattr__(self, "parallelism", Parallelism(self.parallelism))
        if not isinstance(self.gpus, (tuple, list)) or not self.gpus:
            raise InvalidInstance(f"is {shown(self.gpus)}; it must hold at least one number of GPUs", f"{key}.gpus")
        gpus = sorted({count(n, f"{key}.gpus", least=1) for n in self.gpus})
        object.__setattr__(self, "gpus", tuple(gpus))

    def fitting_types(self, cluster: Cluster) -> tuple[str, ...]:
        """GPU types of the cluster that can train it: the speed is above 0 and the memory large enough."""
        return tuple(
            t.name
            for t in cluster.gpu_types
            if self.speed.get(t.name, 0.0) > 0 and self.memory_bytes <= t.memory_limit and cluster.capacity[t.name] > 0
        )


@dataclass(frozen=True, eq=False)
class Catalogue(Mapping[str, TrainedModel]):
    """Trained models by name.

    Parameters
    ----------
    name:
        Name of the catalogue.
    models:
        Models with different names, and speeds for the same GPU types.
    reference:
        Default GPU type to which durations of a trace refer; if empty, the first.
    packings:
        How fast jobs of two of the models run on the same GPUs.

    Raises
    ------
    InvalidInstance
        No model, two models with one name, different GPU types, a reference that is not one of the types, packings of
        other models or types.
    """

    name: str
    models: tuple[TrainedModel, ...]
    reference: str = ""
    packings: tuple[Packing, ...] = ()

    def __post_init__(self) -> None:
        text(self.name, "catalogue name")
        models = members(self.models, TrainedModel, "models")
        object.__setattr__(self, "models", models)
        if not models:
            raise InvalidInstance(f"is empty; catalogue {self.name!r} must have at least one model", "models")
        unique((model.name for model in models), "model")
        for model in models:
            if set(model.speed) != set(self.types):
                raise InvalidInstance(
                    f"has {', '.join(model.speed)}; "
                    f"all models of a catalogue must have the same GPU types, here {', '.join(self.types)}",
                    f"models[{model.name!r}].speed",
                )
        object.__setattr__(self, "packings", members(self.packings, Packing, "packings"))
        for model_name, _, _ in packing_table(self.packings, self.types):
            known(model_name, self._by_name, "packings", "model")
        reference = self.reference or self.types[0]
        object.__setattr__(self, "reference", known(reference, self.types, "reference", "GPU type"))

    @cached_property
    def _by_name(self) -> dict[str, TrainedModel]:
        return {model.name: model for model in self.models}

    @property
    def types(self) -> tuple[str, ...]:
        """GPU types with known speeds, in order."""
        return tuple(self.models[0].speed)

    def __getitem__(self, name: str) -> TrainedModel:
        try:
            return self._by_name[name]
        except (KeyError, TypeError):
            raise UnknownName(f"there is no model {name!r} in {self.name!r}; {choices(str(name), self)}") from None

    def __iter__(self) -> Iterator[str]:
        return (model.name for model in self.models)

    def __len__(self) -> int:
        return len(self.models)

    def packings_of(self, models: Collection[str], types: Collection[str]) -> tuple[Packing, ...]:
        """The packings of these models, on these GPU types."""
        wanted = [one for one in self.packings if set(one.models) <= set(models)]
        parts = [{t: own for t, own in one.parts.items() if t in types} for one in wanted]
        return tuple(replace(one, parts=own) for one, own in zip(wanted, parts, strict=True) if own)

    def trained_on(self, gpus: int, among: Collection[str] | None = None) -> tuple[str, ...]:
        """Names of the models that train on ``gpus`` GPUs.

        If there are none: the models that train on the closest number by ratio, the smaller of two. A job of several
        GPUs gets a single-GPU model only if no model trains on more.

        Parameters
        ----------
        among:
            Restrict to these models.
        """
        models = [model for model in self.models if among is None or model.name in among]
        numbers = sorted({n for model in models for n in model.gpus})
        if gpus > 1:
            numbers = [n for n in numbers if n > 1] or numbers
        if not numbers:
            return ()
        near = min(numbers, key=lambda n: Fraction(max(n, gpus), min(n, gpus)))
        return tuple(model.name for model in models if near in model.gpus)


BYTES = ("memory_bytes", "state_bytes", "dataset_bytes")
TEXTS = ("model", "gpus", "dataset", "parallelism")
"""Columns in addition to :data:`BYTES` that are not GPU types."""


def read_catalogue(path: FilePath) -> Catalogue:
    """Read the catalogue in a CSV file.

    Parameters
    ----------
    path:
        With the column ``model``, any of ``gpus`` (numbers of GPUs on which it is trained, joined by ``+``, such as
        ``1+2+4``; default 1), ``memory_bytes``, ``state_bytes``, ``dataset``, ``dataset_bytes`` and ``parallelism``,
        and a column named after each GPU type with the throughput of a gang there, in one unit for all types; 0 or
        empty where the model cannot run. Empty cells have the defaults of :class:`TrainedModel`. Durations of traces
        refer to the first type.

    Returns
    -------
    Catalogue
        Named after the file, without its suffix.

    Raises
    ------
    UnusableFile
        The file is absent or cannot be read.
    InvalidInstance
        It is not a catalogue; the message has file, line and column.
    """
    raw, locate = csv_cells(path)
    require_columns(raw, ("model",), locate, "model")
    types = [str(name) for name in raw.columns if name not in (*TEXTS, *BYTES)]
    if not types:
        raise locate(InvalidInstance("has no column of a GPU type; it must have one with speeds per type"))
    names = names_of(raw["model"], locate, unique=True).tolist()
    sizes = {key: _numbers(raw, key, locate).tolist() for key in BYTES if key in raw}
    speeds = np.column_stack([_numbers(raw, t, locate) for t in types])
    check_cells(raw[types[0]], speeds.any(axis=1), locate, "> 0, unless the speed of another GPU type is")
    gpus = _cells(raw, "gpus", "1")
    check_cells(
        gpus, [_counts(cell) is not None for cell in gpus], locate, "numbers of GPUs joined by +, such as 1+2+4"
    )
    parallelism = _cells(raw, "parallelism", Parallelism.DATA.value)
    check_cells(parallelism, parallelism.isin(list(Parallelism)), locate, f"one of {', '.join(Parallelism)}")
    dataset = _cells(raw, "dataset", "")
    models = [
        TrainedModel(
            name,
            dict(zip(types, speeds[i].tolist(), strict=True)),
            dataset=dataset.iloc[i] or None,
            parallelism=Parallelism(parallelism.iloc[i]),
            gpus=_counts(gpus.iloc[i]) or (),
            **{key: values[i] for key, values in sizes.items()},
        )
        for i, name in enumerate(names)
    ]
    return Catalogue(as_path(path).name.partition(".")[0], tuple(models))


def write_catalogue(catalogue: Catalogue, path: FilePath, *, overwrite: bool = False) -> None:
    """Write a catalogue as a CSV file for :func:`read_catalogue`; its reference becomes the first GPU type.

    Its packings, and the goodput of its models, are left out.

    Raises
    ------
    UnusableFile
        The file exists, or its folder is absent or not writable.
    """
    types = [catalogue.reference, *(t for t in catalogue.types if t != catalogue.reference)]
    rows = [
        {
            "model": model.name,
            "gpus": "+".join(map(str, model.gpus)),
            **{t: model.speed[t] for t in types},
            "memory_bytes": model.memory_bytes,
            "state_bytes": model.state_bytes,
            "dataset": model.dataset or "",
            "dataset_bytes": model.dataset_bytes,
            "parallelism": model.parallelism.value,
        }
        for model in catalogue.models
    ]
    save(pd.DataFrame(rows).to_csv(index=False, lineterminator="\n"), as_path(path), overwrite=overwrite)


def _numbers(raw: pd.DataFrame, key: str, locate: Locate) -> Floats:
    """A column of numbers >= 0; empty cells are 0."""
    return np.asarray(np.nan_to_num(numbers_of(raw[key], locate, strict=False, empty=True, most=MOST)))


def _cells(raw: pd.DataFrame, key: str, default: str) -> pd.Series[Any]:
    if key not in raw:
        return pd.Series([default] * len(raw), name=key, dtype=object)
    return raw[key].astype(object).where(raw[key] != "", default)


def _counts(cell: str) -> tuple[int, ...] | None:
    """Numbers of GPUs; None if the cell is not a list of them."""
    parts = [part.strip() for part in str(cell).split("+")]
    good = all(part.isascii() and part.isdigit() and 0 < int(part) <= 1_000_000 for part in parts)
    return tuple(int(part) for part in parts) if good else None
