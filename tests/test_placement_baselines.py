"""The placers that papers compare with, on servers laid out by hand and on any."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetopt
from hetopt import Cluster, GPUType, Instance, InvalidOption, Job, Placement, Plan, Server, UnknownName, plugins
from hetopt.decisions.placers import (
    LARGEST_TENSOR,
    PACK_LIMIT,
    FirstFree,
    HierarchicalPlacer,
    MoreWorkersFirst,
    Placer,
    TensorSkew,
    first_seats,
    pack,
)
from hetopt.decisions.system import check_placement
from hetopt.models import fft
from hetopt.registry import make_system
from hetopt.traces.paper_models import FFT

BASELINES: list[Placer] = [FirstFree(), FirstFree(sticky=False), TensorSkew(), TensorSkew(sticky=False)]


def made(
    sizes: list[int], jobs: list[tuple[str, int, str]], placed: dict[str, dict[str, int]] | None = None
) -> Instance:
    """Servers s0, s1, … with so many GPUs; jobs (name, demand, model) that may be placed already."""
    cluster = Cluster((GPUType("G"),), tuple(Server(f"s{i}", {"G": n}) for i, n in enumerate(sizes)))
    rows = tuple(Job(name, {"G": 1.0}, 1.0, demand, model=model) for name, demand, model in jobs)
    seats = {job: {server: {"G": n} for server, n in own.items()} for job, own in (placed or {}).items()}
    return Instance(cluster, jobs=rows, placed=seats)


def placed(placer: Placer, instance: Instance) -> dict[str, dict[str, int]]:
    """Job -> server -> GPUs, where all jobs run."""
    jobs = instance.entities("jobs")
    found = placer(Plan(jobs, jobs.demand[:, None].copy()), instance)
    return {job: {server: gpus["G"] for server, gpus in own.items()} for job, own in found.hosts.items()}


def test_without_consolidation_gangs_take_what_comes_first() -> None:
    """One GPU is taken of the first server, so that each gang of four lies across two; packing splits neither."""
    instance = made([4, 4, 4], [("one", 1, "a"), ("b", 4, "b"), ("c", 4, "c")])
    assert placed(FirstFree(), instance) == {"one": {"s0": 1}, "b": {"s0": 3, "s1": 1}, "c": {"s1": 3, "s2": 1}}
    packed = placed(hetopt.HierarchicalPlacer(), instance)
    assert [len(packed[job]) for job in ("b", "c")] == [1, 1]


def test_only_jobs_with_one_large_tensor_are_consolidated() -> None:
    """VGG-16, last in the plan, is placed first, on the server that it fills; GPT takes what is left in order."""
    jobs = [("one", 1, "BERT-base"), ("gpt", 4, "GPT-2-large"), ("vgg", 4, "VGG-16")]
    assert placed(TensorSkew(), made([4, 2, 3], jobs)) == {
        "vgg": {"s0": 4},
        "one": {"s1": 1},
        "gpt": {"s1": 1, "s2": 3},
    }
    split = made([3, 2, 4], [("gpt", 4, "GPT-2-large"), ("vgg", 5, "VGG-19")])
    assert placed(TensorSkew(), split) == {"vgg": {"s2": 4, "s1": 1}, "gpt": {"s0": 3, "s1": 1}}  # two servers at least


def test_the_communication_of_a_job_does_not_count() -> None:
    instance = made([1, 4], [("gpt", 4, "OPT-6.7B")])
    wide = instance.replace(jobs=(replace(instance.jobs[0], parallelism=hetopt.Parallelism.TENSOR),))
    assert placed(TensorSkew(), wide) == placed(TensorSkew(), instance) == {"gpt": {"s0": 1, "s1": 3}}


def test_who_stays_on_a_type_stays_in_place() -> None:
    instance = made([4, 4], [("a", 2, "VGG-16"), ("b", 2, "x")], {"a": {"s0": 1, "s1": 1}, "b": {"s1": 2}})
    for placer in (FirstFree(), TensorSkew()):
        assert placed(placer, instance) == {"a": {"s0": 1, "s1": 1}, "b": {"s1": 2}}
    assert placed(FirstFree(sticky=False), instance) == {"a": {"s0": 2}, "b": {"s0": 2}}
    assert placed(TensorSkew(sticky=False), instance)["a"] in ({"s0": 2}, {"s1": 2})


def test_the_limit_parts_vggs_from_all_other_models() -> None:
    """Of the catalogue's models, only VGGs have a tensor that is larger than the limit."""
    skewed = [name for name in FFT if TensorSkew().skewed(Job("j", {"G": 1.0}, 1.0, model=name))]
    assert skewed == ["VGG-16", "VGG-19"]
    assert all(share > PACK_LIMIT or share < PACK_LIMIT / 2 for share in LARGEST_TENSOR.values())
    assert TensorSkew({"mine": 0.25}, limit=0.125).skewed(Job("j", {"G": 1.0}, 1.0, model="mine"))


@pytest.mark.parametrize(
    "wrong", [{"limit": 1.5}, {"limit": -1}, {"largest": {"a": 2.0}}, {"largest": 3}, {"largest": {3: 1}}]
)
def test_settings_that_are_none(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidOption, match=r"TensorSkew\.(limit|largest)"):
        TensorSkew(**wrong)  # type: ignore[arg-type]


