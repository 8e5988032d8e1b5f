"""The algebra of OEF's proofs: each step for all real numbers, mostly for any numbers of users and types at once.

Every function for z3 returns hypotheses and, last, the negated conclusion.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations, permutations, product
from typing import Any

from hetopt.proofs.ledger.mechanical import by_sympy, by_z3

# -- Lemma 3.1 and Theorem 5.2: exchanges ----------------------------------------------------------------------------


def exchange_gains_nothing() -> list[Any]:
    """For z3: h gives l some of type j for as much of type j' as is worth the same to l, and does not gain."""
    from z3 import Reals

    lj, lk, hj, hk, give, take = speeds = Reals("w_l^j w_l^k w_h^j w_h^k give take")
    return [*(v > 0 for v in speeds), lj * hk > lk * hj, lk * take == lj * give, hk * take <= hj * give]


def second_objective_falls() -> list[Any]:
    """For z3: an exchange at equal ratios that leaves all rates does not raise sum l j w_l^j x_l^j."""
    from z3 import Reals

    l1, lj, lk, h1, hj, hk, give, take = positive = Reals("w_l^1 w_l^j w_l^k w_h^1 w_h^j w_h^k give take")
    low, high, j, k = Reals("l h j k")
    change = low * (j * lj * give - k * lk * take) + high * (k * hk * take - j * hj * give)
    return [
        *(v > 0 for v in (*positive, low, j)),
        low < high,
        j < k,
        l1 == 1,
        h1 == 1,
        l1 * hj >= lj * h1,
        lk * take == lj * give,
        hk * take == hj * give,
        change <= 0,
    ]


def half_without_envy_freeness() -> list[Any]:
    """For z3: one of two users has half of its worth of all GPUs in use, and prefers the other user's."""
    from z3 import Reals

    own, other, everything = Reals("own other all")
    return [own >= 0, other >= 0, own + other <= everything, own >= everything / 2, own < other]


def envy_freeness_without_half() -> list[Any]:
    """For z3: one of two users does not envy the other, all GPUs are in use, and it has less than half."""
    from z3 import Reals

    own, other, everything = Reals("own other all")
    return [own + other == everything, own >= other, own < everything / 2]


def three_users(first: Sequence[int], slack: Sequence[tuple[int, int]], *, more: bool = False) -> list[Any]:
    """For z3: a trade of three users that is not possible, breaks a row of envy, or does not raise the total.

    Users gain ``first`` GPUs of type j each, and of type j' as many as gives equal gains in units of the speedup v_l on
    type j', or with ``more`` a larger gain of u3. The rows of the pairs in ``slack`` are not tight; q_l = w_l^j / v_l.
    """
    from z3 import And, Not, Reals

    q, v = Reals("q1 q2 q3"), Reals("v1 v2 v3")
    larger = q[1] - q[2] if more else 0
    equal = (sum(q[e] * moved for e, moved in enumerate(first)) - larger) / 3
    gains = [equal, equal, equal + larger]
    second = [gain - q[e] * moved for e, (gain, moved) in enumerate(zip(gains, first, strict=True))]
    rows = [second[o] + q[e] * first[o] <= gains[e] for e, o in permutations(range(3), 2) if (e, o) not in slack]
    possible = [sum(second) == 0, second[1] >= 0, second[2] >= 0]
    total = sum(v[e] * gain for e, gain in enumerate(gains))
    given = [q[0] > q[1], q[1] > q[2], q[2] > 0, v[0] > 0, v[0] <= v[1], v[1] <= v[2]]
    return [*given, Not(And(*possible, *rows, total > 0))]


def exchange_of_two() -> list[Any]:
    """For z3: u3 gives u2 type a for type b > a, both bundles alike to u1, without a larger total or with envy."""
    from z3 import And, Not, Reals

    a, b, given = Reals("a1 a2 a3"), Reals("b1 b2 b3"), Reals("given of_b")
    ordered = [a[e] * b[o] > b[e] * a[o] for e, o in combinations(range(3), 2)]
    gain = [b[e] * given[1] - a[e] * given[0] for e in range(3)]  # of u3's bundle, as user e values it
    return [
        *(v > 0 for v in (*a, *b, *given)),
        *ordered,
        a[1] <= a[2],
        gain[0] == 0,
        Not(And(gain[2] > 0, gain[2] - gain[1] > 0)),
    ]


