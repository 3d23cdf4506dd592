"""What the way back need not find in memory, as its kernels make it again from what is there.

A layer's derivative reads many values that come of others element by element: casts, masks, what a
normalisation or an activation function has between. The kernel that reads one can make it on the
way, so compilers keep the fewest bytes from which all that is read can be made without a product, a
reduction or a message: as ``min_cut_rematerialization_partition`` in PyTorch's
``torch._functorch.partitioners``, and as He and Yu say in "Transcending Runtime-Memory Tradeoffs in
Checkpointing by being Fusion Aware" (MLSys 2023, mlsys.org/virtual/2023/poster/2464). A bf16 value
whose float32 copy is read is kept as bf16; of ``silu(gate) * up`` are kept ``gate`` and ``up``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from itertools import chain
from typing import TypeVar

from grammar.tensors.operations import Value
from grammar.tensors.primitives import ARITHMETIC, MOVED, MULTIPLIED
from grammar.tensors.sharding import Sharding, Type
from synth.compute.section import NAMED_OTHERWISE
from synth.train.plans import Done, Moved, Program, Sent, When
from synth.train.plans.program import EACH

THERE, WRITTEN, READ = 16, 18, 2
"""What a byte costs that a product has written, that a kernel writes for it alone, and that is in
memory anyway and only read: among values of about one size the first is kept. (In PyTorch's
partitioner a byte that is written for it alone costs twice as much, and may need more memory.)"""

N = TypeVar("N", bound=Hashable)

Key = tuple[str, Sharding]
"""A value by its name and how it lies."""

MADE_ANYWHERE = ARITHMETIC | MOVED
"""What a kernel does for an element on the way."""


def fewest_bytes(
    made_of: Mapping[N, Collection[N]], sizes: Mapping[N, int], wanted: Collection[N]
) -> frozenset[N]:
    """The values of least size in all from which every wanted one can be made.

    ``made_of`` has those that can be made again, and of what; all others must be there. Of several
    such sets it is the nearest to what is wanted. It is a least cut: of a wanted value that cannot
    be made, something it comes of is neither there nor made, and so on up to one that never is.

    >>> fewest_bytes({"f32": ["bf16"], "square": ["f32"]}, {"bf16": 2, "f32": 4, "square": 4},
    ...              ["f32", "square"])
    frozenset({'bf16'})
    """
    infinite = sum(sizes.values()) + 1
    left: dict[object, dict[object, int]] = {"from": {}, "to": {}}
    for one, size in sizes.items():
        left.setdefault((one, 0), {})[one, 1] = size
        left.setdefault((one, 1), {})[one, 0] = 0
    for one in sizes:
        ends = [(other, 0) for other in made_of[one]] if one in made_of else ["to"]
        for end in ends:
            left[one, 1][end] = infinite
            left[end].setdefault((one, 1), 0)
    left["from"] = {(one, 0): infinite for one in wanted}
    before = _paths(left)
    while "to" in before:
        path = list(_back(before))
        flow = min(left[source][target] for source, target in path)
        for source, target in path:
            left[source][target] -= flow
            left[target][source] = left[target].get(source, 0) + flow
        before = _paths(left)
    return frozenset(one for one in sizes if (one, 0) in before and (one, 1) not in before)


def _paths(left: Mapping[object, Mapping[object, int]]) -> dict[object, object]:
    """What is reached where something is left, and from where; shortest paths first."""
    before: dict[object, object] = {"from": None}
    queue: deque[object] = deque(["from"])
    while queue and "to" not in before:
        source = queue.popleft()
        for target, room in left[source].items():
            if room and target not in before:
                before[target] = source
                queue.append(target)
    return before


def _back(before: Mapping[object, object]) -> Iterator[tuple[object, object]]:
    target: object = "to"
    while target != "from":
        yield before[target], target
        target = before[target]


def remade(
    body: Program,
    inputs: Mapping[Key, int],
    wanted: Collection[Key],
    bytes_of: Callable[[Type, Sharding], int],
    sizes: Mapping[str, int],
) -> Mapping[Key, tuple[Key, ...]]:
    """Of what a loop's body keeps for later: those that need no memory, and what each is made of.

    ``inputs`` of the body with their bytes, 0 of those that are there anyway; ``sizes`` are those
    of axes: what lies otherwise without being sent is made, too. Of about as many bytes those are
    kept that products have written anyway.
    """
    made_of: dict[Key, tuple[Key, ...]] = {}
    known = {key: THERE * size for key, size in inputs.items()}
    for one in body.instructions:
        match one:
            case Moved():
                key = (one.value.name, one.path.target)
                known.setdefault(key, WRITTEN * bytes_of(one.value.type, one.path.target))
                if not one.path.requests(sizes):
                    made_of[key] = ((one.value.name, one.path.source),)
            case Done():
                operation = one.operation
                read = tuple(
                    (operand.name, lies)
                    for operand, lies in zip(operation.operands, one.how.operands, strict=True)
                    if isinstance(operand, Value)
                )
                for value, lies in zip(operation.results, one.how.results, strict=True):
                    alone = operation.primitive in MULTIPLIED or operation.body is not None
                    known[value.name, lies] = (THERE if alone else WRITTEN) * bytes_of(
                        value.type, lies
                    )
                    if operation.primitive in MADE_ANYWHERE:
                        made_of[value.name, lies] = read
    kept = fewest_bytes(made_of, known, [key for key in wanted if key in known])
    return {
        key: _comes_of(key, made_of, kept) for key in wanted if key in known and key not in kept
    }


def _comes_of(
    key: Key, made_of: Mapping[Key, tuple[Key, ...]], kept: Collection[Key]
) -> tuple[Key, ...]:
    found: dict[Key, None] = {}
    left, seen = [key], {key}
    while left:
        one = left.pop()
        if one in kept:
            found[one] = None
            continue
        new = [other for other in made_of[one] if other not in seen]
        seen.update(new)
        left += new
    return tuple(found)


def between_kernels(
    program: Program,
    ends: Collection[Key],
    bytes_of: Callable[[Type, Sharding], int],
    sizes: Mapping[str, int],
    gone: Collection[Key] = (),
    absent: Collection[str] = (),
) -> Mapping[Key, tuple[Key, ...]]:
    """Of what one kernel makes and others read: what needs no memory, and what each is made of.

    A kernel is what a device does between two products, loops or messages. What these read is in
    memory, and so are ``ends``; of all else the fewest bytes are kept from which later kernels can
    compute what they read: at most what the kernel itself read, so that no chain gets longer.
    ``gone`` are ends that readers behind the program compute again; of nothing here, if no kernel
    of the program reads them. ``absent`` are inputs that are themselves computed again.
    """
    kernels = _Kernels(program, {*ends}.difference(gone), sizes)
    found: dict[Key, tuple[Key, ...]] = {key: () for key in gone if not kernels.needs(key)}
    for number, members in enumerate(kernels.members):
        wanted = [key for key in kernels.crossing(number) if key not in kernels.stored]
        if not wanted:
            continue
        made_of = {
            key: read
            for key, read, anywhere in members
            if anywhere
            and key not in kernels.stored
            and not any(one in found or one[0] in absent for one in read)
        }
        known: dict[Key, int] = {}
        for key, read, _ in members:
            for one in read:
                if one not in known:
                    known[one] = kernels.cost(one, number) * bytes_of(*kernels.typed(one))
            cost = READ if key in kernels.stored else WRITTEN
            known[key] = cost * bytes_of(*kernels.typed(key))
        kept = fewest_bytes(made_of, known, wanted)
        again = {key: _comes_of(key, made_of, kept) for key in wanted if key not in kept}
        found |= again
        # A kernel that begins later may make some of these: it is not to compute them again.
        kernels.stored.update(chain.from_iterable(again.values()))
    return found


class _Kernels:
    """A program in kernels, by what each makes: a key, what it is made of, and whether it may be
    made again. ``stored`` are the values that are in memory whatever kernels compute again.
    """

    def __init__(self, program: Program, ends: set[Key], sizes: Mapping[str, int]) -> None:
        self.members: list[list[tuple[Key, tuple[Key, ...], bool]]] = []
        self.stored = ends
        self._types: dict[Key, Type] = {}
        self._made: dict[Key, int] = {}
        self._when: dict[Key, When | None] = {}
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
        """What a kernel makes and another reads."""
        made = (key for key, _, _ in self.members[number])
        return [key for key in made if self._readers.get(key, set()) - {number}]

    def needs(self, key: Key) -> bool:
        """Whether an instruction reads it that is not in the kernel that makes it."""
        return key in self.stored or bool(self._readers.get(key, set()) - {self._made.get(key)})

    def cost(self, key: Key, number: int) -> int:
        """Of a byte that a kernel reads, to be kept: that others read later is there anyway."""
        later = self._last[key] > self._ended[number]
        return READ if later or key not in self._made else THERE

    def typed(self, key: Key) -> tuple[Type, Sharding]:
        """The type of a value, and its sharding."""
        return self._types[key], key[1]

    def _read(self, program: Program) -> None:
        numbers: dict[object, int] = {}
        count = 0
        places = program.places or (None,) * len(program.instructions)
        for at, (one, place) in enumerate(zip(program.instructions, places, strict=True)):
            read, made = _keys_of(one)
            for key, kind in (*read, *made):
                self._types[key], self._last[key] = kind, at
            alone = _is_alone(one, self._sizes)
            if alone:
                count += 1
                self.stored.update(key for key, _ in read)
            number = numbers.setdefault((count, place, alone), len(self.members))
            if number == len(self.members):
                self.members.append([])
                self._ended.append(at)
            self._ended[number] = at
            for key, _ in read:
                self._readers.setdefault(key, set()).add(number)
                # Microbatches are summed in the type that is read, not in that of its sources.
                if place and place.when is When.AFTER and self._when.get(key) in EACH:
                    self.stored.add(key)
            if alone:
                continue
            sources = tuple(key for key, _ in read)
            again = isinstance(one, Moved) or (
                isinstance(one, Done) and one.operation.primitive in MADE_ANYWHERE
            )
            for key, _ in made:
                self._made[key] = number
                self._when[key] = place.when if place else None
                self.members[number].append((key, sources, again))
                if sources and _is_view(one):
                    self._views[key] = sources[0]


def _is_view(one: Done | Moved | Sent) -> bool:
    """Whether it takes what is there otherwise."""
    return isinstance(one, Moved) or (
        isinstance(one, Done) and one.operation.primitive in NAMED_OTHERWISE
    )


def _is_alone(one: Done | Moved | Sent, sizes: Mapping[str, int]) -> bool:
    """Whether it is no part of a kernel that does other things."""
    match one:
        case Done():
            return one.body is not None or one.operation.primitive in MULTIPLIED
        case Moved():
            return bool(one.path.requests(sizes))
        case Sent():
            return True


def _keys_of(
    one: Done | Moved | Sent,
) -> tuple[list[tuple[Key, Type]], list[tuple[Key, Type]]]:
    """What an instruction reads and makes, with types."""
    match one:
        case Done():
            operands = zip(one.operation.operands, one.how.operands, strict=True)
            results = zip(one.operation.results, one.how.results, strict=True)
            return (
                [((v.name, lies), v.type) for v, lies in operands if isinstance(v, Value)],
                [((v.name, lies), v.type) for v, lies in results],
            )
        case Moved():
            kind, name = one.value.type, one.value.name
            return [((name, one.path.source), kind)], [((name, one.path.target), kind)]
        case Sent():
            return [((one.value.name, one.sharding), one.value.type)], []
