"""Lending: tenants with finite demands borrow the GPUs that others leave idle; what it does to the guarantees.

No paper lends; the claims are about the setting ``lend`` of hetopt's systems for tenants. The model: a policy shares
GPUs without regard to demands. Each user puts its jobs on the fastest of its own GPUs, up to its demand. Then users
that still wait borrow idle GPUs in turns: the time average of turns of one small part of a GPU each, of the fastest
type that is idle, until nothing is idle or no user waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations
from operator import attrgetter

from hetopt.data.instance import Instance
from hetopt.data.rationals import change_text, number_text, numbers_text
from hetopt.data.workload import Job
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import CaseNumbers, Hypothesis, Space, TableShape, hypothesis, integers, rationals
from hetopt.proofs.oef.baseline_rules import AllocationRule, by_gandiva_fair, max_min
from hetopt.proofs.oef.misreport_cases import Reports, any_report, over
from hetopt.proofs.oef.tenant_cases import (
    GPUS,
    OPTIMAL,
    SPEEDS,
    UNIQUE,
    Share,
    TenantCase,
    about,
    case_of,
    positive,
    relative,
)
from hetopt.proofs.oef.textbook_rules import equal_split

F = Fraction
DEMANDS = integers(1, 6)

SHARING: Mapping[str, AllocationRule] = {
    "oef-cooperative": lambda case: case.cooperative,
    "gavel-max-min": max_min,
    "gandiva-fair": by_gandiva_fair,
    "equal-split": equal_split,
}
"""Policies that are sharing-incentive for users that always have work."""

ALL: Mapping[str, AllocationRule] = {**SHARING, "oef-noncooperative": lambda case: case.noncooperative}


@dataclass(frozen=True)
class LendingCase:
    """Users with finite demands.

    Attributes
    ----------
    tenants:
        The users with their speedups.
    demand:
        (n,) GPUs that the jobs of each user can use at once.
    by_job:
        Whether turns are of jobs instead of users: users that wait for more GPUs have more of them.
    """

    tenants: TenantCase
    demand: tuple[Fraction, ...]
    by_job: bool = False

    @property
    def instance(self) -> Instance:
        """Speedups relative to each user's slowest type, and a job of one GPU for each GPU of its demand."""
        speed = tuple(tuple(w / min(row) for w in row) for row in self.tenants.speed)
        made = replace(self.tenants, speed=speed).instance
        jobs = []
        for tenant, row, n in zip(made.tenants, speed, self.demand, strict=True):
            rates = dict(zip(made.cluster.type_names, map(float, row), strict=True))
            jobs += [Job(f"{tenant.name}-{i + 1}", rates, 1.0, tenant=tenant.name) for i in range(int(n))]
        return made.replace(jobs=tuple(jobs))

    def best(self, user: int, gpus: Sequence[Fraction]) -> tuple[Fraction, ...]:
        """The GPUs of ``gpus`` that the user's jobs use: the fastest, as many as its demand."""
        left, used, speed = self.demand[user], [F(0)] * len(gpus), self.tenants.speed[user]
        for j in sorted(range(len(gpus)), key=lambda j: -speed[j]):
            used[j] = min(left, gpus[j])
            left -= used[j]
        return tuple(used)

    def rate(self, user: int, gpus: Sequence[Fraction]) -> Fraction:
        """Rate of the user's jobs on these GPUs."""
        return self.tenants.worth(user, self.best(user, gpus))

    def own(self, share: Share) -> Share:
        """(n, k) GPUs of the users' shares that their jobs use."""
        return tuple(self.best(e, row) for e, row in enumerate(share))

    def lent(self, share: Share) -> Share:
        """(n, k) GPUs in use: own ones and borrowed ones."""
        used = [list(row) for row in self.own(share)]
        idle = [m - sum(column, F(0)) for m, column in zip(self.tenants.gpus, zip(*used, strict=True), strict=True)]
        waits = [d - sum(row, F(0)) for d, row in zip(self.demand, used, strict=True)]
        turns = [w if self.by_job else F(1) for w in waits]
        while True:
            types = [j for j, m in enumerate(idle) if m > 0]
            takes = {
                e: max(types, key=lambda j: (self.tenants.speed[e][j], -j))
                for e, w in enumerate(waits)
                if types and w > 0
            }
            if not takes:
                return tuple(map(tuple, used))
            pace = {j: sum((turns[e] for e, k in takes.items() if k == j), F(0)) for j in set(takes.values())}
            time = min([idle[j] / p for j, p in pace.items()] + [waits[e] / turns[e] for e in takes])
            for e, j in takes.items():
                used[e][j] += time * turns[e]
                idle[j] -= time * turns[e]
                waits[e] -= time * turns[e]

    def uses_its_share(self, user: int, share: Share) -> bool:
        """Whether the user's jobs can use all GPUs of its share."""
        return self.demand[user] >= sum(share[user])

    def waits(self, user: int, used: Share) -> bool:
        """Whether jobs of the user wait."""
        return self.demand[user] > sum(used[user])


