"""Names of links, spelled apart from the source."""

from __future__ import annotations

from hierarchies import Domain
from hierarchies.links import Wiring
from price_oracle import Machine, Wire


def names_of(wiring: Wiring) -> list[str]:
    """The names of all links, in the order of their numbers."""
    return [wiring.name(link) for link in range(wiring.links)]


def spelled(machine: Machine, wire: Wire) -> str:
    """The name of one of the oracle's links, from what the oracle tells it by."""
    level, *rest = wire
    assert isinstance(level, int)
    system = machine.system
    names, size, inside = system.hierarchy.names, machine.cards[level], machine.inside(level)

    def path(device: int, levels: range) -> list[str]:
        return [f"{names[i]}{machine.digits(device)[i]}" for i in levels]

    domain = system.links[level].domain
    if domain is Domain.SWITCH:
        way, child, port = rest
        assert isinstance(child, int)
        direction = {"up": "out", "down": "in"}[str(way)]
        told = path(child * inside, range(level + 1))
        return "/".join([*told, f"port{port} {direction}"])
    parent = rest[1] if domain is Domain.BUS else rest[0]
    assert isinstance(parent, int)
    outer = path(parent * inside * size, range(level))
    if domain is Domain.BUS:
        return "/".join([*outer, f"{names[level]}-bus"])
    here, there = (int(str(end)) for end in rest[-2:])
    forth = here < there if domain is Domain.MESH or size == 2 else there == (here + 1) % size
    ends = (here, there) if forth else (there, here)
    cable = f"{names[level]}{ends[0]}-{names[level]}{ends[1]}"
    inner: list[str] = []
    if domain is Domain.TORUS:
        assert isinstance(rest[1], int)
        inner = path(rest[1], range(level + 1, len(names)))
    return f"{'/'.join([*outer, cable, *inner])} {'forth' if forth else 'back'}"
