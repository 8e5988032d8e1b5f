"""The constructor of the claims of FFT."""

from __future__ import annotations

from functools import partial

from hetopt.proofs.ledger.claim import Claim

fft_claim = partial(Claim, paper="FFT", policies=("fft",))
"""A claim of the paper, by default about its policy."""
