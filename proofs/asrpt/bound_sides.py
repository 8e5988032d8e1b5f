"""Both sides of Lemmas 1 to 3 and of Theorem 1 for a few jobs, in fractions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from hetopt.data.rationals import number_text
from hetopt.proofs.asrpt.scheduling_cases import Runs, SchedulingCase, schedule_picture, total_completion
from hetopt.proofs.ledger.claim import Finding
from hetopt.proofs.ledger.finding_pictures import FindingPicture

F = Fraction

OPTIMUM = "OPT_A is the minimum over all orders of starts and all placements, by enumeration"
EXACT = "both sides were computed in fractions"
MACHINE = ("the virtual machine runs the job with the shortest remaining time first", EXACT)


@dataclass(frozen=True)
class BoundTerms:
    """The quantities in the bounds.

    Attributes
    ----------
    jobs, gpus, widest:
        I, G and g_max.
    rho, most, least:
        max alpha_max / alpha_min, max alpha_max, min alpha_min.
    error, delay:
        epsilon and tau.
    spare:
        G - g_max, or one more.
    """

    jobs: int
    gpus: int
    widest: int
    rho: Fraction
    most: Fraction
    least: Fraction
    error: Fraction
    delay: Fraction
    spare: int

    @classmethod
    def of(cls, case: SchedulingCase, *, sharper: bool = False) -> BoundTerms:
        """The quantities of a case.

        Parameters
        ----------
        sharper:
            Whether alpha_max is the longest iteration of all placements, and ``spare`` is G - g_max + 1; else both are
            as printed.
        """
        least, most = [min(uses.values()) for uses in case.fastest], longest_iterations(case, sharper=sharper)
        widest = max(task.gpus for task in case.tasks)
        return cls(
            jobs=len(least),
            gpus=case.servers.total,
            widest=widest,
            rho=max(m / a for m, a in zip(most, least, strict=True)),
            most=max(most),
            least=min(least),
            error=sum((abs(job.iterations - job.predicted) for job in case.jobs), F(0)),
            delay=case.delay,
            spare=case.servers.total - widest + sharper,
        )


@dataclass(frozen=True)
class BoundSides:
    """Both sides of a bound for one case.

    Attributes
    ----------
    left, right:
        Both sides.
    names:
        Names of the sides.
    draw:
        Draws the schedules of a counterexample.
    certificate:
        What was verified.
    """

    left: Fraction
    right: Fraction
    names: tuple[str, str]
    draw: Callable[[], tuple[FindingPicture, ...]] = tuple
    certificate: tuple[str, ...] = (OPTIMUM, EXACT)

    @property
    def finding(self) -> Finding:
        """Whether the bound holds."""
        slack = self.right - self.left
        pictures = self.draw() if slack < 0 else ()
        (left, right), sign = self.names, ">" if slack < 0 else "<="
        words = f"{left} = {number_text(self.left)} {sign} {number_text(self.right)} = {right}"
        return Finding(slack, words, self.certificate, pictures)

    @property
    def ratio(self) -> Fraction:
        """Fraction of the bound that is used."""
        return self.left / self.right if self.right else F(int(self.left > 0))


def longest_iterations(case: SchedulingCase, *, sharper: bool) -> list[Fraction]:
    """For each job alpha_max: as printed, or ``sharper`` the longest iteration of all placements."""
    return case.longest if sharper else case.apart


def schedule_pictures(case: SchedulingCase, *schedules: tuple[str, Runs]) -> tuple[FindingPicture, ...]:
    """Pictures of schedules with titles."""
    return tuple(schedule_picture(title, runs, case.free) for title, runs in schedules)


def lemma_1(case: SchedulingCase, *, slots: bool = False, sharper: bool = False) -> BoundSides:
    """``OPT_A1 <= rho OPT_A``."""
    virtual, best = case.virtual(predicted=False, slots=slots), case.optimum(slots=slots)
    right = BoundTerms.of(case, sharper=sharper).rho * total_completion(best)
    return BoundSides(
        virtual.total,
        right,
        ("OPT_A1", "rho OPT_A"),
        lambda: (virtual.picture("virtual machine"), *schedule_pictures(case, ("optimum", best))),
    )


def lemma_2(
    case: SchedulingCase, *, slots: bool = False, virtual_slots: bool = False, sharper: bool = False
) -> BoundSides:
    """``Gamma_A <= (1 + tau + rho G/(G-g)) OPT_A~1 + I g alpha/(G-g) epsilon + rho OPT_A``."""
    q, virtual = BoundTerms.of(case, sharper=sharper), case.virtual(predicted=True, slots=virtual_slots)
    runs, best = case.asrpt(slots=slots, virtual_slots=virtual_slots), case.optimum(slots=slots)
    right = (1 + q.delay + q.rho * F(q.gpus, q.spare)) * virtual.total + q.rho * total_completion(best)
    right += q.jobs * q.widest * q.most / q.spare * q.error
    return BoundSides(
        total_completion(runs),
        right,
        ("Gamma_A", "the bound"),
        lambda: (virtual.picture("virtual machine"), *schedule_pictures(case, ("A-SRPT", runs), ("optimum", best))),
    )


def each_job(case: SchedulingCase, *, slots: bool = False, sharper: bool = False) -> BoundSides:
    """``C_i <= (1 + tau + rho G/(G-g)) C~_i + g alpha/(G-g) epsilon + n_i alpha_i``, for the tightest job."""
    q, virtual, runs = BoundTerms.of(case, sharper=sharper), case.virtual(predicted=True), case.asrpt(slots=slots)
    factor, wrong = 1 + q.delay + q.rho * F(q.gpus, q.spare), q.widest * q.most / q.spare * q.error
    own = [alpha * n for alpha, n in zip(longest_iterations(case, sharper=sharper), case.iterations, strict=True)]
    slack, end = min((factor * virtual.ends[run.job] + wrong + own[run.job] - run.end, run.end) for run in runs)
    return BoundSides(
        end,
        end + slack,
        ("completion of a job", "its bound"),
        lambda: schedule_pictures(case, ("A-SRPT", runs)),
        (EXACT,),
    )


def lemma_3(case: SchedulingCase, *, slots: bool = False, sharper: bool = False) -> BoundSides:
    """``OPT_A~1 <= OPT_A1 + I g alpha/G epsilon``."""
    q = BoundTerms.of(case, sharper=sharper)
    wrong, right = (case.virtual(predicted=predicted, slots=slots) for predicted in (True, False))
    return BoundSides(
        wrong.total,
        right.total + q.jobs * q.widest * q.most / q.gpus * q.error,
        ("OPT_A~1", "the bound"),
        lambda: (right.picture("true sizes"), wrong.picture("predicted sizes")),
        MACHINE,
    )


def over_and_under(case: SchedulingCase) -> BoundSides:
    """``OPT_A~1 <= OPT_A1 + I (overpredicted) - (underpredicted)``, in seconds on the virtual machine."""
    wrong, right = (case.virtual(predicted=predicted).total for predicted in (True, False))
    pairs = zip(case.sizes(predicted=True), case.sizes(predicted=False), strict=True)
    errors = [predicted - true for predicted, true in pairs]
    over, under = (sum((max(F(0), sign * v) for v in errors), F(0)) for sign in (1, -1))
    return BoundSides(wrong, right + len(errors) * over - under, ("OPT_A~1", "the bound"), certificate=MACHINE)


def theorem_1(
    case: SchedulingCase, *, slots: bool = False, virtual_slots: bool = False, sharper: bool = False, more: int = 0
) -> BoundSides:
    """Gamma_A and the printed multiple of OPT_A; the multiple is increased by ``more``."""
    q, virtual = BoundTerms.of(case, sharper=sharper), case.virtual(predicted=True, slots=virtual_slots)
    runs, best = case.asrpt(slots=slots, virtual_slots=virtual_slots), case.optimum(slots=slots)
    share = F(q.gpus, q.spare)
    factor = (2 + q.delay + q.rho * share) * q.rho + more
    factor += 2 * q.rho * q.widest * q.most / q.least * (1 + q.delay + (1 + q.rho) * share) * q.error / q.jobs
    return BoundSides(
        total_completion(runs),
        factor * total_completion(best),
        ("Gamma_A", f"{number_text(factor)} OPT_A"),
        lambda: (virtual.picture("virtual machine"), *schedule_pictures(case, ("A-SRPT", runs), ("optimum", best))),
    )


def bound(sides: Callable[[SchedulingCase], BoundSides]) -> Callable[[SchedulingCase], Finding]:
    """The function that decides a bound."""
    return lambda case: sides(case).finding


def used_fraction(sides: Callable[[SchedulingCase], BoundSides]) -> Callable[[SchedulingCase], Fraction]:
    """The function that returns the used fraction of a bound."""
    return lambda case: sides(case).ratio
