"""Families of inputs that differ in structure; every benchmark takes the median and the worst over them.

Tables hold the parts (speeds, GPUs of each type, GPUs per gang, weights, work, nodes); `MARKETS`, `ROUNDS`,
`FEW_JOBS` and `ON_NODES` combine them into named families. Parameters that are chosen by measurement are chosen on
`tuning(...)`, every other family of each list, and judged on `judging(...)`, the rest.

`speeds` are (n, k) and >= 0: entry [e, j] is the speed of one GPU of type j for tenant or job e; 0 means that it cannot
run there. Each row has a positive entry. Entity scales are arbitrary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

import hetopt
from hetopt.data.array_types import Floats, Positions

Draw = np.random.Generator


def _generic(draw: Draw, n: int, k: int) -> Floats:
    return np.column_stack([np.ones(n), np.sort(draw.uniform(1, 10, (n, k - 1)), axis=1)])


def _unsorted(draw: Draw, n: int, k: int) -> Floats:
    return draw.uniform(1, 10, (n, k))


def _curve(draw: Draw, n: int, k: int) -> Floats:
    """Powers of one curve: how much a tenant gains from fast types is its only parameter."""
    return np.asarray(np.sort(draw.uniform(1, 10, k)) ** draw.uniform(0.3, 1.7, (n, 1)))


def _amdahl(draw: Draw, n: int, k: int) -> Floats:
    serial = draw.uniform(0, 0.5, (n, 1))
    return np.asarray(1 / (serial + (1 - serial) / np.sort(draw.uniform(1, 10, k))))


def _low_rank(draw: Draw, n: int, k: int) -> Floats:
    return draw.uniform(0, 1, (n, 2)) @ draw.uniform(1, 10, (2, k))


def _few_models(draw: Draw, n: int, k: int) -> Floats:
    return _generic(draw, 6, k)[draw.integers(0, 6, n)]


def _noisy_models(draw: Draw, n: int, k: int) -> Floats:
    """Six models, measured with an error of a tenth of a per cent."""
    return _few_models(draw, n, k) * draw.lognormal(0, 0.001, (n, k))


def _incompatible(draw: Draw, n: int, k: int) -> Floats:
    speeds = np.where(draw.random((n, k)) < 0.4, 0.0, _unsorted(draw, n, k))
    speeds[np.arange(n), draw.integers(0, k, n)] = draw.uniform(1, 10, n)
    return speeds


def _nested(draw: Draw, n: int, k: int) -> Floats:
    """A job that needs much memory cannot run on the first, small types."""
    return np.asarray(np.where(np.arange(k) >= draw.integers(0, k, (n, 1)), _generic(draw, n, k), 0.0))


def _blocks(draw: Draw, n: int, k: int) -> Floats:
    """Two disjoint markets in one."""
    first = draw.random((n, 1)) < (0.5 if k > 1 else 1.0)
    return np.asarray(np.where(first == (np.arange(k) < (k + 1) // 2), _unsorted(draw, n, k), 0.0))


def _integers(draw: Draw, n: int, k: int) -> Floats:
    return draw.integers(1, 5, (n, k)).astype(float)


def _alike(draw: Draw, n: int, k: int) -> Floats:
    """Types that are tenths of a per cent apart."""
    return 1 + draw.uniform(0, 0.005, (n, k))


def _nearly_equal(draw: Draw, n: int, k: int) -> Floats:
    return 1 + draw.uniform(0, 10.0**-9, (n, k))


def _twins(draw: Draw, n: int, k: int) -> Floats:
    """Pairs of types with the same speeds."""
    return _unsorted(draw, n, k)[:, np.arange(k) // 2]


def _six_orders(draw: Draw, n: int, k: int) -> Floats:
    return np.asarray(10 ** draw.uniform(-3, 3, (n, k)))


def _specialists(draw: Draw, n: int, k: int) -> Floats:
    """Each tenant is fast on one type and about equally slow on the others."""
    speeds = 1 + draw.uniform(0, 0.01, (n, k))
    speeds[np.arange(n), draw.integers(0, k, n)] = draw.uniform(2, 20, n)
    return speeds


def _ladder(_: Draw, n: int, k: int) -> Floats:
    """Powers of numbers whose distances to 1 fall evenly, in logarithms, from 1 to 1e-8."""
    return np.asarray((1 + 10 ** (-8 * np.arange(n) / n))[:, None] ** np.arange(k))


def _opposed(draw: Draw, n: int, k: int) -> Floats:
    """Half of the rows prefer the types in reverse order."""
    first, second = np.sort(draw.uniform(1, 10, (2, k)), axis=1)
    return np.asarray(first ** draw.choice([-1.0, 1.0], (n, 1)) * second ** draw.normal(0, 0.3, (n, 1)))


def _two_tastes(draw: Draw, n: int, k: int) -> Floats:
    """Half of the rows prefer the types in reverse order, and differ by a hundredth of a per cent."""
    rising = np.linspace(1, 3, k)
    return np.where(np.arange(n)[:, None] < n // 2, rising, rising[::-1]) * (
        1 + 10.0**-4 * draw.standard_normal((n, k))
    )


def _quadratic(draw: Draw, n: int, k: int) -> Floats:
    types = np.arange(k)
    return 1 + draw.uniform(0, 1, (n, 1)) * types + draw.uniform(0, 0.2, (n, 1)) * types**2


def _roofline(draw: Draw, n: int, k: int) -> Floats:
    """Bound by the job or by the type."""
    return np.minimum(draw.uniform(1, 10, (n, 1)), np.sort(draw.uniform(1, 10, k)))


def _steps(draw: Draw, n: int, k: int) -> Floats:
    """Types from some type on are 2, 4 or 8 times as fast as those before."""
    return np.asarray(np.where(np.arange(k) >= draw.integers(0, k, (n, 1)), draw.choice([2.0, 4.0, 8.0], (n, 1)), 1.0))


def _cyclic(_: Draw, n: int, k: int) -> Floats:
    """The speeds 1 to k, each row shifted by one."""
    return 1.0 + (np.arange(n)[:, None] + np.arange(k)) % k


SPEEDS: dict[str, Callable[[Draw, int, int], Floats]] = {
    "generic": _generic,
    "unsorted": _unsorted,
    "curve": _curve,
    "amdahl": _amdahl,
    "low rank": _low_rank,
    "few models": _few_models,
    "noisy models": _noisy_models,
    "incompatible": _incompatible,
    "nested": _nested,
    "blocks": _blocks,
    "integers": _integers,
    "alike": _alike,
    "nearly equal": _nearly_equal,
    "twins": _twins,
    "six orders": _six_orders,
    "specialists": _specialists,
    "ladder": _ladder,
    "opposed": _opposed,
    "two tastes": _two_tastes,
    "quadratic": _quadratic,
    "roofline": _roofline,
    "steps": _steps,
    "cyclic": _cyclic,
}


def _split(draw: Draw, gpus: int, part: Floats) -> Positions:
    return draw.multinomial(gpus - len(part), part / part.sum()) + 1


GPUS: dict[str, Callable[[Draw, int, int], Positions]] = {
    "even": lambda draw, gpus, k: _split(draw, gpus, np.ones(k)),
    "equal": lambda _, gpus, k: np.full(k, max(1, gpus // k)),
    "unequal": lambda draw, gpus, k: _split(draw, gpus, draw.dirichlet(np.ones(k))),
    "geometric": lambda draw, gpus, k: _split(draw, gpus, 0.5 ** np.arange(k)),
    "one tiny": lambda draw, gpus, k: np.r_[1, _split(draw, gpus, np.ones(k - 1))] if k > 1 else np.array([gpus]),
    "tiny": lambda draw, gpus, k: _split(draw, max(2 * k, gpus // 20), np.ones(k)),
    "uniform": lambda draw, gpus, k: _split(draw, gpus, draw.uniform(0.2, 2, k)),
    "one large": lambda _, gpus, k: np.r_[np.full(k - 1, max(1, gpus // 17)), max(1, gpus - (k - 1) * (gpus // 17))],
}
"""(k,) GPUs of each type, about ``gpus`` in all (``"tiny"``: a twentieth of them)."""

GANGS: dict[str, Sequence[int]] = {
    "single": (1,),
    "powers": (1, 2, 4, 8),
    "even": (2, 4, 8),
    "odd": (1, 3, 5, 7, 16),
    "threes": (3, 6, 12, 24),
    "eight sizes": (1, 2, 3, 4, 6, 8, 12, 16),
    "large": (16, 24, 32, 48, 64),
    "one large": (*[1] * 30, 64),
    "sixteen sizes": tuple(range(1, 17)),
    "Fibonacci": (1, 2, 3, 5, 8, 13, 21, 34),
    "primes": (2, 3, 5, 7, 11, 13),
    "forty sizes": tuple(range(1, 41)),
    "large odd": (31, 33, 35, 37, 41),
}
"""Sizes of gangs, drawn with equal chances."""

WEIGHTS: dict[str, Callable[[Draw, int], Floats]] = {
    "equal": lambda _, n: np.ones(n),
    "lognormal": lambda draw, n: draw.lognormal(0, 1, n),
    "one huge": lambda _, n: np.where(np.arange(n) == n // 2, 1e6, 1.0),
}

WORK: dict[str, Callable[[Draw, Floats], Floats]] = {
    "lognormal": lambda draw, speeds: 300 * speeds.mean(axis=1) * draw.lognormal(3, 1.5, len(speeds)),
    "equal": lambda _, speeds: 17 * speeds.max(axis=1),
    "two": lambda draw, speeds: speeds.max(axis=1) * draw.choice([2.0, 200.0], len(speeds)),
    "Pareto": lambda draw, speeds: speeds.max(axis=1) * (1 + draw.pareto(1.1, len(speeds))),
}
"""(n,) work per GPU; `"equal"` and `"two"`: rounds on the fastest type."""


@dataclass(frozen=True)
class Family:
    """A family of inputs.

    Attributes
    ----------
    speeds, gpus, gangs, weights:
        Names of the parts.
    second:
        Every other row has speeds of this family, if it is not empty.
    power:
        Speeds are raised to this power.
    spread:
        Types differ by up to this number of orders of magnitude.
    noise:
        Speeds have an error with this standard deviation of their logarithm.
    digits:
        Speeds are rounded to this number of significant digits; 0: not rounded.
    work:
        Name of the work of jobs.
    together:
        All jobs arrived at once.
    same:
        Jobs of equal speeds and gangs are equal in all numbers but their checkpoints.
    """

    speeds: str
    gpus: str = "even"
    gangs: str = "single"
    weights: str = "equal"
    second: str = ""
    power: float = 1.0
    spread: float = 0.0
    noise: float = 0.0
    digits: int = 0
    work: str = "lognormal"
    together: bool = False
    same: bool = False

    @property
    def name(self) -> str:
        """The settings that differ from the defaults."""
        names = [field.name for field in fields(self)[1:] if getattr(self, field.name) != field.default]
        return ", ".join([self.speeds, *(f"{name} {getattr(self, name)}" for name in names)])

    def draw(self, seed: int) -> Draw:
        """The random generator of this family and seed."""
        return np.random.default_rng([seed, *self.name.encode()])

    def speed_table(self, draw: Draw, n: int, k: int) -> Floats:
        """(n, k) speeds."""
        speeds = SPEEDS[self.speeds](draw, n, k)
        if self.second:
            speeds[1::2] = SPEEDS[self.second](draw, len(speeds[1::2]), k)
        if self.spread:
            speeds = speeds * 10 ** draw.uniform(-self.spread / 2, self.spread / 2, k)
        if self.noise:
            speeds = speeds * draw.lognormal(0, self.noise, (n, k))
        speeds = speeds**self.power if self.power != 1.0 else speeds
        if self.digits:
            unit = 10.0 ** (np.floor(np.log10(np.where(speeds > 0, speeds, 1.0))) - self.digits + 1)
            speeds = np.rint(speeds / unit) * unit
        return speeds


MARKETS = (
    *(Family(speeds) for speeds in SPEEDS if speeds != "ladder"),
    Family("generic", gpus="unequal"),
    Family("curve", gpus="one tiny"),
    Family("generic", weights="one huge"),
    Family("curve", weights="one huge"),
    Family("incompatible", gpus="geometric"),
    Family("six orders", weights="lognormal"),
    Family("nested", gpus="one tiny"),
    Family("integers", weights="lognormal"),
    Family("ladder"),
)
"""Families of tenants (and of jobs of one GPU)."""

ROUNDS = (
    *(Family("generic", gangs=gangs) for gangs in GANGS),
    *(Family("curve", "unequal", gangs) for gangs in ("powers", "odd", "eight sizes", "sixteen sizes", "large")),
    Family("incompatible", "even", "odd"),
    Family("incompatible", "equal", "sixteen sizes"),
    Family("few models", "even", "odd"),
    Family("few models", "equal", "eight sizes"),
    Family("noisy models", "unequal", "sixteen sizes"),
    Family("nested", "one tiny", "odd"),
    Family("alike", "even", "eight sizes"),
    Family("nearly equal", "equal", "odd"),
    Family("integers", "geometric", "odd"),
    Family("six orders", "even", "eight sizes"),
    Family("blocks", "unequal", "threes"),
    Family("generic", "tiny", "odd"),
    Family("generic", "tiny", "large"),
    Family("twins", "equal", "sixteen sizes"),
    Family("opposed", "uniform", "Fibonacci", work="equal", together=True),
    Family("opposed", "uniform", "Fibonacci", work="Pareto", together=True),
    Family("steps", "even", "primes", work="Pareto", together=True),
    Family("roofline", "one large", "Fibonacci", work="equal", together=True),
    Family("cyclic", "even", "primes", work="two", together=True),
    Family("opposed", "uniform", "primes", work="equal", together=True),
)
"""Families of jobs in gangs."""

FEW_JOBS = (
    (Family("two tastes", "one large", "forty sizes", work="equal", together=True), (300, 4, 17 * 41)),
    (Family("opposed", "uniform", "sixteen sizes", work="equal", together=True), (2_000, 6, 600)),
    (Family("quadratic", "uniform", "forty sizes", work="equal", together=True), (1_500, 8, 600)),
    (Family("opposed", "one large", "forty sizes", work="equal", together=True), (300, 4, 17 * 41)),
    (Family("alike", "equal", "eight sizes", work="Pareto"), (102, 10, 456)),
)
"""Families of few jobs in gangs of many sizes, each with its jobs, types and GPUs."""


def market(family: Family, seed: int, tenants: int, types: int, gpus: int | None = None) -> hetopt.Instance:
    """Tenants with the family's speeds and weights; 55 GPUs of each type on average if ``gpus`` is None."""
    draw = family.draw(seed)
    speeds = family.speed_table(draw, tenants, types)
    capacity = GPUS[family.gpus](draw, 55 * types if gpus is None else gpus, types)
    slowest = np.where(speeds > 0, speeds, np.inf).min(axis=1, keepdims=True)
    weights = WEIGHTS[family.weights](draw, tenants)
    return hetopt.Instance.from_speedups(speeds / slowest, capacity.tolist(), weights=weights)


