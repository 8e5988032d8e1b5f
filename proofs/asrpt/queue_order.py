"""SRPT on one machine, the order of A-SRPT's queue, and eq. (3) at the completion of a job."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hetopt.data.rationals import number_text
from hetopt.proofs.asrpt.scheduling_cases import (
    PREDICTED,
    Runs,
    SchedulingCase,
    overfull,
    schedule_picture,
    scheduling_space,
)
from hetopt.proofs.asrpt.single_machine import (
    ONE_MACHINE,
    TWO_MACHINES,
    PreemptiveCase,
    best_seconds,
    drawn_seconds,
    srpt,
)
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.mechanical import by_z3
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import integers

F = Fraction
HALF = F(1, 2)


def shortest_first_is_best(case: PreemptiveCase) -> Finding:
    """Compare SRPT's sum of completion times with the least of all assignments of seconds to jobs."""
    found = srpt([F(r) for r in case.arrivals], [F(n) for n in case.sizes]).total
    least = best_seconds(case.arrivals, case.sizes)[0]
    words = f"{number_text(found)} by SRPT, {least} at best"
    return Finding(least - found, words, ("all assignments of seconds to jobs were tried",))


def shortest_first_is_best_on_two(case: PreemptiveCase) -> Finding:
    """Compare SRPT on all machines, with ties broken in the best way, with the least of all assignments."""
    ways = [best_seconds(case.arrivals, case.sizes, case.machines, shortest=shortest) for shortest in (True, False)]
    found, least = (total for total, _ in ways)
    words = f"at least {found} by SRPT, for all ways to break ties, {least} at best"
    pictures = tuple(drawn_seconds(t, way) for t, (_, way) in zip(("SRPT", "optimum"), ways, strict=True))
    return Finding(F(least - found), words, ("all assignments of machine seconds to jobs were tried",), pictures)


def in_virtual_order(case: SchedulingCase) -> Finding:
    """Whether jobs that complete earlier on the virtual machine start no later."""
    virtual = case.virtual(predicted=True)
    start = {run.job: run.start for run in case.asrpt()}
    pairs = [(i, j) for i in start for j in start if virtual.ends[i] < virtual.ends[j]]
    slack = min((start[j] - start[i] for i, j in pairs), default=F(0))
    return Finding(slack, f"the later job starts at least {number_text(slack)} s later")


def smaller_starts_first(case: SchedulingCase) -> Finding:
    """Whether jobs with a smaller predicted size on the virtual machine start no later."""
    sizes, runs = case.sizes(predicted=True), case.asrpt()
    start = {run.job: run.start for run in runs}
    pairs = [(i, j) for i in start for j in start if sizes[i] < sizes[j]]
    slack, i, j = min(((start[j] - start[i], i, j) for i, j in pairs), default=(F(0), 0, 0))
    words = f"job{i + 1} needs {number_text(sizes[i])} s on the virtual machine and starts at {number_text(start[i])}; "
    words += f"job{j + 1} needs {number_text(sizes[j])} and starts at {number_text(start[j])}"
    pictures = (case.virtual(predicted=True).picture("virtual machine"), schedule_picture("A-SRPT", runs, case.free))
    return Finding(slack, words, (), pictures)


def delayed_as_allowed(case: SchedulingCase) -> Finding:
    """Whether jobs start when the head's GPUs are free, or up to tau times its virtual seconds later if it is heavy."""
    virtual, sizes, runs = case.virtual(predicted=True), case.sizes(predicted=True), case.asrpt()
    slacks, before = [], F(0)
    for n, run in enumerate(runs):
        choice, gpus = case.tasks[run.job].options[0], case.tasks[run.job].gpus
        head = max(before, virtual.ends[run.job])
        moments = [head, *(r.end for r in runs[:n] if r.end > head)]
        ready = min(t for t in moments if idle_gpus(case, runs[:n], t) >= gpus)
        most = case.delay * sizes[run.job] if choice.most >= case.heavy * choice.least else F(0)
        slacks += [run.start - ready, ready + most - run.start]
        before = run.start
    words = f"jobs start between their first opportunity and the end of the delay, {number_text(min(slacks))} s within"
    return Finding(min(slacks), words, (), (schedule_picture("A-SRPT", runs, case.free),))


def idle_gpus(case: SchedulingCase, runs: Runs, time: Fraction) -> int:
    """GPUs of the cluster that no run uses from ``time`` on."""
    return case.servers.total - sum(sum(run.use) for run in runs if run.start <= time < run.end)


