"""Sections 4.2.3 and 4.3: whether jobs that stay on their GPU type can stay on their servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product

from hetopt.data.cluster import Cluster, GPUType, Server
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.decisions.system import ROUND_SECONDS
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import SharesPicture, placement_picture
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, ValueChooser, hypothesis, integers

F = Fraction


@dataclass(frozen=True)
class StayingCase:
    """Servers with GPUs of one type, jobs on one server each, and an arriving gang.

    Attributes
    ----------
    gpus:
        (m,) GPUs of each server.
    sizes, homes:
        (n,) GPUs of each staying job, and the position of its server.
    gang:
        GPUs of the arriving gang; at most all free GPUs.
    """

    gpus: tuple[int, ...]
    sizes: tuple[int, ...]
    homes: tuple[int, ...]
    gang: int

    @cached_property
    def instance(self) -> Instance:
        """The instance with the current placement."""
        servers = tuple(Server(f"server{m + 1}", {"GPU1": y}) for m, y in enumerate(self.gpus))
        speed = {"GPU1": 1 / ROUND_SECONDS}
        jobs = [Job(f"j{j + 1}", speed, 1.0, demand=size) for j, size in enumerate((*self.sizes, self.gang))]
        placed = {f"j{j + 1}": {f"server{m + 1}": {"GPU1": self.sizes[j]}} for j, m in enumerate(self.homes)}
        return Instance(Cluster((GPUType("GPU1"),), servers), jobs=tuple(jobs), placed=placed)

    def free(self, homes: tuple[int, ...]) -> list[int]:
        """Free GPUs of each server for these positions of the jobs."""
        return [
            y - sum(s for s, home in zip(self.sizes, homes, strict=True) if home == m) for m, y in enumerate(self.gpus)
        ]

    @cached_property
    def packed(self) -> tuple[int, ...] | None:
        """A placement of the staying jobs with which the gang fits on one server; None if there is none."""
        for homes in product(range(len(self.gpus)), repeat=len(self.sizes)):
            free = self.free(homes)
            if min(free) >= 0 and max(free) >= self.gang:
                return homes
        return None

    def picture(self, title: str, homes: tuple[int, ...], gang: Sequence[int]) -> SharesPicture:
        """Picture of the placement; ``gang`` has the GPUs of the arriving gang on each server."""
        jobs = [f"j{j + 1}" for j in range(len(homes) + 1)]
        staying = [[s * (home == m) for m in range(len(self.gpus))] for s, home in zip(self.sizes, homes, strict=True)]
        return placement_picture(title, jobs, [*staying, gang], self.gpus)


def _servers(numbers: CaseNumbers) -> StayingCase:
    gpus, sizes, homes = (tuple(map(int, numbers.row(name))) for name in ("gpus", "size", "home"))
    return StayingCase(gpus, sizes, tuple(home - 1 for home in homes), int(numbers.one("gang")))


@hypothesis("all GPUs are of one type, and each staying job has all its GPUs on one server")
def placed(case: StayingCase) -> bool:
    """The current placement stays within the servers."""
    return max(case.homes) < len(case.gpus) and min(case.free(case.homes)) >= 0


@hypothesis("the arriving gang demands at most the idle GPUs of all servers together")
def room_for_gang(case: StayingCase) -> bool:
    """It can run beside the staying jobs."""
    return case.gang <= sum(case.free(case.homes))


def _some(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
    homes = [choose(range(sizes["m"])) for _ in range(sizes["n"])]
    size = [choose(integers(1, 2)) for _ in homes]
    used = [sum((s for s, home in zip(size, homes, strict=True) if home == m), F(0)) for m in range(sizes["m"])]
    gpus = [max(F(1), own + choose(integers(0, 3))) for own in used]
    gang = choose(integers(1, max(1, int(sum(gpus) - sum(used)))))
    return CaseNumbers.of(gpus=gpus, size=size, home=[F(m + 1) for m in homes], gang=gang)


SERVERS = Space(
    {"m": (1, 3), "n": (1, 3)},
    {
        "gpus": TableShape(1, "m", integers(1, 4)),
        "size": TableShape(1, "n", integers(1, 2)),
        "home": TableShape(1, "n", integers(1, 3)),
        "gang": TableShape(1, 1, integers(1, 4)),
    },
    _servers,
    _some,
    (placed, room_for_gang),
)


def packed_in_place(case: StayingCase) -> Finding:
    """Whether the gang fits on one server beside the staying jobs, if some placement of all jobs allows it."""
    free = case.free(case.homes)
    pictures = [case.picture("before the gang arrives", case.homes, [0] * len(free))]
    slack = F(0)
    if case.packed is not None:
        slack = F(max(free) - case.gang)
        room = case.free(case.packed)
        gang = [case.gang * (m == room.index(max(room))) for m in range(len(room))]
        pictures.append(case.picture("with the gang on one server", case.packed, gang))
    words = (
        f"{', '.join(map(str, free))} GPUs are free on {len(free)} server(s): a gang of {case.gang} fits on one server "
        "only if a job that stays on its type moves"
    )
    certificate = ("all placements with each job on one server were enumerated",)
    return Finding(slack, words, certificate, tuple(pictures))


CLAIMS = (
    Claim(
        key="fft/placement",
        place="sections 4.2.3, 4.3",
        statement="Jobs that stay on their GPU type can stay on their servers, without a switching cost, while an "
        "arriving gang is packed onto one server if some placement of all jobs allows it.",
        quote="we hold an optimistic assumption that the job can be placed on the same host at time $t$ and no "
        "switching overhead is incurred.",
        procedure=ForAll(SERVERS, packed_in_place),
        expected=ClaimVerdict.FALSE,
        printed=False,
        note="Each half holds without the other; section 4.2.3 assumes the first and section 4.3 aims at the second. "
        "Fig. 6 moves $J_2$, which stays on its type.",
    ),
)
