"""Trees of switches that name their children, as schedulers write them, reduced to hosts' paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hierarchies.errors import InputError
from hierarchies.importers.hostlist import shorten_list
from hierarchies.importers.networks.tiers import DEEPEST, Host, Tiers

_TIERS = ("leaf", "spine", "core", "hall")


@dataclass(frozen=True)
class Switch:
    """A switch, the switches directly below it, and the hosts on its own ports."""

    name: str
    below: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class SwitchTree:
    """The tiers of a forest of switches, its topmost switches, notes on irregularities."""

    tiers: Tiers
    tops: tuple[str, ...]
    notes: tuple[str, ...]


def build_switch_tree(switches: Sequence[Switch]) -> SwitchTree:
    """The tiers of switches above the hosts, outermost first; several tops are a tier, too.

    A host on several leaf switches counts at the first, with a note, as Slurm warns and goes on.
    Irregularities of real trees become notes: a rack that a switch names but that is not described
    has no hosts; a leaf beside spines (without a spine of its own) counts as its own spine, so that
    all hosts are equally deep. Raises InputError for a switch given twice or below two others, for
    circles, and for a switch with no described children.
    """
    parents, undescribed = _parents(switches)
    named = {switch.name: switch for switch in switches}
    paths = {name: _path(name, parents) for name in named}
    placed: dict[str, Host] = {}
    repeated: list[str] = []
    for switch in switches:
        for host in switch.hosts:
            if host in placed:
                repeated.append(f"{host} ({placed[host].path[-1]}, {switch.name})")
            else:
                placed[host] = Host(host, paths[switch.name])
    notes = []
    if repeated:
        notes.append(
            f"on more than one leaf switch, counted at the first: {shorten_list(repeated)}"
        )
    idle = [s.name for s in switches if not s.hosts and not s.below]
    if idle:
        notes.append(f"switches without hosts: {shorten_list(idle)}")
    if undescribed:
        notes.append(
            f"named by a switch above them, but described nowhere, so taken as without hosts: "
            f"{shorten_list(undescribed)}"
        )
    hosts, depth_notes = _equalize_depth(tuple(placed.values()))
    tops = tuple(dict.fromkeys(host.path[0] for host in hosts))
    return SwitchTree(Tiers(tier_names(len(hosts[0].path)), hosts), tops, (*notes, *depth_notes))


def tier_names(depth: int) -> tuple[str, ...]:
    """Names for tiers of switches, outermost first: ``core``, ``spine``, ``leaf``."""
    names = [_TIERS[i] if i < len(_TIERS) else f"tier-{chr(ord('a') + i)}" for i in range(depth)]
    return tuple(reversed(names))


def _parents(switches: Iterable[Switch]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The switch directly above each switch; and the switches that are named but not described."""
    names: set[str] = set()
    parents: dict[str, str] = {}
    below: dict[str, tuple[str, ...]] = {}
    for switch in switches:
        if switch.name in names:
            raise InputError(f"switch {switch.name!r} is given twice")
        names.add(switch.name)
        below[switch.name] = switch.below
        for child in switch.below:
            if parents.setdefault(child, switch.name) != switch.name:
                raise InputError(
                    f"switch {child!r} is below {parents[child]!r} and below {switch.name!r}",
                    hint="in a tree every switch is below one",
                )
    for parent, children in below.items():
        if children and not names & {*children}:
            raise InputError(
                f"no switch {children[0]!r}, which {parent!r} names",
                hint=f"describe at least one of those below {parent!r}, or take {parent!r} out",
            )
    return parents, tuple(name for name in parents if name not in names)


def _path(name: str, parents: dict[str, str]) -> tuple[str, ...]:
    path = [name]
    while path[-1] in parents:
        path.append(parents[path[-1]])
        if len(path) > DEEPEST:
            raise InputError(
                f"switch {name!r} is below more than {DEEPEST - 1} others, or below itself"
            )
    return tuple(reversed(path))


def _equalize_depth(hosts: tuple[Host, ...]) -> tuple[tuple[Host, ...], tuple[str, ...]]:
    """Put all hosts below as many switches as the deepest: a lone leaf is its own spine."""
    if not hosts:
        raise InputError("no switch has hosts", hint="leaf switches name their nodes")
    depth = max(len(host.path) for host in hosts)
    shallow = dict.fromkeys(host.path[-1] for host in hosts if len(host.path) < depth)
    if not shallow:
        return hosts, ()
    padded = tuple(
        Host(host.name, (*host.path, *host.path[-1:] * (depth - len(host.path)))) for host in hosts
    )
    note = (
        f"less deep than other switches with hosts, so each stands for the switches between, too: "
        f"{shorten_list(shallow)}"
    )
    return padded, (note,)
