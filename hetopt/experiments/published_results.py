"""Results that the four papers report for the systems, as far as :mod:`hetopt.metrics` measures them.

Each number has its place in the paper. Left out are results that need hardware or other tools (training quality, the
effect of placement on speed, times of solvers, errors of predictors), and the largest and smallest completion times of
single mixes [Hadar, Fig. 10], which no metric covers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from hetopt.checks import at_least, members
from hetopt.errors import InvalidOption
from hetopt.metrics.definitions import METRICS

Bound = Literal["", "up to"]


@dataclass(frozen=True)
class PublishedResult:
    """A number that a paper reports for one system, or for the ratio of two.

    Parameters
    ----------
    id:
        Identifier.
    paper, place, what:
        The paper, the place in it, and the meaning of the number.
    metric:
        A name in :data:`hetopt.metrics.definitions.METRICS`.
    numerator:
        Systems that may represent the reported one, by label or by name without settings.
    denominator:
        Systems that may represent the one that it is divided by; empty if the number is not a ratio.
    value:
        The number: numerator over denominator (0.83 if the paper states 17 % less), or the value. Two numbers are the
        ends of a range.
    printed:
        The number as printed in the paper.
    workloads:
        Names of the corresponding workloads; None: there is none.
    bound:
        ``"up to"`` if the paper reports the largest of several cases.
    elsewhere:
        Whether to compare it on other workloads, too.
    together:
        Whether it is a mean over all ``workloads``.
    jobs, cluster:
        Number of jobs and cluster of the paper; None: not specified.
    note:
        Other remarks.

    Raises
    ------
    InvalidOption
        An unknown metric, no system, a number that is not positive, or more than two numbers.
    """

    id: str
    paper: str
    place: str
    what: str
    metric: str
    numerator: tuple[str, ...]
    denominator: tuple[str, ...]
    value: tuple[float, ...]
    printed: str
    workloads: tuple[str, ...] | None = None
    bound: Bound = ""
    elsewhere: bool = True
    together: bool = False
    jobs: int | None = None
    cluster: str | None = None
    note: str = ""

    def __post_init__(self) -> None:
        key = f"published result {self.id}"
        if self.metric not in METRICS:
            raise InvalidOption(f"{key}: metric is {self.metric!r}; it must be one of {', '.join(METRICS)}")
        for side in ("numerator", "denominator"):
            object.__setattr__(self, side, members(getattr(self, side), str, f"{key}: {side}"))
        if not self.numerator:
            raise InvalidOption(f"{key}: numerator is empty; name at least one system")
        numbers = tuple(at_least(v, f"{key}: value", 0.0, InvalidOption, strict=True) for v in self.value)
        if len(numbers) not in (1, 2) or list(numbers) != sorted(numbers):
            raise InvalidOption(f"{key}: value is {self.value}; give one number, or two in order")
        object.__setattr__(self, "value", numbers)
        if self.together and not self.workloads:
            raise InvalidOption(f"{key}: together is True without workloads; name those of the mean")

    @property
    def is_ratio(self) -> bool:
        """Whether it is the ratio of two systems."""
        return bool(self.denominator)

    def relative(self, measured: float) -> float:
        """``measured`` over the reported value; for a range over its closer end, and 1 inside."""
        return measured / min(max(measured, self.value[0]), self.value[-1])


TIMES = "\N{MULTIPLICATION SIGN}"

FFT_GAVEL = ("gavel-sjf", "gavel")
"""Systems for Gavel in FFT: the policy that FFT names [FFT, section 6.1.4], and Gavel's default."""

TIRESIAS = ("tiresias", "tiresias-per-type")
OEF_GAVEL, OEF_GANDIVA = ("gavel-tenants",), ("gandiva-fair",)
ASRPT_BASELINES = tuple(f"asrpt-{name}" for name in ("spjf", "spwf", "wcs-duration", "wcs-workload", "wcs-subtime"))

MIXES = ("m1", "m3", "m4", "m5", "m8", "m10", "m12")
"""Workload mixes of [Hadar, section VI-B]."""

AWS = tuple(f"hadar/{mix}" for mix in MIXES)
LAB = tuple(f"hadar/lab-{mix}" for mix in MIXES)

