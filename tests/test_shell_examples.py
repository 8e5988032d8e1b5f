"""Every command that the README and the documentation show works as it stands there."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from hetopt import cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts)]
BLOCK = re.compile(r"^```(?:sh|bash|console|shell)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?hetopt .*$", re.MULTILINE)


def commands(page: Path) -> list[list[str]]:
    """The words of each line ``hetopt …``, without comments, in the order of the page."""
    lines = (line for block in BLOCK.findall(page.read_text()) for line in COMMAND.findall(block))
    return [shlex.split(line, comments=True)[("$" in line[:1]) :] for line in lines]


SHOWN = {page.relative_to(ROOT).as_posix(): commands(page) for page in PAGES}


@pytest.mark.parametrize("page", [page for page, shown in SHOWN.items() if shown])
def test_commands_run_in_an_empty_folder(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One after the other, as a reader would type them; a search for lies is cut short, which changes no exit code."""
    monkeypatch.chdir(tmp_path)
    for words in SHOWN[page]:
        short = ["--search", "1"] if words[1] == "audit" and "--search" not in words else []
        monkeypatch.setattr(sys, "argv", [*words, *short])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code, f"{page}: {' '.join(words)}: {capsys.readouterr().err}"
        capsys.readouterr()


def test_the_main_commands_are_shown() -> None:
    shown = {words[1] for page in SHOWN.values() for words in page}
    assert {"solve", "audit", "place", "export", "instances", "policies", "demo"} <= shown
    assert SHOWN["README.md"]
