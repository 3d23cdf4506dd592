"""Reads what an operation is told, as the types that the table wants."""

from __future__ import annotations

from typing import cast

from grammar.tensors.operations import Literal, Operand, Operation, Parameter
from grammar.tensors.sharding import Type


def type_of(operand: Operand) -> Type:
    """A literal is of rank 0."""
    return Type(operand.dtype, ()) if isinstance(operand, Literal) else operand.type


def shape_of(operand: Operand) -> tuple[int, ...]:
    """Of a literal ()."""
    return type_of(operand).shape


def read_number(operation: Operation, name: str) -> int:
    """A whole number."""
    found = operation.parameter[name]
    assert isinstance(found, int), (operation.primitive, name, found)
    return found


def read_numbers(operation: Operation, name: str) -> tuple[int, ...]:
    """A list of whole numbers."""
    return parse_numbers(operation.parameter[name])


def read_pairs(operation: Operation, name: str) -> tuple[tuple[int, ...], ...]:
    """A list of lists of whole numbers."""
    found = operation.parameter[name]
    assert isinstance(found, tuple), (operation.primitive, name, found)
    return tuple(map(parse_numbers, found))


def read_word(operation: Operation, name: str) -> str:
    """A word; "" where it is absent."""
    found = operation.parameter.get(name, "")
    assert isinstance(found, str), (operation.primitive, name, found)
    return found


def read_entry(operation: Operation, name: str, key: str) -> tuple[int, ...]:
    """A list of whole numbers among named entries; () where it is absent."""
    named = cast("tuple[tuple[str, Parameter], ...]", operation.parameter[name])
    return parse_numbers(dict(named).get(key, ()))


def parse_numbers(found: Parameter) -> tuple[int, ...]:
    """A parameter that is a list of whole numbers."""
    assert isinstance(found, tuple), found
    assert all(isinstance(one, int) for one in found), found
    return cast("tuple[int, ...]", found)


def split_words(text: str) -> tuple[str, ...]:
    """Names of primitives, as a line."""
    return tuple(text.split())
