"""The network that Slurm's files describe, in either of the two languages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hierarchies.importers.hostlist import HostlistExpander
from hierarchies.importers.networks.switches import Switch

_NOTHING = ("", "(null)", "none")


def hosts_of(text: str | None, names: HostlistExpander) -> tuple[str, ...]:
    """The names of a hostlist; none for the words that Slurm and its tools write for none."""
    return () if text is None or text.strip().lower() in _NOTHING else names.of(text)


@dataclass(frozen=True)
class NodeGroup:
    """A block or ring of nodes. One without nodes is only a placeholder."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Torus:
    """Nodes in a three-dimensional torus: the numbers in x, y and z."""

    name: str
    dimensions: tuple[int, int, int]
    nodes: int


@dataclass(frozen=True)
class SlurmLayout:
    """Switches, blocks, rings or tori, as written; at least one of them is present.

    ``below``: for switches whose line lists nodes beside the switches below it (``scontrol show
    topology``), the number of nodes and of the line. ``counted``: the same for blocks whose nodes a
    comment counts.
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
    """Nodes per block by the comments of Azure's azslurm, which numbers blocks from 1 in order.

    As of https://github.com/Azure/cyclecloud-slurm/pull/399, in both languages.
    """
    counts = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if (match := _COUNT.fullmatch(line)) and 0 < int(match[1]) <= len(blocks):
            counts[blocks[int(match[1]) - 1].name] = int(match[2]), number
    return counts
