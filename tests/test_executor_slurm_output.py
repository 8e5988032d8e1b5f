"""How the engine for Slurm reads Slurm's output and which commands it runs, with fake commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slurm_fake import NODE, PARTITION, Fake, some_slurm  # noqa: F401 - the last a fixture

from hetopt.errors import InvalidOption
from hetopt.executor.engines import slurm_commands as parsed
from hetopt.executor.engines.engine import EngineDown, LeaseRecord, Phase, Refused, Seat
from hetopt.executor.engines.slurm import SlurmEngine
from hetopt.executor.engines.slurm_commands import PROGRAMS

FREE = {"alloc": 0, "memory": 0}

# -- nodes


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("gpu:v100:2", {"v100": 2}),
        ("gpu:v100:2(S:0-1)", {"v100": 2}),
        ("gpu:a100:4(S:0,2-3),gpu:k80:1(S:1)", {"a100": 4, "k80": 1}),
        ("gpu:v100:1(IDX:0,2),gpu:v100:1(IDX:N/A)", {"v100": 2}),
        ("gpu:4", {"gpu": 4}),
        ("gpu", {"gpu": 1}),
        ("gpu:tesla", {"tesla": 1}),
        ("gpu:1080:8", {"1080": 8}),
        ("gpu:a100_3g.20gb:2,shard:16,mps:a100:2K", {"a100_3g.20gb": 2}),
        ("gpu:a100:no_consume:2", {"a100": 2}),
        ("gpu:v100:0(IDX:N/A)", {}),
        ("craynetwork:4,gpu:p100:3", {"p100": 3}),
        ("(null)", {}),
        ("gpu:(null):1(IDX:0)", {"gpu": 1}),  # without a type
        ("N/A", {}),
        ("", {}),
    ],
)
def test_gpus_among_generic_resources(gres: str, gpus: dict[str, int]) -> None:
    assert parsed.gpus_of(gres) == gpus


@given(
    st.dictionaries(st.from_regex(r"[a-z][a-z0-9_.-]{0,8}", fullmatch=True), st.integers(1, 64), max_size=4),
    st.sampled_from(["", "(S:0-1)", "(S:0,2-3)", "(IDX:0-1,3)", "(IDX:N/A)"]),
    st.sampled_from([[], ["shard:8"], ["mps:2K", "craynetwork:4(S:0,1)"]]),
    st.integers(0, 3),
)
def test_gpus_of_any_types(gpus: dict[str, int], suffix: str, others: list[str], at: int) -> None:
    parts = [f"gpu:{kind}:{number}{suffix}" for kind, number in gpus.items()]
    assert parsed.gpus_of(",".join(parts[:at] + others + parts[at:])) == gpus


@pytest.mark.parametrize(
    ("state", "up", "note"),
    [
        ("IDLE", True, ""),
        ("MIXED+PLANNED", True, ""),
        ("ALLOCATED+COMPLETING", True, ""),
        ("idle~", True, ""),
        ("IDLE+CLOUD+POWERED_DOWN", True, ""),
        ("ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", True, ""),
        ("IDLE+POWERING_DOWN", False, "POWERING_DOWN"),
        ("MIXED+DRAIN", False, "DRAIN"),
        ("idle*", False, "NOT_RESPONDING"),
        ("DOWN*+DRAIN", False, "DOWN+NOT_RESPONDING+DRAIN"),
        ("MIXED+NOT_RESPONDING", False, "NOT_RESPONDING"),
        ("IDLE+MAINTENANCE", False, "MAINTENANCE"),
        ("IDLE+RESERVED", False, "RESERVED"),
        ("IDLE+FAIL", False, "FAIL"),
        ("IDLE+REBOOT_ISSUED", False, "REBOOT_ISSUED"),
        ("IDLE+WHATEVER_COMES_NEXT", False, "WHATEVER_COMES_NEXT"),
        ("UNKNOWN", False, "UNKNOWN"),
        ("", False, "UNKNOWN"),
    ],
)
def test_states_of_nodes(state: str, up: bool, note: str) -> None:
    host = parsed.slurm_nodes(
        NODE.format(name="a", gres="gpu:2", used="", cpus=8, partitions="p", reason="", state=state, **FREE)
    )[0]
    assert (host.up, host.note) == (up, note)


@pytest.mark.parametrize(
    ("state", "reason", "resume"),
    [
        ("IDLE+DRAIN", "Duplicate jobid [slurm@2026-11-22T19:00:00]", True),
        ("IDLE+DRAIN", "Kill task failed [root@2026-11-22T19:00:00]", True),
        ("IDLE+DRAIN", "gres/gpu count reported lower than configured (1 < 2)", True),
        ("IDLE+DRAIN", "Low RealMemory [slurm@2026-11-22T19:00:00]", True),
        ("DOWN", "Node unexpectedly rebooted", True),
        ("DOWN", "Not responding [slurm@2026-11-22T19:00:00]", True),  # it responds again, and ReturnToService is 0
        ("DOWN+NOT_RESPONDING", "Not responding [slurm@2026-11-22T19:00:00]", False),
        ("MIXED+DRAIN", "new disk on Monday; State=IDLE Gres=gpu:9", False),
    ],
)
def test_reasons_of_nodes(state: str, reason: str, resume: bool) -> None:
    more = {"used": "", "cpus": 8, "partitions": "p", "reason": f"Reason={reason}", **FREE}
    host = parsed.slurm_nodes(NODE.format(name="a", gres="gpu:2", state=state, **more))[0]
    assert not host.up
    assert host.gpus == {"gpu": 2}
    assert host.note.startswith(f"{state.removeprefix('IDLE+').removeprefix('MIXED+')}: {reason}")
    assert ("scontrol update nodename=a state=resume" in host.note) is resume


def test_nodes_are_sorted_by_number(slurm: Fake) -> None:
    slurm.nodes(*((name, "gpu:1", {}) for name in ("n10", "n9", "m2", "n-1")), ("x", "gpu:1", {"partitions": "other"}))
    found = SlurmEngine("c").nodes()
    assert [node.name for node in found] == ["m2", "n9", "n10", "n-1"]
    assert found[0].address == "10.0.0.7"


def test_missing_states_of_nodes_keep_the_last_ones(slurm: Fake) -> None:
    """For a moment after its start slurmctld has no node's state, which does not mean that all are lost."""
    engine = SlurmEngine("c")
    slurm.nodes(("a", "gpu:4", {"state": "UNKNOWN"}), ("b", "gpu:2", {"state": "UNKNOWN"}))
    with pytest.raises(EngineDown, match="has no state of the nodes of partition 'gpu' yet"):
        engine.nodes()
    slurm.nodes(("a", "gpu:4", {"state": "UNKNOWN"}), ("b", "gpu:2", {}), ("c", "gpu:2", {"state": "UNKNOWN"}))
    assert [node.up for node in engine.nodes()] == [True, True, False]
    slurm.prints("scontrol-node", "")
    with pytest.raises(EngineDown, match="no node of partition 'gpu' has GPUs any more"):
        engine.nodes()


