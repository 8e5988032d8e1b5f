"""Every optimum of OEF's programs: violated conclusions as conditions on shares, for z3."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise, permutations, product
from math import lcm
from typing import Any, TypeAlias

import numpy as np

import hetopt
from hetopt.data.array_types import Floats
from hetopt.data.instance import Instance
from hetopt.models import baselines, oef
from hetopt.proofs.adversaries.linear_optima import (
    FAILS,
    HOLDS,
    Form,
    Lines,
    Program,
    Row,
    amounts,
    both,
    column,
    compare,
    constant,
    either,
    extremes,
    holds_unless,
    model_of,
    require,
    value_in,
)

F = Fraction


@dataclass(frozen=True)
class Tenants:
    """Speedups w, GPUs m and weights pi; the columns of the shares begin with ``name``."""

    speed: tuple[tuple[Fraction, ...], ...]
    gpus: tuple[Fraction, ...]
    weight: tuple[Fraction, ...]
    name: str = "x"

    @classmethod
    def of(cls, case: Any, name: str = "x") -> Tenants:
        """The data of a case of tenants."""
        return cls(case.speed, case.gpus, case.weight or (F(1),) * len(case.speed), name)

    @property
    def users(self) -> range:
        """Positions of the tenants."""
        return range(len(self.speed))

    @property
    def types(self) -> range:
        """Positions of the GPU types."""
        return range(len(self.gpus))

    def share(self, user: int, kind: int) -> Form:
        """GPUs of a user and type."""
        return column(f"{self.name}_{user}_{kind}")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all shares."""
        return tuple(f"{self.name}_{e}_{j}" for e in self.users for j in self.types)

    def rate_with(self, speed: Sequence[Fraction], user: int) -> Form:
        """The rate at these speedups with the GPUs of ``user``."""
        return Form.total(speed[j] * self.share(user, j) for j in self.types)

    def rate(self, user: int) -> Form:
        """The rate of a user with its GPUs."""
        return self.rate_with(self.speed[user], user)

    def cluster_rate(self, user: int) -> Fraction:
        """The rate of a user with all GPUs."""
        return sum((w * m for w, m in zip(self.speed[user], self.gpus, strict=True)), F(0))

    @property
    def total(self) -> Form:
        """The sum of all rates."""
        return Form.total(map(self.rate, self.users))

    @property
    def capacity(self) -> tuple[Row, ...]:
        """No type has more GPUs in use than there are."""
        return tuple(
            Row(Form.total(self.share(e, j) for e in self.users) - constant(m)) for j, m in enumerate(self.gpus)
        )

    def program(self, rows: Iterable[Row], gain: Form | None = None) -> Program:
        """A program over the shares, under the capacity and ``rows``."""
        return Program(self.name, self.columns, gain or self.total, (*self.capacity, *rows))

    @property
    def free(self) -> Program:
        """[OEF, eq. 4]."""
        return self.program(())

    @property
    def equal_rates(self) -> Program:
        """[OEF, eq. 9] as printed, with weights: the largest total where all rates per weight are equal."""
        pairs = ((e, e + 1) for e in self.users[:-1])
        return self.program(
            Row(self.weight[o] * self.rate(e) - self.weight[e] * self.rate(o), equal=True) for e, o in pairs
        )

    @property
    def envy_free(self) -> Program:
        """[OEF, eq. 10], with weights: the largest total where no user prefers the GPUs per weight of another."""
        return self.program(
            Row(self.weight[e] * self.rate_with(self.speed[e], o) - self.weight[o] * self.rate(e))
            for e, o in permutations(self.users, 2)
        )

    def at_least(self, rates: Sequence[Fraction], gain: Form | None = None) -> Program:
        """The largest ``gain`` where every user has at least the given rate."""
        return self.program((Row(constant(v) - self.rate(e)) for e, v in enumerate(rates)), gain)

    @property
    def part_rates(self) -> list[Fraction]:
        """The rate of every user with its part of the cluster."""
        return [w / sum(self.weight) * self.cluster_rate(e) for e, w in enumerate(self.weight)]

    @property
    def sharing(self) -> Program:
        """The largest total under the sharing incentive."""
        return self.at_least(self.part_rates)

    @property
    def level(self) -> Fraction:
        """The rate per weight of every user under [OEF, eq. 9]."""
        return self.equal_rates.value / sum(self.weight)

    def lowest_ratio(self, *, one_gpu: bool) -> Program:
        """Gavel: the largest smallest ratio to the equal split, with ``one_gpu`` for at most one GPU per user."""
        top = column("ratio")
        rows = [Row(self.part_rates[e] * top - self.rate(e)) for e in self.users]
        if one_gpu:
            rows += [Row(Form.total(self.share(e, j) for j in self.types) - constant(1)) for e in self.users]
        return Program(self.name, (*self.columns, "ratio"), top, (*self.capacity, *rows))

    def values(self, model: Any) -> list[list[Fraction]]:
        """The shares in a solution."""
        return [[value_in(model, self.share(e, j)) for j in self.types] for e in self.users]


