"""Sections 4.2.3 and 4.2.4: weights as copies of tenants, and users with several job types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from math import lcm
from operator import attrgetter

from hetopt.data.instance import Instance
from hetopt.data.rationals import number_text
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import FindingPicture, shares_picture
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import CaseNumbers, Hypothesis, Space, TableShape, integers, rationals
from hetopt.proofs.oef.envy_and_sharing import WEIGHTED, ZEROS, least_surplus, most_envy
from hetopt.proofs.oef.proof_algebra import COPIES, JOB_TYPES, SHARING
from hetopt.proofs.oef.tenant_cases import (
    GPUS,
    OPTIMAL,
    UNIQUE,
    Optimum,
    TenantCase,
    about,
    positive,
    relative,
    rising,
    tenant_space,
)

F = Fraction
COPIED = tenant_space(speeds=ZEROS, weights=rationals(1, 2, 2), n=(1, 3), k=(1, 3))


def copies(case: TenantCase) -> tuple[TenantCase, int]:
    """Copies of each tenant, in number its weight scaled to an integer; and the scale factor."""
    factor = lcm(*(w.denominator for w in case.weights))
    rows = [row for row, w in zip(case.speed, case.weights, strict=True) for _ in range(int(w * factor))]
    return TenantCase(tuple(rows), case.gpus), factor


def same_total(case: TenantCase) -> Finding:
    """Whether cooperative OEF has the same total with weights and with copies."""
    return _compare("total", case.cooperative.total, copies(case)[0].cooperative.total)


def same_level(case: TenantCase) -> Finding:
    """Whether non-cooperative OEF has the same level with weights and with copies."""
    many, factor = copies(case)
    return _compare("level", case.level, many.level * factor)


def _compare(quantity: str, weighted: Fraction, copied: Fraction) -> Finding:
    words = f"{quantity} {number_text(weighted)} with weights, {number_text(copied)} with copies"
    return Finding(-abs(weighted - copied), words, (OPTIMAL,))


def twice_as_much(case: TenantCase, found: Optimum) -> Finding:
    """Whether a tenant with twice the weight of another has twice its rate."""
    rates, weights = case.rates(found.share), case.weights
    pairs = [(a, b) for a in range(case.n) for b in range(case.n) if weights[a] == 2 * weights[b]]
    off, a, b = max(((abs(rates[a] - 2 * rates[b]), a, b) for a, b in pairs), default=(F(0), 0, 0))
    words = ", ".join(f"u{e + 1} of weight {number_text(weights[e])} has {number_text(rates[e])}" for e in (a, b))
    return Finding(-off, words, (OPTIMAL, UNIQUE), (case.picture("optimum", found.share),), found.unique)


@dataclass(frozen=True)
class MultiTypeCase:
    """Users of which u1 has several job types.

    Attributes
    ----------
    pairs:
        A tenant per user and job type; first those of u1, each with an equal part of its weight.
    types:
        Number of job types of u1.
    """

    pairs: TenantCase
    types: int

    @property
    def instance(self) -> Instance:
        """The instance with a tenant per job type."""
        return self.pairs.instance

    def shares_weight(self) -> bool:
        """Whether the types of u1 share the weight 1, and every other user has it."""
        own, others = self.pairs.weights[: self.types], self.pairs.weights[self.types :]
        return self.types > 1 and set(own) == {F(1, self.types)} and set(others) <= {F(1)}

    def bundles(self, found: Optimum) -> list[tuple[Fraction, ...]]:
        """The GPUs of each user."""
        own = tuple(sum(column, F(0)) for column in zip(*found.share[: self.types], strict=True))
        return [own, *found.share[self.types :]]

    def reused(self, gpus: Sequence[Fraction]) -> Fraction:
        """Rate of u1 with GPUs if each runs the job type that is fastest on it."""
        best = [max(column) for column in zip(*self.pairs.speed[: self.types], strict=True)]
        return sum((w * x for w, x in zip(best, gpus, strict=True)), F(0))

    def split(self, gpus: Sequence[Fraction]) -> Fraction:
        """Rate of u1 with GPUs if each type is split evenly among its job types."""
        return sum((self.pairs.worth(t, gpus) for t in range(self.types)), F(0)) / self.types

    def own_worth(self, found: Optimum, *, reuse: bool) -> Fraction:
        """Rate of u1 with its GPUs, with ``reuse`` on the job types that are fastest on them."""
        return self.reused(self.bundles(found)[0]) if reuse else sum(self.pairs.rates(found.share)[: self.types], F(0))


def multi_type_space() -> Space[MultiTypeCase]:
    """u1 with two or three job types, and one to three other users with one."""

    def build(numbers: CaseNumbers) -> MultiTypeCase:
        own, others = numbers["own"], numbers["others"]
        weight = (F(1, len(own)),) * len(own) + (F(1),) * len(others)
        rows = tuple((F(1), *row) for row in (*own, *others))
        return MultiTypeCase(TenantCase(rows, numbers.row("gpus"), weight), len(own))

    tables = {
        "own": TableShape("types", "k-1", integers(1, 8)),
        "others": TableShape("n", "k-1", integers(1, 8)),
        "gpus": TableShape(1, "k", GPUS),
    }
    shares = "$u_1$ has several job types, which share its weight 1 equally; other users have one, of weight 1"
    given = (*about(attrgetter("pairs"), relative, positive), Hypothesis(shares, MultiTypeCase.shares_weight))
    return Space({"types": (2, 3), "n": (1, 3), "k": (2, 3)}, tables, build, hypotheses=given)


def envy_of_users(case: MultiTypeCase, *, reuse: bool) -> Finding:
    """Whether no user prefers the GPUs of another user."""
    found = case.pairs.cooperative
    gpus = case.bundles(found)
    worth_to_first, mine = case.reused if reuse else case.split, case.own_worth(found, reuse=reuse)
    slacks = []
    for i, o in permutations(range(len(gpus)), 2):
        if i == 0:
            more = worth_to_first(gpus[o]) - mine
        else:
            e = case.types + i - 1
            more = case.pairs.worth(e, gpus[o]) - case.pairs.worth(e, gpus[i])
        slacks.append((-more, f"u{i + 1} would gain {number_text(more)} from the GPUs of u{o + 1}"))
    slack, words = min(slacks)
    return Finding(slack, words if slack < 0 else "no envy", (OPTIMAL, UNIQUE), _picture(case, found), found.unique)


def surplus_of_users(case: MultiTypeCase, *, reuse: bool) -> Finding:
    """Whether u1 has at least the rate of its part of the cluster."""
    found = case.pairs.cooperative
    mine, users = case.own_worth(found, reuse=reuse), case.pairs.n - case.types + 1
    fair = [m / users for m in case.pairs.gpus]
    slack = mine - (case.reused(fair) if reuse else case.split(fair))
    more = "less" if slack < 0 else "more"
    words = f"u1 has {number_text(mine)}, {number_text(abs(slack))} {more} than with its part of all GPUs"
    return Finding(slack, words, (OPTIMAL, UNIQUE), _picture(case, found), found.unique)


def _picture(case: MultiTypeCase, found: Optimum) -> tuple[FindingPicture, ...]:
    names = [f"u1, type {t + 1}" for t in range(case.types)]
    names += [f"u{i + 2}" for i in range(case.pairs.n - case.types)]
    return (shares_picture("optimum", found.share, case.pairs.gpus, case.pairs.rates(found.share), names),)


SPLIT = r"""
Let $A$ have $q$ job types $t$ of weight $\pi_A / q$ each, and $B$ have $p$ job types $i$ of weight $\pi_B / p$
each. Envy-freeness is $w_t x_t \ge \frac{\pi_A p}{q \pi_B} w_t x_i$; summed over the $p$ types of $B$ and divided
by $p$ it is $w_t x_t \ge \frac{\pi_A}{\pi_B} w_t \frac{X_B}{q}$ with $X_B = \sum_i x_i$; summed over the types of
$A$: the GPUs of $A$ are worth at least $\pi_A / \pi_B$ times the even split of the GPUs of $B$ to it. Summed over all
$B$ with weight $\pi_B$ (and $A$ itself) it is the sharing incentive."""

TWICE = (
    r"Specifically, if $\pi_2 = 2$ and $\pi_1 = 1$, it implies that the second user $u_2$ should receive an "
    "allocation resulting in twice the total training throughput compared to the first user $u_1$."
)

CLAIMS = (
    Claim(
        key="oef/weights-cooperative",
        place="section 4.2.3",
        statement=r"Cooperative OEF with weights, $\pi_i w_l x_l \ge \pi_l w_l x_i$, has the same total as with "
        r"$\pi_l$ copies of every user $l$; weights may be rational.",
        quote="The key concept involves replicating the speedup vector multiple times for users with higher weights.",
        procedure=ForAll(COPIED, same_total),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-cooperative",),
        proof=r"""
