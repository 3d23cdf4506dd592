"""The values of a function of the emitted file, by sharding, and the lines that compute them.

Redistributions of a bucket are sent as one request. Overlapped communication begins as soon as its
value is computed, and is waited for where its result is first read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from grammar.tensors.operations import Literal, Operand, Value
from grammar.tensors.sharding import Sharding, Type, part_shape
from synth.primitives.calls.spelling import spell_tuple
from synth.step.emit.language import TargetLanguage
from synth.step.emit.spelling import Identifiers, spell_statement
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
"""The suffix of a value's name after its last move."""


MoveCall = Callable[[str, ShardingMove, Type], str | None]
"""Returns the call that executes a move, or None; takes a value's text, the move, and its type."""


def use_collective(text: str, move: ShardingMove, value: Type) -> str | None:
    """Leaves every move to the runtime's own collective."""
    return None


@dataclass
class EmittedBucket:
    """Redistributions sent as one request; ``begun``: the handle to wait for, if it was begun."""

    members: list[RedistributedValue] = field(default_factory=list)
    begun: str = ""


@dataclass
class MoveContext:
    """How values of a file are sent; ``moves``: the moves written so far.

    ``overlap``: whether values computed in a step are sent early. ``buckets``: see ``members_of``.
    """

    language: TargetLanguage
    sizes: Mapping[str, int]
    called: MoveCall = use_collective
    overlap: bool = False
    buckets: Mapping[Key, int] = field(default_factory=dict)
    moves: list[ShardingMove] = field(default_factory=list)


