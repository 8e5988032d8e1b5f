"""Work per second of a job, from its GPUs and the servers of its gang."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np

from hetopt.checks import FrozenDict, any_mapping, at_least, known, mapping, one_of, whole
from hetopt.data.cluster import Cluster
from hetopt.data.gpu_locations import Hosts
from hetopt.data.workload import Job, Stage
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.stages.iteration_time import Asynchronous, Timing
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers, bandwidths

Rate: TypeAlias = Callable[[Job, Hosts, Mapping[str, tuple[int, ...]]], float]
"""(job, hosts, server -> replicas of each stage) -> work per second of the whole gang."""


class SpeedModel(Protocol):
    """Rates of jobs in a simulation, from their GPUs and servers."""

    def on(self, cluster: Cluster) -> Rate:
        """Rates on the servers of ``cluster``."""
        ...


@dataclass(frozen=True)
class StageSpeeds:
    """Jobs with mapped stages do one unit of work per iteration; other jobs have the rate of their slowest GPU type.

    Parameters
    ----------
    timing:
        Time of an iteration.
    """

    timing: Timing = field(default_factory=Asynchronous)

    def on(self, cluster: Cluster) -> Rate:
        """Rates on the servers of ``cluster``."""
        return _Rates(cluster, self.timing)


class _Rates:
    """Caches the time of an iteration for each pipeline and mapping."""

    def __init__(self, cluster: Cluster, timing: Timing) -> None:
        self.timing = timing
        nic, intra = bandwidths(cluster.servers)
        self.bandwidth = {s.name: pair for s, *pair in zip(cluster.servers, nic.tolist(), intra.tolist(), strict=True)}
        self.pipelines: dict[tuple[object, ...], tuple[tuple[Stage, ...], Pipeline]] = {}
        self.known: dict[tuple[object, ...], float] = {}

    def __call__(self, job: Job, hosts: Hosts, replicas: Mapping[str, tuple[int, ...]]) -> float:
        types = [t for gpus in hosts.values() for t, n in gpus.items() if n]
        if not (job.stages and replicas):
            if job.sizes:
                total = sum(n for own in hosts.values() for n in own.values())
                return min([job.rate(t, total) for t in types])
            return min([job.throughput[t] for t in types])
        pipeline = self._pipeline(job, min(types, key=job.throughput.__getitem__))
        key = (pipeline, *((*self.bandwidth[m], own) for m, own in replicas.items()))
        if key not in self.known:
            names = tuple(replicas)
            nic, intra = np.array([self.bandwidth[m] for m in names]).T
            gpus = np.array([sum(hosts[m].values()) for m in names])
            x = np.array([replicas[m] for m in names]).T
            seconds = float(self.timing(pipeline, x, Servers(names, gpus, nic, intra)))
            if seconds <= 0:
                raise InvalidInstance(
                    f"an iteration of job {job.name!r} takes {seconds:g} s; give its stages seconds > 0"
                )
            self.known[key] = 1 / seconds
        return self.known[key]

    def _pipeline(self, job: Job, gpu_type: str) -> Pipeline:
        slower = max(job.throughput.values()) / job.throughput[gpu_type]
        key = (id(job.stages), slower)  # hashing stages is slow
        if key not in self.pipelines:
            self.pipelines[key] = job.stages, Pipeline.of(job, gpu_type)  # holding the stages keeps their id unique
        return self.pipelines[key][1]


Factors = Mapping[str, Mapping[int, Mapping[int, float]]]
"""Model -> GPUs of the gang -> servers over which it is spread -> speed relative to one server."""

MEASURED: Factors = FrozenDict(
    {
        "alexnet": {2: {2: 0.745}, 4: {2: 0.397, 4: 0.325}, 6: {2: 0.331}, 8: {2: 0.508, 4: 0.268}},
        "vgg16": {2: {2: 0.896}, 4: {2: 0.576, 4: 0.318}, 6: {2: 0.657}, 8: {2: 0.572, 4: 0.261}},
        "resnet101": {2: {2: 0.991}, 4: {2: 0.969, 4: 0.954}, 6: {2: 0.949}, 8: {2: 0.948, 4: 0.803}},
        "mobilenet_v2": {2: {2: 0.996}, 4: {2: 0.972, 4: 0.794}, 6: {2: 0.958}, 8: {2: 0.930, 4: 0.627}},
        "inception_v3": {2: {2: 1.0}, 4: {2: 0.983, 4: 0.964}, 6: {2: 0.951}, 8: {2: 0.923, 4: 0.879}},
        "LM": {2: {2: 0.230}, 4: {4: 0.311}, 8: {8: 0.118}},
        "Transformer": {2: {2: 0.627}, 4: {4: 0.549}, 8: {8: 0.343}},
    }
)
"""Data-parallel training, three digits, at most 1. Image models: measured by Chronus (Gao et al., SoCC 2021), from its
public artifact (MIT licence). Language models: measured by Gavel on V100s, each on a separate server, from its public
simulator (MIT licence); medians over batch sizes."""

FAMILIES: Mapping[str, str] = FrozenDict(
    {"VGG": "vgg16", "VGG-16": "vgg16", "VGG-19": "vgg16"}
    | dict.fromkeys(("ResNet", "ResNet-50", "ResNet-152"), "resnet101")
    | dict.fromkeys(("DenseNet", "DenseNet-121", "DenseNet-201"), "resnet101")
    | {"LSTM": "LM", "RNN": "LM"}
)
"""Model of :mod:`hetopt.traces.paper_models` -> the row of :data:`MEASURED` used for it. VGG-19 has 4 % more
parameters than VGG-16. DenseNets compute at least as much per byte of gradients as ResNet-101, so they lose no more. An
RNN is the language model with simpler cells, so it loses no less. Chronus measured with images of ImageNet's size; with
smaller images a gang computes less per byte and loses more. Bark, BERT, GPT and OPT are missing because no measurements
are published."""


@dataclass(frozen=True)
class Spread:
    """A gang on several servers is slower than on one, by a factor of its model.

    Jobs with mapped stages keep the speed of ``base``, which includes their communication.

    Parameters
    ----------
    table:
        Model -> GPUs -> servers -> relative speed in (0, 1]. A missing number has the value of the next smaller one,
        else of the smallest.
    families:
        Model of a job (:attr:`hetopt.Job.model`) -> the row of ``table`` used for it; other models use their own row.
        None: the entries of :data:`FAMILIES` with a row in the table.
    otherwise:
        Relative speed on several servers of jobs whose model is not in the table.
    base:
        The speed model without the spread.

    Raises
    ------
    InvalidOption
        A factor outside (0, 1], or a family that is not in the table.
    """

    table: Factors = field(default_factory=lambda: MEASURED)
    families: Mapping[str, str] | None = None
    otherwise: float = 1.0
    base: SpeedModel = field(default_factory=StageSpeeds)

    def __post_init__(self) -> None:
        _factor(self.otherwise, "Spread.otherwise")
        table = {}
        for model, rows in mapping(self.table, "Spread.table", InvalidOption).items():
            key = f"Spread.table[{model!r}]"
            given = any_mapping(rows, key, InvalidOption, "from GPUs to speeds").items()
            found = dict(sorted((whole(n, f"a key of {key}", 1), own) for n, own in given))
            if not found:
                raise InvalidOption("is empty; give it relative speeds, or leave the model out", key)
            table[model] = FrozenDict({n: FrozenDict(_speeds(own, f"{key}[{n}]")) for n, own in found.items()})
        usual = {model: family for model, family in FAMILIES.items() if family in table}
        families = usual if self.families is None else mapping(self.families, "Spread.families", InvalidOption)
        for model, family in families.items():
            one_of(family, table, f"Spread.families[{model!r}]")
        object.__setattr__(self, "table", FrozenDict(table))
        object.__setattr__(self, "families", FrozenDict(families))

    def factor(self, job: Job, servers: int, gpus: int | None = None) -> float:
        """Speed of the job's gang of ``gpus`` GPUs (default: its demand) on ``servers`` servers, relative to one."""
        if servers <= 1:
            return 1.0
        model = job.model or ""
        rows = self.table.get((self.families or {}).get(model, model))
        if rows is None:
            return self.otherwise
        nearest = max((n for n in rows if n <= (gpus or job.demand)), default=min(rows))
        return float(rows[nearest][max((m for m in rows[nearest] if m <= servers), default=min(rows[nearest]))])

    def on(self, cluster: Cluster) -> Rate:
        """Rates on the servers of ``cluster``."""
        base = self.base.on(cluster)

        def rate(job: Job, hosts: Hosts, replicas: Mapping[str, tuple[int, ...]]) -> float:
            plain = base(job, hosts, replicas)
            if replicas:
                return plain
            on_each = [sum(own.values()) for own in hosts.values()]
            return plain * self.factor(job, sum(map(bool, on_each)), sum(on_each))

        return rate


