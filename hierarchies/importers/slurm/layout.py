"""What Slurm's files can say of a network, in whichever of the two languages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hierarchies.importers.hostlist import Names
from hierarchies.importers.networks.switches import Switch

_NOTHING = ("", "(null)", "none")


def hosts_of(text: str | None, names: Names) -> tuple[str, ...]:
    """The names of a hostlist, none for what Slurm and its tools write where there are none."""
    return () if text is None or text.strip().lower() in _NOTHING else names.of(text)


@dataclass(frozen=True)
class Group:
    """A block or ring of nodes. One without nodes only fills up the file."""

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
    """Switches, blocks, rings or tori, as they are written; at least one of them is there.

    ``below``: the nodes below switches, where the line of a switch lists them beside the switches
    below it (``scontrol show topology``), and the number of that line.
    """

    switches: tuple[Switch, ...] = ()
    blocks: tuple[Group, ...] = ()
    rings: tuple[Group, ...] = ()
    tori: tuple[Torus, ...] = ()
    notes: tuple[str, ...] = ()
    below: Mapping[str, tuple[int, int]] = field(default_factory=dict)
