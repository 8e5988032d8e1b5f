"""Tables: what they hold comes back unchanged, and a bad cell is named by row and column."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from refused import refused

import hetopt
from hetopt import InvalidInstance, UnusableFile, instances
from hetopt.data import instance_tables
from hetopt.proofs.strategies import whole_instances

COLUMNS = {*instance_tables.SERVER, *instance_tables.TENANT, *instance_tables.JOB}


def with_tables(instance: hetopt.Instance) -> hetopt.Instance:
    """What tables can hold: GPU types that are no column's name, jobs that are placed somewhere."""
    assume(not COLUMNS & set(instance.cluster.type_names))
    return instance.replace(placed={job: hosts for job, hosts in instance.placed.items() if hosts})


@given(whole_instances())
@settings(max_examples=40)
def test_tables_lose_nothing(instance: hetopt.Instance) -> None:
    instance = with_tables(instance)
    assert hetopt.Instance.from_tables(**instance.tables(), any_scale=True) == instance


@given(whole_instances())
@settings(max_examples=25)
def test_csv_files_lose_nothing(tmp_path_factory: pytest.TempPathFactory, instance: hetopt.Instance) -> None:
    """Names such as "1", "null" or "NA" stay text, and floats keep every digit."""
    instance = with_tables(instance)
    folder = tmp_path_factory.mktemp("csv")
    instance_tables.write_csv(instance, folder)
    assert hetopt.Instance.read_csv(folder, any_scale=True) == instance


@pytest.mark.parametrize("name", ["asrpt/fig2", "lab36/jobs", "oef/job-types", "fft/fig2"])
def test_named_instances_come_back_from_csv_files(tmp_path: Path, name: str) -> None:
    instance = instances.load(name)
    instance_tables.write_csv(instance, tmp_path)
    assert hetopt.Instance.read_csv(tmp_path) == instance
    assert hetopt.Instance.read_csv(tmp_path, time=9).time == 9


def test_the_tables_of_the_laboratory() -> None:
    made = instances.load("lab36/jobs").tables()
    assert list(made) == ["servers", "gpu_types", "tenants", "jobs", "instance"]
    assert made["tenants"].loc["vision", ["T4", "A10", "V100", "weight"]].tolist() == [1, 2.15, 2.68, 1]
    assert made["servers"].loc["a10-2", ["T4", "A10", "V100", "nic_bytes_per_s"]].tolist() == [0, 4, 0, 1.25e9]
    job = made["jobs"].loc["opt-6.7b-1"]
    assert (job["demand"], job["tenant"], job["parallelism"]) == (8, "foundation", "tensor")
    assert made["gpu_types"].loc["A10", "memory_bytes"] == 24e9
    assert list(made["jobs"].columns[:6]) == ["T4", "A10", "V100", "work", "demand", "arrival"]


def test_several_job_types_make_two_index_levels() -> None:
    table = instances.load("oef/job-types").tables()["tenants"]
    assert table.index.names == ["tenant", "job_type"]
    assert table.index.tolist() == [("u1", "first"), ("u1", "second"), ("u2", "jobs")]


def test_a_few_columns_are_enough() -> None:
    """Empty cells and absent columns mean the default; numbers may be numpy's."""
    servers = pd.DataFrame({"T4": [4, 0], "V100": [0, 2]}, index=["a", "b"])
    tenants = pd.DataFrame({"V100": [2, 3.5], "T4": np.ones(2), "weight": [np.nan, 2]}, index=["x", "y"])
    jobs = pd.DataFrame(
        {"T4": [1.0], "V100": [2.0], "work": [5], "demand": np.array([2], dtype=np.int32), "tenant": ["x"]}, index=["j"]
    )
    instance = hetopt.Instance.from_tables(servers, tenants=tenants, jobs=jobs, time=7)
    assert instance.cluster.capacity == {"T4": 4, "V100": 2}
    assert [t.weight for t in instance.tenants] == [1, 2]
    assert instance.entities("tenants").speed.tolist() == [[1, 2], [1, 3.5]]
    assert instance.jobs == (hetopt.Job("j", {"T4": 1, "V100": 2}, 5, 2, tenant="x"),)
    assert instance.time == 7


