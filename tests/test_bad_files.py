"""Bad files: whatever is wrong is one line naming file, line, key, value and remedy, and nothing wrong is accepted."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from hypothesis import event, given, settings
from hypothesis import strategies as st
from refused import refused

import hetopt
from hetopt.data import documents
from hetopt.data import instance_files as encoding
from hetopt.errors import InvalidInstance
from hetopt.proofs.strategies import NAMES, whole_instances

GOOD = (Path(__file__).parent / "good.yaml").read_text()


def assert_refused(file: Path, text: str | bytes, key: str | None, match: str | None, line: int | None) -> None:
    """Reading ``text`` ends with one line about ``key`` and the place."""
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with refused(InvalidInstance, key, match, file=file.name, line=line) as caught:
        hetopt.read(file)
    one_line(caught.value, str(file))


def one_line(problem: Exception, start: str = "") -> str:
    """What ``problem`` says: one line in our words that begins with ``start``."""
    line = str(problem)
    assert line.startswith(start)
    assert line.splitlines() == [line]
    assert "pydantic" not in line
    return line


def test_errors_in_data_name_no_line_of_a_file_that_has_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("document").write_text(GOOD)
    document = documents.from_yaml(GOOD)
    document["tenants"][0]["weight"] = -1
    with pytest.raises(InvalidInstance) as caught:
        hetopt.Instance.decode(document)
    assert caught.value.line is None
    assert one_line(caught.value).startswith("document: tenants[0].weight is -1")
    with pytest.raises(InvalidInstance) as caught:
        hetopt.Instance.decode(document, text=GOOD)
    assert caught.value.line is not None


SPEED = "speedup: {T4: 1, V100: 7/3}"
CHANGES = [
    # what is changed, into what, the key, a word, and the line
    (SPEED, "speedup: {T4: 1, V100: -2}", "tenants[0].speedup.V100", "-2", 9),
    (SPEED, "speedup: {T4: 1, V100: .nan}", "tenants[0].speedup.V100", "nan", 9),
    (SPEED, "speedup: {T4: 1, V100: .inf}", "tenants[0].speedup.V100", "inf", 9),
    (SPEED, "speedup: {T4: 1, V100: 1/0}", "tenants[0].speedup.V100", "'1/0'", 9),
    (SPEED, "speedup: {T4: 1, V100: 2 GB}", "tenants[0].speedup.V100", "'2 GB'", 9),
    (SPEED, "speedup: {T4: 1, V100: true}", "tenants[0].speedup.V100", "True", 9),
    (SPEED, "speedup: {T4: 1, V100: null}", "tenants[0].speedup.V100", "None", 9),
    (SPEED, "speedup: {T4: 1}", "tenants['a'].speedup", "'V100'", 9),
    (SPEED, "speedup: {T4: 1, V10: 2}", "tenants['a'].speedup", "'V10'", 9),
    (
        SPEED,
        "speedup: {T4: 0, V100: 0}",
        "tenants['a'].speedup",
        "at least one",
        9,
    ),
    (SPEED, "speedup: [1, 2]", "tenants[0].speedup", None, 9),
    (SPEED, "speedup: {T4: 1, T4: 2}", None, "'T4'.*speedup", 9),
    (
        SPEED,
        "speedup: {T4: 1, 100: 2}",
        None,
        "100.*text",
        9,
    ),
    (
        SPEED,
        "throughputs: {T4: 1, V100: 2}",
        "tenants[0].throughputs",
        "'throughput'",
        9,
    ),
    (SPEED, "weight: 1", "tenants['a']", "speedup.*job_types", 8),
    ("- name: a", "- name: b", "tenants[1].name", "'b'", 10),
    ("- name: a", "- name: 7", "tenants[0].name", "7", 8),
    ("- name: a", "- name: ''", "tenants[0].name", "''", 8),
    ("weight: 2", "weight: 0", "tenants[1].weight", None, 11),
    ("weight: 2", "speedup: {T4: 1, V100: 1}", "tenants['b']", "speedup.*job_types", 10),
    ("weight: 2", "memory_bytes: 2", "tenants['b']", "job_types.*memory_bytes", 10),
    (
        "memory_bytes: 20e9",
        "memory_bytes: 40e9",
        "tenants['b'].memory_bytes",
        None,
        10,
    ),
    (
        "capacity: {T4: 4, V100: 4}",
        "capacity: {T4: 4, V100: 1.5}",
        "cluster.capacity.V100",
        None,
        4,
    ),
    ("capacity: {T4: 4, V100: 4}", "capacity: {T4: 0, V100: 0}", None, "cluster.*empty", 4),
    (
        "capacity: {T4: 4, V100: 4}",
        "capacity: {}",
        "cluster.memory_bytes",
        "'T4'",
        6,
    ),
    ("capacity: {T4: 4, V100: 4}", "capacity: {T4: 4, V100: 999999999}", "cluster.capacity", None, 4),
    (
        "capacity: {T4: 4, V100: 4}",
        "servers: []",
        "cluster.gpu_types",
        "missing",
        4,
    ),
    ("gpus_per_server: 2", "gpu_types: [{name: T4}]", "cluster", "both.*gpu_types", 5),
    (
        "gpus_per_server: 2",
        "nic_bytes_per_s: 10 Gbps",
        "cluster.nic_bytes_per_s",
        None,
        5,
    ),
    ("demand: 2", "demand: 9", "jobs['j1'].stages", "= 9", 23),
    (
        "{T4: 4, V100: 4}",
        "{T4: 1, V100: 0}",
        "jobs['j1'].demand",
        None,
        19,
    ),
    ("demand: 2", "demand: 1.5", "jobs[0].demand", None, 19),
    ("demand: 2", "demand: 3", "jobs['j1'].stages", "= 3", 23),
    ("tenant: b", "tenant: c", "jobs['j1'].tenant", "'c'", 17),
    ("job_type: x", "job_type: z", "jobs['j1'].job_type", "'z'", 18),
    ("work: 30", "parallelism: data", "jobs[0].work", "missing", 16),
    ("work: 30", "{work: 30}", None, "YAML", 21),
    (
        "  demand: 2",
        "  parallelism: expert",
        "jobs[0].parallelism",
        None,
        19,
    ),
    ("time: 600", "time: 10 min", "time", None, 25),
    ("held: {a: {T4: 1}", "held: {c: {T4: 1}", "held", "'c'", 26),
    ("held: {a: {T4: 1}", "held: {a: {K80: 1}", "held['a']", "'K80'", 26),
    ("done: {j1: 4}", "done: {j1: -4}", "done.j1", None, 27),
    ("t4-0: {T4: 2}", "t4-9: {T4: 2}", "placed['j1']", "'t4-9'", 28),
    ("t4-0: {T4: 2}", "t4-0: {T4: 3}", "placed", None, 28),
    ("instance/1", "instance/2", None, "instance/2", 1),
    ("schema: hetopt/instance/1", "version: 1", None, "schema.*missing", 1),
    ("cluster:\n", "clusters:\n", "clusters", "'cluster'", 4),
    ("name: good", "name: *x", None, "anchors.*read", 2),
    (
        "name: good",
        "name: !!python/name:os.system x",
        None,
        "python/name",
        2,
    ),
    ("name: good", "name: [a", None, "YAML", 3),
    ("name: good", "--- ", None, "2.*documents", None),
]


@pytest.mark.parametrize(("old", "new", "key", "match", "line"), CHANGES)
def test_one_clear_line(
    tmp_path: Path, old: str, new: str, key: str | None, match: str | None, line: int | None
) -> None:
    assert GOOD.count(old) >= 1
    assert_refused(tmp_path / "bad.yaml", GOOD.replace(old, new, 1), key, match, line)


def test_an_anchor_without_alias_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(GOOD.replace("name: good", "name: &x good", 1))
    assert hetopt.Instance.read(tmp_path / "f.yaml").name == "good"


SERVERS = """schema: hetopt/instance/1
cluster:
  gpu_types:
  - name: T4
  - name: V100
  servers:
  - {name: h1, gpus: {T4: 1, V100: 2}}
  - {name: h2, gpus: {T4: 1}}
  - {name: h3, gpus: {V100: 1}}
