"""Throughputs are no speedups: mixing them up is an error, and all ways into an instance take the same numbers."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_schema import accepts
from refused import refused

import hetopt
from hetopt import Cluster, Instance, InvalidInstance, Job, JobType, Server, SuspiciousSpeedups, Tenant
from hetopt.checks import LEAST
from hetopt.cli import main as command_line
from hetopt.data import schema
from hetopt.models import oef
from hetopt.tolerances import EQUAL

SCHEMA = json.loads(schema.json_schema())
TYPES = ["T4", "V100"]
SERVERS = pd.DataFrame({"T4": [2], "V100": [2]}, index=["s"])
MEASURED = {"a": [10.0, 20.0], "b": [0.0, 300.0], "c": [7.0, 35.0]}
NORMALISED = {"a": [1.0, 2.0], "b": [0.0, 1.0], "c": [1.0, 5.0]}
GPUS = dict.fromkeys(TYPES, 2)


def document(key: str, rows: dict[str, list[float]]) -> dict[str, Any]:
    """An instance as files hold it."""
    tenants = [{"name": name, key: dict(zip(TYPES, row, strict=True))} for name, row in rows.items()]
    return {"schema": schema.SCHEMA, "cluster": {"capacity": GPUS}, "tenants": tenants}


def _frame(cells: Any, name: str | int = 0) -> pd.DataFrame:
    """A frame of one row; pandas before 3.1 does not convert integers of hundreds of digits."""
    try:
        return pd.DataFrame(cells, index=[name], columns=TYPES)
    except OverflowError:
        return pd.DataFrame(cells, index=[name], columns=TYPES, dtype=object)


def table(rows: dict[str, list[float]], prefix: str = "") -> pd.DataFrame:
    """The table of tenants."""
    return pd.DataFrame(rows, index=[prefix + t for t in TYPES]).T


def folder(where: Path, rows: dict[str, list[float]], prefix: str = "") -> Path:
    """A folder of CSV files."""
    SERVERS.to_csv(where / "servers.csv", index_label="server")
    table(rows, prefix).to_csv(where / "tenants.csv", index_label="tenant")
    return where


def written(where: Path, text: Any) -> Path:
    """A file with that document."""
    where.write_text(json.dumps(text))
    return where


# Throughputs give the optimum of the speedups that a hand makes of them


@pytest.mark.parametrize("policy", [oef.cooperative(), oef.noncooperative()], ids=["cooperative", "noncooperative"])
def test_throughputs_give_the_optimum_of_speedups(policy: hetopt.Formulation, tmp_path: Path) -> None:
    by_hand = Instance.from_speedups(table(NORMALISED), GPUS)
    expected = hetopt.solve(policy, by_hand)
    (tmp_path / "csv").mkdir()
    for inst in (
        Instance.from_throughputs(table(MEASURED), GPUS),
        Instance.from_throughputs(list(MEASURED.values()), GPUS, tenants=list(MEASURED)),
        Instance.from_tables(SERVERS, tenants=table(MEASURED, "throughput.")),
        Instance.read_csv(folder(tmp_path / "csv", MEASURED, "throughput.")),
        hetopt.read(written(tmp_path / "f.json", document("throughput", MEASURED))),
        hetopt.read(written(tmp_path / "f.yaml", document("throughput", MEASURED))),
        by_hand.replace(
            tenants=tuple(Tenant.from_throughput(n, dict(zip(TYPES, v, strict=True))) for n, v in MEASURED.items())
        ),
    ):
        assert inst.tenants == by_hand.tenants
        found = hetopt.solve(policy, inst)
        assert found.certificate.objective == pytest.approx(expected.certificate.objective, rel=EQUAL)
    misread = hetopt.solve(policy, Instance.from_speedups(table(MEASURED), GPUS, any_scale=True))
    assert misread.certificate.objective > 2 * expected.certificate.objective, "the reason for the warning"


@given(st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=2), st.integers(-9, 9), st.booleans())
def test_the_unit_of_throughput_changes_nothing(row: list[float], power: int, absent: bool) -> None:
    row = [0.0, row[1]] if absent else row
    unit = [v * 2.0**power for v in row]  # exact
    assert Instance.from_throughputs([unit], [1, 1]) == Instance.from_throughputs([row], [1, 1])
    speed = Instance.from_throughputs([row], [1, 1]).entities().speed[0]
    assert speed == pytest.approx(np.array(row) / min(v for v in row if v), rel=EQUAL)


# What looks like throughputs is warned of


def _of_tables(any_scale: bool, _: Path) -> Any:
    return Instance.from_tables(SERVERS, tenants=table(MEASURED), any_scale=any_scale)


SUSPICIOUS: list[tuple[Callable[[bool, Path], Any], str, str]] = [
    (
        lambda any_scale, _: Instance.from_speedups(table(MEASURED), GPUS, any_scale=any_scale),
        "tenants['a'].speedup has 10 as its smallest value above 0, not 1 (rows like this: 3)",
        "call Instance.from_throughputs",
    ),
    (_of_tables, "row 'a' of table tenants has 10", "call the columns 'throughput.T4' and so on"),
    (
        lambda any_scale, where: Instance.read_csv(folder(where, MEASURED), any_scale=any_scale),
        "tenants.csv has 10",
        "call the columns 'throughput.T4' and so on",
    ),
    (
        lambda any_scale, where: Instance.read(
            written(where / "f.yaml", document("speedup", MEASURED)), any_scale=any_scale
        ),
        "f.yaml:1: tenants['a'].speedup has 10",
        "write throughput instead of speedup",
    ),
    (
        lambda any_scale, where: hetopt.read(
            written(where / "f.json", document("speedup", MEASURED)), any_scale=any_scale
        ),
        "f.json:1: tenants['a'].speedup has 10",
        "write throughput instead of speedup",
    ),
    (
        lambda any_scale, _: JobType("k", {"T4": 0.5, "V100": 0}, any_scale=any_scale),
        "job_types['k'].speedup has 0.5",
        "call JobType.from_throughput",
    ),
    (
        lambda any_scale, _: Tenant("u", {"T4": 2, "V100": 3}, any_scale=any_scale),  # type: ignore[arg-type]
        "tenants['u'].speedup has 2",
        "call Tenant.from_throughput",
    ),
]


@pytest.mark.parametrize(("make", "place", "remedy"), SUSPICIOUS, ids=[place for _, place, _ in SUSPICIOUS])
def test_what_looks_like_throughputs_is_warned_of(make: Any, place: str, remedy: str, tmp_path: Path) -> None:
    """Once, with place, value and remedy, at the line of the caller."""
    with pytest.warns(SuspiciousSpeedups) as caught:
        made = make(False, tmp_path)
    assert len(caught) == 1
    assert place in str(caught[0].message)
    assert f"If these are throughputs, {remedy}; " in str(caught[0].message)
    assert caught[0].filename == __file__
    assert make(True, tmp_path) == made, "without a warning, which would be an error here"


def test_a_job_type_of_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    text = "schema: hetopt/instance/1\ncluster: {capacity: {T4: 1}}\ntenants:\n- name: u\n  job_types:\n"
    text += "  - {name: x, speedup: {T4: 1}}\n  - {name: y, throughput: {T4: 9}}\n  - {name: z, speedup: {T4: 9}}\n"
    (tmp_path / "f.yaml").write_text(text)
    with pytest.warns(
        SuspiciousSpeedups, match=r"f\.yaml:8: tenants\['u'\]\.job_types\['z'\]\.speedup has 9 .* not 1;"
    ):
        hetopt.read(tmp_path / "f.yaml")


def test_what_begins_at_one_is_not_warned_of() -> None:
    Instance.from_speedups([[1 + EQUAL / 2, 0.0], [0, 1], [3, 1]], [1, 1])
    assert dataclasses.replace(JobType("k", {"T4": 1}), name="l") == JobType("l", {"T4": 1})


def test_speedups_and_throughputs_in_one_table_are_refused() -> None:
    both = pd.concat([table(NORMALISED), table(MEASURED, "throughput.")], axis=1)
    with pytest.raises(
        InvalidInstance, match=r"table tenants: has the columns 'T4' \(speedup\) and 'throughput.T4'; give all"
    ):
        Instance.from_tables(SERVERS, tenants=both)
    with pytest.raises(InvalidInstance, match=r"table tenants: has no column 'throughput.V100' for GPU type 'V100'"):
        Instance.from_tables(SERVERS, tenants=table(MEASURED, "throughput.")[["throughput.T4"]])


def test_a_gpu_type_may_be_named_like_a_throughput() -> None:
    inst = Instance.from_speedups([[1, 2]], {"A": 1, "throughput.A": 1})
    assert Instance.from_tables(**inst.tables()) == inst


def test_throughputs_too_far_apart_are_named_as_such() -> None:
    with refused(InvalidInstance, "tenants['u1'].throughput['GPU2']"):
        Instance.from_throughputs([[LEAST, 1e18]], [1, 1])


def test_the_command_line_warns_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "raw.json", document("speedup", MEASURED))
    monkeypatch.setattr(sys, "argv", ["hetopt", "solve", str(path), "--policy", "oef-cooperative"])
    with pytest.raises(SystemExit) as left:
        command_line.main()
    assert not left.value.code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"hetopt: {path}:1: tenants['a'].speedup has 10 as its smallest value above 0, not 1")
    assert warnings.showwarning.__module__ != command_line.__name__


# All ways in take the same numbers

NUMBERS = st.one_of(
    st.sampled_from([0, 1, -1, 0.0, -0.0, LEAST, 1e18, 0.999 * LEAST, 1e-300, 5e-324, 1.01e18, 1e300, 10**18, 10**19]),
    st.sampled_from([math.nan, math.inf, -math.inf, 10**400, -(10**400)]),
    st.floats(),
    st.integers(),
)
PYTHONS = st.sampled_from([np.float32(0.5), np.float64(2), np.int64(3), Fraction(1, 3), np.timedelta64(1, "s")])
NO_NUMBERS = st.sampled_from(
    [True, False, "1", "2.5", "1e-300", " 3 ", "0", "-1", "nan", "True", "", "x", "1_0", "\u0661"]
)
ODD = st.sampled_from([np.True_, np.False_, np.str_("1"), None, pd.NA, 1j, b"1"])


def is_good(value: Any, *, strict: bool) -> bool:
    """What a speed (``strict``: a weight) may be, defined independently."""
    if not isinstance(value, (int, float, Fraction, np.floating, np.integer)):
        return False
    if isinstance(value, (bool, np.timedelta64)) or value != value:
        return False
    return bool((value == 0 and not strict) or LEAST <= value <= 1e18)


def _taken(make: Callable[[], Any]) -> bool:
    """Whether it is; what is refused is refused in one line that says what would be right."""
    try:
        make()
    except InvalidInstance as problem:
        expected_message = str(problem)
    else:
        return True
    assert "must" in expected_message
    assert "\n" not in expected_message
    return False


def _cells(*values: Any) -> Any:
    """Objects in a numpy array, as they are."""
    array = np.empty((1, len(values)), dtype=object)
    array[0] = values
    return array


def _decoded(data: Any) -> Any:
    return hetopt.Instance.decode(data, any_scale=True)


def _given(key: str, value: Any) -> dict[str, Any]:
    """A document with that value as a speed, or as a weight."""
    data = document("throughput" if key == "throughput" else "speedup", {"a": [1.0, 1.0]})
    tenant = data["tenants"][0]
    if key == "weight":
        tenant["weight"] = value
    else:
        tenant[key]["V100"] = value
    return data


SPEED: dict[str, Callable[[Any], Any]] = {
    "JobType": lambda v: JobType("k", {"T4": 1.0, "V100": v}, any_scale=True),
    "JobType.from_throughput": lambda v: JobType.from_throughput("k", {"T4": 1.0, "V100": v}),
    "Tenant": lambda v: Tenant("k", {"T4": 1.0, "V100": v}, any_scale=True),  # type: ignore[arg-type]
    "Tenant.from_throughput": lambda v: Tenant.from_throughput("k", {"T4": 1.0, "V100": v}),
    "Job": lambda v: Job("k", {"T4": 1.0, "V100": v}, 1),
    "list": lambda v: Instance.from_speedups([[1.0, v]], GPUS, any_scale=True),
    "array": lambda v: Instance.from_speedups(_cells(1.0, v), GPUS, any_scale=True),
    "frame": lambda v: Instance.from_speedups(_frame(_cells(1.0, v)), GPUS, any_scale=True),
    "throughputs": lambda v: Instance.from_throughputs([[1.0, v]], GPUS),
    "jobs": lambda v: Instance.from_jobs([[1.0, v]], 1, 1, GPUS, round_seconds=1),
    "table": lambda v: Instance.from_tables(SERVERS, tenants=_frame(_cells(1.0, v), "a"), any_scale=True),
    "document": lambda v: _decoded(_given("speedup", v)),
    "document of throughput": lambda v: _decoded(_given("throughput", v)),
}
WEIGHT: dict[str, Callable[[Any], Any]] = {
    "Tenant": lambda v: Tenant("k", {"T4": 1.0}, v),  # type: ignore[arg-type]
    "Tenant.from_throughput": lambda v: Tenant.from_throughput("k", {"T4": 1.0}, v),
    "Job": lambda v: Job("k", {"T4": 1.0}, 1, weight=v),
    "list": lambda v: Instance.from_speedups([[1.0, 1.0]], GPUS, weights=[v]),
    "array": lambda v: Instance.from_speedups([[1.0, 1.0]], GPUS, weights=_cells(v)[0]),
    "series": lambda v: Instance.from_speedups([[1.0, 1.0]], GPUS, weights=pd.Series([v], dtype=object)),
    "throughputs": lambda v: Instance.from_throughputs([[1.0, 1.0]], GPUS, weights=[v]),
    "jobs": lambda v: Instance.from_jobs([[1.0, 1.0]], 1, 1, GPUS, weight=[v]),
    "document": lambda v: _decoded(_given("weight", v)),
}


@given(st.one_of(NUMBERS, PYTHONS, NO_NUMBERS, ODD))
def test_all_ways_take_the_same_speeds(value: Any) -> None:
    good = is_good(value, strict=False)
    assert {way: _taken(lambda make=make: make(value)) for way, make in SPEED.items()} == dict.fromkeys(SPEED, good)


@given(st.one_of(NUMBERS, PYTHONS, NO_NUMBERS, ODD))
def test_all_ways_take_the_same_weights(value: Any) -> None:
    good = is_good(value, strict=True)
    assert {way: _taken(lambda make=make: make(value)) for way, make in WEIGHT.items()} == dict.fromkeys(WEIGHT, good)


COUNT: dict[str, Callable[[Any], Any]] = {
    "Server": lambda v: Server("s", {"T4": v, "V100": 1}),
    "Cluster.of": lambda v: Cluster.of({"T4": v, "V100": 1}, gpus_per_server=10**9),
    "list": lambda v: Cluster.of([v, 1], gpus_per_server=10**9),
    "array": lambda v: Instance.from_speedups([[1.0, 1.0]], _cells(v, 1)[0]),
    "series": lambda v: Instance.from_speedups([[1.0, 1.0]], pd.Series([v, 1], dtype=object)),
    "table": lambda v: Instance.from_tables(_frame(_cells(v, 1), "s")),
    "document": lambda v: _decoded({"schema": schema.SCHEMA, "cluster": {"capacity": {"T4": v, "V100": 1}}}),
}


@given(st.one_of(NUMBERS, PYTHONS, NO_NUMBERS, ODD))
def test_all_ways_take_the_same_counts(value: Any) -> None:
    good = is_good(value, strict=False) and value == int(value) and value <= 10**9
    assert {way: _taken(lambda make=make: make(value)) for way, make in COUNT.items()} == dict.fromkeys(COUNT, good)


@given(st.one_of(NUMBERS, NO_NUMBERS, st.none()), st.sampled_from(["speedup", "throughput", "weight"]))
def test_files_and_their_schema_take_what_python_takes(
    tmp_path_factory: pytest.TempPathFactory, value: Any, key: str
) -> None:
    """Every JSON document is YAML too."""
    good = is_good(value, strict=key == "weight")
    for name in ("f.json", "f.yaml"):
        path = written(tmp_path_factory.mktemp("files") / name, _given(key, value))
        assert _taken(lambda path=path: hetopt.read(path, any_scale=True)) == good
    assert accepts(SCHEMA, _given(key, value)) == good


@given(st.one_of(NUMBERS, st.booleans()), st.sampled_from(["", "throughput."]))
def test_csv_cells_are_the_numbers_that_they_spell(
    tmp_path_factory: pytest.TempPathFactory, value: Any, prefix: str
) -> None:
    where = folder(tmp_path_factory.mktemp("csv"), {"a": [1.0, 1.0]}, prefix)
    (where / "tenants.csv").write_text(f"tenant,{prefix}T4,{prefix}V100\na,1,{value!r}\n")
    assert _taken(lambda: Instance.read_csv(where, any_scale=True)) == is_good(value, strict=False)


def test_a_whole_array_of_something_else_is_refused() -> None:
    """Numpy would make numbers of all these."""
    arrays = [
        np.array([[True, True]]),
        np.array([["1", "2"]]),
        np.array([[1, 2]], dtype="m8[ns]"),
        np.array([[1, 2]], dtype="M8[ns]"),
        np.array([[1, 2]], dtype=complex),
        np.ma.masked_array([[1.0, 2.0]], [[False, True]]),
    ]
    for array in arrays:
        with pytest.raises(InvalidInstance, match=r"speedups\[0\]\['GPU[12]'\] is .*; it must be a finite number >= 0"):
            Instance.from_speedups(array, [1, 1])
    assert Instance.from_speedups(np.ma.masked_array([[1.0, 2.0]]), [1, 1]).entities().speed.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("make", "expected_message"),
    [
        (
            lambda: Tenant("u", {"T4": "1"}),
            "is '1'; it must be a finite number >= 0 (text is not a number; convert",
        ),  # type: ignore[arg-type]
        (
            lambda: Tenant("u", {"T4": True}),
            "is True; it must be a finite number >= 0 (True and False are not",
        ),  # type: ignore[arg-type]
        (lambda: Tenant("u", {"T4": 1e-300}), "speedup['T4'] is 1e-300; it must be at least 1e-18, or 0"),  # type: ignore[arg-type]
        (lambda: Tenant("u", {"T4": 1}, 1e-300), "tenants['u'].weight is 1e-300; it must be at least 1e-18"),  # type: ignore[arg-type]
        (
            lambda: _decoded(_given("weight", "2")),
            "tenants[0].weight is '2'; it must be a finite number > 0, or a fraction",
        ),
        (lambda: _decoded(_given("weight", "2")), "(text is not a number; leave out the quotes)"),
    ],
)
def test_messages_name_key_value_and_remedy(make: Callable[[], Any], expected_message: str) -> None:
    with pytest.raises(InvalidInstance) as caught:
        make()
    assert expected_message in str(caught.value)


def test_speeds_of_jobs_are_checked_in_their_own_unit() -> None:
    """Work per round is divided by the round's seconds first; what then vanishes is refused."""
    tiny = LEAST / 2
    assert Instance.from_jobs([[tiny]], 1, 1, {"A": 1}, round_seconds=0.5).jobs[0].throughput == {"A": LEAST}
    for speed in (tiny, 5e-324):
        with pytest.raises(InvalidInstance, match="throughput"):
            Instance.from_jobs([[speed]], 1, 1, {"A": 1}, round_seconds=300)


@pytest.mark.parametrize(
    ("index", "row"),
    [(pd.Index(["u"]), "row 'u'"), (pd.MultiIndex.from_tuples([("u", "lstm")]), r"row \('u', 'lstm'\)")],
)
def test_the_warning_names_the_row_as_the_table_does(index: pd.Index, row: str) -> None:
    servers = pd.DataFrame({"T4": [1], "V100": [1]}, index=["s"])
    with pytest.warns(SuspiciousSpeedups, match=f"^{row} of table tenants has"):
        Instance.from_tables(servers, tenants=pd.DataFrame({"T4": [3.0], "V100": [9.0]}, index=index))
