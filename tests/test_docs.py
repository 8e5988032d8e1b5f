"""Every example in the README and the documentation runs and prints what the page says."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
from pathlib import Path

import pytest

import hetopt
from hetopt.plugins import POLICIES
from hetopt.presentation.style import declared
from hetopt.proofs.ledger.claim import ClaimEvidence, ClaimVerdict, Effort
from hetopt.proofs.ledger.discovery import all_claims
from hetopt.proofs.ledger.ledger_output import counts
from hetopt.proofs.ledger.verification import DecidedClaim
from hetopt.proofs.properties import property_report
from hetopt.proofs.properties.property_matrix import plan_cells
from hetopt.proofs.verify_command import PER_CELL
from hetopt.registry import policy_names

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts)]
FILE = re.compile(r"^```yaml\n(# (\S+\.yaml)\n.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [p for p in PAGES if ">>>" in p.read_text()], ids=_id)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of a page share one namespace, as a reader would type them, in a folder with the files it shows.

    Such a file is a YAML block whose first line is its name: ``# lab.yaml``.
    """
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    for shown in FILE.finditer(text):
        Path(shown[2]).write_text(shown[1], encoding="utf-8")
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    names: dict[str, object] = {"__name__": "__main__"}
    output: list[str] = []
    for match in BLOCK.finditer(text):
        line = text[: match.start()].count("\n") + 1
        test = doctest.DocTestParser().get_doctest(match.group(1), names, _id(page), str(page), line)
        runner.run(test, out=output.append, clear_globs=False)
        names.update(test.globs)
    assert not runner.failures, "".join(output)
    assert runner.tries, "the page has examples"


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_code_that_is_shown_is_code_that_runs(page: Path) -> None:
    """A python block without prompts would not be tested; shell and file examples name their language."""
    for match in BLOCK.finditer(page.read_text()):
        assert ">>>" in match.group(1), f"{_id(page)}: write examples with >>> so that they are run"


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_links_between_pages_exist(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{_id(page)} links to {target}"


MAPPED = {"models": "hetopt.models", "proofs": "hetopt.proofs", "instances": "hetopt.instances"}
MODULES = sorted(
    ".".join([MAPPED.get(p.relative_to(ROOT).parts[0], "hetopt"), *p.relative_to(ROOT).with_suffix("").parts[1:]])
    for folder in ("hetopt", *MAPPED)
    for p in (ROOT / folder).rglob("*.py")
    if ">>>" in p.read_text()
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name.removesuffix(".__init__"))
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert result.attempted
    assert not result.failed


REFERENCE = "\n".join(p.read_text() for p in sorted((ROOT / "docs" / "reference").glob("*.md")))


def test_every_public_name_is_in_the_reference() -> None:
    """Under its own name, or as a member of a module that is documented whole."""
    listed = set(re.findall(r"auto(?:class|function|data):: (\S+)", REFERENCE))
    whole = set(re.findall(r"automodule:: (\S+)", REFERENCE))
    models = (
        importlib.import_module(f"hetopt.models.{name}")
        for name in ("asrpt", "fft", "gavel", "hadar", "hadare", "oef", "queues")
    )
    for package in (hetopt, *models):
        for name in package.__all__:
            value = getattr(package, name)
            home = getattr(value, "__module__", None)
            data = any(getattr(importlib.import_module(module), name, None) is value for module in whole)
            assert f"{package.__name__}.{name}" in listed or home in whole or data, f"{name} is not in docs/reference"


def test_every_model_is_in_the_reference() -> None:
    for name in policy_names():
        assert POLICIES.factory(name).__module__ in REFERENCE, f"{name} is not in docs/reference/models.md"


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/theory/index.md"])
def test_the_counts_of_claims_are_those_of_the_ledger(page: str) -> None:
    found = counts(DecidedClaim(claim, ClaimEvidence(claim.expected, "")) for claim in all_claims().values())
    printed, text = found["printed"], " ".join((ROOT / page).read_text().split())
    assert f"{printed.total()} claims that the" in text
    assert page == "README.md" or f"{found['further'].total()} further claims" in text
    if "theory" not in page:  # it has the table
        for verdict in (ClaimVerdict.FALSE, ClaimVerdict.TRUE):
            assert re.search(rf"{printed[verdict]} (are )?{verdict}", text)
        assert f"{printed[ClaimVerdict.UNTESTABLE]} cannot be decided" in text


def test_the_picture_of_the_readme_has_all_policies_and_the_colours_of_dark_screens() -> None:
    """Else: ``python docs/trade_off.py``."""
    text = (ROOT / "docs" / "static" / "trade-off.svg").read_text()
    names = " ".join(re.findall(">([^<]+)</text>", text))
    assert [name for name in policy_names() if name not in names] == []
    assert declared(1) in text.partition("prefers-color-scheme: dark")[2]


def test_the_property_matrix_has_all_policies_and_the_present_text() -> None:
    """Else: ``hetopt verify --policy all --markdown docs/theory/property-matrix.md``."""
    text = (ROOT / "docs" / "theory" / "property-matrix.md").read_text()
    with contextlib.redirect_stdout(io.StringIO()):
        tasks, refused = plan_cells(policy_names(), {})
    assert set(re.findall(r"^\| `(\S+)`, (\w+) \|", text, re.MULTILINE)) == {task[:2] for task in tasks}
    empty = property_report.markdown(refused, Effort(seconds=PER_CELL))
    assert [line for line in empty.splitlines() if line not in text] == []


def test_the_readme_lists_every_policy() -> None:
    text = (ROOT / "README.md").read_text()
    assert [name for name in policy_names() if f"`{name}`" not in text] == []
