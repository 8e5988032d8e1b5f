"""Adversaries of true claims: second ways to compute a slack, which share no code with the checkers of the ledger.

About a claim on a policy of the library both run that policy; then ``blind`` says so.

Each module has the adversaries of a paper, as ``ADVERSARIES``: key of a claim -> its adversary.
"""

from __future__ import annotations