# -- negated conclusions ---------------------------------------------------------------------------------------------


def envy(users: Tenants) -> Lines:
    """Some user prefers the GPUs per weight of another one."""
    return require(
        either(
            compare(
                users.weight[e] * users.rate_with(users.speed[e], o),
                ">",
                users.weight[o] * users.rate(e),
            )
            for e, o in permutations(users.users, 2)
        )
    )


def below_part(users: Tenants) -> Lines:
    """Some user has less than with its part of the cluster."""
    return require(
        either(compare(users.rate(e), "<", constant(part)) for e, part in enumerate(users.part_rates)),
    )


def idle(users: Tenants) -> Lines:
    """Some GPU is idle that a user could use."""
    usable = (j for j in users.types if any(row[j] > 0 for row in users.speed))
    return require(
        either(
            compare(Form.total(users.share(e, j) for e in users.users), "<", constant(users.gpus[j])) for j in usable
        )
    )


def dominated(users: Tenants) -> Lines:
    """Some other allocation gives a user more and no user less."""
    other = Tenants(users.speed, users.gpus, users.weight, "other")
    rates = (compare(other.rate(e), ">=", users.rate(e)) for e in users.users)
    return [*other.free.feasible, *require(*rates, compare(other.total, ">", users.total))]


def skips(users: Tenants) -> Lines:
    """The first user has GPUs of a type and lacks some of an earlier type, against Lemma 3.1."""
    return require(
        either(
            both(
                compare(users.share(0, late), ">", Form()),
                compare(users.share(0, early), "<", constant(users.gpus[early])),
            )
            for early, late in combinations(users.types, 2)
        )
    )


def gap(users: Tenants) -> Lines:
    """Some user has GPUs of two types and none of a type between them, against Theorem 5.2."""
    return require(
        either(
            both(
                compare(users.share(e, a), ">", Form()),
                compare(users.share(e, b), "=", Form()),
                compare(users.share(e, c), ">", Form()),
            )
            for e in users.users
            for a, b, c in combinations(users.types, 3)
        )
    )


Negation: TypeAlias = Callable[[Tenants], Lines]
Choice: TypeAlias = Callable[[Tenants], Program]


def every_optimum(program: Choice, *negations: Negation) -> Callable[[Any], Fraction]:
    """The slack of "no optimum has any of these faults", for cases of tenants."""

    def slack(case: Any) -> Fraction:
        users = Tenants.of(case)
        optimal = program(users).optimal
        return min(holds_unless(optimal, fault(users)) for fault in negations)

    return slack


def equal_rates(users: Tenants) -> Program:
    """Non-cooperative OEF."""
    return users.equal_rates


def envy_free(users: Tenants) -> Program:
    """Cooperative OEF."""
    return users.envy_free


def sharing(users: Tenants) -> Program:
    """The largest total under the sharing incentive."""
    return users.sharing


def gavel(users: Tenants) -> Program:
    """Gavel with at most one GPU per user."""
    return users.lowest_ratio(one_gpu=True)


def gavel_without_row(users: Tenants) -> Program:
    """Gavel without this row."""
    return users.lowest_ratio(one_gpu=False)


def sorted_shares(users: Tenants) -> Program:
    """The optima of [OEF, eq. 9] with the largest sum of l j w_l^j x_l^j, l and j counted from 1."""
    level = users.level
    places = product(users.users, users.types)
    gain = Form.total((e + 1) * (j + 1) * users.speed[e][j] * users.share(e, j) for e, j in places)
    return users.program((Row(users.rate(e) - constant(level), equal=True) for e in users.users), gain)