def test_partitions(slurm: Fake) -> None:
    with pytest.raises(InvalidOption, match=r"no partition 'gpuu'; did you mean 'gpu'\? known: gpu, other"):
        SlurmEngine("c", "gpuu")
    with pytest.raises(InvalidOption, match="no node of partition 'other' has GPUs"):
        SlurmEngine("c", "other")
    slurm.partitions(default="NO")
    with pytest.raises(InvalidOption, match="no default partition; name one by --partition: gpu, other"):
        SlurmEngine("c")
    slurm.prints("scontrol-partition", error="slurm_load_partitions: Unable to contact slurm controller", code=1)
    late = SlurmEngine("c", "gpuu")
    with pytest.raises(EngineDown, match="scontrol: slurm_load_partitions: Unable to contact slurm controller"):
        late.nodes()
    slurm.partitions()
    with pytest.raises(InvalidOption, match="no partition 'gpuu'"):
        late.nodes()


def test_changed_limits_of_a_partition_are_used(slurm: Fake, tmp_path: Path) -> None:
    """The limits can change; the name stays."""

    def cpus() -> str:
        engine.start(LeaseRecord("hetopt-c-1-0-1", tmp_path, (Seat("a", "v100", 0),)))
        return next(word for word in slurm.calls("sbatch")[-1][0] if word.startswith("--cpus"))

    slurm.partitions(cpus="16")
    engine = SlurmEngine("c")
    slurm.partitions(default="NO", cpus="8")
    assert cpus() == "--cpus-per-task=4"
    engine.nodes()
    assert cpus() == "--cpus-per-task=2"
    for no_news, problem in (
        ({"error": "Unable to contact", "code": 1}, "Unable to contact"),
        ({}, "lists no partition"),
    ):
        slurm.prints("scontrol-partition", **no_news)
        with pytest.raises(EngineDown, match=problem):
            engine.nodes()
        assert cpus() == "--cpus-per-task=2"
    slurm.prints("scontrol-partition", PARTITION.format(name="gpus", default="YES", cpus="4", state="UP"))
    slurm.nodes(("a", "gpu:v100:4", {"partitions": "gpus"}))
    for _ in range(2):
        with pytest.raises(
            EngineDown, match=r"Slurm has no partition 'gpu' any more; did you mean 'gpus'\? known: gpus"
        ):
            engine.nodes()
    slurm.partitions()
    slurm.nodes(("a", "gpu:v100:4", {}))
    assert [node.name for node in engine.nodes()] == ["a"]
    assert cpus() == "--cpus-per-task=8"


