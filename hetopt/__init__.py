"""hetopt: an optimisation toolkit for scheduling deep-learning jobs on clusters of unlike GPUs.

Names are imported when they are first used, so a training job that runs ``from hetopt.executor import lease`` imports
nothing else.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hetopt.auditing.audit_report import Audit as Audit, audit as audit
    from hetopt.auditing.verdict import Verdict as Verdict
    from hetopt.data.cluster import Cluster as Cluster, GPUType as GPUType, Server as Server
    from hetopt.data.entities import Entities as Entities
    from hetopt.data.instance import Instance as Instance, read as read
    from hetopt.data.workload import (
        GangSize as GangSize,
        Job as Job,
        JobType as JobType,
        Parallelism as Parallelism,
        TrainingPhase as TrainingPhase,
        Stage as Stage,
        Tenant as Tenant,
    )
    from hetopt.decisions.placers import HierarchicalPlacer as HierarchicalPlacer, MoreWorkersFirst as MoreWorkersFirst
    from hetopt.decisions.rounders import (
        PrintedWholeGPUs as PrintedWholeGPUs,
        Rounded as Rounded,
        WholeGPUs as WholeGPUs,
        WholeJobs as WholeJobs,
    )
    from hetopt.decisions.selection import LongestStarved as LongestStarved
    from hetopt.errors import (
        HetoptError as HetoptError,
        InvalidCertificate as InvalidCertificate,
        InvalidFormulation as InvalidFormulation,
        InvalidInstance as InvalidInstance,
        InvalidOption as InvalidOption,
        InvalidPlan as InvalidPlan,
        LargeModel as LargeModel,
        NotLinear as NotLinear,
        NotSolved as NotSolved,
        SolverUnavailable as SolverUnavailable,
        Stalled as Stalled,
        SuspiciousSpeedups as SuspiciousSpeedups,
        UnknownName as UnknownName,
        UnusableFile as UnusableFile,
    )
    from hetopt.checking.certificates import Checked as Checked, check as check
    from hetopt.formulations.exporting import export as export
    from hetopt.formulations.formulation import ArrayComponent as ArrayComponent, Formulation as Formulation
    from hetopt.formulations.policies import Policy as Policy, solve as solve
    from hetopt.formulations.session import FormulationSession as FormulationSession
    from hetopt.formulations.traits import Traits as Traits
    from hetopt.programs.arrays import (
        Arrays as Arrays,
        Columns as Columns,
        Measure as Measure,
        Rows as Rows,
        on_own as on_own,
        on_shares as on_shares,
    )
    from hetopt.programs.compiled import measure as measure
    from hetopt.programs.json_file import from_json as from_json
    from hetopt.programs.linear import Cuts as Cuts, LinearProgram as LinearProgram
    from hetopt.programs.model import Component as Component, Model as Model
    from hetopt.programs.pyomo_reading import from_pyomo as from_pyomo
    from hetopt.results.allocation import Allocation as Allocation, Placement as Placement, Plan as Plan
    from hetopt.results.certificate import Certificate as Certificate
    from hetopt.simulation.log import Log as Log
    from hetopt.simulation.overheads import Overheads as Overheads
    from hetopt.simulation.simulator import simulate as simulate
    from hetopt.solving.exact import ExactOptimum as ExactOptimum, exact_optimum as exact_optimum
    from hetopt.solving.highs import Session as Session
    from hetopt.solving.optimising import Method as Method, optimise as optimise, register_method as register_method
    from hetopt.solving.options import Options as Options
    from hetopt.solving.pyomo_solvers import to_pyomo as to_pyomo
    from hetopt.solving.sensitivity import Sensitivity as Sensitivity, sensitivity as sensitivity

__version__ = "0.1.0"

_WHERE = {
    "hetopt.results.allocation": "Allocation Placement Plan",
    "hetopt.auditing.audit_report": "Audit audit",
    "hetopt.auditing.verdict": "Verdict",
    "hetopt.results.certificate": "Certificate",
    "hetopt.data.cluster": "Cluster GPUType Server",
    "hetopt.data.entities": "Entities",
    "hetopt.data.workload": "GangSize Job JobType Parallelism TrainingPhase Stage Tenant",
    "hetopt.errors": (
        "HetoptError InvalidCertificate InvalidFormulation InvalidInstance InvalidOption InvalidPlan LargeModel "
        "NotLinear NotSolved SolverUnavailable Stalled SuspiciousSpeedups UnknownName UnusableFile"
    ),
    "hetopt.data.instance": "Instance read",
    "hetopt.decisions.placers": "HierarchicalPlacer MoreWorkersFirst",
    "hetopt.programs.arrays": "Arrays Columns Measure Rows on_own on_shares",
    "hetopt.programs.compiled": "measure",
    "hetopt.programs.pyomo_reading": "from_pyomo",
    "hetopt.checking.certificates": "Checked check",
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

if not TYPE_CHECKING:
    __all__ = sorted(_MODULE)  # type checkers take the names that are imported "as" themselves

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
