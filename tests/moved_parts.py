"""Redistributions as emitted functions, and what they make of the parts of virtual devices.

All paths of one call stand in one file, so a runtime starts once for hundreds of them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from fleet.run_moves import stored
from forking import jax_python
from grammar.tensors.operations import Value
from grammar.tensors.sharding import Kind, Type, part_shape, shardings
from places import TESTS
from ranks_in_threads import parts_in_threads
from replicas import Array, Parts, cut, devices, mismatch
from synth.run.processes import Command, supervise
from synth.train.emit import Section, write_some
from synth.train.plans import Moved
from synth.train.resharding import How, path_between
from synth.train.resharding import Path as MovePath
from synth.train.resharding.rules import moves

Sizes = Mapping[str, int]
Case = tuple[Type, MovePath]

SCRIPT = TESTS / "fleet" / "run_moves.py"
DTYPES = {Kind.SUM: ("f32", "i32"), Kind.MAX: ("f32", "i32", "bool"), Kind.MIN: ("f32", "u8")}
"""Element types of the values that are moved: floats, whole numbers with and without a sign."""
_LONG = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": bfloat16,
    "i32": np.int32,
    "u8": np.uint8,
    "bool": np.bool_,
}


PAIRS = 11
"""Of each so many pairs of types the cheapest path from one to the other is a case."""


def cases(sizes: Sizes) -> dict[str, list[Case]]:
    """Each move between the types of a matrix by its kind, and cheapest paths of several moves.

    Element types take turns. Of moves that reduce nothing there is one for each kind of reduction.
    """
    matrix = (len(list(devices(sizes))),) * 2
    found: dict[str, list[Case]] = {how.value: [] for how in How} | {"paths": []}
    for kind, dtypes in DTYPES.items():
        turns = cycle(dtypes)
        lies = list(shardings(2, tuple(sizes), (kind,)))
        each = {move: None for one in lies for move in moves(one, sizes, frozenset((kind,)))}
        for move in each:
            path = MovePath(move.before, move.after, (move,))
            found[move.how.value].append((Type(next(turns), matrix), path))
        for one, other in [*product(lies, lies)][::PAIRS]:
            path = path_between(Type("f32", matrix), one, other, sizes)
            if len(path.moves) > 1:
                found["paths"].append((Type(next(turns), matrix), path))
    return found


class Small(np.random.Generator):
    """Draws parts of sums an eighth as large: bfloat16 has whole numbers up to 256 exactly."""

    def integers(self, low: int, high: int, *shape: Any) -> Any:
        return super().integers(*((-(-low // 8), high // 8) if low < 0 else (low, high)), *shape)


def differences(runtime: str, some: Sequence[Case], sizes: Sizes, folder: Path) -> list[str]:
    """The paths after which devices do not hold the value that they held before, in words."""
    draw, small = np.random.default_rng(0), Small(np.random.PCG64(0))
    wholes = [_drawn(kind, draw) for kind, _ in some]
    given = [
        cut(whole, path.source, sizes, small if kind.dtype == "bf16" else draw)
        for whole, (kind, path) in zip(wholes, some, strict=True)
    ]
    made = RUNNERS[runtime](text_of(LANGUAGE[runtime], some, sizes), given, sizes, folder)
    found = []
    for whole, (kind, path), parts in zip(wholes, some, made, strict=True):
        assert parts[next(devices(sizes))].shape == part_shape(kind, path.target, sizes)
        if problem := mismatch(parts, whole, path.target, sizes):
            found.append(f"{kind}: {'; '.join(map(str, path.moves))}: {problem}")
    return found


def text_of(runtime: str, some: Sequence[Case], sizes: Sizes) -> str:
    """The emitted function: of values as paths begin the same values as these end."""
    values = [Value(f"x{at}", kind) for at, (kind, _) in enumerate(some)]
    pairs = [(value, path) for value, (_, path) in zip(values, some, strict=True)]
    section = Section(
        None,
        tuple(Moved(value, path) for value, path in pairs),
        tuple((value, path.source) for value, path in pairs),
        tuple((value, path.target) for value, path in pairs),
    )
    return write_some(runtime, section, sizes)


def _drawn(kind: Type, draw: np.random.Generator) -> Array:
    """No number is the neutral element of a reduction, or next to it."""
    low, high = (0, 2) if kind.dtype == "bool" else (1, 99)
    return np.asarray(draw.integers(low, high, kind.shape).astype(_LONG[kind.dtype]))


def _together(given: Sequence[Parts]) -> dict[str, Array]:
    """Of each value the parts of all devices, which are the first dimension."""
    stacks = [np.stack(list(parts.values())) for parts in given]
    return dict(map(stored, range(len(stacks)), stacks))


def _in_jax(text: str, given: Sequence[Parts], sizes: Sizes, folder: Path) -> list[Parts]:
    (folder / "step.py").write_text(text, encoding="utf-8")
    np.savez(folder / "given.npz", allow_pickle=False, **_together(given))
    world = len(given[0])
    flags = f"--xla_force_host_platform_device_count={world} --xla_backend_optimization_level=0"
    words = (*jax_python(), str(SCRIPT), "jax", str(folder))
    supervise(
        [
            Command(
                "JAX", words, {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1"}
            )
        ],
        folder,
        600.0,
    )
    return _read(folder / "made.npz", sizes)


def _by_gloo(text: str, given: Sequence[Parts], sizes: Sizes, folder: Path) -> list[Parts]:
    (folder / "step.py").write_text(text, encoding="utf-8")
    np.savez(folder / "given.npz", allow_pickle=False, **_together(given))
    world = len(given[0])
    words = (sys.executable, str(SCRIPT), "torch", str(folder))
    shared = {"WORLD_SIZE": str(world), "OMP_NUM_THREADS": "1"}
    commands = [
        Command(f"rank {rank}", words, {**shared, "RANK": str(rank)}) for rank in range(world)
    ]
    supervise(commands, folder, 600.0)
    return _read(folder / "made.npz", sizes)


def _in_threads(text: str, given: Sequence[Parts], sizes: Sizes, folder: Path) -> list[Parts]:
    made = parts_in_threads(text, [list(parts.values()) for parts in given], len(given[0]))
    return [dict(zip(devices(sizes), parts, strict=True)) for parts in made]


def _read(file: Path, sizes: Sizes) -> list[Parts]:
    with np.load(file, allow_pickle=False) as saved:
        arrays = {name: saved[name] for name in saved.files}
        made = (
            array.view(bfloat16) if name.endswith("bf16") else array
            for name, array in arrays.items()
        )
        return [dict(zip(devices(sizes), array, strict=True)) for array in made]


RUNNERS: Mapping[str, Any] = {"jax": _in_jax, "torch": _in_threads, "gloo": _by_gloo}
LANGUAGE = {"jax": "jax", "torch": "torch", "gloo": "torch"}
