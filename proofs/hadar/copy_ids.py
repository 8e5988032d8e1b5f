"""The job IDs of copies in section V-A of Hadar: whether they are unique."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hetopt.data.instance import Instance
from hetopt.proofs.hadar.copy_cases import CopyCase
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.mechanical import by_z3
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import CaseNumbers, Hypothesis, Space, TableShape, hypothesis, integers

F = Fraction


@dataclass(frozen=True)
class CopyIds:
    """Two jobs and their copies.

    Attributes
    ----------
    most:
        max_job_count.
    parents:
        parent_job_id of both.
    copies:
        Number of copies of each job.
    """

    most: int
    parents: tuple[int, int]
    copies: int

    @property
    def instance(self) -> Instance:
        """Two jobs, and one node per copy."""
        return CopyCase((F(1),) * self.copies, (F(2), F(2))).instance

    @property
    def ids(self) -> list[int]:
        """job_ID = max_job_count i + parent_job_id of all copies, i = 1, 2, …"""
        return [self.most * i + parent for parent in self.parents for i in range(1, self.copies + 1)]

    @property
    def are_unique(self) -> bool:
        """Whether all copies have different ids."""
        return len(set(self.ids)) == 2 * self.copies


@hypothesis("the jobs have different parent IDs")
def different(case: CopyIds) -> bool:
    """Copies of one job differ anyway."""
    return case.parents[0] != case.parents[1]


@hypothesis(r"$\mathrm{max\_job\_count}$ is at least the number of jobs, 2 here")
def counts_jobs(case: CopyIds) -> bool:
    """As the paper defines it."""
    return case.most >= 2


@hypothesis(r"$0 \le \mathrm{parent\_job\_id} < \mathrm{max\_job\_count}$ for all jobs")
def bounded(case: CopyIds) -> bool:
    """Parents are remainders by max_job_count."""
    return min(case.parents) >= 0 and max(case.parents) < case.most


def copy_id_space(*hypotheses: Hypothesis[CopyIds], parents: tuple[Fraction, ...] = integers(0, 9)) -> Space[CopyIds]:
    """Two jobs with these parent IDs, and their copies."""

    def build(numbers: CaseNumbers) -> CopyIds:
        first, second = map(int, numbers.row("parent"))
        return CopyIds(int(numbers.one("most")), (first, second), int(numbers.one("copies")))

    tables = {
        "most": TableShape(1, 1, integers(2, 6)),
        "parent": TableShape(1, 2, parents),
        "copies": TableShape(1, 1, integers(1, 5)),
    }
    return Space({}, tables, build, hypotheses=(different, counts_jobs, *hypotheses))


def unique(case: CopyIds) -> Finding:
    """Whether the IDs are unique."""
    return Finding(F(len(set(case.ids)) - len(case.ids)), f"the IDs are {', '.join(map(str, case.ids))}")


def exactly(case: CopyIds) -> Finding:
    """Unique if and only if the parents do not differ by max_job_count times 1, 2, … or copies - 1."""
    apart, rest = divmod(abs(case.parents[0] - case.parents[1]), case.most)
    expected = rest > 0 or apart >= case.copies
    words = f"unique: {case.are_unique}; parents are {apart} times max_job_count and {rest} apart"
    return Finding(F(0) if expected == case.are_unique else F(-1), words)


def same_id() -> list[Any]:
    """For z3: two copies of different jobs with the same ID, parents within bounds."""
    from z3 import Ints

    most, p, q, i, k = Ints("most p q i k")
    return [p >= 0, p < most, q >= 0, q < most, p != q, i >= 1, k >= 1, most * i + p == most * k + q]


CLAIMS = (
    Claim(
        key="hadar/job-id",
        place="section V-A",
        statement=r"All copies have unique IDs $\mathrm{job\_ID} = \mathrm{max\_job\_count} \cdot i + "
        r"\mathrm{parent\_job\_id}$, $i = 1, 2, \dots$",
        procedure=ForAll(copy_id_space(), unique),
        expected=ClaimVerdict.FALSE,
        policies=("hadare",),
        instead="hadar/job-id-bounded",
        quote=r"Each job-ID is produced by $\mathrm{job\_ID} = \mathrm{max\_job\_count} \times i + "
        r"\mathrm{parent\_job\_id}$, where max_job_count is the maximum number of jobs expected to co-exist in the "
        "$n$-node cluster and $i$ ranges from 1 to the number of forked copies for the job … With their unique "
        "job-IDs obtained from Job Tracker, all copies of the job are sent to *Hadar*",
        note=r"The paper gives no range of $\mathrm{parent\_job\_id}$; $\mathrm{max\_job\_count}$ is at least "
        r"the number of jobs in the system.",
    ),
    Claim(
        key="hadar/job-id-bounded",
        place="section V-A",
        statement=r"The IDs are unique if parents are numbers from 0 to $\mathrm{max\_job\_count} - 1$.",
        procedure=ForAll(copy_id_space(bounded, parents=integers(0, 5)), unique),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadare",),
        proof=r"""
$J i + p = J i' + q$ with $0 \le p, q < J$ implies $p = q$, the remainder of both sides by $J$, and then $i = i'$.""",
        mechanical=(by_z3("no two copies of different jobs share an ID, all integers", same_id),),
    ),
    Claim(
        key="hadar/job-id-exactly",
        place="section V-A",
        statement=r"Jobs $p$ and $q$ with $n$ copies each share an ID if and only if $|p - q|$ is "
        r"$\mathrm{max\_job\_count}$ times 1, 2, … or $n - 1$. So for $n \ge 2$ and parents $0, 1, \dots, m - 1$ "
        r"the bound is also necessary.",
        procedure=ForAll(copy_id_space(), exactly),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadare",),
        proof=r"""
$J i + p = J i' + q$ means $q - p = J (i - i')$, and the differences of $i, i' \in \{1, \dots, n\}$ are all integers
from $-(n - 1)$ to $n - 1$. With parents $0, \dots, m - 1$, $m > J$ and $n \ge 2$, those of $0$ and $J$ collide.""",
    ),
)
