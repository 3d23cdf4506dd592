"""What the simulation says of a case: measured events, and the planner's prices of what is sent."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from statistics import linear_regression, median
from typing import Any

import numpy as np

from grammar import Goal
from grammar.tensors.sharding import Sharding, Type, part_shape
from hierarchies import Axis, InputError, System, placements
from results.runs.cases import Case
from results.testbed.flows import LARGE_BYTES
from results.testbed.prices import Fit
from results.testbed.systems import built
from synth.collective.algorithms.algorithms import Choice
from synth.collective.ranking.oracle import ProgramPrices
from synth.collective.semantics.point_to_point import NOBODY, PointToPoint, TransferKind
from synth.collective.semantics.programs import Language
from synth.compute import Estimate, Section
from synth.events.contention import time_with_contention
from synth.events.longest_path import arrange_tasks
from synth.measure.calibration.fit import fit
from synth.measure.calibration.measurements import SEND_RECEIVE, Measurement, Sample
from synth.step.emit import split_sections
from synth.step.emit.scheduled import ScheduleText
from synth.step.emit.sections import Sections
from synth.step.point_to_point import price_transfer
from synth.step.profiles import compose_seconds
from synth.step.redistribution import MoveKind, RedistributionPath, ShardingMove
from synth.step.redistribution.seconds import NetworkPrices
from synth.step.schedules import Action
from synth.step.schedules.clock import TransferProtocol, build_transfer_graph
from synth.step.sharding import RedistributedValue
from synth.step.sharding.microbatches import strip_time, to_microbatch
from synth.step.simulation import DeviceTimeline, simulate, write_device
from synth.step.simulation.device import grouping_of

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


FREE = Taken(0.0, 0.0)
"""Where nothing is computed."""


@dataclass(frozen=True)
class Predicted:
    """Seconds of a step, and of those in which the device computes."""

    step_seconds: float
    busy_seconds: float


Systems = Mapping[tuple[str, int], System]
"""The network as calibrated to a collective among so many ranks."""


def calibrated(megabits: float, rows: list[Told], world: int = 2) -> Systems:
    """The network with what was measured of a collective, for each that was.

    Each is fitted by itself: gloo's reduce-scatter sends as much as its all-reduce, so one says
    nothing of the other, and a fit to both, which thinks so, is 2 to 3 % off both.
    """
    system = built((world,), (megabits,))
    found: dict[tuple[str, int], list[Sample]] = {}
    for row in rows:
        seconds = median(row["microseconds"]) * 1e-6
        kind = row["collective"].replace("_", "-")
        found.setdefault((kind, row["members"]), []).append(Sample(row["size_bytes"], seconds))
    return {
        (kind, members): _straight(system, samples)
        if kind in (SEND_RECEIVE, MoveKind.PERMUTE.value)
        else fitted(system, kind, (members,), samples)
        for (kind, members), samples in found.items()
    }


def _straight(system: System, samples: list[Sample]) -> System:
    """The network with what a buffer took from one device to another: the smallest, and a slope."""
    large = [(one.size_bytes, one.seconds) for one in samples if one.size_bytes >= LARGE_BYTES]
    sizes, seconds = zip(*large, strict=True)
    rate = 1 / linear_regression(sizes, seconds).slope
    return Fit((min(one.seconds for one in samples),), (rate,)).applied(system)


def fitted(
    system: System, kind: str, members: tuple[int, ...], samples: Sequence[Sample]
) -> System:
    """The network with what a collective took among groups of so many at each level, all at once.

    Before the fit a message costs what one of a ring's took of the smallest buffer: a fit scales
    what a link is described to have, and a latency of 0 by nothing: small collectives would be
    free.
    """
    message = min(one.seconds for one in samples) / (2 * prod(members) - 2)
    rates = tuple(link.bandwidth_bytes_per_second for link in system.links)
    system = Fit((message,) * len(rates), rates).applied(system)
    algorithm = "direct" if kind == Goal.ALL_TO_ALL.value else "ring"
    busy = system.hierarchy.cardinalities
    return fit(system, [Measurement(kind, members, busy, tuple(samples), algorithm)]).system


class Prices:
    """Seconds of moves by the planner, one step each: what the written file calls."""

    def __init__(self, case: Case, systems: Systems) -> None:
        one = case.planned
        axes = tuple(Axis(*axis) for axis in one.plan.axes)
        self._known = {}
        for key, system in systems.items():
            [placement] = placements(system.hierarchy, axes)
            # Gloo has rings only, and rings were measured; pieces of all-to-alls are sent directly.
            choice = Choice.AUTO if key[0] == Goal.ALL_TO_ALL.value else Choice.RING
            one_step = Language(1)
            programs = ProgramPrices(
                system, choice, language=one_step, segments=(1,), stripes=False
            )
            self._known[key] = NetworkPrices(programs, placement, without=())
        self._sizes, self._parts = one.plan.sizes, one.plan.parts
        self._paths = {
            (moved.value.type, moved.path.source, moved.path.target): moved.path
            for moved in one.program.moved()
        }

    def __call__(self, kind: Type, source: Sharding, target: Sharding) -> float:
        return self._seconds(kind, self._paths[kind, source, target].requests(self._sizes))

    def moved(self, one: RedistributedValue) -> float:
        """Of what is sent of one microbatch."""
        whole, path = one.value.type, one.path
        kind, _, _ = strip_time(whole, path.source, path.target, self._parts)
        every = (to_microbatch(move, whole, self._parts) for move in path.requests(self._sizes))
        return self._seconds(kind, [move for move, _ in filter(None, every)])

    def _seconds(self, kind: Type, moves: Iterable[ShardingMove]) -> float:
        return sum(
            self._known[move.how.value, move.devices(self._sizes)]
            .along(RedistributionPath(move.before, move.after, (move,)), kind)
            .seconds
            for move in moves
        )


def simulated(
    case: Case, systems: Systems, seconds: Mapping[int, Estimate], taken: float
) -> DeviceTimeline:
    """A case on a calibrated network, whose operations take so long."""
    one = case.planned

    def measured(section: Section) -> float:
        assert not section.rest, "every operation is part of an event"
        return section.measured.seconds

    written = write_device(
        one.step,
        one.plan,
        one.program,
        measured,
        Prices(case, systems),
        case.overlaps,
        grouping_of(one.plan, case.overlaps, whole=False, measured=seconds),
    )
    return simulate(written, taken if case.overlap else 0.0, threads=True)


def predicted(case: Case, systems: Systems, events: Mapping[str, float], taken: Taken) -> Predicted:
    """A case, in microbatches or all at once.

    Raises InputError for a case whose program is not that which was measured.
    """
    if missing := case.planned.events.keys() - events.keys():
        raise InputError(
            f"nobody measured {len(missing)} of {len(case.planned.events)} events of {case.name}",
            where="results/runs/data",
            hint="programs have changed since: measure again, or report at the commit of the data",
        )
    if case.planned.program.places:
        return _in_passes(case, systems, events, taken.by_transfer)
    one = case.planned
    seconds = compose_seconds(one.pairs, lambda event: _sure(events[event.key]), one.plan.parts)
    found = simulated(case, systems, seconds, taken.by_collective)
    return Predicted(found.seconds, found.compute_seconds)


def _sure(seconds: float) -> Estimate:
    return Estimate(seconds, seconds, seconds, "measured")


def beside(case: Case, row: Told, said: Predicted) -> Told:
    """What was measured of a case, and the errors of what is said of it."""
    return {
        "model": str(case.model),
        "plan": case.plan + (", overlapped" if case.overlap else ""),
        "megabits": case.megabits,
        **{key: row[key] for key in ("step_seconds", "step_spread")},
        **{key: row[key] for key in ("busy_seconds", "busy_spread", "drift")},
        "step_error": round(said.step_seconds / row["step_seconds"] - 1, 4),
        "busy_error": round(said.busy_seconds / row["busy_seconds"] - 1, 4),
    }


def _in_passes(
    case: Case, systems: Systems, events: Mapping[str, float], taken: float
) -> Predicted:
    """Passes by their order, and transfers one after the other through the port of who sends.

    A port has one queue, first in, first out, for what goes up and what goes down the pipe. What
    is received is asked for when the pass before begins, and sent no sooner. While it is, sender
    and receiver compute on what that leaves of their cores.
    """
    one, prices = case.planned, Prices(case, systems)
    order = ScheduleText(one.plan).order
    alone, sums = defaultdict[str, float](float), defaultdict[str, float](float)
    for block, event in one.pairs:
        (alone if block.of else sums)[str(block.phase)] += events[event.key]
    cut = split_sections(one.step, one.program, one.plan.parts)
    meeting = defaultdict[str, float](float)
    for section in cut.sections:
        for moved in section.instructions:
            if isinstance(moved, RedistributedValue) and moved.path.requests(one.plan.sizes):
                meeting[str(section.phase)] += prices.moved(moved)
    graph = build_transfer_graph(order, TransferProtocol.EAGER)

    def computing(action: Action) -> float:
        key = f"{action.stage}{action.kind.value}"
        return alone[key] + (sums[key] if action.microbatch else 0.0)

    computed = [*map(computing, order.actions)]
    seconds = [
        busy + meeting[f"{action.stage}{action.kind.value}"]
        for busy, action in zip(computed, order.actions, strict=True)
    ]
    uses = [[(order.rank_of[action.stage], 1.0)] for action in order.actions]
    ports = dict[int, list[int]]()
    numbers = dict(zip(graph.transfers, range(len(seconds), len(graph.before)), strict=True))
    for pair in sorted(graph.transfers, key=lambda pair: order.numbers[pair[0]]):
        ports.setdefault(order.rank_of[pair[0].stage], []).append(numbers[pair])
    held = _handed(cut, one.plan.parts)
    for maker, reader in graph.transfers:
        size = held[f"{maker.stage}{maker.kind.value}", f"{reader.stage}{reader.kind.value}"]
        seconds.append(_sent(systems[SEND_RECEIVE, 2], size))
        ends = order.rank_of[maker.stage], order.rank_of[reader.stage]
        uses.append([(rank, 1.0) for rank in ends] if taken else [])
    for number, (_, reader) in enumerate(graph.transfers, len(order.actions)):
        queue = graph.queues[order.rank_of[reader.stage]]
        place = queue.index(order.numbers[reader])
        graph.before[number] += queue[max(0, place - 2) : max(0, place - 1)]
    tops = [1.0] * len(order.actions) + [taken or 1.0] * len(graph.transfers)
    _, ends_at = time_with_contention(
        arrange_tasks(graph.before, [*graph.queues, *ports.values()]), seconds, uses, tops
    )
    begins = [
        ("every stage ", *(f"{stage} " for stage, at in order.rank_of.items() if at == rank))
        for rank in range(len(order.ranks))
    ]
    once, between = (
        [sum(some[key] for key in some if key.startswith(mine)) for mine in begins]
        for some in (alone, meeting)
    )
    last = [max(ends_at[number] for number in queue) for queue in graph.queues]
    busy = [
        sum(computed[number] for number in queue) + more
        for queue, more in zip(graph.queues, once, strict=True)
    ]
    step = max(map(sum, zip(last, once, between, strict=True)))
    return Predicted(step, sum(busy) / len(busy))


def _handed(cut: Sections, parts: Mapping[str, int]) -> Counter[tuple[str, str]]:
    """Bytes from pass to pass."""
    found = Counter[tuple[str, str]]()
    for sent in cut.transfers:
        part = part_shape(sent.value.type, sent.sharding, parts)
        found[str(sent.source), str(sent.target)] += Type(sent.value.type.dtype, part).bytes
    return found


def _sent(system: System, size: int) -> float:
    """Seconds of a buffer from the first device to the second."""
    [placement] = placements(system.hierarchy, (Axis("pipe", system.devices),))
    sources = np.array([NOBODY, 0, *[NOBODY] * (system.devices - 2)])
    request = PointToPoint(TransferKind.SEND_RECEIVE, placement, sources, size)
    return price_transfer(request, system).seconds
