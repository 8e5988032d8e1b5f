"""The systemd unit of the documentation: the controller is restarted without end, and its jobs survive that."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "run-a-lab.md"


def unit() -> str:
    """The unit file."""
    (found,) = re.findall(r"```\{code-block\} ini\n:caption: \S+\.service\n\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(found)


def test_the_unit_restarts_without_end_and_kills_no_job() -> None:
    parser = ConfigParser()
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # keys of systemd have capitals
    parser.read_string(unit())
    service = parser["Service"]
    assert parser["Unit"]["StartLimitIntervalSec"] == "0"
    assert (service["Restart"], service["KillMode"]) == ("always", "process")
    assert int(service["RestartSec"]) > 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    path = tmp_path / "hetopt.service"
    program = Path(sys.executable).with_name("hetopt")
    path.write_text(unit().replace("%h/.local/bin/hetopt", str(program)))
    done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    path.write_text(path.read_text().replace("Restart=", "Restarts="))
    assert "Unknown key" in subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True).stderr
