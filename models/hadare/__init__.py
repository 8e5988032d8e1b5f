"""HadarE: jobs forked over nodes, and merged after each round."""
