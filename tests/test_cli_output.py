"""The command line with odd names, encodings, terminals and places: nothing is lost, no traceback."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

import hetopt
from hetopt.cli import main as command_line
from hetopt.data.instance import read
from hetopt.data.instance_files import write
from hetopt.plugins import COMMANDS, MAPPERS, POLICIES, PREDICTORS, SYSTEMS
from hetopt.presentation import allocation_pictures as pictures
from hetopt.presentation import terminal, terminal_tables
from hetopt.presentation.tables import Cell, Column, Mark, Table
from hetopt.registry import policy_names

Run = Callable[..., tuple[int, str, str]]
HETOPT = [sys.executable, "-c", "from hetopt.cli.main import main; main()"]


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Names that look like markup, hold letters beyond ASCII, and are long."""
    speed = {"T4": 1.0, "V[100]": 2.0}
    kinds = (hetopt.JobType("llm", speed), hetopt.JobType("small", {**speed, "V[100]": 3.0}))
    long = '[red]O\'Brien & "Sons" :smile: Zoë and company'
    tenants = (hetopt.Tenant("team [/a]", speed), hetopt.Tenant(long, kinds))  # type: ignore[arg-type]
    write(hetopt.Instance(hetopt.Cluster.of({"T4": 4, "V[100]": 4}), tenants), tmp_path / "odd.yaml")
    return tmp_path / "odd.yaml"


@pytest.mark.parametrize("command", ["solve", "audit"])
def test_names_are_printed_as_they_are(run: Run, odd: Path, command: str) -> None:
    words = ["--search", "0"] if command == "audit" else []
    code, out, _ = run(command, odd, "-p", "efficiency-only", *words)
    assert code == 0
    assert "team [/a]" in out
    assert "V[100]" in out
    if command == "solve":
        assert '[red]O\'Brien & "Sons" :smile: Zoë and company/small' in out


def test_paths_are_printed_as_they_are(run: Run, odd: Path) -> None:
    path = odd.with_name("a [bold]b[c] :smile:.svg")
    code, out, _ = run("solve", odd, "-p", "ceei", "--plot", path)
    assert code == 0
    assert f"picture: {path}" in out


