"""All recipes for a model on so many devices: sizes of axes times what each of them may cut.

What a recipe may say follows from what axes must divide (``extents_of`` reads it from a step):
heads and widths of weights, tokens, experts, layers, samples. Axes are named ``pipe``, ``data``,
``expert``, ``seq`` and ``tensor``, major first, as frameworks order them; one of size 1 is left
out. Where an axis lies on a machine is no recipe's business: for each there are the ``placements``
of its axes.
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
"""The schedules that layers in a loop can have, too: a loop goes back in one piece."""

SEVERAL_CHUNKS = ("interleaved-1f1b", "looped-bfs")
"""The schedules that are others, 1F1B and GPipe, where a rank has one stage."""

Degrees = tuple[int, ...]


@dataclass(frozen=True)
class Extents:
    """What the sizes of axes must divide: of each clause the common divisor of all it cuts.

    0 where a model has nothing that a clause cuts. ``layers`` are those that stages share out.
    """

    batch: int
    tokens: int = 0
    megatron: int = 0
    vocabulary: int = 0
    experts: int = 0
    layers: int = 0


def extents_of(step: Step) -> Extents:
    """Read from the labels and shapes of a step's inputs."""
    found = dict.fromkeys(CLAUSES, 0)
    for clause in CLAUSES:
        for at, value in enumerate(step.graph.inputs):
            place = clause_place(step, clause, at)
            if place is not None:
                found[clause] = gcd(found[clause], value.type.shape[place])
    if any(one.primitive in RAGGED for one in step.graph.everywhere()):
        found["experts"] = 0
    stacked = find_stacks(step)
    layers = 0
    for value, role in zip(step.graph.inputs, step.roles, strict=True):
        if role == "parameter" and value.name in stacked:
            layers = gcd(layers, value.type.shape[0])
    return Extents(**found, layers=layers)


def _powers(count: int) -> tuple[int, ...]:
    return tuple(2**one for one in range(count))


@dataclass(frozen=True)
class Knobs:
    """What is tried beside sizes of axes; every field lists its values.

    ``degrees``: the sizes that an axis may have. ``sequence``: what is between the halves of a
    layer is cut by tokens along ``tensor``, too. ``unstaged``: microbatches where there are no
    stages. ``uneven``: stages may have unequal numbers of layers where these do not divide, by
    ``share_layers``. What cuts experts cuts the batch, too. ``bucket_bytes``: where gradients are
    summed, they go in such buckets; 0 for each by itself.
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


THREE_DEGREES = Knobs(
    axes=("pipe", "data", "tensor"),
    zero=(0,),
    sequence=(False,),
    schedules=("1f1b",),
    chunks=(1,),
    microbatches=_powers(8)[1:],
    remat=(False,),
    vocabulary=(False,),
)
"""Data, tensor and pipeline alone, and microbatches: the grid of DistIR (arXiv 2111.05426)."""


def list_recipes(devices: int, extents: Extents, knobs: Knobs | None = None) -> Iterator[Recipe]:
    """Every recipe that the extents allow, in a stable order, each once.

    Axes multiply to ``devices``; every microbatch has a sample on each device of ``data`` at least,
    and the same number of them. Every stage has a layer at least. What a step refuses for another
    reason (batch norms read all microbatches at once) ``plan_of`` says.
    """
    knobs = knobs or Knobs()
    for sizes in _sizes(devices, knobs):
        yield from recipes_of(sizes, extents, knobs)


def _sizes(devices: int, knobs: Knobs) -> Iterator[Mapping[str, int]]:
    """All sizes of the axes that multiply to so many devices."""

    def rest(names: Sequence[str], left: int) -> Iterator[Degrees]:
        if not names:
            if left == 1:
                yield ()
            return
        for size in knobs.degrees:
            if left % size == 0:
                for others in rest(names[1:], left // size):
                    yield (size, *others)

    for found in rest(knobs.axes, devices):
        yield dict(zip(knobs.axes, found, strict=True))


def _divides(sizes: Mapping[str, int], extents: Extents) -> bool:
    """Whether there is something for every axis of types to cut, and it divides it."""
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
    """Every recipe with such sizes of all the axes that there are, in a stable order."""
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
    """In how many parts devices cut the batch."""
    return prod(sizes.get(axis, 1) for axis in BATCH_AXES)


def _passes(
    sizes: Mapping[str, int], extents: Extents, knobs: Knobs
) -> Iterator[tuple[int, str, int, tuple[int, ...]]]:
    """Microbatches, schedule, chunks, and layers of stages if they have not as many."""
    stages, data = sizes.get(PIPE, 1), _replicas(sizes)
    if stages == 1:
        for count in knobs.unstaged:
            if extents.batch % (count * data) == 0:
                yield count, "", 1, ()
        return
    for count, schedule, chunks in product(knobs.microbatches, knobs.schedules, knobs.chunks):
        fits = count > 1 and extents.batch % (count * data) == 0
        left = extents.layers % (stages * chunks)
        shared = stages * chunks <= extents.layers if knobs.uneven else extents.layers and not left
        if fits and shared and _is_order(schedule, stages, count, chunks):
            layers = share_layers(extents.layers, stages * chunks) if left else ()
            yield count, schedule, chunks, layers


def _is_order(schedule: str, ranks: int, microbatches: int, chunks: int) -> bool:
    """Whether such numbers make an order of their own, and not that of a simpler schedule."""
    if chunks != chunks_of(schedule, chunks) or (chunks == 1 and schedule in SEVERAL_CHUNKS):
        return False
    try:
        check_sizes(schedule, ranks, microbatches, chunks)
    except InputError:
        return False
    return True


def _cuts(sizes: Mapping[str, int], extents: Extents, knobs: Knobs) -> Iterator[dict[str, Any]]:
    """Which axis each clause is over."""
    has = {name for name, size in sizes.items() if size > 1}
    tensor = "tensor" in has
    words = tensor and extents.vocabulary and extents.vocabulary % sizes["tensor"] == 0
    by_tokens = tensor and extents.tokens and extents.tokens % sizes["tensor"] == 0
    for sequence, vocabulary in product(knobs.sequence, knobs.vocabulary if words else (False,)):
        if sequence and (not by_tokens or "seq" in has):
            continue
        found: dict[str, Any] = {"batch": tuple(axis for axis in BATCH_AXES if axis in has)}
        found |= {"megatron": "tensor"} if tensor else {}
        found |= {"vocabulary": "tensor"} if vocabulary else {}
        found |= {"tokens": "seq"} if "seq" in has else {"tokens": "tensor"} if sequence else {}
        yield found | ({"experts": "expert"} if "expert" in has else {})
