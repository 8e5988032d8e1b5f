"""Theorems 3.2, 3.3 and 5.4: whether misreports of speedups are profitable."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any

from hetopt.data.rationals import change_text, number_text, numbers_text
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import shares_picture
from hetopt.proofs.ledger.mechanical import by_z3
from hetopt.proofs.ledger.procedures import Exists, ForAll
from hetopt.proofs.ledger.space import CaseNumbers, Hypothesis, Space, TableShape, hypothesis, integers, rationals
from hetopt.proofs.oef.misreport_cases import (
    RISING,
    MisreportCase,
    Reports,
    any_report,
    misreport_pays,
    misreport_space,
    over,
    untrue,
)
from hetopt.proofs.oef.proof_algebra import FALSE_TYPE, GIFT, UNDER
from hetopt.proofs.oef.tenant_cases import (
    GPUS,
    OPTIMAL,
    UNIQUE,
    TenantCase,
    about,
    case_of,
    positive,
    relative,
    tenant_space,
)

F = Fraction


def noncooperative(case: MisreportCase) -> Finding:
    """Strategy-proofness of non-cooperative OEF, where every honest tenant has t* in every optimum."""
    return misreport_pays(case, case.truth.noncooperative, case.reported.noncooperative, level=True)


def cooperative(case: MisreportCase) -> Finding:
    """Strategy-proofness of the largest total with envy-freeness."""
    return misreport_pays(case, case.truth.cooperative, case.reported.cooperative)


def sharing(case: MisreportCase) -> Finding:
    """Strategy-proofness of the largest total with the sharing incentive."""
    return misreport_pays(case, case.truth.sharing, case.reported.sharing)


NOT_HARMED = F(-1)
"""Slack if a misreport that should lower the rate does not, independent of its gain."""


def misreport_harms(case: MisreportCase) -> Finding:
    """Whether the throughput of the misreporting tenant "will decrease"."""
    found = noncooperative(case)
    return found if found.slack > 0 else replace(found, slack=NOT_HARMED)


@hypothesis("if $u_1$ reports the truth, some optimum gives it GPUs of the first type only")
def only_first_type(case: MisreportCase) -> bool:
    """The least amount of other types is 0, over all optima of non-cooperative OEF."""
    truth = case.truth
    others = truth.row({(0, j): F(-1) for j in range(1, truth.k)})
    return not any(truth.best_of(others, truth.equal_rows()).share[0][1:])


# -- groups ----------------------------------------------------------------------------------------------------------


def after_trades(case: MisreportCase) -> Finding:
    """Whether no division of the misreporting users' GPUs gives each of them more than t*."""
    group, found = case.misreporters, case.reported.noncooperative
    gpus = tuple(sum((found.share[e][j] for e in group), F(0)) for j in range(case.truth.k))
    best = TenantCase(tuple(case.truth.speed[e] for e in group), gpus).level
    words = f"with all their GPUs the misreporting users can have {number_text(best)} each"
    return Finding(
        case.truth.level - best, words, (OPTIMAL,), (case.truth.picture("after the misreport", found.share),)
    )


def with_payments(case: MisreportCase) -> Finding:
    """Whether the misreporting users and the first honest one do not gain in total."""
    honest = next(e for e in range(case.truth.n) if e not in case.misreporters)
    group, found = (*case.misreporters, honest), case.reported.noncooperative
    after, before = case.truth.rates(found.share), case.truth.level
    gain = sum((after[e] - before for e in group), F(0))
    names = " and ".join(f"u{e + 1}" for e in group)
    words = f"{names} gain {number_text(gain)} in total: u{honest + 1} has {change_text(before, after[honest])}"
    pictures = (
        case.truth.picture("honest", case.truth.noncooperative.share),
        case.truth.picture("after the misreport, at true speedups", found.share),
    )
    return Finding(-gain, words, (OPTIMAL, UNIQUE), pictures, found.unique)


# -- under-reports ---------------------------------------------------------------------------------------------------


