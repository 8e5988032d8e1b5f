"""Every command that the README and the documentation show works as it stands there."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster, missing

from hetopt.cli import main as command_line

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts)]
BLOCK = re.compile(r"^```(?:sh|bash|console|shell)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^```{code-block} \w+\n:caption: ([\w-]+\.\w+)\n\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?hetopt .*$", re.MULTILINE)


def commands(page: Path) -> list[list[str]]:
    """The words of each line ``hetopt …``, without comments, in the order of the page."""
    lines = (line for block in BLOCK.findall(page.read_text()) for line in COMMAND.findall(block))
    return [shlex.split(line, comments=True)[("$" in line[:1]) :] for line in lines]


def sooner(words: list[str]) -> list[str]:
    """The same command on less: a short search, some claims, a list of points; that changes no exit code."""
    if words[1] == "audit" and "--search" not in words:
        return [*words, "--search", "1"]
    if "--map" in words or words[1:3] == [
        "reproduce",
        "hadar",
    ]:  # test_claim_maps.py runs a small one, and ..._hadar.py
        return [*words, "--list"]
    if words[1] != "verify":
        return words
    if "--kernel" in words:  # Coq takes long, and test_cli_verify.py has it
        return ["--list" if word == "--kernel" else word for word in words]
    whole = "--policy" not in words and not any("/" in word for word in words)
    few = [*words, "--instances", "3", "--seconds", "0", *(["oef/lemma-3.1-ratio"] if whole else [])]
    return ["ceei" if word == "all" else word for word in few]


@pytest.fixture
def slurm() -> Iterator[SlurmCluster]:
    """A cluster, for pages that need one."""
    if why := missing():
        pytest.skip(why)
    with SlurmCluster() as cluster:
        yield cluster


SHOWN = {page.relative_to(ROOT).as_posix(): commands(page) for page in PAGES}


@pytest.mark.parametrize("page", [page for page, shown in SHOWN.items() if shown])
def test_commands_run_in_an_empty_folder(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    """One after the other, as a reader would type them, beside the files that the page shows with their names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HETOPT_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")  # as in an active environment
    if any("slurm" in words for words in SHOWN[page]):
        monkeypatch.setenv("SLURM_CONF", str(request.getfixturevalue("slurm").configuration))
    for name, text in FILE.findall((ROOT / page).read_text()):
        (tmp_path / name).write_text(text)
    for words in SHOWN[page]:
        if words[1] == "demo":
            continue  # it takes long, and test_cli.py and test_cli_output.py have it
        monkeypatch.setattr(sys, "argv", sooner(words))
        with pytest.raises(SystemExit) as end:
            command_line.main()
        assert not end.value.code, f"{page}: {' '.join(words)}: {capsys.readouterr().err}"
        capsys.readouterr()


def test_the_first_commands_of_the_readme_need_no_active_environment() -> None:
    """Before *Install* there is only what ``make`` made."""
    before = (ROOT / "README.md").read_text().partition("## Install")[0]
    found = [line for block in BLOCK.findall(before) for line in COMMAND.findall(block)]
    assert found
    assert all(line.startswith(".venv/bin/hetopt ") for line in found)


def test_the_main_commands_are_shown() -> None:
    shown = {words[1] for page in SHOWN.values() for words in page}
    assert {"solve", "audit", "place", "export", "instances", "policies", "demo"} <= shown
    assert SHOWN["README.md"]
