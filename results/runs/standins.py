"""A written step that computes nothing: its blocks are slept, and all is sent as it is written.

So many more ranks than there are cores do what a step does to a network: in its order, blocking
where it blocks, with buffers of its sizes. The functions of the written file are replaced by
others of the same names; all else of it stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from grammar.tensors.sharding import Type, part_shape
from results.runs.cases import RUNTIME, Case
from synth.step.emit import LANGUAGES, ProgramSection, split_sections
from synth.step.redistribution import pad_move
from synth.step.sharding import LocalOperation, RedistributedValue
from synth.step.sharding.program import Key


@dataclass(frozen=True)
class StandIn:
    """A written step, functions in the place of its own, and seconds of what these sleep."""

    text: str
    functions: str
    seconds: Mapping[str, float]


def functions(case: Case) -> str:
    """The functions of a case, of which ``slept(event)`` and ``held(shape, dtype)`` are asked.

    With microbatches sums are slept from the second one on, as the first has nothing to add to.
    """
    one = case.planned
    ends = {id(block.of[-1]): event.key for block, event in one.pairs if block.of}
    sums = {str(block.phase): event.key for block, event in one.pairs if not block.of}
    found = []
    for section in split_sections(one.step, one.program, one.plan.parts).sections:
        lines = list(_lines(case, section, ends))
        if section.phase and (key := sums.get(str(section.phase))):
            lines += [f'if AT["microbatch"]: slept("{key}")']
        name = section.phase.function if section.phase else "device_step"
        body = "\n".join(f"    {line}" for line in ("begun = {}", *lines))
        found.append(f"def {name}():\n{body}\n")
    return "\n\n".join(found)


def _lines(case: Case, section: ProgramSection, ends: Mapping[int, str]) -> Iterator[str]:
    """Begun early is what a written step begins early: all that is made here and sent at last."""
    sizes = case.planned.plan.parts
    moved = [
        one
        for one in section.instructions
        if isinstance(one, RedistributedValue) and one.path.requests(sizes)
    ]
    early: dict[Key, list[RedistributedValue]] = {}
    for other in moved if case.overlap else ():
        early.setdefault((other.value.name, other.path.source), []).append(other)
    begun: dict[int, str] = {}
    for one in section.instructions:
        if isinstance(one, LocalOperation) and id(one) in ends:
            yield f'slept("{ends[id(one)]}")'
        if isinstance(one, RedistributedValue) and one.path.requests(sizes):
            if id(one) in begun:
                yield f"begun.pop({begun[id(one)]})()"
            else:
                yield from _calls(case, one)
        for key in one.keys_made:
            for other in early.get(key, ()):
                begun[id(other)] = str(len(begun))
                *first, last = _calls(case, other)
                yield from first
                later = LANGUAGES[RUNTIME].later.format(last[:-1])
                yield f"begun[{begun[id(other)]}] = {later}"


def _calls(case: Case, one: RedistributedValue) -> Iterator[str]:
    """The calls of the written file, of some buffer of the same size; of what is flat, padded."""
    language, sizes = LANGUAGES[RUNTIME], case.planned.plan.parts
    for move in one.path.requests(sizes):
        block, inside = pad_move(move, one.value.type, sizes)
        kind = Type(block.dtype, part_shape(block, inside.before, sizes))
        text = f"held({kind.shape}, {language.spelling.dtypes[kind.dtype]})"
        yield language.move(text, inside, kind, sizes)
