"""Where a device is in a reduction, read off its digits one by one: the grid, found otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from hierarchies import Reduction


def located(reduction: Reduction, device: int) -> tuple[int, int]:
    """Replica and member number of a device: the inverse of ``grid``. Raises InputError."""
    digits = reduction.placement.hierarchy.digits(device)
    replica = 0
    members = [0] * len(reduction.tree.digits)
    for digit, parts in zip(digits, reduction.parts, strict=True):
        for part, value in zip(parts, _split(digit, [p.size for p in parts]), strict=True):
            if part.digit is None:
                replica = replica * part.size + value
            else:
                members[part.digit] = members[part.digit] * part.size + value
    member = 0
    for value, size in zip(members, reduction.tree.sizes, strict=True):
        member = member * size + value
    return replica, member


def _split(number: int, sizes: Sequence[int]) -> list[int]:
    values = []
    for size in reversed(sizes):
        number, value = divmod(number, size)
        values.append(value)
    return values[::-1]
