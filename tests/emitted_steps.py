"""Emitted steps carried out in this process: what their functions give, without devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from grammar.tensors.operations import Graph, Operation, Step, Value
from synth.step.emit import write
from synth.step.factors import Row, shard_operation
from synth.step.sharding import Cuts, LocalOperation, Plan, StepProgram, apply
from synth.step.sharding.plan import replicate_all
from synth.step.trials import Values, draw_inputs

ALONE = {"one": 1}


def first_inputs(step: Step) -> Values:
    """What the first of drawn steps is given: parameters, moments, and one batch."""
    given = draw_inputs(step, 1, 8)
    both = zip(step.graph.inputs, step.roles, strict=True)
    return given | {one.name: given[one.name][0] for one, role in both if role == "batch"}


def step_of(operation: Operation) -> Step:
    """A step of one operation, all of whose operands are inputs."""
    inputs = tuple(dict.fromkeys(one for one in operation.operands if isinstance(one, Value)))
    graph = Graph(inputs, (operation,), operation.results)
    names = tuple(one.name for one in inputs)
    return Step("one", graph, ("batch",) * len(inputs), names)


def emitted(runtime: str, step: Step, plan: Plan | None = None) -> dict[str, Any]:
    """The names that the emitted file of a step defines; whole on one device without a plan."""
    plan = plan or Plan(tuple(ALONE.items()), replicate_all(step.graph))
    text = write(runtime, step, apply(step, plan), plan.sizes)
    return loaded(text)


def loaded(text: str) -> dict[str, Any]:
    """The names that a file defines; its main is not run."""
    names: dict[str, Any] = {"__name__": "emitted"}
    exec(compile(text, "step.py", "exec"), names)
    return names


def called(runtime: str, names: Mapping[str, Any], given: Sequence[Any]) -> list[np.ndarray]:
    """What ``device_step`` gives of these arrays."""
    if runtime == "jax":
        import jax.numpy as jnp

        return [np.asarray(one) for one in names["device_step"]([jnp.asarray(g) for g in given])]
    import torch

    narrow = np.dtype("bfloat16")  # numpy has it by ml_dtypes, which jax loads

    def tensor(one: Any) -> Any:
        array = np.array(one)
        array = array.astype(np.int64) if array.dtype == np.uint32 else array
        whole = torch.as_tensor(array.astype(np.float32) if array.dtype == narrow else array)
        return whole.to(torch.bfloat16) if array.dtype == narrow else whole

    def array(one: Any) -> np.ndarray:
        if one.dtype == torch.bfloat16:
            return np.asarray(one.float().numpy().astype(narrow))
        return np.asarray(one.numpy())

    return [array(one) for one in names["device_step"]([tensor(one) for one in given])]


def one_part(operation: Operation, row: Row, parts: int) -> StepProgram:
    """One operation, cut by a row along one axis: its results are left as they are."""
    how = shard_operation(operation, {"data": row}, {"data": parts})
    step = step_of(operation)
    lies = dict(zip(operation.operands, how.operands, strict=True))
    inputs = tuple(lies[value] for value in step.graph.inputs)
    return StepProgram(inputs, (LocalOperation(operation, how),), how.results)


__all__ = ["Cuts", "called", "emitted", "loaded", "one_part", "step_of"]
