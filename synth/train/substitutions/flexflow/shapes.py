"""What is known of the tensors that a rule reads: how large a part is, and how often it is cut.

Of no tensor a size is given. What an operator asks (two dimensions are alike, one can be halved,
one is not cut) is written down; what is asked at most so far is what all tensors have that the
operators can be carried out on.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

from synth.train.substitutions.expressions import Atom, Dim, Plus, Times
from synth.train.substitutions.flexflow.reading import Tensor

ONE = Atom("copy")
"""Of the first dimension, that of copies, a device has one: its size is how often it is cut."""

DIMENSIONS = 3

Place = tuple[Tensor, int]
"""A dimension of an input."""


class ImpossibleError(Exception):
    """There are no such tensors."""


@dataclass(frozen=True)
class Cuts:
    """How often a dimension is cut: as one of an input, and ``more`` times in two."""

    of: Place
    more: int


@dataclass
class Shapes:
    """What all inputs have in common for which everything so far can be carried out.

    ``unlike``: somewhere sizes could be alike in other ways than were followed up.
    """

    sizes: dict[Atom, Dim] = field(default_factory=dict)
    same: dict[Place, Cuts] = field(default_factory=dict)
    lowest: dict[Place, int] = field(default_factory=dict)
    uncut: dict[Place, int] = field(default_factory=dict)
    unlike: bool = False
    halves: int = 0

    def copy(self) -> Shapes:
        return deepcopy(self)

    def part(self, dim: Dim) -> Dim:
        """A dimension of a part, as far as it is known."""
        match dim:
            case Atom():
                return self.part(self.sizes[dim]) if dim in self.sizes else dim
            case Plus(first, second):
                return Plus(self.part(first), self.part(second))
            case Times():
                raise AssertionError("parts are halved or put together")

    def halved(self, dim: Dim) -> Dim:
        """Ask that a dimension has two equal halves; what one is."""
        self.halves += 1
        half = Atom(f"half {self.halves}")
        self.equal(dim, Plus(half, half))
        return self.part(half)

    def equal(self, one: Dim, other: Dim) -> None:
        """Ask that two dimensions are of one size. Raises ImpossibleError."""
        one, other = self.part(one), self.part(other)
        match one, other:
            case _ if one == other:
                return
            case Atom(), _ if one != ONE:
                self._is(one, other)
            case _, Atom() if other != ONE:
                self._is(other, one)
            case Plus(a, b), Plus(c, d):
                self.unlike |= not (a == b and c == d)
                self.equal(a, c)
                self.equal(b, d)
            case _:
                raise ImpossibleError("one copy is no two")

    def _is(self, atom: Atom, dim: Dim) -> None:
        if atom in _atoms(dim):
            raise ImpossibleError("a size would be more than itself")
        self.sizes[atom] = dim

    def cuts(self, one: Cuts) -> Cuts:
        """The same, by the one place that stands for all that are cut alike."""
        if one.of not in self.same:
            return one
        found = self.same[one.of]
        return self.cuts(Cuts(found.of, found.more + one.more))

    def least(self, one: Cuts) -> int:
        """How often the place that stands for it is cut at least, counted as its cuts are."""
        return self.lowest.get(self.cuts(one).of, 0)

    def reach(self, one: Cuts) -> None:
        """Ask that a dimension is cut so often. Raises ImpossibleError."""
        found = self.cuts(one)
        self.lowest[found.of] = min(self.least(found), found.more)
        self._hold(found.of)

    def whole(self, one: Cuts) -> None:
        """Ask that a dimension is not cut. Raises ImpossibleError."""
        found = self.cuts(one)
        if self.uncut.setdefault(found.of, found.more) != found.more:
            raise ImpossibleError("a dimension would be cut that must not be")
        self._hold(found.of)

    def alike(self, one: Cuts, other: Cuts) -> None:
        """Ask that two dimensions are cut alike. Raises ImpossibleError."""
        one, other = self.cuts(one), self.cuts(other)
        if one.of == other.of:
            if one.more != other.more:
                raise ImpossibleError("a dimension would be cut twice as often as itself")
            return
        shift = one.more - other.more
        self.same[other.of] = Cuts(one.of, shift)
        self.lowest[one.of] = min(self.least(one), self.lowest.pop(other.of, 0) + shift)
        if other.of in self.uncut:
            self.whole(Cuts(one.of, self.uncut.pop(other.of) + shift))
        self._hold(one.of)

    def _hold(self, place: Place) -> None:
        if self.uncut.get(place, self.lowest.get(place, 0)) > self.lowest.get(place, 0):
            raise ImpossibleError("a dimension would be cut that must not be")

    def known(self, tensors: tuple[Tensor, ...]) -> object:
        """All that is asked of some inputs, equal if the same is."""
        names: dict[Atom, Atom] = {ONE: ONE}
        first: dict[Place, tuple[int, int]] = {}
        found: list[object] = []
        for at, (tensor, dimension) in enumerate(
            (tensor, dimension) for tensor in tensors for dimension in range(DIMENSIONS)
        ):
            cuts = self.cuts(Cuts((tensor, dimension), 0))
            number, base = first.setdefault(cuts.of, (at, cuts.more))
            bottom = self.uncut.get(cuts.of)
            found.append(
                (
                    _renamed(self.part(atom_of(tensor, dimension)), names),
                    (number, cuts.more - base),
                    self.least(cuts) - cuts.more,
                    None if bottom is None else bottom - cuts.more,
                )
            )
        return tuple(found)


def atom_of(tensor: Tensor, dimension: int) -> Atom:
    """The size of a dimension of what a device has of an input."""
    return Atom(f"size {dimension} of {tensor[0]}") if dimension else ONE


def _atoms(dim: Dim) -> set[Atom]:
    if isinstance(dim, Atom):
        return {dim}
    assert isinstance(dim, Plus)
    return _atoms(dim.first) | _atoms(dim.second)


def _renamed(dim: Dim, names: dict[Atom, Atom]) -> Dim:
    if isinstance(dim, Atom):
        return names.setdefault(dim, Atom(str(len(names))))
    assert isinstance(dim, Plus)
    return Plus(_renamed(dim.first, names), _renamed(dim.second, names))