def row_prices(case: TenantCase) -> tuple[Fraction, ...]:
    """(n,) prices lambda >= 0 of the rows t <= w_l.x_l, which sum to 1."""
    rows = case.capacity_rows(extra=1)
    rows += [(case.row({(e, j): -w for j, w in enumerate(row)}, [F(1)]), F(0)) for e, row in enumerate(case.speed)]
    return case.largest_level(rows).dual[case.k :]


def weighted_mean(case: MisreportCase) -> Finding:
    """Whether (1 - lambda) t' + lambda u <= t*, for the misreport of u1."""
    part, best = row_prices(case.truth)[0], case.truth.level
    level, true = case.reported.level, case.truth.worth(0, case.reported.noncooperative.share[0])
    mean = (1 - part) * level + part * true
    words = f"t' = {number_text(level)}, u = {number_text(true)}, lambda = {number_text(part)}: {number_text(mean)}"
    return Finding(best - mean, f"{words}, t* = {number_text(best)}", (OPTIMAL,))


def weighted_mean_exceeds() -> list[Any]:
    """For z3: prices of three users and two types, and an allocation with a weighted mean above p.m."""
    from z3 import Real, Sum

    n, k = 3, 2
    w, x = ([[Real(f"{name}{e}{j}") for j in range(k)] for e in range(n)] for name in "wx")
    m, price = ([Real(f"{name}{j}") for j in range(k)] for name in "mp")
    part, level = [Real(f"l{e}") for e in range(n)], Real("t")
    rate = [Sum([w[e][j] * x[e][j] for j in range(k)]) for e in range(n)]
    return [
        *(v >= 0 for v in [*price, *part, *m, *(v for table in (x, w) for row in table for v in row)]),
        *(Sum([row[j] for row in x]) <= m[j] for j in range(k)),
        *(price[j] >= part[e] * w[e][j] for e in range(n) for j in range(k)),
        Sum(part) == 1,
        *(other == level for other in rate[1:]),
        (1 - part[0]) * level + part[0] * rate[0] > Sum([price[j] * m[j] for j in range(k)]),
    ]


@hypothesis("the optimum is unique and has $n + k - 1$ positive shares")
def nondegenerate(case: TenantCase) -> bool:
    """Then the shares above 0 and t are a basis."""
    found = case.noncooperative
    return found.unique and sum(1 for row in found.share for x in row if x) == case.n + case.k - 1


SMALLEST = F(1, 2**20)
"""Smallest part by which a speedup is under-reported."""


def under_reports_pay(case: TenantCase) -> Finding:
    """Whether small under-reports pay for every user and type j >= 2 of which it has GPUs."""
    worst = F(1)
    for e, row in enumerate(case.noncooperative.share):
        for j in range(1, case.k):
            part = F(1, 16)
            while row[j] and (gain := _gain_by_under_report(case, e, j, part)) <= 0:
                part /= 16
                if part < SMALLEST:
                    return Finding(F(-1), f"u{e + 1} gains {number_text(gain)} by reporting GPU{j + 1} as slower")
            worst = min(worst, gain) if row[j] else worst
    return Finding(worst, f"every user gains, {number_text(worst)} at least")


def _gain_by_under_report(case: TenantCase, tenant: int, kind: int, part: Fraction) -> Fraction:
    row = list(case.speed[tenant])
    row[kind] *= 1 - part
    return case.worth(tenant, case.reporting(tenant, row).noncooperative.share[tenant]) - case.level


# -- raw throughputs, which the profiler divides by the slowest ------------------------------------------------------