def lending_space(
    *hypotheses: Hypothesis[LendingCase], n: tuple[int, int] = (2, 4), k: tuple[int, int] = (1, 3)
) -> Space[LendingCase]:
    """Users with demands."""

    def build(numbers: CaseNumbers) -> LendingCase:
        return LendingCase(case_of(numbers), numbers.row("demand"))

    tables = {
        "speed": TableShape("n", "k-1", SPEEDS),
        "gpus": TableShape(1, "k", GPUS),
        "demand": TableShape(1, "n", DEMANDS),
    }
    given: tuple[Hypothesis[LendingCase], ...] = about(attrgetter("tenants"), relative, positive)
    return Space({"n": n, "k": k}, tables, build, hypotheses=(*given, WORK, *hypotheses))


WORK = Hypothesis[LendingCase]("every user has jobs for some number of GPUs", lambda case: min(case.demand) > 0)


@dataclass(frozen=True)
class LendingReports:
    """Users with demands in truth and as u1 reports."""

    truth: LendingCase
    reported: LendingCase

    @property
    def instance(self) -> Instance:
        """The instance in truth."""
        return self.truth.instance

    def gain(self, policy: AllocationRule) -> Finding:
        """What u1 gains by its report, at its true speedups and with its true jobs; below 0 refutes the claim."""
        honest, misreported = policy(self.truth.tenants), policy(self.reported.tenants)
        before, after = self.truth.lent(honest.share), self.reported.lent(misreported.share)
        rates = self.truth.rate(0, before[0]), self.truth.rate(0, after[0])
        words = f"u1 has {change_text(*rates)}"
        if self.truth.demand != self.reported.demand:
            words = f"u1 reports jobs for {number_text(self.reported.demand[0])} GPUs and has {change_text(*rates)}"
        elif self.truth.tenants != self.reported.tenants:
            words = f"u1 reports ({numbers_text(self.reported.tenants.speed[0])}) and has {change_text(*rates)}"
        pictures = (
            self.truth.tenants.picture("GPUs in use, honest", before),
            self.truth.tenants.picture("after the misreport, at true speedups", after),
        )
        decided = honest.unique and misreported.unique
        return Finding(rates[0] - rates[1], words, (OPTIMAL, UNIQUE), pictures, decided)


@hypothesis("all users but the last have jobs for all GPUs of the cluster")
def only_the_last_leaves_gpus_idle(case: LendingReports) -> bool:
    """So that reports pay by what is lent, and not because jobs are few."""
    return all(demand >= sum(case.truth.tenants.gpus) for demand in case.truth.demand[:-1])


def speedup_reports(
    way: Reports, *, n: tuple[int, int] = (2, 3), k: tuple[int, int] = (2, 3), speeds: tuple[Fraction, ...] = SPEEDS
) -> Space[LendingReports]:
    """False speedups of u1, where only the last user has few jobs."""

    def build(numbers: CaseNumbers) -> LendingReports:
        tenants = case_of(numbers)
        demand = (*[sum(tenants.gpus, F(0))] * (tenants.n - 1), numbers.one("demand"))
        reported = tenants.reporting(0, (F(1), *numbers.row("report")))
        return LendingReports(LendingCase(tenants, demand), LendingCase(reported, demand))

    tables = {
        "speed": TableShape("n", "k-1", speeds),
        "gpus": TableShape(1, "k", GPUS),
        "demand": TableShape(1, 1, DEMANDS),
        "report": TableShape(1, "k-1", speeds),
    }

    def allowed(case: LendingReports) -> bool:
        pairs = zip(case.truth.tenants.speed[0], case.reported.tenants.speed[0], strict=True)
        return all(way(true, reported) for true, reported in pairs)

    given: tuple[Hypothesis[LendingReports], ...] = about(attrgetter("truth.tenants"), relative, positive)
    hypotheses = (*given, only_the_last_leaves_gpus_idle, Hypothesis(way.text, allowed))
    return Space({"n": n, "k": k}, tables, build, hypotheses=hypotheses)


