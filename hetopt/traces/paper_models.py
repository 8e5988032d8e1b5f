"""Catalogues of models: those that the papers' experiments train, and those of a benchmark.

Numbers that are not published are marked "assumed". State is 16 bytes per parameter [FFT, Fig. 1(b)]. Sizes of
datasets are those of the public downloads, to two digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name

from hetopt.checks import FrozenDict, choices, expect
from hetopt.data.workload import Parallelism
from hetopt.errors import InvalidOption, UnknownName
from hetopt.traces.catalogue import Catalogue, TrainedModel, read_catalogue
from hetopt.traces.fft_generator import FAMILIES
from hetopt.traces.gavel_generator import BATCH_SIZES, SEVERAL_GPUS, job_type
from hetopt.traces.gavel_packings import gavel_packings
from hetopt.traces.hadar_generator import CLASSES
from hetopt.traces.sia_generator import GOODPUTS, tuned_gpus

STATE = 16.0
"""Bytes per parameter."""

FFT_SPEEDS = {
    # Measured: medians of Zeus (NSDI 2023) on V100, A40 and Quadro RTX 6000; a T4 does 1/2 of an RTX 6000, an A10 5/6
    # of an A40 (vendor's units), as in the instance lab36. Assumed: larger variants, and VGG, are like ResNet-50.
    "ResNet": (1.0, 2.15, 2.68),
    "VGG": (1.0, 2.15, 2.68),
    "BERT": (1.0, 3.2, 2.18),
    # Assumed: DenseNet is bound by memory, whose bandwidth the vendor states as 320, 600 and 900 GB/s.
    "DenseNet": (1.0, 1.88, 2.81),
    # Assumed: the vendor's peak of half precision, 65, 125 and 125 TFLOPS; within the 1.6 to 2.71 of [FFT, Fig. 1(a)].
    # Bark is three networks like GPT-2.
    "GPT": (1.0, 1.92, 1.92),
    "Bark": (1.0, 1.92, 1.92),
    # A10: the 1.6 of OPT-6.7B in [FFT, Fig. 2]; V100: assumed, the other end of [FFT, Fig. 1(a)].
    "OPT": (1.0, 1.6, 2.71),
}
"""Prefix of a model's name -> speed on T4, A10, V100."""

FFT_MODELS = {
    # Parameters in millions as published (Bark: three networks of 300 and 80 million); a worker's memory in GB.
    # Memory is assumed: the state, divided among the workers of the smallest gang, and 4 to 8 GB of activations. So
    # Bark-normal, which trains on one GPU, fits only on A10 (24 GB). OPT-6.7B has less than its part of the state,
    # since [FFT, Fig. 2] trains it on T4: the rest must be in the host's memory, as in lab36/jobs.
    "VGG-16": (138.36, 10.0),
    "VGG-19": (143.67, 10.0),
    "ResNet-50": (25.56, 8.0),
    "ResNet-152": (60.19, 9.0),
    "DenseNet-121": (7.98, 8.0),
    "DenseNet-201": (20.01, 8.0),
    "Bark-normal": (900.0, 18.4),
    "Bark-small": (240.0, 8.0),
    "BERT-base": (110.0, 10.0),
    "BERT-large": (340.0, 13.5),
    "GPT-neo-1.3B": (1300.0, 9.2),
    "GPT-neo-2.7B": (2700.0, 15.0),
    "GPT-2-medium": (355.0, 9.5),
    "GPT-2-large": (774.0, 11.0),
    "OPT-2.7B": (2700.0, 15.0),
    "OPT-6.7B": (6700.0, 15.0),
}
"""Model -> parameters in millions, memory of a worker in GB."""

FFT_DATASETS = {
    # From [FFT, Table 2]; assumed: the variant of CIFAR, and that the last two share a part of the Pile (825 GiB).
    "VGG": ("imagenet", 150e9),
    "ResNet": ("cifar100", 170e6),
    "DenseNet": ("wikiart", 27e9),
    "Bark": ("librispeech", 60e9),
    "BERT": ("wikipedia", 20e9),
    "GPT": ("pile", 100e9),
    "OPT": ("pile", 100e9),
}
"""Prefix of a model's name -> dataset and its size in bytes."""

