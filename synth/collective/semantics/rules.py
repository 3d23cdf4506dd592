"""The meaning of programs: the rules of the reduction language, and derivations by them.

The rules are those of grouped collectives on a state "chunk x contributor" per device, as in P²
(Xie et al., MLSys 2022, arXiv 2110.10548), on digits instead of counts. They are applied on the
skeleton, every factor of the tree replaced by 2: no rule depends on a size, so a derivation there
holds for every size. ``verify.symbolic`` decides the same question by z3, without sharing this
code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from grammar import Collective, Goal, Groups, Instruction, Program, instructions, spell
from hierarchies import Tree
from synth.collective.semantics.truth_tables import (
    TruthTables,
    own_chunks,
    own_contributions,
    truth_tables,
)

State = int


class DemandKind(Enum):
    """Why a rule has a precondition: against wrong numbers, unequal shapes, or useless steps."""

    SOUND = "unsound"
    REGULAR = "irregular"
    PRUNED = "pruned"


ALL_KINDS = frozenset(DemandKind)


class Setting:
    """The groups of an instruction on the skeleton, as truth tables: the same in every state."""

    def __init__(self, space: TruthTables, groups: Groups) -> None:
        self.space = space
        self.groups = groups
        self.members = groups.free
        self.chunks = space.rows(groups.free)
        self.part = space.all_zero(groups.zero)
        self.players = space.drop(self.part, space.depth)
        self.leaders = space.all_zero(groups.free)


class InstructionContext:
    """An instruction together with the state before it, as its preconditions inspect them.

    ``held`` is the part of the state that the participants hold. ``rows`` is a table over devices
    and chunks: which chunks each participant holds, from any contributor.
    """

    __slots__ = ("_together", "held", "rows", "setting", "space")

    def __init__(self, setting: Setting, state: State, rows: int) -> None:
        self.setting = setting
        self.space = setting.space
        self.held = state & setting.part
        self.rows = rows & setting.part
        self._together: tuple[State, bool] | None = None

    def together(self) -> tuple[State, bool]:
        """The union over each group, given to all its members, and whether it was disjoint."""
        if self._together is None:
            self._together = self.space.union(self.held, self.setting.members)
        return self._together

    def first(self) -> State:
        """The contents of the first member of each group, given to all its members."""
        return self.space.some(self.held & self.setting.leaders, self.setting.members)

    def rows_alike(self) -> bool:
        """Whether all members hold the same rows once the group's chunk digits are dropped.

        Where the members' rows are disjoint, every member then holds equally many: exactly one
        setting of those digits each, because there are as many settings as members.
        """
        forgotten = self.space.some(self.rows, self.setting.chunks)
        return self.space.same(forgotten, self.setting.members)

    def in_every_group(self, table: int) -> bool:
        """Whether in every group some member has some entry of the table."""
        devices = self.space.drop(table, self.space.depth)
        return not self.setting.players & ~self.space.some(devices, self.setting.members)

    def scattered(self) -> State:
        """The union, each member keeping the rows whose digits are its own."""
        table = self.together()[0]
        for digit in self.setting.groups.free:
            table &= self.space.own_row[digit]
        return table


@dataclass(frozen=True)
class Demand:
    """One precondition of a rule: its class, the reason given when it fails, and its test."""

    kind: DemandKind
    otherwise: str
    met: Callable[[InstructionContext], bool]


@dataclass(frozen=True)
class Rule:
    """A collective's row of the table: its preconditions, and its effect on its participants."""

    demands: tuple[Demand, ...]
    effect: Callable[[InstructionContext], State]


_HOLDS_SOMETHING = Demand(
    DemandKind.PRUNED,
    "a group holds nothing at all",
    lambda m: m.in_every_group(m.rows),
)
_SAME_ROWS = Demand(
    DemandKind.SOUND,
    "members of a group hold different sets of chunks",
    lambda m: m.space.same(m.rows, m.setting.members),
)
_ONCE = Demand(DemandKind.SOUND, "a contribution would be added twice", lambda m: m.together()[1])
_APART = Demand(
    DemandKind.SOUND, "a contribution to a chunk would be sent twice", lambda m: m.together()[1]
)
_CLOSED = Demand(
    DemandKind.REGULAR,
    "the chunks held cannot be split evenly among the members",
    lambda m: m.space.same(m.rows, m.setting.chunks),
)
_ROWS_APART = Demand(
    DemandKind.SOUND,
    "two members of a group hold the same chunk",
    lambda m: m.space.union(m.rows, m.setting.members)[1],
)
_ALIKE = Demand(
    DemandKind.REGULAR,
    "the members' chunks do not fit together to equal pieces",
    InstructionContext.rows_alike,
)
_CONTAINED = Demand(
    DemandKind.PRUNED,
    "the first member lacks something that another member holds",
    lambda m: not m.held & ~m.first(),
)
_LEARNS_SOMETHING = Demand(
    DemandKind.PRUNED,
    "in some group nobody would learn anything",
    lambda m: m.in_every_group(m.first() & ~m.held),
)
_CHANGE = Demand(DemandKind.PRUNED, "the step changes nothing", lambda m: True)

