"""Exact optima: the optimal basis of a linear program re-solved in rational numbers."""
