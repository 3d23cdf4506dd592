"""Expands a recipe for a step into shardings of its inputs, from which all others follow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from math import prod

from grammar.tensors.operations import Graph, Operation, Step, Value
from grammar.tensors.sharding import Flat, Sharding, Split, replicated_sharding
from hierarchies import InputError
from synth.step.factors import list_all_rows
from synth.step.same import IdentityKey
from synth.step.schedules import SCHEDULES
from synth.step.sharding.applying import apply, apply_with_phases, operation_phases
from synth.step.sharding.following import follow
from synth.step.sharding.following.known import Rules
from synth.step.sharding.layers.apart import find_stacks
from synth.step.sharding.layers.prepared import prepare_step, stage_hints
from synth.step.sharding.lineage import find_masters, find_widened_dtypes
from synth.step.sharding.plan import PIPE, SAMPLE_ROLES, TIME, Cuts, Plan, Rows
from synth.step.sharding.recipes import BATCH_CLAUSES, CLAUSES, Recipe
from synth.step.sharding.stages import stages_of
from synth.step.sharding.together.buckets import buckets_of, count_bucket_layers

PADDING_MULTIPLE = 128
"""Megatron's default of ``--make-vocab-size-divisible-by``: divides each part of a vocabulary."""
RAGGED = ("ragged_dot_general", "ragged_dot")


def plan_of(step: Step, recipe: Recipe) -> Plan:
    """Expands a recipe into a plan for a step. Raises InputError if axes do not divide the step."""
    plan = _plan_unbucketed(IdentityKey(step), replace(recipe, bucket_bytes=0))
    if not recipe.bucket_bytes:
        return plan
    arguments = prepare_step(step, plan), apply(step, plan), plan.sizes, recipe.bucket_bytes
    return replace(
        plan, buckets=buckets_of(*arguments), bucket_layers=count_bucket_layers(*arguments)
    )


@lru_cache(maxsize=8)
def _plan_unbucketed(key: IdentityKey[Step], recipe: Recipe) -> Plan:
    """Expands a recipe without buckets; cached because searches try several bucket sizes."""
    step = key.one
    _check_experts(step, recipe)
    order = None
    if recipe.schedule:
        ranks = dict(recipe.axes)[PIPE]
        order = SCHEDULES[recipe.schedule](ranks, recipe.microbatches, recipe.chunks)
    plan = Plan(
        recipe.axes,
        Cuts((), ()),
        microbatches=recipe.microbatches,
        layers=recipe.layers,
        order=order,
        remat=recipe.remat,
        first=recipe.first,
        scattered=recipe.zero >= 2 and recipe.microbatches > 1,
    )
    ready = prepare_step(step, plan)
    _check_gradients(ready, recipe.gradients)
    plan = replace(plan, cuts=follow(ready, *_rules(ready, recipe, plan.parts)))
    if order is not None:
        phases = operation_phases(*apply_with_phases(ready, plan))
        plan = replace(plan, stages=stages_of(ready, phases, stage_hints(step, plan)))
    return plan


def adapt_plan(plan: Plan, step: Step, other: Step) -> Plan | None:
    """Adapts a plan of ``step`` to ``other``, which has other sizes; None if it differs otherwise.

    Rows contain sizes, so each operation gets the row with the same index in its own list of rows.
    """
    cuts = _adapt_cuts(plan.cuts, prepare_step(step, plan).graph, prepare_step(other, plan).graph)
    return None if cuts is None else replace(plan, cuts=cuts)


def _adapt_cuts(cuts: Cuts, graph: Graph, other: Graph) -> Cuts | None:
    if len(graph.operations) != len(other.operations):
        return None
    adapted: list[Rows | Cuts] = []
    for how, before, after in zip(cuts.operations, graph.operations, other.operations, strict=True):
        rows = _adapt_rows(how, before, after)
        if rows is None:
            return None
        adapted.append(rows)
    return Cuts(cuts.inputs, tuple(adapted))


def _adapt_rows(how: Rows | Cuts, before: Operation, after: Operation) -> Rows | Cuts | None:
    if before.primitive != after.primitive or (before.body is None) != (after.body is None):
        return None
    if isinstance(how, Cuts):
        assert before.body is not None
        assert after.body is not None
        return _adapt_cuts(how, before.body, after.body)
    if not how:
        return ()
    legal, others = list_all_rows(before), list_all_rows(after)
    if len(legal) != len(others):
        return None
    return tuple((axis, others[legal.index(row)]) for axis, row in how)


