"""Drafts of an InfiniBand fabric: its levels, with speeds and numbers of cables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from hierarchies.errors import InputError
from hierarchies.importers.disjoint import DisjointSets
from hierarchies.importers.draft import Blank, Draft, Entry, ImportOptions, StatedValue
from hierarchies.importers.hostlist import shorten_list
from hierarchies.importers.networks.infiniband import (
    Cable,
    Machines,
    Speed,
    Subnet,
    is_aggregation,
    machines_of,
    nameless_hosts,
    parse_subnet,
)
from hierarchies.importers.networks.networks import (
    NODE,
    NetworkFacts,
    Ports,
    SlowerUnit,
    draft_network,
)
from hierarchies.importers.networks.tiers import Host, Tiers

_TIERS = ("pod", "zone")
_MOST_TIERS = 8


def read(text: str, options: ImportOptions) -> Draft:
    """Return the draft of a subnet.

    Raises InputError for a text that has no hosts below switches.
    """
    net = parse_subnet(text)
    switches = [device for device in net.devices.values() if device.is_switch]
    if not switches:
        raise InputError(
            f"no switch, only adapters ({len(net.devices)}): the switches they are "
            "attached to are unknown",
            hint="ibnetdiscover was interrupted, or saw only its own node",
        )
    machines = machines_of(net)
    tier_of = _switch_tiers(net, machines)
    parts = _components(net, machines, tier_of)
    tiers = _tiers(net, machines, parts)
    facts = NetworkFacts(
        "infiniband-fabric",
        "ibnetdiscover",
        ports=_ports(net, machines, tiers, parts),
        slower=tuple(_find_slower_units(net, machines, parts[0])),
        notes=tuple(_notes(net, machines, tier_of, parts)),
        counted=_count_parts(net, machines, tier_of),
        medium="infiniband",
    )
    return draft_network(tiers, facts, options)


def _switch_tiers(net: Subnet, machines: Machines) -> dict[str, int]:
    """Return the tier of each switch: 0 for switches with hosts, 1 for those directly above, etc.

    They are in the order of the file, so that notes name switches in that order.
    """
    row = dict.fromkeys([*chain(*machines.leaves.values()), *machines.nameless])
    tier_of: dict[str, int] = {}
    tier = 0
    while row:
        tier_of |= dict.fromkeys(row, tier)
        row = dict.fromkeys(
            peer
            for switch in row
            for peer, _ in net.cables_of[switch]
            if net.devices[peer].is_switch and peer not in tier_of
        )
        tier += 1
    return tier_of


def _components(
    net: Subnet, machines: Machines, tier_of: Mapping[str, int]
) -> tuple[dict[str, str], ...]:
    """Return, for each tier, the part of every switch, connected by switches up to that tier.

    At tier 0 leaf switches are connected by shared hosts: the rails of one group.
    """
    sets = DisjointSets[str]()
    for first, *others in machines.leaves.values():
        for other in others:
            sets.join(other, first)
    lowest = [switch for switch, tier in tier_of.items() if tier == 0]
    parts = [{switch: sets.find(switch) for switch in lowest}]
    for highest in range(1, max(tier_of.values(), default=0) + 2):
        for lower, upper, _ in net.trunks:
            if max(tier_of.get(id, highest + 1) for id in (lower, upper)) <= highest:
                sets.join(upper, lower)
        inside = [switch for switch, tier in tier_of.items() if tier <= highest]
        parts.append({switch: sets.find(switch) for switch in inside})
        if len({parts[-1][leaf] for leaf in lowest}) == 1 or highest >= _MOST_TIERS:
            break
    return tuple(parts)


def _tiers(net: Subnet, machines: Machines, parts: Sequence[Mapping[str, str]]) -> Tiers:
    """Return every host below its parts, including hosts formed from nameless adapters."""
    names = _part_names(net, parts[0])
    leaf_of = {name: leaves[0] for name, leaves in machines.leaves.items()}
    for part, count in nameless_hosts(machines, parts[0]).items():
        leaf_of |= {f"nameless {i + 1} of {names[part]}": part for i in range(count)}
    hosts = tuple(
        Host(
            name,
            (
                *(_switch_name(net, tier[leaf]) for tier in reversed(parts[1:])),
                names[parts[0][leaf]],
            ),
        )
        for name, leaf in leaf_of.items()
    )
    return Tiers(tuple(reversed(_tier_names(parts))), hosts)


def _tier_names(parts: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    single = len(set(parts[0].values())) == len(parts[0])
    outer = (
        _TIERS[t] if t < len(_TIERS) else f"tier-{chr(ord('a') + t + 1)}"
        for t in range(len(parts) - 1)
    )
    return ("leaf" if single else "group", *outer)


def _switch_name(net: Subnet, switch: str) -> str:
    return net.devices[switch].description or switch


def _part_names(net: Subnet, part_of: Mapping[str, str]) -> dict[str, str]:
    """Return a name for each part of leaf switches: its first switch, and the number of others."""
    inside: defaultdict[str, list[str]] = defaultdict(list)
    for switch, part in part_of.items():
        inside[part].append(_switch_name(net, switch))
    return {part: shorten_list(sorted(names), 1) for part, names in inside.items()}


def _ports(
    net: Subnet, machines: Machines, tiers: Tiers, parts: Sequence[Mapping[str, str]]
) -> dict[str, Ports]:
    """Return the NICs of a node; the uplinks of each tier's fullest unit, shared among its NICs."""
    nics = [
        cable
        for name, device in net.devices.items()
        if not device.is_switch and not is_aggregation(device)
        for _, cable in net.cables_of[name]
    ]
    speed = _usual_speed(nics)
    ports = {
        NODE: Ports(
            StatedValue(machines.usual, "ibnetdiscover: cables of a host"), _bandwidth(speed)
        )
    }
    for name, part_of in zip(_tier_names(parts), parts, strict=True):
        uplinks = uplinks_of(net, part_of)
        position = tiers.names.index(name)
        hosts = Counter(host.path[: position + 1] for host in tiers.hosts)
        most = (
            _whole_uplinks(net, part_of)
            if name == tiers.names[-1]
            else max(map(len, uplinks.values()))
        )
        if most:
            upward = _usual_speed([cable for cables in uplinks.values() for cable in cables])
            ports[name] = _share_uplinks(most, max(hosts.values()) * machines.usual, upward, name)
    return ports


