"""Throughput before any measurement: equation (10) of Hadar, and the GPU specifications that it needs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pandas as pd

from hetopt.checks import FrozenDict, any_mapping, at_least, lookup, mapping, one_of, shown
from hetopt.errors import InvalidOption


@dataclass(frozen=True)
class GPUSpec:
    """Specification of a GPU in a node, as equation (10) needs it.

    Parameters
    ----------
    tflops:
        Peak in 1e12 operations per second, of the tensor cores if there are any.
    memory_bytes:
        Memory in bytes.
    pcie:
        Generation of PCI Express: the older one of GPU and mainboard. For a GPU on an older board:
        ``dataclasses.replace(GPUS["RTX 3090"], pcie=3)``.

    Raises
    ------
    InvalidOption
        A number that is not positive.
    """

    tflops: float
    memory_bytes: float
    pcie: float

    def __post_init__(self) -> None:
        for key in ("tflops", "memory_bytes", "pcie"):
            at_least(getattr(self, key), key, 0.0, InvalidOption, strict=True)


GPUS: Mapping[str, GPUSpec] = FrozenDict(
    {
        # No tensor cores, and FP16 no faster than FP32, or not stated: FP32.
        "K80": GPUSpec(8.73 / 2, 12e9, 3),  # Tesla K80 data sheet: 8.73 and 24 GB for a board of two GPUs; here one
        "P40": GPUSpec(12, 24e9, 3),  # Tesla P40 data sheet
        "T400": GPUSpec(1.094, 4e9, 3),  # NVIDIA T400 4GB data sheet
        # No tensor cores, but a faster FP16: FP16.
        "P100": GPUSpec(18.7, 16e9, 3),  # Tesla P100 PCIe data sheet
        "P100 SXM2": GPUSpec(21.2, 16e9, 3),  # Tesla P100 data sheet, NVLink
        # Tensor cores: FP16 added up in FP32 as in training, dense (where a data sheet prints it sparse: half of it).
        "V100": GPUSpec(125, 16e9, 3),  # Tesla V100 SXM2 data sheet, as in Amazon's p3 instances
        "V100 PCIe": GPUSpec(112, 16e9, 3),  # Tesla V100 PCIe data sheet
        "T4": GPUSpec(65, 16e9, 3),  # T4 data sheet
        "Quadro RTX 6000": GPUSpec(130.5, 24e9, 3),  # Turing white paper, table 4
        "Titan RTX": GPUSpec(130, 24e9, 3),  # Titan RTX product page
        "RTX 2080 Ti": GPUSpec(53.8, 11e9, 3),  # Turing white paper, table 1: reference clock
        "RTX 3070": GPUSpec(40.6, 8e9, 4),  # GA102 white paper, appendix A
        "RTX 3080": GPUSpec(59.5, 10e9, 4),  # GA102 white paper, table 2
        "RTX 3090": GPUSpec(71, 24e9, 4),  # GA102 white paper, appendix A
        "RTX 4090": GPUSpec(165.2, 24e9, 4),  # Ada white paper, appendix A
        "RTX A2000": GPUSpec(63.9 / 2, 6e9, 4),  # RTX A2000 data sheet: 63.9 sparse
        "RTX A6000": GPUSpec(309.7 / 2, 48e9, 4),  # RTX A6000 data sheet: 309.7 sparse
        "A10": GPUSpec(125, 24e9, 4),  # A10 data sheet
        "A30": GPUSpec(165, 24e9, 4),  # A30 data sheet
        "A40": GPUSpec(149.7, 48e9, 4),  # A40 data sheet
        "A100": GPUSpec(312, 40e9, 4),  # A100 data sheet, 40 GB
        "A100 80GB": GPUSpec(312, 80e9, 4),  # A100 data sheet, 80 GB
        "L4": GPUSpec(242 / 2, 24e9, 4),  # L4 data sheet: 242 sparse
        "L40": GPUSpec(181.05, 48e9, 4),  # L40 data sheet
        "L40S": GPUSpec(362.05, 48e9, 4),  # L40S data sheet
        "H100": GPUSpec(1979 / 2, 80e9, 5),  # H100 SXM data sheet: 1979 sparse
        "H100 PCIe": GPUSpec(1513 / 2, 80e9, 5),  # H100 PCIe data sheet: 1513 sparse
        "H100 NVL": GPUSpec(1671 / 2, 94e9, 5),  # H100 NVL data sheet: 1671 sparse
        "H200": GPUSpec(1979 / 2, 141e9, 5),  # H200 SXM data sheet: 1979 sparse
    }
)
"""Common GPUs by name, from NVIDIA's data sheets; :func:`spec_of` also accepts the names of NVIDIA's driver.

