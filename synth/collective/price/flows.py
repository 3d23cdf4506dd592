"""Simulates every group of every phase of a schedule separately, on links that may differ.

A *flow* is a group of a phase; it carries one segment after the other. A segment of a flow starts
when the flow has carried the segment before and every earlier flow of the same segment on its
devices is done. It waits for its messages (latency) and is then one fluid flow over all links its
algorithm uses, in proportion to the bytes it puts there; the collective is assumed to be pipelined
within a segment, as rings and trees are. Its rate is a share of the rate of its step alone in the
network, at the busiest link it uses; these shares are max-min fair (``events.max_min``). The two
directions of a link are separate links.

On a system whose links match their description, the result equals that of ``overlap`` if every
group has a device that took part in the step before and uses, at each level of its step, a link
that all steps load most heavily. Elsewhere ``overlap`` assumes that all groups use the busiest
links. A single step then takes no longer here than in ``overlap``, but with several steps some end
a little later: max-min fair shares are not monotone and do not favour the critical path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from hierarchies import InputError
from hierarchies.links import Floats, Network, Numbers
from synth.collective.algorithms.link_loads import Footprint, footprint
from synth.collective.price.steps import InstructionPrice
from synth.collective.semantics.schedule import Exchange, Schedule
from synth.events.engine import Course, Engine
from synth.events.max_min import FlowPaces, scarce_uses

ShouldContinue = Callable[[int, int], bool]
CHECK_EVERY = 500
"""The number of completions between two calls of ``go_on``."""


@dataclass(frozen=True)
class GroupSpan:
    """When a group of a phase began to wait for a segment's messages, and when it finished."""

    segment: int
    phase: int
    group: int
    begin_seconds: float
    end_seconds: float


@dataclass(frozen=True, eq=False)
class FlowResult:
    """The result of simulating a schedule on a network.

    ``seconds``: when the last flow ended, or where the simulation stopped. ``begins`` and ``ends``,
    shape (flows, segments), have NaN where nothing began or ended; flow f is group ``groups[f]`` of
    phase ``phases[f]``. ``carried_bytes``, shape (links,): the bytes that a segment puts on each
    link.
    """

    network: Network
    seconds: float
    completions: int
    of_completions: int
    phases: Numbers
    groups: Numbers
    begins: Floats
    ends: Floats
    carried_bytes: Floats

    @property
    def complete(self) -> bool:
        """Whether the simulation ran to the end."""
        return self.completions == self.of_completions

    def spans(self) -> Iterator[GroupSpan]:
        """Yields the finished spans in the order in which they ended."""
        ended = np.argwhere(~np.isnan(self.ends))
        for flow, segment in ended[np.argsort(self.ends[*ended.T], kind="stable")].tolist():
            yield GroupSpan(
                segment,
                int(self.phases[flow]),
                int(self.groups[flow]),
                float(self.begins[flow, segment]),
                float(self.ends[flow, segment]),
            )

    def busiest(self, count: int = 10) -> tuple[tuple[str, float], ...]:
        """Names of the busiest links with the share of time each is busy; only where complete."""
        assert self.complete
        busy = self.ends.shape[1] * self.carried_bytes / self.network.bandwidths
        links = np.argsort(-busy, kind="stable")[:count]
        name = self.network.wiring.name
        return tuple((name(link), float(busy[link] / self.seconds)) for link in links.tolist())


def simulate(
    schedule: Schedule,
    prices: Sequence[InstructionPrice],
    network: Network,
    go_on: ShouldContinue = lambda done, of: True,
) -> FlowResult:
    """Simulates every flow of a schedule on a network, event by event.

    ``prices`` are of one segment of each phase: they give its algorithm, the size of its buffers
    and how long it waits for messages; the network determines the rest. ``go_on`` is called every
    ``CHECK_EVERY`` completions with the completions so far and in total; if it returns False the
    simulation stops and the result covers the time until then. Raises InputError for prices that do
    not match the schedule's phases, or for a network of another machine.
    """
    course, segments = _Course(schedule, prices, network), schedule.segments
    flows = len(course.waits)
    items = Course([segments] * flows, course.waits, [True] * flows, course.earlier)
    engine = Engine(items, FlowPaces(course.uses, course.ceilings, course.claims))
    completions, checked, end = 0, 0, 0.0
    for now, ended in engine.moments():
        end = now
        completions += len(ended)
        if completions - checked >= CHECK_EVERY and completions < flows * segments:
            checked = completions
            if not go_on(completions, flows * segments):
                break
    return FlowResult(
        network,
        end,
        completions,
        flows * segments,
        course.phases,
        course.groups,
        _table(engine.begins, segments),
        _table(engine.ends, segments),
        course.carried_bytes,
    )


