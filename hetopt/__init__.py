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
    NotLinear,
    NotSolved,
    SolverUnavailable,
    UnknownName,
)
from hetopt.formulation import Component, Formulation, Measure, Model
from hetopt.highs import Session
from hetopt.instance import Instance
from hetopt.linear import LinearProgram
from hetopt.options import Options
from hetopt.solving import Policy, compile_program, optimise, solve
from hetopt.workload import Job, JobType, Parallelism, Stage, Tenant

__version__ = "0.1.0"

__all__ = [
    "Allocation",
    "Audit",
    "Certificate",
    "Cluster",
    "Component",
    "Entities",
    "Formulation",
    "GPUType",
    "HetoptError",
    "Instance",
    "InvalidFormulation",
    "InvalidInstance",
    "InvalidOption",
    "Job",
    "JobType",
    "LinearProgram",
    "Measure",
    "Model",
    "NotLinear",
    "NotSolved",
    "Options",
    "Parallelism",
    "Placement",
    "Plan",
    "Policy",
    "Server",
    "Session",
    "SolverUnavailable",
    "Stage",
    "Tenant",
    "UnknownName",
    "Verdict",
    "audit",
    "compile_program",
    "from_pyomo",
    "optimise",
    "solve",
]
