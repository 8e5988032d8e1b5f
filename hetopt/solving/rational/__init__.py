"""Optima in rational numbers, and their proofs step by step: the parts of :mod:`hetopt.solving.exact`."""