def jobs(family: Family, seed: int, number: int, types: int, gpus: int) -> hetopt.Instance:
    """Jobs of the family that arrived in the last 200 rounds of 300 s, all in the first of them if `together`.

    A gang that needs more GPUs than there are of any type on which it can run is replaced by a single GPU.
    """
    draw = family.draw(seed)
    speeds = family.speed_table(draw, number, types)
    capacity = GPUS[family.gpus](draw, gpus, types)
    demand = draw.choice(GANGS[family.gangs], number)
    demand = np.where(demand <= np.where(speeds > 0, capacity, 0).max(axis=1), demand, 1)
    scale = np.ones(number) if family.same else draw.lognormal(0, 1, number)
    work = scale * WORK[family.work](draw, speeds)
    arrival = 300.0 * draw.integers(0, 1 if family.together else 200, number)
    columns = {
        "arrival": arrival,
        "weight": WEIGHTS[family.weights](draw, number),
        "checkpoint_bytes": draw.lognormal(np.log(2e9), 1.5, number),
    }
    throughput = speeds * (scale * demand)[:, None]
    return hetopt.Instance.from_jobs(throughput, demand, work * demand, capacity.tolist(), time=300.0 * 200, **columns)


NODES: dict[str, Callable[[Draw, int, int], Positions]] = {
    "in turn": lambda _, nodes, k: 4 * (np.arange(nodes)[:, None] % k == np.arange(k)),
    "each": lambda _, nodes, k: np.full((nodes, k), 4),
    "single": lambda _, nodes, k: 1 * (np.arange(nodes)[:, None] % k == np.arange(k)),
    "pairs": lambda _, nodes, k: 2 * (np.arange(nodes)[:, None] % k == np.arange(k)),
    "mixed": lambda draw, nodes, k: draw.integers(0, 9, (nodes, k)) * (draw.random((nodes, k)) < 0.5),
    "large": lambda _, nodes, k: np.full((nodes, k), 16),
    "one large": lambda _, nodes, k: np.where(np.arange(nodes)[:, None] == 0, 64, np.eye(k, dtype=int)[[0] * nodes]),
}
"""(nodes, k) GPUs of each type on each node."""


