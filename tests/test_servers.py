"""Servers as GPU mappings see them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hetopt import instances
from hetopt.data.cluster import Cluster, GPUType, Server
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.errors import InvalidInstance
from hetopt.stages.servers import Servers
from hetopt.tolerances import EQUAL


def test_of_the_papers_cluster() -> None:
    """250 servers of 8 GPUs, 10 Gbit/s, 300 GB/s: an eighth of the card comes with each GPU."""
    servers = Servers.of(instances.load("asrpt/cluster250"), "V100")
    assert (len(servers), servers.total, servers.fast_inside) == (250, 2000, True)
    assert servers.nic[0] == pytest.approx(1.25e9 / 8, rel=EQUAL)
    assert servers.intra[0] == pytest.approx(300e9, rel=EQUAL)


def test_gpus_of_placed_jobs_are_not_free() -> None:
    """A card is shared by all GPUs of a server, of whatever type."""
    cluster = Cluster(
        (GPUType("T4"), GPUType("V100")),
        (Server("a", {"T4": 2, "V100": 2}, nic_bytes_per_s=8), Server("b", {"V100": 1}), Server("c", {"V100": 4})),
    )
    jobs = (Job("j", {"T4": 1.0, "V100": 1.0}, 1, 2),)
    instance = Instance(cluster, jobs=jobs, placed={"j": {"a": {"V100": 1}, "b": {"V100": 1}}})
    servers = Servers.of(instance, "V100")
    assert dict(zip(servers.names, servers.free.tolist(), strict=True)) == {"a": 1, "c": 4}
    assert servers.nic[0] == pytest.approx(2, rel=EQUAL)
    assert Servers.of(instance, "V100", busy=False).free.tolist() == [2, 1, 4]
    assert servers.take([(1, 2)]).names == ("c",)


def test_exact() -> None:
    assert Servers.alike([3], nic_bytes_per_s=0.75).exact().nic.tolist() == [Fraction(1, 4)]


EMPTY = Instance(Cluster((GPUType("GPU"),), (Server("a", {"GPU": 1}), Server("none", {"GPU": 0}))))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Servers.alike([0, 0]), "server 'server1' has no GPU; leave it out"),
        (lambda: Servers.of(EMPTY, "GPU"), "servers['none'] has no GPU; leave it out"),
        (lambda: Servers.alike([2, 0]), "server 'server2' has no GPU; leave it out"),
        (lambda: Servers.alike([2, 3], gpus=2), "free['server2'] is 3; the server has 2 GPUs"),
        (lambda: Servers.alike([2], nic_bytes_per_s=0), "nic_bytes_per_s is 0; it must be a finite number > 0"),
        (lambda: Servers.alike([2], intra_bytes_per_s=-1), "intra_bytes_per_s is -1; it must be a finite number > 0"),
        (lambda: Servers(("a",), np.array([1]), np.array([0.0]), np.array([1.0])), "both must be > 0"),
        (lambda: Servers(("a", "a"), *(np.ones(2, dtype=int),) * 3), "server 'a' occurs twice"),
        (lambda: Servers.of(instances.load("asrpt/cluster250"), "T4"), "gpu_type names GPU type 'T4'"),
    ],
)
def test_what_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidInstance) as problem:
        make()
    assert message in str(problem.value)
