"""All claims of the ledger: complete, and each file of a counterexample refutes one."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hetopt import instances
from hetopt.proofs.ledger import kernel
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.claim_text import as_html, paragraphs
from hetopt.proofs.ledger.counterexample_files import instance_of, stored_names, stored_numbers
from hetopt.proofs.ledger.counterexample_search import CounterexampleSearch
from hetopt.proofs.ledger.discovery import all_claims
from hetopt.proofs.ledger.procedures import ForAll, universal_part
from hetopt.proofs.ledger.space import CaseNumbers
from hetopt.registry import policy_names

EVERY = list(all_claims().values())
NOTHING_TO_DRAW = (
    "asrpt/allreduce-bytes",
    "asrpt/link-weight-other-copy",
    "asrpt/tree-edges",
    "hadar/job-id",
)
"""About bytes, edges and numbers of copies, not about who has which GPUs when."""


def test_claims_are_complete() -> None:
    """What holds has a proof or a computation; what is false as printed may name what holds instead.

    Whether verdicts are as expected is for the docs, which ``make test`` builds: an unexpected one is a warning there.
    """
    known = set(policy_names())
    for one in EVERY:
        assert one.statement.strip(), one.key
        assert one.place, one.key
        assert one.paper, one.key
        assert one.key == one.key.lower()
        assert set(one.policies) <= known, one.key
        true = one.expected is ClaimVerdict.TRUE
        assert one.proof.strip() or not (true and isinstance(one.procedure, ForAll)), one.key
        assert not one.instead or (not true and all_claims()[one.instead].expected is ClaimVerdict.TRUE), one.key


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/theory/index.md"])
def test_pages_count_the_claims_of_the_ledger(page: str) -> None:
    printed = Counter(one.expected for one in EVERY if one.printed)
    stated = sum(all_claims()[key].expected is ClaimVerdict.TRUE for key in kernel.by_claim())
    counts = {
        r"the (\d+) claims that the four papers print": printed.total(),
        r"(\d+) (?:are )?false": printed[ClaimVerdict.FALSE],
        r"(\d+) (?:are )?true(?! claims)": printed[ClaimVerdict.TRUE],
        r"(\d+) cannot be decided": printed[ClaimVerdict.UNTESTABLE],
        r"(\d+) further claims": len(EVERY) - printed.total(),
        r"proofs of (\d+) true claims": stated,
    }
    text = " ".join((Path(__file__).parents[1] / page).read_text().split())
    found = {pattern: [int(number) for number in re.findall(pattern, text)] for pattern in counts}
    assert found[next(iter(counts))], page
    for pattern, numbers in found.items():
        assert set(numbers) <= {counts[pattern]}, (page, pattern)


@pytest.mark.parametrize("one", [c for c in EVERY if c.mechanical], ids=lambda one: one.key)
def test_parts_of_proofs_for_a_machine_hold(one: Claim) -> None:
    """None may stay open either, which would leave the verdict as it is."""
    pytest.importorskip("z3")
    pytest.importorskip("sympy")
    for part in one.mechanical:
        assert part().holds


def test_formulas_can_be_shown() -> None:
    """Every formula becomes MathML, without a command that is left as it is."""
    for text in (text for one in EVERY for text in (one.statement, one.note, one.proof)):
        assert text.count("$") % 2 == 0, text
        shown = "".join(map(as_html, paragraphs(text)))
        assert "<merror" not in shown, text
        assert not set("\\$*`") & set(re.sub("<[^>]*>", "", shown)), shown


def test_every_counterexample_file_refutes_its_claim() -> None:
    """And the instance in the file is the one that the numbers make."""
    found = 0
    for name in instances.names():
        expected = instances.expected(name)
        if "counterexample" not in expected:
            continue
        for key in expected["counterexample"].claim.split(", "):
            universal = universal_part(all_claims()[key].procedure)
            assert universal is not None, key
            again = universal.recheck(name)
            assert again.finding.refutes, name
            assert again.finding.pictures or key in NOTHING_TO_DRAW, name
            assert universal.estimated_slack(again.case) < 0, name
            there, made = instances.load(name), instance_of(again.case)
            assert (there.cluster, there.tenants, there.jobs) == (made.cluster, made.tenants, made.jobs), name
            assert name in stored_names(key)
            found += 1
    assert found > 30


@pytest.mark.parametrize(
    "one",
    [c for c in EVERY if isinstance(c.procedure, ForAll) and c.expected is ClaimVerdict.FALSE],
    ids=lambda one: one.key,
)
def test_every_false_claim_has_a_stored_counterexample(one: Claim) -> None:
    assert stored_names(one.key)


@dataclass
class AsSmall(CounterexampleSearch[Any]):
    """A search that ends with a counterexample of at most ``entries`` numbers."""

    entries: int = 0

    def _shapes(self) -> list[dict[str, int]]:
        done = self.found is not None and self.space.weight(self.found[0])[0] <= self.entries
        return [] if done else super()._shapes()

    def _smallest_by_enumeration(self, numbers: CaseNumbers, finding: Finding) -> tuple[CaseNumbers, Finding]:
        return numbers, finding


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("one", [c for c in EVERY if stored_names(c.key)], ids=lambda one: one.key)
def test_a_search_finds_a_counterexample_as_small_as_the_stored_one(one: Claim, seed: int) -> None:
    """From the claim alone, within a minute of this process."""
    given = universal_part(one.procedure)
    assert given is not None
    stored = [
        numbers for name in stored_names(one.key) if given.space.case(numbers := stored_numbers(name)) is not None
    ]
    fewest = min(given.space.weight(numbers)[0] for numbers in stored)
    until = time.perf_counter() + 60
    search = AsSmall(
        given.space, given.estimated_slack, given.judge, until, seed=seed, screen=given.screen, entries=fewest
    )
    found = search.run()
    assert found is not None, f"{search.tried} cases"
    assert given.space.weight(found[0])[0] <= fewest
