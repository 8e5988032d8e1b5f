"""What is known of common GPUs: the numbers that equation (10) of Hadar asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
        # Tensor cores: FP16 added up in FP32 as in training, dense (where a data sheet prints it sparse: half of it).
        "V100": GPUSpec(125, 16e9, 3),  # Tesla V100 SXM2 data sheet, as in Amazon's p3 instances
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
        "H200": GPUSpec(1979 / 2, 141e9, 5),  # H200 SXM data sheet: 1979 sparse
    }
)
"""Common GPUs by name, from NVIDIA's data sheets; spaces, hyphens and capitals do not matter to :class:`Estimate`."""


def _plain(name: str) -> str:
    """A GPU's name without what people write in different ways."""
    return name.casefold().replace(" ", "").replace("-", "").replace("_", "")


_BY_PLAIN_NAME = {_plain(name): spec for name, spec in GPUS.items()}


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
    return _BY_PLAIN_NAME.get(_plain(gpu)) or lookup(GPUS, gpu, "GPU")
