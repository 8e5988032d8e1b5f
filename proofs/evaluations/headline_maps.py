"""The headline claims of the four papers as maps.

Jobs are generated, so that load, demands and lengths can be set: for A-SRPT like PAI's, with networks in pipeline
stages (:class:`~hetopt.proofs.evaluations.recurring.Recurring`); for the other papers like Gavel's, with models of the
paper's catalogue drawn for them (:class:`~hetopt.traces.gavel_generator.GavelLike`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hetopt.decisions.rounders import RESET_SECONDS
from hetopt.experiments.environment_settings import EnvironmentSettings
from hetopt.experiments.experiment import Experiment, SystemVariant
from hetopt.experiments.trace_workload import TraceWorkload
from hetopt.proofs.evaluations import asrpt_evaluation, fft_evaluation, hadar_evaluation, oef_evaluation
from hetopt.proofs.evaluations.claim_maps import ClaimMaps, Headline, MapAxis, Point, Reading
from hetopt.proofs.evaluations.recurring import Recurring, RecurringTrace
from hetopt.registry import find_instance
from hetopt.traces.conversion import Tenants
from hetopt.traces.gavel_generator import GPUS

LOAD = MapAxis("load", "offered load", "the load is {}", (0.5, 0.7, 0.9, 1.1), 0.9)
"""GPU-seconds of the jobs over those of the cluster between the first and the last arrival."""

SINGLE = MapAxis("single", "jobs on one GPU", "{} of the jobs use one GPU", (0.0, 0.35, 0.7), 0.7, percent=True)

LONG = MapAxis("long", "long jobs", "{} of the jobs are long", (0.0, 0.2, 0.4), 0.2, percent=True)
"""Fraction of long jobs, see :data:`LENGTHS`."""

LENGTHS = {"short": (1.0, 2.5), "long": (2.5, 3.5)}
"""Powers of ten of the minutes: a third of Gavel's lengths, so that a map takes minutes."""

ERROR = MapAxis("error", "error of estimates", "estimates are wrong by {}", (0.0, 0.3, 0.9), 0.0, percent=True)
"""Uniform errors of up to this fraction, of lengths and, for OEF, of speeds."""


def _restart(usual: float) -> MapAxis:
    return MapAxis("restart", "seconds of a restart", "a restart takes {} s", tuple(sorted({0.0, usual, 120.0})), usual)


def _round(usual: float) -> MapAxis:
    return MapAxis("round", "seconds of a round", "rounds take {} s", (120.0, usual, 900.0), usual)


def _environment(base: EnvironmentSettings, point: Point) -> EnvironmentSettings:
    return replace(base, restart_seconds=point["restart"], work_error=point["error"])


def _gavel_like(point: Point, jobs: int, cluster: str, tenants: Tenants | None) -> TraceWorkload:
    """Jobs with the point's demands, lengths and load; demands above one GPU keep Gavel's proportions."""
    several = {gpus: part for gpus, part in GPUS.items() if gpus > 1}
    rest = 1.0 - point["single"]
    gpus = {1: point["single"], **{n: rest * part / sum(several.values()) for n, part in several.items()}}
    return TraceWorkload(
        "gavel-like",
        cluster,
        jobs,
        load=point["load"],
        tenants=tenants,
        unknown_models="draw",
        settings={"gpus": {n: part for n, part in gpus.items() if part > 0}, "long_share": point["long"], **LENGTHS},
    )


def _gpus(cluster: str) -> str:
    capacity = find_instance(cluster).cluster.capacity
    return f"{sum(capacity.values())} GPUs: {', '.join(f'{n} {gpu}' for gpu, n in capacity.items())}."


def _hours(kind: str) -> str:
    return " to ".join(f"{10**power / 60:.2g}" for power in LENGTHS[kind])


COMMON = (
    f"Jobs like those of Gavel's simulations, with models of the paper's catalogue. Long jobs take {_hours('long')} "
    f"hours, others {_hours('short')}, which is a third of Gavel's.",
    "Load: GPU-seconds of the jobs over those of the cluster between the first and the last arrival.",
    "Estimates have uniform errors of up to the stated fraction.",
)

# A-SRPT

NETWORK = MapAxis("nic", "network cards, Gbit/s", "network cards have {} Gbit/s", (1.0, 10.0, 100.0), 10.0)
TAIL = MapAxis("tail", "power of durations", "durations have a power of {}", (0.7, 1.0, 1.3), 1.0)
DELAY = MapAxis("tau", "delay tau", "tau is {}", asrpt_evaluation.DELAYS, 1.0)
PREDICTED = replace(ERROR, usual=0.3, title="error of predictions", phrase="predictions are wrong by {}")

