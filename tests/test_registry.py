"""Policies and GPU mappings by name: registered ones, a user's, and the errors where a user's code is wrong."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import hetopt
from hetopt.errors import HetoptError, InvalidOption
from hetopt.formulations.formulation import Formulation
from hetopt.models.asrpt import (
    ASRPT,
    AllReduce,
    Asynchronous,
    HeavyEdge,
    LocalSearch,
    MinimumAlpha,
    MinimumCut,
    WCSDuration,
)
from hetopt.plugins import MAPPERS, POLICIES
from hetopt.prediction.forest import RandomForest
from hetopt.prediction.predictors import GroupMedian
from hetopt.registry import make_mapper, make_policy, make_predictor, mapper_names, policy_names, predictor_names
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers

OWN = '''
from hetopt.models import oef
ready = oef.cooperative()
number = 7
def bad_key(): return {}["a"]
def bad_value(size: int = 1): raise ValueError("no such size")
def nothing(): return 5
def needs(part): return first
def takes_all(part=1.0, **others): return lambda instance, state=None: first(instance, state, part + others["more"])
def short(inst, state=None): return first(inst)
def bad(instance, state=None): return 3
def first(instance, state=None, part=1.0):
    """All of everything to the first."""
    import hetopt
    entities = instance.entities()
    x = entities.speed * 0
    x[0] = part * entities.capacity
    return hetopt.Plan(entities, x), None
'''


JOBS = hetopt.Instance.from_jobs([[8, 1], [8, 1]], demand=[1, 1], work=[16, 16], capacity=[1, 1])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_policies.py").write_text(OWN)
    (tmp_path / "own_broken.py").write_text("x = {}\ny = x['lost']\n")
    (tmp_path / "own_typo.py").write_text("def f(:\n")
    return tmp_path


def test_every_announced_policy_can_be_made_and_says_what_it_does() -> None:
    for name in policy_names():
        assert callable(make_policy(name))
        assert POLICIES.description(name)


def test_a_formulation_goes_by_module_and_name(folder: Path) -> None:
    assert isinstance(make_policy("own_policies:ready"), Formulation)


def test_a_function_of_the_instance_is_a_policy_itself(folder: Path) -> None:
    instance = hetopt.instances.load("oef/eq6")
    for settings, part in (({}, 1.0), ({"part": 0.5}, 0.5)):
        policy = make_policy("own_policies:first", settings)
        assert hetopt.solve(policy, instance).x.tolist() == [[part, part], [0, 0]]
    assert hetopt.solve(make_policy("own_policies:short"), instance).x.tolist() == [[1, 1], [0, 0]]
    with pytest.raises(hetopt.InvalidPlan, match="policy bad returned 3; it must return a pair"):
        hetopt.solve(make_policy("own_policies:bad"), instance)
    most = make_policy("own_policies:takes_all", {"part": 0.25, "more": 0.5})
    assert hetopt.solve(most, instance).x.tolist() == [[0.75, 0.75], [0, 0]]
    assert POLICIES.description("own_policies:first") == "All of everything to the first."
    with pytest.raises(InvalidOption, match="has no setting 'size'"):
        make_policy("own_policies:first", {"size": 2})


@pytest.mark.parametrize("name", policy_names())
def test_policies_and_their_results_can_be_pickled(name: str) -> None:
    """So that processes of a pool can share the work."""
    again = pickle.loads(pickle.dumps(make_policy(name)))
    assert again == make_policy(name)
    for instance in (hetopt.instances.load("oef/eq6"), JOBS):
        try:
            result = hetopt.solve(again, instance)
        except HetoptError:  # about the other kind
            continue
        assert pickle.loads(pickle.dumps(result)).x.tolist() == result.x.tolist()


CASES: list[tuple[str, dict[str, Any], str]] = [
    (":x", {}, "there is no policy ':x'; name your own as module:Name"),
    ("own_policies:", {}, "name your own as module:Name"),
    ("..:x", {}, "name your own as module:Name"),
    ("own_policies:absent", {}, "'own_policies:absent' cannot be loaded: module 'own_policies' has no attribute"),
    ("own_policies:number", {}, "is 7; it must be a function or class"),
    ("own_policies:nothing", {}, "makes int, which is not a policy"),
    ("own_policies:ready", {"gap": 1}, "is a Formulation and has no settings; leave out gap"),
    ("own_policies:needs", {}, "policy 'own_policies:needs' needs the setting 'part'"),
    ("own_policies:needs", {"some": 1}, "policy 'own_policies:needs' has no setting 'some'; known: part"),
    ("own_policies:bad_value", {"some": 1}, "has no setting 'some'; known: size"),
    ("own_policies:nothing", {"some": 1}, "has no setting 'some'; it has none"),
    ("own_policies:bad_key", {}, "cannot be made with {}: KeyError: 'a' ("),
    ("own_policies:bad_value", {"size": 2}, "ValueError: no such size ("),
    ("own_broken:f", {}, "cannot be loaded: KeyError: 'lost' ("),
    ("own_typo:f", {}, "cannot be loaded: SyntaxError"),
    (
        "oef-noncooperative",
        {"canonical": "maybe"},
        "setting canonical of policy 'oef-noncooperative' is 'maybe'; it must be",
    ),
    ("oef-noncooperative", {"canonical": 1}, "is 1; it must be true or false"),
]


@pytest.mark.parametrize(("name", "settings", "expected_message"), CASES)
def test_what_is_wrong_is_one_error_of_ours(
    folder: Path, name: str, settings: dict[str, Any], expected_message: str
) -> None:
    with pytest.raises(HetoptError) as caught:
        make_policy(name, settings)
    assert expected_message in str(caught.value)


def test_errors_name_where_a_users_code_fails(folder: Path) -> None:
    with pytest.raises(InvalidOption, match=r"own_broken\.py:2\)"):
        make_policy("own_broken:f")


def test_settings_that_are_true_or_false_pass() -> None:
    assert make_policy("oef-noncooperative", {"canonical": True}) is not None


OWN_MAPPERS = '''
from hetopt.models.asrpt import HeavyEdge, MinimumAlpha
ready = HeavyEdge()
number = 7
def nothing(): return 5
def bad_value(size: int = 1): raise ValueError("no such size")
def on_first(pipeline, servers, most=1):
    """All on the first servers."""
    return HeavyEdge()(pipeline, servers.take({m: int(servers.free[m]) for m in range(most)}))
'''


@pytest.fixture
def mappers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_mappers.py").write_text(OWN_MAPPERS)


def test_every_announced_mapper_can_be_made_and_says_what_it_does() -> None:
    assert {"heavy-edge", "local", "exact-alpha", "exact-cut"} <= set(mapper_names())
    for name in mapper_names():
        assert make_mapper(name) == pickle.loads(pickle.dumps(make_mapper(name)))
        assert MAPPERS.description(name)


def test_mappers_of_ones_own_work_by_module_and_name(mappers: None) -> None:
    instance = hetopt.instances.load("asrpt/fig2")
    pipeline, servers = Pipeline.of(instance.job["job"]), Servers.of(instance, "GPU")
    assert make_mapper("own_mappers:ready") == HeavyEdge()
    mapping = make_mapper("own_mappers:on_first", {"most": 3})(pipeline, servers)
    assert mapping.where == HeavyEdge()(pipeline, servers).where
    with pytest.raises(hetopt.InvalidInstance, match="needs 6 GPUs; free: 5"):
        make_mapper("own_mappers:on_first", {"most": 2})(pipeline, servers)
    assert MAPPERS.description("own_mappers:on_first") == "All on the first servers."


def test_settings_may_be_text() -> None:
    """Enums by their member, mappers by their name, dataclasses by their fields; what is an object stays it."""
    made = make_mapper(
        "exact-alpha", {"start": "heavy-edge", "timing": {"backward": 0.5}, "options": {"time_limit": 3}}
    )
    assert made == MinimumAlpha(HeavyEdge(), Asynchronous(0.5), hetopt.Options(time_limit=3))
    assert make_mapper("exact-cut", {"allreduce": "tree"}) == MinimumCut(allreduce=AllReduce.TREE)
    assert make_mapper("local", {"timing": Asynchronous(0.5)}) == LocalSearch(timing=Asynchronous(0.5))
    assert make_policy("asrpt", {"mapper": "local"}) == ASRPT(mapper=LocalSearch())
    made = make_policy("asrpt-wcs-duration", {"mapper": "local", "predictor": "median", "comm_heavy": 2})
    assert made == WCSDuration(GroupMedian(), 2, LocalSearch())


def test_every_announced_predictor_can_be_made() -> None:
    """Each says 0 of what it has not seen, but for the one that knows."""
    job = hetopt.Job("j", {"GPU": 1.0}, 7, group="g")
    assert {name: make_predictor(name).learner().predict([job])[0] for name in predictor_names()} == {
        "forest": 0, "mean": 0, "median": 0, "perfect": 7}  # fmt: skip
    assert make_predictor("forest", {"trees": 5}) == RandomForest(trees=5)
    for name, settings, message in (
        ("forrest", {}, "there is no predictor 'forrest'; did you mean 'forest'?"),
        ("forest", {"tree": 5}, "predictor 'forest' has no setting 'tree'; did you mean 'trees'?"),
        ("hetopt.models.asrpt:ASRPT", {}, "makes ASRPT, which is not a predictor.learner()"),
    ):
        with pytest.raises(hetopt.HetoptError) as problem:
            make_predictor(name, settings)
        assert message in str(problem.value)


BAD_MAPPERS: list[tuple[str, dict[str, Any], str]] = [
    ("heavyedge", {}, "there is no mapping method 'heavyedge'; did you mean 'heavy-edge'?"),
    ("asrpt", {}, "there is no mapping method 'asrpt'; known: "),
    (":x", {}, "there is no mapping method ':x'; name your own as module:Name"),
    ("own_mappers:absent", {}, "'own_mappers:absent' cannot be loaded: "),
    ("own_mappers:number", {}, "is 7; it must be a function or class"),
    ("own_mappers:nothing", {}, "makes int, which is not a mapping method(pipeline, servers)"),
    ("own_mappers:bad_value", {"size": 2}, "ValueError: no such size ("),
    ("hetopt.models.asrpt:ASRPT", {}, "is a policy, not a mapping method"),
    ("hetopt.models.oef:cooperative", {}, "is a policy, not a mapping method"),
    ("local", {"step": 3}, "has no setting 'step'; did you mean 'steps'?"),
    ("exact-cut", {"allreduce": "tre"}, "setting allreduce of mapping method 'exact-cut' is 'tre'; it must be one of"),
    ("exact-alpha", {"start": "heavy"}, "there is no mapping method 'heavy'; did you mean 'heavy-edge'?"),
    ("exact-alpha", {"start": 3}, "setting start of mapping method 'exact-alpha' is 3; it must be of class Mapper"),
    ("heavy-edge", {"timing": "slow"}, "is 'slow'; it must be of class Timing"),
    ("local", {"timing": {"backwards": 1}}, "has no field 'backwards'; did you mean 'backward'?"),
    ("exact-alpha", {"options": {"time_limit": -1}}, "time_limit is -1; it must be a finite number > 0"),
]


@pytest.mark.parametrize(("name", "settings", "expected_message"), BAD_MAPPERS)
def test_what_is_wrong_with_a_mapper_is_one_error_of_ours(
    mappers: None, name: str, settings: dict[str, Any], expected_message: str
) -> None:
    with pytest.raises(HetoptError) as caught:
        make_mapper(name, settings)
    assert expected_message in str(caught.value)


def test_a_mapper_is_no_policy() -> None:
    with pytest.raises(InvalidOption, match="is a mapping method, not a policy"):
        make_policy("hetopt.models.asrpt:HeavyEdge")