@dataclass(frozen=True)
class RawMisreportCase(MisreportCase):
    """A misreport of raw throughputs.

    Attributes
    ----------
    raw, report:
        (k,) raw throughputs of u1, in truth and as reported.
    """

    raw: tuple[Fraction, ...]
    report: tuple[Fraction, ...]

    def ascending(self) -> bool:
        """Whether the first type is the slowest, in truth and as reported."""
        return all(a <= b for row in (self.raw, self.report) for a, b in pairwise(row))

    def positive(self) -> bool:
        """Whether all throughputs are positive, in truth and as reported."""
        return all(w > 0 for w in (*self.raw, *self.report, *chain(*self.truth.speed)))

    def over(self) -> bool:
        """Whether no throughput is reported below the truth."""
        return all(b >= a for a, b in zip(self.raw, self.report, strict=True))


def raw_misreport_space() -> Space[RawMisreportCase]:
    """Throughputs of u1 in any unit, with no report below the truth; both are then normalised."""

    def build(numbers: CaseNumbers) -> RawMisreportCase:
        true, reported = numbers.row("true"), numbers.row("said")
        rows = tuple((F(1), *row) for row in numbers["others"])
        truth = TenantCase((tuple(v / true[0] for v in true), *rows), numbers.row("gpus"))
        return RawMisreportCase(truth, truth.reporting(0, [v / reported[0] for v in reported]), true, reported)

    tables = {
        "true": TableShape(1, "k", integers(1, 8)),
        "said": TableShape(1, "k", integers(1, 8)),
        "others": TableShape("n", "k-1", integers(1, 8)),
        "gpus": TableShape(1, "k", GPUS),
    }
    given = (
        Hypothesis("all throughputs are positive", RawMisreportCase.positive),
        Hypothesis("later types are at least as fast, in truth and as reported", RawMisreportCase.ascending),
        Hypothesis("no raw throughput is reported below the truth", RawMisreportCase.over),
        Hypothesis("$u_1$ misreports", untrue),
    )
    return Space({"n": (1, 3), "k": (2, 3)}, tables, build, hypotheses=given)


# -- false job types -------------------------------------------------------------------------------------------------


def with_false_type(case: MisreportCase) -> Finding:
    """Whether u1 gains by a false job type, the last of the reported tenants; each type has half its weight."""
    found = case.reported.noncooperative
    last = case.reported.n - 1
    gpus = [a + b for a, b in zip(found.share[0], found.share[last], strict=True)]
    before, after = case.truth.level, case.truth.worth(0, gpus)
    words = (
        f"u1 adds a job type of speedups ({numbers_text(case.reported.speed[last])}) and has "
        f"{change_text(before, after)}"
    )
    names = [*(f"u{e + 1}" for e in range(last)), "u1, false type"]
    rates = [case.reported.worth(e, row) for e, row in enumerate(found.share)]
    pictures = (
        case.truth.picture("honest", case.truth.noncooperative.share),
        shares_picture("with the false type, as reported", found.share, case.truth.gpus, rates, names),
    )
    return Finding(before - after, words, (OPTIMAL, UNIQUE), pictures, found.unique)


def false_type_space(way: Reports) -> Space[MisreportCase]:
    """A false job type for u1 with ``way(true, false)`` for all speedups; weights 1/2, 1 … 1, 1/2."""

    def build(numbers: CaseNumbers) -> MisreportCase:
        truth, false = case_of(numbers), (F(1), *numbers.row("false"))
        weight = (F(1, 2), *[F(1)] * (truth.n - 1), F(1, 2))
        return MisreportCase(truth, TenantCase((*truth.speed, false), truth.gpus, weight))

    tables = {
        "speed": TableShape("n", "k-1", integers(1, 9)),
        "gpus": TableShape(1, "k", GPUS),
        "false": TableShape(1, "k-1", integers(1, 9)),
    }

    def allowed(case: MisreportCase) -> bool:
        return all(way(a, b) for a, b in zip(case.truth.speed[0], case.reported.speed[-1], strict=True))

    def halves(case: MisreportCase) -> bool:
        first, *others, last = case.reported.weights
        return first == last == F(1, 2) and set(others) <= {F(1)}

    given = (
        *about(attrgetter("reported"), relative, positive),
        Hypothesis[MisreportCase](f"of the false type compared with $u_1$: {way.text}", allowed),
        Hypothesis[MisreportCase]("both types have half of the weight 1 of $u_1$", halves),
    )
    return Space({"n": (2, 4), "k": (2, 3)}, tables, build, hypotheses=given)