def demand_reports(*, k: tuple[int, int], by_job: bool = False, fewer: bool = False) -> Space[LendingReports]:
    """False demands of u1: too large, or with ``fewer`` also too small."""

    def build(numbers: CaseNumbers) -> LendingReports:
        demand = numbers.row("demand")
        truth = LendingCase(case_of(numbers), demand, by_job)
        return LendingReports(truth, LendingCase(truth.tenants, (numbers.one("report"), *demand[1:]), by_job))

    tables = {
        "speed": TableShape("n", "k-1", SPEEDS),
        "gpus": TableShape(1, "k", GPUS),
        "demand": TableShape(1, "n", DEMANDS),
        "report": TableShape(1, 1, DEMANDS),
    }
    given: tuple[Hypothesis[LendingReports], ...] = about(attrgetter("truth.tenants"), relative, positive)
    more = Hypothesis[LendingReports](
        "$u_1$ reports its jobs and others that it does not have",
        lambda case: case.reported.demand[0] > case.truth.demand[0],
    )
    return Space({"n": (2, 4), "k": k}, tables, build, hypotheses=given if fewer else (*given, more))


# -- findings --------------------------------------------------------------------------------------------------------


def least(case: LendingCase, found: Sequence[tuple[Fraction, str, Share]], unique: bool = True) -> Finding:
    """The finding with the smallest slack of (slack, words, GPUs in use)."""
    slack, words, used = min(found, key=lambda one: one[0], default=(F(0), "no user qualifies", ()))
    pictures = (case.tenants.picture("GPUs in use", used),) if used else ()
    return Finding(slack, words, (OPTIMAL, UNIQUE), pictures, unique)


def loses_nothing(case: LendingCase) -> Finding:
    """Whether no user has less than without lending, under all policies."""
    found = []
    for name, policy in ALL.items():
        share = policy(case.tenants).share
        used = case.lent(share)
        for e in range(case.tenants.n):
            before, after = case.rate(e, share[e]), case.rate(e, used[e])
            found.append((after - before, f"{name}: u{e + 1} has {change_text(before, after)} by lending", used))
    return least(case, found)


def sharing(case: LendingCase, policies: Mapping[str, AllocationRule], *, all_users: bool) -> Finding:
    """The sharing incentive of users that can use their shares, or of all users."""
    found, unique = [], True
    for name, policy in policies.items():
        chosen = policy(case.tenants)
        unique &= chosen.unique
        used, part = case.lent(chosen.share), tuple(m / case.tenants.n for m in case.tenants.gpus)
        for e in range(case.tenants.n):
            if all_users or case.uses_its_share(e, chosen.share):
                mine, fair = case.rate(e, used[e]), case.rate(e, part)
                words = (
                    f"{name}: u{e + 1} has {number_text(mine)}, and {number_text(fair)} with its part of the cluster"
                )
                found.append((mine - fair, words, used))
    return least(case, found, unique)


def envy(case: LendingCase, policy: AllocationRule, *, waiting: bool) -> Finding:
    """Envy of users that can use their shares: of those that wait, or of all."""
    chosen = policy(case.tenants)
    used, found = case.lent(chosen.share), []
    for e, o in permutations(range(case.tenants.n), 2):
        if case.uses_its_share(e, chosen.share) and (case.waits(e, used) or not waiting):
            mine, theirs = case.rate(e, used[e]), case.rate(e, used[o])
            words = f"u{e + 1} has {number_text(mine)}, and {number_text(theirs)} with the GPUs of u{o + 1}"
            found.append((mine - theirs, words, used))
    return least(case, found, chosen.unique)


# -- claims ----------------------------------------------------------------------------------------------------------

PLACE = "section 4.3, extended"
NAMES = tuple(ALL)

OWN_FIRST = r"""
The jobs of $u_l$ take the best $d_l$ GPUs of its share $x_l$, as without lending. What it borrows only adds to their
rate."""

