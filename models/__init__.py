"""Formulations and policies: one file or folder per paper or baseline, and the components that they share."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

if __name__ != "hetopt.models":
    raise ImportError(f"import this package as hetopt.models, not as {__name__}")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> ModuleType:
        """Import a submodule on first access, e.g. ``hetopt.models.oef``."""
        if name.startswith("_") or find_spec(f"hetopt.models.{name}") is None:
            raise AttributeError(f"module 'hetopt.models' has no attribute {name!r}")
        return import_module(f"hetopt.models.{name}")