STRICT, FILLING = (asrpt_evaluation.SPJF, asrpt_evaluation.SPWF), asrpt_evaluation.CONSERVING
CHOICES = {"least-available": "the least available servers", "by-communication": "servers chosen as by A-SRPT"}
SERVERS, LATER = 16, 5


def _asrpt(point: Point, jobs: int, seeds: tuple[int, ...]) -> Experiment:
    trace = RecurringTrace(LATER * jobs, single_gpu=point["single"], tail=point["tail"])
    workload = Recurring(
        jobs, trace, servers=SERVERS, nic_gbps=point["nic"], wrong=point["error"], load=point["load"], name="map"
    )
    baselines = (
        SystemVariant(name, {"predictor": "perfect", "servers": servers}, label=f"{name}, {servers}")
        for name in (*STRICT, *FILLING)
        for servers in CHOICES
    )
    ours = SystemVariant("asrpt", {"predictor": "perfect", "delay": point["tau"]}, label="asrpt")
    return Experiment((workload,), (ours, *baselines), seeds)


ASRPT = ClaimMaps(
    "A-SRPT",
    LOAD,
    (SINGLE, TAIL, NETWORK, PREDICTED, DELAY),
    (
        Headline(
            ("ASRPT-017", "ASRPT-018"),
            "31 to 91 % less total completion time than each baseline",
            "A-SRPT",
            "the best baseline",
            "total_flow",
            {
                f"{how}, {text}": Reading("asrpt", tuple(f"{name}, {servers}" for name in names))
                for servers, text in CHOICES.items()
                for how, names in (("strict order", STRICT), ("backfilling", FILLING))
            },
            (0.09, 0.69),
        ),
    ),
    _asrpt,
    300,
    (
        f"Jobs like PAI's, with the paper's networks, on {SERVERS} servers of 8 GPUs. Load: GPU-seconds of the jobs, "
        "each on the fewest servers, over those of the cluster between the first and the last arrival.",
        "A power above 1 makes the tail of the durations heavier; their median stays.",
        "Predictions are the truth with uniform errors of up to the stated fraction. tau is A-SRPT's delay.",
        "Strict order: SPJF and SPWF; backfilling: the three WCS. The best of them counts.",
    ),
)

# FFT

FFT_CLUSTER = "lab36"

GAVEL_FILL, GAVEL_IDLE = "gavel-sjf", "gavel-sjf, not filled"
PAL_FILL, PAL_STRICT = "pal", "pal, strict"


def _fft(point: Point, jobs: int, seeds: tuple[int, ...]) -> Experiment:
    seconds = point["round"]
    rounds = {"round_seconds": seconds}
    systems = (
        SystemVariant("fft", {**rounds, "restart_seconds": point["restart"]}, label="fft"),
        SystemVariant("gavel-sjf", rounds, label=GAVEL_FILL),
        SystemVariant("gavel-sjf", {**rounds, "fill": False}, label=GAVEL_IDLE),
        SystemVariant("pal", rounds, label=PAL_FILL),
        SystemVariant("pal", {**rounds, "backfill": False}, label=PAL_STRICT),
        SystemVariant("tiresias-per-type", label="tiresias-per-type", round_seconds=seconds),
        SystemVariant(
            "tiresias", {"per_type": "least-service", "order": "remaining"}, label="srstf", round_seconds=seconds
        ),
    )
    workload = _gavel_like(point, jobs, FFT_CLUSTER, None)
    return Experiment((workload,), systems, seeds, _environment(fft_evaluation.ENVIRONMENT, point))


def _faster(
    claim: str, name: str, baseline: str, factor: float, metric: str, readings: Mapping[str, Reading]
) -> Headline:
    what = "mean completion time" if metric == "jct_mean" else "total time"
    return Headline(
        (claim,),
        f"{what} of {baseline} {factor:g} times that of {name}",
        name,
        baseline,
        metric,
        readings,
        (1 / factor,),
    )


FFT = ClaimMaps(
    "FFT",
    LOAD,
    (SINGLE, LONG, _restart(34.0), _round(300.0), ERROR),
    (
        _faster(
            "FFT-026",
            "FFT",
            "Gavel",
            1.46,
            "jct_mean",
            {"idle GPUs filled": Reading("fft", (GAVEL_FILL,)), "not filled": Reading("fft", (GAVEL_IDLE,))},
        ),
        _faster(
            "FFT-027",
            "FFT",
            "PAL",
            2.11,
            "jct_mean",
            {"backfilling": Reading("fft", (PAL_FILL,)), "strict order": Reading("fft", (PAL_STRICT,))},
        ),
        _faster(
            "FFT-028",
            "FFT",
            "Tiresias",
            3.15,
            "jct_mean",
            {
                "a random queue of a type": Reading("fft", ("tiresias-per-type",)),
                "the queue with the least service, shortest first": Reading("fft", ("srstf",)),
            },
        ),
    ),
    _fft,
    100,
    (_gpus(FFT_CLUSTER), *COMMON),
)