CLAIMS = (
    Claim(
        key="oef/lending-own",
        place=PLACE,
        statement="Lending takes nothing from a user: its rate is at least that without lending, whatever the policy.",
        procedure=ForAll(lending_space(), loses_nothing, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=NAMES,
        proof=OWN_FIRST,
    ),
    Claim(
        key="oef/lending-sharing",
        place=PLACE,
        statement="With lending, a user whose jobs can use all GPUs of its share has at least the rate of its jobs on "
        "its part of the cluster, $m / n$, under every policy that is sharing-incentive without regard to demands.",
        procedure=ForAll(lending_space(), lambda c: sharing(c, SHARING, all_users=False), share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=tuple(SHARING),
        proof=r"""
It uses all of its share and borrows, so its rate is at least $w_l x_l \ge w_l m / n$, and no part of $m / n$ has a
larger one.""",
    ),
    Claim(
        key="oef/lending-sharing-any-demand",
        place=PLACE,
        statement="With lending, cooperative OEF gives every user at least the rate of its jobs on its part of the "
        "cluster, $m / n$.",
        procedure=ForAll(
            lending_space(), lambda c: sharing(c, {"oef-cooperative": ALL["oef-cooperative"]}, all_users=True)
        ),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("oef-cooperative",),
        instead="oef/lending-sharing",
        note="Nor without lending: shares do not depend on demands, so a user with few jobs may have many slow GPUs.",
    ),
    Claim(
        key="oef/lending-sharing-equal-split",
        place=PLACE,
        statement="With lending, the equal split gives every user at least the rate of its jobs on its part of the "
        "cluster.",
        procedure=ForAll(lending_space(), lambda c: sharing(c, {"equal-split": equal_split}, all_users=True)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("equal-split",),
        proof="Its share is its part of the cluster, and lending takes nothing from it.",
    ),
    Claim(
        key="oef/lending-envy",
        place=PLACE,
        statement="With lending, cooperative OEF is envy-free for users whose jobs can use all GPUs of their shares: "
        "their jobs would not be faster on the GPUs, own and borrowed, of another user (every optimum).",
        procedure=ForAll(lending_space(), lambda c: envy(c, ALL["oef-cooperative"], waiting=False), all_optima=True),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("oef-cooperative",),
        instead="oef/lending-envy-waiting",
    ),
    Claim(
        key="oef/lending-envy-waiting",
        place=PLACE,
        statement="With lending in turns, a user that uses all GPUs of its share, and has jobs that still wait, envies "
        "no other user, under every policy that is envy-free without regard to demands.",
        procedure=ForAll(
            lending_space(),
            lambda c: min(
                (envy(c, ALL[name], waiting=True) for name in ("oef-cooperative", "equal-split")),
                key=lambda finding: finding.slack,
            ),
            all_optima=True,
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-cooperative", "equal-split"),
        proof=r"""
Let $x_l$, $o_l \le x_l$ and $y_l$ be the share of a user, what it uses of it, and what it borrows. Lending ends when
nothing is idle, since some jobs of $u_l$ wait and speedups are positive. Until then $u_l$ borrows at the pace of its
turns, of one of its fastest idle types, and $u_i$ at most at that pace, of some idle type: $w_l y_l \ge w_l y_i$. And
$w_l o_l = w_l x_l \ge w_l x_i \ge w_l o_i$. The sum is $w_l (o_l + y_l) \ge w_l (o_i + y_i)$: the jobs of $u_l$, which
use all of the left GPUs, have no larger rate on those on the right.""",
    ),
    Claim(
        key="oef/lending-over-reports",
        place=PLACE,
        statement="With lending, over-reports of speedups do not pay under non-cooperative OEF.",
        procedure=ForAll(speedup_reports(over), lambda c: c.gain(ALL["oef-noncooperative"])),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("oef-noncooperative",),
        note="Without lending they do not pay if all users can use their shares: `oef/thm-5.4-over`.",
    ),
    Claim(
        key="oef/lending-reports",
        place=PLACE,
        statement="With lending, no report of speedups pays under the equal split.",
        procedure=ForAll(
            speedup_reports(any_report, n=(3, 3), k=(3, 3), speeds=rationals(0, 4, 2)[1:]),
            lambda c: c.gain(equal_split),
        ),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("equal-split",),
    ),
    Claim(
        key="oef/lending-more-jobs",
        place=PLACE,
        statement="With lending in turns, it does not pay under the equal split to report jobs that do not exist.",
        procedure=ForAll(demand_reports(k=(1, 3)), lambda c: c.gain(equal_split)),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("equal-split",),
        instead="oef/lending-more-jobs-one-type",
    ),
    Claim(
        key="oef/lending-more-jobs-one-type",
        place=PLACE,
        statement="With one GPU type and lending in turns, no report of the number of jobs pays under the equal split.",
        procedure=ForAll(demand_reports(k=(1, 1), fewer=True), lambda c: c.gain(equal_split)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("equal-split",),
        proof=r"""
A user whose jobs fit on its share has its largest rate. Another one, $u_l$, needs $q_l$ more GPUs than its share, and
the turns end at the time $T$ with $\sum_i \min(q_i, T)$ the number of idle GPUs, or when no user waits. The idle GPUs
do not depend on its report of at least its share, and with fewer jobs it has at most as many GPUs. If $q_l < T$, or no
user waits, all its jobs run. Otherwise it borrows $T$, and with any $q'_l \ge T$ the sum, so $T$, is the same.""",
    ),
    Claim(
        key="oef/lending-by-jobs",
        place=PLACE,
        statement="With one GPU type and lending to the waiting jobs of all users in turns, it does not pay "
        "under the equal split to report jobs that do not exist.",
        procedure=ForAll(demand_reports(k=(1, 1), by_job=True), lambda c: c.gain(equal_split)),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("equal-split",),
        instead="oef/lending-more-jobs-one-type",
        note="A rule that hetopt does not use; lending to the longest starved of all users' jobs acts like it.",
    ),
)