def test_a_refusal_under_old_limits_does_not_count(slurm: Fake, tmp_path: Path) -> None:
    engine, grant = SlurmEngine("c"), LeaseRecord("hetopt-c-1-0-1", tmp_path, (Seat("a", "v100", 0),))
    slurm.prints("sbatch", error="sbatch: error: CPU count specification invalid", code=1)
    slurm.partitions(cpus="8")
    with pytest.raises(
        EngineDown, match="Slurm refuses: CPU count specification invalid; the partition or reservation was changed"
    ):
        engine.start(grant)
    with pytest.raises(Refused):
        engine.start(grant)
    slurm.prints("scontrol-partition", PARTITION.format(name="cpu", default="YES", cpus="8", state="UP"))
    with pytest.raises(EngineDown, match="Slurm has no partition 'gpu' any more"):
        engine.start(grant)


# -- leases


def test_the_queue(slurm: Fake) -> None:
    slurm.nodes(("a", "gpu:v100:6", {"used": "gpu:v100:6(IDX:0-5)"}), ("b", "gpu:k80:2", {"used": "gpu:k80:1(IDX:0)"}))
    queue = [
        "RUNNING|a=2|hetopt-c-1-0-1|None",
        "RUNNING|a=1|hetopt-c-2-0-1|None",
        "RUNNING|b=1|hetopt-c-2-0-1|None",  # the other component of a heterogeneous job
        "PENDING|a=4|hetopt-c-3-0-1|None",
        "CONFIGURING|a=1|hetopt-c-4-0-1|None",
        "COMPLETING|(null)|hetopt-c-5-0-1|None",  # a site may drop comments
        "SUSPENDED|a=1|hetopt-c-6-0-1|None",
        "WHATEVER_COMES_NEXT|a=1|hetopt-c-7-0-1|None",
        "LAUNCH_FAILED|a=1|hetopt-c-8-0-1|None",  # held, until an operator releases it
        "RUNNING|a=1|hetopt-cc-1-0-1|None",
        "RUNNING|a=1|interactive | odd|None",
        "RUNNING",
        "",
    ]
    slurm.prints("squeue", "\n".join(queue))
    engine = SlurmEngine("c")
    running, waiting = (1, 2, 5, 6, 7), (3, 4, 8)
    wanted = {f"hetopt-c-{n}-0-1": Phase.RUNNING for n in running} | {
        f"hetopt-c-{n}-0-1": Phase.WAITING for n in waiting
    }
    assert engine.status([]) == wanted
    assert engine.status(["hetopt-c-9-0-1", "hetopt-c-1-0-1"]) == wanted | {"hetopt-c-9-0-1": Phase.ENDED}
    assert [node.note for node in engine.nodes()] == ["1 of 6 GPUs are in use by others", ""]
    engine.stop([f"hetopt-c-{n}-0-1" for n in range(20)])
    me, ask = f"--user={os.geteuid()}", ["--batch", "--signal=TERM"]
    assert [words for words, *_ in slurm.calls("scancel")] == [
        [me, f"--name=hetopt-c-{n}-0-1", *(["--signal=URG"] if n in (2, 5) else ask)] for n in running
    ]
    engine.kill(["hetopt-c-3-0-1", "hetopt-c-9-0-1"])
    assert slurm.calls("scancel")[-1][0] == [me, "--name=hetopt-c-3-0-1"]
    slurm.prints("scancel", error="scancel: error: Kill job error on job id 7: Job/step already completing", code=1)
    engine.kill(["hetopt-c-1-0-1"])
    slurm.prints("scancel", error="scancel: error: Kill job error on job id 7: Socket timed out", code=1)
    with pytest.raises(EngineDown, match="scancel: Kill job error on job id 7: Socket timed out"):
        engine.kill(["hetopt-c-1-0-1"])


