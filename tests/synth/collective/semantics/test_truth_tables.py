"""Truth tables against the naive thing: one look at every row."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from synth.collective.semantics.truth_tables import TruthTables, own_contributions, truth_tables

Row = tuple[int, ...]
DEPTHS = (1, 2)


def rows(variables: int) -> list[Row]:
    """All values of the variables; variable 0 is the lowest bit of a row's place in a table."""
    return [row[::-1] for row in product((0, 1), repeat=variables)]


def true_in(table: int, variables: int) -> set[Row]:
    return {row for place, row in enumerate(rows(variables)) if table >> place & 1}


def without(row: Row, variables: tuple[int, ...]) -> Row:
    return tuple(bit for variable, bit in enumerate(row) if variable not in variables)


@st.composite
def cases(draw: st.DrawFn) -> tuple[TruthTables, int, int, tuple[int, ...]]:
    """A space, a number of variables from the first on, a table over them, and some of them."""
    tables = truth_tables(draw(st.sampled_from(DEPTHS)))
    count = draw(st.integers(1, 3 * tables.depth))
    table = draw(st.integers(0, (1 << (1 << count)) - 1))
    chosen = draw(st.sets(st.integers(0, count - 1)))
    return tables, count, table, tuple(sorted(chosen))


@given(cases())
def test_flip_exchanges_the_two_values(case: tuple[TruthTables, int, int, tuple[int, ...]]) -> None:
    tables, count, table, chosen = case
    for variable in chosen:
        wanted = {
            tuple(bit ^ (place == variable) for place, bit in enumerate(row))
            for row in true_in(table, count)
        }
        assert true_in(tables.flip(table, variable), count) == wanted
        assert tables.flip(tables.flip(table, variable), variable) == table


@given(cases())
def test_some_asks_for_any_value(case: tuple[TruthTables, int, int, tuple[int, ...]]) -> None:
    tables, count, table, chosen = case
    there = {without(row, chosen) for row in true_in(table, count)}
    wanted = {row for row in rows(count) if without(row, chosen) in there}
    assert true_in(tables.some(table, chosen), count) == wanted


@given(cases())
def test_same_is_not_to_depend(case: tuple[TruthTables, int, int, tuple[int, ...]]) -> None:
    tables, count, table, chosen = case
    there = {without(row, chosen) for row in true_in(table, count)}
    depends = any(
        (without(r, chosen) in there) != (r in true_in(table, count)) for r in rows(count)
    )
    assert tables.same(table, chosen) == (not depends)


@given(cases())
def test_union_is_some_and_knows_what_is_there_twice(
    case: tuple[TruthTables, int, int, tuple[int, ...]],
) -> None:
    tables, count, table, chosen = case
    there = [without(row, chosen) for row in sorted(true_in(table, count))]
    disjoint = len(there) == len(set(there))
    assert tables.union(table, chosen) == (tables.some(table, chosen), disjoint)


@given(st.sampled_from(DEPTHS), st.data())
def test_drop_asks_for_any_value_of_the_last(depth: int, data: st.DataObject) -> None:
    table = data.draw(st.integers(0, truth_tables(depth).full))
    kept = data.draw(st.integers(0, 3 * depth))
    wanted = {row[:kept] for row in true_in(table, 3 * depth)}
    assert true_in(truth_tables(depth).drop(table, kept), kept) == wanted


@given(st.sampled_from(DEPTHS), st.data())
def test_all_zero_is_where_they_are_all_zero(depth: int, data: st.DataObject) -> None:
    chosen = data.draw(st.sets(st.integers(0, 3 * depth - 1)))
    wanted = {row for row in rows(3 * depth) if not any(row[variable] for variable in chosen)}
    assert true_in(truth_tables(depth).all_zero(chosen), 3 * depth) == wanted


@pytest.mark.parametrize("depth", range(4))
def test_the_named_tables(depth: int) -> None:
    tables, variables = truth_tables(depth), 3 * depth
    everywhere = set(rows(variables))
    assert true_in(tables.full, variables) == everywhere
    assert tables.full.bit_length() == 8**depth
    for variable in range(variables):
        assert true_in(tables.zero[variable], variables) == {
            r for r in everywhere if not r[variable]
        }
    for digit in range(depth):
        own = {row for row in everywhere if row[digit] == row[depth + digit]}
        assert true_in(tables.own_row[digit], variables) == own
    assert tables.rows(tables.devices) == tuple(range(depth, 2 * depth))


@pytest.mark.parametrize("depth", range(4))
def test_at_the_start_everyone_has_what_is_their_own(depth: int) -> None:
    wanted = {
        device + chunk + contributor
        for device, held in oracle.start((2,) * depth).items()
        for chunk, contributors in held.items()
        for contributor in contributors
    }
    assert true_in(own_contributions(truth_tables(depth)), 3 * depth) == wanted
