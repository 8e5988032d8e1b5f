"""How fast two jobs run on the same GPU, as Gavel measured [Gavel].

From ``scheduler/simulation_throughputs.json`` of Gavel's repository (MIT licence), which has steps per second of pairs
of its 26 job types on one GPU: medians, over the batch sizes of two networks, of the parts of their isolated rates that
both keep, to two digits. Pairs of batch sizes that did not run together count in no median; two networks of which half
of these pairs or more did not run have no parts. Pairs on several GPUs were not measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement, product

from hetopt.checks import FrozenDict
from hetopt.data.packing import Packing

TYPES = ("K80", "P100", "V100")

Parts = tuple[float, float] | None

MEDIANS: Mapping[tuple[str, str], tuple[Parts, Parts, Parts]] = FrozenDict(
    {
        ("ResNet-18", "ResNet-18"): ((0.51, 0.51), (0.54, 0.54), (1.0, 1.0)),
        ("ResNet-18", "ResNet-50"): ((0.5, 0.52), (0.47, 0.58), (0.62, 0.77)),
        ("ResNet-18", "Transformer"): ((0.54, 0.46), (0.56, 0.54), (0.82, 0.55)),
        ("ResNet-18", "LM"): ((0.63, 0.44), (0.7, 0.42), (1.0, 0.71)),
        ("ResNet-18", "Recommendation"): ((0.68, 0.56), (0.82, 0.65), (1.0, 0.71)),
        ("ResNet-18", "A3C"): ((0.45, 0.57), (0.53, 0.6), (1.0, 0.75)),
        ("ResNet-18", "CycleGAN"): ((0.48, 0.5), (0.52, 0.47), (0.87, 0.57)),
        ("ResNet-50", "ResNet-50"): (None, (0.52, 0.52), (0.39, 0.39)),
        ("ResNet-50", "Transformer"): ((0.55, 0.43), (0.6, 0.47), (0.48, 0.2)),
        ("ResNet-50", "LM"): ((0.65, 0.45), (0.75, 0.33), (0.43, 0.44)),
        ("ResNet-50", "Recommendation"): ((0.72, 0.49), (0.87, 0.51), (0.5, 0.17)),
        ("ResNet-50", "A3C"): ((0.42, 0.54), (0.55, 0.54), (0.48, 0.2)),
        ("ResNet-50", "CycleGAN"): (None, (0.58, 0.41), (0.5, 0.25)),
        ("Transformer", "Transformer"): ((0.5, 0.5), (0.55, 0.55), (0.81, 0.81)),
        ("Transformer", "LM"): ((0.57, 0.48), (0.7, 0.43), (0.8, 0.8)),
        ("Transformer", "Recommendation"): ((0.67, 0.54), (0.77, 0.69), (0.7, 0.64)),
        ("Transformer", "A3C"): ((0.41, 0.61), (0.52, 0.62), (0.77, 0.86)),
        ("Transformer", "CycleGAN"): ((0.45, 0.59), (0.51, 0.49), (0.66, 0.76)),
        ("LM", "LM"): ((0.47, 0.47), (0.48, 0.48), (0.63, 0.63)),
        ("LM", "Recommendation"): ((0.64, 0.6), (0.71, 0.73), (0.83, 0.7)),
        ("LM", "A3C"): ((0.4, 0.57), (0.44, 0.65), (0.65, 0.5)),
        ("LM", "CycleGAN"): ((0.45, 0.69), (0.38, 0.65), (0.59, 0.73)),
        ("Recommendation", "Recommendation"): ((0.5, 0.5), (0.63, 0.63), (0.28, 0.28)),
        ("Recommendation", "A3C"): ((0.37, 0.56), (0.54, 0.67), (0.83, 0.65)),
        ("Recommendation", "CycleGAN"): ((0.4, 0.76), (0.5, 0.75), (0.31, 0.5)),
        ("A3C", "A3C"): ((0.47, 0.47), (0.58, 0.58), (0.51, 0.51)),
        ("A3C", "CycleGAN"): ((0.43, 0.58), (0.53, 0.5), (0.64, 0.71)),
        ("CycleGAN", "CycleGAN"): ((0.54, 0.54), (0.47, 0.47), (0.62, 0.62)),
    }
)
"""Two networks -> on each of :data:`TYPES` the parts that a job of the first and one of the second keep, or None."""


def gavel_packings(models: Mapping[str, Sequence[str]]) -> tuple[Packing, ...]:
    """The packings of models of these networks, for jobs on one GPU.

    Parameters
    ----------
    models:
        Network -> names of its models, such as one for each batch size; networks that are not Gavel's are left out.
    """
    found = []
    for (first, second), measured in MEDIANS.items():
        one, other = models.get(first, ()), models.get(second, ())
        parts = {t: own for t, own in zip(TYPES, measured, strict=True) if own is not None}
        pairs = combinations_with_replacement(one, 2) if first == second else product(one, other)
        found += [Packing(pair, parts, gpus=1) for pair in pairs]
    return tuple(found)
