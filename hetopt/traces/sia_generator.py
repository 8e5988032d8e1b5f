"""Elastic jobs like those of Sia's evaluation: five models, each with its goodput by GPUs and batch size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from hetopt.checks import FrozenDict, at_least, choices, whole
from hetopt.errors import InvalidOption
from hetopt.traces.goodput import Goodput
from hetopt.traces.sampling import HOUR, chosen_keys, name_shares, numbered, streams

GOODPUTS: Mapping[str, Goodput] = FrozenDict(
    {
        "ResNet-18": Goodput(
            (0.01021, 0.7802 / 1000), (0.04086, 0.004745), (0.1305, 0.00265), 2.848, 128, 4096, (32, 1024), 38.2
        ),
        "BERT": Goodput((0.2247, 0.05803), (0.1514, 0.06612), (1.4, 0.009612), 2.1, 12, 384, (4, 12), 64.5),
        "DeepSpeech2": Goodput(
            (0.01614, 0.03311), (0.4742, 0.08462), (0.8906, 0.009187), 3.123, 20, 640, (10, 80), 1266
        ),
        "YOLOv3": Goodput((0.2053, 0.02474), (0.04285, 0.07983), (0.7198, 0.01071), 1.081, 8, 512, (4, 16), 69.2),
        "ResNet-50": Goodput(
            (0.05688, 0.004552), (0.08558, 0.0136), (0.3097, 0.006634), 2.69, 200, 12800, (20, 200), 56.9
        ),
    }
)
"""Model -> its goodput on T4 GPUs, four to a server.

Times: fitted to the 648 to 1,512 measurements of each model on AWS that Pollux published (Apache-2.0; carried by
ElasticFlow), by least squares of logarithms with a soft loss: median error 4 to 7 %. Noise: medians over the epochs at
M0 in Sia's artifact, and the batch sizes of [Sia, Table 2]; rounded."""

ITERATIONS: Mapping[str, float] = FrozenDict(
    {"ResNet-18": 39_062, "BERT": 14_774, "DeepSpeech2": 28_536, "YOLOv3": 103_444, "ResNet-50": 576_525}
)
"""Model -> iterations of a whole training at M0, in Sia's artifact."""

SHARES = FrozenDict({"ResNet-18": 1314.0, "BERT": 70.0, "DeepSpeech2": 100.0, "YOLOv3": 70.0, "ResNet-50": 46.0})
"""Model -> jobs, of 1,600 in Sia's ten workloads from the cluster Saturn (README of its simulator)."""

ON_SERVER, MOST = 4, 64
"""GPUs of a server, and of the largest gang, for which numbers of GPUs are tuned."""


def tuned_gpus(model: Goodput) -> list[int]:
    """Numbers of GPUs with which a user would tune a rigid job: 50 to 80 % of ideal scaling [Sia, section 4.3]."""
    alone = model.best(1, 1)[0]
    numbers = [1, 2, *range(4, MOST + 1, 4)]
    part = {n: model.best(n, -(-n // ON_SERVER))[0] / (n * alone) for n in numbers}
    return [n for n, share in part.items() if 0.5 <= share <= 0.8] or [1]


@dataclass(frozen=True)
class SiaLike:
    """Generator of the jobs of Sia's evaluation [Sia, section 4.1].

    Each job trains one of five models to the end. Its demand is a tuned number of GPUs, all equally likely; its
    duration is that on as many T4 GPUs with the best batch size. With the catalogue ``sia`` it is elastic.

    Parameters
    ----------
    jobs_per_hour:
        Rate of the Poisson arrivals; 20 in the paper.
    models:
        Model -> relative frequency.

    Raises
    ------
    InvalidOption
        A number out of its range, no model, or an unknown one.
    """

    jobs_per_hour: float = 20.0
    models: Mapping[str, float] = field(default_factory=lambda: SHARES)

    def __post_init__(self) -> None:
        at_least(self.jobs_per_hour, "SiaLike.jobs_per_hour", 0.01, InvalidOption)
        shares = name_shares(self.models, "SiaLike.models", empty=False)
        for name in shares:
            if name not in GOODPUTS:
                raise InvalidOption(f"has the model {name!r}; {choices(name, GOODPUTS)}", "SiaLike.models")
        object.__setattr__(self, "models", shares)

    def table(self, jobs: int, seed: int = 0) -> pd.DataFrame:
        """Generate jobs with models, as :class:`~hetopt.traces.sampling.Generator`."""
        jobs = whole(jobs, "jobs", 1)
        which, sizes, gaps = streams(seed, 3)
        model, level = chosen_keys(self.models, which.random(jobs)), sizes.random(jobs)
        options = {name: tuned_gpus(GOODPUTS[name]) for name in self.models}
        gpus = [options[name][int(part * len(options[name]))] for name, part in zip(model, level.tolist(), strict=True)]
        rates = [GOODPUTS[name].best(n, -(-n // ON_SERVER))[0] for name, n in zip(model, gpus, strict=True)]
        seconds = [ITERATIONS[name] / rate for name, rate in zip(model, rates, strict=True)]
        come = np.cumsum(gaps.exponential(HOUR / self.jobs_per_hour, jobs))
        columns = {
            "job": numbered("j", jobs),
            "arrival": come - come[0],
            "duration": seconds,
            "gpus": gpus,
            "model": model,
            "iterations": [ITERATIONS[name] for name in model],
        }
        return pd.DataFrame(columns)
