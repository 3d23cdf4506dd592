"""Graphs carried out on arrays: where two make other things is a witness.

A judge of its own: sizes and cuts are numbers here, a tensor is an array of whole numbers, and
every operator is numpy's. Of the proof it takes only which tensors the first graph can be carried
out on, and looks whether it can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from synth.train.substitutions.expressions import Atom, Dim, Plus
from synth.train.substitutions.flexflow.reading import (
    Operator,
    Rule,
    Tensor,
    given,
    multiplied,
)
from synth.train.substitutions.flexflow.shapes import DIMENSIONS, ONE, Cuts, Shapes, atom_of

Array = Any

SIZES = (2, 3, 1, 4, 5)
TRIES = 12
BLIND = 200
"""How often inputs are drawn that are alike where that was asked, and then any."""


UNCUT = "it takes away cuts that are not there"
ODD = "it halves what has no half"
UNLIKE = "it asks inputs to be alike that need not be"
WHOLE = "it puts together or splits along what is cut"
COPIES = "it multiplies copies that are not alike"
CUT = "it cuts what it makes otherwise"
SIZES_DIFFER = "it makes other sizes"
VALUES = "it makes other values"


@dataclass(frozen=True)
class Witness:
    """Tensors on which two graphs leave other things: how, and of which sizes, cuts and seed."""

    what: str
    where: str
    inputs: tuple[tuple[Tensor, tuple[int, ...], tuple[int, ...]], ...]
    seed: int

    def __str__(self) -> str:
        each = ", ".join(
            f"input {tensor[0]} of {_cross(sizes)} in {_cross(cuts)} parts"
            for tensor, cuts, sizes in self.inputs
        )
        return f"{self.what}: {self.where} ({each})"


@dataclass(frozen=True)
class Held:
    """A tensor, and into how many parts each of its dimensions is cut."""

    cuts: tuple[int, ...]
    whole: Array


class UnfitError(Exception):
    """An operator that cannot be carried out on what it reads: why, and on what."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(what, where)
        self.what, self.where = what, where


def witness(rule: Rule, domain: Shapes) -> Witness | None:
    """Tensors that the first graph can be carried out on, and the second not, or otherwise."""
    for seed in range(TRIES + BLIND):
        inputs = (
            drawn(rule.source, domain, seed) if seed < TRIES else drawn_blindly(rule.source, seed)
        )
        try:
            source = carried_out(rule.source, inputs)
        except UnfitError:
            continue
        found = _unlike(rule, source, inputs)
        if found is not None:
            told = tuple((tensor, one.cuts, one.whole.shape) for tensor, one in inputs.items())
            return Witness(*found, told, seed)
    return None


def drawn(operators: tuple[Operator, ...], domain: Shapes, seed: int) -> dict[Tensor, Held]:
    """Inputs of drawn sizes and cuts that are alike where that was asked."""
    rng = np.random.default_rng(seed)
    sizes: dict[Atom, int] = {ONE: 1}
    cuts: dict[object, int] = {}

    def part(dim: Dim) -> int:
        found = domain.part(dim)
        if isinstance(found, Plus):
            return part(found.first) + part(found.second)
        assert isinstance(found, Atom)
        return sizes.setdefault(found, SIZES[(len(sizes) - 1 + seed) % len(SIZES)])

    def cut(place: Cuts) -> int:
        found = domain.cuts(place)
        more = 1 if found.of in domain.uncut else int(rng.integers(1, 2 + seed % 3))
        return int(2 ** (found.more - domain.least(place)) * cuts.setdefault(found.of, more))

    def held(tensor: Tensor, alike: bool) -> Held:
        each = range(DIMENSIONS)
        told = tuple(cut(Cuts((tensor, dimension), 0)) for dimension in each)
        shape = [told[dimension] * part(atom_of(tensor, dimension)) for dimension in each]
        whole = rng.integers(-9, 10, shape)
        return Held(told, np.repeat(whole[:1], shape[0], 0) if alike else whole)

    alike = multiplied(operators)
    return {tensor: held(tensor, tensor in alike) for tensor in given(operators)}


def drawn_blindly(operators: tuple[Operator, ...], seed: int) -> dict[Tensor, Held]:
    """Small inputs, cut or not; most graphs can be carried out on few of these."""
    rng = np.random.default_rng(seed)
    found: dict[Tensor, Held] = {}
    alike = multiplied(operators)
    for tensor in given(operators):
        cuts = tuple(int(each) for each in rng.integers(1, 3, DIMENSIONS) ** (seed % 2))
        shape = cuts * np.array([1, *rng.integers(1, 4, DIMENSIONS - 1)])
        whole = rng.integers(-9, 10, shape)
        found[tensor] = Held(cuts, np.repeat(whole[:1], cuts[0], 0) if tensor in alike else whole)
    return found


def _unlike(
    rule: Rule, source: Mapping[Tensor, Held], inputs: Mapping[Tensor, Held]
) -> tuple[str, str] | None:
    try:
        target = carried_out(rule.target, inputs)
    except UnfitError as unfit:
        return unfit.what, unfit.where
    for one, other in rule.outputs:
        left, right = source[one], target[other]
        if left.cuts != right.cuts:
            return CUT, f"{_cross(left.cuts)} and {_cross(right.cuts)} parts"
        if left.whole.shape != right.whole.shape:
            return SIZES_DIFFER, f"{_cross(left.whole.shape)} and {_cross(right.whole.shape)}"
        if (left.whole != right.whole).any():
            place = tuple(int(each) for each in np.argwhere(left.whole != right.whole)[0])
            return VALUES, f"at {place} {left.whole[place]} and {right.whole[place]}"
    return None


