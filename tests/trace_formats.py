"""Writers of small traces in the formats of others, for tests: what a reader must find is what was written."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from hypothesis import strategies as st

from hetopt.traces.trace_table import OPTIONAL, REQUIRED, TEXTS

START = pd.Timestamp("2017-09-04 10:30:41")
MORNING = int((START - START.normalize()).total_seconds())
"""Seconds from midnight to :data:`START`."""
SHARED = Path(__file__).parents[2] / "shared" / "data"

Row = Mapping[str, Any]

TEXT = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=5)
"""Names without spaces; with commas, quotes and letters of all kinds."""

JOBS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(0, 10**6),
            "arrival": st.integers(1, 10**6),
            "duration": st.integers(1, 10**6),
            "gpus": st.integers(1, 1000),
            "iterations": st.integers(1, 10**12),
            "wait": st.integers(0, 1000),
            **dict.fromkeys(TEXTS, TEXT),
            "job_class": st.sampled_from(["HP", "Spot"]),
        }
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda row: row["id"],
)
"""Jobs in the order of a file; arrivals in seconds since :data:`START`, in no order."""


def clock(seconds: int) -> str:
    return str(START + pd.Timedelta(seconds=seconds))


class Format(NamedTuple):
    """A file with a line for each job.

    Attributes
    ----------
    kind:
        What reads it.
    cells:
        Job -> column of the file -> cell.
    finds:
        Columns of the trace's table that the file says.
    wrong:
        Column of the file that is used -> cells that are not allowed there.
    job:
        Job and its place in the file -> its name in the table.
    """

    kind: str
    cells: Callable[[Row], dict[str, Any]]
    finds: tuple[str, ...]
    wrong: Mapping[str, tuple[str, ...]]
    job: Callable[[Row, int], str] = lambda row, _: f"j{row['id']}"
    header: bool = True
    separator: str = ","

    def lines(self, rows: list[Row]) -> list[list[str]]:
        """The cells of the file, the header first if it has one."""
        cells = [self.cells(row) for row in rows]
        return [list(cells[0])] * self.header + [[str(cell) for cell in line.values()] for line in cells]

    def write(self, path: Path, lines: list[list[str]]) -> Path:
        if self.separator == ",":
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(lines)
            content = text.getvalue().encode()
        else:
            content = "".join(self.separator.join(line) + "\n" for line in lines).encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        return path

    def expected(self, rows: list[Row]) -> pd.DataFrame:
        return expected(rows, self.finds, self.job)


def expected(rows: list[Row], finds: tuple[str, ...], job: Callable[[Row, int], str]) -> pd.DataFrame:
    """The table of these jobs, by plain Python."""
    first = min(row["arrival"] for row in rows)
    made = [
        {
            **row,
            "job": job(row, i),
            "arrival": float(row["arrival"] - first),
            "duration": float(row["duration"]),
            "hour": int(clock(row["arrival"])[11:13]),
        }
        for i, row in enumerate(rows)
    ]
    made.sort(key=lambda row: row["arrival"])
    columns = [key for key in (*REQUIRED, *OPTIONAL) if key in REQUIRED or key in finds]
    return pd.DataFrame({key: [row[key] for row in made] for key in columns})


POSITIVE = ("", "x", "-1", "0", "nan", "1e400", "12s")
NOT_NEGATIVE = ("", "x", "-1", "nan", "1e400", "1 2")
COUNT = ("", "x", "-1", "1.5", "nan", "1e400")
STEPS = (*POSITIVE, "1.5")
NAME = ("", " ", "a\x07b")
TEXT_OR_EMPTY = ("a\x07b",)
TIME = ("", "yesterday", "2017-13-01 00:00:00", "17")
TIME_WITH_ZONE = (*TIME, "2017-09-04 10:30:41", "2017-09-04 10:30:41+99:00")


def _simulator(row: Row) -> dict[str, Any]:
    return {
        "job_id": row["id"],
        "num_gpu": row["gpus"],
        "submit_time": row["arrival"],
        "iterations": row["iterations"],
        "model_name": row["model"],
        "duration": row["duration"],
        "interval": 0,
    }


SIMULATOR = {
    "job_id": NAME,
    "num_gpu": COUNT,
    "submit_time": NOT_NEGATIVE,
    "iterations": STEPS,
    "model_name": NAME,
    "duration": POSITIVE,
}


def _milliseconds(row: Row) -> dict[str, Any]:
    cells = _simulator(row) | {"batch_size": 16, "iteration_time": 3}
    return cells | {key: cells[key] * 1000 for key in ("submit_time", "duration")}


def _gavel(row: Row) -> dict[str, Any]:
    return {
        "job_type": row["model"],
        "command": "python3 main.py --data_dir=%s/x 'a' \"b",
        "working_directory": "image_classification/cifar10",
        "num_steps_arg": "--num_steps",
        "needs_data_dir": 1,
        "total_steps": row["iterations"],
        "scale_factor": row["gpus"],
        "mode": "static",
        "priority_weight": 1,
        "SLO": "-1.000000",
        "duration": row["duration"],
        "arrival_time": f"{row['arrival']:.6f}",
    }


GAVEL = {
    "job_type": NAME,
    "total_steps": STEPS,
    "scale_factor": COUNT,
    "duration": POSITIVE,
    "arrival_time": NOT_NEGATIVE,
}

FORMATS = {
    "cleaned": Format(
        "philly",
        lambda row: {
            "job_id": row["id"],
            "submit_time": clock(row["arrival"]),
            "submit_s": row["arrival"],
            "duration_s": row["duration"],
            "num_gpus": row["gpus"],
            "vc": row["tenant"],
        },
        ("tenant", "hour"),
        {
            "job_id": NAME,
            "submit_time": TIME,
            "submit_s": NOT_NEGATIVE,
            "duration_s": POSITIVE,
            "num_gpus": COUNT,
            "vc": NAME,
        },
    ),
    "pollux": Format(
        "philly",
        lambda row: {
            "timestamp": clock(row["arrival"]),
            "duration": float(row["duration"]),
            "num_gpus": row["gpus"],
            "gpu_time": float(row["duration"] * row["gpus"]),
            "cluster": row["tenant"],
        },
        ("tenant", "hour"),
        {"timestamp": TIME, "duration": POSITIVE, "num_gpus": COUNT, "cluster": NAME},
        lambda _, i: f"j{i}",
    ),
    "chronus": Format(
        "philly",
        lambda row: {**_simulator(row), "user": row["tenant"], "best_effort": 0},
        ("tenant", "model", "iterations"),
        {**SIMULATOR, "user": NAME},
    ),
    "muri": Format("philly", _milliseconds, ("model", "iterations"), SIMULATOR),
    "elasticflow": Format(
        "philly",
        lambda row: {
            ("iteration" if key == "iterations" else key): cell
            for key, cell in (_simulator(row) | {"ddl": 7, "batch_size": 64}).items()
        },
        ("model", "iterations"),
        {("iteration" if key == "iterations" else key): wrong for key, wrong in SIMULATOR.items()},
    ),
    "pal": Format(
        "philly",
        lambda row: {
            "job_id": row["id"],
            "num_gpus": row["gpus"],
            "submit_time": row["arrival"],
            "duration": float(row["duration"]),
            "model": row["model"],
        },
        ("model",),
        {"job_id": NAME, "num_gpus": COUNT, "submit_time": NOT_NEGATIVE, "duration": POSITIVE, "model": NAME},
    ),
    "tiresias": Format("tiresias", _simulator, ("model", "iterations"), SIMULATOR),
    "helios": Format(
        "helios",
        lambda row: {
            "job_id": row["id"],
            "user": row["user"],
            "vc": row["tenant"],
            "jobname": row["group"],
            "gpu_num": row["gpus"],
            "cpu_num": 4,
            "node_num": 1,
            "state": row["status"],
            "submit_time": clock(row["arrival"]),
            "start_time": clock(row["arrival"] + row["wait"]),
            "end_time": clock(row["arrival"] + row["wait"] + row["duration"]),
            "duration": row["duration"],
            "queue": row["wait"],
        },
        ("tenant", "user", "group", "status", "hour"),
        {
            "job_id": NAME,
            "user": NAME,
            "vc": NAME,
            "jobname": TEXT_OR_EMPTY,
            "gpu_num": COUNT,
            "state": NAME,
            "submit_time": TIME,
            "duration": NOT_NEGATIVE,
        },
    ),
    "openb": Format(
        "openb",
        lambda row: {
            "name": f"openb-pod-{row['id']}",
            "cpu_milli": 4000,
            "memory_mib": 15258,
            "num_gpu": row["gpus"],
            "gpu_milli": 1000,
            "gpu_spec": row["gpu_type"],
            "qos": "BE",
            "pod_phase": row["status"],
            "creation_time": row["arrival"],
            "deletion_time": row["arrival"] + row["wait"] + row["duration"],
            "scheduled_time": float(row["arrival"] + row["wait"]),
        },
        ("gpu_type", "status"),
        {
            "name": NAME,
            "num_gpu": COUNT,
            "gpu_milli": (*COUNT, "1001"),
            "gpu_spec": TEXT_OR_EMPTY,
            "pod_phase": TEXT_OR_EMPTY,
            "creation_time": NOT_NEGATIVE,
            "deletion_time": NOT_NEGATIVE[1:],
            "scheduled_time": NOT_NEGATIVE[1:],
        },
        lambda row, _: f"openb-pod-{row['id']}",
    ),
    "alibaba-spot": Format(
        "alibaba-spot",
        lambda row: {
            "job_name": row["id"],
            "organization": row["tenant"],
            "gpu_model": row["gpu_type"],
            "cpu_request": 8,
            "gpu_request": float(row["gpus"]),
            "worker_num": 1,
            "submit_time": row["arrival"] + MORNING,
            "duration": row["duration"],
            "job_type": row["job_class"],
        },
        ("tenant", "gpu_type", "job_class", "hour"),
        {
            "job_name": NAME,
            "organization": NAME,
            "gpu_model": NAME,
            "gpu_request": NOT_NEGATIVE,
            "worker_num": (*COUNT, "0"),
            "submit_time": NOT_NEGATIVE,
            "duration": NOT_NEGATIVE,
            "job_type": ("", "hp", "spot", "LP"),
        },
    ),
    "acme": Format(
        "acme",
        lambda row: {
            "job_id": row["id"],
            "user": row["user"],
            "node_num": 1,
            "gpu_num": row["gpus"],
            "cpu_num": 16,
            "type": row["job_class"],
            "state": row["status"],
            "submit_time": clock(row["arrival"]) + "+08:00",
            "start_time": clock(row["arrival"] + row["wait"]) + "+08:00",
            "end_time": clock(row["arrival"] + row["wait"] + row["duration"]) + "+08:00",
            "duration": row["duration"] + row["wait"],
            "queue": row["wait"],
            "gpu_time": 0.0,
        },
        ("user", "job_class", "status", "hour"),
        {
            "job_id": NAME,
            "user": NAME,
            "gpu_num": COUNT,
            "type": TEXT_OR_EMPTY,
            "state": TEXT_OR_EMPTY,
            "submit_time": TIME_WITH_ZONE,
            "start_time": TIME_WITH_ZONE[1:],
            "end_time": TIME_WITH_ZONE[1:],
        },
    ),
    "shockwave": Format(
        "gavel", _gavel, ("model", "iterations"), GAVEL, lambda _, i: f"j{i}", header=False, separator="\t"
    ),
    "plain": Format(
        "plain",
        lambda row: {
            "job": f"n{row['id']}",
            "arrival": row["arrival"],
            "duration": row["duration"],
            **{key: row[key] for key in ("gpus", *OPTIONAL) if key != "hour"},
            "hour": int(clock(row["arrival"])[11:13]),
        },
        OPTIONAL,
        {
            "job": NAME,
            "arrival": NOT_NEGATIVE,
            "duration": POSITIVE[1:],
            "gpus": (*COUNT, "0"),
            "iterations": STEPS[1:],
            "hour": (*COUNT, "24"),
            **dict.fromkeys(TEXTS, TEXT_OR_EMPTY),
        },
        lambda row, _: f"n{row['id']}",
    ),
}