def _rules(step: Step, recipe: Recipe, parts: Mapping[str, int]) -> tuple[list[Sharding], Rules]:
    """Returns the shardings of the inputs, and the rules that operations follow."""
    inputs, held = _inputs(step, recipe)
    along, nothing = frozenset(recipe.zero_axes), frozenset[str]()
    scatters = along if recipe.scatters else nothing
    kept = along if recipe.zero in (1, 2) else nothing
    return inputs, Rules(parts, held, scatters, kept, narrow=bool(recipe.gradients))


def _check_gradients(step: Step, kind: str) -> None:
    made = find_widened_dtypes(step)
    if kind and made != {kind}:
        raise InputError(
            f"no gradient of {step.name} is made in {kind} and cast",
            where="plan",
            hint=f"they are made in {' and '.join(sorted(made))}"
            if made
            else "trace the model with --dtype bfloat16",
        )


def _check_experts(step: Step, recipe: Recipe) -> None:
    if recipe.experts and any(
        operation.primitive in RAGGED for operation in step.graph.everywhere()
    ):
        raise InputError(
            f"the experts of {step.name} take any number of tokens",
            where="plan",
            hint="a ragged product is not sharded by experts: trace a model that is not dropless",
        )


def _inputs(step: Step, recipe: Recipe) -> tuple[list[Sharding], frozenset[tuple[int, str]]]:
    """Returns the shardings of the inputs, and the (input, axis) pairs that are held."""
    shardings = [_split_batch(step, recipe, at) for at in range(len(step.graph.inputs))]
    held: set[tuple[int, str]] = set()
    for clause, axis, places in _clauses(step, recipe):
        if not places:
            labels = sorted({label.rpartition("/")[2] for label in step.labels})
            raise InputError(
                f"nothing of {step.name} is sharded by {clause!r}",
                where="plan",
                hint=f"its labels end in {', '.join(labels)}",
            )
        for at, place in places.items():
            shardings[at] = shardings[at].laid(axis, Split(place))
            if step.roles[at] not in SAMPLE_ROLES:
                held.add((at, axis))
    stacked, copied = _find_stacked(step), find_masters(step)
    shardings = [
        _shard_stored(step, recipe, at, base, stacked, copied) for at, base in enumerate(shardings)
    ]
    for label, sharding in recipe.inputs:
        for at in _find_labelled(step, label, sharding):
            shardings[at] = _add_time(sharding, shardings[at])
            held -= {(at, axis) for axis in dict(recipe.axes)}
    return shardings, frozenset(held)


def _find_stacked(step: Step) -> frozenset[str]:
    """Returns the names of inputs whose first dimension is layers: parameters and their moments.

    Moments are found by label: if there is only one layer, no operation shows that their first
    dimension is layers.
    """
    inputs = [*zip(step.labels, step.roles, step.graph.inputs, strict=True)]
    known = find_stacks(step)
    stacked = {label for label, _, value in inputs if value.name in known}
    return known | {
        value.name
        for label, role, value in inputs
        if role == "moment" and label.partition("/")[2] in stacked
    }


def _clauses(step: Step, recipe: Recipe) -> Iterator[tuple[str, str, dict[int, int]]]:
    """Yields the text of each clause, its axis, and the dimension that it cuts of each input."""
    for clause, axes in recipe.clauses.items():
        places = {at: clause_place(step, clause, at) for at in range(len(step.labels))}
        cut = {at: place for at, place in places.items() if place is not None}
        for axis in axes:
            if clause == "vocabulary":
                _check_vocabulary(step, dict(recipe.axes)[axis], cut)
            yield CLAUSES[clause][0].format(axis), axis, cut
    for label, number, axis in recipe.weights:
        dimensions = {}
        for at, value in enumerate(step.graph.inputs):
            rank = len(value.type.shape)
            ends = step.labels[at] == label or step.labels[at].endswith(f"/{label}")
            if step.roles[at] != "batch" and ends and -rank <= number < rank:
                dimensions[at] = number % rank
        yield f"weights {label}[{number}] over {axis}", axis, dimensions


