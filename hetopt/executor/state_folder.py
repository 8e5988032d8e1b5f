"""Where the state of a cluster lies; apart from its database, since completion in shells does not import that."""

from __future__ import annotations

import os
from pathlib import Path

DATABASE = "state.db"


def default_folder() -> Path:
    """``$HETOPT_STATE``, else ``$XDG_STATE_HOME/hetopt``, else ``~/.local/state/hetopt``."""
    if own := os.environ.get("HETOPT_STATE"):
        return Path(own)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "hetopt"
