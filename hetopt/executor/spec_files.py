"""YAML files of the executor, read by a spec; errors name file, line and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from hetopt.checks import shown
from hetopt.data.documents import DocumentError, from_json_or_yaml
from hetopt.data.standard_input import read_bytes
from hetopt.errors import HetoptError, InvalidOption, UnusableFile

Form = TypeVar("Form", bound=BaseModel)

MOST_BYTES = 1_000_000
"""A file of ours is never larger; a wrong path must not fill the memory."""


def read_spec(spec: type[Form], path: Path) -> Form:
    """The content of a YAML file.

    Raises
    ------
    UnusableFile
        It cannot be read.
    InvalidOption
        It is no such file.
    """
    try:
        content = read_bytes(path, MOST_BYTES)
        if len(content) > MOST_BYTES:
            raise InvalidOption(f"has more than {MOST_BYTES} bytes; such a file never has").in_file(str(path))
        text = content.decode()
    except OSError as problem:
        raise UnusableFile.of(problem, path, "read") from None
    except UnicodeDecodeError:
        raise InvalidOption("is not text in UTF-8").in_file(str(path)) from None
    try:
        return as_spec(spec, from_json_or_yaml(text))
    except DocumentError as error:
        cause = error.problem
        found = InvalidOption(cause.problem, cause.path) if isinstance(cause, HetoptError) else InvalidOption(cause)
        raise found.in_file(str(path), error.found_line(text)) from None


def as_spec(spec: type[Form], content: Any) -> Form:
    """Plain data as the spec.

    Raises
    ------
    DocumentError
        They are something else.
    """
    if not isinstance(content, dict):
        held = "nothing" if content is None else shown(content)
        raise DocumentError(f"holds {held}; it must be a mapping with the keys {', '.join(spec.model_fields)}")
    try:
        return spec.model_validate(content)
    except ValidationError as problem:
        from hetopt.data.instance_files import first_error  # needs all of an instance's classes: only when it is needed

        raise first_error(problem, "the file") from None
