"""Results store their inputs: traces, clusters, and the code of policies in one file or several."""

from __future__ import annotations

from pathlib import Path

import pytest

import hetopt
from hetopt import Instance, InvalidOption
from hetopt.experiments.experiment import Experiment, SystemVariant
from hetopt.experiments.input_files import file_digests
from hetopt.experiments.run_store import RunStore
from hetopt.experiments.trace_workload import TraceWorkload


def test_results_are_not_mixed_with_those_of_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace, a cluster or the code of a policy that has changed since is another one."""
    monkeypatch.syspath_prepend(tmp_path)
    trace, cluster, code = tmp_path / "own.csv", tmp_path / "lab.json", tmp_path / "own_policy.py"
    trace.write_text("job,arrival,duration,gpus\na,0,60,1\n", encoding="utf-8")
    Instance(hetopt.instances.load("lab36").cluster).write(cluster)
    code.write_text("from hetopt.registry import make_policy\n\nown = make_policy('srtf')\n", encoding="utf-8")
    store = RunStore(tmp_path / "runs")
    one = Experiment((TraceWorkload(str(trace), str(cluster)),), (SystemVariant("own_policy:own", label="own"),))
    assert len(one.run(store)) == 1
    assert one.run(store) == []
    for file, key in ((trace, "workload_files"), (cluster, "workload_files"), (code, "system_files")):
        before = file.read_text(encoding="utf-8")
        file.write_text(before + "\n", encoding="utf-8")
        with pytest.raises(InvalidOption, match=rf"with other settings \({key}\..* was"):
            one.run(store)
        file.write_text(before, encoding="utf-8")
        assert one.run(store) == []


def test_a_trace_of_several_files_is_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("log", "models"):
        (tmp_path / folder).mkdir()
    (tmp_path / "log" / "one").write_text("1")
    settings = TraceWorkload("log", "lab36").as_settings()
    first = file_digests(settings)
    assert list(first) == ["log"], "a folder that is called as who is a tenant is none of it"
    (tmp_path / "log" / "two").write_text("2")
    assert file_digests(settings)["log"] != first["log"]
    (tmp_path / "log" / "two").unlink()
    assert file_digests(settings) == first
    assert file_digests(["hetopt.registry:make_system", "no_such:thing", "not here", "a\0b"]).keys() == {
        "hetopt.registry:make_system"
    }


@pytest.mark.parametrize("package_file", ["__init__.py", "notes.txt"])
def test_code_in_several_files_is_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package_file: str
) -> None:
    """What a module imports, and what that imports; not installed packages, and not modules without an import."""
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / f"own_models_{package_file[:2]}"
    package.mkdir()
    files = {
        package / package_file: "",
        package / "main.py": "import numpy as np, own_helper\nfrom . import sizes\nfrom .deep import f",
        package / "sizes.py": "SIZE = 3",
        package / "deep.py": f"def f():\n    from {package.name} import late\n    return late",
        package / "late.py": f"from {package.name}.main import sizes",
        tmp_path / "own_helper.py": "WEIGHT = 2",
        tmp_path / "own_other.py": "",
    }
    for file, text in files.items():
        file.write_text(text, encoding="utf-8")
    first = file_digests([f"{package.name}.main:Policy"])
    assert len(first) == 1
    for file, text in files.items():
        file.write_text(text + "\n# changed", encoding="utf-8")
        assert (file_digests([f"{package.name}.main:Policy"]) != first) == (
            file.name not in ("own_other.py", "notes.txt")
        )
        file.write_text(text, encoding="utf-8")
        assert file_digests([f"{package.name}.main:Policy"]) == first
    (tmp_path / "own_helper.py").write_text("no Python", encoding="utf-8")
    assert file_digests([f"{package.name}.main:Policy"]) == {}
