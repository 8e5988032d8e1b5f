"""The rules of the house that a machine can check (docs/contributing/architecture.md)."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
PACKAGES = {"hetopt": "hetopt", "models": "hetopt.models", "proofs": "hetopt.proofs", "instances": "hetopt.instances"}
ALLOWED = {  # which package may import which; every package may import the core
    "hetopt": set(),
    "models": {"hetopt.models"},
    "proofs": {"hetopt.proofs", "hetopt.models", "hetopt.instances"},
    "instances": {"hetopt.instances"},
}
FILES = sorted(p for folder in PACKAGES for p in (ROOT / folder).rglob("*.py"))


@cache
def _imported(path: Path) -> frozenset[str]:
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
    return frozenset(found)


def _id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_imports_go_one_way() -> None:
    """Only core <- models <- proofs, core <- instances: the core knows no paper."""
    others = set(PACKAGES.values()) - {"hetopt"}
    assert not [
        f"{_id(path)} imports {name}"
        for path in FILES
        for name in _imported(path)
        for package in others - ALLOWED[path.relative_to(ROOT).parts[0]]
        if name == package or name.startswith(f"{package}.")
    ]


def _module(path: Path) -> str:
    folder, *rest = path.relative_to(ROOT).with_suffix("").parts
    return ".".join([PACKAGES[folder], *rest]).removesuffix(".__init__")


def test_imports_have_no_circle() -> None:
    """Not even by imports inside of functions or for type checkers."""
    modules = {_module(path): path for path in FILES}
    graph = {}
    for name, path in modules.items():
        found = _imported(path) & set(modules)
        graph[name] = {other for other in found if not any(more.startswith(f"{other}.") for more in found)} - {name}
    TopologicalSorter(graph).prepare()  # raises CycleError, which lists the modules


LAYERS = [
    "errors", "tolerances", "versions", "checks", "display", "plugins", "dask_workers", "parallel", "data", "programs",
    "solving", "results", "stages", "formulations", "checking", "auditing", "decisions", "simulation", "metrics",
    "prediction", "traces", "registry", "experiments", "presentation", "cli", "executor",
]  # fmt: skip
"""Packages and loose modules of the core, each of which imports only those before it."""


def test_packages_import_only_those_below() -> None:
    wrong = []
    for path in (p for p in FILES if p.is_relative_to(ROOT / "hetopt")):
        own = path.relative_to(ROOT / "hetopt").with_suffix("").parts[0]
        above = LAYERS[LAYERS.index(own) + 1 :] if own in LAYERS else []  # not __init__ and __main__
        forbidden = tuple(f"hetopt.{package}" for package in above)
        wrong += [
            f"{_id(path)} imports {name}" for name in _imported(path) if ".".join(name.split(".")[:2]) in forbidden
        ]
    assert not wrong


def test_layers_are_all_packages() -> None:
    found = {p.stem for p in (ROOT / "hetopt").iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert found - {"__init__", "__main__"} == set(LAYERS)


def test_no_module_has_the_name_of_a_function_of_its_package() -> None:
    """Otherwise ``package.name`` would be the function or the module, depending on what was imported first."""
    wrong = []
    for path in (p for p in FILES if p.name == "__init__.py"):
        package = importlib.import_module(_module(path))
        modules = {p.stem for p in path.parent.glob("*.py")} | {p.name for p in path.parent.iterdir() if p.is_dir()}
        names = modules & set(getattr(package, "__all__", ()))
        wrong += [f"{package.__name__}.{name}" for name in names if not isinstance(getattr(package, name), ModuleType)]
    assert not wrong


def test_tolerances_live_in_one_file() -> None:
    """Numbers that decide "equal" stand in tolerances.py with their reason; 1e-300 only guards a division by zero."""
    files = {*FILES, *(ROOT / "tests").glob("*.py"), *(ROOT / "benchmarks").glob("*.py")}
    assert not [
        f"{_id(path)}: {node.value}"
        for path in files
        if path.name not in ("tolerances.py", "test_architecture.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, float) and 1e-300 < abs(node.value) < 1e-3
    ]


EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
OPTIONAL = {re.split(r"[\W]", wanted)[0] for extra in ("torch", "gurobi") for wanted in EXTRAS[extra]}


def _public() -> Iterator[tuple[str, object]]:
    for path in FILES:
        name = _module(path)
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as problem:
            if problem.name not in OPTIONAL:  # of an extra of pyproject.toml, which need not be here
                raise
            continue
        for key, value in vars(module).items():
            if not key.startswith("_") and getattr(value, "__module__", None) == name and callable(value):
                yield f"{name}.{key}", value


def test_everything_public_has_a_docstring() -> None:
    """Functions, classes and their own public methods."""
    missing = []
    for name, value in _public():
        if (inspect.isclass(value) or inspect.isfunction(value)) and not inspect.getdoc(value):
            missing.append(name)
        if inspect.isclass(value):
            own = {k: v for k, v in vars(value).items() if not k.startswith("_") and inspect.isfunction(v)}
            missing += [f"{name}.{k}" for k, v in own.items() if not inspect.getdoc(v)]
    assert not missing


REFERENCE = re.compile(r":(?:func|class|meth|mod|data|attr|exc):`~?(hetopt[\w.]*)`")


def test_what_docstrings_refer_to_is_there() -> None:
    """Every role with a full name, such as :func:`~hetopt.formulations.policies.solve`, names something that exists."""
    found = [(path, name) for path in FILES for name in REFERENCE.findall(path.read_text())]
    assert len(found) > 100, "the pattern finds references"
    assert not [f"{_id(path)} refers to {name}" for path, name in found if not _exists(name)]


def _exists(name: str) -> bool:
    owner, _, last = name.rpartition(".")
    for given in (name, owner):
        try:
            found = pkgutil.resolve_name(given)
        except (AttributeError, ImportError):
            continue
        return given == name or last in getattr(found, "__dataclass_fields__", {})
    return False


def test_every_paper_that_is_cited_is_in_the_bibliography() -> None:
    """Docstrings cite as [OEF, eq. 10]; the key must stand in docs/refs.bib."""
    keys = set(re.findall(r"@\w+\{(\w+)", (ROOT / "docs" / "refs.bib").read_text()))
    cited = {
        k
        for p in FILES
        for k in re.findall(r"\[([A-Z][\w-]+), (?:eq|section|Fig|Table|Theorem|Thm|Lemma|Algorithm)", p.read_text())
    }
    assert cited, "the pattern finds citations"
    assert {c.replace("-", "") for c in cited} <= {k.replace("-", "") for k in keys}
