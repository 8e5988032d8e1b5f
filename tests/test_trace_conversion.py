"""From a trace's table to an instance: by hand, by a plain loop, and for any table, cluster and catalogue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

from hetopt import Cluster, HetoptError, Instance, InvalidInstance, InvalidOption, Parallelism, instances
from hetopt.traces.catalogue import Catalogue, TrainedModel
from hetopt.traces.conversion import drop_unknown_models, to_instance, with_models
from hetopt.traces.paper_models import FFT, GAVEL
from hetopt.traces.philly_generator import PhillyBatches

SMALL = Catalogue(
    "small",
    (
        TrainedModel("light", {"T4": 1.0, "V100": 4.0}, 1e9, 3e8, "photos", 5e9, gpus=(1, 2)),
        TrainedModel("heavy", {"T4": 1.0, "V100": 2.0}, 20e9, 9e9, gpus=(4,), parallelism=Parallelism.TENSOR),
    ),
)
LAB = Cluster.of({"T4": 8, "V100": 4}, gpus_per_server=4, memory_bytes={"T4": 16e9, "V100": 32e9})
TABLE = pd.DataFrame(
    {
        "job": ["a", "b", "c", "d", "e"],
        "arrival": [0.0, 10.0, 20.0, 30.0, 40.0],
        "duration": [100.0, 200.0, 300.0, 400.0, 500.0],
        "gpus": [1, 8, 4, 8, 9],
        "model": ["light", "light", "heavy", "heavy", "light"],
        "tenant": ["x", "y", "x", "y", "y"],
        "user": ["u", "", "v", None, "w"],
        "group": ["g", "g", None, "", "h"],
        "iterations": [np.nan, 50.0, np.nan, np.nan, np.nan],
    }
)
"""Of nine GPUs there are none of one type; of eight that hold ``heavy`` neither, since T4 has too little memory."""


# By hand


def test_jobs_are_what_the_rows_and_the_models_say() -> None:
    made = to_instance(TABLE, LAB, SMALL, name="t", source="Made up.")
    assert [job.name for job in made.jobs] == ["a", "b", "c"]
    a, b, c = made.jobs
    assert (a.work, a.demand, a.arrival, a.tenant, a.group) == (100, 1, 0, "u", "g")
    assert dict(a.throughput) == {"T4": 1, "V100": 4}
    assert (a.memory_bytes, a.checkpoint_bytes, a.dataset, a.dataset_bytes) == (1e9, 3e8, "photos", 5e9)
    assert (a.model, a.job_type, a.parallelism) == ("light", None, Parallelism.DATA)
    assert (b.work, dict(b.throughput)) == (50, {"T4": 0.25, "V100": 1.0}), "50 iterations in 200 seconds on T4"
    assert (b.demand, b.tenant) == (8, "y"), "its user is not known"
    assert (c.work, dict(c.throughput), c.group) == (300, {"T4": 1, "V100": 2}, None)
    assert (c.dataset, c.parallelism) == (None, Parallelism.TENSOR)
    assert (made.name, made.tenants) == ("t", ())
    assert made.source == (
        "Made up. 3 of 5 jobs of a trace; models and speeds: catalogue 'small', durations on T4. "
        "Of them 2 request more GPUs than any type has that can train their model (dropped)."
    )


def test_gangs_may_be_cut_and_then_take_longer() -> None:
    made = to_instance(TABLE, LAB, SMALL, too_large="cut")
    d, e = made.jobs[3:]
    assert (d.demand, d.work) == (4, 800)
    assert (e.demand, e.work) == (8, 562.5)
    assert "Of them 2 request more GPUs" in made.source
    assert "(cut to as many GPUs as there are, so that they take longer)" in made.source


def test_a_reference_is_where_durations_count() -> None:
    a, b, c = to_instance(TABLE, LAB, SMALL, reference="V100").jobs
    assert (a.work, dict(a.throughput)) == (100, {"T4": 0.25, "V100": 1})
    assert (b.work, dict(b.throughput)) == (50, {"T4": 0.0625, "V100": 0.25})
    assert dict(c.throughput) == {"T4": 0.5, "V100": 1}
    alone = Cluster.of({"V100": 8})
    assert dict(to_instance(TABLE, alone, SMALL).jobs[0].throughput) == {"V100": 4}, "T4 counts, though there is none"


def test_durations_may_refer_to_the_type_of_each_row() -> None:
    """On its own type a job takes its duration; elsewhere in proportion to the speeds of its model."""
    table = TABLE.head(3).assign(gpu_type=["V100", "T4", "V100"])
    a, b, c = to_instance(table, LAB, SMALL, reference="recorded").jobs
    assert (a.work, dict(a.throughput)) == (400, {"T4": 1, "V100": 4}), "100 s on V100, 400 s on T4"
    assert (b.work, dict(b.throughput)) == (50, {"T4": 0.25, "V100": 1.0}), "50 iterations in 200 s on T4"
    assert (c.work, dict(c.throughput)) == (600, {"T4": 1, "V100": 2})
    other = table.assign(gpu_type=["V100", "K80", ""])
    made = to_instance(other, LAB, SMALL, reference="recorded", name="t")
    assert [job.name for job in made.jobs] == ["a"]
    assert made.source == (
        "1 of 3 jobs of a trace; models and speeds: catalogue 'small', durations on the GPU type of each row. "
        "Of them 2 ran on a GPU type whose speed is not in the catalogue (dropped)."
    )
    with refused(InvalidInstance, None, "or ran on GPU types whose speed is not in the catalogue"):
        to_instance(table.assign(gpu_type="K80"), LAB, SMALL, reference="recorded")
    with refused(InvalidInstance, None, "has no column gpu_type"):
        to_instance(TABLE, LAB, SMALL, reference="recorded")
    alone = Catalogue("c", (TrainedModel("light", {"T4": 1.0, "V100": 0.0}), SMALL["heavy"]))
    with refused(InvalidInstance, "jobs['a'].model", "a model that runs on its gpu_type"):
        to_instance(table, LAB, alone, reference="recorded")
    drawn = with_models(table.drop(columns="model"), alone, reference="recorded")
    assert set(drawn["model"]) == {"heavy"}, "the other does not run on V100, where some jobs ran"


def test_classes_of_jobs_have_weights() -> None:
    table = TABLE.head(3).assign(job_class=["HP", "Spot", None])
    assert [job.weight for job in to_instance(table, LAB, SMALL, weights={"HP": 4, "Spot": 0.5, "LP": 3}).jobs] == [
        4.0,
        0.5,
        1.0,
    ]
    assert [job.weight for job in to_instance(table, LAB, SMALL).jobs] == [1.0, 1.0, 1.0]
    with refused(InvalidInstance, "jobs['b'].job_class", "a class with a weight: HP, spot", table="trace", row=1):
        to_instance(table, LAB, SMALL, weights={"HP": 4, "spot": 1})
    with refused(InvalidOption, "weights['HP']"):
        to_instance(table, LAB, SMALL, weights={"HP": 0})
    with refused(InvalidOption, "weights"):
        to_instance(table, LAB, SMALL, weights=3)  # type: ignore[arg-type]
    with refused(InvalidInstance, None, "has no column job_class"):
        to_instance(TABLE, LAB, SMALL, weights={"HP": 4})


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        ("virtual clusters", {"x": ["light", "heavy"], "y": ["light"]}),
        ("models", {"light": ["light"], "heavy": ["heavy"]}),
    ],
)
def test_tenants_have_a_job_type_for_each_of_their_models(who: Any, expected: dict[str, list[str]]) -> None:
    made = to_instance(TABLE, LAB, SMALL, tenants=who)
    assert {t.name: [kind.name for kind in t.job_types] for t in made.tenants} == expected
    for job in made.jobs:
        assert job.job_type == job.model
        assert job.job_type in expected[str(job.tenant)]
    kinds = {kind.name: kind for t in made.tenants for kind in t.job_types}
    assert dict(kinds["light"].speedup) == {"T4": 1, "V100": 4}
    assert dict(kinds["heavy"].speedup) == {"T4": 0.5, "V100": 1}, "relative to V100, the slowest that has the memory"
    assert kinds["heavy"].memory_bytes == 20e9
    assert made.entities("tenants").speed.max() == 4


def test_users_are_tenants_where_every_row_has_one() -> None:
    table = TABLE.assign(user=["u", "v", "u", "v", "w"])
    assert [t.name for t in to_instance(table, LAB, SMALL, tenants="users").tenants] == ["u", "v"]
    with refused(InvalidInstance, "jobs['b'].user", table="trace", row=1):
        to_instance(TABLE, LAB, SMALL, tenants="users")


def test_models_that_no_type_can_hold_are_dropped() -> None:
    bare = Cluster.of({"T4": 8}, memory_bytes={"T4": 16e9})
    made = to_instance(TABLE, bare, SMALL, too_large="cut")
    assert [job.name for job in made.jobs] == ["a", "b", "e"]
    assert made.source.endswith("Of them 2 train a model that no GPU type can hold (dropped).")
    drawn = to_instance(TABLE.drop(columns="model"), bare, SMALL)
    assert {job.model for job in drawn.jobs} == {"light"}, "and never drawn"
    with pytest.raises(InvalidInstance, match="no job of the table fits the cluster"):
        to_instance(TABLE[TABLE["model"] == "heavy"], bare, SMALL)
    with pytest.raises(InvalidInstance, match="no model of 'small' fits a GPU type of the cluster and runs on T4"):
        to_instance(TABLE, Cluster.of({"T4": 1}, memory_bytes={"T4": 5}), SMALL)


# Drawing models


def test_jobs_without_a_model_draw_one_that_trains_on_as_many_gpus() -> None:
    table = PhillyBatches().table(20_000)
    found = with_models(table, FFT, seed=1)
    for gpus in found["gpus"].unique().tolist():
        assert set(found.loc[found["gpus"] == gpus, "model"]) <= set(FFT.trained_on(gpus))
    alone = found[found["gpus"] == 1].drop_duplicates("group")["model"].value_counts()
    wanted = len(FFT.trained_on(1))
    assert len(alone) == wanted
    assert abs(alone / alone.sum() - 1 / wanted).max() < 0.02, "each as likely as another"
    assert len(found[["group", "model"]].drop_duplicates()) == found["group"].nunique(), "a group trains one model"
    assert not found["model"].equals(with_models(table, FFT, seed=2)["model"])
    pd.testing.assert_frame_equal(found, with_models(table, FFT, seed=1))


def test_what_is_known_is_kept_and_shifts_nothing() -> None:
    table = PhillyBatches().table(500).drop(columns="group")
    every = with_models(table, GAVEL)
    some = table.assign(model=pd.Series([None, "", "A3C"] + [np.nan] * 497))
    found = with_models(some, GAVEL)
    assert found["model"].tolist() == [*every["model"].iloc[:2], "A3C", *every["model"].iloc[3:]]
    rows = table.set_index(pd.Index(["same"] * 500))
    assert with_models(rows, GAVEL)["model"].tolist() == every["model"].tolist(), "whatever the rows are called"


def test_models_that_the_catalogue_does_not_have_can_be_drawn_instead() -> None:
    table = PhillyBatches().table(300).drop(columns="group")
    every = with_models(table, GAVEL)
    strange = table.assign(model=["alexnet", "A3C", None] + ["vgg19"] * 297)
    found = with_models(drop_unknown_models(strange, GAVEL), GAVEL)
    assert found["model"].tolist() == [every["model"].iloc[0], "A3C", *every["model"].iloc[2:]]
    assert drop_unknown_models(every, GAVEL) is every
    assert drop_unknown_models(table, GAVEL) is table
    assert strange["model"].iloc[0] == "alexnet", "the table itself stays as it was"
    with refused(InvalidInstance, "jobs['j1'].model", "--unknown-models draw", table="trace", row=0):
        with_models(strange, GAVEL)


def test_a_cluster_keeps_models_that_it_cannot_hold_from_being_drawn() -> None:
    table = PhillyBatches().table(2000)
    lab = instances.load("lab36").cluster
    assert "Bark-normal" in set(with_models(table, FFT, cluster=lab)["model"])
    t4 = Cluster.of({"T4": 12}, memory_bytes={"T4": 16e9})
    assert "Bark-normal" not in set(with_models(table, FFT, cluster=t4)["model"])


# Any table


TYPES = ("A", "B", "C")
SPEEDS = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 8.0])  # powers of two: quotients and products are exact


@st.composite
def cases(draw: st.DrawFn) -> tuple[pd.DataFrame, Cluster, Catalogue, str]:
    """A table whose models are known, a cluster with some of the types, a catalogue; all run on the reference."""
    reference = draw(st.sampled_from(TYPES))
    models = []
    for i in range(draw(st.integers(1, 4))):
        speed = {t: draw(SPEEDS) for t in TYPES} | {reference: draw(st.sampled_from([0.5, 1.0, 4.0]))}
        gpus = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
        models.append(TrainedModel(f"m{i}", speed, draw(st.sampled_from([0.0, 8.0, 32.0])), gpus=gpus))
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, unique=True))
    memory = {t: draw(st.sampled_from([4.0, 16.0, 64.0])) for t in types if draw(st.booleans())}
    cluster = Cluster.of({t: draw(st.integers(1, 9)) for t in types}, memory_bytes=memory)
    rows = draw(st.integers(1, 8))
    columns = {
        "job": [f"j{i}" for i in range(rows)],
        "arrival": sorted(draw(st.lists(st.integers(0, 100), min_size=rows, max_size=rows))),
        "duration": draw(st.lists(st.integers(1, 1000), min_size=rows, max_size=rows)),
        "gpus": draw(st.lists(st.integers(1, 12), min_size=rows, max_size=rows)),
        "tenant": draw(st.lists(st.sampled_from(["x", "y"]), min_size=rows, max_size=rows)),
        "model": draw(st.lists(st.sampled_from([m.name for m in models]), min_size=rows, max_size=rows)),
    }
    return pd.DataFrame(columns), cluster, Catalogue("any", tuple(models)), reference


def most_gpus(model: TrainedModel, cluster: Cluster) -> int:
    """GPUs of the type with the most of those that train the model, by the cluster's own words."""
    most = 0
    for t in cluster.gpu_types:
        if model.speed[t.name] > 0 and model.memory_bytes <= (t.memory_bytes or float("inf")):
            most = max(most, cluster.capacity[t.name])
    return most


