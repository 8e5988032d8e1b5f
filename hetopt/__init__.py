"""hetopt: an optimisation toolkit for scheduling deep-learning jobs on clusters of unlike GPUs.

Names are imported when they are first used, so a training job that runs ``from hetopt.executor import lease`` imports
nothing else.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hetopt.auditing.audit_report import Audit, audit
    from hetopt.auditing.verdict import Verdict
    from hetopt.data.cluster import Cluster, GPUType, Server
    from hetopt.data.entities import Entities
    from hetopt.data.instance import Instance, read
    from hetopt.data.workload import Job, JobType, Parallelism, Stage, Tenant
    from hetopt.decisions.placers import HierarchicalPlacer, MoreWorkersFirst
    from hetopt.decisions.rounders import PrintedWholeGPUs, Rounded, WholeGPUs, WholeJobs
    from hetopt.decisions.selection import LongestStarved
    from hetopt.errors import (
        HetoptError,
        InvalidFormulation,
        InvalidInstance,
        InvalidOption,
        InvalidPlan,
        LargeModel,
        NotLinear,
        NotSolved,
        SolverUnavailable,
        Stalled,
        SuspiciousSpeedups,
        UnknownName,
        UnusableFile,
    )
    from hetopt.formulations.exporting import export
    from hetopt.formulations.formulation import ArrayComponent, Formulation
    from hetopt.formulations.policies import Policy, solve
    from hetopt.formulations.session import FormulationSession
    from hetopt.formulations.traits import Traits
    from hetopt.programs.arrays import Arrays, Columns, Measure, Rows, on_own, on_shares
    from hetopt.programs.compiled import measure
    from hetopt.programs.json_file import from_json
    from hetopt.programs.linear import Cuts, LinearProgram
    from hetopt.programs.model import Component, Model
    from hetopt.programs.pyomo_reading import from_pyomo
    from hetopt.results.allocation import Allocation, Placement, Plan
    from hetopt.results.certificate import Certificate
    from hetopt.simulation.log import Log
    from hetopt.simulation.overheads import Overheads
    from hetopt.simulation.simulator import simulate
    from hetopt.solving.exact import ExactOptimum, exact_optimum
    from hetopt.solving.highs import Session
    from hetopt.solving.optimising import Method, optimise, register_method
    from hetopt.solving.options import Options
    from hetopt.solving.pyomo_solvers import to_pyomo
    from hetopt.solving.sensitivity import Sensitivity, sensitivity

__version__ = "0.1.0"

_WHERE = {
    "hetopt.results.allocation": "Allocation Placement Plan",
    "hetopt.auditing.audit_report": "Audit audit",
    "hetopt.auditing.verdict": "Verdict",
    "hetopt.results.certificate": "Certificate",
    "hetopt.data.cluster": "Cluster GPUType Server",
    "hetopt.data.entities": "Entities",
    "hetopt.data.workload": "Job JobType Parallelism Stage Tenant",
    "hetopt.errors": (
        "HetoptError InvalidFormulation InvalidInstance InvalidOption InvalidPlan LargeModel NotLinear NotSolved "
        "SolverUnavailable Stalled SuspiciousSpeedups UnknownName UnusableFile"
    ),
    "hetopt.data.instance": "Instance read",
    "hetopt.decisions.placers": "HierarchicalPlacer MoreWorkersFirst",
    "hetopt.programs.arrays": "Arrays Columns Measure Rows on_own on_shares",
    "hetopt.programs.compiled": "measure",
    "hetopt.programs.pyomo_reading": "from_pyomo",
    "hetopt.formulations.exporting": "export",
    "hetopt.formulations.formulation": "ArrayComponent Formulation",
    "hetopt.programs.json_file": "from_json",
    "hetopt.programs.linear": "Cuts LinearProgram",
    "hetopt.programs.model": "Component Model",
    "hetopt.decisions.rounders": "PrintedWholeGPUs Rounded WholeGPUs WholeJobs",
    "hetopt.decisions.selection": "LongestStarved",
    "hetopt.simulation.log": "Log",
    "hetopt.simulation.overheads": "Overheads",
    "hetopt.simulation.simulator": "simulate",
    "hetopt.solving.exact": "ExactOptimum exact_optimum",
    "hetopt.solving.highs": "Session",
    "hetopt.solving.optimising": "Method optimise register_method",
    "hetopt.solving.options": "Options",
    "hetopt.formulations.policies": "Policy solve",
    "hetopt.solving.pyomo_solvers": "to_pyomo",
    "hetopt.formulations.traits": "Traits",
    "hetopt.formulations.session": "FormulationSession",
    "hetopt.solving.sensitivity": "Sensitivity sensitivity",
}
"""Module -> the names that come from it: the imports above, at run time."""

_MODULE = {name: module for module, names in _WHERE.items() for name in names.split()}

__all__ = [
    "Allocation",
    "ArrayComponent",
    "Arrays",
    "Audit",
    "Certificate",
    "Cluster",
    "Columns",
    "Component",
    "Cuts",
    "Entities",
    "ExactOptimum",
    "Formulation",
    "FormulationSession",
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
    "LargeModel",
    "LinearProgram",
    "Log",
    "LongestStarved",
    "Measure",
    "Method",
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
    "PrintedWholeGPUs",
    "Rounded",
    "Rows",
    "Sensitivity",
    "Server",
    "Session",
    "SolverUnavailable",
    "Stage",
    "Stalled",
    "SuspiciousSpeedups",
    "Tenant",
    "Traits",
    "UnknownName",
    "UnusableFile",
    "Verdict",
    "WholeGPUs",
    "WholeJobs",
    "audit",
    "exact_optimum",
    "export",
    "from_json",
    "from_pyomo",
    "measure",
    "on_own",
    "on_shares",
    "optimise",
    "read",
    "register_method",
    "sensitivity",
    "simulate",
    "solve",
    "to_pyomo",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """A public name, or a module of hetopt without an explicit import."""
        if name in _MODULE:
            value = globals()[name] = getattr(import_module(_MODULE[name]), name)
            return value
        if not name.startswith("_") and find_spec(f"hetopt.{name}") is not None:
            return import_module(f"hetopt.{name}")
        raise AttributeError(f"module 'hetopt' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
