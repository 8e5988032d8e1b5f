"""Words that docs/contributing/glossary.md retires occur nowhere: names, comments, docstrings, messages, docs."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GLOSSARY = "docs/contributing/glossary.md"

TEXT = {".py", ".md", ".yaml", ".toml", ".txt", ".html", ".j2", ".css", ".js", ".cff", ""}
"""Suffixes of the files that are read."""

EXEMPT = (GLOSSARY, "CHANGELOG.md", "tests/test_language.py", "LICENSE", "constraints.txt")

INTERFACE = (
    "fft/eq-3-nobody",
    '"said"',
    "\n      said:\n",
    '"world"',
    "world.restart_seconds",
    "world.spread",
    "(world was",
    "WORLD_SIZE",
    "world_size",
    "file.tell()",
)
"""Names in commands and files that may not change, and messages that name them.

``WORLD_SIZE`` and ``world_size`` are those of PyTorch and MPI launchers, ``file.tell()`` is Python's.
"""


def retired() -> list[str]:
    """The phrases in code font in the left column of the glossary's first table."""
    rows = re.findall(r"^\| (.+?) \|", (ROOT / GLOSSARY).read_text("utf8").split("\n## ")[1], re.MULTILINE)
    return [phrase for row in rows for phrase in re.findall(r"`(.+?)`", row)]


def pattern(phrases: list[str]) -> re.Pattern[str]:
    """Any of the phrases as whole words, in any case, also across the lines of a comment."""
    choices = "|".join(phrase.replace(" ", r"[\s#]+") for phrase in phrases)
    return re.compile(rf"\b(?:{choices})\b", re.IGNORECASE)


def words(text: str) -> str:
    """The text with the words of its identifiers apart: ``test_nobody_waits``, ``NobodyWaits``."""
    for name in INTERFACE:
        text = text.replace(name, "")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).replace("_", " ")


def files() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("the list of files needs git and a working tree")
    return [f for f in listed.stdout.split() if Path(f).suffix in TEXT and not f.startswith(EXEMPT)]


def test_retired_words_do_not_occur() -> None:
    search, found = pattern(retired()), []
    for file in files():
        lines = (ROOT / file).read_text("utf8").splitlines()
        text = words("\n".join([file, *lines]))
        found += [f"{file}:{text.count(chr(10), 0, hit.start())}: {hit[0]}" for hit in search.finditer(text)]
    assert not found, f"{len(found)} retired words, see {GLOSSARY}:\n" + "\n".join(found)


@pytest.mark.parametrize("text", ["def test_Nobody_waits", "class NobodyWaits", "# those\n    # who", "made of"])
def test_retired_words_are_found_in_names_and_across_lines(text: str) -> None:
    assert pattern(retired()).search(words(text))


@pytest.mark.parametrize("text", ["restoring", "retold", "wishbone"])
def test_other_words_are_not(text: str) -> None:
    assert not pattern(retired()).search(words(text))
