"""FIND_ALLOC as an integer program: a readable statement, and the reference for the fast search."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from hetopt.models.hadar.market import Market
from hetopt.models.hadar.offers import Bid
from hetopt.programs.mathematics import Mathematics, described

OFFER = Mathematics.read(
    r"""
    Hadar, eq. 8: the GPUs that pay most for one job in one round
    maximise
      payoff [Hadar, eq. (8); Algorithm 2, lines 27 and 29]
        | utility less the price of the GPUs and the cost of communication | utility
        sum(U[l] * at[l] for l in V) - sum(T[l] * k[h, r] * w[l, h, r] for l in V for h, r in cells[l]) - talk
    subject to
      gang [Hadar, eq. (1e)] | the gang has all of its GPUs, at one speed | GPUs
        sum(w[l, h, r] for h, r in cells[l]) == W * at[l] for l in V
      one_speed | it has one speed
        sum(at[l] for l in V) == 1
      room [Hadar, eq. (8)] | no more GPUs are in use than there are | GPUs
        gamma[h, r] + sum(w[l, h, r] for l in V) <= c[h, r] for h, r in C
      here | servers with GPUs of the gang are known | GPUs
        sum(w[l, h, r] for l in V for r in R) <= W * on[h] for h in H
      one_server | a gang on several servers is spread | servers
        sum(on[h] for h in H) <= 1 + (len(H) - 1) * spread
      talks [Hadar, Algorithm 2, line 27]
        | a gang that is spread pays for communication at each of its servers | utility
        talk >= sum(b[h] * on[h] for h in H) - sum(b[h] for h in H) * (1 - spread)
    with
      w[l, h, r] [Hadar, eq. (1b)] | GPUs of type r on server h at speed l | GPUs
        w[l, h, r] in {0, 1, ...} for l in V for h, r in cells[l], else 0
      at[l] | whether the gang runs at its speed l
        at[l] in {0, 1} for l in V
      on[h] | whether the gang has GPUs of server h
        on[h] in {0, 1} for h in H
      spread | whether it has GPUs of several servers
        spread in {0, 1}
      talk | cost of communication | utility
        talk >= 0
    symbols
      V | numbers of the speeds that the gang may have, the fastest is 0
      H | servers
      R | GPU types
      U[l] | utility at speed l | utility | \mathcal{U}_{#1}
      T[l] | slots that the job pays for at speed l: until it is done, or one as printed | slots
      k[h, r] | price of a GPU of type r on server h | utility/(GPU slot) | k_{#1}^{#2}
      W | GPUs of the gang | GPUs
      gamma[h, r] | GPUs of type r in use on server h | GPUs | \gamma_{#1}^{#2}
      c[h, r] | GPUs of type r on server h | GPUs | c_{#1}^{#2}
      b[h] | cost of communication at server h | utility
      C | cells (h, r): server h has free GPUs of type r
      cells[l] | cells of C whose type is no slower than speed l |  | C_{#1}
    """
)


def offer() -> Mathematics:
    """The GPUs that pay most for one job in one round, [Hadar, eq. 8]."""
    return OFFER


def offer_model(market: Market, bid: Bid) -> Any:
    """[Hadar, eq. 8] for one job and one round; ``print(OFFER)`` shows it.

    Speeds, servers and GPU types count from 0. The option to keep the current GPUs, which saves the restart, is not
    modelled.
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
    described(model, OFFER)
    return model
