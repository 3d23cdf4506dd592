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
from typing import TypeVar

from grammar.tensors.operations import Value
from grammar.tensors.sharding import Sharding, Type
from synth.train.plans import Done, Moved, Program
from synth.train.simulation.groups import MADE_ANYWHERE, Key

N = TypeVar("N", bound=Hashable)


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
    of axes: what lies otherwise without being sent is made, too.
    """
    made_of: dict[Key, tuple[Key, ...]] = {}
    known = dict(inputs)
    for one in body.instructions:
        match one:
            case Moved():
                key = (one.value.name, one.path.target)
                known.setdefault(key, bytes_of(one.value.type, one.path.target))
                if not one.path.requests(sizes) and key not in inputs:
                    made_of[key] = ((one.value.name, one.path.source),)
            case Done():
                operation = one.operation
                read = tuple(
                    (operand.name, lies)
                    for operand, lies in zip(operation.operands, one.how.operands, strict=True)
                    if isinstance(operand, Value)
                )
                for value, lies in zip(operation.results, one.how.results, strict=True):
                    known[value.name, lies] = bytes_of(value.type, lies)
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