SHARED = "ideal: 1/N of the cluster [FFT, section 2.4], since no job is below 1 with the whole cluster"
INVENTED = "the paper measured hardware; most numbers of the mixes are assumptions"
WHOLE_LOG = "over the whole log, also while tenants leave"


def _fft(
    key: str, place: str, what: str, metric: str, over: tuple[str, ...], ratio: float, **more: Any
) -> PublishedResult:
    """Another system over FFT; by default on the testbed with Trace 1."""
    printed = f"{ratio:g}{TIMES}"
    result = PublishedResult(f"FFT-{key}", "FFT", place, f"{what} over FFT", metric, over, ("fft",), (ratio,), printed)
    own: dict[str, Any] = {"workloads": ("fft-trace-1",), "jobs": 800, "cluster": "lab36"}
    return replace(result, **own | more)


def _fft_part(
    key: str, place: str, what: str, metric: str, system: tuple[str, ...], part: float, note: str
) -> PublishedResult:
    """A share of jobs or moves under one system."""
    printed = f"{100 * part:.0f} %"
    result = PublishedResult(f"FFT-{key}", "FFT", place, what, metric, system, (), (part,), printed, note=note)
    return replace(result, workloads=("fft-trace-1",), jobs=800, cluster="lab36")


_TRACE_2: dict[str, Any] = {"workloads": ("fft-trace-2",), "elsewhere": False}
_TWO: dict[str, Any] = {"workloads": ("fft-trace-1", "fft-trace-2")}
_SIX_SEVEN = ("fft-trace-6", "fft-trace-7")
_LARGE: dict[str, Any] = {"workloads": _SIX_SEVEN, "jobs": None, "cluster": None, "elsewhere": False}
_MOST: dict[str, Any] = {"bound": "up to"}
_FTF: dict[str, Any] = {"note": SHARED}
_FIG_7, _FIG_8A, _FIG_8B = "section 6.2.1, Fig. 7", "section 6.2.2, Fig. 8(a)", "section 6.2.2, Fig. 8(b)"
_FIG_9, _FIG_10A, _FIG_10B = "section 6.2.2, Fig. 9(b)", "section 6.2.3, Fig. 10(a)", "section 6.2.3, Fig. 10(b)"
_FIG_11, _FIG_12 = "section 6.3.1, Fig. 11", "section 6.3.2, Fig. 12"
_BELOW, _HIGHER = "Share of jobs with a finish-time fairness below 1", "Share of moves towards faster GPUs"
_LONGEST, _FREQUENCY = "starvation_max", "switches_per_hour"
_FASTER = "faster for the job; the paper writes higher-end"

