"""From a program to a point: solve paths, solvers, methods by structure, integer and exact optima."""
