"""Reads parameters of operations, with the types that rules need."""

from __future__ import annotations

from typing import cast

from grammar.tensors.operations import Operation, Parameter


def read_number(operation: Operation, name: str) -> int:
    """Returns an integer parameter."""
    value = operation.parameter[name]
    assert isinstance(value, int), (operation.primitive, name, value)
    return value


def read_numbers(operation: Operation, name: str) -> tuple[int, ...]:
    """Returns a parameter that is a list of integers."""
    return parse_numbers(operation.parameter[name])


def read_pairs(operation: Operation, name: str) -> tuple[tuple[int, ...], ...]:
    """Returns a parameter that is a list of lists of integers."""
    value = operation.parameter[name]
    assert isinstance(value, tuple), (operation.primitive, name, value)
    return tuple(map(parse_numbers, value))


def read_word(operation: Operation, name: str) -> str:
    """Returns a parameter that is a word; "" if it is absent."""
    value = operation.parameter.get(name, "")
    assert isinstance(value, str), (operation.primitive, name, value)
    return value


def read_entry(operation: Operation, name: str, key: str) -> tuple[int, ...]:
    """Returns a list of integers from a parameter with named entries; () if it is absent."""
    named = cast("tuple[tuple[str, Parameter], ...]", operation.parameter[name])
    return parse_numbers(dict(named).get(key, ()))


def parse_numbers(parameter: Parameter) -> tuple[int, ...]:
    """Returns a parameter that is a list of integers."""
    assert isinstance(parameter, tuple), parameter
    assert all(isinstance(entry, int) for entry in parameter), parameter
    return cast("tuple[int, ...]", parameter)


Dots = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]
"""The contracting dimensions of both operands of a product, and their batch dimensions."""


def parse_dots(parameter: Parameter) -> Dots:
    """Returns the dimension numbers of a product."""
    (left, right), (batch_left, batch_right) = cast("tuple[tuple[Parameter, ...], ...]", parameter)
    pairs = (left, right), (batch_left, batch_right)
    return cast("Dots", tuple(tuple(map(parse_numbers, pair)) for pair in pairs))
