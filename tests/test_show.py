"""``hetopt show`` and the pages' directive: programs by name, as text, LaTeX, Markdown and data."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from sphinx.application import Sphinx

from hetopt.errors import InvalidOption, UnknownName
from hetopt.formulations.formulation import Formulation
from hetopt.models import ceei, hadar
from hetopt.models.asrpt import AllReduce, MinimumAlpha, MinimumCut
from hetopt.models.fft import FFT
from hetopt.programs.mathematics import Mathematics, mathematics_of
from hetopt.registry import make_policy, make_program, policy_names, program_names

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))

from mathematics import component_table, program  # noqa: E402
from mathml import mathml  # noqa: E402

CLASS = r"^class (\w+)\(?.*\n(?:(?!^class ).*\n)*?    def mathematics\(self, kind: Kind\)"
Run = Callable[..., tuple[int, str, str]]
NAMES = {
    "hadar-p1": hadar.P1,
    "hadar-p2": hadar.P2,
    "hadar-offer": hadar.OFFER,
    "asrpt-minimum-alpha": MinimumAlpha().mathematics,
    "asrpt-minimum-cut": MinimumCut().mathematics,
    "exact-alpha": MinimumAlpha().mathematics,
    "exact-cut": MinimumCut().mathematics,
}
FORMULATIONS = {name: make_policy(name) for name in policy_names() if isinstance(make_policy(name), Formulation | FFT)}
OWN = """
from hetopt.models.hadar import P3
class Attribute: mathematics = P3
class Method:
    def __call__(self, instance, state=None): ...
    def mathematics(self): return P3
