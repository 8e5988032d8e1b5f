"""Writing loses nothing: neither what is there, nor what has been computed for a place that cannot be written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hetopt.data.saving import check_folder, check_free, check_writable, save
from hetopt.errors import UnusableFile


def _no_links(*_: Any) -> None:
    raise OSError(95, "Operation not supported")


@pytest.mark.parametrize("links", [True, False])
def test_saving_refuses_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    """Also on file systems without hard links."""
    if not links:
        monkeypatch.setattr(os, "link", _no_links)
    file = tmp_path / "f.txt"
    save("one", file)
    assert file.read_text() == "one"
    with pytest.raises(UnusableFile, match=r"f\.txt: exists already; use overwrite=True \(--overwrite on the"):
        save("two", file)
    assert file.read_text() == "one"
    save("two", file, overwrite=True)
    assert file.read_text() == "two"
    assert [p.name for p in tmp_path.iterdir()] == ["f.txt"]


def test_a_failed_move_leaves_no_empty_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", _no_links)
    monkeypatch.setattr(Path, "replace", _no_links)
    with pytest.raises(UnusableFile, match="Operation not supported"):
        save("one", tmp_path / "f.txt")
    assert not list(tmp_path.iterdir())


BAD: list[tuple[Callable[[Path], None], str]] = [
    (lambda folder: check_free(folder / "there"), "there: exists already"),
    (lambda folder: check_free(folder), "it is a folder"),
    (lambda folder: check_writable(folder), "cannot be written: it is a folder"),
    (lambda folder: check_writable(folder / "no" / "f"), "cannot be written: No such file"),
    (lambda folder: check_writable(folder / "there" / "f"), "cannot be written: Not a directory"),
    (lambda _: check_writable("nul\0l"), "cannot be written"),
    (lambda folder: check_folder(folder / "there"), "cannot be used as a folder: it is a file"),
    (lambda folder: check_folder(folder / "there" / "below"), "cannot be used as a folder: Not a directory"),
]


@pytest.mark.parametrize(("check", "message"), BAD)
def test_bad_places_are_refused_before_any_work(tmp_path: Path, check: Callable[[Path], None], message: str) -> None:
    (tmp_path / "there").write_text("precious")
    with pytest.raises(UnusableFile, match=message):
        check(tmp_path)
    assert (tmp_path / "there").read_text() == "precious"
    assert [p.name for p in tmp_path.iterdir()] == ["there"]


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    """A device, for instance, which moving a file there would replace."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnusableFile, match="cannot be written: it is not a regular file"):
        check_writable(tmp_path / "pipe")
    with pytest.raises(UnusableFile, match="cannot be written: it is not a regular file"):
        save("text", tmp_path / "pipe", overwrite=True)
    assert (tmp_path / "pipe").is_fifo()


def test_good_places_are_left_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("precious")
    check_writable(tmp_path / "there")
    check_writable(tmp_path / "new")
    check_free(tmp_path / "new")
    check_free(tmp_path / "there", overwrite=True)
    check_folder(tmp_path / "a" / "b")
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "b", "there"]
    assert (tmp_path / "there").read_text() == "precious"


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a folder that no user can write to")
def test_a_folder_that_no_user_can_write_to_is_found_by_trying() -> None:
    """Permissions alone do not decide it: root may write everywhere."""
    with pytest.raises(UnusableFile, match=r"/proc/a\.png: cannot be written"):
        check_writable("/proc/a.png")
