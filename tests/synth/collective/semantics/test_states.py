"""States in words."""

from __future__ import annotations

from grammar import parse
from hierarchies import Tree
from synth.collective.semantics.rules import Derivation, derive
from synth.collective.semantics.states import holdings


def told(text: str, *sizes: int) -> list[list[str]]:
    derivation = derive(parse(text), Tree.of(*sizes))
    assert isinstance(derivation, Derivation)
    return [[str(holding) for holding in held] for held in holdings(derivation)]


def test_a_scattered_program_is_the_same_on_every_device() -> None:
    states = told("reduce-scatter d0 inside; all-reduce d0 parallel; all-gather d0 inside", 2, 8)
    assert states == [
        ["every device: the whole payload, its own contribution"],
        ["every device: its d1 share, summed over d1"],
        ["every device: its d1 share, summed over d0 x d1"],
        ["every device: the whole payload, summed over d0 x d1"],
    ]


def test_a_rooted_program_distinguishes_masters_from_others() -> None:
    states = told("reduce d0 inside; all-reduce d0 master; broadcast d0 inside", 2, 8)
    assert states[1] == [
        "devices with d1 = 0: the whole payload, summed over d1",
        "devices with d1 > 0: nothing",
    ]
    assert states[2][0] == "devices with d1 = 0: the whole payload, summed over d0 x d1"
