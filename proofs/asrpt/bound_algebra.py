"""The inequalities in the proofs about A-SRPT's bounds, for z3: hypotheses and the negated conclusion.

A sum over jobs is bounded term by term, so one term stands for any number of jobs.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from hetopt.proofs.ledger.mechanical import by_z3


def stretched_work() -> list[Any]:
    """A job gets less than it needs by its share ``g / G`` of the machine in the schedule stretched by rho."""
    from z3 import Reals

    g, gpus, rho, n, alpha, shortest, longest, greedy = Reals("g G rho n alpha shortest longest greedy")
    given = [g > 0, gpus > 0, rho >= 0, n >= 0, alpha >= shortest, greedy <= longest, longest <= rho * shortest]
    return [*given, g / gpus * rho * n * alpha < g / gpus * n * greedy]


def work_of_a_job() -> list[Any]:
    """A job needs more GPU seconds than rho times G times its virtual seconds, and those of its error."""
    from z3 import Reals

    g, widest, n, predicted, error, own, longest, rho, greedy = Reals("g g_max n n~ e a_i a_max rho a~")
    given = [g >= 0, g <= widest, own >= 0, own <= longest, predicted >= 0, error >= 0]
    given += [n <= predicted + error, own <= rho * greedy]
    return [*given, g * n * own > rho * g * predicted * greedy + widest * longest * error]


def end_of_a_job(*, strict: bool) -> list[Any]:
    """A job that starts in time ends after its bound, or ``strict`` at its bound although its size is positive.

    Before it, ``work`` seconds of the machine and delays of ``delays`` seconds; ``spare`` is G - g_max.
    """
    from z3 import Reals

    done, work, size, tau, delays, need, rho, gpus, spare, wrong, own, end = Reals("C W s tau D X rho G spare Q o end")
    given = [work + size <= done, tau >= 0, delays <= tau * (work + size), rho > 0, gpus > 0, spare > 0]
    given += [size > 0 if strict else size >= 0, need <= rho * gpus * work + wrong]
    given += [(end - own - done - delays) * spare <= need]
    left, right = (end - own - (1 + tau) * done) * spare, rho * gpus * done + wrong
    return [*given, left >= right if strict else left > right]


def start_of_a_job() -> list[Any]:
    """A job starts after its bound, although earlier jobs keep more than G - g_max GPUs busy until then or are delayed.

    ``waiting`` seconds pass while the head does not fit, and the jobs before have ``need`` GPU seconds left.
    """
    from z3 import Reals

    done, waiting, delays, busy, spare, need, start = Reals("C waiting D busy spare X start")
    given = [spare > 0, busy >= spare, waiting >= 0, waiting * busy <= need, start <= done + waiting + delays]
    return [*given, (start - done - delays) * spare > need]


def start_in_slots() -> list[Any]:
    """A job that is first considered in the slot after the machine's completion ends a second after its bound."""
    from z3 import Reals

    done, slot, work, need, rho, gpus, spare, wrong, own, end = Reals("C slot W X rho G spare Q o end")
    given = [slot < done + 1, work <= done, rho >= 0, gpus > 0, spare > 0]
    given += [need <= rho * gpus * work + wrong, (end - own - slot) * spare <= need]
    return [*given, (end - own - done - 1) * spare >= rho * gpus * done + wrong]


def seconds_of_an_error() -> list[Any]:
    """An error changes a job's size by more than g_max alpha_max / G seconds for each iteration."""
    from z3 import Or, Reals

    g, widest, gpus, n, predicted, error, greedy, own, longest = Reals("g g_max G n n~ e a~ a_i a_max")
    given = [gpus > 0, g >= 0, g <= widest, greedy >= 0, greedy <= own, own <= longest, error >= 0]
    given += [Or(predicted - n == error, n - predicted == error)]
    change = g / gpus * (predicted - n) * greedy
    most = widest * longest / gpus * error
    return [*given, Or(change > most, -change > most)]


def own_seconds() -> list[Any]:
    """A job's longest duration is more than rho times its completion time in some schedule."""
    from z3 import Reals

    n, alpha, shortest, longest, rho, start, end = Reals("n alpha shortest longest rho t c")
    given = [n >= 0, alpha >= shortest, longest <= rho * shortest, rho >= 0, start >= 0, end == start + n * alpha]
    return [*given, n * longest > rho * end]


