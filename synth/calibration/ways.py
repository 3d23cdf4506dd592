"""The ways a measured row may have gone, as numbers that a fit can weigh.

A runtime that was not told chose for itself: a row has as many candidates as the runtime has
algorithms and protocols, and is taken to have gone the fastest way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from grammar import Collective, Goal
from hierarchies import Domain, Hierarchy, InputError, Level, System, nearest
from hierarchies.calibration import FASTEST
from hierarchies.fabric import Cast, Role, Slot
from synth.algorithms import Algorithm
from synth.calibration.measurements import SEND_RECEIVE, Measurement
from synth.defaults import ALGORITHMS, names, quickest_seconds
from synth.lines import Way
from synth.nccl_model import Ranks
from synth.protocols import Protocol, protocols
from synth.simulator import Simulator

COLLECTIVES = (*(goal.value for goal in Goal), SEND_RECEIVE)
_TOLD = {
    "nvls": Algorithm.IN_NETWORK,
    "nvlstree": Algorithm.IN_NETWORK,
    "nvls_tree": Algorithm.IN_NETWORK,
    "collnet": Algorithm.IN_NETWORK,
    "collnetdirect": Algorithm.IN_NETWORK,
    "collnetchain": Algorithm.IN_NETWORK,
    **{algorithm.value: algorithm for algorithm in Algorithm},
}
"""What a runtime can be told, in lower case."""


@dataclass(frozen=True)
class Candidate:
    """One algorithm and protocol for a measurement, linear in what is fitted.

    For each level of the system ``waited`` messages that wait for each other, ``paced`` ones that
    keep a distance, and ``busy_seconds`` of its links for one byte of buffer, at the bandwidth of
    the description.
    """

    collective: str
    algorithm: str
    protocol: Protocol
    waited: tuple[float, ...]
    paced: tuple[float, ...]
    busy_seconds: tuple[float, ...]
    memory_seconds: float

    @property
    def key(self) -> tuple[str, str, str]:
        return self.collective, self.algorithm, self.protocol.value


def candidates(system: System, measurement: Measurement) -> tuple[Candidate, ...]:
    """All ways that the runtime may have taken.

    Raises InputError if the ranks do not fit the system, or nothing is known by the names that
    the runtime was forced to.
    """
    links = placed(system, measurement)[0].links
    return tuple(
        Candidate(
            measurement.collective,
            way.algorithm.value,
            protocol,
            way.counted(links),
            way.paced(way.counted(links)),
            way.busy_seconds,
            way.memory_seconds,
        )
        for way, protocol in allowed_ways(system, measurement)
    )


def allowed_ways(system: System, measurement: Measurement) -> tuple[tuple[Way, Protocol], ...]:
    """The same as the simulator has them, each with a protocol. Raises InputError likewise."""
    machine, roles = placed(system, measurement)
    simulator = Simulator(replace(machine, calibration=None))
    found = tuple(
        (way, protocol)
        for way in _ways(simulator, measurement, roles)
        for protocol in _allowed(way, measurement)
    )
    if not found:
        told = " ".join(word for word in (measurement.algorithm, measurement.protocol) if word)
        raise InputError(
            f"{measurement.collective} by {told} cannot be carried out on {system.name}",
            where=measurement.source,
            hint="the links of the description, or the groups, have no such thing",
        )
    return found


def chosen(system: System, measurement: Measurement, runtime: str, size_bytes: int) -> str | None:
    """The algorithm a runtime takes for a size by NCCL's model; None where others decide.

    That is where it was forced, where it has but one, and where it takes the fastest.
    """
    goals = [goal for goal in Goal if goal.value == measurement.collective]
    if runtime == FASTEST or measurement.algorithm or goals in ([], [Goal.ALL_TO_ALL]):
        return None
    machine, _ = placed(system, measurement)
    ranks, goal = Ranks(machine, measurement.members), goals[0]

    def seconds(name: str) -> float:
        return quickest_seconds(ranks, goal, name, size_bytes)

    return ALGORITHMS[min(names(ranks, goal), key=seconds)].value


def placed(system: System, measurement: Measurement) -> tuple[System, Cast]:
    """The machine as far as it was busy, and the part that each of its levels played in a group.

    Children that had nothing to do stay, where they are as many for each that had; else the level
    is priced as if it had only the busy ones.
    """
    _check_ranks(system, measurement)
    levels, roles = [], []
    for level, members, busy in zip(
        system.hierarchy.levels, measurement.members, measurement.busy, strict=True
    ):
        idle = level.cardinality // busy if level.cardinality % busy == 0 else 1
        levels.append(Level(level.name, busy * idle))
        slots = (Slot(idle, Role.ZERO), Slot(busy // members, Role.FIXED), Slot(members, Role.FREE))
        roles.append(tuple(slot for slot in slots if slot.size > 1) or (Slot(1, Role.FREE),))
    hierarchy = Hierarchy(tuple(levels))
    if hierarchy == system.hierarchy:
        return system, tuple(roles)
    links = []
    for position, link in enumerate(system.links):
        alone = hierarchy.cardinalities[position] == 1
        links.append(replace(link, ports=1) if alone and link.domain is Domain.SWITCH else link)
    return replace(system, hierarchy=hierarchy, links=tuple(links)), tuple(roles)


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


def _ways(simulator: Simulator, measurement: Measurement, roles: Cast) -> Iterator[Way]:
    if measurement.collective not in COLLECTIVES:
        known = nearest(measurement.collective, COLLECTIVES)
        raise InputError(
            f"no collective {measurement.collective!r}", where=measurement.source, hint=known
        )
    if measurement.collective == SEND_RECEIVE:
        yield sent_around(simulator.system, measurement.members)
        return
    collective = Collective(measurement.collective)
    for algorithm in _algorithms(simulator.system, measurement):
        yield simulator.way(collective, algorithm, roles)


def _algorithms(system: System, measurement: Measurement) -> tuple[Algorithm, ...]:
    """Those that the runtime has for the collective, or the one it was told."""
    runtime = runtime_algorithms(system, measurement.collective, measurement.members)
    if measurement.algorithm is None:
        return runtime
    told = _TOLD.get(measurement.algorithm.lower())
    if told is None:
        hint = nearest(measurement.algorithm, sorted(_TOLD))
        raise InputError(
            f"no algorithm {measurement.algorithm!r}", where=measurement.source, hint=hint
        )
    return tuple(algorithm for algorithm in runtime if algorithm is told)


def runtime_algorithms(
    system: System, collective: str, members: tuple[int, ...]
) -> tuple[Algorithm, ...]:
    """What a library of collectives chooses among, if nobody plans."""
    goal = Goal(collective)
    if goal is Goal.ALL_TO_ALL:
        return (Algorithm.DIRECT,)
    return tuple(ALGORITHMS[name] for name in names(Ranks(system, members), goal))


def _allowed(way: Way, measurement: Measurement) -> tuple[Protocol, ...]:
    if measurement.protocol is None:
        return way.protocols
    told = measurement.protocol.lower()
    if told not in [protocol.value for protocol in Protocol]:
        hint = nearest(told, [protocol.value for protocol in Protocol])
        raise InputError(
            f"no protocol {measurement.protocol!r}", where=measurement.source, hint=hint
        )
    return tuple(protocol for protocol in way.protocols if protocol.value == told)


def sent_around(system: System, members: tuple[int, ...]) -> Way:
    """Every rank sends its buffer to the next and gets that of the one before, in rank order.

    One edge of the circle leaves every child of every level that is spanned, whatever ports it
    has: its neighbours' ports do nothing for it.
    """
    spans = tuple(level for level, m in enumerate(members) if m > 1)
    carried, busy = [0.0] * len(members), [0.0] * len(members)
    for level in spans:
        link = system.links[level]
        carried[level] = float(members[level]) if link.domain is Domain.BUS else 1.0
        several = system.port_bytes_per_second(level)
        rate = several if link.domain is Domain.SWITCH else link.bandwidth_bytes_per_second
        busy[level] = carried[level] / rate
    waits = tuple(float(level in spans) for level in range(len(members)))
    return Way(
        SEND_RECEIVE,
        Algorithm.DIRECT,
        spans,
        tuple(carried),
        tuple(busy),
        (1,) * len(members),
        waits,
        2 / system.memory_bytes_per_second,
        protocols(system.links[level] for level in spans),
        waits,
        at_once=True,
        members=members,
    )
