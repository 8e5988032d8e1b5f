"""Throughput before anything was measured: equation (10) of Hadar."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from hetopt.checks import FrozenDict, at_least, lookup, mapping, shown
from hetopt.errors import InvalidOption
from hetopt.models.hadare.gpus import GPUSpec, spec_of

GB = 1e9
"""Bytes in a gigabyte, the unit of memory in equation (10)."""


@dataclass(frozen=True)
class Estimate:
    """Initial throughput by [Hadar, eq. 10]: PMI x batch size x PCIe scaling / (model weight x dataset size).

    The number has no unit: only its ratios between nodes and between jobs mean something. Those between GPUs are the
    same for all jobs, since nothing in the equation belongs to a job and a GPU together.

    Parameters
    ----------
    root_of:
        How the index PMI is read ("the ratio of TFLOPS and the GPU's VRAM capacity in a square root fashion"):
        ``"ratio"``: sqrt(TFLOPS / GB); ``"memory"``: TFLOPS / sqrt(GB). Both order GPUs alike, in 19 of 21 pairs as
        Gavel measured; how much faster one is than another the first misses by a factor of 1.9 (geometric mean), the
        second by 3.2. With both, more memory lowers the estimate.
    pcie_scaling:
        Generation of PCI Express -> factor. The paper prints no numbers: by default the bandwidth of a lane over that
        of generation 3 (assumption).
    model_weights, dataset_sizes:
        Names of the paper's scales -> factors. The paper prints no numbers: by default powers of two (assumption).

    Raises
    ------
    InvalidOption
        A factor that is not positive, or another ``root_of``.
    """

    root_of: Literal["ratio", "memory"] = "ratio"
    pcie_scaling: Mapping[float, float] = field(default_factory=lambda: FrozenDict({3: 1.0, 4: 2.0, 5: 4.0}))
    model_weights: Mapping[str, float] = field(
        default_factory=lambda: FrozenDict({"small": 1.0, "modest": 2.0, "high": 4.0, "extra high": 8.0})
    )
    dataset_sizes: Mapping[str, float] = field(
        default_factory=lambda: FrozenDict({"S": 1.0, "M": 2.0, "L": 4.0, "XL": 8.0})
    )

    def __post_init__(self) -> None:
        if self.root_of not in ("memory", "ratio"):
            raise InvalidOption(f"root_of is {shown(self.root_of)}; it must be 'memory' or 'ratio'")
        for key in ("pcie_scaling", "model_weights", "dataset_sizes"):
            table = getattr(self, key)
            if not isinstance(table, Mapping):
                raise InvalidOption(f"{key} is {shown(table)}; it must be a mapping to factors")
            checked = {k: at_least(v, f"{key}[{k!r}]", 0.0, InvalidOption, strict=True) for k, v in table.items()}
            object.__setattr__(self, key, FrozenDict(checked))

    def pmi(self, gpu: str | GPUSpec) -> float:
        """Performance-memory index of a GPU, in sqrt(TFLOPS / GB), or in TFLOPS / sqrt(GB)."""
        spec = spec_of(gpu)
        if self.root_of == "memory":
            return spec.tflops / math.sqrt(spec.memory_bytes / GB)
        return math.sqrt(spec.tflops / (spec.memory_bytes / GB))

    def throughput(
        self, gpu: str | GPUSpec, *, batch_size: float, model_weight: str | float, dataset_size: str | float
    ) -> float:
        """Relative throughput of a model on a GPU, [Hadar, eq. 10].

        Parameters
        ----------
        gpu:
            A name of :data:`GPUS`, or a specification.
        batch_size:
            Samples in a mini-batch.
        model_weight, dataset_size:
            A name of the scale, such as ``"high"`` and ``"XL"``, or a factor > 0.

        Raises
        ------
        InvalidOption
            A number that is not positive, or a generation of PCI Express without scaling.
        UnknownName
            A GPU, model weight or dataset size that does not exist.
        """
        pcie = spec_of(gpu).pcie
        if pcie not in self.pcie_scaling:
            known = ", ".join(f"{generation:g}" for generation in sorted(self.pcie_scaling))
            raise InvalidOption(f"pcie is {pcie:g}, which has no pcie_scaling; known generations: {known}")
        batch = at_least(batch_size, "batch_size", 0.0, InvalidOption, strict=True)
        weight = _factor(model_weight, self.model_weights, "model_weight")
        size = _factor(dataset_size, self.dataset_sizes, "dataset_size")
        return self.pmi(gpu) * batch * self.pcie_scaling[pcie] / (weight * size)

    def table(
        self, models: pd.DataFrame | Mapping[str, Mapping[str, Any]], gpus: Iterable[str] | Mapping[str, str | GPUSpec]
    ) -> pd.DataFrame:
        """Relative throughput of every job (rows) on every node (columns).

        Parameters
        ----------
        models:
            job -> ``batch_size``, ``model_weight`` and ``dataset_size`` as :meth:`throughput` takes them; a table has
            these columns, and jobs as its index.
        gpus:
            Node -> its GPU, or names of GPUs that stand for the nodes.

        Raises
        ------
        InvalidOption
            A job without one of the three, or a wrong number.
        UnknownName
            A name that does not exist.
        """
        nodes = gpus if isinstance(gpus, Mapping) else {name: name for name in gpus}
        rows = {
            job: {node: self.throughput(gpu, **_model(model, job)) for node, gpu in nodes.items()}
            for job, model in rows_of(models, "models").items()
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=list(nodes))


def _factor(value: str | float, scale: Mapping[str, float], key: str) -> float:
    """A factor, by its name on a scale or itself."""
    if isinstance(value, str):
        return lookup(scale, value, key.replace("_", " "))
    return at_least(value, key, 0.0, InvalidOption, strict=True)


def _model(model: Mapping[str, Any], job: str) -> dict[str, Any]:
    """What equation (10) asks of a model."""
    keys = ("batch_size", "model_weight", "dataset_size")
    for key in keys:
        if key not in model:
            raise InvalidOption(f"models[{job!r}] has no {key}; it must have {', '.join(keys)}")
    return {key: model[key] for key in keys}


def rows_of(table: Any, key: str) -> dict[str, Mapping[str, Any]]:
    """A table, or a mapping of mappings, by rows; rows are named."""
    if isinstance(table, pd.DataFrame):
        if not (table.index.is_unique and table.columns.is_unique):
            raise InvalidOption(f"{key} has two rows or two columns of the same name; names must be unique")
        table = table.to_dict(orient="index")
    try:
        return {row: mapping(values, f"{key}[{row!r}]") for row, values in mapping(table, key).items()}
    except ValueError as problem:
        raise InvalidOption(str(problem)) from None
