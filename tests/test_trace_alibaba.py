"""Alibaba's tables of 2020 and pods of 2023, by hand and over random jobs."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused
from trace_formats import SHARED, TEXT

from hetopt import InvalidInstance, UnusableFile
from hetopt.traces.kinds import detect_kind, read_trace
from hetopt.traces.openb_reader import read_openb
from hetopt.traces.pai_reader import GROUP, INSTANCE, JOB, TASK, read_pai

TABLES = {
    "job": (
        "a,i1,ann,Terminated,57600.0,58000.0",
        "b,i2,bob,Failed,57500.0,57900.0",
        "c,i3,bob,Running,57500.0,",
        "d,i4,bob,Terminated,57500.0,57600.0",
        "e,i5,bob,Terminated,57500.0,57600.0",
        "f,i6,bob,Waiting,,57600.0",
        "g,i7,bob,Terminated,57500.0,57600.0",
        "h,i8,,Terminated,60000.0,60007.0",
        "k,i9,bob,Terminated,57500.0,57600.0",
    ),
    "task": (
        "a,ps,1.0,Terminated,57610.0,58000.0,600.0,29.3,,",
        "a,worker,5.0,Terminated,57620.0,57990.0,600.0,29.3,50.0,P100",  # 2.5 GPUs
        "a,evaluator,1.0,Terminated,57620.0,57980.0,600.0,29.3,25.0,T4",  # a quarter more
        "b,worker,4.0,Failed,57700.0,57900.0,600.0,29.3,200.0,V100",
        "c,worker,1.0,Running,57700.0,,600.0,29.3,100.0,T4",
        "d,worker,2.0,Terminated,57500.0,57600.0,600.0,29.3,0.0,CPU",
        "f,worker,2.0,Waiting,,,600.0,29.3,100.0,T4",
        "g,worker,,Terminated,57500.0,57600.0,600.0,29.3,100.0,T4",
        "h,worker,6.0,Terminated,60000.0,60007.0,600.0,29.3,16.6666667,",
        "k,worker,1.0,Terminated,0,0.0,600.0,29.3,100.0,T4",
        "unknown,worker,1.0,Terminated,57500.0,57600.0,600.0,29.3,100.0,T4",
    ),
    "instance": (
        "a,worker,n1,w1,i1,Terminated,57650.0,57990.0,m1",
        "a,worker,n2,w2,i1,Terminated,57640.0,57890.0,m2",
        "a,ps,n3,w3,i1,Interrupted,57645.0,,m2",
        "b,worker,n4,w4,i2,Failed,57700.0,57900.0,m2",
        "h,worker,n5,w5,i8,Terminated,60000.0,60007.0,m2",
    ),
    "group_tag": ("i1,ann,T4,g1,bert", "i8,,,g2,", "i1,ann,T4,g9,other", "i77,ann,T4,g1,bert"),
}
"""As published: without header; times 57600 are midnight in UTC+8."""

HEADERS = {"job": JOB, "task": TASK, "instance": INSTANCE, "group_tag": GROUP}


def write(folder: Path, *leave: str, header: bool = False, **changed: Any) -> Path:
    for name, lines in (TABLES | changed).items():
        if name not in leave:
            text = "\n".join(([",".join(HEADERS[name])] if header else []) + list(lines)) + "\n"
            (folder / f"pai_{name}_table.csv").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("header", [False, True])
def test_small_tables(header: bool, tmp_path: Path) -> None:
    folder = write(tmp_path, header=header)
    table = read_pai(folder)
    assert table.to_dict("list") == {
        "job": ["b", "a", "h"],
        "arrival": [0.0, 100.0, 2500.0],
        "duration": [200.0, 350.0, 7.0],  # a: from 57640 to 57990
        "gpus": [8, 3, 1],
        "user": ["bob", "ann", ""],
        "group": ["", "g1", "g2"],
        "model": ["", "bert", ""],
        "gpu_type": ["V100", "P100", ""],
        "status": ["Failed", "Terminated", "Terminated"],
        "hour": [23, 0, 0],
    }
    assert table.attrs == {
        "left_out": {
            "no task": 1,
            "GPU tasks of unknown size": 1,
            "no GPU": 1,
            "no time of submission": 1,
            "no time of end": 1,
            "no instance with known start and end": 1,
        },
        "rounded_up": 1,
    }
    assert detect_kind(folder) == detect_kind(folder / "pai_job_table.csv") == "pai"
    pd.testing.assert_frame_equal(read_trace(folder / "pai_job_table.csv"), table)


def test_without_instances_and_groups_tasks_say_how_long(tmp_path: Path) -> None:
    table = read_pai(write(tmp_path, "instance", "group_tag"))
    assert "group" not in table
    assert "model" not in table
    assert table.set_index("job")["duration"].to_dict() == {"b": 200.0, "a": 390.0, "h": 7.0}


def test_files_elsewhere_and_compressed(tmp_path: Path) -> None:
    folder = write(tmp_path)
    table = read_pai(folder)
    for name in TABLES:
        pd.read_csv(folder / f"pai_{name}_table.csv", header=None, dtype=str).to_csv(
            tmp_path / f"{name}.csv.gz", header=False, index=False
        )
        (folder / f"pai_{name}_table.csv").unlink()
    with pytest.raises(UnusableFile, match=r"pai_job_table\.csv: cannot be read: No such file"):
        read_pai(folder)
    with pytest.raises(UnusableFile, match=r"has no pai_task_table\.csv; name it with tasks="):
        read_pai(tmp_path / "job.csv.gz")
    files = {key: tmp_path / f"{name}.csv.gz" for key, name in (("tasks", "task"), ("instances", "instance"))}
    found = read_trace(tmp_path / "job.csv.gz", "pai", **files, groups=tmp_path / "group_tag.csv.gz")
    pd.testing.assert_frame_equal(found, table)


@pytest.mark.parametrize(
    ("name", "old", "new", "key", "match", "line"),
    [
        ("job", "a,i1", "b,i1", "job_name", None, 2),
        ("job", "57600.0,", "soon,", "start_time", None, 1),
        ("job", ",58000.0", ",-1", "end_time", None, 1),
        ("job", "ann", "a\x07", "user", None, 1),
        ("job", ",58000.0", "", None, "5 cells", 1),
        ("task", "a,ps,1.0", "a,ps,1.0,1", None, "11 cells", 1),
        ("task", "5.0", "five", "inst_num", None, 2),
        ("task", ",50.0,", ",nan,", "plan_gpu", None, 2),
        ("task", "b,worker", ",worker", "job_name", None, 4),
        ("task", "P100", "\x07", "gpu_type", None, 2),
        ("task", "P100", "P100,P100", None, "line.*2", None),
        ("instance", "57640.0", "x", "start_time", None, 2),
        ("instance", ",57890.0", ",1e400", "end_time", None, 2),
        ("group_tag", "g2", "\x07", "group", None, 2),
    ],
)
def test_damage_is_named(
    name: str, old: str, new: str, key: str | None, match: str | None, line: int | None, tmp_path: Path
) -> None:
    lines = "\n".join(TABLES[name])
    assert old in lines
    with refused(InvalidInstance, key, match, file=f"pai_{name}_table.csv", line=line):
        read_pai(write(tmp_path, **{name: lines.replace(old, new, 1).splitlines()}))


TASKS = st.lists(
    st.tuples(
        st.integers(1, 20),
        st.sampled_from(["", "0", "25", "50.0", "100.0", "12.5", "800"]),
        st.sampled_from(["", "T4", "V100"]),
        st.integers(1, 10**6),
        st.integers(1, 10**6),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=40)
@given(jobs=st.lists(st.tuples(st.integers(1, 10**6), TEXT, TASKS), min_size=1, max_size=6))
def test_gpus_and_seconds_are_those_of_all_tasks(jobs: list[Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    wanted, job_lines, task_lines = {}, [], []
    for n, (arrival, user, tasks) in enumerate(jobs):
        quoted = '"' + user.replace('"', '""') + '"'
        job_lines.append(f"job{n},i{n},{quoted},Terminated,{arrival}.0,{arrival + 1}.0")
        gpus, types = Fraction(0), {"T4": Fraction(0), "V100": Fraction(0)}
        for k, (number, percent, kind, begin, seconds) in enumerate(tasks):
            task_lines.append(f"job{n},t{k},{number}.0,Terminated,{begin}.0,{begin + seconds},6,2,{percent},{kind}")
            share = number * Fraction(percent or 0) / 100
            gpus += share
            if kind:
                types[kind] += share
        most = max(types.values())
        if gpus:
            length = max(t[3] + t[4] for t in tasks) - min(t[3] for t in tasks)
            among = [kind for kind, share in types.items() if share == most] if most else [""]
            wanted[f"job{n}"] = (math.ceil(gpus), length, user, among, gpus.denominator > 1)
    folder = write(tmp_path_factory.mktemp("pai"), "instance", "group_tag", job=job_lines, task=task_lines)
    if not wanted:
        with pytest.raises(InvalidInstance, match=f"has no job that can be used: {len(jobs)} with no GPU"):
            read_pai(folder)
        return
    table = read_pai(folder).set_index("job")
    assert set(table.index) == set(wanted)
    for name, (gpus_, length, user, among, _) in wanted.items():
        row = table.loc[name]
        assert (row["gpus"], row["duration"], row["user"]) == (gpus_, length, user)
        assert row["gpu_type"] in among
    assert table.attrs["rounded_up"] == sum(it[-1] for it in wanted.values())


# Pods

PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p2,1,1,8,1000,V100M16|V100M32,LS,Succeeded,200,1400,300.0
p1,1,1,1,460,,BE,Running,100,150,110.0
p3,1,1,0,0,,BE,Running,50,150,110.0
p4,1,1,1,1000,,BE,Pending,60,150,
p5,1,1,1,1000,,BE,Failed,60,110,110.0
p6,1,1,1,1000,,BE,Running,60,,110.0
"""


