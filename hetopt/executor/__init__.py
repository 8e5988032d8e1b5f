"""Runs real jobs on real hosts; a training job needs :func:`lease` alone, which imports the standard library alone."""

from hetopt.executor.job_side import Lease, lease

__all__ = ["Lease", "lease"]
