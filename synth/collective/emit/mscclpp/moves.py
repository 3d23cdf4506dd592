"""A schedule as rounds of messages between ranks, with the place of every chunk in its buffers.

The payload is cut into equal chunks. A schedule's local transposes only reorder memory and need no
work: they are applied to the chunk numbers here, to find the chunks that a step uses. Received
values go to their homes if they have any, else to scratch. Values that no later phase reads are not
sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd, lcm

import numpy as np

from grammar import Collective
from hierarchies import Devices
from synth.collective.emit.buffers import follow_buffers
from synth.collective.emit.mesh import Mesh
from synth.collective.emit.mscclpp.homes import (
    BUFFERS,
    INPUT,
    SCRATCH,
    SPAN,
    Homes,
    Numbers,
    homes,
    place_number,
)
from synth.collective.semantics.schedule import Exchange, Schedule, Transpose

Chunks = tuple[int, ...]
Places = tuple[int, ...]


@dataclass(frozen=True)
class Message:
    """Values sent from ``source`` to ``target``, by ascending labels.

    ``reads`` are their places in the source, ``writes`` those in the target. ``stage`` is the place
    in the source's scratch where they are staged, in sequence, before they go to another host; None
    if they are sent from their own place.
    """

    source: int
    target: int
    chunks: Chunks
    reads: Places
    writes: Places
    stage: int | None


@dataclass(frozen=True)
class LocalMove:
    """A rank's local copy of values from one of its places to another."""

    rank: int
    chunks: Chunks
    reads: Places
    writes: Places


@dataclass(frozen=True)
class Round:
    """Independent messages, and the phase they belong to.

    With ``keeps``, every target then adds the received values to its own; without messages it only
    copies its own.
    """

    phase: int
    sends: list[Message] = field(default_factory=list)
    keeps: list[LocalMove] = field(default_factory=list)


@dataclass(frozen=True)
class GroupMessages:
    """The messages of a group: buffers, scratch chunks of each rank, rounds."""

    homes: Homes
    scratch: tuple[int, ...]
    rounds: tuple[Round, ...]


def messages_of(
    schedule: Schedule, mesh: Mesh, members: Devices, hosts: Sequence[int]
) -> GroupMessages:
    """Returns the messages of a schedule inside one reduction group.

    ``members`` are its ranks, ascending; ranks and ``hosts`` are indexed by their positions there.
    Every exchange is direct, as the simulator's "direct": each member sends every other member its
    share. An all-reduce is a reduce-scatter and an all-gather.
    """
    builder = _MoveBuilder(schedule, mesh, members, hosts)
    for number, phase in enumerate(schedule.phases):
        if isinstance(phase, Transpose):
            builder.transpose(phase)
        else:
            builder.exchange(number, phase)
    builder.settle(len(schedule.phases) - 1)
    return GroupMessages(builder.homes, tuple(builder.scratch), tuple(builder.rounds))


def chunks_of(schedule: Schedule) -> int:
    """Returns the number of chunks of the payload."""
    return schedule.pieces * _finest_parts(schedule)


