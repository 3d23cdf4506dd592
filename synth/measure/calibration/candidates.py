"""The ways (algorithm and protocol) by which a row may have run, with their coefficients for a fit.

Unless NCCL_ALGO and NCCL_PROTO were set, the runtime chose the way. Then a row has a candidate for
each of the runtime's algorithms and protocols. A fit uses the candidate chosen by NCCL's model, or
the fastest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import log2
from typing import TypeVar

from grammar import Collective, Goal
from hierarchies import Domain, InputError, System, error_context, suggest_nearest
from hierarchies.calibration import FASTEST
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.nccl_model import SPELLINGS, Ranks
from synth.collective.algorithms.nccl_versions import check_algorithm, parse_version
from synth.collective.algorithms.protocols import Protocol, protocols
from synth.collective.price.bound import Bound, bound_of_roles
from synth.collective.price.defaults import (
    ALGORITHMS,
    DIRECT,
    RuntimeDefaults,
    available_algorithms,
    choose_default,
    quickest_seconds,
)
from synth.collective.price.intervals import Interval, interval_of_program
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import InstructionPrice, price_of_line
from synth.collective.price.ways import AlgorithmWay, PriceLine, pick_fastest
from synth.measure.calibration.measurements import SEND_RECEIVE, BusyPart, Measurement, busy_part

COLLECTIVES = (*(goal.value for goal in Goal), SEND_RECEIVE)
_FORCIBLE = {
    "nvls": Algorithm.IN_NETWORK,
    "nvlstree": Algorithm.IN_NETWORK,
    "collnet": Algorithm.IN_NETWORK,
    "collnetdirect": Algorithm.IN_NETWORK,
    "collnetchain": Algorithm.IN_NETWORK,
    **{algorithm.value: algorithm for algorithm in Algorithm},
}
"""The algorithms a runtime can be forced to use, in lower case and without underscores."""
_Choice = TypeVar("_Choice", Algorithm, Protocol)


@dataclass(frozen=True)
class FitCandidate:
    """One algorithm and protocol for a measurement, linear in the fitted numbers.

    It has, for each level of the system: ``waited``, the number of messages that wait for each
    other; ``peers``, the number of concurrent peers; and ``doublings``, how often the number of
    children doubles beyond two, each time with a further loss of bandwidth.
    """

    way: AlgorithmWay
    protocol: Protocol
    waited: tuple[float, ...]

    @property
    def peers(self) -> tuple[float, ...]:
        return self.way.peers if self.way.at_once else (0.0,) * len(self.waited)

    @property
    def doublings(self) -> tuple[float, ...]:
        return tuple(log2(m / 2) if m > 2 else 0.0 for m in self.way.children)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.way.collective, self.way.algorithm.value, self.protocol.value


@dataclass(frozen=True)
class PossibleWay:
    """A way that the runtime may have used, by NCCL's name, and its possible protocols."""

    name: str
    way: AlgorithmWay
    protocols: tuple[Protocol, ...]


def candidates(system: System, measurement: Measurement) -> tuple[FitCandidate, ...]:
    """Returns all ways that the runtime may have used, one candidate for each protocol.

    Raises InputError if the ranks do not fit the system, and for a forced algorithm or protocol
    that is unknown or impossible there.
    """
    part = busy_part(system, measurement)
    links = part.system.links
    return tuple(
        FitCandidate(possible.way, protocol, possible.way.counted(links))
        for possible in possible_ways(part, measurement)
        for protocol in possible.protocols
    )


def possible_ways(part: BusyPart, measurement: Measurement) -> tuple[PossibleWay, ...]:
    """Returns the ways that the runtime may have used, as the simulator prices them.

    Raises InputError as ``candidates``.
    """
    protocols = {protocol.value: protocol for protocol in Protocol}
    forced = _find_forced(measurement.protocol, protocols, "protocol", measurement.source)
    found = []
    for name, way in _ways(part, measurement):
        known = tuple(protocol for protocol in way.protocols if forced in (None, protocol))
        if known:
            found.append(PossibleWay(name, way, known))
    if not found:
        but = [f"without {' and '.join(measurement.without)}"] if measurement.without else []
        ways = (measurement.algorithm, measurement.protocol)
        words = " ".join(["forced to", *filter(None, ways)] if any(ways) else but)
        raise InputError(
            f"{measurement.collective}, {words}, cannot be carried out on {part.system.name}",
            where=measurement.source,
            hint="the links of the description, or the groups, have no such thing",
        )
    return tuple(found)


def choose_algorithm(
    system: System, measurement: Measurement, runtime: str, size_bytes: int
) -> str | None:
    """Returns the algorithm that NCCL's model chooses for a size; None if it does not apply.

    It does not apply if the algorithm was forced, if the collective is an all-to-all or a send and
    receive, which have a single way, or if ``runtime`` uses the fastest.
    """
    goals = [goal for goal in Goal if goal.value == measurement.collective]
    if runtime == FASTEST or measurement.algorithm or goals in ([], [Goal.ALL_TO_ALL]):
        return None
    part = busy_part(system, measurement)
    ranks = Ranks(replace(part.system, nccl=measurement.nccl), part.members)
    goal = goals[0]

    def seconds(name: str) -> float:
        return quickest_seconds(ranks, goal, name, size_bytes)

    allowed = (
        name for name in available_algorithms(ranks, goal) if name not in measurement.without
    )
    return ALGORITHMS[min(allowed, key=seconds)].value


