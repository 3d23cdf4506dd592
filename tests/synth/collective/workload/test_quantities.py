"""Amounts: Python's own parser and exact fractions as judges, and what is refused."""

from __future__ import annotations

import ast
import operator
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import InputError
from strategies import amounts
from synth.ask.questions.notations import size_in_bytes
from synth.collective.workload.quantities import (
    UNITS,
    Amount,
    AtMostRule,
    BinaryOperation,
    Extreme,
    NameReference,
    Number,
    WholeRule,
    evaluate_amount,
    names_in,
    parse_amount,
    parse_rule,
    power_of_bytes,
)

NAMES = ("data", "tensor", "layers")
VALUES = st.fixed_dictionaries({name: st.integers(-9, 99).map(Fraction) for name in NAMES})
SIGNS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def by_python(node: ast.AST, known: dict[str, Fraction]) -> Fraction:
    """What Python's grammar makes of the text, in fractions."""
    match node:
        case ast.Expression(body):
            return by_python(body, known)
        case ast.Constant(value):
            return Fraction(repr(value))
        case ast.Name(name):
            return known[name]
        case ast.Call(ast.Name(which), parts):
            return {"min": min, "max": max}[which](by_python(part, known) for part in parts)
        case ast.BinOp(left, ast.Div(), right):
            return by_python(left, known) / by_python(right, known)
        case ast.BinOp(left, sign, right):
            return SIGNS[type(sign)](by_python(left, known), by_python(right, known))
    raise AssertionError(node)


def crowded(amount: Amount, space: str) -> str:
    """The same amount with all the parentheses and spaces that may stand there."""
    match amount:
        case BinaryOperation(sign, left, right):
            return f"({space}{crowded(left, space)}{space}{sign}{crowded(right, space)})"
        case Extreme(which, parts):
            inside = f"{space},".join(crowded(part, space) for part in parts)
            return f"{which}{space}({inside}{space})"
        case Number(text, unit):
            return f"{text}{space}{unit}"
    return f"({amount}{space})"


@given(amounts(NAMES, units=True))
def test_the_spelling_is_read_back(amount: Amount) -> None:
    assert parse_amount(str(amount)) == amount


@given(amounts(NAMES, units=True), st.sampled_from(["", " ", "\t "]))
def test_spaces_and_parentheses_change_nothing(amount: Amount, space: str) -> None:
    text = f"{space}{crowded(amount, space)}{space}"
    if len(text) <= 500:
        assert parse_amount(text) == amount


@given(amounts(NAMES), VALUES)
def test_values_are_those_of_python(amount: Amount, known: dict[str, Fraction]) -> None:
    try:
        wanted = by_python(ast.parse(str(amount), mode="eval"), known)
    except ZeroDivisionError:
        with pytest.raises(InputError, match="divides by zero"):
            evaluate_amount(amount, known)
    else:
        assert evaluate_amount(amount, known) == wanted


@given(amounts(NAMES))
def test_the_names_are_those_in_the_text(amount: Amount) -> None:
    words = re.findall(r"[a-z]{4,}", str(amount))
    assert list(names_in(amount)) == words


@given(amounts(NAMES, units=True), VALUES, st.integers(2, 5))
def test_the_power_of_bytes_determines_the_scaling_of_an_amount(
    amount: Amount, known: dict[str, Fraction], factor: int
) -> None:
    """Bytes counted in another unit change the value by a power of that unit."""
    try:
        power = power_of_bytes(amount, {})
        scaled = evaluate_amount(with_units(amount, Fraction(factor)), known)
        value = evaluate_amount(with_units(amount, Fraction(1)), known)
    except InputError:
        return
    assert scaled == value * Fraction(factor) ** power


def with_units(amount: Amount, factor: Fraction) -> Amount:
    """Every number that has a unit, multiplied."""
    match amount:
        case BinaryOperation(sign, left, right):
            return BinaryOperation(sign, with_units(left, factor), with_units(right, factor))
        case Extreme(which, parts):
            return Extreme(which, tuple(with_units(part, factor) for part in parts))
        case Number(_, unit) if unit:
            return BinaryOperation("*", amount, Number(str(factor)))
    return amount