def test_the_arguments_of_a_submission(slurm: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One argument stays one argument, whatever it contains; Slurm settings of the user have no effect."""
    for name in ("SBATCH_PARTITION", "SLURM_JOB_ID", "SQUEUE_STATES", "SRUN_CPUS_PER_TASK", "SCANCEL_BATCH", "SECRET"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("SLURM_CONF", "/etc/somewhere")
    slurm.nodes(("a", "gpu:v100:4,gpu:4", {}), ("b", "gpu:k80:2", {}), ("b2", "gpu:k80:2", {"cpus": 16}))
    folder = tmp_path / "x; touch $(pwned) %j"
    own = [("a", "v100", 0), ("a", "v100", 1), ("a", "gpu", 0), ("b", "k80", 0), ("b2", "k80", 1)]
    grant = LeaseRecord("hetopt-c-1-0-1", folder, tuple(Seat(*seat) for seat in own))
    SlurmEngine("c", account="vision; rm").start(grant)
    words, environment, script = slurm.calls("sbatch")[-1]
    assert script == '#!/bin/sh\nexec "$@"\n'
    at = words.index("/dev/stdin")
    runner = [sys.executable, "-P", "-m", "hetopt.executor.runner", str(folder)]
    assert words[at + 1 :][-5:] == runner
    assert words[at + 1] == "srun"
    assert "--het-group=0,1" in words[at + 1 :]
    first, second = words[1 : words.index(":")], words[words.index(":") + 1 : at]
    for part in (first, second):
        assert {"--no-requeue", "--job-name=hetopt-c-1-0-1", "--partition=gpu", "--account=vision; rm"} <= set(part)
        assert f"--chdir={folder}" in part
        assert f"--output={tmp_path}/x; touch $(pwned) %%j/runner.log" in part
    assert {"--nodelist=a", "--nodes=1", "--gres=gpu:1,gpu:v100:2", "--cpus-per-task=12", "--mem=24000M"} <= set(first)
    assert {"--nodelist=b,b2", "--nodes=2", "--gres=gpu:k80:1", "--cpus-per-task=8", "--mem=32000M"} <= set(second)
    for name in PROGRAMS:
        for _, passed, _ in slurm.calls(name) if name != "scancel" else ():
            assert not [key for key in passed if key.startswith(("SBATCH_", "SLURM_JOB", "SQUEUE_", "SRUN_", "SECRET"))]
            assert passed["SLURM_CONF"] == "/etc/somewhere"
    assert environment["HETOPT_TAG"] == "hetopt-c-1-0-1.runner"


@pytest.mark.parametrize(
    ("most", "per_gpu", "gpus", "wanted"),
    [("UNLIMITED", None, 1, 10), ("UNLIMITED", None, 3, 32), ("14", None, 1, 4), ("UNLIMITED", 3, 2, 6)],
)
def test_cpus_are_full_cores_and_never_exceed_the_node(
    most: str, per_gpu: int | None, gpus: int, wanted: int, slurm: Fake, tmp_path: Path
) -> None:
    """The node has 16 cores of two threads, and three GPUs."""
    slurm.partitions(cpus=most)
    slurm.nodes(("a", "gpu:v100:3", {}))
    engine = SlurmEngine("c", **({} if per_gpu is None else {"cpus_per_gpu": per_gpu}))
    engine.start(LeaseRecord("hetopt-c-1-0-1", tmp_path, tuple(Seat("a", "v100", i) for i in range(gpus))))
    words = slurm.calls("sbatch")[-1][0]
    assert f"--cpus-per-task={wanted}" in words
    assert words[-1] == "0", "the only node is the first"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("sbatch: error: invalid partition specified: x\nsbatch: error: Batch job submission failed: Invalid", Refused),
        ("sbatch: error: Batch job submission failed: Requested node configuration is not available", Refused),
        ("sbatch: error: Batch job submission failed: Invalid account or account/partition combination", Refused),
        ("sbatch: error: Batch job submission failed: Invalid qos specification", Refused),
        ("sbatch: error: Invalid generic resource (gres) specification", Refused),
        (
            "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit)",
            EngineDown,
        ),
        (
            "sbatch: error: Batch job submission failed: Required partition not available (inactive or drain)",
            EngineDown,
        ),
        ("sbatch: error: Batch job submission failed: Unable to contact slurm controller", EngineDown),
        ("sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received", EngineDown),
        ("sbatch: error: the moon is in the wrong phase", EngineDown),
        ("", EngineDown),
    ],
)
def test_only_known_messages_are_a_refusal(text: str, kind: type[Exception], slurm: Fake, tmp_path: Path) -> None:
    slurm.prints("sbatch", error=text, code=1)
    with pytest.raises(kind) as problem:
        SlurmEngine("c").start(LeaseRecord("hetopt-c-1-0-1", tmp_path, (Seat("a", "v100", 0),)))
    assert text.rpartition("error: ")[2] in str(problem.value)
    assert "\n" not in str(problem.value)


# -- commands


def test_missing_commands_are_reported(slurm: Fake) -> None:
    (slurm.folder / "squeue").unlink()
    with pytest.raises(InvalidOption, match="Slurm's commands are not on this machine: squeue not found in PATH="):
        SlurmEngine("c")


def test_a_command_that_hangs_or_breaks_is_an_engine_that_is_down(slurm: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = SlurmEngine("c")
    monkeypatch.setattr(parsed, "COMMAND_SECONDS", 1.0)
    slurm.prints("squeue", after=30.0)
    with pytest.raises(EngineDown, match="squeue has not answered within 1 s"):
        engine.status([])
    slurm.prints("squeue", code=7)
    with pytest.raises(EngineDown, match="squeue: exit code 7"):
        engine.status([])
    (slurm.folder / "squeue").chmod(0o644)
    with pytest.raises(EngineDown, match="squeue cannot be started: Permission denied"):
        engine.status([])


def test_commands_run_without_a_shell(slurm: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, run, seen = SlurmEngine("c"), subprocess.run, []

    def watched(words: Any, **options: Any) -> Any:
        seen.append((words, options.get("shell", False)))
        return run(words, **options)

    monkeypatch.setattr(subprocess, "run", watched)
    engine.start(LeaseRecord("hetopt-c-1-0-1", tmp_path, (Seat("a", "v100", 0),)))
    assert seen
    assert all(isinstance(words, list) and not shell for words, shell in seen)
