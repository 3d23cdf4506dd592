"""The checks of every answer before it is shown: new derivation, replay, proof."""

from __future__ import annotations

from collections.abc import Sequence

from grammar import Goal, Program
from hierarchies import Reduction, Tree
from synth.collective.semantics.lowering import lower
from synth.collective.semantics.rules import Derivation, Refusal, derive, derive_on
from synth.collective.verify.replay import compare_stripes
from synth.collective.verify.symbolic import Verdict, prove

_MOST_ELEMENTS = 2**14
"""The most elements of a rehearsed payload: with very unequal shares the smallest may be empty."""


def derive_valid(program: Program, tree: Tree, goal: Goal = Goal.ALL_REDUCE) -> Derivation:
    """The derivation of a program that is known to be valid."""
    derivation = derive(program, tree, goal)
    if isinstance(derivation, Refusal):
        raise AssertionError(f"{program}: {derivation}")
    return derivation


def judge_symbolically(derivation: Derivation) -> Verdict:
    """Rehearses a program that the rules allow, and returns z3's verdict."""
    rehearse(derivation)
    return prove(derivation.program, derivation.tree, derivation.goal)


def rehearse(derivation: Derivation) -> None:
    """Replays a program on small machines of its shape: every factor 2, and once 3.

    A size of 3 exposes errors that powers of 2 hide. Raises AssertionError if the arrays disagree
    with the rules: that is our own bug, not the caller's.
    """
    rehearse_stripes([derivation], [1])


def rehearse_stripes(derivations: Sequence[Derivation], sizes: Sequence[int]) -> None:
    """Replays concurrent programs on the same small machines, each on its slice of the payload.

    ``sizes`` are the programs' shares of the payload; every share has several elements of each
    piece, and the numbers differ. Raises AssertionError as ``rehearse``.
    """
    for reduction in _small_machines(derivations[0]):
        stripes = [
            lower(derive_on(derivation, reduction.tree), reduction, size)
            for derivation, size in zip(derivations, sizes, strict=True)
        ]
        # One element more than whole pieces, so that padding is rehearsed too.
        elements = stripes[0].pieces * (3 + sum(sizes) // min(sizes)) + 1
        failure = compare_stripes(stripes, min(elements, _MOST_ELEMENTS))
        if failure:
            raise AssertionError(f"{' | '.join(str(d.program) for d in derivations)}: {failure}")


def _small_machines(derivation: Derivation) -> list[Reduction]:
    """Machines of a program's shape: every factor 2, and once 3."""
    depth = len(derivation.tree.digits)
    shapes = {(2,) * depth, (3,) + (2,) * (depth - 1) if depth else ()}
    return [Reduction.plain(*shape) for shape in sorted(shapes)]
