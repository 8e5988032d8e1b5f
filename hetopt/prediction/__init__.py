"""Prediction of the work of jobs from earlier jobs."""
