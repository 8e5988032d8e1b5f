"""Equation (10), the initial estimate of throughputs: its terms, and the speedups that it can express."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from hetopt.data.rationals import number_text
from hetopt.proofs.hadar.copy_cases import strictly_positive
from hetopt.proofs.hadar.motivating_example import jobs as example_jobs
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.mechanical import by_sympy
from hetopt.proofs.ledger.procedures import ByComputation, Computation, ForAll, compare_number, compare_values
from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, hypothesis, rationals

F = Fraction


@dataclass(frozen=True)
class EstimatedNode:
    """TFLOPS and memory in GB of a node's GPU, and the scaling of its PCI Express."""

    tflops: Fraction
    memory: Fraction
    pcie: Fraction


@dataclass(frozen=True)
class EstimatedModel:
    """Mini-batch size, model weight and dataset size of a model."""

    batch: Fraction
    weight: Fraction
    dataset: Fraction


def squared(node: EstimatedNode, model: EstimatedModel, *, root_of_memory: bool) -> Fraction:
    """The square of equation (10), which is rational.

    Parameters
    ----------
    root_of_memory:
        Whether the index PMI is TFLOPS / sqrt(memory); else it is sqrt(TFLOPS / memory).
    """
    index = node.tflops ** (2 if root_of_memory else 1) / node.memory
    return index * (node.pcie * model.batch / (model.weight * model.dataset)) ** 2


READINGS = (False, True)
"""Of PMI, "the ratio of ... teraflops ... and the GPU's VRAM capacity in a square root fashion"."""


@dataclass(frozen=True)
class TwoByTwo:
    """Two nodes and two models."""

    nodes: tuple[EstimatedNode, EstimatedNode]
    models: tuple[EstimatedModel, EstimatedModel]

    def speedup(self, model: int, *, root_of_memory: bool) -> Fraction:
        """The square of the speedup of the second node over the first for a model."""
        first, second = (squared(node, self.models[model], root_of_memory=root_of_memory) for node in self.nodes)
        return second / first


@hypothesis("all terms of (10) are positive")
def terms_positive(case: TwoByTwo) -> bool:
    """So that speedups are defined."""
    return all(value > 0 for one in (*case.nodes, *case.models) for value in vars(one).values())


def two_by_two_space() -> Space[TwoByTwo]:
    """Two nodes and two models with any terms."""

    def build(numbers: CaseNumbers) -> TwoByTwo:
        first, second = (EstimatedNode(*row) for row in numbers["node"])
        one, other = (EstimatedModel(*row) for row in numbers["model"])
        return TwoByTwo((first, second), (one, other))

    tables = {name: TableShape(2, 3, rationals(1, 9, 2)) for name in ("node", "model")}
    return Space({}, tables, build, hypotheses=(terms_positive,))


def same_speedup(case: TwoByTwo) -> Finding:
    """Compare the speedups of both models, in both readings of PMI."""
    pairs = [[case.speedup(model, root_of_memory=reading) for model in (0, 1)] for reading in READINGS]
    words = f"the speedups squared are {', '.join(map(number_text, pairs[0]))}"
    return Finding(-max(abs(a - b) for a, b in pairs), words)


GROWS = ("tflops", "pcie", "batch")
"""Terms with which the estimate grows; it falls with all others."""


def as_described(case: TwoByTwo) -> Finding:
    """Whether the estimate of the first model on the first node changes with every term as described."""
    node, model = case.nodes[0], case.models[0]
    margins = []
    for reading in READINGS:
        before = squared(node, model, root_of_memory=reading)
        for name, value in {**vars(node), **vars(model)}.items():
            changed = {name: 2 * value}
            after = squared(
                replace(node, **changed) if name in vars(node) else node,
                replace(model, **changed) if name in vars(model) else model,
                root_of_memory=reading,
            )
            margins.append(after - before if name in GROWS else before - after)
    return Finding(
        strictly_positive(min(margins)), f"doubling a term changes the square by {number_text(min(margins))}"
    )


def speedups_of_the_paper() -> Computation:
    """The speedups and fastest types that the paper reports, against any that (10) can give."""
    v100, k80 = EstimatedNode(F(125), F(16), F(1)), EstimatedNode(F(873, 200), F(12), F(1))
    case = TwoByTwo((k80, v100), (EstimatedModel(F(64), F(8), F(8)), EstimatedModel(F(32), F(2), F(1))))
    quotients = [case.speedup(0, root_of_memory=r) / case.speedup(1, root_of_memory=r) for r in READINGS]
    fastest = {max(speed, key=lambda t: speed[t]) for _, _, speed in example_jobs()}
    rows = (
        *(compare_number("speedup of ResNet-50 over that of A3C, squared", "25", quotient) for quotient in quotients),
        compare_values("types that are the fastest for some job of section II-A", len(fastest), 1),
    )
    return Computation(
        rows, "ResNet-50 is 10 times as fast on V100 as on K80, A3C twice; by (10) both speedups are the same"
    )