RULES: Mapping[Collective, Rule] = {
    Collective.ALL_REDUCE: Rule(
        (_SAME_ROWS, _HOLDS_SOMETHING, _ONCE),
        lambda m: m.together()[0],
    ),
    Collective.REDUCE_SCATTER: Rule(
        (_SAME_ROWS, _CLOSED, _HOLDS_SOMETHING, _ONCE),
        InstructionContext.scattered,
    ),
    Collective.ALL_GATHER: Rule(
        (_ROWS_APART, _ALIKE, _HOLDS_SOMETHING),
        lambda m: m.together()[0],
    ),
    Collective.REDUCE: Rule(
        (_SAME_ROWS, _HOLDS_SOMETHING, _ONCE),
        lambda m: m.together()[0] & m.setting.leaders,
    ),
    Collective.BROADCAST: Rule(
        (_CONTAINED, _HOLDS_SOMETHING, _LEARNS_SOMETHING),
        InstructionContext.first,
    ),
    Collective.ALL_TO_ALL: Rule(
        (_SAME_ROWS, _CLOSED, _HOLDS_SOMETHING, _APART),
        InstructionContext.scattered,
    ),
}


@dataclass(frozen=True)
class Aim:
    """A goal's row of the table: the state it starts from, and the state it must end in.

    Only devices in ``watched`` are compared with ``end``: for a reduce the first alone. In an
    all-to-all the contributor of a chunk is its source, and the chunk is its destination.
    """

    start: Callable[[TruthTables], State]
    end: Callable[[TruthTables], State]
    otherwise: str
    watched: Callable[[TruthTables], State] = lambda tables: tables.full


def _hold_everything(tables: TruthTables) -> State:
    return tables.full


def _hold_first_device(tables: TruthTables) -> State:
    return tables.all_zero(tables.devices)


_LACKING = "not every device ends with every"
AIMS: Mapping[Goal, Aim] = {
    Goal.ALL_REDUCE: Aim(own_contributions, _hold_everything, f"{_LACKING} contribution"),
    Goal.REDUCE_SCATTER: Aim(
        own_contributions,
        own_chunks,
        "not every device ends with its own chunk, complete, and nothing else",
    ),
    Goal.ALL_GATHER: Aim(own_chunks, _hold_everything, f"{_LACKING} chunk"),
    Goal.REDUCE: Aim(
        own_contributions,
        _hold_first_device,
        "the first device does not end with every contribution",
        _hold_first_device,
    ),
    Goal.BROADCAST: Aim(_hold_first_device, _hold_everything, f"{_LACKING} chunk"),
    Goal.ALL_TO_ALL: Aim(
        own_contributions,
        own_chunks,
        "not every device ends with what all have for it, and nothing else",
    ),
}


@dataclass(frozen=True)
class Refusal:
    """A step that is not allowed (``step`` counts from 0), or a goal that is missed (None)."""

    step: int | None
    kind: DemandKind
    reason: str


@dataclass(frozen=True)
class Derivation:
    """The certificate that a program reaches its goal: every state from the start to the end.

    ``len(states) == len(instructions) + 1``; ``states[i + 1]`` follows from ``states[i]`` by
    ``instructions[i]``. States are truth tables on the skeleton of the tree
    (``semantics.truth_tables``).
    """

    program: Program
    tree: Tree
    instructions: tuple[Instruction, ...]
    states: tuple[State, ...]
    goal: Goal = Goal.ALL_REDUCE


