"""Executes programs of explicit groups on numpy arrays: a judge that knows neither rules nor z3.

Every rank holds some chunks of the payload, by number. Which, is only found by running: a step
that finds other chunks than it needs cannot be carried out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from grammar import Collective
from synth.verify.concrete import GroupStep
from synth.verify.replay import Failure

Array = npt.NDArray[Any]
_Held = dict[int, Array]


def replay_groups(steps: Sequence[GroupStep], chunks: int, payloads: Array) -> Array | Failure:
    """Run steps on what each rank starts with; the result is what each ends with.

    Shapes are (ranks, elements). Payloads are padded with zeros to equal chunks, and cut again.
    """
    ranks, length = payloads.shape
    each = max(1, -(-length // chunks))
    whole = np.pad(payloads, ((0, 0), (0, chunks * each - length))).reshape(ranks, chunks, each)
    held: list[_Held] = [{c: whole[rank, c].copy() for c in range(chunks)} for rank in range(ranks)]
    for number, step in enumerate(steps):
        for which, group in enumerate(step.groups):
            pieces = None if step.pieces is None else step.pieces[which]
            reason = _exchange(step.collective, group, pieces, held)
            if reason:
                return Failure(number, reason)
    if any(len(mine) != chunks for mine in held):
        return Failure(None, "not every rank ends with the whole payload")
    found = np.stack([np.concatenate([mine[c] for c in range(chunks)]) for mine in held])
    return np.asarray(found[:, :length])


def _exchange(
    collective: Collective,
    group: Sequence[int],
    pieces: Sequence[frozenset[int]] | None,
    held: list[_Held],
) -> str:
    """Carry out one collective in one group; why it cannot be, or nothing."""
    root = group[0]
    match collective:
        case Collective.ALL_REDUCE | Collective.REDUCE | Collective.REDUCE_SCATTER:
            if any(held[rank].keys() != held[root].keys() for rank in group):
                return "members hold different chunks"
            total = {c: _sum([held[rank][c] for rank in group]) for c in held[root]}
            for number, rank in enumerate(group):
                held[rank] = _kept(collective, number, total, pieces)
        case Collective.ALL_GATHER:
            together = [c for rank in group for c in held[rank]]
            if len(set(together)) != len(together):
                return "two members hold one chunk"
            whole = {c: part for rank in group for c, part in held[rank].items()}
            for rank in group:
                held[rank] = {c: part.copy() for c, part in whole.items()}
        case Collective.BROADCAST:
            for rank in group:
                held[rank] = {c: part.copy() for c, part in held[root].items()}
        case Collective.ALL_TO_ALL:
            return "no step of an all-reduce"
        case _:
            assert_never(collective)
    return ""


def _kept(
    collective: Collective,
    number: int,
    total: _Held,
    pieces: Sequence[frozenset[int]] | None,
) -> _Held:
    """What the member of a number keeps of the sum."""
    match collective:
        case Collective.REDUCE:
            return total if number == 0 else {}
        case Collective.REDUCE_SCATTER:
            assert pieces is not None
            return {c: part for c, part in total.items() if c in pieces[number]}
        case _:
            return {c: part.copy() for c, part in total.items()}


def _sum(parts: Sequence[Array]) -> Array:
    stacked = np.stack(parts)
    total: Array = stacked.sum(axis=0, dtype=stacked.dtype)
    return total


def compared(steps: Sequence[GroupStep], chunks: int, ranks: int) -> Failure | None:
    """Run steps on whole numbers that look random; None where every rank ends with their sum."""
    elements = 2 * chunks + 1
    number = np.arange(1, ranks * elements + 1, dtype=np.uint64)
    mixed = (number * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(24)
    payloads = mixed.astype(np.int64).reshape(ranks, elements)
    found = replay_groups(steps, chunks, payloads)
    if isinstance(found, Failure):
        return found
    wrong = np.argwhere(found != payloads.sum(axis=0, dtype=np.int64))
    if len(wrong):
        rank, element = wrong[0].tolist()
        return Failure(None, f"rank {rank}, element {element} differs from the plain sum")
    return None
