"""A schedule as rounds of messages between ranks, every chunk staying at its home index.

The payload is cut into ``chunks`` equal ones. A rank's value of chunk c always lies at index c of
its buffer, so the local transposes of a schedule, which only reorder memory, need no work at all:
they are followed here, on the numbers of the chunks, to know which of them a step is about.

Values that no later phase reads are not sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, lcm

import numpy as np

from grammar import Collective
from hierarchies import Devices
from synth.emit.buffers import buffers
from synth.emit.mesh import Mesh
from synth.semantics.schedule import Exchange, Schedule, Transpose

Chunks = tuple[int, ...]


@dataclass(frozen=True)
class Send:
    """One message: ascending chunks of ``source`` for ``target``.

    ``scratch`` is where the first of them lies in the target's scratch, the others behind it; None
    if they go straight to their home indices. ``stage`` is where they lie in the source's scratch
    before they go to another host; None if they go from their home indices.
    """

    source: int
    target: int
    chunks: Chunks
    scratch: int | None
    stage: int | None


@dataclass(frozen=True)
class Round:
    """Messages that need not wait for each other, and the phase they belong to.

    If they go to scratch, every target then adds what it received to its own values.
    """

    phase: int
    sends: tuple[Send, ...]


@dataclass(frozen=True)
class Moves:
    """What the ranks of a group send: how many chunks, scratch chunks of each rank, the rounds."""

    chunks: int
    scratch: tuple[int, ...]
    rounds: tuple[Round, ...]


def moves(schedule: Schedule, mesh: Mesh, members: Devices, hosts: Sequence[int]) -> Moves:
    """The messages of a schedule inside one reduction group.

    ``members`` are its ranks, ascending; they are known by their positions there, ``hosts`` too.
    Every exchange is done directly, as the simulator's "direct": each member sends each other one
    its share. An all-reduce is a reduce-scatter and an all-gather.
    """
    follower = _Follower(schedule, mesh, members, hosts)
    for number, phase in enumerate(schedule.phases):
        if isinstance(phase, Transpose):
            follower.transpose(phase)
        else:
            follower.exchange(number, phase)
    return Moves(follower.chunks, tuple(follower.scratch), tuple(follower.rounds))


def chunks_of(schedule: Schedule) -> int:
    """Into how many chunks the payload is cut."""
    return schedule.pieces * _finest(schedule)


def _finest(schedule: Schedule) -> int:
    """Into how many parts pieces are cut again, so that all-reduces share their work equally."""
    finer = 1
    for phase, parts in zip(schedule.phases, buffers(schedule).parts, strict=False):
        if isinstance(phase, Exchange) and phase.collective.rounds > 1:
            members = phase.groups.shape[1]
            held = schedule.pieces // parts[phase.groups[:, 0]]
            finer = lcm(finer, *(members // gcd(members, k) for k in set(held.tolist())))
    return finer


class _Follower:
    """Which chunks each rank holds, in the order of its buffer, as the phases go by."""

    def __init__(
        self, schedule: Schedule, mesh: Mesh, members: Devices, hosts: Sequence[int]
    ) -> None:
        self.chunks = chunks_of(schedule)
        self.scratch = [0] * len(members)
        self.rounds: list[Round] = []
        self._hosts = hosts
        self._place = np.full(schedule.devices, -1)
        self._place[mesh.devices[members]] = np.arange(len(members))
        self._needed = buffers(schedule).needed[:, mesh.devices[members]].tolist()
        self._held: dict[int, Devices] = {
            rank: np.arange(self.chunks) for rank in range(len(members))
        }

    def transpose(self, phase: Transpose) -> None:
        axes = (*phase.axes, len(phase.shape))
        places = self._place[phase.devices]
        for rank in places[places >= 0].tolist():
            view = self._held[rank].reshape(*phase.shape, -1)
            self._held[rank] = view.transpose(axes).reshape(-1)

    def exchange(self, number: int, phase: Exchange) -> None:
        """Note the messages of a phase, one or two rounds of them, and what is held after it."""
        rounds: list[list[Send]] = [[], []]
        groups = self._place[phase.groups]
        for group in groups[groups[:, 0] >= 0].tolist():
            needed = [rank for rank in group if self._needed[number + 1][rank]]
            self._collect(phase.collective, group, needed, rounds[0])
            self._spread(phase.collective, group, needed, rounds[1])
        self.rounds.extend(Round(number, tuple(sends)) for sends in rounds if sends)

    def _collect(
        self, collective: Collective, group: list[int], needed: list[int], sends: list[Send]
    ) -> None:
        """The first half: every member's share of every other's values goes to its scratch."""
        if not collective.reduces:
            return
        held = self._held[group[0]]
        if any(not np.array_equal(held, self._held[rank]) for rank in group):
            raise AssertionError(f"ranks {group} hold chunks in different orders")
        if collective.to_first:
            shares = {group[0]: held}
            for rank in group[1:]:
                del self._held[rank]
        elif collective.scatters:
            shares = dict(zip(group, held.reshape(len(group), -1), strict=True))
            self._held.update(shares)
        else:
            shares = dict(zip(group, np.sort(held).reshape(len(group), -1), strict=True))
        divided = needed if not collective.copies else group if needed else []
        for target, share in shares.items():
            if target not in divided:
                continue
            chunks = tuple(sorted(share.tolist()))
            for source in group:
                if source != target:
                    scratch = self._room(target, len(chunks))
                    stage = self._stage(source, [target], len(chunks))
                    sends.append(Send(source, target, chunks, scratch, stage))

    def _spread(
        self, collective: Collective, group: list[int], needed: list[int], sends: list[Send]
    ) -> None:
        """The second half: what a member has, the others get at its home."""
        if collective.apart:
            raise AssertionError("no all-reduce has an all-to-all")
        if not collective.copies:
            return
        if collective.reduces:
            shares = np.sort(self._held[group[0]]).reshape(len(group), -1)
            own = dict(zip(group, shares, strict=True))
        elif collective.gathers:
            own = {rank: self._held[rank] for rank in group}
            whole = np.concatenate([own[rank] for rank in group])
            self._held.update(dict.fromkeys(group, whole))
        else:
            own = {group[0]: self._held[group[0]]}
            self._held.update(dict.fromkeys(group, own[group[0]]))
        for source, share in own.items():
            chunks = tuple(sorted(share.tolist()))
            stage = self._stage(source, needed, len(chunks))
            for target in needed:
                if target != source:
                    near = self._hosts[target] == self._hosts[source]
                    sends.append(Send(source, target, chunks, None, None if near else stage))

    def _room(self, rank: int, size: int) -> int:
        """Scratch that nothing else uses, so that no round can disturb another."""
        first = self.scratch[rank]
        self.scratch[rank] += size
        return first

    def _stage(self, source: int, targets: list[int], size: int) -> int | None:
        """Scratch of a source for what it sends to other hosts, if it does."""
        if all(self._hosts[target] == self._hosts[source] for target in targets):
            return None
        return self._room(source, size)
