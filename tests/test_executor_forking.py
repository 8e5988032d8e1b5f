"""Copies of one job on real processes: steps add up, parameters are averaged, and the model learns."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetopt.errors import InvalidOption
from hetopt.executor import lease_directory as files
from hetopt.executor.demos import numpy_mlp
from hetopt.executor.job_side import list_files
from hetopt.executor.losses import curve, draw, losses
from hetopt.executor.merge_checkpoints import UNFIT, main, merge, read_arrays, write_arrays
from hetopt.executor.state_database import StateDatabase

Run = Callable[..., tuple[int, str, str]]
KINDS = ["numpy_mlp"] + ["torch_mlp"] * all(importlib.util.find_spec(name) for name in ("torch", "safetensors"))


def checkpoint(folder: Path, weight: float, *, name: str = "model.npz", **more: str) -> Path:
    """A published checkpoint with an array and some text files."""
    folder.mkdir(parents=True)
    write_arrays(folder / name, {"w": np.full(3, weight), "count": np.array(int(weight))})
    for other, text in more.items():
        (folder / other).write_text(text)
    list_files(folder)
    return folder


@pytest.mark.parametrize("name", ["model.npz", "model.safetensors"])
def test_parameters_are_averaged_by_the_steps_of_the_copies(tmp_path: Path, name: str) -> None:
    if name.endswith("safetensors"):
        pytest.importorskip("safetensors")
    parts = [
        (checkpoint(tmp_path / "a", 1.0, name=name, note="of a"), 30.0),
        (checkpoint(tmp_path / "b", 5.0, name=name, note="of b"), 10.0),
    ]
    merge(parts, tmp_path / "merged")
    found = read_arrays(tmp_path / "merged" / name)
    assert found["w"].tolist() == [2.0, 2.0, 2.0]  # (30 * 1 + 10 * 5) / 40
    assert int(found["count"]) == 2
    assert (tmp_path / "merged" / "note").read_text() == "of a"
    assert files.is_complete(tmp_path / "merged")
    merge([(tmp_path / "gone", 1.0)], tmp_path / "merged")  # it exists: nothing happens


def test_checkpoints_that_cannot_be_merged_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = checkpoint(tmp_path / "a", 1.0)
    other = checkpoint(tmp_path / "b", 1.0, name="weights.npz")
    with pytest.raises(InvalidOption, match=r"has no model.npz; all copies of a job must save the same files"):
        merge([(one, 2.0), (other, 1.0)], tmp_path / "merged")
    assert not (tmp_path / "merged").exists()
    (other / "model.npz").write_bytes(b"rubbish")
    with pytest.raises(InvalidOption, match="holds no plain arrays"):
        merge([(one, 2.0), (other, 1.0)], tmp_path / "merged")
    np.savez(other / "model.npz", w=np.array([object()], dtype=object))
    with pytest.raises(InvalidOption, match="holds no plain arrays"):  # nothing is unpickled
        merge([(one, 2.0), (other, 1.0)], tmp_path / "merged")
    for folder in (one, other):
        np.savez(folder / "model.npz", w=np.array(["adam"]))
    with pytest.raises(InvalidOption, match="it must be an array of floats, integers or booleans"):
        merge([(one, 2.0), (other, 1.0)], tmp_path / "merged")
    (other / "model.npz").write_bytes(b"rubbish")
    assert main([json.dumps([[str(one), 2.0], [str(other), 1.0]]), str(tmp_path / "merged")]) == UNFIT
    assert "holds no plain arrays" in capsys.readouterr().err


def test_a_copy_that_has_diverged_is_named(tmp_path: Path) -> None:
    """The message is for the job's owner; the average would be useless."""
    parts = [(checkpoint(tmp_path / "a", 1.0), 2.0), (checkpoint(tmp_path / "b", 1.0), 1.0)]
    write_arrays(tmp_path / "b" / "model.npz", {"w": np.array([1.0, np.nan, 1.0]), "count": np.array(1)})
    with pytest.raises(InvalidOption, match=r"b/model.npz: 'w' has NaN or infinite entries: this copy has diverged$"):
        merge(parts, tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_broken_links_and_pipes_are_left_out(tmp_path: Path) -> None:
    """Links without a target or in a loop, and pipes."""
    parts = [(checkpoint(tmp_path / name, weight), weight) for name, weight in (("a", 2.0), ("b", 1.0))]
    for folder, _ in parts:
        (folder / "nowhere").symlink_to(folder / "absent")
        (folder / "ring").symlink_to(folder / "ring")
        os.mkfifo(folder / "pipe")
    merge(parts, tmp_path / "merged")
    assert files.is_complete(tmp_path / "merged")
    assert sorted(path.name for path in (tmp_path / "merged").iterdir()) == ["files.json", "model.npz"]


@pytest.mark.parametrize(("error", "code"), [(TypeError("odd"), UNFIT), (MemoryError(), 1), (OSError("full"), 1)])
def test_only_temporary_errors_are_retried(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("hetopt.executor.merge_checkpoints.merge", fail)
    assert main(["[]", str(tmp_path)]) == code
    assert capsys.readouterr().err.startswith(f"{type(error).__name__}: {error}")


def test_types_that_numpy_lacks_are_merged_by_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    save, load = (getattr(pytest.importorskip("safetensors.torch"), name) for name in ("save_file", "load_file"))
    parts = []
    for name, value, steps in (("a", 1.0, 3.0), ("b", 5.0, 1.0)):
        (tmp_path / name).mkdir()
        save({"w": torch.full((3,), value, dtype=torch.bfloat16)}, tmp_path / name / "m.safetensors")
        parts.append((tmp_path / name, steps))
    merge(parts, tmp_path / "merged")
    assert load(tmp_path / "merged" / "m.safetensors")["w"].tolist() == [2.0, 2.0, 2.0]
    (tmp_path / "a" / "m.safetensors").write_bytes(b"rubbish")
    with pytest.raises(InvalidOption, match="holds no plain arrays"):
        merge(parts, tmp_path / "again")


def job(folder: Path, kind: str, name: str, **settings: Any) -> Path:
    command = [sys.executable, "-m", f"hetopt.executor.demos.{kind}", "--pace", "slow=150", "--pace", "fast=450"]
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps({"name": name, "command": command, "steps": 900, "grace": "5s", **settings}))
    return path


def _loss_in_the_end(kind: str, state: Path, name: str) -> float:
    """Loss of the committed checkpoint, merged or not."""
    with StateDatabase(state) as database, database.reading() as connection:
        folder = Path(connection.value("SELECT checkpoint FROM jobs WHERE name = :name", name=name))
    if kind == "numpy_mlp":
        return numpy_mlp.loss_of(numpy_mlp.load(folder))
    from hetopt.executor.demos import torch_mlp

    training = torch_mlp.Training("cpu")
    training.load(folder)
    return training.loss()


@pytest.mark.parametrize("kind", KINDS)
def test_forked_and_unforked_training_both_learn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, kind: str
) -> None:
    """Unequal shares, merged each round; all steps are done once, and the merged model has a lower loss."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HETOPT_STATE", str(tmp_path / "state"))
    (tmp_path / "slots.yaml").write_text("nodes:\n  a: {slots: {slow: 1}}\n  b: {slots: {fast: 1}}\n")
    length = "20s"  # more than a busy machine takes to import PyTorch
    words = ("--policy", "hadare", "--round", length, "--no-profile", "--slots", "slots.yaml", "--until-idle")
    run("submit", job(tmp_path, kind, "forked", fork=True))
    assert run("run", *words)[0] == 0
    run("submit", job(tmp_path, kind, "alone"))
    assert run("run", *words)[0] == 0
    with StateDatabase(tmp_path / "state") as database:
        found = {name: losses(database, name) for name in ("forked", "alone")}
        with database.reading() as connection:
            merged = connection.value("SELECT count(*) FROM events WHERE kind = 'merging'")
            leases = connection.tuples("SELECT from_step, end_step FROM leases WHERE forked")
    assert merged > 0
    assert sum(end - start for start, end in leases) == 900
    assert set(found["forked"]["copy"]) == {1, 2}
    assert set(found["alone"]["copy"]) == {0}
    ends = {name: _loss_in_the_end(kind, tmp_path / "state", name) for name in found}
    begins = {name: curve(table)["loss"].iloc[0] for name, table in found.items()}
    assert begins["forked"] == begins["alone"]
    assert max(ends.values()) < begins["alone"] / 4  # both have learnt
    figure = draw(list(found.items()))
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == [  # type: ignore[union-attr]
        "forked (forked; dots: its copies)",
        "alone",
    ]
    code, out, _ = run("losses", "forked", "alone", "--plot", "losses.png")
    assert code == 0
    of_forked, of_alone = (next(line for line in out.splitlines() if line.split()[:1] == [name]) for name in found)
    assert of_forked.split()[:3] == ["forked", "0", f"{begins['forked']:.4g}"]
    assert re.search(r"of copy [12] alone *$", of_forked)
    assert "copy" not in of_alone
    assert (tmp_path / "losses.png").stat().st_size > 10000


def test_the_network_of_the_demo_is_trained_by_its_gradient() -> None:
    """Against differences of the loss; the rate is small, so that one step is nearly along the gradient."""
    net, seed = numpy_mlp.fresh(), 3
    x = np.random.default_rng(seed).normal(size=(numpy_mlp.BATCH, numpy_mlp.INPUTS))

    def loss(weights: dict[str, Any]) -> float:
        return float(np.mean((numpy_mlp.outputs(weights, x)[1] - numpy_mlp.truth(x)) ** 2) / 2)

    after = numpy_mlp.trained(net, np.random.default_rng(seed), rate=1.0)
    for key, index in (("w1", (2, 5)), ("b1", (7,)), ("w2", (4,)), ("b2", (0,))):
        bumped = {name: value.copy() for name, value in net.items()}
        h = 2.0**-16
        bumped[key][index] += h
        slope = (loss(bumped) - loss(net)) / h
        assert net[key][index] - after[key][index] == pytest.approx(slope, rel=0.01)
