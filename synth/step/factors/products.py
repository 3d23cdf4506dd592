"""Factors of products: dot_general, its ragged form, convolution."""

from __future__ import annotations

from typing import cast

from grammar.tensors.operations import Operation, Parameter
from synth.step.factors.factor import Cut
from synth.step.factors.indices import Indices, Names, Note, none_of
from synth.step.factors.parameters import (
    parse_numbers,
    read_entry,
    read_number,
    read_numbers,
    read_pairs,
    shape_of,
)
from synth.step.factors.windows import tiles

Dots = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


def dot_general(operation: Operation) -> Indices:
    """Batch, left and right dimensions are free, contracting ones summed."""
    left, right = _dot_names(operation, _dots(operation.parameter["dimension_numbers"]))
    return Indices([left, right], [_result(left, right)])


def ragged_dot_general(operation: Operation) -> Indices:
    """As dot_general, but not the ragged dimension, nor the one of groups.

    Sizes of groups are replicated; if they are counted for each batch, batches are not cut.
    """
    numbers_ = "ragged_dot_dimension_numbers"
    told = dict(cast("tuple[tuple[str, Parameter], ...]", operation.parameter[numbers_]))
    dots = _dots(told["dot_dimension_numbers"])
    left, right = _dot_names(operation, dots)
    groups = read_entry(operation, numbers_, "rhs_group_dimensions")
    ragged = {left[at] for at in read_entry(operation, numbers_, "lhs_ragged_dimensions")}
    if len(shape_of(operation.operands[2])) > 1:
        ragged |= {name for name in left if name is not None and name not in right}
        ragged |= {left[at] for at in dots[1][0]}
    kept = tuple(name for at, name in enumerate(right) if at not in groups)
    result = _result(left, kept)
    grouped = len(operation.results[0].type.shape) - len(result)
    found = (left, tuple(None if at in groups else one for at, one in enumerate(right)))
    one, other, out = (_drop_names(names, ragged) for names in (*found, (None,) * grouped + result))
    sizes = none_of(shape_of(operation.operands[2]))
    return Indices([one, other, sizes], [out])


def _dots(told: Parameter) -> Dots:
    (left, right), batches = cast("tuple[tuple[Parameter, Parameter], ...]", told)
    return (parse_numbers(left), parse_numbers(right)), (
        parse_numbers(batches[0]),
        parse_numbers(batches[1]),
    )


def _dot_names(operation: Operation, dots: Dots) -> tuple[Names, Names]:
    """Names of the dimensions of both operands: equal where they are summed or are batches."""
    (left, right), (batch_left, batch_right) = dots
    operands = [
        {at: f"{side} {at}" for at in range(len(shape_of(operand)))}
        for side, operand in zip(("left", "right"), operation.operands[:2], strict=True)
    ]
    for word, ones, others in (("contracting", left, right), ("batch", batch_left, batch_right)):
        for count, (one, other) in enumerate(zip(ones, others, strict=True)):
            operands[0][one] = operands[1][other] = f"{word} {count}"
    return tuple(operands[0].values()), tuple(operands[1].values())


def _result(left: Names, right: Names) -> Names:
    """Batches in their order, then what is left of the left, then of the right operand."""
    batches = sorted((n for n in left if n and n.startswith("batch")), key=lambda n: int(n[6:]))
    kept = [n for n in left if n and n.startswith("left")]
    return (*batches, *kept, *(n for n in right if n and n.startswith("right")))


def _drop_names(names: Names, left_out: set[str | None]) -> Names:
    return tuple(None if name in left_out else name for name in names)


def convolution(operation: Operation) -> Indices:
    """Batch and output features are free, input features summed; of groups, only the groups.

    A spatial dimension is free if its windows tile it: kernel and stride are equal, nothing is
    padded or dilated. Otherwise windows reach into their neighbours' parts, which is refused.
    """
    images, kernels, made = (
        read_entry(operation, "dimension_numbers", name)
        for name in ("lhs_spec", "rhs_spec", "out_spec")
    )
    shapes = [*map(shape_of, operation.operands), operation.results[0].type.shape]
    image, kernel, result = (dict.fromkeys(range(len(shape)), "") for shape in shapes)
    features = read_number(operation, "feature_group_count")
    batches = read_number(operation, "batch_group_count")
    notes = {}
    if batches > 1:
        image[images[0]] = kernel[kernels[0]] = result[made[1]] = "groups"
        notes["groups"] = Note(batches, Cut("batch_group_count"))
    else:
        image[images[0]] = result[made[0]] = "batch"
    if features > 1:
        image[images[1]] = kernel[kernels[0]] = result[made[1]] = "groups"
        notes["groups"] = Note(features, Cut("feature_group_count"))
    elif batches == 1:
        image[images[1]] = kernel[kernels[1]] = "input features"
        kernel[kernels[0]] = result[made[1]] = "output features"
    for axis, (place, out) in enumerate(zip(images[2:], made[2:], strict=True)):
        size = shapes[1][kernels[2 + axis]]
        if _is_tiled(operation, axis, shapes[0][place], size):
            image[place] = result[out] = f"spatial {axis}"
            notes[f"spatial {axis}"] = Note(shapes[0][place] // size)
    one, other, out_names = (
        tuple(name or None for name in names.values()) for names in (image, kernel, result)
    )
    return Indices([one, other], [out_names], notes=notes)


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