FFT = (
    _fft("026a", _FIG_7, "JCT of Gavel, Trace 1,", "jct_mean", FFT_GAVEL, 1.46),
    _fft("026b", _FIG_7, "JCT of Gavel, Trace 2,", "jct_mean", FFT_GAVEL, 1.37, **_TRACE_2),
    _fft("027", _FIG_7, "JCT of PAL", "jct_mean", ("pal",), 2.11, **_TWO),
    _fft("028", _FIG_7, "JCT of Tiresias", "jct_mean", TIRESIAS, 3.15, **_TWO | _MOST),
    _fft("029", _FIG_7, "JCT of AlloX, Trace 1,", "jct_mean", ("allox",), 5.22, **_MOST),
    _fft("030a", _FIG_7, "Makespan of Gavel", "makespan", FFT_GAVEL, 3.12, **_TWO | _MOST),
    _fft("030b", _FIG_7, "Makespan of PAL", "makespan", ("pal",), 3.12, **_TWO | _MOST),
    _fft("030c", _FIG_7, "Makespan of Tiresias", "makespan", TIRESIAS, 3.12, **_TWO | _MOST),
    _fft("030d", _FIG_7, "Makespan of AlloX", "makespan", ("allox",), 3.12, **_MOST),
    _fft_part("031a", _FIG_8A, f"{_BELOW}, FFT", "ftf_themis_below_1", ("fft",), 0.7, SHARED),
    _fft_part("031b", _FIG_8A, f"{_BELOW}, Gavel", "ftf_themis_below_1", FFT_GAVEL, 0.38, SHARED),
    _fft_part("031c", _FIG_8A, f"{_BELOW}, Tiresias", "ftf_themis_below_1", TIRESIAS, 0.49, SHARED),
    _fft("032a", _FIG_8B, "Mean finish-time fairness of Gavel", "ftf_themis_mean", FFT_GAVEL, 1.64, **_FTF),
    _fft("032b", _FIG_8B, "Mean finish-time fairness of Tiresias", "ftf_themis_mean", TIRESIAS, 1.67, **_FTF),
    _fft("033a", _FIG_8B, "Largest finish-time fairness of Gavel", "ftf_themis_max", FFT_GAVEL, 1.4, **_FTF),
    _fft("033b", _FIG_8B, "Largest finish-time fairness of Tiresias", "ftf_themis_max", TIRESIAS, 2.18, **_FTF),
    _fft("034a", _FIG_9, "Longest starvation of Gavel", _LONGEST, FFT_GAVEL, 2.03, **_MOST),
    _fft("034b", _FIG_9, "Longest starvation of Tiresias", _LONGEST, TIRESIAS, 6.35, **_MOST),
    _fft_part("035a", _FIG_10A, f"{_HIGHER}, FFT", "beneficial", ("fft",), 0.63, _FASTER),
    _fft_part("035b", _FIG_10A, f"{_HIGHER}, Gavel", "beneficial", FFT_GAVEL, 0.49, _FASTER),
    _fft("036", _FIG_10B, "Switches per job and hour of Gavel", _FREQUENCY, FFT_GAVEL, 1.46),
    _fft("041a", _FIG_11, "JCT of Gavel, large scale,", "jct_mean", FFT_GAVEL, 1.74, **_LARGE | _MOST),
    _fft("041b", _FIG_11, "JCT of PAL, large scale,", "jct_mean", ("pal",), 2.38, **_LARGE | _MOST),
    _fft("041c", _FIG_11, "JCT of Tiresias, large scale,", "jct_mean", TIRESIAS, 3.88, **_LARGE | _MOST),
    _fft(
        "042a",
        _FIG_12,
        "Mean fairness of Gavel, large scale,",
        "ftf_themis_mean",
        FFT_GAVEL,
        2.19,
        **_LARGE | _MOST | _FTF,
    ),
    _fft(
        "042b",
        _FIG_12,
        "Mean fairness of Tiresias, large scale,",
        "ftf_themis_mean",
        TIRESIAS,
        2.48,
        **_LARGE | _MOST | _FTF,
    ),
    _fft(
        "043a",
        _FIG_12,
        "Largest fairness of Gavel, large scale,",
        "ftf_themis_max",
        FFT_GAVEL,
        1.99,
        **_LARGE | _MOST | _FTF,
    ),
    _fft(
        "043b",
        _FIG_12,
        "Largest fairness of Tiresias, large scale,",
        "ftf_themis_max",
        TIRESIAS,
        2.52,
        **_LARGE | _MOST | _FTF,
    ),
)


def _oef(
    key: str, place: str, what: str, metric: str, oef: str, baseline: tuple[str, ...], gain: float, note: str = ""
) -> PublishedResult:
    """OEF over a baseline, which the paper gives as a gain (above 0) or a reduction (below 0)."""
    systems = tuple(f"oef-{mode}" for mode in oef.split())
    printed = f"{100 * abs(gain):.0f} % {'more' if gain > 0 else 'less'}"
    workload = "oef-fifty-tenants" if key[:3] in ("038", "039") else "oef-twenty-tenants"
    return PublishedResult(
        f"OEF-{key}",
        "OEF",
        place,
        what,
        metric,
        systems,
        baseline,
        (1 + gain,),
        printed,
        workloads=(workload,),
        note=note,
    )


_NON, _CO, _BOTH = "noncooperative", "cooperative", "cooperative noncooperative"
_O7, _O8, _O9 = "section 6.3.1, Fig. 7", "section 6.3.1, Fig. 8", "section 6.3.2, Fig. 9"
_TENANTS_20, _TENANTS_50 = WHOLE_LOG, "50 tenants with 20 jobs each in the paper"