Spaces, hyphens, case, maker and form factor are ignored (``Tesla V100-SXM2-32GB``); a memory size in the name replaces
that of the data sheet. A name with its form factor, such as ``H100 PCIe``, takes precedence over one without.
"""

_MAKER = re.compile(r"nvidia|tesla|geforce")
_MEMORY = re.compile(r"([1-9][0-9]{0,5})gb")
_SHAPE = re.compile(r"hbm[0-9]e?|sxm[0-9]?|pcie|nvl")
_PART = re.compile(r"[ _-](?:MIG[ _-])?(?:([1-9])c\.)?([1-9])g\.[0-9]+gb\S*", re.IGNORECASE)


def _words(name: str) -> list[str]:
    """Words of a GPU's name, without its maker."""
    return [word for word in re.split(r"[ _-]+", name.casefold()) if not _MAKER.fullmatch(word)]


_BY_PLAIN_NAME = {"".join(_words(name)): spec for name, spec in GPUS.items()}


def mig_part(gpu: str) -> tuple[str, float]:
    """Name of the whole GPU of a MIG instance, and its fraction of the compute; 1 for a whole GPU.

    A GPU has seven compute slices, an A30 four (NVIDIA's MIG user guide, supported profiles).

    >>> mig_part("A100-SXM4-40GB-MIG-3g.20gb")
    ('A100-SXM4-40GB', 0.42857142857142855)
    """
    if (found := _PART.search(gpu)) is None:
        return gpu, 1.0
    whole = gpu[: found.start()]
    return whole, int(found[1] or found[2]) / (4 if "a30" in _words(whole) else 7)


def spec_of(gpu: str | GPUSpec) -> GPUSpec:
    """The specification of a GPU by name.

    Raises
    ------
    UnknownName
        There is no GPU of that name; the message contains the nearest name.
    """
    if isinstance(gpu, GPUSpec):
        return gpu
    if not isinstance(gpu, str):
        raise InvalidOption(f"is {shown(gpu)}; it must be a name of GPUS or a GPUSpec", "gpu")
    words = _words(gpu)
    if (spec := _BY_PLAIN_NAME.get("".join(words))) is not None:
        return spec
    sizes = [int(found[1]) for word in words if (found := _MEMORY.fullmatch(word))]
    shaped = [word for word in words if not _MEMORY.fullmatch(word)]
    plain = [word for word in shaped if not _SHAPE.fullmatch(word)]
    spec = _BY_PLAIN_NAME.get("".join(shaped)) or _BY_PLAIN_NAME.get("".join(plain)) or lookup(GPUS, gpu, "GPU")
    return replace(spec, memory_bytes=sizes[0] * 1e9) if len(sizes) == 1 else spec


GB = 1e9
"""Bytes in a gigabyte, the unit of memory in equation (10)."""


@dataclass(frozen=True)
class Estimate:
    """Initial throughput by [Hadar, eq. 10]: PMI x batch size x PCIe scaling / (model weight x dataset size).

    The number has no unit: only ratios between nodes and between jobs are meaningful. Ratios between GPUs are the same
    for all jobs, since no term of the equation depends on both job and GPU.

    Parameters
    ----------
    root_of:
        Interpretation of the index PMI ("the ratio of TFLOPS and the GPU's VRAM capacity in a square root fashion"):
        ``"ratio"``: sqrt(TFLOPS / GB); ``"memory"``: TFLOPS / sqrt(GB). Both order GPUs alike, in 19 of 21 pairs as
        Gavel measured. The ratio of two GPUs differs from the measured one by a factor of 1.9 (geometric mean) for the
        first and 3.2 for the second. With both, more memory lowers the estimate.
    pcie_scaling:
        Generation of PCI Express -> factor. The paper prints no numbers: by default the bandwidth per link (x1)
        relative to generation 3 (assumption).
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
        one_of(self.root_of, ("ratio", "memory"), "Estimate.root_of")
        for key in ("pcie_scaling", "model_weights", "dataset_sizes"):
            table = any_mapping(getattr(self, key), key, InvalidOption, "to factors").items()
            checked = {k: at_least(v, f"{key}[{k!r}]", 0.0, InvalidOption, strict=True) for k, v in table}
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
            raise InvalidOption(f"is {pcie:g}, which has no pcie_scaling; known generations: {known}", "pcie")
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
    """A factor, given as a number or by its name on a scale."""
    if isinstance(value, str):
        return lookup(scale, value, key.replace("_", " "))
    return at_least(value, key, 0.0, InvalidOption, strict=True)


def _model(model: Mapping[str, Any], job: str) -> dict[str, Any]:
    """The parameters of a model that equation (10) needs."""
    keys = ("batch_size", "model_weight", "dataset_size")
    for key in keys:
        if key not in model:
            raise InvalidOption(f"has no {key}; it must have {', '.join(keys)}", f"models[{job!r}]")
    return {key: model[key] for key in keys}


def rows_of(table: Any, key: str) -> dict[str, Mapping[str, Any]]:
    """Row -> column -> value of a table or of a mapping of mappings."""
    if isinstance(table, pd.DataFrame):
        if not (table.index.is_unique and table.columns.is_unique):
            raise InvalidOption("has two rows or two columns of the same name; names must be unique", key)
        table = table.to_dict(orient="index")
    return {
        row: mapping(values, f"{key}[{row!r}]", InvalidOption)
        for row, values in mapping(table, key, InvalidOption).items()
    }
