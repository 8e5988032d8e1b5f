"""The threshold of training steps in section V-B: after how many passes over its data a job counts as complete."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.mechanical import by_sympy
from hetopt.proofs.ledger.procedures import ByComputation, Computation, ForAll, compare_values
from hetopt.proofs.ledger.space import CaseNumbers, Hypothesis, Space, TableShape, integers

F = Fraction


@dataclass(frozen=True)
class TrainingJob:
    """A job by its numbers of samples, samples per mini-batch, and epochs."""

    samples: int
    batch: int
    epochs: int

    @property
    def phi(self) -> int:
        """Mini-batches of the data."""
        return self.samples // self.batch

    def passes(self, batches_per_step: int) -> int:
        """Complete passes over the data in phi times the number of epochs steps, mini-batch by mini-batch."""
        left, passes = self.phi * self.epochs * batches_per_step, 0
        while left >= self.phi:
            left, passes = left - self.phi, passes + 1
        return passes if not left else -1


def printed() -> Computation:
    """Six samples in mini-batches of two, for two epochs."""
    job = TrainingJob(6, 2, 2)
    rows = (
        compare_values("phi", 3, job.phi),
        compare_values("passes over the data at the threshold", job.epochs, job.passes(job.phi)),
    )
    return Computation(rows, "6 steps of 3 mini-batches are 6 passes over 6 samples in mini-batches of 2, not 2")


def in_single_batches(job: TrainingJob) -> Finding:
    """Whether the threshold is the number of epochs if a step is one mini-batch, and phi times that if it is phi."""
    one, many = job.passes(1), job.passes(job.phi)
    apart = abs(one - job.epochs) + abs(many - job.phi * job.epochs)
    return Finding(
        F(-apart), f"{one} passes with one mini-batch per step, {many} with {job.phi}, for {job.epochs} epochs"
    )


def passes_over_the_data() -> str:
    """Mini-batches of the threshold over those of a pass, for one and for phi mini-batches per step."""
    import sympy

    samples, batch, epochs = sympy.symbols("samples batch epochs", positive=True)
    phi = samples / batch
    one, many = (sympy.simplify(phi * epochs * per_step * batch / samples) for per_step in (1, phi))
    wrong = one != epochs or sympy.simplify(many - phi * epochs) != 0
    return f"{one} and {many} passes" if wrong else ""


def job_space() -> Space[TrainingJob]:
    """Jobs whose samples are whole mini-batches."""

    def build(numbers: CaseNumbers) -> TrainingJob:
        phi, batch, epochs = (int(numbers.one(name)) for name in ("phi", "batch", "epochs"))
        return TrainingJob(phi * batch, batch, epochs)

    tables = {name: TableShape(1, 1, integers(1, 6)) for name in ("phi", "batch", "epochs")}
    return Space({}, tables, build, hypotheses=(Hypothesis("the data are a whole number of mini-batches"),))


CLAIMS = (
    Claim(
        key="hadar/step-threshold",
        place="section V-B",
        statement=r"A job is complete after $\phi$ times its number of epochs steps, one step being $\phi$ "
        r"mini-batches, $\phi$ the size of the data over that of a mini-batch: these are as many passes over the data "
        "as epochs.",
        procedure=ByComputation(printed),
        expected=ClaimVerdict.FALSE,
        policies=("hadare",),
        instead="hadar/step-threshold-batches",
        quote="Result aggregation simply sums completed training steps up, where one training step for a model means "
        r"to train the model via $\phi$ mini-batches of training data, with $\phi = (\text{training data "
        r"size})/(\text{mini-batch size})$ … When the total number of completed training steps of a job reaches the "
        r"specified threshold, equal to $\phi \times (\text{the training epoch count})$, all copies of the job in the "
        "scheduler are then discarded",
        note=r"By section II a pass over the data is an epoch, so a step of $\phi$ mini-batches is one.",
    ),
    Claim(
        key="hadar/step-threshold-batches",
        place="section V-B",
        statement=r"With one mini-batch per step, $\phi$ times the number of epochs steps are exactly as many passes "
        r"over the data as epochs; with $\phi$ mini-batches per step they are $\phi$ times as many.",
        procedure=ForAll(job_space(), in_single_batches),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadare",),
        proof=r"""
A pass has $\phi$ mini-batches, and $\phi E$ steps of $b$ mini-batches have $\phi E b$: $E b$ passes, for $b = 1$
and for $b = \phi$.""",
        mechanical=(by_sympy("the passes for one and for phi mini-batches per step", passes_over_the_data),),
    ),
)