@dataclass(frozen=True)
class NodeFamily(Family):
    """Jobs of a family on nodes, for policies that choose servers.

    Attributes
    ----------
    nodes:
        Name of the GPUs of the nodes.
    utility:
        Utility of the jobs (Hadar).
    cards:
        Orders of magnitude by which the bandwidths of network cards differ.
    """

    nodes: str = "in turn"
    utility: str = "negative-jct"
    cards: float = 0.0


ON_NODES = (
    NodeFamily("generic", gangs="powers"),
    NodeFamily("generic", gangs="powers", nodes="each"),
    NodeFamily("curve", gangs="odd", nodes="mixed", utility="effective-throughput"),
    NodeFamily("few models", gangs="powers", nodes="large"),
    NodeFamily("incompatible", gangs="eight sizes", nodes="pairs", utility="relative-throughput"),
    NodeFamily("unsorted", gangs="sixteen sizes", nodes="each", utility="relative-throughput"),
    NodeFamily("six orders", gangs="odd", nodes="mixed", utility="weighted-jct"),
    NodeFamily("nearly equal", nodes="single"),
    NodeFamily("integers", gangs="powers", weights="lognormal", nodes="each", utility="weighted-throughput"),
    NodeFamily("alike", gangs="even", nodes="large", utility="finished"),
    NodeFamily("noisy models", gangs="threes", nodes="one large"),
    NodeFamily("nested", weights="one huge", nodes="one large", utility="weighted-jct"),
    NodeFamily("twins", gangs="large", nodes="each"),
    NodeFamily("specialists", gangs="one large", nodes="large", utility="effective-throughput"),
    NodeFamily("curve", nodes="large"),
    NodeFamily("blocks", gangs="large", utility="relative-throughput"),
    NodeFamily("unsorted", gangs="large", nodes="each", utility="finished", cards=2.0),
    NodeFamily("unsorted", gangs="odd", utility="finished", cards=2.0),
    NodeFamily("generic", gangs="sixteen sizes", nodes="pairs", cards=2.0),
    NodeFamily("curve", gangs="threes", nodes="each", utility="finished", cards=2.0),
)
"""Families of jobs on nodes."""


