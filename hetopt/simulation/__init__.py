"""A policy through time."""