# -- proof steps and totals ------------------------------------------------------------------------------------------


def suits_others(users: Tenants) -> str:
    """The first user has GPUs of a type on which another one is faster."""
    kinds = (j for j in users.types if any(row[j] > users.speed[0][j] for row in users.speed))
    return either(compare(users.share(0, j), ">", Form()) for j in kinds)


def values_all_less(users: Tenants) -> Lines:
    """The first user values no other bundle as its own, although it has GPUs that suit others better."""
    others = (users.rate_with(users.speed[0], o) for o in users.users[1:])
    return require(suits_others(users), *(compare(users.rate(0), "distinct", other) for other in others))


def off_its_part(users: Tenants) -> Lines:
    """The first user has another rate than its part of the cluster, although it has GPUs that suit others better."""
    return require(suits_others(users), compare(users.rate(0), "distinct", constant(users.part_rates[0])))


def order_of_totals(case: Any) -> Fraction:
    """The smallest difference of the four totals in their order."""
    users = Tenants.of(case)
    totals = [program.value for program in (users.equal_rates, users.envy_free, users.sharing, users.free)]
    return min(b - a for a, b in pairwise(totals))


@dataclass(frozen=True)
class Market:
    """A market with equal budgets of 1, solved by its conditions.

    ``spent`` is what a user spends on a type, ``cost`` what it pays for one unit of its rate, the same for all types
    that it buys and no less for the others. All conditions are linear, except that a user spends nothing or pays
    ``cost``.
    """

    users: Tenants

    @cached_property
    def solution(self) -> Any:
        """An equilibrium."""
        users = self.users
        money = Tenants(users.speed, users.gpus, users.weight, "spent")
        lines = amounts([*money.columns, *(f"cost{e}" for e in users.users), *(f"p{j}" for j in users.types)])
        for e in users.users:
            spent = Form.total(money.share(e, j) for j in users.types)
            lines += require(compare(spent, "=", constant(1)))
            for j in users.types:
                unit = users.speed[e][j] * column(f"cost{e}")
                lines += require(
                    compare(unit, "<=", column(f"p{j}")),
                    either((compare(money.share(e, j), "=", Form()), compare(unit, "=", column(f"p{j}")))),
                )
        for j in users.types:
            paid = Form.total(money.share(e, j) for e in users.users)
            lines += require(compare(paid, "=", users.gpus[j] * column(f"p{j}")))
        found = model_of(lines)
        if found is None:
            raise ArithmeticError("the market has no equilibrium")
        return found

    @property
    def rates(self) -> list[Fraction]:
        """The rates of all users, the same in every equilibrium."""
        return [1 / value_in(self.solution, column(f"cost{e}")) for e in self.users.users]

    @property
    def equilibrium(self) -> Lines:
        """The shares are an equilibrium at the prices, any of them."""
        users = self.users
        price = [value_in(self.solution, column(f"p{j}")) for j in users.types]
        lines = amounts(users.columns)
        for e, rate in enumerate(self.rates):
            lines += require(
                compare(Form.total(price[j] * users.share(e, j) for j in users.types), "=", constant(1)),
                *(compare(users.share(e, j), "=", Form()) for j in users.types if users.speed[e][j] < rate * price[j]),
            )
        return lines + require(*(compare(row.form, "=", Form()) for row in users.capacity))


def in_every_equilibrium(negation: Negation) -> Callable[[Any], Fraction]:
    """The slack of "no equilibrium has this fault"; shares and prices of the case are not used."""

    def slack(case: Any) -> Fraction:
        users = Tenants.of(case.tenants)
        return holds_unless(Market(users).equilibrium, negation(users))

    return slack


def equal_budgets_between(case: Any) -> Fraction:
    """The distance of the total of equal budgets to those of both programs of OEF."""
    users = Tenants.of(case)
    total = sum(Market(users).rates, F(0))
    return min(total - users.equal_rates.value, users.envy_free.value - total)


def policy_share(users: Tenants, policy: Any) -> Floats:
    """GPUs of each type that a policy of the library gives to each user."""
    speed, weight = np.array(users.speed, dtype=float), np.array(users.weight, dtype=float)
    gpus = [int(m) for m in users.gpus]
    instance = Instance.from_speedups(speed.tolist(), gpus, weights=weight.tolist(), any_scale=True)
    return np.asarray(hetopt.solve(policy, instance).share, dtype=float)