TUNING = frozenset(
    family for families in (MARKETS, ROUNDS, ON_NODES, [f for f, _ in FEW_JOBS]) for family in families[::2]
)


def tuning(families: Iterable[Family]) -> list[Family]:
    """Those on which parameters may be chosen."""
    return [family for family in families if family in TUNING]


def judging(families: Iterable[Family]) -> list[Family]:
    """Those that no choice of a parameter has seen."""
    return [family for family in families if family not in TUNING]


FOUND: dict[str, tuple[tuple[Family, int], ...]] = {
    "oef-noncooperative": (
        (Family("integers", gpus="equal", second="six orders", power=2.0, digits=2), 276),
        (Family("integers", gpus="equal", power=2.0, digits=2), 2),
        (Family("generic", gpus="equal", noise=10.0**-6), 733),
        (Family("integers", gpus="tiny", power=0.1), 68),
    ),
    "oef-cooperative": (
        (Family("curve", weights="one huge", second="low rank", power=4.0, spread=3.0), 0),
        (Family("nested", gpus="tiny", weights="one huge", second="noisy models"), 619),
    ),
    "fft": (
        (Family("generic", gangs="one large", noise=0.1), 536),
        (Family("generic", gangs="sixteen sizes", spread=6.0), 254),
        (Family("generic", gangs="sixteen sizes", spread=6.0), 268),
        (Family("noisy models", gangs="sixteen sizes", second="alike"), 0),
        (Family("generic", gangs="one large", second="unsorted", noise=10.0**-6), 148),
        (
            Family("generic", gangs="one large", second="few models", power=0.3, spread=1.0, noise=10.0**-9, digits=1),
            798,
        ),
        (Family("alike", gangs="eight sizes", second="few models"), 0),
        (Family("generic", gangs="one large", second="unsorted", digits=3), 465),
        (Family("six orders", gangs="eight sizes", spread=6.0), 766),
    ),
    "hadare": (
        (
            NodeFamily("unsorted", "geometric", "sixteen sizes", "equal", "few models", utility="finished", cards=2.0),
            864,
        ),
        (NodeFamily("unsorted", gangs="sixteen sizes", second="incompatible", utility="finished", cards=2.0), 0),
        (NodeFamily("few models", gangs="sixteen sizes", utility="finished", cards=4.0), 0),
        (NodeFamily("unsorted", gangs="threes", nodes="pairs", utility="finished", cards=2.0), 0),
        (NodeFamily("unsorted", gangs="even", nodes="single", utility="finished", cards=2.0), 0),
    ),
}
"""Method of `slow_inputs.METHODS` -> (family, seed) of inputs that the search found slow."""


