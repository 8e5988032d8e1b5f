"""Files: nothing is lost on a round trip, a failed write loses nothing, and the exported schema is up to date."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import hetopt
from hetopt.data import documents, schema
from hetopt.data import instance_files as encoding
from hetopt.data.file_values import Part
from hetopt.errors import InvalidOption, UnusableFile
from hetopt.proofs.strategies import whole_instances

ROOT = Path(__file__).parents[1]

GOOD = (Path(__file__).parent / "good.yaml").read_text()


# Round trips


@given(whole_instances())
@settings(max_examples=100)
def test_no_instance_is_changed_by_writing_and_reading(instance: hetopt.Instance) -> None:
    document = encoding.encode(instance)
    for dump, load in ((documents.to_yaml, documents.from_yaml), (documents.to_json, documents.from_json)):
        again = hetopt.Instance.decode(load(dump(document)), any_scale=True)
        assert again == instance
        assert encoding.encode(again) == document


@given(whole_instances())
@settings(max_examples=30)
def test_other_readers_see_the_same_document(instance: hetopt.Instance) -> None:
    """YAML 1.1 readers agree with ours about every file we write: text stays text."""
    document = encoding.encode(instance)
    assert yaml.safe_load(documents.to_yaml(document)) == document
    assert json.loads(documents.to_json(document)) == document


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_any_source_text_survives(text: str) -> None:
    instance = hetopt.Instance.from_speedups([[1, 2]], [1, 1], source=text)
    document = encoding.encode(instance)
    assert hetopt.Instance.decode(documents.from_yaml(documents.to_yaml(document))).source == text
    assert hetopt.Instance.decode(documents.from_json(documents.to_json(document))).source == text


@pytest.mark.parametrize("ending", ["yaml", "yml", "json", "YAML"])
def test_a_file_gives_the_instance_that_python_makes(tmp_path: Path, ending: str) -> None:
    made = hetopt.Instance(
        hetopt.Cluster.of({"T4": 4, "V100": 4}, gpus_per_server=2, memory_bytes={"T4": 16e9, "V100": 32e9}),
        tenants=(
            hetopt.Tenant("a", {"T4": 1, "V100": 7 / 3}),  # type: ignore[arg-type]
            hetopt.Tenant(
                "b",
                (
                    hetopt.JobType("x", {"T4": 1, "V100": 2}, memory_bytes=20e9),
                    hetopt.JobType.from_throughput("y", {"T4": 50, "V100": 200}),
                ),
                weight=2,
            ),
        ),
        jobs=(
            hetopt.Job(
                "j1",
                {"T4": 1 / 300, "V100": 2 / 300},
                30,
                2,
                tenant="b",
                job_type="x",
                stages=(hetopt.Stage(1, 0.1, 0.2, output_bytes=1e6), hetopt.Stage(1, 0.1, 0.2)),
            ),
        ),
        time=600,
        held={"a": {"T4": 1}, "b/x": {"V100": 2}},
        done={"j1": 4},
        placed={"j1": {"t4-0": {"T4": 2}}},
        name="good",
    )
    (tmp_path / "good.yaml").write_text(GOOD)
    assert hetopt.read(tmp_path / "good.yaml") == made
    made.write(tmp_path / f"again.{ending}")
    assert hetopt.Instance.read(tmp_path / f"again.{ending}") == made
    assert hetopt.read(str(tmp_path / f"again.{ending}")) == made


def test_short_forms_are_written_where_they_say_the_same() -> None:
    inst = hetopt.Instance.from_speedups([[1, 2]], {"T4": 4, "V100": 2})
    assert encoding.encode(inst) == {
        "schema": "hetopt/instance/1",
        "cluster": {"capacity": {"T4": 4, "V100": 2}},
        "tenants": [{"name": "u1", "speedup": {"T4": 1, "V100": 2}}],
    }
    uneven = hetopt.Cluster(
        (hetopt.GPUType("T4"),), (hetopt.Server("s", {"T4": 1}), hetopt.Server("t", {"T4": 1}, nic_bytes_per_s=1e9))
    )
    cluster = encoding.encode(hetopt.Instance(uneven))["cluster"]
    assert cluster["servers"] == [
        {"name": "s", "gpus": {"T4": 1}},
        {"name": "t", "gpus": {"T4": 1}, "nic_bytes_per_s": 10**9},
    ]


def test_yaml_is_read_by_version_1_2(tmp_path: Path) -> None:
    """`no` is a name, `1e9` a number, `010` ten, and a fraction the float nearest to it."""
    text = "schema: hetopt/instance/1\ncluster: {capacity: {no: 010}, nic_bytes_per_s: 1e9}\n"
    text += "tenants: [{name: on, speedup: {no: 1/3}}, {name: 'null', speedup: {no: 2.5e-1}}]\n"
    (tmp_path / "f.yaml").write_text(text)
    instance = hetopt.read(tmp_path / "f.yaml", any_scale=True)
    assert instance.cluster.capacity == {"no": 10}
    assert instance.cluster.servers[0].nic_bytes_per_s == 1e9
    assert [t.name for t in instance.tenants] == ["on", "null"]
    assert instance.entities().speed.tolist() == [[1 / 3], [0.25]]


def test_a_byte_order_mark_is_no_matter(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert hetopt.read(tmp_path / "f.yaml").name == "good"


# The file system


def test_what_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnusableFile, match=r"absent\.yaml: cannot be read: No such file") as caught:
        hetopt.read(tmp_path / "absent.yaml")
    assert isinstance(caught.value, OSError)
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(UnusableFile, match="Is a directory"):
        hetopt.read(tmp_path / "folder.yaml")
    with pytest.raises(UnusableFile, match="cannot be read"):
        hetopt.read("nul\0l.yaml")
    with pytest.raises(InvalidOption, match=r"ends with '\.txt'; the name must end with one of \.yaml, \.yml, \.json"):
        hetopt.read(tmp_path / "f.txt")
    monkeypatch.setattr(encoding, "LARGEST", 10)
    (tmp_path / "f.yaml").write_text(GOOD)
    with pytest.raises(UnusableFile, match="more than 10"):
        hetopt.read(tmp_path / "f.yaml")


INSTANCE = hetopt.Instance.from_speedups([[1, 2]], [1, 1])


def test_a_file_is_overwritten_only_on_request(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("precious")
    with pytest.raises(UnusableFile, match="exists already; use overwrite=True"):
        INSTANCE.write(file)
    assert file.read_text() == "precious"
    INSTANCE.write(file, overwrite=True)
    assert hetopt.read(file) == INSTANCE
    assert [p.name for p in tmp_path.iterdir()] == ["f.yaml"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("precious")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os if step == "fsync" else Path, step, full)
    with pytest.raises(UnusableFile, match="cannot be written: No space left on device"):
        INSTANCE.write(file, overwrite=True)
    assert file.read_text() == "precious"
    assert [p.name for p in tmp_path.iterdir()] == ["f.yaml"]


def test_what_cannot_be_written(tmp_path: Path) -> None:
    cases: list[Callable[[], None]] = [
        lambda: INSTANCE.write(tmp_path / "no" / "such" / "f.yaml"),
        lambda: INSTANCE.write("nul\0l.yaml"),
        lambda: INSTANCE.replace(source="\ud800").write(tmp_path / "f.json"),
    ]
    for case in cases:
        with pytest.raises(UnusableFile, match="cannot be written"):
            case()
    with pytest.raises(InvalidOption, match="has no suffix"):
        INSTANCE.write(tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    INSTANCE.write(tmp_path / "f.yaml")
    (tmp_path / "g.yaml").touch()
    assert (tmp_path / "f.yaml").stat().st_mode == (tmp_path / "g.yaml").stat().st_mode


# The schema


def test_the_exported_schema_is_up_to_date() -> None:
    """If not: write ``hetopt.data.schema.json_schema()`` to the file."""
    assert (ROOT / "docs" / "schema" / "instance-v1.json").read_text() == schema.json_schema()


def test_the_schema_has_every_field_of_the_dataclasses() -> None:
    pairs: list[tuple[type[Part], Any]] = [
        (schema.GPUTypePart, hetopt.GPUType),
        (schema.ServerPart, hetopt.Server),
        (schema.JobTypePart, hetopt.JobType),
        (schema.TenantPart, hetopt.Tenant),
        (schema.StagePart, hetopt.Stage),
        (schema.JobPart, hetopt.Job),
        (schema.InstancePart, hetopt.Instance),
    ]
    for part, kind in pairs:
        for field in dataclasses.fields(kind):
            assert field.name in part.model_fields
            default = part.model_fields[field.name].get_default(call_default_factory=True)
            if not callable(field.default_factory) and isinstance(field.default, (int, float, str)):
                assert default == field.default, (part, field.name)


def test_the_schema_describes_units_wherever_there_are_any() -> None:
    parts = json.loads(schema.json_schema())["$defs"]
    for part in ("ServerPart", "StagePart"):
        for name, field in parts[part]["properties"].items():
            if name.endswith(("_bytes", "_s")):
                assert any(unit in field.get("description", "") for unit in ("bytes", "seconds")), (part, field.name)
