"""Named instances load, say where they come from, and expect what the papers print and what holds."""

from __future__ import annotations

import csv
from fractions import Fraction
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy.optimize import linprog

import hetopt
from hetopt import instances
from hetopt.instances import Expected, exact
from hetopt.models import oef
from hetopt.registry import make_policy
from hetopt.tolerances import EQUAL, scale

SHARED = Path(__file__).parents[2] / "shared" / "data"
ALL = [(name, topic) for name in instances.names() for topic in instances.expected(name)]
PRINTED = [(name, topic) for name, topic in ALL if instances.expected(name)[topic].printed]


def row(name: str, topic: str) -> Expected:
    return instances.expected(name)[topic]


def test_the_named_examples_are_there() -> None:
    asked = {"oef/eq1", "oef/eq3", "oef/eq5", "oef/eq6", "oef/eq6-lie", "oef/fig2", "oef/weighted", "oef/job-types"}
    asked |= {"fft/table1", "fft/fig2", "fft/fig3", "lab36", "lab36/jobs", "oef/testbed", "hadar/motivating"}
    asked |= {"hadar/cluster60", "hadar/aws", "hadar/lab", "asrpt/fig2", "asrpt/cluster250"}
    asked |= {"alibaba-spot-2026"}
    asked |= {f"hadar/m{n}" for n in (1, 3, 4, 5, 8, 10, 12)}
    assert asked <= set(instances.names())


@pytest.mark.parametrize("name", instances.names())
def test_every_instance_loads_and_survives_a_round_trip(name: str, tmp_path: Path) -> None:
    instance = instances.load(name)
    assert instance.name == name
    assert len(instance.source) > 30
    assert instances.describe(name).endswith(f" {instance.cluster.type_names[-1]})")
    for file in (tmp_path / "again.yaml", tmp_path / "again.json"):
        instance.write(file)
        assert hetopt.read(file) == instance
    if not any(job.stages for job in instance.jobs):
        assert (
            hetopt.Instance.from_tables(**instance.tables(), name=name, source=instance.source, time=instance.time)
            == instance
        )


def test_an_unknown_name_gets_the_nearest() -> None:
    for ask in (instances.load, instances.describe, instances.expected, instances.path):
        with pytest.raises(hetopt.UnknownName, match="there is no instance 'oef/eq66'; did you mean 'oef/eq6'"):
            ask("oef/eq66")


def test_an_instance_from_a_file_equals_the_same_made_in_python() -> None:
    made = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    loaded = instances.load("oef/eq6")
    assert loaded.replace(name="", source="") == made


# What is printed


def rounded(value: Any, printed: Any) -> bool:
    """Whether ``printed`` (fractions of decimals) is ``value`` rounded to as many digits."""
    if isinstance(printed, tuple):
        return len(value) == len(printed) and all(map(rounded, value, printed))
    if not isinstance(printed, Fraction):
        return bool(value == printed)
    digits = next((d for d in range(5) if (printed * 10**d).denominator == 1), None)
    if digits is None:  # printed as a fraction
        return bool(value == printed)
    return bool(abs(value - printed) <= Fraction(1, 2 * 10**digits))


@pytest.mark.parametrize(("name", "topic"), PRINTED)
def test_printed_values_are_correct_but_for_the_misprints(name: str, topic: str) -> None:
    entry = row(name, topic)
    both = set(entry.printed) & set(entry.correct)
    wrong = {key for key in both if not rounded(entry.correct[key], entry.printed[key])}
    assert wrong == set(entry.misprinted) & both
    assert set(entry.misprinted) <= both


def claims() -> dict[str, Any]:
    file = SHARED / "paper_claims.yaml"
    if not file.exists():
        pytest.skip("the transcription of the papers' numbers is not beside this checkout")
    return {claim["id"]: claim for claim in yaml.safe_load(file.read_text())["claims"]}


def test_printed_values_are_those_of_the_transcription() -> None:
    table = claims()
    for name, topic in ALL:
        entry = row(name, topic)
        if topic == "counterexample":  # of a claim of the ledger, see test_ledger.py
            continue
        assert not entry.claim or entry.claim in table, (name, topic)
        if not entry.printed:
            continue
        value = exact(table[entry.claim]["value"])
        value = value if isinstance(value, dict) else {"value": value}
        for key, printed in entry.printed.items():
            assert value[key] == printed, (name, topic, key)


# What holds

FORMULATIONS = {"oef-cooperative": oef.cooperative, "oef-noncooperative": oef.noncooperative}
SOLVED = [(name, topic) for name, topic in ALL if row(name, topic).policy in FORMULATIONS]


