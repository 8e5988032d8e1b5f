"""The ledger: how claims are stated, decided, kept and shown.

``claims()`` has them all, ``decide(claim)`` decides one anew; the other names are what a claim of your own is made of.
"""

from hetopt.proofs.ledger.claim import QUICK, Claim, ClaimEvidence, Counterexample, Effort, Finding, ProofCheck
from hetopt.proofs.ledger.discovery import all_claims as claims
from hetopt.proofs.ledger.discovery import select_claims
from hetopt.proofs.ledger.mechanical import by_sympy, by_z3
from hetopt.proofs.ledger.procedures import ByComputation, Computation, Exists, ForAll, Growth, Untestable
from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, integers, rationals
from hetopt.proofs.ledger.verification import DecidedClaim, decide, decide_all

__all__ = [
    "QUICK",
    "ByComputation",
    "CaseNumbers",
    "Claim",
    "ClaimEvidence",
    "Computation",
    "Counterexample",
    "DecidedClaim",
    "Effort",
    "Exists",
    "Finding",
    "ForAll",
    "Growth",
    "ProofCheck",
    "Space",
    "TableShape",
    "Untestable",
    "by_sympy",
    "by_z3",
    "claims",
    "decide",
    "decide_all",
    "integers",
    "rationals",
    "select_claims",
]
