"""Random schedules on random machines, for whoever simulates flows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import pairwise

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from grammar import parse
from hierarchies import (
    Reduction,
    System,
)
from hierarchies.links import Floats, Network
from strategies import all_valid, reductions, smart_systems, spelled
from synth.collective.algorithms.algorithms import Choice
from synth.collective.algorithms.directions import is_line
from synth.collective.algorithms.link_loads import Footprint, footprint
from synth.collective.price.flows import FlowResult, simulate
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import InstructionPrice
from synth.collective.price.ways import MEMORY, has_two_directions
from synth.collective.ranking.answers import price_phases
from synth.collective.semantics.lowering import lower
from synth.collective.semantics.programs import Language
from synth.collective.semantics.schedule import Schedule
from synth.collective.verify.rehearsal import derive_valid
from synth.events.overlap import makespan_seconds

CLOSE = 1e-9


@dataclass(frozen=True, eq=False)
class Case:
    """A schedule on a system, with the prices of its phases."""

    system: System
    schedule: Schedule
    prices: tuple[InstructionPrice, ...]

    @property
    def network(self) -> Network:
        return Network.of(self.system)

    @property
    def symmetric_seconds(self) -> float:
        return makespan_seconds([price.work for price in self.prices], self.schedule.segments)

    def flowed(self, network: Network | None = None) -> FlowResult:
        return simulate(self.schedule, self.prices, network or self.network)

    def footprints(self) -> list[Footprint]:
        pairs = zip(self.schedule.phases, self.prices, strict=True)
        return [footprint(phase, price, self.network.wiring) for phase, price in pairs]


def changed(network: Network, factors: dict[str, float]) -> Network:
    """The network with the bandwidths of links, by patterns of their or their cables' names."""
    bandwidths = network.bandwidths.copy()
    for link in range(network.wiring.links):
        for pattern, factor in factors.items():
            names = network.wiring.name(link), network.wiring.cable(link)
            if any(fnmatch(name, pattern) for name in names):
                bandwidths[link] *= factor
    return replace(network, bandwidths=bandwidths)


def case_of(
    system: System, reduction: Reduction, text: str, segments: int, choice: Choice = Choice.ANY
) -> Case:
    derivation = derive_valid(parse(text), reduction.tree)
    schedule = lower(derivation, reduction, 2**20 * reduction.tree.devices, segments)
    each = schedule.padded_bytes / segments
    prices = price_phases(Simulator(system, choice), derivation, reduction, each)
    return Case(system, schedule, tuple(prices))


@st.composite
def cases(draw: st.DrawFn, most_devices: int = 12, most_segments: int = 4) -> Case:
    """Any valid program of up to three steps on any small system, cut into segments."""
    system = draw(smart_systems(most_devices))
    reduction = draw(reductions(system.hierarchy))
    digits = len(reduction.tree.digits)
    assume(0 < digits <= 3)
    steps = draw(st.sampled_from(all_valid(digits, Language(3, across=True))))
    text = str(spelled(steps, reduction.tree))
    segments = draw(st.integers(1, most_segments))
    return case_of(system, reduction, text, segments, draw(st.sampled_from(Choice)))


def levels_of(case: Case) -> tuple[list[str], Floats]:
    """The levels and the memory, and which of them each link belongs to."""
    firsts = [*case.network.wiring.firsts, case.network.wiring.links]
    names = [*case.system.hierarchy.names, MEMORY]
    return names, np.repeat(np.arange(len(names)), np.diff(firsts)).astype(np.float64)


def resources_of(case: Case) -> tuple[list[str], Floats]:
    """The resources of the symmetric engine, and which of them each link belongs to.

    Where the two ways of ports are told apart, links out and in by turns; on a line the links at
    its ends, by whether they lead away from the end, and those between as a resource of no step.
    """
    firsts = [*case.network.wiring.firsts, case.network.wiring.links]
    names: list[str] = []
    found = []
    for number, name in enumerate([*case.system.hierarchy.names, MEMORY]):
        links = np.arange(firsts[number + 1] - firsts[number])
        between = case.system.hierarchy.cardinalities[number] - 1 if name != MEMORY else 0
        if name != MEMORY and is_line(case.system, number):
            place, back = links // 2 % between, links % 2
            first = np.where(back, between - 1 - place, place)
            found.append(len(names) + np.select([first == 0, first == between - 1], [0, 1], 2))
            names += [f"{name} out", f"{name} in", f"{name} between"]
            continue
        both = name != MEMORY and has_two_directions(case.system, number)
        found.append(len(names) + (links % 2 if both else 0 * links))
        names += [f"{name} out", f"{name} in"] if both else [name]
    return names, np.concatenate(found).astype(np.float64)


def meets_the_busiest(case: Case) -> bool:
    """Whether every group crosses, at each level its step uses, a link that is the busiest of its
    level in every step; and has a device that was busy in the step before.
    """
    names, level = resources_of(case)
    prints, bandwidths = case.footprints(), case.network.bandwidths
    busiest = np.ones(len(bandwidths), dtype=bool)
    for one, price in zip(prints, case.prices, strict=True):
        busy = np.bincount(one.link, one.carried_bytes, len(bandwidths)) / bandwidths
        peaks = np.array([price.work.busy.get(name, 0.0) for name in names])
        busiest &= np.isclose(busy, peaks[level.astype(int)], rtol=CLOSE, atol=0.0)
    for one, price in zip(prints, case.prices, strict=True):
        for number, name in enumerate(names):
            if price.work.busy.get(name):
                here = busiest[one.link] & (level[one.link] == number)
                if len(set(one.group[here].tolist())) < len(one.groups):
                    return False
    return all(
        bool(np.isin(later.groups, before.groups).any(axis=1).all())
        for before, later in pairwise(prints)
    )