def profitable_over_report(n: int, k: int) -> list[Any]:
    """For z3: prices that prove t*, an allocation with equal reported rates, and a misreporting tenant above t*."""
    from z3 import Real, Sum

    w, x = ([[Real(f"{name}{e}{j}") for j in range(k)] for e in range(n)] for name in "wx")
    reported, m, price = ([Real(f"{name}{j}") for j in range(k)] for name in "rmp")
    part, level = [Real(f"l{e}") for e in range(n)], Real("t")
    rate = [Sum([row[j] * x[e][j] for j in range(k)]) for e, row in enumerate([reported, *w[1:]])]
    everything = [*price, *part, *m, *reported, *(v for table in (x, w) for row in table for v in row)]
    return [
        *(v >= 0 for v in everything),
        *(Sum([row[j] for row in x]) <= m[j] for j in range(k)),
        *(reported[j] >= w[0][j] for j in range(k)),
        *(r == level for r in rate),
        *(price[j] >= part[e] * w[e][j] for e in range(n) for j in range(k)),
        Sum(part) == 1,
        Sum([w[0][j] * x[0][j] for j in range(k)]) > Sum([price[j] * m[j] for j in range(k)]),
    ]


OVER = r"""
Let $t^*$ be the largest level that all can have at true speedups, $w'_l \ge w_l$ the reports of the misreporting users,
$x'$ the allocation and $t'$ its level. Every honest user has $t'$; a misreporting user has the true rate $w_l x'_l \le
w'_l x'_l = t'$. If all misreporting users had more than $t^*$, then $t' > t^*$, so every user would have more than
$t^*$ at true speedups: a contradiction. So no over-report, by one user or by several, benefits all that misreport."""

ONE_INSTANCE = "One instance is enough: both optima are unique, so every such mechanism returns them."

