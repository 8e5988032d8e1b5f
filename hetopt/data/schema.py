"""The form of an instance file, version 1: keys, allowed values and units.

:func:`json_schema` exports it; the export is ``docs/schema/instance-v1.json``.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from hetopt.data.cluster import INTRA_BYTES_PER_S, NIC_BYTES_PER_S
from hetopt.data.file_values import Amount, Count, Name, Natural, Part, Positive, Speeds, Weight, wrong
from hetopt.data.packing import packing_name
from hetopt.data.workload import Parallelism

SCHEMA = "hetopt/instance/1"
"""Value of the key ``schema`` in every file; the last part is the version."""


def given(key: str) -> dict[str, Any]:
    """For the JSON Schema: the key is required, and not null."""
    return {"required": [key], "properties": {key: {"not": {"type": "null"}}}}


def exactly_one(*keys: str) -> Any:
    """For the JSON Schema: one of these keys is given."""
    return {"oneOf": [given(key) for key in keys]}


LONG = ("gpu_types", "servers")
SHORT = ("capacity", "gpus_per_server", "memory_bytes", "nic_bytes_per_s", "intra_bytes_per_s", "disk_bytes")
EITHER: Any = {
    "oneOf": [
        {"allOf": [given(key) for key in LONG], "not": {"anyOf": [given(key) for key in SHORT]}},
        {"allOf": [given("capacity")], "not": {"anyOf": [given(key) for key in LONG]}},
    ]
}
"""For the JSON Schema: the two ways to describe a cluster."""


class DescribedPart(Part):
    """A part whose docstrings are the descriptions in the JSON Schema."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class GPUTypePart(DescribedPart):
    """A model of GPU."""

    name: Name
    memory_bytes: Positive | None = None
    """Memory of one GPU in bytes; leave it out where unknown."""


class ServerPart(DescribedPart):
    """A host."""

    name: Name
    gpus: dict[Name, Count]
    """GPU type -> GPUs of it in this host."""
    nic_bytes_per_s: Positive = NIC_BYTES_PER_S
    """Bandwidth of the network card in bytes per second; 10 Gbit/s are 1.25e9."""
    intra_bytes_per_s: Positive = INTRA_BYTES_PER_S
    """Bandwidth between two GPUs of the host in bytes per second."""
    disk_bytes: Amount | None = None
    """Local disk for datasets in bytes; leave it out for no limit."""


class ClusterPart(DescribedPart):
    """The cluster: either ``gpu_types`` and ``servers``, or ``capacity`` and the properties common to all servers."""

    model_config = ConfigDict(json_schema_extra=EITHER)

    gpu_types: list[GPUTypePart] | None = None
    """GPU types in order, usually slowest first."""
    servers: list[ServerPart] | None = None
    capacity: dict[Name, Count] | None = None
    """GPU type -> GPUs of it in the whole cluster, types in order."""
    gpus_per_server: Natural | None = None
    """With ``capacity``: GPUs of one type that share a host; by default one host has all GPUs of a type."""
    memory_bytes: dict[Name, Positive] | None = None
    """With ``capacity``: GPU type -> memory of one GPU in bytes."""
    nic_bytes_per_s: Positive | None = None
    """With ``capacity``: of every server, in bytes per second."""
    intra_bytes_per_s: Positive | None = None
    """With ``capacity``: of every server, in bytes per second."""
    disk_bytes: Amount | None = None
    """With ``capacity``: of every server, in bytes."""


class JobTypePart(DescribedPart):
    """A kind of jobs of a tenant: ``speedup`` or ``throughput``, not both."""

    model_config = ConfigDict(json_schema_extra=exactly_one("speedup", "throughput"))

    name: Name
    speedup: Speeds | None = None
    """GPU type -> throughput of one such GPU relative to the slowest type; 0 where it cannot run."""
    throughput: Speeds | None = None
    """GPU type -> throughput of one such GPU in any unit; divided by the smallest that is not 0."""
    memory_bytes: Amount = 0.0
    """Memory that one worker needs, in bytes."""


class TenantPart(DescribedPart):
    """A tenant: ``job_types``, or for a single one ``speedup`` or ``throughput`` alone."""

    model_config = ConfigDict(json_schema_extra=exactly_one("speedup", "throughput", "job_types"))

    name: Name
    weight: Weight = 1.0
    speedup: Speeds | None = None
    """As in a job type."""
    throughput: Speeds | None = None
    """As in a job type."""
    memory_bytes: Amount | None = None
    """With ``speedup`` or ``throughput``: memory that one worker needs, in bytes."""
    job_types: list[JobTypePart] | None = None


class StagePart(DescribedPart):
    """A stage of a pipeline-parallel job."""

    replicas: Natural
    """Data-parallel copies."""
    forward_s: Amount
    """Time of one iteration forwards through one replica, in seconds, on the GPU type on which the job is fastest."""
    backward_s: Amount
    """The same backwards, in seconds."""
    parameter_bytes: Amount = 0.0
    """Gradients exchanged in an AllReduce among the replicas, in bytes."""
    output_bytes: Amount = 0.0
    """Activations that one replica hands on in one iteration, in bytes."""
    input_bytes: Amount | None = None
    """Activations that one replica takes in one iteration, in bytes; follows from the stage before, else checked."""
    slices: Natural = 1
    """GPUs of one server over which tensor parallelism splits each replica."""
    slice_bytes: Amount = 0.0
    """Traffic of the AllReduces among the slices of a replica in one iteration, in bytes."""
    token_bytes: Amount = 0.0
    """Tokens that two replicas exchange in one iteration on average, in bytes (expert parallelism)."""