class _Course:
    """All flows of a schedule: their predecessors, the links they use, and their rates.

    ``uses`` and ``ceilings`` are shares of the rate of a flow's step alone, which carries a segment
    in ``claims`` seconds.
    """

    def __init__(
        self, schedule: Schedule, prices: Sequence[InstructionPrice], network: Network
    ) -> None:
        _check(schedule, prices, network)
        footprints = [
            footprint(phase, price, network.wiring)
            for phase, price in zip(schedule.phases, prices, strict=True)
        ]
        counts = [len(loads.groups) for loads in footprints]
        firsts = np.cumsum([0, *counts])
        self.phases = np.repeat(np.arange(len(counts)), counts)
        self.groups = np.arange(firsts[-1]) - firsts[self.phases]
        self.waits: list[float] = np.repeat([p.latency_seconds for p in prices], counts).tolist()
        self.earlier = _find_earlier(footprints, schedule.devices)
        self.carried_bytes = np.zeros(network.wiring.links)
        claims = np.zeros(firsts[-1])
        for first, loads in zip(firsts, footprints, strict=False):
            carried = np.bincount(loads.link, loads.carried_bytes, network.wiring.links)
            self.carried_bytes += carried
            pace = (carried / network.bandwidths)[loads.link]
            np.maximum.at(claims, first + loads.group, pace)
        numbered = zip(firsts, footprints, strict=False)
        # The empty arrays serve schedules without phases: np.concatenate refuses an empty list.
        flow = np.concatenate([np.arange(0), *(first + loads.group for first, loads in numbered)])
        link = np.concatenate([np.arange(0), *(loads.link for loads in footprints)])
        carried = np.concatenate([np.zeros(0), *(loads.carried_bytes for loads in footprints)])
        parts = carried / network.bandwidths[link] / claims[flow]
        heaviest = np.zeros(firsts[-1])
        np.maximum.at(heaviest, flow, parts)
        self.claims: list[float] = claims.tolist()
        self.ceilings: list[float] = (1 / heaviest).tolist()
        self.uses = scarce_uses(flow, link, parts, 1 / heaviest)


def _check(schedule: Schedule, prices: Sequence[InstructionPrice], network: Network) -> None:
    hierarchy = schedule.reduction.placement.hierarchy
    if network.system.hierarchy != hierarchy:
        raise InputError(
            f"a network of {network.system.hierarchy}", hint=f"the schedule is for {hierarchy}"
        )
    named = [
        phase.collective.value if isinstance(phase, Exchange) else "transpose"
        for phase in schedule.phases
    ]
    if [price.what for price in prices] != named:
        raise InputError(
            f"prices of {', '.join(price.what for price in prices) or 'nothing'}",
            hint=f"the phases of the schedule are {', '.join(named) or 'none'}",
        )


def _find_earlier(footprints: Sequence[Footprint], devices: int) -> list[list[int]]:
    """For each flow, the flows that last used any of its devices before it."""
    last = [-1] * devices
    earlier: list[list[int]] = []
    for group in chain.from_iterable(loads.groups for loads in footprints):
        flow = len(earlier)
        earlier.append(sorted({last[device] for device in group} - {-1}))
        for device in group:
            last[device] = flow
    return earlier


def _table(rows: list[list[float]], columns: int) -> Floats:
    """Rows of different lengths as one array padded with NaN; shape (rows, columns)."""
    table = np.full((len(rows), columns), np.nan)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return table
