"""Traces a step over abstract values: nothing is allocated, and nothing is computed.

A step is ``step(parameters, moments, batch) -> (parameters, moments, loss)``, with any nested
lists and dicts of values. Its arguments need only shapes and dtypes, so a laptop can trace a step
of any size. JAX computes the derivatives, so this package needs no rules for them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from traceback import extract_tb
from types import TracebackType
from typing import Any

import jax
import numpy as np

from grammar.tensors.constants import check_size
from grammar.tensors.operations import Step
from hierarchies import InputError
from synth.step.trace.pruning import prune
from synth.step.trace.reading import read_jaxpr

Tree = Any
"""Nested dicts and lists of values with a shape and a dtype."""


def trace_step(
    name: str,
    step: Callable[[Tree, Tree, Tree], tuple[Tree, Tree, Tree]],
    given: tuple[Tree, Tree, Tree],
    unknown: Sequence[str] = (),
    kept: str = "moment",
) -> Step:
    """Traces a step, with inputs named as in ``given``: parameters, moments and batch.

    ``kept`` is the role of the second argument; inference keeps a ``cache``. Primitives in
    ``unknown`` are kept, for every device to compute in full. Raises InputError, with the line of
    the user's code, for a step that cannot be traced and for other unknown primitives.
    """
    abstract = shapes_of(given)
    try:
        closed, made = jax.make_jaxpr(step, return_shape=True)(*abstract)
    except InputError:
        raise
    except Exception as error:  # A user's model may raise anything.
        raise _tracing_error(name, error) from error
    roles, labels = zip(*_inputs(abstract, kept), strict=True)
    graph, captured = read_jaxpr(closed, _make_distinct(roles, labels), unknown)
    held = tuple(f"constant/{at}" for at in range(len(captured)))
    constants = graph.inputs[len(labels) :]
    return Step(
        name=name,
        graph=prune(graph),
        roles=(*roles, *("state" for _ in held)),
        labels=(*labels, *held),
        updates=_updates(name, abstract, made),
        constants=tuple(
            (value.name, _bytes(array, name))
            for value, array in zip(constants, captured, strict=True)
        ),
    )


def _bytes(array: Any, name: str) -> bytes:
    """Returns the elements of an array in C order, little-endian. Raises InputError if too many."""
    elements = np.asarray(array)
    check_size(elements.nbytes, where=name)
    return elements.astype(elements.dtype.newbyteorder("<")).tobytes()


def shapes_of(given: tuple[Tree, Tree, Tree]) -> tuple[Tree, Tree, Tree]:
    """Replaces each value of the trees by its shape and element type."""
    shapes: tuple[Tree, Tree, Tree] = jax.tree.map(_to_abstract, given)
    return shapes


def _to_abstract(value: Any) -> jax.ShapeDtypeStruct:
    if not hasattr(value, "dtype"):
        value = jax.numpy.asarray(value)
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


def _inputs(given: tuple[Tree, Tree, Tree], kept: str) -> Iterator[tuple[str, str]]:
    """Yields the role and the label of each input; a scalar among the moments is a state."""
    for role, tree in zip(("parameter", kept, "batch"), given, strict=True):
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            is_state = role == kept and leaf.ndim == 0
            label = jax.tree_util.keystr(path, simple=True, separator="/")
            yield "state" if is_state else role, label or role


def _make_distinct(roles: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Makes labels unique and legal as names; a later equal label is prefixed by its role."""
    names: list[str] = []
    for role, label in zip(roles, labels, strict=True):
        plain = re.sub(r"[^\w./-]", "_", label, flags=re.ASCII)
        if not re.match(r"(?!v\d+$)[A-Za-z_]", plain) or plain in names:
            plain = f"{role}/{plain}"
        name, number = plain, 1
        while name in names:
            number += 1
            name = f"{plain}_{number}"
        names.append(name)
    return names


def _updates(name: str, given: tuple[Tree, Tree, Tree], made: Any) -> tuple[tuple[int, int], ...]:
    """Pairs outputs with the inputs they replace. Raises InputError if they differ in structure."""
    hint = "a step returns the new parameters, the new moments and the loss"
    if not isinstance(made, tuple) or len(made) != 3:
        raise InputError("a step that does not return three things", where=name, hint=hint)
    for trees, before, after in zip(("parameters", "moments"), given, made, strict=False):
        structure = jax.tree.structure(after)
        if str(jax.tree.structure(before)) != str(structure):
            raise InputError(f"the {trees} are returned as {structure}", where=name, hint=hint)
        pairs = jax.tree_util.tree_leaves_with_path(before), jax.tree.leaves(after)
        for (path, old), new in zip(*pairs, strict=True):
            if (old.shape, old.dtype) != (new.shape, new.dtype):
                label = jax.tree_util.keystr(path, simple=True, separator="/")
                problem = (
                    f"{label} is passed as {_spell_value(old)} and returned as {_spell_value(new)}"
                )
                raise InputError(problem, where=name, hint="both must have the same shape and type")
    return tuple((at, at) for at in range(len(jax.tree.leaves(given[:2]))))


def _spell_value(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}"


def _tracing_error(name: str, error: Exception) -> InputError:
    """Reports an error inside a model by its first line, and the innermost line of user code."""
    message = (str(error).strip() or type(error).__name__).splitlines()[0]
    hint = ""
    if isinstance(error, (jax.errors.JAXTypeError, jax.errors.JAXIndexError)):
        hint = "a step is traced without data: shapes and branches must not depend on values"
    problem = f"the step cannot be traced: {type(error).__name__}: {message}"
    return InputError(problem, where=_user_line(error.__traceback__) or name, hint=hint)


def _user_line(trace: TracebackType | None) -> str:
    ours, jax_itself = PurePath(__file__), PurePath(jax.__file__).parent
    standard_library = PurePath(os.__file__).parent  # JAX calls its rules by way of contextlib
    for frame in reversed(extract_tb(trace)):
        path = PurePath(frame.filename)
        if jax_itself not in path.parents and path != ours and path.parent != standard_library:
            return f"{path.name}:{frame.lineno}"
    return ""
