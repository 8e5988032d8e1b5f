"""Random forest on the group and the user of recurring jobs [ASRPT, section IV-C3]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hetopt.checks import require, whole
from hetopt.data.array_types import Floats
from hetopt.data.workload import Job
from hetopt.prediction.predictors import Learner

Pair: TypeAlias = tuple[str, str | None]
"""Group and user of a job, the features of the forest."""

UNTRAINED: Mapping[Pair, float] = {}


@dataclass(frozen=True)
class RandomForest:
    """Mean of regression trees on (group, user), each fully grown by squared error on a bootstrap sample.

    Groups and users are numbered in order of first appearance. The order has no meaning and rarely matters: a fully
    grown tree gives every pair of its sample its own leaf. Only pairs that a sample leaves out (37 % of the trees leave
    out a job seen once) get the leaf of a neighbour: a group that appeared at about the same time. So predictions for
    groups seen less than about five times are biased towards unrelated groups. The prediction for an unseen pair is 0.

    The paper retrains hourly or daily. Here the forest is retrained when the number of jobs since the last training
    equals the number it was trained on, at the latest after ``retrain_every`` jobs; so the first batch trains it.

    Parameters
    ----------
    trees:
        Number of trees.
    retrain_every:
        Largest number of finished jobs between trainings. The default is about a day of the trace of
        [ASRPT, section V-A].
    seed:
        Seed of bootstrap samples and ties; predictions do not depend on the number of threads.
    threads:
        Trees fitted in parallel.

    Raises
    ------
    InvalidOption
        ``trees``, ``retrain_every`` or ``threads`` is not a whole number >= 1, or ``seed`` not one >= 0.
    """

    trees: int = 100
    retrain_every: int = 10_000
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        for key, least in (("trees", 1), ("retrain_every", 1), ("seed", 0), ("threads", 1)):
            object.__setattr__(self, key, whole(getattr(self, key), f"RandomForest.{key}", least))

    def learner(self) -> Learner:
        """A learner without observations, which predicts 0."""
        return _ForestLearner(self)


class _ForestLearner:
    """Copies share a history until one of them extends it; then each other copy takes over its part of it."""

    def __init__(self, settings: RandomForest) -> None:
        self._settings = settings
        self._rows: list[tuple[Pair, float]] = []
        self._seen = self._trained = 0
        self._value = UNTRAINED

    def observe(self, jobs: Sequence[Job]) -> None:
        """Add the work of finished jobs, and retrain if it is due."""
        if len(self._rows) != self._seen:
            self._rows = self._rows[: self._seen]
        self._rows += [((job.group, job.tenant), job.work) for job in jobs if job.group is not None]
        self._seen = len(self._rows)
        if self._seen - self._trained >= min(self._settings.retrain_every, max(1, self._trained)):
            self._value, self._trained = fit_forest(self._rows, self._settings), self._seen

    def predict(self, jobs: Sequence[Job]) -> Floats:
        """(n,) predictions of the last trained forest for the jobs' groups and users."""
        value = self._value
        return np.array([0.0 if job.group is None else value.get((job.group, job.tenant), 0.0) for job in jobs])

    def copy(self) -> Self:
        """A learner with the same forest and history."""
        return copy(self)


class TrainingSet(NamedTuple):
    """Jobs merged by their features.

    Attributes
    ----------
    features:
        (pairs, 2) numbers of group and user.
    pair:
        (n,) pair of each job.
    work:
        (n,) work of each job.
    """

    features: NDArray[np.float32]
    pair: NDArray[np.intp]
    work: Floats


def fit_forest(rows: Sequence[tuple[Pair, float]], settings: RandomForest) -> Mapping[Pair, float]:
    """Train a forest and return its predictions for all pairs of group and user in the rows.

    Only these pairs are ever predicted, so the trees need not be kept.
    """
    pairs: dict[Pair, int] = {}
    pair = np.array([pairs.setdefault(own, len(pairs)) for own, _ in rows], dtype=np.intp)
    data = TrainingSet(_features(pairs), pair, np.array([work for _, work in rows]))
    seeds = np.random.RandomState(settings.seed).randint(np.iinfo(np.int32).max, size=settings.trees).tolist()

    def predictions(seed: int) -> Floats:
        n = len(pair)
        drawn = np.random.RandomState(seed).randint(0, n, n)
        return np.asarray(fit_tree(data, drawn, seed).predict(data.features), dtype=float)

    with ThreadPoolExecutor(settings.threads) as pool:  # scikit-learn releases the interpreter lock
        value = sum(pool.map(predictions, seeds), np.zeros(len(pairs))) / settings.trees
    return dict(zip(pairs, value.tolist(), strict=True))


def _features(pairs: Mapping[Pair, int]) -> NDArray[np.float32]:
    groups: dict[str, int] = {}
    users: dict[str | None, int] = {}
    numbers = [(groups.setdefault(g, len(groups)), users.setdefault(u, len(users))) for g, u in pairs]
    return np.array(numbers, dtype=np.float32)  # the type of scikit-learn's trees; exact up to 16 million


def fit_tree(data: TrainingSet, drawn: NDArray[np.intp], seed: int) -> Any:
    """Fit scikit-learn's tree to a bootstrap sample, with one weighted row per pair.

    Rows of one pair have equal features, so replacing them by their mean, weighted by their number, changes the squared
    error by a constant: the tree is the same as for the single ``drawn`` jobs, at less cost.
    """
    require("sklearn")
    from sklearn.tree import DecisionTreeRegressor  # an extra, and slow to import

    number = np.bincount(data.pair[drawn], minlength=len(data.features)).astype(float)
    total = np.bincount(data.pair[drawn], data.work[drawn], minlength=len(data.features))
    there = number > 0
    tree = DecisionTreeRegressor(random_state=seed)
    return tree.fit(data.features[there], total[there] / number[there], sample_weight=number[there])
