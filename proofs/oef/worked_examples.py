"""The worked examples of OEF: all printed numbers, recomputed in fractions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

from hetopt import instances
from hetopt.data.rationals import change_text, number_text, simple_fractions
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict
from hetopt.proofs.ledger.procedures import ByComputation, ComparedValue, Computation, compare_number, compare_values
from hetopt.proofs.oef.baseline_rules import gandiva_fair, gavel
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
    rows += [number("total", there["total"], found.total), unique(found)]
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
    """The rates of both users after the even split X^f."""
    case, there = tenants_of("oef/eq6"), printed("oef/eq6", "max_min")
    u1, u2 = case.rates(there["X"])
    return Computation((number("u1", there["u1"], u1), number("u2", there["u2"], u2)))


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


def job_types() -> Computation:
    """Non-cooperative OEF with two job types of u1 and two copies of u2."""
    pair = tenants_of("oef/job-types")
    case = TenantCase((*pair.speed, pair.speed[2]), pair.gpus)
    found = case.noncooperative
    rows = tuple(table("X", printed("oef/job-types", "noncooperative")["X"], found.share))
    # The optimum is not unique: the copies of u2 can exchange GPUs.
    return Computation(rows, pictures=(case.picture("non-cooperative OEF", found.share),))


def example(
    key: str,
    place: str,
    statement: str,
    compute: Callable[[], Computation],
    expected: ClaimVerdict = ClaimVerdict.TRUE,
    note: str = "",
    policies: tuple[str, ...] = (),
) -> Claim:
    """A claim about a worked example."""
    return Claim(
        key=f"oef/{key}",
        place=place,
        statement=statement,
        procedure=ByComputation(compute),
        expected=expected,
        policies=policies,
        note=note,
    )


TRADE = (
    r"The trade to $x'_1 = (1, 1/22)$, $x'_2 = (0, 1/2)$ raises u2 and hurts no user. It leaves Gavel's row: $u_1$ "
    r"then has $\frac{23}{22} > 1$ GPUs."
)
ROUNDED = "The paper computes it from the rounded X."
SECOND_LIAR = r"""
If u2 reports $r \ge 4$, u1 has GPU1 and at least the part $a$ of GPU2 with $1 + 4 a = 4 (1 - a)$, so u2 has at most $5
\cdot \frac58 = \frac{25}8$, as with the truth. If $r < 4$, u2 has GPU1 and the part $b$ of GPU2 with $1 + r b = r (1 -
b)$, and its rate is $1 + 5 b < 1 + \frac{15}8$."""
COOPERATIVE, NONCOOPERATIVE = ("oef-cooperative",), ("oef-noncooperative",)
CLAIMS = (
    example(
        "eq-1-shares",
        "eq. (1)",
        "X under Gandiva_fair, traded at prices 3 and 2.5.",
        lambda: eq_1("X"),
        policies=("gandiva-fair",),
    ),
    example(
        "eq-1-rates",
        "eq. (1)",
        r"$E = (1.18, 1.41, 1.76)$, total 4.35, under Gandiva_fair.",
        lambda: eq_1("E"),
        ClaimVerdict.FALSE,
        ROUNDED,
        ("gandiva-fair",),
    ),
    example(
        "eq-1-lie-shares",
        "section 2.4",
        "After u1 reports 2.8: $X^f$, and the price of the second round goes from 2.5 to 2.9.",
        lambda: eq_1_lie("X"),
        policies=("gandiva-fair",),
    ),
    example(
        "eq-1-lie-rates",
        "section 2.4",
        r"After u1 reports 2.8: $E^f = (1.22, 1.35, 1.76)$.",
        lambda: eq_1_lie("E"),
        ClaimVerdict.FALSE,
        ROUNDED,
        ("gandiva-fair",),
    ),
    example("eq-1-envy", "section 2.4", "In eq. (1) and in eq. (3) u3 prefers the GPUs of u2.", eq_1_envy),
    example(
        "eq-2",
        "eq. (2)",
        r"$X^*$ and $E^* = (1, 1.5, 2)$: envy-free, with the largest total, 4.5.",
        eq_2,
        policies=COOPERATIVE,
    ),
    example(
        "eq-3-shares",
        "eq. (3)",
        "X under Gavel.",
        lambda: eq_3("X"),
        note=r"Only with Gavel's row $\sum_j x_l^j \le 1$, which OEF omits.",
        policies=("gavel-max-min",),
    ),
    example(
        "eq-3-rates",
        "eq. (3)",
        r"$E = (1.09, 1.44, 1.8)$, total 4.33, under Gavel.",
        lambda: eq_3("E"),
        ClaimVerdict.FALSE,
        ROUNDED,
        ("gavel-max-min",),
    ),
    example(
        "eq-3-lie",
        "section 2.4",
        r"After u1 reports 2.5 it has $(0.85, 0.15)$ and gains.",
        eq_3_lie,
        policies=("gavel-max-min",),
    ),
    example(
        "eq-3-trade",
        "section 2.4",
        r"The trade to $x'_1 = (1, 0.045)$, $x'_2 = (0, 0.0495)$ raises u2 and hurts no user.",
        lambda: eq_3_trade(F(45, 1000), F(495, 10000)),
        ClaimVerdict.FALSE,
        "A misprint of 0.495. And 0.045 is 1/22 rounded down, which costs u1 1/1100.",
    ),
    replace(
        example("eq-3-trade-corrected", "section 2.4", TRADE, lambda: eq_3_trade(F(1, 22), F(1, 2))), printed=False
    ),
    example(
        "eq-3-total",
        "section 2.4",
        "The total under Gavel, eq. (3), is lower than that under Gandiva_fair, eq. (1).",
        gavel_below_gandiva_fair,
        ClaimVerdict.FALSE,
    ),
    example(
        "eq-5",
        "eq. (5)",
        "X has the largest total; u2 is below its third of the cluster, u1 and u2 envy u3.",
        eq_5,
        policies=("efficiency-only",),
    ),
    example("eq-6", "eq. (6)", "X is envy-free with the largest total, 5.25.", eq_6, policies=COOPERATIVE),
    example(
        "eq-6-lie",
        "section 3.1.1",
        "After u1 reports 4: $X^l$, u1 has 1.75, 16.7 % more, the total falls to 4.875.",
        eq_6_lie,
        policies=COOPERATIVE,
    ),
    example(
        "eq-6-second-liar",
        "section 3.1.1",
        "After u1 misreports, u2 also has the incentive to misreport.",
        second_misreport,
        ClaimVerdict.FALSE,
        SECOND_LIAR,
    ),
    example("eq-6-even-split", "section 3.1.1", "Under $X^f$ u1 has 1.5 and u2 has 3.", even_split),
    example(
        "eq-6-sharing",
        "section 3.1.1",
        r"The sharing incentive is $x_1^1 + 2 x_1^2 \ge 1.5$ and $x_2^1 + 4 x_2^2 \ge 3$.",
        sharing_coefficients,
        ClaimVerdict.FALSE,
        "The coefficient of W in eq. (6) is 5.",
    ),
    example(
        "eq-6-drop",
        "section 3.1.1",
        "Under the sharing incentive the total drops by 8 % when u1 reports 4.",
        drop,
        ClaimVerdict.FALSE,
    ),
    example(
        "fig-2",
        "Fig. 2",
        "X, and X after u1 reports 3, under envy-freeness and the largest total.",
        fig_2,
        policies=COOPERATIVE,
    ),
    example("weighted", "section 4.2.3", "X with u2 of weight 2.", weighted, policies=NONCOOPERATIVE),
    example("job-types", "section 4.2.4", "X with two job types of u1.", job_types, policies=NONCOOPERATIVE),
)
