"""Optima in rational numbers, and their proofs step by step: what :mod:`hetopt.solving.exact` is made of."""
