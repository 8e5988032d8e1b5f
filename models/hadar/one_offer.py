"""FIND_ALLOC as an integer program: the one to read, and what the quick search is checked against."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from hetopt.models.hadar.market import Market
from hetopt.models.hadar.offers import Bid
from hetopt.programs.mathematics import Mathematics, Statement, Symbol, Variable, described

OFFER = Mathematics(
    "Hadar, eq. 8: the GPUs that pay most for one job in one round",
    gains=(
        Statement(
            "payoff",
            "sum(U[l] * at[l] for l in V) - sum(T[l] * k[h, r] * w[l, h, r] for l in V for h, r in cells[l]) - talk",
            source="Hadar, eq. (8); Algorithm 2, lines 27 and 29",
            meaning="utility less the price of the GPUs and the cost of communication",
            unit="utility",
        ),
    ),
    rows=(
        Statement(
            "gang",
            "sum(w[l, h, r] for h, r in cells[l]) == W * at[l]",
            "for l in V",
            "Hadar, eq. (1e)",
            "the gang has all of its GPUs, at one speed",
            "GPUs",
        ),
        Statement("one_speed", "sum(at[l] for l in V) == 1", meaning="it has one speed"),
        Statement(
            "room",
            "gamma[h, r] + sum(w[l, h, r] for l in V) <= c[h, r]",
            "for h, r in C",
            "Hadar, eq. (8)",
            "no more GPUs are in use than there are",
            "GPUs",
        ),
        Statement(
            "here",
            "sum(w[l, h, r] for l in V for r in R) <= W * on[h]",
            "for h in H",
            meaning="servers with GPUs of the gang are known",
            unit="GPUs",
        ),
        Statement(
            "one_server",
            "sum(on[h] for h in H) <= 1 + (len(H) - 1) * spread",
            meaning="a gang on several servers is spread",
            unit="servers",
        ),
        Statement(
            "talks",
            "talk >= sum(b[h] * on[h] for h in H) - sum(b[h] for h in H) * (1 - spread)",
            "",
            "Hadar, Algorithm 2, line 27",
            "a gang that is spread pays for communication at each of its servers",
            "utility",
        ),
    ),
    variables=(
        Variable(
            "w",
            "GPUs of type r on server h at speed l",
            "GPUs",
            "l, h, r",
            formula="w[l, h, r] in {0, 1, ...}",
            over="for l in V for h, r in cells[l]",
            source="Hadar, eq. (1b)",
            sparse=True,
        ),
        Variable("at", "whether the gang runs at its speed l", "", "l", formula="at[l] in {0, 1}", over="for l in V"),
        Variable("on", "whether the gang has GPUs of server h", "", "h", formula="on[h] in {0, 1}", over="for h in H"),
        Variable("spread", "whether it has GPUs of several servers", formula="spread in {0, 1}"),
        Variable("talk", "cost of communication", "utility", formula="talk >= 0"),
    ),
    symbols=(
        Symbol("V", "numbers of the speeds that the gang may have, the fastest is 0"),
        Symbol("H", "servers"),
        Symbol("R", "GPU types"),
        Symbol("U", "utility at speed l", "utility", "l", r"\mathcal{U}_{#1}"),
        Symbol("T", "slots that the job pays for at speed l: until it is done, or one as printed", "slots", "l"),
        Symbol("k", "price of a GPU of type r on server h", "utility/(GPU slot)", "h, r", "k_{#1}^{#2}"),
        Symbol("W", "GPUs of the gang", "GPUs"),
        Symbol("gamma", "GPUs of type r in use on server h", "GPUs", "h, r", r"\gamma_{#1}^{#2}"),
        Symbol("c", "GPUs of type r on server h", "GPUs", "h, r", "c_{#1}^{#2}"),
        Symbol("b", "cost of communication at server h", "utility", "h"),
        Symbol("C", "cells (h, r): server h has free GPUs of type r"),
        Symbol("cells", "cells of C whose type is no slower than speed l", index="l", latex="C_{#1}"),
    ),
)


def offer() -> Mathematics:
    """The GPUs that pay most for one job in one round, [Hadar, eq. 8]."""
    return OFFER


def offer_model(market: Market, bid: Bid) -> Any:
    """[Hadar, eq. 8] for one job and one round; ``print(OFFER)`` shows it.

    Speeds, servers and GPU types count from 0. Staying where it is, which saves the restart, is not in it.
    """
    model = pyo.ConcreteModel(name="Hadar eq. 8")
    servers, levels = range(len(market.free)), range(len(bid.levels))
    cells = [(v, h, k) for v in levels for h in servers for k in bid.levels[v].types if market.free[h][k]]
    model.w = pyo.Var(cells, domain=pyo.NonNegativeIntegers)
    model.at = pyo.Var(levels, domain=pyo.Binary)
    model.on = pyo.Var(servers, domain=pyo.Binary)
    model.spread = pyo.Var(domain=pyo.Binary)
    model.talk = pyo.Var(domain=pyo.NonNegativeReals)
    worth = sum(bid.levels[v].value * model.at[v] for v in levels)
    paid = sum(bid.levels[v].slots * market.price[h][k] * model.w[v, h, k] for v, h, k in cells)
    model.payoff = pyo.Objective(expr=worth - paid - model.talk, sense=pyo.maximize)
    model.gang = pyo.Constraint(
        levels,
        rule=lambda m, v: sum(m.w[cell] for cell in cells if cell[0] == v) - bid.gpus * m.at[v] == 0,
    )
    model.one_speed = pyo.Constraint(expr=sum(model.at[v] for v in levels) == 1)
    model.room = pyo.Constraint(
        sorted({(h, k) for _, h, k in cells}),
        rule=lambda m, h, k: sum(m.w[c] for c in cells if c[1:] == (h, k)) <= market.free[h][k],
    )
    model.here = pyo.Constraint(
        servers, rule=lambda m, h: sum(m.w[cell] for cell in cells if cell[1] == h) - bid.gpus * m.on[h] <= 0
    )
    everywhere = sum(model.on[h] for h in servers)
    model.one_server = pyo.Constraint(expr=everywhere <= 1 + (len(servers) - 1) * model.spread)
    talks = sum(bid.charges[h] * model.on[h] for h in servers)
    model.talks = pyo.Constraint(expr=model.talk >= talks - sum(bid.charges) * (1 - model.spread))
    object.__setattr__(model, "mathematics", OFFER)
    described(model, OFFER)
    return model
