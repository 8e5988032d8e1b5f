"""The random forest on groups and users: scikit-learn's own on plain rows is the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from hetopt import InvalidOption, Job
from hetopt.prediction import forest as module
from hetopt.prediction.accuracy import errors
from hetopt.prediction.forest import Pair, RandomForest, TrainingSet, fit_forest, fit_tree
from hetopt.prediction.predictors import GroupMean, Learner
from hetopt.tolerances import EQUAL
from hetopt.traces.pai_generator import PAILike

Rows = list[tuple[Pair, float]]


def job(group: str, work: float, user: str = "ann") -> Job:
    return Job("job", {"GPU": 1.0}, work=work, tenant=user, group=group)


def numbered(rows: Rows) -> np.ndarray[Any, Any]:
    """(n, 2) numbers of group and user in the order in which they come up."""
    columns = zip(*(kind for kind, _ in rows), strict=True)
    orders = [(column, {name: i for i, name in enumerate(dict.fromkeys(column))}) for column in columns]
    return np.array([[number[name] for name in column] for column, number in orders]).T


def merged(features: np.ndarray[Any, Any], work: list[float]) -> TrainingSet:
    unlike, pair = np.unique(features, axis=0, return_inverse=True)
    return TrainingSet(unlike.astype(np.float32), pair.ravel(), np.array(work))


def generated(jobs: int, users: int = 200) -> Rows:
    table = PAILike(users=users).table(jobs)
    exact = table["duration"] * np.random.default_rng(1).uniform(0.999, 1.001, jobs)  # no two splits are alike
    return [((g, u), w) for g, u, w in zip(table["group"], table["user"], exact, strict=True)]


@settings(max_examples=40)
@given(
    jobs=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.floats(1, 1e5)), min_size=1, max_size=50),
    seed=st.integers(0, 999),
)
def test_a_merged_tree_says_what_the_plain_tree_says(jobs: list[tuple[int, int, float]], seed: int) -> None:
    """Of every pair in its sample, whatever ties there are between splits."""
    table = merged(np.array([row[:2] for row in jobs]), [row[2] for row in jobs])
    drawn = np.random.default_rng(seed).integers(0, len(jobs), len(jobs))
    plain = DecisionTreeRegressor(random_state=seed).fit(table.features[table.pair[drawn]], table.work[drawn])
    asked = table.features[np.unique(table.pair[drawn])]
    assert fit_tree(table, drawn, seed).predict(asked) == pytest.approx(plain.predict(asked), rel=EQUAL)


def test_merged_trees_are_the_forest_of_the_plain_rows() -> None:
    """With a single user no two splits part the jobs alike, so the forests agree also on what a tree has not seen."""
    rows = generated(600, users=1)
    features, work = numbered(rows), [w for _, w in rows]
    plain = RandomForestRegressor(20, random_state=3).fit(features, work)
    table = merged(features, work)
    trees = [fit_tree(table, np.asarray(drawn), 0) for drawn in plain.estimators_samples_]
    average = np.mean([tree.predict(table.features) for tree in trees], axis=0)
    assert average == pytest.approx(plain.predict(table.features), rel=EQUAL)
    assert np.ptp([tree.predict(table.features) for tree in trees], axis=0).max() > 0, "trees differ"


def test_the_forest_errs_as_the_one_of_the_plain_rows() -> None:
    """With many users some splits by group and by user are the same, and either may be taken."""
    rows = generated(5000)
    features, work = numbered(rows), np.array([w for _, w in rows])
    plain = RandomForestRegressor(100, random_state=1).fit(features[:4000], work[:4000]).predict(features[4000:])
    value = fit_forest(rows[:4000], RandomForest())
    seen = np.array([kind in value for kind, _ in rows[4000:]])
    ours = np.array([value.get(kind, 0.0) for kind, _ in rows[4000:]])
    table = errors({"ours": ours[seen], "plain": plain[seen]}, work[4000:][seen])
    difference = (table.loc["ours"] - table.loc["plain"]).abs()
    assert difference.iloc[:-1].max() < 0.03, "two forests of scikit-learn with other seeds differ by 0.01 to 0.02"
    assert difference.iloc[-1] < 0.1 * table.loc["plain"].iloc[-1]


def test_two_jobs_in_closed_form() -> None:
    """A sample of two leaves either job out with probability 1/4: the forest says 3/4 of the one, 1/4 of the other."""
    value = fit_forest([(("a", "ann"), 100.0), (("b", "ann"), 500.0)], RandomForest(trees=800))
    deviation = 400 * np.sqrt(3 / 16 / 800)
    assert value["a", "ann"] == pytest.approx(200, abs=4 * deviation)
    assert value["b", "ann"] == pytest.approx(400, abs=4 * deviation)


def test_a_group_that_is_often_seen_gets_its_mean() -> None:
    """Among many jobs no sample leaves a group out, so only the sample's noise stays."""
    rng = np.random.default_rng(0)
    jobs = [job(f"g{i % 5}", (10.0 ** (i % 5)) * rng.uniform(0.9, 1.1)) for i in range(1000)]
    forest, mean = RandomForest().learner(), GroupMean().learner()
    forest.observe(jobs)
    mean.observe(jobs)
    assert forest.predict(jobs[:5]) == pytest.approx(mean.predict(jobs[:5]), rel=0.01)


