"""Every redistribution over two axes, emitted and carried out: each device has its block."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
pytest.importorskip("torch", reason="needs torch, of the extra 'torch'")

from grammar.tensors.operations import Graph, Step, Value
from grammar.tensors.sharding import ReductionKind, Sharding, Type, replicated_sharding, shardings
from replicas import cut
from synth.step.emit import output_names, write
from synth.step.emit.moves import find_senders
from synth.step.redistribution import MoveKind, find_path
from synth.step.redistribution.rules import list_moves
from synth.step.sharding import RedistributedValue, StepProgram
from synth.step.trials import TrialSettings, run_trial

SIZES = {"data": 2, "model": 3}
KIND = Type("f32", (6, 12))


def redistributed(kind: ReductionKind, every: int = 1) -> tuple[Step, StepProgram]:
    """A step that does nothing else: of each value that lies one way, an output of each other.

    What is partial comes of what is whole, and is made whole in the end, as no input or output of
    a file can be partial.
    """
    lies = list(shardings(2, tuple(SIZES), (kind,)))
    pairs = [(one, other) for one in lies for other in lies if one != other][::every]
    values = {one: Value(f"x{at}", KIND) for at, one in enumerate(lies)}
    inputs = tuple(replicated_sharding(2) if one.partial else one for one in lies)
    moved = [
        RedistributedValue(values[one], find_path(KIND, replicated_sharding(2), one, SIZES))
        for one in lies
        if one.partial
    ]
    moved += [
        RedistributedValue(values[one], find_path(KIND, one, other, SIZES)) for one, other in pairs
    ]
    graph = Graph(tuple(values.values()), (), tuple(values[one] for one, _ in pairs))
    names = tuple(one.name for one in graph.inputs)
    step = Step("moves", graph, ("parameter",) * len(names), names)
    return step, StepProgram(inputs, tuple(moved), tuple(other for _, other in pairs))


def judge(runtime: str, processes: int, kind: ReductionKind, folder: Path, every: int = 1) -> None:
    step, program = redistributed(kind, every)
    draw = np.random.default_rng(0)
    inputs = {
        one.name: draw.integers(-9, 9, KIND.shape).astype(np.float32) for one in step.graph.inputs
    }
    text = write(runtime, step, program, SIZES)
    found = run_trial(
        {"step.py": text}, 6, inputs, TrialSettings(runtime, processes, 1, 300.0), folder
    )
    names = output_names(step)
    for name, value, sharding in zip(names, step.graph.outputs, program.outputs, strict=True):
        wanted = cut(inputs[value.name], Sharding(sharding.dimensions), SIZES, draw)
        for rank, at in enumerate(product(*map(range, SIZES.values()))):
            assert np.array_equal(found.parts[rank, name][0], wanted[at]), (value, sharding, at)


def test_all_kinds_of_moves_are_among_them() -> None:
    _, program = redistributed(ReductionKind.SUM)
    assert len(program.instructions) == 306 + 7
    assert {move.how for one in program.moved() for move in one.path.moves} == set(MoveKind)


@pytest.mark.parametrize("sizes", [{"a": 2, "b": 2, "c": 2}, {"c": 3, "a": 2, "b": 3}])
def test_a_permute_has_one_receiver_for_each_sender_in_the_order_of_the_mesh(
    sizes: dict[str, int],
) -> None:
    """JAX refuses repeated senders, and counts members in the order of the mesh."""
    every = (
        move
        for one in shardings(2, tuple(sizes), ())
        for move in list_moves(one, sizes, frozenset())
    )
    found = [find_senders(move, sizes) for move in every if move.how is MoveKind.PERMUTE]
    assert found
    for axes, senders in found:
        assert list(axes) == [axis for axis in sizes if axis in axes]
        assert sorted(senders) == list(range(len(senders)))


@pytest.mark.slow
@pytest.mark.parametrize(("runtime", "processes"), [("jax", 1), ("torch", 6)])
def test_all_redistributions(runtime: str, processes: int, tmp_path: Path) -> None:
    judge(runtime, processes, ReductionKind.SUM, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("runtime", "processes"), [("jax", 1), ("torch", 6)])
def test_redistributions_of_maxima(runtime: str, processes: int, tmp_path: Path) -> None:
    judge(runtime, processes, ReductionKind.MAX, tmp_path, every=7)
