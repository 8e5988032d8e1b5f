"""Tables of the state database. Seconds are those of the cluster's clock (:mod:`hetopt.executor.clock`)."""

from __future__ import annotations

from typing import Any

VERSION = 4
"""Version of these tables."""

MIGRATIONS = {
    "2": (
        "ALTER TABLE jobs RENAME COLUMN form TO spec",
        "ALTER TABLE jobs ADD COLUMN failure TEXT",
        """UPDATE jobs SET failure = substr(reason, instr(reason, ' times: ') + 8), reason = NULL
        WHERE state = 'queued' AND failures > 0 AND reason LIKE 'failed % of % times: %'""",
        "UPDATE meta SET value = '3' WHERE key = 'version'",
    ),
    "3": (
        """UPDATE leases SET stop_reason = CASE stop_reason
            WHEN 'it moves' THEN 'moves'
            WHEN 'the decision gives its GPUs to others' THEN 'preempted'
            WHEN 'a profiling run comes first' THEN 'profiling'
            WHEN 'its round is over' THEN 'round_ended'
            WHEN 'its node is drained' THEN 'node_drained'
            WHEN 'its GPU is gone' THEN 'gpu_lost'
            WHEN 'its GPU is in use by processes of others' THEN 'gpu_busy'
            WHEN 'part of the gang has ended' THEN 'part_ended'
            WHEN 'the engine did not start it in time' THEN 'not_started'
            WHEN 'the engine starts nothing on its node now' THEN 'node_down'
            ELSE stop_reason END
        WHERE stop_reason IS NOT NULL""",
        "ALTER TABLE leases RENAME COLUMN stop_asked TO stop_requested",
        "ALTER TABLE leases ADD COLUMN ttl_seconds FLOAT NOT NULL DEFAULT 60.0",
        """UPDATE leases SET ttl_seconds = (SELECT value FROM meta WHERE key = 'ttl_seconds')
        WHERE EXISTS (SELECT * FROM meta WHERE key = 'ttl_seconds')""",
        "DELETE FROM meta WHERE key = 'ttl_seconds'",
        "UPDATE meta SET value = '4' WHERE key = 'version'",
    ),
}
"""Version -> SQL that makes the next one of it."""

HELD_NUMBER = "held = 1 AND device = ''"
HELD_DEVICE = "held = 1 AND device != ''"
"""Seats by number, and by device: a GPU's number changes where another one is lost or split."""

HELD_UUID = "held = 1 AND (device GLOB 'GPU-*' OR device GLOB 'MIG-*')"
"""A UUID is unique, whatever name its host has by now; an engine may also report numbers, which are not."""

