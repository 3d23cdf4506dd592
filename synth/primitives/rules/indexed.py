"""Factors of gather and of the scatters.

The last dimension of the indices is the index itself. The other dimensions are rows of indices,
each of which reads (writes) one window. An embedding has one indexed dimension, the words. If it is
cut, each part looks up its own words and takes zero for the others, so results are partial sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grammar.tensors.operations import Operation
from grammar.tensors.sharding import ReductionKind
from synth.primitives.factor import Cut, Index
from synth.primitives.indices import Indices, Names, Note
from synth.primitives.parameters import read_entry, read_number, read_numbers

NUMBERS = "dimension_numbers"


def gather(operation: Operation) -> Indices:
    """Names indices: whole unindexed windows, rows and batches are free, indexed dimensions sum."""
    operand, indices = operation.shapes
    collapsed, indexed = (
        read_entry(operation, NUMBERS, key) for key in ("collapsed_slice_dims", "start_index_map")
    )
    batches, offsets = (
        read_entry(operation, NUMBERS, key) for key in ("operand_batching_dims", "offset_dims")
    )
    index_batches = read_entry(operation, NUMBERS, "start_indices_batching_dims")
    taken = read_numbers(operation, "slice_sizes")
    whole = [at not in indexed and taken[at] == size for at, size in enumerate(operand)]
    windows = [at for at in range(len(operand)) if at not in (*collapsed, *batches)]
    names = _operand_names(operand, batches, [at for at in windows if whole[at]])
    notes = {f"window {at}": Note(cut=Cut("slice_sizes", at)) for at in windows}
    rows = _row_names(indices, index_batches)
    rank = len(operation.results[0].type.shape)
    result = _interleave(rank, offsets, [names[at] for at in windows], rows[:-1])
    for at in (at for at in collapsed if at in indexed):
        names = (*names[:at], f"indexed {at}", *names[at + 1 :])
        notes[f"indexed {at}"] = Note(index=Index.LOOK_UP)
    return Indices([names, rows], [result], notes=notes)


def scatter_onto(kind: ReductionKind | None) -> Callable[[Operation], Indices]:
    """Returns the rule of scatter-add and similar: windows, batches and the index are free.

    The index is the indexed dimension. Rows of indices are contracted to a partial value of this
    kind; the operand is then partial, too. None, for scatter-mul: there is no partial value of this
    kind, and rows cannot be cut.
    """
    return lambda operation: _scatter(operation, kind)


def scatter(operation: Operation) -> Indices:
    """Names indices: windows and batches are free, the indexed dimension if indices are unique."""
    return _scatter(operation, None, indexed=bool(read_number(operation, "unique_indices")))


def _scatter(operation: Operation, kind: ReductionKind | None, *, indexed: bool = True) -> Indices:
    operand, indices, updates = operation.shapes
    inserted = read_entry(operation, NUMBERS, "inserted_window_dims")
    written = read_entry(operation, NUMBERS, "scatter_dims_to_operand_dims")
    batches = read_entry(operation, NUMBERS, "operand_batching_dims")
    places = read_entry(operation, NUMBERS, "update_window_dims")
    windows = [at for at in range(len(operand)) if at not in (*inserted, *batches)]
    sizes = dict(zip(windows, (updates[place] for place in places), strict=True))
    whole = [at for at in windows if at not in written and sizes[at] == operand[at]]
    names = _operand_names(operand, batches, whole)
    rows = _row_names(indices, read_entry(operation, NUMBERS, "scatter_indices_batching_dims"))
    of_rows = [name for name in rows if name and "row" in name]
    notes: dict[str, Note] = {name: Note(partial=(0,)) for name in of_rows}
    if kind is None:
        rows = tuple(None if name in notes else name for name in rows)
    update = _interleave(len(updates), places, [names[at] for at in windows], rows[:-1])
    for at in (at for at in inserted if indexed and at in written):
        names = (*names[:at], f"indexed {at}", *names[at + 1 :])
        notes[f"indexed {at}"] = Note(index=Index.DROP)
    return Indices([names, rows, update], [names], kind or ReductionKind.SUM, notes)


def _operand_names(shape: Sequence[int], batches: Sequence[int], windows: Sequence[int]) -> Names:
    named = {
        **{at: f"batch {count}" for count, at in enumerate(batches)},
        **{at: f"window {at}" for at in windows},
    }
    return tuple(named.get(at) for at in range(len(shape)))


def _row_names(shape: Sequence[int], batches: Sequence[int]) -> Names:
    """Names the dimensions of the indices: batches, rows, and None for the index itself, last."""
    named = {at: f"batch {count}" for count, at in enumerate(batches)}
    return (*(named.get(at, f"row {at}") for at in range(len(shape) - 1)), None)


def _interleave(
    rank: int, places: Sequence[int], windows: Sequence[str | None], rows: Names
) -> Names:
    """Returns names with windows at their places, and rows in order at all other places."""
    others = iter(rows)
    at_place = dict(zip(places, windows, strict=True))
    return tuple(at_place[at] if at in at_place else next(others) for at in range(rank))
