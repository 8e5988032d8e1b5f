"""GRU, CRU and utilisation, against hand computation, Hadar's Theorem 3, and a walk over all moments."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import ceil

import numpy as np
import pandas as pd
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_cases import by_hand, log_of, moments, simulations, spans_of

from hetopt import Cluster, GPUType, Instance, Job, Log, Server, simulate
from hetopt.errors import InvalidInstance, MetricUnavailable
from hetopt.metrics import cru, cru_per_round, gru, utilisation, utilisation_over_time
from hetopt.metrics.log_reading import by_type
from hetopt.models import hadare
from hetopt.tolerances import PROVEN


def test_by_hand() -> None:
    log, instance = by_hand()
    assert gru(log, instance) == (12 + 2 * 11 + 8) / (4 * 24)
    assert cru_per_round(log, instance).to_dict() == {0: 1, 8: 4 / 16, 16: (3 + 8) / 16}
    assert cru(log, instance) == (15 + 16) / (2 * 24)
    assert utilisation(log, instance).to_dict() == {"all": 42 / 96, "A": 26 / 48, "B": 16 / 48}
    table = utilisation_over_time(log, instance)
    assert table.index.tolist() == [0, 8, 10, 14, 16, 17, 20, 24]
    assert table["all"].tolist() == [0.75, 0, 0.25, 0, 0.25, 0.75, 0.25, 0]
    assert table["A"].tolist() == [1, 0, 0.5, 0, 0, 1, 0, 0]


def test_gru_ends_with_the_last_finish_and_cru_with_its_round() -> None:
    """One of two GPUs for 6 of the 8 seconds of a round; the job comes at 1 and waits until 2."""
    jobs = Instance(Cluster.of({"A": 2}, gpus_per_server=1), jobs=(Job("a", {"A": 1}, 4, arrival=1),))
    rows, spans = [("a", None, 1.0, 2.0, 6.0, 0, 4.0, 4.0)], [("a", 2.0, 6.0, "A", "a-1", 1, 0.0, 4.0)]
    log = log_of(rows, spans, [2.0, 10.0], 2)
    assert gru(log, jobs) == 4 / (2 * 5)
    assert cru(log, jobs) == utilisation(log, jobs)["all"] == 4 / (2 * 8)


@pytest.mark.parametrize(("nodes", "rounds"), [(1, 1), (2, 1), (4, 1), (4, 3), (2, 2)])
def test_hadars_theorem_3(nodes: int, rounds: int) -> None:
    """One job in a copy on each of x of n nodes: CRU = x (w / S) / (n ceil(w / S)), S what they do in a round."""
    n, seconds = 4, 64.0
    servers = tuple(Server(f"s{i}", {"A": 1} if i < nodes else {"B": 1}) for i in range(n))
    cluster = Cluster((GPUType("A"), GPUType("B", memory_bytes=1)), servers)
    per_round = nodes * seconds
    job = Job("a", {"A": 1.0, "B": 1.0}, (rounds - 0.5) * per_round, memory_bytes=2.0)
    instance = Instance(cluster, jobs=(job,))
    log = simulate(hadare.HadarE(seconds), instance)
    ratio = job.work / per_round
    assert cru(log, instance) == pytest.approx(nodes * ratio / (n * ceil(ratio)))


def test_a_server_without_gpus_is_none() -> None:
    log, instance = by_hand()
    more = Cluster(instance.cluster.gpu_types, (*instance.cluster.servers, Server("login", {})))
    assert cru(log, instance.replace(cluster=more)) == cru(log, instance)


def test_without_servers_there_is_no_cru() -> None:
    log, instance = by_hand()
    with pytest.raises(MetricUnavailable, match="the log does not have the servers of jobs"):
        cru(replace(log, spans=log.spans.assign(servers="")), instance)


def test_unknown_names_are_refused() -> None:
    log, instance = by_hand()
    with pytest.raises(InvalidInstance, match=r"log.spans has the GPU types 'C', which the instance does not have"):
        utilisation(replace(log, spans=log.spans.assign(gpu_type="C")), instance)
    with pytest.raises(InvalidInstance, match=r"log.spans has the servers 'a-0,b-0'"):
        cru(replace(log, spans=log.spans.assign(servers="a-0,b-0")), instance)


@given(simulations())
@settings(max_examples=60)
def test_against_a_walk_over_all_moments(case: tuple[Log, Instance]) -> None:
    """GPUs and servers that are busy at each moment; all parts lie between 0 and 1."""
    log, instance = case
    spans, servers = spans_of(log), {s.name for s in instance.cluster.servers}
    table, whole = utilisation_over_time(log, instance), sum(instance.cluster.capacity.values())
    used = dict.fromkeys(table.columns, Fraction(0))
    placed = all(span.servers for span in spans)
    busy = dict.fromkeys(log.rounds["start"], Fraction(0))
    bounds = list(zip(log.rounds["start"], log.rounds["end"], strict=True))
    for moment, length in moments(log):
        on = [span for span in spans if span.trains(moment)]
        now = table.iloc[table.index.searchsorted(float(moment)) - 1] if len(table) else pd.Series(0.0, table.columns)
        expected = {"all": sum(span.gpus for span in on) / whole}
        for t, there in instance.cluster.capacity.items():
            expected[t] = sum(span.of(t) for span in on) / there
        assert now.to_dict() == expected
        for name in used:
            used[name] += Fraction(now[name]) * length
        for start, end in bounds:
            if start < moment < end:
                busy[start] += len({server for span in on for server in span.servers}) * length
    length = sum(Fraction(end) - Fraction(start) for start, end in bounds)
    found = utilisation(log, instance)
    assert ((table >= 0) & (table <= 1)).all(axis=None)
    for name, area in used.items():
        assert found[name] == pytest.approx(float(area / length), rel=PROVEN) if length else np.isnan(found[name])
    if length:
        assert found["all"] == pytest.approx(log.utilisation, rel=PROVEN)
        first = log.jobs["arrival"].min()
        end = log.end
        last = log.jobs["finish"].max() if log.jobs["finish"].notna().all() else end
        assert gru(log, instance) == pytest.approx(float(used["all"] / Fraction(last - first)), rel=PROVEN)
        assert 0 <= gru(log, instance) <= 1
    if placed and length:
        per_round = cru_per_round(log, instance)
        expected = [float(busy[a] / (len(servers) * (Fraction(b) - Fraction(a)))) for a, b in bounds]
        assert per_round.tolist() == pytest.approx(expected, rel=PROVEN)
        assert cru(log, instance) == pytest.approx(float(sum(busy.values()) / (len(servers) * length)), rel=PROVEN)
        if all(sum(server.gpus.values()) == 1 for server in instance.cluster.servers):
            assert cru(log, instance) == pytest.approx(found["all"], rel=PROVEN)
        assert per_round.between(0, 1).all()


# How many GPUs of each type a gang has


@st.composite
def gangs(draw: st.DrawFn) -> tuple[Cluster, dict[tuple[str, str], int]]:
    """A cluster of small servers, some with two types, and GPUs of a gang: (server, type) -> number."""
    kinds = ("A", "B", "A+C")  # a type may be called that
    has = st.dictionaries(st.sampled_from(kinds), st.integers(1, 2), min_size=1, max_size=2)
    rows = draw(st.lists(has, min_size=1, max_size=3))
    servers = tuple(Server(f"s{i}", gpus) for i, gpus in enumerate(rows))
    seats = {(s.name, t): draw(st.integers(0, n)) for s in servers for t, n in s.gpus.items()}
    if not any(seats.values()):
        seats[next(iter(seats))] = 1
    return Cluster(tuple(map(GPUType, kinds)), servers), {seat: n for seat, n in seats.items() if n}


def certain(seats: dict[tuple[str, str], int]) -> tuple[frozenset[str], frozenset[str], int]:
    """What a span says of them."""
    return frozenset(s for s, _ in seats), frozenset(t for _, t in seats), sum(seats.values())


def sums(seats: dict[tuple[str, str], int], cluster: Cluster) -> list[int]:
    return [sum(n for (_, t), n in seats.items() if t == kind) for kind in cluster.type_names]


@given(gangs())
@settings(max_examples=examples(150, 600))
def test_gpus_of_each_type_are_reported_where_they_are_certain(
    case: tuple[Cluster, dict[tuple[str, str], int]],
) -> None:
    """Against all ways in which a gang could sit; with servers of one type each, every certain number is reported."""
    cluster, seats = case
    places = [(s.name, t, n) for s in cluster.servers for t, n in s.gpus.items()]
    others = (
        {(s, t): n for (s, t, _), n in zip(places, own, strict=True) if n}
        for own in product(*[range(n + 1) for *_, n in places])
    )
    possible = {tuple(sums(other, cluster)) for other in others if certain(other) == certain(seats)}
    types, servers = "+".join(dict.fromkeys(t for _, t in seats)), "+".join(dict.fromkeys(s for s, _ in seats))
    total = sum(cluster.capacity.values())
    instance = Instance(cluster, jobs=(Job("a", dict.fromkeys(cluster.type_names, 1.0), 1.0),))
    span = ("a", 0.0, 1.0, types, servers, sum(seats.values()), 0.0, 1.0)
    found = by_type(log_of([("a", None, 0.0, 0.0, 1.0, 0, 1.0, 1.0)], [span], [0.0, 1.0], total), instance)[0]
    if not np.isnan(found).any():
        assert possible == {tuple(found)}
    elif all(len(server.gpus) == 1 for server in cluster.servers):
        assert len(possible) > 1


def test_seats_of_another_log_are_checked() -> None:
    log, instance = by_hand()
    for wrong in ("a-0: 1", '["a-0"]', '{"a-0": 2}', '{"a-0": {"A": "two"}}'):
        with pytest.raises(
            InvalidInstance, match=r"log.spans has the seats .*, which are not JSON of server: type: GPUs"
        ):
            utilisation(replace(log, spans=log.spans.assign(seats=wrong)), instance)
    with pytest.raises(
        InvalidInstance, match=r"log.spans has the seats '{\"a-0\": {\"C\": 1.0}}', but the GPU types 'B'"
    ):
        utilisation(replace(log, spans=log.spans.assign(seats='{"a-0": {"C": 1}}')), instance)


@pytest.mark.parametrize("name", ["all", "mixed"])
def test_a_gpu_type_named_like_a_column_is_not_overwritten(name: str) -> None:
    instance = Instance(Cluster.of({name: 1, "B": 1}), jobs=(Job("j", {name: 1.0, "B": 0.0}, 10.0),))
    log = simulate(hadare.HadarE(), instance)
    with pytest.raises(MetricUnavailable, match=f"GPU type is named '{name}'"):
        utilisation(log, instance)
