"""YAML and JSON text as plain data: mappings, lists, text, numbers, and the line of each.

YAML is read by the rules of version 1.2 (``no`` is text, ``1e9`` a number, ``010`` ten), from the parser's events and
without recursion, so no file can exhaust the stack. Duplicate keys, anchors and tags are refused.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from hetopt.errors import HetoptError, KeyPath, format_path

if TYPE_CHECKING:
    import yaml  # imported where it is needed: that takes 10 ms, and JSON does without

DEEPEST = 20
"""Levels of mappings and lists that a document may have; an instance needs seven."""

NULL = re.compile(r"(?:~|null|Null|NULL|)\Z")
BOOLEAN = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
INTEGER = re.compile(r"[-+]?[0-9]{1,300}\Z")
FLOAT = re.compile(
    r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
)


class DocumentError(Exception):
    """An error in a document, with its position.

    Attributes
    ----------
    problem:
        A message, or the error of the data.
    position:
        Keys and indices that lead to the value in the document.
    line:
        Line of the file, where it is known already.
    """

    def __init__(self, problem: str | HetoptError, position: KeyPath = (), line: int | None = None) -> None:
        super().__init__(problem, position, line)
        self.problem, self.position, self.line = problem, position, line

    def __str__(self) -> str:
        return str(self.problem)

    def found_line(self, text: str) -> int | None:
        """The line of the error in ``text``, the content of the file; None where unknown."""
        return self.line if self.line is not None or not text else line_of(text, self.position)


def scalar(value: str) -> Any:
    """The value of an unquoted YAML scalar in the core schema of YAML 1.2."""
    if NULL.match(value):
        return None
    if BOOLEAN.match(value):
        return value.lower() == "true"
    if INTEGER.match(value):
        return int(value)
    if FLOAT.match(value):
        return float(value.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return value


@dataclass
class _Frame:
    """An open mapping or list, its newest key or index, and whether that key still lacks a value."""

    container: Any
    at: Any = None
    awaits_value: bool = False


class _Builder:
    """Builds documents from the events of a YAML parser; records the line of every path in ``lines`` if given."""

    def __init__(self, lines: dict[KeyPath, int] | None) -> None:
        self.lines = lines
        self.documents: list[Any] = []
        self.frames = [_Frame(self.documents)]

    def path(self) -> KeyPath:
        """Path of the newest value."""
        return tuple(frame.at for frame in self.frames[1:])

    def take(self, event: yaml.Event) -> None:
        """Process the next event."""
        import yaml

        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.CollectionEndEvent):
            self.frames.pop()
        elif isinstance(event, yaml.AliasEvent):
            raise DocumentError("anchors and aliases (& and *) are not read; write the value out", self.path(), line)
        elif isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)) and event.tag is not None:
            raise DocumentError(f"the tag {event.tag!r} is not read; write plain values", self.path(), line)
        elif isinstance(event, yaml.ScalarEvent):
            self.put(scalar(event.value) if event.implicit[0] else event.value, event.value, line)
        elif isinstance(event, yaml.CollectionStartEvent):
            container: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
            self.put(container, "", line)
            self.frames.append(_Frame(container))
            if len(self.frames) > DEEPEST:
                raise DocumentError(
                    f"more than {DEEPEST} levels of mappings and lists; the files of hetopt need fewer", (), line
                )

    def put(self, value: Any, raw: str, line: int) -> None:
        """Add a value or a key to the innermost mapping or list."""
        frame = self.frames[-1]
        if isinstance(frame.container, list):
            frame.at = len(frame.container)
            frame.container.append(value)
        elif frame.awaits_value:
            frame.awaits_value = False
            frame.container[frame.at] = value
        else:
            self._check_key(value, raw, line)
            frame.at, frame.awaits_value = value, True
            return
        if self.lines is not None:
            self.lines[self.path()] = line

    def _check_key(self, key: Any, raw: str, line: int) -> None:
        where = format_path(self.path()[:-1]) or "the file"
        if not isinstance(key, str):
            hint = f"; put it in quotes: '{raw}'" if raw else ""
            raise DocumentError(f"has the key {key!r} in {where}, which is not text{hint}", self.path()[:-1], line)
        if key in self.frames[-1].container:
            raise _DuplicateKey(f"has the key {key!r} twice in {where}; keep one", self.path()[:-1], line)


def from_yaml(text: str, lines: dict[KeyPath, int] | None = None) -> Any:
    """The one document in ``text``; None for an empty one.

    Raises
    ------
    DocumentError
        Not YAML, or YAML that is refused.
    """
    import yaml

    builder = _Builder(lines)
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            builder.take(event)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        text = " ".join(filter(None, (problem.context, problem.problem)))
        raise DocumentError(f"is not YAML: {text}", line=None if mark is None else mark.line + 1) from None
    except yaml.YAMLError as problem:
        raise DocumentError(f"is not YAML: {str(problem).splitlines()[0]}") from None
    if len(builder.documents) > 1:
        raise DocumentError(f"has {len(builder.documents)} documents; it must have one, without further lines ---")
    return builder.documents[0] if builder.documents else None


def from_json_or_yaml(text: str) -> Any:
    """The value in JSON text, which may have tabs, or the document in YAML text; errors as :func:`from_yaml`."""
    try:
        return from_json(text)
    except DocumentError:
        return from_yaml(text)


def from_json(text: str) -> Any:
    """The value in ``text``.

    Raises
    ------
    DocumentError
        Not JSON, duplicate keys, NaN or Infinity.
    """
    try:
        return json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except _DuplicateKey as error:
        raise _with_line(text, error) from None
    except json.JSONDecodeError as problem:
        raise DocumentError(f"is not JSON: {problem.msg}", line=problem.lineno) from None
    except RecursionError:
        raise DocumentError("has too many levels of mappings and lists; the files of hetopt need fewer") from None
    except ValueError as problem:  # an integer of thousands of digits
        raise DocumentError(f"is not JSON that can be read: {problem}") from None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _DuplicateKey(f"has the key {twice!r} twice in one mapping; keep one")
    return result


class _DuplicateKey(DocumentError):
    """A key that occurs twice; Python's JSON reader gives no position."""