def never_overfull(case: SchedulingCase, *, closed: bool) -> Finding:
    """Equations (1) to (3) for A-SRPT's schedule; ``closed`` as printed."""
    runs = case.asrpt()
    over, time, m = overfull(runs, case.free, closed=closed)
    late = min(run.start - case.arrivals[run.job] for run in runs)
    placed = all(sum(run.use) == case.tasks[run.job].gpus for run in runs)
    slack = min(F(-over), late, F(0) if placed else F(-1))
    words = f"at {number_text(time)} jobs hold {over + case.free[m]} of the {case.free[m]} GPUs of server{m + 1}"
    return Finding(slack, words, (), (schedule_picture("A-SRPT", runs, case.free),))


def next_look_at_the_delayed() -> list[Any]:
    """For z3: the next look at the delayed head is before it ``fits`` or after its delay, or its g GPUs are not free.

    It is at the next ``event`` or at the end of the delay; until then runs of ``ended`` GPUs end, and none starts.
    """
    from z3 import And, If, Not, Reals

    fits, now, event, tau, size = Reals("fits now event tau size")
    g, gpus, busy, ended = Reals("g G busy ended")
    end = fits + tau * size
    after = If(event < end, event, end)
    given = [tau >= 0, size >= 0, fits <= now, event > now, g <= gpus - busy, ended >= 0]
    return [*given, Not(And(fits <= after, after <= end, g <= gpus - (busy - ended)))]


ANY_JOBS = scheduling_space(
    communicating=True, predicted=PREDICTED, delayed=True, iterations=integers(1, 3), spare=False, inside="any"
)
"""Any bandwidths, predictions and delays, and jobs that may need all GPUs."""

TAILS = r"""
Let $R_1 \ge R_2 \ge \dots$ be the remaining times at $t$ of all jobs that have arrived, under SRPT (0 for completed
jobs), and $Q_1 \ge Q_2 \ge \dots$ those under any other schedule, which may even share the machine at rates with a sum
of at most 1. Let $T_k(R) = \sum_{j \ge k} R_j$: the least sum that remains if $k - 1$ entries are removed. Then $T_k(R)
\le T_k(Q)$ for all $k$ at all times. It holds at the start. The arrival of a job of size $x$ changes $T_k$ to the
minimum of $T_k + x$ and $T_{k-1}$ (of the other entries $k - 1$ or $k - 2$ are removed; $T_1$ grows by $x$), on both
sides. Between arrivals SRPT works on the smallest positive entry, which is among those of $T_k(R)$ as long as $T_k(R) >
0$; so $T_k(R)$ falls at rate 1 until it is 0, and $T_k(Q)$ falls at rate at most 1. If $k$ jobs are unfinished under
SRPT, then $T_k(R) > 0$, so $T_k(Q) > 0$ and at least $k$ are unfinished under the other schedule. Hence at each time
SRPT has the fewest unfinished jobs, and the sum of completion times is the integral of that number (including jobs that
have yet to arrive)."""