def close(a: Any, b: Any) -> bool:
    a, b = (np.array(x, dtype=float) for x in (a, b))
    return bool(np.abs(a - b).max() <= EQUAL * scale(a))


@pytest.mark.parametrize(("name", "topic"), SOLVED)
def test_correct_values_of_oef_are_its_optima(name: str, topic: str) -> None:
    entry, instance = row(name, topic), instances.load(name)
    entities = instance.entities()
    optimum = hetopt.solve(FORMULATIONS[entry.policy](), instance)
    share = np.array(optimum.share)
    if "share" in entry.correct:
        assert close(entry.correct["share"], share)
    if "rate" in entry.correct:
        assert close(entry.correct["rate"], entities.rate(share))
    if "total" in entry.correct:
        assert close(entry.correct["total"], entities.rate(share).sum())


@pytest.mark.parametrize(("name", "topic"), [pair for pair in ALL if "share" in row(*pair).correct])
def test_correct_shares_are_exactly_feasible_and_give_the_correct_rates(name: str, topic: str) -> None:
    entry, instance = row(name, topic), instances.load(name)
    share = entry.correct["share"]
    entities = instance.entities()
    for j, capacity in enumerate(entities.capacity):
        assert sum(x[j] for x in share) <= capacity
    speeds = [[Fraction(str(v)) for v in speed] for speed in entities.speed.tolist()]
    if "rate" in entry.correct:
        rates = [sum(a * b for a, b in zip(s, x, strict=True)) for s, x in zip(speeds, share, strict=True)]
        assert rates == list(entry.correct["rate"])


def best(name: str, extra: list[tuple[list[float], float]]) -> float:
    """Largest total rate subject to capacity and rows coefficient.x <= bound, by scipy."""
    entities = instances.load(name).entities()
    n, k = entities.shape
    rows = [(np.tile(np.eye(k)[j], n).tolist(), entities.capacity[j]) for j in range(k)] + extra
    found = linprog(-entities.speed.ravel(), A_ub=[r for r, _ in rows], b_ub=[b for _, b in rows])
    assert found.status == 0
    return float(-found.fun)


def test_sharing_incentive_only_and_efficiency() -> None:
    speed = instances.load("oef/eq2").entities().speed
    rows = [(np.kron(np.eye(3)[i], -speed[i]).tolist(), -speed[i].sum() / 3) for i in range(3)]
    assert close(best("oef/eq2", rows), row("oef/eq2", "sharing_incentive_only").correct["total"])
    assert close(best("oef/eq5", []), row("oef/eq5", "efficiency").correct["total"])


def test_gavel_with_its_own_row_constraint_equalises_ratios() -> None:
    """The bisected max-min of rate over an even split's rate, with shares of a tenant summing to at most one."""
    for name, key in (("oef/eq3", "X"), ("oef/eq3-lie", "value")):
        speed = instances.load(name).entities().speed
        fair = speed.sum(axis=1) / 3
        A = [[*np.tile(np.eye(2)[j], 3), 0.0] for j in range(2)] + [
            [*np.repeat(np.eye(3)[i], 2), 0.0] for i in range(3)
        ]
        A += [[*np.kron(np.eye(3)[i], -speed[i]), fair[i]] for i in range(3)]
        found = linprog([0] * 6 + [-1], A_ub=A, b_ub=[1] * 5 + [0] * 3)
        entry = row(name, "gavel").correct[key]
        first = entry[0] if key == "X" else entry
        rate = sum(Fraction(str(w)) * x for w, x in zip(speed[0].tolist(), first, strict=True))
        assert close(-found.fun, rate / Fraction(fair[0]).limit_denominator(100))


def gandiva_fair(speedup: list[Fraction]) -> list[list[Fraction]]:
    """Greedy trading of equation (1): fastest with slowest at the second highest price, then the next at the mean."""
    third = Fraction(1, 3)
    x = [[third, third] for _ in speedup]
    for buyer, price in ((2, speedup[1]), (1, (speedup[0] + speedup[1]) / 2)):
        x[0][0], x[0][1] = x[0][0] + x[buyer][0], x[0][1] - x[buyer][0] / price
        x[buyer] = [Fraction(0), x[buyer][1] + x[buyer][0] / price]
    return x


def test_gandiva_fair_by_hand() -> None:
    for name in ("oef/eq1", "oef/eq1-lie"):
        speedup = [Fraction(str(w)) for w in instances.load(name).entities().speed[:, 1].tolist()]
        assert gandiva_fair(speedup) == [list(x) for x in row(name, "gandiva_fair").correct["X"]]