def pair_of_two_types() -> list[Any]:
    """For z3: the inequality of two users l < h on two types, r_1 the smallest of all speedups."""
    from z3 import Reals

    r1, rl, rh, al, ah, bl, bh = Reals("r1 rl rh al ah bl bh")
    no_envy = rl * (bh - bl) <= al - ah
    return [
        r1 > 0,
        r1 <= rl,
        rl <= rh,
        al >= 0,
        ah >= 0,
        no_envy,
        r1 * (rh - rl) * (bh - bl) > (rh - r1) * al + (rl - r1) * ah,
    ]


def sums_over_pairs() -> str:
    """Check in sympy, for four users, the sums over all pairs and the total of the allocation y."""
    import sympy

    n = 4
    r, a, b = (sympy.symbols(f"{name}1:{n + 1}", positive=True) for name in "rab")
    m1, m2, all_r = sum(a), sum(b), sum(r)
    left = sum(r[0] * (r[h] - r[e]) * (b[h] - b[e]) for e, h in combinations(range(n), 2))
    right = sum((r[h] - r[0]) * a[e] + (r[e] - r[0]) * a[h] for e, h in combinations(range(n), 2))
    diagonal = sum((r[e] - r[0]) * a[e] for e in range(n))
    own = sum(x * y for x, y in zip(r, b, strict=True))
    wrong = [left - r[0] * (n * own - all_r * m2), right + diagonal - (all_r - n * r[0]) * m1]
    c = m1 / r[0]
    level = (m2 - (n - 1) * c) / n
    wrong.append(m1 + r[0] * level + sum(v * (level + c) for v in r[1:]) - all_r * (m2 + c) / n)
    return next((f"a sum differs by {sympy.factor(v)}" for v in wrong if sympy.expand(v) != 0), "")


# -- Theorem 5.1 and the order of totals -----------------------------------------------------------------------------


def no_sharing_incentive(n: int) -> list[Any]:
    """For z3: an envy-free allocation of all GPUs in which u1 has less than the rate of its part, with weights."""
    from z3 import RealVector, Sum

    weight, worth = RealVector("pi", n), RealVector("w_1 x", n)  # u1's worth of the GPUs of every user
    return [
        *(v > 0 for v in weight),
        *(v >= 0 for v in worth),
        *(weight[i] * worth[0] >= weight[0] * worth[i] for i in range(1, n)),
        Sum(weight) * worth[0] < weight[0] * Sum(worth),
    ]


def division_with_envy() -> list[Any]:
    """For z3: dividing GPUs in proportion to the weights lowers a rate, or makes l envy i."""
    from z3 import And, Not, Reals

    mine, theirs, pi_l, pi_i, unused = Reals("w_l*x_l w_l*x_i pi_l pi_i w_l*z")
    after, other = mine + pi_l * unused, theirs + pi_i * unused
    positive = [pi_l > 0, pi_i > 0, unused > 0]
    return [*positive, pi_i * mine >= pi_l * theirs, Not(And(after > mine, pi_i * after >= pi_l * other))]


def below_bound_of_costs() -> list[Any]:
    """For z3: equal budgets give a user less than 2 t - t c, where GPUs of cost c give it t otherwise."""
    from z3 import Reals

    rate, level, cost = Reals("u t c")
    return [rate >= 0, level >= 0, cost >= 0, level <= rate * cost, rate < 2 * level - level * cost]


# -- eq. (7) and eq. (8) ---------------------------------------------------------------------------------------------


