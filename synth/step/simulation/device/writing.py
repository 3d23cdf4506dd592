"""Writes the tasks of a device: the groups of a program, with loops written out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from grammar.tensors.operations import Operand, Step, Value
from synth.compute import Estimate, Section
from synth.step.sharding import (
    InstructionPlace,
    LocalOperation,
    Plan,
    RedistributedValue,
    SentValue,
    StepPhase,
    StepProgram,
)
from synth.step.sharding.plan import scan_operands_of, slices_alike
from synth.step.sharding.program import EVERYWHERE, Key
from synth.step.simulation.device.loops import body_of
from synth.step.simulation.device.sends import (
    LinkOccupancy,
    RedistributionSeconds,
    RedistributionWriter,
    occupy_nothing,
)
from synth.step.simulation.device.tape import ONCE_PHASES, SINGLE_PLACE, Tape
from synth.step.simulation.device.tasks import COMPUTE, Buffer, DeviceTasks, Overlap, StageSend
from synth.step.simulation.device.values import (
    BufferedValue,
    DeferredStack,
    Scope,
    Stack,
    buffers_of,
    join_pieces,
    slice_sharding,
    slice_type,
)
from synth.step.simulation.groups import (
    GroupedOperations,
    Item,
    LoopBody,
    OperationGrouping,
    Sizes,
    name_task,
)
from synth.step.simulation.kinds import BufferKind, kinds_of, moved_kind

SectionSeconds = Callable[[Section], float]
"""Maps a section to its seconds on one device; its operands and results are that device's parts."""


def write_device(
    step: Step,
    plan: Plan,
    program: StepProgram,
    computing: SectionSeconds,
    sending: RedistributionSeconds,
    overlap: Overlap | None = None,
    grouping: OperationGrouping | None = None,
    occupancy: LinkOccupancy = occupy_nothing,
) -> DeviceTasks:
    """Writes the tasks of the program that ``plan`` makes of ``step``, prepared for the plan.

    ``grouping``: decides which operations are one task; if None, all between two redistributions.
    ``occupancy``: the links that redistributions keep busy, by which those at once slow each other.
    """
    overlap = overlap or Overlap()
    grouping = grouping or grouping_of(plan, overlap)
    tape = Tape(grouping.bytes_of)
    sends = RedistributionWriter(tape, plan, sending, overlap, occupancy)
    writer = _TaskWriter(tape, sends, computing, grouping)
    writer.write(step, program)
    return DeviceTasks(tuple(tape.tasks), tuple(tape.buffers), writer.handed)


def grouping_of(
    plan: Plan,
    overlap: Overlap,
    *,
    whole: bool = True,
    unstored: Collection[tuple[int, ...]] = (),
    measured: Mapping[int, Estimate] = MappingProxyType({}),
) -> OperationGrouping:
    """Returns a grouping of all operations between two redistributions.

    If not ``whole``, each operation is a group of its own. ``unstored``: sorted shapes of values
    that are never in memory. ``measured``: seconds of operations, as in ``OperationGrouping``.
    """
    sizes = Sizes(plan.parts, unstored)
    return OperationGrouping(plan.parts, plan.sizes, whole, overlap.sends, sizes, measured)


