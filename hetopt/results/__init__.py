"""Allocations, plans, placements and certificates."""