def policy_total(case: Any) -> float:
    """The total of the library's policy minus the largest total of envy-free allocations, or its envy."""
    users = Tenants.of(case)
    speed, weight = np.array(users.speed, dtype=float), np.array(users.weight, dtype=float)
    share = policy_share(users, oef.cooperative())
    rates = speed @ (share / weight[:, None]).T
    least_envy = float((np.diag(rates)[:, None] - rates).min())
    best = float(users.envy_free.value)
    idle = float((np.array(users.gpus, dtype=float) - share.sum(axis=0)).min())
    return min(float((speed * share).sum()) - best, least_envy, idle) / max(1.0, best)


def equal_split_envy(case: Any) -> float:
    """The smallest difference between a user's rate under the library's equal split and its rate with other GPUs."""
    users = Tenants.of(case)
    speed, weight = np.array(users.speed, dtype=float), np.array(users.weight, dtype=float)
    rates = speed @ (policy_share(users, baselines.equal_split()) / weight[:, None]).T
    return float((np.diag(rates)[:, None] - rates).min())


def equal_split_surplus(case: Any) -> float:
    """The smallest difference between a user's rate under the library's equal split and its part of the cluster."""
    users = Tenants.of(case)
    speed = np.array(users.speed, dtype=float)
    rates = (speed * policy_share(users, baselines.equal_split())).sum(axis=1)
    return float(min(rates[e] - float(users.part_rates[e]) for e in users.users))


def equal_split_after_reports(case: Any) -> float:
    """Minus the largest gain of a user, at true speedups, by reports under the library's equal split."""
    truth, reported = Tenants.of(case.truth), Tenants.of(case.reported, "reported")
    after, before = (policy_share(users, baselines.equal_split()) for users in (reported, truth))
    return -float((np.array(truth.speed, dtype=float) * (after - before)).sum(axis=1).max())


def largest_sums(case: Any) -> Fraction:
    """Optima of sums with several positive weights, with and without given rates, that are dominated."""
    users = Tenants.of(case)
    rising = Form.total((e + 1) * users.rate(e) for e in users.users)
    falling = Form.total(F(1, e + 1) * users.rate(e) for e in users.users)
    some = [part if e % 2 else part / 2 for e, part in enumerate(users.part_rates)]
    programs = (users.program((), rising), users.at_least(users.part_rates, falling), users.at_least(some))
    return min(holds_unless(program.optimal, dominated(users)) for program in programs)


# -- misreports ------------------------------------------------------------------------------------------------------


def misreporters(case: Any) -> list[int]:
    """Positions of the users whose report is not the truth."""
    pairs = zip(case.truth.speed, case.reported.speed, strict=True)
    return [e for e, (true, reported) in enumerate(pairs) if true != reported]


def all_gain(case: Any) -> Fraction:
    """Reported optima of [OEF, eq. 9] that give every misreporting user more than an honest optimum."""
    truth, reported = Tenants.of(case.truth), Tenants.of(case.reported, "reported")
    gains = (compare(reported.rate_with(truth.speed[e], e), ">", truth.rate(e)) for e in misreporters(case))
    return holds_unless(truth.equal_rates.optimal, reported.equal_rates.optimal, require(*gains))


def gain_by_trades(case: Any) -> Fraction:
    """Reported optima and divisions of the group's GPUs that give each of its users more than an honest optimum."""
    truth, reported = Tenants.of(case.truth), Tenants.of(case.reported, "reported")
    group = misreporters(case)
    part = Tenants(tuple(truth.speed[e] for e in group), truth.gpus, (F(1),) * len(group), "part")
    held = (
        compare(Form.total(part.share(i, j) for i in part.users), "<=", Form.total(reported.share(e, j) for e in group))
        for j in truth.types
    )
    gains = (compare(part.rate(i), ">", truth.rate(e)) for i, e in enumerate(group))
    optimal = (truth.equal_rates.optimal, reported.equal_rates.optimal)
    return holds_unless(*optimal, amounts(part.columns), require(*held, *gains))


