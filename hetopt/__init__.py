"""hetopt: who should get which GPU when, on clusters of unlike GPUs."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from hetopt.allocation import Allocation, Placement, Plan
from hetopt.auditing import Audit, Verdict, audit
from hetopt.certificate import Certificate
from hetopt.data.cluster import Cluster, GPUType, Server
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance
from hetopt.data.workload import Job, JobType, Parallelism, Stage, Tenant
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
from hetopt.files.instance_files import read
from hetopt.placement import HierarchicalPlacer, MoreWorkersFirst
from hetopt.programs.compiling import from_pyomo
from hetopt.programs.exporting import export
from hetopt.programs.formulation import Component, Formulation, Measure, Model
from hetopt.programs.json_file import from_json
from hetopt.programs.linear import LinearProgram
from hetopt.rounding.whole_gpus import AsPrinted, Rounded, WholeGPUs
from hetopt.rounding.whole_jobs import WholeJobs
from hetopt.selection import LongestStarved
from hetopt.simulation.log import Log
from hetopt.simulation.overheads import Overheads
from hetopt.simulation.run import simulate
from hetopt.solving.exact import ExactOptimum, exact_optimum
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.solving.pyomo_solvers import to_pyomo
from hetopt.solving.road import Policy, compile_program, optimise, solve

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

if not TYPE_CHECKING:

    def __getattr__(name: str) -> ModuleType:
        """``hetopt.instances``, ``hetopt.models`` and ``hetopt.proofs`` without an import of their own."""
        if name in ("instances", "models", "proofs"):
            return import_module(f"hetopt.{name}")
        raise AttributeError(f"module 'hetopt' has no attribute {name!r}")