def test_misreports_gain_what_is_printed() -> None:
    """True throughput of the liar's allocation, from the honest instance's speedups."""
    for lie, honest, topic, key, user in (
        ("oef/eq6-lie", "oef/eq6", "cooperative", "u1_true", 0),
        ("oef/fig2-lie", "oef/fig2", "cooperative", "u1_true", 0),
        ("refuted/oef-under-report", "oef/eq6", "noncooperative", "u2_true", 1),
    ):
        entry, truth = row(lie, topic).correct, instances.load(honest).entities().speed[user].tolist()
        assert sum(Fraction(str(w)) * x for w, x in zip(truth, entry["share"][user], strict=True)) == entry[key]
    sybil = row("refuted/oef-sybil", "noncooperative").correct
    assert sum(x[0] + 2 * x[1] for x in sybil["share"][:2]) == sybil["u1_true"]


@pytest.mark.parametrize("name", ["refuted/oef-pareto-cooperative", "refuted/oef-pareto-zeros"])
def test_dominating_rates_can_be_reached(name: str) -> None:
    """A feasible allocation gives at least these rates, one of which is larger than the policy's."""
    entry = next(iter(instances.expected(name).values())).correct
    entities = instances.load(name).entities()
    n, _ = entities.shape
    least = [(np.kron(np.eye(n)[i], -entities.speed[i]).tolist(), -float(entry["dominating"][i])) for i in range(n)]
    assert best(name, least) >= float(sum(entry["dominating"])) * (1 - EQUAL)
    assert all(a >= b for a, b in zip(entry["dominating"], entry["rate"], strict=True))
    assert sum(entry["dominating"]) > sum(entry["rate"])


def test_a_tie_breaks_adjacency() -> None:
    entry = row("refuted/oef-adjacent-ties", "noncooperative").correct
    entities = instances.load("refuted/oef-adjacent-ties").entities()
    gap = np.array(entry["gap"], dtype=float)
    assert close(entities.rate(gap), entry["rate"])
    assert (gap.sum(axis=0) <= entities.capacity).all()
    assert (gap[1] > 0).tolist() == [True, False, True]


def test_fft_table_1() -> None:
    jobs = instances.load("fft/table1").entities("jobs")
    assert close(jobs.speed * 60, row("fft/table1", "throughput").correct["value"])
    even = 16 / (jobs.speed @ [0.5, 0.5] * 60)
    assert close(even.sum(), row("fft/table1", "gavel").correct["value"])
    assert sum(row("fft/table1", "optimum").correct["jct"]) == row("fft/table1", "optimum").correct["value"]
    reduction = 1 - row("fft/table1", "optimum").correct["value"] / row("fft/table1", "gavel").correct["value"]
    assert reduction == row("fft/table1", "reduction").correct["value"]


@pytest.mark.parametrize("name", instances.names())
def test_the_named_policy_gives_what_is_printed(name: str) -> None:
    for entry in instances.expected(name).values():
        if entry.policy:
            allocation = hetopt.solve(make_policy(entry.policy), instances.load(name))
            if "total" in entry.correct:
                assert float(allocation.rate.sum()) == pytest.approx(float(entry.correct["total"]), rel=EQUAL)
            if "rate" in entry.correct:
                assert allocation.rate.tolist() == pytest.approx([float(r) for r in entry.correct["rate"]], rel=EQUAL)


def test_fft_figures_2_and_3_have_the_stated_durations() -> None:
    fig2 = instances.load("fft/fig2")
    alone = fig2.job["J4"].work / fig2.job["J4"].throughput["T4"] / 60
    assert close(alone, row("fft/fig2", "increase").correct["jct_alone_minutes"])
    for job in ("J1", "J2"):
        assert close(fig2.job[job].work / fig2.job[job].throughput["A10"], 300)
    assert close(fig2.job["J4"].throughput["A10"] / fig2.job["J4"].throughput["T4"], 1.6)
    entry = row("fft/fig2", "increase").correct
    assert entry["jct_minutes"] / entry["jct_alone_minutes"] - 1 == entry["value"]
    fig3 = instances.load("fft/fig3")
    moving = fig3.jobs[0].checkpoint_bytes / fig3.cluster.servers[0].nic_bytes_per_s
    assert close(1 - moving / 300, row("fft/fig3", "utilisation").correct["value"])


def test_fft_cost_prefers_the_slow_gpu() -> None:
    """Phi = age * theta / W + d * W / theta, in rounds of 300 s."""
    instance = instances.load("refuted/fft-slow-gpu")
    job, entry = instance.jobs[0], row("refuted/fft-slow-gpu", "cost").correct
    for t, speed in job.throughput.items():
        theta, age = speed * 300, instance.time / 300
        assert close(age * theta / job.work + job.demand * job.work / theta, entry[t])
    assert entry["slow"] < entry["fast"]


