"""The project's own CSV form: every trace written is read back the same; and who else reads by columns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused
from trace_formats import SHARED, TEXT

from hetopt import InvalidInstance, InvalidOption, UnusableFile
from hetopt.traces.csv_readers import read_helios, read_tiresias
from hetopt.traces.kinds import read_trace
from hetopt.traces.pai_generator import PAILike
from hetopt.traces.philly_generator import PhillyLike
from hetopt.traces.plain_files import read_plain, write_plain
from hetopt.traces.trace_table import TEXTS

POSITIVE = st.floats(min_value=0, max_value=1e18, exclude_min=True)
LENGTHS = st.one_of(
    st.tuples(POSITIVE, st.just(float("nan"))),
    st.tuples(st.just(float("nan")), st.integers(1, 2**53)),
    st.tuples(POSITIVE, st.integers(1, 2**53)),
)


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    """Any valid trace: any finite floats, any text, any of the columns."""
    names = draw(st.lists(TEXT, min_size=1, max_size=6, unique=True))
    n = len(names)
    lengths = draw(st.lists(LENGTHS, min_size=n, max_size=n))
    several = st.lists(st.floats(0, 1e18), min_size=n, max_size=n)
    table = pd.DataFrame({"job": pd.Series(names, dtype=object), "arrival": [abs(a) for a in sorted(draw(several))]})
    table["duration"] = [float(seconds) for seconds, _ in lengths]
    table["gpus"] = draw(st.lists(st.integers(1, 10**9), min_size=n, max_size=n))
    optional = {key: st.one_of(st.just(""), TEXT) for key in TEXTS} | {"hour": st.integers(0, 23)}
    wanted = draw(st.sets(st.sampled_from(sorted(optional))))
    for key in ("tenant", "user", "group", "model", "iterations", "gpu_type", "status", "hour"):
        if key in wanted:
            column = draw(st.lists(optional[key], min_size=n, max_size=n))
            table[key] = pd.Series(column, dtype="int64" if key == "hour" else object)
        elif key == "iterations":
            table[key] = [steps for _, steps in lengths]
            if table[key].notna().all():
                table[key] = table[key].astype("int64")
    return table


@settings(max_examples=60)
@given(table=tables(), packed=st.booleans())
def test_every_trace_is_read_back_as_it_was(
    table: pd.DataFrame, packed: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("plain") / f"t.csv{'.gz' * packed}"
    write_plain(table, file)
    found = read_plain(file)
    assert read_trace(file).equals(found)
    pd.testing.assert_frame_equal(found.drop(columns="line"), table, check_exact=True)


@pytest.mark.parametrize("made", [PAILike().table(50), PhillyLike().table(50)])
def test_what_generators_make_is_read_back(made: pd.DataFrame, tmp_path: Path) -> None:
    write_plain(made, tmp_path / "made.csv")
    found = read_trace(tmp_path / "made.csv").drop(columns="line")
    pd.testing.assert_frame_equal(found, made, check_exact=True, check_dtype=False)


SMALL = "job,arrival,duration,gpus,user,iterations\na,5,1.5,2,ann,\nb,0,,1,,7\n"


def test_a_small_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(SMALL)
    table = read_plain(tmp_path / "t.csv")
    assert table["job"].tolist() == ["b", "a"]
    assert table["arrival"].tolist() == [0.0, 5.0]
    assert math.isnan(table["duration"][0])
    assert table["duration"][1] == 1.5
    assert table["user"].tolist() == ["", "ann"]
    assert table["iterations"][0] == 7


@pytest.mark.parametrize(
    ("old", "new", "key", "match", "line"),
    [
        (
            "user",
            "usr",
            None,
            "'usr'",
            None,
        ),
        ("iterations", "job", None, "'job'.*twice", 1),
        ("1,,7", "1,,", "duration", None, 3),
        ("a,5", "b,5", "job", None, 3),
        ("ann,", "ann,,8", None, "more cells", 2),
        (SMALL, SMALL.splitlines()[0] + "\n", None, "no row", None),
    ],
)
def test_damage_is_named(
    old: str, new: str, key: str | None, match: str | None, line: int | None, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text(SMALL.replace(old, new, 1))
    with refused(InvalidInstance, key, match, file="t.csv", line=line):
        read_plain(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("change", "key", "match", "row"),
    [
        ({"gpus": [1, 0]}, "jobs['b'].gpus", None, 1),
        (
            {"duration": [1.0, float("nan")]},
            "jobs['b'].duration",
            None,
            1,
        ),
        (
            {"user": ["ann", None]},
            "jobs['b'].user",
            None,
            1,
        ),
        (
            {"hour": [3, 24]},
            "jobs['b'].hour",
            None,
            1,
        ),
        ({"colour": ["red", "blue"]}, None, "'colour'", None),
        ({"job": ["a", 7]}, "job", None, 1),
    ],
)
def test_what_is_no_trace_is_not_written(
    change: dict[str, Any], key: str | None, match: str | None, row: Any, tmp_path: Path
) -> None:
    table = pd.DataFrame({"job": ["a", "b"], "arrival": [0.0, 1.0], "duration": [1.0, 2.0], "gpus": [1, 2]})
    with refused(InvalidInstance, key, match, row=row):
        write_plain(
            table.assign(**{key: pd.Series(cells, dtype=object) for key, cells in change.items()}), tmp_path / "t"
        )
    assert not list(tmp_path.iterdir())
    write_plain(table, tmp_path / "t")
    with pytest.raises(UnusableFile, match="t: exists already; use overwrite=True"):
        write_plain(table, tmp_path / "t")
    write_plain(table.iloc[:1], tmp_path / "t", overwrite=True)
    assert len(read_plain(tmp_path / "t")) == 1


def test_bad_arguments(tmp_path: Path) -> None:
    with refused(InvalidInstance, "table"):
        write_plain([], tmp_path / "t")  # type: ignore[arg-type]
    table = PhillyLike().table(2)
    with refused(InvalidOption, "path"):
        write_plain(table, 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInstance, match="table trace: has no column gpus"):
        write_plain(table.drop(columns="gpus"), tmp_path / "t")


# Helios and Tiresias, by hand

HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1425513,uzqls,vcpDC,1,1,1,CANCELLED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-17 14:15:21,675233,0
1425511,uXBbc,vcJkd,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0
1425512,uVMrF,vchbv,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0
1425514,uVMrF,vchbv,0,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0
1425515,uVMrF,vchbv,4,16,1,CANCELLED,2020-06-09 18:41:27,,,0,249
"""
"""Its first three rows are those that the log's description shows."""


