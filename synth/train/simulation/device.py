"""What one device does in a step, as tasks on streams: operations, and redistributions among them.

All devices of a program do the same, so one stands for all. A loop is written out, as what one
layer sends may run beside what another computes; of a stack that a loop makes every slice is a
value of its own, which is there, and may be sent, when its iteration is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from grammar.tensors.operations import Graph, Operation, Step, Value
from grammar.tensors.sharding import Sharding, Type, part_shape
from synth.events.longest_path import Arranged, arranged
from synth.train.factors import part
from synth.train.plans import Done, Moved, Plan, Program
from synth.train.plans.plan import loop_of
from synth.train.resharding.moves import How
from synth.train.simulation.kinds import Kind, kinds_inside, kinds_of, moved_kind

COMPUTE = "compute"

Computing = Callable[[Operation], float]
"""Seconds of an operation on one device: its operands and results are what that device has."""

Sending = Callable[[Type, Sharding, Sharding], float]
"""Seconds until a value lies otherwise, on all devices: its type, and how it lay and is to lie."""


@dataclass(frozen=True)
class Overlap:
    """What is sent beside compute, on streams of its own, one for each set of axes.

    ``sends``: what is made in the step is sent as soon as it is made; else where it is first read,
    on the compute stream. ``prefetch``: inputs are put together so many layers before they are
    read (FSDP: 1), or, outside of loops, so many redistributions before; None, on the compute
    stream.
    """

    sends: bool = False
    prefetch: int | None = None


@dataclass(frozen=True)
class Task:
    """What a device does at one time on one stream; ``request``, what it sends, or nothing.

    ``layer`` is the iteration of the loop that it is part of, or whose slice it sends; -1, of none.
    """

    name: str
    stream: str
    seconds: float
    before: tuple[int, ...]
    reads: tuple[int, ...] = ()
    request: str = ""
    layer: int = -1


@dataclass(frozen=True)
class Held:
    """A value as some tasks leave it, in some buffers."""

    buffers: tuple[int, ...]
    makers: tuple[int, ...]


Stack = tuple[Held, ...]
"""A value: one piece, or of what a loop stacks one for each iteration."""

Scope = dict[tuple[str, Sharding], Stack]
"""Values by name and how they lie."""


@dataclass
class Buffer:
    """A part of a value in memory; ``maker`` is the task that makes it, -1 for inputs.

    ``kept``: until the end of the step; ``stacked``: each layer reads its slice of it.
    """

    name: str
    kind: Kind
    size_bytes: int
    maker: int
    kept: bool = False
    stacked: bool = False


@dataclass(frozen=True)
class Device:
    """The tasks of a device, in their order on each stream, and the buffers that they use.

    Tasks come after what they wait for. ``forward``: how many of them there are until all that
    the step returns beside updates, its loss, is made; ``layers``: iterations of the loop that
    reads parameters slice by slice, 0 if there is none.
    """

    tasks: tuple[Task, ...]
    forward: int
    layers: int
    streams: Mapping[str, Sequence[int]]
    buffers: tuple[Buffer, ...]
    arranged: Arranged


def device(
    step: Step,
    plan: Plan,
    program: Program,
    computing: Computing,
    sending: Sending,
    overlap: Overlap | None = None,
) -> Device:
    """The tasks of a program, which is what ``plan`` makes of ``step``."""
    writer = _Writer(step, plan, computing, sending, overlap or Overlap())
    writer.write(step, program)
    return writer.done()


@dataclass
class _Writer:
    """The tasks so far; ``places``: of each on the compute stream, ``issues``: for each that is
    sent beside, how many of these come before; ``units``: the same for each layer.
    """

    step: Step
    plan: Plan
    computing: Computing
    sending: Sending
    overlap: Overlap
    tasks: list[Task] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    compute: list[int] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    issues: dict[int, int] = field(default_factory=dict)
    units: list[int] = field(default_factory=list)
    priced: dict[int, tuple[str, float]] = field(default_factory=dict)
    sent: dict[tuple[Type, Sharding, Sharding], float] = field(default_factory=dict)
    sizes: dict[tuple[Type, Sharding], int] = field(default_factory=dict)
    layer: int = -1
    layers: int = 0
    forward: int = 0

    def write(self, step: Step, program: Program) -> None:
        kinds = kinds_of(step)
        scope: Scope = {}
        for value, lies in zip(step.graph.inputs, program.inputs, strict=True):
            number = self._buffer(value.name, value.type, lies, kinds[value.name], -1)
            self.buffers[number].kept = True
            scope[value.name, lies] = (Held((number,), ()),)
        self._instructions(program, scope, kinds, None)
        into = {out for out, _ in step.updates}
        for at, (output, lies) in enumerate(zip(step.graph.outputs, program.outputs, strict=True)):
            if not isinstance(output, Value):
                continue
            for number in _buffers(scope[output.name, lies]):
                made = self.buffers[number]
                made.kept = True
                if at not in into:
                    self.forward = max(self.forward, made.maker + 1)
                elif made.maker >= 0:
                    made.size_bytes = 0

    def done(self) -> Device:
        streams: dict[str, list[int]] = {COMPUTE: self.compute}
        for task in sorted(self.issues, key=lambda one: (self.issues[one], one)):
            streams.setdefault(self.tasks[task].stream, []).append(task)
        tasks = arranged([one.before for one in self.tasks], list(streams.values()))
        return Device(
            tuple(self.tasks), self.forward, self.layers, streams, tuple(self.buffers), tasks
        )

    def _instructions(
        self, program: Program, scope: Scope, kinds: Mapping[str, Kind], unit: int | None
    ) -> None:
        """``unit``: the place among ``units`` of the iteration that this is."""
        for one in program.instructions:
            match one:
                case Moved():
                    self._move(one, scope, unit)
                case Done(operation=operation, body=Program() as body):
                    assert operation.body is not None
                    self._loop(one, operation.body, body, scope, kinds)
                case Done():
                    self._operate(one, scope, kinds)

    def _operate(self, one: Done, scope: Scope, kinds: Mapping[str, Kind]) -> None:
        operation, how = one.operation, one.how
        if id(one) not in self.priced:
            mine = part(operation, how, self.plan.sizes).operation
            self.priced[id(one)] = (_named(operation), self.computing(mine))
        name, seconds = self.priced[id(one)]
        read = [
            scope[operand.name, lies]
            for operand, lies in zip(operation.operands, how.operands, strict=True)
            if isinstance(operand, Value)
        ]
        task = self._task(name, COMPUTE, seconds, read)
        for value, lies in zip(operation.results, how.results, strict=True):
            number = self._buffer(value.name, value.type, lies, kinds[value.name], task)
            scope[value.name, lies] = (Held((number,), (task,)),)

    def _move(self, one: Moved, scope: Scope, unit: int | None) -> None:
        """A stack is sent slice by slice where its first dimension stays as it is."""
        value, path = one.value, one.path
        found = scope[value.name, path.source]
        if not path.requests(self.plan.sizes):
            scope[value.name, path.target] = found
            return
        sliced = len(found) > 1 and _whole_first(path.source) and _whole_first(path.target)
        if sliced:
            kind = Type(value.type.dtype, value.type.shape[1:])
            ends = _slice(path.source), _slice(path.target)
        else:
            found = (_joined(found),)
            kind, ends = value.type, (path.source, path.target)
        within, made = self.layer, []
        for layer, held in enumerate(found):
            self.layer = layer if sliced and within < 0 else within
            made.append(self._sent(one, kind, ends, held, unit))
        self.layer = within
        scope[value.name, path.target] = tuple(made)

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
        if (kind, *ends) not in self.sent:
            self.sent[kind, *ends] = self.sending(kind, *ends)
        seconds, name = self.sent[kind, *ends], f"{request}: {one.value.name}"
        beside = f"over {', '.join(dict.fromkeys(axis for move in moves for axis in move.axes))}"
        if held.makers and self.overlap.sends:
            task = self._task(name, beside, seconds, [(held,)], request=request)
            self.issues[task] = max(map(self._after, held.makers))
        elif not held.makers and self.overlap.prefetch is not None:
            issue = self._issued(unit)
            after = self.compute[issue - 1 : issue] if issue else []
            task = self._task(name, beside, seconds, [(held,)], after, request)
            self.issues[task] = issue
        else:
            task = self._task(name, COMPUTE, seconds, [(held,)], request=request)
        if [move.how for move in moves] == [How.ALL_REDUCE] and held.makers:
            return Held(held.buffers, (task,))
        kept = moved_kind(self.buffers[held.buffers[0]].kind)
        return Held((self._buffer(one.value.name, kind, ends[1], kept, task),), (task,))

    def _after(self, task: int) -> int:
        """How many tasks of compute come before what follows this one."""
        return self.issues[task] if task in self.issues else self.places[task] + 1

    def _issued(self, unit: int | None) -> int:
        """How many tasks of compute come before what is now read may be asked for."""
        if unit is None:
            self.units.append(len(self.compute))
            unit = len(self.units) - 1
        assert self.overlap.prefetch is not None
        return self.units[max(0, unit - self.overlap.prefetch)]

    def _loop(
        self, one: Done, graph: Graph, body: Program, scope: Scope, kinds: Mapping[str, Kind]
    ) -> None:
        loop = one.operation
        length, reverse = int(str(loop.parameter["length"])), loop.parameter.get("reverse") is True
        divided = loop_of(loop.parameter)
        kept = divided.constants + divided.carried
        given = [
            scope[operand.name, lies] if isinstance(operand, Value) else ()
            for operand, lies in zip(loop.operands, one.how.operands, strict=True)
        ]
        carried = given[divided.constants : kept]
        stacks: list[list[Held]] = [[] for _ in loop.results[divided.carried :]]
        inside = kinds_inside(loop, graph, kinds)
        order = range(length)[::-1] if reverse else range(length)
        within = self.layer
        scanned = [kinds[one.name] for one in loop.operands[kept:] if isinstance(one, Value)]
        if within < 0 and {Kind.PARAMETERS, Kind.COPIES} & set(scanned):
            self.layers = length
            for many in given[kept:]:
                for number in _buffers(many) if len(many) < length else ():
                    self.buffers[number].stacked = True
        for at in order:
            self.layer = at if within < 0 else within
            self.units.append(len(self.compute))
            slices = [(many[at],) if len(many) == length else many for many in given[kept:]]
            entering = [*given[: divided.constants], *carried, *slices]
            local = {
                (value.name, lies): many
                for value, lies, many in zip(graph.inputs, body.inputs, entering, strict=True)
            }
            self._instructions(body, local, inside, len(self.units) - 1)
            made = [
                local[output.name, lies] if isinstance(output, Value) else ()
                for output, lies in zip(graph.outputs, body.outputs, strict=True)
            ]
            carried = made[: divided.carried]
            for stack, many in zip(stacks, made[divided.carried :], strict=True):
                stack.append(_joined(many))
        self.layer = within
        made = [*carried, *(tuple(stack[::-1] if reverse else stack) for stack in stacks)]
        for value, lies, many in zip(loop.results, one.how.results, made, strict=True):
            scope[value.name, lies] = many

    def _task(
        self,
        name: str,
        stream: str,
        seconds: float,
        read: Iterable[Stack],
        after: Sequence[int] = (),
        request: str = "",
    ) -> int:
        held = [one for many in read for one in many]
        before = dict.fromkeys((*(maker for one in held for maker in one.makers), *after))
        reads = tuple(dict.fromkeys(number for one in held for number in one.buffers))
        self.tasks.append(Task(name, stream, seconds, tuple(before), reads, request, self.layer))
        if stream == COMPUTE:
            self.places[len(self.tasks) - 1] = len(self.compute)
            self.compute.append(len(self.tasks) - 1)
        return len(self.tasks) - 1

    def _buffer(self, name: str, kind: Type, lies: Sharding, use: Kind, maker: int) -> int:
        if (kind, lies) not in self.sizes:
            shape = part_shape(kind, lies, self.plan.sizes)
            self.sizes[kind, lies] = Type(kind.dtype, shape).bytes
        self.buffers.append(Buffer(name, use, self.sizes[kind, lies], maker))
        return len(self.buffers) - 1


def _whole_first(one: Sharding) -> bool:
    return one.dimensions[:1] == ((),)


def _slice(one: Sharding) -> Sharding:
    return Sharding(one.dimensions[1:], one.partial)


def _joined(many: Stack) -> Held:
    return Held(
        tuple(number for one in many for number in one.buffers),
        tuple(dict.fromkeys(maker for one in many for maker in one.makers)),
    )


def _buffers(many: Stack) -> Iterable[int]:
    return (number for one in many for number in one.buffers)


def _named(operation: Operation) -> str:
    return f"{operation.primitive} {operation.line}" if operation.line else operation.primitive
