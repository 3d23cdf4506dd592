"""Rules in FlexFlow's format: read, and proved, refuted with tensors, or told to be outside."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hierarchies import InputError
from shared import shared
from synth.train.substitutions.flexflow import Operator, Outside, Refuted, Rule, judged, read_rules
from synth.train.substitutions.flexflow.arrays import Held, carried_out, witness
from synth.train.substitutions.flexflow.shapes import Shapes
from synth.verify.verdict import Proved

X, Y, Z, W, V = -1, -2, -3, -4, -5
"""Inputs: by convention of the collection the last are weights."""

Told = tuple[str, dict[str, int], tuple[int, ...]]


def parallel(kind: str, dimension: int, read: int) -> Told:
    return f"OP_{kind}", {"PM_PARALLEL_DIM": dimension, "PM_PARALLEL_DEGREE": 2}, (read,)


def cut(dimension: int, read: int) -> Told:
    return parallel("PARTITION", dimension, read)


def combine(dimension: int, read: int) -> Told:
    return parallel("COMBINE", dimension, read)


def copy(dimension: int, read: int) -> Told:
    return parallel("REPLICATE", dimension, read)


def total(dimension: int, read: int) -> Told:
    return parallel("REDUCE", dimension, read)


def relu(read: int) -> Told:
    return "OP_RELU", {}, (read,)


def add(one: int, other: int) -> Told:
    return "OP_EW_ADD", {}, (one, other)


def times(one: int, other: int) -> Told:
    return "OP_EW_MUL", {}, (one, other)


def linear(one: int, weight: int, activation: int = 0) -> Told:
    return "OP_LINEAR", {"PM_ACTI": activation}, (one, weight)


def behind(along: int, one: int, other: int) -> Told:
    return "OP_CONCAT", {"PM_NUM_INPUTS": 2, "PM_AXIS": along, "PM_NUMDIM": 3}, (one, other)


def halves(along: int, read: int) -> Told:
    return "OP_SPLIT", {"PM_NUM_OUTPUTS": 2, "PM_AXIS": along}, (read,)


def spelled(operators: list[Told]) -> list[dict[str, Any]]:
    return [
        {
            "type": kind,
            "input": [{"opId": one, "tsId": 0} for one in read],
            "para": [{"key": key, "value": value} for key, value in told.items()],
        }
        for kind, told, read in operators
    ]


def rule_of(source: list[Told], target: list[Told]) -> Rule:
    """Of which the last results are to be alike."""
    end = {"srcOpId": len(source) - 1, "srcTsId": 0, "dstOpId": len(target) - 1, "dstTsId": 0}
    told = {"srcOp": spelled(source), "dstOp": spelled(target), "mappedOutput": [end]}
    [rule] = read_rules(json.dumps({"rule": [{"name": "one", **told}]}))
    return rule


SAME: dict[str, tuple[list[Told], list[Told]]] = {
    "cut and back": ([cut(1, X), cut(2, 0), combine(1, 1)], [cut(2, X)]),
    "two cuts": ([cut(1, X), cut(2, 0)], [cut(2, X), cut(1, 0)]),
    "cut of a function": ([cut(1, X), relu(0)], [relu(X), cut(1, 0)]),
    "copies of a cut": ([copy(0, X), cut(1, 0)], [cut(1, X), copy(0, 0)]),
    "cut of a sum": ([total(0, X), cut(1, 0)], [cut(1, X), total(0, 0)]),
    "cut of what is added": ([add(X, Y), cut(1, 0)], [cut(1, X), cut(1, Y), add(0, 1)]),
    "sums added": ([total(0, X), total(0, Y), add(0, 1)], [add(X, Y), total(0, 0)]),
    "twice": ([copy(0, X), total(0, 0)], [add(X, X)]),
    "twice elsewhere": ([copy(1, X), total(1, 0)], [copy(2, X), total(2, 0)]),
    "a sum of two parts": ([behind(0, X, Y), cut(0, 0), total(0, 1)], [add(X, Y)]),
    "distributive": ([add(X, Y), times(0, Z)], [times(X, Z), times(Z, Y), add(0, 1)]),
    "function of what is put together": (
        [relu(X), relu(Y), behind(1, 0, 1)],
        [behind(1, X, Y), relu(0)],
    ),
    "halves": (
        [behind(2, X, X), relu(0), halves(2, 1)],
        [behind(2, X, X), halves(2, 0), relu(1)],
    ),
    "put together twice": ([behind(1, X, Y), behind(1, 0, Z)], [behind(1, Y, Z), behind(1, X, 0)]),
    "an activation": ([linear(X, W), relu(0)], [linear(X, W, 2)]),
    "samples cut": ([cut(1, X), copy(0, W), linear(0, 1)], [linear(X, W), cut(1, 0)]),
    "channels cut": ([copy(0, X), cut(1, W), linear(0, 1)], [linear(X, W), cut(2, 0)]),
    "samples put together": (
        [linear(X, W), linear(Y, W), behind(1, 0, 1)],
        [behind(1, X, Y), linear(0, W)],
    ),
    "weights put together": (
        [linear(X, W), linear(X, V), behind(2, 0, 1)],
        [behind(1, W, V), linear(X, 0)],
    ),
    "linear in the weight": (
        [linear(X, W), linear(X, V), add(0, 1)],
        [add(V, W), linear(X, 0)],
    ),
    "parts of a sum": (
        [cut(2, X), cut(2, W), linear(0, 1), total(0, 2), cut(1, 3)],
        [cut(2, X), cut(2, W), linear(0, 1), cut(1, 2), total(0, 3)],
    ),
}
"""Small rules of every operator."""

NOT_SAME: dict[str, tuple[list[Told], list[Told], str]] = {
    "another cut": ([cut(1, X)], [cut(2, X)], "halves what has no half"),
    "a cut left": ([cut(1, X), combine(1, 0)], [cut(1, X)], "cuts what it makes otherwise"),
    "another order": ([cut(1, X), combine(1, 0)], [combine(1, X), cut(1, 0)], "not there"),
    "once and twice": ([relu(X)], [copy(1, X), total(1, 0)], "other values"),
    "a function of a sum": ([total(0, X), relu(0)], [relu(X), total(0, 0)], "other values"),
    "sum of what is not cut": ([add(X, Y)], [behind(0, X, Y), total(0, 0)], "not there"),
    "along what is cut": ([cut(1, X)], [cut(1, X), behind(1, 0, 0)], "along what is cut"),
    "halves of unlike": (
        [relu(X), relu(Y)],
        [behind(1, X, Y), relu(0), halves(1, 1)],
        "need not be",
    ),
    "channels of unlike sizes": (
        [behind(2, X, Y), behind(2, W, V), linear(0, 1)],
        [behind(2, Y, X), behind(2, V, W), linear(0, 1)],
        "other values",
    ),
    "an activation too many": ([linear(X, W)], [linear(X, W, 2)], "other values"),
    "operands changed": ([linear(X, X)], [linear(X, X), copy(0, 0)], "otherwise"),
    "a weight cut alone": ([linear(X, W), cut(2, 0)], [cut(1, W), linear(X, 0)], "need not be"),
    "parts of a sum as a sum": (
        [linear(X, W)],
        [cut(2, X), cut(2, W), linear(0, 1), combine(0, 2)],
        "no half",
    ),
    "a sum of parts of it after a function": (
        [cut(2, X), cut(2, W), linear(0, 1), relu(2), total(0, 3)],
        [cut(2, X), cut(2, W), linear(0, 1), total(0, 2), relu(3)],
        "other values",
    ),
    "a sum of copies in place of parts": (
        [cut(2, X), cut(2, W), linear(0, 1), total(0, 2)],
        [cut(2, X), cut(2, W), linear(0, 1), combine(0, 2)],
        "other sizes",
    ),
    "unlike copies": (
        [add(X, X), linear(X, W)],
        [behind(0, X, X), linear(X, W), total(1, 1)],
        "not there",
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_what_is_the_same_is_proved(name: str) -> None:
    assert judged(rule_of(*SAME[name])) == Proved()


@pytest.mark.parametrize("name", NOT_SAME)
def test_what_is_not_is_refuted_with_tensors(name: str) -> None:
    source, target, said = NOT_SAME[name]
    found = judged(rule_of(source, target))
    assert isinstance(found, Refuted)
    assert said in found.because
    assert found.witness is not None
    assert found.because in str(found.witness)
    assert "input -1 of " in str(found.witness)


def test_a_linear_operator_is_a_product_of_each_devices_parts() -> None:
    """An oracle of its own: whole operands, of which the clock knows nothing."""
    rng = np.random.default_rng(0)
    x, w = rng.integers(-9, 10, (1, 4, 6)), rng.integers(-9, 10, (1, 2, 6))
    rule = rule_of(*SAME["parts of a sum"])
    inputs = {(X, 0): Held((1, 1, 1), x), (W, 0): Held((1, 1, 1), w)}
    made = carried_out(rule.source, inputs)
    assert made[2, 0].cuts == (2, 1, 1)
    assert (made[2, 0].whole[0] == x[0, :, :3] @ w[0, :, :3].T).all()
    assert (made[3, 0].whole[0] == x[0] @ w[0].T).all()


def test_what_reads_more_is_refuted_and_whether_it_matters_is_said() -> None:
    source: list[Told] = [linear(X, W)]
    found = judged(rule_of(source, [behind(0, W, V), linear(X, 0)]))
    assert found == Refuted("it reads an input that the first graph has not", None, True)
    found = judged(rule_of(source, [behind(0, V, W), linear(X, 0)]))
    assert found == Refuted("it reads an input that the first graph has not", None, False)


def test_what_is_not_known_is_outside_and_says_because_of_what() -> None:
    for source, because in (
        ([("OP_CONV2D", {}, (X, W))], "OP_CONV2D of 2 is not looked into ()"),
        ([("OP_LINEAR", {"PM_ACTI": 2}, (X,))], "OP_LINEAR of 1 is not looked into (PM_ACTI 2)"),
        ([linear(X, W, 3)], "OP_LINEAR of 2 is not looked into (PM_ACTI 3)"),
        ([cut(3, X)], "not looked into (PM_PARALLEL_DEGREE 2, PM_PARALLEL_DIM 3)"),
        ([copy(2, X), linear(0, W)], "a sum over channels that were replicated or reduced"),
        ([behind(1, X, Y), total(1, 0)], "on nothing: a dimension would be cut that must not be"),
        ([total(1, X), add(0, X)], "on nothing: a dimension would be cut twice as often"),
    ):
        found = judged(rule_of(source, source))  # type: ignore[arg-type]
        assert isinstance(found, Outside)
        assert because in found.because


def other(operator: Operator) -> Iterator[Operator]:
    """One operator with one mistake."""
    told = dict(operator.parameters)
    for key in ("PM_PARALLEL_DIM", "PM_AXIS"):
        if key in told:
            for at in {0, 1, 2} - {told[key]}:
                yield replace(operator, parameters=tuple(sorted({**told, key: at}.items())))
    kinds = (
        ("OP_PARTITION", "OP_COMBINE", "OP_REPLICATE", "OP_REDUCE"),
        ("OP_EW_ADD", "OP_EW_MUL"),
    )
    for alike in kinds:
        if operator.type in alike:
            yield from (replace(operator, type=kind) for kind in alike if kind != operator.type)
    if "PM_ACTI" in told:
        yield replace(operator, parameters=(("PM_ACTI", 2 - told["PM_ACTI"]),))
    if len(operator.inputs) == 2:
        yield replace(operator, inputs=operator.inputs[::-1])
        yield replace(operator, inputs=(operator.inputs[0],) * 2)


def damaged() -> Iterator[tuple[str, Rule]]:
    for name, both in SAME.items():
        rule = rule_of(*both)
        for at, operator in enumerate(rule.target):
            for wrong in other(operator):
                yield name, replace(rule, target=(*rule.target[:at], wrong, *rule.target[at + 1 :]))


def test_damaged_rules_are_refuted_with_tensors_or_still_hold() -> None:
    """What is proved of them, arrays of any sizes and cuts do not gainsay."""
    counted: Counter[str] = Counter()
    for name, rule in damaged():
        found = judged(rule)
        counted[type(found).__name__] += 1
        if isinstance(found, Proved):
            assert witness(rule, Shapes()) is None, (name, rule)
        elif isinstance(found, Refuted):
            assert found.witness is not None
        else:
            assert found.because == "a sum over channels that were replicated or reduced"
    assert counted["Refuted"] >= 100, counted


def test_arrays_do_not_gainsay_what_is_proved() -> None:
    for name, both in SAME.items():
        assert witness(rule_of(*both), Shapes()) is None, name


def test_what_is_no_collection_is_refused() -> None:
    for text in ("[1, 2", "[1, 2]", '{"rule": 5}'):
        with pytest.raises(InputError, match="no collection of rules"):
            read_rules(text)
    with pytest.raises(InputError, match="rule 0 lacks or misspells 'srcOp'"):
        read_rules('{"rule": [{"name": "x"}]}')
    with pytest.raises(InputError, match="rule 0: operator 0 reads what no operator before"):
        rule_of([relu(1)], [relu(X)])


def test_the_rules_that_flexflow_ships() -> None:
    text = shared("substitutions", "graph_subst_3_v2.json").read_text(encoding="utf-8")
    rules = read_rules(text)
    counted = Counter(type(judged(rule)).__name__ for rule in rules)
    assert counted == {"Proved": 379, "Refuted": 245, "Outside": 16}
