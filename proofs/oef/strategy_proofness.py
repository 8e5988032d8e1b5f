"""Theorems 3.2, 3.3 and 5.4: whether misreporting speedups pays."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

from hetopt.proofs.ledger.claim import ClaimVerdict, Finding, fraction_text
from hetopt.proofs.ledger.finding_pictures import shares_picture
from hetopt.proofs.ledger.mechanical import by_z3
from hetopt.proofs.ledger.procedures import Exists, ForAll
from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, integers, rationals
from hetopt.proofs.oef.misreports import MisreportCase, any_report, misreport_pays, misreport_space, over, row_text
from hetopt.proofs.oef.oef_claim import oef_claim
from hetopt.proofs.oef.tenant_cases import GPUS, OPTIMAL, UNIQUE, TenantCase, rising

F = Fraction


def noncooperative(case: MisreportCase) -> Finding:
    """Under non-cooperative OEF, where every honest tenant has t* in every optimum."""
    return misreport_pays(case, case.truth.noncooperative, case.reported.noncooperative, level=True)


def cooperative(case: MisreportCase) -> Finding:
    """Under the largest total with envy-freeness."""
    return misreport_pays(case, case.truth.cooperative, case.reported.cooperative)


def sharing(case: MisreportCase) -> Finding:
    """Under the largest total with the sharing incentive."""
    return misreport_pays(case, case.truth.sharing, case.reported.sharing)


NOT_HARMED = F(-1)
"""Slack if a misreport that should harm does not, whatever its gain."""


def misreport_harms(case: MisreportCase) -> Finding:
    """Whether the misreporting tenant loses ("will decrease"): slack below 0 if it does not."""
    found = noncooperative(case)
    lost = found.slack > 0
    return replace(found, slack=found.slack if lost else NOT_HARMED)


def as_ordered(case: MisreportCase) -> bool:
    """Later types are faster for every tenant, in truth and as reported."""
    return rising(case.truth) and rising(case.reported)


def only_first_type(case: MisreportCase) -> bool:
    """Whether u1 has GPUs of the first type alone if it reports the truth."""
    return not any(case.truth.noncooperative.share[0][1:])


# -- raw throughputs, which the profiler divides by the slowest ------------------------------------------------------


def raw_misreport_space() -> Space[MisreportCase]:
    """True and reported throughputs of u1 in any unit, no reported one below the true one; then normalised."""

    def build(numbers: CaseNumbers) -> MisreportCase | None:
        true, reported = numbers.row("true"), numbers.row("said")
        ascending = all(a <= b for row in (true, reported) for a, b in pairwise(row))
        if not ascending or true == reported or any(b < a for a, b in zip(true, reported, strict=True)):
            return None
        rows = tuple((F(1), *row) for row in numbers["others"])
        truth = TenantCase((tuple(v / true[0] for v in true), *rows), numbers.row("gpus"))
        case = MisreportCase(truth, truth.reporting(0, [v / reported[0] for v in reported]))
        return case if case.misreporters else None

    tables = {
        "true": TableShape(1, "k", integers(1, 8)),
        "said": TableShape(1, "k", integers(1, 8)),
        "others": TableShape("n", "k-1", integers(1, 8)),
        "gpus": TableShape(1, "k", GPUS),
    }
    return Space({"n": (1, 3), "k": (2, 3)}, tables, build)


# -- false job types -------------------------------------------------------------------------------------------------


def with_false_type(case: MisreportCase) -> Finding:
    """u1 adds a false job type, of which the last row of ``row_text`` says the speedups, and halves its weight."""
    found = case.reported.noncooperative
    last = case.reported.n - 1
    gpus = [a + b for a, b in zip(found.share[0], found.share[last], strict=True)]
    before, after = case.truth.level, case.truth.worth(0, gpus)
    words = (
        f"u1 adds a job type of speedups {row_text(case.reported.speed[last])} and has "
        f"{fraction_text(after)} instead of "
        f"{fraction_text(before)}"
    )
    names = [*(f"u{e + 1}" for e in range(last)), "u1, false type"]
    rates = [case.reported.worth(e, row) for e, row in enumerate(found.share)]
    pictures = (
        case.truth.picture("honest", case.truth.noncooperative.share),
        shares_picture("with the false type, as reported", found.share, case.truth.gpus, rates, names),
    )
    return Finding(before - after, words, (OPTIMAL, UNIQUE), pictures, found.unique)


def false_type_space(way: Any) -> Space[MisreportCase]:
    """A false job type for u1 with ``way(true, false)`` for all speedups; weights 1/2, 1 … 1, 1/2."""

    def build(numbers: CaseNumbers) -> MisreportCase | None:
        rows = tuple((F(1), *row) for row in numbers["speed"])
        false = (F(1), *numbers.row("false"))
        if not all(way(a, b) for a, b in zip(rows[0], false, strict=True)):
            return None
        truth = TenantCase(rows, numbers.row("gpus"))
        weight = (F(1, 2), *[F(1)] * (len(rows) - 1), F(1, 2))
        return MisreportCase(truth, TenantCase((*rows, false), numbers.row("gpus"), weight))

    tables = {
        "speed": TableShape("n", "k-1", integers(1, 9)),
        "gpus": TableShape(1, "k", GPUS),
        "false": TableShape(1, "k-1", integers(1, 9)),
    }
    return Space({"n": (2, 4), "k": (2, 3)}, tables, build)


def profitable_over_report(n: int, k: int) -> list[Any]:
    """For z3: prices that prove t*, an allocation with equal reported rates, and a misreporting tenant above t*."""
    from z3 import Real, Sum

    def reals(name: str, *shape: int) -> list[Any]:
        return (
            [Real(f"{name}{i}") for i in range(shape[0])]
            if len(shape) == 1
            else [[Real(f"{name}{i}{j}") for j in range(shape[1])] for i in range(shape[0])]
        )

    w, x = reals("w", n, k), reals("x", n, k)
    reported, m, price, part = reals("r", k), reals("m", k), reals("p", k), reals("l", n)
    level = Real("t")
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
Let $t^*$ be the largest level that all can have in truth, $w'_l \ge w_l$ the reports of the misreporting users, $x'$
the allocation and $t'$ its level. Every honest user has $t'$; a misreporting user has in truth $w_l x'_l \le w'_l x'_l
= t'$. If every one of them had more than $t^*$, then $t' > t^*$ too, so every user would have more than $t^*$ in
truth: a contradiction. So no over-report, alone or together, makes all misreporting users better off."""