OEF = (
    replace(_oef("035a", _O7, "Throughput over Gavel", "throughput", _NON, OEF_GAVEL, 0.1, _TENANTS_20), bound="up to"),
    replace(
        _oef("035b", _O7, "Throughput over Gandiva_fair", "throughput", _NON, OEF_GANDIVA, 0.1, _TENANTS_20),
        bound="up to",
    ),
    _oef("036a", _O8, "Estimated throughput over Gavel", "throughput_estimated", _CO, OEF_GAVEL, 0.2, _TENANTS_20),
    _oef(
        "036b",
        _O8,
        "Estimated throughput over Gandiva_fair",
        "throughput_estimated",
        _CO,
        OEF_GANDIVA,
        0.2,
        _TENANTS_20,
    ),
    _oef("037a", _O8, "Throughput over Gavel", "throughput", _CO, OEF_GAVEL, 0.32, _TENANTS_20),
    _oef("037b", _O8, "Throughput over Gandiva_fair", "throughput", _CO, OEF_GANDIVA, 0.32, _TENANTS_20),
    _oef("038a", _O9, "JCT over Gandiva_fair", "jct_mean", _BOTH, OEF_GANDIVA, -0.17, _TENANTS_50),
    _oef("038b", _O9, "JCT over Gavel", "jct_mean", _BOTH, OEF_GAVEL, -0.19, _TENANTS_50),
    _oef("039a", "section 6.3.3", "Straggling workers over Gandiva_fair", "stragglers", _BOTH, OEF_GANDIVA, -0.14),
    _oef("039b", "section 6.3.3", "Straggling workers over Gavel", "stragglers", _BOTH, OEF_GAVEL, -0.26),
)


def _hadar(
    key: str, place: str, what: str, metric: str, above: str, below: str, ratio: float, **more: Any
) -> PublishedResult:
    """One system over another."""
    pair = tuple(above.split()), tuple(below.split())
    result = PublishedResult(f"HADAR-{key}", "Hadar", place, what, metric, *pair, (ratio,), f"{ratio:g}{TIMES}")
    own: dict[str, Any] = {"workloads": ("hadar/trace480",), "jobs": 480}
    return replace(result, **own | more)


def _mixes(workloads: tuple[str, ...], note: str = "") -> dict[str, Any]:
    """On these mixes only; the mean of several."""
    text = f"{note}; {INVENTED}" if note else INVENTED
    many = len(workloads) > 1
    return {"workloads": workloads, "jobs": None, "elsewhere": False, "together": many, "note": text}


def _seconds(key: str, system: str, seconds: float, workload: str) -> PublishedResult:
    """A total time duration in seconds."""
    result = _hadar(key, "section VI-C, Fig. 9", f"TTD of M-5, {system.capitalize()}", "makespan", system, "", seconds)
    return replace(result, printed=f"{seconds:g} s", **_mixes((workload,)))


_WHICH = "the paper does not state the cluster"
_F4, _F8, _F9, _F10 = "section IV-C, Fig. 4", "section VI-C, Fig. 8", "section VI-C, Fig. 9", "section VI-C, Fig. 10"
_MEDIAN: dict[str, Any] = {"note": "all jobs arrive at once, so the median JCT is the time of the first half"}