def on_nodes(family: NodeFamily, seed: int, number: int, types: int, nodes: int) -> hetopt.Instance:
    """The jobs of a family on nodes, each with GPUs.

    A gang that needs more GPUs than there are of all types on which it can run is replaced by a single GPU.
    """
    draw = family.draw(seed)
    gpus = NODES[family.nodes](draw, nodes, types)
    gpus[np.arange(nodes), np.arange(nodes) % types] += gpus.sum(axis=1) == 0
    gpus[np.arange(types) % nodes, np.arange(types)] += gpus.sum(axis=0) == 0
    bandwidth = hetopt.Server("any", {}).nic_bytes_per_s * 10 ** draw.uniform(
        -family.cards / 2, family.cards / 2, nodes
    )
    flat = jobs(family, seed, number, types, int(gpus.sum()))
    servers = [
        hetopt.Server(f"n{h}", dict(zip(flat.cluster.type_names, row, strict=True)), nic_bytes_per_s=card)
        for h, (row, card) in enumerate(zip(gpus.tolist(), bandwidth.tolist(), strict=True))
    ]
    cluster = hetopt.Cluster(flat.cluster.gpu_types, tuple(servers))
    fitted = []
    for job in flat.jobs:
        able = sum(n for t, n in cluster.capacity.items() if job.throughput[t] > 0)
        fitted.append(replace(job, demand=job.demand if job.demand <= able else 1, utility=family.utility))
    return hetopt.Instance(cluster, jobs=tuple(fitted), time=flat.time)
