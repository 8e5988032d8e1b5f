"""Metrics for Prometheus, on loopback alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hetopt.errors import InvalidOption
from hetopt.executor.queue import FINISHED
from hetopt.executor.snapshot import Snapshot, snapshot
from hetopt.executor.state_database import StateDatabase

LOOPBACK = "127.0.0.1"


class ClusterCollector(Collector):
    """Reads the state database at each request."""

    def __init__(self, database: StateDatabase) -> None:
        self.database = database

    def collect(self) -> Iterator[Metric]:
        """Gauges of the present state."""
        yield from metrics_of(snapshot(self.database, finished=0))


def metrics_of(state: Snapshot) -> Iterator[Metric]:
    """Jobs by state, GPUs by node and type, steps of each open job, the round, alerts."""

    def gauge(name: str, meaning: str, labels: str, values: Iterable[tuple[list[str], float]]) -> Metric:
        metric = GaugeMetricFamily(f"hetopt_{name}", meaning, labels=labels.split())
        for names, value in values:
            metric.add_metric(names, value)
        return metric

    states = Counter(job["state"] for job in state.jobs) + state.left_out
    gpus = [(node, gpu_type, number) for node in state.nodes for gpu_type, number in node["gpus"].items()]
    jobs = [job for job in state.jobs if job["state"] not in FINISHED]
    held = (([node["name"], kind], node["used"].get(kind, 0)) for node, kind, _ in gpus)
    yield gauge("jobs", "Jobs by state.", "state", (([name], states[name]) for name in sorted(states)))
    yield gauge("gpus", "GPUs of a node.", "node gpu_type", (([node["name"], kind], n) for node, kind, n in gpus))
    yield gauge("gpus_held", "GPUs of a node that leases hold.", "node gpu_type", held)
    up = (([node["name"]], float(node["state"] == "up")) for node in state.nodes)
    yield gauge("node_up", "1 if jobs can start on the node.", "node", up)
    for name, key, meaning in (
        ("job_steps_done", "step", "Steps done, committed or not."),
        ("job_steps_lost", "lost", "Steps that had to be repeated."),
    ):
        yield gauge(name, meaning, "job tenant", (([job["name"], job["tenant"]], job[key]) for job in jobs))
    overdue = "Seconds by which the next decision is overdue; 0 if it is not, or by little."
    alerts = "Causes that keep the controller from progress, such as an engine that does not answer."
    yield gauge("round", "Number of the last decision.", "", [([], state.round)])
    yield gauge("round_overdue_seconds", overdue, "", [([], state.overdue or 0.0)])
    yield gauge("alerts", alerts, "", [([], len(state.alerts))])


def serve(database: StateDatabase, port: int) -> Any:
    """Serve metrics from a thread: the server, and its thread.

    Raises
    ------
    InvalidOption
        The port cannot be used.
    """
    if not 0 <= port < 65536:
        raise InvalidOption(f"is {port}; it must be from 0 to 65535", "--metrics-port")
    registry = CollectorRegistry()
    registry.register(ClusterCollector(database))
    try:
        return start_http_server(port, addr=LOOPBACK, registry=registry)
    except OSError as problem:
        raise InvalidOption(f"--metrics-port {port}: {problem.strerror}") from None
