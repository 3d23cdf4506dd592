"""From the path of each host to levels with equal numbers of children, and missing units.

Racks of 16 and of 15 nodes do not fit a level with one number of children. They become a level of
16 nodes with one node missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from hierarchies.errors import InputError
from hierarchies.importers.draft import is_refinement
from hierarchies.importers.hostlist import shorten_list

DEEPEST = 12
_CANDIDATES, _MOST_PARTS = 6, 64
_UNIT = tuple[str, ...]


@dataclass(frozen=True)
class Host:
    """One machine, and the unit that holds it at every tier, outermost first."""

    name: str
    path: tuple[str, ...]


@dataclass(frozen=True)
class Tiers:
    """Hosts below tiers of units, outermost first; ``names`` are those of the tiers.

    A unit is identified by its whole path, so the same name under two parents denotes two units.
    """

    names: tuple[str, ...]
    hosts: tuple[Host, ...]

    def __post_init__(self) -> None:
        if not self.hosts:
            raise InputError("there are no hosts", hint="at least one is needed")
        if len(self.names) > DEEPEST:
            raise InputError(
                f"{len(self.names)} tiers above the hosts", hint=f"at most {DEEPEST} are read"
            )
        for host in self.hosts:
            if len(host.path) != len(self.names):
                raise InputError(
                    f"host {host.name!r} is below {len(host.path)} tiers, "
                    f"others are below {len(self.names)}",
                    hint="all hosts need the same depth in the tree",
                )
        twice = [name for name, count in Counter(h.name for h in self.hosts).items() if count > 1]
        if twice:
            raise InputError(f"hosts given more than once: {shorten_list(twice)}")

    def children(self, tier: int) -> dict[_UNIT, int]:
        """Return the number of units or hosts in every unit of a tier (0 = the whole system).

        In the order of the hosts.
        """
        if tier == len(self.names):
            return dict(Counter(host.path for host in self.hosts))
        inner = dict.fromkeys(host.path[: tier + 1] for host in self.hosts)
        return dict(Counter(path[:tier] for path in inner))

    def switches(self) -> dict[str, int]:
        """Return the number of switches of each tier, by name: ``{"leaf switches": 4}``."""
        return {
            f"{name} switches": len({host.path[: tier + 1] for host in self.hosts})
            for tier, name in enumerate(self.names)
        }

    def trimmed(self) -> Tiers:
        """Without tiers that have one unit in every unit above, as these divide nothing."""
        kept = [tier for tier in range(len(self.names)) if max(self.children(tier).values()) > 1]
        return Tiers(
            tuple(self.names[tier] for tier in kept),
            tuple(
                replace(host, path=tuple(host.path[tier] for tier in kept)) for host in self.hosts
            ),
        )

    def full(self) -> tuple[int, ...]:
        """Return the children of each unit if all had the size of the largest, hosts last."""
        return tuple(max(self.children(tier).values()) for tier in range(len(self.names) + 1))

    def without_hosts(self) -> Tiers:
        """Return the tiers with the innermost units as hosts."""
        paths = dict.fromkeys(host.path for host in self.hosts)
        units = tuple(Host("/".join(path), path[:-1]) for path in paths)
        return Tiers(self.names[:-1], units)

    def numbers(self) -> dict[_UNIT, tuple[int, ...]]:
        """Return units' and hosts' digits by path and name; siblings in order of appearance."""
        digits: dict[_UNIT, tuple[int, ...]] = {(): ()}
        siblings: Counter[_UNIT] = Counter()
        for host in self.hosts:
            path = (*host.path, host.name)
            for end in range(1, len(path) + 1):
                unit, parent = path[:end], path[: end - 1]
                if unit not in digits:
                    digits[unit] = (*digits[parent], siblings[parent])
                    siblings[parent] += 1
        return digits

    def missing(self) -> list[tuple[int, ...]]:
        """Return the digits of units and hosts that a system of ``full()`` has in addition."""
        digits = self.numbers()
        return [
            (*digits[path], number)
            for tier, most in enumerate(self.full())
            for path, count in self.children(tier).items()
            for number in range(count, most)
        ]

    @property
    def uneven(self) -> bool:
        return prod(self.full()) != len(self.hosts)


@dataclass(frozen=True)
class GroupedTiers:
    """Tiers with groups of hosts as an additional tier, if possible.

    ``tier`` is the position of the tier whose units are the groups, None if there is none.
    """

    tiers: Tiers
    tier: int | None
    note: str


def add_groups(tiers: Tiers, name: str, groups: Mapping[str, str]) -> GroupedTiers:
    """Return the tiers with an additional tier, if these groups of hosts nest with them.

    ``groups`` maps each host to its group. Groups that are exactly the units of a tier, single
    hosts, or all hosts together add none.
    """
    ungrouped = [host.name for host in tiers.hosts if host.name not in groups]
    if ungrouped:
        return GroupedTiers(
            tiers, None, f"{name}: not used as a level: {shorten_list(ungrouped)} are in none"
        )
    group_of = [groups[host.name] for host in tiers.hosts]
    if len(set(group_of)) == len(group_of):
        return GroupedTiers(tiers, None, f"{name}: each is one node")
    depth = _deepest_common_tier(tiers, group_of)
    if len({host.path[:depth] for host in tiers.hosts}) == len(set(group_of)):
        reason = f"each is one {tiers.names[depth - 1]}" if depth else "one holds all nodes"
        return GroupedTiers(tiers, depth - 1 if depth else None, f"{name}: {reason}")
    if depth < len(tiers.names) and not is_refinement(
        [host.path[: depth + 1] for host in tiers.hosts], group_of
    ):
        cut = f"they overlap the units of {tiers.names[depth]!r}"
        return GroupedTiers(tiers, None, f"{name}: not used as a level: {cut}")
    hosts = tuple(
        replace(host, path=(*host.path[:depth], group, *host.path[depth:]))
        for host, group in zip(tiers.hosts, group_of, strict=True)
    )
    names = (*tiers.names[:depth], name, *tiers.names[depth:])
    return GroupedTiers(Tiers(names, hosts), depth, f"{name}: a separate level")


def _deepest_common_tier(tiers: Tiers, label: Sequence[str]) -> int:
    """Return the deepest tier whose units hold whole groups."""
    for depth in range(len(tiers.names), 0, -1):
        if is_refinement(label, [host.path[:depth] for host in tiers.hosts]):
            return depth
    return 0


def check_nested(tiers: Tiers, order: str) -> None:
    """Refuse tiers in reverse order, such as racks above the rows that hold them.

    ``order`` describes the order that was assumed for the file. Raises InputError.
    """
    for outer in range(len(tiers.names) - 1):
        above = [host.path[outer] for host in tiers.hosts]
        below = [host.path[outer + 1] for host in tiers.hosts]
        if not is_refinement(below, above) and is_refinement(above, below):
            first = next(host for host in tiers.hosts)
            raise InputError(
                f"{tiers.names[outer + 1]} is outside {tiers.names[outer]}, not inside it: "
                f"host {first.name!r} is in {first.path[outer + 1]!r} and {first.path[outer]!r}",
                hint=f"they were read as {order}; the opposite order fits",
            )


def largest_even_part(tiers: Tiers) -> tuple[int, ...]:
    """Return the children of units in a large part of the system with equal units, hosts last.

    Units with fewer children, and children beyond that number, are left out. Only the most common
    numbers of children are tried at each tier: six of them, fewer in deep trees.
    """
    candidates = min(_CANDIDATES, int(_MOST_PARTS ** (1 / max(1, len(tiers.names)))))
    return _even_part(Counter(host.path for host in tiers.hosts), (), candidates)


def _even_part(
    children: Mapping[_UNIT, int], inner: tuple[int, ...], candidates: int
) -> tuple[int, ...]:
    if set(children) == {()}:
        return (children[()], *inner)
    parts = []
    for size, _ in Counter(children.values()).most_common(candidates):
        above = Counter(path[:-1] for path, count in children.items() if count >= size)
        parts.append(_even_part(above, (size, *inner), candidates))
    return max(parts, key=prod)


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
    """Return the tiers of switches above the hosts, outermost first; several tops are a tier, too.

    A host on several leaf switches counts at the first, with a note, as Slurm only warns of it.
    Irregularities of real trees become notes: a rack that a switch names but that is not described
    has no hosts; a leaf without a spine counts as its own spine, so that all hosts are equally
    deep. Raises InputError for a switch given twice or below two others, for circles, and for a
    switch with no described children.
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
            f"named by a switch above them, but not described, so assumed to have no hosts: "
            f"{shorten_list(undescribed)}"
        )
    hosts, depth_notes = _equalize_depth(tuple(placed.values()))
    tops = tuple(dict.fromkeys(host.path[0] for host in hosts))
    return SwitchTree(Tiers(tier_names(len(hosts[0].path)), hosts), tops, (*notes, *depth_notes))