def test_helios(tmp_path: Path) -> None:
    (tmp_path / "cluster_log.csv").write_text(HELIOS)
    table = read_helios(tmp_path / "cluster_log.csv")
    assert table.to_dict("list") == {
        "job": ["j1425511", "j1425512", "j1425513"],
        "arrival": [0.0, 26.0, 27.0],
        "duration": [36_848.0, 249.0, 675_233.0],
        "gpus": [1, 4, 1],
        "tenant": ["vcJkd", "vchbv", "vcpDC"],
        "user": ["uXBbc", "uVMrF", "uzqls"],
        "status": ["COMPLETED", "FAILED", "CANCELLED"],
        "hour": [18, 18, 18],
        "line": [3, 4, 2],
    }
    assert table.attrs["left_out"] == {"no GPU": 1, "0 seconds of training": 1}


def test_tiresias() -> None:
    file = SHARED / "traces" / "tiresias_60job.csv"
    if not file.exists():
        pytest.skip("tiresias_60job.csv is not beside this checkout")
    table = read_tiresias(file)
    lines = [line.split(",") for line in file.read_text().splitlines()[1:]]
    assert table["job"].tolist() == [f"j{line[0]}" for line in lines]
    for key, at in {"gpus": 1, "arrival": 2, "iterations": 3, "duration": 5}.items():
        assert table[key].tolist() == [int(line[at]) for line in lines]
    assert table["model"].tolist() == [line[4] for line in lines]


def test_tiresias_without_iterations(tmp_path: Path) -> None:
    """As its TensorFlow jobs have it."""
    header = "job_id,num_gpu,submit_time,start_time,duration,model_size,aggr_interval,model_name,model_scale"
    (tmp_path / "tf_job.csv").write_text(f"{header}\n10,12,11,14,20,400,0,vgg19,1\n")
    table = read_trace(tmp_path / "tf_job.csv")
    assert table.to_dict("records") == [
        {"job": "j10", "arrival": 0.0, "duration": 20.0, "gpus": 12, "model": "vgg19", "line": 2}
    ]
