"""The ledger: how claims are stated, decided, kept and shown.

``claims()`` has them all, ``decide(claim)`` decides one anew; the other names are what a claim of your own is made of.
"""

from hetopt.proofs.ledger.claim import QUICK, Check, Claim, Counterexample, Effort, Evidence, Finding
from hetopt.proofs.ledger.discovery import chosen
from hetopt.proofs.ledger.discovery import ledger as claims
from hetopt.proofs.ledger.mechanical import by_sympy, by_z3
from hetopt.proofs.ledger.procedures import Computation, Computed, ForAll, Growth, Some, Untestable
from hetopt.proofs.ledger.space import Numbers, Space, Table, parts, whole
from hetopt.proofs.ledger.verification import Decided, decide, decide_all

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
