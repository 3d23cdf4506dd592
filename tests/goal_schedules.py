"""Schedules for every request."""

from __future__ import annotations

from grammar import Goal, Program, parse
from hierarchies import Reduction, Tree
from strategies import switches
from synth.collective.emit.source import EmitSource
from synth.collective.price.step_prices import Simulator
from synth.collective.ranking.answers import price_phases
from synth.collective.semantics.lowering import lower
from synth.collective.semantics.rules import Derivation, derive
from synth.collective.semantics.schedule import Schedule
from synth.collective.verify.symbolic import Proved

OTHERS = tuple(goal for goal in Goal if goal is not Goal.ALL_REDUCE)


def derived(program: Program | str, tree: Tree, goal: Goal) -> Derivation:
    found = derive(parse(program) if isinstance(program, str) else program, tree, goal)
    assert isinstance(found, Derivation), found
    return found


def scheduled(
    program: Program | str, reduction: Reduction, goal: Goal, elements: int = 7, segments: int = 1
) -> Schedule:
    return lower(derived(program, reduction.tree, goal), reduction, elements, segments)


def made(goal: Goal) -> EmitSource:
    reduction = Reduction.plain(2, 2)
    derivation = derived(f"{goal.value} root inside", reduction.tree, goal)
    system = switches(reduction.placement.hierarchy)
    prices = tuple(price_phases(Simulator(system), derivation, reduction, 16))
    return EmitSource(lower(derivation, reduction, 16), system, prices, Proved())
