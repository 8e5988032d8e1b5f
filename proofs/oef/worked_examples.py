"""The worked examples of OEF: all printed numbers, recomputed in fractions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import permutations
from typing import Any

from hetopt import instances
from hetopt.data.rationals import change_text, number_text, simple_fractions
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, ProofPart
from hetopt.proofs.ledger.mechanical import by_z3
from hetopt.proofs.ledger.procedures import ByComputation, ComparedValue, Computation, compare_number, compare_values
from hetopt.proofs.oef.baseline_rules import gandiva_fair, gavel
from hetopt.proofs.oef.envy_and_sharing import least_surplus, most_envy
from hetopt.proofs.oef.tenant_cases import Optimum, Share, TenantCase

F = Fraction


@cache
def tenants_of(name: str) -> TenantCase:
    """The tenants of a named instance."""
    entities = instances.load(name).entities()
    speed = tuple(tuple(r) for r in simple_fractions(entities.per_gpu).tolist())
    weight = tuple(simple_fractions(entities.weight).tolist())
    return TenantCase(speed, tuple(simple_fractions(entities.capacity).tolist()), weight)


def printed(name: str, topic: str) -> Any:
    """The printed numbers of a named instance."""
    return instances.expected(name)[topic].printed


def number(quantity: str, claimed: Fraction, computed: Fraction) -> ComparedValue:
    """Compare a number that is printed as decimals or as a quotient."""
    text = str(claimed) if claimed.denominator in (1, 3, 37) else f"{float(claimed):g}"
    return compare_number(quantity, text, computed)


def vector(quantity: str, claimed: Sequence[Fraction], computed: Sequence[Fraction]) -> list[ComparedValue]:
    """Compare every entry of a printed vector."""
    pairs = zip(claimed, computed, strict=True)
    return [number(f"{quantity}[{i}]", *pair) for i, pair in enumerate(pairs, 1)]


def table(quantity: str, claimed: Sequence[Sequence[Fraction]], computed: Share) -> list[ComparedValue]:
    """Compare every entry of a printed table."""
    return [
        number(f"{quantity}[{i},{j}]", *pair)
        for i, rows in enumerate(zip(claimed, computed, strict=True), 1)
        for j, pair in enumerate(zip(*rows, strict=True), 1)
    ]


def unique(found: Optimum) -> ComparedValue:
    """Compare whether the optimum is unique."""
    return compare_values("unique optimum", True, found.unique)


def eq_1(what: str) -> Computation:
    """Gandiva_fair on equation (1): X, or E and its total."""
    case, there = tenants_of("oef/eq1"), printed("oef/eq1", "gandiva_fair")
    share, trades = gandiva_fair(case)
    if what == "X":
        prices = [
            compare_values(f"price of trade {i + 1}", p, str(t.price))
            for i, (p, t) in enumerate(zip(("3", "5/2"), trades, strict=True))
        ]
        return Computation((*table("X", there["X"], share), *prices), pictures=(case.picture("after trading", share),))
    rates = case.rates(share)
    rows = [*vector("E", there["E"], rates), number("total", there["total"], sum(rates, F(0)))]
    return Computation(tuple(rows), pictures=(case.picture("after trading", share),))


def eq_1_lie(what: str) -> Computation:
    """Gandiva_fair after u1 reports 2.8: X and prices, or the efficiencies."""
    truth, reported = tenants_of("oef/eq1"), tenants_of("oef/eq1-lie")
    there = printed("oef/eq1-lie", "gandiva_fair")
    share, trades = gandiva_fair(reported)
    picture = truth.picture("after u1 reports 2.8", share)
    if what == "X":
        prices = [gandiva_fair(truth)[1][1].price, trades[1].price]
        rows = (*table("X", there["X"], share), *vector("price of round 2", there["price_round2"], prices))
        return Computation(rows, pictures=(picture,))
    return Computation(tuple(vector("E", there["E_true"], truth.rates(share))), pictures=(picture,))


def eq_2() -> Computation:
    """Cooperative OEF on equation (1)."""
    case, there = tenants_of("oef/eq2"), printed("oef/eq2", "cooperative")
    found = case.cooperative
    rows = [*table("X", there["X"], found.share), *vector("E", there["E"], case.rates(found.share))]
    rows += [
        number("total", there["total"], found.total),
        unique(found),
        compare_values("envy-free", True, most_envy(case, found).slack >= 0),
        compare_values("sharing-incentive", True, least_surplus(case, found).slack >= 0),
    ]
    return Computation(tuple(rows), pictures=(case.picture("cooperative OEF", found.share),))


def eq_3(what: str) -> Computation:
    """Gavel, with its row on time, on equation (1): X, or E and its total."""
    case, there = tenants_of("oef/eq3"), printed("oef/eq3", "gavel")
    found = gavel(case)
    if what == "X":
        rows = [*table("X", there["X"], found.share), unique(found)]
    else:
        rows = [*vector("E", there["E"], case.rates(found.share)), number("total", there["total"], found.total)]
    return Computation(tuple(rows), pictures=(case.picture("Gavel", found.share),))


def eq_3_lie() -> Computation:
    """Gavel after u1 reports 2.5: the shares of u1, and whether it gains."""
    truth, reported = tenants_of("oef/eq3"), tenants_of("oef/eq3-lie")
    found = gavel(reported)
    gains = truth.worth(0, found.share[0]) > truth.worth(0, gavel(truth).share[0])
    claimed = printed("oef/eq3-lie", "gavel")["value"]
    rows = (*vector("x_1", claimed, found.share[0]), compare_values("u1 gains", True, gains))
    return Computation(rows, pictures=(truth.picture("after u1 reports 2.5", found.share),))


def eq_3_trade(first: Fraction, second: Fraction) -> Computation:
    """The trade of u1 and u2 after Gavel: x_1 = (1, ``first``), x_2 = (0, ``second``)."""
    case = tenants_of("oef/eq3")
    found = gavel(case)
    before, after = case.rates(found.share), (case.worth(0, (F(1), first)), case.worth(1, (F(0), second)))
    rows = (
        compare_values("u2 gains", True, after[1] > before[1]),
        compare_values("u1 keeps its efficiency", True, after[0] >= before[0]),
        compare_values("within what both have", True, first + second <= found.share[0][1] + found.share[1][1]),
        compare_values("u1 has more than one GPU", True, 1 + first > 1),
    )
    return Computation(rows, f"u2 has {change_text(before[1], after[1])}")


def gavel_below_gandiva_fair() -> Computation:
    """Compare the total of eq. (3) with that of eq. (1)."""
    case = tenants_of("oef/eq1")
    one, other = gavel(case).total, sum(case.rates(gandiva_fair(case)[0]), F(0))
    lower = compare_values("Gavel's total is lower", True, one < other)
    return Computation((lower,), f"Gavel {number_text(one)}, Gandiva_fair {number_text(other)}")


def eq_1_envy() -> Computation:
    """Whether u3 prefers the GPUs of u2 under eq. (1) and eq. (3)."""
    case = tenants_of("oef/eq1")
    shares = {"Gandiva_fair": gandiva_fair(case)[0], "Gavel": gavel(case).share}
    rows = (
        compare_values(f"u3 prefers u2's under {name}", True, case.worth(2, share[1]) > case.worth(2, share[2]))
        for name, share in shares.items()
    )
    return Computation(tuple(rows))


def eq_5() -> Computation:
    """The largest total without fairness."""
    case = tenants_of("oef/eq5")
    share = printed("oef/eq5", "efficiency")["value"]
    rates = case.rates(share)
    mine, fair = [case.worth(e, share[e]) for e in (0, 1)], [case.worth(e, case.gpus) / 3 for e in range(3)]
    rows = (
        compare_values("total is the largest", str(case.free.total), str(sum(rates, F(0)))),
        compare_values("u2 is below its third", True, rates[1] < fair[1]),
        *(compare_values(f"u{e + 1} prefers what u3 has", True, case.worth(e, share[2]) > mine[e]) for e in (0, 1)),
    )
    return Computation(rows, pictures=(case.picture("largest total", share),))


def eq_6() -> Computation:
    """Cooperative OEF on two users."""
    case, there = tenants_of("oef/eq6"), printed("oef/eq6", "cooperative")
    found = case.cooperative
    rows = (*table("X", there["X"], found.share), number("total", there["total"], found.total), unique(found))
    return Computation(rows, pictures=(case.picture("cooperative OEF", found.share),))


def eq_6_lie() -> Computation:
    """Cooperative OEF after u1 reports 4."""
    truth, reported = tenants_of("oef/eq6"), tenants_of("oef/eq6-lie")
    there, found, honest = printed("oef/eq6-lie", "cooperative"), reported.cooperative, truth.cooperative
    mine, before = truth.worth(0, found.share[0]), truth.worth(0, honest.share[0])
    rows = (
        *table("X", there["X"], found.share),
        number("u1", there["u1_true"], mine),
        number("gain of u1", there["u1_gain"], mine / before - 1),
        number("total", there["total_true"], sum(truth.rates(found.share), F(0))),
        unique(found),
    )
    pictures = (truth.picture("honest", honest.share), truth.picture("u1 misreports", found.share))
    return Computation(rows, pictures=pictures)


def second_misreport() -> Computation:
    """Whether u2 gains by a misreport after u1 has reported 4."""
    truth, reported = tenants_of("oef/eq6"), tenants_of("oef/eq6-lie")
    before = truth.worth(1, reported.cooperative.share[1])
    best = max(truth.worth(1, reported.reporting(1, (F(1), F(p, 4))).cooperative.share[1]) for p in range(4, 81))
    words = f"u2 has {number_text(before)}; with reports from 1 to 20 in quarters at most {number_text(best)}"
    return Computation((compare_values("u2 gains by a misreport, too", True, best > before),), words)


def even_split() -> Computation:
    """The rates of both users after the even split X^f, and whether one is larger than with X."""
    case, there = tenants_of("oef/eq6"), printed("oef/eq6", "max_min")
    rates, before = case.rates(there["X"]), case.rates(case.cooperative.share)
    worse = all(a <= b for a, b in zip(rates, before, strict=True))
    rows = (number(name, there[name], rate) for name, rate in zip(("u1", "u2"), rates, strict=True))
    return Computation((*rows, compare_values("no user has more than with X", True, worse)))


def sharing_coefficients() -> Computation:
    """The rows of the sharing incentive with W of eq. (6): coefficient of x_2^2, and right sides."""
    case = tenants_of("oef/eq6")
    fair = [case.worth(e, case.gpus) / 2 for e in range(2)]
    rows = (compare_number("right side of u1", "1.5", fair[0]), compare_number("right side of u2", "3", fair[1]))
    return Computation((*rows, compare_number("coefficient of x_2^2", "4", case.speed[1][1])))


def drop() -> Computation:
    """The decrease of the total under the sharing incentive when u1 reports 4."""
    truth, reported = tenants_of("oef/eq6"), tenants_of("oef/eq6-lie")
    after = sum(truth.rates(reported.sharing.share), F(0))
    part = 1 - after / truth.sharing.total
    words = f"from {number_text(truth.sharing.total)} to {number_text(after)}: {float(100 * part):.2f} %"
    return Computation((number("drop", printed("oef/eq6-lie", "efficiency_drop")["value"], part),), words)


def fig_2() -> Computation:
    """Envy-freeness and the largest total, honest and after u1 reports 3."""
    truth, reported = tenants_of("oef/fig2"), tenants_of("oef/fig2-lie")
    honest, misreported = truth.cooperative, reported.cooperative
    rows = (
        *table("X", printed("oef/fig2", "cooperative")["X"], honest.share),
        *table("X after the misreport", printed("oef/fig2-lie", "cooperative")["X_lie"], misreported.share),
        unique(honest),
        unique(misreported),
    )
    pictures = (truth.picture("honest", honest.share), truth.picture("u1 misreports", misreported.share))
    return Computation(rows, pictures=pictures)


def weighted() -> Computation:
    """Non-cooperative OEF with two copies of u2."""
    case, claimed = tenants_of("oef/weighted-replicated"), ((F(1), F(1, 3)), (F(0), F(1, 3)), (F(0), F(1, 3)))
    found = case.noncooperative
    rows = (*table("X", claimed, found.share), unique(found))
    return Computation(rows, pictures=(case.picture("non-cooperative OEF", found.share),))


def with_two_job_types() -> TenantCase:
    """Two job types of u1, and two copies of u2."""
    pair = tenants_of("oef/job-types")
    return TenantCase((*pair.speed, pair.speed[2]), pair.gpus)


def job_types() -> Computation:
    """Non-cooperative OEF with two job types of u1 and two copies of u2."""
    case = with_two_job_types()
    found = case.noncooperative
    rows = tuple(table("X", printed("oef/job-types", "noncooperative")["X"], found.share))
    # The optimum is not unique: the copies of u2 can exchange GPUs.
    return Computation(rows, pictures=(case.picture("non-cooperative OEF", found.share),))


# -- the same by z3, which shares no code with the optima -------------------------------------------------------------


def shares_and_worth(case: TenantCase) -> tuple[list[Any], list[list[Any]], list[list[Any]]]:
    """Variables of z3: what holds for all allocations, the shares, and the worth of u_o's GPUs to u_e at [e][o]."""
    from z3 import Real, RealVal, Sum

    x = [[Real(f"x_{e + 1}^{j + 1}") for j in range(case.k)] for e in range(case.n)]
    speed = [[RealVal(str(w)) for w in row] for row in case.speed]
    worth = [[Sum([w * v for w, v in zip(row, bundle, strict=True)]) for bundle in x] for row in speed]
    rows = [v >= 0 for bundle in x for v in bundle]
    rows += [Sum(list(column)) <= RealVal(str(m)) for column, m in zip(zip(*x, strict=True), case.gpus, strict=True)]
    return rows, x, worth


