"""The constructor of the claims of OEF."""

from __future__ import annotations

from functools import partial

from hetopt.proofs.ledger.claim import Claim

oef_claim = partial(Claim, paper="OEF")
"""A claim of the paper."""