SERVERS = pd.DataFrame({"T4": [4], "V100": [2]}, index=["s"])
TENANTS = pd.DataFrame({"T4": [1.0, 1.0], "V100": [2.0, 3.0]}, index=["x", "y"])
JOBS = pd.DataFrame({"T4": [1.0], "V100": [2.0], "work": [5.0]}, index=["j"])
STAGES = pd.DataFrame(
    {"replicas": [1], "forward_s": [1.0], "backward_s": [2.0]},
    index=pd.MultiIndex.from_tuples([("j", 1)], names=["job", "stage"]),
)
PHASES = pd.DataFrame(
    {"epochs": [1], "batch_size": [32], "epoch_work": [5.0]},
    index=pd.MultiIndex.from_tuples([("j", 1)], names=["job", "phase"]),
)
PLACED = pd.DataFrame({"T4": [1], "V100": [0]}, index=pd.MultiIndex.from_tuples([("j", "s")], names=["job", "server"]))


@pytest.mark.parametrize(
    ("bad", "key", "match", "table", "row"),
    [
        ({"servers": SERVERS.assign(T4=-1)}, "servers['s'].gpus['T4']", "-1", "servers", "s"),
        ({"servers": SERVERS.assign(T4=1.5)}, "servers['s'].gpus['T4']", r"1\.5", "servers", "s"),
        ({"servers": SERVERS.assign(T4=np.nan)}, "servers['s'].gpus['T4']", "nan", "servers", "s"),
        ({"servers": SERVERS.assign(T4=0, V100=0)}, None, "cluster.*empty", None, None),
        ({"servers": SERVERS[[]]}, "cluster.gpu_types", None, None, None),
        ({"servers": {"T4": [1]}}, "servers", None, None, None),
        ({"servers": SERVERS.set_axis([5])}, "server name", None, "servers", 5),
        ({"tenants": TENANTS.assign(V100=["two", 3])}, "tenants['x'].speedup['V100']", "'two'", "tenants", "x"),
        ({"tenants": TENANTS.assign(V100=[np.nan, 3])}, "tenants['x'].speedup['V100']", "nan", "tenants", "x"),
        ({"tenants": TENANTS.assign(weight=[1, -1])}, "tenants['y'].weight", None, "tenants", "y"),
        ({"tenants": TENANTS.drop(columns="V100")}, None, "type.*'V100'", "tenants", None),
        (
            {"tenants": TENANTS.rename(columns={"V100": "V10"})},
            None,
            "column.*'V10'",
            "tenants",
            None,
        ),
        ({"tenants": TENANTS.set_axis(["x", "x"])}, None, "occurs.*twice", "tenants", "x"),
        ({"tenants": pd.concat([TENANTS, TENANTS[["T4"]]], axis=1)}, None, "'T4'.*twice", "tenants", None),
        ({"tenants": TENANTS.set_axis(["x", None])}, None, "no name", "tenants", None),
        ({"jobs": JOBS.drop(columns="work")}, "jobs['j'].work", "missing", "jobs", "j"),
        ({"jobs": JOBS.assign(work=np.nan)}, "jobs['j'].work", "missing", "jobs", "j"),
        ({"jobs": JOBS.assign(demand=9)}, "jobs['j'].demand", None, "jobs", "j"),
        ({"jobs": JOBS.assign(parallelism="expert")}, "jobs['j'].parallelism", None, "jobs", "j"),
        ({"jobs": JOBS.assign(stages="")}, None, "column.*'stages'", "jobs", None),
        ({"stages": STAGES.drop(columns="replicas")}, "replicas", "missing", "stages", ("j", 1)),
        ({"stages": STAGES.assign(replicas=2)}, "jobs['j'].stages", None, "jobs", "j"),
        ({"stages": pd.concat([STAGES, STAGES])}, None, "twice", "stages", ("j", 1)),
        (
            {"stages": STAGES.rename(index={1: 2}, level=1)},
            None,
            "1.*missing",
            "stages",
            None,
        ),
        (
            {"stages": STAGES.rename(index={1: "a"}, level=1)},
            "stage",
            None,
            "stages",
            ("j", "a"),
        ),
        ({"stages": STAGES.set_axis(["j"])}, None, "index.*stage", "stages", "j"),
        (
            {"stages": STAGES.rename(index={"j": "k"}, level=0)},
            None,
            "job.*'k'",
            "stages",
            None,
        ),
        ({"jobs": JOBS.assign(phases="")}, None, "column.*'phases'", "jobs", None),
        ({"phases": PHASES.drop(columns="batch_size")}, "batch_size", "missing", "phases", ("j", 1)),
        ({"phases": PHASES.assign(epochs=2)}, "jobs['j'].phases", "sum to 10", "jobs", "j"),
        ({"phases": PHASES.rename(index={1: 2}, level=1)}, None, "phase 1.*missing", "phases", None),
        ({"phases": PHASES.rename(index={"j": "k"}, level=0)}, None, "job.*'k'", "phases", None),
        ({"held": pd.DataFrame({"T4": [1.0], "V100": [0]}, index=["z"])}, "held", "'z'", None, None),
        ({"held": pd.DataFrame({"T4": [1.0]}, index=["x"])}, None, "type.*'V100'", "held", None),
        ({"done": pd.DataFrame({"work": [-1]}, index=["j"])}, "done['j']", None, "done", "j"),
        ({"done": pd.DataFrame({"works": [1]}, index=["j"])}, None, "column.*'works'", "done", None),
        ({"placed": pd.DataFrame({"T4": [9], "V100": 0}, index=["j"])}, None, "index.*server", "placed", "j"),
        ({"placed": PLACED.assign(T4=9)}, "placed", None, None, None),
        (
            {"instance": pd.DataFrame({"time": [1, 2]}, index=["a", "b"])},
            None,
            "2.*rows",
            "instance",
            None,
        ),
        ({"stage": STAGES}, None, "table.*'stage'", None, None),
        (
            {"gpu_types": pd.DataFrame({"memory_bytes": [-1.0, 1.0]}, index=["T4", "V100"])},
            "gpu_types['T4'].memory_bytes",
            None,
            "gpu_types",
            "T4",
        ),
        (
            {"gpu_types": pd.DataFrame({"memory": [1.0]}, index=["T4"])},
            None,
            "unknown.*column",
            "gpu_types",
            None,
        ),
    ],
)
def test_bad_tables(bad: dict[str, Any], key: str | None, match: str | None, table: str | None, row: Any) -> None:
    given_tables = {"servers": SERVERS, "tenants": TENANTS, "jobs": JOBS, **bad}
    with refused(InvalidInstance, key, match, table=table, row=row):
        hetopt.Instance.from_tables(**given_tables)


