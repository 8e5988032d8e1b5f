"""Names of hetopt are found when they are used; a job's side of a lease costs nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hetopt

SOURCE = Path(hetopt.__file__).read_text(encoding="utf-8")


def test_names_for_type_checkers_are_those_that_are_found() -> None:
    tree = ast.parse(SOURCE)
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.asname: f"{node.module}.{alias.name}"  # a type checker exports what is imported "as" itself
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == {name: f"{module}.{name}" for name, module in hetopt._MODULE.items()}


@pytest.mark.parametrize("name", hetopt.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(hetopt, name) is not None
    assert name in dir(hetopt)


def test_a_module_is_found_and_nonsense_is_not() -> None:
    assert hetopt.errors.HetoptError is hetopt.HetoptError
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        hetopt.nonsense  # noqa: B018


@pytest.mark.parametrize("module", ["hetopt.executor", "hetopt.executor.runner"])
def test_the_side_of_the_job_needs_the_standard_library_alone(module: str) -> None:
    """So that it works in any environment, and starts at once."""
    code = f"import sys, {module}; print(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    roots = {name.partition(".")[0] for name in printed.split()} - set(sys.stdlib_module_names)
    # What begins with an underscore, or customises the site, is loaded by Python's own start, not by hetopt.
    assert {name for name in roots if not name.startswith("_")} - {"sitecustomize", "hetopt"} == set()
