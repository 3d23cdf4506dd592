"""What is put to the judge: systems, requests and payloads by a rule, every placement and program.

The made systems have few devices, so that whole flat rings can be followed message by message, and
several ports, so that rings have borders to spread over. Those of the catalogue stand for its
shapes of switches and circles, with two children of the outermost level; the rest of it has the
same shapes with other figures, or meshes, or more devices than can be followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from grammar import Program, spell
from hierarchies import (
    Axis,
    Domain,
    Hierarchy,
    Link,
    Reduction,
    System,
    load,
    placements,
)
from results.opinions.application import How
from synth.collective.algorithms.algorithms import Choice
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import InstructionPrice
from synth.collective.ranking.answers import price_phases
from synth.collective.ranking.library import Library
from synth.collective.semantics.lowering import lower
from synth.collective.semantics.programs import Language
from synth.collective.semantics.schedule import Schedule
from synth.collective.verify.rehearsal import derive_valid

CATALOGUE = ("dgx-h100:2", "p2-a100:2", "dgx1-v100:2", "l40s-pcie:2", "tpu-v5e-slice:2")
MOST_FLAT, MOST_TREES = 16, 8
MOST_STEPS = 3
PAYLOADS = (2**20, 2**28)
SEGMENTED, SEGMENTS = ("2x4, 1 port", "2x4, 2 ports"), 4


class Asked(NamedTuple):
    """A request of a system: sizes of the axes, and which of them are reduced over."""

    sizes: tuple[int, ...]
    over: tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One request of one system with one payload, carried out by one choice of algorithms.

    ``whole``: programs are followed from end to end, too, not only step by step.
    """

    system: str
    asked: Asked
    payload_bytes: int
    choice: Choice
    segments: int = 1
    whole: bool = True


@dataclass(frozen=True, eq=False)
class Pair:
    """One placement and program of a case."""

    placement: str
    program: str
    schedule: Schedule
    prices: tuple[InstructionPrice, ...]


def _switch(ports: int, gigabytes_per_second: float, microseconds: float, *through: str) -> Link:
    return Link(
        Domain.SWITCH, gigabytes_per_second * 1e9, microseconds * 1e-6, ports, through=through
    )


def _made(name: str, hierarchy: Hierarchy, *links: Link) -> System:
    return System(name, "", hierarchy, links, 1e12, launches=False)


_TWO, _FOUR = Hierarchy.of(node=2, gpu=4), Hierarchy.of(node=4, gpu=4)
_EIGHT, _DEEP = Hierarchy.of(node=2, gpu=8), Hierarchy.of(rack=2, node=2, gpu=4)
MADE = {
    system.name: system
    for system in (
        _made("2x4, 1 port", _TWO, _switch(1, 25, 5), _switch(1, 200, 1)),
        _made("2x4, 2 ports", _TWO, _switch(2, 25, 5), _switch(1, 200, 1)),
        _made("2x4, 1 port through gpu", _TWO, _switch(1, 25, 5, "gpu"), _switch(1, 40, 1)),
        _made("4x4, 4 ports", _FOUR, _switch(4, 25, 5), _switch(1, 200, 1)),
        _made("2x8, 4 ports", _EIGHT, _switch(4, 25, 5), _switch(1, 200, 1)),
        _made(
            "2x2x4, racks 2:1",
            _DEEP,
            _switch(2, 25, 7, "node"),
            _switch(2, 25, 5),
            _switch(1, 200, 1),
        ),
        _made(
            "2x2x4, racks of a port a node",
            _DEEP,
            _switch(2, 12.5, 7),
            _switch(4, 25, 5),
            _switch(1, 200, 1),
        ),
    )
}


def systems() -> dict[str, System]:
    """The made ones and some of the catalogue; where a switch reduces, it is not asked to."""
    found = dict(MADE)
    for name in CATALOGUE:
        system = load(name)
        links = tuple(replace(link, reduces=False) for link in system.links)
        found[name] = replace(system, links=links)
    return found


def cases() -> Iterator[Case]:
    """Rings everywhere; what is fastest where all domains are switches; trees where few."""
    for name, system in systems().items():
        switches = all(link.domain is Domain.SWITCH for link in system.links)
        small = system.devices <= MOST_TREES
        choices = (Choice.RING, *[Choice.TREE] * small, Choice.ANY)
        for asked, payload in product(requests(system.devices), PAYLOADS):
            for choice in choices if switches else (Choice.RING,):
                yield Case(name, asked, payload, choice, whole=small)


def segmented() -> Iterator[Case]:
    """Rings in a few segments, where the steps of a program overlap."""
    for name in SEGMENTED:
        for asked in requests(MADE[name].devices):
            yield Case(name, asked, PAYLOADS[-1], Choice.RING, SEGMENTS)


def requests(devices: int) -> tuple[Asked, ...]:
    """One group of all, if they are few; and two axes, of which each is reduced over."""
    half = 4 if devices >= 16 else 2
    sizes = (devices // half, half)
    flat = (Asked((devices,), (0,)),) if devices <= MOST_FLAT else ()
    return (*flat, Asked(sizes, (0,)), Asked(sizes, (1,)))


class Pairs:
    """Finds the placements and programs of cases; programs are searched for once."""

    def __init__(self, most_steps: int = MOST_STEPS) -> None:
        self._library = Library(Language(most_steps))

    def of(self, system: System, case: Case) -> Iterator[Pair]:
        axes = tuple(Axis(f"axis{i}", size) for i, size in enumerate(case.asked.sizes))
        over = tuple(axes[i].name for i in case.asked.over)
        simulator = Simulator(system, case.choice)
        for placement in placements(system.hierarchy, axes):
            reduction = Reduction(placement, over)
            for program in self._programs(reduction):
                derivation = derive_valid(program, reduction.tree)
                schedule = lower(derivation, reduction, case.payload_bytes, case.segments)
                each = schedule.padded_bytes / case.segments
                prices = tuple(price_phases(simulator, derivation, reduction, each))
                yield Pair(str(placement), str(program), schedule, prices)

    def _programs(self, reduction: Reduction) -> Iterator[Program]:
        depth = len(reduction.tree.digits)
        alphabet = self._library.graph(depth).alphabet
        for labels in self._library.paths(depth) if depth else ():
            steps = tuple(spell(alphabet[label].instruction, reduction.tree) for label in labels)
            yield Program(steps)


def hows(prices: Sequence[InstructionPrice]) -> tuple[How, ...]:
    """By which algorithm and protocol each phase is carried out."""
    return tuple((price.algorithm, price.protocol) for price in prices)
