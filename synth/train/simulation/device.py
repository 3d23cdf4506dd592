"""What one device does in a step, as tasks on streams: groups of operations, and what is sent.

All devices of a stage do the same, so one stands for all. The program says on which stage a task is
done, and when; with microbatches tasks are those of one of them. A loop is written out, group by
group, as what one layer sends may run beside what another computes; of a stack that a loop makes
every slice is a value of its own, which is there, and may be sent, when its iteration is done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from grammar.tensors.operations import Graph, Step, Value
from grammar.tensors.sharding import Sharding, Type
from synth.compute import Section
from synth.events.longest_path import Arranged, arranged
from synth.train.plans import Done, Moved, Place, Plan, Program, Sent, When
from synth.train.plans.buckets import flat
from synth.train.plans.plan import TIME, loop_of
from synth.train.plans.program import EVERYWHERE
from synth.train.resharding import How, Move
from synth.train.simulation.groups import CAST, Group, Grouping, Item, Key, Sizes, named
from synth.train.simulation.kinds import Kind, kinds_inside, kinds_of, moved_kind
from synth.train.simulation.remade import remade

COMPUTE = "compute"
ALONE = Place(0, When.BEFORE)
"""Where everything is done of a program without places."""

Computing = Callable[[Section], float]
"""Seconds of a section on one device: operands and results are what that device has."""

Sending = Callable[[Type, Sharding, Sharding], float]
"""Seconds until a value lies otherwise, on all devices: its type, and how it lay and is to lie."""


@dataclass(frozen=True)
class Overlap:
    """What is sent beside compute, on streams of its own, one for each set of axes.

    ``sends``: what is made in the step is sent as soon as it is made; else where it is first read,
    on the compute stream. ``prefetch``: inputs, and copies of parameters, are put together so many
    layers before they are read (FSDP: 1), or, outside of loops, so many redistributions before;
    None, on the compute stream. Slices of a layer's parameters are let go when it is done, and put
    together again where they are read again, if they are prefetched.
    """

    sends: bool = False
    prefetch: int | None = None


@dataclass(frozen=True)
class Task:
    """What a device does at one time on one stream; ``request``, what it sends, or nothing.

    ``place`` is that of its instruction. ``issue``: how many tasks of compute come before it on its
    stage. ``turn``: of what is done once, how often something was sent from stage to stage before.
    ``layer`` is the iteration of the loop that it is part of, or whose slice it sends; -1, of none.
    ``moves``: what is sent, as a type and the moves that send something.
    """

    name: str
    stream: str
    seconds: float
    before: tuple[int, ...]
    place: Place
    issue: int
    reads: tuple[int, ...] = ()
    request: str = ""
    layer: int = -1
    turn: int = 0
    moves: tuple[Type, tuple[Move, ...]] | None = None


@dataclass(frozen=True)
class Held:
    """A value as some tasks leave it, in some buffers.

    ``remade_bytes``: it is none of these, but who reads it makes so many bytes of them.
    """

    buffers: tuple[int, ...]
    makers: tuple[int, ...]
    remade_bytes: int = 0


@dataclass(frozen=True)
class Deferred:
    """A stack of inputs that is put together slice by slice, where a loop reads it.

    ``casts`` are what is done to it then, each with its result. ``kept``: the slices so far of what
    is put together once; None if it is let go with its layer.
    """

    moved: Moved
    held: Held
    casts: tuple[tuple[Group, Value], ...] = ()
    kept: dict[int, Held] | None = None


Stack = tuple[Held, ...] | Deferred
"""A value: one piece, or of what a loop stacks one for each iteration."""

Scope = dict[Key, Stack]


@dataclass
class Buffer:
    """A part of a value in memory; ``maker`` is the task that makes it, -1 for inputs.

    ``kept``: until the end of the step; ``home``: the stage that an input lies on.
    """

    name: str
    kind: Kind
    size_bytes: int
    maker: int
    kept: bool = False
    home: int = EVERYWHERE


@dataclass(frozen=True)
class Handed:
    """Bytes that a device of a stage hands to its twin on another, at one time."""

    source: int
    target: int
    when: When
    turn: int


@dataclass(frozen=True)
class Device:
    """Tasks, after what they wait for, in their order on each stream; and buffers they use.

    ``handed``: what goes from stage to stage, in bytes. Of several stages it is no device that
    could be timed, but what ``Passes`` takes apart.
    """

    tasks: tuple[Task, ...]
    streams: Mapping[str, Sequence[int]]
    buffers: tuple[Buffer, ...]
    handed: Mapping[Handed, int] = field(default_factory=dict)

    @cached_property
    def arranged(self) -> Arranged:
        """The tasks with the order on their streams."""
        return arranged([one.before for one in self.tasks], list(self.streams.values()))


def device(
    step: Step,
    plan: Plan,
    program: Program,
    computing: Computing,
    sending: Sending,
    overlap: Overlap | None = None,
    grouping: Grouping | None = None,
    measured: Mapping[int, float] = MappingProxyType({}),
) -> Device:
    """The tasks of a program, which is what ``plan`` makes of ``step`` (as prepared for it).

    ``grouping``: which operations are one task; if None, all between two redistributions.
    ``measured`` has seconds of operations by the ``id`` of their ``Done``, and goes before
    ``computing``; of a loop, of what it does itself.
    """
    overlap = overlap or Overlap()
    grouping = grouping or grouping_of(plan, overlap)
    writer = _Writer(plan, computing, sending, overlap, grouping, measured)
    writer.write(step, program)
    return writer.done()


def grouping_of(
    plan: Plan,
    overlap: Overlap,
    *,
    whole: bool = True,
    unstored: Collection[tuple[int, ...]] = (),
) -> Grouping:
    """Which operations are one task: all between two redistributions, or, not ``whole``, each.

    ``unstored``: shapes of values that are never in memory, sorted.
    """
    return Grouping(plan.parts, plan.sizes, whole, overlap.sends, Sizes(plan.parts, unstored))


def on_streams(
    tasks: Sequence[Task], buffers: Sequence[Buffer], handed: Mapping[Handed, int] | None = None
) -> Device:
    """Tasks as a device: compute in its order, what is sent beside when it may be."""
    streams: dict[str, list[int]] = {COMPUTE: []}
    for number in sorted(range(len(tasks)), key=lambda one: (tasks[one].issue, one)):
        if tasks[number].stream != COMPUTE:
            streams.setdefault(tasks[number].stream, []).append(number)
    streams[COMPUTE] = [at for at, task in enumerate(tasks) if task.stream == COMPUTE]
    return Device(tuple(tasks), streams, tuple(buffers), handed or {})


@dataclass
class _Writer:
    """The tasks so far; of each stage those of compute, and how many came before each layer."""

    plan: Plan
    computing: Computing
    sending: Sending
    overlap: Overlap
    grouping: Grouping
    measured: Mapping[int, float]
    tasks: list[Task] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    compute: dict[int, list[int]] = field(default_factory=dict)
    units: dict[int, list[int]] = field(default_factory=dict)
    received: dict[tuple[Key, int], Stack] = field(default_factory=dict)
    handed: dict[Handed, int] = field(default_factory=dict)
    priced: dict[int, float] = field(default_factory=dict)
    sent: dict[tuple[Type, Sharding, Sharding], float] = field(default_factory=dict)
    place: Place = ALONE
    layer: int = -1

    def write(self, step: Step, program: Program) -> None:
        kinds = kinds_of(step)
        scope: Scope = {}
        homes = program.homes or (0,) * len(program.inputs)
        for value, lies, home in zip(step.graph.inputs, program.inputs, homes, strict=True):
            number = self._buffer(value.name, value.type, lies, kinds[value.name], -1)
            self.buffers[number].kept = True
            self.buffers[number].home = home
            scope[value.name, lies] = (Held((number,), ()),)
        outputs = [
            (one.name, lies)
            for one, lies in zip(step.graph.outputs, program.outputs, strict=True)
            if isinstance(one, Value)
        ]
        buckets = _buckets_of(program)
        waiting: list[Moved] = []
        for item, place in self.grouping.of(step.graph, program, outputs):
            self.place = place or ALONE
            bucket = buckets.get(_key_of(item), 0) if isinstance(item, Moved) else 0
            if not bucket:
                self._item(item, scope, kinds, None)
                continue
            assert isinstance(item, Moved)
            waiting.append(item)
            if len(waiting) == bucket:
                self._together(waiting, scope)
                waiting = []
        into = {out for out, _ in step.updates}
        for at, (output, lies) in enumerate(zip(step.graph.outputs, program.outputs, strict=True)):
            if not isinstance(output, Value):
                continue
            for number in _buffers(self._there((output.name, lies), scope)):
                made = self.buffers[number]
                made.kept = True
                if at in into and made.maker >= 0:
                    made.size_bytes = 0

    def done(self) -> Device:
        return on_streams(self.tasks, self.buffers, self.handed)

    def _item(self, item: Item, scope: Scope, kinds: Mapping[str, Kind], unit: int | None) -> None:
        """``unit``: the place among ``units`` of the iteration that this is."""
        match item:
            case Group():
                self._operate(item, scope, kinds)
            case Moved():
                self._move(item, scope, unit)
            case Sent():
                self._hand(item, scope)
            case Done(operation=operation, body=Program() as body):
                assert operation.body is not None
                self._loop(item, operation.body, body, scope, kinds)
            case _:
                raise AssertionError(item)

    def _find(self, key: Key, scope: Scope) -> Stack:
        """A value as this stage has it."""
        if self.received and (key, self.place.stage) in self.received:
            return self.received[key, self.place.stage]
        return scope[key]

    def _there(self, key: Key, scope: Scope) -> tuple[Held, ...]:
        """A value in one piece or several, put together if it was not."""
        found = self._find(key, scope)
        if isinstance(found, Deferred):
            found = scope[key] = (self._put_together(found, None, None),)
        return found

    def _put_together(self, one: Deferred, layers: int | None, unit: int | None) -> Held:
        """A slice of it, of so many, or all of it."""
        path, kind = one.moved.path, one.moved.value.type
        ends = path.source, path.target
        if layers is not None:
            kind, ends = _of_slice(kind), (_slice(path.source), _slice(path.target))
        held = self._sent(one.moved, kind, ends, one.held, unit)
        for group, value in one.casts:
            seconds = self._seconds(group) / (layers or 1)
            task = self._task(group.name, COMPUTE, seconds, [(held,)])
            kind = value.type if layers is None else _of_slice(value.type)
            held = Held((self._buffer(value.name, kind, ends[1], Kind.GATHERED, task),), (task,))
        return held

    def _seconds(self, group: Group) -> float:
        if id(group) not in self.priced:
            known = [self.measured.get(id(one)) for one in group.done]
            seconds = [one for one in known if one is not None]
            whole = len(seconds) == len(known)
            self.priced[id(group)] = sum(seconds) if whole else self.computing(group.section)
        return self.priced[id(group)]

    def _operate(self, group: Group, scope: Scope, kinds: Mapping[str, Kind]) -> None:
        if not self._casts(group, scope, kinds):
            self._compute(group, scope, kinds)
        for new, old in group.aliases:
            scope[new] = self._find(old, scope)

    def _compute(self, group: Group, scope: Scope, kinds: Mapping[str, Kind]) -> None:
        read = [self._there(key, scope) for key in group.reads]
        task = self._task(group.name, COMPUTE, self._seconds(group), read)
        working = group.working_bytes + sum(one.remade_bytes for many in read for one in many)
        if working:
            self.buffers.append(Buffer(group.name, Kind.WORKING, working, task))
        for value, lies in group.makes:
            number = self._buffer(value.name, value.type, lies, kinds[value.name], task)
            scope[value.name, lies] = (Held((number,), (task,)),)

    def _casts(self, group: Group, scope: Scope, kinds: Mapping[str, Kind]) -> bool:
        """Whether all that is done is a cast of a stack, which is no task then.

        Of one that is put together later it waits; of one that a loop makes, the loop does it, so
        that slices of gradients may be sent while other layers compute.
        """
        if len(group.reads) != 1 or len(group.makes) != 1:
            return False
        found = self._find(group.reads[0], scope)
        if {one.primitive for one in group.section.operations} != {CAST}:
            return False
        [(value, lies)] = group.makes
        if isinstance(found, Deferred):
            scope[value.name, lies] = replace(found, casts=(*found.casts, (group, value)))
            return True
        if len(found) < 2 or not self.grouping.whole:
            return False
        kind, use = _of_slice(value.type), kinds[value.name]
        made = []
        for held in found:
            number = self._buffer(value.name, kind, _slice(lies), use, max(held.makers))
            made.append(Held((number,), held.makers))
        scope[value.name, lies] = tuple(made)
        return True

    def _hand(self, one: Sent, scope: Scope) -> None:
        """To another stage, where it is received without any work."""
        if one.target == EVERYWHERE:
            return
        key = (one.value.name, one.sharding)
        held = self._there(key, scope)
        size = self.grouping.bytes_of(one.value.type, one.sharding)
        before, once = self.place, self.place.when in (When.BEFORE, When.AFTER)
        turns = [self.tasks[maker].turn for many in held for maker in many.makers]
        turn = max(turns, default=0) if once else 0
        handed = Handed(one.source, one.target, before.when, turn)
        self.handed[handed] = self.handed.get(handed, 0) + size
        self.place = Place(one.target, before.when)
        task = self._task(f"receive {one.value.name}", COMPUTE, 0.0, (), turn=turn + once)
        kind = moved_kind(self.buffers[held[0].buffers[0]].kind)
        number = self._buffer(one.value.name, one.value.type, one.sharding, kind, task)
        self.received[key, one.target] = (Held((number,), (task,)),)
        self.place = before

    def _move(self, one: Moved, scope: Scope, unit: int | None) -> None:
        """A stack is sent slice by slice where its first dimension stays as it is."""
        value, path = one.value, one.path
        if not path.requests(self.plan.sizes):
            scope[value.name, path.target] = self._find((value.name, path.source), scope)
            return
        found = self._there((value.name, path.source), scope)
        rows = _whole_first(path.source) and _whole_first(path.target)
        made_here = any(held.makers for held in found)
        later = rows and self._given(_joined(found)) and self.overlap.prefetch is not None
        if unit is None and later and (not made_here or self.place is ALONE):
            kept: dict[int, Held] | None = {} if made_here else None
            scope[value.name, path.target] = Deferred(one, _joined(found), kept=kept)
            return
        sliced = len(found) > 1 and rows
        kind, ends = value.type, (path.source, path.target)
        if sliced:
            kind, ends = _of_slice(kind), (_slice(path.source), _slice(path.target))
        within, made = self.layer, []
        for layer, held in enumerate(found if sliced else (_joined(found),)):
            self.layer = layer if sliced and within < 0 else within
            made.append(self._sent(one, kind, ends, held, unit))
        self.layer = within
        scope[value.name, path.target] = tuple(made)

    def _together(self, several: Sequence[Moved], scope: Scope) -> None:
        """A bucket: one request, once all of its members are made."""
        kind, path = flat(several)
        moves = path.requests(self.plan.sizes)
        held = [_joined(self._there((one.value.name, one.path.source), scope)) for one in several]
        request = ", ".join(map(str, moves))
        name = f"{request}: {several[0].value.name} and {len(several) - 1} more"
        seconds, sent = self._sending(kind, path.source, path.target), (request, kind, moves)
        if self.overlap.sends:
            issue = max(self._after(maker) for one in held for maker in one.makers)
            task = self._task(name, _beside(moves), seconds, [tuple(held)], issue=issue, sent=sent)
        else:
            task = self._task(name, COMPUTE, seconds, [tuple(held)], sent=sent)
        for one, made in zip(several, held, strict=True):
            found = self._arrived(one.value, one.value.type, one.path.target, moves, made, task)
            scope[one.value.name, one.path.target] = (found,)

    def _arrived(
        self,
        value: Value,
        kind: Type,
        lies: Sharding,
        moves: Sequence[Move],
        held: Held,
        task: int,
    ) -> Held:
        """A value that a task has sent; the sum of what the step made is where that was."""
        in_place = [move.how for move in moves] == [How.ALL_REDUCE]
        if in_place and held.makers and not held.remade_bytes:
            return Held(held.buffers, (task,))
        kept = moved_kind(self.buffers[held.buffers[0]].kind)
        return Held((self._buffer(value.name, kind, lies, kept, task),), (task,))

    def _sent(
        self,
        one: Moved,
        kind: Type,
        ends: tuple[Sharding, Sharding],
        held: Held,
        unit: int | None,
    ) -> Held:
        moves = one.path.requests(self.plan.sizes)
        request = ", ".join(map(str, moves))
        seconds = self._sending(kind, *ends)
        name = f"{request}: {one.value.name}"
        beside = _beside(moves)
        sent = request, kind, moves
        given, made = self._given(held), max(map(self._after, held.makers), default=0)
        if not given and self.overlap.sends and not self._kept_since(made, unit):
            task = self._task(name, beside, seconds, [(held,)], issue=made, sent=sent)
        elif given and self.overlap.prefetch is not None:
            issue = max(self._issued(unit), made)
            own = self._own
            after = own[issue - 1 : issue] if issue else []
            task = self._task(name, beside, seconds, [(held,)], after, issue=issue, sent=sent)
        else:
            task = self._task(name, COMPUTE, seconds, [(held,)], sent=sent)
        return self._arrived(one.value, kind, ends[1], moves, held, task)

    def _given(self, held: Held) -> bool:
        """Whether it is an input, or a copy of parameters."""
        copies = all(self.buffers[number].kind is Kind.COPIES for number in held.buffers)
        return not held.makers or copies

    def _sending(self, kind: Type, source: Sharding, target: Sharding) -> float:
        """Of one microbatch: time is no axis that anything is sent over."""
        if (kind, source, target) not in self.sent:
            ends = source.without(TIME), target.without(TIME)
            value = self._of_microbatch(kind, source)
            self.sent[kind, source, target] = self.sending(value, *ends)
        return self.sent[kind, source, target]

    def _of_microbatch(self, kind: Type, lies: Sharding) -> Type:
        count = self.plan.microbatches
        cut = (TIME in axes for axes in lies.dimensions)
        both = zip(kind.shape, cut, strict=True)
        return Type(kind.dtype, tuple(size // count if timed else size for size, timed in both))

    @property
    def _own(self) -> list[int]:
        """The tasks of compute of this stage."""
        return self.compute.setdefault(self.place.stage, [])

    def _after(self, task: int) -> int:
        """How many tasks of compute come before what follows this one."""
        one = self.tasks[task]
        return one.issue + (one.stream == COMPUTE)

    def _kept_since(self, made: int, unit: int | None) -> bool:
        """Whether a layer reads what was made before the layer before it began.

        That was kept by a forward pass, or is of the whole loop: put together when it was made, it
        would be in memory for all layers at once.
        """
        return unit is not None and unit > 0 and made < self.units[self.place.stage][unit - 1]

    def _issued(self, unit: int | None) -> int:
        """How many tasks of compute come before what is now read may be asked for."""
        units = self.units.setdefault(self.place.stage, [])
        if unit is None:
            units.append(len(self._own))
            unit = len(units) - 1
        assert self.overlap.prefetch is not None
        return units[max(0, unit - self.overlap.prefetch)]

    def _loop(
        self, one: Done, graph: Graph, body: Program, scope: Scope, kinds: Mapping[str, Kind]
    ) -> None:
        loop = one.operation
        length, reverse = int(str(loop.parameter["length"])), loop.parameter.get("reverse") is True
        divided = loop_of(loop.parameter)
        kept = divided.constants + divided.carried
        given: list[Stack] = []
        for at, (operand, lies) in enumerate(zip(loop.operands, one.how.operands, strict=True)):
            if not isinstance(operand, Value) or (operand.name, lies) not in scope:
                given.append(())
            elif at < kept:
                given.append(self._there((operand.name, lies), scope))
            else:
                given.append(self._find((operand.name, lies), scope))
        carried = given[divided.constants : kept]
        stacks: list[list[Held]] = [[] for _ in loop.results[divided.carried :]]
        inside = kinds_inside(loop, graph, kinds)
        fresh = self._remade(graph, body, given, divided.constants, divided.carried)
        items = self._body(graph, body, given, fresh)
        within, units = self.layer, self.units.setdefault(self.place.stage, [])
        for at in range(length)[::-1] if reverse else range(length):
            self.layer = at if within < 0 else within
            units.append(len(self._own))
            unit = len(units) - 1
            slices = [self._slice_of(many, at, length, unit) for many in given[kept:]]
            entering = [*given[: divided.constants], *carried, *slices]
            local: Scope = {
                (value.name, lies): many
                for value, lies, many in zip(graph.inputs, body.inputs, entering, strict=True)
            }
            for item in items:
                self._item(item, local, inside, unit)
            ends = [
                (str(output), lies)
                for output, lies in zip(graph.outputs, body.outputs, strict=True)
            ]
            made = [self._there(key, local) if key in local else () for key in ends]
            carried = [*made[: divided.carried]]
            for stack, several, key in zip(
                stacks, made[divided.carried :], ends[divided.carried :], strict=True
            ):
                stack.append(self._kept(_joined(several), fresh.get(key), local))
        self.layer = within
        if own := self.measured.get(id(one)):
            made = [one for one in carried if not isinstance(one, Deferred)]
            self._task(named(loop), COMPUTE, own, [*made, *map(tuple, stacks)])
        results = [*carried, *(tuple(stack[::-1] if reverse else stack) for stack in stacks)]
        for value, lies, many in zip(loop.results, one.how.results, results, strict=True):
            scope[value.name, lies] = many

    def _remade(
        self, graph: Graph, body: Program, given: Sequence[Stack], constants: int, carried: int
    ) -> Mapping[Key, tuple[Key, ...]]:
        """What a loop stacks that need not be in memory, and of what it is made again.

        Compiled code alone does that; and what adds up over microbatches is there.
        """
        if not self.grouping.whole or self.place.when is When.BACKWARD:
            return {}
        inputs: dict[Key, int] = {}
        for at, (value, lies, many) in enumerate(
            zip(graph.inputs, body.inputs, given, strict=True)
        ):
            carry = constants <= at < constants + carried
            there = not carry and not isinstance(many, Deferred) and self._stays(many)
            inputs[value.name, lies] = 0 if there else self.grouping.bytes_of(value.type, lies)
        wanted = [
            (output.name, lies)
            for output, lies in zip(graph.outputs[carried:], body.outputs[carried:], strict=True)
            if isinstance(output, Value)
        ]
        return remade(body, inputs, wanted, self.grouping.bytes_of, self.plan.sizes)

    def _stays(self, many: Sequence[Held]) -> bool:
        """Whether it is a parameter, a copy of one that is kept, or made where it is read."""
        kept = (Kind.PARAMETERS, Kind.COPIES, Kind.INPUTS)
        return all(self.buffers[number].kind in kept for number in _buffers(many))

    def _kept(self, one: Held, roots: Sequence[Key] | None, local: Scope) -> Held:
        """A slice of a stack, or what it is made of again, the largest first: it is of its kind.

        Constants are no roots: who reads one makes it.
        """
        if roots is None:
            return one
        there = (self._there(key, local) for key in roots if key in local)
        held = _joined([each for many in there for each in many])
        size = sum(self.buffers[number].size_bytes for number in one.buffers)
        largest = sorted(held.buffers, key=lambda number: -self.buffers[number].size_bytes)
        return Held(tuple(largest), one.makers, size)

    def _body(
        self,
        graph: Graph,
        body: Program,
        given: Sequence[Stack],
        fresh: Mapping[Key, tuple[Key, ...]],
    ) -> tuple[Item, ...]:
        """What a loop does each time, in groups; ``fresh`` is made again, of what is then kept."""
        ends = [
            (one.name, lies)
            for one, lies in zip(graph.outputs, body.outputs, strict=True)
            if isinstance(one, Value)
        ]
        ends += dict.fromkeys(key for roots in fresh.values() for key in roots)
        both = zip(graph.inputs, given, strict=True)
        constants = [one.name for one, many in both if many == ()]
        return tuple(item for item, _ in self.grouping.of(graph, body, ends, constants))

    def _slice_of(self, many: Stack, at: int, length: int, unit: int) -> Stack:
        if isinstance(many, Deferred):
            kept = {} if many.kept is None else many.kept
            if at not in kept:
                kept[at] = self._put_together(many, length, unit)
            return (kept[at],)
        return (many[at],) if len(many) == length else many

    def _task(
        self,
        name: str,
        stream: str,
        seconds: float,
        read: Iterable[tuple[Held, ...]],
        after: Sequence[int] = (),
        *,
        issue: int | None = None,
        turn: int | None = None,
        sent: tuple[str, Type, tuple[Move, ...]] | None = None,
    ) -> int:
        held = [one for many in read for one in many]
        before = dict.fromkeys((*(maker for one in held for maker in one.makers), *after))
        reads = tuple(dict.fromkeys(number for one in held for number in one.buffers))
        if turn is None:
            same = (self.tasks[one] for one in before)
            turn = max((one.turn for one in same if one.place.when is self.place.when), default=0)
        number = len(self.tasks)
        self.tasks.append(
            Task(
                name,
                stream,
                seconds,
                tuple(before),
                self.place,
                len(self._own) if issue is None else issue,
                reads,
                sent[0] if sent else "",
                self.layer,
                turn,
                sent[1:] if sent else None,
            )
        )
        if stream == COMPUTE:
            self._own.append(number)
        return number

    def _buffer(self, name: str, kind: Type, lies: Sharding, use: Kind, maker: int) -> int:
        size = self.grouping.bytes_of(kind, lies)
        self.buffers.append(Buffer(name, use, size, maker))
        return len(self.buffers) - 1


def _beside(moves: Sequence[Move]) -> str:
    """The stream of what goes over these axes beside compute."""
    return f"over {', '.join(dict.fromkeys(axis for move in moves for axis in move.axes))}"


def _key_of(one: Moved) -> Key:
    return one.value.name, one.path.target


def _buckets_of(program: Program) -> Mapping[Key, int]:
    """Of each member of a bucket of how many it is one."""
    members = ((len(some), program.instructions[at]) for some in program.buckets for at in some)
    return {_key_of(one): count for count, one in members if isinstance(one, Moved)}


def _whole_first(one: Sharding) -> bool:
    return len(one.dimensions) > 1 and one.dimensions[0] == ()


def _slice(one: Sharding) -> Sharding:
    return Sharding(one.dimensions[1:], one.partial)


def _of_slice(kind: Type) -> Type:
    return Type(kind.dtype, kind.shape[1:])


def _joined(many: Sequence[Held]) -> Held:
    return Held(
        tuple(number for one in many for number in one.buffers),
        tuple(dict.fromkeys(maker for one in many for maker in one.makers)),
    )


def _buffers(many: Sequence[Held]) -> Iterable[int]:
    return (number for one in many for number in one.buffers)
