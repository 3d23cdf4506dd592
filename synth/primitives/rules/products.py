"""Factors of products: dot_general, its ragged form, and convolution."""

from __future__ import annotations

from typing import cast

from grammar.tensors.operations import Operation, Parameter
from synth.primitives.factor import Cut
from synth.primitives.indices import Indices, Names, Note, none_of
from synth.primitives.parameters import (
    Dots,
    parse_dots,
    read_entry,
    read_number,
    read_numbers,
    read_pairs,
)
from synth.primitives.rules.windows import tiles


def dot_general(operation: Operation) -> Indices:
    """Names batch, left and right dimensions, which are free, and contracting dimensions."""
    left, right = _dot_names(operation, parse_dots(operation.parameter["dimension_numbers"]))
    return Indices([left, right], [_result(left, right)])


def ragged_dot_general(operation: Operation) -> Indices:
    """Names indices as dot_general, but the ragged dimension and the groups cannot be cut.

    Sizes of groups are replicated; if they differ by batch, batches cannot be cut either.
    """
    parameter = "ragged_dot_dimension_numbers"
    entries = dict(cast("tuple[tuple[str, Parameter], ...]", operation.parameter[parameter]))
    dots = parse_dots(entries["dot_dimension_numbers"])
    left, right = _dot_names(operation, dots)
    groups = read_entry(operation, parameter, "rhs_group_dimensions")
    ragged = {left[at] for at in read_entry(operation, parameter, "lhs_ragged_dimensions")}
    if len(operation.operands[2].type.shape) > 1:
        ragged |= {name for name in left if name is not None and name not in right}
        ragged |= {left[at] for at in dots[1][0]}
    kept = tuple(name for at, name in enumerate(right) if at not in groups)
    result = _result(left, kept)
    grouped = len(operation.results[0].type.shape) - len(result)
    right = tuple(None if at in groups else name for at, name in enumerate(right))
    out = (None,) * grouped + result
    left, right, out = (_drop_names(names, ragged) for names in (left, right, out))
    sizes = none_of(operation.operands[2].type.shape)
    return Indices([left, right, sizes], [out])


def _dot_names(operation: Operation, dots: Dots) -> tuple[Names, Names]:
    """Names the dimensions of both operands; summed and batch dimensions share a name."""
    (left, right), (batch_left, batch_right) = dots
    operands = [
        {at: f"{side} {at}" for at in range(len(operand.type.shape))}
        for side, operand in zip(("left", "right"), operation.operands[:2], strict=True)
    ]
    for word, *shared in (("contracting", left, right), ("batch", batch_left, batch_right)):
        for count, (left_at, right_at) in enumerate(zip(*shared, strict=True)):
            operands[0][left_at] = operands[1][right_at] = f"{word} {count}"
    return tuple(operands[0].values()), tuple(operands[1].values())


def _result(left: Names, right: Names) -> Names:
    """Returns batches in order, then other dimensions of the left and of the right operand."""
    batches = sorted((n for n in left if n and n.startswith("batch")), key=lambda n: int(n[6:]))
    kept = [n for n in left if n and n.startswith("left")]
    return (*batches, *kept, *(n for n in right if n and n.startswith("right")))


def _drop_names(names: Names, dropped: set[str | None]) -> Names:
    return tuple(None if name in dropped else name for name in names)


def convolution(operation: Operation) -> Indices:
    """Names batch and output features (free) and input features (summed); groups exclude features.

    With groups, only groups are cut instead of features. A spatial dimension is free if its windows
    tile it: kernel and stride are equal, and there is no padding or dilation. Otherwise windows
    would reach into neighbouring parts (halo exchange), which is refused.
    """
    images, kernels, results = (
        read_entry(operation, "dimension_numbers", name)
        for name in ("lhs_spec", "rhs_spec", "out_spec")
    )
    shapes = [value.type.shape for value in operation.values]
    image, kernel, result = (dict.fromkeys(range(len(shape)), "") for shape in shapes)
    features = read_number(operation, "feature_group_count")
    batches = read_number(operation, "batch_group_count")
    notes = {}
    if batches > 1:
        image[images[0]] = kernel[kernels[0]] = result[results[1]] = "groups"
        notes["groups"] = Note(batches, Cut("batch_group_count"))
    else:
        image[images[0]] = result[results[0]] = "batch"
    if features > 1:
        image[images[1]] = kernel[kernels[0]] = result[results[1]] = "groups"
        notes["groups"] = Note(features, Cut("feature_group_count"))
    elif batches == 1:
        image[images[1]] = kernel[kernels[1]] = "input features"
        kernel[kernels[0]] = result[results[1]] = "output features"
    for axis, (place, out) in enumerate(zip(images[2:], results[2:], strict=True)):
        size = shapes[1][kernels[2 + axis]]
        if _is_tiled(operation, axis, shapes[0][place], size):
            image[place] = result[out] = f"spatial {axis}"
            notes[f"spatial {axis}"] = Note(shapes[0][place] // size)
    image_names, kernel_names, result_names = (
        tuple(name or None for name in names.values()) for names in (image, kernel, result)
    )
    return Indices([image_names, kernel_names], [result_names], notes=notes)


def _is_tiled(operation: Operation, axis: int, size: int, window: int) -> bool:
    dilation = {
        read_numbers(operation, "lhs_dilation")[axis],
        read_numbers(operation, "rhs_dilation")[axis],
    }
    stride, padding = (
        read_numbers(operation, "window_strides")[axis],
        read_pairs(operation, "padding")[axis],
    )
    return tiles(size, window, stride, padding) and dilation == {1}
