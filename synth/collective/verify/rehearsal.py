"""What every answer passes before it is shown: derived anew, replayed on small machines, proved."""

from __future__ import annotations

from collections.abc import Sequence

from grammar import Goal, Program
from hierarchies import Reduction, Tree
from synth.collective.semantics.lowering import lower
from synth.collective.semantics.rules import Derivation, Refusal, derive, derive_on
from synth.collective.verify.replay import compare, compare_stripes
from synth.collective.verify.symbolic import Verdict, prove

_MOST_ELEMENTS = 2**14
"""Of a payload in a rehearsal: of very unlike shares the smallest may then be empty."""


def derive_valid(program: Program, tree: Tree, goal: Goal = Goal.ALL_REDUCE) -> Derivation:
    """The derivation of a program that is known to be valid."""
    derivation = derive(program, tree, goal)
    if isinstance(derivation, Refusal):
        raise AssertionError(f"{program}: {derivation}")
    return derivation


def judge_symbolically(derivation: Derivation) -> Verdict:
    """Rehearse a program that the rules allow, and ask z3: its verdict."""
    rehearse(derivation)
    return prove(derivation.program, derivation.tree, derivation.goal)


def rehearse(derivation: Derivation) -> None:
    """Replay a program on small machines of its shape: every factor 2, and once 3.

    A size of 3 finds what powers of 2 hide. Raises AssertionError if the arrays disagree with the
    rules, which is a mistake of ours and not of the caller.
    """
    for reduction in _small_machines(derivation):
        schedule = lower(derive_on(derivation, reduction.tree), reduction, payload_bytes=1)
        failure = compare(schedule, elements=schedule.pieces + 1)
        if failure:
            raise AssertionError(f"{derivation.program}: {failure}")


def rehearse_stripes(derivations: Sequence[Derivation], sizes: Sequence[int]) -> None:
    """Replay programs side by side on the same small machines, each on its slice of the payload.

    ``sizes`` say which share of the payload each has; every share is of several elements of each
    piece, and of unlike numbers of them. AssertionError as in ``rehearse``.
    """
    for reduction in _small_machines(derivations[0]):
        stripes = [
            lower(derive_on(one, reduction.tree), reduction, size)
            for one, size in zip(derivations, sizes, strict=True)
        ]
        elements = stripes[0].pieces * (3 + sum(sizes) // min(sizes)) + 1
        failure = compare_stripes(stripes, min(elements, _MOST_ELEMENTS))
        if failure:
            raise AssertionError(f"{' | '.join(str(d.program) for d in derivations)}: {failure}")


def _small_machines(derivation: Derivation) -> list[Reduction]:
    """Machines of a program's shape: every factor 2, and once 3."""
    depth = len(derivation.tree.digits)
    shapes = {(2,) * depth, (3,) + (2,) * (depth - 1) if depth else ()}
    return [Reduction.plain(*shape) for shape in sorted(shapes)]