def least_work() -> list[Any]:
    """A job with a GPU and an iteration needs less than alpha_min / G seconds of the machine."""
    from z3 import Reals

    g, gpus, n, greedy, own, least = Reals("g G n a~ a_i a_min")
    return [gpus > 0, g >= 1, n >= 1, least > 0, own >= least, greedy >= own, g / gpus * n * greedy < least / gpus]


def changed_ends(jobs: int) -> list[Any]:
    """Jobs get longer or shorter by ``change`` in the order of their ends, and the ends sum to more than the bound."""
    from z3 import If, Reals, RealVal, Sum

    ends, new, change = (Reals([f"{name}{k}" for k in range(jobs)]) for name in ("c", "n", "d"))
    over, under = ([If(sign * d > 0, sign * d, RealVal(0)) for d in change] for sign in (1, -1))
    given = [new[k] <= ends[k] + Sum(over[: k + 1]) - under[k] for k in range(jobs)]
    return [*given, Sum(new) > Sum(ends) + jobs * Sum(over) - Sum(under)]


def chain_of_remaining_times() -> list[Any]:
    """Both machines chose the shortest remaining time, but the chain fails, or its ends agree and the rest do not."""
    from z3 import And, Not, Or, Reals

    low, first, second, high = Reals("r~_pred r~_aux r_aux r_pred")
    predicted, longer, done = Reals("n~_aux m_aux w_aux")
    given = [low <= first, second <= high, first == predicted - done, second == longer - done, predicted <= longer]
    equal = And(low == first, first == second, second == high)
    return [*given, Or(first > second, And(low == high, Not(equal)))]


def more_work_than_time() -> list[Any]:
    """Jobs are complete after one more period or slot of the machine, earlier than the sum of their ``sizes``.

    A period has a rate of at most 1; a slot of a second does what is ``left`` of a job, at most a second of work.
    ``others`` is the work done of other jobs.
    """
    from z3 import And, If, Or, Reals

    work, time, until, step, rate, left, sizes, others = Reals("work time until step rate left sizes others")
    period = And(rate >= 0, rate <= 1, until >= time, step == rate * (until - time))
    slot = And(left >= 0, until == time + 1, step == If(left < 1, left, 1))
    given = [work <= time, Or(period, slot), others >= 0, sizes + others == work + step]
    return [*given, sizes > until]


def unseen_job_takes_time() -> list[Any]:
    """SRPT runs a job of the least remaining time while one of size 0 is there, and time passes or work gets done."""
    from z3 import Bool, If, Or, Reals

    (unseen, least, time, later, left), served = Reals("unseen least time later left"), Bool("served")
    until = If(time + least < later, time + least, later)
    after = If(served, left - (until - time), left)
    return [unseen == 0, least >= 0, least <= unseen, later > time, Or(until != time, after != left)]


def another_job_runs_on() -> list[Any]:
    """A job with the shortest remaining time runs, and then has more left than another job that did not run."""
    from z3 import Reals

    own, other, ran = Reals("own other ran")
    return [own <= other, ran >= 0, own - ran > other]


SHARES = by_z3("a job's share of the stretched machine, all real data", stretched_work)
WORK = by_z3("a job's GPU seconds, all real data", work_of_a_job)
HEAD = by_z3("a job's start by its bound, all real data", start_of_a_job)
END = by_z3("a job's end by its bound, all real data", partial(end_of_a_job, strict=False))
BEFORE = by_z3("a job's end before its bound, all real data", partial(end_of_a_job, strict=True))
IN_SLOTS = by_z3("a job's end in slots, all real data", start_in_slots)
ERROR = by_z3("the seconds of a wrong prediction, all real data", seconds_of_an_error)
OWN = by_z3("a job's longest duration, all real data", own_seconds)
LEAST = by_z3("the least size of a job, all real data", least_work)
CHAIN = by_z3("remaining times where the machines first differ, all real data", chain_of_remaining_times)
DONE = by_z3(
    "the machine does at most a second of work per second, in continuous time and in slots", more_work_than_time
)
UNSEEN = (
    by_z3("a job of size 0 takes no time, all real data", unseen_job_takes_time),
    by_z3("the job that ran before it runs on, all real data", another_job_runs_on),
)
ENDS = tuple(
    by_z3(f"{jobs} jobs get longer or shorter, all real data", partial(changed_ends, jobs)) for jobs in (2, 3, 4)
)