def differs(x: list[list[Any]], share: Share) -> Any:
    """For z3: the shares are not these."""
    from z3 import Or, RealVal

    return Or([v != RealVal(str(g)) for row, own in zip(x, share, strict=True) for v, g in zip(row, own, strict=True)])


def other_envy_free(name: str) -> list[Any]:
    """For z3: another envy-free allocation has at least the total of cooperative OEF."""
    from z3 import RealVal, Sum

    case = tenants_of(name)
    rows, x, worth = shares_and_worth(case)
    rows += [worth[e][e] >= worth[e][o] for e, o in permutations(range(case.n), 2)]
    total = Sum([worth[e][e] for e in range(case.n)]) >= RealVal(str(case.cooperative.total))
    return [*rows, total, differs(x, case.cooperative.share)]


def other_of_gavel(name: str) -> list[Any]:
    """For z3: another allocation, with at most one GPU per user, has at least Gavel's ratio for every user."""
    from z3 import RealVal, Sum

    case = tenants_of(name)
    found = gavel(case)
    rows, x, worth = shares_and_worth(case)
    ratio = min(rate / case.worth(e, case.gpus) for e, rate in enumerate(case.rates(found.share)))
    rows += [Sum(row) <= 1 for row in x]
    rows += [worth[e][e] >= RealVal(str(ratio * case.worth(e, case.gpus))) for e in range(case.n)]
    return [*rows, differs(x, found.share)]


