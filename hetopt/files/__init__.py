"""Instances in files and tables."""
