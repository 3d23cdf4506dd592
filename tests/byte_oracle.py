"""A replay of a step's memory, written apart: it imports nothing of the simulation.

It reads a program of operations and redistributions, and an order of passes, as ``apply`` and the
recipe give them, and does one instruction after the other, each a unit of time, on one rank.

* An operation allocates its results when it begins; a buffer is freed when its last reader ends.
* A redistribution allocates what arrives; a sum that all members get is summed in place.
* Inputs are there all the time; new parameters are written where the old ones were.
* What a pass makes and later ones read is there from the begin of the one to the end of the last
  of the others, for each microbatch: what a half for weights reads, until that is done. A whole
  backward pass is both of its halves at once.
* What microbatches add up is there from the first backward pass of its stage on that makes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import prod

from grammar.tensors.operations import Operand, Step, Value
from grammar.tensors.sharding import Sharding, Type
from synth.step.sharding import (
    LocalOperation,
    Plan,
    RedistributedValue,
    SentValue,
    StepPhase,
    StepProgram,
)

WIDTHS = {"bool": 1, "i8": 1, "u8": 1, "bf16": 2, "f16": 2, "i32": 4, "u32": 4, "f32": 4, "f64": 8}
EVERYWHERE = -1
EACH = (StepPhase.FORWARD, StepPhase.BACKWARD, StepPhase.WEIGHT)
PASSES = {"F": EACH[:1], "B": EACH[1:], "I": EACH[1:2], "W": EACH[2:]}
"""What of a program each pass of a microbatch does; a whole backward pass does both halves."""
Key = tuple[str, Sharding]
Passes = Sequence[tuple[int, str, int]]
"""Of a rank in turn: a stage, ``F``, ``B``, ``I`` or ``W``, and a microbatch."""
Pieces = tuple[int, ...]
"""The buffers of a value: several, if a loop has stacked one each time."""


def part_bytes(kind: Type, lies: Sharding, parts: Mapping[str, int]) -> int:
    """Bytes of a device's part of a value, in one microbatch; of a flat one with its padding."""
    cut = [
        size // prod(parts[axis] for axis in axes)
        for size, axes in zip(kind.shape, lies.dimensions, strict=True)
    ]
    pieces = prod(parts[axis] for axis in lies.flat)
    rest = -(-prod(cut[lies.lead :]) // pieces)
    return prod(cut[: lies.lead]) * rest * WIDTHS[kind.dtype]


@dataclass
class Buffer:
    """Bytes that an instruction allocates; instructions that read them; kept to the end or not."""

    size: int
    maker: int
    readers: list[int] = field(default_factory=list)
    kept: bool = False
    home: int = EVERYWHERE


@dataclass
class Replay:
    """The instructions of a program one by one: where each is done, and the buffers."""

    plan: Plan
    places: list[tuple[int, StepPhase]] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    values: dict[int, dict[Key, Pieces]] = field(default_factory=dict)
    takes_time: list[bool] = field(default_factory=list)

    def run(self, step: Step, program: StepProgram) -> Replay:
        homes = program.homes or (0,) * len(program.inputs)
        for value, lies, home in zip(step.graph.inputs, program.inputs, homes, strict=True):
            self.hold(EVERYWHERE, (value.name, lies), [self.allocated(value.type, lies, -1)])
            self.buffers[-1].kept, self.buffers[-1].home = True, home
        places = program.places or ()
        for at, one in enumerate(program.instructions):
            place = (places[at].stage, places[at].when) if places else (0, StepPhase.BEFORE)
            self.do(one, place, self.values)
        new = {out for out, _ in step.updates}
        for at, (output, lies) in enumerate(zip(step.graph.outputs, program.outputs, strict=True)):
            for number in self.found(output, lies, EVERYWHERE, self.values):
                self.buffers[number].kept = True
                if at in new and self.buffers[number].maker >= 0:
                    self.buffers[number].size = 0
        return self

    def allocated(self, kind: Type, lies: Sharding, maker: int) -> int:
        self.buffers.append(Buffer(part_bytes(kind, lies, self.plan.parts), maker))
        return len(self.buffers) - 1

    def hold(self, stage: int, key: Key, pieces: Iterable[int]) -> None:
        self.values.setdefault(stage, {})[key] = tuple(pieces)

    def found(
        self, value: Operand, lies: Sharding, stage: int, scope: Mapping[int, Mapping[Key, Pieces]]
    ) -> Pieces:
        if not isinstance(value, Value):
            return ()
        key = value.name, lies
        near = [scope.get(one, {}) for one in (stage, EVERYWHERE)]
        return next(one[key] for one in (*near, *scope.values()) if key in one)

    def instruction(self, place: tuple[int, StepPhase], read: Iterable[int], *, timed: bool) -> int:
        number = len(self.places)
        self.places.append(place)
        self.takes_time.append(timed)
        for one in read:
            self.buffers[one].readers.append(number)
        return number

    def do(
        self,
        one: LocalOperation | RedistributedValue | SentValue,
        place: tuple[int, StepPhase],
        scope: dict[int, dict[Key, Pieces]],
    ) -> None:
        stage = place[0]
        here = scope.setdefault(stage, {})
        match one:
            case SentValue():
                if one.target != EVERYWHERE:
                    number = self.instruction((one.target, place[1]), (), timed=False)
                    pieces = [self.allocated(one.value.type, one.sharding, number)]
                    there = scope.setdefault(one.target, {})
                    there[one.value.name, one.sharding] = tuple(pieces)
            case RedistributedValue():
                here[one.value.name, one.path.target] = self.moved(one, place, scope)
            case LocalOperation(body=StepProgram()):
                self.loop(one, place, scope)
            case LocalOperation():
                several = zip(one.operation.operands, one.how.operands, strict=True)
                read = [n for each in several for n in self.found(*each, stage, scope)]
                number = self.instruction(place, read, timed=True)
                for value, lies in zip(one.operation.results, one.how.results, strict=True):
                    here[value.name, lies] = (self.allocated(value.type, lies, number),)

    def moved(
        self,
        one: RedistributedValue,
        place: tuple[int, StepPhase],
        scope: dict[int, dict[Key, Pieces]],
    ) -> Pieces:
        """A stack goes layer by layer, unless layers are what is cut."""
        sizes = self.plan.sizes
        source, target, kind = one.path.source, one.path.target, one.value.type
        pieces = self.found(one.value, source, place[0], scope)
        sends = [
            move
            for move in one.path.moves
            if move.how.value not in ("slice", "mask", "widen")
            and prod(sizes[axis] for axis in move.axes) > 1
        ]
        if not sends:
            return pieces
        by_layer = len(pieces) > 1 and not any(
            lies.dimensions[0] or (lies.flat and not lies.lead) for lies in (source, target)
        )
        if by_layer:
            kind = Type(kind.dtype, kind.shape[1:])
            lead = max(0, target.lead - 1)
            target = Sharding(target.dimensions[1:], target.partial, target.flat, lead)
        arrived: list[int] = []
        for some in [(piece,) for piece in pieces] if by_layer else [pieces]:
            number = self.instruction(place, some, timed=True)
            made = all(self.buffers[piece].maker >= 0 for piece in some)
            if [move.how.value for move in sends] == ["all-reduce"] and made:
                arrived += some
            else:
                arrived.append(self.allocated(kind, target, number))
        return tuple(arrived)

    def loop(
        self, one: LocalOperation, place: tuple[int, StepPhase], scope: dict[int, dict[Key, Pieces]]
    ) -> None:
        told, body = one.operation.parameter, one.operation.body
        assert body is not None
        assert one.body is not None
        constants, carried = int(str(told["num_consts"])), int(str(told["num_carry"]))
        length, stage = int(str(told["length"])), place[0]
        several = zip(one.operation.operands, one.how.operands, strict=True)
        given = [self.found(*each, stage, scope) for each in several]
        kept = constants + carried
        state, stacks = given[constants:kept], [[] for _ in one.operation.results[carried:]]
        turns = range(length)
        for turn in reversed(turns) if told.get("reverse") is True else turns:
            slices = [(each[turn],) if len(each) == length else each for each in given[kept:]]
            entering = zip(body.inputs, one.body.inputs, strict=True)
            keys = [(value.name, lies) for value, lies in entering]
            inside = dict(zip(keys, (*given[:constants], *state, *slices), strict=True))
            local: dict[int, dict[Key, Pieces]] = {stage: inside}
            for each in one.body.instructions:
                self.do(each, place, local)
            outputs = zip(body.outputs, one.body.outputs, strict=True)
            made = [self.found(*each, stage, local) for each in outputs]
            state = made[:carried]
            for stack, pieces in zip(stacks, made[carried:], strict=True):
                stack.append(pieces)
        if told.get("reverse") is True:
            stacks = [stack[::-1] for stack in stacks]
        joined = [tuple(n for pieces in stack for n in pieces) for stack in stacks]
        results = zip(one.operation.results, one.how.results, strict=True)
        for (value, lies), pieces in zip(results, (*state, *joined), strict=True):
            scope[stage][value.name, lies] = pieces

    def whens(self, number: int) -> set[StepPhase]:
        """When a buffer is read."""
        return {self.places[reader][1] for reader in self.buffers[number].readers}

    def made_at(self, stage: int, when: StepPhase) -> list[int]:
        found = [(stage, when), (EVERYWHERE, when)]
        return [
            number
            for number, one in enumerate(self.buffers)
            if one.maker >= 0 and self.places[one.maker] in found
        ]

    def outlives(self, number: int) -> bool:
        one = self.buffers[number]
        return one.kept or bool(self.whens(number) - {self.places[one.maker][1]})

    def kept_from_the_begin(self, number: int) -> bool:
        """Whether it is made of parameters before the first microbatch, for later passes."""
        when = self.places[self.buffers[number].maker][1]
        return when is StepPhase.BEFORE and self.outlives(number)

    def peak_of(self, several: Sequence[int], doing: Sequence[int]) -> int:
        """The most bytes of some buffers at once, as instructions are done one after the other."""
        begins: dict[int, int] = {}
        clock = 0
        for number in doing:
            begins[number] = clock
            clock += self.takes_time[number]
        changes: Counter[int] = Counter()
        for number in several:
            one = self.buffers[number]
            last = max(
                (
                    begins[at] + self.takes_time[at]
                    for at in (one.maker, *one.readers)
                    if at in begins
                ),
                default=0,
            )
            begin = begins.get(one.maker, 0)
            last = clock if one.kept else last
            if last > begin:
                changes[begin] += one.size
                changes[last] -= one.size
        held = most = 0
        for moment in sorted(changes):
            held += changes[moment]
            most = max(most, held)
        return most

    def peak(self) -> int:
        """Of a step that is no microbatch: all buffers, all instructions."""
        return self.peak_of(range(len(self.buffers)), range(len(self.places)))

    def rank_peak(self, passes: Passes) -> int:
        """The most bytes of a rank that does passes in turn."""
        stages = {stage for stage, _, _ in passes}
        summed = sum(self.buffers[n].size for stage in stages for n in self.summed(stage))
        once = [
            *(self.local(stage, StepPhase.BEFORE) for stage in stages),
            *(summed + self.local(stage, StepPhase.AFTER) for stage in stages),
        ]
        return max(self.state(stages) + max(once), *self.over_time(passes))

    def over_time(self, passes: Passes) -> list[int]:
        """The most bytes of a rank in each of the passes that it does in turn."""
        stages = {stage for stage, _, _ in passes}
        done = {
            (stage, when, microbatch): at
            for at, (stage, kind, microbatch) in enumerate(passes)
            for when in PASSES[kind]
        }
        held = [self.state(stages) + self.local(stage, *PASSES[kind]) for stage, kind, _ in passes]
        for stage in stages:
            for size, begin, last in self.between_passes(stage, done):
                for at in range(begin, len(passes) if last is None else last + 1):
                    held[at] += size
        return held

    def state(self, stages: Set[int]) -> int:
        """Bytes that stages hold all the time."""
        return sum(
            one.size
            for number, one in enumerate(self.buffers)
            if (one.home if one.maker < 0 else self.places[one.maker][0]) in {*stages, EVERYWHERE}
            and (one.maker < 0 or self.kept_from_the_begin(number))
        )

    def summed(self, stage: int) -> list[int]:
        """What a stage's microbatches add up."""
        return [
            number
            for when in EACH
            for number in self.made_at(stage, when)
            if StepPhase.AFTER in self.whens(number) or self.buffers[number].kept
        ]

    def between_passes(
        self, stage: int, done: Mapping[tuple[int, StepPhase, int], int]
    ) -> Iterator[tuple[int, int, int | None]]:
        """Bytes that outlive a pass of a stage, the passes of the rank from which and until which
        they are there, None for the end.

        What a half for weights reads stays until that is done; in a whole backward pass both halves
        are one.
        """
        for number in self.summed(stage):
            when = self.places[self.buffers[number].maker][1]
            adding = StepPhase.BACKWARD if when is StepPhase.FORWARD else when
            first = min(
                at for (of, at_when, _), at in done.items() if (of, at_when) == (stage, adding)
            )
            yield self.buffers[number].size, first, None
        for when in EACH:
            for number in self.made_at(stage, when):
                later = [one for one in EACH[EACH.index(when) :] if one in self.whens(number)]
                for microbatch in {microbatch for _, _, microbatch in done}:
                    begin = done[stage, when, microbatch]
                    last = done[stage, later[-1], microbatch] if later else begin
                    if last != begin:
                        yield self.buffers[number].size, begin, last

    def bytes_of(self, several: Iterable[int]) -> int:
        return sum(self.buffers[number].size for number in several)

    def local(self, stage: int, *whens: StepPhase) -> int:
        """The most that a pass needs of what nothing else reads."""
        doing = [
            number
            for number, (at, phase) in enumerate(self.places)
            if at in (stage, EVERYWHERE) and phase in whens
        ]
        own = [
            one
            for when in whens
            for one in self.made_at(stage, when)
            if not self.buffers[one].kept and self.whens(one) <= {*whens}
        ]
        return self.peak_of(own, doing)
