"""Programs of explicit groups as ordinary schedules, with the blocks that each member keeps.

Every buffer holds its blocks in the order of the payload, so that nothing is ever transposed. In a
reduce-scatter of two blocks among three ranks, the first keeps the block at place 0, the second
that at place 1, and the last nothing: places are (0,), (1,) and ().
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from grammar import Program
from hierarchies import Reduction
from synth.collective.degraded.programs import GroupProgram
from synth.collective.semantics.schedule import Exchange, GroupList, Schedule, pad_length
from synth.collective.verify.concrete import GroupStep
from synth.collective.verify.replay import Failure, compare

_Blocks = tuple[int, ...]


def schedule_program(program: GroupProgram, ranks: int, payload_bytes: int) -> Schedule | Failure:
    """The schedule of a program on ``ranks`` devices; it does not depend on their links.

    A Failure where members of a group hold other chunks than its collective needs. Unlike z3 this
    looks at the chunks only, not at the ranks whose contributions they contain.
    """
    found = phases_of_program(program, range(ranks), pad_length(payload_bytes, program.chunks))
    if isinstance(found, Failure):
        return found
    whole = Reduction.plain(ranks)
    return Schedule(Program(()), whole, payload_bytes, program.chunks, found)


def rehearse_on_integers(program: GroupProgram, ranks: int) -> Failure | None:
    """What goes wrong when a program runs on integers; None where all ranks end with the sum."""
    schedule = schedule_program(program, ranks, payload_bytes=1)
    return schedule if isinstance(schedule, Failure) else compare(schedule, 2 * program.chunks + 1)


def phases_of_program(
    program: GroupProgram, devices: Sequence[int], payload_bytes: int
) -> tuple[Exchange, ...] | Failure:
    """The phases of a program whose ranks are these devices, for a payload of whole chunks."""
    found = []
    for step, shared in _follow_steps(program, len(devices)):
        if isinstance(shared, Failure):
            return shared
        what = step.collective
        largest = max((len(one.whole) for one in shared), default=0) or 1
        among = GroupList(
            tuple(tuple(devices[rank] for rank in group) for group in step.groups),
            tuple(len(one.whole) / largest for one in shared),
            not what.in_pieces or all(one.equal for one in shared),
        )
        size = largest * payload_bytes // program.chunks
        found.append(Exchange(what, among, size, tuple(one.places for one in shared)))
    return tuple(found)


def spell_out_pieces(program: GroupProgram, ranks: int) -> GroupProgram:
    """The same program, each piece naming the chunks that its member gets, and no others.

    A step of a program on a grid says only by which chunks members differ: of 16 chunks every other
    one, of which the group may hold four.
    """
    steps = []
    for step, shared in _follow_steps(program, ranks):
        assert not isinstance(shared, Failure), f"{program.text}: {shared}"
        if step.pieces is not None:
            pieces = tuple(tuple(frozenset(own) for own in one.own) for one in shared)
            step = replace(step, pieces=pieces)
        steps.append(step)
    return replace(program, steps=tuple(steps))


def _follow_steps(
    program: GroupProgram, ranks: int
) -> Iterator[tuple[GroupStep, list[_GroupBlocks] | Failure]]:
    """Each step with what its groups share; the last where one cannot be carried out."""
    held = {rank: tuple(range(program.chunks)) for rank in range(ranks)}
    for number, step in enumerate(program.steps):
        what, shared = step.collective, []
        for which, group in enumerate(step.groups):
            one = _share_blocks(step, which, [held[rank] for rank in group])
            if isinstance(one, str):
                yield step, Failure(number, one)
                return
            shared.append(one)
            after = [one.whole] * len(group) if what.gathers else one.own
            held.update(zip(group, after, strict=True))
        yield step, shared


@dataclass(frozen=True)
class _GroupBlocks:
    """All blocks of a group, and which of them each member brings (gather) or keeps (scatter)."""

    whole: _Blocks
    own: Sequence[_Blocks]

    @property
    def equal(self) -> bool:
        return len({len(blocks) for blocks in self.own}) == 1

    @property
    def places(self) -> tuple[_Blocks, ...]:
        """Where members' own blocks are among those of the group."""
        place = {block: i for i, block in enumerate(self.whole)}
        return tuple(tuple(place[block] for block in blocks) for blocks in self.own)


def _share_blocks(step: GroupStep, which: int, before: Sequence[_Blocks]) -> _GroupBlocks | str:
    """The blocks of one group in a step; or, as text, why the step cannot be carried out."""
    what, whole = step.collective, before[0]
    if what.gathers:
        whole = tuple(sorted(chain(*before)))
        twice = len(set(whole)) < len(whole)
        return "two members hold one chunk" if twice else _GroupBlocks(whole, before)
    if what.facts.reducing and len(set(before)) > 1:
        return "members hold different chunks"
    if what.scatters:
        assert step.pieces is not None
        pieces = step.pieces[which]
        return _GroupBlocks(whole, [tuple(b for b in whole if b in piece) for piece in pieces])
    others = () if what.to_first else whole
    return _GroupBlocks(whole, [whole, *[others] * (len(before) - 1)])
