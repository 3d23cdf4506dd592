"""Boolean functions of digits as truth tables: the arithmetic that states are made of.

A state says, for every device d, chunk c and contributor q, whether the device's value of the chunk
contains the contribution. On the skeleton, the tree with every factor replaced by 2, that is a
boolean function of 3L bits, and its truth table is one Python integer of 8^L bits. Union over a
group is then "or with the digit flipped", and an instruction takes a few shifts and masks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from hierarchies import InputError


@dataclass(frozen=True)
class TruthTables:
    """The truth tables over the digits of devices, chunks and contributors of a tree.

    Variables 0..L-1 are the device's digits, L..2L-1 the chunk's, 2L..3L-1 the contributor's.
    ``zero[v]`` is the table of "variable v is 0", ``full`` of "true", ``own_row[i]`` of "digit i of
    the chunk is the device's". Tables of only the first n variables have 2^n bits and work with the
    same functions.
    """

    depth: int
    full: int
    zero: tuple[int, ...]
    own_row: tuple[int, ...]

    @property
    def devices(self) -> range:
        return range(self.depth)

    def rows(self, digits: Iterable[int]) -> tuple[int, ...]:
        """The chunk variables of some digits."""
        return tuple(self.depth + digit for digit in digits)

    def flip(self, table: int, variable: int) -> int:
        """The table with the two values of a variable exchanged."""
        # Entry i of a table is bit i, so entries that differ in one variable are 2^variable bits
        # apart.
        low, width = self.zero[variable], 1 << variable
        return ((table & low) << width) | ((table >> width) & low)

    def some(self, table: int, variables: Iterable[int]) -> int:
        """Exists: the table of "some value of the variables makes it true"."""
        for variable in variables:
            table |= self.flip(table, variable)
        return table

    def same(self, table: int, variables: Iterable[int]) -> bool:
        """Whether the table does not depend on the variables."""
        return all(self.flip(table, variable) == table for variable in variables)

    def union(self, table: int, variables: Iterable[int]) -> tuple[int, bool]:
        """``some``, and whether it was disjoint: true for at most one value of the variables."""
        disjoint = True
        for variable in variables:
            flipped = self.flip(table, variable)
            disjoint = disjoint and not flipped & table
            table |= flipped
        return table, disjoint

    def drop(self, table: int, kept: int) -> int:
        """Exists, over all variables from number ``kept`` on: a table of the variables below it."""
        for variable in reversed(range(kept, 3 * self.depth)):
            width = 1 << variable
            table = (table | (table >> width)) & ((1 << width) - 1)
        return table

    def all_zero(self, variables: Iterable[int]) -> int:
        """The table of "these variables are all 0"."""
        table = self.full
        for variable in variables:
            table &= self.zero[variable]
        return table


MOST_DIGITS = 8
"""A table has 8^L bits: 2 MiB for 8 digits, a gigabyte for 11."""


def check_depth(depth: int) -> None:
    """Raises InputError for a tree of more than ``MOST_DIGITS`` digits."""
    if depth > MOST_DIGITS:
        raise InputError(
            f"a synthesis tree of {depth} digits", hint=f"at most {MOST_DIGITS} can be searched"
        )


@cache
def truth_tables(depth: int) -> TruthTables:
    """The truth tables for trees of ``depth`` digits. Raises InputError for more than 8."""
    check_depth(depth)
    bits = 1 << (3 * depth)
    zero = tuple(_zero_table(variable, bits) for variable in range(3 * depth))
    full = (1 << bits) - 1
    own = tuple(_equal_bits(zero[digit], zero[depth + digit], full) for digit in range(depth))
    return TruthTables(depth, full, zero, own)


def own_contributions(tables: TruthTables) -> int:
    """The state in which every device holds its own contribution to every chunk: d = q."""
    table = tables.full
    for digit in tables.devices:
        contributor = tables.zero[2 * tables.depth + digit]
        table &= _equal_bits(tables.zero[digit], contributor, tables.full)
    return table


def own_chunks(tables: TruthTables) -> int:
    """The state in which every device holds the chunk with its own digits, complete: d = c."""
    table = tables.full
    for own in tables.own_row:
        table &= own
    return table


def _zero_table(variable: int, bits: int) -> int:
    width = 1 << variable
    table, done = (1 << width) - 1, 2 * width
    while done < bits:
        table |= table << done
        done *= 2
    return table


def _equal_bits(left: int, right: int, full: int) -> int:
    return full & ~(left ^ right)
