"""Arguments that callers mix up: each mistake gives one line that names the argument."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import highspy
import numpy as np
import pytest
from refused import Worded, blames

import hetopt
from hetopt.models import fft, gandiva_fair, gavel, oef
from hetopt.models.fairness_components import EnvyFree
from hetopt.models.objectives import SwitchingCost

TENANTS = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
JOBS = hetopt.Instance.from_jobs([[8, 1], [8, 1]], demand=[1, 1], work=[16, 16], capacity=[1, 1])
NONE: Any = None


def wrong(value: Any) -> Any:
    """A value that the types forbid."""
    return value


WRONG: list[tuple[str, type[hetopt.HetoptError], Callable[[], object]]] = [
    ("capacity", hetopt.InvalidInstance, lambda: hetopt.Cluster.of(wrong(5))),
    ("capacity", hetopt.InvalidInstance, lambda: hetopt.Cluster.of(wrong("V100"))),
    (
        "tenants['u1'].weight",
        hetopt.InvalidInstance,
        lambda: hetopt.Instance.from_speedups([[1]], [1], weights=[1e308]),
    ),
    (
        "capacity['GPU1']",
        hetopt.InvalidInstance,
        lambda: hetopt.Cluster.of([10**11]),
    ),
    (
        "capacity['GPU1']",
        hetopt.InvalidInstance,
        lambda: hetopt.Cluster.of([10**100]),
    ),
    (
        Worded("rows of the table of shares differ"),
        hetopt.InvalidInstance,
        lambda: hetopt.audit(TENANTS, [[1, 2], [3]]),
    ),
    (Worded("table of shares has shape ()"), hetopt.InvalidInstance, lambda: hetopt.audit(TENANTS, NONE)),
    ("instance", hetopt.InvalidInstance, lambda: hetopt.audit(wrong([[1]]), [[1]])),
    (
        Worded("the policy is 'oef'"),
        hetopt.InvalidOption,
        lambda: hetopt.solve(wrong("oef"), TENANTS),
    ),
    (
        "instance",
        hetopt.InvalidInstance,
        lambda: hetopt.solve(oef.cooperative(), wrong([[1, 2]])),
    ),
    (
        "options",
        hetopt.InvalidOption,
        lambda: hetopt.solve(oef.cooperative(), TENANTS, wrong({"gap": 1})),
    ),
    (
        Worded("there is no option 'timelimit'; did you mean 'time_limit'? known: exact, gap"),
        hetopt.InvalidOption,
        lambda: hetopt.solve(oef.cooperative(), TENANTS, timelimit=3),
    ),
    (
        Worded(
            "the policy is 'oef-cooperative'; it must be a policy, such as hetopt.models.oef.cooperative(); "
            "hetopt.registry.make_policy finds one by name"
        ),
        hetopt.InvalidOption,
        lambda: hetopt.audit(TENANTS, [[1, 0], [0, 1]], policy=wrong("oef-cooperative")),
    ),
    (Worded("the policy is 'fft'"), hetopt.InvalidOption, lambda: hetopt.simulate(wrong("fft"), JOBS)),
    (
        Worded("kinds is 'over'; it must be a sequence, e.g. ('over',)"),
        hetopt.InvalidOption,
        lambda: hetopt.auditing.strategy_proof(TENANTS, oef.cooperative(), kinds=wrong("over")),
    ),
    (
        Worded("the shares contain values that are not numbers"),
        hetopt.InvalidInstance,
        lambda: hetopt.audit(TENANTS, [["1/2", "1"], ["x", "0"]], exact=True),
    ),
    (
        Worded("GandivaFair is a procedure, not a formulation"),
        hetopt.InvalidOption,
        lambda: hetopt.solve(gandiva_fair.gandiva_fair(), TENANTS, exact=True),
    ),
    (
        "state",
        hetopt.InvalidOption,
        lambda: fft.FFT()(JOBS, wrong({"rho": 1})),
    ),
    ("FFT.options", hetopt.InvalidOption, lambda: fft.FFT(options=wrong(3))),
    (
        Worded("EnvyFree is a class; add an instance of it"),
        hetopt.InvalidFormulation,
        lambda: fft.FFT() + wrong(EnvyFree),
    ),
    (
        Worded("must return a pair: an Allocation or Plan, and its state"),
        hetopt.InvalidPlan,
        lambda: hetopt.simulate(wrong(lambda *_: (None, None)), JOBS, round_seconds=300.0),
    ),
    (
        Worded("cooperative does not accept an instance; if it returns a policy, give cooperative()"),
        hetopt.InvalidOption,
        lambda: hetopt.solve(wrong(oef.cooperative), TENANTS),
    ),
    (
        Worded("placer is the class HierarchicalPlacer; give an instance: HierarchicalPlacer()"),
        hetopt.InvalidOption,
        lambda: hetopt.simulate(fft.FFT(), JOBS, placer=wrong(hetopt.HierarchicalPlacer)),
    ),
    (Worded("3 is not a component"), hetopt.InvalidFormulation, lambda: fft.FFT() + (wrong(3))),
    (Worded("components is 3; it must be a sequence"), hetopt.InvalidFormulation, lambda: hetopt.Formulation(wrong(3))),
    ("instance", hetopt.InvalidInstance, lambda: hetopt.simulate(fft.FFT(), wrong(fft.FFT()))),
    ("until", hetopt.InvalidOption, lambda: hetopt.simulate(fft.FFT(), JOBS, until=wrong("5"))),
    ("WholeJobs.most_owed", hetopt.InvalidOption, lambda: hetopt.WholeJobs(wrong("3"))),
    ("WholeJobs.most_owed", hetopt.InvalidOption, lambda: hetopt.WholeJobs(math.inf)),
    (
        "HierarchicalPlacer.whole",
        hetopt.InvalidOption,
        lambda: hetopt.HierarchicalPlacer(whole=wrong(3)),
    ),
    (
        Worded("it must name a file: export(what, path, instance)"),
        hetopt.InvalidOption,
        lambda: hetopt.export(oef.cooperative(), wrong(TENANTS), NONE),
    ),
    (
        Worded("is a procedure, not a program; there is nothing to export"),
        hetopt.InvalidOption,
        lambda: hetopt.export(gavel.water_filling(), "nowhere.lp", JOBS),
    ),
    (
        Worded("is a Pyomo model; export hetopt.from_pyomo(model)"),
        hetopt.InvalidOption,
        lambda: hetopt.export(wrong(oef.cooperative().build(TENANTS)), "nowhere.lp"),
    ),
    (
        "lazy",
        hetopt.InvalidOption,
        lambda: oef.cooperative().build(TENANTS, lazy=wrong("0.5")),
    ),
    (
        "canonical",
        hetopt.InvalidOption,
        lambda: oef.noncooperative(canonical=wrong(1)),
    ),
    (
        "LeastRatio.scale_by_demand",
        hetopt.InvalidOption,
        lambda: gavel.max_min_fairness(scale_by_demand=wrong("no")),
    ),
    (
        "any_scale",
        hetopt.InvalidInstance,
        lambda: hetopt.Instance.from_speedups([[1]], [1], any_scale=wrong("yes")),
    ),
    (
        "work",
        hetopt.InvalidInstance,
        lambda: hetopt.Instance.from_jobs([[1]], 1, work=wrong(b"3"), capacity=[1]),
    ),
    (
        "tenants['u1'].weight",
        hetopt.InvalidInstance,
        lambda: hetopt.Instance.from_speedups([[1]], [1], weights=wrong(np.True_)),
    ),
    (
        "from_tables",
        hetopt.InvalidInstance,
        lambda: hetopt.Instance.from_tables(TENANTS.tables()["servers"], throughputs=True),
    ),
    (
        "seed",
        hetopt.InvalidOption,
        lambda: hetopt.Options(seed=10**10),
    ),
]


@pytest.mark.parametrize(("key", "kind", "call"), WRONG)
def test_one_clear_line(key: str, kind: type[hetopt.HetoptError], call: Callable[[], object]) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert blames(caught.value, key)
    assert len(str(caught.value)) < 300


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
