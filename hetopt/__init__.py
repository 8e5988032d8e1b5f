"""hetopt: who should get which GPU when, on clusters of unlike GPUs."""

from hetopt.allocation import Allocation, Placement, Plan
from hetopt.auditing import Audit, Verdict, audit
from hetopt.certificate import Certificate
from hetopt.cluster import Cluster, GPUType, Server
from hetopt.compiling import from_pyomo
from hetopt.entities import Entities
from hetopt.errors import (
    HetoptError,
    InvalidFormulation,
    InvalidInstance,
    InvalidOption,
    InvalidPlan,
    NotLinear,
    NotSolved,
    SolverUnavailable,
    Stalled,
    UnknownName,
    UnusableFile,
)
from hetopt.exact import ExactOptimum, exact_optimum
from hetopt.exporting import export, from_json
from hetopt.files import read
from hetopt.formulation import Component, Formulation, Measure, Model
from hetopt.highs import Session
from hetopt.instance import Instance
from hetopt.job_rounding import WholeJobs
from hetopt.linear import LinearProgram
from hetopt.options import Options
from hetopt.overheads import Overheads
from hetopt.placement import HierarchicalPlacer, MoreWorkersFirst
from hetopt.pyomo_solvers import to_pyomo
from hetopt.rounding import AsPrinted, Rounded, WholeGPUs
from hetopt.selection import LongestStarved
from hetopt.simulation import simulate
from hetopt.simulation_log import Log
from hetopt.solving import Policy, compile_program, optimise, solve
from hetopt.workload import Job, JobType, Parallelism, Stage, Tenant

__version__ = "0.1.0"

__all__ = [
    "Allocation",
    "AsPrinted",
    "Audit",
    "Certificate",
    "Cluster",
    "Component",
    "Entities",
    "ExactOptimum",
    "Formulation",
    "GPUType",
    "HetoptError",
    "HierarchicalPlacer",
    "Instance",
    "InvalidFormulation",
    "InvalidInstance",
    "InvalidOption",
    "InvalidPlan",
    "Job",
    "JobType",
    "LinearProgram",
    "Log",
    "LongestStarved",
    "Measure",
    "Model",
    "MoreWorkersFirst",
    "NotLinear",
    "NotSolved",
    "Options",
    "Overheads",
    "Parallelism",
    "Placement",
    "Plan",
    "Policy",
    "Rounded",
    "Server",
    "Session",
    "SolverUnavailable",
    "Stage",
    "Stalled",
    "Tenant",
    "UnknownName",
    "UnusableFile",
    "Verdict",
    "WholeGPUs",
    "WholeJobs",
    "audit",
    "compile_program",
    "exact_optimum",
    "export",
    "from_json",
    "from_pyomo",
    "optimise",
    "read",
    "simulate",
    "solve",
    "to_pyomo",
]
