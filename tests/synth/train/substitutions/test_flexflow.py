"""Rules in FlexFlow's format: read, and proved, refuted, or told to be outside."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from hierarchies import InputError
from shared import shared
from synth.train.substitutions.flexflow import Outside, Refuted, judged, read_rules
from synth.verify.verdict import Proved

P1, P2 = ("OP_PARTITION", 1), ("OP_PARTITION", 2)
C1, C2 = ("OP_COMBINE", 1), ("OP_COMBINE", 2)
COPY, SUM = ("OP_REPLICATE", 0), ("OP_REDUCE", 0)
RELU, TANH, LINEAR = ("OP_RELU", None), ("OP_TANH", None), ("OP_LINEAR", None)


def operator(kind: str, dimension: int | None, *inputs: int) -> dict[str, Any]:
    told = {} if dimension is None else {"PM_PARALLEL_DIM": dimension, "PM_PARALLEL_DEGREE": 2}
    return {
        "type": kind,
        "input": [{"opId": one, "tsId": 0} for one in inputs],
        "para": [{"key": key, "value": value} for key, value in told.items()],
    }


def chain(*kinds: tuple[str, int | None]) -> list[dict[str, Any]]:
    """Each reads what the one before made; the first an input."""
    return [operator(*kind, at - 1) for at, kind in enumerate(kinds)]


def added(*each: tuple[str, int]) -> list[dict[str, Any]]:
    """Two inputs, to each of which this is done, added up."""
    both = [operator(*one, -1 - side) for side in (0, 1) for one in each[:1]]
    return [*both, operator("OP_EW_ADD", None, 0, 1)]


def collection(source: list[dict[str, Any]], target: list[dict[str, Any]]) -> str:
    end = {
        "srcOpId": len(source) - 1,
        "srcTsId": 0,
        "dstOpId": len(target) - 1,
        "dstTsId": 0,
    }
    rule = {"name": "one", "srcOp": source, "dstOp": target, "mappedOutput": [end]}
    return json.dumps({"rule": [rule]})


def verdict(source: list[dict[str, Any]], target: list[dict[str, Any]]) -> object:
    [rule] = read_rules(collection(source, target))
    return judged(rule)


ADD_THEN_CUT = [operator("OP_EW_ADD", None, -1, -2), operator(*P1, 0)]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (chain(P1, P2, C1), chain(P2)),
        (chain(P1, P2), chain(P2, P1)),
        (chain(P1, RELU), chain(RELU, P1)),
        (chain(COPY, P1), chain(P1, COPY)),
        (chain(SUM, P1), chain(P1, SUM)),
        (ADD_THEN_CUT, added(P1)),
        ([*added(SUM)], [operator("OP_EW_ADD", None, -1, -2), operator(*SUM, 0)]),
    ],
    ids=str,
)
def test_what_is_the_same_is_proved(source: Any, target: Any) -> None:
    assert verdict(source, target) == Proved()


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        (chain(P1), chain(P2), "cut as dimension 1 +1 and as dimension 2 +1"),
        (chain(P1, C1), chain(P1), "cut as the input and as dimension 1 +1"),
        (chain(RELU), chain(TANH), "values differ: device"),
        (chain(COPY, SUM), chain(P1, C1), "values differ: device"),
        (chain(SUM, RELU), chain(RELU, SUM), "values differ: device"),
        (chain(P1, C1), chain(C1, P1), "asks more of its inputs"),
    ],
    ids=str,
)
def test_what_is_not_is_refuted(source: Any, target: Any, said: str) -> None:
    found = verdict(source, target)
    assert isinstance(found, Refuted)
    assert said in found.because
    assert ("values" in said) == (found.witness is not None)


def test_what_is_not_known_is_outside() -> None:
    found = verdict(chain(LINEAR), chain(LINEAR))
    assert found == Outside("OP_LINEAR of 1 is not looked into")


def test_what_is_no_collection_is_refused() -> None:
    for text in ("[1, 2", "[1, 2]", '{"rule": 5}'):
        with pytest.raises(InputError, match="no collection of rules"):
            read_rules(text)
    with pytest.raises(InputError, match="rule 0 lacks or misspells 'srcOp'"):
        read_rules('{"rule": [{"name": "x"}]}')


def test_the_rules_that_flexflow_ships() -> None:
    text = shared("substitutions", "graph_subst_3_v2.json").read_text(encoding="utf-8")
    rules = read_rules(text)
    counted = Counter(type(judged(rule)).__name__ for rule in rules)
    assert len(rules) == counted.total() == 640
    assert counted["Proved"] > 0
