"""Connections to the state database: SQL as text, values by name, rows as dictionaries."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from hetopt.executor.schema import DEFAULTS

Row = dict[str, Any]
"""Column -> value."""


def uri(path: Path) -> str:
    """Address of a database that SQLite is not to make."""
    return f"{path.absolute().as_uri()}?mode=rw"


sqlite3.register_converter("BOOLEAN", b"0".__ne__)


class Connection(sqlite3.Connection):
    """A connection on which every commit is on the disk when it returns.

    Values are given by name: ``rows("SELECT * FROM jobs WHERE id = :job", job=3)``. A list or set is given as JSON, for
    ``IN (SELECT value FROM json_each(:jobs))``. Columns of type BOOLEAN are read as bool.

    Attributes
    ----------
    copied:
        Whether it is to a copy of the state database, for one transaction that reads.
    """

    copied = False

    @classmethod
    def open(cls, path: Path, wait_seconds: float, *, read_only: bool = False) -> Self:
        """Connect to a database.

        Parameters
        ----------
        path:
            Its file, which must be there: SQLite would make an empty one, and remove the log of one that was moved.
        wait_seconds:
            How long a transaction waits for that of another process.
        read_only:
            Refuse to change anything.

        Raises
        ------
        sqlite3.OperationalError
            It is a database of another program, or cannot be opened.
        """
        own = sqlite3.connect(
            uri(path),
            uri=True,
            timeout=wait_seconds,
            detect_types=sqlite3.PARSE_DECLTYPES,
            isolation_level=None,  # transactions begin where the database says
            check_same_thread=False,
            factory=cls,
        )
        try:
            own._check_origin()  # before anything is changed, such as the mode of the journal
            own.execute(f"PRAGMA query_only = {read_only:d}")
            own.execute("PRAGMA journal_mode = WAL")
            own.execute("PRAGMA synchronous = FULL")
            own.execute("PRAGMA foreign_keys = ON")
        except Exception:
            own.close()
            raise
        return own

    def _check_origin(self) -> None:
        tables = self.column("SELECT name FROM sqlite_master WHERE type = 'table'")
        if tables and self.column("SELECT name FROM pragma_table_info('meta')") != ["key", "value"]:
            raise sqlite3.OperationalError("it is a database of another program")

    def rows(self, sql: str, **values: Any) -> list[Row]:
        """All rows of a query."""
        cursor = self.execute(sql, _bound(values))
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def row(self, sql: str, **values: Any) -> Row | None:
        """The first row of a query; None where it has none."""
        return next(iter(self.rows(sql, **values)), None)

    def tuples(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        """All rows of a query, without the names of the columns."""
        return self.execute(sql, _bound(values)).fetchall()

    def column(self, sql: str, **values: Any) -> list[Any]:
        """The first column of a query."""
        return [first for first, *_ in self.tuples(sql, **values)]

    def value(self, sql: str, **values: Any) -> Any:
        """The first value of a query; None where it has no row."""
        return next(iter(self.column(sql, **values)), None)

    def change(self, sql: str, **values: Any) -> int:
        """Run a statement; the number of rows that it has changed."""
        return self.execute(sql, _bound(values)).rowcount

    def insert(self, table: str, **values: Any) -> int:
        """A new row, with :data:`~hetopt.executor.schema.DEFAULTS`; its number."""
        row = DEFAULTS.get(table, {}) | values
        number = self.execute(_insertion(table, row), row).lastrowid
        assert number is not None
        return number

    def insert_all(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """New rows, all with the same columns."""
        every = [DEFAULTS.get(table, {}) | dict(row) for row in rows]
        if every:
            self.executemany(_insertion(table, every[0]), every)

    def update(self, table: str, values: Mapping[str, Any], where: str = "TRUE", **named: Any) -> int:
        """Give columns new values in the rows ``where`` a condition on ``named`` values holds; the number of rows."""
        changes = ", ".join(f"{column} = :new_{column}" for column in values)
        new = {f"new_{column}": value for column, value in values.items()}
        return self.change(f"UPDATE {table} SET {changes} WHERE {where}", **new, **named)


def _insertion(table: str, row: Iterable[str]) -> str:
    columns = list(row)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(f':{column}' for column in columns)})"


def _bound(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: json.dumps(list(v)) if isinstance(v, list | tuple | set | frozenset) else v for k, v in values.items()}