HADAR = (
    _hadar("017a", _F4, "TTD of YARN-CS over Hadar", "makespan", "yarn-cs", "hadar", 1.67),
    _hadar("017b", _F4, "TTD of Tiresias over Hadar", "makespan", "tiresias", "hadar", 1.35),
    _hadar("017c", _F4, "TTD of Gavel over Hadar", "makespan", "gavel", "hadar", 1.21),
    _hadar("018a", _F4, "Median time of Gavel over Hadar", "jct_median", "gavel", "hadar", 1.2, **_MEDIAN),
    _hadar("018b", _F4, "Median time of Tiresias over Hadar", "jct_median", "tiresias", "hadar", 1.4, **_MEDIAN),
    _hadar("031a", _F8, "CRU of Hadar over Gavel, AWS", "cru", "hadar", "gavel", 1.2, **_mixes(AWS)),
    _hadar("031b", _F8, "CRU of Hadar over Gavel, laboratory", "cru", "hadar", "gavel", 1.21, **_mixes(LAB)),
    _hadar("032a", _F8, "CRU of HadarE over Gavel, AWS", "cru", "hadare", "gavel", 1.56, **_mixes(AWS)),
    _hadar("032b", _F8, "CRU of HadarE over Gavel, laboratory", "cru", "hadare", "gavel", 1.62, **_mixes(LAB)),
    _seconds("033a", "gavel", 4200.0, "hadar/m5"),
    _seconds("033b", "hadar", 3900.0, "hadar/m5"),
    _seconds("034a", "gavel", 3300.0, "hadar/lab-m5"),
    _seconds("034b", "hadar", 2800.0, "hadar/lab-m5"),
    _hadar("035a", _F9, "TTD of Gavel over Hadar, AWS", "makespan", "gavel", "hadar", 1.17, **_mixes(AWS)),
    _hadar("035b", _F9, "TTD of Gavel over Hadar, laboratory", "makespan", "gavel", "hadar", 1.16, **_mixes(LAB)),
    _hadar("036a", _F9, "TTD of Hadar over HadarE, AWS", "makespan", "hadar", "hadare", 1.79, **_mixes(AWS, _WHICH)),
    _hadar("036b", _F9, "TTD of Gavel over HadarE, AWS", "makespan", "gavel", "hadare", 2.12, **_mixes(AWS, _WHICH)),
    _hadar(
        "036c", _F9, "TTD of Hadar over HadarE, laboratory", "makespan", "hadar", "hadare", 1.79, **_mixes(LAB, _WHICH)
    ),
    _hadar(
        "036d", _F9, "TTD of Gavel over HadarE, laboratory", "makespan", "gavel", "hadare", 2.12, **_mixes(LAB, _WHICH)
    ),
    _hadar(
        "037a", _F10, "JCT of Gavel over Hadar, M-5, AWS", "jct_mean", "gavel", "hadar", 1.23, **_mixes(("hadar/m5",))
    ),
    _hadar(
        "037b",
        _F10,
        "JCT of Gavel over Hadar, M-5, laboratory",
        "jct_mean",
        "gavel",
        "hadar",
        1.43,
        **_mixes(("hadar/lab-m5",)),
    ),
    _hadar("039a", _F10, "JCT of Gavel over Hadar, AWS", "jct_mean", "gavel", "hadar", 1.17, **_mixes(AWS)),
    _hadar("039b", _F10, "JCT of Gavel over Hadar, laboratory", "jct_mean", "gavel", "hadar", 1.23, **_mixes(LAB)),
    _hadar("040a", _F10, "JCT of Gavel over HadarE, AWS", "jct_mean", "gavel", "hadare", 2.23, **_mixes(AWS)),
    _hadar("040b", _F10, "JCT of Gavel over HadarE, laboratory", "jct_mean", "gavel", "hadare", 2.76, **_mixes(LAB)),
)


def _asrpt(key: str, place: str, what: str, least: float, most: float, note: str) -> PublishedResult:
    """A-SRPT over its baselines, by the range in which its reductions lie."""
    ratios, printed = (1 - most, 1 - least), f"{100 * least:.0f} to {100 * most:.0f} % less"
    systems = ("asrpt",), ASRPT_BASELINES
    return PublishedResult(
        f"ASRPT-{key}", "A-SRPT", place, what, "total_flow", *systems, ratios, printed, ("pai-like",), note=note
    )


_TOTAL = "Total JCT of A-SRPT over a baseline"

ASRPT = (
    _asrpt("017", "section V-B, Fig. 6", _TOTAL, 0.31, 0.91, "37 500 to 150 000 jobs on 2000 GPUs in the paper"),
    _asrpt(
        "018",
        "section V-B, Fig. 7",
        f"{_TOTAL}, 80 to 0 % of the jobs on one GPU",
        0.16,
        0.57,
        "75 000 jobs on 2000 GPUs in the paper",
    ),
)

PUBLISHED_RESULTS: tuple[PublishedResult, ...] = (*FFT, *OEF, *HADAR, *ASRPT)
"""All results, by paper."""
