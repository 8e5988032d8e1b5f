"""Batch sizes that change by the rules of Shockwave's public code, and their way from a trace to jobs."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from hetopt import Cluster, InvalidInstance, TrainingPhase
from hetopt.traces.batch_sizes import DOUBLED, LARGEST, SAMPLES, adapted, batch_sizes, phases_of, phases_text
from hetopt.traces.catalogue import Catalogue, TrainedModel
from hetopt.traces.conversion import to_instance
from hetopt.traces.gavel_reader import read_gavel
from hetopt.traces.plain_files import read_plain, write_plain


@pytest.mark.parametrize(
    ("mode", "model", "size", "gpus", "epochs", "parts"),
    [
        ("static", "ResNet-18", 32, 1, 90, [(90, 32)]),
        ("gns", "ResNet-18", 32, 4, 100, [(21, 32), (10, 64), (30, 128), (39, 256)]),
        ("gns", "ResNet-18", 32, 4, 30, [(21, 32), (9, 64)]),
        ("gns", "ResNet-18", 32, 8, 100, [(100, 32)]),
        ("gns", "Transformer", 32, 1, 100, [(100, 32)]),
        ("accordion", "Transformer", 32, 1, 100, [(100, 32)]),
        ("accordion", "LM", 10, 1, 60, [(19, 10), (41, 80)]),  # epochs 0 to 18 are at most 30 % of 60
        ("accordion", "LM", 10, 1, 20, [(10, 10), (10, 80)]),
        ("accordion", "ResNet-50", 64, 1, 100, [(40, 64), (20, 128), (10, 64), (20, 128), (10, 64)]),
        ("accordion", "ResNet-18", 16, 2, 300, [(91, 16), (59, 256), (10, 16), (90, 256), (10, 16), (40, 256)]),
        ("accordion", "ResNet-18", 256, 1, 90, [(90, 256)]),
        ("accordion", "Recommendation", 4096, 1, 90, [(28, 4096), (32, 8192), (10, 4096), (10, 8192), (10, 4096)]),
    ],
)
def test_batch_sizes_by_hand(
    mode: str, model: str, size: int, gpus: int, epochs: int, parts: list[tuple[int, int]]
) -> None:
    assert batch_sizes(mode, model, size, gpus, epochs) == parts


@given(st.sampled_from(sorted(DOUBLED)), st.integers(1, 300), st.sampled_from(["gns", "accordion", "static"]))
def test_batch_sizes_fill_the_epochs_and_stay_within_the_largest(
    key: tuple[str, int, int], epochs: int, mode: str
) -> None:
    model, size, gpus = key
    parts = batch_sizes(mode, model, size, gpus, epochs)
    assert sum(number for number, _ in parts) == epochs
    assert all(size <= own <= LARGEST[model] for _, own in parts)
    assert parts[0][1] == size
    if mode == "gns":
        assert [own for _, own in parts] == [size * 2**i for i in range(len(parts))]


def test_doubled_sizes_end_at_the_largest() -> None:
    for (model, size, _), starts in DOUBLED.items():
        assert size * 2 ** len(starts) == LARGEST[model]
        assert list(starts) == sorted(starts)
    assert set(LARGEST) < set(SAMPLES)


def test_seconds_of_an_epoch_are_its_steps_over_the_speed() -> None:
    """CIFAR-10 has 50,000 samples: 1563 steps of 32 and 782 of 64. A batch size without a speed is not taken."""
    speed = {32: 50.0, 64: 40.0, 256: 10.0}
    phases = TrainingPhase(21, 32, 1563 / 50.0), TrainingPhase(19, 64, 782 / 40.0)
    assert adapted("gns", "ResNet-18", 32, 1, 40 * 1563 - 1, speed) == phases
    assert adapted("gns", "ResNet-18", 32, 1, 21 * 1563, speed) == ()
    assert adapted("gns", "ResNet-18", 16, 1, 21 * 3125, speed) == ()
    assert adapted("gns", "VGG", 32, 1, 100, speed) == ()


@given(st.lists(st.builds(TrainingPhase, st.integers(0, 99), st.integers(1, 99), st.floats(0.001, 1e6)), max_size=5))
def test_cells_lose_nothing(phases: list[TrainingPhase]) -> None:
    assert phases_of(phases_text(phases)) == tuple(phases)


@pytest.mark.parametrize("cell", ["3", "3x4", "3x4@", "3x4@0", "3x0@1", "ax4@1", "3x4@1 5", "1.5x4@1", "3x4@nan"])
def test_other_cells_are_refused(cell: str) -> None:
    with refused(InvalidInstance, "phases"):
        phases_of(cell)


ROW = ["python3", "cifar10", "--num_steps", "1"]
SPEEDS = pd.DataFrame(
    {
        "job_type": [f"ResNet-18 (batch size {size})" for size in (32, 64, 128)],
        "scale_factor": 1,
        "v100": [50.0, 40.0, 25.0],
    }
)
CATALOGUE = Catalogue("of one model", (TrainedModel("ResNet-18 (batch size 32)", {"V100": 1.0, "K80": 0.25}),))


def trace(tmp_path: Path) -> Path:
    """A job that grows, one that does not, and one with another batch size."""
    jobs = [("gns", "62520", "32"), ("static", "62520", "32"), ("gns", "62520", "64")]
    lines = [
        "\t".join([f"ResNet-18 (batch size {size})", *ROW, steps, "1", mode, "1", "-1.0", "1", str(10 * i)])
        for i, (mode, steps, size) in enumerate(jobs)
    ]
    path = tmp_path / "growing.trace"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_trace_with_modes_and_throughputs_has_phases(tmp_path: Path) -> None:
    table = read_gavel(trace(tmp_path), throughputs=SPEEDS)
    assert table["phases"].tolist() == ["21x32@31.26 10x64@19.55 9x128@15.64", "", "11x64@19.55 69x128@15.64"]
    assert table["duration"].tolist() == pytest.approx([992.72, 62520 / 50.0, 11 * 19.55 + 69 * 15.64])
    assert "phases" not in read_gavel(trace(tmp_path))
    write_plain(table, tmp_path / "plain.csv")
    assert read_plain(tmp_path / "plain.csv")["phases"].tolist() == table["phases"].tolist()


def test_jobs_of_an_instance_have_the_phases_of_the_trace(tmp_path: Path) -> None:
    """Their work is in seconds; a gang that is cut takes longer, and so does each of its epochs."""
    table = read_gavel(trace(tmp_path), throughputs=SPEEDS).head(2)
    jobs = to_instance(table, Cluster.of({"V100": 4, "K80": 4}), CATALOGUE).jobs
    assert [(p.epochs, p.batch_size, p.epoch_work) for p in jobs[0].phases] == [
        (21, 32, pytest.approx(31.26)),
        (10, 64, pytest.approx(19.55)),
        (9, 128, pytest.approx(15.64)),
    ]
    assert (jobs[0].work, dict(jobs[0].throughput)) == (pytest.approx(992.72), {"V100": 1.0, "K80": 0.25})
    assert (jobs[1].phases, jobs[1].work, jobs[1].throughput["V100"]) == ((), 62520, pytest.approx(50.0))
    cut = to_instance(table.assign(gpus=[4, 4]), Cluster.of({"V100": 2}), CATALOGUE, too_large="cut").jobs[0]
    assert cut.work == pytest.approx(2 * 992.72)
    assert cut.phases[0].epoch_work == pytest.approx(2 * 31.26)
    with refused(InvalidInstance, "jobs['j0'].phases", line=1, table="trace"):
        to_instance(table.assign(phases=["3", ""]), Cluster.of({"V100": 4, "K80": 4}), CATALOGUE)
