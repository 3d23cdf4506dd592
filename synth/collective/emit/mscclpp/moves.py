"""A schedule as rounds of messages between ranks, with the place of every chunk in its buffers.

The payload is cut into equal chunks. The local transposes of a schedule, which only reorder
memory, need no work at all: they are followed here, on the numbers of the chunks, to know which of
them a step is about. What is received goes to its home where it has one, or else to scratch.

Values that no later phase reads are not sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    """One message: values of ``source`` for ``target``, by ascending labels.

    ``come`` is where they lie in the source, ``goes`` where they go in the target. ``stage`` is
    where the first of them lies in the source's scratch before they go to another host, the others
    behind it; None if they go from where they are.
    """

    source: int
    target: int
    chunks: Chunks
    come: Places
    goes: Places
    stage: int | None


@dataclass(frozen=True)
class LocalMove:
    """What a rank does by itself: values go from one place of its own to another."""

    rank: int
    chunks: Chunks
    come: Places
    goes: Places


@dataclass(frozen=True)
class Round:
    """Messages that need not wait for each other, and the phase they belong to.

    With ``keeps`` every target then adds what it received to its own values. Without messages it
    only copies them.
    """

    phase: int
    sends: tuple[Message, ...]
    keeps: tuple[LocalMove, ...] = ()


@dataclass(frozen=True)
class GroupMessages:
    """What the ranks of a group send: their buffers, scratch chunks of each rank, the rounds."""

    homes: Homes
    scratch: tuple[int, ...]
    rounds: tuple[Round, ...]


def messages_of(
    schedule: Schedule, mesh: Mesh, members: Devices, hosts: Sequence[int]
) -> GroupMessages:
    """The messages of a schedule inside one reduction group.

    ``members`` are its ranks, ascending; they are known by their positions there, ``hosts`` too.
    Every exchange is done directly, as the simulator's "direct": each member sends each other one
    its share. An all-reduce is a reduce-scatter and an all-gather.
    """
    follower = _MoveBuilder(schedule, mesh, members, hosts)
    for number, phase in enumerate(schedule.phases):
        if isinstance(phase, Transpose):
            follower.transpose(phase)
        else:
            follower.exchange(number, phase)
    follower.settle(len(schedule.phases) - 1)
    return GroupMessages(follower.homes, tuple(follower.scratch), tuple(follower.rounds))


def chunks_of(schedule: Schedule) -> int:
    """Into how many chunks the payload is cut."""
    return schedule.pieces * _finest_parts(schedule)


def _finest_parts(schedule: Schedule) -> int:
    """Into how many parts pieces are cut again, so that all-reduces share their work equally."""
    finer = 1
    for phase, parts in zip(schedule.phases, follow_buffers(schedule).parts, strict=False):
        if isinstance(phase, Exchange) and phase.collective.rounds > 1:
            members = phase.groups.shape[1]
            held = schedule.pieces // parts[phase.groups[:, 0]]
            finer = lcm(finer, *(members // gcd(members, k) for k in set(held.tolist())))
    return finer


class _MoveBuilder:
    """What each rank holds, in the order of its buffer, as the phases go by.

    ``held[rank]`` has a column for each value: its label, and below that its place.
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
        """Note the messages of a phase, one or two rounds of them, and what is held after it."""
        collective = phase.collective
        sums, copies = _RoundDraft([], []), _RoundDraft([], [])
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
        for round in (sums, copies):
            if round.sends:
                self.rounds.append(Round(number, tuple(round.sends), tuple(round.keeps)))

    def settle(self, number: int) -> None:
        """In the end each rank copies to their homes what never came there."""
        keeps = []
        for rank, held in self._held.items():
            if not self._needed[-1][rank]:
                continue
            labels, places = held[:, np.argsort(held[0])]
            goes = self.homes.of(rank, labels)
            away = (goes >= 0) & (goes != places)
            if away.any():
                keeps.append(
                    LocalMove(rank, *map(_to_tuple, (labels[away], places[away], goes[away])))
                )
        if keeps:
            self.rounds.append(Round(number, (), tuple(keeps)))

    def _collect(
        self, collective: Collective, group: list[int], needed: list[int], found: _RoundDraft
    ) -> None:
        """The first half: every member's share of every other's values goes to its scratch."""
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
                    first = place_number(SCRATCH, self._room(target, len(chunks)))
                    come = before[source][1, sorted_share]
                    stage = self._stage(source, [target], come)
                    goes = tuple(range(first, first + len(chunks)))
                    found.sends.append(
                        Message(source, target, chunks, _to_tuple(come), goes, stage)
                    )
            now = before[target].copy()
            now[1, sorted_share] = self._summed(target, now[:, sorted_share])
            come, goes = before[target][1, sorted_share], now[1, sorted_share]
            found.keeps.append(LocalMove(target, chunks, _to_tuple(come), _to_tuple(goes)))
            self._held[target] = now if collective.copies else now[:, share]
        if collective.to_first:
            for rank in group[1:]:
                del self._held[rank]

    def _spread(
        self, collective: Collective, group: list[int], needed: list[int], found: _RoundDraft
    ) -> None:
        """The second half: what a member has, the others get."""
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
                else self._sent(source, target, held, stages[source], found)
                if target in needed
                else held
                for source, held in own.items()
            ]
            if not collective.reduces:
                self._held[target] = np.concatenate(parts, axis=1)
                continue
            for source, part in zip(own, parts, strict=True):
                self._held[target][:, shares[source]] = part

    def _swap(self, group: list[int], needed: list[int], found: _RoundDraft) -> None:
        """Each member's block for each other one; it comes where that one's block for it was."""
        blocks = {rank: self._held[rank].reshape(2, len(group), -1) for rank in group}
        for number, target in enumerate(group):
            parts = []
            for source in group:
                held = blocks[source][:, number]
                if source != target and target in needed:
                    stage = self._stage(source, [target], held[1])
                    held = self._sent(source, target, held, stage, found)
                parts.append(held)
            self._held[target] = np.concatenate(parts, axis=1)

    def _sent(
        self, source: int, target: int, held: Numbers, stage: int | None, found: _RoundDraft
    ) -> Numbers:
        """Note a message of what a source holds, and say what the target holds of it then."""
        order = np.argsort(held[0])
        labels, come = held[:, order]
        goes = self._placed(target, labels)
        near = self._hosts[target] == self._hosts[source]
        sent = (_to_tuple(labels), _to_tuple(come), _to_tuple(goes))
        found.sends.append(Message(source, target, *sent, None if near else stage))
        after = held.copy()
        after[1, order] = goes
        return after

    def _placed(self, rank: int, labels: Numbers) -> Numbers:
        """Where a rank gets values: at their homes, or else in scratch."""
        goes = self.homes.of(rank, labels)
        away = goes < 0
        count = int(away.sum())
        if count:
            goes[away] = place_number(SCRATCH, self._room(rank, count)) + np.arange(count)
        return goes

    def _summed(self, rank: int, held: Numbers) -> Numbers:
        """Where a rank has sums: at their homes, or where its values are, if not in the input."""
        if (held[1] // SPAN == BUFFERS.index(INPUT)).any():
            return self._placed(rank, held[0])
        home = self.homes.of(rank, held[0])
        return np.where(home < 0, held[1], home)

    def _room(self, rank: int, size: int) -> int:
        """Scratch that nothing else uses, so that no round can disturb another."""
        first = self.scratch[rank]
        self.scratch[rank] += size
        return first

    def _stage(self, source: int, targets: list[int], come: Numbers) -> int | None:
        """Scratch of a source for what it sends to other hosts, if it does, and has elsewhere."""
        near = all(self._hosts[target] == self._hosts[source] for target in targets)
        if near or (come // SPAN == BUFFERS.index(SCRATCH)).all():
            return None
        return self._room(source, len(come))


@dataclass(frozen=True)
class _RoundDraft:
    """A round as it is noted."""

    sends: list[Message]
    keeps: list[LocalMove]


def _shares(collective: Collective, group: list[int], labels: Numbers) -> dict[int, Numbers]:
    """Which of what all hold each member adds up, as positions in their buffers."""
    if collective.to_first:
        return {group[0]: np.arange(len(labels))}
    order = np.arange(len(labels)) if collective.scatters else np.argsort(labels)
    return dict(zip(group, order.reshape(len(group), -1), strict=True))


def _to_tuple(numbers: Numbers) -> tuple[int, ...]:
    return tuple(numbers.tolist())
