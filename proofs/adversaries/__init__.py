"""Adversaries of true claims: second ways to compute a slack, which share no code with the checkers of the ledger.

Each module has the adversaries of a paper, as ``ADVERSARIES``: key of a claim -> its adversary.
"""

from __future__ import annotations