@dataclass
class _TaskWriter:
    """A writer of tasks on a tape; ``received``: for each stage, values from other stages."""

    tape: Tape
    sends: RedistributionWriter
    computing: SectionSeconds
    grouping: OperationGrouping
    received: dict[int, dict[Key, Stack]] = field(default_factory=dict)
    handed: dict[StageSend, int] = field(default_factory=dict)
    priced: dict[int, tuple[Section, float]] = field(default_factory=dict)

    def write(self, step: Step, program: StepProgram) -> None:
        tape, kinds = self.tape, kinds_of(step)
        scope: Scope = {}
        homes = program.homes or (0,) * len(program.inputs)
        for value, sharding, home in zip(step.graph.inputs, program.inputs, homes, strict=True):
            number = tape.buffer(value.name, value.type, sharding, kinds[value.name], -1)
            tape.buffers[number].kept = True
            tape.buffers[number].home = home
            scope[value.name, sharding] = (BufferedValue((number,), ()),)
        outputs = [
            (output.name, sharding)
            for output, sharding in zip(step.graph.outputs, program.outputs, strict=True)
            if isinstance(output, Value)
        ]
        buckets = _buckets_of(program)
        waiting: list[RedistributedValue] = []
        for item, place in self.grouping.of(step.graph, program, outputs):
            tape.place = place or SINGLE_PLACE
            bucket = buckets.get(_key_of(item), 0) if isinstance(item, RedistributedValue) else 0
            if not bucket:
                self._item(item, scope, kinds, None)
                continue
            assert isinstance(item, RedistributedValue)
            waiting.append(item)
            if len(waiting) == bucket:
                self._together(waiting, scope)
                waiting = []
        updated = {out for out, _ in step.updates}
        outs = zip(step.graph.outputs, program.outputs, strict=True)
        for at, (output, sharding) in enumerate(outs):
            if not isinstance(output, Value):
                continue
            for number in buffers_of(self._there((output.name, sharding), scope)):
                buffer = tape.buffers[number]
                buffer.kept = True
                # An updated parameter or moment is written in place of the old, so it is free.
                if at in updated and buffer.maker >= 0:
                    buffer.size_bytes = 0

    def _item(
        self, item: Item, scope: Scope, kinds: Mapping[str, BufferKind], unit: int | None
    ) -> None:
        """Writes an item; ``unit``: the index of this iteration on its stage."""
        match item:
            case GroupedOperations():
                self._operate(item, scope, kinds)
            case RedistributedValue():
                self._move(item, scope, unit)
            case SentValue():
                self._hand(item, scope)
            case LocalOperation():
                self._loop(item, scope, kinds)

    def _find(self, key: Key, scope: Scope) -> Stack:
        """Returns a value as this stage holds it."""
        if self.received:
            here = self.received.get(self.tape.place.stage)
            if here is not None and key in here:
                return here[key]
        return scope[key]

    def _there(self, key: Key, scope: Scope) -> tuple[BufferedValue, ...]:
        """Returns the pieces of a value, which is gathered now if it was deferred."""
        value = self._find(key, scope)
        if isinstance(value, DeferredStack):
            value = scope[key] = (self._put_together(value, None, None),)
        return value

    def _put_together(
        self, stack: DeferredStack, layers: int | None, unit: int | None
    ) -> BufferedValue:
        """Gathers a slice of a stack of ``layers`` slices, or the whole stack if None."""
        target = (
            stack.moved.path.target if layers is None else slice_sharding(stack.moved.path.target)
        )
        held = self.sends.sent(stack.moved, stack.held, unit, sliced=layers is not None)
        for group, value in stack.casts:
            task = self._task(group.name, group.section, (held,), layers or 1)
            kind = value.type if layers is None else slice_type(value.type)
            held = self.tape.made(value.name, kind, target, BufferKind.GATHERED, task)
        return held

    def _task(
        self, name: str, section: Section, read: Sequence[BufferedValue], slices: int = 1
    ) -> int:
        """Appends the task of a section, or of a single one of its ``slices``."""
        if id(section) not in self.priced:
            # The section is kept as well: its id could be reused if it were freed.
            self.priced[id(section)] = section, self.computing(section)
        seconds, measured = self.priced[id(section)][1], section.measured.seconds
        return self.tape.task(name, COMPUTE, seconds / slices, read, measured=measured / slices)

    def _operate(
        self, group: GroupedOperations, scope: Scope, kinds: Mapping[str, BufferKind]
    ) -> None:
        deferred = group.casts and self._casts(group, scope, kinds)
        task = -1 if deferred else self._compute(group, scope, kinds)
        remade = {} if deferred else group.remade
        views: dict[Key, list[Key]] = {key: [key] for key in remade}
        for new, old in group.aliases:
            if old in remade:
                views[old].append(new)
            else:
                scope[new] = self._find(old, scope)
        for value, sharding in group.makes:
            for key in views.get((value.name, sharding), ()):
                size = self.grouping.bytes_of(value.type, key[1])
                made = self._made_of(remade[value.name, sharding], size, (task,), scope)
                scope[key] = (made,)

    def _compute(
        self, group: GroupedOperations, scope: Scope, kinds: Mapping[str, BufferKind]
    ) -> int:
        tape = self.tape
        read = [value for key in group.reads for value in self._there(key, scope)]
        task = self._task(group.name, group.section, read)
        working = group.working_bytes + sum(value.remade_bytes for value in read)
        if working:
            tape.buffers.append(Buffer(group.name, BufferKind.WORKING, working, task))
        for value, sharding in group.makes:
            if (value.name, sharding) not in group.remade:
                made = tape.made(value.name, value.type, sharding, kinds[value.name], task)
                scope[value.name, sharding] = (made,)
        return task

    def _casts(
        self, group: GroupedOperations, scope: Scope, kinds: Mapping[str, BufferKind]
    ) -> bool:
        """Whether a cast of a stack needs no task of its own.

        If the stack is deferred, so is the cast. If a loop makes the stack, the loop casts, so that
        slices of gradients can be sent while other layers compute.
        """
        pieces = self._find(group.reads[0], scope)
        [(value, sharding)] = group.makes
        if isinstance(pieces, DeferredStack):
            scope[value.name, sharding] = replace(pieces, casts=(*pieces.casts, (group, value)))
            return True
        if len(pieces) < 2 or not self.grouping.whole:
            return False
        kind, inner, use = slice_type(value.type), slice_sharding(sharding), kinds[value.name]
        made = []
        for held in pieces:
            number = self.tape.buffer(value.name, kind, inner, use, max(held.makers))
            made.append(BufferedValue((number,), held.makers))
        scope[value.name, sharding] = tuple(made)
        return True

    def _hand(self, sent: SentValue, scope: Scope) -> None:
        """Writes the transfer of a value to another stage, which takes no work to receive."""
        if sent.target == EVERYWHERE:
            return
        tape, key = self.tape, (sent.value.name, sent.sharding)
        held = self._there(key, scope)
        size = self.grouping.bytes_of(sent.value.type, sent.sharding)
        here, is_once = tape.place, tape.place.when in ONCE_PHASES
        turns = [tape.tasks[maker].turn for piece in held for maker in piece.makers]
        turn = max(turns, default=0) if is_once else 0
        handed = StageSend(sent.source, sent.target, here.when, turn)
        self.handed[handed] = self.handed.get(handed, 0) + size
        tape.place = InstructionPlace(sent.target, here.when)
        task = tape.task(f"receive {sent.value.name}", COMPUTE, 0.0, (), turn=turn + is_once)
        kind = moved_kind(tape.buffers[held[0].buffers[0]].kind)
        made = tape.made(sent.value.name, sent.value.type, sent.sharding, kind, task)
        self.received.setdefault(sent.target, {})[key] = (made,)
        tape.place = here

    def _move(self, redistributed: RedistributedValue, scope: Scope, unit: int | None) -> None:
        """Redistributes a value; a stack slice by slice if its first dimension is unchanged."""
        value, path = redistributed.value, redistributed.path
        if not path.requests(self.grouping.sizes):
            scope[value.name, path.target] = self._find((value.name, path.source), scope)
            return
        pieces = self._there((value.name, path.source), scope)
        rows = slices_alike(path.source) and slices_alike(path.target)
        made_here = any(held.makers for held in pieces)
        prefetches = self.sends.overlap.prefetch is not None
        can_defer = rows and prefetches and self.sends.given(join_pieces(pieces))
        if unit is None and can_defer and (not made_here or self.tape.place is SINGLE_PLACE):
            kept: dict[int, BufferedValue] | None = {} if made_here else None
            scope[value.name, path.target] = DeferredStack(
                redistributed, join_pieces(pieces), kept=kept
            )
            return
        sliced = len(pieces) > 1 and rows
        tape, made = self.tape, []
        within = tape.layer
        for layer, held in enumerate(pieces if sliced else (join_pieces(pieces),)):
            tape.layer = layer if sliced and within < 0 else within
            made.append(self.sends.sent(redistributed, held, unit, sliced=sliced))
        tape.layer = within
        scope[value.name, path.target] = tuple(made)

    def _together(self, bucket: Sequence[RedistributedValue], scope: Scope) -> None:
        """Sends a bucket once all members are made; stacks in slices of several layers at once."""
        held = [self._there((one.value.name, one.path.source), scope) for one in bucket]
        layers = len(held[0])
        rows = all(
            slices_alike(one.path.source) and slices_alike(one.path.target) for one in bucket
        )
        if not rows or {len(pieces) for pieces in held} != {layers}:
            held, layers = [(join_pieces(pieces),) for pieces in held], 1
        tape, within, layers_at_once = self.tape, self.tape.layer, self.sends.plan.bucket_layers
        made: list[list[BufferedValue]] = [[*pieces] for pieces in held]
        order = sorted(
            range(layers), key=lambda layer: max(max(pieces[layer].makers) for pieces in held)
        )
        for first in range(0, layers, layers_at_once):
            run = order[first : first + layers_at_once]
            tape.layer = run[-1] if layers > 1 and within < 0 else within
            slices = [[pieces[layer] for layer in run] for pieces in held]
            results = self.sends.together(bucket, slices, layers)
            for whole, arrived in zip(made, results, strict=True):
                for layer, value in zip(run, arrived, strict=True):
                    whole[layer] = value
        tape.layer = within
        for redistributed, whole in zip(bucket, made, strict=True):
            scope[_key_of(redistributed)] = tuple(whole)

    def _loop(self, one: LocalOperation, scope: Scope, kinds: Mapping[str, BufferKind]) -> None:
        tape, loop = self.tape, one.operation
        length, reverse = int(str(loop.parameter["length"])), loop.parameter.get("reverse") is True
        operands = scan_operands_of(loop.parameter)
        kept = operands.constants + operands.carried
        given = self._given(loop.operands, one, scope, kept)
        body = self._body(one, given, kinds)
        carried = given[operands.constants : kept]
        stacks: list[list[BufferedValue]] = [[] for _ in loop.results[operands.carried :]]
        within = tape.layer
        for at in range(length)[::-1] if reverse else range(length):
            tape.layer = at if within < 0 else within
            unit = tape.unit()
            slices = [self._slice_of(stack, at, length, unit) for stack in given[kept:]]
            entering = (*given[: operands.constants], *carried, *slices)
            local: Scope = dict(zip(body.entering, entering, strict=True))
            for item in body.items:
                self._item(item, local, body.kinds, unit)
            made = [self._there(key, local) if key in local else () for key in body.ends]
            carried = [*made[: operands.carried]]
            stacked = body.ends[operands.carried :]
            for stack, pieces, key in zip(stacks, made[operands.carried :], stacked, strict=True):
                stack.append(self._kept(join_pieces(pieces), body.fresh.get(key), local, body))
        tape.layer = within
        if (own := self.grouping.own_work(one)) is not None:
            done = [stack for stack in carried if not isinstance(stack, DeferredStack)]
            self._task(
                name_task(loop), own, [piece for stack in (*done, *stacks) for piece in stack]
            )
        results = [*carried, *(tuple(stack[::-1] if reverse else stack) for stack in stacks)]
        for value, sharding, result in zip(loop.results, one.how.results, results, strict=True):
            scope[value.name, sharding] = result

    def _given(
        self, operands: Sequence[Operand], loop: LocalOperation, scope: Scope, kept: int
    ) -> list[Stack]:
        """Returns the inputs of a loop; inputs that it scans may be deferred."""
        given: list[Stack] = []
        for at, key in enumerate(zip(map(str, operands), loop.how.operands, strict=True)):
            if not isinstance(operands[at], Value) or key not in scope:
                given.append(())
            else:
                given.append(self._there(key, scope) if at < kept else self._find(key, scope))
        return given

    def _body(
        self, loop: LocalOperation, given: Sequence[Stack], kinds: Mapping[str, BufferKind]
    ) -> LoopBody:
        """Groups a loop's body.

        Only compiled code recomputes values, and not in backward passes, where gradients are
        summed.
        """
        absent = tuple(stack == () for stack in given)
        there: tuple[bool, ...] | None = None
        if self.grouping.whole and self.tape.place.when is not StepPhase.BACKWARD:
            operands = scan_operands_of(loop.operation.parameter)
            carries = range(operands.constants, operands.constants + operands.carried)
            there = tuple(
                at not in carries and not isinstance(stack, DeferredStack) and self._stays(stack)
                for at, stack in enumerate(given)
            )
        assert loop.operation.body is not None
        inputs = {
            value.name: stack[0].sources
            for value, stack in zip(loop.operation.body.inputs, given, strict=True)
            if not isinstance(stack, DeferredStack) and stack and stack[0].sources
        }
        return body_of(loop, absent, there, kinds, self.grouping, inputs)

    def _stays(self, pieces: Sequence[BufferedValue]) -> bool:
        """Whether a value stays in memory, as a parameter, copy or input, or is a constant."""
        kept = (BufferKind.PARAMETERS, BufferKind.COPIES, BufferKind.INPUTS)
        return all(self.tape.buffers[number].kind in kept for number in buffers_of(pieces))

    def _kept(
        self, piece: BufferedValue, roots: Sequence[Key] | None, local: Scope, body: LoopBody
    ) -> BufferedValue:
        """Returns a slice of a stack, or a value that is recomputed from its sources."""
        if roots is None:
            return piece
        size = sum(self.tape.buffers[number].size_bytes for number in piece.buffers)
        values = body.of[0].values
        sources = tuple(self.grouping.part_of(values[name], sharding) for name, sharding in roots)
        return self._made_of(roots, size, piece.makers, local)._replace(sources=sources)

    def _made_of(
        self, roots: Sequence[Key], size: int, makers: tuple[int, ...], scope: Scope
    ) -> BufferedValue:
        """Returns a recomputed value; its largest root comes first and determines its kind.

        Constants are not roots, because their readers make them.
        """
        buffers = self.tape.buffers
        held = [piece for key in roots if key in scope for piece in self._there(key, scope)]
        largest = sorted(buffers_of(held), key=lambda number: -buffers[number].size_bytes)
        return BufferedValue(tuple(largest), makers, size)

    def _slice_of(self, stack: Stack, at: int, length: int, unit: int) -> Stack:
        if isinstance(stack, DeferredStack):
            kept = {} if stack.kept is None else stack.kept
            if at not in kept:
                kept[at] = self._put_together(stack, length, unit)
            return (kept[at],)
        return (stack[at],) if len(stack) == length else stack


def _key_of(redistributed: RedistributedValue) -> Key:
    return redistributed.value.name, redistributed.path.target


def _buckets_of(program: StepProgram) -> Mapping[Key, int]:
    """Returns the number of members of each member's bucket."""
    members = ((len(some), program.instructions[at]) for some in program.buckets for at in some)
    return {_key_of(one): count for count, one in members if isinstance(one, RedistributedValue)}
