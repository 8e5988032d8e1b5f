"""The exported schema and the reader agree: an editor that checks a file by it says what hetopt will say."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_schema import accepts

import hetopt
from hetopt.checks import LEAST
from hetopt.data import documents, file_values, schema
from hetopt.data import instance_files as encoding
from hetopt.data.instance_files import to_instance
from hetopt.proofs.strategies import whole_instances

SCHEMA = json.loads(schema.json_schema())
GOOD = documents.from_yaml((Path(__file__).parent / "good.yaml").read_text())


def reads(document: Any) -> bool:
    """Whether hetopt reads it."""
    try:
        to_instance(document, hetopt.Instance)
    except documents.DocumentError:
        return False
    return True


def changed(path: str, value: Any) -> Any:
    """The good document with another value at ``path``; none where it is ``...``."""
    document = copy.deepcopy(GOOD)
    *steps, last = [int(step) if step.isdigit() else step for step in path.split("/")]
    box = document
    for step in steps:
        box = box[step]
    if value is ...:
        del box[last]
    else:
        box[last] = value
    return document


@given(whole_instances())
def test_what_is_written_satisfies_the_schema(instance: Any) -> None:
    assert accepts(SCHEMA, encoding.encode(instance))


SPEEDS = {"T4": 1, "V100": 2}
SERVERS = [{"name": "s", "gpus": {"T4": 4, "V100": 4}}, {"name": "t4-0", "gpus": {"T4": 2}}]
CASES: list[tuple[str, Any, bool]] = [
    ("cluster/capacity", {"T4": "4", "V100": 4}, False),  # counts are numbers, not text
    ("jobs/0/demand", "2", False),
    ("jobs/0/demand", 2.0, True),
    ("tenants/0/weight", "1/3", True),
    ("tenants/0/weight", " +5/2 ", True),
    ("tenants/0/weight", "2.5", False),  # quotes, where YAML and JSON have numbers
    ("tenants/0/weight", 1e-300, False),
    ("tenants/0/weight", LEAST, True),
    ("tenants/0/weight", 0, False),
    ("tenants/0/speedup", {"T4": 1, "V100": 0}, True),
    ("tenants/0/speedup", {"T4": 1, "V100": LEAST}, True),
    ("tenants/0/speedup", {"T4": 1, "V100": 1e-300}, False),
    ("tenants/0/speedup", {"T4": 1, "V100": False}, False),
    ("jobs/0/throughput", {"T4": 1, "V100": 1e-300}, False),
    ("held", {"a": {"T4": 1e-300}}, True),  # no coefficient of any program
    ("tenants/0/weight", "1/0", False),
    ("tenants/0/weight", "0/1", False),
    ("tenants/0/weight", "0.0", False),
    ("tenants/0/weight", "-1", False),
    ("tenants/0/weight", "1e", False),
    ("tenants/0/weight", "1//2", False),
    ("tenants/0/weight", True, False),
    ("tenants/0/weight", 10**18, True),
    ("tenants/0/weight", 10**19, False),
    ("jobs/0/demand", 10**10, False),
    ("time", "0", False),
    ("time", "0/5", True),
    ("time", "5/00", False),
    ("tenants/0/speedup", ..., False),
    ("tenants/0/speedup", None, False),
    ("tenants/0/throughput", SPEEDS, False),  # besides speedup
    ("tenants/0/throughput", None, True),
    ("tenants/0/job_types", [{"name": "x", "speedup": SPEEDS}], False),
    ("tenants/1/job_types/0/throughput", SPEEDS, False),
    ("tenants/1/job_types/0/speedup", ..., False),
    ("cluster/servers", SERVERS, False),  # besides capacity
    ("cluster/capacity", ..., False),
    ("cluster", {"gpu_types": [{"name": "T4"}, {"name": "V100"}], "servers": SERVERS}, True),
    ("cluster", {"gpu_types": [{"name": "T4"}, {"name": "V100"}], "servers": SERVERS, "gpus_per_server": 2}, False),
    ("cluster", {"servers": SERVERS}, False),
]


@pytest.mark.parametrize(("path", "value", "good"), CASES)
def test_the_reader_and_the_schema_say_the_same(path: str, value: Any, good: bool) -> None:
    document = changed(path, value)
    assert reads(document) == good
    assert accepts(SCHEMA, document) == good


@given(st.from_regex(r"[-+ 0-9./eE]{1,8}", fullmatch=True))
def test_the_reader_and_the_schema_know_the_same_numbers(text: str) -> None:
    """Of text only fractions; minus zero, which the reader takes, is the exception."""
    number = file_values.to_number(text)
    if number == 0 and text.strip().startswith("-"):
        return
    for path, strict in (("tenants/0/weight", True), ("time", False)):
        good = "/" in text and isinstance(number, float) and (number > 0 or (number == 0 and not strict))
        assert reads(changed(path, text)) == accepts(SCHEMA, changed(path, text)) == good