TABLES = {
    "meta": """ -- single facts: the version, the cluster's name, the clock, the policy
        key TEXT PRIMARY KEY NOT NULL,
        value TEXT NOT NULL""",
    "jobs": """
        id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
        name TEXT NOT NULL UNIQUE,
        tenant TEXT NOT NULL,
        spec TEXT NOT NULL, -- JSON of JobSpec
        state TEXT NOT NULL, -- queued, done, failed, cancelled; a job with an open lease is running
        reason TEXT, -- why it waits, or how it ended
        failure TEXT, -- why its last lease failed, until it has another
        submitted FLOAT NOT NULL,
        submitted_at TEXT NOT NULL, -- date and time, for display
        started FLOAT, -- when it first ran
        finished FLOAT,
        committed INTEGER NOT NULL, -- steps that will never be done again
        checkpoint TEXT, -- folder of the state after them
        checkpoint_bytes FLOAT,
        lost INTEGER NOT NULL, -- steps done and lost
        epoch INTEGER NOT NULL, -- of its newest lease
        failures INTEGER NOT NULL, -- in a row
        losses INTEGER NOT NULL, -- in a row: leases that ended early without a request
        not_before FLOAT NOT NULL, -- it backs off until then
        cancelled BOOLEAN NOT NULL -- requested""",
    "leases": """
        id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
        tag TEXT NOT NULL UNIQUE,
        job INTEGER NOT NULL REFERENCES jobs (id),
        copy INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        kind TEXT NOT NULL, -- train, profile
        forked BOOLEAN NOT NULL,
        state TEXT NOT NULL, -- intent, started, sealed
        gpu_types TEXT NOT NULL, -- joined by +
        from_step INTEGER NOT NULL,
        until_step INTEGER NOT NULL,
        resume_dir TEXT,
        folder TEXT, -- in which its directory is; NULL: with the state
        round INTEGER NOT NULL,
        granted FLOAT NOT NULL,
        running FLOAT, -- when a process was first seen
        first_tick FLOAT, -- when the first step was done
        stop_requested FLOAT,
        stop_reason TEXT, -- a StopReason
        lost_since FLOAT, -- no longer renewed: given up, but perhaps alive
        sealed FLOAT,
        outcome TEXT,
        ticked_step INTEGER, -- as far as the job got
        end_step INTEGER, -- as far as its last checkpoint is
        checkpoint TEXT,
        steps_timed FLOAT, -- steps and seconds of which its speed is the ratio
        seconds_timed FLOAT,
        merged BOOLEAN NOT NULL, -- of a copy: its steps are committed
        ttl_seconds FLOAT NOT NULL DEFAULT 60.0, -- its runner stops the job when it is not renewed for this time
        UNIQUE (job, id) -- comes with the table: of two indexes that serve, SQLite takes the later one""",
    "seats": """
        lease INTEGER NOT NULL REFERENCES leases (id),
        node TEXT NOT NULL,
        gpu_type TEXT NOT NULL,
        number INTEGER NOT NULL,
        device TEXT NOT NULL,
        held BOOLEAN NOT NULL,
        PRIMARY KEY (lease, node, gpu_type, number)""",
    "targets": """ -- what the last decision is to run
        job INTEGER NOT NULL REFERENCES jobs (id),
        copy INTEGER NOT NULL,
        seats TEXT NOT NULL, -- JSON: node -> GPU type -> how many
        work FLOAT, -- of a forked copy: its part of the steps, in any unit
        until_step INTEGER, -- of a forked copy, once it is known where the round begins
        PRIMARY KEY (job, copy)""",
    "speeds": """ -- what is measured of jobs on GPU types
        job INTEGER NOT NULL REFERENCES jobs (id),
        gpu_type TEXT NOT NULL,
        feasible BOOLEAN NOT NULL,
        steps FLOAT NOT NULL,
        seconds FLOAT NOT NULL,
        memory_bytes FLOAT, -- of one worker
        note TEXT,
        PRIMARY KEY (job, gpu_type)""",
    "nodes": """
        name TEXT PRIMARY KEY NOT NULL,
        drained BOOLEAN NOT NULL,
        content TEXT -- JSON: what the engine last reported of it""",
    "rounds": """
        number INTEGER PRIMARY KEY NOT NULL,
        time FLOAT NOT NULL,
        policy TEXT NOT NULL,
        jobs INTEGER NOT NULL,
        placed INTEGER NOT NULL,
        gpus INTEGER NOT NULL,
        capacity INTEGER NOT NULL,
        seconds FLOAT NOT NULL -- that the decision took""",
    "merges": """
        id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, -- its row goes when its checkpoint does, but not its number
        job INTEGER NOT NULL REFERENCES jobs (id),
        step INTEGER NOT NULL, -- committed once it is done
        parts TEXT NOT NULL, -- JSON: list of [folder, weight]
        folder TEXT NOT NULL,
        done BOOLEAN NOT NULL""",
    "memories": """ -- state of policies, under their names and settings
        policy TEXT PRIMARY KEY NOT NULL,
        state BLOB NOT NULL""",
    "events": """ -- in the transaction of the change; from here they go to the log file
        id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
        time FLOAT NOT NULL,
        at TEXT NOT NULL, -- date and time, for display
        kind TEXT NOT NULL,
        job TEXT,
        content TEXT NOT NULL -- JSON""",
}
"""Table -> its columns."""

UNIQUE_INDEXES = {
    "one_lease_of_a_copy": "leases (job, copy) WHERE state != 'sealed'",
    "one_lease_on_a_seat": f"seats (node, gpu_type, number) WHERE {HELD_NUMBER}",
    "one_lease_on_a_device": f"seats (device, node) WHERE {HELD_DEVICE}",
    "one_lease_on_a_uuid": f"seats (device) WHERE {HELD_UUID}",
    "one_merge_of_a_job": "merges (job) WHERE done = 0",
}
INDEXES = {
    "jobs_of_a_state": "jobs (state)",
    "open_leases": "leases (state) WHERE state != 'sealed'",
    # so that a step costs the same however many leases there have been:
    "leases_with_checkpoints": "leases (job) WHERE checkpoint IS NOT NULL",
    "unmerged_leases": "leases (job) WHERE forked = 1 AND merged = 0",
    "stopped_leases": "leases (outcome, stop_reason, sealed) WHERE sealed IS NOT NULL",
    "begun_leases": "leases (first_tick) WHERE first_tick IS NOT NULL",
}
NAMES = {*TABLES, *UNIQUE_INDEXES, *INDEXES}
"""All tables and indexes."""

DEFAULTS: dict[str, dict[str, Any]] = {
    "jobs": {"committed": 0, "lost": 0, "epoch": 0, "failures": 0, "losses": 0, "not_before": 0.0, "cancelled": False},
    "leases": {"forked": False, "merged": False},
    "speeds": {"steps": 0.0, "seconds": 0.0},
    "nodes": {"drained": False},
    "merges": {"done": False},
}
"""Table -> values of a new row; not in the columns, since older databases do not have them there."""


def statements() -> list[str]:
    """SQL that makes what is absent."""
    return [
        *(f"CREATE TABLE IF NOT EXISTS {name} ({columns}\n)" for name, columns in TABLES.items()),
        *(f"CREATE UNIQUE INDEX IF NOT EXISTS {name} ON {what}" for name, what in UNIQUE_INDEXES.items()),
        *(f"CREATE INDEX IF NOT EXISTS {name} ON {what}" for name, what in INDEXES.items()),
    ]
