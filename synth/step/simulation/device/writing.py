"""Writes the tasks of a device: a program in groups, loops written out."""

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
from synth.step.sharding.program import EVERYWHERE
from synth.step.simulation.device.loops import body_of
from synth.step.simulation.device.sends import RedistributionSeconds, RedistributionWriter
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
    Key,
    LoopBody,
    OperationGrouping,
    Sizes,
    name_task,
)
from synth.step.simulation.kinds import BufferKind, kinds_of, moved_kind

SectionSeconds = Callable[[Section], float]
"""Seconds of a section on one device: operands and results are what that device has."""


def write_device(
    step: Step,
    plan: Plan,
    program: StepProgram,
    computing: SectionSeconds,
    sending: RedistributionSeconds,
    overlap: Overlap | None = None,
    grouping: OperationGrouping | None = None,
) -> DeviceTasks:
    """The tasks of a program, which is what ``plan`` makes of ``step`` (as prepared for it).

    ``grouping``: which operations are one task; if None, all between two redistributions.
    """
    overlap = overlap or Overlap()
    grouping = grouping or grouping_of(plan, overlap)
    tape = Tape(grouping.bytes_of)
    sends = RedistributionWriter(tape, plan, sending, overlap)
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
    """Which operations are one task: all between two redistributions, or, not ``whole``, each.

    ``unstored``: shapes of values that are never in memory, sorted. ``measured``: seconds of
    operations of the program, as ``OperationGrouping`` has them.
    """
    sizes = Sizes(plan.parts, unstored)
    return OperationGrouping(plan.parts, plan.sizes, whole, overlap.sends, sizes, measured)


