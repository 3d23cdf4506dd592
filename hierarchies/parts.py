"""A machine of another shape: a slice of a pod, some of a node's devices, more or fewer racks.

A shape has a count for each level, outermost first: 64 of the 72 GPUs of one rack are ``1x64``. Of
a slice of TPUs it is x first, as Google and JAX's coordinates have it: ``4x4x8`` has 8 along z. The
ports of devices that are left out are left out with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from hierarchies.errors import InputError, error_context
from hierarchies.hierarchy import Hierarchy, Level
from hierarchies.system import Domain, Link, System

Shape = tuple[int, ...]


def reshape_system(system: System, shape: Sequence[int]) -> System:
    """The same machine with these counts, one for each level, or one for the outermost alone.

    Of a torus a slice may be of any size; of what is inside a node there is no more than it has.
    Inside a unit, a part of a ring or torus has open ends. Raises InputError for another number of
    counts, for more devices than a unit has, and for a part that would share some of a port.
    """
    names, counts = system.hierarchy.names, system.hierarchy.cardinalities
    if len(shape) == 1:
        shape = (*shape, *counts[1:])
    elif is_x_first(system):
        shape = shape[::-1]
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


def is_x_first(system: System) -> bool:
    """Whether a shape begins with the innermost level: of a torus with nothing but z, y and x."""
    names = system.hierarchy.names
    return system.is_torus and names == ("z", "y", "x")[-len(names) :]


def spell_shape(system: System) -> str:
    """The shape of a machine as one would type it, and what it counts: ``4x8 (node, gpu)``."""
    order = slice(None, None, -1 if is_x_first(system) else 1)
    counts, names = system.hierarchy.cardinalities[order], system.hierarchy.names[order]
    return f"{'x'.join(map(str, counts))} ({', '.join(names)})"


def _link(system: System, level: int, shape: Sequence[int]) -> Link:
    """A level's link in a machine of another shape."""
    link, here = system.links[level], system.hierarchy.cardinalities[level]
    inside, some = prod(shape[level + 1 :]), shape[level]
    if link.domain is Domain.TORUS:
        return replace(link, ports=inside, wraps=link.wraps and (not level or some == here))
    if level and some > here:
        raise InputError(f"{some} of {here}", hint=f"{system.name} has no more")
    wraps = link.wraps and not (level and link.domain is Domain.RING and some < here)
    return replace(link, ports=_ports(system, level, inside), wraps=wraps)


def _ports(system: System, level: int, inside: int) -> int:
    """How many ports serve the devices of one child that are left."""
    block, each = system.block(level), system.ports_of_block(level)
    if inside % block and block % inside:
        raise InputError(
            f"{inside} devices of which every {block} share a port",
            hint=f"take a number that {block} divides",
        )
    return each * max(1, inside // block)
