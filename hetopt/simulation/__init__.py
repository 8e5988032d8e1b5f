"""Simulations: a policy on an instance through time."""
