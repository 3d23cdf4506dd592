"""Lists all recipes for a model on a number of devices: sizes of axes, and the cuts of each axis.

The recipes follow from the extents that axes must divide (``extents_of`` reads them from a step):
heads and widths of weights, tokens, experts, layers, samples. Axes are named ``pipe``, ``data``,
``expert``, ``seq`` and ``tensor``, major first, as frameworks order them; axes of size 1 are left
out. A recipe does not place its axes on a machine; ``hierarchies.placements`` lists placements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod
from typing import Any

from grammar.tensors.operations import Step
from hierarchies import InputError
from synth.step.schedules import HALVES, SCHEDULES, check_sizes, chunks_of
from synth.step.sharding.expansion import RAGGED, clause_place
from synth.step.sharding.layers.apart import find_stacks
from synth.step.sharding.plan import PIPE
from synth.step.sharding.recipes import CLAUSES, Recipe, share_layers

BATCH_AXES = ("data", "expert")
"""The axes that cut the batch, major first."""

WHOLE_BACKWARD = tuple(name for name in SCHEDULES if name not in HALVES)
"""The schedules with whole backward passes."""

SEVERAL_CHUNKS = ("interleaved-1f1b", "looped-bfs")
"""The schedules that are equal to 1F1B and GPipe if a rank has a single stage."""

Degrees = tuple[int, ...]


@dataclass(frozen=True)
class Extents:
    """The extents that sizes of axes must divide: the common divisor of all dimensions of a clause.

    0 if a clause cuts nothing of the model. ``layers`` is the number of layers to put on stages.
    """

    batch: int
    tokens: int = 0
    megatron: int = 0
    vocabulary: int = 0
    experts: int = 0
    layers: int = 0


def extents_of(step: Step) -> Extents:
    """Returns the extents of a step, from the labels and shapes of its inputs."""
    divisors = dict.fromkeys(CLAUSES, 0)
    for clause in CLAUSES:
        for at, value in enumerate(step.graph.inputs):
            place = clause_place(step, clause, at)
            if place is not None:
                divisors[clause] = gcd(divisors[clause], value.type.shape[place])
    if any(operation.primitive in RAGGED for operation in step.graph.everywhere()):
        divisors["experts"] = 0
    stacked = find_stacks(step)
    layers = 0
    for value, role in zip(step.graph.inputs, step.roles, strict=True):
        if role == "parameter" and value.name in stacked:
            layers = gcd(layers, value.type.shape[0])
    return Extents(**divisors, layers=layers)


def _powers(count: int) -> tuple[int, ...]:
    return tuple(2**exponent for exponent in range(count))


@dataclass(frozen=True)
class Knobs:
    """The values of each setting to try.

    ``degrees``: sizes of an axis. ``sequence``: sequence parallelism, in which values between the
    halves of a layer are cut by tokens along ``tensor``. ``unstaged``: numbers of microbatches
    without a pipeline. ``uneven``: if stages do not divide the layers, they get unequal numbers
    (``share_layers``). ``bucket_bytes``: size of the buckets in which gradients are summed; 0 for
    none. The axis that cuts experts always cuts the batch as well.
    """

    degrees: Sequence[int] = _powers(16)
    axes: Sequence[str] = ("pipe", "data", "expert", "seq", "tensor")
    zero: Sequence[int] = (0, 1, 2, 3)
    sequence: Sequence[bool] = (False, True)
    schedules: Sequence[str] = WHOLE_BACKWARD
    chunks: Sequence[int] = (1, 2, 4)
    microbatches: Sequence[int] = _powers(8)
    unstaged: Sequence[int] = (1,)
    uneven: bool = False
    remat: Sequence[bool] = (False, True)
    vocabulary: Sequence[bool] = (True,)
    bucket_bytes: int = 0


def list_recipes(devices: int, extents: Extents, knobs: Knobs | None = None) -> Iterator[Recipe]:
    """Yields every recipe that the extents allow, in a stable order, each once.

    The product of the axes is ``devices``. Every microbatch has the same number of samples on each
    device of ``data``, at least one. Every stage has at least one layer. ``plan_of`` may refuse a
    recipe for other reasons (batch norms read all microbatches at once).
    """
    knobs = knobs or Knobs()
    for sizes in _sizes(devices, knobs):
        yield from recipes_of(sizes, extents, knobs)


def _sizes(devices: int, knobs: Knobs) -> Iterator[Mapping[str, int]]:
    """Yields all sizes of the axes whose product is the number of devices."""

    def factorise(names: Sequence[str], remaining: int) -> Iterator[Degrees]:
        if not names:
            if remaining == 1:
                yield ()
            return
        for size in knobs.degrees:
            if remaining % size == 0:
                for others in factorise(names[1:], remaining // size):
                    yield (size, *others)

    for sizes in factorise(knobs.axes, devices):
        yield dict(zip(knobs.axes, sizes, strict=True))


def _divides(sizes: Mapping[str, int], extents: Extents) -> bool:
    """Whether every axis in types has an extent to cut, and divides it."""
    cut = {
        "data": extents.batch,
        "seq": extents.tokens,
        "tensor": extents.megatron,
        "expert": extents.experts,
    }
    return all(
        size == 1 or name == PIPE or (cut[name] > 0 and cut[name] % size == 0)
        for name, size in sizes.items()
    )


def recipes_of(sizes: Mapping[str, int], extents: Extents, knobs: Knobs) -> Iterator[Recipe]:
    """Yields every recipe with the given sizes of axes, in a stable order."""
    if not _divides(sizes, extents):
        return
    axes = tuple((name, size) for name, size in sizes.items() if size > 1) or (("data", 1),)
    summed = _replicas(sizes) * sizes.get("seq", 1) > 1
    for (count, schedule, chunks, layers), cuts, zero, remat in product(
        _passes(sizes, extents, knobs),
        _cuts(sizes, extents, knobs),
        knobs.zero if summed else (0,),
        knobs.remat,
    ):
        yield Recipe(
            axes,
            zero=zero,
            microbatches=count,
            schedule=schedule,
            chunks=chunks,
            layers=layers,
            remat=remat,
            bucket_bytes=knobs.bucket_bytes if summed else 0,
            **cuts,
        )


def _replicas(sizes: Mapping[str, int]) -> int:
    """Returns the number of parts into which the devices cut the batch."""
    return prod(sizes.get(axis, 1) for axis in BATCH_AXES)


def _passes(
    sizes: Mapping[str, int], extents: Extents, knobs: Knobs
) -> Iterator[tuple[int, str, int, tuple[int, ...]]]:
    """Yields microbatches, schedule, chunks, and the layers of stages if they are unequal."""
    stages, data = sizes.get(PIPE, 1), _replicas(sizes)
    if stages == 1:
        for count in knobs.unstaged:
            if extents.batch % (count * data) == 0:
                yield count, "", 1, ()
        return
    for count, schedule, chunks in product(knobs.microbatches, knobs.schedules, knobs.chunks):
        fits = count > 1 and extents.batch % (count * data) == 0
        extra = extents.layers % (stages * chunks)
        enough = stages * chunks <= extents.layers if knobs.uneven else extents.layers and not extra
        if fits and enough and _is_distinct_schedule(schedule, stages, count, chunks):
            layers = share_layers(extents.layers, stages * chunks) if extra else ()
            yield count, schedule, chunks, layers


def _is_distinct_schedule(schedule: str, ranks: int, microbatches: int, chunks: int) -> bool:
    """Whether a schedule exists for these numbers, and is not equal to a simpler one."""
    if chunks != chunks_of(schedule, chunks) or (chunks == 1 and schedule in SEVERAL_CHUNKS):
        return False
    try:
        check_sizes(schedule, ranks, microbatches, chunks)
    except InputError:
        return False
    return True


def _cuts(sizes: Mapping[str, int], extents: Extents, knobs: Knobs) -> Iterator[dict[str, Any]]:
    """Yields the axes of all clauses, for each combination of the knobs."""
    present = {name for name, size in sizes.items() if size > 1}
    tensor = "tensor" in present
    words = tensor and extents.vocabulary and extents.vocabulary % sizes["tensor"] == 0
    by_tokens = tensor and extents.tokens and extents.tokens % sizes["tensor"] == 0
    for sequence, vocabulary in product(knobs.sequence, knobs.vocabulary if words else (False,)):
        if sequence and (not by_tokens or "seq" in present):
            continue
        cuts: dict[str, Any] = {"batch": tuple(axis for axis in BATCH_AXES if axis in present)}
        cuts |= {"megatron": "tensor"} if tensor else {}
        cuts |= {"vocabulary": "tensor"} if vocabulary else {}
        cuts |= {"tokens": "seq"} if "seq" in present else {"tokens": "tensor"} if sequence else {}
        yield cuts | ({"experts": "expert"} if "expert" in present else {})
