"""Factors of elementwise operations, data movement, and reductions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import gcd

from grammar.tensors.operations import Operation
from grammar.tensors.sharding import ReductionKind
from synth.primitives.factor import Cut, Index
from synth.primitives.indices import Indices, Names, Note, all_of, none_of
from synth.primitives.parameters import read_number, read_numbers, read_pairs


def elementwise(operation: Operation) -> Indices:
    """Names every dimension; scalar operands and broadcast dimensions are replicated."""
    result = operation.results[0].type.shape
    names = all_of(result)
    operands: list[Names] = []
    for shape in operation.shapes:
        repeats = zip(names, shape, result, strict=True) if shape else ()
        operands.append(tuple(name if size == wide else None for name, size, wide in repeats))
    return Indices(operands, [names])


def except_named(parameter: str) -> Callable[[Operation], Indices]:
    """Returns a rule: every dimension except those in a parameter; all values have one rank."""

    def rule(operation: Operation) -> Indices:
        value = operation.parameter[parameter]
        named = (value,) if isinstance(value, int) else read_numbers(operation, parameter)
        return _match_dimensions(operation, named)

    return rule


def _match_dimensions(operation: Operation, excluded: Iterable[int]) -> Indices:
    """Gives operands and results of one rank the same index for each dimension not excluded."""
    rank = len(operation.results[0].type.shape)
    excluded = {at % rank for at in excluded}  # approx_top_k counts from the end.

    def names(shape: tuple[int, ...]) -> Names:
        return tuple(None if at in excluded else name for at, name in enumerate(all_of(shape)))

    operands = list(map(names, operation.shapes))
    return Indices(operands, [names(result.type.shape) for result in operation.results])


def no_factors(operation: Operation) -> Indices:
    """Names no index: computed in full, so random values do not depend on the plan."""
    return Indices(
        list(map(none_of, operation.shapes)),
        [none_of(result.type.shape) for result in operation.results],
    )


def same_width(operation: Operation) -> Indices:
    """Names indices of a bit cast: elementwise if both types have the same width, else none."""
    shape = operation.results[0].type.shape
    return (
        elementwise(operation)
        if shape == operation.operands[0].type.shape
        else no_factors(operation)
    )


def transpose(operation: Operation) -> Indices:
    """Names every dimension."""
    names = all_of(operation.operands[0].type.shape)
    return Indices([names], [tuple(names[at] for at in read_numbers(operation, "permutation"))])


def squeeze(operation: Operation) -> Indices:
    """Names every dimension that is kept."""
    names = all_of(operation.operands[0].type.shape)
    removed = read_numbers(operation, "dimensions")
    return Indices([names], [tuple(name for at, name in enumerate(names) if at not in removed)])


def broadcast_in_dim(operation: Operation) -> Indices:
    """Names every dimension of the result; the operand has those that are not broadcast."""
    shape, result = operation.operands[0].type.shape, operation.results[0].type.shape
    names = all_of(result)
    operand = tuple(
        names[place] if size == result[place] else None
        for size, place in zip(shape, read_numbers(operation, "broadcast_dimensions"), strict=True)
    )
    return Indices([operand], [names], notes=_each_cut(names, "shape"))


def reshape(operation: Operation) -> Indices:
    """Names the first dimension of each block, in which both shapes have equally many elements.

    ``[6,4] -> [24]`` is one block, with a factor of size gcd(6, 24): cutting 6 and 24 cuts its
    elements in the same order. Minor dimensions have no factor. A factor would be possible if all
    major dimensions were cut to single elements.
    """
    shape, result = operation.operands[0].type.shape, operation.results[0].type.shape
    names: list[Names] = [none_of(shape), none_of(result)]
    notes: dict[str, Note] = {}
    for before, after in _blocks(shape, result):
        name = f"block {len(notes)}"
        names = [_put(names[0], before, name), _put(names[1], after, name)]
        notes[name] = Note(gcd(shape[before], result[after]), Cut("new_sizes", after))
    return Indices(names[:1], names[1:], notes=notes)


def _blocks(shape: tuple[int, ...], result: tuple[int, ...]) -> Iterable[tuple[int, int]]:
    """Yields the first dimension of each block in both shapes, skipping dimensions of size 1."""
    if 0 in shape:
        return
    left = [(at, size) for at, size in enumerate(shape) if size > 1]
    right = [(at, size) for at, size in enumerate(result) if size > 1]
    while left and right:
        (at, before), (result_at, after) = left.pop(0), right.pop(0)
        yield at, result_at
        while before != after:
            if before < after:
                before *= left.pop(0)[1]
            else:
                after *= right.pop(0)[1]


def _put(names: Names, place: int, name: str) -> Names:
    return (*names[:place], name, *names[place + 1 :])


def iota(operation: Operation) -> Indices:
    """Names every dimension; along the counted dimension, a part adds its offset."""
    names = all_of(operation.results[0].type.shape)
    notes = _each_cut(names, "shape")
    along = read_number(operation, "dimension")
    notes[f"dimension {along}"] = Note(cut=Cut("shape", along), index=Index.OFFSET)
    return Indices([], [names], notes=notes)


def _each_cut(names: Names, parameter: str) -> dict[str, Note]:
    return {str(name): Note(cut=Cut(parameter, at)) for at, name in enumerate(names)}


def reduce(kind: ReductionKind | None) -> Callable[[Operation], Indices]:
    """Returns a rule: kept dimensions are free, reduced dimensions are contracted to a kind.

    If the kind is None, reduced dimensions cannot be cut.
    """

    def rule(operation: Operation) -> Indices:
        reduced = read_numbers(operation, "axes")
        names = all_of(operation.operands[0].type.shape)
        result = tuple(name for at, name in enumerate(names) if at not in reduced)
        if kind is None:
            names = tuple(None if at in reduced else name for at, name in enumerate(names))
        return Indices([names], [result], kind or ReductionKind.SUM)

    return rule


def stack(operation: Operation) -> Indices:
    """Names every dimension of the operands, but not the stacking dimension."""
    names = all_of(operation.operands[0].type.shape)
    at = read_number(operation, "axis")
    return Indices([names] * len(operation.operands), [(*names[:at], None, *names[at:])])


def unstack(operation: Operation) -> Indices:
    """Names every dimension of the results."""
    names = all_of(operation.results[0].type.shape)
    at = read_number(operation, "axis")
    return Indices([(*names[:at], None, *names[at:])], [names] * len(operation.results))


def tile(operation: Operation) -> Indices:
    """Names unrepeated dimensions, and copies of repeated ones, whose operand is whole."""
    repeats = read_numbers(operation, "reps")
    operand = _find_whole([count == 1 for count in repeats])
    copies = [f"copies {at}" for at in range(len(repeats))]
    result = tuple(name or copy for name, copy in zip(operand, copies, strict=True))
    notes = {copy: Note(repeats[at], Cut("reps", at)) for at, copy in enumerate(copies)}
    return Indices([operand], [result], notes=notes)


def reduce_logic(kind: ReductionKind) -> Callable[[Operation], Indices]:
    """Returns the rule of ``reduce`` for booleans, and its rule without a kind for integers.

    The bitwise and of integers is no minimum, and the bitwise or no maximum.
    """

    def rule(operation: Operation) -> Indices:
        is_logic = operation.results[0].type.dtype == "bool"
        return reduce(kind if is_logic else None)(operation)

    return rule


def slice_(operation: Operation) -> Indices:
    """Names dimensions that are taken whole."""
    shape = operation.operands[0].type.shape
    starts, limits = (
        read_numbers(operation, "start_indices"),
        read_numbers(operation, "limit_indices"),
    )
    steps = (
        read_numbers(operation, "strides")
        if "strides" in operation.parameter
        else (1,) * len(shape)
    )
    taken = zip(starts, limits, steps, shape, strict=True)
    whole = [(start, limit, step) == (0, size, 1) for start, limit, step, size in taken]
    names = _find_whole(whole)
    return Indices([names], [names], notes=_each_cut(names, "limit_indices"))


def dynamic_slice(operation: Operation) -> Indices:
    """Names dimensions that are taken whole."""
    shape = operation.operands[0].type.shape
    names = _find_whole(
        [
            size == taken
            for size, taken in zip(shape, read_numbers(operation, "slice_sizes"), strict=True)
        ]
    )
    operands = [names, *(() for _ in operation.operands[1:])]
    return Indices(operands, [names], notes=_each_cut(names, "slice_sizes"))


def dynamic_update_slice(operation: Operation) -> Indices:
    """Names dimensions that are overwritten whole."""
    shape, update = operation.shapes[:2]
    names = _find_whole([size == written for size, written in zip(shape, update, strict=True)])
    return Indices([names, names, *(() for _ in operation.operands[2:])], [names])


def pad(operation: Operation) -> Indices:
    """Names dimensions to which no padding is added."""
    names = _find_whole([edges == (0, 0, 0) for edges in read_pairs(operation, "padding_config")])
    return Indices([names, ()], [names])


def _find_whole(whole: Iterable[bool]) -> Names:
    return tuple(f"dimension {at}" if is_whole else None for at, is_whole in enumerate(whole))
