"""The ledger: state claims, decide them, store counterexamples and show the results.

:func:`all_claims` returns the claims of all installed packages, :func:`decide` decides one of them. Use the other
names to state new claims.
"""

from hetopt.proofs.ledger.claim import (
    QUICK,
    Claim,
    ClaimEvidence,
    ClaimVerdict,
    Counterexample,
    Effort,
    Finding,
    ProofCheck,
)
from hetopt.proofs.ledger.discovery import all_claims, select_claims
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
    "ClaimVerdict",
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
    "all_claims",
    "by_sympy",
    "by_z3",
    "decide",
    "decide_all",
    "integers",
    "rationals",
    "select_claims",
]
