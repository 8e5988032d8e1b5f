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
from refused import Worded

import hetopt
from hetopt.data import documents
from hetopt.data import instance_files as encoding
from hetopt.errors import InvalidInstance
from hetopt.proofs.strategies import NAMES, whole_instances

GOOD = (Path(__file__).parent / "good.yaml").read_text()


def blamed(path: Path, text: str | bytes, expected: str, name: str = "bad.yaml") -> bool:
    """Whether reading ``text`` ends with an error of one line about ``expected``: its line and key, or its message."""
    file = path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidInstance) as caught:
        hetopt.read(file)
    line = one_line(caught.value, str(file))
    if isinstance(expected, Worded):
        return expected in line
    return f"{caught.value.line}: {caught.value.key}" == expected


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
        hetopt.Instance.decode(document, file=Path("document"))
    assert caught.value.line is not None


SPEED = "speedup: {T4: 1, V100: 7/3}"
CHANGES = [
    # what is changed, into what, what the line must say
    (SPEED, "speedup: {T4: 1, V100: -2}", "9: tenants[0].speedup.V100"),
    (SPEED, "speedup: {T4: 1, V100: .nan}", "9: tenants[0].speedup.V100"),
    (SPEED, "speedup: {T4: 1, V100: .inf}", "9: tenants[0].speedup.V100"),
    (SPEED, "speedup: {T4: 1, V100: 1/0}", "9: tenants[0].speedup.V100"),
    (SPEED, "speedup: {T4: 1, V100: 2 GB}", "9: tenants[0].speedup.V100"),
    (SPEED, "speedup: {T4: 1, V100: true}", "9: tenants[0].speedup.V100"),
    (SPEED, "speedup: {T4: 1, V100: null}", "9: tenants[0].speedup.V100"),
    (SPEED, "speedup: {T4: 1}", "9: tenants['a'].speedup"),
    (SPEED, "speedup: {T4: 1, V10: 2}", "9: tenants['a'].speedup"),
    (
        SPEED,
        "speedup: {T4: 0, V100: 0}",
        "9: tenants['a'].speedup",
    ),
    (SPEED, "speedup: [1, 2]", "9: tenants[0].speedup"),
    (SPEED, "speedup: {T4: 1, T4: 2}", Worded(":9: has the key 'T4' twice in tenants[0].speedup; keep one")),
    (
        SPEED,
        "speedup: {T4: 1, 100: 2}",
        Worded(":9: has the key 100 in tenants[0].speedup, which is not text; put it in quotes: '100'"),
    ),
    (
        SPEED,
        "throughputs: {T4: 1, V100: 2}",
        "9: tenants[0].throughputs",
    ),
    (SPEED, "weight: 1", "8: tenants['a']"),
    ("- name: a", "- name: b", "10: tenants[1].name"),
    ("- name: a", "- name: 7", "8: tenants[0].name"),
    ("- name: a", "- name: ''", "8: tenants[0].name"),
    ("weight: 2", "weight: 0", "11: tenants[1].weight"),
    ("weight: 2", "speedup: {T4: 1, V100: 1}", "10: tenants['b']"),
    ("weight: 2", "memory_bytes: 2", "10: tenants['b']"),
    (
        "memory_bytes: 20e9",
        "memory_bytes: 40e9",
        "10: tenants['b'].memory_bytes",
    ),
    (
        "capacity: {T4: 4, V100: 4}",
        "capacity: {T4: 4, V100: 1.5}",
        "4: cluster.capacity.V100",
    ),
    ("capacity: {T4: 4, V100: 4}", "capacity: {T4: 0, V100: 0}", Worded(": the cluster is empty: no server has a GPU")),
    (
        "capacity: {T4: 4, V100: 4}",
        "capacity: {}",
        "6: cluster.memory_bytes",
    ),
    ("capacity: {T4: 4, V100: 4}", "capacity: {T4: 4, V100: 999999999}", "4: cluster.capacity"),
    (
        "capacity: {T4: 4, V100: 4}",
        "servers: []",
        "4: cluster.gpu_types",
    ),
    ("gpus_per_server: 2", "gpu_types: [{name: T4}]", "5: cluster"),
    (
        "gpus_per_server: 2",
        "nic_bytes_per_s: 10 Gbps",
        "5: cluster.nic_bytes_per_s",
    ),
    ("demand: 2", "demand: 9", "23: jobs['j1'].stages"),
    (
        "{T4: 4, V100: 4}",
        "{T4: 1, V100: 0}",
        "19: jobs['j1'].demand",
    ),
    ("demand: 2", "demand: 1.5", "19: jobs[0].demand"),
    ("demand: 2", "demand: 3", "23: jobs['j1'].stages"),
    ("tenant: b", "tenant: c", "17: jobs['j1'].tenant"),
    ("job_type: x", "job_type: z", "18: jobs['j1'].job_type"),
    ("work: 30", "parallelism: data", "16: jobs[0].work"),
    ("work: 30", "{work: 30}", Worded(": is not YAML: ")),
    (
        "  demand: 2",
        "  parallelism: expert",
        "19: jobs[0].parallelism",
    ),
    ("time: 600", "time: 10 min", "25: time"),
    ("held: {a: {T4: 1}", "held: {c: {T4: 1}", "26: held"),
    ("held: {a: {T4: 1}", "held: {a: {K80: 1}", "26: held['a']"),
    ("done: {j1: 4}", "done: {j1: -4}", "27: done.j1"),
    ("t4-0: {T4: 2}", "t4-9: {T4: 2}", "28: placed['j1']"),
    ("t4-0: {T4: 2}", "t4-0: {T4: 3}", "28: placed"),
    ("instance/1", "instance/2", Worded(":1: schema is 'hetopt/instance/2'; this version of hetopt reads")),
    ("schema: hetopt/instance/1", "version: 1", Worded(": schema is missing; this version of hetopt reads")),
    ("cluster:\n", "clusters:\n", "4: clusters"),
    ("name: good", "name: &x good", None),
    ("name: good", "name: *x", Worded(":2: ")),
    (
        "name: good",
        "name: !!python/name:os.system x",
        Worded(":2: the tag 'tag:yaml.org,2002:python/name:os.system' is not read"),
    ),
    ("name: good", "name: [a", Worded(": is not YAML: ")),
    ("name: good", "--- ", Worded(": has 2 documents; it must have one")),
]


