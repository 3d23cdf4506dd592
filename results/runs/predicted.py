"""What the simulation says of a case: measured events, and the planner's prices of what is sent."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import linear_regression, median
from typing import Any

import numpy as np

from grammar.tensors.sharding import Sharding, Type, part_shape
from hierarchies import Axis, System, placements
from results.runs.cases import Case
from results.testbed.flows import LARGE_BYTES
from results.testbed.prices import Fit
from results.testbed.systems import built
from synth.calibration.fit import fit
from synth.calibration.measurements import SEND_RECEIVE, Measurement, Sample
from synth.events.contention import contended
from synth.events.longest_path import arranged
from synth.semantics.point_to_point import NOBODY, PointToPoint, Transfer
from synth.train.emit import sections
from synth.train.orders import Action
from synth.train.orders.clock import Protocol, scheduled
from synth.train.point_to_point import priced_transfer
from synth.train.profiles import composed
from synth.train.resharding import Path
from synth.train.resharding.seconds import Redistributor
from synth.train.simulation import Simulated, device, simulate
from synth.train.simulation.device import grouping_of

Told = dict[str, Any]


@dataclass(frozen=True)
class Taken:
    """The part of a core that a collective needs while it goes on, and that a transfer needs."""

    by_collective: float
    by_transfer: float

    @classmethod
    def of(cls, told: Told) -> Taken:
        """From how much slower the reference was beside all-reduces: what they took, it had not.

        A transfer is assumed to take half of it: a rank sends or receives, and does not both.
        """
        slower = max(0.0, median(told["beside"]))
        part = slower / (1 + slower)
        return cls(part, part / 2)


@dataclass(frozen=True)
class Predicted:
    """Seconds of a step, and of those in which the device computes."""

    step_seconds: float
    busy_seconds: float


def calibrated(megabits: float, rows: list[Told], world: int = 2) -> Mapping[str, System]:
    """The network with what was measured of a collective, for each that was.

    Each is fitted by itself: gloo's reduce-scatter sends as much as its all-reduce, so one says
    nothing of the other, and a fit to both, which thinks so, is 2 to 3 % off both.
    """
    system = built((world,), (megabits,))
    found: dict[str, list[Sample]] = {}
    for row in rows:
        seconds = median(row["microseconds"]) * 1e-6
        kind = row["collective"].replace("_", "-")
        found.setdefault(kind, []).append(Sample(row["size_bytes"], seconds))
    plain = found.pop(SEND_RECEIVE, None)
    fits = {kind: _fitted(system, kind, samples) for kind, samples in found.items()}
    return fits if plain is None else {**fits, SEND_RECEIVE: _straight(system, plain)}


def _straight(system: System, samples: list[Sample]) -> System:
    """The network with what a buffer took from one device to another: the smallest, and a slope."""
    large = [(one.size_bytes, one.seconds) for one in samples if one.size_bytes >= LARGE_BYTES]
    sizes, seconds = zip(*large, strict=True)
    rate = 1 / linear_regression(sizes, seconds).slope
    return Fit((min(one.seconds for one in samples),), (rate,)).applied(system)


def _fitted(system: System, kind: str, samples: list[Sample]) -> System:
    ranks = (system.devices,)
    return fit(system, [Measurement(kind, ranks, ranks, tuple(samples), "ring")]).system


class Prices:
    """Seconds of moves by the planner, one step each: what the written file calls."""

    def __init__(self, case: Case, systems: Mapping[str, System]) -> None:
        one = case.planned
        axes = tuple(Axis(*axis) for axis in one.plan.axes)
        self._by_kind = {}
        for kind, system in systems.items():
            [placement] = placements(system.hierarchy, axes)
            self._by_kind[kind] = Redistributor(
                system, placement, max_steps=1, segments=(1,), stripes=False
            )
        self._sizes = one.plan.sizes
        self._paths = {
            (moved.value.type, moved.path.source, moved.path.target): moved.path
            for moved in one.program.moved()
        }

    def __call__(self, kind: Type, source: Sharding, target: Sharding) -> float:
        return sum(
            self._by_kind[move.how.value]
            .along(Path(move.before, move.after, (move,)), kind)
            .seconds
            for move in self._paths[kind, source, target].requests(self._sizes)
        )


def simulated(
    case: Case, systems: Mapping[str, System], seconds: Mapping[int, float], taken: float
) -> Simulated:
    """A case on a calibrated network, whose operations take so long."""
    one = case.planned

    def nothing(_: object) -> float:
        raise AssertionError("every operation is part of an event")

    written = device(
        one.step,
        one.plan,
        one.program,
        nothing,
        Prices(case, systems),
        case.overlaps,
        grouping_of(one.plan, case.overlaps, whole=False),
        measured=seconds,
    )
    return simulate(written, taken if case.overlap else 0.0, threads=True)


def predicted(
    case: Case, systems: Mapping[str, System], events: Mapping[str, float], taken: Taken
) -> Predicted:
    """A case, in stages or all at once."""
    if case.planned.plan.order is not None:
        return _pipelined(case, systems[SEND_RECEIVE], events, taken.by_transfer)
    one = case.planned
    seconds = composed(one.pairs, lambda event: events[event.key], one.plan.parts)
    found = simulated(case, systems, seconds, taken.by_collective)
    return Predicted(found.seconds, found.compute_seconds)


def _pipelined(case: Case, system: System, events: Mapping[str, float], taken: float) -> Predicted:
    """Passes by their order, transfers one after the other in each direction.

    What is received is asked for when the pass before begins, and sent no sooner. While it is,
    sender and receiver compute on what that leaves of their cores.
    """
    one = case.planned
    order = one.plan.order
    assert order is not None
    alone, sums = defaultdict[str, float](float), defaultdict[str, float](float)
    for block, event in one.pairs:
        (alone if block.of else sums)[str(block.phase)] += events[event.key]
    graph = scheduled(order, Protocol.EAGER)

    def passing(action: Action) -> float:
        key = f"{action.stage}{action.kind.value}"
        return alone[key] + (sums[key] if action.microbatch else 0.0)

    seconds = [*map(passing, order.actions)]
    uses = [[(order.rank_of[action.stage], 1.0)] for action in order.actions]
    queues, links = list(graph.queues), dict[tuple[int, int], list[int]]()
    held = _handed(case)
    for maker, reader in sorted(graph.transfers, key=lambda pair: order.numbers[pair[0]]):
        ends = order.rank_of[maker.stage], order.rank_of[reader.stage]
        number = len(order.actions) + graph.transfers.index((maker, reader))
        links.setdefault(ends, []).append(number)
    for maker, reader in graph.transfers:
        ends = order.rank_of[maker.stage], order.rank_of[reader.stage]
        size = held[f"{maker.stage}{maker.kind.value}", f"{reader.stage}{reader.kind.value}"]
        seconds.append(_sent(system, size))
        uses.append([(rank, 1.0) for rank in ends])
    for number, (_, reader) in enumerate(graph.transfers, len(order.actions)):
        queue = graph.queues[order.rank_of[reader.stage]]
        place = queue.index(order.numbers[reader])
        graph.before[number] += queue[max(0, place - 2) : max(0, place - 1)]
    tops = [1.0] * len(order.actions) + [max(taken, 1e-6)] * len(graph.transfers)
    _, ends_at = contended(
        arranged(graph.before, [*queues, *links.values()]), seconds, uses, None, tops
    )
    once = [
        sum(alone[key] for key in alone if key.startswith((f"{rank} ", "every stage ")))
        for rank in range(len(order.ranks))
    ]
    last = [max(ends_at[number] for number in queue) for queue in graph.queues]
    busy = [
        sum(seconds[number] for number in queue) + more
        for queue, more in zip(graph.queues, once, strict=True)
    ]
    step = max(end + more for end, more in zip(last, once, strict=True))
    return Predicted(step, sum(busy) / len(busy))


def _handed(case: Case) -> Counter[tuple[str, str]]:
    """Bytes from pass to pass."""
    one, found = case.planned, Counter[tuple[str, str]]()
    for sent in sections(one.step, one.program, one.plan.parts).transfers:
        part = part_shape(sent.value.type, sent.sharding, one.plan.parts)
        found[str(sent.source), str(sent.target)] += Type(sent.value.type.dtype, part).bytes
    return found


def _sent(system: System, size: int) -> float:
    """Seconds of a buffer from the first device to the second."""
    [placement] = placements(system.hierarchy, (Axis("pipe", 2),))
    request = PointToPoint(Transfer.SEND_RECEIVE, placement, np.array([NOBODY, 0]), size)
    return priced_transfer(request, system).seconds