def other_of_equal_rates() -> list[Any]:
    """For z3: with two copies of u2 another allocation has at least the level of non-cooperative OEF for all."""
    from z3 import RealVal

    case = tenants_of("oef/weighted-replicated")
    rows, x, worth = shares_and_worth(case)
    rows += [worth[e][e] >= RealVal(str(case.level)) for e in range(case.n)]
    return [*rows, differs(x, case.noncooperative.share)]


def larger_level() -> list[Any]:
    """For z3: with two job types of u1 and two copies of u2 all have more than the level of non-cooperative OEF."""
    from z3 import RealVal

    case = with_two_job_types()
    rows, _, worth = shares_and_worth(case)
    return [*rows, *(worth[e][e] > RealVal(str(case.level)) for e in range(case.n))]


def larger_total() -> list[Any]:
    """For z3: some allocation has a larger total than that of eq. (5)."""
    from z3 import RealVal, Sum

    case = tenants_of("oef/eq5")
    share = printed("oef/eq5", "efficiency")["value"]
    rows, _, worth = shares_and_worth(case)
    return [*rows, Sum([worth[e][e] for e in range(case.n)]) > RealVal(str(sum(case.rates(share), F(0))))]


def second_misreport_pays() -> list[Any]:
    """For z3: after u1 has reported 4, u2 reports some r > 0 and has more than with the truth in an optimum.

    An optimum has at least the total, as reported, of the allocation in the note.
    """
    from z3 import If, Real, RealVal, Sum

    truth, case = tenants_of("oef/eq6"), tenants_of("oef/eq6-lie")
    rows, x, worth = shares_and_worth(case)
    r, four = Real("r"), RealVal(4)
    by_report = [bundle[0] + r * bundle[1] for bundle in x]
    rest = If(r >= 1, (r - 1) / (2 * r), RealVal(0))  # of GPU2 for u2 if it has GPU1
    total = If(r >= four, 1 + 4 * RealVal("3/8") + r * RealVal("5/8"), 1 + r * rest + 4 * (1 - rest))
    before = RealVal(str(truth.worth(1, case.cooperative.share[1])))
    true = Sum([RealVal(str(w)) * v for w, v in zip(truth.speed[1], x[1], strict=True)])
    return [
        *rows,
        r > 0,
        worth[0][0] >= worth[0][1],
        by_report[1] >= by_report[0],
        worth[0][0] + by_report[1] >= total,
        true > before,
    ]


