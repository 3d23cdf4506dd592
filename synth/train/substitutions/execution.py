"""Both sides of a substitution carried out on arrays: where they differ is a refutation's witness.

A judge of its own: axes and dimensions have small sizes here, inputs are whole numbers, and every
operation is numpy's. Functions of elements are polynomials, but for ``cast``, which rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from typing import Any, assert_never

import numpy as np

from synth.train.substitutions.expressions import (
    Add,
    Atom,
    Concatenate,
    Dim,
    Expression,
    Gather,
    Input,
    Map,
    Merge,
    Plus,
    Product,
    Reduce,
    Slice,
    Sum,
    Take,
    Times,
    Transpose,
    Unmerge,
    Widen,
    axes_of,
    dims_of,
    parts_of,
)

Array = Any
Place = tuple[int, ...]
Everywhere = dict[Place, Array]
"""What each device holds, by its coordinates."""

SIZES = (2, 3, 2, 2, 3)


@dataclass(frozen=True)
class Differs:
    """Where two sides differ: sizes of the indices, a device, a place, and what each has there."""

    sizes: tuple[tuple[str, int], ...]
    device: Place
    place: Place
    left: int
    right: int

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes)
        where = f"device {self.device} at {self.place} ({sizes})"
        return f"{where}: {self.left} is not {self.right}"


def differs(left: Expression, right: Expression, seeds: int = 3) -> Differs | None:
    """Where the sides differ for some drawn inputs; None if they do not for any of these."""
    for seed in range(seeds):
        run = Run.of(left, right, seed=seed)
        ones, others = run.everywhere(left), run.everywhere(right)
        sizes = tuple((atom.name, size) for atom, size in run.sizes.items())
        for device, one in ones.items():
            other = others[device]
            if one.shape != other.shape:
                return Differs(sizes, device, (), one.size, other.size)
            if (one != other).any():
                place = tuple(int(at) for at in np.argwhere(one != other)[0])
                return Differs(sizes, device, place, int(one[place]), int(other[place]))
    return None


@dataclass
class Run:
    """Sizes of all indices, and the inputs that were drawn."""

    sizes: Mapping[Atom, int]
    axes: tuple[Atom, ...]
    draw: np.random.Generator
    drawn: dict[Input, Everywhere] = field(default_factory=dict)

    @classmethod
    def of(cls, *sides: Expression, seed: int = 0) -> Run:
        parts = [part for side in sides for part in parts_of(side)]
        axes = dict.fromkeys(axis for part in parts for axis in axes_of(part))
        named = (atom for part in parts for dim in dims_of(part) for atom in _atoms(dim))
        atoms = dict.fromkeys((*axes, *named))
        sizes = {atom: SIZES[(at + seed) % len(SIZES)] for at, atom in enumerate(atoms)}
        return cls(sizes, tuple(axes), np.random.default_rng(seed))

    def devices(self) -> Iterator[Place]:
        return product(*(range(self.sizes[axis]) for axis in self.axes))

    def size(self, dim: Dim) -> int:
        match dim:
            case Atom():
                return self.sizes[dim]
            case Times(block, inner):
                return self.size(block) * self.size(inner)
            case Plus(first, second):
                return self.size(first) + self.size(second)
        assert_never(dim)

    def everywhere(self, one: Expression) -> Everywhere:
        match one:
            case Input():
                return self.input(one)
            case Add(left, right):
                return self._both(left, right, np.add)
            case Product(letters, left, right):
                return self._both(left, right, lambda a, b: np.einsum(letters, a, b))
            case Concatenate(at, left, right):
                return self._both(left, right, lambda a, b: np.concatenate((a, b), axis=at))
            case Reduce(axis, operand):
                held = self.everywhere(operand)
                return {at: sum(held[near] for near in self.group(at, axis)) for at in held}
            case Gather(dimension, axis, operand):
                held = self.everywhere(operand)
                return {
                    at: np.concatenate([held[near] for near in self.group(at, axis)], dimension)
                    for at in held
                }
            case Slice(dimension, axis, operand):
                return {
                    at: np.split(array, self.sizes[axis], dimension)[at[self.axes.index(axis)]]
                    for at, array in self.everywhere(operand).items()
                }
            case Widen(dimension, axis, operand):
                return {
                    at: self._widened(array, at, axis, dimension)
                    for at, array in self.everywhere(operand).items()
                }
            case _:
                alone = self._alone(one)
                return {at: alone(array) for at, array in self.everywhere(one.operand).items()}

    def group(self, at: Place, axis: Atom) -> Iterator[Place]:
        place = self.axes.index(axis)
        return ((*at[:place], one, *at[place + 1 :]) for one in range(self.sizes[axis]))

    def input(self, one: Input) -> Everywhere:
        if one not in self.drawn:
            shape = [self.size(dim) for dim in one.dims]
            places = [self.axes.index(axis) for axis in one.differs]
            found: dict[Place, Array] = {}
            for at in self.devices():
                own = tuple(at[place] for place in places)
                if own not in found:
                    found[own] = self.draw.integers(-9, 10, shape)
            self.drawn[one] = {
                at: found[tuple(at[place] for place in places)] for at in self.devices()
            }
        return self.drawn[one]

    def _both(
        self, left: Expression, right: Expression, how: Callable[[Array, Array], Array]
    ) -> Everywhere:
        ones, others = self.everywhere(left), self.everywhere(right)
        return {at: how(array, others[at]) for at, array in ones.items()}

    def _alone(
        self, one: Map | Sum | Transpose | Merge | Unmerge | Take
    ) -> Callable[[Array], Array]:
        """What each device does with one array."""
        match one:
            case Map(function):
                return lambda array: _function(function, array)
            case Sum(dimension):
                return lambda array: array.sum(axis=dimension)
            case Transpose(order):
                return lambda array: array.transpose(order)
            case Take(dimension, second, operand):
                dim = dims_of(operand)[dimension]
                assert isinstance(dim, Plus)
                ends = (self.size(dim.first),)
                return lambda array: np.split(array, ends, dimension)[second]
            case Merge() | Unmerge():
                shape = [self.size(dim) for dim in dims_of(one)]
                return lambda array: array.reshape(shape)
        assert_never(one)

    def _widened(self, array: Array, at: Place, axis: Atom, dimension: int) -> Array:
        own = at[self.axes.index(axis)]
        parts = [array if one == own else 0 * array for one in range(self.sizes[axis])]
        return np.concatenate(parts, dimension)


def _function(name: str, array: Array) -> Array:
    """``cast`` rounds to eights; any other is a polynomial of its own."""
    if name == "cast":
        return np.round(array / 8).astype(np.int64) * 8
    key = reduce(lambda found, letter: (31 * found + ord(letter)) % 97, name, 1)
    return array * array + key * array + 1


def _atoms(dim: Dim) -> Iterator[Atom]:
    match dim:
        case Atom():
            yield dim
        case Times(one, other) | Plus(one, other):
            yield from _atoms(one)
            yield from _atoms(other)