@dataclass
class FunctionValues:
    """The values of one function so far, by name and sharding, and the lines that compute them.

    ``known``: names that values also have in other functions.
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
        """Returns the text of an operand where it is read."""
        if isinstance(operand, Literal):
            return self.language.spelling.literal(operand)
        return self.held[operand.name, sharding]

    def made(self, value: Value, sharding: Sharding) -> tuple[str, str]:
        """Names a new value; returns its name and its type."""
        name = self._name((value.name, sharding))
        self.held[value.name, sharding] = name
        return name, value.type.sharded(sharding)

    def hold(self, value: Value, sharding: Sharding, text: str) -> None:
        """Holds a value under a name, and begins its early sends."""
        self.held[value.name, sharding] = text
        for bucket in self.bucketed.values():
            self._begin(bucket)
        for redistributed in self.early.pop((value.name, sharding), ()):
            made = self.names.made(f"{value.name}_begun")
            self.sending.moves += redistributed.path.moves
            *local, (call, comment) = self._calls(value, redistributed.path, text, made)
            for move, (local_call, what) in zip(redistributed.path.moves, local, strict=False):
                local_call = self._ended(local_call, value.type, move)
                self.lines += spell_statement(f"{made} = {local_call}", what)
            call = self.language.later.format(call[:-1])
            self.lines += spell_statement(f"{made} = {call}", f"begin {comment}")
            self.begun[value.name, redistributed.path.target] = made

    def expect(
        self, instructions: Sequence[LocalOperation | RedistributedValue | SentValue]
    ) -> None:
        """Notes upcoming sends, to begin each as soon as its value is computed."""
        for instruction in instructions:
            if not isinstance(instruction, RedistributedValue):
                continue
            if (number := self._bucket(instruction)) is not None:
                self.bucketed.setdefault(number, EmittedBucket()).members.append(instruction)
            elif (
                self.sending.overlap
                and instruction.value.type.elements
                and _sends_last(instruction.path, self.sizes)
            ):
                self.early.setdefault((instruction.value.name, instruction.path.source), []).append(
                    instruction
                )

    def move(self, redistributed: RedistributedValue) -> None:
        """Writes a redistribution, with its whole bucket if it is in a bucket."""
        if (redistributed.value.name, redistributed.path.target) in self.held:
            return
        number = self._bucket(redistributed)
        if number is not None:
            self._together(self.bucketed[number])
        else:
            self._by_itself(redistributed.value, redistributed.path)

    def _by_itself(self, value: Value, path: RedistributionPath) -> None:
        text = self.held[value.name, path.source]
        last = path.moves[-1] if path.moves else None
        made = self._name((value.name, path.target), MOVE_SUFFIXES[last.how]) if last else text
        if begun := self.begun.pop((value.name, path.target), None):
            comment = f"{last}: {value.type.sharded(path.target)}"
            call = self._ended(f"{begun}()", value.type, path.moves[-1])
            self.lines += spell_statement(f"{made} = {call}", comment)
        elif value.type.elements == 0:
            # XLA refuses to gather along a dimension without elements; nothing is to be sent.
            shape, dtype = part_shape(value.type, path.target, self.sizes), value.type.dtype
            call = self.language.empty.format(
                shape=shape, dtype=self.language.spelling.dtypes[dtype]
            )
            self.lines += spell_statement(f"{made} = {call}", value.type.sharded(path.target))
        else:
            self.sending.moves += path.moves
            calls = self._calls(value, path, text, made)
            for move, (call, comment) in zip(path.moves, calls, strict=True):
                call = self._ended(call, value.type, move)
                self.lines += spell_statement(f"{made} = {call}", comment)
        self.known[value.name, path.target] = made
        self.hold(value, path.target, made)

    def _bucket(self, redistributed: RedistributedValue) -> int | None:
        return self.sending.buckets.get((redistributed.value.name, redistributed.path.target))

    def _together(self, bucket: EmittedBucket) -> None:
        """Writes a bucket: all members end to end in one request, and their results."""
        _, path = flatten_bucket(bucket.members, self.sizes)
        texts = [self.held[member.value.name, member.path.source] for member in bucket.members]
        for at, move in enumerate(path.moves):
            names = [
                self._name((m.value.name, m.path.target), MOVE_SUFFIXES[path.moves[-1].how])
                for m in bucket.members
            ]
            if move.how in (MoveKind.SLICE, MoveKind.MASK):
                for member, text, made in zip(bucket.members, texts, names, strict=True):
                    self._alone(member, at, text, made)
            else:
                self._flat(bucket, at, texts, names)
            texts = names
        self.sending.moves += path.moves
        for member, text in zip(bucket.members, texts, strict=True):
            self.known[member.value.name, member.path.target] = text
            self.hold(member.value, member.path.target, text)

    def _alone(self, redistributed: RedistributedValue, at: int, text: str, made: str) -> None:
        """Writes a move of one member that does not communicate."""
        move = redistributed.path.moves[at]
        call = self._call(redistributed.value, move, text)
        self.lines += spell_statement(f"{made} = {call}", f"{move}")

    def _flat(self, bucket: EmittedBucket, at: int, texts: list[str], names: list[str]) -> None:
        """Writes a request of all members, which a device concatenates and splits again."""
        made = bucket.begun or self._sent_flat(bucket, at, texts)
        if bucket.begun:
            self.lines += spell_statement(f"{made} = {made}()")
        moves = [member.path.moves[at] for member in bucket.members]
        shapes = [
            part_shape(member.value.type, move.after, self.sizes)
            for member, move in zip(bucket.members, moves, strict=True)
        ]
        more = ""
        if moves[0].how is MoveKind.ALL_GATHER:
            more = f", {[move.leaves for move in moves]}, {self._parts(moves[0])}"
        left = spell_tuple(names)[1:-1]
        self.lines += spell_statement(f"{left} = parted({made}, {shapes}{more})", f"{moves[0]}")

    def _sent_flat(
        self, bucket: EmittedBucket, at: int, texts: list[str], later: str = "{0}"
    ) -> str:
        """Writes a request of all members end to end; returns the name of its result."""
        kind, path = flatten_bucket(bucket.members, self.sizes)
        move, moves = path.moves[at], [member.path.moves[at] for member in bucket.members]
        more = ""
        if move.how is MoveKind.REDUCE_SCATTER:
            dimensions = [
                member_move.after.lead if member_move.flattens else member_move.enters
                for member_move in moves
            ]
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
        """Yields the call of each move with its comment; all calls but the first read ``made``.

        A gathered flat value still has its padding, which ``_ended`` removes.
        """
        for move in path.moves:
            yield self._call(value, move, text), f"{move}: {value.type.sharded(move.after)}"
            text = made

    def _call(self, value: Value, move: ShardingMove, text: str) -> str:
        """Returns the call that executes a move; for a flat value, the move of its padded block."""
        block, inside = pad_move(move, value.type, self.sizes)
        given = self._flattened(text, move)
        kind = Type(block.dtype, part_shape(block, inside.before, self.sizes))
        call = self.sending.called(given, move, value.type)
        return call or self.language.move(given, inside, kind, self.sizes)

    def _flattened(self, text: str, move: ShardingMove) -> str:
        """Returns a value as the padded block that a move sends, unless it is flat already."""
        if move.before.flat or not move.after.flat:
            return text
        return f"flat_of({text}, {move.after.lead}, {self._parts(move)})"

    def _ended(self, call: str, value: Type, move: ShardingMove) -> str:
        """Returns a gathered flat value without its padding, in the shape of its block."""
        if not move.before.flat or move.after.flat:
            return call
        return f"unpadded({call}, {part_shape(value, move.after, self.sizes)})"

    def _begin(self, bucket: EmittedBucket) -> None:
        """Begins a request once all members are computed, if it is a single collective."""
        if not self.sending.overlap or bucket.begun:
            return
        keys = [(member.value.name, member.path.source) for member in bucket.members]
        path = bucket.members[0].path
        single = len(path.moves) == 1 and path.requests(self.sizes) == path.moves
        if single and all(key in self.held for key in keys):
            texts = [self.held[key] for key in keys]
            bucket.begun = self._sent_flat(bucket, 0, texts, self.language.later)

    def _name(self, key: Key, after: str = "") -> str:
        """Returns the name of a value, with a suffix if a move computes it."""
        if key not in self.known:
            self.known[key] = self.names.made(f"{key[0]}_{after}" if after else key[0])
        return self.known[key]


def members_of(program: StepProgram) -> Mapping[Key, int]:
    """Returns the number of the bucket of each member."""
    return {
        (member.value.name, member.path.target): number
        for number, bucket in enumerate(program.buckets)
        for member in map(program.instructions.__getitem__, bucket)
        if isinstance(member, RedistributedValue)
    }


def _sends_last(path: RedistributionPath, sizes: Mapping[str, int]) -> bool:
    """Returns whether the last move is the only collective, so it can be begun and waited for."""
    if not path.moves or path.requests(sizes) != path.moves[-1:]:
        return False
    return path.moves[-1].how is not MoveKind.PERMUTE
