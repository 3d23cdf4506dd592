"""Draws numbers to train on: small weights, scales near 1, and a batch for each step.

Moments have values as in the middle of training. At its start AdamW divides each gradient by its
own size. A gradient that should be zero, such as that of a bias to all keys of an attention, would
then move its parameter as far as any other gradient, in a direction decided by rounding.
"""

from __future__ import annotations

from itertools import count, takewhile
from typing import Any

import numpy as np
import numpy.typing as npt

from grammar.tensors.operations import Step

Array = npt.NDArray[Any]
Values = dict[str, Array]
"""Arrays by the names of a step's inputs and outputs; batches have a first dimension of steps."""

GRADIENT = 0.01
"""The typical size of gradients."""
_YES_OR_NO = ("sentences", "follows", "masked")
"""Inputs of the zoo that are 0 or 1."""


def draw_inputs(step: Step, steps: int, classes: int, seed: int = 0) -> Values:
    """Draws the same numbers in each call; integers in batches are below ``classes``.

    Arrays that a model closes over are omitted, because the step has their values. All batches
    differ, and no two numbers of a weight are equal, so a permutation is noticed.
    """
    draw = np.random.default_rng(seed)
    values: Values = {}
    array: Array
    captured = dict(step.constants)
    for label, role, graph_input in zip(step.labels, step.roles, step.graph.inputs, strict=True):
        if graph_input.name in captured:
            continue
        whole = not graph_input.type.dtype.startswith(("f", "bf"))
        last = label.rpartition("/")[2]
        shape = (steps, *graph_input.type.shape) if role == "batch" else graph_input.type.shape
        if role == "moment" and label.startswith("mean"):
            array = GRADIENT * draw.standard_normal(shape)
        elif role == "moment" and label.startswith("square"):
            array = GRADIENT**2 * draw.uniform(0.5, 1.5, shape)
        elif role in ("moment", "state", "cache"):
            array = np.zeros(shape)
        elif last in _YES_OR_NO:
            array = draw.integers(0, 2, shape)
        elif whole:
            array = draw.integers(0, classes, shape)
        else:
            array = draw.standard_normal(shape) * (1 if role == "batch" else 0.1)
            array += role == "parameter" and ("scale" in last or "norm" in last)
        values[graph_input.name] = array.astype(np.int32 if whole else np.float32)
    return values


def split_stacks(step: Step, values: Values, axis: int = 0) -> Values:
    """Splits stacks for a step whose layers are separate, into one piece per input of the step.

    ``axis``: the dimension of layers; 1 if the first dimension is steps.
    """
    inputs = step.graph.values
    split: Values = {}
    for name, array in values.items():
        pieces = list(takewhile(inputs.__contains__, (f"{name}.{at}" for at in count())))
        if name in inputs or not pieces:
            split[name] = array
        else:
            ends = np.cumsum([inputs[piece].type.shape[0] for piece in pieces])
            split |= zip(pieces, np.split(array, ends[:-1], axis), strict=True)
    return split
