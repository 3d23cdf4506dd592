"""What every answer passes before it is shown: derived anew, replayed on small machines, proved."""

from __future__ import annotations

from grammar import Goal, Program
from hierarchies import Reduction, Tree
from synth.semantics.lowering import lower
from synth.semantics.rules import Derivation, Refusal, derive, derived_on
from synth.verify.replay import compare
from synth.verify.symbolic import Verdict, prove


def derived(program: Program, tree: Tree, goal: Goal = Goal.ALL_REDUCE) -> Derivation:
    """The derivation of a program that is known to be valid."""
    derivation = derive(program, tree, goal)
    if isinstance(derivation, Refusal):
        raise AssertionError(f"{program}: {derivation}")
    return derivation


def judged(derivation: Derivation) -> Verdict:
    """Rehearse a program that the rules allow, and ask z3: its verdict."""
    rehearse(derivation)
    return prove(derivation.program, derivation.tree, derivation.goal)


def rehearse(derivation: Derivation) -> None:
    """Replay a program on small machines of its shape: every factor 2, and once 3.

    A size of 3 finds what powers of 2 hide. Raises AssertionError if the arrays disagree with the
    rules, which is a mistake of ours and not of the caller.
    """
    depth = len(derivation.tree.digits)
    shapes = {(2,) * depth, (3,) + (2,) * (depth - 1) if depth else ()}
    for shape in sorted(shapes):
        reduction = Reduction.plain(*shape)
        schedule = lower(derived_on(derivation, reduction.tree), reduction, payload_bytes=1)
        failure = compare(schedule, elements=schedule.pieces + 1)
        if failure:
            raise AssertionError(f"{derivation.program}: {failure}")
