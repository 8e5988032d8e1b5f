"""The constructor of the claims of Hadar."""

from __future__ import annotations

from functools import partial

from hetopt.proofs.ledger.claim import Claim

hadar_claim = partial(Claim, paper="Hadar")
"""A claim of the paper."""
