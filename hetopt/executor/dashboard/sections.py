"""The parts of the page about the whole: who decides, what is in use, the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hetopt.executor.dashboard import words
from hetopt.executor.dashboard.markup import EMPTY, Html, cut, joined, lone, table, tag
from hetopt.executor.dashboard.reader import Look
from hetopt.executor.snapshot import Snapshot
from hetopt.executor.telling import ENDED

MOST_NODES = 100
"""Rows of the table."""

Job = Mapping[str, Any]


def section(name: str, title: str, *inner: object) -> Html:
    """A part of the page that is renewed by itself."""
    return tag("section", tag("h2", title), *inner, id=name)


def waiting(now: Snapshot) -> list[Job]:
    """Jobs that have no GPUs and want some, in the order of submission."""
    return [job for job in now.jobs if job["state"] == "queued"]


def running(now: Snapshot) -> list[Job]:
    """Jobs that have GPUs, in the order of submission."""
    return [job for job in now.jobs if job["state"] not in ("queued", *ENDED)]


def over(now: Snapshot) -> list[Job]:
    """Jobs that are done, have failed or were cancelled, the newest first."""
    return sorted((job for job in now.jobs if job["state"] in ENDED), key=lambda job: -(job["finished"] or 0.0))


def left_out(all_of: Sequence[object], most: int, what: str) -> Html:
    """A note where a table does not have all."""
    more = len(all_of) - most
    if more <= 0:
        return EMPTY
    return tag("p", f"{more} more {what} not shown; ", tag("code", "hetopt status --all"), " has all.", class_="quiet")


# -- who decides


def head(look: Look) -> Html:
    """Policy, round, who is there, how much is in use."""
    now = look.now
    have = sum(sum(node["gpus"].values()) for node in now.nodes)
    used = sum(sum(node["used"].values()) for node in now.nodes)
    counts = {"running": len(running(now)), "waiting": len(waiting(now)), "over": len(over(now))}
    tiles = [(words.duration(due(now)), "to the next round")] if due(now) is not None else []
    tiles = [(f"{used} of {have}", "GPUs in use"), *tiles] if now.nodes else tiles
    tiles = [*((str(number), name) for name, number in counts.items()), *tiles]
    return tag(
        "section",
        tag("p", *_who(look)),
        _warning(now),
        tag("ul", *(tag("li", tag("b", value), name) for value, name in tiles), class_="tiles"),
        id="head",
        data_title=f"{counts['running']} running, {counts['waiting']} waiting: hetopt",
    )


def due(now: Snapshot) -> float | None:
    """Seconds to the next round; None where there is none to come."""
    if now.controller is None or now.next_round is None:
        return None
    return max(0.0, now.next_round - now.now)


def _who(look: Look) -> Iterable[object]:
    """Policy, engine, round, controller in a line."""
    now = look.now
    if now.policy is None:
        yield "No controller has run yet."
        return
    yield joined("Policy ", tag("b", now.policy))
    yield f" on engine {look.engine}" if look.engine else ""
    if now.round:
        yield f", round {now.round}"
        if look.rounds:
            last = look.rounds[-1]
            yield f" (decided in {words.short(last.seconds)} s, {last.placed} of {last.jobs} jobs placed)"
    yield "; "
    if now.round_seconds is None:
        yield "it decides when jobs or nodes come or go. "
    else:
        yield f"rounds of {words.plain(now.round_seconds)}. "
    if now.controller is not None:
        number = f" (process {now.controller})" if now.controller > 0 else ""
        yield tag("span", f"The controller is alive{number}.", class_="good")


def _warning(now: Snapshot) -> Html:
    """What keeps the cluster from going on."""
    if now.controller is None:
        more = " What runs goes on until its leases run out." if now.leases else ""
        text = joined("No controller runs, so nothing is decided; ", tag("code", "hetopt run"), f" is one.{more}")
        return tag("p", text, class_="caution")
    said = list(now.troubles)
    if now.overdue is not None:
        late = words.duration(now.overdue)
        said.append(f"The next round is overdue by {late}: see what the controller says on its terminal.")
    return joined(*(tag("p", text, class_="caution") for text in said))


# -- nodes


def cluster(now: Snapshot) -> Html:
    """Nodes with their GPUs."""
    if not now.nodes:
        text = "No engine has told of a node yet; a controller asks it."
        return section("cluster", "Cluster", tag("p", text, class_="empty"))
    rows = [
        (node["name"], words.state(node["state"]), _gpus(node), cut(node["note"])) for node in now.nodes[:MOST_NODES]
    ]
    return section(
        "cluster",
        "Cluster",
        table("nodes", _states(now), ("node", "state", "GPUs in use", "note"), rows),
        left_out(now.nodes, MOST_NODES, "nodes are"),
    )


def _states(now: Snapshot) -> str:
    """How many nodes are in which state, and GPUs of each type."""
    states: dict[str, int] = {}
    have: dict[str, int] = {}
    used: dict[str, int] = {}
    for node in now.nodes:
        states[node["state"]] = states.get(node["state"], 0) + 1
        for kind, number in node["gpus"].items():
            have[kind] = have.get(kind, 0) + number
            used[kind] = used.get(kind, 0) + node["used"].get(kind, 0)
    nodes = ", ".join(f"{number} {word}" for word, number in states.items())
    return f"Nodes: {nodes}. GPUs in use: {', '.join(f'{used[kind]} of {n} {kind}' for kind, n in have.items())}."


def _gpus(node: Mapping[str, Any]) -> Html:
    parts = []
    for kind, number in node["gpus"].items():
        used = node["used"].get(kind, 0)
        said = f"{used} of {number} {kind}"
        parts.append(tag("span", bar(used, used, number, f"{said} in use"), f" {said}", class_="whole"))
    return joined(*(joined(part, " ") for part in parts))


def bar(sure: float, more: float, whole: float, title: str) -> Html:
    """A bar that is full as far as ``sure``, and half full from there to ``more``."""
    scale = 100.0 / whole if whole > 0 else 0.0
    return tag(
        "svg",
        tag("title", title),
        lone("rect", width=100, height=8),
        lone("rect", class_="more", width=min(100.0, scale * more), height=8) if more > sure else EMPTY,
        lone("rect", class_="done", width=min(100.0, scale * sure), height=8),
        class_="progress",
        viewBox="0 0 100 8",
        preserveAspectRatio="none",
        role="img",
    )
