"""Runs real jobs on real hosts; a training job needs :func:`lease` alone, which imports the standard library alone."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hetopt.executor.job_side import Lease as Lease
    from hetopt.executor.job_side import lease as lease
else:
    __all__ = ["Lease", "lease"]

    def __getattr__(name: str) -> Any:
        """What a training job uses, imported when it is."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from hetopt.executor import job_side

        return getattr(job_side, name)
