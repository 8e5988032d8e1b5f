"""Formulations: components put together, policies, sessions, and their solution."""