def _whole_uplinks(net: Subnet, part_of: Mapping[str, str]) -> int:
    """Return a complete part's uplinks: the most leaves of a part x the most uplinks of a leaf."""
    by_leaf = uplinks_of(net, {leaf: leaf for leaf in part_of})
    return max(map(len, by_leaf.values())) * max(Counter(part_of.values()).values())


def _find_slower_units(
    net: Subnet, machines: Machines, part_of: Mapping[str, str]
) -> Iterable[SlowerUnit]:
    """Yield groups with fewer uplinks than a complete group, and hosts with few cables."""
    whole, names = _whole_uplinks(net, part_of), _part_names(net, part_of)
    level = _tier_names([part_of])[0]
    for part, cables in uplinks_of(net, part_of).items():
        if 0 < len(cables) < whole:
            source = f"ibnetdiscover: {len(cables)} of {whole} uplinks"
            yield SlowerUnit(level, names[part], len(cables) / whole, source)
    for name, leaves in machines.leaves.items():
        if len(leaves) < machines.usual:
            source = f"ibnetdiscover: {len(leaves)} of {machines.usual} cables"
            yield SlowerUnit(NODE, name, len(leaves) / machines.usual, source)


def _share_uplinks(uplinks: int, nics: int, speed: Speed | None, name: str) -> Ports:
    """Return a unit's uplinks as a port for each NIC below it, with a share of their bandwidth."""
    source = f"ibnetdiscover: the NICs of a whole {name}, which share its {uplinks} uplinks"
    rate: Entry = Blank(source=f"{uplinks} uplinks for {nics} NICs: their share")
    if speed is not None:
        rate = StatedValue(
            uplinks * speed.bits_per_second / 8 / nics,
            f"ibnetdiscover: {uplinks} uplinks of {speed} for {nics} NICs",
        )
    return Ports(StatedValue(nics, source), rate)