def test_hadar_motivating_example_reads_as_printed() -> None:
    instance = instances.load("hadar/motivating")
    assert close(instance.entities().task_speed * 360, row("hadar/motivating", "throughput").correct["value"])
    assert {j.name: (j.demand, j.work) for j in instance.jobs} == row("hadar/motivating", "jobs").correct


def test_hadare_utilisation_by_its_formula() -> None:
    """CRU_x = x (w / S_x) / (n ceil(w / S_x)) with all work in one slot."""
    job, entry = instances.load("refuted/hadare-copies").jobs[0], row("refuted/hadare-copies", "utilisation").correct
    slow, fast = job.throughput["slow"] * 360, job.throughput["fast"] * 360
    for key, copies, speed in (
        ("two_copies", 2, fast + slow),
        ("three_copies", 3, 2 * fast + slow),
        ("two_fastest", 2, 2 * fast),
    ):
        assert job.work <= speed
        assert close(copies * job.work / speed / 3, entry[key])


def test_heavy_edge_cut_of_a_path() -> None:
    """Enumerate which stages the larger server gets; Heavy-Edge grows from the heaviest edge by the heaviest next."""
    instance, entry = instances.load("refuted/asrpt-heavy-edge"), row("refuted/asrpt-heavy-edge", "cut").correct
    weights = [2 * stage.output_bytes for stage in instance.jobs[0].stages[:-1]]
    assert weights == list(entry["edges"])

    def cut(first: set[int]) -> float:
        return sum(w for i, w in enumerate(weights) if (i in first) != (i + 1 in first))

    assert min(cut(set(c)) for c in combinations(range(5), 3)) == entry["optimum"]
    assert cut({1, 2, 3}) == entry["heavy_edge"]
    assert max(range(4), key=lambda i: weights[i]) == 1
    assert weights[2] > weights[0]


def test_clusters_are_as_printed() -> None:
    for name, servers, each in (
        ("lab36", 9, 4),
        ("oef/testbed", 6, 4),
        ("hadar/cluster60", 15, 4),
        ("asrpt/cluster250", 250, 8),
    ):
        cluster = instances.load(name).cluster
        assert [sum(s.gpus.values()) for s in cluster.servers] == [each] * servers
        assert all(len(s.gpus) == 1 for s in cluster.servers)
        entry = row(name, "cluster").correct
        assert {t: entry[t] for t in cluster.type_names if t in entry} == {
            t: n for t, n in cluster.capacity.items() if t in entry
        }
    assert [len(instances.load(f"hadar/m{n}").jobs) for n in (1, 3, 4, 5, 8, 10, 12)] == [1, 3, 4, 5, 8, 10, 12]


def test_laboratory_speedups_are_derived_as_their_source_says() -> None:
    """V100/T4 = V100 / (RTX6000 / 2), A10/T4 = (5/6 A40) / (RTX6000 / 2), from the measured table."""
    file = SHARED / "throughput" / "gpu_speedups.csv"
    if not file.exists():
        pytest.skip("the measured speedups are not beside this checkout")
    table: dict[str, dict[str, float]] = {}
    for line in csv.DictReader(file.read_text().splitlines()):
        table.setdefault(line["model"], {})[line["gpu"]] = float(line["speedup"])
    models = {
        "vision": "imagenet / resnet50",
        "mobile": "cifar100 / shufflenetv2",
        "language": "squad / bert_base_uncased",
    }
    models |= {"speech": "librispeech / deepspeech2", "ads": "movielens-1m / ncf"}
    for tenant in instances.load("lab36").tenants:
        if tenant.name in models:
            own = table[models[tenant.name]]
            t4, speedup = own["QuadroRTX6000"] / 2, tenant.job_types[0].speedup
            assert speedup["V100"] == round(own["V100"] / t4, 2)
            assert speedup["A10"] == round(own["A40"] * 5 / 6 / t4, 2)


def test_laboratory_jobs_run_at_their_tenants_speedups() -> None:
    instance = instances.load("lab36/jobs")
    speedups = {t.name: t.job_types[0].speedup for t in instance.tenants}
    assert len(instance.jobs) == 24
    for job in instance.jobs:
        assert job.tenant is not None
        for a, b in pairwise(instance.cluster.type_names):
            ratio = speedups[job.tenant][b] / speedups[job.tenant][a]
            assert abs(job.throughput[b] / job.throughput[a] - ratio) <= 1e2 * EQUAL * ratio
