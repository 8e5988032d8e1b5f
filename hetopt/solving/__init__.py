"""From a program to a point: the road, solvers, integer and exact methods."""
