"""Factors of windows that tile a dimension: pooling, and its gradient.

With windows of two, a stride of two and no padding, a part of whole windows needs no data from its
neighbours. Overlapping windows do, so they have no factor.
"""

from __future__ import annotations

from collections.abc import Sequence

from grammar.tensors.operations import Operation
from synth.primitives.indices import Indices, Names, Note
from synth.primitives.parameters import read_numbers, read_pairs


def tiles(size: int, window: int, stride: int, padding: Sequence[int]) -> bool:
    """Returns whether every element of a dimension belongs to exactly one window."""
    return window == stride and not any(padding) and size % window == 0


def reduce_window(operation: Operation) -> Indices:
    """Names dimensions that windows tile; the number of parts must divide the number of windows."""
    names, notes = _index_tiles(operation, operation.operands[0].type.shape)
    return Indices([names], [names], notes=notes)


def select_and_scatter_add(operation: Operation) -> Indices:
    """Names the indices of max-pooling's gradient; source, operand and result share names.

    The source has one element for each window.
    """
    names, notes = _index_tiles(operation, operation.operands[1].type.shape)
    return Indices([names, names], [names], notes=notes)


def _index_tiles(operation: Operation, shape: Sequence[int]) -> tuple[Names, dict[str, Note]]:
    windows = read_numbers(operation, "window_dimensions")
    strides, padding = read_numbers(operation, "window_strides"), read_pairs(operation, "padding")
    dilations = [
        read_numbers(operation, name)
        for name in ("base_dilation", "window_dilation")
        if name in operation.parameter
    ]
    names: list[str | None] = []
    notes = {}
    for at, size in enumerate(shape):
        dilated = any(dilation[at] != 1 for dilation in dilations)
        if dilated or not tiles(size, windows[at], strides[at], padding[at]):
            names.append(None)
            continue
        names.append(f"windows {at}")
        notes[f"windows {at}"] = Note(size // windows[at])
    return tuple(names), notes