def _finest_parts(schedule: Schedule) -> int:
    """Returns into how many parts pieces are cut, so that all-reduces divide work equally."""
    finer = 1
    for phase, parts in zip(schedule.phases, follow_buffers(schedule).parts, strict=False):
        if isinstance(phase, Exchange) and phase.collective.rounds > 1:
            members = phase.groups.shape[1]
            held = schedule.pieces // parts[phase.groups[:, 0]]
            finer = lcm(finer, *(members // gcd(members, k) for k in set(held.tolist())))
    return finer


class _MoveBuilder:
    """Tracks the values of each rank, in buffer order, from phase to phase.

    ``_held[rank]`` has a column for each value: its label, and below that its place.
    """

    def __init__(
        self, schedule: Schedule, mesh: Mesh, members: Devices, hosts: Sequence[int]
    ) -> None:
        self.homes = homes(schedule, chunks_of(schedule))
        self.scratch = [0] * len(members)
        self.rounds: list[Round] = []
        self._hosts = hosts
        self._place = np.full(schedule.devices, -1)
        self._place[mesh.devices[members]] = np.arange(len(members))
        self._needed = follow_buffers(schedule).needed[:, mesh.devices[members]].tolist()
        by_members = self._place[schedule.reduction.grid()]
        order = next(row for row in by_members if row[0] >= 0)
        self._held = {rank: self.homes.first(rank, order) for rank in range(len(members))}

    def transpose(self, phase: Transpose) -> None:
        axes = (0, *(axis + 1 for axis in phase.axes), len(phase.shape) + 1)
        places = self._place[phase.devices]
        for rank in places[places >= 0].tolist():
            view = self._held[rank].reshape(2, *phase.shape, -1)
            self._held[rank] = view.transpose(axes).reshape(2, -1)

    def exchange(self, number: int, phase: Exchange) -> None:
        """Appends the one or two rounds of messages of a phase, and updates the ranks' values."""
        collective = phase.collective
        sums, copies = Round(number), Round(number)
        groups = self._place[phase.groups]
        for group in groups[groups[:, 0] >= 0].tolist():
            needed = [rank for rank in group if self._needed[number + 1][rank]]
            if collective.apart:
                self._swap(group, needed, copies)
                continue
            if collective.reduces:
                self._collect(collective, group, needed, sums)
            if collective.copies:
                self._spread(collective, group, needed, copies)
        self.rounds += [round for round in (sums, copies) if round.sends]

    def settle(self, number: int) -> None:
        """Copies values that are elsewhere to their homes at the end."""
        keeps = []
        for rank, held in self._held.items():
            if not self._needed[-1][rank]:
                continue
            labels, places = held[:, np.argsort(held[0])]
            writes = self.homes.of(rank, labels)
            away = (writes >= 0) & (writes != places)
            if away.any():
                keeps.append(
                    LocalMove(rank, *map(_to_tuple, (labels[away], places[away], writes[away])))
                )
        if keeps:
            self.rounds.append(Round(number, [], keeps))

    def _collect(
        self, collective: Collective, group: list[int], needed: list[int], found: Round
    ) -> None:
        """Sends every member's share of the other members' values to its scratch."""
        labels = self._held[group[0]][0]
        if any(not np.array_equal(labels, self._held[rank][0]) for rank in group):
            raise AssertionError(f"ranks {group} hold chunks in different orders")
        before = {rank: self._held[rank] for rank in group}
        for target, share in _shares(collective, group, labels).items():
            if target not in needed and not (collective.copies and needed):
                self._held[target] = (
                    before[target] if collective.copies else before[target][:, share]
                )
                continue
            sorted_share = share[np.argsort(labels[share])]
            chunks = _to_tuple(labels[sorted_share])
            for source in group:
                if source != target:
                    first = place_number(SCRATCH, self._allocate(target, len(chunks)))
                    reads = before[source][1, sorted_share]
                    stage = self._stage(source, [target], reads)
                    writes = tuple(range(first, first + len(chunks)))
                    found.sends.append(
                        Message(source, target, chunks, _to_tuple(reads), writes, stage)
                    )
            now = before[target].copy()
            now[1, sorted_share] = self._find_sum_places(target, now[:, sorted_share])
            reads, writes = before[target][1, sorted_share], now[1, sorted_share]
            found.keeps.append(LocalMove(target, chunks, _to_tuple(reads), _to_tuple(writes)))
            self._held[target] = now if collective.copies else now[:, share]
        if collective.to_first:
            for rank in group[1:]:
                del self._held[rank]

    def _spread(
        self, collective: Collective, group: list[int], needed: list[int], found: Round
    ) -> None:
        """Sends a member's values to the others."""
        if collective.reduces:
            shares = _shares(collective, group, self._held[group[0]][0])
            own = {rank: self._held[rank][:, share] for rank, share in shares.items()}
        elif collective.gathers:
            own = {rank: self._held[rank] for rank in group}
        else:
            own = {group[0]: self._held[group[0]]}
        stages = {source: self._stage(source, needed, held[1]) for source, held in own.items()}
        for target in group:
            parts = [
                held
                if source == target
                else self._send(source, target, held, stages[source], found)
                if target in needed
                else held
                for source, held in own.items()
            ]
            if not collective.reduces:
                self._held[target] = np.concatenate(parts, axis=1)
                continue
            for source, part in zip(own, parts, strict=True):
                self._held[target][:, shares[source]] = part

    def _swap(self, group: list[int], needed: list[int], found: Round) -> None:
        """Exchanges the blocks that each pair of members has for each other."""
        blocks = {rank: self._held[rank].reshape(2, len(group), -1) for rank in group}
        for number, target in enumerate(group):
            parts = []
            for source in group:
                held = blocks[source][:, number]
                if source != target and target in needed:
                    stage = self._stage(source, [target], held[1])
                    held = self._send(source, target, held, stage, found)
                parts.append(held)
            self._held[target] = np.concatenate(parts, axis=1)

    def _send(
        self, source: int, target: int, held: Numbers, stage: int | None, found: Round
    ) -> Numbers:
        """Appends a message with a source's values, and returns the target's values and places."""
        order = np.argsort(held[0])
        labels, reads = held[:, order]
        writes = self._find_places(target, labels)
        near = self._hosts[target] == self._hosts[source]
        sent = (_to_tuple(labels), _to_tuple(reads), _to_tuple(writes))
        found.sends.append(Message(source, target, *sent, None if near else stage))
        after = held.copy()
        after[1, order] = writes
        return after

    def _find_places(self, rank: int, labels: Numbers) -> Numbers:
        """Returns the places where a rank receives values: their homes, else scratch."""
        writes = self.homes.of(rank, labels)
        away = writes < 0
        count = int(away.sum())
        if count:
            writes[away] = place_number(SCRATCH, self._allocate(rank, count)) + np.arange(count)
        return writes

    def _find_sum_places(self, rank: int, held: Numbers) -> Numbers:
        """Returns a rank's places for sums: homes, else in place unless in the input."""
        # Sums must not overwrite the input, except at the homes of an all-reduce.
        if (held[1] // SPAN == BUFFERS.index(INPUT)).any():
            return self._find_places(rank, held[0])
        home = self.homes.of(rank, held[0])
        return np.where(home < 0, held[1], home)

    def _allocate(self, rank: int, size: int) -> int:
        """Allocates scratch that no other round uses, so that rounds cannot interfere."""
        first = self.scratch[rank]
        self.scratch[rank] += size
        return first

    def _stage(self, source: int, targets: list[int], reads: Numbers) -> int | None:
        """Allocates scratch for values sent to other hosts, unless already in scratch."""
        near = all(self._hosts[target] == self._hosts[source] for target in targets)
        if near or (reads // SPAN == BUFFERS.index(SCRATCH)).all():
            return None
        return self._allocate(source, len(reads))


def _shares(collective: Collective, group: list[int], labels: Numbers) -> dict[int, Numbers]:
    """Returns the positions of the buffer that each member reduces."""
    if collective.to_first:
        return {group[0]: np.arange(len(labels))}
    order = np.arange(len(labels)) if collective.scatters else np.argsort(labels)
    return dict(zip(group, order.reshape(len(group), -1), strict=True))


def _to_tuple(numbers: Numbers) -> tuple[int, ...]:
    return tuple(numbers.tolist())
