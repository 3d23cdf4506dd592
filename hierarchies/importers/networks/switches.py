"""Switches that name their children, as schedulers write them, to hosts and where they hang."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hierarchies.errors import InputError
from hierarchies.importers.hostlist import listed
from hierarchies.importers.networks.tiers import DEEPEST, Host, Tiers

_TIERS = ("leaf", "spine", "core", "hall")


@dataclass(frozen=True)
class Switch:
    """A switch, the switches right below it, and the hosts on its own ports."""

    name: str
    below: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tree:
    """The tiers that a forest of switches makes, its topmost switches, notes on what was odd."""

    tiers: Tiers
    tops: tuple[str, ...]
    notes: tuple[str, ...]


def tree(switches: Sequence[Switch]) -> Tree:
    """The tiers of switches above the hosts, outermost first; several tops are a tier, too.

    A host on several leaf switches counts at the first, with a note, as Slurm warns and goes on.
    Raises InputError for a switch given twice or below two others, for circles, for switches that
    do not exist, and for hosts at unequal depths.
    """
    parents = _parents(switches)
    named = {switch.name: switch for switch in switches}
    paths = {name: _path(name, parents) for name in named}
    placed: dict[str, Host] = {}
    again: list[str] = []
    for switch in switches:
        for host in switch.hosts:
            if host in placed:
                again.append(f"{host} ({placed[host].path[-1]}, {switch.name})")
            else:
                placed[host] = Host(host, paths[switch.name])
    notes = []
    if again:
        notes.append(f"on more than one leaf switch, counted at the first: {listed(again)}")
    idle = [s.name for s in switches if not s.hosts and not s.below]
    if idle:
        notes.append(f"switches without hosts: {listed(idle)}")
    hosts = tuple(placed.values())
    depth = _depth(hosts)
    tops = tuple(dict.fromkeys(host.path[0] for host in hosts))
    return Tree(Tiers(tier_names(depth), hosts), tops, tuple(notes))


def tier_names(depth: int) -> tuple[str, ...]:
    """Names for tiers of switches, outermost first: ``core``, ``spine``, ``leaf``."""
    names = [_TIERS[i] if i < len(_TIERS) else f"tier-{chr(ord('a') + i)}" for i in range(depth)]
    return tuple(reversed(names))


def _parents(switches: Iterable[Switch]) -> dict[str, str]:
    names: set[str] = set()
    parents: dict[str, str] = {}
    for switch in switches:
        if switch.name in names:
            raise InputError(f"switch {switch.name!r} is given twice")
        names.add(switch.name)
        for child in switch.below:
            if parents.setdefault(child, switch.name) != switch.name:
                raise InputError(
                    f"switch {child!r} is below {parents[child]!r} and below {switch.name!r}",
                    hint="in a tree every switch is below one",
                )
    unknown = [name for name in parents if name not in names]
    if unknown:
        raise InputError(
            f"no switch {unknown[0]!r}, which {parents[unknown[0]]!r} names",
            hint="the file may have been cut off",
        )
    return parents


def _path(name: str, parents: dict[str, str]) -> tuple[str, ...]:
    path = [name]
    while path[-1] in parents:
        path.append(parents[path[-1]])
        if len(path) > DEEPEST:
            raise InputError(
                f"switch {name!r} is below more than {DEEPEST - 1} others, or below itself"
            )
    return tuple(reversed(path))


def _depth(hosts: Sequence[Host]) -> int:
    if not hosts:
        raise InputError("no switch has hosts", hint="leaf switches name their nodes")
    by_depth = {len(host.path): host for host in hosts}
    if len(by_depth) > 1:
        shallow, deep = by_depth[min(by_depth)], by_depth[max(by_depth)]
        raise InputError(
            f"host {shallow.name!r} is below {len(shallow.path)} switches, "
            f"{deep.name!r} below {len(deep.path)}",
            hint="levels need every host equally deep; import the parts apart",
        )
    return len(hosts[0].path)