def gain_by_false_type(case: Any) -> Fraction:
    """Reported optima that give the first user, with the GPUs of its false type, more than an honest optimum."""
    truth, reported = Tenants.of(case.truth), Tenants.of(case.reported, "reported")
    speed = truth.speed[0]
    after = reported.rate_with(speed, 0) + reported.rate_with(speed, reported.users[-1])
    return holds_unless(
        truth.equal_rates.optimal, reported.equal_rates.optimal, require(compare(after, ">", truth.rate(0)))
    )


def largest_mean(case: Any) -> Fraction:
    """T* minus the weighted mean, for the smallest and largest price of the row and all reported optima.

    The mean is linear in the price and in the shares, so that an end of the range of prices is worst.
    """
    truth, reported = Tenants.of(case.truth), Tenants.of(case.reported, "reported")
    top = column("level")
    rows = (*truth.capacity, *(Row(top - truth.rate(e)) for e in truth.users))
    program = Program("truth", (*truth.columns, "level"), top, rows)
    best, after = program.value, reported.level
    (user,) = misreporters(case)
    price = program.price(len(truth.gpus) + user)
    optima = reported.equal_rates.optimal
    proven = [*program.prices, *require(compare(program.dual_value, "=", constant(best)))]
    for part in extremes(proven, price):
        mean = part * reported.rate_with(truth.speed[user], user) + constant((1 - part) * after)
        if holds_unless(optima, require(compare(mean, ">", constant(best)))) < 0:
            return FAILS
    return HOLDS


SMALL = F(1, 2**40)
"""A part by which a speedup is under-reported, far below all data of the cases."""


def under_reports(case: Any) -> Fraction:
    """Reported optima that give a user no more than t* after a tiny under-report of a type that it has."""
    users = Tenants.of(case)
    level, share = users.level, users.values(users.equal_rates.optimum)
    for e, j in product(users.users, users.types[1:]):
        if share[e][j] > 0:
            speed = [list(row) for row in users.speed]
            speed[e][j] *= 1 - SMALL
            reported = Tenants(tuple(map(tuple, speed)), users.gpus, users.weight)
            rate = reported.rate_with(users.speed[e], e)
            if holds_unless(reported.equal_rates.optimal, require(compare(rate, "<=", constant(level)))) < 0:
                return FAILS
    return HOLDS


# -- weights and job types -------------------------------------------------------------------------------------------


def copied(users: Tenants) -> tuple[Tenants, int]:
    """A copy of a user per unit of its weight, and the number of units of weight 1."""
    units = lcm(*(w.denominator for w in users.weight))
    rows = [row for row, w in zip(users.speed, users.weight, strict=True) for _ in range(int(w * units))]
    return Tenants(tuple(rows), users.gpus, (F(1),) * len(rows)), units


def total_of_copies(case: Any) -> float:
    """Minus the relative difference of the totals of cooperative OEF with weights and with copies."""
    users = Tenants.of(case)
    weighted, many = users.envy_free.value_in_floats, copied(users)[0].envy_free.value_in_floats
    return -abs(weighted - many) / max(1.0, weighted)


def level_of_copies(case: Any) -> Fraction:
    """Minus the difference of the levels of non-cooperative OEF with weights and with copies."""
    users = Tenants.of(case)
    many, units = copied(users)
    return -abs(users.level - units * many.level)


def not_twice(users: Tenants) -> Lines:
    """Some user of twice the weight of another has not twice its rate."""
    pairs = ((a, b) for a, b in permutations(users.users, 2) if users.weight[a] == 2 * users.weight[b])
    return require(either(compare(users.rate(a), "distinct", F(2) * users.rate(b)) for a, b in pairs))


def split_rate(users: Tenants, own: int, gpus: Sequence[Form]) -> Form:
    """The rate of u1 with GPUs that are split evenly among its ``own`` job types."""
    return Form.total(F(1, own) * users.speed[t][j] * gpus[j] for t in range(own) for j in users.types)


def envy_of_users(case: Any) -> Fraction:
    """Optima in which a user prefers the GPUs of another; u1 has several job types."""
    users, own = Tenants.of(case.pairs), case.types
    first = [Form.total(users.share(t, j) for t in range(own)) for j in users.types]
    rate = Form.total(users.rate(t) for t in range(own))
    others = users.users[own:]
    faults = [compare(split_rate(users, own, [users.share(o, j) for j in users.types]), ">", rate) for o in others]
    for e in others:
        with_first = Form.total(users.speed[e][j] * first[j] for j in users.types)
        rivals = [with_first, *(users.rate_with(users.speed[e], o) for o in others if o != e)]
        faults += [compare(rival, ">", users.rate(e)) for rival in rivals]
    return holds_unless(users.envy_free.optimal, require(either(faults)))