def tier_names(depth: int) -> tuple[str, ...]:
    """Return names for tiers of switches, outermost first: ``core``, ``spine``, ``leaf``."""
    names = [_TIERS[i] if i < len(_TIERS) else f"tier-{chr(ord('a') + i)}" for i in range(depth)]
    return tuple(reversed(names))


def _parents(switches: Iterable[Switch]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the switch directly above each switch, and switches named but not described."""
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
                    hint="in a tree, every switch is below one other switch",
                )
    for parent, children in below.items():
        if children and not names & {*children}:
            raise InputError(
                f"no switch {children[0]!r}, which {parent!r} names",
                hint=f"describe at least one of those below {parent!r}, or remove {parent!r}",
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
    """Put all hosts at the depth of the deepest; a leaf without a spine is its own spine."""
    if not hosts:
        raise InputError("no switch has hosts", hint="give leaf switches their nodes")
    depth = max(len(host.path) for host in hosts)
    shallow = dict.fromkeys(host.path[-1] for host in hosts if len(host.path) < depth)
    if not shallow:
        return hosts, ()
    padded = tuple(
        Host(host.name, (*host.path, *host.path[-1:] * (depth - len(host.path)))) for host in hosts
    )
    note = (
        "at a smaller depth than other switches with hosts, so each also represents "
        "the switches between: "
        f"{shorten_list(shallow)}"
    )
    return padded, (note,)
