"""Branch and bound whose every step is a derivation: the optimum of an integer program, proven in rational numbers.

HiGHS solves the relaxation of each node in floats. Its duals, rounded to whole multiples of a small unit, prove a bound
by weak duality in integers; only nodes whose bound ties with the best known solution, or nearly, need the exact optimum
of their relaxation. A node is closed by a constraint that rests on some of the assumptions on its path: where it does
not rest on the last one, it closes the parent as well.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np
from flint import fmpq
from scipy import sparse

from hetopt.data.array_types import Floats, Positions
from hetopt.errors import NotSolved
from hetopt.programs.linear import Basis
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.solving.rational.core import Core, WeakBound
from hetopt.solving.rational.derivations import AT_LEAST, AT_MOST, Constraint, Form, ceiling, floor, is_whole
from hetopt.solving.rational.kernel import ZERO, Rational, SingularError
from hetopt.solving.rational.program import RationalProgram
from hetopt.solving.rational.refinement import refined
from hetopt.solving.rational.simplex import InfeasibleError, LimitError, UnboundedError, Vertex, maximise
from hetopt.tolerances import EQUAL, INTEGRAL, PROVEN

TRIALS, RELIABLE = 8, 8
"""Variables in succession that are no better to branch on, after which a node looks at no more; and trials of both
branches of a variable after which their average is used (Achterberg, Koch, Martin: Branching rules revisited, 2005)."""

STEPS = 300
"""Limit of exact simplex steps of a node."""


class Improved(Exception):
    """A solution better than the best known one: columns of the core, over those of the program, with their values."""

    def __init__(self, sums: list[tuple[Form, Rational]]) -> None:
        super().__init__()
        self.sums = sums


class Paused(Exception):
    """The search has processed as many nodes as it may."""


class OutOfTime(Exception):
    """The time limit is exceeded; ``bound`` on the objective is proven, None without one."""

    def __init__(self, bound: Rational | None) -> None:
        super().__init__()
        self.bound = bound


@dataclass(eq=False)
class _Node:
    """A node: its parent, the bound that it adds, and what follows there once it is closed.

    Attributes
    ----------
    variable, sense, right, at:
        The assumption that distinguishes it from its parent, and its position.
    distance:
        By how much the variable moves.
    value:
        The parent's optimum.
    dual:
        (m,) duals of the parent's relaxation.
    closed:
        Position of a constraint that no solution that is better satisfies, None while the node is open.
    assumed:
        Positions of the assumptions on which that rests.
    """

    parent: _Node | None = None
    variable: int = -1
    sense: int = 0
    right: int = 0
    at: int = -1
    distance: float = 0.0
    value: float = -math.inf
    dual: Floats | None = None
    basis: Basis | None = None
    sibling: _Node | None = None
    closed: int | None = None
    assumed: frozenset[int] = frozenset()
    contradiction: bool = False

    def path(self) -> Iterator[_Node]:
        """This node and its ancestors but the root."""
        node: _Node | None = self
        while node is not None and node.parent is not None:
            yield node
            node = node.parent

    @property
    def open(self) -> bool:
        """Whether neither it nor an ancestor is closed."""
        node: _Node | None = self
        while node is not None:
            if node.closed is not None:
                return False
            node = node.parent
        return True


class Relaxation:
    """The relaxation of a core in HiGHS; costs in :meth:`Core.unit`, minimised."""

    def __init__(self, core: Core, options: Options) -> None:
        program = core.program()
        self.columns = len(core.columns)
        self.row_unit = np.ones(len(core.rows)) if program.row_unit is None else program.row_unit
        self.session = Session(program.scaled(), options.for_simplex(), presolve=False, explain=False, approximate=True)
        self.session.set_tolerance(PROVEN)

    def bound(self, changes: Sequence[tuple[int, float, float]]) -> None:
        """Set the bounds of columns and rows: (variable, lower, upper)."""
        columns = [change for change in changes if change[0] < self.columns]
        if columns:
            self.session.set_column_bounds(*zip(*columns, strict=True))
        rows = [(variable - self.columns, low, high) for variable, low, high in changes if variable >= self.columns]
        if rows:
            where, low, high = (np.array(part) for part in zip(*rows, strict=True))
            self.session.set_row_bounds(where, low / self.row_unit[where], high / self.row_unit[where])

    def value(self) -> float:
        """The optimum; infinite if it is infeasible."""
        return self.solve()[2]

    def solve(self) -> tuple[Floats | None, Floats | None, float]:
        """Columns, duals of rows as :func:`rounded_duals` takes them, and the optimum.

        Infinite with a ray instead of duals, if there is one, if it is infeasible; -infinite if HiGHS finds neither.
        """
        try:
            x, dual, value = self.session.values()
        except NotSolved as problem:
            if problem.status == "time_limit":
                raise
            if problem.status != "infeasible":
                return None, None, -math.inf
            ray = self.session.ray()
            return None, None if ray is None else ray / self.row_unit, math.inf
        return x, dual / self.row_unit, -value


class _PseudoCosts:
    """By how much the bound has risen per unit that a variable was moved, down (0) or up (1)."""

    def __init__(self) -> None:
        self.seen: dict[tuple[int, int], tuple[int, float]] = {}

    def learn(self, variable: int, side: int, rise: float) -> None:
        times, total = self.seen.get((variable, side), (0, 0.0))
        self.seen[variable, side] = times + 1, total + rise

    def is_known(self, variable: int) -> bool:
        """Whether the averages of both sides are reliable."""
        return all(self.seen.get((variable, side), (0,))[0] >= RELIABLE for side in (0, 1))

    def averages(self) -> Callable[[int, int], float]:
        """(variable, side) -> its average rise; for unseen ones that of all others."""
        average = {key: total / times for key, (times, total) in self.seen.items()}
        usual = [float(np.mean([v for (_, own), v in average.items() if own == side] or [1.0])) for side in (0, 1)]
        return lambda variable, side: average.get((variable, side), usual[side])


def _score(costs: Callable[[int, int], float], variable: int, part: float) -> float:
    """The product of the rises that are expected of both branches of a variable with the fraction ``part``."""
    return max(costs(variable, 0) * part, PROVEN) * max(costs(variable, 1) * (1 - part), PROVEN)


class Search:
    """The search in a core.

    Parameters
    ----------
    core:
        The core.
    options:
        Only the time limit is used.
    bound:
        A bound on the objective that is already proven, None without one.
    """

    def __init__(self, core: Core, options: Options, bound: Rational | None = None) -> None:
        self.core = replace(  # its bounds become those of the current node
            core,
            lower=list(core.lower),
            upper=list(core.upper),
            lower_at=list(core.lower_at),
            upper_at=list(core.upper_at),
        )
        self.derived, self.options, self.proven = core.derived, options, bound
        self.relaxation = Relaxation(core, options)
        self.rows = [[(j, int(v.p) if is_whole(v) else v) for j, v in row.items()] for row in core.rows]
        self.cost = [int(v.p) if is_whole(v) else v for v in core.cost]
        self.unit = float(core.unit())
        self.target = float(core.right / core.unit())
        self.whole = core.derived.whole(core.derived.objective)
        self.branching: Positions = np.flatnonzero(core.integer)
        self.n = len(core.columns)
        self.root_bounds = {
            AT_LEAST: list(zip(core.lower, core.lower_at, strict=True)),
            AT_MOST: list(zip(core.upper, core.upper_at, strict=True)),
        }
        self.entered: dict[tuple[int, int], _Node] = {}
        self.pseudo_costs = _PseudoCosts()
        self.entries = sparse.csr_array(core.program().A)
        self.root, self.nodes, self.queue, self.number = _Node(), 0, list[tuple[float, int, _Node]](), count()

    def run(self, most: float = math.inf) -> int:
        """Position of a constraint, free of assumptions, that no solution is better than the best known one.

        Parameters
        ----------
        most:
            Nodes after which the search is given up.

        Raises
        ------
        Improved
            There is a better one.
        Paused
            It takes more than ``most`` nodes.
        OutOfTime
            The time limit is exceeded.
        """
        node: _Node | None = self.root
        while node is not None:
            if self.nodes >= most:
                raise Paused
            self.nodes += 1
            try:
                self.options.check_time()
                children = self._processed(node)
            except NotSolved as problem:
                if problem.status == "time_limit":
                    raise OutOfTime(self._bound(node)) from None
                raise
            if children is None:
                node = self._next()
            else:
                node, other = children
                heapq.heappush(self.queue, (other.value, next(self.number), other))
        assert self.root.closed is not None
        if not self.root.contradiction:
            return self.root.closed
        every = Constraint(AT_LEAST, self.core.best, self.derived.objective)
        return self.derived.add_stated(every, {self.root.closed: fmpq(1)})

    def _next(self) -> _Node | None:
        while self.queue:
            _, _, node = heapq.heappop(self.queue)
            if node.open:
                return node
        return None

    # Nodes

    def _enter(self, node: _Node) -> None:
        """Make the bounds of the core and of the relaxation those of ``node``."""
        self.relaxation.bound([(variable, *self._range(variable)) for variable in self._moved(node)])
        if node.basis is not None:
            self.relaxation.session.start_at(node.basis)

    def _moved(self, node: _Node) -> Iterable[int]:
        """The variables whose bounds in the core change, which become those of ``node``."""
        core, wanted = self.core, dict[tuple[int, int], _Node]()
        for one in node.path():
            wanted.setdefault((one.variable, one.sense), one)
        moved = dict[int, None]()
        for key in self.entered.keys() - wanted.keys():
            variable, sense = key
            bounds, places = (core.lower, core.lower_at) if sense > 0 else (core.upper, core.upper_at)
            bounds[variable], places[variable] = self.root_bounds[sense][variable]
            moved[variable] = None
        for key, one in wanted.items():
            if self.entered.get(key) is not one:
                variable, sense = key
                bounds, places = (core.lower, core.lower_at) if sense > 0 else (core.upper, core.upper_at)
                bounds[variable], places[variable] = fmpq(one.right), one.at
                moved[variable] = None
        self.entered = wanted
        return moved

    def _range(self, variable: int) -> tuple[float, float]:
        low, high = self.core.lower[variable], self.core.upper[variable]
        return -math.inf if low is None else float(low), math.inf if high is None else float(high)

    def _processed(self, node: _Node) -> tuple[_Node, _Node] | None:
        """Solve a node; close it, or return its children."""
        self._enter(node)
        x, dual, value = self.relaxation.solve()
        if x is None:
            if dual is not None and self._close_infeasible(node, dual):
                return None
            if self._close_exactly(node):
                return None
            return self._branched(node, self._any_open(), -math.inf, None, None)
        assert dual is not None
        if node.distance:
            self.pseudo_costs.learn(node.variable, int(node.sense > 0), max(0.0, value - node.value) / node.distance)
        margin = EQUAL + (float(self.core.scale / self.core.unit()) if self.whole else 0.0)
        activity = np.concatenate([x, self.entries @ x])
        if value >= self.target - margin:
            if self._close_short(node, dual):
                return None
            if value >= self.target - EQUAL and self._close_at(node, self._vertex()):
                return None
        part = activity[self.branching] - np.floor(activity[self.branching])
        found = self.branching[(part > INTEGRAL) & (part < 1 - INTEGRAL)]
        if not len(found):
            if self._close_exactly(node):
                return None
            return self._branched(node, self._any_open(), value, dual, None)
        basis = self.relaxation.session.basis()
        variable = self._chosen(found, activity, value, basis)
        return self._branched(node, (variable, math.floor(activity[variable])), value, dual, activity, basis)

    def _any_open(self) -> tuple[int, int]:
        """A variable that is not fixed, and where to split it."""
        core = self.core
        for j in self.branching.tolist():
            low, high = core.lower[j], core.upper[j]
            if j < self.n and low is not None and high is not None and low < high:
                return j, floor((low + high) / 2)
        raise NotSolved("the relaxation of a node is neither solved nor proven infeasible", "error")

    def _branched(
        self,
        node: _Node,
        split: tuple[int, int],
        value: float,
        dual: Floats | None,
        activity: Floats | None,
        basis: Basis | None = None,
    ) -> tuple[_Node, _Node]:
        variable, below = split
        core = self.core
        form = core.form({variable: fmpq(1)} if variable < self.n else core.rows[variable - self.n])
        part = None if activity is None else float(activity[variable] - below)
        sides = [
            _Node(node, variable, sense, right, self.derived.assume(sense, right, form), distance, value, dual, basis)
            for sense, right, distance in (
                (AT_MOST, below, 0.0 if part is None else part),
                (AT_LEAST, below + 1, 0.0 if part is None else 1 - part),
            )
        ]
        sides[0].sibling, sides[1].sibling = sides[1], sides[0]
        up = part is not None and part > 0.5
        return (sides[1], sides[0]) if up else (sides[0], sides[1])

    def _chosen(self, found: Positions, activity: Floats, value: float, basis: Basis | None) -> int:
        """The variable whose branches raise the bound most: by trial, or by the average of former rises."""
        candidates = {j: float(activity[j] - math.floor(activity[j])) for j in found.tolist()}
        costs = self.pseudo_costs.averages()
        best, score, tried = -1, -1.0, 0
        for j in sorted(candidates, key=lambda j: -_score(costs, j, candidates[j])):
            if self.pseudo_costs.is_known(j):
                own = _score(costs, j, candidates[j])
            else:
                rises = [self._rise(j, side, activity[j], value, basis) for side in (0, 1)]
                own = math.prod(max(rise, PROVEN) for rise in rises)
            tried += 1
            if own > score:
                best, score, tried = j, own, 0
            if tried >= TRIALS:
                break
        if basis is not None:
            self.relaxation.session.start_at(basis)
        return best

    def _rise(self, j: int, side: int, at: float, value: float, basis: Basis | None) -> float:
        """By how much one branch raises the bound, at most up to a little above the target."""
        low, high = self._range(j)
        self.relaxation.bound([(j, *((math.ceil(at), high) if side else (low, math.floor(at))))])
        if basis is not None:
            self.relaxation.session.start_at(basis)
        rise = max(0.0, min(self.relaxation.value(), self.target + abs(self.target) / 1000) - value)
        self.relaxation.bound([(j, low, high)])
        self.pseudo_costs.learn(j, side, rise / (math.ceil(at) - at if side else at - math.floor(at)))
        return rise

    # Proofs

    def _weak_bound(self, cost: Sequence[int], dual: Floats, scale: float) -> WeakBound | None:
        """The bound on cost.x at duals rounded to multiples of 1 / ``scale``."""
        return self.core.weak_bound(cost, self.core.rounded_multipliers(dual, scale), self.rows)

    def _close_infeasible(self, node: _Node, ray: Floats) -> bool:
        size = float(np.abs(ray).max(initial=0.0))
        if not size:
            return False
        for sign in (1.0, -1.0):
            for digits in (10, 24, 40):
                found = self._weak_bound([0] * self.n, ray, sign * 2.0**digits / size)
                if found is not None and found.total > 0:
                    self._close(node, Constraint(AT_LEAST, found.total, {}), found.terms)
                    return True
        return False

    def _close_short(self, node: _Node, dual: Floats) -> bool:
        """Close a node by rounded duals, if these prove enough."""
        core = self.core
        found = self._weak_bound(self.cost, dual, self.unit)
        if found is None:
            return False
        total, _, terms = found
        if total > core.right and core.cutoff is not None:
            terms[core.cutoff] = -1
            self._close(node, Constraint(AT_LEAST, total - core.right, {}), terms)
            return True
        if not core.is_exact:
            return False
        bound = total / core.scale + core.constant
        rounded = fmpq(ceiling(bound)) if self.whole else bound
        if rounded < core.best:
            return False
        why = "lin" if rounded == bound else "rnd"
        self._close_objective(node, rounded, {at: v / core.scale for at, v in terms.items()}, why)
        return True

    def _close_objective(self, node: _Node, bound: Rational, terms: dict[int, Rational], why: str = "lin") -> None:
        if self.core.rest is not None:
            terms[self.core.rest] = fmpq(1)
        self._close(node, Constraint(AT_LEAST, bound, self.derived.objective), terms, why)

    @cached_property
    def _rational(self) -> RationalProgram:
        """The relaxation in rationals, with the bounds of the root."""
        core, n = self.core, self.n
        by_row = [list(row.items()) for row in core.rows]
        by_column: list[list[tuple[int, Rational]]] = [[] for _ in range(n)]
        for i, row in enumerate(by_row):
            for j, v in row:
                by_column[j].append((i, v))
        cost = [*(-v for v in core.objective), *[ZERO] * len(by_row)]
        return RationalProgram(by_row, by_column, cost, core.lower, core.upper, core.integer[:n])

    def _vertex(self) -> Vertex:
        """The basis of the relaxation in rationals."""
        core = self.core
        program = replace(self._rational, lower=list(core.lower), upper=list(core.upper))
        basis = self.relaxation.session.basis()
        if basis is None:
            return Vertex.of_rows(program)
        return refined(Vertex.of(program, [*basis.columns.tolist(), *basis.rows.tolist()]), self.options)

    def _close_exactly(self, node: _Node) -> bool:
        """Close a node by its optimum in rationals, or as it has no point, if possible."""
        try:
            vertex, _ = maximise(self._vertex(), STEPS, self.options.check_time)
        except InfeasibleError as infeasible:
            terms = self.core.by_bounds(infeasible.proof)
            self._close(node, self.derived.combined(terms), terms)
            return True
        except (SingularError, LimitError, UnboundedError):
            return False
        if self._close_at(node, vertex):
            return True
        value = vertex.value
        if all(is_whole(v) for j, v in enumerate(value[: self.n]) if self.core.integer[j]):
            raise Improved([*zip(self.core.columns, value[: self.n], strict=True), *self.core.fixed])
        return False

    def _close_at(self, node: _Node, vertex: Vertex) -> bool:
        """Close a node by the duals of a basis, if these prove enough."""
        core = self.core
        try:
            y = {i: -v for i, v in enumerate(vertex.price[self.n :]) if v}
        except SingularError:
            return False
        found = core.weak_bound(core.objective, y)
        if found is None or found.total + core.constant < core.best:
            return False
        self._close_objective(node, found.total + core.constant, found.terms)
        return True

    def _close(self, node: _Node, constraint: Constraint, terms: dict[int, Rational], why: str = "lin") -> None:
        """Close a node by a constraint, and its ancestors as far as that follows."""
        at = self.derived.add_stated(constraint, {place: v for place, v in terms.items() if v}, why)
        assumed = frozenset(one.at for one in node.path() if terms.get(one.at))
        contradiction = not constraint.form and constraint.right > 0
        while True:
            node.closed, node.assumed, node.contradiction = at, assumed, contradiction
            parent, other = node.parent, node.sibling
            if parent is None:
                return
            if node.at in assumed:
                if other is None or other.closed is None:
                    return
                below, above = (node, other) if node.sense == AT_MOST else (other, node)
                assert below.closed is not None
                assert above.closed is not None
                contradiction = below.contradiction and above.contradiction
                result = Constraint(AT_LEAST, fmpq(1), {})
                if not contradiction:
                    result = Constraint(AT_LEAST, self.core.best, self.derived.objective)
                at = self.derived.add_split(result, (below.closed, below.at), (above.closed, above.at))
                assumed = (below.assumed - {below.at}) | (above.assumed - {above.at})
            node = parent

    def _bound(self, node: _Node) -> Rational | None:
        """The bound on the objective that is proven while ``node`` and those of the queue are open."""
        least = self.core.best
        for one in [node, *(other for _, _, other in self.queue if other.open)]:
            self._moved(one)
            found = None if one.dual is None else self._weak_bound(self.cost, one.dual, self.unit)
            if found is None:
                return self.proven
            least = min(least, self.core.proven(found.total))
        return least if self.proven is None else max(least, self.proven)
