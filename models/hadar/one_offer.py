"""FIND_ALLOC as an integer program: the one to read, and what the quick search is checked against."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from hetopt.models.hadar.market import Market
from hetopt.models.hadar.offers import Bid


def offer_model(market: Market, bid: Bid) -> Any:
    """[Hadar, eq. 8] for one job and one round, with the cost of communication of [Hadar, Algorithm 2, line 27].

    Whole w[l, h, k] GPUs at the l-th speed, binary at[l], on[h] and spread; U_l, T_l the utility and the slots at that
    speed, b_h what talking costs ::

        maximise  sum_l U_l at[l] - sum_l,h,k T_l price[h, k] w[l, h, k] - talk   subject to
        sum_h,k w[l, h, k] = W at[l],   w[l, h, k] = 0 where k is slower than l,   sum_l at[l] = 1
        sum_l w[l, h, k] <= free[h, k],   sum_l,k w[l, h, k] <= W on[h]
        sum_h on[h] <= 1 + (H - 1) spread
        talk >= sum_h b_h on[h] - (sum_h b_h) (1 - spread),   talk >= 0

    Staying where it is, which saves the restart, is not in it.
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
    return model