WORDS = st.text(st.sampled_from("ab1.,-_/[]机é"), min_size=1, max_size=30)
SENTENCES = st.lists(WORDS, min_size=2, max_size=8).map(" ".join)
NUMBERS = st.floats(allow_nan=False).map(lambda value: f"{value:.4g}")


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Names, then columns of numbers, words and sentences, some with units and notes."""
    kinds = draw(st.lists(st.sampled_from([NUMBERS, WORDS, SENTENCES]), max_size=9))
    columns = [Column("name", text=True)]
    columns += [
        Column(draw(WORDS), draw(st.sampled_from(["", "GPUs of speedup 1"])), text=k is not NUMBERS) for k in kinds
    ]
    marks = st.sampled_from([None, *Mark])
    rows = [
        (
            Cell(draw(WORDS)),
            *(Cell(draw(kind), mark=draw(marks), notes=draw(st.sampled_from([(), ("± 0.1",)]))) for kind in kinds),
        )
        for _ in range(draw(st.integers(0, 4)))
    ]
    return Table(tuple(columns), tuple(rows))


@given(tables(), st.integers(40, 200))
def test_words_and_numbers_stay_whole_at_any_width(table: Table, width: int) -> None:
    """Numbers, and words between separators, are in the output in one piece; lines are too long only for them."""
    lines = shown(table, width)
    pieces = [(cell.text, column) for row in table.rows for cell, column in zip(row, table.columns, strict=True)]
    for text, column in pieces:
        words = re.split(terminal_tables.SEPARATORS, text) if column.text else [text]
        assert all(any(word.strip() in line for line in lines) for word in words)
    names = max(map(cell_len, ["name", *(row[0].text for row in table.rows)]))
    longest = max(cell_len(word) for text, _ in [("", 0), *pieces] for word in text.split(" "))
    heads = max(cell_len(c.name) for c in table.columns)
    allowed = max(width, names + 2 + max(longest + 2, heads, 10), len("  * best in its column"))
    assert max(map(cell_len, lines), default=0) <= allowed
    for row in table.rows:
        assert any(line.startswith(re.split(terminal_tables.SEPARATORS, row[0].text)[0]) for line in lines)


def shown(table: Table, width: int) -> list[str]:
    """The lines of a table on a terminal of this width."""
    out = io.StringIO()
    narrow = Console(file=out, width=width, markup=False, emoji=False, highlight=False)
    with mock.patch("hetopt.presentation.terminal.OUT", narrow):
        terminal_tables.show(table)
    return out.getvalue().splitlines()


@pytest.mark.parametrize(("width", "blocks"), [(40, 3), (60, 2), (80, 2), (100, 1), (160, 1)])
def test_long_names_are_wrapped_at_separators_if_more_columns_fit(width: int, blocks: int) -> None:
    name, numbers = "my_lab.policies:LongestFirst[share=0.25,round=360]", [f"{i}.2345" for i in range(7)]
    meanings = [f"meaning of column {i}, in a sentence that is wider than most of the terminals" for i in range(7)]
    columns = (Column("policy", text=True), *(Column(f"m{i}", "s", text) for i, text in enumerate(meanings)))
    lines = shown(Table(columns, ((Cell(name), *map(Cell, numbers)),), title="t " * 60), width)
    assert max(map(cell_len, lines)) <= width
    rules = [i for i, line in enumerate(lines) if line.startswith("─")]
    assert len(rules) == blocks
    names = [[line.split("  ")[0] for line in lines[rule + 1 : lines.index("", rule)]] for rule in rules]
    assert all("".join(parts) == name for parts in names)
    assert (max(map(len, names)) == 1) == (width == 160)
    text = " ".join(" ".join(lines).split())
    assert all(f" {number} " in text for number in numbers)
    assert all(f": {meaning} (s)" in text for meaning in meanings)


@pytest.mark.parametrize("width", [40, 60, 100])
def test_long_words_of_other_columns_are_wrapped_where_they_would_not_fit(width: int) -> None:
    columns = Column("job", text=True), Column("tenant", text=True), Column("state", text=True)
    tenant = "vision-research-and-development-group-of-the-lab"
    printed = shown(Table(columns, (tuple(map(Cell, ("train-1", tenant, "waits for t4-0: 3"))),)), width)
    assert max(map(cell_len, printed)) <= width
    assert any(tenant in line for line in printed) == (width == 100)
    assert re.search("-.*".join(tenant.split("-")), " ".join(printed))
    assert any("t4-0: 3" in line for line in printed), "no blank in a pair is a place to wrap"


@pytest.mark.parametrize(("columns", "width"), [("50", 50), ("", 160)])
def test_output_to_a_pipe_has_the_width_of_the_variable(columns: str, width: int) -> None:
    words = ["audit", "oef/eq6", "-p", "ceei", "--search", "0"]
    done = subprocess.run([*HETOPT, *words], env={**os.environ, "COLUMNS": columns}, capture_output=True, check=True)
    lines = done.stdout.decode().splitlines()
    assert width * 0.8 < max(map(cell_len, lines)) <= width


def test_narrow_terminals_show_all_of_a_result(run: Run, odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = Console(width=60, markup=False, emoji=False, highlight=False)
    monkeypatch.setattr("hetopt.presentation.terminal.OUT", narrow)
    _, out, _ = run("solve", odd, "-p", "ceei")
    rows = [line for line in out.splitlines() if "company/" in line]
    assert all(cell_len(line) <= 80 for line in rows), "names of 55 letters, and one column"
    assert {line.split("/")[1].split()[0] for line in rows} == {"llm", "small"}


def test_an_audit_fits_a_pipe_and_explains_itself(run: Run, odd: Path) -> None:
    _, out, _ = run("audit", odd, "-p", "ceei", "--search", "0")
    assert max(map(len, out[: out.index("  slack")].splitlines())) <= terminal.TEXT_WIDTH
    for word in ("even split", "free reuse", "adjacent_types", "strategy_proof"):
        assert f"  {word}: " in out
    assert "-0 " not in out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_streams_that_cannot_show_a_letter_get_another(
    odd: Path, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also hetopt's own letters: the list of instances has an ellipsis, tables have lines."""
    for words in (["instances"], ["solve", str(odd), "-p", "ceei"], ["solve", "nöwhere✗.yaml", "-p", "ceei"]):
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        monkeypatch.setattr(sys, "argv", ["hetopt", *words])
        with pytest.raises(SystemExit):
            command_line.main()
        for stream in (out, err):
            stream.flush()
        assert bool(out.buffer.getvalue()) != bool(err.buffer.getvalue())  # type: ignore[attr-defined]


