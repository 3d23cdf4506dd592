"""A step traced over abstract values: nothing is allocated, and nothing is computed.

A step is ``step(parameters, moments, batch) -> (parameters, moments, loss)``, of any nested
lists and dicts of values. What it is called with needs a shape and a dtype only, so that the step
of a model of any size is traced on a laptop. The derivatives are JAX's, so no rule of ours is
about them.
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
"""Nested dicts and lists of what has a shape and a dtype."""


def trace_step(
    name: str,
    step: Callable[[Tree, Tree, Tree], tuple[Tree, Tree, Tree]],
    given: tuple[Tree, Tree, Tree],
    unknown: Sequence[str] = (),
    kept: str = "moment",
) -> Step:
    """The step as a graph, its inputs named as in ``given``: parameters, moments and batch.

    ``kept`` is the role of the second of these; inference keeps a ``cache``. Raises InputError for
    what cannot be traced or is not known, with its user's line.
    """
    abstract = shapes_of(given)
    try:
        closed, made = jax.make_jaxpr(step, return_shape=True)(*abstract)
    except InputError:
        raise
    except Exception as error:  # whatever a model of somebody else may raise
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
    """The elements of a captured array in C order, little-endian. Raises InputError."""
    found = np.asarray(array)
    check_size(found.nbytes, where=name)
    return found.astype(found.dtype.newbyteorder("<")).tobytes()


def shapes_of(given: tuple[Tree, Tree, Tree]) -> tuple[Tree, Tree, Tree]:
    """The same trees with the shape and the element type of each value only."""
    found: tuple[Tree, Tree, Tree] = jax.tree.map(_to_abstract, given)
    return found


def _to_abstract(value: Any) -> jax.ShapeDtypeStruct:
    """What is known of a value before the step runs."""
    if not hasattr(value, "dtype"):
        value = jax.numpy.asarray(value)
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


def _inputs(given: tuple[Tree, Tree, Tree], kept: str) -> Iterator[tuple[str, str]]:
    """The role and the label of each input; a number that is no moment of anything is a state."""
    for role, tree in zip(("parameter", kept, "batch"), given, strict=True):
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            is_state = role == kept and leaf.ndim == 0
            label = jax.tree_util.keystr(path, simple=True, separator="/")
            yield "state" if is_state else role, label or role


def _make_distinct(roles: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Names that the text can have, each another: of two equal labels the later has its role."""
    found: list[str] = []
    for role, label in zip(roles, labels, strict=True):
        plain = re.sub(r"[^\w./-]", "_", label, flags=re.ASCII)
        if not re.match(r"(?!v\d+$)[A-Za-z_]", plain) or plain in found:
            plain = f"{role}/{plain}"
        name, number = plain, 1
        while name in found:
            number += 1
            name = f"{plain}_{number}"
        found.append(name)
    return found


def _updates(name: str, given: tuple[Tree, Tree, Tree], made: Any) -> tuple[tuple[int, int], ...]:
    """Parameters and moments come back at the same places. Raises InputError where they do not."""
    hint = "a step returns the new parameters, the new moments and the loss"
    if not isinstance(made, tuple) or len(made) != 3:
        raise InputError("a step that does not return three things", where=name, hint=hint)
    for what, before, after in zip(("parameters", "moments"), given, made, strict=False):
        now = jax.tree.structure(after)
        if str(jax.tree.structure(before)) != str(now):
            raise InputError(f"the {what} come back as {now}", where=name, hint=hint)
        pairs = jax.tree_util.tree_leaves_with_path(before), jax.tree.leaves(after)
        for (path, one), other in zip(*pairs, strict=True):
            if (one.shape, one.dtype) != (other.shape, other.dtype):
                label = jax.tree_util.keystr(path, simple=True, separator="/")
                problem = (
                    f"{label} goes in as {_spell_value(one)} and comes back as "
                    f"{_spell_value(other)}"
                )
                raise InputError(problem, where=name, hint="both must be alike")
    return tuple((at, at) for at in range(len(jax.tree.leaves(given[:2]))))


def _spell_value(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}"


def _tracing_error(name: str, error: Exception) -> InputError:
    """What went wrong inside a model: the error's first line, and the last line of its user's."""
    said = (str(error).strip() or type(error).__name__).splitlines()[0]
    hint = ""
    if isinstance(error, (jax.errors.JAXTypeError, jax.errors.JAXIndexError)):
        hint = "a step is traced without data: no shape and no branch may depend on values"
    problem = f"the step cannot be traced: {type(error).__name__}: {said}"
    return InputError(problem, where=_user_line(error.__traceback__) or name, hint=hint)


def _user_line(trace: TracebackType | None) -> str:
    ours, jax_itself = PurePath(__file__), PurePath(jax.__file__).parent
    standard_library = PurePath(os.__file__).parent  # JAX calls its rules by way of contextlib
    for frame in reversed(extract_tb(trace)):
        path = PurePath(frame.filename)
        if jax_itself not in path.parents and path != ours and path.parent != standard_library:
            return f"{path.name}:{frame.lineno}"
    return ""
