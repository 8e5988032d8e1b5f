"""The nine networks of [ASRPT, Table I] in training on V100s, and their jobs on several numbers of GPUs.

The paper profiled the networks and does not print the times. Here they are derived from the published shapes, under
these assumptions:

- Mini-batches are those of Table I. Image classification uses ImageNet, BERT and XLNet 384 tokens of SQuAD 2.0, T5 and
  GPT 512 tokens, as in section V-A.
- Time is operations / (peak of a V100 x efficiency), the backward pass twice as much as the forward pass. Element-wise
  operations, the optimiser and data loading take no time.
- Numbers are of 32 bits for images and of 16 bits for language; see :data:`~hetopt.models.asrpt.layers.SINGLE` and
  :data:`~hetopt.models.asrpt.layers.HALF`. Activations are recomputed and need no memory.
- Stages come from :func:`hetopt.models.asrpt.planning.plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from hetopt.checks import lookup, whole
from hetopt.data.cluster import NIC_BYTES_PER_S, Cluster
from hetopt.data.instance import Instance
from hetopt.data.workload import Job, Parallelism, Stage
from hetopt.models.asrpt import layers
from hetopt.models.asrpt.layers import HALF, SINGLE, Network
from hetopt.models.asrpt.planning import NIC_SHARE, V100_BYTES, plan

IMAGES = 0.55
"""Achieved fraction of the peak for image classification: ResNet50 in batches of 32. Zeus (You et al., 2023) measured
4051.0 s for an epoch (1,281,167 images) on a V100 of 250 W, whose peak is 14e12. Also assumed for VGG19 and
Inception-V3, whose mini-batch is 32."""

FEW_IMAGES = 0.38
"""The same in batches of 8, the smallest measured: 5893.0 s. Assumed for ResNet152, whose mini-batch is 4."""

TEXT = 0.3
"""Achieved fraction of the peak for language models: 39e12 operations per second of a V100's 130e12 for a GPT of 1.2
billion parameters on one GPU (Shoeybi et al., 2019, abstract and section 5.1). Assumed for all six language models."""

ITERATIONS = 10_000
"""Work of each job (assumption)."""

SERVERS = 12
"""Servers of each instance: eight for the largest job, and four additional ones."""

SERVER_GPUS = 8
"""GPUs of a server [ASRPT, section V-B]."""

_NETWORKS: Mapping[str, Callable[[], Network]] = {
    "vgg19": lambda: Network("VGG19", layers.vgg19(), 32, SINGLE, IMAGES),
    "resnet152": lambda: Network("ResNet152", layers.resnet((3, 8, 36, 3)), 4, SINGLE, FEW_IMAGES),
    "inception-v3": lambda: Network("Inception-V3", layers.inception_v3(), 32, SINGLE, IMAGES),
    "bert-large": lambda: Network("BERT-large", layers.bert_large(), 4, HALF, TEXT),
    "xlnet-large": lambda: Network("XLNet-large", layers.xlnet_large(), 4, HALF, TEXT),
    "t5": lambda: Network("T5", layers.t5_11b(), 8, HALF, TEXT),
    "gpt-6.7b": lambda: Network("GPT-6.7B", layers.gpt(32, 4096), 32, HALF, TEXT),
    "gpt-13b": lambda: Network("GPT-13B", layers.gpt(40, 5120), 32, HALF, TEXT),
    "gpt-175b": lambda: Network("GPT-175B", layers.gpt(96, 12288), 16, HALF, TEXT),
}

NAMES = tuple(_NETWORKS)
"""Names of the networks, which are those of their instances after ``asrpt/``."""

GPUS: Mapping[str, tuple[int, ...]] = {
    "vgg19": (1, 2, 4, 8, 16, 32),
    "resnet152": (1, 2, 4, 8),
    "inception-v3": (1, 2, 4, 8, 16),
    "bert-large": (1, 2, 4, 8),
    "xlnet-large": (1, 2, 4, 8),
    "t5": (2, 4, 8, 16),
    "gpt-6.7b": (2, 4, 8, 16, 32),
    "gpt-13b": (2, 4, 8, 16, 32),
    "gpt-175b": (24, 32, 48, 64),
}
"""Network -> GPUs of its jobs (assumption: the paper prints none). T5 and GPT need several GPUs [ASRPT, section V-A];
for GPT-6.7B this follows the paper, although its parameters and gradients alone would fit on one V100 of 32 GB."""


@cache
def network(name: str) -> Network:
    """The network of that name, one of :data:`NAMES`.

    Raises
    ------
    UnknownName
        There is no network of that name; the message contains the nearest name.
    """
    return lookup(_NETWORKS, name, "network")()


def configuration(name: str, gpus: int) -> Job:
    """The job that trains a network on that many V100s, named ``name-gpus``.

    The planner does not know the placement. It assumes that a replica has its share of the network card, or the whole
    card if the job fits on one server, so that it does not avoid communication that is fast within a server. Seconds
    are rounded to six digits, the accuracy of the model. Throughput is in iterations per second, without communication.

    Raises
    ------
    UnknownName
        There is no such network.
    InvalidOption, InvalidInstance
        It cannot be trained on this number of GPUs; see :func:`hetopt.models.asrpt.planning.plan`.
    """
    trained, gpus = network(name), whole(gpus, "gpus", 1)
    stages = plan(trained, gpus, bandwidth=NIC_BYTES_PER_S if gpus <= SERVER_GPUS else NIC_SHARE)
    rounded = tuple(map(_rounded, stages))
    per_byte = trained.precision.bytes_per_parameter / trained.precision.bytes_per_number
    return Job(
        f"{name}-{gpus}",
        {"V100": _digits(1 / max(stage.forward_s + stage.backward_s for stage in rounded))},
        work=ITERATIONS,
        demand=gpus,
        memory_bytes=max(stage.parameter_bytes for stage in stages) * per_byte,
        checkpoint_bytes=16 * trained.parameters,
        parallelism=Parallelism.DATA if len(stages) == 1 else Parallelism.PIPELINE,
        stages=rounded,
    )


def _rounded(stage: Stage) -> Stage:
    return replace(stage, forward_s=_digits(stage.forward_s), backward_s=_digits(stage.backward_s))


def _digits(value: float) -> float:
    return float(f"{value:.6g}")


def configurations(name: str) -> tuple[Job, ...]:
    """The network's jobs on 1, 2, 4 … GPUs, as in :data:`GPUS`.

    Raises
    ------
    UnknownName
        There is no such network.
    """
    network(name)
    return tuple(configuration(name, gpus) for gpus in GPUS[name])


def instance(name: str) -> Instance:
    """All configurations of a network on 12 servers of [ASRPT, section V-B]: the named instance ``asrpt/name``.

    Raises
    ------
    UnknownName
        There is no such network.
    """
    jobs = configurations(name)
    cluster = Cluster.of(
        {"V100": SERVERS * SERVER_GPUS},
        gpus_per_server=SERVER_GPUS,
        memory_bytes={"V100": V100_BYTES},
    )
    return Instance(cluster, jobs=jobs, name=f"asrpt/{name}", source=_source(network(name)))


def _source(trained: Network) -> str:
    """Provenance of the numbers of an instance."""
    bits = 8 * trained.precision.bytes_per_number
    return (
        f"A-SRPT, Table I and section V-B: {trained.name} in mini-batches of {trained.mini_batch}, planned for several "
        f"numbers of V100s. The paper prints no times. Derived by hetopt.models.asrpt.networks from the network's "
        f"published shape: {trained.parameters:,} parameters, {trained.operations / 1e9:,.2f}e9 operations per sample "
        f"forwards. Assumptions: {trained.efficiency:.0%} of the V100's {trained.precision.peak / 1e12:g}e12 "
        f"operations per second are reached; backwards takes twice as long as forwards; numbers of {bits:g} bits; "
        f"{trained.precision.bytes_per_parameter:g} bytes of GPU memory per parameter, activations recomputed; stages "
        f"by hetopt.models.asrpt.planning; {ITERATIONS} iterations; checkpoints of 16 bytes per parameter; 12 servers."
    )
