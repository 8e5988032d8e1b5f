"""Fair sojourn, a policy of hetopt: jobs in the order of their fair finish, forked where that helps."""

from hetopt.models.fair_sojourn.fair_sojourn_policy import FairSojourn
from hetopt.models.fair_sojourn.virtual_shares import VirtualShares

__all__ = ["FairSojourn", "VirtualShares"]