# OEF

COOPERATIVE = "oef-cooperative"
SHARING = ("gavel-tenants", "gandiva-fair")
PLACES: Mapping[str, Mapping[str, Any]] = {
    "first free servers": {"placer": "first-free"},
    "OEF's servers": {},
    "lending": {"lend": True},
}


def _oef(point: Point, jobs: int, seeds: tuple[int, ...]) -> Experiment:
    common = {"mix": True, "round_seconds": point["round"]}
    systems = [
        SystemVariant(name, {**common, **own}, label=f"{name}, {how}")
        for how, own in PLACES.items()
        for name in SHARING
    ]
    systems += [
        SystemVariant(COOPERATIVE, common, label=COOPERATIVE),
        SystemVariant(COOPERATIVE, {**common, "lend": True}, label=f"{COOPERATIVE}, lending"),
    ]
    workload = _gavel_like(point, jobs, oef_evaluation.CLUSTER, "models")
    environment = replace(_environment(oef_evaluation.ENVIRONMENT, point), throughput_error=point["error"])
    return Experiment((workload,), tuple(systems), seeds, environment)


def _oef_headline(claim: str, baseline: str, name: str, less: float) -> Headline:
    readings = {
        how: Reading(f"{COOPERATIVE}, lending" if how == "lending" else COOPERATIVE, (f"{name}, {how}",))
        for how in PLACES
    }
    title = f"mean completion time {100 * less:g} % less than that of {baseline}"
    return Headline((claim,), title, "Cooperative OEF", baseline, "jct_mean", readings, (1 - less,))


OEF = ClaimMaps(
    "OEF",
    LOAD,
    (SINGLE, LONG, _restart(0.0), _round(300.0), ERROR),
    (
        _oef_headline("OEF-038", "Gavel", "gavel-tenants", 0.19),
        _oef_headline("OEF-038", "Gandiva_fair", "gandiva-fair", 0.17),
    ),
    _oef,
    100,
    (_gpus(oef_evaluation.CLUSTER), "The jobs of a model are a tenant.", *COMMON),
)

# Hadar

HADAR_CLUSTER = "hadar/cluster60"


def _hadar(point: Point, jobs: int, seeds: tuple[int, ...]) -> Experiment:
    seconds = point["round"]
    rounds = {"round_seconds": seconds}
    systems = (
        SystemVariant("hadar", rounds, label="hadar"),
        SystemVariant("gavel", rounds, label="gavel"),
        SystemVariant("gavel", {**rounds, "allocation_seconds": RESET_SECONDS}, label="gavel, waiting"),
        SystemVariant("tiresias", rounds, label="tiresias"),
        SystemVariant("yarn-cs", label="yarn-cs"),
        SystemVariant("yarn-cs", {"backfill": True}, label="yarn-cs, backfilling"),
    )
    workload = _gavel_like(point, jobs, HADAR_CLUSTER, None)
    environment = _environment(hadar_evaluation.ENVIRONMENT, point)
    restart = environment.restart_seconds
    return Experiment((workload,), systems, seeds, replace(environment, resume_seconds=restart, start_seconds=restart))


def _hadar_headlines() -> tuple[Headline, ...]:
    readings = {
        "Gavel": {
            "new jobs start at once": Reading("hadar", ("gavel",)),
            "new jobs wait as in Gavel's simulator": Reading("hadar", ("gavel, waiting",)),
        },
        "Tiresias": {"": Reading("hadar", ("tiresias",))},
        "YARN": {
            "strict order": Reading("hadar", ("yarn-cs",)),
            "backfilling": Reading("hadar", ("yarn-cs, backfilling",)),
        },
    }
    factors = {"Gavel": 1.21, "Tiresias": 1.35, "YARN": 1.67}
    return tuple(_faster("HADAR-017", "Hadar", name, factors[name], "makespan", own) for name, own in readings.items())


HADAR = ClaimMaps(
    "Hadar",
    LOAD,
    (SINGLE, LONG, _restart(10.0), _round(360.0), ERROR),
    _hadar_headlines(),
    _hadar,
    150,
    (_gpus(HADAR_CLUSTER), "Starting and resuming a job take as long as a restart.", *COMMON),
)

MAPS = {"fft": FFT, "oef": OEF, "hadar": HADAR, "asrpt": ASRPT}
"""Paper -> its maps."""
