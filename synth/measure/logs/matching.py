"""The devices on which a log's ranks ran: from hosts and groups to members of each level.

Launchers fill hosts one after another, and a log gives a rank's host and its place there. Therefore
ranks are assumed to fill the first children at each level. If information is missing, an error asks
for it; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

import numpy as np

from hierarchies import InputError, System, catalogue, error_context, load, spell_machine
from hierarchies.devices import is_same_device, model_words
from synth.collective.algorithms.nccl_versions import known_version
from synth.collective.emit.conventions import level_of_hosts
from synth.measure.calibration.measurements import ALIGNED_BYTES, Measurement, Sample
from synth.measure.logs.header import color
from synth.measure.logs.tables import CheckedLog


@dataclass(frozen=True)
class CallerFacts:
    """Facts from the caller that logs lack: the number of hosts, or the members of each level."""

    hosts: int | None = None
    members: tuple[int, ...] | None = None


@dataclass(frozen=True)
class MatchedLog:
    """A log, and its measurement on a system's devices."""

    log: CheckedLog
    measurement: Measurement


def match_log(system: System, log: CheckedLog, given: CallerFacts | None = None) -> MatchedLog:
    """Maps a log onto a system. Raises InputError if it does not fit or information is missing."""
    with error_context(log.source):
        _check_counts(system, log, given or CallerFacts())
        members, busy = _members(system, log, given or CallerFacts())
        return _leave_out_misaligned(MatchedLog(log, _measurement(log, members, busy)))


def find_host_level(system: System) -> int | None:
    """Returns the level whose children are hosts; -1 if the system is one host, None if unknown."""
    found = level_of_hosts(system.hierarchy)
    return found if found >= 0 or len(system.links) == 1 else None


def _measurement(log: CheckedLog, members: tuple[int, ...], busy: tuple[int, ...]) -> Measurement:
    samples = tuple(
        Sample(row.size_bytes, timing.seconds, in_place)
        for row in log.rows
        for timing, in_place in ((row.out_of_place, False), (row.in_place, True))
        if timing is not None
    )
    return Measurement(
        log.collective,
        members,
        busy,
        samples,
        log.table.forced.algorithm,
        log.table.forced.protocol,
        log.source,
        log.table.forced.without,
        known_version(log.table.version),
    )


def _leave_out_misaligned(matched: MatchedLog) -> MatchedLog:
    """Leaves out rows whose blocks are copied by single elements, with a warning.

    Raises InputError if no other row remains.
    """
    measurement = matched.measurement
    sizes = sorted({sample.size_bytes for sample in measurement.misaligned})
    if not sizes:
        return matched
    kept = measurement.aligned
    ranks = prod(measurement.members)
    hint = f"measure sizes that are multiples of {ALIGNED_BYTES * ranks} bytes"
    if not kept.samples:
        raise InputError(
            f"no block of the {ranks} ranks is a multiple of {ALIGNED_BYTES} bytes", hint=hint
        )
    count = f"{len(sizes)} sizes are" if len(sizes) > 1 else "1 size is"
    warning = (
        f"{count} left out, from {sizes[0]} bytes on: a block that is no multiple of "
        f"{ALIGNED_BYTES} bytes is copied by single elements, many times as slowly "
        f"(NVIDIA/nccl#413); {hint}"
    )
    log = replace(matched.log, warnings=(*matched.log.warnings, warning))
    return MatchedLog(log, kept)


