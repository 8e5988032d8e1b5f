"""Show properties of policies in the terminal, as Markdown, as an HTML page and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hetopt.presentation import console, tables, terminal_tables
from hetopt.presentation.formatting import MISSING, slug
from hetopt.presentation.pages import render
from hetopt.presentation.tables import Cell, Column, Mark, table_of
from hetopt.proofs.ledger.claim import Effort
from hetopt.proofs.ledger.claim_text import as_markdown
from hetopt.proofs.ledger.discovery import all_claims
from hetopt.proofs.ledger.kernel import by_claim
from hetopt.proofs.ledger.ledger_output import counterexample_as_dict
from hetopt.proofs.properties.property_checks import PROPERTIES
from hetopt.proofs.properties.property_matrix import CellOutcome, MatrixCell, MatrixRow

MARKS = {
    CellOutcome.PROVED: Mark.GOOD,
    CellOutcome.FAILS: Mark.BAD,
    CellOutcome.NOT_JUDGED: Mark.QUIET,
    CellOutcome.ERROR: Mark.WARN,
}
SIGNS = {CellOutcome.FAILS: tables.SIGNS[Mark.BAD], CellOutcome.NOT_JUDGED: "-", CellOutcome.ERROR: "error"}


def as_dict(row: MatrixRow) -> dict[str, Any]:
    """A row as plain data for JSON."""
    cells = {
        cell.about.key: {
            "says": cell.about.statement,
            "holds": cell.holds,
            "instances": cell.instances,
            "refused": cell.refused,
            "tied": cell.tied,
            "searched": cell.searched,
            "proved": cell.proved or None,
            "why": cell.why or None,
            "broken": cell.broken,
            "counterexample": counterexample_as_dict(cell.counterexample),
            "seconds": cell.seconds,
        }
        for cell in row.cells
    }
    return {"policy": row.policy, "about": row.kind, "refuses": row.why or None, "properties": cells}


def show(found: Sequence[MatrixRow]) -> None:
    """Print a table per policy and kind: property, result, and smallest counterexample."""
    for row in found:
        if row.why:
            terminal_tables.print_text(f"{row.policy} does not support {row.kind}: {row.why}")
            continue
        rows = [(c.about.key, Cell(c.text, mark=MARKS.get(c.outcome)), _explanation(c)) for c in row.cells]
        head = ("property", Column("on instances"), "meaning, or the counterexample")
        terminal_tables.show(table_of(head, rows, _name(row)))


def _name(row: MatrixRow) -> str:
    return f"{row.policy}, {row.kind}"


def _explanation(cell: MatrixCell) -> str:
    if cell.counterexample is not None:
        return cell.counterexample.finding.explanation
    given = all_claims()[cell.proved].hypotheses if cell.proved else ()
    proof = f" ({'; '.join((cell.proved, *given))})" if cell.proved else ""
    return cell.why or cell.about.statement + proof


def markdown(found: Sequence[MatrixRow], effort: Effort) -> str:
    """The matrix as a page of the docs, with a row per policy and kind and the counterexamples below."""
    return render(
        "properties.md.j2",
        package="hetopt.proofs.properties",
        properties=PROPERTIES,
        rows=found,
        cells=[(row, cell) for row in found if not row.why for cell in row.cells],
        settings=_effort(effort),
        signs=SIGNS,
        as_markdown=as_markdown,
        slug=slug,
        claim_link=_claim_link,
        known=lambda key: "kernel-checked" if key in by_claim() else "with a written proof",
        hypotheses=_hypotheses,
    )


def _claim_link(key: str) -> str:
    """The link from the page of the matrix to a claim of the docs."""
    paper = all_claims()[key].paper
    return f'<a href="claims-{slug(paper.lower())}.html#{slug(key)}">{key}</a>'


def _hypotheses(key: str) -> str:
    """The hypotheses of a claim in Markdown."""
    given = all_claims()[key].hypotheses
    return f", if {as_markdown('; '.join(given))}" if given else ""


def _effort(effort: Effort) -> str:
    search = f", {effort.seconds:g} s of search" if effort.seconds else ""
    return (
        f"Each cell was decided by the stored counterexamples, {effort.instances} drawn instances{search} and the "
        f"counterexamples to the other policies here; seed {effort.seed}. Instances that a policy refused, or whose "
        "result could not be judged, are not counted."
    )


def page(found: Sequence[MatrixRow], effort: Effort) -> str:
    """The matrix as an HTML page with pictures of the counterexamples."""
    from hetopt.proofs.ledger.finding_drawings import draw_finding

    judged = [row for row in found if not row.why]
    matrix = [[Cell(_name(row), link=f"#{slug(_name(row))}"), *map(_short, row.cells)] for row in judged]
    return render(
        "properties.html.j2",
        package="hetopt.proofs.properties",
        title="Which policy has which property",
        versions=console.versions(),
        matrix=table_of(["policy", *(Column(p.title, meaning=p.statement) for p in PROPERTIES)], matrix),
        rows=found,
        settings=_effort(effort),
        name=_name,
        explanation=_explanation,
        slug=slug,
        draw=draw_finding,
    )


def _short(cell: MatrixCell) -> Cell:
    """The result for the matrix: a number of instances if the property held on them."""
    if cell.outcome is not CellOutcome.HOLDS:
        return Cell(MISSING if cell.outcome is CellOutcome.NOT_JUDGED else cell.text, mark=MARKS[cell.outcome])
    return Cell(str(cell.instances), cell.instances, (f"{cell.tied} ties",) if cell.tied else ())
