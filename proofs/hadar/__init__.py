"""What Hadar and HadarE claim: a module for each question, the claims of all in the order of the paper."""

from __future__ import annotations

from hetopt.proofs.hadar import admission_prices as prices
from hetopt.proofs.hadar import algorithm_2 as algorithm
from hetopt.proofs.hadar import busy_nodes as forking
from hetopt.proofs.hadar import competitive_ratio as competitive
from hetopt.proofs.hadar import copy_ids as job_ids
from hetopt.proofs.hadar import copy_utilisation as copies
from hetopt.proofs.hadar import cost_relation as steps
from hetopt.proofs.hadar import heterogeneity_table as table
from hetopt.proofs.hadar import motivating_example as example
from hetopt.proofs.hadar import price_slopes as slopes
from hetopt.proofs.hadar import problem_equivalence as programs
from hetopt.proofs.hadar import ratio_families as families
from hetopt.proofs.hadar import reported_results as results
from hetopt.proofs.ledger.claim import Claim


def claims() -> tuple[Claim, ...]:
    """All of them: Table I, the example, programs, prices and theorems of Hadar, those of HadarE, printed results."""
    hadar = (table, example, programs, prices, algorithm, steps, slopes, competitive, families)
    hadare = (job_ids, forking, copies, results)
    return tuple(claim for part in (*hadar, *hadare) for claim in part.CLAIMS)
