"""OEF's evaluation at its smallest, against linear programs written by hand and plain sums over the stored tables."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
from collections.abc import Callable

import numpy as np
import pytest
from evaluation_cases import Made
from scipy.optimize import linprog

from hetopt.data.array_types import Floats
from hetopt.experiments.trace_workload import TraceWorkload
from hetopt.proofs.evaluations import oef_evaluation
from hetopt.proofs.evaluations.evaluation import EvaluationScale
from hetopt.proofs.evaluations.oef_evaluation import ANY_OVERSTATEMENTS, OVERSTATEMENTS, largest_loss, with_others
from hetopt.traces.oef_generator import USERS
from hetopt.traces.paper_models import OEF

SCALE = EvaluationScale(1 / 50)  # 20 jobs of 50 tenants; twenty tenants for an hour
W = np.array([[OEF[model].speed[t] for t in OEF.types] for model in USERS.values()])
FOUR = TraceWorkload("oef-four-users", "oef/cluster", count=96, tenants="users", settings={"quits": False}).instance()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("oef")
    parts = oef_evaluation.EVALUATION.chosen(SCALE)
    return Made.of(oef_evaluation.EVALUATION, parts, folder)


def ours(made: Made, claim: str, named: str = "") -> float:
    rows = made.table[made.table["id"] == claim]
    (value,) = rows[rows["what"].str.contains(named, regex=False)]["ours_mean"]
    return float(value)


def rows(made: Made, part: str, workload: str, system: str, table: str) -> list[dict[str, str]]:
    """A stored table as text, read by nothing of hetopt."""
    path = made.folder / part / workload / system / "seed-0" / f"{table}.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def throughput(made: Made, part: str, begin: float, end: float) -> dict[str, float]:
    """Mean throughput of each tenant under non-cooperative OEF from a decision to another."""
    place = part, "oef-four-users", "oef-noncooperative"
    times = [float(row["start"]) for row in rows(made, *place, "rounds")]
    table = rows(made, *place, "throughput")
    inside = [row for row, time in zip(table, times, strict=True) if begin <= time < end]
    names = [name for name in table[0] if name.startswith("User")]
    return {name: sum(float(row[name] or 0) for row in inside) / len(inside) for name in names}


# -- linear programs by hand; columns are x[user, type], then the common throughput


def equal_throughput(reported: Floats) -> Floats:
    """(users, 3) GPUs under non-cooperative OEF."""
    n = len(reported)
    equal = np.zeros((n, 3 * n + 1))
    for i, row in enumerate(reported):
        equal[i, 3 * i : 3 * i + 3], equal[i, -1] = row, -1
    used = np.hstack([np.tile(np.eye(3), n), np.zeros((3, 1))])
    found = linprog(np.append(np.zeros(3 * n), -1), A_ub=used, b_ub=np.full(3, 8.0), A_eq=equal, b_eq=np.zeros(n))
    return np.asarray(found.x[:-1]).reshape(n, 3)


def without_envy() -> float:
    """The largest total rate of the four without envy."""
    envy = []
    for a, b in itertools.permutations(range(4), 2):
        row = np.zeros((4, 3))
        row[a], row[b] = -W[a], W[a]
        envy.append(row.ravel())
    rows = np.vstack([np.tile(np.eye(3), 4), *envy])
    limits = np.append(np.full(3, 8.0), np.zeros(12))
    return float(-linprog(-W.ravel(), A_ub=rows, b_ub=limits).fun)


def test_every_claim_of_section_6_is_compared_or_has_a_reason(made: Made) -> None:
    wanted = {f"OEF-{n:03}" for n in range(29, 43)}
    assert {claim.rstrip("abcdefg") for claim in made.table["id"]} == wanted
    assert "hetopt verify" in made.table.set_index("id").loc["OEF-042", "note"]
    reasons = made.table.set_index("id")["why"]
    assert all(len(str(reasons[claim])) > 20 for claim in ("OEF-030d", "OEF-032", "OEF-034a"))


def test_equal_throughput_before_and_after_user_4_quits(made: Made) -> None:
    early = throughput(made, "four-users", 300.0, 2100.0)
    late = throughput(made, "four-users", 2700.0, 4500.0)
    assert ours(made, "OEF-029a") == pytest.approx(min(early.values()) / max(early.values()))
    three = [late[f"User-{i}"] for i in (1, 2, 3)]
    assert late["User-4"] == 0
    assert ours(made, "OEF-029b") == pytest.approx(min(three) / max(three))
    share = equal_throughput(W)
    for name, rate in zip(USERS, (W * share).sum(axis=1), strict=True):  # up to a GPU of each type in six rounds
        assert abs(early[name] - rate) <= W.sum(axis=1).max() / 6


@pytest.mark.parametrize("part", OVERSTATEMENTS)
def test_the_cost_of_a_misreport(made: Made, part: str) -> None:
    lie, percent = OVERSTATEMENTS[part], f"{OVERSTATEMENTS[part]:.0%}"
    honest, lying = (throughput(made, name, 300.0, 2100.0) for name in ("four-users", part))
    others = ("User-2", "User-3", "User-4")
    assert ours(made, "OEF-029c", percent) == pytest.approx(lying["User-1"] / honest["User-1"])
    gain = sum(lying[u] for u in others) / sum(honest[u] for u in others)
    assert ours(made, "OEF-029d", percent) == pytest.approx(gain)
    letter = "abc"[list(OVERSTATEMENTS).index(part)]
    assert ours(made, f"OEF-030{letter}") == pytest.approx(1 - sum(lying.values()) / sum(honest.values()))
    claimed = W.copy()
    claimed[0, 1:] *= 1 + lie
    share = equal_throughput(claimed)
    estimated = rows(made, part, "oef-four-users", "oef-noncooperative", "estimated")[0]
    assert [float(estimated[u]) for u in USERS] == pytest.approx((claimed * share).sum(axis=1).tolist())
    late = [throughput(made, name, 2700.0, 4500.0)["User-1"] for name in (part, "four-users")]
    assert ours(made, "OEF-029e", percent) == pytest.approx(late[0] / late[1])


def test_the_most_costly_misreport(made: Made) -> None:
    """Every lie by scipy, at true speeds; the optimum for the four has one solution."""
    total = []
    for lie in ANY_OVERSTATEMENTS:
        claimed = W.copy()
        claimed[0, 1:] *= 1 + lie
        total.append(float((W * equal_throughput(claimed)).sum()))
    most = 1 - min(total) / float((W * equal_throughput(W)).sum())
    assert largest_loss(FOUR, "User-1") == pytest.approx(most)
    assert ours(made, "OEF-030d") == pytest.approx(most)


def test_sharing_and_envy(made: Made) -> None:
    """Equal division gives 2 GPUs of each type; cooperative OEF has the total of the program by hand."""
    estimated = [
        float(rows(made, "sharing", "oef-four-users", "oef-cooperative", "estimated")[0][user]) for user in USERS
    ]
    assert sum(estimated) == pytest.approx(without_envy())
    gain = estimated / (2 * W.sum(axis=1))
    assert ours(made, "OEF-031a") == pytest.approx(gain.max())
    assert ours(made, "OEF-031b") == pytest.approx(gain.min())
    assert gain.min() > 1
    rate = with_others(FOUR)
    assert np.diag(rate) == pytest.approx(estimated)
    assert ours(made, "OEF-034a") == pytest.approx(rate[3, 3] / rate[3, 0])
    pairs = [rate[a, a] / rate[a, b] for a in range(4) for b in range(4) if a != b]
    assert ours(made, "OEF-034b") == pytest.approx(min(pairs))
    assert ours(made, "OEF-034c") == pytest.approx(max(pairs))
    assert min(pairs) == pytest.approx(1) or min(pairs) > 1


def test_two_types_share_one_part(made: Made) -> None:
    late = throughput(made, "second-type", 2700.0, 4500.0)
    types = late["User-1/LSTM"], late["User-1/DenseNet"]
    others = sum(late[f"User-{i}"] for i in (2, 3, 4)) / 3
    assert ours(made, "OEF-033a") == pytest.approx(sum(types) / 2 / others)
    assert ours(made, "OEF-033b") == pytest.approx(min(types) / max(types))
    assert abs(ours(made, "OEF-033a") - 0.5) < 0.05


def straggling(made: Made, system: str) -> float:
    """GPUs of gangs over several types per decision, counted decision by decision."""
    place = "throughput", "oef-twenty-tenants", system
    starts = [float(row["start"]) for row in rows(made, *place, "rounds")]
    spans = [row for row in rows(made, *place, "spans") if "+" in row["gpu_type"]]
    there = [sum(float(s["gpus"]) for s in spans if float(s["start"]) <= time < float(s["end"])) for time in starts]
    return sum(there) / len(there)


def of_run(made: Made, part: str, system: str, metric: str) -> float:
    """A metric as the file of the run says it."""
    (path,) = (made.folder / part).glob(f"*/{system}/seed-0/run.json")
    return float(json.loads(path.read_text())["summary"][metric])


def test_twenty_tenants(made: Made) -> None:
    gavel = of_run(made, "throughput", "gavel-tenants", "throughput_estimated")
    held = {
        metric: of_run(made, "throughput", "gavel_one_GPU_each", metric)
        for metric in ("throughput", "throughput_estimated")
    }
    own = {metric: of_run(made, "throughput", "oef-cooperative", metric) for metric in held}
    assert ours(made, "OEF-036a") == pytest.approx(own["throughput_estimated"] / gavel)
    assert ours(made, "OEF-036d") == pytest.approx(own["throughput_estimated"] / held["throughput_estimated"])
    assert ours(made, "OEF-037c") == pytest.approx(own["throughput"] / held["throughput"])
    for claim, system in (("OEF-039c", "oef-cooperative"), ("OEF-039d", "oef-noncooperative")):
        mixed, other = straggling(made, system), straggling(made, "gavel_one_GPU_each")
        assert ours(made, claim) == pytest.approx(mixed / other)
    there = TraceWorkload("oef-twenty-tenants", "oef/cluster", 240, tenants="users").instance(0).tenants
    best = sum(8 * max(tenant.job_types[0].speedup[t] for tenant in there) for t in OEF.types)
    assert ours(made, "OEF-036c") == pytest.approx(best / gavel)
    assert ours(made, "OEF-036c") >= ours(made, "OEF-036a")
    badly = of_run(made, "placement", "oef-cooperative_first_free_GPUs", "throughput")
    assert ours(made, "OEF-032") == pytest.approx(own["throughput"] / badly)


def test_one_gpu_each_leaves_gpus_idle(made: Made) -> None:
    """20 tenants, 24 GPUs: each tenant has one GPU, at the speed of its model."""
    estimated = rows(made, "throughput", "oef-twenty-tenants", "gavel_one_GPU_each", "estimated")[0]
    assert all(1 <= float(estimated[f"t{i}"]) <= 2.15 + 2**-10 for i in range(1, 21))


def test_wrong_profiles(made: Made) -> None:
    for letters, system in (("ab", "oef-cooperative"), ("cd", "oef-noncooperative")):
        wrong, right = (of_run(made, part, system, "throughput") for part in ("profiles", "throughput"))
        estimated = of_run(made, "profiles", system, "throughput_estimated")
        assert ours(made, f"OEF-041{letters[0]}") == pytest.approx(1 - wrong / estimated)
        assert ours(made, f"OEF-041{letters[1]}") == pytest.approx(1 - wrong / right)


def test_completion_times_of_fifty_tenants(made: Made) -> None:
    mean = {}
    for system in ("oef-cooperative", "oef-noncooperative", "gavel-tenants", "gandiva-fair"):
        jct = [float(row["jct"]) for row in rows(made, "jct", "oef-fifty-tenants", system, "jobs")]
        assert len(jct) == 20
        mean[system] = sum(jct) / 20
    for claim, other in (("OEF-038a", "gandiva-fair"), ("OEF-038b", "gavel-tenants")):
        for system in ("oef-cooperative", "oef-noncooperative"):
            row = made.table[(made.table["id"] == claim) & (made.table["numerator"] == system)].iloc[0]
            assert row["ours_mean"] == pytest.approx(mean[system] / mean[other])
            assert row["denominator"] == other


def test_only_claims_about_a_part_are_compared_with_it(made: Made) -> None:
    compared = made.table[made.table["part"] != ""]
    beginnings = {part: {claim[:7] for claim in own["id"]} for part, own in compared.groupby("part")}
    assert beginnings["throughput"] == {"OEF-035", "OEF-036", "OEF-037"}
    assert beginnings["jct"] <= {"OEF-038", "OEF-039"}
    assert set(beginnings) == {"throughput", "jct"}
    assert oef_evaluation.ONE_GPU not in {*compared["numerator"], *compared["denominator"]}


def test_the_command_prints_it(made: Made, run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = run("reproduce", "oef", "--scale", SCALE.jobs, "--out", made.folder)
    assert code == 0, err
    assert "OEF-030d" in out
    assert "All: speedups of VGG and LSTM" in out
    assert "OEF-040: no simulation: benchmarks/test_oef.py measures both" in out