# -- what sympy checks -----------------------------------------------------------------------------------------------


def elasticities() -> str:
    """The estimate in each term is a power: its exponent, in both readings of PMI."""
    import sympy

    names = ("tflops", "memory", "pcie", "batch", "weight", "dataset")
    t, m, p, b, w, d = terms = sympy.symbols(names, positive=True)
    for index, first in ((sympy.sqrt(t / m), sympy.Rational(1, 2)), (t / sympy.sqrt(m), 1)):
        estimate = index * b * p / (w * d)
        found = [sympy.simplify(x * sympy.diff(estimate, x) / estimate) for x in terms]
        if found != [first, -sympy.Rational(1, 2), 1, 1, -1, -1]:
            return f"the exponents are {found}"
    return ""


def equal_speedups() -> str:
    """The quotient of both speedups, for any index, scaling, batch, weight and dataset."""
    import sympy

    index, pcie, batch, weight, dataset = (sympy.symbols(f"{name}:2", positive=True) for name in "ipbwd")

    def estimate(node: int, model: int) -> sympy.Expr:
        return index[node] * batch[model] * pcie[node] / (weight[model] * dataset[model])

    quotient = sympy.simplify(estimate(1, 0) / estimate(0, 0) / (estimate(1, 1) / estimate(0, 1)))
    return "" if quotient == 1 else f"the quotient is {quotient}"


CLAIMS = (
    Claim(
        key="hadar/eq-10",
        place="eq. (10)",
        statement="Equation (10) estimates throughputs as the paper reports them: ResNet-50 nearly 10 times as fast "
        "on V100 as on K80, A3C 2 times (section I), and the three jobs of section II-A fastest on three different "
        "types.",
        procedure=ByComputation(speedups_of_the_paper),
        expected=ClaimVerdict.FALSE,
        policies=("hadare",),
        instead="hadar/eq-10-speedups",
        quote="Note that the aforementioned expression provides a reasonable estimate for *HadarE* to yield good "
        "scheduling decisions from the beginning.",
        note="No numbers for its terms can do this. The estimate is blind to what Hadar schedules by, that jobs "
        "differ in their speedups; measurements replace it round by round.",
    ),
    Claim(
        key="hadar/eq-10-speedups",
        place="eq. (10)",
        statement="By equation (10) the speedup of one node over another is the same for all models, and so is their "
        "order.",
        procedure=ForAll(two_by_two_space(), same_speedup),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadare",),
        proof=r"""
PMI and PCIe scaling depend on the node only, batch size, model weight and dataset size on the model only. In the
quotient of the estimates of one model on two nodes the latter cancel.""",
        mechanical=(by_sympy("the quotient of two speedups is 1", equal_speedups),),
        note=r"Checked for both readings of PMI, as $\sqrt{\mathrm{TFLOPS} / \mathrm{GB}}$ and $\mathrm{TFLOPS} / "
        r"\sqrt{\mathrm{GB}}$. `hadare.Estimate`.",
    ),
    Claim(
        key="hadar/eq-10-terms",
        place="eq. (10)",
        statement="The estimate grows with a larger mini-batch, faster PCIe and more TFLOPS, and falls with a more "
        "complicated model and a larger dataset; it also falls with more memory.",
        procedure=ForAll(two_by_two_space(), as_described),
        expected=ClaimVerdict.TRUE,
        policies=("hadare",),
        quote="Additionally, the mini-batch size during training on a GPU affects its throughput, with a larger size "
        "calling for less communication to net a larger throughput. On the other hand, a more complicated model or a "
        "larger dataset used for training on a GPU lowers its throughput",
        proof=r"""
Equation (10) is a product of powers of its terms, with the exponents 1 of batch size and PCIe scaling, $-1$ of
model weight and dataset size, and of TFLOPS and memory $\frac12$ and $-\frac12$ or 1 and $-\frac12$, by the reading of
PMI.""",
        mechanical=(by_sympy("the exponents of all terms", elasticities),),
        note="The paper does not mention that of two GPUs with the same TFLOPS the one with more memory is estimated "
        "to be slower.",
    ),
)