CLAIMS = (
    Claim(
        key="asrpt/srpt",
        place="section IV-C",
        statement="Shortest remaining time first has the least sum of completion times of all preemptive schedules on "
        "one machine, jobs arriving over time.",
        quote="This approach is known to be delay-optimal in single-machine preemptive settings",
        procedure=ForAll(ONE_MACHINE, shortest_first_is_best, share=HALF),
        expected=ClaimVerdict.TRUE,
        proof=TAILS,
        note="Sharing the machine does not help either, which Lemma 1 needs. Cited by the paper; the proof follows "
        "Schrage (1968) and Smith (1978).",
    ),
    Claim(
        key="asrpt/srpt-parallel",
        place="section IV-C",
        statement="Shortest remaining time first is optimal for single-machine jobs with known durations over parallel "
        "machines, jobs arriving over time: it has the least sum of completion times.",
        quote="Our online scheduling algorithm is inspired by the online SRPT framework proposed in …, which is "
        "optimal for online scheduling for single-machine jobs with known durations over parallel machines.",
        procedure=ForAll(TWO_MACHINES, shortest_first_is_best_on_two, share=HALF),
        expected=ClaimVerdict.FALSE,
        instead="asrpt/srpt",
        note="As the paper cites it. A-SRPT needs it only for one machine.",
        policies=(),
    ),
    Claim(
        key="asrpt/pending-order",
        place="Algorithm 1",
        statement="Jobs start in the order in which they complete in the virtual schedule.",
        quote=r"We schedule all jobs in $\tilde{A}_1$ first, and order jobs according to their completion time in "
        r"$\tilde{A}_1$. We then perform job scheduling on the actual cluster following the order",
        procedure=ForAll(ANY_JOBS, in_virtual_order, share=HALF),
        expected=ClaimVerdict.TRUE,
        proof="Line 2 appends jobs to the queue as they complete there, lines 4 to 25 start or delay its head alone, "
        "and a delayed job starts before the next job is considered.",
    ),
    Claim(
        key="asrpt/delay-limit",
        place="Algorithm 1",
        statement="The head of the queue starts as soon as enough GPUs are free; a communication-heavy job, at most "
        r"$\tau \frac{g_i}{G} \tilde n_i \tilde\alpha_i^{min}$ seconds later.",
        quote=r"Otherwise, we delay up to $\tau \frac{g_i}{G} \tilde{n}_i \tilde{\alpha}_i^{\min}$, constantly "
        "reassessing allocations for a more efficient configuration",
        procedure=ForAll(ANY_JOBS, delayed_as_allowed, share=HALF),
        expected=ClaimVerdict.TRUE,
        proof="A job becomes the head when it is complete on the virtual machine and the job before it has started. "
        "Line 5 waits for $g_i$ free GPUs. Then lines 21 to 23 start the job, or line 13 does, or it is delayed by "
        "line 16 for at most that long; meanwhile no job starts, so that its GPUs stay free.",
        mechanical=(
            by_z3("a delayed head still fits, and within its delay, at the next look", next_look_at_the_delayed),
        ),
        note="Line 8 calls a job communication-heavy if its ratio is at least COMM_HEAVY; the text has *exceeds*.",
    ),
    Claim(
        key="asrpt/larger-later",
        place="section IV-C",
        statement=r"Jobs with larger predicted workloads $\frac{g_i}{G} \tilde n_i \tilde\alpha_i^{min}$ are scheduled "
        "later.",
        quote=r"By doing so, jobs with larger predicted workloads $\frac{g_i}{G} \tilde{n}_i \tilde{\alpha}_i^{\min}$ "
        r"are scheduled later due to longer completion times in $\tilde{A}_1$.",
        procedure=ForAll(scheduling_space(), smaller_starts_first),
        expected=ClaimVerdict.FALSE,
        instead="asrpt/larger-later-together",
        note="The order depends on the remaining time, and on when a job arrives.",
    ),
    Claim(
        key="asrpt/larger-later-together",
        place="section IV-C",
        statement="Jobs with larger predicted workloads start no earlier than those with smaller ones, if all "
        "arrive at the same time.",
        procedure=ForAll(
            scheduling_space(
                arriving=False,
                communicating=True,
                predicted=PREDICTED,
                iterations=integers(1, 3),
                delayed=True,
                spare=False,
                inside="any",
            ),
            smaller_starts_first,
            share=HALF,
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof="Then SRPT never interrupts, since the time left of the job that runs only falls, and completes jobs in "
        "the order of their sizes; they start in that order.",
    ),
    Claim(
        key="asrpt/eq-3",
        place="eq. (3)",
        statement=r"A-SRPT's schedule satisfies $\sum_{i: t_i \le t \le t_i + n_i \alpha_i} \sum_s x_{i,s}^m \le g$ "
        r"for all $t$ and $m$.",
        quote=r"$\sum_{i \in [I]: t_i \le t \le t_i + n_i \alpha_i} \sum_{s \in [S_i]} x_{i,s}^m \le g, \forall m \in "
        r"[M], t \in [T].$",
        procedure=ForAll(scheduling_space(spare=False), lambda c: never_overfull(c, closed=True)),
        expected=ClaimVerdict.FALSE,
        instead="asrpt/eq-3-half-open",
        note="A job counts at the moment of its completion, so no job may start just then. In slots each job costs one "
        "more; in continuous time a job would have to wait for the first moment after another, which there is not, and "
        "(8) has no optimum.",
    ),
    Claim(
        key="asrpt/eq-3-half-open",
        place="eqs. (1) to (3)",
        statement=r"A-SRPT's schedule satisfies (1), (2), and (3) with $t_i \le t < t_i + n_i \alpha_i$.",
        procedure=ForAll(ANY_JOBS, lambda c: never_overfull(c, closed=False), share=HALF),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof="(1): a job is in the queue only once it has arrived. (2): Heavy-Edge places all replicas on the $g_i$ "
        "GPUs that it is given. (3): these are free when the job starts, and are free again when it completes.",
    ),
)
