"""Amounts that depend on the sizes of axes, as in ``14 GB / tensor``: parsed, printed, evaluated.

All arithmetic is exact, and ``parse_amount(str(amount)) == amount``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any, assert_never, cast

from lark import Lark, Token, Transformer, UnexpectedInput

from hierarchies import InputError, suggest_nearest

UNITS: Mapping[str, int] = {"B": 1} | {
    f"{prefix}{suffix}": (1000 if suffix == "B" else 1024) ** power
    for power, prefix in enumerate("KMGT", start=1)
    for suffix in ("", "iB", "B")
}
"""Bytes of a unit, with the same units as sizes on the command line."""
EXTREMES = ("min", "max")
MOST_CHARACTERS = 500
MOST_BITS = 1000
"""The limit for a value's numerator and denominator, so that it still fits a float."""
_NUMBER = re.compile(r"[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?")
_SIGNS: Mapping[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_BINDING_STRENGTHS = {"+": 1, "-": 1, "*": 2, "/": 2}


@dataclass(frozen=True)
class Number:
    """A decimal number as it was written, optionally with a unit of bytes."""

    text: str
    unit: str = ""

    def __post_init__(self) -> None:
        if not _NUMBER.fullmatch(self.text):
            hint = "at most 30 digits before and after the point, and 2 in the exponent"
            raise InputError(f"the number {self.text} cannot be read", hint=hint)
        if self.unit and self.unit not in UNITS:
            hint = f"known are {', '.join(UNITS)}; to multiply write {self.text} * {self.unit}"
            raise InputError(f"no unit {self.unit!r} after {self.text}", hint=hint)

    @property
    def value(self) -> Fraction:
        return Fraction(self.text) * UNITS.get(self.unit, 1)

    def __str__(self) -> str:
        return f"{self.text} {self.unit}".rstrip()


@dataclass(frozen=True)
class NameReference:
    """The size of an axis, or a named number."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class BinaryOperation:
    """One of ``+ - * /`` between two amounts."""

    sign: str
    left: Amount
    right: Amount

    def __str__(self) -> str:
        own = _BINDING_STRENGTHS[self.sign]
        left = f"({self.left})" if _binding_strength(self.left) < own else str(self.left)
        right = f"({self.right})" if _binding_strength(self.right) <= own else str(self.right)
        return f"{left} {self.sign} {right}"


@dataclass(frozen=True)
class Extreme:
    """The least (``min``) or greatest (``max``) of two or more amounts."""

    which: str
    parts: tuple[Amount, ...]

    def __str__(self) -> str:
        return f"{self.which}({', '.join(str(part) for part in self.parts)})"


Amount = Number | NameReference | BinaryOperation | Extreme


@dataclass(frozen=True)
class AtMostRule:
    """A rule for the sizes: one amount is not above another."""

    left: Amount
    right: Amount

    def __str__(self) -> str:
        return f"{self.left} <= {self.right}"


@dataclass(frozen=True)
class WholeRule:
    """A rule for the sizes: an amount is a whole number."""

    amount: Amount

    def __str__(self) -> str:
        return f"{self.amount} is whole"


Rule = AtMostRule | WholeRule


def _binding_strength(amount: Amount) -> int:
    return _BINDING_STRENGTHS[amount.sign] if isinstance(amount, BinaryOperation) else 3


def parse_amount(given: str | int | float | Fraction) -> Amount:
    """Parses an amount from a number or text. Raises InputError if it cannot be read.

    Text contains numbers (``96``, ``1.5``, ``175e9``), optionally with a unit of bytes (``14 GB``,
    ``64 KiB``), names, ``+ - * /``, parentheses, ``min(..., ...)`` and ``max(..., ...)``.
    """
    if isinstance(given, str):
        return _parse_text(given)
    if given < 0:
        raise InputError(f"the number {given} is negative", hint="0 at least")
    if isinstance(given, Fraction):
        return _fraction(given)
    return Number(repr(given))


def _fraction(given: Fraction) -> Amount:
    top, bottom = Number(str(given.numerator)), Number(str(given.denominator))
    return top if given.denominator == 1 else BinaryOperation("/", top, bottom)


def parse_rule(text: str) -> Rule:
    """Parses a rule: ``AMOUNT <= AMOUNT`` or ``AMOUNT is whole``. Raises InputError."""
    left, comparison, right = text.partition("<=")
    if comparison:
        return AtMostRule(parse_amount(left), parse_amount(right))
    body = text.strip().removesuffix("is whole")
    if body == text.strip() or not body[-1:].isspace():
        hint = "'16 GB / tensor <= 64 GB' or 'layers / pipeline is whole'"
        raise InputError(f"the rule {text!r} cannot be read", hint=f"write it as in {hint}")
    return WholeRule(parse_amount(body))


def amounts_in(rule: Rule) -> tuple[Amount, ...]:
    """The amounts that a rule compares."""
    return (rule.left, rule.right) if isinstance(rule, AtMostRule) else (rule.amount,)


def names_in(amount: Amount) -> Iterator[str]:
    """Yields the names that an amount refers to, with repetitions."""
    match amount:
        case NameReference(name):
            yield name
        case BinaryOperation(_, left, right):
            yield from names_in(left)
            yield from names_in(right)
        case Extreme(_, parts):
            for part in parts:
                yield from names_in(part)
        case Number():
            pass
        case _:
            assert_never(amount)


Known = Mapping[str, Fraction | InputError]
"""The value of each name, or the error in computing it, which is raised on use."""


def evaluate_amount(amount: Amount, known: Known) -> Fraction:
    """The value of an amount. Raises InputError for a division by zero and for unknown names."""
    match amount:
        case Number():
            return amount.value
        case NameReference(name):
            return _look_up(name, known)
        case Extreme(which, parts):
            values = [evaluate_amount(part, known) for part in parts]
            return min(values) if which == "min" else max(values)
        case BinaryOperation(sign, left, right):
            return _combine(
                amount, sign, evaluate_amount(left, known), evaluate_amount(right, known)
            )
        case _:
            assert_never(amount)


def _look_up(name: str, known: Known) -> Fraction:
    if name not in known:
        raise InputError(f"no axis or number {name!r}", hint=suggest_nearest(name, known))
    value = known[name]
    if isinstance(value, InputError):
        raise value
    return value


def _combine(amount: Amount, sign: str, left: Fraction, right: Fraction) -> Fraction:
    if sign == "/" and not right:
        raise InputError(f"{str(amount)!r} divides by zero")
    value = _SIGNS[sign](left, right)
    # Exact fractions grow without limit: nested products could otherwise exhaust memory.
    if max(abs(value.numerator), value.denominator).bit_length() > MOST_BITS:
        raise InputError(f"{str(amount)!r} is too long a number")
    return value


def power_of_bytes(amount: Amount, powers: Mapping[str, int]) -> int:
    """1 for bytes, 0 for a plain number, and so on; ``powers`` holds those of the names.

    Raises InputError where bytes are added to, or compared with, something else.
    """
    match amount:
        case Number():
            return 1 if amount.unit else 0
        case NameReference(name):
            return powers.get(name, 0)
        case Extreme(_, parts):
            return _common_power(amount, [power_of_bytes(part, powers) for part in parts])
        case BinaryOperation(sign, left, right):
            sides = [power_of_bytes(left, powers), power_of_bytes(right, powers)]
            if sign in "+-":
                return _common_power(amount, sides)
            return sides[0] + sides[1] if sign == "*" else sides[0] - sides[1]
        case _:
            assert_never(amount)


def _common_power(amount: Amount, powers: list[int]) -> int:
    if len(set(powers)) > 1:
        hint = "give all parts a unit, as in 4096 B + 1 KiB"
        raise InputError(f"{str(amount)!r} mixes bytes with something else", hint=hint)
    return powers[0]


class _AmountTransformer(Transformer[Token, Amount]):
    def number(self, parts: list[Token | None]) -> Number:
        return Number(str(parts[0]), str(parts[1] or ""))

    def named(self, parts: list[Token]) -> NameReference:
        return NameReference(str(parts[0]))

    def operation(self, parts: list[Any]) -> BinaryOperation:
        left, sign, right = parts
        return BinaryOperation(str(sign), left, right)

    def extreme(self, parts: list[Any]) -> Extreme:
        return Extreme(str(parts[0]), tuple(parts[1:]))


@cache
def _lark() -> Lark:
    source = (
        resources.files("synth.collective.workload").joinpath("quantities.lark").read_text("utf-8")
    )
    return Lark(source, parser="lalr", transformer=_AmountTransformer())


def _parse_text(text: str) -> Amount:
    if len(text) > MOST_CHARACTERS:
        hint = f"{MOST_CHARACTERS} at most; give names to its parts"
        raise InputError(f"an amount of {len(text)} characters", hint=hint)
    try:
        amount: Any = _lark().parse(text)
    except UnexpectedInput as error:
        token = getattr(error, "token", None)
        at, token_text = error.pos_in_stream or 0, "the end"
        if token is not None and token.type == "$END":
            at = len(text.rstrip())
        else:
            token_text = repr(text[at] if token is None else str(token))
        problem = f"the amount {text!r} cannot be read at character {at + 1}, {token_text}"
        hint = "write it as in 4096, 14 GB / tensor or 2 * (data - 1)"
        raise InputError(problem, hint=hint) from None
    return cast(Amount, amount)