GAVEL_MODELS: Mapping[str, Measurements] = {
    # Speeds on K80, P100, V100: medians over batch sizes of what Gavel measured with one GPU [Gavel].
    # Parameters in millions: ResNets and CycleGAN (two generators, two discriminators) as published; LM counted from
    # the layers of the public example that it is, with a vocabulary of 33,278; the Transformer's 44 million in layers
    # are counted, its vocabularies of together 6,000 words assumed; Recommendation assumed to code 20,108 films in 200
    # numbers and back; A3C assumed to have four convolutions and an LSTM of 512.
    "ResNet-18": ((1.0, 6.46, 6.75), 11.17, "cifar10", 170e6),
    "ResNet-50": ((1.0, 4.09, 6.7), 25.56, "imagenet", 150e9),
    "Transformer": ((1.0, 2.91, 3.48), 47.0, "multi30k", 1.2e6),
    "LM": ((1.0, 3.39, 3.93), 13.99, "wikitext2", 4.5e6),
    "Recommendation": ((1.0, 1.59, 0.72), 8.06, "ml-20m", 190e6),
    "A3C": ((1.0, 1.65, 2.09), 3.3, None, 0.0),
    "CycleGAN": ((1.0, 4.76, 8.77), 28.29, "monet2photo", 290e6),
}
"""Network -> speeds, parameters in millions, dataset and its size in bytes."""

OEF_MODELS: Mapping[str, Measurements] = {
    # Speeds on RTX 3070, 3080, 3090 are those of the instance oef/testbed: VGG and LSTM on 3090 from [OEF, Fig. 1(a)],
    # all others assumed there. Datasets: [OEF, section 6.1.2]. Parameters in millions are assumed, since the paper does
    # not name the variants: VGG-16, ResNet-50, DenseNet-121, and the public example of language models with two layers
    # of 200 and a vocabulary of 33,278.
    "VGG": ((1.0, 1.18, 1.39), 138.36, "cifar100", 170e6),
    "ResNet": ((1.0, 1.28, 1.63), 25.56, "cifar100", 170e6),
    "DenseNet": ((1.0, 1.24, 1.54), 7.98, "cifar100", 170e6),
    "LSTM": ((1.0, 1.47, 2.15), 13.99, "wikitext2", 4.5e6),
    "RNN": ((1.0, 1.41, 1.98), 13.51, "wikitext2", 4.5e6),
    "Transformer": ((1.0, 1.36, 1.84), 13.83, "wikitext2", 4.5e6),
}
"""Network -> speeds, parameters in millions, dataset and its size in bytes."""

LAMBDA_MODELS: Mapping[str, Measurements] = {
    # Speeds on A10, A100 80GB SXM4 and H100 80GB SXM5: throughputs of one GPU in half precision, each with the largest
    # batch that fits its memory [Lambda]; of H100 the median of one to six machines. Parameters in millions: counted in
    # the benchmark's logs, those of ResNet-50 as published.
    "ResNet-50": ((1.0, 2.48, 4.37), 25.56, None, 0.0),
    "BERT-base": ((1.0, 3.28, 6.43), 109.49, None, 0.0),
    "BERT-large": ((1.0, 3.62, 7.33), 335.15, None, 0.0),
    "GNMT": ((1.0, 3.59, 7.06), 159.61, None, 0.0),
    "NCF": ((1.0, 2.01, 4.58), 31.83, None, 0.0),
    "Transformer-XL-base": ((1.0, 2.65, 3.82), 191.95, None, 0.0),
    "Transformer-XL-large": ((1.0, 3.19, 5.49), 519.96, None, 0.0),
}
"""Network -> speeds, parameters in millions; datasets are left out, since jobs of traces only borrow the speeds."""

AS_FAST = {
    # Assumed: chips of the same kind, whose links between GPUs are slower, are as fast.
    "A800-SXM4-80GB": "A100-SXM4-80GB",
    "H800": "H100",
    # Assumed without evidence, since the trace hides the names: types with similar servers are as fast. Most servers of
    # the first have one GPU, as those of A10, all of the second eight, as those of A100.
    "GPU-series-1": "A10",
    "GPU-series-2": "A100-SXM4-80GB",
}
"""GPU type -> the measured type that is as fast."""


def _fft() -> Catalogue:
    models = []
    for family in FAMILIES:
        for name in family.models:
            millions, gigabytes = FFT_MODELS[name]
            prefix = next(key for key in FFT_SPEEDS if name.startswith(key))
            models.append(
                TrainedModel(
                    name,
                    dict(zip(("T4", "A10", "V100"), FFT_SPEEDS[prefix], strict=True)),
                    memory_bytes=gigabytes * 1e9,
                    state_bytes=STATE * millions * 1e6,
                    dataset=FFT_DATASETS[prefix][0],
                    dataset_bytes=FFT_DATASETS[prefix][1],
                    parallelism=Parallelism.TENSOR if family.large else Parallelism.DATA,
                    gpus=family.workers,
                )
            )
    return Catalogue("fft", tuple(models))


Measurements = tuple[tuple[float, ...], float, str | None, float]
"""Speeds, parameters in millions, dataset and its size in bytes."""


def _model(name: str, types: tuple[str, ...], measured: Measurements, gpus: tuple[int, ...]) -> TrainedModel:
    speeds, millions, dataset, size = measured
    speed = dict(zip(types, speeds, strict=True))
    return TrainedModel(name, speed, state_bytes=STATE * millions * 1e6, dataset=dataset, dataset_bytes=size, gpus=gpus)


