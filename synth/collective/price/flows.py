"""A schedule on links that need not be alike: every group of every phase followed by itself.

A *flow* is a group of a phase; it carries one segment after the other. A segment of a flow starts
when the flow has carried the segment before and, of the same segment, whatever came last on each of
its devices is done. It waits for its messages (latency), and is then one fluid flow over all links
its algorithm uses, in proportion to the bytes it puts there: that a collective is pipelined within
a segment, as rings and trees are, is taken for granted. Its pace is a share of the pace of its step
alone in the network, at the busiest link it meets; these shares are max-min fair
(``events.max_min``). Both ways of a link are links of their own.

On a system whose links are as described this is the engine of ``overlap`` wherever every group
meets, at each level its step uses, a link on which all steps put their most, and has a device that
took part in the step before. Elsewhere ``overlap`` takes all groups for those that meet the busiest
links; one step alone then takes no longer here than there, but of several some end a little later:
max-min fair shares are not monotone, and give a flow on the critical path no more than any other.
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
"""How many completions lie between two calls that ask whether to go on."""


@dataclass(frozen=True)
class GroupSpan:
    """When a group of a phase began to wait for a segment's messages, and when it was done."""

    segment: int
    phase: int
    group: int
    begin_seconds: float
    end_seconds: float


@dataclass(frozen=True, eq=False)
class FlowResult:
    """What came of a schedule on a network.

    ``seconds``: when the last flow was done, or how far it was followed. ``begins`` and ``ends``,
    shape (flows, segments), have NaN for what did not begin or end; flow f is group ``groups[f]``
    of phase ``phases[f]``. ``carried_bytes``, shape (links,): what a segment puts on each link.
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
        """Whether it was followed to its end."""
        return self.completions == self.of_completions

    def spans(self) -> Iterator[GroupSpan]:
        """What was done, in the order in which it ended."""
        done = np.argwhere(~np.isnan(self.ends))
        for flow, segment in done[np.argsort(self.ends[*done.T], kind="stable")].tolist():
            yield GroupSpan(
                segment,
                int(self.phases[flow]),
                int(self.groups[flow]),
                float(self.begins[flow, segment]),
                float(self.ends[flow, segment]),
            )

    def busiest(self, count: int = 10) -> tuple[tuple[str, float], ...]:
        """The links busy for the largest share of the time, by name; only where complete."""
        assert self.complete
        whole = self.ends.shape[1] * self.carried_bytes / self.network.bandwidths
        links = np.argsort(-whole, kind="stable")[:count]
        name = self.network.wiring.name
        return tuple((name(link), float(whole[link] / self.seconds)) for link in links.tolist())


def simulate(
    schedule: Schedule,
    prices: Sequence[InstructionPrice],
    network: Network,
    go_on: ShouldContinue = lambda done, of: True,
) -> FlowResult:
    """Follow every flow of a schedule on a network, event by event.

    ``prices`` are of one segment of each phase: they say by which algorithm it is carried out, the
    size of its buffers and how long it waits for messages; what it then takes is for the network
    to say. ``go_on`` is called now and then with the completions so far and in all; False stops
    the simulation, and the result is what was seen until then. Raises InputError for prices that
    are not the schedule's, or for a network of another machine.
    """
    course, segments = _Course(schedule, prices, network), schedule.segments
    flows = len(course.waits)
    items = Course([segments] * flows, course.waits, [True] * flows, course.earlier)
    engine = Engine(items, FlowPaces(course.uses, course.ceilings, course.claims))
    completions, asked, end = 0, 0, 0.0
    for now, ended in engine.moments():
        end = now
        completions += len(ended)
        if completions - asked >= CHECK_EVERY and completions < flows * segments:
            asked = completions
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
    """All flows of a schedule: what they wait for, what they use and how fast that makes them.

    ``uses`` and ``ceilings`` are in shares of the pace of a flow's step alone, which carries a
    segment in ``claims`` seconds.
    """

    def __init__(
        self, schedule: Schedule, prices: Sequence[InstructionPrice], network: Network
    ) -> None:
        _check(schedule, prices, network)
        found = [
            footprint(phase, price, network.wiring)
            for phase, price in zip(schedule.phases, prices, strict=True)
        ]
        counts = [len(one.groups) for one in found]
        firsts = np.cumsum([0, *counts])
        self.phases = np.repeat(np.arange(len(counts)), counts)
        self.groups = np.arange(firsts[-1]) - firsts[self.phases]
        self.waits: list[float] = np.repeat([p.latency_seconds for p in prices], counts).tolist()
        self.earlier = _find_earlier(found, schedule.devices)
        self.carried_bytes = np.zeros(network.wiring.links)
        claims = np.zeros(firsts[-1])
        for first, one in zip(firsts, found, strict=False):
            carried = np.bincount(one.link, one.carried_bytes, network.wiring.links)
            self.carried_bytes += carried
            pace = (carried / network.bandwidths)[one.link]
            np.maximum.at(claims, first + one.group, pace)
        flow = np.concatenate([np.arange(0), *map(_number_groups, firsts, found)])
        link = np.concatenate([np.arange(0), *(one.link for one in found)])
        carried = np.concatenate([np.zeros(0), *(one.carried_bytes for one in found)])
        parts = carried / network.bandwidths[link] / claims[flow]
        most = np.zeros(firsts[-1])
        np.maximum.at(most, flow, parts)
        self.claims: list[float] = claims.tolist()
        self.ceilings: list[float] = (1 / most).tolist()
        self.uses = scarce_uses(flow, link, parts, 1 / most)


def _number_groups(first: int, one: Footprint) -> Numbers:
    return first + one.group


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


def _find_earlier(found: Sequence[Footprint], devices: int) -> list[list[int]]:
    """For each flow the flows that came last, in earlier phases, on any of its devices."""
    last = [-1] * devices
    earlier: list[list[int]] = []
    for group in chain.from_iterable(one.groups for one in found):
        flow = len(earlier)
        earlier.append(sorted({last[device] for device in group} - {-1}))
        for device in group:
            last[device] = flow
    return earlier


def _table(rows: list[list[float]], columns: int) -> Floats:
    """Rows of as many moments as there were, filled up with NaN; shape (rows, columns)."""
    table = np.full((len(rows), columns), np.nan)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return table
