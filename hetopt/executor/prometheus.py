"""Metrics for Prometheus, on loopback alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hetopt.errors import InvalidOption
from hetopt.executor.snapshot import Snapshot, snapshot
from hetopt.executor.state_database import StateDatabase

LOOPBACK = "127.0.0.1"


class ClusterCollector(Collector):
    """Reads the state database at each request.

    Parameters
    ----------
    database:
        The state database.
    """

    def __init__(self, database: StateDatabase) -> None:
        self.database = database

    def collect(self) -> Iterator[Metric]:
        """Gauges of the present state."""
        yield from metrics_of(snapshot(self.database, finished=0))


def metrics_of(now: Snapshot) -> Iterator[Metric]:
    """Jobs by state, GPUs by node and type, steps of each open job, the round, alerts."""
    jobs = GaugeMetricFamily("hetopt_jobs", "Jobs by state.", labels=["state"])
    for state, number in sorted((Counter(job["state"] for job in now.jobs) + now.more).items()):
        jobs.add_metric([state], number)
    gpus = GaugeMetricFamily("hetopt_gpus", "GPUs of a node.", labels=["node", "gpu_type"])
    used = GaugeMetricFamily("hetopt_gpus_held", "GPUs of a node that leases hold.", labels=["node", "gpu_type"])
    up = GaugeMetricFamily("hetopt_node_up", "1 where jobs can start on the node.", labels=["node"])
    for node in now.nodes:
        up.add_metric([node["name"]], float(node["state"] == "up"))
        for kind, number in node["gpus"].items():
            gpus.add_metric([node["name"], kind], number)
            used.add_metric([node["name"], kind], node["used"].get(kind, 0))
    done = GaugeMetricFamily("hetopt_job_steps_done", "Steps done, committed or not.", labels=["job", "tenant"])
    lost = GaugeMetricFamily("hetopt_job_steps_lost", "Steps that had to be done again.", labels=["job", "tenant"])
    for job in now.jobs:
        if job["state"] not in ("done", "failed", "cancelled"):
            done.add_metric([job["name"], job["tenant"]], job["step"])
            lost.add_metric([job["name"], job["tenant"]], job["lost"])
    yield from (jobs, gpus, used, up, done, lost)
    yield GaugeMetricFamily("hetopt_round", "Number of the last decision.", value=now.round)
    overdue = "Seconds by which the next decision is overdue; 0 where it is not, or by little."
    yield GaugeMetricFamily("hetopt_round_overdue_seconds", overdue, value=now.overdue or 0.0)
    alerts = "What keeps the controller from going on, such as an engine that does not answer."
    yield GaugeMetricFamily("hetopt_alerts", alerts, value=len(now.alerts))


def serve(database: StateDatabase, port: int) -> Any:
    """Serve them from a thread; what ends it.

    Raises
    ------
    InvalidOption
        The port cannot be used.
    """
    registry = CollectorRegistry()
    registry.register(ClusterCollector(database))
    if not 0 <= port < 65536:
        raise InvalidOption(f"is {port}; it must be from 0 to 65535", "--metrics-port")
    try:
        return start_http_server(port, addr=LOOPBACK, registry=registry)
    except OSError as problem:
        raise InvalidOption(f"--metrics-port {port}: {problem.strerror}") from None
