"""Results that show themselves: tables in notebooks, and pictures."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Displayed:
    """A result with a view in :mod:`hetopt.presentation.notebook`."""

    def _repr_html_(self) -> str:
        return str(_notebook().html(self))

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw it as a figure that notebooks show; its ``savefig`` writes it, too.

        Parameters
        ----------
        path:
            File to write (.png, .svg, .pdf), replacing one there; None: no file.

        Raises
        ------
        InvalidOption
            The ending of ``path`` is none of these, or its folder does not exist.
        UnusableFile
            The file cannot be written.
        """
        figure: Figure = _notebook().plot(self, path)
        return figure


def _notebook() -> Any:
    """The presentation, found by name when something is shown: results depend neither on it nor on Matplotlib."""
    return import_module("hetopt.presentation.notebook")
