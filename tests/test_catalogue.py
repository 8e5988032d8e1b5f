"""Catalogues of trained models: numbers are those of their sources, and models are found by their GPUs."""

from __future__ import annotations

import csv
import gzip
import pickle
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from hetopt import Cluster, HetoptError, InvalidInstance, InvalidOption, UnknownName, instances
from hetopt.data.packing import Packing, packing_table
from hetopt.errors import UnusableFile
from hetopt.traces.catalogue import Catalogue, TrainedModel, read_catalogue, write_catalogue
from hetopt.traces.fft_generator import FAMILIES
from hetopt.traces.gavel_generator import JOB_TYPES, ON_SEVERAL_GPUS
from hetopt.traces.gavel_packings import MEDIANS, TYPES
from hetopt.traces.paper_models import CATALOGUES, FFT, GAVEL, LAMBDA, OEF, STATE, find_catalogue

DATA = Path(__file__).parents[2] / "shared" / "data"


def rows(*path: str) -> list[dict[str, str]]:
    file = DATA.joinpath(*path)
    if not file.exists():
        pytest.skip(f"{path[-1]} is not beside this checkout")
    return list(csv.DictReader(file.read_text().splitlines()))


def measured(source: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for line in rows("throughput", "gpu_speedups.csv"):
        if line["source"].startswith(source):
            found.setdefault(line["model"], {line["base_gpu"]: 1.0})[line["gpu"]] = float(line["speedup"])
    return found


# Where the numbers come from


def test_gavels_speeds_are_the_measured_medians() -> None:
    table = measured("gavel")
    assert len(table) == 7
    for name, model in GAVEL.items():
        assert dict(model.speed) == {t: table[name.partition(" (")[0]][t] for t in GAVEL.types}


def test_gavels_packings_are_the_measured_medians() -> None:
    """By plain loops: a median over the pairs of batch sizes that ran, where more than half of them did."""
    alone = {
        (row["job_type"], gpu): float(row[gpu])
        for row in rows("throughput", "gavel_throughputs.csv")
        if row["scale_factor"] == "1"
        for gpu in ("k80", "p100", "v100")
    }
    parts: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    with gzip.open(DATA / "throughput" / "gavel_colocated.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            types = row["job_type_1"], row["job_type_2"]
            if row["scale_factor_1"] == row["scale_factor_2"] == "1" and (types[0], row["gpu"]) in alone:
                one, other = (float(row[f"steps_per_s_{i}"]) / alone[types[i - 1], row["gpu"]] for i in (1, 2))
                networks = [name.partition(" (")[0] for name in types]
                parts.setdefault((*networks, row["gpu"].upper()), []).append((one, other))  # type: ignore[arg-type]
            elif row["scale_factor_1"] != "1":
                assert row["steps_per_s_1"] == row["steps_per_s_2"] == "0.0"
    expected = {}
    for (first, second, gpu), own in parts.items():
        ran = [pair for pair in own if min(pair) > 0]
        if len(ran) > len(own) / 2:
            expected[first, second, gpu] = tuple(round(median(column), 2) for column in zip(*ran, strict=True))
    found = {
        (*key, gpu): own
        for (first, second), measured in MEDIANS.items()
        for gpu, pair in zip(TYPES, measured, strict=True)
        if pair is not None
        for key, own in (((first, second), pair), ((second, first), pair[::-1]))
    }
    assert found == expected


def test_packings_of_catalogues_are_those_of_their_networks() -> None:
    table = packing_table(GAVEL.packings, GAVEL.types)
    assert len(GAVEL.packings) == 26 * 27 // 2
    assert table["LM (batch size 5)", "ResNet-18 (batch size 16)", 1].parts["V100"] == (0.71, 1.0)
    assert "K80" not in table["ResNet-50 (batch size 16)", "CycleGAN", 1].parts
    assert packing_table(CATALOGUES["hadar"].packings, GAVEL.types)["LM", "ResNet-18", 1].parts["V100"] == (0.71, 1.0)
    models = ["LM (batch size 5)", "CycleGAN", "ResNet-50 (batch size 16)"]
    few = GAVEL.packings_of(models, ["K80"])
    assert {one.models for one in few} <= {(a, b) for a in models for b in models}
    assert len(few) == 4  # without the two of ResNet-50 that did not run on K80
    assert {t for one in few for t in one.parts} == {"K80"}
    with refused(InvalidInstance, "packings", "'BERT'"):
        Catalogue("c", GAVEL.models, packings=(Packing(("BERT", "LM (batch size 5)"), {"K80": (1, 1)}),))


def test_ffts_measured_speeds_are_derived_as_those_of_lab36() -> None:
    """V100/T4 = V100 / (RTX6000 / 2), A10/T4 = (5/6 A40) / (RTX6000 / 2)."""
    table = measured("zeus")
    for model, name in (("ResNet-50", "imagenet / resnet50"), ("BERT-base", "squad / bert_base_uncased")):
        own = table[name]
        t4 = own["QuadroRTX6000"] / 2
        assert FFT[model].speed["A10"] == round(own["A40"] * 5 / 6 / t4, 2)
        assert FFT[model].speed["V100"] == round(own["V100"] / t4, 2)
    lab = {tenant.name: dict(tenant.job_types[0].speedup) for tenant in instances.load("lab36").tenants}
    for model, tenant in (("ResNet-50", "vision"), ("BERT-base", "language"), ("OPT-6.7B", "foundation")):
        assert dict(FFT[model].speed) == lab[tenant]


def test_ffts_assumed_speeds_are_the_vendors_ratios() -> None:
    bandwidth, peak = {"T4": 320, "A10": 600, "V100": 900}, {"T4": 65, "A10": 125, "V100": 125}
    for model, known in (("DenseNet-121", bandwidth), ("GPT-2-large", peak), ("Bark-small", peak)):
        assert {t: abs(v - known[t] / known["T4"]) < 0.01 for t, v in FFT[model].speed.items()} == dict.fromkeys(
            known, True
        )
    for model in ("ResNet-50", "VGG-16", "GPT-neo-1.3B", "OPT-6.7B"):  # J1 to J4 of Fig. 1(a), or their families
        assert all(1.6 <= v <= 2.71 for t, v in FFT[model].speed.items() if t != "T4"), "the range of FFT, Fig. 1(a)"


def test_lambdas_speeds_are_ratios_of_the_measured_throughputs() -> None:
    """Of one A10, one A100 80GB SXM4, and the median of H100 80GB SXM5, in half precision."""
    throughputs = {
        "ResNet-50": (638, 1582, 2786),
        "BERT-base": (135, 443, 868.5),
        "BERT-large": (42, 152, 308),
        "GNMT": (67836, 243500, 479154),
        "NCF": (15343208, 30787381, 70238711.5),
        "Transformer-XL-base": (16283, 43078, 62259),
        "Transformer-XL-large": (5614, 17918, 30841),
    }
    assert set(LAMBDA) == set(throughputs)
    for name, (a10, a100, h100) in throughputs.items():
        speed = LAMBDA[name].speed
        assert (speed["A10"], speed["A100-SXM4-80GB"], speed["H100"]) == (1, round(a100 / a10, 2), round(h100 / a10, 2))
        assert speed["A10"] == speed["GPU-series-1"], "and the others are assumed to be as fast"
        assert speed["A100-SXM4-80GB"] == speed["A800-SXM4-80GB"] == speed["GPU-series-2"]
        assert speed["H100"] == speed["H800"]
    assert LAMBDA.reference == "A100-SXM4-80GB"


def test_oefs_speeds_are_those_of_its_testbed() -> None:
    testbed = {t.name: dict(t.job_types[0].speedup) for t in instances.load("oef/testbed").tenants}
    assert {name: dict(model.speed) for name, model in OEF.items()} == testbed


def test_states_have_16_bytes_for_each_published_parameter() -> None:
    known = {
        line["model"]: float(line["params"]) for line in rows("overheads", "model_state_sizes.csv") if line["params"]
    }
    for name, model in FFT.items():
        if name in known:
            assert model.state_bytes == pytest.approx(16 * known[name])
    assert {name for name in FFT if name not in known} == {"Bark-normal", "Bark-small"}
    assert FFT["OPT-6.7B"].state_bytes == pytest.approx(107.2e9)  # FFT, Fig. 1(b)
    assert FFT["Bark-normal"].state_bytes == 3 * 300e6 * STATE
    for own, other in (("VGG", "VGG-16"), ("ResNet", "ResNet-50"), ("DenseNet", "DenseNet-121")):
        assert OEF[own].state_bytes == pytest.approx(16 * known[other])


def test_language_models_have_the_parameters_of_their_layers() -> None:
    """Embedding and decoder of 33,278 words and 200 numbers, and two layers of 200."""
    words, n = 33_278, 200
    ends = words * n + words * n + words
    layers = {
        "LSTM": 4 * (n * n + n * n + 2 * n),
        "RNN": n * n + n * n + 2 * n,
        "Transformer": 4 * n * n + 4 * n + (n * n + n) + (n * n + n) + 4 * n,  # attention, two layers, two norms
    }
    for name, parameters in layers.items():
        assert OEF[name].state_bytes / STATE / 1e6 == pytest.approx(round((ends + 2 * parameters) / 1e6, 2))
    assert GAVEL["LM (batch size 5)"].state_bytes == OEF["LSTM"].state_bytes


def test_models_are_those_of_the_papers() -> None:
    assert {name: model.gpus for name, model in FFT.items()} == {m: f.workers for f in FAMILIES for m in f.models}
    assert set(GAVEL) == set(JOB_TYPES)
    assert {name for name, model in GAVEL.items() if max(model.gpus) > 1} == ON_SEVERAL_GPUS
    assert (FFT.reference, GAVEL.reference, OEF.reference) == ("T4", "V100", "RTX3070")
    for known in CATALOGUES.values():
        assert all(model.speed[known.types[0]] == 1 for model in known.values())
        assert find_catalogue(known.name) is known


def test_which_types_can_hold_a_model() -> None:
    """Bark-normal has 14.4 GB of state alone; T4 and V100 have 16 GB, and 18.4 GB are needed."""
    lab = instances.load("lab36").cluster
    assert {name: model.fitting_types(lab) for name, model in FFT.items()} == {
        name: ("A10",) if name == "Bark-normal" else ("T4", "A10", "V100") for name in FFT
    }
    bare = Cluster.of({"T4": 4, "A10": 0, "H100": 2})
    assert FFT["Bark-normal"].fitting_types(bare) == ("T4",), "unknown memory is enough; H100's speed is not known"
    for name, model in FFT.items():  # what the comment says: state over the smallest gang, and 4 to 8 GB
        if name != "OPT-6.7B":
            gang = min(model.gpus) if model.parallelism == "tensor" else 1
            assert 3.9e9 <= model.memory_bytes - model.state_bytes / gang <= 8.3e9, name


def test_the_cluster_for_simulations_is_three_laboratories() -> None:
    one, three = (instances.load(name).cluster for name in ("lab36", "lab108"))
    assert dict(three.capacity) == {t: 3 * n for t, n in one.capacity.items()} == dict.fromkeys(FFT.types, 36)
    assert three.gpu_types == one.gpu_types
    assert {(tuple(s.gpus.values()), s.nic_bytes_per_s) for s in three.servers} == {((4,), 1.25e9)}


def test_the_cluster_of_2026_has_a_seventy_second_of_the_counted_servers() -> None:
    """Rounded; one server of the smallest kind, so that its type exists."""
    counted: Counter[tuple[str, int]] = Counter()
    for line in rows("cluster", "alibaba_spot_2026_nodes.csv"):
        counted[line["gpu_model"], int(line["gpus_per_node"])] += int(line["nodes"])
    cluster = instances.load("alibaba-spot-2026").cluster
    made = Counter(kind for server in cluster.servers for kind in server.gpus.items())
    assert made.pop(("A800-SXM4-80GB", 8)) == 1
    assert counted.pop(("A800-SXM4-80GB", 8)) == 22
    assert made == Counter({kind: round(n / 72) for kind, n in counted.items() if round(n / 72)})
    assert set(cluster.type_names) <= set(LAMBDA.types)


# Finding models by GPUs


@st.composite
def catalogues(draw: st.DrawFn) -> Catalogue:
    sizes = draw(st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=3), min_size=1, max_size=5))
    return Catalogue("c", tuple(TrainedModel(f"m{i}", {"A": 1.0}, gpus=tuple(own)) for i, own in enumerate(sizes)))