def carried_out(
    operators: tuple[Operator, ...], inputs: Mapping[Tensor, Held]
) -> dict[Tensor, Held]:
    """What each operator makes. Raises UnfitError for one that cannot be carried out."""
    held = dict(inputs)
    for at, operator in enumerate(operators):
        for which, made in enumerate(_made(operator, [held[one] for one in operator.inputs])):
            held[at, which] = made
    return held


def _made(operator: Operator, read: list[Held]) -> tuple[Held, ...]:
    told = dict(operator.parameters)
    at = told.get("PM_PARALLEL_DIM", told.get("PM_AXIS", 0))
    match operator.type:
        case "OP_SPLIT":
            return _split(read[0], at)
        case "OP_LINEAR":
            made = _linear(*read)
            return (_relu(made, at) if told["PM_ACTI"] else made,)
        case "OP_CONCAT" | "OP_EW_ADD" | "OP_EW_MUL" as kind:
            return (OF_TWO[kind](read[0], read[1], at),)
        case kind:
            return (OF_ONE[kind](read[0], at),)


def _partition(one: Held, at: int) -> Held:
    return Held(_more(one, at), one.whole)


def _combine(one: Held, at: int) -> Held:
    return Held(_fewer(one, at), one.whole)


def _replicate(one: Held, at: int) -> Held:
    cuts = _put(one.cuts, at, 2 * one.cuts[at])
    return Held(cuts, np.concatenate((one.whole, one.whole), at))


def _reduce(one: Held, at: int) -> Held:
    return Held(_fewer(one, at), np.add(*np.split(one.whole, 2, at)))


def _relu(one: Held, _: int) -> Held:
    return Held(one.cuts, np.maximum(one.whole, 0))


def _add(one: Held, other: Held, _: int) -> Held:
    return Held(_same(one, other), one.whole + other.whole)


def _multiply(one: Held, other: Held, _: int) -> Held:
    return Held(_same(one, other), one.whole * other.whole)


def _split(one: Held, along: int) -> tuple[Held, ...]:
    _uncut(one, along)
    _more(one, along)
    return tuple(Held(one.cuts, half) for half in np.split(one.whole, 2, along))


def _more(one: Held, dimension: int) -> tuple[int, ...]:
    """Cut into twice as many parts, if there is something to cut."""
    parts = 2 * one.cuts[dimension]
    if one.whole.shape[dimension] % parts:
        raise UnfitError(ODD, f"{one.whole.shape[dimension]} in {parts} parts")
    return _put(one.cuts, dimension, parts)


def _fewer(one: Held, dimension: int) -> tuple[int, ...]:
    if one.cuts[dimension] % 2:
        raise UnfitError(UNCUT, f"two of {one.cuts[dimension]} parts together")
    return _put(one.cuts, dimension, one.cuts[dimension] // 2)


def _same(one: Held, other: Held) -> tuple[int, ...]:
    if (one.cuts, one.whole.shape) != (other.cuts, other.whole.shape):
        raise UnfitError(UNLIKE, f"{_spelled(one)} with {_spelled(other)}")
    return one.cuts


def _uncut(one: Held, along: int) -> None:
    if one.cuts[along] > 1:
        raise UnfitError(WHOLE, f"along dimension {along} of {_spelled(one)}")


def _concatenated(one: Held, other: Held, along: int) -> Held:
    _uncut(one, along)
    _uncut(other, along)
    shapes = [_put(each.whole.shape, along, 0) for each in (one, other)]
    if one.cuts != other.cuts or shapes[0] != shapes[1]:
        raise UnfitError(UNLIKE, f"{_spelled(one)} before {_spelled(other)}")
    return Held(one.cuts, np.concatenate((one.whole, other.whole), along))


def _linear(one: Held, weight: Held) -> Held:
    copies, samples, channels = one.cuts
    sizes = one.whole.shape[2], weight.whole.shape[2]
    if weight.cuts != (samples, copies, channels) or sizes[0] != sizes[1]:
        raise UnfitError(UNLIKE, f"{_spelled(one)} times {_spelled(weight)}")
    for each in (one, weight):
        parts = np.split(each.whole, each.cuts[0])
        if any((part != parts[0]).any() for part in parts):
            raise UnfitError(COPIES, _spelled(each))
    blocks = (np.split(each.whole[0], channels, 1) for each in (one, weight))
    sums = [np.einsum("ik,jk->ij", *each) for each in zip(*blocks, strict=True)]
    return Held((channels, samples, copies), np.stack(sums))


OF_ONE: Mapping[str, Callable[[Held, int], Held]] = {
    "OP_PARTITION": _partition,
    "OP_COMBINE": _combine,
    "OP_REPLICATE": _replicate,
    "OP_REDUCE": _reduce,
    "OP_IDENTITY": lambda one, _: one,
    "OP_RELU": _relu,
}
OF_TWO: Mapping[str, Callable[[Held, Held, int], Held]] = {
    "OP_EW_ADD": _add,
    "OP_EW_MUL": _multiply,
    "OP_CONCAT": _concatenated,
}


def _put(several: tuple[int, ...], at: int, one: int) -> tuple[int, ...]:
    return (*several[:at], one, *several[at + 1 :])


def _cross(several: tuple[int, ...]) -> str:
    return "x".join(map(str, several))


def _spelled(one: Held) -> str:
    return f"{_cross(one.whole.shape)} in {_cross(one.cuts)} parts"