class GangSizePart(DescribedPart):
    """A number of GPUs on which an elastic job can run."""

    gpus: Natural
    """GPUs of the whole gang, all of one type."""
    throughput: Speeds
    """GPU type -> work per second of the whole gang that counts (goodput), in the unit of ``work``."""
    batch_size: dict[Name, Natural] = Field(default_factory=dict)
    """GPU type -> examples in a batch of the whole gang."""


class PhasePart(DescribedPart):
    """Consecutive epochs of a job at one batch size."""

    epochs: Count
    batch_size: Natural
    epoch_work: Positive
    """Work of an epoch, in the unit of ``work`` of the job."""


class JobPart(DescribedPart):
    """A training job."""

    name: Name
    throughput: Speeds
    """GPU type -> work per second of the whole gang, in the unit of ``work``; 0 where it cannot run."""
    work: Positive
    """Total work in epochs or iterations."""
    demand: Natural = 1
    """GPUs of the gang."""
    arrival: Amount = 0.0
    """In seconds."""
    tenant: Name | None = None
    weight: Weight = 1.0
    memory_bytes: Amount = 0.0
    """Memory that one worker needs, in bytes."""
    checkpoint_bytes: Amount = 0.0
    """Training state that moves with the job, in bytes."""
    dataset: Name | None = None
    dataset_bytes: Amount = 0.0
    parallelism: Literal["data", "tensor", "pipeline"] = Parallelism.DATA.value
    stages: list[StagePart] = Field(default_factory=list)
    """GPUs of all stages sum to ``demand``."""
    phases: list[PhasePart] = Field(default_factory=list)
    """Epochs by batch size, in order; their work sums to ``work``, and equal batch sizes have equal work per epoch."""
    utility: Name | None = None
    """Name of the utility of the completion time."""
    job_type: Name | None = None
    """Name of its job type among those of the tenant."""
    group: Name | None = None
    """Identifier common to all submissions of the same training, e.g. a hash of user, script and dataset."""
    deadline: Positive | None = None
    """Time by which it should be done, in seconds on the clock of ``arrival``; later than the arrival."""
    model: Name | None = None
    """Name of the trained model; the execution model and profiles are looked up by it."""
    copies: Natural | None = None
    """Largest number of servers on which it may run at once, each copy with a part of its work."""
    sizes: list[GangSizePart] = Field(default_factory=list)
    """Sizes of its gang other than ``demand``, if it is elastic."""


def _two(value: Any) -> Any:
    if not isinstance(value, list) or len(value) != 2:
        raise wrong("a list of two, of the first and of the second model")
    return value


TWO: Any = BeforeValidator(_two), Field(json_schema_extra={"minItems": 2, "maxItems": 2})


class PackingPart(DescribedPart):
    """How fast jobs of two models run while they share their GPUs."""

    models: Annotated[list[Name], *TWO]
    """The two models; they may be the same."""
    parts: dict[Name, Annotated[list[Positive], *TWO]]
    """GPU type -> parts of their isolated rates, at most 1, that a job of the first and one of the second keep."""
    gpus: Natural | None = None
    """Size of the gangs for which this holds; leave it out for any."""

    @property
    def name(self) -> str:
        """As of :class:`~hetopt.data.packing.Packing`."""
        return packing_name(self.models, self.gpus)


class InstancePart(DescribedPart):
    """An instance file of hetopt: a cluster, its tenants and jobs, and its state now."""

    schema_: Literal["hetopt/instance/1"] = Field(alias="schema")
    """Name and version of this form."""
    name: str = ""
    source: str = ""
    """Where the numbers come from, and which of them are assumptions."""
    cluster: ClusterPart
    tenants: list[TenantPart] = Field(default_factory=list)
    jobs: list[JobPart] = Field(default_factory=list)
    time: Amount = 0.0
    """Now, in seconds."""
    held: dict[Name, dict[Name, Amount]] = Field(default_factory=dict)
    """Tenant, ``tenant/job type`` or job -> GPU type -> GPUs held now."""
    done: dict[Name, Amount] = Field(default_factory=dict)
    """Job -> work done so far, in the unit of its ``work``."""
    placed: dict[Name, dict[Name, dict[Name, Count]]] = Field(default_factory=dict)
    """Job -> server -> GPU type -> GPUs where it runs now."""
    packings: list[PackingPart] = Field(default_factory=list)
    """How fast jobs of two models run on the same GPUs."""
    expected: dict[Name, Any] = Field(default_factory=dict)
    """Claims of a paper or a proof about this instance; read by ``hetopt.instances``, ignored by solvers."""


def json_schema() -> str:
    """The JSON Schema (draft 2020-12) of an instance file, as JSON text."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **InstancePart.model_json_schema()}
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
