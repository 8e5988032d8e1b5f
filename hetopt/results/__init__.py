"""What comes out: allocations, plans, placements, certificates."""
