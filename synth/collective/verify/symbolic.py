"""Proves with z3 that a program is right for clusters of every size, or finds a counterexample.

The sizes of the digits are integer unknowns n_i >= 2; a device, a chunk and a contributor are
digits in 0 .. n_i - 1; a state is a formula has(device, chunk, contributor). This judge is
independent: it defines collectives by section 3 of the language's definition and shares no code
with the rules of the search or with the replay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from grammar import Collective, Goal, Groups, Instruction, Program, instructions
from hierarchies import Tree
from synth.collective.verify.solver import z3
from synth.collective.verify.verdict import EFFORT, DigitValues, share_effort
from synth.collective.verify.verdict import Proved as Proved
from synth.collective.verify.verdict import Refuted as Refuted
from synth.collective.verify.verdict import Unknown as Unknown
from synth.collective.verify.verdict import Verdict as Verdict
from synth.collective.verify.verdict import Violation as Violation

_SMALLEST = 2  # the least size of a digit; counterexamples are looked for there first

_SOUND: dict[Collective, tuple[Violation, ...]] = {
    Collective.ALL_REDUCE: (Violation.UNEQUAL_ROWS, Violation.ADDED_TWICE),
    Collective.REDUCE: (Violation.UNEQUAL_ROWS, Violation.ADDED_TWICE),
    Collective.REDUCE_SCATTER: (Violation.UNEQUAL_ROWS, Violation.ADDED_TWICE),
    Collective.ALL_GATHER: (Violation.HELD_TWICE,),
    Collective.BROADCAST: (),
    Collective.ALL_TO_ALL: (Violation.UNEQUAL_ROWS, Violation.SENT_TWICE),
}

_REGULAR: dict[Collective, tuple[Violation, ...]] = {
    Collective.ALL_REDUCE: (),
    Collective.REDUCE: (),
    Collective.REDUCE_SCATTER: (Violation.NOT_CLOSED,),
    Collective.ALL_GATHER: (Violation.UNLIKE_PIECES,),
    Collective.BROADCAST: (),
    Collective.ALL_TO_ALL: (Violation.NOT_CLOSED,),
}

Formula = Any  # z3 has no types that a checker could see
Variables = tuple[Any, ...]


def prove(
    program: Program,
    tree: Tree,
    goal: Goal = Goal.ALL_REDUCE,
    *,
    effort: int = EFFORT,
    regular: bool = False,
) -> Verdict:
    """Decides for all sizes at once whether a program reaches a goal; the tree's sizes are ignored.

    Asks z3, before each step, for sizes and devices that break its soundness precondition and,
    after the last step, for missing or excess contents. Proved: there are none, whatever the sizes.
    Refuted: a counterexample, with sizes of 2 if one exists. Unknown: z3 gave up or used up its
    share of the ``effort`` (z3's resource units). ``regular`` adds the preconditions of class R.
    Raises InputError for a program that does not fit the tree or the goal. Treating sizes as
    unknowns is our idea; P² has no such proof.
    """
    steps = instructions(program, tree, goal)
    cluster = _Cluster.of_depth(len(tree.digits))
    questions = tuple(_questions(cluster, steps, goal, regular))
    checks = 2 * len(questions)
    part = share_effort(effort, checks)
    if part is None:
        return Unknown(f"an effort of {effort} is too little to ask z3 up to {checks} times")
    for question in questions:
        match _find_counterexample(cluster, question.wrong, part):
            case None:
                continue
            case Unknown(reason):
                place = "the goal" if question.step is None else f"step {question.step + 1}"
                return Unknown(f"{place}: {reason}")
            case _Counterexample() as found:
                return _refutation(found, question, program, tree, goal)
    return Proved()


@dataclass(frozen=True)
class _Cluster:
    """The unknowns, one of each kind per digit. A context of its own keeps z3 free of globals."""

    context: Any
    sizes: Variables
    device: Variables
    other: Variables
    chunk: Variables
    contributor: Variables

    @classmethod
    def of_depth(cls, depth: int) -> _Cluster:
        context = z3.Context()
        kinds = ("n", "d", "e", "c", "q")
        unknowns = [
            tuple(z3.Int(f"{kind}{digit}", context) for digit in range(depth)) for kind in kinds
        ]
        return cls(context, *unknowns)

    def all_of(self, *formulas: Formula) -> Formula:
        return z3.And(*formulas, z3.BoolVal(True, self.context))

    def in_range(self, variables: Variables, digits: Sequence[int]) -> Formula:
        return self.all_of(
            *(z3.And(variables[i] >= 0, variables[i] < self.sizes[i]) for i in digits)
        )

    def some(self, variables: Variables, digits: Sequence[int], body: Formula) -> Formula:
        """The formula that some values for these digits make the body true."""
        if not digits:
            return body
        bound = [variables[i] for i in digits]
        return z3.Exists(bound, z3.And(self.in_range(variables, digits), body))

    def with_digits(
        self, body: Formula, kind: Variables, digits: Sequence[int], values: Variables
    ) -> Formula:
        """The body with ``values`` in place of these digits of a device or chunk."""
        pairs = [(kind[i], values[i]) for i in digits]
        return z3.substitute(body, *pairs) if pairs else body

    @property
    def every_digit(self) -> range:
        return range(len(self.sizes))

    @property
    def is_contributor(self) -> Formula:
        """The contribution is the device's own."""
        return self._equal(self.device, self.contributor)

    @property
    def is_chunk(self) -> Formula:
        """The chunk is the device's own."""
        return self._equal(self.device, self.chunk)

    @property
    def is_first(self) -> Formula:
        """The device is the first one."""
        return self.all_of(*(digit == 0 for digit in self.device))

    def _equal(self, left: Variables, right: Variables) -> Formula:
        return self.all_of(*(a == b for a, b in zip(left, right, strict=True)))

    @property
    def sane(self) -> Formula:
        """The formula that every size is at least 2 and every digit below its size."""
        kinds = (self.device, self.other, self.chunk, self.contributor)
        return self.all_of(
            *(size >= _SMALLEST for size in self.sizes),
            *(self.in_range(kind, self.every_digit) for kind in kinds),
        )


@dataclass(frozen=True)
class _Question:
    """A formula that is satisfiable exactly if the step (None: the goal) goes wrong in this way."""

    step: int | None
    violation: Violation
    wrong: Formula


def _questions(
    cluster: _Cluster, steps: Sequence[Instruction], goal: Goal, regular: bool
) -> Iterator[_Question]:
    has = _initial_state(cluster, goal)
    for number, step in enumerate(steps):
        violations = _SOUND[step.collective] + (_REGULAR[step.collective] if regular else ())
        for violation in violations:
            wrong = _broken_precondition(cluster, has, step.groups, violation)
            yield _Question(number, violation, wrong)
        has = _state_after(cluster, has, step)
    for violation, wrong in _missed_goals(cluster, has, goal):
        yield _Question(None, violation, wrong)


def _initial_state(cluster: _Cluster, goal: Goal) -> Formula:
    match goal:
        case Goal.ALL_REDUCE | Goal.REDUCE_SCATTER | Goal.REDUCE | Goal.ALL_TO_ALL:
            return cluster.is_contributor
        case Goal.ALL_GATHER:
            return cluster.is_chunk
        case Goal.BROADCAST:
            return cluster.is_first
        case _:
            assert_never(goal)


def _missed_goals(
    cluster: _Cluster, has: Formula, goal: Goal
) -> Iterator[tuple[Violation, Formula]]:
    """The ways to miss a goal, each with its formula: contents are missing, or too many."""
    match goal:
        case Goal.ALL_REDUCE | Goal.ALL_GATHER | Goal.BROADCAST:
            yield Violation.GOAL_MISSED, z3.Not(has)
        case Goal.REDUCE:
            yield Violation.GOAL_MISSED, z3.And(cluster.is_first, z3.Not(has))
        case Goal.REDUCE_SCATTER | Goal.ALL_TO_ALL:
            yield Violation.GOAL_MISSED, z3.And(cluster.is_chunk, z3.Not(has))
            yield Violation.GOAL_EXCEEDED, z3.And(has, z3.Not(cluster.is_chunk))
        case _:
            assert_never(goal)


def _broken_precondition(
    cluster: _Cluster, has: Formula, groups: Groups, violation: Violation
) -> Formula:
    """The formula that device and other are two members of a group that break the precondition."""
    free, digits = groups.free, cluster.every_digit
    theirs = cluster.with_digits(has, cluster.device, free, cluster.other)
    rows = cluster.some(cluster.contributor, digits, has)
    their_rows = cluster.some(cluster.contributor, digits, theirs)
    match violation:
        case Violation.UNEQUAL_ROWS:
            wrong = z3.And(has, z3.Not(their_rows))
        case Violation.ADDED_TWICE | Violation.SENT_TWICE:
            wrong = z3.And(has, theirs)
        case Violation.HELD_TWICE:
            wrong = z3.And(has, their_rows)
        case Violation.NOT_CLOSED:
            moved = cluster.with_digits(rows, cluster.chunk, free, cluster.other)
            wrong = z3.And(has, z3.Not(moved))
        case Violation.UNLIKE_PIECES:
            alike = cluster.some(cluster.chunk, free, their_rows)
            wrong = z3.And(has, z3.Not(alike))
        case Violation.UNEVEN | Violation.GOAL_MISSED | Violation.GOAL_EXCEEDED:
            raise AssertionError(f"{violation} is no precondition on a tree")
        case _:
            assert_never(violation)
    differ = z3.Or(*(cluster.device[i] != cluster.other[i] for i in free))
    return cluster.all_of(
        _participation(cluster, groups),
        differ,
        *(cluster.device[i] == cluster.other[i] for i in digits if i not in free),
        wrong,
    )


def _state_after(cluster: _Cluster, has: Formula, step: Instruction) -> Formula:
    """The state after a step; devices that take no part keep theirs."""
    free = step.groups.free
    united = cluster.some(
        cluster.other, free, cluster.with_digits(has, cluster.device, free, cluster.other)
    )
    match step.collective:
        case Collective.ALL_REDUCE | Collective.ALL_GATHER:
            new = united
        case Collective.REDUCE:
            new = cluster.all_of(united, *(cluster.device[i] == 0 for i in free))
        case Collective.REDUCE_SCATTER | Collective.ALL_TO_ALL:
            own = (cluster.chunk[i] == cluster.device[i] for i in free)
            new = cluster.all_of(united, *own)
        case Collective.BROADCAST:
            first = tuple(z3.IntVal(0, cluster.context) for _ in cluster.every_digit)
            new = cluster.with_digits(has, cluster.device, free, first)
        case _:
            assert_never(step.collective)
    return z3.If(_participation(cluster, step.groups), new, has) if step.groups.zero else new


def _participation(cluster: _Cluster, groups: Groups) -> Formula:
    return cluster.all_of(*(cluster.device[i] == 0 for i in groups.zero))


@dataclass(frozen=True)
class _Counterexample:
    """The values of the unknowns that make a question's formula true."""

    sizes: DigitValues
    device: DigitValues
    other: DigitValues
    chunk: DigitValues
    contributor: DigitValues


def _find_counterexample(
    cluster: _Cluster, wrong: Formula, effort: int
) -> _Counterexample | Unknown | None:
    """None if no values of any size make the formula true, else such values, small sizes first."""
    general = _solve(cluster, cluster.all_of(cluster.sane, wrong), effort)
    if general is None:
        return None
    smallest = [size == _SMALLEST for size in cluster.sizes]
    small = _solve(cluster, cluster.all_of(cluster.sane, *smallest, wrong), effort)
    return small if isinstance(small, _Counterexample) else general


def _solve(cluster: _Cluster, formula: Formula, effort: int) -> _Counterexample | Unknown | None:
    # One solver per question: after a push z3 changes to a strategy that hangs on some formulas.
    solver = z3.Solver(ctx=cluster.context)
    solver.set("ctrl_c", False)  # an interrupt is the caller's, not an "unknown"
    solver.set("rlimit", effort)
    solver.add(formula)
    verdict = solver.check()
    if verdict == z3.unsat:
        return None
    if verdict == z3.unknown:
        return Unknown(f"z3 gave up: {solver.reason_unknown()}")
    return _values(cluster, solver.model())


def _values(cluster: _Cluster, model: Any) -> _Counterexample:
    def read(variables: Variables) -> DigitValues:
        return tuple(model.eval(v, model_completion=True).as_long() for v in variables)

    kinds = (cluster.sizes, cluster.device, cluster.other, cluster.chunk, cluster.contributor)
    return _Counterexample(*(read(kind) for kind in kinds))


_ALONE = (Violation.NOT_CLOSED, Violation.GOAL_MISSED, Violation.GOAL_EXCEEDED)
"""Violations that involve a single member of a group, and so name no second one."""


def _refutation(
    counterexample: _Counterexample, question: _Question, program: Program, tree: Tree, goal: Goal
) -> Refuted:
    return Refuted(
        violation=question.violation,
        step=question.step,
        instruction="" if question.step is None else str(program.steps[question.step]),
        names=tree.names,
        sizes=counterexample.sizes,
        device=counterexample.device,
        other=None if question.violation in _ALONE else counterexample.other,
        chunk=counterexample.chunk,
        contributor=counterexample.contributor,
        goal=goal,
    )