def _check_vocabulary(step: Step, parts: int, cut: Mapping[int, int]) -> None:
    """Raises InputError if the axis does not divide the words; names the size Megatron pads to."""
    for at, place in cut.items():
        size = step.graph.inputs[at].type.shape[place]
        if size % parts:
            multiple = PADDING_MULTIPLE * parts
            raise InputError(
                f"{size} words of {step.labels[at]} in {parts} parts",
                where="plan",
                hint=f"pad them as Megatron does, to a multiple of {PADDING_MULTIPLE} x {parts}: "
                f"--sizes vocabulary={-size % multiple + size}",
            )


def clause_place(step: Step, clause: str, at: int) -> int | None:
    """Returns the dimension of input ``at`` that a clause cuts; None if it cuts no dimension."""
    rank, label = len(step.graph.inputs[at].type.shape), step.labels[at]
    role, of_batch = step.roles[at], clause in BATCH_CLAUSES
    if not rank or (role == "batch" and not of_batch) or (role not in SAMPLE_ROLES and of_batch):
        return None
    if clause == "batch":
        return 0
    *before, half, name = ("", *label.split("/"))
    if clause == "experts" and "/".join((*before[1:], half, "router")) not in step.labels:
        return None
    places = CLAUSES[clause][1]
    place = places.get(f"{half}/{name}", places.get(name))
    return rank + place if place is not None and rank + place >= 0 else None


def _find_labelled(step: Step, label: str, sharding: Sharding) -> list[int]:
    """Returns the inputs with a label: an input for each stage that has a share of its layers."""
    form = re.compile(rf"(\d+/)?{re.escape(label)}")
    found = [at for at, given in enumerate(step.labels) if form.fullmatch(given)]
    if not found:
        raise InputError(
            f"{step.name} has no input {label!r}",
            where="plan",
            hint=f"it has {', '.join(step.labels[:8])}, ...: 'collsynth trace' lists all",
        )
    for at in found:
        rank = len(step.graph.inputs[at].type.shape)
        if len(sharding.dimensions) != rank:
            problem = f"{len(sharding.dimensions)} dimensions for {label}, which has {rank}"
            raise InputError(problem, where="plan", hint="an axis or '-' for each dimension")
    return found


def _split_batch(step: Step, recipe: Recipe, at: int) -> Sharding:
    """Splits a batch into microbatches; other inputs are replicated."""
    rank = len(step.graph.inputs[at].type.shape)
    if recipe.microbatches > 1 and step.roles[at] == "batch" and rank:
        return replicated_sharding(rank).laid(TIME, Split(0))
    return replicated_sharding(rank)


def _add_time(sharding: Sharding, before: Sharding) -> Sharding:
    if TIME not in before.axes:
        return sharding
    first, *rest = sharding.dimensions
    return Sharding(((TIME, *first), *rest))


def _shard_stored(
    step: Step,
    recipe: Recipe,
    at: int,
    base: Sharding,
    stacked: frozenset[str],
    copied: frozenset[str],
) -> Sharding:
    """Shards a stored input by ZeRO. Master copies count as state, because passes read casts."""
    role, value = step.roles[at], step.graph.inputs[at]
    state = role == "moment" or value.name in copied
    if (recipe.zero >= 3 and role != "batch") or (recipe.zero and state):
        return _divide_zero(value, base, recipe, first=int(value.name in stacked))
    return base


def _divide_zero(value: Value, sharding: Sharding, recipe: Recipe, *, first: int) -> Sharding:
    """Splits the first divisible dimension from ``first`` on over the axes of ZeRO, or cuts flat.

    Dimensions that other axes cut are skipped, because the order of the axes would then matter. An
    axis that already cuts the value, as the expert axis cuts experts, is left out. Scalars stay
    whole, including a scalar per layer. In a stack each slice is cut, so that a single layer can be
    gathered.
    """
    axes = [axis for axis in recipe.zero_axes if axis not in sharding.axes]
    parts = prod(dict(recipe.axes)[axis] for axis in axes)
    for at, size in enumerate(value.type.shape):
        if at >= first and not sharding.dimensions[at] and size % parts == 0:
            for axis in axes:
                sharding = sharding.laid(axis, Split(at))
            return sharding
    if prod(value.type.shape[first:]) > 1:
        for axis in axes:
            sharding = sharding.laid(axis, Flat(first))
    return sharding