@given(cases(), st.sampled_from(["drop", "cut"]), st.sampled_from([None, "virtual clusters", "models"]))
@settings(max_examples=300, deadline=None)
def test_any_table_becomes_the_jobs_that_fit(case: Any, too_large: Any, tenants: Any) -> None:
    """Against a plain loop over the rows; the instance's own checks hold since it could be made."""
    table, cluster, catalogue, reference = case

    def ask() -> Instance:
        return to_instance(table, cluster, catalogue, reference=reference, too_large=too_large, tenants=tenants)

    expected, dropped = [], 0
    for row in table.itertuples():
        most = most_gpus(catalogue[row.model], cluster)
        if most == 0 or (row.gpus > most and too_large == "drop"):
            dropped += 1
        else:
            gpus = min(row.gpus, most)
            expected.append((row.job, row.arrival, row.model, gpus, row.duration * (row.gpus / gpus), row.tenant))
    if not expected:
        with pytest.raises(InvalidInstance, match=r"fits (the cluster|a GPU type of the cluster)"):
            ask()
        return
    made = ask()
    found = [(j.name, j.arrival, j.model, j.demand, j.work) for j in made.jobs]
    assert found == [row[:5] for row in expected]
    assert f"{len(expected)} of {len(table)} jobs" in made.source
    entities = made.entities("jobs")
    assert entities.allowed.any(axis=1).all(), "each gang fits one type at least"
    for job, row in zip(made.jobs, expected, strict=True):
        model = catalogue[row[2]]
        assert dict(job.throughput) == {t: model.speed[t] / model.speed[reference] for t in cluster.type_names}
        assert job.tenant == (row[2] if tenants == "models" else row[5])
        assert job.work / job.throughput.get(reference, 1.0) == row[4], "on the reference it takes its duration"
    for tenant in made.tenants:
        assert {k.name for k in tenant.job_types} == {j.model for j in made.jobs if j.tenant == tenant.name}
    if tenants:
        speed = made.entities("tenants").speed
        assert (np.where(speed > 0, speed, np.inf).min(axis=1) == 1).all(), "relative to the slowest that runs it"