def giving_lowers_total(n: int, k: int) -> list[Any]:
    """For z3: u1 gives the others its GPUs in equal parts, and the total does not rise."""
    from z3 import Or, RealVector, Sum

    w, x = [RealVector(f"w{e}", k) for e in range(n)], RealVector("x", k)
    worth = [Sum([v * g for v, g in zip(row, x, strict=True)]) for row in w]
    return [
        *(g >= 0 for g in x),
        *(row[j] >= w[0][j] for row in w[1:] for j in range(k)),
        Or([row[j] * x[j] > w[0][j] * x[j] for row in w[1:] for j in range(k)]),
        Sum(worth[1:]) <= (n - 1) * worth[0],
    ]


def giving_makes_envious() -> list[Any]:
    """For z3: u1 gives each of q others the same part e / q of its GPUs; l envies u1, or another user, or u1 envies l.

    All numbers are what the GPUs of a user are worth to the user that compares.
    """
    from z3 import And, Not, Reals

    own, first, other, part, q = Reals("w_l*x_l w_l*x_1 w_l*x_h part others")
    mine, theirs, each = Reals("w_1*x_1 w_1*x_l each")
    gift = part / q * first
    return [
        own >= first,
        own >= other,
        first >= 0,
        part > 0,
        q >= 1,
        each == part * mine * (1 + 1 / q),
        mine - theirs >= each,
        Not(
            And(
                own + gift >= first * (1 - part),
                own + gift >= other + gift,
                mine * (1 - part) >= theirs + part / q * mine,
            )
        ),
    ]


# -- Theorems 5.3 and 5.4 --------------------------------------------------------------------------------------------


def gift_leaves_a_user_at_level() -> list[Any]:
    """For z3: a user above t gives parts of its GPUs, useful to all, to the others, and not all are above t."""
    from z3 import And, Not, Reals

    rate, level, part, q, worth = Reals("u t part others worth")
    given = [rate > level, level >= 0, q >= 1, worth > 0, part == (rate - level) / (2 * rate)]
    return [*given, Not(And(part > 0, rate * (1 - part) > level, level + part / q * worth > level))]


def under_report_does_not_pay(n: int) -> list[Any]:
    """For z3: u1 under-reports at a nondegenerate optimum, and does not exceed the level t* = p m."""
    from z3 import Reals, RealVector, Sum

    part, (level, best, concealed) = RealVector("lambda", n), Reals("t' t* concealed")
    rates = [level + concealed, *[level] * (n - 1)]
    weighted = Sum([a * b for a, b in zip(part, rates, strict=True)])
    return [*(v > 0 for v in part), Sum(part) == 1, weighted == best, concealed > 0, rates[0] <= best]


def profitable_false_type(k: int) -> list[Any]:
    """For z3: prices that prove t* of two users, and a false type of u1 by which it has more."""
    from z3 import RealVector, Sum

    w, x = ([RealVector(f"{name}{e}", k) for e in range(2)] for name in "wx")
    false, gpus, m, price, part = (RealVector(name, k) for name in ("false", "x''", "m", "p", "lambda"))

    def worth(row: Any, bundle: Any) -> Any:
        return Sum([a * b for a, b in zip(row, bundle, strict=True)])

    return [
        *(v >= 0 for row in (*w, *x, gpus, price, part) for v in row),
        *(x[0][j] + x[1][j] + gpus[j] <= m[j] for j in range(k)),
        worth(w[0], x[0]) == worth(false, gpus),
        2 * worth(w[0], x[0]) == worth(w[1], x[1]),
        part[0] + part[1] == 1,
        *(price[j] >= part[e] * w[e][j] for e in range(2) for j in range(k)),
        *(false[j] >= w[0][j] for j in range(k)),
        worth(w[0], x[0]) + worth(w[0], gpus) > worth(price, m),
    ]


# -- equal budgets, and trades ---------------------------------------------------------------------------------------


def market_with_envy(k: int) -> list[Any]:
    """For z3: a user whose best rate per cost is 1 values GPUs that cost at most its budget above what it has."""
    from z3 import RealVector, Sum

    w, price, other = (RealVector(name, k) for name in ("w", "p", "x"))
    return [
        *(v >= 0 for v in (*price, *other)),
        *(w[j] <= price[j] for j in range(k)),
        Sum([price[j] * other[j] for j in range(k)]) <= 1,
        Sum([w[j] * other[j] for j in range(k)]) > 1,
    ]