@pytest.mark.parametrize("unit", UNITS)
def test_units_are_those_of_the_command_line(unit: str) -> None:
    assert Number("3", unit).value == size_in_bytes(f"3{unit}")


@given(st.one_of(st.integers(0, 10**30 - 1), st.floats(1e-60, 1e90), st.fractions(0, 10**9)))
def test_numbers_are_taken_exactly(given_number: int | float | Fraction) -> None:
    wanted = Fraction(repr(given_number)) if isinstance(given_number, float) else given_number
    assert evaluate_amount(parse_amount(given_number), {}) == wanted


@given(st.text(alphabet="0123456789.eEKMGiB+-*/(), datamnxi_<=\t", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for reader in (parse_amount, parse_rule):
        try:
            read = reader(text)
        except InputError:
            continue
        assert reader(str(read)) == read


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot be read at character 1, the end"),
        ("2 +", "at character 4, the end"),
        ("14 GB // tensor", "at character 8, '/'"),
        ("(2", "at character 3, the end"),
        ("2)", "at character 2, ')'"),
        ("2 ; 3", "at character 3, ';'"),
        ("-5", "at character 1, '-'"),
        ("1.", "at character 2, '.'"),
        ("2 3", "at character 3, '3'"),
        ("max(2)", "at character 6, ')'"),
        ("max 2", "at character 5, '2'"),
        ("14 tensor", "to multiply write 14 * tensor"),
        ("1e999", "the number 1e999 cannot be read"),
        ("1" * 31, "at most 30 digits"),
        ("1+" * 300 + "1", "an amount of 601 characters; 500 at most"),
        ("__import__('os')", "at character 1, '_'"),
    ],
)
def test_unreadable_input_is_reported(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_amount(text)
    assert words in str(caught.value)


@pytest.mark.parametrize("number", [-1, -0.5, float("inf"), float("nan"), 1e300])
def test_numbers_of_no_sense_are_refused(number: float) -> None:
    with pytest.raises(InputError, match="number"):
        parse_amount(number)


def test_an_amount_may_be_as_deep_as_its_length() -> None:
    assert evaluate_amount(parse_amount("(" * 249 + "1" + ")" * 249), {}) == 1
    assert evaluate_amount(parse_amount("+".join("1" * 250)), {}) == 250
    with pytest.raises(InputError, match="at character 501, the end"):
        parse_amount("(" * 500)


def test_a_number_that_grows_without_end_is_stopped() -> None:
    with pytest.raises(InputError, match="is too long a number"):
        evaluate_amount(parse_amount("*".join(["1e99"] * 50)), {})


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match="no axis or number 'tenser'; did you mean tensor"):
        evaluate_amount(NameReference("tenser"), {"tensor": Fraction(1)})


@pytest.mark.parametrize(
    ("text", "power"),
    [("14 GB / tensor", 1), ("3", 0), ("14 GB / 25 MB", 0), ("1 B * 1 B", 2), ("1 / 1 B", -1)],
)
def test_bytes_are_distinguished_from_plain_numbers(text: str, power: int) -> None:
    assert power_of_bytes(parse_amount(text), {}) == power


@pytest.mark.parametrize("text", ["4096 + 1 KiB", "max(1 GB, 2)", "1 GB - tensor"])
def test_bytes_do_not_mix_with_plain_numbers(text: str) -> None:
    with pytest.raises(InputError, match="mixes bytes with something else"):
        power_of_bytes(parse_amount(text), {})


def test_rules_compare_or_ask_for_whole_numbers() -> None:
    assert parse_rule("2*a<=3 GB") == AtMostRule(parse_amount("2 * a"), parse_amount("3 GB"))
    assert parse_rule(" layers / pipeline is whole ") == WholeRule(
        parse_amount("layers / pipeline")
    )
    assert str(parse_rule("a<=b")) == "a <= b"
    for text in ("a", "a >= b", "is whole", "ais whole", "a <= b <= c"):
        with pytest.raises(InputError, match="cannot be read"):
            parse_rule(text)