def _with_line(text: str, error: _DuplicateKey) -> DocumentError:
    """The same error with its line, from the YAML parser: most JSON is also YAML."""
    try:
        from_yaml(text)
    except _DuplicateKey as same:
        return same
    except DocumentError:
        pass
    return error


def _no_constant(name: str) -> NoReturn:
    raise DocumentError(f"holds {name}; every number must be finite")


def line_of(text: str, path: KeyPath) -> int | None:
    """Line of the value at ``path`` in YAML or JSON text, or of the nearest that contains it; None where unknown."""
    lines: dict[KeyPath, int] = {}
    try:
        from_yaml(text, lines)
    except DocumentError:  # JSON that is not YAML
        return None
    return next((lines[path[:i]] for i in range(len(path), -1, -1) if path[:i] in lines), None)


def to_yaml(data: Any) -> str:
    """YAML text of plain data, mappings in their order, the innermost ones on one line."""
    import yaml

    more: dict[str, Any] = {"sort_keys": False, "default_flow_style": None, "width": 120, "allow_unicode": True}
    return str(yaml.dump(data, Dumper=_dumper(), **more))


@lru_cache(maxsize=1)
def _dumper() -> Any:
    """Quotes what either YAML 1.1 (other readers) or 1.2 (this one) would take for a number, a date or a boolean."""
    import yaml

    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    dumper: Any = type("Dumper", (base,), {})
    for pattern in (NULL, BOOLEAN, INTEGER, FLOAT):
        dumper.add_implicit_resolver("!quoted", pattern, None)
    return dumper


def to_json(data: dict[str, Any]) -> str:
    """JSON text with one line for each key and for each item of a list."""
    rows = []
    for key, value in data.items():
        if isinstance(value, list) and value:
            items = ",\n  ".join(json.dumps(item, allow_nan=False, ensure_ascii=False) for item in value)
            rows.append(f"{json.dumps(key)}: [\n  {items}\n ]")
        else:
            rows.append(f"{json.dumps(key)}: {json.dumps(value, allow_nan=False, ensure_ascii=False)}")
    return "{\n " + ",\n ".join(rows) + "\n}\n"
