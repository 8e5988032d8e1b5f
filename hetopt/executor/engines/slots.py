"""Declared hosts: CPU slots that stand for GPUs, in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from hetopt.data.file_values import Natural, Part
from hetopt.errors import InvalidOption
from hetopt.executor.engines.engine import Node, Seat
from hetopt.executor.job_file import Bytes, Named, read_spec

MOST_SLOTS = 4096
"""On one host, so that a mistyped number does not fill the memory."""


class HostSpec(Part):
    """One host."""

    slots: Annotated[dict[Named, Natural], Field(min_length=1)]
    """GPU type -> slots that stand for one GPU each."""


class SlotsSpec(Part):
    """Hosts, all of which are this machine."""

    nodes: Annotated[dict[Named, HostSpec], Field(min_length=1)]
    memory: dict[Named, Bytes] = Field(default_factory=dict)
    """GPU type -> memory of one GPU."""


def read_slots(path: Path) -> tuple[Node, ...]:
    """The hosts that a file declares, such as ::

        nodes:
          desk: {slots: {slow: 2, fast: 1}}
        memory: {slow: 8 GB}        # of one GPU; optional

    Raises
    ------
    UnusableFile
        It cannot be read.
    InvalidOption
        Its content is invalid.
    """
    content, nodes = read_spec(SlotsSpec, path), []
    for name, host in content.nodes.items():
        for gpu_type, number in host.slots.items():
            if number > MOST_SLOTS:
                problem = InvalidOption(f"is {number}; it may be {MOST_SLOTS} at most")
                raise problem.at(("nodes", name, "slots", gpu_type)).in_file(str(path))
        seats = [Seat(name, gpu_type, i) for gpu_type, number in host.slots.items() for i in range(number)]
        memory = {gpu_type: content.memory[gpu_type] for gpu_type in host.slots if content.memory.get(gpu_type)}
        nodes.append(Node(name, tuple(seats), memory_bytes=memory))
    types = {gpu_type for host in content.nodes.values() for gpu_type in host.slots}
    if unknown := sorted(set(content.memory) - types):
        raise InvalidOption(f"names {unknown[0]!r}, of which no host has a slot", "memory").in_file(str(path))
    return tuple(nodes)
