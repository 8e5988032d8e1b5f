"""What Hadar's evaluation trains: classes of jobs by their GPU-hours, and the models of each class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hetopt.checks import FrozenDict


class Model(NamedTuple):
    """A training of [Hadar, Table III].

    Attributes
    ----------
    dataset:
        What it is trained on.
    speedup:
        GPU type -> speed over that on K80.
    """

    dataset: str
    speedup: Mapping[str, float]


class SizeClass(NamedTuple):
    """Jobs of more than ``above`` and up to ``most`` GPU-hours, and the models that they may train."""

    name: str
    above: float
    most: float
    models: tuple[str, ...]


CLASSES = (
    SizeClass("S", 0.0, 1.0, ("ResNet-18",)),
    SizeClass("M", 1.0, 10.0, ("CycleGAN",)),
    SizeClass("L", 10.0, 50.0, ("LM", "Transformer")),
    SizeClass("XL", 60.0, 100.0, ("ResNet-50",)),
)
"""From [Hadar, section IV-A] and [Hadar, Table III]. Where two classes meet, a job is of the smaller one."""

MODELS: Mapping[str, Model] = FrozenDict(
    {
        "ResNet-18": Model("cifar10", FrozenDict({"K80": 1.0, "P100": 6.46, "V100": 6.75})),
        "CycleGAN": Model("monet2photo", FrozenDict({"K80": 1.0, "P100": 4.76, "V100": 8.77})),
        "LM": Model("wikitext2", FrozenDict({"K80": 1.0, "P100": 3.39, "V100": 3.93})),
        "Transformer": Model("multi30k", FrozenDict({"K80": 1.0, "P100": 2.91, "V100": 3.48})),
        "ResNet-50": Model("imagenet", FrozenDict({"K80": 1.0, "P100": 4.09, "V100": 6.7})),
    }
)
"""Speeds are medians over batch sizes of what Gavel measured with one GPU [Gavel]. LM is the LSTM of Table III."""

HOURS = range(2, 10)
"""[Hadar, section IV-A] draws from "the busiest hour range (hours 3-10)". Counted from one these are the eight hours
from 02:00 to 10:00, the same that Pollux draws from in this trace [Pollux]. Of the 82,247 jobs 34,105 came then; it
would be 30,270 from 03:00 to 10:00, and each class's share of them the same within 0.004."""