def test_small_pods(tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text(PODS)
    table = read_openb(tmp_path / "pods.csv")
    assert table.to_dict("list") == {
        "job": ["p1", "p2"],
        "arrival": [0.0, 100.0],
        "duration": [40.0, 1100.0],
        "gpus": [1, 8],
        "gpu_type": ["", "V100M16|V100M32"],
        "status": ["Running", "Succeeded"],
        "line": [3, 2],
    }
    assert table.attrs["left_out"] == {
        "no GPU": 1,
        "no time at which they were scheduled": 1,
        "no time of deletion": 1,
        "0 seconds of training": 1,
    }
    assert table.attrs["rounded_up"] == 1
    (tmp_path / "bad.csv").write_text(PODS.replace("460", "1460"))
    with refused(InvalidInstance, "gpu_milli", file="bad.csv", line=3):
        read_openb(tmp_path / "bad.csv")


def test_the_pods_themselves() -> None:
    """8,152 pods, counted by a plain loop."""
    file = SHARED / "traces" / "openb_pods_2023.csv.gz"
    if not file.exists():
        pytest.skip("openb_pods_2023.csv.gz is not beside this checkout")
    table = read_trace(file)
    raw = pd.read_csv(file).to_dict("records")
    gpu = [pod for pod in raw if pod["num_gpu"] > 0]
    ran = [pod for pod in gpu if pod["scheduled_time"] == pod["scheduled_time"]]
    assert table.attrs["left_out"] == {
        "no GPU": 8_152 - len(gpu),
        "no time at which they were scheduled": len(gpu) - len(ran),
    }
    assert len(table) == len(ran)
    assert table["gpus"].sum() == sum(pod["num_gpu"] for pod in ran)
    assert table["duration"].sum() == sum(pod["deletion_time"] - pod["scheduled_time"] for pod in ran)
    assert table.attrs["rounded_up"] == sum(pod["gpu_milli"] < 1000 for pod in ran)
    assert table["job"].tolist() == [pod["name"] for pod in sorted(ran, key=lambda pod: pod["creation_time"])]
