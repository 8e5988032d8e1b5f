"""Predictors by averages, learners and their copies, group names, figures and picture of the errors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

from hetopt import InvalidInstance, InvalidOption, Job
from hetopt.prediction.accuracy import PERCENT, errors, hold_out
from hetopt.prediction.forest import RandomForest
from hetopt.prediction.predictors import GroupMean, GroupMedian, Learner, Perfect, Predictor, Pretrained, group_of
from hetopt.presentation.allocation_pictures import save_figure
from hetopt.presentation.line_charts import draw_errors
from hetopt.tolerances import EQUAL

LEARNING: list[Predictor] = [GroupMean(), GroupMedian(), RandomForest(trees=2)]


def job(group: str | None, work: float, user: str | None = "ann") -> Job:
    return Job("job", {"GPU": 1.0}, work=work, tenant=user, group=group)


@dataclass
class Unfinished:
    """A job whose work must not be read."""

    group: str | None
    tenant: str | None = "ann"

    @property
    def work(self) -> float:
        raise AssertionError("the work of a job that is not finished is not known")


def asked(learner: Learner, *groups: str | None) -> list[float]:
    jobs: Any = [Unfinished(group) for group in groups]
    return learner.predict(jobs).tolist()


works = st.floats(0.5, 1e6)
batches = st.lists(st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), works), max_size=6), max_size=6)


@pytest.mark.parametrize(("predictor", "figure"), [(GroupMean(), "mean"), (GroupMedian(), "median")])
@given(observed=batches)
def test_averages_are_those_of_a_table(predictor: Predictor, figure: str, observed: list[Any]) -> None:
    learner, rows = predictor.learner(), []
    for batch in observed:
        learner.observe([job(*row) for row in batch])
        rows += batch
        table = pd.DataFrame(rows, columns=["group", "work"]).groupby("group")["work"].agg(figure)
        expected = [float(table.get(group, 0.0)) for group in "abc"]
        assert asked(learner, "a", "b", "c", None) == pytest.approx([*expected, 0.0], rel=EQUAL)


@pytest.mark.parametrize("predictor", LEARNING, ids=lambda p: type(p).__name__)
@settings(max_examples=25)
@given(data=st.data())
def test_copies_go_their_own_ways(predictor: Predictor, data: st.DataObject) -> None:
    """Any learner of a family of copies predicts like one that saw just the same batches and has no relatives."""
    family: list[tuple[Learner, list[Any]]] = [(predictor.learner(), [])]
    for _ in range(data.draw(st.integers(1, 7))):
        learner, past = family[data.draw(st.integers(0, len(family) - 1))]
        if data.draw(st.booleans()):
            family.append((learner.copy(), list(past)))
        else:
            past.append(data.draw(st.lists(st.tuples(st.sampled_from("abc"), works), min_size=1, max_size=4)))
            learner.observe([job(*row) for row in past[-1]])
    for learner, past in family:
        alone = predictor.learner()
        for batch in past:
            alone.observe([job(*row) for row in batch])
        assert asked(learner, "a", "b", "c") == asked(alone, "a", "b", "c")


@pytest.mark.parametrize("predictor", LEARNING, ids=lambda p: type(p).__name__)
def test_unseen_jobs_are_predicted_as_nothing(predictor: Predictor) -> None:
    learner = predictor.learner()
    assert asked(learner, "a", None) == [0, 0]
    learner.observe([job("a", 7.0), job(None, 9.0)])
    assert asked(learner, "a", "b", None) == [7, 0, 0]
    assert learner.predict([]).shape == (0,)


def test_a_copy_takes_constant_time() -> None:
    """Copies share what was seen until one of them sees more."""
    for predictor in LEARNING:
        learner = predictor.learner()
        learner.observe([job("a", 1.0)])
        shared = {id(value) for value in vars(learner).values()}
        assert {id(value) for value in vars(learner.copy()).values()} == shared


def test_perfect_predictions_are_the_truth() -> None:
    learner = Perfect().learner()
    learner.observe([job("a", 3.0)])
    assert learner.copy().predict([job("a", 5.0), job(None, 2.0)]).tolist() == [5, 2]


def test_experience_is_learnt_once_and_not_shared() -> None:
    taught = Pretrained(GroupMean(), [job("a", 2.0), job("a", 4.0)])
    one, other = taught.learner(), taught.learner()
    one.observe([job("a", 9.0)])
    assert (asked(one, "a"), asked(other, "a"), asked(taught.learner(), "a")) == ([5], [3], [3])
    with pytest.raises(InvalidInstance, match=r"Pretrained.history\[0\] is 3; it must be a sequence of Job"):
        Pretrained(GroupMean(), (3,))


texts = st.lists(st.text(st.characters(), max_size=3), min_size=1, max_size=4).map(tuple)


@given(one=texts, other=texts)
def test_groups_are_distinguished(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    """Equal names if and only if the tuples are equal, wherever they are divided."""
    assert (group_of(*one) == group_of(*other)) == (one == other)
    joined = ("".join(one),)
    assert (group_of(*joined) == group_of(*one)) == (joined == one)
    assert (group_of(*reversed(one)) == group_of(*one)) == (one[::-1] == one)


def test_names_of_groups_never_change() -> None:
    """Histories outlive a version of the software."""
    assert group_of("ann", "ImageNet", "train.py --lr 0.1") == "0f0b905cd4aa69e16a81e764f24e26f1"
    assert group_of("ab", "c") != group_of("a", "bc")


@pytest.mark.parametrize(("meta", "key", "match"), [((), None, "meta-information"), (("a", 3), "meta[1]", None)])
def test_groups_of_nothing_are_refused(meta: tuple[Any, ...], key: str | None, match: str | None) -> None:
    with refused(InvalidInstance, key, match):
        group_of(*meta)


def test_errors_of_a_small_case() -> None:
    """Counted by hand: off by 0, 4, 10, 100 and 300 percent of the work."""
    table = errors({"it": [10, 9.6, 22, 0, 40], "truth": [10, 10, 20, 5, 10]}, [10, 10, 20, 5, 10])
    shares = {0: 0.2, 1: 0.2, 5: 0.4, 10: 0.6, 25: 0.6, 50: 0.6, 100: 0.8}
    assert {p: table.loc["it", f"within {p} %"] for p in PERCENT} == shares
    assert table.loc["it", "mean absolute error"] == pytest.approx((0 + 0.4 + 2 + 5 + 30) / 5, rel=EQUAL)
    assert table.loc["truth"].tolist() == [1] * len(PERCENT) + [0]


@given(numbers=st.lists(st.tuples(st.floats(0, 1e9), st.floats(0.01, 1e9)), min_size=1, max_size=30))
def test_errors_do_not_depend_on_the_unit(numbers: list[tuple[float, float]]) -> None:
    predicted, actual = np.array(numbers).T
    rows = errors({"one": predicted}, actual).loc["one"], errors({"one": 64 * predicted}, 64 * actual).loc["one"]
    assert rows[0].iloc[:-1].tolist() == rows[1].iloc[:-1].tolist()
    assert 64 * rows[0].iloc[-1] == rows[1].iloc[-1]
    assert (np.diff(rows[0].iloc[:-1]) >= 0).all(), "more jobs are within more percent"


@pytest.mark.parametrize(
    ("predicted", "actual", "key", "match"),
    [
        ([1.0], [1.0, 2.0], "predicted['it']", None),
        ([1.0], [0.0], "actual[0]", "0"),
        ([np.nan], [1.0], "predicted['it'][0]", None),
        ([1.0], [-1.0], "actual[0]", "-1"),
        ([], [], "actual", r"\(0,\)"),
        ([1.0], ["x"], "actual", "holds.*numbers"),
    ],
)
def test_figures_of_what_is_no_work_are_refused(
    predicted: Any, actual: Any, key: str | None, match: str | None
) -> None:
    for figure in (errors, draw_errors):
        with refused(InvalidInstance, key, match):
            figure({"it": predicted}, actual)


def test_hold_out_trains_on_the_first_jobs_only() -> None:
    jobs = [job("a", 2.0), job("a", 4.0), job("b", 5.0), job("a", 100.0), job("c", 6.0)]
    predicted, actual = hold_out({"mean": GroupMean(), "truth": Perfect()}, jobs, trained=0.6)
    assert predicted["mean"].tolist() == [3, 0]
    assert predicted["truth"].tolist() == actual.tolist() == [100, 6]


@pytest.mark.parametrize("trained", [0.0, 0.1, 1.0, -1.0, np.nan])
def test_hold_out_needs_jobs_on_both_sides(trained: float) -> None:
    with pytest.raises(InvalidOption, match="trained is"):
        hold_out({"mean": GroupMean()}, [job("a", 1.0)] * 3, trained)


def test_the_picture_shows_the_shares_of_the_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    actual = rng.uniform(1, 9, 200)
    predicted = {"forest": actual * rng.uniform(0.7, 1.4, 200), "mean": np.zeros(200)}
    table, axes = errors(predicted, actual), draw_errors(predicted, actual, "Errors").axes[0]
    assert [line.get_label() for line in axes.lines] == ["forest", "mean"]
    for line, name in zip(axes.lines, predicted, strict=True):
        drawn = dict(zip(np.round(line.get_xdata(), 1), np.asarray(line.get_ydata()) / 100, strict=True))
        assert [drawn[p] for p in PERCENT] == pytest.approx(table.loc[name].iloc[:-1].tolist(), rel=EQUAL)
    for ending in ("png", "svg", "pdf"):
        figure = draw_errors(predicted, actual)
        assert save_figure(figure, tmp_path / f"errors.{ending}").stat().st_size > 1000
    with pytest.raises(InvalidOption, match="a picture must end in"):
        save_figure(draw_errors(predicted, actual), tmp_path / "errors.txt")