def _of_gavel(network: str, name: str) -> TrainedModel:
    gpus = (1, 2, 4, 8) if network in SEVERAL_GPUS else (1,)
    return _model(name, ("K80", "P100", "V100"), GAVEL_MODELS[network], gpus)


def _gavel() -> Catalogue:
    names = {
        network: [job_type(network, batch) if batch else network for batch in BATCH_SIZES.get(network, (0,))]
        for network in GAVEL_MODELS
    }
    models = [_of_gavel(network, name) for network, own in names.items() for name in own]
    return Catalogue("gavel", tuple(models), reference="V100", packings=gavel_packings(names))


def _hadar() -> Catalogue:
    names = dict.fromkeys(name for size in CLASSES for name in size.models)
    models = tuple(_of_gavel(name, name) for name in names)
    return Catalogue("hadar", models, reference="V100", packings=gavel_packings({name: [name] for name in names}))


def _oef() -> Catalogue:
    types = ("RTX3070", "RTX3080", "RTX3090")
    return Catalogue("oef", tuple(_model(name, types, own, (1, 2, 4)) for name, own in OEF_MODELS.items()))


def _lambda() -> Catalogue:
    types, models = ("A10", "A100-SXM4-80GB", "H100"), []
    for name, measured in LAMBDA_MODELS.items():
        speeds = dict(zip(types, measured[0], strict=True))
        speeds |= {t: speeds[other] for t, other in AS_FAST.items()}
        models.append(_model(name, tuple(speeds), (tuple(speeds.values()), *measured[1:]), (1, 2, 4, 8)))
    return Catalogue("lambda", tuple(models), reference="A100-SXM4-80GB")


FFT = _fft()
"""The models of [FFT, Table 2] on T4, A10 and V100. Tensor parallelism of the large ones is assumed: data parallelism
alone would not need four workers."""

GAVEL = _gavel()
"""Gavel's 26 job types on K80, P100 and V100; durations refer to V100, as in its simulations. Each batch size has the
median speed of its network, and the median parts of its rate beside another job on one GPU. Memory is not published;
all were measured on the smallest GPU, so every type fits."""

HADAR = _hadar()
"""The models of [Hadar, Table III], with Gavel's measurements; LM is the LSTM of that table."""

OEF = _oef()
"""OEF's six models on RTX 3070, 3080 and 3090. Memory is not published; in the paper all models use all types. Gangs
of 1, 2 and 4, a host's GPUs, are assumed."""

LAMBDA = _lambda()
"""Networks of Lambda's benchmark on A10, A100 and H100, and, with assumed speeds, on the other types of Alibaba's
cluster of 2026; durations refer to A100, as on the clusters of Acme. A job of a trace that draws one of them draws a
measured speedup: 2.0 to 3.6 from A10 to A100, 1.4 to 2.3 from A100 to H100. Assumed: the same for gangs as for one GPU,
and enough memory on every type."""

SIA_MODELS = {
    # Speeds on T4, A10, V100 as of the same models in FFT_SPEEDS; DeepSpeech2 from the medians of Zeus in the same way;
    # assumed: YOLOv3 is like ResNet-50. Parameters in millions as published; unknown for DeepSpeech2.
    "ResNet-18": (FFT_SPEEDS["ResNet"], 11.69),
    "BERT": (FFT_SPEEDS["BERT"], 110.0),
    "DeepSpeech2": ((1.0, 2.0, 1.96), 0.0),
    "YOLOv3": (FFT_SPEEDS["ResNet"], 61.9),
    "ResNet-50": (FFT_SPEEDS["ResNet"], 25.56),
}
"""Model -> speed of computing on T4, A10, V100; parameters in millions."""

SIA = Catalogue(
    "sia",
    tuple(
        TrainedModel(
            name,
            dict(zip(("T4", "A10", "V100"), speed, strict=True)),
            state_bytes=millions * 1e6 * STATE,
            gpus=tuple(tuned_gpus(GOODPUTS[name])),
            goodput=GOODPUTS[name],
        )
        for name, (speed, millions) in SIA_MODELS.items()
    ),
)
"""The models of Sia's evaluation, whose jobs are elastic."""

CATALOGUES: Mapping[str, Catalogue] = FrozenDict(
    {"fft": FFT, "gavel": GAVEL, "hadar": HADAR, "oef": OEF, "lambda": LAMBDA, "sia": SIA}
)
"""Name -> catalogue."""


def find_catalogue(name: str) -> Catalogue:
    """The catalogue of a paper by name, of a CSV file, or of ``module:Name``.

    Raises
    ------
    UnknownName
        It does not exist.
    UnusableFile, InvalidInstance
        See :func:`~hetopt.traces.catalogue.read_catalogue`.
    InvalidOption
        ``module:Name`` is not a catalogue.
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
    raise UnknownName(f"there is no catalogue {name!r}; {choices(name, CATALOGUES)}; or give a CSV file or module:Name")
