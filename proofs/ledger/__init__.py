"""The ledger: how claims are stated, decided, kept and shown.

``claims()`` has them all, ``decide(claim)`` decides one anew; the other names are what a claim of your own is made of.
"""

from hetopt.proofs.ledger.claim import QUICK, Check, Claim, Counterexample, Effort, Evidence, Finding
from hetopt.proofs.ledger.collect import chosen
from hetopt.proofs.ledger.collect import ledger as claims
from hetopt.proofs.ledger.deciding import Decided, decide, decide_all
from hetopt.proofs.ledger.means import Computation, Computed, ForAll, Growth, Some, Untestable
from hetopt.proofs.ledger.mechanical import by_sympy, by_z3
from hetopt.proofs.ledger.space import Numbers, Space, Table, parts, whole

__all__ = [
    "QUICK",
    "Check",
    "Claim",
    "Computation",
    "Computed",
    "Counterexample",
    "Decided",
    "Effort",
    "Evidence",
    "Finding",
    "ForAll",
    "Growth",
    "Numbers",
    "Some",
    "Space",
    "Table",
    "Untestable",
    "by_sympy",
    "by_z3",
    "chosen",
    "claims",
    "decide",
    "decide_all",
    "parts",
    "whole",
]
