"""Measurements, and the part of a machine that a measurement used: only this part is priced.

A measurement is one collective over a range of sizes, among equal groups of ranks. Launchers fill
the first children of every level. For example, three GPUs of an eight-GPU node whose four NICs
serve two GPUs each reach two NICs. The first NIC carries twice as many bytes as the second, and no
schedule can use the other two. Therefore a part contains, at each level, the busy children, idle
children that share a port with a busy child, and idle children that forward messages in its ring or
torus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm, prod

from grammar import Goal
from hierarchies import Domain, Hierarchy, InputError, Level, Link, System
from hierarchies.fabric import Cast, Role, Slot, count_members

SEND_RECEIVE = "send-receive"
"""nccl-tests' sendrecv: every rank sends to the next rank in a circle."""
FEWEST_SIZES = 3
"""Fewest sizes of one collective among the same groups: two fit a line, and a third checks it."""
ALIGNED_BYTES, SHORTEST_MISALIGNED = 16, 1024
"""NCCL copies 16 bytes at once, and single elements where a block of a rank starts between them
(Simple and LL128; NVIDIA/nccl#413). nccl-tests rounds blocks down since its commit 29f4114. From
the second size on it shows: it then moves 1 GB/s, and below waits for messages hide a microsecond.
"""


@dataclass(frozen=True)
class Sample:
    """One row: a size as the tests define it (the largest buffer of a rank), and its seconds."""

    size_bytes: int
    seconds: float
    in_place: bool = False


Configuration = tuple[str, tuple[int, ...], str | None, str | None, tuple[str, ...]]


@dataclass(frozen=True)
class Measurement:
    """One collective by one algorithm, timed among groups of ranks that run at once.

    ``collective`` is a name of ``grammar.Goal``, or ``send-receive``. ``members`` has, for each
    level of the system and outermost first, the number of its children that contain ranks of one
    group: (2, 8) are 16 ranks on two nodes of eight, (2, 1) the groups of ranks with the same
    place in both nodes. ``busy`` is the same for all ranks that took part, so it is (2, 8) for
    these groups, too. ``algorithm`` and ``protocol`` are the forced choices of the runtime, None
    where it was free. ``without`` has algorithms that it could not choose, by NCCL's names.
    ``source`` names the file or publication. ``nccl`` is the version of NCCL that ran, as
    ``2.22.3``; "" if it is not stated or not known.
    """

    collective: str
    members: tuple[int, ...]
    busy: tuple[int, ...]
    samples: tuple[Sample, ...]
    algorithm: str | None = None
    protocol: str | None = None
    source: str = ""
    without: tuple[str, ...] = ()
    nccl: str = ""

    @property
    def configuration(self) -> Configuration:
        """The properties that repeated runs of the same test have in common."""
        return self.collective, self.members, self.algorithm, self.protocol, self.without

    @property
    def misaligned(self) -> tuple[Sample, ...]:
        """The rows whose blocks NCCL copies by single elements, many times as slowly.

        They say nothing of other sizes, and prices are those of aligned blocks.
        """
        goal = next((goal for goal in Goal if goal.value == self.collective), None)
        if goal is None or not (goal.in_pieces or goal.apart):
            return ()
        blocks = [(sample, sample.size_bytes / prod(self.members)) for sample in self.samples]
        return tuple(
            sample
            for sample, block in blocks
            if block >= SHORTEST_MISALIGNED and block % ALIGNED_BYTES
        )

    @property
    def aligned(self) -> Measurement:
        """The measurement without its misaligned rows."""
        apart = {*self.misaligned}
        samples = tuple(sample for sample in self.samples if sample not in apart)
        return replace(self, samples=samples)


@dataclass(frozen=True)
class BusyPart:
    """The busy part as a machine, and the roles of each level's children: member, beside, idle."""

    system: System
    roles: Cast

    @property
    def members(self) -> tuple[int, ...]:
        """The number of children of each level that contain ranks of one group."""
        return tuple(count_members(slots) for slots in self.roles)


