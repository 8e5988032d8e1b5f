"""Spaces of a few jobs on a few GPUs, with the hypotheses of A-SRPT's lemmas as conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from hetopt.data.workload import Job, Stage
from hetopt.proofs.asrpt.placing import servers_of, staged_job
from hetopt.proofs.asrpt.schedules import USUALLY_HEAVY, Workload
from hetopt.proofs.ledger.space import Choose, Numbers, Space, Table, whole
from hetopt.proofs.small_schedules import SmallCase, SmallJob
from hetopt.stages.pipeline import Pipeline

F = Fraction
Inside = Literal["fast", "slow", "any"]
"""B_intra >= B_inter / g, below, or either."""

HEAVY = (F(1), F(3, 2), F(4))
DELAY = (F(0), F(1, 2), F(1), F(2))
PREDICTED = (F(0), F(1, 2), *whole(1, 6))

KNOWN = {"behind": F(0), "parameters": F(0), "outputs": F(1), "arrivals": F(0), "iterations": F(1)}
"""What a job has where there is no table of it; its predicted iterations are then the true ones."""


def workloads(
    where: Callable[[Workload], bool] = lambda _: True,
    *,
    jobs: tuple[int, int] = (1, 3),
    most_gpus: int = 4,
    spare: bool = True,
    inside: Inside = "fast",
    talking: bool = False,
    arriving: bool = True,
    predicted: tuple[Fraction, ...] = (),
    iterations: tuple[Fraction, ...] = (),
    delayed: bool = False,
) -> Space[Workload]:
    """Jobs for which ``where`` holds.

    Parameters
    ----------
    most_gpus:
        Of the cluster.
    spare:
        G > g_max.
    talking:
        Jobs have AllReduces and a second stage; else alpha is the same everywhere.
    arriving:
        Jobs come over time; else all at once.
    predicted, iterations:
        What these may be; without any, predictions are right, and a job has one iteration.
    delayed:
        COMM_HEAVY and tau are part of the case; else 3/2 and 0.
    """
    tables = {
        "servers": Table(1, 1, whole(1, 3)),
        "gpus": Table(1, 1, whole(1, most_gpus)),
        "replicas": Table(1, "i", whole(1, 3)),
        "seconds": Table(1, "i", whole(1, 4)),
    }
    if talking:
        tables["behind"] = Table(1, "i", whole(0, 2))
        tables["parameters"] = Table(1, "i", whole(0, 6))
        tables["outputs"] = Table(1, "i", whole(1, 6))
        tables["bandwidth"] = Table(1, 2, whole(1, 12))
    if arriving:
        tables["arrivals"] = Table(1, "i", whole(0, 4))
    if iterations:
        tables["iterations"] = Table(1, "i", iterations)
    if predicted:
        tables["predicted"] = Table(1, "i", predicted)
    if delayed:
        tables["heavy"], tables["delay"] = Table(1, 1, HEAVY), Table(1, 1, DELAY)

    def allowed(gpus: int, widest: int) -> bool:
        return widest < gpus + (not spare) and 1 <= gpus <= most_gpus

    def build(numbers: Numbers) -> Workload | None:
        widest = max(
            int(k + (numbers.row("behind")[i] if talking else 0)) for i, k in enumerate(numbers.row("replicas"))
        )
        nic, intra = numbers.row("bandwidth") if talking else (F(1), F(1))
        gpus = int(numbers.one("servers") * numbers.one("gpus"))
        agrees = {"fast": intra >= nic, "slow": intra < nic, "any": True}[inside]
        if not (allowed(gpus, widest) and agrees):
            return None
        case = made(numbers)
        return case if where(case) else None

    def choose(choose: Choose, sizes: Mapping[str, int]) -> Numbers:
        least = 1 + spare
        servers = choose([v for v in whole(1, 3) if v <= most_gpus])
        gpus = choose([v for v in whole(1, most_gpus) if least <= servers * v <= most_gpus])
        room = servers * gpus - spare
        rows: dict[str, list[Fraction]] = {name: [] for name, table in tables.items() if table.columns == "i"}
        for _ in range(sizes["i"]):
            for name in rows:
                values: tuple[Fraction, ...] | list[Fraction] = tables[name].values
                if name in ("replicas", "behind"):
                    taken = rows["replicas"][-1] if name == "behind" else 0
                    values = [v for v in values if v <= room - taken]
                rows[name].append(choose(values))
        found = {name: (tuple(row),) for name, row in rows.items()}
        found |= {"servers": ((servers,),), "gpus": ((gpus,),)}
        if talking:
            nic = choose(whole(2, 6) if inside == "slow" else whole(1, 6))
            agree = {"fast": whole(int(nic), 12), "slow": whole(1, int(nic) - 1), "any": whole(1, 12)}[inside]
            found["bandwidth"] = ((nic, choose(agree)),)
        found |= {name: ((choose(tables[name].values),),) for name in ("heavy", "delay") if delayed}
        return Numbers({name: found[name] for name in tables})

    return Space({"i": jobs}, tables, build, choose)


def made(numbers: Numbers) -> Workload:
    """The jobs and servers of such tables."""
    columns = zip(*(_column(numbers, key) for key in ("replicas", "seconds", *KNOWN)), strict=True)
    jobs = tuple(_job(i, *column) for i, column in enumerate(columns))
    iterations = _column(numbers, "iterations")
    predicted = numbers.row("predicted") if "predicted" in numbers.tables else iterations
    arrivals = _column(numbers, "arrivals")
    small = tuple(
        SmallJob(_pipeline(job.stages), r, n, told)
        for job, r, n, told in zip(jobs, arrivals, iterations, predicted, strict=True)
    )
    nic, intra = numbers.row("bandwidth") if "bandwidth" in numbers.tables else (F(1), F(1))
    free = (int(numbers.one("gpus")),) * int(numbers.one("servers"))
    heavy, delay = (
        numbers.one(key) if key in numbers.tables else usual
        for key, usual in (("heavy", USUALLY_HEAVY), ("delay", F(0)))
    )
    return Workload(SmallCase(small, servers_of(free, nic, intra)), jobs, heavy, delay)


def _column(numbers: Numbers, key: str) -> tuple[Fraction, ...]:
    return numbers.row(key) if key in numbers.tables else (KNOWN[key],) * len(numbers.row("replicas"))


def _job(i: int, k: Fraction, p: Fraction, behind: Fraction, h: Fraction, d: Fraction, r: Fraction, n: Fraction) -> Job:
    replicas = (k, behind) if behind else (k,)
    seconds, parameters, outputs = ((p, p), (h, F(0)), (d,)) if behind else ((p,), (h,), ())
    return staged_job(f"job{i + 1}", replicas, seconds, parameters, outputs, work=n, arrival=r)


@lru_cache(maxsize=4096)
def _pipeline(stages: tuple[Stage, ...]) -> Pipeline:
    """The same stages always give the same object, so that what is known of it is found again."""
    gpus = sum(stage.gpus for stage in stages)
    return Pipeline.of(Job("job", {"GPU": 1.0}, 1.0, gpus, stages=stages)).exact()
