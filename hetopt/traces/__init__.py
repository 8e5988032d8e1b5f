"""Traces: tables of jobs over time, read from files in the formats of real clusters, or generated like those."""