@given(catalogues(), st.integers(1, 200))
def test_models_are_those_of_the_nearest_number_of_gpus(known: Catalogue, gpus: int) -> None:
    """The ratio of each found model's nearest number is the least that there is; all with that number are found."""
    found = known.trained_on(gpus)
    assert found
    several = gpus > 1 and any(n > 1 for m in known.models for n in m.gpus)
    there = sorted({n for m in known.models for n in m.gpus if n > 1 or not several})
    ratio = {n: max(Fraction(n, gpus), Fraction(gpus, n)) for n in there}
    near = next(n for n in there if ratio[n] == min(ratio.values()))
    assert found == tuple(m.name for m in known.models if near in m.gpus)
    if gpus in there:
        assert near == gpus


def test_models_of_a_few_numbers_of_gpus() -> None:
    assert set(FFT.trained_on(1)) == {m for f in FAMILIES for m in f.models if 1 in f.workers}
    assert set(FFT.trained_on(6)) == set(FFT.trained_on(8)) == {m for f in FAMILIES for m in f.models if 8 in f.workers}
    assert FFT.trained_on(128) == FFT.trained_on(8)
    assert FFT.trained_on(1, ["VGG-16", "OPT-2.7B"]) == ("VGG-16",)
    assert FFT.trained_on(1, []) == ()
    lonely = Catalogue("c", (TrainedModel("a", {"A": 1.0}), TrainedModel("b", {"A": 1.0}, gpus=(8,))))
    assert lonely.trained_on(2) == ("b",), "one that trains on several is nearer than one that does not"


