"""Batches of jobs like Philly's: against the laws that their parameters state, the fits, and the trace itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused
from scipy import stats

from hetopt import InvalidOption
from hetopt.traces.pai_generator import PAILike
from hetopt.traces.philly_generator import HOUR, HOURS, VIRTUAL_CLUSTERS, PhillyBatches, PhillyLike, Week
from hetopt.traces.sampling import Lengths
from hetopt.traces.trace_table import OPTIONAL, REQUIRED

DATA = Path(__file__).parents[2] / "shared" / "data"
JOBS = 200_000
PHILLY = PhillyBatches()
TABLE = PHILLY.table(JOBS, seed=7)
FIRST = TABLE.drop_duplicates("group")  # jobs of a batch are alike, those of different ones independent
RARE = 2**-20
"""Chance that a test of a random table fails though the law is right; as seeds are fixed, it does always or never."""


def widest(number: int) -> float:
    """By the inequality of Dvoretzky, Kiefer and Wolfowitz: a larger distance to the law has the chance RARE."""
    return float(np.sqrt(np.log(2 / RARE) / (2 * number)))


def distance(seconds: Any, law: Any) -> float:
    """Largest distance of the distribution of rounded seconds to a law, at the ends of whole seconds."""
    value, count = np.unique(np.asarray(seconds), return_counts=True)
    there = np.cumsum(count) / count.sum()
    return float(max(abs(there - law(value + 0.5)).max(), abs(there - count / count.sum() - law(value - 0.5)).max()))


def mixture(seconds: Any, lengths: Lengths = PHILLY.lengths) -> Any:
    """Part of the lengths that is shorter, by scipy's lognormals: all that lie between the ends, over all that do."""

    def below(x: Any) -> Any:
        return sum(w * stats.lognorm.cdf(x, s, scale=np.exp(m)) for w, m, s in lengths.parts)

    low, high = below(lengths.shortest), below(lengths.longest)
    return (below(np.clip(seconds, lengths.shortest, lengths.longest)) - low) / (high - low)


def chi_square(found: pd.Series[Any], shares: Any) -> float:
    """Chance of counts that are as far from their shares; rare ones are taken together."""
    expected = pd.Series(shares, dtype=float)
    expected *= found.sum() / expected.sum()
    assert set(found.index) <= set(expected.index)
    there, few = found.reindex(expected.index).fillna(0), expected < 20
    counts, wanted = [*there[~few]], [*expected[~few]]
    if few.any():
        counts, wanted = [*counts, there[few].sum()], [*wanted, expected[few].sum()]
    return float(stats.chisquare(counts, wanted).pvalue)


# The laws that the parameters state


def test_the_table_is_one_of_a_trace() -> None:
    assert list(TABLE.columns) == [*REQUIRED, "tenant", "group", "hour"]
    assert set(TABLE.columns) <= {*REQUIRED, *OPTIONAL}
    assert len(TABLE) == JOBS
    assert TABLE["job"].tolist() == [f"j{i + 1}" for i in range(JOBS)]
    assert TABLE["arrival"].is_monotonic_increasing
    assert TABLE["arrival"].iloc[0] == 0
    assert TABLE["gpus"].dtype == TABLE["hour"].dtype == np.int64
    assert len(TABLE[["group", "gpus", "tenant"]].drop_duplicates()) == len(FIRST), "a batch has one of each"


def test_lengths_have_their_law() -> None:
    assert TABLE["duration"].between(60, 4_628_226).all()
    assert (TABLE["duration"] == TABLE["duration"].round()).all()
    assert distance(FIRST["duration"], mixture) <= widest(len(FIRST))
    other = replace(PHILLY, lengths=Lengths(((1, 5, 1), (3, 8, 2)), shortest=100, longest=20_000), virtual_clusters={})
    table = other.table(20_000).drop_duplicates("group")
    assert distance(table["duration"], lambda x: mixture(x, other.lengths)) <= widest(len(table))
    assert distance(table["duration"], mixture) > 4 * widest(len(table)), "the distance distinguishes laws"


def test_numbers_of_gpus_and_virtual_clusters_have_their_shares() -> None:
    assert chi_square(FIRST["gpus"].value_counts(), dict(PHILLY.gpus)) > RARE
    assert chi_square(FIRST["tenant"].value_counts(), dict(VIRTUAL_CLUSTERS)) > RARE


def test_sizes_of_batches_have_their_law() -> None:
    size = TABLE.groupby("group")["job"].size()
    size = size.drop(f"b{len(size)}")  # the last is cut
    assert chi_square(size.value_counts(), {k: k**-2.383 for k in range(1, 385)}) > RARE


