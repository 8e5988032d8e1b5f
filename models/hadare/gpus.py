"""What is known of common GPUs: the numbers that equation (10) of Hadar asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hetopt.checks import FrozenDict, at_least, lookup, shown
from hetopt.errors import InvalidOption


@dataclass(frozen=True)
class GPUSpec:
    """What equation (10) asks of a GPU and of its place in a node.

    Parameters
    ----------
    tflops:
        Peak in 1e12 operations per second, of the tensor cores where there are some.
    memory_bytes:
        Memory in bytes.
    pcie:
        Generation of PCI Express: of the GPU or of the mainboard, the older one of both. For a GPU in an older board:
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
"""Common GPUs by name, from NVIDIA's data sheets; :class:`Estimate` knows them also as NVIDIA's driver calls them.

Spaces, hyphens and capitals do not matter, nor do the maker and the shape (``Tesla V100-SXM2-32GB``); memory that is
named stands in place of the data sheet's. A name with its shape, such as ``H100 PCIe``, comes before one without.
"""

_MAKER = re.compile(r"nvidia|tesla|geforce")
_MEMORY = re.compile(r"([1-9][0-9]{0,5})gb")
_SHAPE = re.compile(r"hbm[0-9]e?|sxm[0-9]?|pcie|nvl")
_PART = re.compile(r"[ _-](?:MIG[ _-])?(?:([1-9])c\.)?([1-9])g\.[0-9]+gb\S*", re.IGNORECASE)


def _words(name: str) -> list[str]:
    """Of a GPU's name, without its maker."""
    return [word for word in re.split(r"[ _-]+", name.casefold()) if not _MAKER.fullmatch(word)]


_BY_PLAIN_NAME = {"".join(_words(name)): spec for name, spec in GPUS.items()}


def mig_part(gpu: str) -> tuple[str, float]:
    """Of a MIG instance, the GPU that it is a part of, and its part of the compute; 1 for a whole GPU.

    The compute of a GPU has seven parts, that of an A30 four (NVIDIA's user guide of MIG, supported profiles).

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
        There is none of that name; the nearest is named.
    """
    if isinstance(gpu, GPUSpec):
        return gpu
    if not isinstance(gpu, str):
        raise InvalidOption(f"gpu is {shown(gpu)}; it must be a name of GPUS or a GPUSpec")
    words = _words(gpu)
    if (spec := _BY_PLAIN_NAME.get("".join(words))) is not None:
        return spec
    sizes = [int(found[1]) for word in words if (found := _MEMORY.fullmatch(word))]
    shaped = [word for word in words if not _MEMORY.fullmatch(word)]
    plain = [word for word in shaped if not _SHAPE.fullmatch(word)]
    spec = _BY_PLAIN_NAME.get("".join(shaped)) or _BY_PLAIN_NAME.get("".join(plain)) or lookup(GPUS, gpu, "GPU")
    return replace(spec, memory_bytes=sizes[0] * 1e9) if len(sizes) == 1 else spec