# As mappings, and what is wrong


def test_a_catalogue_is_a_mapping_that_survives_pickling() -> None:
    assert len(FFT) == 16
    assert "VGG-16" in FFT
    assert "VGG-11" not in FFT
    again = pickle.loads(pickle.dumps(FFT))
    assert dict(again) == dict(FFT)
    assert again.reference == "T4"
    with pytest.raises(UnknownName, match="there is no model 'VGG-11' in 'fft'; did you mean 'VGG-1"):
        FFT["VGG-11"]
    with pytest.raises(UnknownName, match="there is no catalogue 'ftf'; did you mean 'fft'"):
        find_catalogue("ftf")


A = TrainedModel("a", {"T4": 1.0})
WRONG: list[tuple[Any, str]] = [
    (lambda: TrainedModel("", {"T4": 1.0}), "model name", None),
    (lambda: TrainedModel("a", {"T4": 0.0}), "models['a'].speed", None),
    (lambda: TrainedModel("a", {"T4": -1.0}), "models['a'].speed['T4']", None),
    (lambda: TrainedModel("a", 5), "models['a'].speed", None),  # type: ignore[arg-type]
    (lambda: TrainedModel("a", {"T4": 1.0}, memory_bytes=-1), "models['a'].memory_bytes", None),
    (lambda: TrainedModel("a", {"T4": 1.0}, dataset=""), "models['a'].dataset", None),
    (lambda: TrainedModel("a", {"T4": 1.0}, parallelism="expert"), "models['a'].parallelism", None),  # type: ignore[arg-type]
    (lambda: TrainedModel("a", {"T4": 1.0}, gpus=()), "models['a'].gpus", None),
    (lambda: TrainedModel("a", {"T4": 1.0}, gpus=(0,)), "models['a'].gpus", None),
    (lambda: Catalogue("c", ()), "models", "at least one model"),
    (lambda: Catalogue("c", (A, A)), None, "model 'a' occurs twice"),
    (lambda: Catalogue("c", (A, TrainedModel("b", {"V100": 1.0}))), "models['b'].speed", None),
    (lambda: Catalogue("c", (A,), "V100"), "reference", None),
    (lambda: Catalogue("c", (5,)), "models[0]", None),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "key", "match"), WRONG)