@dataclass
class _TaskWriter:
    """Writes on a tape; ``received`` are values that other stages made."""

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
        for value, lies, home in zip(step.graph.inputs, program.inputs, homes, strict=True):
            number = tape.buffer(value.name, value.type, lies, kinds[value.name], -1)
            tape.buffers[number].kept = True
            tape.buffers[number].home = home
            scope[value.name, lies] = (BufferedValue((number,), ()),)
        outputs = [
            (one.name, lies)
            for one, lies in zip(step.graph.outputs, program.outputs, strict=True)
            if isinstance(one, Value)
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
        into = {out for out, _ in step.updates}
        for at, (output, lies) in enumerate(zip(step.graph.outputs, program.outputs, strict=True)):
            if not isinstance(output, Value):
                continue
            for number in buffers_of(self._there((output.name, lies), scope)):
                made = tape.buffers[number]
                made.kept = True
                if at in into and made.maker >= 0:
                    made.size_bytes = 0

    def _item(
        self, item: Item, scope: Scope, kinds: Mapping[str, BufferKind], unit: int | None
    ) -> None:
        """``unit``: the place among its stage's of the iteration that this is."""
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
        """A value as this stage has it."""
        if self.received:
            here = self.received.get(self.tape.place.stage)
            if here is not None and key in here:
                return here[key]
        return scope[key]

    def _there(self, key: Key, scope: Scope) -> tuple[BufferedValue, ...]:
        """A value in one piece or several, put together if it was not."""
        found = self._find(key, scope)
        if isinstance(found, DeferredStack):
            found = scope[key] = (self._put_together(found, None, None),)
        return found

    def _put_together(
        self, one: DeferredStack, layers: int | None, unit: int | None
    ) -> BufferedValue:
        """A slice of it, of so many, or all of it."""
        target = one.moved.path.target if layers is None else slice_sharding(one.moved.path.target)
        held = self.sends.sent(one.moved, one.held, unit, sliced=layers is not None)
        for group, value in one.casts:
            task = self._task(group.name, group.section, (held,), layers or 1)
            kind = value.type if layers is None else slice_type(value.type)
            held = self.tape.made(value.name, kind, target, BufferKind.GATHERED, task)
        return held

    def _task(
        self, name: str, section: Section, read: Sequence[BufferedValue], slices: int = 1
    ) -> int:
        """A section computed, or one of its ``slices``."""
        if id(section) not in self.priced:
            self.priced[id(section)] = section, self.computing(section)
        seconds, measured = self.priced[id(section)][1], section.measured.seconds
        return self.tape.task(name, COMPUTE, seconds / slices, read, measured=measured / slices)

    def _operate(
        self, group: GroupedOperations, scope: Scope, kinds: Mapping[str, BufferKind]
    ) -> None:
        waits = group.casts and self._casts(group, scope, kinds)
        task = -1 if waits else self._compute(group, scope, kinds)
        again = {} if waits else group.remade
        views: dict[Key, list[Key]] = {key: [key] for key in again}
        for new, old in group.aliases:
            if old in again:
                views[old].append(new)
            else:
                scope[new] = self._find(old, scope)
        for value, lies in group.makes:
            for key in views.get((value.name, lies), ()):
                size = self.grouping.bytes_of(value.type, key[1])
                made = self._made_of(again[value.name, lies], size, (task,), scope)
                scope[key] = (made,)

    def _compute(
        self, group: GroupedOperations, scope: Scope, kinds: Mapping[str, BufferKind]
    ) -> int:
        tape = self.tape
        read = [one for key in group.reads for one in self._there(key, scope)]
        task = self._task(group.name, group.section, read)
        working = group.working_bytes + sum(one.remade_bytes for one in read)
        if working:
            tape.buffers.append(Buffer(group.name, BufferKind.WORKING, working, task))
        for value, lies in group.makes:
            if (value.name, lies) not in group.remade:
                made = tape.made(value.name, value.type, lies, kinds[value.name], task)
                scope[value.name, lies] = (made,)
        return task

    def _casts(
        self, group: GroupedOperations, scope: Scope, kinds: Mapping[str, BufferKind]
    ) -> bool:
        """Whether a cast of a stack is no task.

        Of one that is put together later it waits; of one that a loop makes, the loop does it, so
        that slices of gradients may be sent while other layers compute.
        """
        found = self._find(group.reads[0], scope)
        [(value, lies)] = group.makes
        if isinstance(found, DeferredStack):
            scope[value.name, lies] = replace(found, casts=(*found.casts, (group, value)))
            return True
        if len(found) < 2 or not self.grouping.whole:
            return False
        kind, lain, use = slice_type(value.type), slice_sharding(lies), kinds[value.name]
        made = []
        for held in found:
            number = self.tape.buffer(value.name, kind, lain, use, max(held.makers))
            made.append(BufferedValue((number,), held.makers))
        scope[value.name, lies] = tuple(made)
        return True

    def _hand(self, one: SentValue, scope: Scope) -> None:
        """To another stage, where it is received without any work."""
        if one.target == EVERYWHERE:
            return
        tape, key = self.tape, (one.value.name, one.sharding)
        held = self._there(key, scope)
        size = self.grouping.bytes_of(one.value.type, one.sharding)
        before, once = tape.place, tape.place.when in ONCE_PHASES
        turns = [tape.tasks[maker].turn for many in held for maker in many.makers]
        turn = max(turns, default=0) if once else 0
        handed = StageSend(one.source, one.target, before.when, turn)
        self.handed[handed] = self.handed.get(handed, 0) + size
        tape.place = InstructionPlace(one.target, before.when)
        task = tape.task(f"receive {one.value.name}", COMPUTE, 0.0, (), turn=turn + once)
        kind = moved_kind(tape.buffers[held[0].buffers[0]].kind)
        made = tape.made(one.value.name, one.value.type, one.sharding, kind, task)
        self.received.setdefault(one.target, {})[key] = (made,)
        tape.place = before

    def _move(self, one: RedistributedValue, scope: Scope, unit: int | None) -> None:
        """A stack is sent slice by slice where its first dimension stays as it is."""
        value, path = one.value, one.path
        if not path.requests(self.grouping.sizes):
            scope[value.name, path.target] = self._find((value.name, path.source), scope)
            return
        found = self._there((value.name, path.source), scope)
        rows = slices_alike(path.source) and slices_alike(path.target)
        made_here = any(held.makers for held in found)
        ahead = self.sends.overlap.prefetch is not None
        later = rows and ahead and self.sends.given(join_pieces(found))
        if unit is None and later and (not made_here or self.tape.place is SINGLE_PLACE):
            kept: dict[int, BufferedValue] | None = {} if made_here else None
            scope[value.name, path.target] = DeferredStack(one, join_pieces(found), kept=kept)
            return
        sliced = len(found) > 1 and rows
        tape, made = self.tape, []
        within = tape.layer
        for layer, held in enumerate(found if sliced else (join_pieces(found),)):
            tape.layer = layer if sliced and within < 0 else within
            made.append(self.sends.sent(one, held, unit, sliced=sliced))
        tape.layer = within
        scope[value.name, path.target] = tuple(made)

    def _together(self, several: Sequence[RedistributedValue], scope: Scope) -> None:
        """The members of a bucket, once all are made; of stacks those of some layers at once."""
        held = [self._there((one.value.name, one.path.source), scope) for one in several]
        layers = len(held[0])
        rows = all(
            slices_alike(one.path.source) and slices_alike(one.path.target) for one in several
        )
        if not rows or {len(many) for many in held} != {layers}:
            held, layers = [(join_pieces(many),) for many in held], 1
        tape, within, some = self.tape, self.tape.layer, self.sends.plan.bucket_layers
        made: list[list[BufferedValue]] = [[*many] for many in held]
        order = sorted(range(layers), key=lambda at: max(max(many[at].makers) for many in held))
        for first in range(0, layers, some):
            run = order[first : first + some]
            tape.layer = run[-1] if layers > 1 and within < 0 else within
            slices = [[many[at] for at in run] for many in held]
            sent = self.sends.together(several, slices, layers)
            for whole, arrived in zip(made, sent, strict=True):
                for at, one in zip(run, arrived, strict=True):
                    whole[at] = one
        tape.layer = within
        for moved, whole in zip(several, made, strict=True):
            scope[_key_of(moved)] = tuple(whole)

    def _loop(self, one: LocalOperation, scope: Scope, kinds: Mapping[str, BufferKind]) -> None:
        tape, loop = self.tape, one.operation
        length, reverse = int(str(loop.parameter["length"])), loop.parameter.get("reverse") is True
        divided = scan_operands_of(loop.parameter)
        kept = divided.constants + divided.carried
        given = self._given(loop.operands, one, scope, kept)
        body = self._body(one, given, kinds)
        carried = given[divided.constants : kept]
        stacks: list[list[BufferedValue]] = [[] for _ in loop.results[divided.carried :]]
        within = tape.layer
        for at in range(length)[::-1] if reverse else range(length):
            tape.layer = at if within < 0 else within
            unit = tape.unit()
            slices = [self._slice_of(many, at, length, unit) for many in given[kept:]]
            entering = (*given[: divided.constants], *carried, *slices)
            local: Scope = dict(zip(body.entering, entering, strict=True))
            for item in body.items:
                self._item(item, local, body.kinds, unit)
            made = [self._there(key, local) if key in local else () for key in body.ends]
            carried = [*made[: divided.carried]]
            stacked = body.ends[divided.carried :]
            for stack, several, key in zip(stacks, made[divided.carried :], stacked, strict=True):
                stack.append(self._kept(join_pieces(several), body.fresh.get(key), local, body))
        tape.layer = within
        if (own := self.grouping.own_work(one)) is not None:
            done = [many for many in carried if not isinstance(many, DeferredStack)]
            self._task(name_task(loop), own, [held for many in (*done, *stacks) for held in many])
        results = [*carried, *(tuple(stack[::-1] if reverse else stack) for stack in stacks)]
        for value, lies, many in zip(loop.results, one.how.results, results, strict=True):
            scope[value.name, lies] = many

    def _given(
        self, operands: Sequence[Operand], one: LocalOperation, scope: Scope, kept: int
    ) -> list[Stack]:
        """What comes into a loop: what it scans may be put together slice by slice."""
        given: list[Stack] = []
        for at, key in enumerate(zip(map(str, operands), one.how.operands, strict=True)):
            if not isinstance(operands[at], Value) or key not in scope:
                given.append(())
            else:
                given.append(self._there(key, scope) if at < kept else self._find(key, scope))
        return given

    def _body(
        self, one: LocalOperation, given: Sequence[Stack], kinds: Mapping[str, BufferKind]
    ) -> LoopBody:
        """What compiled code alone makes again; what adds up over microbatches is there."""
        absent = tuple(many == () for many in given)
        there: tuple[bool, ...] | None = None
        if self.grouping.whole and self.tape.place.when is not StepPhase.BACKWARD:
            divided = scan_operands_of(one.operation.parameter)
            carries = range(divided.constants, divided.constants + divided.carried)
            there = tuple(
                at not in carries and not isinstance(many, DeferredStack) and self._stays(many)
                for at, many in enumerate(given)
            )
        assert one.operation.body is not None
        inputs = {
            value.name: many[0].sources
            for value, many in zip(one.operation.body.inputs, given, strict=True)
            if not isinstance(many, DeferredStack) and many and many[0].sources
        }
        return body_of(one, absent, there, kinds, self.grouping, inputs)

    def _stays(self, many: Sequence[BufferedValue]) -> bool:
        """Whether it is a parameter, a copy of one that is kept, or made where it is read."""
        kept = (BufferKind.PARAMETERS, BufferKind.COPIES, BufferKind.INPUTS)
        return all(self.tape.buffers[number].kind in kept for number in buffers_of(many))

    def _kept(
        self, one: BufferedValue, roots: Sequence[Key] | None, local: Scope, body: LoopBody
    ) -> BufferedValue:
        """A slice of a stack, or what it is made of again."""
        if roots is None:
            return one
        size = sum(self.tape.buffers[number].size_bytes for number in one.buffers)
        values = body.of[0].values
        sources = tuple(self.grouping.part_of(values[name], lies) for name, lies in roots)
        return self._made_of(roots, size, one.makers, local)._replace(sources=sources)

    def _made_of(
        self, roots: Sequence[Key], size: int, makers: tuple[int, ...], scope: Scope
    ) -> BufferedValue:
        """What is no buffer but computed again, the largest of its roots first: it is of its kind.

        Constants are no roots: who reads one makes it.
        """
        buffers = self.tape.buffers
        held = [each for key in roots if key in scope for each in self._there(key, scope)]
        largest = sorted(buffers_of(held), key=lambda number: -buffers[number].size_bytes)
        return BufferedValue(tuple(largest), makers, size)

    def _slice_of(self, many: Stack, at: int, length: int, unit: int) -> Stack:
        if isinstance(many, DeferredStack):
            kept = {} if many.kept is None else many.kept
            if at not in kept:
                kept[at] = self._put_together(many, length, unit)
            return (kept[at],)
        return (many[at],) if len(many) == length else many


def _key_of(one: RedistributedValue) -> Key:
    return one.value.name, one.path.target


def _buckets_of(program: StepProgram) -> Mapping[Key, int]:
    """Of each member of a bucket of how many it is one."""
    members = ((len(some), program.instructions[at]) for some in program.buckets for at in some)
    return {_key_of(one): count for count, one in members if isinstance(one, RedistributedValue)}
