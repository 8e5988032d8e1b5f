"""The properties, each as a checker of one case under one policy; floats screen, fractions decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from hetopt.auditing import Dominated, Verdict, adjacent_types, envy_free, pareto_efficient, sharing_incentive
from hetopt.data.rationals import fractions
from hetopt.decisions.whole_gpus import ByKind
from hetopt.proofs.ledger.claim import Finding, fraction_text
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
from hetopt.proofs.properties.policy_cases import EntityKind, MisreportKind, PolicyCase, policy_space
from hetopt.results.allocation import Allocation, Plan
from hetopt.tolerances import EQUAL

F = Fraction
ROUNDS = 6
"""In which shares are made whole."""

NOISE = F(EQUAL)
"""Floats screen: what is violated by less is what a solver's rounding leaves. An exact optimum has none."""


@dataclass(frozen=True)
class Property:
    """Something that a policy may have.

    Attributes
    ----------
    key, title:
        E.g. "envy-free"; the title heads a column.
    statement:
        What it says.
    way:
        How somebody lies, where it is about lies.
    check:
        Decides one case under one policy.
    kinds:
        Whom it is about.
    """

    key: str
    title: str
    statement: str
    check: Callable[[PolicyCase, AnyPolicy], Finding]
    way: MisreportKind | None = None
    kinds: tuple[EntityKind, ...] = ("tenants", "jobs")

    def space(self, kind: EntityKind) -> Space[PolicyCase]:
        """The cases on which it is looked at."""
        return policy_space(kind, self.way)


def answer_picture(title: str, case: PolicyCase, answer: PolicyAnswer) -> SharesPicture:
    """Who has which GPUs, and what they are worth to it."""
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
EVERY_OPTIMUM = "the formulation has several optima; in fractions it fails for all of them, this one included"


def certificate(answer: PolicyAnswer) -> tuple[str, ...]:
    """What the numbers rest on."""
    if answer.exact:
        return (EXACT, "it is unique") if answer.unique else (EVERY_OPTIMUM,)
    return ("what the policy returned, taken at its word and judged in fractions",)


def screened(slack: Fraction, answer: PolicyAnswer) -> Fraction:
    """0 for a violation that rounding may have made."""
    return F(0) if not answer.exact and -NOISE <= slack < 0 else slack


Audit = Callable[..., Verdict]


def audited(judge: Audit, case: PolicyCase, policy: AnyPolicy) -> Finding:
    """A property of one allocation, by an audit in fractions."""
    answer = ask_policy(policy, case.instance).judged()
    verdict = judge(case.instance, answer.share, exact=True)
    if verdict.exact is None:
        raise Undecided(verdict.why)
    if verdict.exact < 0:
        answer = failing_optimum(judge, case, policy, answer)
        verdict = judge(case.instance, answer.share, exact=True)
    slack = verdict.exact
    assert slack is not None
    if slack < 0 and not answer.exact:  # by how much at most: a trade that proves it may be as small as rounding
        rough = judge(case.instance, answer.share.astype(float))
        slack = min(slack, F(rough.slack)) if rough.slack is not None else slack
        verdict = rough if rough.witness is not None and not rough.holds else verdict
    words = verdict.witness.explain() if verdict.witness is not None else "holds"
    slack = screened(slack, answer)
    pictures = [answer_picture("what the policy gives", case, answer)]
    if isinstance(verdict.witness, Dominated):
        pictures.append(_better(pictures[0], verdict.witness))
    return Finding(slack, words, certificate(answer), tuple(pictures))


def _better(before: SharesPicture, witness: Dominated) -> SharesPicture:
    """What dominates it."""
    gpus = tuple(tuple(F(witness.bundles[name].get(t, 0)) for t in before.types) for name in before.names)
    worth = tuple(F(witness.after[name]) for name in before.names)
    return replace(before, title="better for some, worse for none", gpus=gpus, worth=worth)


def adjacency(case: PolicyCase, policy: AnyPolicy) -> Finding:
    """Everybody's types are adjacent; a share below rounding is none."""
    answer = ask_policy(policy, case.instance)
    share = answer.share
    if not answer.exact:
        share = share * (share > NOISE)  # True counts as 1
    verdict = adjacent_types(case.instance, share, exact=True)
    assert verdict.exact is not None
    if verdict.exact < 0 and not answer.unique:
        raise UndecidedTie
    words = verdict.witness.explain() if verdict.witness is not None else "holds"
    shown = () if answer.unlike else (answer_picture("what the policy gives", case, answer),)
    return Finding(verdict.exact, words, certificate(answer), shown)


