"""State databases for tests of the dashboard, without a cluster: rows by hand, and a busy hour drawn at random."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from executor_cluster import spec

from hetopt.executor.clock import Clock
from hetopt.executor.connection import Connection
from hetopt.executor.dashboard.reader import DashboardState, Reader
from hetopt.executor.lease_directory import LOSSES, PROGRESS, now, renew
from hetopt.executor.state_database import LEASES, StateDatabase

Seats = Sequence[tuple[str, str, int]]


class RecordedState:
    """A state database with rows as a controller would write them, at any time.

    Parameters
    ----------
    now:
        The cluster's second when it is made; its clock goes on from there.
    """

    def __init__(self, folder: Path, now: float = 10_000.0) -> None:
        self.database = StateDatabase(folder)
        self.now = now
        self._open: Connection | None = None
        self._leases = 0
        self.database.clock = Clock.begin(now)
        self.facts(clock=self.database.clock.text)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction; nested calls share the outer one."""
        if self._open is not None:
            yield self._open
            return
        with self.database.writing() as connection:
            self._open = connection
            try:
                yield connection
            finally:
                self._open = None

    def insert(self, where: str, **row: Any) -> int:
        """A row; its number."""
        with self.writing() as connection:
            return connection.insert(where, **row)

    def facts(self, **values: str) -> None:
        """Write values of the table of facts."""
        with self.writing() as connection:
            for key, value in values.items():
                self.database.set_meta(connection, key, value)

    def controller(self, policy: str = "fft", round_seconds: float | None = 300.0, number: int = 0) -> None:
        """The records that a controller writes when it begins."""
        following = 0.0 if round_seconds is None else (self.now // round_seconds + 1) * round_seconds
        seconds = json.dumps(round_seconds)
        self.facts(policy=policy, round_seconds=seconds, round=str(number), next_round=repr(following))
        with self.writing() as connection:
            self.database.record_event(connection, "controller", policy=policy, engine="local")

    def node(
        self, name: str, gpus: Mapping[str, int], *, drained: bool = False, up: bool = True, note: str = ""
    ) -> None:
        """A host."""
        content = json.dumps({"gpus": gpus, "up": up, "note": note})
        self.insert("nodes", name=name, drained=drained, content=content)

    def job(self, name: str, submitted: float = 0.0, *, of: Mapping[str, Any] | None = None, **row: Any) -> int:
        """A job; ``of`` are fields of its file."""
        made = spec(name, **{"tenant": "default", **(of or {})})
        known = {"tenant": made.tenant, "spec": made.model_dump_json(), "state": "queued", "committed": 0}
        known |= {"submitted_at": "2026-01-01T00:00:00+00:00"}
        return self.insert("jobs", **{"name": name, "submitted": submitted, **known, **row})

    def speed(self, job: int, **rates: float) -> None:
        """Measured steps per second on GPU types."""
        for kind, rate in rates.items():
            self.insert("speeds", job=job, gpu_type=kind, feasible=True, steps=8.0 * rate, seconds=8.0)

    def lease(self, job: int, seats: Seats, granted: float, sealed: float | None = None, **row: Any) -> int:
        """A lease on (node, GPU type, number)."""
        number = self._leases = self._leases + 1
        known: dict[str, Any] = {
            "tag": f"hetopt-{self.database.cluster}-{job}-{row.get('copy', 0)}-{number}",
            "job": job,
            "copy": 0,
            "epoch": number,
            "kind": "train",
            "forked": False,
            "state": "started" if sealed is None else "sealed",
            "gpu_types": "+".join(sorted({kind for _, kind, _ in seats})),
            "from_step": 0,
            "until_step": 1000,
            "round": 1,
            "granted": granted,
            "sealed": sealed,
        }
        own = self.insert("leases", **{**known, **row})
        if sealed is None:
            self.renew(str({**known, **row}["tag"]))
        for node, kind, index in seats:
            held = sealed is None
            self.insert("seats", lease=own, node=node, gpu_type=kind, number=index, device="", held=held)
        return own

    def renew(self, tag: str, age: float = 0.0) -> Path:
        """Renew a lease as its controller would have, some seconds ago; its directory."""
        folder = self.database.folder / LEASES / tag
        folder.mkdir(parents=True, exist_ok=True)
        renew(folder, int(1000 * (now() - age)))
        return folder

    def round(self, number: int, time: float, capacity: int, **row: Any) -> None:
        """A decision."""
        known = {"policy": "fft", "jobs": 1, "placed": 1, "gpus": 1, "seconds": 0.25}
        self.insert("rounds", **{"number": number, "time": time, "capacity": capacity, **known, **row})

    def progress(self, job: int, lease: int, epoch: int, step: int, losses: Sequence[tuple[int, float]] = ()) -> None:
        """The progress and losses that a job reports in the directory of its lease."""
        folder = self.database.folder / LEASES / f"hetopt-{self.database.cluster}-{job}-0-{epoch}"
        folder.mkdir(parents=True, exist_ok=True)
        fields = {"step": step, "first_step": step, "seconds": 0.0, "time": 0.0}
        (folder / PROGRESS).write_text(json.dumps(fields))
        lines = [json.dumps({"step": at, "loss": loss, "copy": 0, "base": 0}) for at, loss in losses]
        (folder / LOSSES).write_text("".join(f"{line}\n" for line in lines))


TENANTS = ("vision", "speech", "language")
TYPES = {"K80": 2.0, "P100": 6.0, "V100": 11.0}
LAB = {"n1": {"K80": 4}, "n2": {"K80": 4}, "n3": {"P100": 4}, "n4": {"P100": 2, "V100": 2}, "n5": {"V100": 4}}


def busy(
    folder: Path,
    *,
    jobs: int = 40,
    nodes: Mapping[str, Mapping[str, int]] = LAB,
    tenants: Sequence[str] = TENANTS,
    hour: float = 3600.0,
    seed: int = 1,
) -> RecordedState:
    """An hour of rounds of five minutes on these nodes."""
    draw, recorded = random.Random(seed), RecordedState(folder, 10_000.0 + hour)
    with recorded.writing():
        _draw(recorded, draw, jobs, nodes, tenants, int(hour / 300))
    return recorded


def _draw(
    recorded: RecordedState,
    draw: random.Random,
    jobs: int,
    nodes: Mapping[str, Mapping[str, int]],
    tenants: Sequence[str],
    number: int,
) -> None:
    for i, (name, gpus) in enumerate(nodes.items()):
        recorded.node(name, gpus, drained=i == 1 and len(nodes) > 2, note="Duplicate jobid <17>" if i == 2 else "")
    free = {(node, kind, k) for node, gpus in nodes.items() for kind, n in gpus.items() for k in range(n)}
    history = _History(recorded, draw, sorted(free), jobs, tenants)
    for i in range(number):
        history.round(i + 1, 10_000.0 + 300.0 * i)
    history.finish()
    recorded.controller(number=number)


class _History:
    """Jobs that are submitted, are moved at rounds, and finish."""

    def __init__(
        self,
        recorded: RecordedState,
        draw: random.Random,
        seats: list[tuple[str, str, int]],
        jobs: int,
        tenants: Sequence[str],
    ) -> None:
        self.recorded, self.draw, self.free = recorded, draw, seats
        self.capacity, self.wanted, self.tenants = len(seats), jobs, tenants
        self.later: list[tuple[str, str, int]] = []  # free from the next round on
        self.open: dict[str, dict[str, Any]] = {}
        self.rows: list[dict[str, Any]] = []
        self.leases: list[dict[str, Any]] = []

    def renew(self, tag: str, age: float = 0.0) -> Path:
        """Renew a lease as its controller would have, some seconds ago; its directory."""
        folder = self.database.folder / LEASES / tag
        folder.mkdir(parents=True, exist_ok=True)
        renew(folder, int(1000 * (now() - age)))
        return folder

    def round(self, number: int, time: float) -> None:
        """Jobs are submitted, some leases end, free GPUs are granted."""
        for _ in range(max(1, self.wanted // 11) if len(self.rows) < self.wanted else 0):
            i = len(self.rows)
            row = {
                "name": f"{self.draw.choice(('resnet', 'bert', 'lm', 'gan'))}-{i + 1}",
                "tenant": self.tenants[i % len(self.tenants)],
                "submitted": time + self.draw.uniform(-200, 0),
                "workers": self.draw.choice((1, 1, 2, 2, 4)),
                "done": 0.0,
                "steps": self.draw.randint(2000, 9000),
                "speed": self.draw.uniform(0.5, 1.5),
                "finished": None,
            }
            self.rows.append(row)
            self.open[row["name"]] = row
        for lease in [one for one in self.leases if one["sealed"] is None and self.draw.random() < 0.45]:
            self._seal(lease, time + self.draw.uniform(2, 11), "stopped", "moves")
        self.free, self.later = sorted([*self.free, *self.later]), []
        placed = 0
        for row in self.draw.sample(list(self.open.values()), len(self.open)):
            if any(one["sealed"] is None and one["row"] is row for one in self.leases):
                placed += 1
                continue
            kind = self.draw.choice(list(TYPES))
            closed = "n2" if number > 10 else None  # it is being drained
            there = [seat for seat in self.free if seat[1] == kind and seat[0] != closed][: row["workers"]]
            if len(there) == row["workers"]:
                placed += 1
                self.free = [seat for seat in self.free if seat not in there]
                new = not any(one["row"] is row for one in self.leases)
                lease = {"row": row, "seats": there, "granted": time + self.draw.uniform(12, 20), "sealed": None}
                lease |= {"kind": "profile" if new else "train", "round": number, "from": int(row["done"])}
                lease["first_tick"] = lease["granted"] + self.draw.uniform(5, 25)
                self.leases.append(lease)
                if new:
                    self._seal(lease, lease["granted"] + 60.0, "profiled", None)
                row["done"] += (280 * TYPES[kind] * row["speed"]) if not new else 0.0
                if row["done"] >= row["steps"] and not new:
                    self._seal(lease, time + self.draw.uniform(100, 290), "ended", None)
                    row["finished"] = lease["sealed"]
                    del self.open[row["name"]]
        held = self.capacity - len(self.free)
        self.recorded.round(number, time, self.capacity, jobs=len(self.open), placed=placed, gpus=held, seconds=0.034)

    def _seal(self, lease: dict[str, Any], time: float, outcome: str, reason: str | None) -> None:
        lease |= {"sealed": time, "outcome": outcome, "reason": reason}
        self.later += lease["seats"]

    def finish(self) -> None:
        """Write all rows."""
        number = {row["name"]: self._job(i, row) for i, row in enumerate(self.rows)}
        for lease in self.leases:
            row, job = lease["row"], number[lease["row"]["name"]]
            more = {key: lease[key] for key in ("kind", "round", "first_tick")} | {"from_step": lease["from"]}
            if lease["sealed"] is not None:
                more |= {"outcome": lease["outcome"], "stop_reason": lease["reason"]}
            self.recorded.lease(job, lease["seats"], lease["granted"], lease["sealed"], **more)
            if lease["sealed"] is None:
                step = min(row["steps"] - 1, int(row["done"]) + self.draw.randint(0, 200))
                curve = [
                    (s, 4.0 / (1 + s / 900) + self.draw.uniform(0, 0.2)) for s in range(lease["from"] + 1, step, 20)
                ]
                self.recorded.progress(job, 0, self.recorded._leases, step, curve)

    def _job(self, i: int, row: dict[str, Any]) -> int:
        over = row["finished"] is not None
        failed = over and i % 9 == 4
        why = "it exited with code 1; hetopt logs <b>shows</b> what it printed" if failed else None
        if not over:
            why = "other jobs have priority in this round"
        job = self.recorded.job(
            row["name"],
            row["submitted"],
            of={"steps": row["steps"], "workers": row["workers"], "tenant": row["tenant"]},
            state="failed" if failed else "done" if over else "queued",
            committed=min(row["steps"], int(row["done"])) if not failed else row["steps"] // 3,
            lost=self.draw.choice((0, 0, 12, 40)),
            finished=row["finished"],
            reason=why,
        )
        if any(one["row"] is row for one in self.leases):
            self.recorded.speed(job, **{kind: base * row["speed"] for kind, base in TYPES.items()})
        return job


def seen(recorded: RecordedState) -> DashboardState:
    """The state that the page shows."""
    reader = Reader(recorded.database.folder)
    try:
        return reader.read()
    finally:
        reader.close()
