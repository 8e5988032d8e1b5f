"""The constructor of the claims of A-SRPT."""

from __future__ import annotations

from functools import partial

from hetopt.proofs.ledger.claim import Claim

asrpt_claim = partial(Claim, paper="A-SRPT", policies=("asrpt",))
"""A claim of the paper, by default about its policy."""