def test_lengths_within_a_batch_are_alike() -> None:
    """Variance within batches of jobs far from the ends, where nothing is cut; alone, jobs have that of their part."""
    one = Lengths(((1, 9, 1.5),), shortest=1, longest=1e12)
    for within, wanted in ((0.302, 0.302), (0.0, 0.0), (1.5, 1.5), (4.0, 1.5)):
        table = PhillyBatches(lengths=one, within=within, batch_exponent=0.0, largest_batch=20).table(20_000)
        log = np.log(table["duration"])
        rest = log - log.groupby(table["group"]).transform("mean")
        free = len(table) - table["group"].nunique()
        assert abs((rest**2).sum() / free - wanted**2) <= wanted**2 / 16 + 2**-10, "2**-10 for whole seconds"
        assert abs(log.groupby(table["group"]).first().std() - 1.5) <= 1 / 8


def test_jobs_of_a_batch_come_one_after_another() -> None:
    quiet = replace(PHILLY, jobs_per_hour=0.01, largest_batch=5, batch_exponent=0.0, gap_cv=0.0)
    table = quiet.table(5000)
    gaps = table.groupby("group")["arrival"].diff().dropna()
    assert stats.kstest(gaps, stats.expon(scale=5.6).cdf).statistic <= widest(len(gaps))


def test_gaps_between_batches_have_their_law() -> None:
    """Lognormal with the mean that the rate asks for and the ratio 7.58, in even weeks."""
    alone = replace(PHILLY, largest_batch=1, week=Week(), jobs_per_hour=2.0)
    gaps = np.diff(alone.table(50_000)["arrival"])
    sd = np.sqrt(np.log(1 + 7.58**2))
    law = stats.lognorm(sd, scale=HOUR / 2 / np.exp(sd**2 / 2))
    assert law.mean() == pytest.approx(HOUR / 2)
    assert law.std() / law.mean() == pytest.approx(7.58)
    assert stats.kstest(gaps, law.cdf).statistic <= widest(len(gaps))