@given(cases(), st.data())
@settings(max_examples=40, deadline=None)
def test_on_its_recorded_type_any_job_takes_its_duration(case: Any, data: st.DataObject) -> None:
    table, cluster, catalogue, _ = case
    runs = [[t for t in (*TYPES, "none") if catalogue[m].speed.get(t, 1.0) > 0] for m in table["model"]]
    table = table.assign(gpu_type=[data.draw(st.sampled_from(types)) for types in runs])
    fits = [row.gpus <= most_gpus(catalogue[row.model], cluster) for row in table.itertuples()]
    wanted = table[(table["gpu_type"] != "none") & np.array(fits)]
    if wanted.empty:
        return
    made = to_instance(table, cluster, catalogue, reference="recorded")
    assert [job.name for job in made.jobs] == wanted["job"].tolist()
    for job, row in zip(made.jobs, wanted.itertuples(), strict=True):
        speed = catalogue[row.model].speed
        for t in cluster.type_names:
            assert job.throughput[t] * row.duration * speed[row.gpu_type] == job.work * speed[t]


@given(cases(), st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_models_that_are_drawn_can_be_held_and_are_those_of_the_gpus(case: Any, seed: int) -> None:
    table, cluster, catalogue, reference = case
    held = [m.name for m in catalogue.models if most_gpus(m, cluster)]
    if not held:
        return
    made = to_instance(table.drop(columns="model"), cluster, catalogue, seed=seed, reference=reference, too_large="cut")
    assert len(made.jobs) == len(table), "nothing has to be dropped"
    for job, gpus in zip(made.jobs, table["gpus"].tolist(), strict=True):
        assert job.model in catalogue.trained_on(gpus, held)


def test_many_jobs_of_philly_fit_a_laboratory() -> None:
    table = PhillyBatches().table(5000, seed=2)
    made = to_instance(table, instances.load("lab36").cluster, FFT, tenants="virtual clusters")
    large = int((table["gpus"] > 12).sum())
    assert large > 0
    assert len(made.jobs) == 5000 - large
    assert f"Of them {large} request more GPUs" in made.source
    assert {t.name for t in made.tenants} <= set(table["tenant"])


# What is wrong


def ask(table: Any = TABLE, cluster: Any = LAB, known: Any = SMALL, **options: Any) -> Callable[[], object]:
    return lambda: to_instance(table, cluster, known, **options)


@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        (ask([1]), InvalidInstance, "table is a list; it must be a pandas DataFrame"),
        (
            ask(TABLE.drop(columns="gpus")),
            InvalidInstance,
            "table trace: has no column gpus; it must have",
        ),
        (ask(TABLE[:0]), InvalidInstance, "table trace: has no row"),
        (
            ask(TABLE.assign(gpus=1.5)),
            InvalidInstance,
            "row 0 of table trace: jobs['a'].gpus is 1.5; it must be a whole number > 0",
        ),
        (ask(TABLE.assign(duration=0)), InvalidInstance, "row 0 of table trace: jobs['a'].duration is 0"),
        (ask(TABLE.assign(arrival=-1)), InvalidInstance, "row 0 of table trace: jobs['a'].arrival is -1"),
        (
            ask(TABLE.assign(job="a")),
            InvalidInstance,
            "row 1 of table trace: jobs['a'].job is 'a'; it must be unlike the names",
        ),
        (ask(TABLE.assign(iterations=-5)), InvalidInstance, "row 0 of table trace: jobs['a'].iterations is -5"),
        (
            ask(TABLE.assign(model=["light", "lihgt"] + ["heavy"] * 3)),
            InvalidInstance,
            "row 1 of table trace: jobs['b'].model is 'li",
        ),
        (
            ask(TABLE.assign(model=5)),
            InvalidInstance,
            "row 0 of table trace: jobs['a'].model is 5, which is not in 'small'",
        ),
        (
            ask(TABLE.drop(columns="tenant"), tenants="virtual clusters"),
            InvalidInstance,
            "has no column tenant",
        ),
        (ask(cluster=5), InvalidInstance, "cluster is 5, which is not a hetopt Cluster"),
        (
            ask(cluster=Cluster.of({"H100": 9})),
            InvalidInstance,
            "cluster names the GPU type 'H100', whose speed is not",
        ),
        (ask(known={}), InvalidOption, "catalogue is {}, which is not a hetopt Catalogue"),
        (
            ask(reference="K80"),
            InvalidOption,
            "reference names the GPU type 'K80', whose speed is not in the catalogue",
        ),
        (ask(seed=-1), InvalidOption, "seed is -1"),
        (ask(too_large="keep"), InvalidOption, "too_large is 'keep'; known: cut, drop"),
        (
            ask(tenants="queues"),
            InvalidOption,
            "tenants is 'queues'; known: models, users",
        ),
        (ask(tenants=["users"]), InvalidOption, "tenants is "),
        (ask(too_large=["drop"]), InvalidOption, "too_large is "),
    ],
)
def test_errors_name_what_is_wrong(made: Callable[[], object], error: type[HetoptError], message: str) -> None:
    with pytest.raises(error) as problem:
        made()
    assert message in str(problem.value)


def test_a_model_must_run_where_durations_count() -> None:
    model = TrainedModel("m", {"A": 1.0, "B": 0.0})
    known, either = Catalogue("c", (model,)), Catalogue("c", (model, TrainedModel("n", {"A": 1.0, "B": 1.0})))
    table, cluster = TABLE.drop(columns="model"), Cluster.of({"A": 9})
    with pytest.raises(InvalidInstance, match="no model of 'c' fits a GPU type of the cluster and runs on B"):
        to_instance(table, cluster, known, reference="B")
    with refused(InvalidInstance, "jobs['c'].model", table="trace", row=2):
        to_instance(table.assign(model=["n", "n", "m", "n", "n"]), cluster, either, reference="B")
    assert {job.model for job in to_instance(table, cluster, either, reference="B").jobs} == {"n"}
