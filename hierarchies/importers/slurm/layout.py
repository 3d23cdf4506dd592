"""What Slurm's files can say of a network, in whichever of the two languages."""

from __future__ import annotations

from dataclasses import dataclass

from hierarchies.importers.networks.switches import Switch


@dataclass(frozen=True)
class Group:
    """A block or ring of nodes."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Torus:
    """Nodes in a torus of three dimensions: how many in x, y and z."""

    name: str
    dimensions: tuple[int, int, int]
    nodes: int


@dataclass(frozen=True)
class Layout:
    """Switches, blocks, rings or tori, as they are written; at least one of them is there."""

    switches: tuple[Switch, ...] = ()
    blocks: tuple[Group, ...] = ()
    rings: tuple[Group, ...] = ()
    tori: tuple[Torus, ...] = ()
    notes: tuple[str, ...] = ()