@dataclass(frozen=True)
class Variability:
    """Servers with the same GPU type are not equally fast; the slowest server of a gang sets its rate.

    Parameters
    ----------
    slowdown:
        Server -> seconds of an iteration there relative to the job's throughput (1.2: 20 % longer), for all models or
        by model; 1 for servers and models that are missing.
    base:
        The speed model without variability.

    Raises
    ------
    InvalidOption
        A slowdown that is not positive.
    """

    slowdown: Mapping[str, float | Mapping[str, float]]
    base: SpeedModel = field(default_factory=StageSpeeds)

    def __post_init__(self) -> None:
        for server, value in mapping(self.slowdown, "Variability.slowdown", InvalidOption).items():
            key = f"Variability.slowdown[{server!r}]"
            for name, own in value.items() if isinstance(value, Mapping) else [("", value)]:
                at_least(own, f"{key}[{name!r}]" if name else key, 0.0, InvalidOption, strict=True)

    def factor(self, job: Job, server: str) -> float:
        """Relative seconds of an iteration of the job on the server."""
        value = self.slowdown.get(server, 1.0)
        return value.get(job.model or "", 1.0) if isinstance(value, Mapping) else value

    def on(self, cluster: Cluster) -> Rate:
        """Rates on the servers of ``cluster``.

        Raises
        ------
        InvalidOption
            A server that the cluster does not have.
        """
        for server in self.slowdown:
            known(server, cluster.by_name, "Variability.slowdown", "server", InvalidOption)
        base = self.base.on(cluster)

        def rate(job: Job, hosts: Hosts, replicas: Mapping[str, tuple[int, ...]]) -> float:
            slowest = max((self.factor(job, server) for server, own in hosts.items() if any(own.values())), default=1.0)
            return base(job, hosts, replicas) / slowest

        return rate


def _speeds(rows: Any, key: str) -> dict[int, float]:
    """Servers -> speed relative to one server."""
    given = any_mapping(rows, key, InvalidOption, "from servers to speeds").items()
    return {whole(m, f"a key of {key}", 2): _factor(speed, f"{key}[{m}]") for m, speed in given}


def _factor(value: Any, key: str) -> float:
    """Speed relative to one server."""
    return at_least(value, key, 0.0, InvalidOption, strict=True, most=1.0)