class Rulebook:
    """The rules over a tree of ``depth`` digits, for given instructions and classes of conditions.

    ``start`` is the state in which a program for the ``goal`` starts, ``end`` the state that the
    watched devices must reach.
    """

    def __init__(
        self,
        depth: int,
        choices: Iterable[Instruction],
        kinds: frozenset[DemandKind] = ALL_KINDS,
        goal: Goal = Goal.ALL_REDUCE,
    ) -> None:
        self.space = truth_tables(depth)
        aim = AIMS[goal]
        self.start: State = aim.start(self.space)
        self.end: State = aim.end(self.space)
        self._watched = aim.watched(self.space)
        self._prune = DemandKind.PRUNED in kinds
        self._pages: dict[Groups, tuple[Setting, list[tuple[Instruction, Rule]]]] = {}
        for choice in choices:
            rule = RULES[choice.collective]
            checked = tuple(demand for demand in rule.demands if demand.kind in kinds)
            if choice.groups not in self._pages:
                self._pages[choice.groups] = (Setting(self.space, choice.groups), [])
            self._pages[choice.groups][1].append((choice, Rule(checked, rule.effect)))

    def take(self, state: State) -> Iterator[tuple[Instruction, State | Demand]]:
        """Yields each instruction with the state it leads to, or with the first demand not met."""
        rows = self.space.drop(state, 2 * self.space.depth)
        for setting, rules in self._pages.values():
            context = InstructionContext(setting, state, rows)
            for choice, rule in rules:
                yield choice, self._apply(context, rule, state)

    def moves(self, state: State) -> list[tuple[Instruction, State]]:
        """The instructions that are allowed, each with the state it leads to."""
        found = []
        for choice, after in self.take(state):
            if isinstance(after, State):
                found.append((choice, after))
        return found

    def _apply(self, context: InstructionContext, rule: Rule, state: State) -> State | Demand:
        for demand in rule.demands:
            if not demand.met(context):
                return demand
        part = context.setting.part
        after = (rule.effect(context) & part) | (state & ~part)
        return _CHANGE if after == state and self._prune else after

    def reached(self, state: State) -> bool:
        """Whether the watched devices hold exactly the contents that the goal requires."""
        return state & self._watched == self.end

    def at_least(self, state: State) -> int:
        """A lower bound on the remaining steps: 0 at the goal, 1 if one may reach it, else 2.

        One step may be enough where every row is present (a last all-reduce, reduce, reduce-scatter
        or all-to-all adds none), where all present rows are finished (a last all-gather finishes
        none), or where device 0 is finished (a last broadcast copies from it).
        """
        if self.reached(state):
            return 0
        depth = self.space.depth
        rows = self.space.drop(state & self._watched, 2 * depth)
        wanted = self.space.drop(self.end, 2 * depth)
        finished = wanted & ~self.space.drop(self.end & ~state, 2 * depth)
        leader = self.space.all_zero(self.space.devices) & wanted
        return 1 if not wanted & ~rows or rows == finished or not leader & ~finished else 2


def derive(
    program: Program,
    tree: Tree,
    goal: Goal = Goal.ALL_REDUCE,
    *,
    kinds: frozenset[DemandKind] = ALL_KINDS,
) -> Derivation | Refusal:
    """Applies a program step by step from the start of a request to its goal.

    ``kinds`` are the classes of preconditions that are checked. Returns a Refusal for a step that
    is not allowed or a goal that is missed. Raises InputError for a step that names levels the tree
    does not have, or whose collective no program for this goal has.
    """
    steps = instructions(program, tree, goal)
    depth = len(tree.digits)
    rulebook = Rulebook(depth, (), kinds, goal)
    states = [rulebook.start]
    for index, step in enumerate(steps):
        [(_, after)] = Rulebook(depth, [step], kinds, goal).take(states[-1])
        if isinstance(after, Demand):
            return Refusal(index, after.kind, after.otherwise)
        states.append(after)
    if not rulebook.reached(states[-1]):
        return Refusal(None, DemandKind.SOUND, AIMS[goal].otherwise)
    return Derivation(program, tree, steps, tuple(states), goal)


def derive_on(derivation: Derivation, tree: Tree) -> Derivation:
    """The same program, derived again on another tree with the same number of digits."""
    steps = tuple(spell(step, tree) for step in derivation.instructions)
    derived = derive(Program(steps), tree, derivation.goal)
    if isinstance(derived, Refusal):
        raise AssertionError(f"{derivation.program} on {tree.sizes}: {derived}")
    return derived
