"""Rules as FlexFlow's generator wrote them, read from their JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hierarchies import InputError

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


def read_rules(text: str) -> tuple[Rule, ...]:
    """The rules of a collection. Raises InputError for a text that is none, with the rule."""
    try:
        listed = list(json.loads(text)["rule"])
    except (ValueError, KeyError, TypeError):
        hint = "a JSON object with a list 'rule', as FlexFlow writes it"
        raise InputError("no collection of rules", hint=hint) from None
    return tuple(_rule(one, at) for at, one in enumerate(listed))


def given(operators: tuple[Operator, ...]) -> tuple[Tensor, ...]:
    """The inputs that a graph reads, in the order in which it does."""
    read = (tensor for each in operators for tensor in each.inputs if tensor[0] < 0)
    return tuple(dict.fromkeys(read))


def multiplied(operators: tuple[Operator, ...]) -> frozenset[Tensor]:
    """The inputs that a linear operator reads, or reads what is made of them."""
    made: dict[int, frozenset[Tensor]] = {}
    found: frozenset[Tensor] = frozenset()
    for at, each in enumerate(operators):
        made[at] = frozenset().union(
            *(frozenset({one}) if one[0] < 0 else made[one[0]] for one in each.inputs)
        )
        found |= made[at] if each.type == "OP_LINEAR" else frozenset()
    return found


def _rule(one: Any, at: int) -> Rule:
    try:
        rule = Rule(
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
    for operators in (rule.source, rule.target):
        for place, each in enumerate(operators):
            if any(read >= place for read, _ in each.inputs):
                problem = f"rule {at}: operator {place} reads what no operator before it makes"
                raise InputError(problem, hint="operators in order, inputs below 0")
    return rule


def _operator(one: Mapping[str, Any]) -> Operator:
    inputs = tuple((int(each["opId"]), int(each["tsId"])) for each in one["input"])
    told = ((str(each["key"]), int(each["value"])) for each in one["para"])
    return Operator(str(one["type"]), inputs, tuple(sorted(told)))