CLAIMS = (
    Claim(
        key="oef/thm-3.2",
        place="Theorem 3.2",
        statement="No mechanism with the largest total among envy-free allocations is strategy-proof.",
        quote="No sharing mechanism providing optimal resource efficiency can simultaneously guarantee "
        "envy-freeness and strategy-proofness.",
        procedure=Exists(ForAll(misreport_space(over, *RISING), cooperative)),
        expected=ClaimVerdict.TRUE,
        proof=ONE_INSTANCE,
        note="Every such mechanism selects an optimum of the same program.",
    ),
    Claim(
        key="oef/thm-3.3",
        place="Theorem 3.3",
        statement="No mechanism with the largest total under the sharing incentive is strategy-proof.",
        quote="No sharing mechanism providing optimal resource efficiency can guarantee sharing-incentive and "
        "strategy-proofness at the same time.",
        procedure=Exists(ForAll(misreport_space(over, *RISING), sharing)),
        expected=ClaimVerdict.TRUE,
        proof=ONE_INSTANCE,
    ),
    Claim(
        key="oef/thm-5.4",
        place="Theorem 5.4",
        statement="Non-cooperative OEF is strategy-proof: no report of other speedups pays.",
        quote="Non-cooperative OEF ensures strategy proofness.",
        procedure=ForAll(misreport_space(any_report), noncooperative),
        expected=ClaimVerdict.FALSE,
        policies=("oef-noncooperative",),
        instead="oef/thm-5.4-over",
        note="Section 2.3.1 considers reports with no element below the truth, the proof marginal over-reports.",
    ),
    Claim(
        key="oef/thm-5.4-over",
        place="Theorem 5.4",
        statement=r"Over-reports do not pay under non-cooperative OEF: with $w'_l \ge w_l$ for the misreporting users, "
        r"alone or together, not every one of them gains (every optimum).",
        quote="Fortunately, we have discovered that ensuring all users achieve identical (normalized) throughput "
        "can guarantee *strategy-proofness*.",
        procedure=ForAll(
            misreport_space(over, all_misreport=True, speeds=rationals(0, 6, 2)), noncooperative, all_optima=True
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-noncooperative",),
        proof=OVER,
        mechanical=tuple(
            by_z3(f"n = {n}, k = {k}, all real data", partial(profitable_over_report, n, k))
            for n, k in ((2, 2), (2, 3))
        ),
    ),
    Claim(
        key="oef/thm-5.4-decrease",
        place="section 2.3.1 (1)",
        statement='A tenant that over-reports under non-cooperative OEF is worse off: its throughput "will decrease".',
        quote=r"when the $l$-th tenant reports a fake vector $\vec{W}_l$ where each element is no less than that "
        "in the groundtruth, his attained normalized training throughput will decrease.",
        procedure=ForAll(misreport_space(over, *RISING), misreport_harms),
        expected=ClaimVerdict.FALSE,
        policies=("oef-noncooperative",),
        instead="oef/thm-5.4-over",
        note="Its throughput does not increase, but may be unchanged.",
    ),
    Claim(
        key="oef/thm-5.4-slowest",
        place="Theorem 5.4",
        statement="Over-reports of raw throughputs, which the profiler divides by the slowest, do not pay under "
        "non-cooperative OEF.",
        procedure=ForAll(raw_misreport_space(), noncooperative),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("oef-noncooperative",),
        instead="oef/thm-5.4-over",
        note="Raising only the slowest throughput is an under-report after the division.",
    ),
    Claim(
        key="oef/thm-5.4-first-type",
        place="Theorem 5.4",
        statement=r"Under non-cooperative OEF with positive speedups, a user to which some optimum gives GPUs of the "
        r"first type only does not gain by any report with $w'^1_l = 1$.",
        procedure=ForAll(
            misreport_space(any_report, only_first_type, speeds=integers(1, 5), n=(2, 3), slow=True),
            noncooperative,
            all_optima=True,
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-noncooperative",),
        proof=r"""
In such an optimum $x$ it has $x_l^1 = t^*$, which is worth $t^*$ by any report. So $x$ is feasible after the
misreport, and $t' \ge t^*$: every honest user has at least $t^*$. If the true rate of the misreporting user exceeds
$t^*$, it can give every other user a small part of its GPUs, of positive worth to each. Then all true rates exceed
$t^*$: a contradiction.""",
        mechanical=GIFT,
    ),
    Claim(
        key="oef/thm-5.4-trades",
        place="Theorem 5.4",
        statement=r"Over-reports of a group do not pay under non-cooperative OEF even if its users trade the GPUs that "
        r"they receive: no division of their GPUs gives each more than $t^*$ (every optimum).",
        procedure=ForAll(misreport_space(over, all_misreport=True, n=(2, 3)), after_trades, all_optima=True),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-noncooperative",),
        proof=r"""
Every honest user has $t' \ge t^*$, since over-reports only raise the level. If some division of the group's GPUs gives
each of its users more than $t^*$, one of them can give every other user a small part of its GPUs, of positive worth to
each, and all have more than $t^*$ at true speedups: a contradiction.""",
        mechanical=GIFT,
    ),
    Claim(
        key="oef/thm-5.4-side-payments",
        place="Theorem 5.4",
        statement="Over-reports do not pay under non-cooperative OEF for users that compensate each other: the "
        "throughput of the misreporting users and of one honest user does not rise in total.",
        procedure=ForAll(misreport_space(over, n=(2, 3)), with_payments),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("oef-noncooperative",),
        instead="oef/thm-5.4-trades",
        note="The honest user gains more than the misreporting user loses, and can pay for the loss.",
    ),
    Claim(
        key="oef/thm-5.4-weighted-mean",
        place="Theorem 5.4",
        statement=r"Whatever one user $l$ reports, $(1 - \lambda) t' + \lambda u \le t^*$: $t'$ is the level after the "
        r"report, $u$ the true throughput of $l$, and $\lambda$ the price of its row $t \le w_l x_l$ at true speedups.",
        procedure=ForAll(misreport_space(any_report), weighted_mean, all_optima=True),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-noncooperative",),
        proof=r"""
Prices $p \ge 0$ of types and $\lambda \ge 0$ of users with $\sum_i \lambda_i = 1$, $\lambda_i w_i^j \le p_j$ and
$p\,m = t^*$ prove that $t^*$ is the largest level. Every other user has the true throughput $t'$. So $(1 - \lambda_l)
t' + \lambda_l u = \sum_i \lambda_i w_i x'_i \le \sum_i p\,x'_i \le p\,m = t^*$.""",
        mechanical=(by_z3("n = 3, k = 2, all real data", weighted_mean_exceeds),),
    ),
    Claim(
        key="oef/thm-5.4-under",
        place="Theorem 5.4",
        statement=r"At every unique, nondegenerate optimum of non-cooperative OEF for two or more users with positive "
        r"speedups, a user that has GPUs of a type $j \ge 2$ gains by every sufficiently small under-report of "
        "$w_l^j$.",
        quote="In another scenario, where the efficiency of honest users increases, we only have to analyze the "
        "case where user $i$ increases a small amount of acceleration rate and still does not exceed any speedup "
        "rates of others.",
        procedure=ForAll(tenant_space(nondegenerate, n=(2, 3), k=(2, 3)), under_reports_pay, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-noncooperative",),
        proof=r"""
Prices $p \ge 0$ of types and $\lambda \ge 0$ of users with $\sum_i \lambda_i = 1$, $\lambda_i w_i^j \le p_j$ and
$p\,m = t^*$ prove the level. All $\lambda_i > 0$: some is, so all $p_j > 0$, and each user has GPUs of a type with
$p_j = \lambda_i w_i^j$. As $n \ge 2$, all are below 1. The positive shares and the level are a basis, and since the
optimum is unique, all reduced costs of other variables are positive. So the basis stays optimal for small changes of
the speedups. If $u_l$ reports $w_l^j - \delta$, $\delta > 0$ small, the new allocation $x'$ has the same positive
shares and uses all GPUs, and $\sum_i \lambda_i w_i x'_i = p \sum_i x'_i = p\,m = t^*$. With $t'$ the new level, $u_l$
truly has $t' + \delta x_l'^j$ and all others $t'$, so $t' + \lambda_l \delta x_l'^j = t^*$, and $u_l$ has $t^* + (1 -
\lambda_l) \delta x_l'^j > t^*$.""",
        mechanical=UNDER,
        note="Theorem 5.4 fails for under-reports not only in special cases.",
    ),
    Claim(
        key="oef/false-types",
        place="section 4.2.4",
        statement="Under non-cooperative OEF no user gains by a false job type if its types divide its weight.",
        quote="However, it is worth noting that simply creating virtual users may result in an unfair increase in "
        "a user's overall throughput. To address this, we divide the weight of a user equally among their job "
        "types",
        procedure=ForAll(false_type_space(any_report), with_false_type),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("oef-noncooperative",),
        instead="oef/false-types-over",
        note="The user runs its true jobs on the GPUs of the false type.",
    ),
    Claim(
        key="oef/false-types-over",
        place="section 4.2.4",
        statement=r"Under non-cooperative OEF a false job type that over-reports, $w'' \ge w_l$, does not pay if "
        "the types of its user divide the user's weight equally (every optimum).",
        procedure=ForAll(false_type_space(over), with_false_type, all_optima=True),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-noncooperative",),
        proof=r"""
The true and the false type have weight 1/2 each, so their reported rates are $t'/2$ each. At true speedups both bundles
are worth $w_l (x'_l + x''_l) \le w_l x'_l + w'' x''_l = t'$ to the misreporting user, and every other user has $t'$.
The rest is as for over-reports (Theorem 5.4), also with several false types.""",
        mechanical=FALSE_TYPE,
    ),
)