def test_without_chance_arrivals_can_be_counted() -> None:
    even = PhillyBatches(largest_batch=1, gap_cv=0.0, week=Week(), jobs_per_hour=4.0).table(40)
    assert even["arrival"].tolist() == [900.0 * i for i in range(40)]
    assert even["hour"].tolist() == [(i + 1) // 4 % 24 for i in range(40)], "the first came a quarter after midnight"


@pytest.mark.parametrize("rate", [0.5, 9.541, 100.0])
def test_jobs_come_at_their_rate(rate: float) -> None:
    """Of 94,000 gaps with a ratio of 7.58 the mean has one of 0.025; five of them are allowed."""
    table = replace(PHILLY, jobs_per_hour=rate).table(JOBS)
    assert abs(len(table) / table["arrival"].iloc[-1] * HOUR - rate) <= rate / 8


# Weeks


def test_a_week_of_two_speeds() -> None:
    """Twice as many jobs come before noon as after it: 2/3 of the 24 parts of an even day until then."""
    week = Week(hours=(2.0,) * 12 + (1.0,) * 12)
    assert week.clock(np.array([0.0, 8.0, 16.0, 20.0, 24.0, 32.0])).tolist() == pytest.approx([0, 6, 12, 18, 24, 30])
    weekend = Week(days=(1.0,) * 5 + (2.0, 2.0))  # 9 parts: each weekday has 168 / 9 hours
    assert weekend.clock(np.array([5 * 168 / 9, 7 * 168 / 9, 168 + 168 / 9])).tolist() == pytest.approx([120, 144, 192])


@given(st.lists(st.floats(0.125, 8), min_size=31, max_size=31), st.floats(0, 1000), st.floats(0, 1000))
@settings(max_examples=60)
def test_the_clock_of_a_week_never_goes_back_and_whole_weeks_are_whole(parts: list[float], a: float, b: float) -> None:
    week = Week(hours=tuple(parts[:24]), days=tuple(parts[24:]))
    first, second, later = week.clock(np.array([min(a, b), max(a, b), min(a, b) + HOURS]))
    assert first <= second
    assert later - first == pytest.approx(HOURS)
    assert week.clock(np.array([3.0 * HOURS]))[0] == pytest.approx(3 * HOURS)


def test_hours_and_days_are_as_busy_as_stated() -> None:
    """Regular gaps, so that only the week counts: shares are right to one job of each hour's beginning."""
    table = PhillyBatches(largest_batch=1, gap_cv=0.0, jobs_per_hour=20.0).table(20 * HOURS * 50)
    busy = np.outer(PHILLY.week.days, PHILLY.week.hours)
    found = np.zeros((7, 24))
    start = 3600 * float(PHILLY.week.clock(np.array([1 / 20.0]))[0])
    day = ((table["arrival"] + start) // 86_400).astype(int) % 7
    np.add.at(found, (day, table["hour"]), 1)
    assert abs(found / len(table) - busy / busy.sum()).max() <= 2 * 50 / len(table)


# Seeds


def test_the_same_seed_gives_the_same_table() -> None:
    again = PhillyBatches().table(JOBS, seed=7)
    pd.testing.assert_frame_equal(again, TABLE)
    assert not PhillyBatches().table(100, seed=8).equals(PhillyBatches().table(100, seed=7))


CHANGES: list[tuple[dict[str, Any], set[str]]] = [
    ({"gpus": {1: 1, 3: 1}}, {"gpus"}),
    ({"lengths": Lengths(((1, 5, 1),), 1, 1000)}, {"duration"}),
    ({"within": 0.1}, {"duration"}),
    ({"virtual_clusters": {"a": 1, "b": 2}}, {"tenant"}),
    ({"gap_cv": 1.0}, {"arrival", "hour"}),
    ({"seconds_within": 1.0}, {"arrival", "hour"}),
    ({"jobs_per_hour": 1.0}, {"arrival", "hour"}),
    ({"week": Week()}, {"arrival", "hour"}),
]


@pytest.mark.parametrize(("change", "columns"), CHANGES, ids=[next(iter(c)) for c, _ in CHANGES])
def test_a_setting_changes_its_own_columns_alone(change: dict[str, Any], columns: set[str]) -> None:
    """Where arrivals change, so may the order of batches; within each its jobs stay what they are."""
    before, after = PHILLY.table(3000, 3), replace(PHILLY, **change).table(3000, 3)
    if "arrival" in columns:
        before, after = (t.sort_values(["group", "arrival"], kind="stable", ignore_index=True) for t in (before, after))
        columns = columns | {"job"}
    changed = {key for key in before.columns if not before[key].equals(after[key])}
    assert changed == columns


def test_a_longer_trace_begins_as_a_shorter_one() -> None:
    short, long = (PHILLY.table(n, 5).set_index(["group"]) for n in (500, 5000))
    whole = short.index.unique()[:-50]
    for key in ("duration", "gpus", "tenant"):
        assert short.loc[whole, key].tolist() == long.loc[whole, key].tolist()


@given(
    jobs=st.integers(1, 300),
    seed=st.integers(0, 10),
    largest=st.integers(1, 50),
    exponent=st.floats(0, 10),
    ratio=st.floats(0, 1000),
    rate=st.floats(0.01, 1e6),
    ends=st.lists(st.floats(0.5, 1e6), min_size=2, max_size=2, unique=True),
    within=st.floats(0, 10),
)
@settings(max_examples=100, deadline=None)
def test_any_settings_give_a_trace(
    jobs: int, seed: int, largest: int, exponent: float, ratio: float, rate: float, ends: list[float], within: float
) -> None:
    lengths = Lengths(((1.0, 5.0, 3.0), (2.0, 9.0, 3.0)), min(ends), max(ends))
    trace = PhillyBatches(
        lengths=lengths, within=within, batch_exponent=exponent, largest_batch=largest, gap_cv=ratio, jobs_per_hour=rate
    )
    table = trace.table(jobs, seed)
    assert len(table) == table["job"].nunique() == jobs
    assert table["arrival"].is_monotonic_increasing
    assert table["duration"].between(max(1, round(min(ends))), max(1, round(max(ends)))).all()
    assert table["group"].value_counts().max() <= largest
    assert table["hour"].between(0, 23).all()


# Fits, and the trace


def fitted() -> dict[str, Any]:
    file = DATA / "fits" / "synthetic_spec.yaml"
    if not file.exists():
        pytest.skip("the fitted parameters are not beside this checkout")
    return dict(yaml.safe_load(file.read_text()))


def test_parameters_are_the_fitted_ones() -> None:
    fit = fitted()["philly_like"]
    assert {str(n): share / 100_000 for n, share in PHILLY.gpus.items()} == pytest.approx(fit["gpu_demand_pmf"])
    lengths = fit["duration_s"]
    assert PHILLY.lengths.parts == tuple(zip(lengths["weights"], lengths["mu_ln"], lengths["sigma_ln"], strict=True))
    assert PHILLY.lengths.shortest == lengths["lower_clip"]
    come = fit["arrivals"]
    assert (PHILLY.jobs_per_hour, PHILLY.within) == (come["jobs_per_hour"], come["within_batch_sd_ln_duration"])
    assert (PHILLY.batch_exponent, PHILLY.gap_cv) == (come["batch_size"]["exponent"], come["batch_interarrival"]["cv"])
    assert list(PHILLY.week.hours) == come["hour_of_day_relative"]
    assert list(PHILLY.week.days) == come["day_of_week_relative_mon0"]


def test_parameters_of_the_other_generators_are_the_fitted_ones() -> None:
    fitted_values, philly, pai = fitted(), PhillyLike(), PAILike()
    shares = {str(n): share / 100_000 for n, share in philly.jobs.items()}
    assert shares == pytest.approx(fitted_values["philly_all"]["gpu_demand_pmf"])
    come = fitted_values["philly_all"]["arrivals"]
    assert (philly.jobs_per_hour, philly.evenness) == (come["jobs_per_hour"], come["hourly_negative_binomial"]["r"])
    fitted_values = fitted_values["pai_like"]
    (short, long), means, sds = (fitted_values["duration_s"][key] for key in ("weights", "mu_ln", "sigma_ln"))
    assert (1 - pai.long, pai.long) == pytest.approx((short, long))
    assert ([pai.short_mean, pai.long_mean], [pai.short_sd, pai.long_sd]) == (means, sds)
    again = fitted_values["recurrence"]
    assert (pai.group_exponent, pai.largest_group) == (again["group_size"]["exponent"], again["group_size"]["max"])
    assert (pai.users, pai.user_mean) == (again["users"], again["instances_per_user"]["mu_ln"])
    assert (pai.jobs_per_day, pai.single_gpu) == (
        fitted_values["arrivals"]["jobs_per_day"],
        fitted_values["gpus_per_job"]["fit"]["P(1)"],
    )


def test_lengths_and_owners_are_those_of_the_trace() -> None:
    file = DATA / "traces" / "philly_jobs.csv.gz"
    if not file.exists():
        pytest.skip("the Philly trace is not beside this checkout")
    trace = pd.read_csv(file)
    trace = trace[~trace["vc"].isin(["6214e9", "11cb48"])]
    assert trace["vc"].value_counts().to_dict() == dict(VIRTUAL_CLUSTERS)
    long = trace.loc[trace["duration_s"] >= 60, "duration_s"]
    assert round(len(long) / len(trace), 3) == 0.976
    assert distance(long, mixture) <= 0.0165, "0.0128 of the fit, and 0.003 since shorter ones are left out"


# What is wrong


@pytest.mark.parametrize(
    ("settings", "key", "match"),
    [
        ({"gpus": {0: 1}}, "a key of PhillyBatches.gpus", None),
        ({"gpus": {1: 0}}, "PhillyBatches.gpus", r"\{1: 0\}"),
        ({"gpus": {}}, "PhillyBatches.gpus", r"\{\}"),
        ({"gpus": [1]}, "PhillyBatches.gpus", r"\[1\]"),
        ({"virtual_clusters": {"": 1}}, "PhillyBatches.virtual_clusters", "''"),
        ({"virtual_clusters": {"a": -1}}, "PhillyBatches.virtual_clusters['a']", None),
        ({"lengths": 5}, "PhillyBatches.lengths", None),
        ({"week": None}, "PhillyBatches.week", None),
        ({"jobs_per_hour": 0}, "PhillyBatches.jobs_per_hour", None),
        ({"within": -1}, "PhillyBatches.within", None),
        ({"gap_cv": 2000}, "PhillyBatches.gap_cv", None),
        ({"largest_batch": 1.5}, "PhillyBatches.largest_batch", None),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], key: str | None, match: str | None) -> None:
    with refused(InvalidOption, key, match):
        PhillyBatches(**settings)


@pytest.mark.parametrize(
    ("make", "key", "match"),
    [
        (lambda: Lengths((), 1, 2), "Lengths.parts", r"\(\)"),
        (lambda: Lengths(((1, 2),), 1, 2), "Lengths.parts", r"\(1, 2\)"),  # type: ignore[arg-type]
        (lambda: Lengths(((1, 2, 0),), 1, 2), "a standard deviation of Lengths.parts", None),
        (lambda: Lengths(((1, 50, 1),), 1, 2), "Lengths.parts", "40"),
        (lambda: Lengths(((1, 2, 1),), 2, 1), "Lengths.longest", None),
        (lambda: Lengths(((0, 2, 1),), 1, 2), None, "no part"),
        (lambda: Lengths(((1, 2, 0.01),), 1e9, 2e9), None, "no part"),
        (lambda: Week(hours=(1.0,) * 23), "Week.hours", None),
        (lambda: Week(days=(0.0,) * 7), "Week.days", None),
        (lambda: PHILLY.table(0), "jobs", None),
        (lambda: PHILLY.table(5, -1), "seed", None),
    ],
)
def test_errors_name_what_else_is_wrong(make: Any, key: str | None, match: str | None) -> None:
    with refused(InvalidOption, key, match):
        make()
