"""The systemd units of the documentation: the controller is restarted without end, and its jobs survive that."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster, missing

PAGES = Path(__file__).parent.parent / "docs" / "how-to"


def shown(page: str, caption: str) -> str:
    """The content of a file on a page."""
    text = (PAGES / f"{page}.md").read_text()
    (found,) = re.findall(rf"```\{{code-block\}} \w+\n:caption: {caption}\n\n(.*?)```", text, re.DOTALL)
    return str(found)


def unit(page: str) -> str:
    """The unit file."""
    return shown(page, r"\S+\.service")


def test_the_units_restart_without_end_and_kill_no_job() -> None:
    for page in ("run-a-lab", "run-on-slurm"):
        parser = ConfigParser(interpolation=None, strict=False)
        parser.optionxform = str  # type: ignore[assignment, method-assign]  # keys of systemd have capitals
        parser.read_string(unit(page))
        service = parser["Service"]
        assert parser["Unit"]["StartLimitIntervalSec"] == "0"
        assert service["Restart"] == "always"
        assert service.get("KillMode", "control-group") == ("process" if page == "run-a-lab" else "control-group")
        assert int(service["RestartSec"]) > 0


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_the_unit_for_slurm_runs_the_job_of_its_page(tmp_path: Path) -> None:
    """With the variables that systemd gives to a service, and those of the unit; the home is another folder."""
    (tmp_path / "venv").symlink_to(Path(sys.executable).parents[1])
    (tmp_path / "train.yaml").write_text(shown("run-on-slurm", "train.yaml"))
    lines = [line.partition("=")[::2] for line in unit("run-on-slurm").replace("%h", str(tmp_path)).splitlines()]
    own = [value.partition("=")[::2] for key, value in lines if key == "Environment"]
    (start,) = [value.replace("/shared", str(tmp_path)).split() for key, value in lines if key == "ExecStart"]
    with SlurmCluster({"any": ("v100", 2)}) as cluster:
        environment = cluster.environment | {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"} | dict(own)

        def run(*words: str) -> str:
            done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            return done.stdout

        run(start[0], "submit", "train.yaml")
        run(*start, "--until-idle")
        (job,) = json.loads(run(start[0], "status", "--all", "--json"))["jobs"]
    assert (job["state"], job["reason"]) == ("done", None)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("page", ["run-a-lab", "run-on-slurm"])
def test_systemd_finds_nothing_wrong_with_the_unit(page: str, tmp_path: Path) -> None:
    path = tmp_path / "hetopt.service"
    program = Path(sys.executable).with_name("hetopt")
    path.write_text(re.sub(r"%h/\S+/hetopt(?= run)", str(program), unit(page)))
    done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    path.write_text(path.read_text().replace("Restart=", "Restarts="))
    assert "Unknown key" in subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True).stderr