def busy_part(system: System, measurement: Measurement) -> BusyPart:
    """Returns the busy part of a machine, with all groups running at once.

    Raises InputError for ranks that the system does not have, for groups of different shapes or
    of one rank, and for a part of a system with faults, because no log says which faults were in
    the part.
    """
    _check_ranks(system, measurement)
    busy = measurement.busy
    kept = _kept_children(system, busy)
    roles = tuple(map(_slots, kept, busy, measurement.members))
    if busy == system.hierarchy.cardinalities:
        return BusyPart(system, roles)
    if system.faults:
        raise InputError(
            f"a part of {system.name}, which has exceptions, was busy",
            where=measurement.source,
            hint="measure all of it, or describe the part",
        )
    levels = tuple(map(Level, system.hierarchy.names, kept))
    links = tuple(_link(system, level, kept) for level in range(len(kept)))
    return BusyPart(replace(system, hierarchy=Hierarchy(levels), links=links), roles)


def _check_ranks(system: System, measurement: Measurement) -> None:
    levels, where = system.hierarchy.names, measurement.source
    for counts, what in ((measurement.members, "groups"), (measurement.busy, "ranks")):
        if len(counts) != len(levels):
            raise InputError(
                f"{what} on {len(counts)} levels of {system.name}",
                where=where,
                hint=f"it has {len(levels)}: {', '.join(levels)}",
            )
    for level, members, busy in zip(
        system.hierarchy.levels, measurement.members, measurement.busy, strict=True
    ):
        if not 1 <= busy <= level.cardinality:
            raise InputError(
                f"ranks in {busy} of the {level.cardinality} children of level {level.name!r}",
                where=where,
                hint=f"is it a log of another machine than {system.name}?",
            )
        if members < 1 or busy % members:
            raise InputError(
                f"groups of {members} among the {busy} busy children of level {level.name!r}",
                where=where,
                hint="groups are alike and disjoint",
            )
    if prod(measurement.members) == 1:
        raise InputError("groups of one rank", where=where, hint="nothing was sent")


def _kept_children(system: System, busy: Sequence[int]) -> tuple[int, ...]:
    """Returns each level's children in the part: whole blocks sharing a port, whole rings."""
    kept = []
    for level, (count, active) in enumerate(zip(system.hierarchy.cardinalities, busy, strict=True)):
        circle = system.links[level].domain in (Domain.RING, Domain.TORUS)
        inside = system.hierarchy.devices_in_child(level)
        shared = [system.block(outer) // inside for outer in range(level)]
        together = lcm(*(number for number in shared if 1 < number < count))
        kept.append(count if circle and active > 1 else -(-active // together) * together)
    return tuple(kept)


def _slots(kept: int, busy: int, members: int) -> tuple[Slot, ...]:
    """Returns a level's children as digits: groups, members of each group, idle children."""
    slots = Slot(busy // members, Role.FIXED), Slot(members, Role.FREE)
    idle = (Slot(kept - busy, Role.IDLE),) if kept > busy else ()
    return (*(slot for slot in slots if slot.size > 1), *idle) or (Slot(1, Role.FREE),)


def _link(system: System, level: int, kept: Sequence[int]) -> Link:
    """Returns a level's link with only the ports of a child that serve devices of the part."""
    link, inside = system.links[level], prod(kept[level + 1 :])
    block = system.block(level)
    ports = system.ports_of_block(level)
    if block == 1:
        return replace(link, ports=ports * inside)
    for inner in range(level + 1, len(kept)):
        beside = system.hierarchy.devices_in_child(inner)
        if beside <= block < beside * system.hierarchy.cardinalities[inner]:
            behind = block // beside * prod(kept[inner + 1 :])
            return replace(link, ports=ports * (inside // behind))
    return replace(link, ports=ports)