def test_a_real_terminal_without_unicode(odd: Path) -> None:
    env = {**os.environ, "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    done = subprocess.run([*HETOPT, "solve", str(odd), "-p", "ceei"], env=env, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Zo? and company/llm" in done.stdout


def test_what_hetopt_writes_itself_stays_readable() -> None:
    assert "∞ …".encode("ascii", "hetopt.readable") == b"inf ..."
    assert "Zoë".encode("ascii", "hetopt.readable") == b"Zo?"


def test_the_version(run: Run) -> None:
    assert run("--version")[:2] == (0, f"hetopt {hetopt.__version__}\n")


# Places: unusable targets are refused before any work, and existing files are kept


def never(*_: object, **__: object) -> None:
    raise AssertionError("solved before the place was checked")


PLACES = [
    (["solve", "oef/eq6", "-p", "ceei", "--plot", "/proc/a.png"], "/proc/a.png: cannot be written"),
    (["solve", "oef/eq6", "-p", "ceei", "--plot", "folder.png"], "folder.png: cannot be written: it is a folder"),
    (["demo", "--out", "afile"], "afile: cannot be used as a folder: it is a file"),
    (["demo", "--out", "/proc/demo"], "/proc/demo: cannot be used as a folder"),
    (["export", "oef/eq6", "-p", "ceei", "--out", "there.lp"], "there.lp: exists already; use"),
    (["export", "oef/eq6", "-p", "ceei", "--out", "no/such.lp"], "no/such.lp: cannot be written: No such file"),
    (["instances", "oef/eq6", "--out", "there.yaml"], "there.yaml: exists already; use overwrite=True (--overwrite"),
]


@pytest.mark.parametrize(("words", "message"), PLACES)
def test_places_are_checked_before_solving(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.png").mkdir()
    for name in ("afile", "there.lp", "there.yaml"):
        (tmp_path / name).write_text("precious")
    for name in (
        "hetopt.experiments.comparison.solve",  # first, as it is that of the next one when it is imported
        "hetopt.formulations.policies.solve",
        "hetopt.formulations.exporting.stated_program",
    ):
        monkeypatch.setattr(name, never)
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert {p.read_text() for p in tmp_path.iterdir() if p.is_file()} == {"precious"}


def test_overwrite_replaces(run: Run, tmp_path: Path) -> None:
    for path, words in (
        (tmp_path / "p.lp", ["export", "oef/eq6", "-p", "oef-cooperative", "--out"]),
        (tmp_path / "i.yaml", ["instances", "oef/eq6", "--out"]),
    ):
        path.write_text("old")
        assert run(*words, path)[0] == 2
        assert path.read_text() == "old"
        assert run(*words, path, "--overwrite")[0] == 0
        assert path.read_text() != "old"
    assert read(tmp_path / "i.yaml").name == "oef/eq6"


def test_a_picture_that_fails_loses_no_table(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "out.png")

    monkeypatch.setattr(pictures, "save_figure", full)
    code, out, err = run("solve", "oef/eq6", "-p", "oef-cooperative", "--plot", tmp_path / "out.png")
    assert code == 2
    assert "objective 5.25" in out
    assert err == "hetopt: out.png: No space left on device\n"


# Errors name the file and the key


def test_errors_of_policies_name_the_file(run: Run, tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("schema: hetopt/instance/1\ncluster: {capacity: {T4: 1}}\n")
    assert "empty.yaml: has neither tenants nor jobs" in run("solve", empty, "-p", "oef-cooperative")[2]
    assert "hetopt: oef/eq6: " in run("solve", "oef/eq6", "-p", "fft")[2]


@pytest.mark.parametrize("policy", ["fft", "gavel-max-min"])
def test_a_job_that_fits_nowhere_is_named_with_its_file(run: Run, tmp_path: Path, policy: str) -> None:
    big = hetopt.Instance.from_jobs(
        [[1, 1], [1, 1]], demand=[1, 5], work=4, capacity={"T4": 4, "V100": 4}, jobs=["small", "giant"]
    )
    write(big, tmp_path / "big.yaml")
    code, _, err = run("solve", tmp_path / "big.yaml", "-p", policy)
    assert code == 2
    assert f"hetopt: {tmp_path / 'big.yaml'}: jobs['giant'].demand is 5 GPUs" in err


@pytest.mark.parametrize(
    ("capacity", "speed", "weight", "message"),
    [
        (4, 1e17, 1, "tenants['a'].speedup['V100'] is 1e+17, tenants['a'].speedup['T4'] is 1"),
        (4, 2, 1e17, "tenants['a'].weight is 1e+17, tenants['b'].weight is 1"),
    ],
)
def test_numbers_that_no_solver_takes_are_named(
    run: Run, tmp_path: Path, capacity: int, speed: float, weight: float, message: str
) -> None:
    huge = hetopt.Instance.from_speedups(
        [[1, speed], [1, 3]], {"T4": capacity, "V100": 4}, weights=[weight, 1], tenants=["a", "b"]
    )
    write(huge, tmp_path / "huge.yaml")
    code, out, err = run("solve", tmp_path / "huge.yaml", "-p", "gavel-max-min")
    assert code > 0
    assert not out
    assert f"hetopt: {tmp_path / 'huge.yaml'}: " in err
    assert message in err


def test_instances_without_a_name_go_by_their_file(run: Run, odd: Path) -> None:
    _, out, _ = run("solve", odd, "-p", "ceei", "--json")
    assert json.loads(out)["instance"] == str(odd)


def test_the_demo_of_ones_own_file(run: Run, odd: Path, tmp_path: Path) -> None:
    """Named by its file, a reason once for all policies that it holds for, and without jobs nothing is placed.

    Three policies are fair with the same total; the first in the order of names is recommended.
    """
    code, out, _ = run("demo", "--out", tmp_path / "d", "--instance", odd)
    page = (tmp_path / "d" / "report.html").read_text()
    assert code == 0
    assert re.search(rf"{re.escape(str(odd))}: \d+ of {len(policy_names())} policies; recommended: ceei", out)
    assert f"policies on {odd}" in page
    assert sum("no result" in line for line in out.splitlines()) == 1
    assert page.count("the instance has none") == 1
    assert "nothing to place" in out
    assert "nothing to place" in page
    assert not (tmp_path / "d" / "placement.csv").exists()


@pytest.mark.parametrize(("value", "seconds"), [("1e3", 1000.0), ("60", 60), (".5e2", 50.0)])
def test_settings_are_read_like_numbers_of_files(run: Run, value: str, seconds: float) -> None:
    code, _, err = run("solve", "lab36/jobs", "-p", "fft", "--set", f"round_seconds={value}", "--time", "5400")
    assert (code, err) == (0, "")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> str:
    """A command of another package, which cannot be imported."""
    point = EntryPoint("broken", "nowhere.at_all:command", "hetopt.commands")
    monkeypatch.setitem(COMMANDS.__dict__, "points", {"broken": point})
    return "no command 'broken' from 'nowhere.at_all:command': ModuleNotFoundError"


def test_a_command_that_cannot_be_loaded_leaves_the_others(run: Run, broken: str) -> None:
    code, out, err = run("--help")
    assert code == 0
    assert "Solve and explain" in out
    assert "broken" not in out
    assert broken in err


def test_a_command_that_cannot_be_loaded_is_reported_when_called(run: Run, broken: str) -> None:
    code, out, err = run("broken")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert broken in err


def test_descriptions_in_lists_are_plain_text() -> None:
    lists = (POLICIES, SYSTEMS, MAPPERS, PREDICTORS)
    described = {f"{own.what} {name}": text for own in lists for name, text in own.descriptions().items()}
    assert {name: text for name, text in described.items() if "`" in text or "()" in text or not text} == {}
