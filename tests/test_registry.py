"""Policies by name: announced ones, one's own, and what is said where somebody's code is wrong."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import hetopt
from hetopt.errors import HetoptError, InvalidOption
from hetopt.programs.formulation import Formulation
from hetopt.registry import description, make_policy, policy_names

OWN = '''
from hetopt.models import oef
ready = oef.cooperative()
number = 7
def bad_key(): return {}["a"]
def bad_value(size: int = 1): raise ValueError("no such size")
def nothing(): return 5
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
        assert description(name)


def test_a_formulation_goes_by_module_and_name(folder: Path) -> None:
    assert isinstance(make_policy("own_policies:ready"), Formulation)


def test_a_function_of_the_instance_is_a_policy_itself(folder: Path) -> None:
    instance = hetopt.instances.load("oef/eq6")
    for settings, part in (({}, 1.0), ({"part": 0.5}, 0.5)):
        policy = make_policy("own_policies:first", settings)
        assert hetopt.solve(policy, instance).x.tolist() == [[part, part], [0, 0]]
    assert hetopt.solve(make_policy("own_policies:short"), instance).x.tolist() == [[1, 1], [0, 0]]
    with pytest.raises(hetopt.InvalidPlan, match="policy bad has answered 3; it must return a pair"):
        hetopt.solve(make_policy("own_policies:bad"), instance)
    assert description("own_policies:first") == "All of everything to the first."
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
    (":x", {}, "there is no policy ':x'; one of your own is called module:Name"),
    ("own_policies:", {}, "one of your own is called module:Name"),
    ("..:x", {}, "one of your own is called module:Name"),
    ("own_policies:absent", {}, "cannot be loaded from 'own_policies:absent': module 'own_policies' has no attribute"),
    ("own_policies:number", {}, "is 7; it must be a function or class"),
    ("own_policies:nothing", {}, "makes int, which is not a policy"),
    ("own_policies:ready", {"gap": 1}, "is a Formulation and has no settings; leave out gap"),
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


@pytest.mark.parametrize(("name", "settings", "said"), CASES)
def test_what_is_wrong_is_one_error_of_ours(folder: Path, name: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(HetoptError) as caught:
        make_policy(name, settings)
    assert said in str(caught.value)


def test_where_somebodys_code_fails_is_said(folder: Path) -> None:
    with pytest.raises(InvalidOption, match=r"own_broken\.py:2\)"):
        make_policy("own_broken:f")


def test_settings_that_are_true_or_false_pass() -> None:
    assert make_policy("oef-noncooperative", {"canonical": True}) is not None
