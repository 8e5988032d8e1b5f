"""The parts of the page about jobs: those that wait, that run, and that are over."""

from __future__ import annotations

from collections.abc import Sequence

from hetopt.executor.dashboard import words
from hetopt.executor.dashboard.markup import EMPTY, Html, cut, joined, lone, markup, table, tag
from hetopt.executor.dashboard.reader import Look
from hetopt.executor.dashboard.sections import Job, bar, left_out, over, running, section, waiting
from hetopt.executor.snapshot import NOT_YET, Snapshot

MOST_RUNNING, MOST_WAITING, MOST_OVER = 100, 100, 40
"""Rows of the tables."""


def jobs_running(look: Look) -> Html:
    """Jobs that have GPUs: how far, where, how fast, how long still."""
    own = running(look.now)
    if not own:
        return section("running", "Running", tag("p", "No job runs.", class_="empty"))
    columns = ("job", "tenant", "state", "progress", "where", "speed", "left", "age", "rho", "loss")
    rows = [
        (
            job["name"],
            words.name(job["tenant"]),
            words.state(job["state"]),
            _progress(job),
            cut(", ".join(job["where"]), 80),
            _steps_per(job),
            words.duration(job["left_seconds"]),
            words.duration(job["seconds"]),
            _rho(look, job),
            _curve(job, look.losses.get(job["name"], [])),
        )
        for job in own[:MOST_RUNNING]
    ]
    caption = "Progress: the darker part is safe in a checkpoint. Age is since submission. rho: see Tenants."
    return section(
        "running",
        "Running",
        table("running", caption, columns, rows, "speed|left|age|rho"),
        left_out(own, MOST_RUNNING, "jobs run and are"),
    )


def _progress(job: Job) -> Html:
    done, steps = job["step"], job["steps"]
    picture = bar(job["committed"], done, steps, f"{job['committed']} of {steps} steps are safe, {done} done")
    return tag("div", picture, f" {words.part(done, steps)}", tag("small", f"{done} of {steps}"), class_="whole")


def _steps_per(job: Job) -> Html:
    """Its present speed, and those measured on GPU types in a title."""
    all_of = ", ".join(f"{kind} {words.rate(v)}" for kind, v in job["speeds"].items())
    shown = words.rate(job["speed"])
    return tag("span", shown, title=f"measured: {all_of}") if all_of else markup(shown)


def _rho(look: Look, job: Job) -> Html:
    known = look.fairness.get(job["name"])
    return words.rho(None) if known is None else words.rho(known.rho, known.sure)


def _curve(job: Job, points: Sequence[tuple[int, float]]) -> Html:
    """Its losses as a line, and the last one."""
    if not points:
        return EMPTY
    last = markup(words.short(points[-1][1]))
    if len(points) == 1:
        return last
    steps, values = zip(*points, strict=True)
    low, high = min(values), max(values)
    wide, tall = (steps[-1] - steps[0]) or 1, (high - low) or 1.0
    dots = " ".join(
        f"{100 * (step - steps[0]) / wide:.1f},{28 - 26 * (value - low) / tall:.1f}" for step, value in points
    )
    said = f"loss of {job['name']} from {words.short(values[0])} at step {steps[0]} to {words.short(values[-1])} at "
    picture = tag(
        "svg",
        tag("title", f"{said}step {steps[-1]}; least {words.short(low)}, largest {words.short(high)}"),
        lone("polyline", points=dots),
        class_="curve",
        viewBox="0 0 100 30",
        preserveAspectRatio="none",
        role="img",
    )
    return tag("span", picture, " ", last, class_="whole")


def queue(look: Look) -> Html:
    """Jobs that wait, and why."""
    own = waiting(look.now)
    if not own:
        more = EMPTY if look.now.jobs else joined(" ", tag("code", "hetopt submit"), " hands one in.")
        return section("queue", "Queue", tag("p", "No job waits.", more, class_="empty"))
    rows = [
        (
            job["name"],
            words.name(job["tenant"]),
            str(job["workers"]),
            _progress(job) if job["step"] else markup(f"{job['steps']} steps"),
            words.duration(job["seconds"]),
            _rho(look, job),
            tag("div", cut(job["reason"] or _why(look.now)), class_="text"),
        )
        for job in own[:MOST_WAITING]
    ]
    columns = ("job", "tenant", "workers", "progress", "age", "rho", "why it waits")
    caption = "In the order of submission; who is next is the policy's to say."
    return section(
        "queue",
        "Queue",
        table("queue", caption, columns, rows, "workers|age|rho"),
        left_out(own, MOST_WAITING, "jobs wait and are"),
    )


def _why(now: Snapshot) -> str:
    """Where the books give no reason."""
    if now.controller is None:
        return "no controller runs"
    return NOT_YET


def jobs_over(look: Look) -> Html:
    """Jobs that are over, the newest first."""
    own, now = over(look.now), look.now.now
    if not own:
        return section("over", "Over", tag("p", "No job is over yet.", class_="empty"))
    rows = [
        (
            job["name"],
            words.name(job["tenant"]),
            words.state(job["state"]),
            f"{job['step']} of {job['steps']}",
            str(job["lost"]),
            words.duration(job["seconds"]),
            _rho(look, job),
            words.duration(max(0.0, now - (job["finished"] or now))),
            tag("div", cut(job["reason"]), class_="text") if job["reason"] else EMPTY,
        )
        for job in own[:MOST_OVER]
    ]
    columns = ("job", "tenant", "state", "steps", "lost", "took", "rho", "ago", "why")
    caption = "The newest first. Lost: steps that had to be done twice. Took: from submission."
    return section(
        "over",
        "Over",
        table("over", caption, columns, rows, "steps|lost|took|rho|ago"),
        left_out(own, MOST_OVER, "jobs are over and"),
    )
