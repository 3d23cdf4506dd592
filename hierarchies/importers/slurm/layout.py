"""What Slurm's files can say of a network, in whichever of the two languages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hierarchies.importers.hostlist import HostlistExpander
from hierarchies.importers.networks.switches import Switch

_NOTHING = ("", "(null)", "none")


def hosts_of(text: str | None, names: HostlistExpander) -> tuple[str, ...]:
    """The names of a hostlist, none for what Slurm and its tools write where there are none."""
    return () if text is None or text.strip().lower() in _NOTHING else names.of(text)


@dataclass(frozen=True)
class NodeGroup:
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
class SlurmLayout:
    """Switches, blocks, rings or tori, as they are written; at least one of them is there.

    ``below``: the nodes below switches, where the line of a switch lists them beside the switches
    below it (``scontrol show topology``), and the number of that line. ``counted``: the same of
    blocks, as comments count their nodes.
    """

    switches: tuple[Switch, ...] = ()
    blocks: tuple[NodeGroup, ...] = ()
    rings: tuple[NodeGroup, ...] = ()
    tori: tuple[Torus, ...] = ()
    notes: tuple[str, ...] = ()
    below: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    counted: Mapping[str, tuple[int, int]] = field(default_factory=dict)


_COUNT = re.compile(r"\s*#\s*Number of Nodes in block(\d{1,6}):\s*(\d{1,9})\s*", re.IGNORECASE)


def counted(text: str, blocks: Sequence[NodeGroup]) -> Mapping[str, tuple[int, int]]:
    """Nodes of blocks by the comments of Azure's azslurm, which numbers blocks from 1 in order.

    As of https://github.com/Azure/cyclecloud-slurm/pull/399, in both languages.
    """
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if (match := _COUNT.fullmatch(line)) and 0 < int(match[1]) <= len(blocks):
            found[blocks[int(match[1]) - 1].name] = int(match[2]), number
    return found