def test_a_tenants_weight_is_the_same_in_all_its_rows() -> None:
    index = pd.MultiIndex.from_tuples([("x", "a"), ("x", "b")], names=["tenant", "job_type"])
    tenants = pd.DataFrame({"T4": [1, 1], "V100": [2, 3], "weight": [1, 2]}, index=index)
    with refused(InvalidInstance, "tenants['x'].weight", table="tenants", row=("x", "b")):
        hetopt.Instance.from_tables(SERVERS, tenants=tenants)


def test_gpu_types_named_like_a_column_make_no_tables() -> None:
    instance = hetopt.Instance.from_speedups([[1, 2]], {"weight": 1, "T4": 1})
    with pytest.raises(InvalidInstance, match="GPU type 'weight' has the name of a column of tenants; rename it"):
        instance.tables()


def test_bad_folders(tmp_path: Path) -> None:
    with pytest.raises(UnusableFile, match=r"servers\.csv: cannot be read: No such file"):
        hetopt.Instance.read_csv(tmp_path)
    (tmp_path / "servers.csv").write_text("server,T4,V100\ns,4,8/2\nt,x,1\n")
    with refused(InvalidInstance, "servers['t'].gpus['T4']", file="servers.csv", row="t"):
        hetopt.Instance.read_csv(tmp_path)
    (tmp_path / "servers.csv").write_text("name,T4\ns,4\n")
    with pytest.raises(InvalidInstance, match="has no column 'server'"):
        hetopt.Instance.read_csv(tmp_path)
    (tmp_path / "servers.csv").write_bytes(b"\xff\xfe\x00server")
    with pytest.raises(InvalidInstance, match="is not CSV"):
        hetopt.Instance.read_csv(tmp_path)
    (tmp_path / "servers.csv").write_text("")
    with refused(InvalidInstance, None, "no column 'server'", file="servers.csv"):
        hetopt.Instance.read_csv(tmp_path)
    (tmp_path / "servers.csv").write_text('server,T4\ns,"4\n')
    with refused(InvalidInstance, None, "is not CSV", file="servers.csv"):
        hetopt.Instance.read_csv(tmp_path)
    with pytest.raises(UnusableFile, match="exists already"):
        instance_tables.write_csv(instances.load("lab36"), tmp_path)
    with pytest.raises(UnusableFile, match="cannot be used as a folder: it is a file"):
        instance_tables.write_csv(instances.load("lab36"), tmp_path / "servers.csv")


@pytest.mark.parametrize(("row", "line"), [("h1,2,5\nh2,1\n", 2), ("h1,2\n\nh2,1,,7\n", 4)])
def test_cells_without_a_column_are_refused(tmp_path: Path, row: str, line: int) -> None:
    (tmp_path / "servers.csv").write_text(f"server,T4\n{row}")
    with refused(InvalidInstance, None, "2 columns", file="servers.csv", line=line):
        hetopt.Instance.read_csv(tmp_path)


