"""Errors carry what is wrong and where as fields; what the program does never depends on the wording."""

from __future__ import annotations

import copy
import copyreg
import pickle
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetopt
from hetopt import Instance, InvalidInstance, InvalidOption, errors
from hetopt.errors import HetoptError, Item, format_path
from hetopt.models import fft

GOOD = (Path(__file__).parent / "good.yaml").read_text()


def caught(make: object) -> HetoptError:
    with pytest.raises(HetoptError) as found:
        make()  # type: ignore[operator]
    return found.value


def test_fields_of_an_error_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(GOOD.replace("demand: 2", "demand: 9"))
    problem = caught(lambda: Instance.read(path))
    assert (type(problem), problem.file, problem.line) == (InvalidInstance, str(path), 23)
    assert problem.path == ("jobs", "j1", "stages")
    assert problem.key == "jobs['j1'].stages"


def test_fields_of_an_error_in_a_table(tmp_path: Path) -> None:
    servers = pd.DataFrame({"T4": [1, -1]}, index=["a", "b"])
    problem = caught(lambda: Instance.from_tables(servers))
    assert (problem.table, problem.row, problem.file, problem.key) == ("servers", "b", None, "servers['b'].gpus['T4']")
    servers.rename_axis("server").to_csv(tmp_path / "servers.csv")
    problem = caught(lambda: Instance.read_csv(tmp_path))
    assert (problem.table, problem.row, problem.file) == ("servers", "b", str(tmp_path / "servers.csv"))


def test_fields_of_errors_of_arguments() -> None:
    problem = caught(lambda: Instance.from_speedups([[1, "2"]], [1, 1]))
    assert (type(problem), problem.path) == (InvalidInstance, ("speedups", 0, "GPU2"))
    problem = caught(lambda: fft.FFT(round_seconds=-1))
    assert (type(problem), problem.key) == (InvalidOption, "FFT.round_seconds")


def test_reworded_messages_are_located_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line, the key, the table and the row are found without the text of the message."""
    file, tables = tmp_path / "wrong.yaml", {"servers": pd.DataFrame({"T4": [1, -1]}, index=["a", "b"])}
    for old, new in (("demand: 2", "demand: 9"), ("V100: 7/3", "V100: 0, A100: 1"), ("done: {j1", "done: {j7")):
        file.write_text(GOOD.replace(old, new, 1))
        before = [caught(lambda: Instance.read(file)), caught(lambda: Instance.from_tables(**tables))]
        with monkeypatch.context() as patched:
            patched.setattr(InvalidInstance, "__init__", _reworded)
            after = [caught(lambda: Instance.read(file)), caught(lambda: Instance.from_tables(**tables))]
        for a, b in zip(before, after, strict=True):
            assert b.problem == "(reworded)"
            assert (a.path, a.file, a.line, a.table, a.row) == (b.path, b.file, b.line, b.table, b.row)


def _reworded(self: HetoptError, problem: str = "", path: object = ()) -> None:
    HetoptError.__init__(self, "(reworded)", path)  # type: ignore[arg-type]


KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type)
    and issubclass(kind, HetoptError)
    and kind not in (hetopt.NotSolved, errors.MissingPackage)
]
names = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1)
paths = st.lists(st.one_of(st.just("jobs"), names.map(Item), st.integers(0, 9)), max_size=4).map(tuple)


@given(paths, st.text(), st.none() | names, st.none() | st.integers(1, 99), st.sampled_from(KINDS))
def test_errors_survive_copies_and_processes(
    path: errors.KeyPath, problem: str, file: str | None, line: int | None, kind: type[HetoptError]
) -> None:
    error = kind(problem, path)
    if file is not None:
        error = error.in_file(file, line)
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is kind
        assert vars(again) == vars(error)
        assert str(again) == str(error)


def with_fields(kind: type[HetoptError], fields: dict[str, object]) -> HetoptError:
    made = kind.__new__(kind)
    made.__dict__ = fields
    return made


def test_changed_copies_leave_an_error_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where copies share their fields: tblib, which Dask imports, registers such a copy for all errors."""
    monkeypatch.setitem(copyreg.dispatch_table, InvalidOption, lambda one: (with_fields, (type(one), one.__dict__)))  # type: ignore[index]
    problem = InvalidOption("is 3; it must be below 2", "gap")
    assert copy.copy(problem).__dict__ is problem.__dict__
    changed = problem.within("options").in_file("a.yaml", 7).with_hint("leave it out")
    assert str(changed) == "a.yaml:7: options.gap is 3; it must be below 2; leave it out"
    assert str(problem) == "gap is 3; it must be below 2"


def test_paths_are_spelled_as_python() -> None:
    assert format_path(("jobs", Item("a"), "stages", 0, "replicas")) == "jobs['a'].stages[0].replicas"
    assert str(InvalidInstance("is 3", ("held", Item("it's"))).within("x")) == 'x.held["it\'s"] is 3'
