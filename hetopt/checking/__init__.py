"""Checks of certificates that are files: apart from all solvers, so that they need not be trusted."""
