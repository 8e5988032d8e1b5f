"""Table I: which schedulers use GPUs of several types at once, over time, and for the tasks of one job."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Any

import pandas as pd

import hetopt
from hetopt import instances
from hetopt.data.instance import Instance
from hetopt.models import gavel, hadar, hadare
from hetopt.proofs.hadar.slot_cases import SECONDS, SlotCase, SlotJob, slot_space
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import Timeline, TimelineBar
from hetopt.proofs.ledger.procedures import ByComputation, Computation, ForAll, Untestable, compare_values
from hetopt.proofs.ledger.space import Space, hypothesis, integers

F = Fraction
ROUNDS = 100
"""Maximum number of simulated rounds; all jobs finish earlier, unless they are refused."""

FREE = hetopt.Overheads(transfer=False)
Span = Mapping[Hashable, Any]
"""A row of a simulation's spans."""

Observation = Callable[[pd.DataFrame], str]
"""Describes an observed behaviour in the spans of a simulation; empty if it does not occur."""


def several_types(spans: pd.DataFrame) -> str:
    """Whether GPUs of several types are in use at once."""
    for first, second in combinations(spans.to_dict("records"), 2):
        if _at_once(first, second) and _types(first) != _types(second):
            return f"{first['gpu_type']} and {second['gpu_type']} are in use at once"
    return one_job_on_several_types(spans)


def types_over_time(spans: pd.DataFrame) -> str:
    """Whether a job runs on one set of types, and later on another."""
    for first, second in combinations(spans.to_dict("records"), 2):
        if first["job"] == second["job"] and not _at_once(first, second) and _types(first) != _types(second):
            return f"{first['job']} runs on {first['gpu_type']}, and then on {second['gpu_type']}"
    return ""


def one_job_on_several_types(spans: pd.DataFrame) -> str:
    """Whether a job runs on GPUs of several types in the same round."""
    rows = spans.to_dict("records")
    for row in rows:
        if len(_types(row)) > 1:
            return f"{row['job']} runs on {row['gpu_type']} at once"
    for first, second in combinations(rows, 2):
        if first["job"] == second["job"] and _at_once(first, second) and _types(first) != _types(second):
            return f"copies of {first['job']} run on {first['gpu_type']} and {second['gpu_type']} at once"
    return ""


def one_job_on_several_nodes(spans: pd.DataFrame) -> str:
    """Whether a job runs on GPUs of several nodes in the same round."""
    for row in spans.to_dict("records"):
        if "+" in str(row["servers"]):
            return f"{row['job']} runs on {row['servers']} at once"
    return ""


def _types(span: Span) -> frozenset[str]:
    return frozenset(str(span["gpu_type"]).split("+"))


def _at_once(first: Span, second: Span) -> bool:
    return bool(max(first["start"], second["start"]) < min(first["end"], second["end"]))


@dataclass(frozen=True)
class TableColumn:
    """A column of the table.

    Attributes
    ----------
    key, name, policy:
        Name of the scheduler in keys of claims, in texts, and in the library.
    make:
        Makes the policy.
    cases:
        Cases to search for a behaviour that the table denies.
    """

    key: str
    name: str
    policy: str
    make: Callable[[], Any]
    cases: Space[SlotCase]

    def spans(self, instance: Instance) -> pd.DataFrame:
        """The spans of a simulation with rounds of 360 s."""
        end = float(ROUNDS * SECONDS)
        return hetopt.simulate(self.make(), instance, round_seconds=float(SECONDS), until=end, overheads=FREE).spans

    def finding(self, case: SlotCase, observe: Observation) -> Finding:
        """Whether one case shows the behaviour."""
        spans = self.spans(case.instance)
        words = observe(spans)
        certificate = ("the simulator enforces capacity, gangs and arrivals",)
        return Finding(F(-1) if words else F(0), words or "not observed", certificate, (self.picture(spans),))

    def picture(self, spans: pd.DataFrame) -> Timeline:
        """Picture of the spans."""
        rows = (
            (row["servers"] or row["gpu_type"], row["start"], row["end"], row["job"]) for _, row in spans.iterrows()
        )
        bars = tuple(TimelineBar(where, F(a) / SECONDS, F(b) / SECONDS, job) for where, a, b, job in rows)
        return Timeline(self.name, bars, "rounds")

    def observed(self, instance: Instance, observe: Observation) -> Computation:
        """The observed behaviour in this instance."""
        spans = self.spans(instance)
        words = observe(spans)
        rows = (compare_values("observed", True, bool(words)),)
        return Computation(rows, f"{words} ({instance.name})", (self.picture(spans),))

    def can(
        self, row: str, instance: Callable[[], Instance], key: str = "", place: str = "Table I", note: str = ""
    ) -> Claim:
        """Claim that this instance shows a behaviour: a "yes" of the table, or with ``key`` a corrected "no"."""
        words, observe = ROWS[row]
        return Claim(
            key=f"hadar/{key or f'table-1-{self.key}-{row}'}",
            place=place,
            statement=f"{self.name} can run {words}.",
            procedure=ByComputation(lambda: self.observed(instance(), observe)),
            expected=ClaimVerdict.TRUE,
            printed=not key,
            policies=(self.policy,),
            note=f"{READ} {note}".strip(),
        )

    def cannot(
        self,
        row: str,
        expected: ClaimVerdict,
        key: str = "",
        place: str = "Table I",
        *,
        instead: str = "",
        proof: str = "",
        quote: str = "",
        note: str = "",
    ) -> Claim:
        """Claim that a behaviour never occurs: a "no" of the table."""
        words, observe = ROWS[row]
        return Claim(
            key=f"hadar/{key or f'table-1-{self.key}-{row}'}",
            place=place,
            statement=f"{self.name} never runs {words}.",
            procedure=ForAll(self.cases, lambda case: self.finding(case, observe), share=F(1, 5)),
            expected=expected,
            policies=(self.policy,),
            instead=instead,
            proof=proof,
            quote=quote,
            note=f"{READ} {note}".strip(),
        )


