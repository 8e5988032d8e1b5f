"""Which model each job of a trace trains, and whether its gang fits the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hetopt.checks import choices, expect, shown, whole
from hetopt.data.cluster import Cluster
from hetopt.data.entities import Floats
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.traces.catalogue import Catalogue
from hetopt.traces.columns import Place, has, names, numbers, refuse, row_of
from hetopt.traces.drawing import Integers
from hetopt.traces.table import REQUIRED

TooLarge: TypeAlias = Literal["drop", "cut"]


def with_models(
    table: pd.DataFrame,
    catalogue: Catalogue,
    *,
    seed: int = 0,
    cluster: Cluster | None = None,
    reference: str | None = None,
) -> pd.DataFrame:
    """The table with a model for every job.

    Jobs that have one keep it. Others draw one of those that train on as many GPUs
    (:meth:`~hetopt.traces.catalogue.Catalogue.trained_on`), each as likely as another. Jobs of the same group draw
    together, by the GPUs of the first of them: a group is one training over and over.

    Parameters
    ----------
    table:
        With the columns ``job``, ``arrival``, ``duration`` and ``gpus``, and ``group`` and ``model`` if known.
    catalogue:
        What is drawn from.
    seed:
        Of the drawing.
    cluster:
        Where given, only models are drawn that one of its GPU types can hold.
    reference:
        Where given, only models are drawn that run on this GPU type.

    Raises
    ------
    InvalidInstance
        No such table, a model that is not in the catalogue, or none that the cluster can hold.
    InvalidOption
        ``seed`` is no whole number >= 0.
    """
    whole(seed, "seed", 0)
    place = checked(table)
    gpus = numbers(table["gpus"], place, whole=True).astype(np.int64)
    held = [
        model.name
        for model in catalogue.models
        if (cluster is None or model.held_by(cluster)) and (reference is None or model.speed[reference] > 0)
    ]
    if not held:
        more = "" if reference is None else f" and runs on {reference}"
        raise InvalidInstance(f"no model of {catalogue.name!r} fits a GPU type of the cluster{more}; use other models")
    kind = _groups(table)
    first = np.unique(kind, return_index=True)[1]
    level, asked = np.random.default_rng(seed).random(len(first)), gpus[first]
    drawn = np.empty(len(first), dtype=object)
    for n in np.unique(asked).tolist():
        those = asked == n
        found = np.array(catalogue.trained_on(n, held), dtype=object)
        drawn[those] = found[(level[those] * len(found)).astype(np.int64)]
    model = drawn[kind]
    if "model" in table.columns:
        column, missing = table["model"], unknown(table["model"])
        _refuse_strangers(column, missing, catalogue, place)
        model = np.where(missing, model, column.to_numpy(dtype=object))
    return table.assign(model=model)


def without_strangers(table: pd.DataFrame, catalogue: Catalogue) -> pd.DataFrame:
    """The table without the names of models that the catalogue does not have, so that others are drawn for these jobs.

    Parameters
    ----------
    table:
        As of :func:`with_models`.
    catalogue:
        Whose models are known.

    Returns
    -------
    DataFrame
        A copy; the table itself where every model that it names is known.

    Raises
    ------
    InvalidInstance
        No such table.
    """
    checked(table)
    if "model" not in table.columns:
        return table
    known = table["model"].isin(list(catalogue))
    if (known | unknown(table["model"])).all():
        return table
    return table.assign(model=table["model"].astype(object).where(known, ""))


def unknown(column: pd.Series[Any]) -> NDArray[np.bool_]:
    """Of which jobs a column of text says nothing: no value, or an empty text."""
    return np.asarray(column.isna() | (column.astype(object) == ""))


def _refuse_strangers(column: pd.Series[Any], missing: NDArray[np.bool_], catalogue: Catalogue, place: Place) -> None:
    """Refuse a model that is not in the catalogue."""
    strange = ~missing & ~column.isin(list(catalogue)).to_numpy()
    if strange.any():
        row = int(np.flatnonzero(strange)[0])
        name = column.iloc[[row]].tolist()[0]
        said = choices(str(name), catalogue)
        raise InvalidInstance(
            f"{place(row)}: model is {shown(name)}, which is not in {catalogue.name!r}; {said}; "
            "without_strangers(table, catalogue) has another drawn (hetopt simulate: --unknown-models draw)"
        )


def checked(table: pd.DataFrame) -> Place:
    """What messages call a row of the table, if it is one of a trace."""
    if not isinstance(table, pd.DataFrame):
        raise InvalidInstance(f"table is a {type(table).__name__}; it must be a pandas DataFrame")
    has(table, REQUIRED, "table")
    return row_of(table)


def _groups(table: pd.DataFrame) -> Integers:
    """Number of the group of each row, in the order in which they come; rows without one are their own."""
    if "group" not in table.columns:
        return np.arange(len(table))
    pairs = zip(table["group"].tolist(), unknown(table["group"]).tolist(), strict=True)
    labels = np.array([row if alone else str(name) for row, (name, alone) in enumerate(pairs)], dtype=object)
    return np.asarray(pd.factorize(labels)[0], dtype=np.int64)


class Reason(NamedTuple):
    """Why so many jobs are not as in the table."""

    number: int
    why: str

    def __str__(self) -> str:
        return f"{self.number} {self.why}"


@dataclass(frozen=True, eq=False)
class Assigned:
    """Jobs of a trace with their models, as columns.

    Attributes
    ----------
    table:
        Those that can run, with every column; arrivals, durations and GPUs are numbers.
    kind:
        Position of each job's model in the catalogue.
    seconds:
        Time that it takes on the reference type, on the GPUs that it has here.
    gpus:
        These.
    speed:
        (models, k) speed on each GPU type of the cluster over that on the reference.
    holds:
        (models, k) True where the type can train the model.
    reasons:
        What is not as in the table.
    """

    table: pd.DataFrame
    cluster: Cluster
    catalogue: Catalogue
    reference: str
    kind: Integers
    seconds: Floats
    gpus: Integers
    speed: Floats
    holds: NDArray[np.bool_]
    reasons: tuple[Reason, ...]

    @cached_property
    def mean_speed(self) -> Floats:
        """Of each job over all GPUs of types that can run its gang, relative to the reference."""
        capacity = np.array(list(self.cluster.capacity.values()), dtype=float)
        there = capacity * (self.holds[self.kind] & (self.gpus[:, None] <= capacity))
        return np.asarray((there * self.speed[self.kind]).sum(axis=1) / there.sum(axis=1))


def assign(
    table: pd.DataFrame,
    cluster: Cluster,
    catalogue: Catalogue,
    *,
    seed: int = 0,
    reference: str | None = None,
    too_large: TooLarge = "drop",
) -> Assigned:
    """The jobs of a trace that the cluster can run; see :func:`~hetopt.traces.workload.to_instance`."""
    if too_large not in get_args(TooLarge):
        raise InvalidOption(f"too_large is {shown(too_large)}; it must be 'drop' or 'cut'")
    reference = _check_types(cluster, catalogue, reference)
    place = checked(table)
    columns: dict[str, Any] = {
        "job": names(table["job"], place, unique=True),
        "arrival": numbers(table["arrival"], place, strict=False),
        "duration": numbers(table["duration"], place),
        "gpus": numbers(table["gpus"], place, whole=True).astype(np.int64),
    }
    table = with_models(table.assign(**columns), catalogue, seed=seed, cluster=cluster, reference=reference)
    kind = table["model"].map({name: i for i, name in enumerate(catalogue)}).to_numpy(dtype=np.int64)
    on_reference = np.array([m.speed[reference] for m in catalogue.models])
    refuse(table["model"], on_reference[kind] > 0, place, f"a model that runs on {reference}, to which durations refer")
    speed = np.array([[m.speed[t] for t in cluster.type_names] for m in catalogue.models])
    speed = speed / np.where(on_reference > 0, on_reference, 1.0)[:, None]
    holds = np.array([[t in m.held_by(cluster) for t in cluster.type_names] for m in catalogue.models])
    capacity = np.array(list(cluster.capacity.values()), dtype=np.int64)
    most, asked = (holds * capacity).max(axis=1)[kind], columns["gpus"]
    nowhere, large = most == 0, (most > 0) & (asked > most)
    left = ~nowhere & ~(large & (too_large == "drop"))
    if not left.any():
        raise InvalidInstance(
            "no job of the table fits the cluster: all ask for more GPUs or more memory than there is"
        )
    said = ("ask for more GPUs than any type has that can train their model", "train a model that no GPU type can hold")
    less = "dropped" if too_large == "drop" else "cut to as many GPUs as there are, so that they take longer"
    counted = [Reason(int(large.sum()), f"{said[0]} ({less})"), Reason(int(nowhere.sum()), f"{said[1]} (dropped)")]
    gpus = np.minimum(asked, most)[left]
    seconds = columns["duration"][left] * (asked[left] / gpus)  # cut gangs have as many GPU-seconds as before
    return Assigned(
        table[left],
        cluster,
        catalogue,
        reference,
        kind[left],
        seconds,
        gpus,
        speed,
        holds,
        tuple(reason for reason in counted if reason.number),
    )


def _check_types(cluster: Cluster, catalogue: Catalogue, reference: str | None) -> str:
    """The reference, if speeds on it and on the cluster's types are known."""
    expect(Cluster, cluster, "cluster")
    expect(Catalogue, catalogue, "catalogue", InvalidOption)
    reference = catalogue.reference if reference is None else reference
    for key, name in (("reference", reference), *(("cluster", t) for t in cluster.type_names)):
        if name not in catalogue.types:
            error = InvalidOption if key == "reference" else InvalidInstance
            raise error(
                f"{key} names the GPU type {name!r}, whose speed is not in the catalogue {catalogue.name!r}; "
                f"{choices(str(name), catalogue.types)}"
            )
    return reference
