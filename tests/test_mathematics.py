# ruff: noqa: RUF001
"""Formulas as text, LaTeX and numbers; programs as mathematics; and that Hadar's and A-SRPT's are what is solved."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest
from evaluating import bindings, evaluate, slack
from hypothesis import assume, given
from hypothesis import strategies as st
from stated import Elsewhere, check_stated
from test_hadar_offers import Round, rounds

from hetopt.data.instance import Instance
from hetopt.errors import InvalidFormulation, InvalidInstance
from hetopt.models import hadar
from hetopt.models.asrpt.heavy_edge import HeavyEdge
from hetopt.models.asrpt.minimum_alpha import MATHEMATICS, MinimumAlpha
from hetopt.models.asrpt.minimum_cut import MinimumCut, least_cuts, mathematics
from hetopt.models.asrpt.placement_costs import PlacementCosts
from hetopt.models.hadar.job_schedules import JobSchedule, schedules
from hetopt.models.hadar.offline_problem import OfflineProblem
from hetopt.models.hadar.round_market import OFFER, offer_model
from hetopt.models.hadar.schedule_based import P2, P2_RELAXED, P3
from hetopt.models.hadar.time_indexed import P1, P1_AS_PRINTED, slot_limits
from hetopt.programs.mathematics import Definition, Mathematics, Statement, Symbol, Variable, described
from hetopt.programs.notation import HARD, latex, text
from hetopt.proofs.strategies import mixed_instances, servers_for, staged_jobs
from hetopt.stages.iteration_time import Asynchronous
from hetopt.stages.job_graph import AllReduce
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers
from hetopt.tolerances import PROVEN

SEEDS = st.integers(0, 2**32 - 1)
PROGRAMS = {
    "P1": P1,
    "P1 as printed": P1_AS_PRINTED,
    "P2": P2,
    "P2 relaxed": P2_RELAXED,
    "P3": P3,
    "offer": OFFER,
    "alpha": MATHEMATICS,
    **{f"cut by {allreduce}": mathematics(allreduce) for allreduce in AllReduce},
}


# --- formulas ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "plain", "typeset"),
    [
        ("sum(v[e, k] * x[k] for k in K) >= 1", "Σ_k v[e,k]·x[k] ≥ 1", r"\sum_{k \in K} v_{ek} \, x_{k} \ge 1"),
        ("sum(a[e, k] for e in E for k in K)", "Σ_{e,k} a[e,k]", r"\sum_{e \in E,\ k \in K} a_{ek}"),
        ("sum(a[o] for o in E if o != e)", "Σ_{o ∈ E, o ≠ e} a[o]", r"\sum_{o \in E,\ o \ne e} a_{o}"),
        ("sum(a[k] for k in K) * b", "(Σ_k a[k])·b", r"\left( \sum_{k \in K} a_{k} \right) \, b"),
        ("b * sum(a[k] + 1 for k in K)", "b·Σ_k (a[k] + 1)", r"b \, \sum_{k \in K} (a_{k} + 1)"),
        ("b * sum(a[k] for k in K) * c", "(b·Σ_k a[k])·c", r"\left( b \, \sum_{k \in K} a_{k} \right) \, c"),
        ("sum(a[k] for k in K) - b", "Σ_k a[k] − b", r"\sum_{k \in K} a_{k} - b"),
        ("max(rho[e] for e in E)", "max_e ρ[e]", r"\max_{e \in E} \rho_{e}"),
        ("max(a, 0) + min(a, b)", "max(a, 0) + min(a, b)", r"\max(a, 0) + \min(a, b)"),
        ("a - (b - c)", "a − (b − c)", "a - (b - c)"),
        ("-a * b", "−a·b", r"-a \, b"),
        ("a * (-b)", "a·(−b)", r"a \, (-b)"),
        ("a / b * c", "(a/b)·c", r"\frac{a}{b} \, c"),
        ("a / (b * c)", "a/(b·c)", r"\frac{a}{b \, c}"),
        ("a // b", "⌊a/b⌋", r"\left\lfloor \frac{a}{b} \right\rfloor"),
        ("(a + 1) ** 2", "(a + 1)^2", "(a + 1)^{2}"),
        ("(a / b) ** n", "(a/b)^n", r"\left( \frac{a}{b} \right)^{n}"),
        ("2 * 3 * x", "2·3·x", r"2 \cdot 3 \, x"),
        ("2 * x", "2·x", r"2 \, x"),
        ("0.5 <= x <= 1", "0.5 ≤ x ≤ 1", r"0.5 \le x \le 1"),
        ("a < b", "a < b", "a < b"),
        ("x == y", "x = y", "x = y"),
        ("x[e, k] in {0, 1}", "x[e,k] ∈ {0, 1}", r"x_{ek} \in \{0, 1\}"),
        ("x in {0, 1, ...}", "x ∈ {0, 1, …}", r"x \in \{0, 1, \dots\}"),
        ("x in reals", "x ∈ ℝ", r"x \in \mathbb{R}"),
        ("(h, r) not in C", "(h, r) ∉ C", r"(h, r) \notin C"),
        ("not a in A and (b or c)", "not a ∈ A and (b or c)", r"\text{not } a \in A \text{ and } (b \text{ or } c)"),
        ("log(theta)", "log(θ)", r"\log(\theta)"),
        ("len(E) - 1", "|E| − 1", r"\lvert E \rvert - 1"),
        ("U(j, t)", "U(j, t)", "U(j, t)"),
        ("1 if a else 2", "1 if a else 2", r"\begin{cases} 1 & \text{if } a \\ 2 & \text{otherwise} \end{cases}"),
        ("x == (a if b > 0 else c)", "x = (a if b > 0 else c)", None),
        ("f[g, s - 1]", "f[g,s−1]", "f_{g, s - 1}"),
        ("v[j, l] + lambda_", "v[j,l] + λ", r"v_{j \ell} + \lambda"),
        ("x_max[e] + theta_b", "x_max[e] + θ_b", r"x_{\text{max}, e} + \theta_{b}"),
        ("t2 + work[e]", "t2 + work[e]", r"t_{2} + \text{work}_{e}"),
    ],
)  # fmt: skip
def test_formulas_are_written(formula: str, plain: str, typeset: str | None) -> None:
    assert text(formula).formula.replace(HARD, " ") == plain
    assert typeset is None or latex(formula).formula == typeset


@pytest.mark.parametrize(
    ("over", "plain", "typeset"),
    [
        ("for e in E", "∀ e ∈ E", r"\forall e \in E"),
        ("for e in E for o in E if e != o", "∀ e, o ∈ E, e ≠ o", r"\forall e, o \in E,\ e \ne o"),
        ("for h, r in C for t in T[h]", "∀ (h, r) ∈ C, t ∈ T[h]", r"\forall (h, r) \in C,\ t \in T_{h}"),
    ],
)
def test_quantifiers_are_written(over: str, plain: str, typeset: str) -> None:
    assert text("x", over).places.replace(HARD, " ") == plain
    assert latex("x", over).places == typeset


def test_symbols_have_a_latex_of_their_own() -> None:
    own = {"k": "k_{#1}^{#2}(#3)", "U": r"\mathcal{U}"}
    assert latex("U * k[h, r, t + 1] ** 2", own=own).formula == r"\mathcal{U} \, (k_{h}^{r}(t + 1))^{2}"
    assert latex("U", "for U in S", own).formula == "U", "a loop variable of the same name"


@pytest.mark.parametrize(
    "formula",
    ["a.b", "'x'", "[1]", "lambda x: x", "sum(x)", "a @ b", "f(*a)", "f(k=1)", "True", "x is y", "a % b", "a[0:1]",
     "f(x)[1]", "(x := 1)", "sum([a for a in A])", "log(a, b)", "~a", "sum(a for a in A for b in x.y)", "f('os')"],
)  # fmt: skip
def test_other_syntax_is_refused_by_the_formula_s_name(formula: str) -> None:
    with pytest.raises(InvalidFormulation, match="which formulas cannot have") as problem:
        Statement("row", formula)
    assert repr(formula) in str(problem.value)
    with pytest.raises(InvalidFormulation):
        evaluate(formula, {})


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(InvalidFormulation, match=r"the formula 'a \+' '' cannot be read: "):
        Statement("row", "a +")
    for formula in ("", "a]", "a) + (b]", "a # b"):
        with pytest.raises(InvalidFormulation):
            Statement("row", formula)
    for over in ("e in E", "for e", "for e in E]", "+ 1", ", b"):
        with pytest.raises(InvalidFormulation, match=r"the formula 'a' .* cannot be read"):
            Statement("row", "a", over)


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("sum(v[e, k] * x[k] for e in E for k in K if k > 0)", 2 * 5.0 + 4 * 5.0),
        ("max(x[k] for k in K) - min(2, 3) + 7 // 2 + 2 ** 3", 5 - 2 + 3 + 8),
        ("len(E)", 2),
        ("2.0 in {0, 1, ...} and 5 in {1, 3, ..., 7} and not 4 in {1, 3, ..., 7} and 0.5 in reals", True),
        ("0.5 in {0, 1, ...} or -1 in {0, 1, ...} or 8 in {0, ..., 7}", False),
        ("sum(i for i in {1, ..., 4})", 10),
        ("f(2) if log(1) == 0 else 0", 4),
    ],
)
def test_formulas_are_evaluated(formula: str, value: float) -> None:
    values = {"E": (0, 1), "K": range(2), "v": np.array([[1, 2], [3, 4]]), "x": [4.0, 5.0], "f": lambda a: a * a}
    assert evaluate(formula, values) == value


def test_slack_is_how_far_a_formula_holds() -> None:
    assert slack("a >= 1", {"a": 3}) == slack("1 <= a", {"a": 3}) == 2
    assert slack("0 <= a <= 1", {"a": 0.75}) == 0.25
    assert slack("a == b", {"a": 3, "b": 5}) == slack("b == a", {"a": 3, "b": 5}) == -2
    for formula in ("a < 1", "a + 1", "a in {0, 1}"):
        with pytest.raises(AssertionError):
            slack(formula, {"a": 1})


def test_bindings_are_the_places_of_a_quantifier() -> None:
    found = list(
        bindings("for e in E for o in E if e != o for a, b in P[o]", {"E": "xy", "P": {"x": [(1, 2)], "y": []}})
    )
    assert found == [{"e": "y", "o": "x", "a": 1, "b": 2}]
    assert list(bindings("", {})) == [{}]


def test_names_are_those_that_are_not_bound() -> None:
    parsed = text("sum(v[e, k] * f(k) for k in K if k in A[e]) - max(e, 1)", "for e in E if e > low")
    assert parsed.names == (("E", 0), ("low", 0), ("K", 0), ("A", 1), ("v", 2), ("f", 1))
    assert text("sum(k for k in K) + k").names == (("K", 0), ("k", 0))


# --- programs ---------------------------------------------------------------------------------------------------------

E = Symbol("E", "tenants")
X = Variable("x", "GPUs of a tenant", "GPUs", "e", formula="x[e] >= 0", over="for e in E", component="share")
RATE = Definition("rate", "work", "work/s", "e", formula="rate[e] == v[e] * x[e]", over="for e in E", component="rate")
V = Symbol("v", "work per second of a GPU", "work/(s GPU)", "e")
SHARED = Mathematics("shared", variables=(X,), definitions=(RATE,), symbols=(E, V, Symbol("unused", "nothing")))
TOTAL = Mathematics(
    gains=(Statement("gain", "sum(rate[e] for e in E)", source="OEF, eq. (10a)", meaning="total", unit="work/s"),),
    symbols=(E, RATE.symbol),
)
COST = Mathematics(
    gains=(Statement("gain", "-sum(x[e] for e in E)", meaning="few GPUs", unit="GPUs", priority=-1),),
    rows=(Statement("row", "rate[e] >= level", "for e in E", "OEF, eq. (9c)", "all rates are as high", "work/s"),),
    variables=(Variable("level", "least rate", "work/s"),),
    symbols=(E, X.symbol, RATE.symbol),
)


def whole() -> Mathematics:
    return Mathematics.joined("a program", {"": SHARED, "total": TOTAL, "cost": COST})


def test_a_program_of_parts_as_text() -> None:
    assert whole().text(70) == "\n".join([
        "a program",
        "first maximise",
        "  total.gain [OEF, eq. (10a)]: total (work/s)",
        "      Σ_e rate[e]",
        "then, while that is kept, maximise",
        "  cost.gain: few GPUs (GPUs)",
        "      −Σ_e x[e]",
        "subject to",
        "  cost.row [OEF, eq. (9c)]: all rates are as high (work/s)",
        "      rate[e] ≥ level    ∀ e ∈ E",
        "with",
        "  share: x[e] ≥ 0    ∀ e ∈ E",
        "  cost.level: level ∈ ℝ",
        "where",
        "  rate[e] = v[e]·x[e]    ∀ e ∈ E",
        "symbols",
        "  E        tenants",
        "  rate[e]  work (work/s)",
        "  x[e]     GPUs of a tenant (GPUs)",
        "  level    least rate (work/s)",
        "  v[e]     work per second of a GPU (work/(s GPU))",
    ])  # fmt: skip


def test_a_program_of_parts_as_latex() -> None:
    made = whole().latex()
    assert whole()._repr_latex_() == f"$$\n{made}\n$$"
    assert r"\text{then, while that is kept, maximise} & \displaystyle -\sum_{e \in E} x_{e}" in made
    assert (
        r"\displaystyle \text{rate}_{e} \ge \text{level} & \forall e \in E & \text{[OEF, eq. (9c)]} & \text{cost.row}"
        in made
    )
    assert r"v_{e} & \text{work per second of a GPU} & \text{work/(s GPU)}" in made
    assert "unused" not in made


def test_a_program_of_parts_as_markdown() -> None:
    made = whole().markdown()
    for part in (
        "**subject to**\n\n`cost.row` [OEF, eq. (9c)]: all rates are as high (work/s)\n\n$$\n",
        "\n" r"\text{rate}_{e} \ge \text{level} \qquad \forall e \in E" "\n$$",
        "| symbol | meaning | unit |\n|---|---|---|\n",
        "\n| $x_{e}$ | GPUs of a tenant | GPUs |\n",
    ):
        assert part in made


def test_gains_are_added_up() -> None:
    names = ("a", "b", "c")
    gains = {name: Mathematics(gains=(Statement("gain", f),)) for name, f in zip(names, ("1", "2", "-3"), strict=True)}
    made = Mathematics.joined("", gains)
    lines = [line.strip() for line in made.text().split("\n")]
    assert lines == ["maximise", "a.gain: 1", "b.gain: + 2", "c.gain: −3"]
    assert made.latex().count("+ ") == made.markdown().count("+ ") == 1


def test_long_formulas_are_wrapped_before_signs() -> None:
    terms = " + ".join(f"a{i} * (b{i} + 1)" for i in range(8))
    symbols = tuple(Symbol(f"{letter}{i}", "a number whose meaning is long") for i in range(8) for letter in "ab")
    lines = (
        Mathematics("long", rows=(Statement("row", f"{terms} <= 1", "", "X", "less"),), symbols=symbols)
        .text(40)
        .split("\n")
    )
    assert max(map(len, lines)) <= 40
    assert lines[:5] == [
        "long",
        "rows",
        "  row [X]: less",
        "      a0·(b0 + 1) + a1·(b1 + 1)",
        "          + a2·(b2 + 1) + a3·(b3 + 1)",
    ]


def test_one_line_for_pyomo() -> None:
    assert COST.rows[0].doc == "[OEF, eq. (9c)] rate[e] ≥ level    ∀ e ∈ E: all rates are as high (work/s)"
    assert Statement("row", "a <= 1").doc == "a ≤ 1"


def test_programs_are_read_from_text() -> None:
    made = Mathematics.read(
        """
        a program
        minimise with priority 2
          gain [P, eq. (1)] | total | work/s
            sum(rate[e] for e in E)
        subject to
          row | enough
            | work
            rate[e] >= level
            + 1
            for e in E if e > 0
        with
          x[e] as share [P, eq. (2)] | GPUs of a tenant | GPUs | x^{#1}
            x[e] >= 0 for e in E, else 0
          level | least rate
        where
          rate[e] | work
            rate[e] == (2 if x[e] > 1 else 1) * x[e] for e in E
        symbols
          E | tenants
            of all kinds
        """
    )
    assert made == Mathematics(
        "a program",
        (Statement("gain", "sum(rate[e] for e in E)", "", "P, eq. (1)", "total", "work/s", 2),),
        (Statement("row", "rate[e] >= level + 1", "for e in E if e > 0", "", "enough", "work"),),
        (
            Variable(
                "x",
                "GPUs of a tenant",
                "GPUs",
                "e",
                "x^{#1}",
                "x[e] >= 0",
                "for e in E",
                "P, eq. (2)",
                "share",
                sparse=True,
            ),
            Variable("level", "least rate"),
        ),
        (Definition("rate", "work", "", "e", "", "rate[e] == (2 if x[e] > 1 else 1) * x[e]", "for e in E"),),
        (Symbol("E", "tenants of all kinds"),),
        "minimise",
    )
    accented = Mathematics.read("subject to\n  row\n    é[e] >= é[e] for e in E\nsymbols\n  E | a\n  é[e] | b").rows[0]
    assert (accented.formula, accented.over) == ("é[e] >= é[e]", "for e in E")
    for wrong in (
        "maximise\n  gain | a | b | c | d\n    1",
        "maximise\n  two names\n    1",
        "subject to\n  row\n    1 <=",
    ):
        with pytest.raises(InvalidFormulation, match="cannot be read"):
            Mathematics.read(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "maximize\n  gain | price\n    1",
        "Subject to\n  row | a\n    1 <= 2",
        "a title",
        "",
        "maximise\n  gain\n    1\nrows:\n  row",
        "symbols\n  E | set\nrows\n  r | enough\n    1 <= 2",
        "with\n  x | a\n    x >= 0\nwher\n  N | b\n    N == 2 * x",
        "maximise with priority 1\n  a\n    1\nminimise\n  b\n    1",
        "subject to\n  row\n    x[e] <= 1 for e in E, else 0\nsymbols\n  E | set\n  x[e] | part",
    ],
)
def test_what_a_program_cannot_say_is_refused(text: str) -> None:
    with pytest.raises(InvalidFormulation, match=r"section|cannot be read|not both|not a variable"):
        Mathematics.read(text)


def test_signs_of_latex_are_taken_out_of_words() -> None:
    made = Mathematics("100 % of a_b", rows=(Statement("x_y", "1 <= 2"),)).latex()
    assert r"\text{100 }\%\text{ of a}\_\text{b}" in made
    assert r"\text{x}\_\text{y}" in made


def test_symbols_are_merged_and_clashes_named() -> None:
    assert [symbol.name for symbol in whole().legend] == ["E", "rate", "x", "level", "v"]
    assert whole().variables[0].component == "share"
    assert whole().variables[1].component == "cost.level"
    other = Mathematics(
        rows=(Statement("row", "x[e] >= 0", "for e in E"),), symbols=(E, Symbol("x", "hours", "h", "e"))
    )
    with pytest.raises(InvalidFormulation) as problem:
        Mathematics.joined("clash", {"": SHARED, "total": TOTAL, "hours": other})
    assert str(problem.value) == (
        "'x' is 'hours' (x[e]) in 'hours', and 'GPUs of a tenant' (x[e]) in ''; one of them needs another name"
    )
    with pytest.raises(InvalidFormulation, match=r"'level' is 'least rate' .* in 'b', and .* in 'a'"):
        Mathematics.joined("two variables of one name", {"": SHARED, "a": COST, "b": COST})
    with pytest.raises(InvalidFormulation, match="some parts are maximised, others minimised"):
        Mathematics.joined("both", {"": SHARED, "total": TOTAL, "P3": P3})


def test_every_name_needs_a_symbol() -> None:
    with pytest.raises(InvalidFormulation, match=r"part: 'y\[e\] <= 1' uses 'y'; give its symbol"):
        Mathematics("part", rows=(Statement("row", "y[e] <= 1", "for e in E"),), symbols=(E,))
    with pytest.raises(InvalidFormulation, match=r"has 'x' with 2 subscripts; its symbol has 1: x\[e\]"):
        Mathematics("part", rows=(Statement("row", "x[e, e] <= 1", "for e in E"),), symbols=(E, X.symbol))
    with pytest.raises(InvalidFormulation, match=r"has 'U' with 1 subscripts; its symbol has 2: U\(j, t\)"):
        Mathematics("part", rows=(Statement("row", "U(1) <= 1"),), symbols=(Symbol("U", "utility", index="(j, t)"),))


def test_docs_are_written_and_gaps_named() -> None:
    def model() -> Any:
        made = pyo.ConcreteModel()
        made.share = pyo.Var(["a"])
        made.rate = pyo.Expression(["a"], rule=lambda m, e: 2 * m.share[e])
        made.cost, made.total = pyo.Block(), pyo.Block()
        made.cost.level = pyo.Var()
        made.cost.row = pyo.Constraint(["a"], rule=lambda b, e: made.rate[e] >= b.level)
        made.total.gain, made.cost.gain = pyo.Expression(expr=made.rate["a"]), pyo.Expression(expr=-made.share["a"])
        return made

    first = model()
    described(first, whole())
    assert first.cost.row.doc == whole().rows[0].doc
    assert first.share.doc == "x[e] ≥ 0    ∀ e ∈ E: GPUs of a tenant (GPUs)"
    described(first.cost, COST)
    second = model()
    del second.cost.row
    with pytest.raises(InvalidFormulation, match=r"a program: the model has no component 'cost.row'"):
        described(second, whole())
    third = model()
    third.cost.more = pyo.Constraint(expr=third.share["a"] <= 1)
    with pytest.raises(InvalidFormulation, match=r"'cost.more' has neither a statement nor a doc"):
        described(third, whole())
    third.cost.more.doc = "the user's own"
    described(third, whole())


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_shown_in_every_way(name: str) -> None:
    """Within the width, with all equations, and as LaTeX that the pages can show."""
    made = PROGRAMS[name]
    for width in (80, 100, 120):
        assert max(map(len, made.text(width).split("\n"))) <= width
    for statement in made.statements:
        assert statement.source in made.text()
        assert statement.source in made.latex()
        assert statement.source in made.markdown()
        assert statement.meaning
    assert made.latex().count("{") == made.latex().count("}")


# --- Hadar ------------------------------------------------------------------------------------------------------------


def cells_of(problem: OfflineProblem) -> dict[tuple[str, str], int]:
    return dict(zip(problem.cells, problem.capacity.tolist(), strict=True))


def slot_data(problem: OfflineProblem) -> dict[str, Any]:
    """The numbers of P1, by plain loops."""
    every = [j for j in range(len(problem.demand)) if problem.first[j] < problem.slots]
    gpu_type = {r: k for (_, r), k in zip(problem.cells, problem.gpu_type.tolist(), strict=True)}
    speed = {(problem.name(j), r): float(problem.speed[j, k]) for j in every for r, k in gpu_type.items()}
    jobs = [problem.name(j) for j in every]
    levels = {j: sorted({v for (i, _), v in speed.items() if i == j and v > 0}, reverse=True) for j in jobs}
    slots = {problem.name(j): range(int(problem.first[j]), problem.slots) for j in every}
    limits = {
        (problem.name(j), t): slot_limits(problem, j, n) for j in every for n, t in enumerate(slots[problem.name(j)], 1)
    }
    return {
        "J": jobs,
        "T": range(problem.slots),
        "C": problem.cells,
        "c": cells_of(problem),
        "U": {(problem.name(j), t): float(problem.value[j, t]) for j in every for t in range(problem.slots)},
        "slots": slots,
        "cells": {j: [(h, r) for h, r in problem.cells if speed[j, r]] for j in jobs},
        "W": {problem.name(j): int(problem.demand[j]) for j in every},
        "X": speed,
        "speeds": {j: range(len(levels[j])) for j in jobs},
        "v": {(j, i): v for j in jobs for i, v in enumerate(levels[j])},
        "limits": {at: range(len(own)) for at, own in limits.items()},
        "p": {
            (*at, i, v): p for at, own in limits.items() for i, (row, _) in enumerate(own) for v, p in enumerate(row)
        },
        "q": {(*at, i): q for at, own in limits.items() for i, (_, q) in enumerate(own)},
    }


@given(mixed_instances(jobs=(1, 3), memory=True), st.integers(1, 4), st.booleans(), SEEDS)
def test_p1_is_what_is_solved(instance: Instance, slots: int, admission: bool, seed: int) -> None:
    problem = OfflineProblem.of(instance, slots, 1.0)
    assume(admission or problem.first.max() < slots)
    assume(problem.first.min() < slots)
    program = hadar.TimeIndexed(admission=admission)
    model = program.build(problem)
    assert model.mathematics is program.mathematics
    check_stated(model, model.mathematics, slot_data(problem), seed)


def schedule_data(problem: OfflineProblem, every: list[JobSchedule]) -> dict[str, Any]:
    """The numbers of P2 and P3."""
    pairs = [(problem.name(schedule.job), s) for s, schedule in enumerate(every)]
    w = Elsewhere({(j, *problem.cells[c], t, s): n for j, s in pairs for t, c, n in every[s].gpus})
    return {
        "J": sorted({j for j, _ in pairs}),
        "S": {j: [s for i, s in pairs if i == j] for j, _ in pairs},
        "T": range(problem.slots),
        "C": problem.cells,
        "c": cells_of(problem),
        "w": w,
        "used": {(h, r, t) for _, h, r, t, _ in w},
        "f": {(j, s): max(t for t, _, _ in every[s].gpus) for j, s in pairs},
        "U": {
            (job.name, t): problem.value[i, t]
            for i, job in enumerate(problem.instance.jobs)
            for t in range(problem.slots)
        },
    }


@given(mixed_instances(jobs=(1, 3)), st.integers(1, 3), st.booleans(), SEEDS)
def test_p2_and_p3_are_what_is_solved(instance: Instance, slots: int, whole: bool, seed: int) -> None:
    problem = OfflineProblem.of(instance, slots, 1.0)
    every = [priced.schedule for j in range(len(instance.jobs)) for priced in schedules(problem, j)]
    some = [every[i] for i in np.random.default_rng(seed).permutation(len(every))[:25].tolist()]
    assume(some)
    for model in (hadar.schedule_model(problem, some, whole=whole), hadar.dual_model(problem, some)):
        check_stated(model, model.mathematics, schedule_data(problem, some), seed)


@given(rounds(), SEEDS)
def test_one_offer_is_what_is_solved(case: Round, seed: int) -> None:
    market, (bid,) = case
    servers, types = range(len(market.free)), range(len(market.free[0]))
    gamma = {(h, r): int(market.used[h, r]) for h in servers for r in types}
    capacity = {(h, r): int(market.prices.capacity[h, r]) for h in servers for r in types}
    free = [at for at in capacity if gamma[at] < capacity[at]]
    data = {
        "V": range(len(bid.levels)),
        "H": servers,
        "R": types,
        "U": [level.value for level in bid.levels],
        "T": [level.slots for level in bid.levels],
        "k": {(h, r): market.price[h][r] for h in servers for r in types},
        "W": bid.gpus,
        "gamma": gamma,
        "c": capacity,
        "b": bid.charges,
        "C": free,
        "cells": [[(h, r) for h, r in free if r in level.types] for level in bid.levels],
    }
    check_stated(offer_model(market, bid), OFFER, data, seed)


# --- A-SRPT -----------------------------------------------------------------------------------------------------------


@st.composite
def placings(draw: st.DrawFn) -> tuple[Pipeline, Servers]:
    """Also on servers whose links are slower than their network cards."""
    pipeline = Pipeline.of(draw(staged_jobs(slices=True, tokens=True)))
    fast, alike = draw(st.booleans()), draw(st.booleans())
    servers = draw(servers_for(pipeline.gpus + draw(st.integers(0, 3)), most=3, alike=alike, fast_inside=fast))
    return pipeline, servers


def stage_data(pipeline: Pipeline, first: int) -> dict[str, Any]:
    """The numbers of a job's stages, which count from ``first``."""
    k, d = pipeline.replicas.tolist(), pipeline.outputs.tolist()
    links = {(first + s, first + s + 1): 2 * d[s] / k[s + 1] for s in range(len(k) - 1)}

    def by_stage(numbers: Any) -> dict[int, Any]:
        return dict(enumerate(numbers.tolist(), first))

    return {
        "S": range(first, first + len(k)),
        "k": by_stage(pipeline.replicas),
        "t": by_stage(pipeline.slices),
        "l": Elsewhere(links | {(r, s): size for (s, r), size in links.items()}),
        "e": by_stage(pipeline.tokens),
        "h": by_stage(pipeline.parameters),
        "a": by_stage(pipeline.reduced),
    }


@given(placings(), st.sampled_from([Asynchronous(), Asynchronous(0.5, 0.25)]), SEEDS)
def test_minimum_alpha_is_what_is_solved(case: tuple[Pipeline, Servers], timing: Asynchronous, seed: int) -> None:
    pipeline, servers = case
    try:
        model = MinimumAlpha(start=HeavyEdge(), timing=timing).build(pipeline, servers)
    except InvalidInstance:
        assume(False)
    costs, unit, longest = PlacementCosts(pipeline, servers, timing), pyo.value(model.unit), model.z.ub
    assert model.z.lb <= costs.bound / unit * (1 + PROVEN) + PROVEN
    assert longest == pytest.approx(1, rel=PROVEN)
    data = stage_data(pipeline, 1)
    stages, machines, most = data["S"], range(len(servers)), data["k"]
    best = {m: costs.best(*costs.equal_key(m)) for m in machines}
    base = {
        (s, m, c): costs.by_kind[costs.kind[m]].base[s - 1, c]
        for s in stages
        for m in machines
        for c in range(1, most[s] + 1)
    }
    save = {
        (s, r, m): costs.by_kind[costs.kind[m]].saving[s - 1, r - 1] for s in stages for r in stages for m in machines
    }
    counts = {
        (s, m): [c for c in range(1, most[s] + 1) if best[m][s - 1, c] <= unit * (1 + PROVEN)]
        for s in stages
        for m in machines
    }
    worst = {(s, m): sum(max(0, -save[s, r, m]) * most[r] for r in stages if r != s) for s in stages for m in machines}
    like = {m: (servers.nic[m], servers.intra[m], servers.free[m]) for m in machines}
    groups = [[m for m in machines if like[m] == kind] for kind in set(like.values())]
    data |= {
        "M": machines,
        "g": servers.free.tolist(),
        "b": servers.nic.tolist(),
        "B": servers.intra.tolist(),
        "pf": dict(enumerate(pipeline.forward.tolist(), 1)),
        "pb": dict(enumerate(pipeline.backward.tolist(), 1)),
        "q": dict(enumerate(pipeline.slice_bytes.tolist(), 1)),
        "theta_b": timing.backward,
        "theta_r": timing.reduce,
        "u": unit,
        "least": model.z.lb,
        "longest": longest,
        "base": base,
        "save": save,
        "counts": counts,
        "slow": {
            at: [c for c in own if base[*at, c] + worst[at] > (1 + PROVEN) * longest * unit]
            for at, own in counts.items()
        },
        "top": max(stages, key=lambda s: most[s]),
        "pairs": [pair for group in groups for pair in pairwise(group)],
    }
    check_stated(model, MATHEMATICS, data, seed)


@given(placings(), st.sampled_from(AllReduce), SEEDS)
def test_minimum_cut_is_what_is_solved(case: tuple[Pipeline, Servers], allreduce: AllReduce, seed: int) -> None:
    pipeline, servers = case
    program = MinimumCut(allreduce=allreduce)
    try:
        model = program.build(pipeline, servers)
    except InvalidInstance:
        assume(False)
    data = stage_data(pipeline, 0)
    most, slices = data["k"], data["t"]
    nodes, states = set(), {(g, 0, 0) for g in set(servers.free.tolist())}
    for s in data["S"]:
        nodes |= {(g, s, u, b) for g, u, b in states}
        states = {(g, u + c * slices[s], c) for g, u, _ in states for c in range(most[s] + 1) if u + c * slices[s] <= g}
    splits = {
        s: {"+".join(map(str, sizes)): (sizes, cut) for sizes, (cut, _) in least_cuts(k, allreduce).items()}
        for s, k in most.items()
    }
    data |= {
        "K": max(most.values()),
        "n": Counter(servers.free.tolist()),
        "nodes": sorted(nodes),
        "unit": pyo.value(model.unit),
        "P": {s: list(own) for s, own in splits.items()},
        "parts": {
            (s, p, c): sizes.count(c) for s, own in splits.items() for p, (sizes, _) in own.items() for c in range(9)
        },
        "cut": {(s, p): cut for s, own in splits.items() for p, (_, cut) in own.items()},
    }
    assert model.mathematics is program.mathematics
    check_stated(model, program.mathematics, data, seed)