def _ways(part: BusyPart, measurement: Measurement) -> Iterator[tuple[str, AlgorithmWay]]:
    """Yields the runtime's ways for the collective, by name; only the forced way, if any."""
    if measurement.collective not in COLLECTIVES:
        known = suggest_nearest(measurement.collective, COLLECTIVES)
        raise InputError(
            f"no collective {measurement.collective!r}", where=measurement.source, hint=known
        )
    if measurement.collective == SEND_RECEIVE:
        yield DIRECT, ring_exchange(part.system, part.members)
        return
    if measurement.nccl and (spelling := SPELLINGS.get(measurement.algorithm or "")):
        with error_context(measurement.source):
            check_algorithm(spelling, parse_version(measurement.nccl))
    forced = _find_forced(measurement.algorithm, _FORCIBLE, "algorithm", measurement.source)
    system = replace(part.system, calibration=None, nccl=measurement.nccl)
    simulator = Simulator(system)
    collective, goal = Collective(measurement.collective), Goal(measurement.collective)
    # What was forced did run, so a log without a version may be of a later one.
    later = forced is not None and not measurement.nccl
    for name in available_algorithms(Ranks(system, part.members), goal, later=later):
        if forced in (None, ALGORITHMS[name]) and name not in measurement.without:
            yield name, simulator.way(collective, ALGORITHMS[name], part.roles)


def _find_forced(
    given: str | None, known: Mapping[str, _Choice], kind: str, where: str
) -> _Choice | None:
    """Returns the forced choice of a runtime, in any spelling, or None if nothing was forced.

    Raises InputError for an unknown name.
    """
    if given is None:
        return None
    name = given.lower().replace("_", "")
    if name not in known:
        raise InputError(f"no {kind} {given!r}", where=where, hint=suggest_nearest(given, known))
    return known[name]


def ring_exchange(system: System, members: tuple[int, ...]) -> AlgorithmWay:
    """Returns the way in which every rank sends its buffer to the next rank.

    Exactly one edge of this circle leaves each child of a spanned level. It cannot use the
    ports of other devices in the child.
    """
    spans = tuple(level for level, m in enumerate(members) if m > 1)
    carried, busy = [0.0] * len(members), [0.0] * len(members)
    for level in spans:
        link = system.links[level]
        carried[level] = float(members[level]) if link.domain is Domain.BUS else 1.0
        bandwidth = system.port_bytes_per_second(level)
        rate = bandwidth if link.domain is Domain.SWITCH else link.bandwidth_bytes_per_second
        busy[level] = carried[level] / rate
    waits = tuple(float(level in spans) for level in range(len(members)))
    return AlgorithmWay(
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
        members,
        at_once=True,
        members=members,
    )


@dataclass(frozen=True)
class SizePrediction:
    """The prediction for a size: the price of the way forced or chosen, and of all possible ways.

    ``interval`` is the range that a calibration gives for the time; None without a calibration.
    """

    way: str
    price: InstructionPrice
    options: Mapping[str, float]
    interval: Interval | None = None

    @property
    def seconds(self) -> float:
        return self.price.seconds


class Predictor:
    """Prices the sizes of one measurement. Raises InputError if they cannot be priced.

    Only the devices that took part are priced (``busy_part``). Prices are from the price lines that
    a fit uses (``price.ways``), so a system has one prediction for a measurement.
    """

    def __init__(self, system: System, measurement: Measurement) -> None:
        self._measurement = measurement
        self._part = busy_part(system, measurement)
        found = possible_ways(self._part, measurement)
        self._lines = {way.name: self._by_protocol(way) for way in found}

    def at(self, size_bytes: int) -> SizePrediction:
        found = self._taken(size_bytes)
        [price] = found.baseline
        margin = interval_of_program(self._part.system, (price,))
        return SizePrediction(found.chosen, price, found.seconds, margin)

    def bound(self, size_bytes: int) -> Bound:
        """Returns the lower bound of a collective; sends and receives have none."""
        goal = Goal(self._measurement.collective)
        return bound_of_roles(self._part.system, self._part.roles, size_bytes, goal)

    def _by_protocol(self, possible: PossibleWay) -> tuple[PriceLine, ...]:
        """Returns a way's lines, one for each protocol; only fitted protocols, if there are any."""
        system = self._part.system
        fitted = system.calibration and system.calibration.protocols
        known = [each for each in possible.protocols if not fitted or each.value in fitted]
        return tuple(possible.way.line(system, each) for each in known or possible.protocols)

    def _taken(self, size_bytes: int) -> RuntimeDefaults:
        if self._measurement.collective == SEND_RECEIVE:
            [(name, lines)] = self._lines.items()
            price = price_of_line(SEND_RECEIVE, pick_fastest(lines, size_bytes), size_bytes)
            return RuntimeDefaults({name: (price,)}, name)
        ranks = Ranks(self._part.system, self._part.members)
        return choose_default(ranks, Goal(self._measurement.collective), self._lines, size_bytes)