def only_envy_free(name: str, words: str) -> ProofPart:
    """The part that an allocation is the only optimum of cooperative OEF."""
    return by_z3(f"no other envy-free allocation has its total{words}", partial(other_envy_free, name))


def example(
    key: str,
    place: str,
    statement: str,
    quote: str,
    compute: Callable[[], Computation],
    expected: ClaimVerdict = ClaimVerdict.TRUE,
    note: str = "",
    policies: tuple[str, ...] = (),
    mechanical: tuple[ProofPart, ...] = (),
    instead: str = "",
) -> Claim:
    """A claim about a worked example."""
    return Claim(
        key=f"oef/{key}",
        place=place,
        statement=statement,
        quote=quote,
        procedure=ByComputation(compute),
        expected=expected,
        policies=policies,
        mechanical=mechanical,
        instead=instead,
        note=note,
    )


TRADE = (
    r"The trade to $x'_1 = (1, 1/22)$, $x'_2 = (0, 1/2)$ raises $u_2$ and hurts no user. It leaves Gavel's row: $u_1$ "
    r"then has $\frac{23}{22} > 1$ GPUs."
)
ROUNDED = "The paper computes it from the rounded X."
SECOND_LIAR = r"""
If $u_2$ reports $r \ge 4$, $u_1$ has GPU1 and at least the part $a$ of GPU2 with $1 + 4 a = 4 (1 - a)$, so $u_2$ has at
most $5 \cdot \frac58 = \frac{25}8$, as with the truth. If $r < 4$, $u_2$ has GPU1 and the part $b$ of GPU2 with $1 + r
b = r (1 - b)$, or $b = 0$ if $r < 1$, and its rate is $1 + 5 b < 1 + \frac{15}8$."""
COOPERATIVE, NONCOOPERATIVE = ("oef-cooperative",), ("oef-noncooperative",)
CLAIMS = (
    example(
        "eq-1-shares",
        "eq. (1)",
        "For the speedups of eq. (1) Gandiva_fair gives $X$, by trades at the prices 3 and 2.5.",
        "The speedup matrix indicating the acceleration effect on diverse GPU types among jobs and the allocation "
        "matrix are presented as $W$ and $X$ respectively",
        lambda: eq_1("X"),
        policies=("gandiva-fair",),
    ),
    example(
        "eq-1-rates",
        "eq. (1)",
        "Under Gandiva_fair $E = (1.18, 1.41, 1.76)$, with the total 4.35.",
        r"And the achieved efficiency vector for users are denoted as $E = \langle 1.18; 1.41; 1.76 \rangle$.",
        lambda: eq_1("E"),
        ClaimVerdict.FALSE,
        ROUNDED,
        ("gandiva-fair",),
    ),
    example(
        "eq-1-lie-shares",
        "section 2.4",
        "If $u_1$ reports 2.8, Gandiva_fair gives $X^f$, and the price of the second round goes from 2.5 to 2.9.",
        "In this case, the price in the second-round trading changes from 2.5 to 2.9, so $u_1$ successfully wins "
        r"more portions on $\text{GPU}_2$ and improves his efficiency",
        lambda: eq_1_lie("X"),
        policies=("gandiva-fair",),
    ),
    example(
        "eq-1-lie-rates",
        "section 2.4",
        "If $u_1$ reports 2.8, $E^f = (1.22, 1.35, 1.76)$ under Gandiva_fair.",
        r"In this case, the achieved efficiency vector becomes $E^f = \langle 1.22; 1.35; 1.76 \rangle$.",
        lambda: eq_1_lie("E"),
        ClaimVerdict.FALSE,
        ROUNDED,
        ("gandiva-fair",),
    ),
    example(
        "eq-1-envy",
        "section 2.4",
        "In eq. (1), under Gandiva_fair, and in eq. (3), under Gavel, $u_3$ prefers the GPUs of $u_2$.",
        "In this example, $u_3$ prefers $u_2$'s allocation.",
        eq_1_envy,
    ),
    example(
        "eq-2",
        "eq. (2)",
        "$X^*$, with $E^* = (1, 1.5, 2)$, is envy-free and sharing-incentive, and the only envy-free allocation "
        "with the largest total, 4.5.",
        "Moreover, one can simply construct a more resource-efficient allocation that satisfies both "
        "*envy-freeness* and *sharing-incentive* properties",
        eq_2,
        policies=COOPERATIVE,
        mechanical=(only_envy_free("oef/eq2", ""),),
    ),
    example(
        "eq-3-shares",
        "eq. (3)",
        "For the speedups of eq. (1) Gavel gives $X$ of eq. (3).",
        "To be specific, consider the same speedup matrix as in Expression (1), the allocation and the related "
        "efficiency under Gavel is given by",
        lambda: eq_3("X"),
        note=r"Only with Gavel's row $\sum_j x_l^j \le 1$, which OEF omits.",
        policies=("gavel-max-min",),
        mechanical=(by_z3("no other allocation has its smallest ratio", partial(other_of_gavel, "oef/eq3")),),
    ),
    example(
        "eq-3-rates",
        "eq. (3)",
        "Under Gavel $E = (1.09, 1.44, 1.8)$, with the total 4.33.",
        r"the allocation and the related efficiency under Gavel is given by: … $E = \begin{pmatrix} 1.09 \\ 1.44 \\ "
        r"1.8 \end{pmatrix}$",
        lambda: eq_3("E"),
        ClaimVerdict.FALSE,
        ROUNDED,
        ("gavel-max-min",),
    ),
    example(
        "eq-3-lie",
        "section 2.4",
        "If $u_1$ reports 2.5, Gavel gives it $(0.85, 0.15)$, and it gains.",
        r"For example, when $u_1$ increase his speedup rate on $\text{GPU}_2$ to 2.5, his resulted share vector "
        r"become $\langle 0.85, 0.15 \rangle$, leading to higher resource efficiency.",
        eq_3_lie,
        policies=("gavel-max-min",),
        mechanical=(by_z3("no other allocation has its smallest ratio", partial(other_of_gavel, "oef/eq3-lie")),),
    ),
    example(
        "eq-3-trade",
        "section 2.4",
        "After Gavel, the trade to $x'_1 = (1, 0.045)$, $x'_2 = (0, 0.0495)$ raises $u_2$ and hurts no user.",
        "Moreover, $u_2$ can trade with $u_1$ to obtain higher efficiency without hurting anyone, that is, $x'_1 = "
        r"\langle 1, 0.045 \rangle$ and $x'_2 = \langle 0, 0.0495 \rangle$.",
        lambda: eq_3_trade(F(45, 1000), F(495, 10000)),
        ClaimVerdict.FALSE,
        "A misprint of 0.495. And 0.045 is 1/22 rounded down, which costs u1 1/1100.",
        instead="oef/eq-3-trade-corrected",
    ),
    replace(
        example("eq-3-trade-corrected", "section 2.4", TRADE, "", lambda: eq_3_trade(F(1, 22), F(1, 2))), printed=False
    ),
    example(
        "eq-3-total",
        "section 2.4",
        "The total under Gavel, eq. (3), is lower than that under Gandiva_fair, eq. (1).",
        r"the total resource efficiency attained is even lower than that under $\text{Gandiva}_{\text{fair}}$.",
        gavel_below_gandiva_fair,
        ClaimVerdict.FALSE,
    ),
    example(
        "eq-5",
        "eq. (5)",
        "$X$ has the largest total; $u_2$ has less than with its third of the cluster, and $u_1$ and $u_2$ envy $u_3$.",
        r"the best allocation result that produces the highest overall efficiency is to assign $\text{GPU}_2$ to "
        r"$u_3$ and assign $\text{GPU}_1$ to $u_1$ or $u_2$. However, this allocation … is not *sharing-incentive* "
        r"since $u_2$ does not get $\frac{1}{3}$ of all resources in the cluster. This allocation is also not "
        "*envy-free* as both $u_1$ and $u_2$ prefer $u_3$'s allocation.",
        eq_5,
        policies=("efficiency-only",),
        mechanical=(by_z3("no allocation has a larger total", larger_total),),
    ),
    example(
        "eq-6",
        "eq. (6)",
        "$X$ is the only envy-free allocation with the largest total, 5.25.",
        "The above allocation $X$ yields a total resource efficiency of 5.25.",
        eq_6,
        policies=COOPERATIVE,
        mechanical=(only_envy_free("oef/eq6", ""),),
    ),
    example(
        "eq-6-lie",
        "section 3.1.1",
        "If $u_1$ reports 4, the allocation is $X^l$; $u_1$ has 1.75, 16.7% more, and the total falls to 4.875.",
        r"when the first user cheats the cluster manager and lies about his speedup on $\text{GPU}_2$ up to 4, the "
        "resulted allocation … leads to a total throughput of 1.75 for $u_1$ and is 16.7% higher than his original "
        "throughput. However, the overall efficiency will decrease from 5.25 to 4.875",
        eq_6_lie,
        policies=COOPERATIVE,
        mechanical=(only_envy_free("oef/eq6-lie", ", as reported"),),
    ),
    example(
        "eq-6-second-liar",
        "section 3.1.1",
        "After $u_1$ has reported 4, $u_2$ also gains by a misreport.",
        "This example further suggests that after $u_1$ lies, another user $u_2$ also has the incentive to lie to "
        "increase his throughput.",
        second_misreport,
        ClaimVerdict.FALSE,
        SECOND_LIAR,
        mechanical=(by_z3("u2 gains by no report r > 0, in no optimum", second_misreport_pays),),
    ),
    example(
        "eq-6-even-split",
        "section 3.1.1",
        "Under $X^f$ $u_1$ has 1.5 and $u_2$ has 3, and neither more than with $X$.",
        "the allocation under max-min fairness … results in no better throughput for both users, that is, with "
        "$u_1$ obtaining 1.5 and $u_2$ achieving 3.",
        even_split,
    ),
    example(
        "eq-6-sharing",
        "section 3.1.1",
        r"For the speedups of eq. (6) the sharing incentive is $x_1^1 + 2 x_1^2 \ge 1.5$ and $x_2^1 + 4 x_2^2 \ge "
        "3$.",
        "Under the same speedup matrix, *sharing-incentive* requires the allocation to matrix satisfy: $x_1^1 + "
        r"2x_1^2 \geq 1.5, \quad \text{and} \quad x_2^1 + 4x_2^2 \geq 3.$",
        sharing_coefficients,
        ClaimVerdict.FALSE,
        "The coefficient of W in eq. (6) is 5.",
    ),
    example(
        "eq-6-drop",
        "section 3.1.1",
        "With the largest total under the sharing incentive, the total drops by 8% if $u_1$ reports 4.",
        r"When $u_1$ lies about his speedup on $\text{GPU}_2$ to 4, his own efficiency improves whereas the overall "
        "resource efficiency drops by 8%.",
        drop,
        ClaimVerdict.FALSE,
    ),
    example(
        "fig-2",
        "Fig. 2",
        "The only envy-free allocation with the largest total is $(1, 0.25; 0, 0.75)$, and $(1, 0.33; 0, 0.67)$ if "
        "$u_1$ reports 3.",
        r"In this case, the allocation that provides the optimal efficiency and *envy-freeness* is $\langle 1, 0.25; "
        r"0, 0.75 \rangle$ … When the first user lies and reports the speedup to be $\langle 1, 3 \rangle$, … the "
        r"new allocation with the same goal becomes $\langle 1, 0.33; 0, 0.67 \rangle$",
        fig_2,
        policies=COOPERATIVE,
        mechanical=(only_envy_free("oef/fig2", ""), only_envy_free("oef/fig2-lie", ", as reported")),
    ),
    example(
        "weighted",
        "section 4.2.3",
        r"Non-cooperative OEF for eq. (6) with $\pi_2 = 2$, as two copies of $u_2$, gives only $X$, so 2/3 of "
        r"$\text{GPU}_2$ to $u_2$.",
        "In this scenario, if there is only one worker available for two types of GPUs, $u_2$ will be allocated 2/3 "
        "fraction of the second type of GPU.",
        weighted,
        policies=NONCOOPERATIVE,
        mechanical=(by_z3("no other allocation has its level", other_of_equal_rates),),
    ),
    example(
        "job-types",
        "section 4.2.4",
        "With a further job type $(1, 3)$ of $u_1$ and two copies of $u_2$, non-cooperative OEF gives $X$.",
        "… the resulting new speedup matrix and the allocation in a non-cooperative environment are as follows",
        job_types,
        note="The copies of u2 can exchange GPUs, so other allocations are optimal, too.",
        policies=NONCOOPERATIVE,
        mechanical=(by_z3("no allocation has a larger level", larger_level),),
    ),
)