def market_dominated(n: int, k: int) -> list[Any]:
    """For z3: an allocation that is better for some user and worse for none, in units of the users' rates."""
    from z3 import RealVector, Sum

    w, z = ([RealVector(f"{name}{e}", k) for e in range(n)] for name in "wz")
    price, m = RealVector("p", k), RealVector("m", k)
    rate = [Sum([w[e][j] * z[e][j] for j in range(k)]) for e in range(n)]
    return [
        *(v >= 0 for row in (price, m, *z) for v in row),
        *(w[e][j] <= price[j] for e in range(n) for j in range(k)),
        *(Sum([z[e][j] for e in range(n)]) <= m[j] for j in range(k)),
        Sum([price[j] * m[j] for j in range(k)]) <= n,
        *(v >= 1 for v in rate[1:]),
        rate[0] > 1,
    ]


def losing_trade() -> list[Any]:
    """For z3: a trade at the second price, or at the mean of both speedups, by which buyer or seller loses."""
    from z3 import And, If, Not, Reals

    slow_b, slow_s, buyer, seller, second, moved = Reals("w_b w_s r_b r_s second moved")
    price = If(second > seller, second, (buyer + seller) / 2)
    gain, other = slow_b * (buyer - price) * moved, slow_s * (price - seller) * moved
    given = [slow_b > 0, slow_s > 0, seller > 0, moved > 0, buyer > seller, second <= buyer]
    return [*given, Not(And(gain >= 0, other >= 0))]


def dominated_at_a_price(n: int) -> list[Any]:
    """For z3: all with slow GPUs have a speedup of at most the price, all with fast ones at least; yet dominated."""
    from z3 import Implies, RealVector, Sum

    r, slow, fast, z, y = (RealVector(name, n) for name in ("r", "slow", "fast", "z", "y"))
    price = RealVector("price", 1)[0]
    return [
        *(v >= 0 for row in (slow, fast, z, y) for v in row),
        *(v > 0 for v in (*r, price)),
        *(Implies(slow[e] > 0, r[e] <= price) for e in range(n)),
        *(Implies(fast[e] > 0, r[e] >= price) for e in range(n)),
        Sum(z) <= Sum(slow),
        Sum(y) <= Sum(fast),
        *(z[e] + r[e] * y[e] >= slow[e] + r[e] * fast[e] for e in range(1, n)),
        z[0] + r[0] * y[0] > slow[0] + r[0] * fast[0],
    ]


# -- sections 4.2.3 and 4.2.4: copies and job types ------------------------------------------------------------------


def copies_with_envy(own: int, others: int) -> list[Any]:
    """For z3: no copy of u_l envies one of u_i, and yet u_l with the GPUs of all its copies envies u_i, by weight."""
    from z3 import RealVector, Sum

    mine, theirs = RealVector("w_l x_l", own), RealVector("w_l x_i", others)
    return [*(a >= b for a, b in product(mine, theirs)), others * Sum(mine) < own * Sum(theirs)]


def job_types_with_envy(own: int, others: int) -> list[Any]:
    """For z3: job types that envy no other, and a user with less than the even split of another's GPUs is worth."""
    from z3 import Reals, RealVector, Sum

    mine, worth = RealVector("w_t x_t", own), [RealVector(f"w_{t} x", others) for t in range(own)]
    first, second = Reals("pi_A pi_B")
    return [
        first > 0,
        second > 0,
        *(own * second * a >= others * first * b for a, row in zip(mine, worth, strict=True) for b in row),
        second * Sum(mine) * own < first * Sum([Sum(row) for row in worth]),
    ]


# -- section 4.3: rounding -------------------------------------------------------------------------------------------


