"""From a compiled formulation to a certified allocation."""

from __future__ import annotations

import time

import numpy as np

from hetopt.errors import InvalidOption
from hetopt.programs.compiled import Compiled
from hetopt.results.allocation import Allocation
from hetopt.results.certificate import certify
from hetopt.solving.methods import method_for
from hetopt.solving.optimising import optimise
from hetopt.solving.options import Options


def solve_compiled(compiled: Compiled, options: Options, began: float) -> Allocation:
    """Optimise and certify; ``began`` is the ``time.perf_counter`` at the start of the work."""
    options, exact = options.started(), None
    method = method_for(compiled, options)
    if method is not None:
        point = method.solve(compiled, options)
    else:
        if options.method == "plain":
            compiled = Compiled(compiled.formulation, compiled.entities, lazy=False)
        if options.exact:
            _check_exact(compiled)
        point = optimise(compiled.program, options, compiled.separation())
    if options.exact:
        from hetopt.solving.exact import exact_optimum_of

        exact = exact_optimum_of(compiled, point, options).agreeing_with(point)
        point = exact.as_point(point)
    seconds = time.perf_counter() - began
    share = np.maximum(point.share, 0.0)
    return Allocation(compiled.entities, share, certify(compiled, point, seconds, exact))


def _check_exact(compiled: Compiled) -> None:
    if compiled.curved:
        compiled.linear()  # raises the reason
    if compiled.program.integer.any():
        raise InvalidOption("exact is True, but the program has integer columns; exact optima are for linear programs")
