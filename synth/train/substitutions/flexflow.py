"""Rules that FlexFlow's generator made, read from its JSON, and judged.

A rule has two graphs of operators on tensors that are cut: ``OP_PARTITION`` cuts a dimension in
two, ``OP_COMBINE`` takes a cut away, ``OP_REPLICATE`` makes copies, ``OP_REDUCE`` adds copies up.
Both graphs must make the same values, cut and copied alike, and the second may not ask more of its
inputs than the first. Operators of elements are known; a rule with any other is outside.
(github.com/flexflow/FlexFlow, ``substitutions/graph_subst_3_v2.json``, Apache-2.0: 640 rules.)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hierarchies import InputError
from synth.train.substitutions.execution import Differs, differs
from synth.train.substitutions.expressions import Add, Atom, Expression, Input, Map, Product, Reduce
from synth.train.substitutions.proof import prove
from synth.verify.verdict import Proved

MOVING = {"OP_PARTITION": 1, "OP_COMBINE": -1, "OP_REPLICATE": 1, "OP_REDUCE": -1}
"""By how many factors of two a tensor is then cut, or copied, more."""

COPIES = ("OP_REPLICATE", "OP_REDUCE")
OF_ONE = ("OP_RELU", "OP_SIGMOID", "OP_TANH", "OP_GELU", "OP_ELU", "OP_EXP", "OP_IDENTITY")
OF_TWO = ("OP_EW_ADD", "OP_EW_MUL")
TOLD = ("PM_PARALLEL_DIM", "PM_PARALLEL_DEGREE")

Tensor = tuple[int, int]
"""An operator by its place in its graph and which of its results; below 0, an input."""


@dataclass(frozen=True)
class Operator:
    """One operator: its inputs, and parameters by name."""

    type: str
    inputs: tuple[Tensor, ...]
    parameters: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Rule:
    """Two graphs, operators in order, and which results of the first are which of the second."""

    name: str
    source: tuple[Operator, ...]
    target: tuple[Operator, ...]
    outputs: tuple[tuple[Tensor, Tensor], ...]


@dataclass(frozen=True)
class Outside:
    """Not judged: what is said here does not reach it."""

    because: str


@dataclass(frozen=True)
class Refuted:
    """The graphs are not the same: where they differ, if that is in values."""

    because: str
    witness: Differs | None = None


def read_rules(text: str) -> tuple[Rule, ...]:
    """The rules of a collection. Raises InputError for a text that is none, with the rule."""
    try:
        listed = list(json.loads(text)["rule"])
    except (ValueError, KeyError, TypeError):
        hint = "a JSON object with a list 'rule', as FlexFlow writes it"
        raise InputError("no collection of rules", hint=hint) from None
    return tuple(_rule(one, at) for at, one in enumerate(listed))


def _rule(one: Any, at: int) -> Rule:
    try:
        return Rule(
            str(one["name"]),
            tuple(map(_operator, one["srcOp"])),
            tuple(map(_operator, one["dstOp"])),
            tuple(
                ((int(m["srcOpId"]), int(m["srcTsId"])), (int(m["dstOpId"]), int(m["dstTsId"])))
                for m in one["mappedOutput"]
            ),
        )
    except (ValueError, KeyError, TypeError) as error:
        problem = f"rule {at} lacks or misspells {error}"
        raise InputError(problem, hint="name, srcOp, dstOp and mappedOutput") from None


def _operator(one: Mapping[str, Any]) -> Operator:
    inputs = tuple((int(each["opId"]), int(each["tsId"])) for each in one["input"])
    told = ((str(each["key"]), int(each["value"])) for each in one["para"])
    return Operator(str(one["type"]), inputs, tuple(sorted(told)))


def judged(rule: Rule) -> Proved | Refuted | Outside:
    """Whether both graphs make the same, cut alike, for tensors and parts of every size.

    A degree is one size: that of all cuts and copies, as in the rules themselves.
    """
    source, target = _Graph(), _Graph()
    for graph, operators in ((source, rule.source), (target, rule.target)):
        outside = graph.carry_out(operators)
        if outside is not None:
            return outside
    if not target.asked <= source.asked:
        return Refuted("the second graph asks more of its inputs than the first")
    for one, other in rule.outputs:
        if one not in source.held or other not in target.held:
            return Outside(f"an output {one} or {other} that no operator makes")
        left, right = source.held[one], target.held[other]
        if left.cut != right.cut:
            return Refuted(f"cut as {_spelled(left.cut)} and as {_spelled(right.cut)}")
        if not isinstance(prove(left.value, right.value), Proved):
            witness = differs(left.value, right.value)
            if witness is None:
                return Outside("neither a proof nor a place that differs was found")
            return Refuted(f"values differ: {witness}", witness)
    return Proved()


Cut = tuple[tuple[str, int], ...]
"""How many times more than the input each dimension is cut, or copied; what is 0 left out."""


@dataclass(frozen=True)
class _Held:
    value: Expression
    cut: Cut
    of: Tensor

    def changed(self, key: str, by: int) -> _Held:
        found = Counter(dict(self.cut))
        found[key] += by
        return replace(self, cut=tuple(sorted((key, n) for key, n in found.items() if n)))

    @property
    def copies(self) -> int:
        return sum(n for key, n in self.cut if key.startswith("copies"))


@dataclass
class _Graph:
    """What each operator makes, and what was asked: of an input to be cut, of two to be cut alike.

    What an input is cut in already is not said; its copies, before any, may hold parts of a sum.
    """

    held: dict[Tensor, _Held] = field(default_factory=dict)
    asked: set[object] = field(default_factory=set)

    def carry_out(self, operators: Iterable[Operator]) -> Outside | None:
        for at, operator in enumerate(operators):
            read = [self.read(one) for one in operator.inputs]
            made = self.made(operator, read)
            if isinstance(made, Outside):
                return made
            self.held[at, 0] = made
        return None

    def read(self, tensor: Tensor) -> _Held:
        if tensor not in self.held:
            held = tuple(Atom(f"copies {level}") for level in (0, -1, -2))
            value = Input(f"input {tensor[0]} {tensor[1]}", (Atom("element"),), held)
            self.held[tensor] = _Held(value, (), tensor)
        return self.held[tensor]

    def made(self, operator: Operator, read: list[_Held]) -> _Held | Outside:
        told = dict(operator.parameters)
        match operator.type, read:
            case kind, [one] if kind in MOVING and set(told) == set(TOLD):
                return self.moved(kind, one, told["PM_PARALLEL_DIM"])
            case kind, [one] if kind in OF_ONE and not told:
                value = one.value if kind == "OP_IDENTITY" else Map(kind, one.value)
                return replace(one, value=value)
            case kind, [one, other] if kind in OF_TWO and not told:
                return self.together(kind, one, other)
        return Outside(f"{operator.type} of {len(read)} is not looked into")

    def moved(self, kind: str, one: _Held, dimension: int) -> _Held:
        key = f"copies {dimension}" if kind in COPIES else f"dimension {dimension}"
        found = one.changed(key, MOVING[kind])
        if kind == "OP_REDUCE":
            axis = Atom(f"copies {one.copies}")
            found = replace(found, value=Reduce(axis, one.value))
        least = dict(found.cut).get(key, 0)
        self.asked |= {(one.of, key, -n) for n in range(least, 0)}
        return found

    def together(self, kind: str, one: _Held, other: _Held) -> _Held | Outside:
        """Both must be cut alike: if they come of two inputs, that is asked of these."""
        if one.copies != other.copies:
            return Outside(f"{kind} of tensors with unlike copies")
        if one.of != other.of:
            apart = Counter(dict(one.cut))
            apart.subtract(dict(other.cut))
            if any(apart.values()):
                return Outside(f"{kind} of inputs that are cut unlike")
            self.asked.add(frozenset((one.of, other.of)))
        elif one.cut != other.cut:
            return Outside(f"{kind} of tensors that are cut unlike")
        value: Expression = (
            Add(one.value, other.value)
            if kind == "OP_EW_ADD"
            else Product("e,e->e", one.value, other.value)
        )
        return _Held(value, one.cut, max(one.of, other.of))


def _spelled(cut: Cut) -> str:
    return ", ".join(f"{key} {n:+}" for key, n in cut) or "the input"