"""
IN_CLUSTER = [
    ("name: h3", "name: h2", "cluster.servers[2].name", "'h2'", 9),
    ("{V100: 1}", "{V10: 1}", "cluster.servers['h3'].gpus", "'V10'", 9),
    ("{V100: 1}", "{V100: -1}", "cluster.servers[2].gpus.V100", None, 9),
    ("name: V100", "name: T4", "cluster.gpu_types[1].name", "'T4'", 5),
    (
        "  servers:",
        "  gpus_per_server: 3\n  servers:",
        "cluster",
        "both.*gpus_per_server",
        6,
    ),
    ("  servers:", "  memory_bytes: {T4: 3}\n  servers:", "cluster", "memory_bytes", 6),
    ("  servers:", "  disk_bytes: 3\n  servers:", "cluster", "disk_bytes", 6),
]


@pytest.mark.parametrize(("old", "new", "key", "match", "line"), IN_CLUSTER)
def test_errors_in_a_cluster_name_their_line(
    tmp_path: Path, old: str, new: str, key: str | None, match: str | None, line: int | None
) -> None:
    assert_refused(tmp_path / "bad.yaml", SERVERS.replace(old, new), key, match, line)


@pytest.mark.parametrize(
    ("text", "name", "key", "match", "line"),
    [
        ("", "f.yaml", None, "empty", None),
        ("", "f.json", None, "not JSON", 1),
        ("just text", "f.yaml", None, "holds.*'just text'", 1),
        ("[1, 2]", "f.json", None, r"holds.*\[1, 2\]", 1),
        (b"\x00\x01", "f.yaml", None, "YAML", None),
        ('{"schema": "hetopt/instance/1", "schema": 1}', "f.json", None, "'schema'.*file", 1),
        (
            '{\n "schema": "hetopt/instance/1",\n "cluster": {\n"capacity": {\n"T4": 1, \n"T4": 2}}\n}',
            "f.json",
            None,
            r"'T4'.*cluster\.capacity",
            6,
        ),
        ('{"a": "\\/", "a": 1, "b": {"c": 1, "c": 2}}', "f.json", None, "'a'.*file", 1),
        ('{"schema": NaN}', "f.json", None, "NaN", 1),
        ('{"schema": 1e999}', "f.json", None, "schema.*inf", 1),
        ('{"schema": ' + "9" * 5000 + "}", "f.json", None, "JSON", 1),
        ("[" * 100_000, "f.json", None, "too.*levels", None),
        ("[" * 100_000, "f.yaml", None, "20.*levels", 1),
        ("{a: " * 100_000, "f.yaml", None, "20.*levels", 1),
        ("a: &a [x]\nb: *a", "f.yaml", None, "anchors.*read", 2),
        ("? [1]\n: 2", "f.yaml", None, r"\[\].*text", 1),
        (
            '{\n "schema": "hetopt/instance/1",\n "cluster": {"capacity": {"T4": -1}}\n}',
            "f.json",
            "cluster.capacity.T4",
            None,
            3,
        ),
    ],
)
def test_what_is_no_instance_at_all(
    tmp_path: Path, text: str | bytes, name: str, key: str | None, match: str | None, line: int | None
) -> None:
    assert_refused(tmp_path / name, text, key, match, line)


def test_what_is_not_utf_8_is_named(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_bytes(b"\x80\x81\x82")
    with refused(InvalidInstance, None, "UTF-8.*byte 0", file="f.yaml"):
        hetopt.read(tmp_path / "f.yaml")


# Mutated files: always a HetoptError of one line, or an instance that python would have accepted too

JUNK = st.one_of(
    st.sampled_from([None, True, -1, 0, 1.5, math.nan, math.inf, -1e300, [], {}, [[]]]),
    st.sampled_from(["", "x", "1/0", "nan", "5 GB", "\x07"]),
    NAMES,
    st.recursive(
        st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
        max_leaves=4,
    ),
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in items for place in ((*path, key), *_places(item, (*path, key)))]


@st.composite
def mutations(draw: st.DrawFn) -> dict[str, Any]:
    """A good document with one to three keys deleted, replaced, doubled, renamed or swapped."""
    document = copy.deepcopy(
        draw(st.sampled_from([documents.from_yaml(GOOD), encoding.encode(draw(whole_instances()))]))
    )
    for _ in range(draw(st.integers(1, 3))):
        places = _places(document)
        if not places:
            break
        *path, key = draw(st.sampled_from(places))
        box = document
        for step in path:
            box = box[step]
        action = draw(st.sampled_from(["delete", "junk", "rename", "double"]))
        if action == "delete":
            del box[key]
        elif action == "junk" or (isinstance(box, dict) and action == "double"):
            box[key] = draw(JUNK)
        elif isinstance(box, dict):
            box[draw(NAMES)] = box.pop(key)
        else:
            box.append(copy.deepcopy(box[key]))
    return document


def valid_or_refused(document: Any) -> hetopt.Instance | None:
    """The instance, which survives a round trip, or None where one line that names the file refuses it."""
    try:
        instance = hetopt.Instance.decode(document, "some.yaml", any_scale=True)
    except InvalidInstance as problem:
        event("refused")
        one_line(problem, "some.yaml: ")
        return None
    event("accepted")
    assert hetopt.Instance.decode(encoding.encode(instance), any_scale=True) == instance
    return instance


@given(mutations())
@settings(max_examples=examples(60, 200))
def test_mutated_documents_raise_one_line_or_are_valid(document: dict[str, Any]) -> None:
    """Whatever is accepted gives finite arrays: nothing invalid slips through."""
    instance = valid_or_refused(document)
    if instance is None:
        return
    for kind in ("tenants", "jobs"):
        if getattr(instance, kind):
            entities = instance.entities(kind)  # type: ignore[arg-type]
            assert ((entities.speed >= 0) & (entities.speed < math.inf)).all()
            assert entities.task_speed.any(axis=1).all()
            assert entities.capacity.sum() >= entities.demand.max()


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 30), st.text(max_size=4))
@settings(max_examples=200)
def test_files_with_typing_errors_raise_one_line_or_are_valid(at: int, cut: int, typed: str) -> None:
    try:
        document = documents.from_yaml(GOOD[:at] + typed + GOOD[at + cut :])
    except documents.DocumentError as problem:
        event("no document")
        one_line(problem)
        return
    valid_or_refused(document)


@given(st.binary(max_size=60), st.sampled_from([".yaml", ".json"]))
def test_binary_files_raise_one_line(tmp_path_factory: pytest.TempPathFactory, data: bytes, ending: str) -> None:
    file = tmp_path_factory.getbasetemp() / f"binary{ending}"
    file.write_bytes(data)
    with pytest.raises(InvalidInstance) as caught:
        hetopt.read(file)
    one_line(caught.value)