def test_empty_cells_and_rows_at_the_end_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "servers.csv").write_text("\ufeffserver,T4,V100,\nh1,2,4,,\nh2,8,1,\n,,,\n", encoding="utf-8")
    (tmp_path / "tenants.csv").write_text("tenant,T4,V100,weight\na,1,2\nb,1,3,2,\n")
    found = hetopt.Instance.read_csv(tmp_path)
    assert [dict(server.gpus) for server in found.cluster.servers] == [{"T4": 2, "V100": 4}, {"T4": 8, "V100": 1}]
    assert [(t.name, dict(t.job_types[0].speedup), t.weight) for t in found.tenants] == [
        ("a", {"T4": 1, "V100": 2}, 1),
        ("b", {"T4": 1, "V100": 3}, 2),
    ]


BAD_FILES = [
    ("servers", "server,T4,T4\ns,1,2\n", None, "'T4'.*twice", "servers.csv", None),
    ("servers", "server,T4,T4.1\ns,1,2\n", None, r"type.*'T4\.1'", "tenants.csv", None),
    ("servers", "server,T4\ns,-1\n", "servers['s'].gpus['T4']", None, "servers.csv", "s"),
    ("servers", "server,T4\ns,0\n", None, "cluster.*empty", ANY, None),
    ("tenants", "tenant,T5\nu,1\n", None, "column.*'T5'", "tenants.csv", None),
    ("tenants", "tenant,T4\nu,1\nu,1\n", None, "occurs.*twice", "tenants.csv", "u"),
    ("jobs", "job,T4,work,demand\nj,1,5,7\n", "jobs['j'].demand", None, "jobs.csv", "j"),
    ("jobs", "job,T4,work\nj,1,x\n", "jobs['j'].work", None, "jobs.csv", "j"),
    ("done", "job,work\nj,5\n", "done", "'j'", "done.csv", None),
    ("stages", "job,stage,replicas,forward_s,backward_s\nj,1,1,1,1\n", None, "job.*'j'", "stages.csv", None),
]


@pytest.mark.parametrize(("table", "text", "key", "match", "file", "row"), BAD_FILES)
def test_errors_name_their_file(
    tmp_path: Path, table: str, text: str, key: str | None, match: str | None, file: str | None, row: Any
) -> None:
    (tmp_path / "servers.csv").write_text("server,T4\ns,4\n")
    (tmp_path / "tenants.csv").write_text("tenant,T4\nu,1\n")
    (tmp_path / f"{table}.csv").write_text(text)
    with refused(InvalidInstance, key, match, file=file, row=row) as caught:
        hetopt.Instance.read_csv(tmp_path)
    assert str(caught.value.file).startswith(str(tmp_path))


def test_csv_files_are_written_all_or_none(tmp_path: Path) -> None:
    """Also a table that the new instance lacks would be read together with the new ones."""
    (tmp_path / "jobs.csv").write_text("precious")
    lab = instances.load("lab36")
    with pytest.raises(UnusableFile, match=r"jobs\.csv: exists already; use overwrite=True"):
        instance_tables.write_csv(lab, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["jobs.csv"]
    instance_tables.write_csv(lab, tmp_path, overwrite=True)
    assert hetopt.Instance.read_csv(tmp_path) == lab
    assert not (tmp_path / "jobs.csv").exists()
    instance_tables.write_csv(instances.load("lab36/jobs"), tmp_path, overwrite=True)
    assert hetopt.Instance.read_csv(tmp_path) == instances.load("lab36/jobs")


@pytest.mark.parametrize(
    ("table", "cells", "row"),
    [
        ("jobs", "job,T4,work\nj,1,1\nj,1,1\n", "j"),
        ("jobs", "job,T4,work,tenant\nj,1,1,absent\n", "j"),
        ("jobs", "job,T4,work,demand\nj,1,1,99\n", "j"),
        ("servers", "server,T4\ns,1\ns,2\n", "s"),
        ("gpu_types", "gpu_type,memory_bytes\nT4,-1\n", "T4"),
    ],
)
def test_errors_of_rows_have_their_fields(tmp_path: Path, table: str, cells: str, row: str) -> None:
    (tmp_path / "servers.csv").write_text("server,T4\ns,1\n")
    (tmp_path / "tenants.csv").write_text("tenant,T4\nu,1\n")
    (tmp_path / f"{table}.csv").write_text(cells)
    with pytest.raises(InvalidInstance) as caught:
        hetopt.Instance.read_csv(tmp_path)
    error = caught.value
    assert (error.table, error.row, error.file) == (table, row, str(tmp_path / f"{table}.csv"))