class Wrong: mathematics = 3
ready = Method()
def factory(size: int = 1): return Attribute()
def procedure(instance, state=None): ...
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module ``own`` in the current folder."""
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize("name", NAMES)
def test_every_announced_program_is_shown(run: Run, name: str) -> None:
    assert name in program_names()
    code, out, _ = run("show", name)
    assert (code, out) == (0, NAMES[name].text() + "\n")
    code, out, _ = run("show", name, "--latex")
    assert (code, out) == (0, NAMES[name].latex() + "\n")
    code, out, _ = run("show", name, "--json")
    data = json.loads(out)
    assert [row["formula"] for row in data["rows"]] == [row.formula for row in NAMES[name].rows]


def test_settings_choose_the_program(run: Run) -> None:
    assert "Σ_{t ∈ slots[j]} ends[j,t] = 1" in run("show", "hadar-p1", "--set", "admission=false")[1]
    assert make_program("asrpt-minimum-cut", {"allreduce": "tree"}) == MinimumCut(allreduce=AllReduce.TREE).mathematics


@pytest.mark.parametrize("name", FORMULATIONS)
def test_every_policy_that_is_a_formulation_is_shown(run: Run, name: str) -> None:
    assert name in program_names()
    made = mathematics_of(FORMULATIONS[name])
    assert made is not None
    assert run("show", name)[:2] == (0, made.text() + "\n")
    assert run("show", name, "--latex")[:2] == (0, made.latex() + "\n")
    assert mathml(made.latex())


def test_the_kind_can_be_chosen_where_there_is_a_choice(run: Run) -> None:
    assert run("show", "ceei", "--kind", "jobs")[1] == ceei.equal_budgets().mathematics("jobs").text() + "\n"
    assert "≤ 1.5" not in run("show", "gavel-max-min", "--set", "tenant_gpus=1.5", "--kind", "jobs")[1]
    assert "Σ_k x[e,k] ≤ 1.5" in run("show", "gavel-max-min", "--set", "tenant_gpus=1.5", "--kind", "tenants")[1]
    for words, part in {
        ("oef-cooperative", "--kind", "jobs"): "OEF cooperative is for tenants, not jobs",
        ("hadar-p1", "--kind", "jobs"): "'hadar-p1' is no formulation and has no kind to choose; leave out jobs",
        ("ceei", "--kind", "users"): "kind is 'users'; it must be 'tenants' or 'jobs'",
    }.items():
        assert run("show", *words) == (2, "", f"hetopt: {part}\n")


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("name", ["Attribute", "Method", "ready", "factory", "P3"])
def test_whatever_has_a_program_is_shown_by_module_and_name(run: Run, name: str) -> None:
    assert run("show", f"own:{name}")[:2] == (0, hadar.P3.text() + "\n")


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("name", ["fifo", "heavy-edge", "own:Wrong", "own:procedure", "hetopt.models.asrpt:HeavyEdge"])
def test_a_procedure_has_none_and_those_that_have_are_named(run: Run, name: str) -> None:
    code, out, err = run("show", name)
    assert (code, out) == (2, "")
    assert err == (f"hetopt: {name!r} states no program; these do: {', '.join(program_names())}\n")


def test_wrong_names_and_options_are_one_line(run: Run) -> None:
    for words, part in {
        ("hadar-p4",): "there is no program 'hadar-p4'; did you mean 'hadar-p",
        ("hadar-p1", "--set", "size=1"): "program 'hadar-p1' has no setting 'size'; known: admission",
        ("hetopt.models.hadar:P3", "--set", "size=1"): "'hetopt.models.hadar:P3' has no settings; leave out size",
        ("hadar-p1", "--latex", "--json"): "leave out one of them",
        ("nowhere:P3",): "program 'nowhere:P3' cannot be loaded",
    }.items():
        code, _, err = run("show", *words)
        assert code == 2
        assert part in err
        assert err.count("\n") == 1
    with pytest.raises(UnknownName):
        make_program("P3")
    with pytest.raises(InvalidOption):
        make_program("fifo")


def test_mathematics_of_things() -> None:
    assert mathematics_of(hadar.P1) is mathematics_of(hadar.TimeIndexed()) is hadar.P1
    assert mathematics_of(hadar.TimeIndexed) is mathematics_of(3) is mathematics_of(None) is None


def test_pages_name_programs() -> None:
    assert program("hetopt.models.hadar:P1") is hadar.P1
    assert program(" hetopt.models.asrpt:MinimumAlpha() ") is MinimumAlpha().mathematics
    for name, part in {
        "hetopt.models.hadar.P1": "must have the form module:name",
        "hetopt.models.hadar:P1(2)": "must have the form module:name",
        "hetopt.models.hadar:P9": "there is no program 'hetopt.models.hadar:P9'",
        "hetopt.nothing:P1": "there is no program 'hetopt.nothing:P1'",
        "hetopt.models.asrpt:MinimumAlpha": "has no mathematics",
    }.items():
        with pytest.raises(ValueError, match=re.escape(part)):
            program(name)


def test_a_table_of_components_has_their_formulas_sources_and_symbols() -> None:
    made = component_table("jobs", ["hetopt.models.objectives:SwitchingCost(0.5)", "hetopt.models.fft:AgeCost()"])
    for part in (
        "* - `SwitchingCost`\n  - gain $-0.5 \\, ",
        "row $\\text{gained}_{ek} \\ge d_{e} \\, x_{ek} - h_{ek} \\quad \\forall e \\in E,\\ k \\in K$",
        "  - FFT, eq. (3), first term: age times",
        "| $h_{ek}$ | GPUs of type k that e holds now | GPUs |",
    ):
        assert part in made
    for name, part in {
        "hetopt.models.fft:AgeCost": "must have the form module:Name(arguments)",
        "hetopt.models.baselines:EqualSplit()": "has no mathematics",
    }.items():
        with pytest.raises(ValueError, match=re.escape(part)):
            component_table("jobs", [name])


def test_the_parts_page_has_every_component_of_the_library() -> None:
    page = (DOCS / "models" / "parts.md").read_text()
    models = Path(ceei.__file__).parent
    stated = [name for file in models.rglob("*.py") for name in re.findall(CLASS, file.read_text(), re.MULTILINE)]
    assert len(stated) >= 20
    for name in stated:
        assert re.search(rf"^hetopt\.[\w.]+:{name}\(", page, re.MULTILINE), name


SHOWN = [
    program(name)
    for page in sorted((DOCS / "models").glob("*.md"))
    for name in re.findall(r"^```\{mathematics\} (.+)$", page.read_text(), re.MULTILINE)
]


@pytest.mark.parametrize("made", [*SHOWN, *NAMES.values(), hadar.P3], ids=lambda made: made.title)
def test_every_formula_of_a_program_is_translated_for_the_pages(made: Mathematics) -> None:
    page = made.markdown()
    formulas = re.findall(r"\$\$(.+?)\$\$|\$(.+?)\$", page, re.DOTALL)
    assert len(formulas) == len(made.statements) + len(made.legend)
    for block, line in formulas:
        assert mathml(block or line, block=bool(block)).startswith("<math")
    assert mathml(made.latex())
    for row in (*made.gains, *made.rows):
        assert f"`{row.name}`{' ' * bool(row.cited)}{row.cited}: {row.meaning}" in page


def test_a_page_is_built(tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_text(
        "extensions = ['myst_parser', 'mathml', 'mathematics']\n"
        "html_math_renderer = 'mathml'\nmyst_enable_extensions = ['dollarmath']\n"
    )
    (tmp_path / "index.md").write_text("# Prices\n\n```{mathematics} hetopt.models.hadar:P3\n```\n\nThat is all.\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other packages
        app = Sphinx(tmp_path, tmp_path, tmp_path / "out", tmp_path / "trees", "html", status=None, warningiserror=True)
        app.build()
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.count('<math display="block"') == len(hadar.P3.statements)
    assert page.count('<math display="inline"') == len(hadar.P3.legend) == page.count("<tr") - 1
    assert re.search(r"pays</span></code> \[Hadar, eq\. \(3a\)\]: no schedule pays more", page)
    assert page.index("no schedule pays more") < page.index("That is all")


def test_pages_show_programs() -> None:
    assert {made.title for made in SHOWN} >= {made.title for made in NAMES.values()}
