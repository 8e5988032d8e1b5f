"""A second way to decide the theorem of fair sojourn: the policy and equal division in the library's simulator."""

from __future__ import annotations

from hetopt.models.fair_sojourn import FairSojourn
from hetopt.proofs.fair_sojourn import GangCase
from hetopt.proofs.ledger.attack import Adversary
from hetopt.registry import make_system
from hetopt.simulation.simulator import simulate


def least_gain(case: GangCase) -> float:
    """The least time by which a job is earlier than where every job has its part of each GPU as a rate."""
    policy = FairSojourn(forks=False, restart_seconds=0.0, divided="unfinished")
    ends = (simulate(system, case.instance).jobs["finish"] for system in (make_system("isolated"), policy))
    divided, ours = ends
    return float((divided - ours).min())


ADVERSARIES = {
    "fair-sojourn/no-later": Adversary("the policy and equal division in the simulator, in floats", least_gain),
}
