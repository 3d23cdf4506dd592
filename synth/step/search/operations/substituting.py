"""Substitutions in a finalist's sharded program, kept if the clock says that they pay.

Where a value is redistributed, what makes it or reads it may do otherwise: a reduction goes behind
a product or a sum, a gather behind a function, a reduction becomes a scatter whose gather comes
later. Each is a row of one operation (``apply`` puts redistributions where they are needed then),
so what is computed stays; ``results/certificates`` has proofs for all sizes. A sum does not go
to the other side of a cast: that is refused there, as it rounds otherwise. Of many that are tried
in turn, what is a little dearer leads on, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random

from grammar.tensors.operations import Graph, Operation, Step
from grammar.tensors.sharding import ReductionKind
from hierarchies import InputError
from synth.search.backtracking import backtrack
from synth.search.space import BestFound, Budget, Infeasible, Observer, Optimal, Price
from synth.step.factors import Row, list_rows
from synth.step.redistribution.moves import MoveKind
from synth.step.sharding import (
    Cuts,
    LocalOperation,
    Plan,
    RedistributedValue,
    Rows,
    StepProgram,
    apply,
    prepare_step,
)
from synth.step.sharding.plan import TIME

ALPHA = 1.01
"""What is a hundredth dearer than the best leads on."""

CAST = "convert_element_type"

OperationPath = tuple[int, ...]
"""An operation by its places: of the loop that it is in, and so on, and its own."""


@dataclass(frozen=True)
class SubstitutionResult:
    """The best plan that was tried: its seconds, those before, and which rows are others."""

    plan: Plan
    before_seconds: float
    seconds: float
    tried: int
    kept: tuple[str, ...]


@dataclass(frozen=True)
class _SubstitutionSpace:
    """Plans that are one row apart, where something is redistributed; see ``Space``."""

    step: Step
    start: Plan
    seconds: Callable[[Plan], Price]

    def initial(self) -> Plan:
        return self.start

    def moves(self, state: Plan, rng: Random) -> Iterator[Plan]:
        """Each once, in an order that is drawn."""
        ready = prepare_step(self.step, state)
        found = [
            (where, axis, row)
            for where, operation, axes in find_redistributed(ready.graph, apply(self.step, state))
            for axis in axes
            for row in _rows(operation)
            if not changes_rounding(operation, find_row(state.cuts, where, axis), row)
        ]
        rng.shuffle(found)
        for where, axis, row in found:
            other = replace(
                state, cuts=replace_row(state.cuts, where, axis, row, tuple(state.parts))
            )
            if other != state:
                yield other

    def price(self, state: Plan) -> Price:
        try:
            return self.seconds(state)
        except InputError as error:
            return Infeasible(error.problem)

    def bound(self, state: Plan) -> Price:
        return 0.0


def search_substitutions(
    step: Step,
    plan: Plan,
    seconds: Callable[[Plan], Price],
    budget: Budget,
    observer: Observer | None = None,
) -> SubstitutionResult:
    """The fastest of a plan and of so many that substitutions make of it.

    ``seconds`` are those of a plan on the clock, or why it cannot be; the plan itself can.
    """
    before = seconds(plan)
    assert not isinstance(before, Infeasible), "a finalist fits"
    tried = _CountingObserver(observer or Observer())
    found = backtrack(_SubstitutionSpace(step, plan, seconds), ALPHA, 1, budget, tried)
    assert isinstance(found, BestFound | Optimal)
    kept = tuple(_differences(prepare_step(step, plan).graph, plan.cuts, found.state.cuts))
    return SubstitutionResult(found.state, before, found.seconds, tried.states - 1, kept)


class _CountingObserver(Observer):
    def __init__(self, observer: Observer) -> None:
        self.states = 0
        self.go_on = observer.go_on  # type: ignore[method-assign]

    def priced(self, states: int, best: float | None) -> None:
        self.states = states


def find_redistributed(
    graph: Graph, program: StepProgram, before: OperationPath = ()
) -> Iterator[tuple[OperationPath, Operation, list[str]]]:
    """Operations that make or read what is redistributed between devices, and over which axes."""
    axes: defaultdict[str, dict[str, None]] = defaultdict(dict)
    bodies: dict[str, StepProgram] = {}
    for one in program.instructions:
        match one:
            case RedistributedValue(value, path):
                for move in path.moves:
                    if move.how not in (MoveKind.SLICE, MoveKind.MASK, MoveKind.WIDEN):
                        axes[value.name] |= dict.fromkeys(a for a in move.axes if a != TIME)
            case LocalOperation(operation, _, StepProgram() as body):
                bodies[operation.results[0].name] = body
    for at, operation in enumerate(graph.operations):
        where = (*before, at)
        if operation.body is not None:
            yield from find_redistributed(operation.body, bodies[operation.results[0].name], where)
            continue
        names = map(str, (*operation.operands, *operation.results))
        over = dict.fromkeys(axis for name in names for axis in axes.get(name, ()))
        if over:
            yield where, operation, list(over)


def _rows(operation: Operation) -> tuple[Row, ...]:
    try:
        return list_rows(operation)
    except InputError:
        return ()


def changes_rounding(operation: Operation, before: Row | None, after: Row) -> bool:
    """Whether partial sums are added up on the other side of a cast than before."""
    if operation.primitive != CAST:
        return False
    return set(_partial_kinds(after)) != (set() if before is None else set(_partial_kinds(before)))


def count_rounded(graph: Graph, before: Cuts, after: Cuts) -> int:
    """How many casts have sums on their other side than before: those are added up narrower."""
    found = 0
    both = zip(graph.operations, before.operations, after.operations, strict=True)
    for operation, old, new in both:
        if operation.body is not None:
            assert isinstance(old, Cuts)
            assert isinstance(new, Cuts)
            found += count_rounded(operation.body, old, new)
        else:
            was, now = _rows_by_axis(old), _rows_by_axis(new)
            found += any(changes_rounding(operation, was.get(axis), now[axis]) for axis in now)
    return found


def _partial_kinds(row: Row) -> Iterator[ReductionKind]:
    return (lie for lie in row.operands if isinstance(lie, ReductionKind))


def find_row(cuts: Cuts, where: OperationPath, axis: str) -> Row | None:
    """The row of an operation along an axis, if it has one."""
    at, *inner = where
    found = cuts.operations[at]
    return find_row(found, tuple(inner), axis) if isinstance(found, Cuts) else dict(found).get(axis)


def replace_row(
    cuts: Cuts, where: OperationPath, axis: str, row: Row, order: tuple[str, ...]
) -> Cuts:
    """The cuts with another row of one operation along an axis; ``order`` is that of all axes."""
    at, *inner = where
    operations, old = list(cuts.operations), cuts.operations[at]
    if isinstance(old, Cuts):
        operations[at] = replace_row(old, tuple(inner), axis, row, order)
    else:
        named = {**dict(old), axis: row}
        operations[at] = tuple((one, named[one]) for one in order if one in named)
    return replace(cuts, operations=tuple(operations))


def _differences(graph: Graph, before: Cuts, after: Cuts) -> Iterator[str]:
    """What is done otherwise, an operation and an axis each."""
    both = zip(graph.operations, before.operations, after.operations, strict=True)
    for operation, old, new in both:
        if operation.body is not None:
            assert isinstance(old, Cuts)
            assert isinstance(new, Cuts)
            yield from _differences(operation.body, old, new)
        else:
            yield from _row_differences(operation, _rows_by_axis(old), _rows_by_axis(new))


def _rows_by_axis(one: Rows | Cuts) -> Mapping[str, Row]:
    assert not isinstance(one, Cuts)
    return dict(one)


def _row_differences(
    operation: Operation, old: Mapping[str, Row], new: Mapping[str, Row]
) -> Iterator[str]:
    for axis, row in new.items():
        if row != old.get(axis):
            yield f"{operation.results[0].name} = {operation.primitive}: {axis} {row}"
