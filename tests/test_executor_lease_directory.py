"""Files of a lease: claimed once, published whole, and no content makes a reader fail."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from executor_leases import Python, checkpoint, full_disk, hidden
from hypothesis import given
from hypothesis import strategies as st
from waiting import until

from hetopt.executor import lease_directory as files

# -- claims

RACE = """
import sys
from pathlib import Path
from hetopt.executor import lease_directory as files
print("ready", flush=True)
sys.stdin.readline()
print(*(rank for rank in range(int(sys.argv[2])) if files.claim(Path(sys.argv[1]), rank, files.identity())))
"""


def test_one_of_many_processes_claims_a_node(tmp_path: Path) -> None:
    """A claim is visible only with its whole content."""
    ranks, seen = 60, 0
    with ExitStack() as stack:
        racers = [stack.enter_context(Python(RACE, tmp_path, ranks)) for _ in range(5)]
        assert [racer.read() for racer in racers] == ["ready"] * 5
        for racer in racers:
            racer.send()
        while any(racer.process.poll() is None for racer in racers):
            for path in tmp_path.glob("claim-*"):
                assert json.loads(path.read_bytes())["boot"] == files.boot_id()
                seen += 1
        won = {racer.process.pid: racer.read().split() for racer in racers}
    assert sorted(int(rank) for own in won.values() for rank in own) == list(range(ranks)), "each once"
    for pid, own in won.items():
        for rank in own:
            who = files.read_json(tmp_path / files.claim_file(int(rank)))
            assert who is not None
            assert who["pid"] == pid
    assert seen
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("problem", [OSError(errno.EIO, "no answer"), FileExistsError(errno.EEXIST, "asked again")])
def test_a_claim_whose_answer_is_lost_is_a_claim(
    problem: OSError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def lose(source: Path, target: Path) -> None:
        link(source, target)
        raise problem

    monkeypatch.setattr(os, "link", lose)
    assert files.claim(tmp_path, 0, {"pid": 1})
    assert files.read_json(tmp_path / "claim-0") == {"pid": 1}
    assert not files.claim(tmp_path, 0, {"pid": 2}), "the second time the link was there before"
    assert files.read_json(tmp_path / "claim-0") == {"pid": 1}
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("call", ["link", "fsync"])
def test_a_claim_that_cannot_be_written_is_no_claim(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match="full"):
            files.claim(tmp_path, 0, {"pid": 1})
    assert list(tmp_path.iterdir()) == [], "nothing is left of it"
    assert files.claim(tmp_path, 0, {"pid": 2}), "so another may"


# -- processes


def test_a_process_is_identified_by_boot_and_start_time() -> None:
    """A zombie began at no time."""
    me = files.identity()
    assert (me["pid"], me["boot"]) == (os.getpid(), Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with Python("input()") as child:
        pid = child.process.pid
        other = files.identity(pid)
        assert other["started"] >= me["started"] > 0
        assert files.parent(pid) == me["pid"]
        child.process.kill()
        until(lambda: "State:\tZ" in Path(f"/proc/{pid}/status").read_text(), "it is a zombie")
        assert files.identity(pid) == {**other, "started": None}
        assert files.parent(pid) is None
    assert files.started(pid) is None


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a) Z 1 (b", b"two\nlines"])
def test_a_process_may_have_any_name(name: bytes) -> None:
    program = "import ctypes, sys; ctypes.CDLL(None).prctl(15, bytes.fromhex(sys.argv[1])); print(flush=True); input()"
    with Python(program, name.hex()) as child:
        child.read()
        assert name in Path(f"/proc/{child.process.pid}/stat").read_bytes()
        assert files.parent(child.process.pid) == os.getpid()
        assert files.started(child.process.pid) is not None


def test_a_process_lives_as_long_as_one_of_its_threads() -> None:
    program = (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(1000,)).start()\n"
        "print(flush=True); ctypes.CDLL(None).pthread_exit(None)"
    )
    with Python(program) as child:
        pid = child.process.pid
        child.read()
        until(lambda: "State:\tZ" in Path(f"/proc/{pid}/status").read_text(), "its first thread has ended")
        assert files.started(pid) is not None
        assert files.parent(pid) == os.getpid()
        child.process.kill()
        until(lambda: files.started(pid) is None, "all have ended")


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


# -- publishing

REWRITE = """
import sys
from pathlib import Path
from hetopt.executor import lease_directory as files
number = 0
while True:
    number += 1
    files.write_json(Path(sys.argv[1]), {"number": number, "filler": [number] * (number * 7919 % 4000)}, durable=False)
