"""What papers claim of systems beside each other: arithmetic by hand, and numbers against their transcription."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from refused import refused

from hetopt.errors import InvalidOption
from hetopt.experiments.paper_comparison import COLUMNS, PublishedResult, compare_with_papers
from hetopt.experiments.published_results import PUBLISHED_RESULTS, claim_of
from hetopt.metrics import METRICS
from hetopt.plugins import SYSTEMS
from hetopt.registry import generator_names, is_named, policy_names

DATA = Path(__file__).parents[2] / "shared" / "data" / "paper_claims.yaml"

TWICE = PublishedResult("P-1", "P", "section 1", "JCT of b over a", "jct_mean", ("b",), ("a",), (2.0,), "2x", ("t",))
NAN = math.nan


def table_of(*rows: tuple[str, str, int, float, str | None], **systems: str) -> pd.DataFrame:
    """Workload, label, seed, mean completion time, and why it was refused; ``systems``: label -> system, if another."""
    table = pd.DataFrame(rows, columns=["workload", "system", "seed", "jct_mean", "refused"])
    return table.assign(system_name=table["system"].replace(systems), jobs=100.0, unfinished=0.0)


RUNS = table_of(
    ("t", "a", 0, 4.0, None),
    ("t", "a", 1, 8.0, None),
    ("t", "b", 0, 12.0, None),
    ("t", "b", 1, 8.0, None),
    ("t", "b", 2, 99.0, None),
    ("t", "b[k=1]", 1, 4.0, None),
    ("t", "c", 0, NAN, "refused"),
    ("u", "a", 0, 1.0, None),
    ("u", "b", 0, 5.0, None),
    **{"b[k=1]": "b"},
)


def only(claims: PublishedResult, table: pd.DataFrame = RUNS, **more: Any) -> list[dict[str, Any]]:
    """The rows of one claim."""
    return compare_with_papers(table, [claims], **more).to_dict("records")  # type: ignore[return-value]


def test_ratios_seed_by_seed() -> None:
    """12/4 and 8/8; seed 2 has no a; b[k=1] stands for b, too. On u, which is not t: 5/1."""
    first, second, third = only(TWICE)
    assert tuple(first) == COLUMNS
    assert (first["numerator"], first["denominator"], first["workload"]) == ("b", "a", "t")
    assert (first["ours_mean"], first["ours_min"], first["ours_max"], first["pairs"]) == (2.0, 1.0, 3.0, 2)
    assert first["ratio_ours_over_claimed"] == 1.0
    assert (first["note"], first["elsewhere"]) == ("", False)
    assert (second["numerator"], second["ours_mean"], second["ratio_ours_over_claimed"]) == ("b[k=1]", 0.5, 0.25)
    assert (third["workload"], third["ours_mean"], third["elsewhere"]) == ("u", 5.0, True)
    assert third["note"] == "another workload; the paper's is t"


def test_workloads_of_other_claims_of_the_paper_are_left_to_them() -> None:
    other = replace(TWICE, id="P-2", workloads=("u",))
    found = compare_with_papers(RUNS, [TWICE, other])
    assert found[["id", "workload"]].drop_duplicates().to_numpy().tolist() == [["P-1", "t"], ["P-2", "u"]]
    here = compare_with_papers(RUNS, [replace(TWICE, elsewhere=False)])
    assert set(here["workload"]) == {"t"}
    anywhere = compare_with_papers(RUNS, [replace(TWICE, workloads=None)])
    assert set(anywhere["workload"]) == {"t", "u"}
    assert set(anywhere["note"]) == {"no workload here corresponds to it"}
    assert not anywhere["elsewhere"].any()


def test_values_of_one_system() -> None:
    """4 and 8 seconds where the paper has 3."""
    row, other = only(replace(TWICE, numerator=("a",), denominator=(), value=(3.0,)))
    assert (row["ours_mean"], row["ours_min"], row["ours_max"], row["denominator"]) == (6.0, 4.0, 8.0, "")
    assert row["ratio_ours_over_claimed"] == 2.0
    assert other["ours_mean"] == 1.0


def test_ranges_are_compared_with_their_nearer_end() -> None:
    claim = replace(TWICE, value=(4.0, 8.0), elsewhere=False, numerator=("b",))
    assert [row["ratio_ours_over_claimed"] for row in only(claim)] == [0.5, 0.125]
    assert [replace(TWICE, value=(1.5, 3.0)).relative(ours) for ours in (0.75, 2.0, 6.0)] == [0.5, 1.0, 2.0]


def test_means_over_several_workloads() -> None:
    """On t 2, on u 5: the mean of workloads, not of pairs."""
    claim = replace(TWICE, workloads=("t", "u", "v"), together=True)
    row = only(claim)[0]
    assert (row["workload"], row["ours_mean"], row["ours_min"], row["ours_max"]) == ("t, u", 3.5, 1.0, 5.0)
    assert row["pairs"] == 3
    assert row["note"] == "2 of the 3 workloads of the mean"


def test_what_differs_is_noted() -> None:
    claim = replace(TWICE, bound="up to", jobs=800, cluster="lab36", note="as noted", elsewhere=False)
    row = only(claim, RUNS.assign(unfinished=1.0), clusters={"t": "lab108"})[0]
    assert row["note"] == (
        "the paper's number is the largest of several cases; 100 jobs, 800 in the paper; "
        "on lab108; the paper's cluster is lab36; some jobs did not finish; as noted"
    )
    assert only(replace(claim, bound="", jobs=100, note=""), clusters={"t": "lab36"})[0]["note"] == ""


def test_nothing_to_compare() -> None:
    """Refused, unknown or zero: no row."""
    assert only(replace(TWICE, numerator=("c",))) == []
    assert only(replace(TWICE, numerator=("z",))) == []
    assert only(replace(TWICE, metric="gru")) == []
    assert only(TWICE, RUNS.assign(jct_mean=0.0)) == []
    assert list(compare_with_papers(RUNS, []).columns) == list(COLUMNS)


@pytest.mark.parametrize(
    ("change", "key", "match"),
    [
        ({"metric": "jct"}, "published result P-1: metric", None),
        ({"numerator": ()}, "published result P-1: numerator", None),
        ({"value": ()}, "published result P-1: value", "one number, or two in order"),
        ({"value": (2.0, 1.0)}, "published result P-1: value", "one number, or two in order"),
        ({"value": (0.0,)}, "published result P-1: value", None),
        ({"workloads": None, "together": True}, "published result P-1: together", None),
    ],
)
def test_claims_that_are_none(change: dict[str, Any], key: str | None, match: str | None) -> None:
    with refused(InvalidOption, key, match):
        replace(TWICE, **change)


@pytest.mark.parametrize(
    ("label", "system", "names", "compared"),
    [
        ("b[k=1]", "b", ("b",), True),
        ("any words", "b", ("b",), True),
        ("b[my label]", "c", ("b",), False),
        ("b[my label]", "c", ("b[my label]",), True),
        ("b[k=1]", "b", ("b[k=2]", "bb"), False),
    ],
)
def test_runs_are_compared_by_their_system(label: str, system: str, names: tuple[str, ...], compared: bool) -> None:
    """Also by an exact label; the text of a label does not name a system."""
    table = table_of(("t", label, 0, 4.0, None), **{label: system})
    assert len(only(replace(TWICE, numerator=names, denominator=()), table)) == compared


def test_results_belong_to_claims() -> None:
    assert [claim_of(result) for result in ("OEF-035b", "OEF-035", "FFT-041g")] == ["OEF-035", "OEF-035", "FFT-041"]


def test_the_table_names_what_there_is() -> None:
    """Ids are unique; metrics, systems and workloads exist in this package."""
    assert len({claim.id for claim in PUBLISHED_RESULTS}) == len(PUBLISHED_RESULTS)
    known = {*policy_names(), *SYSTEMS.points}
    for claim in PUBLISHED_RESULTS:
        assert claim.metric in METRICS
        assert {*claim.numerator, *claim.denominator} <= known, claim.id
        for name in claim.workloads or ():
            assert name in generator_names() or is_named(name), (claim.id, name)


def _numbers(value: Any) -> Iterator[float]:
    """All numbers in a value of the transcription."""
    if isinstance(value, dict):
        for part in value.values():
            yield from _numbers(part)
    elif isinstance(value, list):
        for part in value:
            yield from _numbers(part)
    elif isinstance(value, (int, float)):
        yield float(value)


@pytest.mark.skipif(not DATA.exists(), reason="the transcribed claims are not here")
@pytest.mark.parametrize("claim", PUBLISHED_RESULTS, ids=lambda claim: claim.id)
def test_numbers_are_the_papers(claim: PublishedResult) -> None:
    """Each number stands in the transcription under its id: as such, or as a part that is more or less."""
    rows = {row["id"]: row for row in yaml.safe_load(DATA.read_text())["claims"]}
    row = rows[claim.id.rstrip("abcdefgh")]
    printed = list(_numbers(row["value"]))
    for number in claim.value:
        given = number if row["unit"] in ("x", "s") or not claim.is_ratio else abs(number - 1)
        assert any(given == pytest.approx(value) for value in printed), (claim.id, number, printed)
    assert (row["reproducible"] == "hardware") <= ("hardware" in claim.note)
    place = row["where"].replace("Sec ", "section ").replace(" / ", ", ")
    assert {*re.findall(r"Fig\.? ?(\d+)", place)} <= {*re.findall(r"Fig\. (\d+)", claim.place)}, (claim.place, place)
