"""Random forest on the group and the user of recurring jobs [ASRPT, section IV-C3]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hetopt.checks import at_least, require
from hetopt.data.entities import Floats
from hetopt.data.workload import Job
from hetopt.errors import InvalidOption
from hetopt.prediction.predictors import Learner

Kind: TypeAlias = tuple[str, str | None]
"""Group and user of a job: all that the forest looks at."""

NOTHING: Mapping[Kind, float] = {}


@dataclass(frozen=True)
class RandomForest:
    """Mean of regression trees on (group, user), each grown fully, by squared error, on a bootstrap sample.

    Groups and users enter as numbers in the order in which they were first seen. The order carries no meaning, and need
    not: a tree grown to the end gives every pair of its sample a leaf of its own. It matters only for pairs that a
    tree's sample leaves out (a job seen once is left out by 37 % of the trees); these get the leaf of a neighbour, a
    group that came up about the same time. So predictions for groups seen less than five times or so are drawn towards
    those of strangers. A pair that was not trained on is unseen and predicted as 0.

    The paper retrains hourly or daily. Here the forest is trained anew once as many jobs have finished since the last
    time as it was trained on, but at the latest after ``retrain_every``; so a first batch trains it at once.

    Parameters
    ----------
    trees:
        Number of trees.
    retrain_every:
        Finished jobs after which it is trained anew at the latest. The default is about a day of the trace of
        [ASRPT, section V-A].
    seed:
        Of the bootstrap samples and of ties; the same seed gives the same predictions, for any number of threads.
    threads:
        Trees grown at once.

    Raises
    ------
    InvalidOption
        ``trees``, ``retrain_every`` or ``threads`` is no whole number >= 1, or ``seed`` none >= 0.
    """

    trees: int = 100
    retrain_every: int = 10_000
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        for key, least in (("trees", 1), ("retrain_every", 1), ("seed", 0), ("threads", 1)):
            value = at_least(getattr(self, key), f"RandomForest.{key}", least, InvalidOption)
            if value != int(value):
                raise InvalidOption(f"RandomForest.{key} is {value:g}; it must be a whole number >= {least}")
            object.__setattr__(self, key, int(value))

    def learner(self) -> Learner:
        """A learner that has seen nothing yet, and predicts 0 for all."""
        return _ForestLearner(self)


class _ForestLearner:
    """Copies share the list of what was seen; one that finds that another has written on takes up its own."""

    def __init__(self, settings: RandomForest) -> None:
        self._settings = settings
        self._rows: list[tuple[Kind, float]] = []
        self._seen = self._trained = 0
        self._value = NOTHING

    def observe(self, jobs: Sequence[Job]) -> None:
        """Note the work of finished jobs, and train anew if it is time."""
        if len(self._rows) != self._seen:
            self._rows = self._rows[: self._seen]
        self._rows += [((job.group, job.tenant), job.work) for job in jobs if job.group is not None]
        self._seen = len(self._rows)
        if self._seen - self._trained >= min(self._settings.retrain_every, max(1, self._trained)):
            self._value, self._trained = trained(self._rows, self._settings), self._seen

    def predict(self, jobs: Sequence[Job]) -> Floats:
        """(n,) what the forest said of the jobs' groups and users when it was last trained."""
        value = self._value
        return np.array([0.0 if job.group is None else value.get((job.group, job.tenant), 0.0) for job in jobs])

    def copy(self) -> Self:
        """The same forest."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin


class Merged(NamedTuple):
    """Jobs by what a tree can tell apart.

    Attributes
    ----------
    features:
        (c, 2) numbers of group and user of each pair that occurs.
    pair:
        (n,) the pair of each job.
    work:
        (n,) work of each job.
    """

    features: NDArray[np.float32]
    pair: NDArray[np.intp]
    work: Floats


def trained(rows: Sequence[tuple[Kind, float]], settings: RandomForest) -> Mapping[Kind, float]:
    """What a forest that was trained on jobs and their work says of each pair of group and user among them.

    All pairs that it will ever be asked about are known, so it is asked about each just once and then let go.
    """
    kinds: dict[Kind, int] = {}
    pair = np.array([kinds.setdefault(kind, len(kinds)) for kind, _ in rows], dtype=np.intp)
    merged = Merged(_features(kinds), pair, np.array([work for _, work in rows]))
    seeds = np.random.RandomState(settings.seed).randint(np.iinfo(np.int32).max, size=settings.trees).tolist()

    def said(seed: int) -> Floats:
        n = len(pair)
        drawn = np.random.RandomState(seed).randint(0, n, n)
        return np.asarray(grown(merged, drawn, seed).predict(merged.features), dtype=float)

    with ThreadPoolExecutor(settings.threads) as pool:  # most of the time is spent without Python's lock
        value = sum(pool.map(said, seeds), np.zeros(len(kinds))) / settings.trees
    return dict(zip(kinds, value.tolist(), strict=True))


def _features(kinds: Mapping[Kind, int]) -> NDArray[np.float32]:
    groups: dict[str, int] = {}
    users: dict[str | None, int] = {}
    numbers = [(groups.setdefault(g, len(groups)), users.setdefault(u, len(users))) for g, u in kinds]
    return np.array(numbers, dtype=np.float32)  # what scikit-learn's trees compute with; exact up to 16 million


def grown(merged: Merged, drawn: NDArray[np.intp], seed: int) -> Any:
    """The tree of a bootstrap sample: scikit-learn's, on one weighted row for each pair.

    Rows of one pair cannot be told apart, so a split gains the same from them as from their mean with their number as
    weight: what changes is a constant. So the tree is the one that the ``drawn`` jobs give one by one, for less work.
    """
    require("sklearn")
    from sklearn.tree import DecisionTreeRegressor  # an extra, which takes a second to import

    number = np.bincount(merged.pair[drawn], minlength=len(merged.features)).astype(float)
    total = np.bincount(merged.pair[drawn], merged.work[drawn], minlength=len(merged.features))
    there = number > 0
    tree = DecisionTreeRegressor(random_state=seed)
    return tree.fit(merged.features[there], total[there] / number[there], sample_weight=number[there])