def capacity(case: PolicyCase, policy: AnyPolicy) -> Finding:
    """Never more whole GPUs than there are, over some rounds."""
    answer = ask_policy(policy, case.instance)
    used = (answer.share * fractions(case.instance.entities().demand)[:, None]).sum(axis=0)
    most, rounder, state = max(u - m for u, m in zip(used, case.gpus, strict=True)), ByKind(), None
    if most > 0:
        return Finding(-most, f"{fraction_text(most)} GPUs of a type too many", certificate(answer))
    most = F(0)
    for _ in range(ROUNDS):
        plan: Plan
        if isinstance(answer.result, Allocation):
            plan, state = rounder(answer.result, case.instance, state)
        else:
            plan = answer.result
        used = [int(v) for v in plan.x.sum(axis=0)]
        most = max(most, *(u - m for u, m in zip(used, case.gpus, strict=True)))
    return Finding(-most, f"{fraction_text(most)} GPUs of a type too many in a round", certificate(answer))


def no_gain(case: PolicyCase, policy: AnyPolicy) -> Finding:
    """Not every liar gains at true speeds, in parts of its rate with the whole cluster."""
    honest, lying = ask_policy(policy, case.instance).judged(), ask_policy(policy, case.told).judged()
    held = honest.held(case.instance)
    outcomes = [_outcome(case, policy, honest, lying, e) for e in case.liars]
    losses = [(one.before - one.after) / held.whole[e] for e, one in zip(case.liars, outcomes, strict=True)]
    slack, distance = max(losses), sum((F(1) + loss for loss in losses), F(0)) / (2 * len(losses))
    if not (honest.exact and lying.exact) and -NOISE <= slack < 0:
        slack = F(0)
    told = (
        f"{held.names[e]} {_lie(case, e)} and has {_plain(one.after)} instead of {_plain(one.before)}"
        for e, one in zip(case.liars, outcomes, strict=True)
    )
    several = not (honest.unique and lying.unique)
    pictures = []
    for e, one in list(zip(case.liars, outcomes, strict=True))[: None if several else 1]:
        best, worst = (f", of several optima the {end} for {held.names[e]}" * several for end in ("best", "worst"))
        pictures.append(answer_picture(f"honest{best}", case, one.honest))
        pictures.append(answer_picture(f"after the lie, at true speeds{worst}", case, one.lying))
    rests_on = (EVERY_OPTIMUM,) if several else certificate(honest)
    return Finding(slack, "; ".join(told), rests_on, tuple(pictures), distance=distance)


@dataclass(frozen=True)
class _Outcome:
    """A liar's rates at true speeds: the most that it may have honestly, the least after the lie."""

    honest: PolicyAnswer
    lying: PolicyAnswer
    before: Fraction
    after: Fraction


def _outcome(case: PolicyCase, policy: AnyPolicy, honest: PolicyAnswer, lying: PolicyAnswer, e: int) -> _Outcome:
    told = at_true_owners(case.instance, case.told, lying)
    before, after = true_rates(case.instance, honest)[e], true_rates(case.instance, told)[e]
    if after > before:
        honest = most_favourable(policy, case.instance, honest, own_speeds(case, case.instance.entities().owner, e))
        lying = most_favourable(policy, case.told, lying, own_speeds(case, case.told.entities().owner, e, sign=-1))
        told = at_true_owners(case.instance, case.told, lying)
        before, after = true_rates(case.instance, honest)[e], true_rates(case.instance, told)[e]
    return _Outcome(honest, told, before, after)


def _lie(case: PolicyCase, e: int) -> str:
    if case.false:
        return f"adds a false job type of speedups {_row(case.false)}"
    return f"reports speeds {_row(case.report[e])}, not {_row(case.speed[e])},"


def _row(values: tuple[Fraction, ...]) -> str:
    return f"({', '.join(map(fraction_text, values))})"


def _plain(value: Fraction) -> str:
    return fraction_text(value) if value.denominator < 10**6 else f"{float(value):.6g}"


TOGETHER = "over-reports by two or more at once do not make all of them better off"
PROPERTIES = (
    Property("envy-free", "EF", "nobody would rather have another's GPUs", partial(audited, envy_free)),
    Property(
        "sharing-incentive",
        "SI",
        "everybody has what its part of every type is worth",
        partial(audited, sharing_incentive),
    ),
    Property(
        "pareto-efficient", "PE", "nobody can have more without another's loss", partial(audited, pareto_efficient)
    ),
    Property("over-report", "SP over", "reporting more speed does not pay, whoever does it alone", no_gain, "over"),
    Property("under-report", "SP under", "reporting less speed does not pay, whoever does it alone", no_gain, "under"),
    Property("group", "group SP", TOGETHER, no_gain, "together"),
    Property(
        "false-type",
        "false types",
        "adding a false job type does not pay, whoever does it alone",
        no_gain,
        "false type",
        ("tenants",),
    ),
    Property("adjacent", "adjacent", "the GPU types that anybody has are neighbours in the cluster's order", adjacency),
    Property("capacity", "whole GPUs", "made whole, shares stay within the GPUs that there are", capacity),
)
