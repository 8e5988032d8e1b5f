"""Properties of policies, each with a function that decides one case in fractions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from hetopt.auditing import Dominated, Verdict, adjacent_types, envy_free, pareto_efficient, sharing_incentive
from hetopt.data.entities import Kind
from hetopt.data.rationals import change_text, number_text, numbers_text, simple_fractions
from hetopt.decisions.rounders import ByKind
from hetopt.proofs.ledger.claim import Finding
from hetopt.proofs.ledger.finding_pictures import SharesPicture
from hetopt.proofs.ledger.space import Space
from hetopt.proofs.properties.policy_answers import (
    AnyPolicy,
    PolicyAnswer,
    Undecided,
    UndecidedTie,
    ask_policy,
    at_true_owners,
    failing_optimum,
    most_favourable,
    own_speeds,
    true_rates,
)
from hetopt.proofs.properties.policy_cases import AllowedMisreports, PolicyCase, policy_space
from hetopt.results.allocation import Allocation, Plan
from hetopt.tolerances import EQUAL

F = Fraction
ROUNDS = 6
"""Number of rounds in which shares are rounded to whole GPUs."""

NOISE = F(EQUAL)
"""Violations of a float result up to this size are taken as rounding errors of the solver."""


@dataclass(frozen=True)
class Property:
    """A property that a policy may have.

    Attributes
    ----------
    key, title:
        Name, e.g. "envy-free", and heading of a column.
    statement:
        The property in one clause.
    misreport:
        The kind of misreports that the property concerns; None for other properties.
    check:
        Decides one case under one policy.
    kinds:
        Whether it applies to tenants, jobs or both.
    """

    key: str
    title: str
    statement: str
    check: Callable[[PolicyCase, AnyPolicy], Finding]
    misreport: AllowedMisreports | None = None
    kinds: tuple[Kind, ...] = ("tenants", "jobs")

    def space(self, kind: Kind) -> Space[PolicyCase]:
        """The cases on which the property is tested."""
        return policy_space(kind, self.misreport)


def answer_picture(title: str, case: PolicyCase, answer: PolicyAnswer) -> SharesPicture:
    """Picture of the GPUs of each entity and of its rate."""
    held = answer.held(case.instance)
    return SharesPicture(
        title,
        held.names,
        held.types,
        tuple(tuple(row) for row in held.gpus),
        tuple(held.capacity),
        tuple(held.rate),
    )


EXACT = "the exact optimum of the formulation, in fractions"
EVERY_OPTIMUM = "the formulation has several optima, and in fractions the property fails for all of them"


def certificate(answer: PolicyAnswer) -> tuple[str, ...]:
    """The certificate of a finding about this answer."""
    if answer.exact:
        return (EXACT, "it is unique") if answer.unique else (EVERY_OPTIMUM,)
    return ("the result that the policy returned, read exactly and judged in fractions",)


def screened(slack: Fraction, *, exact: bool) -> Fraction:
    """The slack, or 0 if it may be a rounding error."""
    return F(0) if not exact and -NOISE <= slack < 0 else slack


def audited(judge: Callable[..., Verdict], case: PolicyCase, policy: AnyPolicy) -> Finding:
    """Decide a property of one allocation by an exact audit."""
    answer = ask_policy(policy, case.instance).comparable()
    verdict = judge(case.instance, answer.share, exact=True)
    if verdict.exact is None:
        raise Undecided(verdict.why)
    if verdict.exact < 0:
        answer = failing_optimum(judge, case, policy, answer)
        verdict = judge(case.instance, answer.share, exact=True)
    slack = verdict.exact
    assert slack is not None
    words = verdict.witness.explain() if verdict.witness is not None else "holds"
    slack = screened(slack, exact=answer.exact)
    pictures = [answer_picture("the policy's allocation", case, answer)]
    if isinstance(verdict.witness, Dominated):
        pictures.append(_better(pictures[0], verdict.witness))
    return Finding(slack, words, certificate(answer), tuple(pictures))


def _better(before: SharesPicture, witness: Dominated) -> SharesPicture:
    """Picture of the dominating allocation."""
    gpus = tuple(tuple(F(witness.bundles[name].get(t, 0)) for t in before.types) for name in before.names)
    worth = tuple(F(witness.after[name]) for name in before.names)
    return replace(before, title="better for some, worse for none", gpus=gpus, worth=worth)


def adjacency(case: PolicyCase, policy: AnyPolicy) -> Finding:
    """Decide whether the GPU types of each entity are adjacent; shares that may be rounding errors count as 0."""
    answer = ask_policy(policy, case.instance)
    share = answer.share
    if not answer.exact:
        share = share * (share > NOISE)  # True counts as 1
    verdict = adjacent_types(case.instance, share, exact=True)
    assert verdict.exact is not None
    if verdict.exact < 0 and not answer.unique:
        raise UndecidedTie
    words = verdict.witness.explain() if verdict.witness is not None else "holds"
    shown = () if answer.not_comparable else (answer_picture("the policy's allocation", case, answer),)
    return Finding(verdict.exact, words, certificate(answer), shown)


def capacity(case: PolicyCase, policy: AnyPolicy) -> Finding:
    """Decide whether whole GPUs stay within the capacity in all rounds."""
    answer = ask_policy(policy, case.instance)
    used = (answer.share * simple_fractions(case.instance.entities().demand)[:, None]).sum(axis=0)
    most, rounder, state = max(u - m for u, m in zip(used, case.gpus, strict=True)), ByKind(), None
    if most > 0:
        return Finding(-most, f"{number_text(most)} GPUs of a type too many", certificate(answer))
    most = F(0)
    for _ in range(ROUNDS):
        plan: Plan
        if isinstance(answer.result, Allocation):
            plan, state = rounder(answer.result, case.instance, state)
        else:
            plan = answer.result
        used = [int(v) for v in plan.x.sum(axis=0)]
        most = max(most, *(u - m for u, m in zip(used, case.gpus, strict=True)))
    return Finding(-most, f"{number_text(most)} GPUs of a type too many in a round", certificate(answer))


def no_gain(case: PolicyCase, policy: AnyPolicy) -> Finding:
    """Decide whether at least one misreporting entity does not gain, relative to its rate with the whole cluster."""
    honest = ask_policy(policy, case.instance).comparable()
    misreported = ask_policy(policy, case.reported).comparable()
    held = honest.held(case.instance)
    outcomes = [_outcome(case, policy, honest, misreported, e) for e in case.misreporters]
    rate = held.cluster_rate
    losses = [(one.before - one.after) / rate[e] for e, one in zip(case.misreporters, outcomes, strict=True)]
    distance = sum((F(1) + loss for loss in losses), F(0)) / (2 * len(losses))
    slack = screened(max(losses), exact=honest.exact and misreported.exact)
    texts = (
        f"{held.names[e]} {_misreport_text(case, e)} and has {change_text(one.before, one.after)}"
        for e, one in zip(case.misreporters, outcomes, strict=True)
    )
    several = not (honest.unique and misreported.unique)
    pictures = []
    for e, one in list(zip(case.misreporters, outcomes, strict=True))[: None if several else 1]:
        best, worst = (f", of several optima the {end} for {held.names[e]}" * several for end in ("best", "worst"))
        pictures.append(answer_picture(f"honest{best}", case, one.honest))
        pictures.append(answer_picture(f"after the misreport, at true speeds{worst}", case, one.misreported))
    rests_on = (EVERY_OPTIMUM,) if several else certificate(honest)
    return Finding(slack, "; ".join(texts), rests_on, tuple(pictures), distance=distance)


@dataclass(frozen=True)
class _Outcome:
    """Rates of a misreporting entity at true speeds: the largest if honest, the smallest after the misreport."""

    honest: PolicyAnswer
    misreported: PolicyAnswer
    before: Fraction
    after: Fraction


def _outcome(case: PolicyCase, policy: AnyPolicy, honest: PolicyAnswer, misreported: PolicyAnswer, e: int) -> _Outcome:
    true = at_true_owners(case.instance, case.reported, misreported)
    before, after = true_rates(case.instance, honest)[e], true_rates(case.instance, true)[e]
    if after > before:
        best = own_speeds(case, case.instance.entities().owner, e)
        worst = own_speeds(case, case.reported.entities().owner, e, sign=-1)
        honest = most_favourable(policy, case.instance, honest, best)
        misreported = most_favourable(policy, case.reported, misreported, worst)
        true = at_true_owners(case.instance, case.reported, misreported)
        before, after = true_rates(case.instance, honest)[e], true_rates(case.instance, true)[e]
    return _Outcome(honest, true, before, after)


def _misreport_text(case: PolicyCase, e: int) -> str:
    if case.false:
        return f"adds a false job type of speedups {_row(case.false)}"
    return f"reports speeds {_row(case.report[e])}, not {_row(case.speed[e])},"


def _row(values: tuple[Fraction, ...]) -> str:
    return f"({numbers_text(values)})"


PROPERTIES = (
    Property("envy-free", "EF", "no tenant or job prefers another's GPUs", partial(audited, envy_free)),
    Property(
        "sharing-incentive",
        "SI",
        "each tenant or job has at least the rate that an equal share of every GPU type gives it",
        partial(audited, sharing_incentive),
    ),
    Property(
        "pareto-efficient",
        "PE",
        "no other allocation gives one tenant or job more and none less",
        partial(audited, pareto_efficient),
    ),
    Property(
        "over-report",
        "SP over",
        "a tenant or job that reports higher speeds does not gain",
        no_gain,
        AllowedMisreports.OVER,
    ),
    Property(
        "under-report",
        "SP under",
        "a tenant or job that reports lower speeds does not gain",
        no_gain,
        AllowedMisreports.UNDER,
    ),
    Property(
        "group",
        "group SP",
        "if two or more report higher speeds together, not all of them gain",
        no_gain,
        AllowedMisreports.TOGETHER,
    ),
    Property(
        "false-type",
        "false types",
        "a tenant that adds a false job type does not gain",
        no_gain,
        AllowedMisreports.FALSE_TYPE,
        ("tenants",),
    ),
    Property(
        "adjacent", "adjacent", "the GPU types of each tenant or job are adjacent in the cluster's order", adjacency
    ),
    Property("capacity", "whole GPUs", "rounded to whole GPUs, shares stay within the capacity", capacity),
)
