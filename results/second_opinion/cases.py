"""What is put to the judge: systems, requests and payloads by a rule, every placement and program.

The made systems have few devices, so that whole flat rings can be followed message by message, and
several ports, so that rings have borders to spread over; the others are the catalogue's of at most
64 devices whose domains are switches or circles, with two children of the outermost level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from grammar import Program, spell
from hierarchies import (
    Axis,
    Domain,
    Hierarchy,
    Link,
    Reduction,
    System,
    catalogue,
    load,
    placements,
)
from synth.algorithms import Choice
from synth.answering import priced
from synth.library import Library
from synth.lowering import lower
from synth.programs import Language
from synth.rehearsal import derived
from synth.schedule import Schedule
from synth.simulator import Simulator, StepPrice

MOST_DEVICES = 64
MOST_STEPS = 3
PAYLOADS = (2**20, 2**28)
DOMAINS = (Domain.SWITCH, Domain.RING, Domain.TORUS)


class Asked(NamedTuple):
    """A request of a system: sizes of the axes, and which of them are reduced over."""

    sizes: tuple[int, ...]
    over: tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One request of one system with one payload, carried out by one choice of algorithms."""

    system: str
    asked: Asked
    payload_bytes: int
    choice: Choice
    segments: int = 1


@dataclass(frozen=True, eq=False)
class Pair:
    """One placement and program of a case."""

    placement: str
    program: str
    schedule: Schedule
    prices: tuple[StepPrice, ...]


def _switch(ports: int, gigabytes_per_second: float, microseconds: float, *through: str) -> Link:
    return Link(
        Domain.SWITCH, gigabytes_per_second * 1e9, microseconds * 1e-6, ports, through=through
    )


def _made(name: str, hierarchy: Hierarchy, *links: Link) -> System:
    return System(name, "", hierarchy, links, 1e12)


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
    """The made ones and those of the catalogue; where a switch reduces, it is not asked to."""
    found = dict(MADE)
    for name in catalogue():
        system = load(f"{name}:2")
        if system.devices <= MOST_DEVICES and all(l.domain in DOMAINS for l in system.links):
            links = tuple(replace(link, reduces=False) for link in system.links)
            found[f"{name}:2"] = replace(system, links=links)
    return found


def cases() -> Iterator[Case]:
    """Rings of every system; trees and the fastest of the made; segments of the smallest."""
    for name, system in systems().items():
        large = system.devices > 16
        for asked in requests(system.devices):
            if large and asked.over == (0,) and len(asked.sizes) == 1:
                continue
            for payload in PAYLOADS:
                choices = tuple(Choice) if name in MADE else (Choice.RING, Choice.AUTO)
                circle = any(link.domain is not Domain.SWITCH for link in system.links)
                for choice in (Choice.RING,) if circle else choices:
                    yield Case(name, asked, payload, choice)
    for name in SEGMENTED:
        for asked in requests(MADE[name].devices):
            yield Case(name, asked, PAYLOADS[-1], Choice.RING, segments=4)


SEGMENTED = ("2x4, 1 port", "2x4, 2 ports")


def requests(devices: int) -> tuple[Asked, ...]:
    """One group of all; and two axes, of which each is reduced over."""
    half = 4 if devices >= 16 else 2
    sizes = (devices // half, half)
    return (Asked((devices,), (0,)), Asked(sizes, (0,)), Asked(sizes, (1,)))


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
                derivation = derived(program, reduction.tree)
                schedule = lower(derivation, reduction, case.payload_bytes, case.segments)
                each = schedule.padded_bytes / case.segments
                prices = tuple(priced(simulator, derivation, reduction, each))
                yield Pair(str(placement), str(program), schedule, prices)

    def _programs(self, reduction: Reduction) -> Iterator[Program]:
        depth = len(reduction.tree.digits)
        alphabet = self._library.graph(depth).alphabet
        for labels in self._library.paths(depth) if depth else ():
            steps = tuple(spell(alphabet[label].instruction, reduction.tree) for label in labels)
            yield Program(steps)


def hows(prices: Sequence[StepPrice]) -> tuple[tuple[object, object], ...]:
    """By which algorithm and protocol each phase is carried out."""
    return tuple((price.algorithm, price.protocol) for price in prices)
