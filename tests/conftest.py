"""Settings of every test run."""

from __future__ import annotations

import matplotlib
from hypothesis import HealthCheck, settings

matplotlib.use("Agg")
# Derandomised, so that a red run is red again; without deadline, since other work may share the machine.
settings.register_profile(
    "hetopt", derandomize=True, deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("hetopt")
