"""Traces of papers: Gavel's generator against its own law, FFT's nine against what the paper says of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from refused import refused
from scipy import stats

from hetopt import HetoptError, InvalidOption
from hetopt.plugins import GENERATORS
from hetopt.registry import generator_names, make_generator
from hetopt.traces.acme_generator import AcmeLike
from hetopt.traces.alibaba_spot_generator import AlibabaSpotLike
from hetopt.traces.fft_generator import FAMILIES, SETTINGS, FFTTrace
from hetopt.traces.gavel_generator import JOB_TYPES, ON_SEVERAL_GPUS, GavelLike
from hetopt.traces.hadar_generator import HadarJobs
from hetopt.traces.pai_generator import PAILike
from hetopt.traces.philly_generator import HOUR, PhillyBatches, PhillyLike
from hetopt.traces.sampling import Generator
from hetopt.traces.trace_table import OPTIONAL, REQUIRED

DATA = Path(__file__).parents[2] / "shared" / "data"
JOBS = 50_000
GAVEL = GavelLike().table(JOBS, seed=3)
RARE = 2**-20
"""Chance that a test of a random table fails though the law is right; as seeds are fixed, it does always or never."""
WIDEST = float(np.sqrt(np.log(2 / RARE) / (2 * JOBS)))
"""By the inequality of Dvoretzky, Kiefer and Wolfowitz."""


def data(*path: str) -> Path:
    file = DATA.joinpath(*path)
    if not file.exists():
        pytest.skip(f"{path[-1]} is not beside this checkout")
    return file


# Gavel


def test_gavels_lengths_have_their_law() -> None:
    """Of the logarithm of minutes: 0.8 even between 1.5 and 3, 0.2 even between 3 and 4."""
    powers = np.log10(GAVEL["duration"] / 60)
    law = lambda x: 0.8 * np.clip((x - 1.5) / 1.5, 0, 1) + 0.2 * np.clip(x - 3, 0, 1)  # noqa: E731
    assert stats.kstest(powers, law).statistic <= WIDEST
    assert GAVEL["duration"].between(60 * 10**1.5, 60 * 10**4).all()


def test_gavels_jobs_come_by_poisson() -> None:
    gaps = np.diff(GAVEL["arrival"])
    assert GAVEL["arrival"].iloc[0] == 0
    assert stats.kstest(gaps, stats.expon(scale=HOUR / 1.5).cdf).statistic <= WIDEST
    assert (GavelLike(jobs_per_hour=None).table(100)["arrival"] == 0).all(), "static traces"


def test_gavels_gpus_and_models_have_their_shares() -> None:
    expected = np.array([0.7, 0.1, 0.15, 0.05]) * JOBS
    assert stats.chisquare(GAVEL["gpus"].value_counts().sort_index(), expected).pvalue > RARE
    assert (len(JOB_TYPES), len(ON_SEVERAL_GPUS)) == (26, 19)
    one, more = (GAVEL.loc[those, "model"].value_counts() for those in (GAVEL["gpus"] == 1, GAVEL["gpus"] > 1))
    assert set(one.index) == set(JOB_TYPES)
    assert set(more.index) == ON_SEVERAL_GPUS
    assert stats.chisquare(one).pvalue > RARE
    assert stats.chisquare(more).pvalue > RARE


def test_gavels_job_types_are_those_that_it_measured() -> None:
    table = pd.read_csv(data("throughput", "gavel_throughputs.csv"))
    assert set(table["job_type"]) == set(JOB_TYPES)
    assert set(table.loc[table["scale_factor"] > 1, "job_type"]) == ON_SEVERAL_GPUS


def test_gavels_parameters_are_the_published_ones() -> None:
    published = yaml.safe_load(data("fits", "synthetic_spec.yaml").read_text())["gavel_form"]
    assert {str(n): share / 100 for n, share in GavelLike().gpus.items()} == published["gpu_demand_pmf"]
    short, long = GavelLike().short, GavelLike().long
    wanted = f"10**U({short[0]:g},{short[1]:g}) w.p. {1 - GavelLike().long_share:g} else 10**U({long[0]:g},{long[1]:g})"
    assert published["duration_minutes"] == wanted


GAVEL_CHANGES: list[tuple[dict[str, Any], set[str]]] = [
    ({"jobs_per_hour": 9.0}, {"arrival"}),
    ({"gpus": {2: 1, 8: 1}}, {"gpus", "model"}),
    ({"short": (1, 2)}, {"duration"}),
    ({"long_share": 0.9}, {"duration"}),
    ({"models": {"LM (batch size 5)": 1}}, {"model"}),
]


@pytest.mark.parametrize(("change", "columns"), GAVEL_CHANGES, ids=[next(iter(c)) for c, _ in GAVEL_CHANGES])
def test_a_setting_of_gavels_changes_its_own_columns_alone(change: dict[str, Any], columns: set[str]) -> None:
    before, after = GavelLike().table(500, 1), replace(GavelLike(), **change).table(500, 1)
    assert {key for key in before.columns if not before[key].equals(after[key])} == columns


@pytest.mark.parametrize(
    ("settings", "key", "match"),
    [
        ({"jobs_per_hour": 0}, "GavelLike.jobs_per_hour", None),
        ({"gpus": {}}, "GavelLike.gpus", None),
        ({"models": {}}, "GavelLike.models", "empty"),
        ({"models": {"A3C": 1}}, "GavelLike.models", "trains.*GPUs"),
        ({"short": 5}, "GavelLike.short", None),
        ({"long": (3, 2)}, "GavelLike.long", ">= 3"),
        ({"long": (3, 11)}, "GavelLike.long", "above 10"),
        ({"long_share": 1.5}, "GavelLike.long_share", None),
    ],
)
def test_bad_settings_of_gavels_are_named(settings: dict[str, Any], key: str | None, match: str | None) -> None:
    with refused(InvalidOption, key, match):
        GavelLike(**settings)
    assert GavelLike(gpus={1: 1}, models={"A3C": 1}).table(3)["model"].tolist() == ["A3C"] * 3


# FFT


@cache
def trace(number: int) -> pd.DataFrame:
    return FFTTrace(number).table()


def claims() -> dict[str, Any]:
    found = yaml.safe_load(data("paper_claims.yaml").read_text())["claims"]
    return {claim["id"]: claim["value"] for claim in found}


def test_families_are_those_of_table_2() -> None:
    rows = {tuple(f"{row['model']}-{v}" for v in row["variants"]): tuple(row["workers"]) for row in claims()["FFT-011"]}
    assert rows == {family.models: family.workers for family in FAMILIES}
    assert {f.models[0].rpartition("-")[0] for f in FAMILIES if f.large} == {"GPT-neo", "GPT-2", "OPT"}
    assert all(min(f.workers) >= 4 for f in FAMILIES if f.large), "large ones need at least four workers"


def test_traces_are_as_large_as_the_paper_says() -> None:
    claimed = claims()
    assert [SETTINGS[n].jobs for n in (1, 2)] == [claimed["FFT-005"]] * 2
    assert {len(trace(n)) for n in range(3, 10)} == {claimed["FFT-007"]}
    for n in (1, 2):
        assert len(trace(n)) == claimed["FFT-005"]
        assert trace(n)["arrival"].iloc[-1] == pytest.approx(claimed["FFT-006"] * 24 * HOUR)
    assert SETTINGS[6].large == claimed["FFT-008"]


@pytest.mark.parametrize("number", range(1, 10))
def test_every_job_is_one_of_table_2(number: int) -> None:
    table = trace(number)
    assert list(table.columns) == [*REQUIRED, "model"]
    workers = {model: family.workers for family in FAMILIES for model in family.models}
    pairs = set(zip(table["model"], table["gpus"].tolist(), strict=True))
    if number == 1:
        assert pairs == {(model, 4) for model, own in workers.items() if 4 in own}
    else:
        assert pairs == {(model, n) for model, own in workers.items() for n in own}


@pytest.mark.parametrize("number", [2, *range(3, 10)])
def test_families_have_the_frequencies_of_the_paper(number: int) -> None:
    of = {model: i for i, family in enumerate(FAMILIES) for model in family.models}
    found, many = Counter(of[model] for model in trace(number)["model"]), len(trace(number))
    shares = [1 / 6 if f.large else 1 / 10 for f in FAMILIES] if number == 6 else [1 / 8] * 8
    assert stats.chisquare([found[i] for i in range(8)], np.array(shares) * many).pvalue > RARE
    for model, table in trace(number).groupby("model"):
        counts = table["gpus"].value_counts()
        assert len(counts) == 1 or stats.chisquare(counts).pvalue > RARE, model


def test_lengths_and_rates_are_what_makes_the_traces() -> None:
    shortest, longest = trace(9)["duration"].agg(["min", "max"])
    assert 2.9 < longest / shortest <= 3
    spread = {n: float(np.log(trace(n)["duration"]).std()) for n in range(3, 10)}
    assert min(spread, key=lambda n: spread[n]) == 9
    rate = {n: len(trace(n)) / trace(n)["arrival"].iloc[-1] for n in range(3, 10)}
    assert max(rate, key=lambda n: rate[n]) == 7
    for n in range(3, 10):
        assert abs(rate[n] * HOUR - SETTINGS[n].jobs_per_hour) <= SETTINGS[n].jobs_per_hour / 4
    assert trace(1)["duration"].max() <= 8 * HOUR


def test_traces_differ_where_their_settings_do() -> None:
    for n, columns in ((6, {"gpus", "model"}), (7, {"arrival", "duration"}), (9, {"duration"})):
        assert {key for key in trace(4).columns if not trace(4)[key].equals(trace(n)[key])} == columns
    assert sorted(trace(4)["duration"]) == sorted(trace(7)["duration"]), "in the order of their arrivals"
    assert trace(2)["duration"].tolist() == trace(1)["duration"].tolist()


def test_lengths_are_those_of_philly() -> None:
    philly = PhillyBatches(jobs_per_hour=5.0).table(20_000)
    assert trace(4)["duration"].tolist() == philly["duration"].tolist()
    assert trace(4)["arrival"].tolist() == philly["arrival"].tolist()


def test_traces_may_be_shorter_and_others() -> None:
    assert FFTTrace(1).table(100, seed=1)["arrival"].iloc[-1] == pytest.approx(6 * HOUR)
    assert len(FFTTrace(1).table(1)) == 1
    pd.testing.assert_frame_equal(FFTTrace(6).table(50, seed=2), FFTTrace(6).table(50, seed=2))
    assert not FFTTrace(6).table(50, seed=2).equals(FFTTrace(6).table(50, seed=3))
    for wrong in (0, 10, 1.5, "1"):
        with pytest.raises(InvalidOption, match=r"FFTTrace\.number is"):
            FFTTrace(wrong)  # type: ignore[arg-type]
    with refused(InvalidOption, "jobs"):
        FFTTrace(1).table(0)


# By name


def test_generators_are_found_by_name() -> None:
    made = {f"fft-trace-{n}": FFTTrace(n) for n in range(1, 10)}
    made |= {"philly-like": PhillyLike(), "philly-batches": PhillyBatches()}  # type: ignore[dict-item]
    made |= {"pai-like": PAILike(), "gavel-like": GavelLike(), "hadar-jobs": HadarJobs()}  # type: ignore[dict-item]
    made |= {"alibaba-spot-like": AlibabaSpotLike(), "acme-like": AcmeLike()}  # type: ignore[dict-item]
    assert set(made) <= set(generator_names())
    for name, generator in made.items():
        assert make_generator(name) == generator
        assert isinstance(generator, Generator)
        assert GENERATORS.description(name)
        table = make_generator(name).table(20, 1)
        assert len(table) == 20
        assert list(table.columns)[:4] == list(REQUIRED)
        assert set(table.columns) <= {*REQUIRED, *OPTIONAL}
    assert make_generator("philly-batches", {"week": {"days": [1] * 7}}).table(3).shape == (3, 7)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("philly", {}, "there is no trace generator 'philly'; did you mean 'philly-like'"),
        ("gavel-like", {"gpu": {1: 1}}, "trace generator 'gavel-like' has no setting 'gpu'; did you mean 'gpus'"),
        ("hetopt.models.fft:FFT", {}, r"makes FFT, which is not a trace generator.table\(jobs, seed\)"),
        ("philly-batches", {"week": 5}, "must be of class Week"),
    ],
)
def test_an_unknown_generator_is_refused(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(HetoptError, match=message):
        make_generator(name, settings)
