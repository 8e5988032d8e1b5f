"""The metrics of a finished simulation: ``metric(log, instance)`` gives a table, a column or a number."""

from hetopt.metrics.completion_times import (
    completion,
    counts,
    deadlines_met,
    finished_over_time,
    jct,
    jct_cdf,
    totals,
)
from hetopt.metrics.decision_metrics import changes, decision_seconds, stragglers
from hetopt.metrics.definitions import METRICS
from hetopt.metrics.finish_time import finish_time_fairness
from hetopt.metrics.idle import idle_gaps
from hetopt.metrics.jain import jain_index
from hetopt.metrics.moving import migrations, moves, switching, wasted_share
from hetopt.metrics.overall import summary
from hetopt.metrics.tenant_metrics import (
    efficiency,
    envy,
    envy_over_time,
    estimated_and_actual,
    sharing,
    sharing_over_time,
)
from hetopt.metrics.usage import cru, cru_per_round, gru, utilisation, utilisation_over_time

__all__ = [
    "METRICS",
    "changes",
    "completion",
    "counts",
    "cru",
    "cru_per_round",
    "deadlines_met",
    "decision_seconds",
    "efficiency",
    "envy",
    "envy_over_time",
    "estimated_and_actual",
    "finish_time_fairness",
    "finished_over_time",
    "gru",
    "idle_gaps",
    "jain_index",
    "jct",
    "jct_cdf",
    "migrations",
    "moves",
    "sharing",
    "sharing_over_time",
    "stragglers",
    "summary",
    "switching",
    "totals",
    "utilisation",
    "utilisation_over_time",
    "wasted_share",
]
