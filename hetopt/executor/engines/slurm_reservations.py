"""Slurm's reservations, where leases shall run in one."""

from __future__ import annotations

from collections.abc import Mapping

from hetopt.checks import choices
from hetopt.errors import InvalidOption
from hetopt.executor.engines.engine import EngineDown
from hetopt.executor.engines.slurm_commands import Commands
from hetopt.executor.engines.slurm_nodes import fields


class Reservations:
    """The nodes of reservations.

    Parameters
    ----------
    commands:
        Slurm's.
    names:
        As sbatch is told; several are separated by commas.
    """

    def __init__(self, commands: Commands, names: str) -> None:
        self._commands, self._names = commands, [name for name in names.split(",") if name]
        self._seen = False
        self._nodes: dict[str, tuple[str, ...]] = {}

    def nodes(self) -> Mapping[str, str]:
        """Node -> why nothing begins there now, or nothing.

        Raises
        ------
        InvalidOption
            There is no such reservation.
        EngineDown
            Slurm does not answer; or there is none any more.
        """
        every = {}
        for line in self._commands.ask("scontrol", "--oneliner", "--all", "show", "reservation").splitlines():
            if "ReservationName" in (said := fields(line)):
                every[said["ReservationName"]] = said
        found: dict[str, str] = {}
        for name in self._names:
            if name not in every:
                known = choices(name, sorted(every)) if every else "it has none now"
                if self._seen:
                    raise EngineDown(f"Slurm has no reservation {name!r} any more; {known}")
                raise InvalidOption(f"Slurm has no reservation {name!r}; {known}")
            said = every[name]
            active = said.get("State", "ACTIVE") == "ACTIVE"
            why = "" if active else f"reservation {name!r} is from {said.get('StartTime')} to {said.get('EndTime')}"
            for node in self._listed(said.get("Nodes", "")):
                found[node] = min(found.get(node, why), why)  # one of them is enough
        self._seen = True
        return found

    def _listed(self, expression: str) -> tuple[str, ...]:
        """The nodes of ``gpu-[0-3],login``."""
        if expression in ("", "(null)"):
            return ()
        if expression not in self._nodes:
            self._nodes[expression] = tuple(self._commands.ask("scontrol", "show", "hostnames", expression).split())
        return self._nodes[expression]
