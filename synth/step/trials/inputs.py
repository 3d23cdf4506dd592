"""Numbers to train on: small weights, scales near 1, a batch for each step.

Moments are those of training that is under way. At its begin AdamW divides each gradient by its
own size, so that one that should be zero, as that of a bias to all keys of an attention, moves its
parameter as far as any other, and rounding decides where to.
"""

from __future__ import annotations

from itertools import count, takewhile
from typing import Any

import numpy as np
import numpy.typing as npt

from grammar.tensors.operations import Step

Array = npt.NDArray[Any]
Values = dict[str, Array]
"""Arrays by the names of a step's inputs and outputs; batches have one more dimension: steps."""

GRADIENT = 0.01
"""About as large as gradients are."""
_YES_OR_NO = ("sentences", "follows", "masked")
"""Inputs of the zoo that are 0 or 1."""


def draw_inputs(step: Step, steps: int, classes: int, seed: int = 0) -> Values:
    """The same numbers for each call; whole numbers in batches are below ``classes``.

    Not of the arrays that a model closes over, whose values the step has.

    All batches differ, and no two numbers of a weight are alike, so that nothing that changes
    places goes unnoticed.
    """
    draw = np.random.default_rng(seed)
    found: Values = {}
    made: Array
    known = dict(step.constants)
    for label, role, value in zip(step.labels, step.roles, step.graph.inputs, strict=True):
        if value.name in known:
            continue
        whole = not value.type.dtype.startswith(("f", "bf"))
        last = label.rpartition("/")[2]
        shape = (steps, *value.type.shape) if role == "batch" else value.type.shape
        if role == "moment" and label.startswith("mean"):
            made = GRADIENT * draw.standard_normal(shape)
        elif role == "moment" and label.startswith("square"):
            made = GRADIENT**2 * draw.uniform(0.5, 1.5, shape)
        elif role in ("moment", "state", "cache"):
            made = np.zeros(shape)
        elif last in _YES_OR_NO:
            made = draw.integers(0, 2, shape)
        elif whole:
            made = draw.integers(0, classes, shape)
        else:
            made = draw.standard_normal(shape) * (1 if role == "batch" else 0.1)
            made += role == "parameter" and ("scale" in last or "norm" in last)
        found[value.name] = made.astype(np.int32 if whole else np.float32)
    return found


def split_stacks(step: Step, values: Values, axis: int = 0) -> Values:
    """The values as a step has them whose layers are apart: stacks in as many pieces as inputs.

    ``axis`` is that of layers: 1 where there is a value for each step.
    """
    names = step.graph.values
    found: Values = {}
    for name, array in values.items():
        pieces = list(takewhile(names.__contains__, (f"{name}.{at}" for at in count())))
        if name in names or not pieces:
            found[name] = array
        else:
            ends = np.cumsum([names[one].type.shape[0] for one in pieces])
            found |= zip(pieces, np.split(array, ends[:-1], axis), strict=True)
    return found
