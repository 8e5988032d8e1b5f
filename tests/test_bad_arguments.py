"""Arguments that callers mix up: each mistake gives one line that names the argument."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import highspy
import numpy as np
import pytest
from refused import refused

import hetopt
from hetopt.models import fft, gandiva_fair, gavel, hadar, oef
from hetopt.models.fairness_components import EnvyFree
from hetopt.models.objectives import SwitchingCost, TotalRate

TENANTS = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
JOBS = hetopt.Instance.from_jobs([[8, 1], [8, 1]], demand=[1, 1], work=[16, 16], capacity=[1, 1])
NONE: Any = None
SHARES = hetopt.on_shares(np.ones((1, 2)))


def wrong(value: Any) -> Any:
    """A value that the types forbid."""
    return value


WRONG: list[tuple[str | None, str | None, type[hetopt.HetoptError], Callable[[], object]]] = [
    ("capacity", "5", hetopt.InvalidInstance, lambda: hetopt.Cluster.of(wrong(5))),
    ("capacity", "'V100'", hetopt.InvalidInstance, lambda: hetopt.Cluster.of(wrong("V100"))),
    (
        "tenants['u1'].weight",
        r"1e\+308",
        hetopt.InvalidInstance,
        lambda: hetopt.Instance.from_speedups([[1]], [1], weights=[1e308]),
    ),
    (
        "capacity['GPU1']",
        "100000000000",
        hetopt.InvalidInstance,
        lambda: hetopt.Cluster.of([10**11]),
    ),
    (
        "capacity['GPU1']",
        "int",
        hetopt.InvalidInstance,
        lambda: hetopt.Cluster.of([10**100]),
    ),
    (None, "rows.*differ", hetopt.InvalidInstance, lambda: hetopt.audit(TENANTS, [[1, 2], [3]])),
    (None, "table.*shape", hetopt.InvalidInstance, lambda: hetopt.audit(TENANTS, NONE)),
    ("instance", "hetopt.*Instance", hetopt.InvalidInstance, lambda: hetopt.audit(wrong([[1]]), [[1]])),
    (None, "policy.*'oef'", hetopt.InvalidOption, lambda: hetopt.solve(wrong("oef"), TENANTS)),
    (
        "instance",
        "hetopt.*Instance",
        hetopt.InvalidInstance,
        lambda: hetopt.solve(oef.cooperative(), wrong([[1, 2]])),
    ),
    (
        "options",
        None,
        hetopt.InvalidOption,
        lambda: hetopt.solve(oef.cooperative(), TENANTS, wrong({"gap": 1})),
    ),
    (
        "timelimit",
        "did you mean 'time_limit'",
        hetopt.InvalidOption,
        lambda: hetopt.solve(oef.cooperative(), TENANTS, timelimit=3),
    ),
    (
        None,
        "policy.*'oef-cooperative'",
        hetopt.InvalidOption,
        lambda: hetopt.audit(TENANTS, [[1, 0], [0, 1]], policy=wrong("oef-cooperative")),
    ),
    (None, "policy.*'fft'", hetopt.InvalidOption, lambda: hetopt.simulate(wrong("fft"), JOBS)),
    (
        None,
        "kinds.*'over'",
        hetopt.InvalidOption,
        lambda: hetopt.auditing.strategy_proof(TENANTS, oef.cooperative(), kinds=wrong("over")),
    ),
    (
        None,
        "shares.*numbers",
        hetopt.InvalidInstance,
        lambda: hetopt.audit(TENANTS, [["1/2", "1"], ["x", "0"]], exact=True),
    ),
    (
        None,
        "GandivaFair.*solver",
        hetopt.InvalidOption,
        lambda: hetopt.solve(gandiva_fair.gandiva_fair(), TENANTS, exact=True),
    ),
    (
        "state",
        None,
        hetopt.InvalidOption,
        lambda: fft.FFT()(JOBS, wrong({"rho": 1})),
    ),
    ("FFT.options", None, hetopt.InvalidOption, lambda: fft.FFT(options=wrong(3))),
    (
        None,
        "EnvyFree.*class",
        hetopt.InvalidFormulation,
        lambda: fft.FFT() + wrong(EnvyFree),
    ),
    (
        None,
        "return.*state",
        hetopt.InvalidPlan,
        lambda: hetopt.simulate(wrong(lambda *_: (None, None)), JOBS, round_seconds=300.0),
    ),
    (
        None,
        "cooperative.*instance",
        hetopt.InvalidOption,
        lambda: hetopt.solve(wrong(oef.cooperative), TENANTS),
    ),
    (
        None,
        "placer.*HierarchicalPlacer",
        hetopt.InvalidOption,
        lambda: hetopt.simulate(fft.FFT(), JOBS, placer=wrong(hetopt.HierarchicalPlacer)),
    ),
    (None, "3.*component", hetopt.InvalidFormulation, lambda: fft.FFT() + (wrong(3))),
    (None, "components.*3", hetopt.InvalidFormulation, lambda: hetopt.Formulation(wrong(3))),
    ("instance", "hetopt.*Instance", hetopt.InvalidInstance, lambda: hetopt.simulate(fft.FFT(), wrong(fft.FFT()))),
    ("until", None, hetopt.InvalidOption, lambda: hetopt.simulate(fft.FFT(), JOBS, until=wrong("5"))),
    ("WholeJobs.most_owed", "'3'", hetopt.InvalidOption, lambda: hetopt.WholeJobs(wrong("3"))),
    ("WholeJobs.most_owed", "inf", hetopt.InvalidOption, lambda: hetopt.WholeJobs(math.inf)),
    (
        "HierarchicalPlacer.whole",
        None,
        hetopt.InvalidOption,
        lambda: hetopt.HierarchicalPlacer(whole=wrong(3)),
    ),
    (
        None,
        "name.*instance",
        hetopt.InvalidOption,
        lambda: hetopt.export(oef.cooperative(), wrong(TENANTS), NONE),
    ),
    (
        None,
        "procedure.*program",
        hetopt.InvalidOption,
        lambda: hetopt.export(gavel.water_filling(), "nowhere.lp", JOBS),
    ),
    (
        None,
        "Pyomo.*model",
        hetopt.InvalidOption,
        lambda: hetopt.export(wrong(oef.cooperative().build(TENANTS)), "nowhere.lp"),
    ),
    (
        "lazy",
        None,
        hetopt.InvalidOption,
        lambda: oef.cooperative().build(TENANTS, lazy=wrong("0.5")),
    ),
    (
        "canonical",
        None,
        hetopt.InvalidOption,
        lambda: oef.noncooperative(canonical=wrong(1)),
    ),
    (
        "LeastRatio.scale_by_demand",
        None,
        hetopt.InvalidOption,
        lambda: gavel.max_min_fairness(scale_by_demand=wrong("no")),
    ),
    (
        "any_scale",
        None,
        hetopt.InvalidInstance,
        lambda: hetopt.Instance.from_speedups([[1]], [1], any_scale=wrong("yes")),
    ),
    (
        "work",
        None,
        hetopt.InvalidInstance,
        lambda: hetopt.Instance.from_jobs([[1]], 1, work=wrong(b"3"), capacity=[1]),
    ),
    (
        "tenants['u1'].weight",
        "True",
        hetopt.InvalidInstance,
        lambda: hetopt.Instance.from_speedups([[1]], [1], weights=wrong(np.True_)),
    ),
    (
        "from_tables",
        "'throughputs'",
        hetopt.InvalidInstance,
        lambda: hetopt.Instance.from_tables(TENANTS.tables()["servers"], throughputs=True),
    ),
    (
        "seed",
        None,
        hetopt.InvalidOption,
        lambda: hetopt.Options(seed=10**10),
    ),
    ("x", "NaN", hetopt.InvalidPlan, lambda: hetopt.Plan(TENANTS.entities(), [[1, math.nan], [0, 0]])),
    ("hosts['u1']", "is 5", hetopt.InvalidPlan, lambda: hetopt.Placement(wrong({"u1": 5}))),
    ("names", "'j1'", hetopt.InvalidInstance, lambda: JOBS.with_jobs("j1")),
    ("replace", "'foo'", hetopt.InvalidInstance, lambda: JOBS.replace(foo=1)),
    (
        "from_speedups",
        "did you mean 'weights'",
        hetopt.InvalidInstance,
        lambda: hetopt.Instance.from_speedups([[1]], [1], weight=[1]),
    ),
    ("EnvyFree.eager_up_to", "'x'", hetopt.InvalidOption, lambda: EnvyFree(eager_up_to=wrong("x"))),
    ("instance", None, hetopt.InvalidInstance, lambda: hetopt.solve(oef.cooperative(), wrong(np.ones((20, 20))))),
    ("Irrevocable.delta", "'foo'", hetopt.InvalidOption, lambda: hadar.Committing(delta=wrong("foo"))),
    ("Irrevocable.eta", "nan", hetopt.InvalidOption, lambda: hadar.Committing(eta=math.nan)),
    ("instance", "is 5", hetopt.InvalidInstance, lambda: oef.cooperative().build(wrong(5))),
    ("entities", "Instance", hetopt.InvalidInstance, lambda: hetopt.measure(TotalRate(), wrong(TENANTS), [[1, 0]])),
    ("share", "2, 2", hetopt.InvalidInstance, lambda: hetopt.measure(TotalRate(), TENANTS.entities(), wrong([[1, 2]]))),
    (
        "share",
        "nan",
        hetopt.InvalidInstance,
        lambda: hetopt.measure(TotalRate(), TENANTS.entities(), wrong([[1, math.nan], [0, 0]])),
    ),
    ("model", "is 5", hetopt.InvalidFormulation, lambda: hetopt.from_pyomo(5)),
    ("program", "is 5", hetopt.InvalidFormulation, lambda: hetopt.to_pyomo(wrong(5))),
    ("program", "is 5", hetopt.InvalidFormulation, lambda: hetopt.optimise(wrong(5))),
    ("program", "Formulation", hetopt.InvalidFormulation, lambda: hetopt.sensitivity(wrong(oef.cooperative()))),
    (
        "Environment.overheads",
        "is 5",
        hetopt.InvalidOption,
        lambda: hetopt.simulate(fft.FFT(), JOBS, overheads=wrong(5)),
    ),
    ("value", "is 1.0", hetopt.InvalidFormulation, lambda: hetopt.on_own(wrong(1.0), "level")),
    ("table", "is 1.0", hetopt.InvalidFormulation, lambda: hetopt.on_shares(wrong(1.0))),
    ("row", "1 row; .* has 2", hetopt.InvalidFormulation, lambda: hetopt.Rows("row", ("a", "b"), [SHARES], upper=1.0)),
    ("row", "1 row; .* has 0", hetopt.InvalidFormulation, lambda: hetopt.Rows("row", (), [SHARES], upper=1.0)),
]


@pytest.mark.parametrize(("key", "match", "kind", "call"), WRONG, ids=[f"{key} {match}" for key, match, *_ in WRONG])
def test_one_clear_line(
    key: str | None, match: str | None, kind: type[hetopt.HetoptError], call: Callable[[], object]
) -> None:
    with refused(kind, key, match) as caught:
        call()
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


def test_parts_are_added_from_either_side() -> None:
    """A formulation plus a part is the part plus the formulation; FFT takes parts as well."""
    left, right = SwitchingCost(0.5) + oef.cooperative(), oef.cooperative() + SwitchingCost(0.5)
    held = TENANTS.replace(held=[[0, 1], [1, 0]])
    assert set(left.names) == set(right.names)
    assert hetopt.solve(left, held).certificate.objective == pytest.approx(
        hetopt.solve(right, held).certificate.objective
    )
    assert EnvyFree() + fft.FFT(60.0) == fft.FFT(60.0) + EnvyFree() == fft.FFT(60.0, extra=(EnvyFree(),))


@pytest.mark.parametrize("form", ["lp", "mps"])
def test_a_later_round_is_exported_with_what_is_owed(tmp_path: Path, form: str) -> None:
    """The file's optimum is that of the second stage in the next round; owing changes it."""
    policy, states = fft.FFT(round_seconds=300.0), []
    one = hetopt.Instance.from_jobs([[8], [8]], 1, work=[16, 64], capacity=[1])
    for state in (None, policy(one)[1]):
        later = one.replace(time=0.0 if state is None else 300.0)
        highs = highspy.Highs()
        highs.silent()
        highs.readModel(str(hetopt.export(policy, tmp_path / f"round.{form}", later, state=state, overwrite=True)))
        highs.run()
        states.append(highs.getObjectiveValue())
        plan, _ = policy(later, state)
        assert plan.certificate is not None
        assert states[-1] == pytest.approx(plan.certificate.objective)
    assert states[0] != states[1]


def test_the_first_round_of_a_policy_is_exported(tmp_path: Path) -> None:
    file = hetopt.export(fft.FFT(round_seconds=300.0), tmp_path / "round.json", JOBS)
    program = hetopt.from_json(file)
    plan = hetopt.solve(fft.FFT(round_seconds=300.0), JOBS)
    assert hetopt.optimise(program).objective == pytest.approx(plan.certificate.objective)


def test_results_do_not_share_the_callers_arrays() -> None:
    """What is changed afterwards changes no result, and no result can be changed."""
    x = np.eye(2)
    plan = hetopt.Plan(TENANTS.entities(), x, owed=x)
    x[0, 0] = 7
    assert plan.x.tolist() == [[1, 0], [0, 1]]
    with pytest.raises(ValueError, match="read-only"):
        plan.x[0, 0] = 3
    placement = hetopt.Placement({"j": {"s": {"T4": 1}}})
    with pytest.raises(TypeError, match="read-only"):
        placement.hosts["j"]["s"]["T4"] = 2  # type: ignore[index]
    with pytest.raises(hetopt.InvalidPlan, match=r"x has shape \(1, 2\); it must be \(2, 2\)"):
        hetopt.Plan(TENANTS.entities(), wrong([[1, 0]]))
