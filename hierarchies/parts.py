"""A machine in another shape: a slice of a pod, part of a node's devices, more or fewer racks.

A shape has a count for each level, outermost first: 64 of the 72 GPUs of one rack are ``1x64``.
The shape of a TPU slice is x first, as in Google's and JAX's coordinates: ``4x4x8`` has 8 along z,
and ``2x4x4x8`` is two such slices.
Removing devices also removes their ports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TypeVar

from hierarchies.errors import InputError, error_context
from hierarchies.hierarchy import Hierarchy, Level
from hierarchies.system import Domain, Link, System

Shape = tuple[int, ...]
T = TypeVar("T")


def reshape_system(system: System, shape: Sequence[int]) -> System:
    """Return the same machine with these counts: one for each level, or only the outermost.

    A torus can be cut to any size; a level inside a node cannot exceed the node's count. Inside a
    unit, a part of a ring or torus has open ends. Raises InputError for a wrong number of counts,
    for more devices than a unit has, and for a part that would split a shared port.
    """
    names, counts = system.hierarchy.names, system.hierarchy.cardinalities
    if len(shape) == 1:
        shape = (*shape, *counts[1:])
    elif len(shape) == len(counts):
        shape = turn_slice(system, shape)
    if len(shape) != len(counts):
        raise InputError(
            f"{len(shape)} counts for {system.hierarchy}",
            hint=f"one for each level, as in {spell_shape(system)}",
        )
    levels = tuple(Level(name, count) for name, count in zip(names, shape, strict=True))
    links = []
    for number, name in enumerate(names):
        with error_context(f"level {name!r}"):
            links.append(_link(system, number, shape))
    return replace(system, hierarchy=Hierarchy(levels), links=tuple(links))


def turn_slice(system: System, by_level: Sequence[T]) -> tuple[T, ...]:
    """Return what is given for each level in the order of a shape; or in that of levels, if turned.

    The dimensions z, y and x of a torus begin with x, after the number of slices if the outermost
    level is named ``slice``.
    """
    names = system.hierarchy.names
    slices = int(names[0] == "slice")
    chips = names[slices:]
    torus = all(link.domain is Domain.TORUS for link in system.links[slices:])
    turned = torus and chips and chips == ("z", "y", "x")[-len(chips) :]
    inside = by_level[slices:]
    return (*by_level[:slices], *(inside[::-1] if turned else inside))


def spell_shape(system: System) -> str:
    """Return a machine's shape as users type it, with names of levels: ``4x8 (node, gpu)``."""
    counts = turn_slice(system, system.hierarchy.cardinalities)
    names = turn_slice(system, system.hierarchy.names)
    return f"{'x'.join(map(str, counts))} ({', '.join(names)})"


def _link(system: System, level: int, shape: Sequence[int]) -> Link:
    """Return the link of a level after reshaping."""
    link, here = system.links[level], system.hierarchy.cardinalities[level]
    inside, count = prod(shape[level + 1 :]), shape[level]
    if link.domain is Domain.TORUS:
        return replace(link, ports=inside, wraps=link.wraps and (not level or count == here))
    if level and count > here:
        raise InputError(f"{count} of {here}", hint=f"{system.name} has no more")
    wraps = link.wraps and not (level and link.domain is Domain.RING and count < here)
    return replace(link, ports=_ports(system, level, inside), wraps=wraps)


def _ports(system: System, level: int, inside: int) -> int:
    """Return the number of ports that serve the remaining devices of one child."""
    block, ports = system.block(level), system.ports_of_block(level)
    left = -(-inside // block)
    # Nodes of three GPUs on two ports are described by these numbers; of five on 4 + 1, by none.
    together = len(system.hierarchy.levels) == level + 2
    as_described = together and ports == 1 and -(-inside // left) == block
    if inside % block and block % inside and not as_described:
        raise InputError(
            f"{inside} devices of which every {block} share a port",
            hint=f"take a number that {block} divides",
        )
    return ports * left
