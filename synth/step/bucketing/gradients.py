"""Gradients of a data-parallel step, with their sizes and when each is computed.

They are read from the tasks of a device that sends each gradient separately: until the last
gradient is computed, compute proceeds without waiting for communication. A layer in a loop has its
own gradients, as an unrolled layer does. Collectives of a forward pass are omitted: DDP has none,
because each replica normalises by its own samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from grammar.tensors.operations import Operation, Step
from grammar.tensors.sharding import Type
from hierarchies import InputError
from synth.step.redistribution import MoveKind
from synth.step.sharded_step.meanings import ends_of, find_meanings, input_meanings
from synth.step.sharding.lineage import widens
from synth.step.simulation.device import COMPUTE, DeviceTasks, Task
from synth.step.simulation.kinds import BufferKind, kinds_of


@dataclass(frozen=True)
class Gradient:
    """A tensor that a reducer puts in a bucket, and when it is computed.

    ``layer``: the iteration of the loop whose slice of stacked parameters it belongs to, else -1.
    """

    label: str
    layer: int
    elements: int
    size_bytes: int
    ready_seconds: float

    @property
    def name(self) -> str:
        return self.label if self.layer < 0 else f"{self.label}[{self.layer}]"


@dataclass(frozen=True)
class BackwardPass:
    """The gradients of one replica's step, in the order in which they are computed.

    ``compute_seconds``: the end of the backward pass. ``update_seconds``: seconds of the optimizer,
    which begins once all gradients are reduced, as in DDP.
    """

    dtype: str
    gradients: tuple[Gradient, ...]
    compute_seconds: float
    update_seconds: float

    @cached_property
    def upto_bytes(self) -> tuple[int, ...]:
        """Bytes of the first 0, 1, 2, ... gradients."""
        return tuple(accumulate((gradient.size_bytes for gradient in self.gradients), initial=0))

    @cached_property
    def upto_elements(self) -> tuple[int, ...]:
        """Elements of the first 0, 1, 2, ... gradients."""
        return tuple(accumulate((gradient.elements for gradient in self.gradients), initial=0))


def backward_of(step: Step, device: DeviceTasks, update_seconds: float) -> BackwardPass:
    """Reads gradients from the tasks of a device that sends each as soon as it is computed.

    Raises InputError for a step that reduces no gradients, and for gradients of several types: a
    bucket has a single type.
    """
    sent = list(_find_sums(step, device))
    if not sent:
        problem = f"{step.name} sums no gradients between devices"
        raise InputError(problem, where="MODEL", hint="a training step, on two devices or more")
    dtypes = sorted({kind_of(task).dtype for _, task in sent})
    if len(dtypes) > 1:
        problem = f"gradients in {' and '.join(dtypes)}"
        raise InputError(
            problem, where="MODEL", hint="a bucket holds one element type: cast all gradients to it"
        )
    queue = [device.tasks[at] for at in _find_backward_tasks(device, {at for at, _ in sent})]
    passed = [0.0, *accumulate(task.seconds for task in queue)]
    done = _counts(device, queue)
    labels = find_meanings(step.graph, input_meanings(step), ends_of(step))
    gradients = [
        Gradient(
            labels[task.sends[0]].label if task.sends[0] in labels else task.sends[0],
            task.layer,
            kind_of(task).elements,
            kind_of(task).bytes,
            passed[done[task.issue]],
        )
        for _, task in sent
    ]
    gradients.sort(key=lambda gradient: gradient.ready_seconds)
    return BackwardPass(dtypes[0], tuple(gradients), passed[-1], update_seconds)


def hoist_casts(step: Step) -> Step:
    """Moves each cast to wider elements directly after the operation that computes its operand.

    If a model casts all parameters before its layers, JAX casts all gradients after the whole
    backward pass; PyTorch's autograd casts each gradient when it is computed.
    """
    made = {value.name for operation in step.graph.operations for value in operation.results}
    casts: dict[str, list[Operation]] = {}
    rest: list[Operation] = []
    for operation in step.graph.operations:
        late = widens(operation) and str(operation.operands[0]) in made
        (casts.setdefault(str(operation.operands[0]), []) if late else rest).append(operation)
    operations: list[Operation] = []
    waiting = rest[::-1]
    while waiting:
        operation = waiting.pop()
        operations.append(operation)
        waiting += (cast for value in operation.results for cast in casts.get(value.name, ()))
    return replace(step, graph=replace(step.graph, operations=tuple(operations)))


def kind_of(task: Task) -> Type:
    """Returns the type of the value that a task sends."""
    assert task.moves is not None
    return task.moves[0]


def update_of(step: Step, device: DeviceTasks) -> float:
    """Returns the seconds of compute that read reduced gradients."""
    sums = {at for at, _ in _find_sums(step, device)}
    own = set(_find_backward_tasks(device, sums))
    return sum(device.tasks[at].seconds for at in device.streams[COMPUTE] if at not in own)


def _find_sums(step: Step, device: DeviceTasks) -> Iterator[tuple[int, Task]]:
    """Yields the tasks that reduce gradients, in the order in which gradients are computed."""
    kinds = kinds_of(step)
    for stream, queue in device.streams.items():
        for at in queue if stream != COMPUTE else ():
            task = device.tasks[at]
            whole = task.moves and [move.how for move in task.moves[1]] == [MoveKind.ALL_REDUCE]
            if whole and all(kinds.get(name) is BufferKind.GRADIENTS for name in task.sends):
                yield at, task


def _find_backward_tasks(device: DeviceTasks, sums: set[int]) -> list[int]:
    """Returns the compute tasks that need no reduced gradient, in order."""
    late = set(sums)
    for at, task in enumerate(device.tasks):
        if at not in late and not late.isdisjoint(task.before):
            late.add(at)
    tasks = device.tasks
    return [at for at in device.streams[COMPUTE] if at not in late and not tasks[at].request]


def _counts(device: DeviceTasks, kept: Sequence[Task]) -> list[int]:
    """Returns for the first 0, 1, 2, ... compute tasks the number of them that are kept."""
    own = set(map(id, kept))
    queue = device.streams[COMPUTE]
    return [0, *accumulate(int(id(device.tasks[at]) in own) for at in queue)]