def surplus_of_users(case: Any) -> Fraction:
    """Optima in which a user has less than its part of the cluster; u1 splits it among its job types."""
    users, own = Tenants.of(case.pairs), case.types
    others = users.users[own:]
    part = [constant(m / (len(others) + 1)) for m in users.gpus]
    rate = Form.total(users.rate(t) for t in range(own))
    faults = [compare(rate, "<", split_rate(users, own, part))]
    faults += [compare(users.rate(e), "<", constant(users.cluster_rate(e) / (len(others) + 1))) for e in others]
    return holds_unless(users.envy_free.optimal, require(either(faults)))


def envy_with_price(case: Any, choice: Choice = envy_free) -> Fraction:
    """Optima with a price on every GPU gained in which a user prefers the GPUs of another one."""
    users = Tenants.of(case.tenants)
    gained = Tenants(users.speed, users.gpus, users.weight, "gained")
    gains = [gained.share(e, j) for e in users.users for j in users.types]
    held = [part * m for part in case.first for m in users.gpus]
    shares = [users.share(e, j) for e in users.users for j in users.types]
    rows = [Row(x - g - constant(h)) for x, g, h in zip(shares, gains, held, strict=True)]
    base = choice(users)
    program = Program(
        "x", (*base.columns, *gained.columns), base.gain - case.price * Form.total(gains), (*base.rows, *rows)
    )
    return holds_unless(program.optimal, envy(users))


# -- vertices --------------------------------------------------------------------------------------------------------


def independent(rows: Sequence[Sequence[Fraction]]) -> bool:
    """Whether these rows are linearly independent, by elimination."""
    left = [list(row) for row in rows]
    for done in range(len(left)):
        pivot = next((c for c, v in enumerate(left[done]) if v), None)
        if pivot is None:
            return False
        for other in left[done + 1 :]:
            factor = other[pivot] / left[done][pivot]
            other[:] = [a - factor * b for a, b in zip(other, left[done], strict=True)]
    return True


def vertices(users: Tenants, count: int) -> Iterator[list[list[Fraction]]]:
    """Vertices of the set of optima of [OEF, eq. 9], each the only optimum of a random second objective."""
    rng, level = random.Random(0), users.level
    rows = tuple(Row(users.rate(e) - constant(level * w), equal=True) for e, w in enumerate(users.weight))
    for _ in range(count):
        gain = Form.total(F(rng.randint(-1000, 1000)) * column(name) for name in users.columns)
        share = users.values(users.program(rows, gain).optimum)
        if is_vertex(users, share):
            yield share


def is_vertex(users: Tenants, share: Sequence[Sequence[Fraction]]) -> bool:
    """Whether the columns of the positive shares and of the free GPUs are independent in the rows of (9)."""
    size = len(users.users) + len(users.types)
    columns = []
    for e, row in enumerate(share):
        for j, x in enumerate(row):
            if x:
                entries = {e: users.speed[e][j], len(users.users) + j: F(1)}
                columns.append([entries.get(i, F(0)) for i in range(size)])
    for j, m in enumerate(users.gpus):
        if sum(row[j] for row in share) < m:
            columns.append([F(i == len(users.users) + j) for i in range(size)])
    return independent(columns)


VERTICES = 3
"""Random objectives per case."""


def fewest_spare(case: Any) -> Fraction:
    """N + k - 1 minus the number of positive shares of a vertex."""
    users = Tenants.of(case)
    most = max((sum(x > 0 for row in share for x in row) for share in vertices(users, VERTICES)), default=0)
    return F(len(users.users) + len(users.types) - 1 - most)


def fewest_single(case: Any) -> Fraction:
    """K - 1 minus the number of users with several types at a vertex."""
    users = Tenants.of(case)
    most = max((sum(sum(x > 0 for x in row) > 1 for row in share) for share in vertices(users, VERTICES)), default=0)
    return F(len(users.types) - 1 - most)
