"""The past costs nothing: no query of a pass scans all of it, and unused checkpoints are removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_cluster import opened, rows, spec, statements
from test_executor_controller import Driven, Moody

from hetopt.executor import lease_directory as files
from hetopt.executor.job_side import list_files
from hetopt.executor.leases import LeaseResult, seal
from hetopt.executor.queue import cancel, submit
from hetopt.executor.speeds import starting, stopping


@pytest.fixture
def driven(tmp_path: Path) -> Iterator[Driven]:
    made = Driven(tmp_path / "state", Moody())
    yield made
    made.controller.close()


def test_no_query_of_a_pass_scans_all_leases(driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    executed = statements(monkeypatch)
    for name in ("a", "b"):
        submit(driven.database, spec(name))
        driven.controller.step()
    driven.controller.idle()
    cancel(driven.database, "a")
    driven.controller.step()
    seal(driven.database, opened(driven.database)[0], LeaseResult("stopped"))
    driven.controller.step()
    with driven.database.reading() as connection:
        stopping(connection), starting(connection)
        queries = {sql: values for sql, values in executed if sql.split()[0] in {"SELECT", "WITH", "UPDATE", "DELETE"}}
        plans = {
            sql: [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
            for sql, values in queries.items()
        }
    scans = [(*step.partition(" INDEX "), sql) for sql, plan in plans.items() for step in plan if "SCAN leases" in step]
    few = {"open_leases", "unmerged_leases", "leases_with_checkpoints"}
    assert [sql for _, _, index, sql in scans if index not in few] == []
    assert {index for _, _, index, _ in scans} == few
    assert sum("INDEX stopped_leases" in step for plan in plans.values() for step in plan) == 2
    assert sum("INDEX begun_leases" in step for plan in plans.values() for step in plan) == 1
    open_of_a_job = next(plan for sql, plan in plans.items() if sql.startswith("SELECT copy, forked FROM leases"))
    assert open_of_a_job == ["SEARCH leases USING INDEX one_lease_of_a_copy (job=?)"]


@pytest.mark.parametrize("over", ["cancelled", "failed"])
@pytest.mark.parametrize("committed", [True, False])
def test_unused_checkpoints_are_removed(driven: Driven, over: str, committed: bool) -> None:
    """Also those of a job without a committed one; the committed one stays, and all of a failed job."""
    database, folders = driven.database, []
    submit(database, spec("a"))
    for step in (5, 7) if committed else (0, 0):
        driven.controller.step()
        lease = opened(database)[0]
        folders.append(lease.folder / files.CHECKPOINTS / f"step-{step}")
        folders[-1].mkdir(parents=True)
        list_files(folders[-1])
        if folders[1:]:
            with database.writing() as connection:
                connection.update("jobs", {"state": over})
        seal(database, lease, LeaseResult("stopped", step=step, checkpoint=folders[-1]))
    driven.controller.step()
    assert rows(database)[0]["checkpoint"] == (str(folders[1]) if committed else None)
    assert [folder.exists() for folder in folders] == [
        committed and over == "failed",
        committed or over == "failed",
    ]