@settings(max_examples=30)
@given(
    jobs=st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("uv"), st.floats(1, 1e5)), min_size=1),
    seed=st.integers(0, 99),
)
def test_predictions_lie_between_what_was_seen(jobs: list[tuple[str, str, float]], seed: int) -> None:
    works = [work for *_, work in jobs]
    value = fit_forest([((group, user), work) for group, user, work in jobs], RandomForest(trees=4, seed=seed))
    assert set(value) == {(group, user) for group, user, _ in jobs}
    assert min(works) * (1 - EQUAL) <= min(value.values()) <= max(value.values()) <= max(works) * (1 + EQUAL)


def test_the_seed_decides_and_the_threads_do_not() -> None:
    rows = generated(300)
    one, again, parallel, other = (
        fit_forest(rows, RandomForest(trees=7, seed=seed, threads=threads))
        for seed, threads in ((0, 1), (0, 1), (0, 3), (1, 1))
    )
    assert one == again == parallel != other


def test_it_is_trained_when_the_jobs_have_doubled_and_every_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def noted(rows: Rows, settings: RandomForest) -> dict[Pair, float]:
        sizes.append(len(rows))
        return {}

    monkeypatch.setattr(module, "fit_forest", noted)
    learner = RandomForest(retrain_every=5).learner()
    for _ in range(24):
        learner.observe([job("a", 1.0)])
    learner.observe([job("a", 1.0)] * 40)
    assert sizes == [1, 2, 4, 8, 13, 18, 23, 64]


def test_between_trainings_nothing_new_is_known() -> None:
    learner: Learner = RandomForest(trees=5).learner()
    assert learner.predict([job("a", 9.0)]).tolist() == [0]
    learner.observe([job("a", 10.0), job("a", 10.0)])
    learner.observe([job("b", 30.0)])
    assert learner.predict([job("a", 9.0), job("b", 9.0), job("a", 9.0, "bob")]).tolist() == [10, 0, 0]
    learner.observe([job("b", 30.0)])
    a, b = learner.predict([job("a", 9.0), job("b", 9.0)])
    assert 10 <= a < b <= 30


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"trees": 0}, "RandomForest.trees"),
        ({"retrain_every": 1.5}, "RandomForest.retrain_every"),
        ({"seed": -1}, "RandomForest.seed"),
        ({"threads": "two"}, "RandomForest.threads"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with refused(InvalidOption, message):
        RandomForest(**settings)