"""


def test_readers_see_whole_files(tmp_path: Path) -> None:
    path, numbers = tmp_path / "file.json", set[int]()
    with Python(REWRITE, path):
        until(path.exists, "it writes")
        while len(numbers) < 100:
            content = json.loads(path.read_bytes())
            assert content["filler"] == [content["number"]] * (content["number"] * 7919 % 4000)
            numbers.add(content["number"])


@pytest.mark.parametrize("point", ["os.fsync", "os.replace"])
def test_a_crash_leaves_the_old_content(point: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    files.write_json(path, {"old": True})
    program = (
        "import os, sys; from pathlib import Path; from hetopt.executor import lease_directory as files\n"
        f"{point} = lambda *_: os.kill(os.getpid(), 9)\n"
        "files.write_json(Path(sys.argv[1]), {'new': True})"
    )
    assert subprocess.run([sys.executable, "-c", program, str(path)]).returncode == -signal.SIGKILL
    assert files.read_json(path) == {"old": True}
    files.write_json(path, {"newer": True})
    assert files.read_json(path) == {"newer": True}, "the temporary file of the dead process does no harm"


def test_a_full_disk_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    files.write_json(path, {"old": True})
    with full_disk(), pytest.raises(OSError, match="too large"):
        files.write_json(path, {"new": "x" * 1000})
    with pytest.raises(TypeError, match="not JSON serializable"):
        files.write_json(path, {"new": object()})
    assert files.read_json(path) == {"old": True}
    assert [path.name for path in tmp_path.iterdir()] == ["file.json"]


def test_numbers_are_written_in_place(tmp_path: Path) -> None:
    files.renew(tmp_path, 1)
    files.write_number(tmp_path / files.STOP_AT, None)
    before = {path.name: (path.stat().st_ino, path.stat().st_size) for path in tmp_path.iterdir()}
    assert files.read_number(tmp_path / files.STOP_AT) is None
    with full_disk():
        for number in (2, 10**15, 3):
            files.renew(tmp_path, number)
            files.write_number(tmp_path / files.STOP_AT, number)
            assert int(files.read_text(tmp_path / files.RENEWED) or "") == number
            assert files.read_number(tmp_path / files.STOP_AT) == number
    assert {path.name: (path.stat().st_ino, path.stat().st_size) for path in tmp_path.iterdir()} == before
    with pytest.raises(FileNotFoundError):
        files.renew(tmp_path / "gone", 1)


@given(step=st.integers(0, 10**19), length=st.integers(0, 21))
def test_a_partial_step_is_ignored(step: int, length: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A reader during a write gets the whole step or none."""
    folder = tmp_path_factory.mktemp("half")
    files.write_number(folder / files.STOP_AT, step)
    content = (folder / files.STOP_AT).read_bytes()
    (folder / files.STOP_AT).write_bytes(content[:length] + (b" " * 20 + b"\n")[length:])
    assert files.read_number(folder / files.STOP_AT) == (step if length >= 20 else None)
    (folder / files.STOP_AT).write_bytes(content[:length])
    assert files.read_number(folder / files.STOP_AT) == (step if length == 21 else None)


# -- reading


def test_an_unreadable_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "deep").write_bytes(b"[" * 200_000)
    (tmp_path / "list").write_bytes(b"[1]")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\xfa")
    (tmp_path / "long").write_bytes(b'{"n": ' + b"9" * 5000 + b"}")
    for name in ("missing", "deep", "list", "bytes", "long", "", "missing/inner", "list/inner"):
        assert files.read_json(tmp_path / name) is None, name
    for name in ("missing", "bytes", ""):
        assert files.read_text(tmp_path / name) is None, name
        assert files.read_number(tmp_path / name / files.STOP_AT) is None, name