Scale the weights to integers. Given an allocation with weights, let every copy of $u_l$ have $x_l / \pi_l$: copies of
the same user have the same, and $w_l x_l / \pi_l \ge w_l x_i / \pi_i$ is the weighted row. Given an allocation with
copies, let $u_l$ have the sum over its copies: summing the rows of all pairs of copies of $u_l$ and $u_i$ gives
$\pi_i w_l x_l \ge \pi_l w_l x_i$. Both maps preserve the total and the GPUs in use.""",
        mechanical=COPIES,
    ),
    Claim(
        key="oef/weights-noncooperative",
        place="section 4.2.3",
        statement=r"Non-cooperative OEF with weights, $w_l x_l / \pi_l$ equal, has the same level as with $\pi_l$ "
        r"copies of every user $l$.",
        quote="However, conventional solutions that directly incorporate user weights into optimization problems "
        "are unable to handle such cases.",
        procedure=ForAll(COPIED, same_level),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-noncooperative",),
        proof=r"""
Copies of $u_l$ with rate $t$ each have $\pi_l t$ together; conversely $x_l / \pi_l$ for every copy has rate
$w_l x_l / \pi_l = t$. Both maps preserve the GPUs in use.""",
    ),
    Claim(
        key="oef/weights-fair",
        place="section 4.2.3",
        statement="The fairness properties of Theorem 5.1 hold with weights: cooperative OEF is envy-free and gives "
        "the sharing incentive, both in proportion to the weights; this includes job types as virtual users.",
        quote="This replication approach employed by Weighted OEF ensures that all the fairness properties "
        "achieved by OEF are perfectly maintained.",
        procedure=ForAll(
            WEIGHTED,
            lambda c: min(
                (most_envy(c, c.cooperative), least_surplus(c, c.cooperative)), key=lambda finding: finding.slack
            ),
        ),
        expected=ClaimVerdict.TRUE,
        policies=("oef-cooperative",),
        proof="Theorem 5.1 with weights; a job type is a tenant with its part of the weight.",
        mechanical=SHARING,
    ),
    Claim(
        key="oef/weights-twice",
        place="section 4.2.3",
        statement="Under non-cooperative OEF a user of twice the weight has twice the throughput.",
        quote=TWICE,
        procedure=ForAll(WEIGHTED, lambda c: twice_as_much(c, c.noncooperative), all_optima=True),
        expected=ClaimVerdict.TRUE,
        policies=("oef-noncooperative",),
        proof=r"These are the rows of its program, $w_l x_l / \pi_l = t$.",
    ),
    Claim(
        key="oef/weights-twice-cooperative",
        place="section 4.2.3",
        statement="Under cooperative OEF a user of twice the weight has twice the throughput.",
        quote=TWICE,
        procedure=ForAll(
            tenant_space(rising, weights=integers(1, 2), n=(2, 3), k=(2, 3)), lambda c: twice_as_much(c, c.cooperative)
        ),
        expected=ClaimVerdict.FALSE,
        policies=("oef-cooperative",),
        instead="oef/weights-fair",
    ),
    Claim(
        key="oef/job-types-split-envy",
        place="section 4.2.4",
        statement="Users with several job types do not envy each other's GPUs if those are split evenly among the job "
        "types (cooperative OEF, every optimum).",
        procedure=ForAll(multi_type_space(), lambda c: envy_of_users(c, reuse=False), all_optima=True),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-cooperative",),
        proof=SPLIT,
        mechanical=JOB_TYPES,
    ),
    Claim(
        key="oef/job-types-split-sharing",
        place="section 4.2.4",
        statement="Users with several job types have at least the rate of their part of the cluster, split evenly "
        "among the job types (cooperative OEF, every optimum).",
        procedure=ForAll(multi_type_space(), lambda c: surplus_of_users(c, reuse=False), all_optima=True),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-cooperative",),
        proof=SPLIT,
        mechanical=JOB_TYPES,
    ),
    Claim(
        key="oef/job-types-reuse-envy",
        place="section 4.2.4",
        statement="Users with several job types do not envy each other's GPUs, each used for the job type that is "
        "fastest on it (cooperative OEF).",
        procedure=ForAll(multi_type_space(), lambda c: envy_of_users(c, reuse=True)),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("oef-cooperative",),
        instead="oef/job-types-split-envy",
    ),
    Claim(
        key="oef/job-types-reuse-sharing",
        place="section 4.2.4",
        statement="Users with several job types have at least the rate of their part of the cluster, every GPU "
        "used for the job type that is fastest on it (cooperative OEF).",
        procedure=ForAll(multi_type_space(), lambda c: surplus_of_users(c, reuse=True)),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("oef-cooperative",),
        instead="oef/job-types-split-sharing",
    ),
)
