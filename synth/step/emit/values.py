"""The values that a function of the emitted file has, lying how, and what is sent to have them.

Redistributions of a bucket go as one request; what is sent beside compute is begun as soon as it is
made, and waited for where it is read first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from grammar.tensors.operations import Literal, Operand, Value
from grammar.tensors.sharding import Sharding, Type, part_shape
from synth.step.emit.language import TargetLanguage
from synth.step.emit.spelling import Identifiers, spell_statement, spell_tuple
from synth.step.redistribution import MoveKind, RedistributionPath, ShardingMove, pad_move
from synth.step.sharding import LocalOperation, RedistributedValue, SentValue, StepProgram
from synth.step.sharding.program import Key
from synth.step.sharding.together.buckets import flatten_bucket

MOVE_SUFFIXES = {
    MoveKind.SLICE: "part",
    MoveKind.MASK: "masked",
    MoveKind.WIDEN: "widened",
    MoveKind.PERMUTE: "permuted",
    MoveKind.ALL_REDUCE: "reduced",
    MoveKind.REDUCE_SCATTER: "scattered",
    MoveKind.ALL_GATHER: "gathered",
    MoveKind.ALL_TO_ALL: "exchanged",
}
"""What a value is called after its last move."""


MoveCall = Callable[[str, ShardingMove, Type], str | None]
"""Of a value's text, a move and the value's type, the call that carries it out, if there is one."""


def use_collective(text: str, move: ShardingMove, value: Type) -> str | None:
    """Every move is carried out by the runtime's own collective."""
    return None


@dataclass
class EmittedBucket:
    """Redistributions that go as one; ``begun``, the name of what waits for it, if it was begun."""

    members: list[RedistributedValue] = field(default_factory=list)
    begun: str = ""


@dataclass
class MoveContext:
    """How the values of a file are sent; ``moves`` are those that stand in it so far.

    ``overlap``: what is made in a step is begun early. ``buckets`` see ``members_of``.
    """

    language: TargetLanguage
    sizes: Mapping[str, int]
    called: MoveCall = use_collective
    overlap: bool = False
    buckets: Mapping[Key, int] = field(default_factory=dict)
    moves: list[ShardingMove] = field(default_factory=list)