@st.composite
def crowded(draw: st.DrawFn) -> Instance:
    """Any servers, and jobs for some of their GPUs, of which some are placed already, anywhere."""
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any))
    free, jobs, placed = dict(enumerate(sizes)), [], {}
    while sum(free.values()) and len(jobs) < 8 and draw(st.booleans()):
        demand = draw(st.integers(1, sum(free.values())))
        jobs.append((f"j{len(jobs)}", demand, draw(st.sampled_from(["VGG-16", "GPT-2-large", "ResNet-50"]))))
        seats: dict[str, int] = {}
        for _ in range(demand):
            server = draw(st.sampled_from([s for s, n in free.items() if n]))
            free[server] -= 1
            seats[f"s{server}"] = seats.get(f"s{server}", 0) + 1
        if draw(st.booleans()):
            placed[jobs[-1][0]] = seats
    return made(sizes, jobs or [("j", 1, "VGG-16")], placed)


@settings(max_examples=150)
@given(instance=crowded(), placer=st.sampled_from(BASELINES))
def test_gangs_are_whole_and_servers_hold_them(instance: Instance, placer: Placer) -> None:
    jobs = instance.entities("jobs")
    plan = Plan(jobs, jobs.demand[:, None].copy())
    placement = placer(plan, instance)
    check_placement(plan, placement, instance)
    assert not placement.waiting
    used = dict.fromkeys(instance.cluster.by_name, 0)
    for name, own in placement.hosts.items():
        assert sum(gpus["G"] for gpus in own.values()) == instance.job[name].demand
        for server, gpus in own.items():
            used[server] += gpus["G"]
    assert all(n <= instance.cluster.by_name[server].gpus.get("G", 0) for server, n in used.items())
    if getattr(placer, "sticky", False):
        assert all(placement.hosts[name] == own for name, own in instance.placed.items())


@settings(max_examples=150)
@given(instance=crowded())
def test_a_skewed_job_alone_takes_the_fewest_servers(instance: Instance) -> None:
    """As packing does, whose own tests say that no fewer are enough."""
    free = {s.name: s.gpus.get("G", 0) for s in instance.cluster.servers}
    alone = instance.replace(jobs=instance.jobs[:1], placed={})
    own = placed(TensorSkew({instance.jobs[0].model or "": 1.0}), alone)[instance.jobs[0].name]
    assert len(own) == len(pack(instance.jobs[0].demand, free) or {})


@given(free=st.lists(st.integers(0, 5), max_size=6), gpus=st.integers(1, 20))
def test_the_first_seats_are_counted_through(free: list[int], gpus: int) -> None:
    """Against a list of all free seats in order."""
    seats = [f"s{i}" for i, n in enumerate(free) for _ in range(n)]
    found = first_seats(gpus, {f"s{i}": n for i, n in enumerate(free)})
    if gpus > len(seats):
        assert found is None
    else:
        assert found == {server: seats[:gpus].count(server) for server in dict.fromkeys(seats[:gpus])}


# -- in systems


def test_systems_have_placers_by_name() -> None:
    assert make_system("fft").placer == HierarchicalPlacer()
    assert make_system("fft", {"placer": "tensor-skew"}).placer == TensorSkew()
    assert make_system("fft", {"options": {"gap": 0.01}}).policy == fft.FFT(options=hetopt.Options(gap=0.01))
    for name in ("gavel-tenants", "gandiva-fair", "equal-split-tenants", "oef-cooperative", "oef-noncooperative"):
        system = make_system(name, {"placer": "first-free", "mix": True})
        assert system.placer == FirstFree()
        assert system.selection == hetopt.LongestStarved(mix=True)
        assert make_system(name).placer == MoreWorkersFirst()
    own = make_system("fft", {"placer": "hetopt.decisions.placers:FirstFree"})
    assert own.placer == FirstFree()
    with pytest.raises(InvalidOption, match=r"which is not a placer\(plan, instance\)"):
        make_system("fft", {"placer": "hetopt.tolerances:scale"})
    with pytest.raises(UnknownName, match="placer 'absent:Name' cannot be loaded"):
        make_system("fft", {"placer": "absent:Name"})
    with pytest.raises(InvalidOption, match="the placer is 5; it must be a name"):
        make_system("fft", {"placer": 5})
    with pytest.raises(UnknownName, match="there is no placer 'first'; did you mean 'first-free'"):
        make_system("fft", {"placer": "first"})


def test_systems_find_placers_that_packages_announce(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("mine", "hetopt.decisions.placers:FirstFree", plugins.PLACERS.group)
    monkeypatch.setitem(plugins.PLACERS.__dict__, "points", {"mine": point})
    assert make_system("fft", {"placer": "mine"}).placer == FirstFree()


def test_gavel_among_tenants_uses_the_whole_cluster() -> None:
    """Four tenants on 24 GPUs; the row of [OEF, eq. 3] would leave 20 of them idle."""
    from hetopt import instances

    four = instances.load("oef/four-users")
    whole, held = (make_system("gavel-tenants", own)(four)[0] for own in ({}, {"tenant_gpus": 1.0}))
    assert isinstance(whole, hetopt.Allocation)
    assert isinstance(held, hetopt.Allocation)
    assert whole.entities.gpus(whole.x).sum() == pytest.approx(24)
    assert held.entities.gpus(held.x).sum() == pytest.approx(4)
    equal = make_system("equal-split-tenants")(four)[0]
    assert isinstance(equal, hetopt.Allocation)
    assert equal.entities.gpus(equal.x).tolist() == [[2.0] * 3] * 4


def test_placements_say_who_was_split() -> None:
    instance = made([2, 2], [("a", 2, "x"), ("b", 2, "y")], {"a": {"s0": 1, "s1": 1}})
    jobs = instance.entities("jobs")
    found: Placement = FirstFree()(Plan(jobs, jobs.demand[:, None].copy()), instance)
    assert found.given_up == {"split": 2, "extra_servers": 2, "moved": 0, "waiting": 0}