@pytest.mark.parametrize(("old", "new", "message"), CHANGES)
def test_one_clear_line(tmp_path: Path, old: str, new: str, message: str | None) -> None:
    assert GOOD.count(old) >= 1
    text = GOOD.replace(old, new, 1)
    if message is None:  # an anchor without alias changes nothing
        assert hetopt.Instance.read(_put(tmp_path, text)).name == "good"
        return
    assert blamed(tmp_path, text, message)


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
    ("name: h3", "name: h2", "9: cluster.servers[2].name"),
    ("{V100: 1}", "{V10: 1}", "9: cluster.servers['h3'].gpus"),
    ("{V100: 1}", "{V100: -1}", "9: cluster.servers[2].gpus.V100"),
    ("name: V100", "name: T4", "5: cluster.gpu_types[1].name"),
    (
        "  servers:",
        "  gpus_per_server: 3\n  servers:",
        "6: cluster",
    ),
    ("  servers:", "  memory_bytes: {T4: 3}\n  servers:", "6: cluster"),
    ("  servers:", "  disk_bytes: 3\n  servers:", "6: cluster"),
]


@pytest.mark.parametrize(("old", "new", "message"), IN_CLUSTER)
def test_errors_in_a_cluster_name_their_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert blamed(tmp_path, SERVERS.replace(old, new), message)


def _put(folder: Path, text: str) -> Path:
    (folder / "f.yaml").write_text(text)
    return folder / "f.yaml"


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("", "f.yaml", Worded(": is empty; it must hold an instance, beginning with 'schema: hetopt/instance/1'")),
        ("", "f.json", Worded(":1: is not JSON: Expecting value")),
        ("just text", "f.yaml", Worded(": holds 'just text'; it must be a mapping")),
        ("[1, 2]", "f.json", Worded(": holds [1, 2]; it must be a mapping")),
        (b"\x80\x81\x82", "f.yaml", Worded(" is not UTF-8 text (byte 0)")),
        (b"\x00\x01", "f.yaml", Worded(": is not YAML: ")),
        (
            '{"schema": "hetopt/instance/1", "schema": 1}',
            "f.json",
            Worded(":1: has the key 'schema' twice"),
        ),
        (
            '{\n "schema": "hetopt/instance/1",\n "cluster": {\n"capacity": {\n"T4": 1, \n"T4": 2}}\n}',
            "f.json",
            Worded(":6: has the key 'T4' twice in cluster.capacity; keep one"),
        ),
        (
            '{"a": "\\/", "a": 1, "b": {"c": 1, "c": 2}}',
            "f.json",
            Worded(":1: has the key 'a' twice"),
        ),
        ('{"schema": NaN}', "f.json", Worded(": holds NaN; every number must be finite")),
        ('{"schema": 1e999}', "f.json", Worded(":1: schema is inf")),
        ('{"schema": ' + "9" * 5000 + "}", "f.json", Worded(": is not JSON that can be read")),
        ("[" * 100_000, "f.json", Worded(": has too many levels")),
        ("[" * 100_000, "f.yaml", Worded(":1: more than 20 levels")),
        ("{a: " * 100_000, "f.yaml", Worded(":1: more than 20 levels")),
        ("a: &a [x]\nb: *a", "f.yaml", Worded(":2: anchors and aliases (& and *) are not read")),
        ("? [1]\n: 2", "f.yaml", Worded(":1: has the key [] in the file, which is not text")),
        (
            '{\n "schema": "hetopt/instance/1",\n "cluster": {"capacity": {"T4": -1}}\n}',
            "f.json",
            "3: cluster.capacity.T4",
        ),
    ],
)
def test_what_is_no_instance_at_all(tmp_path: Path, text: str | bytes, name: str, message: str) -> None:
    assert blamed(tmp_path, text, message, name)


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
