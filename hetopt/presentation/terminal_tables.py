"""Tables on terminals of any width."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, zip_longest

from rich.cells import cell_len
from rich.text import Text

from hetopt.presentation import terminal
from hetopt.presentation.console import printable, readable
from hetopt.presentation.tables import MOST_ROWS, SIGNS, Cell, Column, Mark, Table


def show(table: Table, *, meaning: bool = True, most: int | None = MOST_ROWS) -> None:
    """Print a table; one that is too wide is cut into blocks of columns, never in numbers or words.

    Sentences and headings are wrapped at blanks. Names are wrapped, also after separators such as ``-`` and ``/``, if
    then there are fewer blocks or all fit. What is wider than the terminal, but has no place to break, stays whole.

    Parameters
    ----------
    meaning:
        Whether the meaning of the columns follows.
    most:
        Rows beyond are only counted; None: all rows.
    """
    if table.title:
        print_text((table.title, "italic"))
    rows = table.rows[:most]
    texts = [[_plain(row[i]) for row in rows] for i in range(len(table.columns))]
    for block in _blocks(table.columns, texts):
        sides = {i: i == 0 or table.columns[i].text for i in block}
        heads = {
            i: _wrapped(f"{table.columns[i].name}\n{table.columns[i].unit}".strip(), block[i], SEPARATORS)
            for i in block
        }
        high = max(map(len, heads.values()))
        _print_row({i: [""] * (high - len(own)) + own for i, own in heads.items()}, block, sides, ["bold"] * len(block))
        print_text((readable("─" * _width(block)), "dim"))
        for number, row in enumerate(rows):
            whole = "bold" if number in table.marked else ""
            cells = {i: _wrapped(texts[i][number], block[i], SEPARATORS) for i in block}
            marks = (row[i].mark for i in block)
            _print_row(cells, block, sides, [STYLES[mark] if mark else whole for mark in marks])
        terminal.OUT.print()
    if len(rows) < len(table.rows):
        print_text(f"… {len(table.rows) - len(rows)} more")
    if any(cell.mark is Mark.BEST for row in rows for cell in row):
        print_text(f"  {SIGNS[Mark.BEST]} best in its column")
    for name, text in (*(table.meanings.items() if meaning else ()), *table.facts):
        print_text("  ", (name, "bold"), f": {text}")


def print_text(*parts: str | tuple[str, str]) -> None:
    """Print sentences, wrapped at blanks; a part may be a pair of text and style."""
    pairs = [(part, "") if isinstance(part, str) else part for part in parts]
    text = Text.assemble(*((printable(part), style) for part, style in pairs))
    lines = _wrapped(text.plain, terminal.OUT.width, hanging=HANGING)
    for number, line in enumerate(text.divide(list(accumulate(map(len, lines)))[:-1])):
        line.rstrip()
        terminal.OUT.print(" " * HANGING * bool(number), line, sep="", soft_wrap=True)


HANGING = 4
"""Blanks before the second and further lines of sentences."""

BLANKS = r"(?<=\n)|(?<=[^:] )"
"""Where sentences are wrapped; pairs such as ``t4-0: 3`` stay in one line."""

SEPARATORS = BLANKS + r"|(?<=[-_/.:,=\[])(?=[^\W\d])"
"""Where names are wrapped: also between a separator and a letter, so never in a number."""

GAP = 2
"""Blanks between columns."""

SENTENCE, HEADING, NAME_PARTS = 24, 10, 3
"""Widths down to which sentences and headings are not wrapped; names: this part of the terminal's width."""

STYLES = {Mark.BAD: "red", Mark.GOOD: "green", Mark.WARN: "yellow", Mark.QUIET: "dim", Mark.BEST: "bold"}


def _plain(cell: Cell) -> str:
    sign = f"{SIGNS[cell.mark]} " if cell.mark in SIGNS else ""
    return readable(printable("\n".join((f"{sign}{cell.text}", *cell.notes))))


def _print_row(
    cells: Mapping[int, list[str]], widths: Mapping[int, int], left: Mapping[int, bool], styles: list[str]
) -> None:
    for line in zip_longest(*cells.values(), fillvalue=""):
        padded = Text()
        for i, text, style in zip(cells, map(str.rstrip, line), styles, strict=True):
            blanks = " " * (widths[i] - cell_len(text))
            padded.append(" " * GAP * bool(padded)).append(text + blanks if left[i] else blanks + text, style)
        padded.rstrip()
        terminal.OUT.print(padded, soft_wrap=True)


def _blocks(
    columns: Sequence[Column], texts: Sequence[Sequence[str]], *, whole_names: bool = True
) -> list[dict[int, int]]:
    """Column -> width, of each block that fits the terminal; every block begins with the names."""
    least, most = list[int](), list[int]()
    for i, column in enumerate(columns):
        head, lines = (column.name, column.unit), [line for text in texts[i] for line in text.split("\n")]
        breaks = BLANKS if whole_names or not (column.text or i == 0) else SEPARATORS
        longest = max(cell_len(piece.rstrip()) for text in (*head, *lines) for piece in re.split(breaks, text))
        whole = room = max(map(cell_len, lines), default=0)
        if column.text and i > 0:
            room = max(HEADING, min(SENTENCE, terminal.OUT.width - least[0] - GAP))
        elif not i and not whole_names:
            room = terminal.OUT.width // NAME_PARTS
        least.append(max(longest, min(whole, room), min(max(map(cell_len, head)), HEADING)))
        most.append(max(whole, least[-1]))
    blocks: list[dict[int, int]] = [{0: least[0]}]
    for i in range(1, len(columns)):
        if len(blocks[-1]) > 1 and _width(blocks[-1]) + GAP + least[i] > terminal.OUT.width:
            blocks.append({0: least[0]})
        blocks[-1][i] = least[i]
    widest = max(map(_width, blocks))
    if whole_names and (len(blocks) > 1 or widest > terminal.OUT.width):
        wrapped = _blocks(columns, texts, whole_names=False)
        if len(wrapped) < len(blocks) or max(map(_width, wrapped)) < widest:
            return wrapped
    for block in blocks:
        left = min(terminal.OUT.width, terminal.TEXT_WIDTH) - _width(block)
        wanted = {i: most[i] - width for i, width in block.items() if most[i] > width}
        for number, i in enumerate(sorted(wanted, key=lambda i: wanted[i])):
            more = min(wanted[i], max(left, 0) // (len(wanted) - number))
            block[i] += more
            left -= more
    return blocks


def _width(block: Mapping[int, int]) -> int:
    return sum(block.values()) + GAP * (len(block) - 1)


def _wrapped(text: str, width: int, within: str = BLANKS, hanging: int = 0) -> list[str]:
    """The text in lines, with the blanks at their ends; all but the first are narrower by ``hanging``.

    ``within``: where words are wrapped that are wider than a line.
    """
    lines = [""]
    for word in re.split(BLANKS, text):
        for piece in re.split(within, word) if cell_len(word.rstrip()) > width else [word]:
            most = width - hanging * (len(lines) > 1)
            if lines[-1].endswith("\n") or (lines[-1].strip() and cell_len((lines[-1] + piece).rstrip()) > most):
                lines.append(piece)
            else:
                lines[-1] += piece
    return lines
