"""Adversaries of the claims of OEF."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hetopt.proofs.adversaries.oef_lending import envy_of_waiting, loss, one_type_gain, split_surplus, surplus
from hetopt.proofs.adversaries.oef_optima import (
    Choice,
    Negation,
    all_gain,
    below_part,
    dominated,
    envy,
    envy_free,
    envy_of_users,
    envy_with_price,
    equal_budgets_between,
    equal_rates,
    equal_split_after_reports,
    equal_split_envy,
    equal_split_surplus,
    every_optimum,
    fewest_single,
    fewest_spare,
    gain_by_false_type,
    gain_by_trades,
    gap,
    gavel,
    gavel_without_row,
    idle,
    in_every_equilibrium,
    largest_mean,
    largest_sums,
    level_of_copies,
    not_twice,
    off_its_part,
    order_of_totals,
    policy_total,
    sharing,
    skips,
    sorted_shares,
    surplus_of_users,
    total_of_copies,
    under_reports,
    values_all_less,
)
from hetopt.proofs.adversaries.oef_rules import (
    GANG_ROUNDS,
    earliest_deadlines,
    gandiva_exchange,
    gandiva_surplus,
    nearest_gangs,
    rounded_deviation,
)
from hetopt.proofs.ledger.attack import Adversary

PRICES = "shares and prices of every optimum in one system, decided by z3 in fractions"
POLICY = "the library's policy in floats, compared with the exact optimum by z3"
EQUAL_SPLIT = "the library's policy, in floats"
HIGHS = "a second formulation, solved by HiGHS"
TRADES = "trades simulated in fractions, for every order of the types and both tie-breaks"
LENDING = "the library's policies, and lending by the times at which types run out"
OWN_ROW = "its conclusion is a row of the program, and of this formulation, too"


def exact(method: str, slack: Callable[[Any], Any], blind: str = "") -> Adversary:
    """An adversary without tolerance."""
    return Adversary(method, slack, blind, 0.0)


def by_prices(program: Choice, *negations: Negation, blind: str = "") -> Adversary:
    """An adversary that attacks every optimum of a program."""
    return exact(PRICES, every_optimum(program, *negations), blind)


ADVERSARIES: dict[str, Adversary] = {
    "oef/table-1-gavel-sharing": by_prices(gavel, below_part),
    "oef/gavel-without-row": by_prices(gavel_without_row, below_part),
    "oef/table-1-gandiva-sharing": exact(TRADES, gandiva_surplus),
    "oef/table-1-cooperative-envy": by_prices(envy_free, envy, blind=OWN_ROW),
    "oef/table-1-cooperative-sharing": by_prices(envy_free, below_part),
    "oef/table-1-noncooperative-pareto": by_prices(equal_rates, dominated),
    "oef/table-1-noncooperative-lies": exact(PRICES, all_gain),
    "oef/gandiva-two-types": exact("trades simulated in fractions, and exchanges of two types", gandiva_exchange),
    "oef/lemma-3.1-ratio": by_prices(equal_rates, skips),
    "oef/lemma-3.1-cooperative-two": by_prices(envy_free, skips),
    "oef/lemma-3.1-cooperative-three": by_prices(envy_free, skips),
    "oef/lemma-3.1-cooperative-two-types": by_prices(envy_free, skips),
    "oef/lemma-3.1-sharing-ratio": by_prices(sharing, skips, gap),
    "oef/thm-5.2-ratio": by_prices(equal_rates, gap),
    "oef/thm-5.2-sorted": by_prices(sorted_shares, gap),
    "oef/thm-5.2-cooperative-two": by_prices(envy_free, gap),
    "oef/thm-5.4-over": exact(PRICES, all_gain),
    "oef/thm-5.4-first-type": exact(PRICES, all_gain),
    "oef/thm-5.4-trades": exact(PRICES, gain_by_trades),
    "oef/thm-5.4-weighted-mean": exact(f"{PRICES}, at both ends of the range of prices", largest_mean),
    "oef/thm-5.4-under": exact(PRICES, under_reports, "under-reports other than by the part 2^-40 of one speedup"),
    "oef/false-types-over": exact(PRICES, gain_by_false_type),
    "oef/eq-7-corrected": by_prices(envy_free, values_all_less),
    "oef/eq-8-corrected": by_prices(sharing, off_its_part),
    "oef/thm-5.1-envy": by_prices(envy_free, envy, blind=OWN_ROW),
    "oef/thm-5.1-sharing": by_prices(envy_free, below_part),
    "oef/thm-5.1-all-used": by_prices(envy_free, idle),
    "oef/thm-5.1-optimal-envy-free": Adversary(POLICY, policy_total, "differences within 1e-6 of the total"),
    "oef/totals": exact(PRICES, order_of_totals),
    "oef/totals-equal-budgets": exact("the equilibrium by its conditions, decided by z3", equal_budgets_between),
    "oef/thm-5.3-positive": by_prices(equal_rates, dominated),
    "oef/thm-5.3-cooperative-two": by_prices(envy_free, dominated),
    "oef/thm-5.3-cooperative-three": by_prices(envy_free, dominated),
    "oef/equal-split-envy": Adversary(EQUAL_SPLIT, equal_split_envy),
    "oef/equal-split-sharing": Adversary(EQUAL_SPLIT, equal_split_surplus),
    "oef/equal-split-reports": Adversary(EQUAL_SPLIT, equal_split_after_reports),
    "oef/ceei-envy": exact("every equilibrium of the market, by z3", in_every_equilibrium(envy)),
    "oef/ceei-sharing": exact("every equilibrium of the market, by z3", in_every_equilibrium(below_part)),
    "oef/ceei-pareto": exact("every equilibrium of the market, by z3", in_every_equilibrium(dominated)),
    "oef/largest-total-pareto": exact(PRICES, largest_sums, "weights and given rates other than three of each"),
    "oef/sharing-only-sharing": by_prices(sharing, below_part, blind=OWN_ROW),
    "oef/weights-cooperative": Adversary(HIGHS, total_of_copies, "differences within 1e-6 of the total"),
    "oef/weights-noncooperative": exact(PRICES, level_of_copies),
    "oef/weights-fair": by_prices(envy_free, envy, below_part),
    "oef/weights-twice": by_prices(equal_rates, not_twice, blind=OWN_ROW),
    "oef/job-types-split-envy": exact(PRICES, envy_of_users),
    "oef/job-types-split-sharing": exact(PRICES, surplus_of_users),
    "oef/nonzeros-vertex": exact(
        "vertices by random second objectives, by z3", fewest_spare, "vertices that three random objectives miss"
    ),
    "oef/one-type-vertex": exact(
        "vertices by random second objectives, by z3", fewest_single, "vertices that three random objectives miss"
    ),
    "oef/rounding-deviation": exact("all reachable deviations, with halves either way", rounded_deviation),
    "oef/rounding-deadlines": exact("all tie-breaks over a full period of the schedule", earliest_deadlines),
    "oef/rounding-gangs": exact(
        "simulation in fractions for other shares",
        nearest_gangs,
        f"shares other than two random means, more than {GANG_ROUNDS} rounds",
    ),
    "oef/switching-envy": exact(PRICES, envy_with_price, OWN_ROW),
    "oef/lending-own": Adversary(LENDING, loss),
    "oef/lending-sharing": Adversary(LENDING, surplus, "users whose demand is their share"),
    "oef/lending-sharing-equal-split": exact("lending by the times at which types run out", split_surplus),
    "oef/lending-envy-waiting": Adversary(LENDING, envy_of_waiting, "users that nearly do not wait"),
    "oef/lending-more-jobs-one-type": exact("the common number of borrowed GPUs, by sorting", one_type_gain),
}