def _bandwidth(speed: Speed | None) -> Entry:
    if speed is None:
        return Blank(source="the file has no speeds; of one NIC, per direction")
    return StatedValue(speed.bits_per_second / 8, f"ibnetdiscover: {speed}")


def _usual_speed(cables: Iterable[Cable]) -> Speed | None:
    counts = Counter(cable.speed for cable in cables)
    return counts.most_common(1)[0][0] if counts else None


def uplinks_of(net: Subnet, part_of: Mapping[str, str]) -> dict[str, list[Cable]]:
    """Return for each part of switches, the cables to switches outside it."""
    uplinks: dict[str, list[Cable]] = {part: [] for part in part_of.values()}
    for first, second, cable in net.trunks:
        inside = part_of.get(first), part_of.get(second)
        if inside[0] != inside[1]:
            for part in inside:
                if part is not None:
                    uplinks[part].append(cable)
    return uplinks


def _count_parts(net: Subnet, machines: Machines, tier_of: Mapping[str, int]) -> dict[str, int]:
    tiers = Counter(tier_of.values())
    names = ("leaf switches", "spine switches", "core switches")
    counted = {name: tiers[tier] for tier, name in enumerate(names) if tiers[tier]}
    return {
        "nics": sum(map(len, machines.leaves.values())) + len(machines.nameless),
        "switches": sum(device.is_switch for device in net.devices.values()),
        **counted,
        "links": len(net.cables),
    }


def _notes(
    net: Subnet,
    machines: Machines,
    tier_of: Mapping[str, int],
    parts: Sequence[Mapping[str, str]],
) -> Iterable[str]:
    adding = sum(map(is_aggregation, net.devices.values()))
    if adding:
        yield (
            f"{adding} aggregation nodes (SHARP) are left out as hosts. So the "
            "switches can reduce; the "
            "file does not state whether a job may use that (reduces = true)."
        )
    if machines.few:
        yield (
            f"left out, as at most half of the usual {machines.usual} cables lead to them: "
            f"{shorten_list(machines.few)}"
        )
    thin = [name for name, leaves in machines.leaves.items() if len(leaves) < machines.usual]
    if thin:
        yield f"hosts with fewer than the usual {machines.usual} cables: {shorten_list(thin)}"
    if machines.nameless:
        hosts = sum(nameless_hosts(machines, parts[0]).values())
        yield (
            f"{len(machines.nameless)} adapters do not name their host (or many hosts "
            "have one name); "
            f"with the usual number for each host they are {hosts} hosts."
        )
    idle = [
        _switch_name(net, d.id) for d in net.devices.values() if d.is_switch and d.id not in tier_of
    ]
    if idle:
        yield f"switches from which no host can be reached: {shorten_list(idle)}"
    yield from _find_short_switches(net, tier_of)
    yield from _note_odd_speeds(net.cables)


def _find_short_switches(net: Subnet, tier_of: Mapping[str, int]) -> Iterable[str]:
    """Yield leaf switches with fewer uplinks than the most."""
    by_leaf = {leaf: leaf for leaf, tier in tier_of.items() if tier == 0}
    counts = {leaf: len(cables) for leaf, cables in uplinks_of(net, by_leaf).items()}
    most = max(counts.values(), default=0)
    short = [
        f"{_switch_name(net, leaf)} has {count}" for leaf, count in counts.items() if count < most
    ]
    if short:
        full = len(counts) - len(short)
        yield (
            f"{full} of {len(counts)} leaf switches have {most} uplinks, "
            f"{shorten_list(short, 20)}. "
            "The description gives every unit all uplinks."
        )


def _note_odd_speeds(cables: Sequence[Cable]) -> Iterable[str]:
    counts = Counter(cable.speed.spelled if cable.speed else "no speed" for cable in cables)
    if len(counts) > 1:
        yield "cables of several speeds: " + ", ".join(f"{n} of {s}" for s, n in counts.items())
