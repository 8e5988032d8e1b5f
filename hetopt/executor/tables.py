"""The executor's tables in SQLite. Seconds are those of the cluster's clock (:mod:`hetopt.executor.clock`)."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData()

VERSION = 2
"""Of these tables."""

meta = Table("meta", metadata, Column("key", String, primary_key=True), Column("value", Text, nullable=False))
"""Single facts: the version, the cluster's name, the clock, the policy."""

jobs = Table(
    "jobs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("tenant", String, nullable=False),
    Column("form", Text, nullable=False),  # JSON of JobForm
    Column("state", String, nullable=False),  # queued, done, failed, cancelled; running is who has an open lease
    Column("reason", Text),  # why it waits, or how it ended
    Column("submitted", Float, nullable=False),
    Column("submitted_at", String, nullable=False),  # date and time, for people
    Column("started", Float),  # when it first ran
    Column("finished", Float),
    Column("committed", Integer, nullable=False, default=0),  # steps that will never be done again
    Column("checkpoint", Text),  # folder of the state after them
    Column("checkpoint_bytes", Float),
    Column("lost", Integer, nullable=False, default=0),  # steps done and lost
    Column("epoch", Integer, nullable=False, default=0),  # of its newest lease
    Column("failures", Integer, nullable=False, default=0),  # in a row
    Column("losses", Integer, nullable=False, default=0),  # in a row: leases that ended early, by nobody's wish
    Column("not_before", Float, nullable=False, default=0.0),  # it rests until then
    Column("cancelled", Boolean, nullable=False, default=False),  # asked for
    sqlite_autoincrement=True,
)
Index("jobs_of_a_state", jobs.c.state)

leases = Table(
    "leases",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("tag", String, nullable=False, unique=True),
    Column("job", Integer, ForeignKey("jobs.id"), nullable=False),
    Column("copy", Integer, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("kind", String, nullable=False),  # train, profile
    Column("forked", Boolean, nullable=False, default=False),
    Column("state", String, nullable=False),  # intent, started, sealed
    Column("gpu_types", String, nullable=False),  # joined by +
    Column("from_step", Integer, nullable=False),
    Column("until_step", Integer, nullable=False),
    Column("resume_dir", Text),
    Column("folder", Text),  # in which its directory is; NULL: with the state
    Column("round", Integer, nullable=False),
    Column("granted", Float, nullable=False),
    Column("running", Float),  # when a process was first seen
    Column("first_tick", Float),  # when the first step was done
    Column("stop_asked", Float),
    Column("stop_reason", String),
    Column("lost_since", Float),  # no longer renewed: given up, but not certainly dead
    Column("sealed", Float),
    Column("outcome", String),
    Column("ticked_step", Integer),  # as far as the job got
    Column("end_step", Integer),  # as far as its last checkpoint is
    Column("checkpoint", Text),
    Column("steps_timed", Float),  # steps and seconds that tell its speed
    Column("seconds_timed", Float),
    Column("merged", Boolean, nullable=False, default=False),  # of a copy: its steps are committed
    UniqueConstraint("job", "id"),  # comes with the table: of two indexes that serve, SQLite takes the later one
    sqlite_autoincrement=True,
)
Index("one_lease_of_a_copy", leases.c.job, leases.c.copy, unique=True, sqlite_where=text("state != 'sealed'"))
Index("open_leases", leases.c.state, sqlite_where=text("state != 'sealed'"))
# So that a look costs the same however many leases there have been:
Index("leases_with_checkpoints", leases.c.job, sqlite_where=text("checkpoint IS NOT NULL"))
Index("unmerged_leases", leases.c.job, sqlite_where=text("forked = 1 AND merged = 0"))
Index(
    "stopped_leases", leases.c.outcome, leases.c.stop_reason, leases.c.sealed, sqlite_where=text("sealed IS NOT NULL")
)
Index("begun_leases", leases.c.first_tick, sqlite_where=text("first_tick IS NOT NULL"))

seats = Table(
    "seats",
    metadata,
    Column("lease", Integer, ForeignKey("leases.id"), primary_key=True),
    Column("node", String, primary_key=True),
    Column("gpu_type", String, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("device", String, nullable=False),
    Column("held", Boolean, nullable=False),
)
HELD_NUMBER = text("held = 1 AND device = ''")
Index("one_lease_on_a_seat", seats.c.node, seats.c.gpu_type, seats.c.number, unique=True, sqlite_where=HELD_NUMBER)
HELD_DEVICE = text("held = 1 AND device != ''")  # a GPU's number changes where another one is lost, or split
Index("one_lease_on_a_device", seats.c.device, seats.c.node, unique=True, sqlite_where=HELD_DEVICE)
# A UUID is that of one GPU in the world, whatever its host is called by now; an engine may also tell plain numbers.
HELD_UUID = text("held = 1 AND (device GLOB 'GPU-*' OR device GLOB 'MIG-*')")
Index("one_lease_on_a_uuid", seats.c.device, unique=True, sqlite_where=HELD_UUID)

targets = Table(
    "targets",
    metadata,
    Column("job", Integer, ForeignKey("jobs.id"), primary_key=True),
    Column("copy", Integer, primary_key=True),
    Column("seats", Text, nullable=False),  # JSON: node -> GPU type -> how many
    Column("work", Float),  # of a forked copy: its part of the steps, in any unit
    Column("until_step", Integer),  # of a forked copy, once it is known where the round begins
)
"""What the last decision wants to run."""

speeds = Table(
    "speeds",
    metadata,
    Column("job", Integer, ForeignKey("jobs.id"), primary_key=True),
    Column("gpu_type", String, primary_key=True),
    Column("feasible", Boolean, nullable=False),
    Column("steps", Float, nullable=False, default=0.0),
    Column("seconds", Float, nullable=False, default=0.0),
    Column("memory_bytes", Float),  # of one worker
    Column("note", Text),
)
"""What is measured of jobs on GPU types."""

nodes = Table(
    "nodes",
    metadata,
    Column("name", String, primary_key=True),
    Column("drained", Boolean, nullable=False, default=False),
    Column("content", Text),  # JSON: what the engine last said of it
)

rounds = Table(
    "rounds",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("time", Float, nullable=False),
    Column("policy", String, nullable=False),
    Column("jobs", Integer, nullable=False),
    Column("placed", Integer, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("capacity", Integer, nullable=False),
    Column("seconds", Float, nullable=False),  # that the decision took
)

merges = Table(
    "merges",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("job", Integer, ForeignKey("jobs.id"), nullable=False),
    Column("step", Integer, nullable=False),  # committed once it is done
    Column("parts", Text, nullable=False),  # JSON: list of [folder, weight]
    Column("folder", Text, nullable=False),
    Column("done", Boolean, nullable=False, default=False),
    sqlite_autoincrement=True,  # its row goes when its checkpoint does, but not its number
)
Index("one_merge_of_a_job", merges.c.job, unique=True, sqlite_where=text("done = 0"))

memories = Table(
    "memories", metadata, Column("policy", String, primary_key=True), Column("state", LargeBinary, nullable=False)
)
"""What a policy wants to remember, under its name and settings."""

events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("time", Float, nullable=False),
    Column("at", String, nullable=False),  # date and time, for people
    Column("kind", String, nullable=False),
    Column("job", String),
    Column("content", Text, nullable=False),  # JSON
    sqlite_autoincrement=True,
)
"""What happened, in the same transaction; from here it goes to the log file."""
