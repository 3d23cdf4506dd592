"""Finds values that need not stay in memory because the kernels that read them recompute them.

A layer's derivative reads many values that are computed elementwise from others: casts, masks, the
inside of a normalisation or of an activation function. The kernel that reads such values can
recompute them. So compilers keep the fewest bytes from which all values that are read can be
computed without a product, a reduction or communication: see
``min_cut_rematerialization_partition`` in PyTorch's
``torch._functorch.partitioners``, and He and Yu, "Transcending Runtime-Memory Tradeoffs in
Checkpointing by being Fusion Aware" (MLSys 2023, mlsys.org/virtual/2023/poster/2464). For example,
a bf16 value whose float32 copy is read is kept as bf16, and ``silu(gate) * up`` is recomputed from
``gate`` and ``up``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from itertools import chain
from typing import TypeVar

from grammar.tensors.operations import Value
from grammar.tensors.sharding import Sharding, Type
from synth.compute.section import renames
from synth.primitives import ARITHMETIC, MOVED, MULTIPLIED
from synth.step.sharding import (
    LocalOperation,
    RedistributedValue,
    SentValue,
    StepPhase,
    StepProgram,
)
from synth.step.sharding.program import (
    MICROBATCH_PHASES,
    Key,
    StepInstruction,
)

KEPT_COST, WRITE_COST, READ_COST = 16, 18, 2
"""Costs of keeping a byte: a byte that a product wrote, a byte that a kernel writes only for this
purpose, and a byte that is in memory anyway. Among values of similar size, a product's is kept. (In
PyTorch's partitioner a byte written only for this purpose costs twice as much, which can need more
memory.)"""

N = TypeVar("N", bound=Hashable)

RECOMPUTABLE = ARITHMETIC | MOVED
"""Primitives that a kernel can compute for single elements when it reads them."""


def find_fewest_bytes(
    made_of: Mapping[N, Collection[N]], sizes: Mapping[N, int], wanted: Collection[N]
) -> frozenset[N]:
    """Returns the values of least total size from which all ``wanted`` can be computed.

    ``made_of`` maps each value that can be recomputed to its sources; all others must be kept. Of
    several minimal sets, returns the set nearest to the wanted values. It is a minimum cut between
    the wanted values and the values that cannot be recomputed.

    >>> sizes = {"bf16": 2, "f32": 4, "square": 4}
    >>> find_fewest_bytes({"f32": ["bf16"], "square": ["f32"]}, sizes, ["f32", "square"])
    frozenset({'bf16'})
    """
    infinite = sum(sizes.values()) + 1
    capacity: dict[object, dict[object, int]] = {"from": {}, "to": {}}
    for value, size in sizes.items():
        capacity.setdefault((value, 0), {})[value, 1] = size
        capacity.setdefault((value, 1), {})[value, 0] = 0
    for value in sizes:
        ends = [(source, 0) for source in made_of[value]] if value in made_of else ["to"]
        for end in ends:
            capacity[value, 1][end] = infinite
            capacity[end].setdefault((value, 1), 0)
    capacity["from"] = {(value, 0): infinite for value in wanted}
    before = _paths(capacity)
    while "to" in before:
        path = list(_walk_back(before))
        flow = min(capacity[source][target] for source, target in path)
        for source, target in path:
            capacity[source][target] -= flow
            capacity[target][source] = capacity[target].get(source, 0) + flow
        before = _paths(capacity)
    return frozenset(value for value in sizes if (value, 0) in before and (value, 1) not in before)


def _paths(capacity: Mapping[object, Mapping[object, int]]) -> dict[object, object]:
    """Returns the predecessor of each node reachable over edges with capacity, breadth first."""
    before: dict[object, object] = {"from": None}
    queue: deque[object] = deque(["from"])
    while queue and "to" not in before:
        source = queue.popleft()
        for target, room in capacity[source].items():
            if room and target not in before:
                before[target] = source
                queue.append(target)
    return before


def _walk_back(before: Mapping[object, object]) -> Iterator[tuple[object, object]]:
    target: object = "to"
    while target != "from":
        yield before[target], target
        target = before[target]


def find_recomputed(
    body: StepProgram,
    inputs: Mapping[Key, int],
    wanted: Collection[Key],
    bytes_of: Callable[[Type, Sharding], int],
    sizes: Mapping[str, int],
) -> Mapping[Key, tuple[Key, ...]]:
    """Returns the values that a loop's body need not keep for later, each with its sources.

    ``inputs``: inputs of the body with their bytes, 0 if they are kept in any case. ``sizes``:
    sizes of axes, because a redistribution without communication can also be recomputed. Among
    values of similar size, values that products wrote are kept.
    """
    made_of: dict[Key, tuple[Key, ...]] = {}
    known = {key: KEPT_COST * size for key, size in inputs.items()}
    for instruction in body.instructions:
        match instruction:
            case RedistributedValue():
                key = (instruction.value.name, instruction.path.target)
                known.setdefault(
                    key, WRITE_COST * bytes_of(instruction.value.type, instruction.path.target)
                )
                if not instruction.path.requests(sizes):
                    made_of[key] = ((instruction.value.name, instruction.path.source),)
            case LocalOperation():
                operation, read = instruction.operation, instruction.keys_read
                for value, sharding in zip(operation.results, instruction.how.results, strict=True):
                    alone = operation.primitive in MULTIPLIED or operation.body is not None
                    known[value.name, sharding] = (KEPT_COST if alone else WRITE_COST) * bytes_of(
                        value.type, sharding
                    )
                    if operation.primitive in RECOMPUTABLE:
                        made_of[value.name, sharding] = read
    kept = find_fewest_bytes(made_of, known, [key for key in wanted if key in known])
    return {
        key: _sources_of(key, made_of, kept) for key in wanted if key in known and key not in kept
    }


def _sources_of(
    key: Key, made_of: Mapping[Key, tuple[Key, ...]], kept: Collection[Key]
) -> tuple[Key, ...]:
    sources: dict[Key, None] = {}
    stack, seen = [key], {key}
    while stack:
        value = stack.pop()
        if value in kept:
            sources[value] = None
            continue
        new = [source for source in made_of[value] if source not in seen]
        seen.update(new)
        stack += new
    return tuple(sources)


def find_kernel_recomputed(
    program: StepProgram,
    ends: Collection[Key],
    bytes_of: Callable[[Type, Sharding], int],
    sizes: Mapping[str, int],
    gone: Collection[Key] = (),
    absent: Collection[str] = (),
) -> Mapping[Key, tuple[Key, ...]]:
    """Returns the values that a kernel makes for others without storing them, with their sources.

    A kernel is a device's work between two products, loops or redistributions. Values that these
    read are in memory, and so are ``ends``. Of all other values, the fewest bytes are kept from
    which later kernels can compute the values that they read: at most the values that the kernel
    itself read, so that no chain gets longer. ``gone``: ends that readers after the program
    recompute; if no kernel of the program reads them, they have no sources here. ``absent``: inputs
    that are recomputed themselves.
    """
    kernels = _Kernels(program, {*ends}.difference(gone), sizes)
    recomputed: dict[Key, tuple[Key, ...]] = {key: () for key in gone if not kernels.needs(key)}
    for number, members in enumerate(kernels.members):
        wanted = [key for key in kernels.crossing(number) if key not in kernels.stored]
        if not wanted:
            continue
        made_of = {
            key: read
            for key, read, anywhere in members
            if anywhere
            and key not in kernels.stored
            and not any(source in recomputed or source[0] in absent for source in read)
        }
        known: dict[Key, int] = {}
        for key, read, _ in members:
            for source in read:
                if source not in known:
                    known[source] = kernels.cost(source, number) * bytes_of(*kernels.typed(source))
            cost = READ_COST if key in kernels.stored else WRITE_COST
            known[key] = cost * bytes_of(*kernels.typed(key))
        kept = find_fewest_bytes(made_of, known, wanted)
        again = {key: _sources_of(key, made_of, kept) for key in wanted if key not in kept}
        recomputed |= again
        # A kernel that begins later may make some of these sources; they must not be recomputed.
        kernels.stored.update(chain.from_iterable(again.values()))
    return recomputed


class _Kernels:
    """A program as kernels.

    ``members``: for each kernel, the values that it makes: a key, its sources, and whether it can
    be recomputed. ``stored``: the values that are in memory whatever kernels recompute.
    """

    def __init__(self, program: StepProgram, ends: set[Key], sizes: Mapping[str, int]) -> None:
        self.members: list[list[tuple[Key, tuple[Key, ...], bool]]] = []
        self.stored = ends
        self._types: dict[str, Type] = {}
        self._made: dict[Key, int] = {}
        self._when: dict[Key, StepPhase | None] = {}
        self._readers: dict[Key, set[int]] = {}
        self._last: dict[Key, int] = {}
        self._ended: list[int] = []
        self._sizes = sizes
        self._views: dict[Key, Key] = {}
        self._read(program)
        for key, source in reversed(self._views.items()):
            if key in self.stored:
                self.stored.add(source)

    def crossing(self, number: int) -> list[Key]:
        """Returns the values that a kernel makes and another kernel reads."""
        made = (key for key, _, _ in self.members[number])
        return [key for key in made if self._readers.get(key, set()) - {number}]

    def needs(self, key: Key) -> bool:
        """Whether an instruction outside the kernel that makes a value reads it."""
        return key in self.stored or bool(self._readers.get(key, set()) - {self._made.get(key)})

    def cost(self, key: Key, number: int) -> int:
        """Returns the cost of keeping a byte that a kernel reads; low if later kernels read it."""
        later = self._last[key] > self._ended[number]
        return READ_COST if later or key not in self._made else KEPT_COST

    def typed(self, key: Key) -> tuple[Type, Sharding]:
        """Returns the type and sharding of a value."""
        return self._types[key[0]], key[1]

    def _read(self, program: StepProgram) -> None:
        numbers: dict[object, int] = {}
        count = 0
        places = program.places or (None,) * len(program.instructions)
        for at, (instruction, place) in enumerate(zip(program.instructions, places, strict=True)):
            read, made = instruction.keys_read, instruction.keys_made
            self._types.update(_types_in(instruction))
            self._last.update(dict.fromkeys(read, at))
            self._last.update(dict.fromkeys(made, at))
            alone = _is_alone(instruction, self._sizes)
            if alone:
                count += 1
                self.stored.update(read)
            number = numbers.setdefault((count, place, alone), len(self.members))
            if number == len(self.members):
                self.members.append([])
                self._ended.append(at)
            self._ended[number] = at
            for key in read:
                self._readers.setdefault(key, set()).add(number)
                # Microbatches are summed in the type that is read, not in that of its sources.
                if (
                    place
                    and place.when is StepPhase.AFTER
                    and self._when.get(key) in MICROBATCH_PHASES
                ):
                    self.stored.add(key)
            if alone:
                continue
            sources = tuple(read)
            again = isinstance(instruction, RedistributedValue) or (
                isinstance(instruction, LocalOperation)
                and instruction.operation.primitive in RECOMPUTABLE
            )
            for key in made:
                self._made[key] = number
                self._when[key] = place.when if place else None
                self.members[number].append((key, sources, again))
                if sources and _is_view(instruction):
                    self._views[key] = sources[0]


def _is_view(instruction: StepInstruction) -> bool:
    """Whether an instruction only renames a value in memory."""
    return isinstance(instruction, RedistributedValue) or (
        isinstance(instruction, LocalOperation) and renames(instruction.operation)
    )


def _is_alone(instruction: StepInstruction, sizes: Mapping[str, int]) -> bool:
    """Whether an instruction is a separate kernel."""
    match instruction:
        case LocalOperation():
            return instruction.body is not None or instruction.operation.primitive in MULTIPLIED
        case RedistributedValue():
            return bool(instruction.path.requests(sizes))
        case SentValue():
            return True


def _types_in(instruction: StepInstruction) -> dict[str, Type]:
    """Returns the types of the values of an instruction, by name."""
    if not isinstance(instruction, LocalOperation):
        return {instruction.value.name: instruction.value.type}
    values = (*instruction.operation.operands, *instruction.operation.results)
    return {value.name: value.type for value in values if isinstance(value, Value)}
