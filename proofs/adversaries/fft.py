"""Adversaries of the claims of fft."""

from __future__ import annotations

from hetopt.proofs.ledger.attack import Adversary

ADVERSARIES: dict[str, Adversary] = {}