@dataclass
class FunctionValues:
    """What one function has so far, by name and by how it lies; and the lines that make it.

    ``known`` are names that other functions have for values, too.
    """

    sending: MoveContext
    names: Identifiers
    known: dict[Key, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    held: dict[Key, str] = field(default_factory=dict)
    early: dict[Key, list[RedistributedValue]] = field(default_factory=dict)
    begun: dict[Key, str] = field(default_factory=dict)
    bucketed: dict[int, EmittedBucket] = field(default_factory=dict)

    @property
    def language(self) -> TargetLanguage:
        return self.sending.language

    @property
    def sizes(self) -> Mapping[str, int]:
        return self.sending.sizes

    def read(self, operand: Operand, sharding: Sharding) -> str:
        """What stands for an operand where it is read."""
        if isinstance(operand, Literal):
            return self.language.literal(operand)
        return self.held[operand.name, sharding]

    def made(self, value: Value, sharding: Sharding) -> tuple[str, str]:
        """The name of a new value, and what it is."""
        name = self._name((value.name, sharding))
        self.held[value.name, sharding] = name
        return name, value.type.sharded(sharding)

    def hold(self, value: Value, lies: Sharding, text: str) -> None:
        """Have a value; what is to be sent of it early is begun now."""
        self.held[value.name, lies] = text
        for bucket in self.bucketed.values():
            self._begin(bucket)
        for one in self.early.pop((value.name, lies), ()):
            made = self.names.made(f"{value.name}_begun")
            self.sending.moves += one.path.moves
            *local, (call, comment) = self._calls(value, one.path, text, made)
            for move, (each, what) in zip(one.path.moves, local, strict=False):
                each = self._ended(each, value.type, move)
                self.lines += spell_statement(f"{made} = {each}", what)
            call = self.language.later.format(call[:-1])
            self.lines += spell_statement(f"{made} = {call}", f"begin {comment}")
            self.begun[value.name, one.path.target] = made

    def expect(
        self, instructions: Sequence[LocalOperation | RedistributedValue | SentValue]
    ) -> None:
        """Know what will be sent, to begin it as soon as it is made."""
        for one in instructions:
            if not isinstance(one, RedistributedValue):
                continue
            if (number := self._bucket(one)) is not None:
                self.bucketed.setdefault(number, EmittedBucket()).members.append(one)
            elif (
                self.sending.overlap
                and one.value.type.elements
                and _sends_last(one.path, self.sizes)
            ):
                self.early.setdefault((one.value.name, one.path.source), []).append(one)

    def move(self, one: RedistributedValue) -> None:
        """Have a value as it is redistributed, with all of its bucket if it is in one."""
        if (one.value.name, one.path.target) in self.held:
            return
        number = self._bucket(one)
        if number is not None:
            self._together(self.bucketed[number])
        else:
            self._by_itself(one.value, one.path)

    def _by_itself(self, value: Value, path: RedistributionPath) -> None:
        text = self.held[value.name, path.source]
        last = path.moves[-1] if path.moves else None
        made = self._name((value.name, path.target), MOVE_SUFFIXES[last.how]) if last else text
        if begun := self.begun.pop((value.name, path.target), None):
            comment = f"{last}: {value.type.sharded(path.target)}"
            call = self._ended(f"{begun}()", value.type, path.moves[-1])
            self.lines += spell_statement(f"{made} = {call}", comment)
        elif value.type.elements == 0:
            # XLA refuses to gather along a dimension of no elements; there is nothing to send.
            shape, dtype = part_shape(value.type, path.target, self.sizes), value.type.dtype
            call = self.language.empty.format(shape=shape, dtype=self.language.dtypes[dtype])
            self.lines += spell_statement(f"{made} = {call}", value.type.sharded(path.target))
        else:
            self.sending.moves += path.moves
            calls = self._calls(value, path, text, made)
            for move, (call, comment) in zip(path.moves, calls, strict=True):
                call = self._ended(call, value.type, move)
                self.lines += spell_statement(f"{made} = {call}", comment)
        self.known[value.name, path.target] = made
        self.hold(value, path.target, made)

    def _bucket(self, one: RedistributedValue) -> int | None:
        return self.sending.buckets.get((one.value.name, one.path.target))

    def _together(self, bucket: EmittedBucket) -> None:
        """All members end to end in one request, and each as it is to lie."""
        _, path = flatten_bucket(bucket.members, self.sizes)
        texts = [self.held[one.value.name, one.path.source] for one in bucket.members]
        for at, move in enumerate(path.moves):
            names = [
                self._name((m.value.name, m.path.target), MOVE_SUFFIXES[path.moves[-1].how])
                for m in bucket.members
            ]
            if move.how in (MoveKind.SLICE, MoveKind.MASK):
                for one, text, made in zip(bucket.members, texts, names, strict=True):
                    self._alone(one, at, text, made)
            else:
                self._flat(bucket, at, texts, names)
            texts = names
        self.sending.moves += path.moves
        for one, text in zip(bucket.members, texts, strict=True):
            self.known[one.value.name, one.path.target] = text
            self.hold(one.value, one.path.target, text)

    def _alone(self, one: RedistributedValue, at: int, text: str, made: str) -> None:
        """A move of one member that sends nothing."""
        move = one.path.moves[at]
        call = self._call(one.value, move, text)
        self.lines += spell_statement(f"{made} = {call}", f"{move}")

    def _flat(self, bucket: EmittedBucket, at: int, texts: list[str], names: list[str]) -> None:
        """A request of all members, which a device puts end to end and takes apart."""
        made = bucket.begun or self._sent_flat(bucket, at, texts)
        if bucket.begun:
            self.lines += spell_statement(f"{made} = {made}()")
        moves = [one.path.moves[at] for one in bucket.members]
        shapes = [
            part_shape(one.value.type, move.after, self.sizes)
            for one, move in zip(bucket.members, moves, strict=True)
        ]
        more = ""
        if moves[0].how is MoveKind.ALL_GATHER:
            more = f", {[move.leaves for move in moves]}, {self._parts(moves[0])}"
        left = spell_tuple(names)[1:-1]
        self.lines += spell_statement(f"{left} = parted({made}, {shapes}{more})", f"{moves[0]}")

    def _sent_flat(
        self, bucket: EmittedBucket, at: int, texts: list[str], later: str = "{0}"
    ) -> str:
        """The name of what comes of a request of all members end to end."""
        kind, path = flatten_bucket(bucket.members, self.sizes)
        move, moves = path.moves[at], [one.path.moves[at] for one in bucket.members]
        more = ""
        if move.how is MoveKind.REDUCE_SCATTER:
            dimensions = [each.after.lead if each.flattens else each.enters for each in moves]
            more = f", {dimensions}, {self._parts(move)}"
            texts = list(map(self._flattened, texts, moves))
        made = self.names.made("bucket")
        self.lines += spell_statement(f"{made} = flattened([{', '.join(texts)}]{more})")
        held = Type(kind.dtype, part_shape(kind, move.before, self.sizes))
        call = self.sending.called(made, move, kind)
        call = call or self.language.move(made, move, held, self.sizes)
        if later != "{0}":
            call = later.format(call[:-1])
        self.lines += spell_statement(f"{made} = {call}", f"{move}: {len(moves)} gradients")
        return made

    def _parts(self, move: ShardingMove) -> int:
        return prod(self.sizes[axis] for axis in move.axes)

    def _calls(
        self, value: Value, path: RedistributionPath, text: str, made: str
    ) -> Iterator[tuple[str, str]]:
        """Of each move its call, and what comes of it; all but the first are of ``made``.

        What a flat value is gathered to still has its padding: ``_ended`` takes it off.
        """
        for move in path.moves:
            yield self._call(value, move, text), f"{move}: {value.type.sharded(move.after)}"
            text = made

    def _call(self, value: Value, move: ShardingMove, text: str) -> str:
        """The call that carries out a move, of what is flat the move of its padded block."""
        block, inside = pad_move(move, value.type, self.sizes)
        given = self._flattened(text, move)
        kind = Type(block.dtype, part_shape(block, inside.before, self.sizes))
        call = self.sending.called(given, move, value.type)
        return call or self.language.move(given, inside, kind, self.sizes)

    def _flattened(self, text: str, move: ShardingMove) -> str:
        """A value as the padded block that a move sends, where it is not yet flat."""
        if move.before.flat or not move.after.flat:
            return text
        return f"flat_of({text}, {move.after.lead}, {self._parts(move)})"

    def _ended(self, call: str, value: Type, move: ShardingMove) -> str:
        """What is gathered of a flat value, without padding, in the shape of its block."""
        if not move.before.flat or move.after.flat:
            return call
        return f"unpadded({call}, {part_shape(value, move.after, self.sizes)})"

    def _begin(self, bucket: EmittedBucket) -> None:
        """Begin a request as soon as the last of its members is made, if nothing is local in it."""
        if not self.sending.overlap or bucket.begun:
            return
        keys = [(one.value.name, one.path.source) for one in bucket.members]
        path = bucket.members[0].path
        single = len(path.moves) == 1 and path.requests(self.sizes) == path.moves
        if single and all(key in self.held for key in keys):
            texts = [self.held[key] for key in keys]
            bucket.begun = self._sent_flat(bucket, 0, texts, self.language.later)

    def _name(self, key: Key, after: str = "") -> str:
        """What a value is called, by the move after which it lies so if there was one."""
        if key not in self.known:
            self.known[key] = self.names.made(f"{key[0]}_{after}" if after else key[0])
        return self.known[key]


def members_of(program: StepProgram) -> Mapping[Key, int]:
    """Of each member of a bucket its bucket's number."""
    return {
        (one.value.name, one.path.target): number
        for number, bucket in enumerate(program.buckets)
        for one in map(program.instructions.__getitem__, bucket)
        if isinstance(one, RedistributedValue)
    }


def _sends_last(path: RedistributionPath, sizes: Mapping[str, int]) -> bool:
    """Whether a collective is the only one that sends, and the last: begun, and waited for."""
    if not path.moves or path.requests(sizes) != path.moves[-1:]:
        return False
    return path.moves[-1].how is not MoveKind.PERMUTE