CLAIMS = (
    oef_claim(
        key="oef/thm-3.2",
        place="Theorem 3.2",
        statement="No mechanism with the largest total among envy-free allocations is strategy-proof.",
        procedure=Exists(ForAll(misreport_space(over, where=as_ordered), cooperative)),
        expected=ClaimVerdict.TRUE,
        proof="One instance is enough: both optima are unique, so every such mechanism allocates like that.",
        note="Every mechanism of the kind is one that picks an optimum of the same program.",
    ),
    oef_claim(
        key="oef/thm-3.3",
        place="Theorem 3.3",
        statement="No mechanism with the largest total under the sharing incentive is strategy-proof.",
        procedure=Exists(ForAll(misreport_space(over, where=as_ordered), sharing)),
        expected=ClaimVerdict.TRUE,
        proof="One instance is enough: both optima are unique, so every such mechanism allocates like that.",
    ),
    oef_claim(
        key="oef/thm-5.4",
        place="Theorem 5.4",
        statement="Non-cooperative OEF is strategy-proof: no report of other speedups pays.",
        procedure=ForAll(misreport_space(any_report), noncooperative),
        expected=ClaimVerdict.FALSE,
        policies=("oef-noncooperative",),
        instead="oef/thm-5.4-over",
        note="Section 2.3.1 speaks of vectors with no element below the truth; the proof, of marginal over-reports.",
    ),
    oef_claim(
        key="oef/thm-5.4-over",
        place="Theorem 5.4",
        statement=r"Over-reports do not pay under non-cooperative OEF: with $w'_l \ge w_l$ for the misreporting users, "
        r"alone or together, not every one of them gains (every optimum).",
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
    oef_claim(
        key="oef/thm-5.4-decrease",
        place="section 2.3.1 (1)",
        statement='A tenant that over-reports under non-cooperative OEF is worse off: its throughput "will decrease".',
        procedure=ForAll(misreport_space(over, where=as_ordered), misreport_harms),
        expected=ClaimVerdict.FALSE,
        policies=("oef-noncooperative",),
        instead="oef/thm-5.4-over",
        note="It will not increase.",
    ),
    oef_claim(
        key="oef/thm-5.4-slowest",
        place="Theorem 5.4",
        statement="Over-reports of raw throughputs, which the profiler divides by the slowest, do not pay under "
        "non-cooperative OEF.",
        procedure=ForAll(raw_misreport_space(), noncooperative),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("oef-noncooperative",),
        instead="oef/thm-5.4-over",
        note="Raising the slowest alone is an under-report after the division.",
    ),
    oef_claim(
        key="oef/thm-5.4-first-type",
        place="Theorem 5.4",
        statement=r"Under non-cooperative OEF with positive speedups no user who gets GPUs of the first type only "
        r"gains by "
        r"any report with $w'^1_l = 1$.",
        procedure=ForAll(
            misreport_space(any_report, speeds=integers(1, 5), n=(2, 3), where=only_first_type, slow=True),
            noncooperative,
            all_optima=True,
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-noncooperative",),
        proof=r"""
In the honest optimum $x$ it has $x_l^1 = t^*$, which any report values at $t^*$ as well. So $x$ is feasible after
the misreport, and $t' \ge t^*$: every honest user has at least $t^*$. If the misreporting user has more than $t^*$
in truth, it can give every other user a little, worth something to each; then all have more than $t^*$ in truth: a
contradiction.""",
    ),
    oef_claim(
        key="oef/false-types",
        place="section 4.2.4",
        statement="Under non-cooperative OEF no user gains by a false job type, with its weight divided.",
        procedure=ForAll(false_type_space(any_report), with_false_type),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("oef-noncooperative",),
        instead="oef/false-types-over",
        note="Its GPUs are used for the true jobs.",
    ),
    oef_claim(
        key="oef/false-types-over",
        place="section 4.2.4",
        statement=r"A false job type that over-reports, $w'' \ge w_l$, does not pay (every optimum).",
        procedure=ForAll(false_type_space(over), with_false_type, all_optima=True),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-noncooperative",),
        proof=r"""
True and false type have weight 1/2 each, so reported rates $t'/2$ each; in truth both bundles are worth $w_l (x'_l +
x''_l) \le w_l x'_l + w'' x''_l = t'$ to the misreporting user, and every other user has $t'$. The rest is as for
over-reports (Theorem 5.4); so are several false types.""",
    ),
)
