"""Options of sbatch that ``--engine-set`` may set, and those that it may not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster, missing
from slurm_fake import Fake, some_slurm  # noqa: F401 - the last a fixture
from waiting import PATIENCE

from hetopt.engine_conformance import WRITE_ENVIRONMENT, Bench, one_seat
from hetopt.errors import InvalidOption
from hetopt.executor import lease_directory as files
from hetopt.executor.engines.engine import EngineDown, LeaseRecord, Seat, make_engine
from hetopt.executor.engines.slurm import FIXED_OPTIONS, FIXED_PREFIXES, SlurmEngine

needs_slurm = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with (
        SlurmCluster({"v100-0": ("v100", 2), "v100-1": ("v100", 2), "k80-0": ("k80", 1)}) as made,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("SLURM_CONF", str(made.configuration))
        yield made


@needs_slurm
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mem-per-gpu": "500M"}, ""),
        ({"mem_per_cpu": "100"}, ""),
        ({"mem": "700"}, ""),
        ({"cpus-per-gpu": 2}, ""),
        ({"cpus-per-task": 3, "time": 10, "nice": 5}, ""),
        ({"cpus_per_gpu": 9}, "Requested node configuration is not available"),
        ({"mem-per-gpu": "1T"}, "Requested node configuration is not available|Memory required"),
        ({"mem": "1G", "mem-per-gpu": "1G"}, "mutually exclusive"),
        ({"contiguous": 1}, "doesn't allow an argument"),
        ({"time": "never"}, "Invalid --time specification"),
        ({"licenses": "none:1"}, "Invalid license specification"),
        ({"hint": "none"}, "nrecognized --hint argument"),
        ({"reservation": "mine"}, "Slurm has no reservation 'mine'; it has none now"),
    ],
    ids=str,
)
def test_options_are_accepted_or_refused(
    options: dict[str, object], message: str, cluster: SlurmCluster, tmp_path: Path
) -> None:
    """Before the first job, with the arguments of a lease."""
    if message:
        with pytest.raises(InvalidOption, match=message) as problem:
            make_engine("slurm", "abc", options)
        assert "\n" not in str(problem.value)
        return
    bench = Bench(lambda name: make_engine("slurm", name, options), tmp_path, patience=PATIENCE)
    engine = bench.make(bench.cluster)
    for seats in (one_seat(engine), [node.seats[0] for node in engine.nodes()]):
        grant = bench.lease(seats, WRITE_ENVIRONMENT, engine)
        engine.start(grant)
        bench.wait(lambda own=grant: len(bench.exits(own)) == len(own.nodes), "it has ended")
        assert set(bench.exits(grant)) == {"ended"}, files.read_json(grant.folder / files.exit_file(0))
        assert len(json.loads((grant.folder / "lines0").read_text())["CUDA_VISIBLE_DEVICES"].split(",")) == 1
        bench.wait_ended(engine, grant)


@needs_slurm
def test_errors_with_other_causes_do_not_refuse_options(cluster: SlurmCluster) -> None:
    """A drained node takes no lease, whatever the options."""
    for name in cluster.nodes:
        cluster.call("scontrol", "update", f"nodename={name}", "state=drain", "reason=test")
    try:
        make_engine("slurm", "abc", {"time": "10"})
        with pytest.raises(InvalidOption, match="unrecognized option"):
            make_engine("slurm", "abc", {"nonsense": "10"})
    finally:
        for name in cluster.nodes:
            cluster.call("scontrol", "update", f"nodename={name}", "state=resume")
        cluster.wait_until_idle()


@pytest.mark.parametrize(
    "option",
    [
        *sorted(FIXED_OPTIONS.keys() - {"partition"}),
        "ntasks-per-socket",
        "gpus-per-node",
        "job_name",
        "nodel",
        "out",
        "part",
    ],
)
def test_options_that_hetopt_sets_are_refused(option: str, slurm: Fake) -> None:
    """In any notation: sbatch accepts prefixes too."""
    with pytest.raises(InvalidOption, match=f"^--engine-set {option}: this option of sbatch cannot be set; "):
        make_engine("slurm", "c", {option: "1"})
    assert not any(option.startswith(FIXED_PREFIXES) for option in FIXED_OPTIONS)


@pytest.mark.parametrize(
    "option",
    ["account", "constraint", "gres-flags", "licenses", "mail-user", "mem", "nice", "qos", "time", "time-min", "tmp"],
)
def test_other_options_are_passed_on(option: str, slurm: Fake, tmp_path: Path) -> None:
    engine = SlurmEngine("c", **{option.replace("-", "_"): "x"})
    engine.start(LeaseRecord("hetopt-c-1-0-1", tmp_path, (Seat("a", "v100", 0),)))
    (tried, _, _), (words, _, _) = slurm.calls("sbatch")
    assert tried[0] == "--test-only"
    assert f"--{option}=x" in words
    assert sum(word.startswith("--mem") for word in words) == 1


def test_options_with_the_same_meaning(slurm: Fake) -> None:
    with pytest.raises(InvalidOption, match="--engine-set mem_per_gpu: it is given twice"):
        make_engine("slurm", "c", {"mem-per-gpu": "1", "mem_per_gpu": "1"})
    with pytest.raises(InvalidOption, match="--engine-set cpus_per_gpu: it is given twice"):
        make_engine("slurm", "c", {"cpus-per-gpu": 1, "cpus_per_gpu": 1})
    with pytest.raises(InvalidOption, match="--engine-set cpus-per-gpu=two; it must be a whole number"):
        make_engine("slurm", "c", {"cpus-per-gpu": "two"})


# -- reservations


def reserve(slurm: Fake, *every: tuple[str, str, str]) -> None:
    """Reservations: their names, nodes and states."""
    line = "ReservationName={} StartTime=2026-11-23T06:53:28 EndTime=2026-11-23T07:53:28 Nodes={} State={}"
    slurm.prints(
        "scontrol-reservation", "\n".join(line.format(*one) for one in every) or "No reservations in the system"
    )
    for _, nodes, _ in every:
        slurm.prints(f"scontrol-{nodes}", nodes.replace(",", "\n"))


def test_reservations_are_checked(slurm: Fake, tmp_path: Path) -> None:
    reserve(slurm, ("one", "a", "ACTIVE"), ("none", "(null)", "ACTIVE"))
    with pytest.raises(InvalidOption, match=r"Slurm has no reservation 'two'; known: none, one"):
        SlurmEngine("c", reservation="two")
    with pytest.raises(InvalidOption, match=r"no node of partition 'gpu' in reservation 'none' has GPUs"):
        SlurmEngine("c", reservation="none")
    reserve(slurm, ("one", "a", "ACTIVE"), ("two", "a,b", "INACTIVE"))
    slurm.nodes(("a", "gpu:v100:4", {"state": "IDLE+RESERVED"}), ("b", "gpu:k80:2", {}), ("c", "gpu:k80:2", {}))
    engine = SlurmEngine("c", reservation="one,two")
    note = "RESERVED: reservation 'two' is from 2026-11-23T06:53:28 to 2026-11-23T07:53:28"
    assert [(node.name, node.up, node.note) for node in engine.nodes()] == [("a", True, ""), ("b", False, note)]
    reserve(slurm, ("one", "c", "ACTIVE"), ("two", "a,b", "INACTIVE"))
    slurm.prints("sbatch", error="sbatch: error: Requested node configuration is not available", code=1)
    with pytest.raises(EngineDown, match="is not available; the partition or reservation was changed"):
        engine.start(LeaseRecord("hetopt-c-1-0-1", tmp_path, (Seat("a", "v100", 0),)))
    reserve(slurm)
    over = {
        name: f"RESERVED: reservation {which!r} is over" for name, which in {"a": "two", "b": "two", "c": "one"}.items()
    }
    assert {node.name: node.note for node in engine.nodes()} == over
    assert not any(node.up for node in engine.nodes())
    with pytest.raises(EngineDown, match="is not available; the partition or reservation was changed"):
        engine.start(LeaseRecord("hetopt-c-1-0-1", tmp_path, (Seat("a", "v100", 0),)))
    assert not SlurmEngine("c").nodes()[0].up, "reserved for others"