def _members(
    system: System, log: CheckedLog, given: CallerFacts
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the members of each level in a group, and among all ranks that took part."""
    table = log.table
    if table.members or given.members:
        members = table.members or given.members or ()
        busy = table.busy or (members if table.forced.split is None else None)
        return _check_stated(system, log, members, busy or system.hierarchy.cardinalities)
    total = _total(log)
    if total is None:
        raise InputError("nothing tells the number of ranks", hint=_members_hint(system))
    if total > system.devices:
        raise InputError(
            f"{total} ranks, and {system.name} has {system.devices} devices ({system.hierarchy})",
            hint=_suggest_larger(system, total),
        )
    busy = _busy_counts(system, total, given.hosts or log.hosts)
    colors = _colors(log, total)
    return (_members_of_group(log, busy, colors), busy) if colors else (busy, busy)


def _check_counts(system: System, log: CheckedLog, given: CallerFacts) -> None:
    """Raises InputError if the log's list of devices contradicts the description or the caller.

    A contradiction is another number of hosts, or more devices in a host than it has.
    """
    if given.hosts and log.hosts and given.hosts != log.hosts:
        raise InputError(
            f"the log is of {log.hosts} hosts, --hosts says {given.hosts}",
            hint="leave out --hosts where the log says it",
        )
    if log.table.members and given.members and log.table.members != given.members:
        raise InputError(
            f"the log is of members {join_with_commas(log.table.members)}, --members says "
            f"{join_with_commas(given.members)}",
            hint="leave out --members where the log says it",
        )
    level = find_host_level(system)
    if level is None:
        return
    most = prod(system.hierarchy.cardinalities[level + 1 :])
    hosts, total = given.hosts or log.hosts, _total(log)
    listed = [place.device + 1 for place in log.table.places]
    if hosts and total and total % hosts == 0:
        listed.append(total // hosts)
    if max(listed, default=0) > most:
        raise InputError(
            f"the log has {max(listed)} devices in a host, {system.name} has {most} "
            f"({system.hierarchy})",
            hint="describe the machine that was measured, or name the one of the catalogue",
        )


def _suggest_larger(system: System, devices: int) -> str:
    """Returns the spelling of the same system with more outermost units."""
    units = ceil(devices / system.hierarchy.devices_in_child(0))
    counts = [units, *system.hierarchy.cardinalities[1:]]
    return f"name the system as large as the one measured: {spell_machine(system.name, counts)}"


def _check_stated(
    system: System, log: CheckedLog, members: tuple[int, ...], busy: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    cardinalities = system.hierarchy.cardinalities
    for counts, what in ((members, "members"), (busy, "busy")):
        fits = len(counts) == len(cardinalities) and all(
            1 <= count <= most for count, most in zip(counts, cardinalities, strict=True)
        )
        if not fits:
            raise InputError(
                f"{what} {join_with_commas(counts)} are not of {system.hierarchy}",
                hint=_members_hint(system),
            )
    if any(count > most for count, most in zip(members, busy, strict=True)):
        raise InputError(
            f"members {join_with_commas(members)} are more than are busy, {join_with_commas(busy)}"
        )
    level = find_host_level(system)
    hosts = None if level is None else prod(busy[: level + 1])
    if log.hosts and hosts not in (None, log.hosts):
        raise InputError(
            f"members {join_with_commas(members)} are on {hosts} hosts, the log is of {log.hosts}",
            hint=_members_hint(system),
        )
    if log.ranks is not None and prod(members) != log.ranks:
        raise InputError(
            f"members {join_with_commas(members)} are {prod(members)} ranks, the log is of "
            f"{log.ranks}",
            hint="groups of the log are as large as its busbw says",
        )
    return members, busy


def _total(log: CheckedLog) -> int | None:
    """Returns the ranks of a whole run, all groups together."""
    if log.groups > 1:
        return len(log.table.places)
    if log.table.forced.split is not None and not log.table.places:
        return log.table.stated_ranks
    return log.ranks


def _busy_counts(system: System, total: int, hosts: int | None) -> tuple[int, ...]:
    """Returns how many children of each level contain ranks, if hosts are filled in order."""
    cardinalities = system.hierarchy.cardinalities
    level = find_host_level(system)
    if level is None:
        if total == system.devices:
            return cardinalities
        raise InputError(
            f"{system.name} has no level that is called node or host", hint=_members_hint(system)
        )
    most = prod(cardinalities[: level + 1])
    if total == system.devices and hosts in (None, most):
        return cardinalities
    if hosts is None:
        if level == -1:
            hosts = 1
        else:
            raise InputError(
                f"nothing tells on how many hosts the {total} ranks were",
                hint="say --hosts, or put a line '# nodes: 2' at the top of the file",
            )
    if total % hosts:
        raise InputError(
            f"{total} ranks are not spread evenly over {hosts} hosts", hint=_members_hint(system)
        )
    if hosts > most:
        raise InputError(
            f"the log is of {hosts} hosts, {system.name} has {most}",
            hint=_suggest_larger(system, hosts * system.hierarchy.devices_in_child(level)),
        )
    outer = _fill_levels(cardinalities[: level + 1], hosts)
    inner = _fill_levels(cardinalities[level + 1 :], total // hosts)
    if outer is None or inner is None:
        where = "hosts" if outer is None else "ranks of a host"
        raise InputError(
            f"{hosts} hosts with {total // hosts} ranks can lie on {system.hierarchy} in several "
            f"ways: the {where} fill no whole level",
            hint=_members_hint(system),
        )
    return (*outer, *inner)


def _fill_levels(cardinalities: Sequence[int], count: int) -> tuple[int, ...] | None:
    """Returns ``count`` units as members of each level, or None if several ways are possible."""
    if count == prod(cardinalities):
        return tuple(cardinalities)
    if count == 1 or sum(1 for size in cardinalities if size > 1) <= 1:
        ways = [
            tuple(count if i == at else 1 for i in range(len(cardinalities)))
            for at, size in enumerate(cardinalities)
            if size >= count
        ]
        return ways[0] if len(set(ways)) == 1 else None
    return None


def _colors(log: CheckedLog, total: int) -> list[int]:
    """Returns the group of each rank, in the order of ranks; empty if there is one group."""
    places = sorted(log.table.places, key=lambda place: place.rank)
    if log.groups > 1:
        return [place.group for place in places]
    if log.table.forced.split is not None and len(places) != total:
        colors = [color(log.table.forced.split, rank) for rank in range(total)]
        return colors if len(set(colors)) > 1 else []
    return []


def _members_of_group(
    log: CheckedLog, busy: tuple[int, ...], colors: Sequence[int]
) -> tuple[int, ...]:
    """Returns a group's members at each level. Raises InputError for unequal groups."""
    spots = _spots(log, len(colors))
    shapes = set()
    for group in set(colors):
        mine = [spots[i] for i, other in enumerate(colors) if other == group]
        digits = np.unravel_index(mine, busy)
        members = tuple(len(np.unique(column)) for column in digits)
        if prod(members) != len(mine):
            raise InputError("a group of ranks is no block of levels", hint="use MOD or DIV")
        shapes.add(members)
    if len(shapes) > 1:
        text = " and ".join(join_with_commas(shape) for shape in sorted(shapes))
        raise InputError(f"groups lie differently on the machine: {text}", hint="use MOD or DIV")
    return shapes.pop()


def _spots(log: CheckedLog, total: int) -> list[int]:
    """Returns the place of each rank, host by host, as launchers may distribute ranks in turn."""
    places = sorted(log.table.places, key=lambda place: place.rank)
    if len(places) != total or any(place.host is None for place in places):
        return list(range(total))
    ordered = sorted(range(total), key=lambda i: (places[i].host or 0, places[i].device, i))
    spots = [0] * total
    for spot, i in enumerate(ordered):
        spots[i] = spot
    return spots


def _members_hint(system: System) -> str:
    example = join_with_commas(system.hierarchy.cardinalities)
    return f"say how many children of each level a group has ranks in, as in --members {example}"


def join_with_commas(numbers: Sequence[int]) -> str:
    """Joins numbers of levels as in ``--members`` and notes in logs."""
    return ",".join(str(number) for number in numbers)


_MOST_NAMED = 4


def check_devices(system: System, logs: Iterable[CheckedLog]) -> None:
    """Raises InputError for a log of a device that the system does not have.

    Devices whose name has no model are accepted. If the system names no device, all are accepted.
    """
    for log in logs:
        others = [name for name in log.devices if not is_same_device(name, system.device)]
        if others:
            like = " or ".join(
                spell_machine(machine.name, machine.hierarchy.cardinalities)
                for machine in machines_of([log])[:_MOST_NAMED]
            )
            raise InputError(
                f"{log.source} is of {' and '.join(others)}, and {system.name} has {system.device}",
                where="SYSTEM",
                hint=f"the machine may be {like}" if like else "describe the one measured",
            )


def machines_of(logs: Sequence[CheckedLog]) -> list[System]:
    """Returns the catalogue's machines from which all logs may be, with the number of hosts used.

    They have the devices that the logs name, and enough of them in a host. Vendors' machines
    precede those of clouds, whose network is less likely.
    """
    hosts = max((log.hosts or 1 for log in logs), default=1)
    in_a_host = max((-(-(log.ranks or 1) // (log.hosts or 1)) for log in logs), default=1)
    found = [
        load(f"{name}:{hosts}")
        for name in sorted(catalogue(), key=lambda name: (not name.startswith("dgx"), name))
        if find_host_level(load(name)) == 0
    ]
    return [
        system
        for system in found
        if system.hierarchy.devices_in_child(0) >= in_a_host
        and logs
        and all(_is_of_system(system, log.devices) for log in logs)
    ]


def _is_of_system(system: System, devices: Iterable[str]) -> bool:
    """Whether there are devices with a known model, and all of them are the system's."""
    named = [name for name in devices if model_words(name)]
    return (
        bool(named)
        and bool(model_words(system.device))
        and all(is_same_device(name, system.device) for name in named)
    )
