"""Shardy's factors of an equation: an outside judge, of which only jaxlib's compiler pass is used.

The pass writes to every StableHLO operation a rule such as
``([i, k], [k, j])->([i, j]) {i=8, j=4, k=16} reduction={k}``. Of a factor we take the dimensions in
which it is the major one. An equation becomes one or several operations: compared is the first
that reads all of its operands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxlib.mlir import passmanager

from equations.executed import DTYPES, bound
from grammar.tensors.operations import Literal, Operation
from synth.step.factors import Factor

PASS = "builtin.module(func.func(sdy-populate-op-sharding-rules))"
LETTER = r"[a-z](?:_\d+)?"


@dataclass(frozen=True, order=True)
class Compared:
    """A factor: its dimension in each operand that is no literal, and in the first result."""

    operands: tuple[int | None, ...]
    result: int | None
    reduces: bool

    def __str__(self) -> str:
        """``(1, 0) -> sum``"""
        places = ", ".join("-" if one is None else str(one) for one in self.operands)
        after = "-" if self.result is None else str(self.result)
        return f"({places}) -> {after}{' reduced' if self.reduces else ''}"


def ours(operation: Operation, factor: Factor) -> Compared:
    values = zip(operation.operands, factor.operands, strict=True)
    places = tuple(place for value, place in values if not isinstance(value, Literal))
    return Compared(places, factor.results[0], factor.contracted is not None)


def theirs(operation: Operation) -> set[Compared] | None:
    """The factors that Shardy lets through or reduces; None where it has no comparable rule."""
    count = sum(not isinstance(one, Literal) for one in operation.operands)
    rule = next((one for one in _rules(_lowered(operation)) if len(one[0]) == count), None)
    if rule is None:
        return None
    places, text = rule
    before, after, sizes, kinds = _parsed(text)
    found = set()
    for letter, size in sizes.items():
        if size == 1 or letter in (
            *kinds.get("permutation", ()),
            *kinds.get("need_replication", ()),
        ):
            continue
        everywhere = [names for value in (*before, *after) for names in value if letter in names]
        if any(names[0] != letter for names in everywhere):
            continue
        operands = tuple(_place(before[at], letter) for at in places)
        reduces = letter in kinds.get("reduction", ())
        found.add(Compared(operands, _place(after[0], letter), reduces))
    return found


def _lowered(operation: Operation) -> Any:
    given = [one for one in operation.operands if not isinstance(one, Literal)]

    def function(*arrays: Any) -> Any:
        rest = iter(arrays)
        operands = [
            jnp.asarray(one.value, DTYPES[one.dtype]) if isinstance(one, Literal) else next(rest)
            for one in operation.operands
        ]
        return bound(operation.primitive, operation.parameter, operands)

    abstract = [jax.ShapeDtypeStruct(one.type.shape, DTYPES[one.type.dtype]) for one in given]
    module = jax.jit(function).lower(*abstract).compiler_ir("stablehlo")
    with module.context:
        passmanager.PassManager.parse(PASS).run(module.operation)
    return module


def _rules(module: Any) -> Iterator[tuple[list[int], str]]:
    """Of operations that read all arguments of their function: which operand each is, the rule."""
    for function in module.body.operations:
        (block,) = function.regions[0].blocks
        arguments = list(block.arguments)
        for operation in block.operations:
            read = list(operation.operands)
            if "sdy.sharding_rule" in operation.attributes and all(a in read for a in arguments):
                places = [read.index(argument) for argument in arguments]
                yield places, str(operation.attributes["sdy.sharding_rule"])


def _parsed(text: str) -> tuple[list[Any], list[Any], dict[str, int], dict[str, list[str]]]:
    before, after = (_values(side) for side in text.split("{")[0].split("->"))
    sizes = {name: int(size) for name, size in re.findall(rf"({LETTER})=(\d+)", text)}
    kinds = {
        kind: re.findall(LETTER, names)
        for kind, names in re.findall(r"(reduction|need_replication|permutation)=\{(.*?)\}", text)
    }
    return before, after, sizes, kinds


def _values(text: str) -> list[list[list[str]]]:
    """``([i, jk], [])`` -> of each value, of each dimension, the letters from the major on."""
    return [
        [re.findall(LETTER, one) for one in value.split(",")] if value.strip() else []
        for value in re.findall(r"\[(.*?)\]", text)
    ]


def _place(value: list[list[str]], letter: str) -> int | None:
    return next((at for at, names in enumerate(value) if letter in names), None)
