"""A small judge of JSON Schema, independent of pydantic: the keywords that the exported schema uses, no others."""

from __future__ import annotations

import re
from typing import Any

KINDS: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "null": type(None),
    "number": (int, float),
    "boolean": bool,
}
SILENT = {"$defs", "$schema", "title", "description", "default"}


def accepts(schema: Any, value: Any, root: Any = None) -> bool:
    """Whether ``value`` (JSON data) satisfies ``schema``."""
    root = schema if root is None else root
    return all(_holds(key, schema, value, root) for key in schema if key not in SILENT)


def _holds(key: str, schema: Any, value: Any, root: Any) -> bool:
    rule = schema[key]
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match key:
        case "$ref":
            return accepts(root["$defs"][rule.removeprefix("#/$defs/")], value, root)
        case "type":
            return _is(rule, value)
        case "const" | "enum":
            return value in (rule if key == "enum" else [rule])
        case "anyOf" | "oneOf" | "allOf":
            hits = sum(accepts(part, value, root) for part in rule)
            return {"anyOf": hits > 0, "oneOf": hits == 1, "allOf": hits == len(rule)}[key]
        case "not":
            return not accepts(rule, value, root)
        case "required":
            return not isinstance(value, dict) or all(name in value for name in rule)
        case "properties":
            return not isinstance(value, dict) or all(accepts(rule[k], value[k], root) for k in rule if k in value)
        case "additionalProperties":
            known = schema.get("properties", {})
            rest = [v for k, v in value.items() if k not in known] if isinstance(value, dict) else []
            return all(rule is True or (rule is not False and accepts(rule, item, root)) for item in rest)
        case "propertyNames":
            return not isinstance(value, dict) or all(accepts(rule, name, root) for name in value)
        case "items":
            return not isinstance(value, list) or all(accepts(rule, item, root) for item in value)
        case "pattern":
            return not isinstance(value, str) or re.search(rule, value) is not None
        case "minLength":
            return not isinstance(value, str) or len(value) >= rule
        case "minimum":
            return not number or value >= rule
        case "maximum":
            return not number or value <= rule
        case "exclusiveMinimum":
            return not number or value > rule
    raise AssertionError(f"the schema has the keyword {key!r}, which this judge does not know")


def _is(kind: str, value: Any) -> bool:
    if kind == "integer":
        return isinstance(value, (int, float)) and not isinstance(value, bool) and value == int(value)
    return isinstance(value, KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))