@given(content=st.dictionaries(st.text(), JSON, max_size=4), rubbish=st.binary(max_size=60), data=st.data())
def test_a_damaged_file_is_none(
    content: dict[str, Any], rubbish: bytes, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "file.json"
    files.write_json(path, content, durable=False)
    whole = path.read_bytes()
    assert json.dumps(files.read_json(path)) == json.dumps(content)
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    assert files.read_json(path) is None
    path.write_bytes(rubbish)
    assert isinstance(files.read_json(path), dict | None)


# -- checkpoints

MODEL = {"model.bin": b"12345", "parts/a/optimizer.bin": b"678", "empty": b""}


@pytest.mark.parametrize("name", MODEL)
@pytest.mark.parametrize("damage", [None, b"", b"1", b"1234567"])
def test_a_checkpoint_with_a_damaged_file_is_not_complete(name: str, damage: bytes | None, tmp_path: Path) -> None:
    made = checkpoint(tmp_path, MODEL)
    assert files.is_complete(made)
    path = made / name
    path.unlink()
    if damage is not None:
        path.write_bytes(damage)
    assert files.is_complete(made) == (damage == MODEL[name])
    assert bool(files.published(tmp_path)) == (damage == MODEL[name])


def test_files_outside_the_list_are_ignored(tmp_path: Path) -> None:
    made = checkpoint(tmp_path, MODEL)
    (made / "parts" / "more").mkdir()
    (made / "parts" / "more" / "notes").write_text("later")
    assert files.is_complete(made)
    shutil.rmtree(made / "parts")
    assert not files.is_complete(made)


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"{}",
        b'{"bytes": 3}',
        b'{"bytes": ["model.bin"]}',
        b'{"bytes": {"model.bin": "5"}}',
        b'{"bytes": {"model.bin": null}}',
        b'{"bytes": {"a\\u0000b": 1}}',
        b'{"bytes": {"' + b"x" * 300 + b'": 1}}',
        b'{"bytes": {"\\ud800": 1}}',
        b'{"bytes": {"model.bin/inner": 5}}',
        b"\x00" * 64,
    ],
)
def test_without_a_list_it_is_not_complete(content: bytes | None, tmp_path: Path) -> None:
    made = checkpoint(tmp_path, MODEL)
    (made / "files.json").unlink()
    if content is not None:
        (made / "files.json").write_bytes(content)
    assert not files.is_complete(made)
    assert files.published(tmp_path) == []


def test_published_checkpoints_are_complete_and_newest_first(tmp_path: Path) -> None:
    assert files.published(tmp_path) == []
    assert files.published(tmp_path / "gone") == []
    made = {step: checkpoint(tmp_path, MODEL, f"step-{step}") for step in (9, 100, 0, 20)}
    for name in (".step-300.17", "step-", "step--1", "step-1.5", "step-7x", "Step-8", "8", "step-8 ", "step-²"):
        checkpoint(tmp_path, MODEL, name)
    (tmp_path / files.CHECKPOINTS / "step-500").write_text("a file")
    (tmp_path / files.CHECKPOINTS / "step-600").mkdir()
    (checkpoint(tmp_path, MODEL, "step-700") / "model.bin").write_bytes(b"")
    assert files.published(tmp_path) == [(step, made[step]) for step in (100, 20, 9, 0)]


@given(
    content=st.dictionaries(
        st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=20)
        .map(lambda name: f"f{name}")
        .filter(lambda name: name != "files.json"),
        st.binary(max_size=20),
        min_size=1,
        max_size=4,
    ),
    data=st.data(),
)
def test_any_lost_file_is_detected(
    content: Mapping[str, bytes], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("any")
    made = checkpoint(folder, content)
    assert files.published(folder) == [(1, made)]
    victim = made / data.draw(st.sampled_from(sorted(content)))
    size = victim.stat().st_size
    if size and data.draw(st.booleans()):
        os.truncate(victim, data.draw(st.integers(0, size - 1)))
    else:
        victim.unlink()
    assert files.published(folder) == []