READ = "Decided by simulation of the library's policy, in rounds of 360 s without restarts."

ROWS: dict[str, tuple[str, Observation]] = {
    "resource": ("jobs on GPUs of several types at once (resource heterogeneity)", several_types),
    "scheduling": ("one job on different types in different rounds (scheduling heterogeneity)", types_over_time),
    "task": ("one job on GPUs of several types in the same round (task-level heterogeneity)", one_job_on_several_types),
    "nodes": ("one job on several nodes in the same round", one_job_on_several_nodes),
}


def four_of_three() -> Instance:
    """The example of section I: a job of 4 GPUs where there are 3 V100 and 3 K80."""
    job = SlotJob(4, F(4), (F(1), F(0), F(1, 2)), 0, F(1), False)
    return SlotCase((job,), ((3, 0, 0), (0, 0, 3)), 1).instance.replace(name="4 GPUs, of 3 V100 and 3 K80")


@hypothesis("every gang fits on the GPUs of one type that can run its job")
def fits_on_one_type(case: SlotCase) -> bool:
    """Gavel runs a whole gang on one type."""
    return all(
        any(v and sum(row[r] for row in case.servers) >= job.gpus for r, v in enumerate(job.speed)) for job in case.jobs
    )


TABLES = {"worth": integers(1, 1), "demand": integers(1, 2), "work": integers(1, 4), "speed": integers(0, 2)}
GAVEL = TableColumn(
    "gavel",
    "Gavel",
    "gavel-max-min",
    gavel.max_min_fairness,
    slot_space(fits_on_one_type, n=(2, 2), h=(1, 1), k=(2, 2), values=TABLES),
)
HADAR = TableColumn("hadar", "Hadar", "hadar", hadar.Hadar, slot_space(values=TABLES))
HADARE = TableColumn("hadare", "HadarE", "hadare", hadare.HadarE, slot_space(values=TABLES))


MOTIVATING = partial(instances.load, "hadar/motivating")
"""The example of section II-A."""

MIX = partial(instances.load, "hadar/lab-m3")
"""Workload mix M-3 on the laboratory's nodes."""


def untestable(key: str, name: str, why: str) -> Iterator[Claim]:
    """The claims about a scheduler whose behaviour on several GPU types is not defined here."""
    for row in ("resource", "scheduling", "task"):
        verb = "can run" if (key, row) == ("gandiva", "resource") else "never runs"
        yield Claim(
            key=f"hadar/table-1-{key}-{row}",
            place="Table I",
            statement=f"{name} {verb} {ROWS[row][0]}.",
            procedure=Untestable(why),
            expected=ClaimVerdict.UNTESTABLE,
        )


CLAIMS = (
    *untestable(
        "tiresias", "Tiresias", "Tiresias is defined for one GPU type; the paper does not state its extension."
    ),
    *untestable("gandiva", "Gandiva", "Gandiva is not among the policies of the library."),
    GAVEL.can("resource", MOTIVATING),
    GAVEL.cannot(
        "scheduling",
        ClaimVerdict.FALSE,
        instead="hadar/gavel-types-over-time",
        note=r"Gavel allocates time shares of several types, like the paper's own $Y^{Gavel}$; in its Fig. 1 (a) J2 "
        r"runs on V100 and then on P100.",
    ),
    replace(GAVEL, cases=slot_space(fits_on_one_type, n=(1, 2), values=TABLES)).cannot(
        "task",
        ClaimVerdict.TRUE,
        proof="In every round Gavel runs the whole gang of a job on one type, the type with the highest priority, or "
        "not at all.",
        note="A gang that is larger than a server runs on several nodes of one type.",
    ),
    HADAR.can("resource", MOTIVATING),
    HADAR.can("scheduling", MIX),
    HADAR.cannot(
        "task",
        ClaimVerdict.FALSE,
        instead="hadar/types-at-once",
        note="(1b) takes the slowest of several types, and section II-A has tasks of J1 on all three types.",
    ),
    HADARE.can("resource", MIX),
    HADARE.can("scheduling", MIX),
    HADARE.can("task", MIX),
    GAVEL.can("scheduling", MOTIVATING, "gavel-types-over-time"),
    HADAR.can("task", four_of_three, "types-at-once", note="The example of section I."),
    HADAR.cannot(
        "nodes",
        ClaimVerdict.FALSE,
        "one-node",
        "section V",
        instead="hadar/several-nodes",
        quote="each job is scheduled to run on at most one cluster node (i.e., machine or server) over training rounds",
        note="Line 25 of Algorithm 2 spreads a job over servers, and (1e) allows it.",
    ),
    HADAR.can("nodes", four_of_three, "several-nodes", "section V"),
)
