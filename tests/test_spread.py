"""What gangs lose over several servers: whose numbers stand for which models, and where they come from."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from statistics import median

import pytest

from hetopt import InvalidOption, Job
from hetopt.experiments.environment_settings import EnvironmentSettings
from hetopt.stages.speed_models import FAMILIES, MEASURED, Spread
from hetopt.traces.paper_models import FFT, OEF

DATA = Path(__file__).parents[2] / "shared" / "data"


def factor(model: str, gpus: int, servers: int, spread: Spread | None = None) -> float:
    return (spread or Spread()).factor(Job("j", {"G": 1.0}, 1.0, gpus, model=model), servers)


def test_families_are_models_of_the_catalogues() -> None:
    assert set(FAMILIES) <= {*FFT, *OEF}
    assert set(FAMILIES.values()) <= set(MEASURED)
    several = {name for catalogue in (FFT, OEF) for name, model in catalogue.items() if max(model.gpus) > 1}
    unknown = several - {*FAMILIES, *MEASURED}
    assert all(name.startswith(("GPT", "OPT")) for name in unknown)


def test_a_model_of_a_family_is_as_slow_as_its_row() -> None:
    """4 GPUs on 2 servers: VGG-19 as VGG-16, all ResNets and DenseNets as ResNet-101, GPT without a measurement."""
    assert [factor(m, 4, 2) for m in ("VGG-16", "VGG-19", "VGG", "vgg16")] == [0.576] * 4
    assert [factor(m, 4, 2) for m in ("ResNet-50", "ResNet-152", "DenseNet-121")] == [0.969] * 3
    assert [factor(m, 2, 2) for m in ("LSTM", "RNN", "LM")] == [0.230] * 3
    assert factor("Transformer", 4, 4) == 0.549
    assert factor("OPT-6.7B", 8, 2) == 1.0
    assert factor("OPT-6.7B", 8, 2, Spread(otherwise=0.5)) == 0.5
    assert factor("VGG-16", 4, 1) == 1.0


def test_a_table_of_ones_own_has_the_families_that_it_knows() -> None:
    own = Spread({"vgg16": {2: {2: 0.5}}, "net": {2: {2: 0.25}}})
    assert [factor(m, 2, 2, own) for m in ("VGG-19", "net", "ResNet-50")] == [0.5, 0.25, 1.0]
    assert factor("VGG-19", 2, 2, Spread(families={})) == 1.0
    with pytest.raises(InvalidOption, match=r"Spread\.families is 3"):
        Spread(families=3)  # type: ignore[arg-type]


def test_environment_settings_slow_down_the_models_of_the_catalogues() -> None:
    from hetopt import Cluster

    speeds = (
        EnvironmentSettings(spread=True, spread_otherwise=0.5).build(Cluster.of({"G": 8}, gpus_per_server=4), 0).speeds
    )
    assert isinstance(speeds, Spread)
    assert [factor(m, 4, 2, speeds) for m in ("VGG-16", "GPT-2-large")] == [0.576, 0.5]
    with pytest.raises(InvalidOption, match=r"spread_otherwise is 0\.5, and spread is false"):
        EnvironmentSettings(spread_otherwise=0.5)


def test_rows_are_what_was_measured() -> None:
    """Chronus' table with three digits, and medians over batch sizes of Gavel's on V100."""
    if not DATA.exists():
        pytest.skip("the published measurements are not here")
    measured = json.loads((DATA / "overheads" / "chronus_placement_slowdown.json").read_text())
    for name in ("alexnet", "vgg16", "resnet101", "mobilenet_v2", "inception_v3"):
        for gpus, rows in MEASURED[name].items():
            for servers, value in rows.items():
                published = float(measured[name][str(gpus)][str(servers)])
                assert value == min(1.0, round(published, 3))
    rows_of = list(csv.DictReader((DATA / "throughput" / "gavel_throughputs.csv").read_text().splitlines()))
    for name in ("LM", "Transformer"):
        for gpus, rows in MEASURED[name].items():
            own = [row for row in rows_of if row["model"] == name and int(row["scale_factor"]) == gpus]
            assert rows == {gpus: round(median(float(r["v100_unconsolidated"]) / float(r["v100"]) for r in own), 3)}
