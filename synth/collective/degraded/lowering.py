"""Programs of explicit groups as ordinary schedules, with the blocks that each member keeps.

Every buffer holds its blocks in the order of the payload, so nothing is ever transposed. In a
reduce-scatter of two blocks among three ranks, the first rank keeps the block at place 0, the
second the block at place 1, and the last nothing: places are (0,), (1,) and ().
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

    A Failure if the members of a group do not hold the chunks that its collective needs. Unlike z3
    this checks the chunks only, not the ranks whose contributions they contain.
    """
    phases = phases_of_program(program, range(ranks), pad_length(payload_bytes, program.chunks))
    if isinstance(phases, Failure):
        return phases
    reduction = Reduction.plain(ranks)
    return Schedule(Program(()), reduction, payload_bytes, program.chunks, phases)


def rehearse_on_integers(program: GroupProgram, ranks: int) -> Failure | None:
    """Runs a program on integers; None where all ranks end with the sum, else the failure."""
    schedule = schedule_program(program, ranks, payload_bytes=1)
    return schedule if isinstance(schedule, Failure) else compare(schedule, 2 * program.chunks + 1)


def phases_of_program(
    program: GroupProgram, devices: Sequence[int], payload_bytes: int
) -> tuple[Exchange, ...] | Failure:
    """The phases of a program whose ranks are these devices, for a payload of whole chunks."""
    phases = []
    for step, groups in _follow_steps(program, len(devices)):
        if isinstance(groups, Failure):
            return groups
        collective = step.collective
        largest = max((len(blocks.whole) for blocks in groups), default=0) or 1
        among = GroupList(
            tuple(tuple(devices[rank] for rank in group) for group in step.groups),
            tuple(len(blocks.whole) / largest for blocks in groups),
            not collective.in_pieces or all(blocks.equal for blocks in groups),
        )
        size = largest * payload_bytes // program.chunks
        phases.append(Exchange(collective, among, size, tuple(blocks.places for blocks in groups)))
    return tuple(phases)


def spell_out_pieces(program: GroupProgram, ranks: int) -> GroupProgram:
    """The same program with each piece listing exactly the chunks that its member receives.

    A step of a program on a grid only says in which chunks members differ: every other one of 16
    chunks, of which the group may hold four.
    """
    steps = []
    for step, groups in _follow_steps(program, ranks):
        assert not isinstance(groups, Failure), f"{program.text}: {groups}"
        if step.pieces is not None:
            pieces = tuple(tuple(frozenset(own) for own in blocks.own) for blocks in groups)
            step = replace(step, pieces=pieces)
        steps.append(step)
    return replace(program, steps=tuple(steps))


def _follow_steps(
    program: GroupProgram, ranks: int
) -> Iterator[tuple[GroupStep, list[_GroupBlocks] | Failure]]:
    """Yields each step with its groups' blocks; ends with a failure if a step is impossible."""
    held = {rank: tuple(range(program.chunks)) for rank in range(ranks)}
    for number, step in enumerate(program.steps):
        collective, groups = step.collective, []
        for index, group in enumerate(step.groups):
            blocks = _share_blocks(step, index, [held[rank] for rank in group])
            if isinstance(blocks, str):
                yield step, Failure(number, blocks)
                return
            groups.append(blocks)
            # ``own`` is each member's contribution to a gather, and its result of any other
            # collective.
            after = [blocks.whole] * len(group) if collective.gathers else blocks.own
            held.update(zip(group, after, strict=True))
        yield step, groups


@dataclass(frozen=True)
class _GroupBlocks:
    """All blocks of a group, and the blocks each member contributes (gather) or keeps (scatter)."""

    whole: _Blocks
    own: Sequence[_Blocks]

    @property
    def equal(self) -> bool:
        return len({len(blocks) for blocks in self.own}) == 1

    @property
    def places(self) -> tuple[_Blocks, ...]:
        """The places of members' own blocks among those of the group."""
        place = {block: i for i, block in enumerate(self.whole)}
        return tuple(tuple(place[block] for block in blocks) for blocks in self.own)


def _share_blocks(step: GroupStep, index: int, before: Sequence[_Blocks]) -> _GroupBlocks | str:
    """The blocks of one group in a step, or the reason why the step cannot be executed."""
    collective, whole = step.collective, before[0]
    if collective.gathers:
        whole = tuple(sorted(chain(*before)))
        twice = len(set(whole)) < len(whole)
        return "two members hold one chunk" if twice else _GroupBlocks(whole, before)
    if collective.facts.reducing and len(set(before)) > 1:
        return "members hold different chunks"
    if collective.scatters:
        assert step.pieces is not None
        pieces = step.pieces[index]
        return _GroupBlocks(whole, [tuple(b for b in whole if b in piece) for piece in pieces])
    kept = () if collective.to_first else whole
    return _GroupBlocks(whole, [whole, *[kept] * (len(before) - 1)])
