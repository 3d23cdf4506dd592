"""Programs over a tree, put to the judge of explicit groups with their groups written out."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import oracle
from grammar import Goal, Program, instructions
from hierarchies import Tree
from synth.collective.verify.concrete import group_step_of, prove_groups
from synth.collective.verify.verdict import EFFORT, Proved, Refuted, Verdict


def prove_at(
    program: Program, tree: Tree, goal: Goal = Goal.ALL_REDUCE, *, effort: int = EFFORT
) -> Verdict:
    """What the judge says at the tree's own sizes, devices and chunks named by their digits."""
    steps = [group_step_of(meant, tree) for meant in instructions(program, tree, goal)]
    labels = oracle.labels(tree.sizes)

    def digits(number: oracle.Label | None) -> oracle.Label | None:
        return labels[number[0]] if number else None

    match prove_groups(steps, prod(tree.sizes), goal, effort=effort):
        case Proved(sizes=sizes):
            assert sizes == (prod(tree.sizes),)
            return Proved(tree.sizes)
        case Refuted() as found:
            return replace(
                found,
                instruction="" if found.step is None else str(program.steps[found.step]),
                names=tree.names,
                sizes=tree.sizes,
                device=labels[found.device[0]],
                other=digits(found.other),
                chunk=digits(found.chunk),
                contributor=digits(found.contributor),
            )
        case unknown:
            return unknown