def test_errors_name_what_is_wrong(make: Any, key: str | None, match: str | None) -> None:
    with refused(InvalidInstance, key, match) as problem:
        make()
    assert isinstance(problem.value, HetoptError)


# Files


@pytest.mark.parametrize("known", CATALOGUES.values(), ids=CATALOGUES)
def test_catalogues_come_back_from_files(known: Catalogue, tmp_path: Path) -> None:
    write_catalogue(known, tmp_path / f"{known.name}.csv")
    found = find_catalogue(str(tmp_path / f"{known.name}.csv"))
    assert (found.name, found.reference, set(found.types)) == (known.name, known.reference, set(known.types))
    assert found.models == tuple(replace(model, goodput=None) for model in known.models)
    with pytest.raises(UnusableFile, match="exists already"):
        write_catalogue(known, tmp_path / f"{known.name}.csv")


def test_a_catalogue_by_hand(tmp_path: Path) -> None:
    file = tmp_path / "new.csv"
    file.write_text("model,gpus,L40S,H100,memory_bytes\nllm,4+8,,4.1,60e9\nseg,,1,2.3,\n", encoding="utf-8")
    found = read_catalogue(file)
    assert found.reference == "L40S"
    assert found["llm"] == TrainedModel("llm", {"L40S": 0.0, "H100": 4.1}, 60e9, gpus=(4, 8))
    assert found["seg"] == TrainedModel("seg", {"L40S": 1.0, "H100": 2.3})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,T4\na,1\n", "has no column model"),
        ("model,gpus\na,1\n", "has no column of a GPU type"),
        ("model,T4\n", "has no row"),
        ("model,T4\na,1\na,2\n", ":3: model is 'a'; it must be unlike"),
        ("model,T4\na,fast\n", ":2: T4 is 'fast'; it must be a finite number >= 0, or empty"),
        ("model,T4,A10\na,1,2\nb,0,\n", ":3: T4 is '0'; it must be > 0, unless the speed of another GPU type is"),
        ("model,T4,gpus\na,1,1+x\n", r":2: gpus is '1\+x'; it must be numbers of GPUs joined by \+"),
        ("model,T4,memory_bytes\na,1,-5\n", ":2: memory_bytes is '-5'"),
        ("model,T4,parallelism\na,1,both\n", ":2: parallelism is 'both'; it must be one of data"),
    ],
)
def test_errors_in_a_file_name_its_line(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInstance, match=f"bad.csv.*{message}"):
        read_catalogue(file)


def test_catalogues_by_name(tmp_path: Path) -> None:
    assert find_catalogue("hetopt.traces.paper_models:OEF") is OEF
    with pytest.raises(InvalidOption, match="which is not a hetopt Catalogue"):
        find_catalogue("hetopt.traces.paper_models:STATE")
    with pytest.raises(UnknownName, match="cannot be loaded"):
        find_catalogue("hetopt.traces.paper_models:NO_CATALOGUE")
    with pytest.raises(UnusableFile, match=r"absent\.csv"):
        find_catalogue(str(tmp_path / "absent.csv"))