def rounding_drifts() -> list[Any]:
    """For z3: a step of the rule leaves a deviation above 1/2, or one that is not the difference of both sums."""
    from z3 import And, Not, Q, Reals

    ideal, real, shares, gpus = Reals("ideal real shares gpus")
    due = ideal + (shares - gpus)
    after = due - real
    bounded = And(after <= Q(1, 2), after >= Q(-1, 2), after == (shares + ideal) - (gpus + real))
    return [real <= due + Q(1, 2), due + Q(1, 2) < real + 1, Not(bounded)]


def nearest_point_drifts(points: int) -> list[Any]:
    """For z3, in one dimension: the mean of the points' squared distances is not |dev|^2 plus the points' spread.

    Squared distances add up over dimensions.
    """
    from z3 import Reals, RealVector, Sum

    p, part, (dev, share) = RealVector("p", points), RealVector("lambda", points), Reals("dev share")
    due = Sum([a * (dev + share - v) * (dev + share - v) for a, v in zip(part, p, strict=True)])
    spread = Sum([a * (share - v) * (share - v) for a, v in zip(part, p, strict=True)])
    mean = Sum([a * v for a, v in zip(part, p, strict=True)])
    return [Sum(part) == 1, mean == share, due != dev * dev + spread]


EXCHANGES = (by_z3("h gains by an exchange, for all ratios", exchange_gains_nothing),)
HALF = tuple(
    by_z3(f"two users: {name}, any types", part)
    for name, part in (
        ("half of its worth of everything is envy-freeness", half_without_envy_freeness),
        ("envy-freeness is half of its worth of everything", envy_freeness_without_half),
    )
)
THREE = (
    by_z3("u3 gives u1 type j, equal gains", partial(three_users, (1, 0, -1), ())),
    by_z3("u2 gives u1 type j, equal gains", partial(three_users, (1, -1, 0), ((2, 1),))),
    by_z3("u2 gives u1 type j, a larger gain of u3", partial(three_users, (1, -1, 0), ((1, 2), (0, 2)), more=True)),
    by_z3("u3 and u2 exchange types, u1 indifferent", exchange_of_two),
)
PAIRS = (
    by_z3("the inequality of each pair", pair_of_two_types),
    by_sympy("the sums over the pairs of four users", sums_over_pairs),
)
SECOND_OBJECTIVE = (by_z3("the second objective rises at equal ratios", second_objective_falls),)

SHARING = tuple(by_z3(f"{n} users with weights, any types", partial(no_sharing_incentive, n)) for n in (2, 3, 4))
DIVISION = (by_z3("dividing unused GPUs by weight makes no user envious", division_with_envy),)
TOTALS = (by_z3("the rate at equal budgets is at least 2 t - t c", below_bound_of_costs),)
GIVING = (by_z3("n = 3, k = 2: u1 gives GPUs away, and the total rises", partial(giving_lowers_total, 3, 2)),)
NO_ENVY_BY_GIFTS = (by_z3("equal gifts of u1 make no user envious", giving_makes_envious),)
GIFT = (by_z3("a user above t* can lift all above it", gift_leaves_a_user_at_level),)
UNDER = (by_z3("n = 3: the gain of an under-report", partial(under_report_does_not_pay, 3)),)
FALSE_TYPE = (by_z3("n = 2, k = 2, all real data", partial(profitable_false_type, 2)),)
AFFORDABLE = (by_z3("k = 3: GPUs for the budget are worth no more", partial(market_with_envy, 3)),)
SUPPORTED = (by_z3("n = 3, k = 2: no dominating allocation", partial(market_dominated, 3, 2)),)
TRADES = (by_z3("neither buyer nor seller loses", losing_trade),)
ONE_PRICE = (by_z3("n = 3: no dominating allocation at a price", partial(dominated_at_a_price, 3)),)
COPIES = (by_z3("2 and 3 copies, any types", partial(copies_with_envy, 2, 3)),)
JOB_TYPES = (by_z3("2 and 3 job types, any GPU types", partial(job_types_with_envy, 2, 3)),)
ROUNDING = (by_z3("one step of the rule", rounding_drifts),)
NEAREST = (by_z3("the mean of three points' squared distances", partial(nearest_point_drifts, 3)),)
