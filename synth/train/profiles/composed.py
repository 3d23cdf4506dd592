"""Seconds of every operation of a program by its blocks, as the simulation takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from grammar.tensors.operations import Value
from synth.train.factors import part
from synth.train.plans import Done
from synth.train.profiles.blocks import Block
from synth.train.profiles.events import Event


def composed(
    pairs: Iterable[tuple[Block, Event]],
    seconds: Callable[[Event], float],
    sizes: Mapping[str, int],
) -> dict[int, float]:
    """Of each operation, by the ``id`` of its ``Done``, its share of its block's seconds.

    Shares go by bytes, and only show in the timeline: a block begins and ends as measured. Of a
    loop it is what the loop does itself. Sums over microbatches are no operation's. Raises what
    ``seconds`` raises for an event that nobody measured.
    """
    found: dict[int, float] = {}
    for block, event in pairs:
        if not block.of:
            continue
        weights = [_weight(one, sizes) for one in block.of]
        whole, taken = sum(weights), seconds(event)
        for one, weight in zip(block.of, weights, strict=True):
            found[id(one)] = taken * weight / whole
    return found


def _weight(one: Done, sizes: Mapping[str, int]) -> float:
    if one.body is not None:
        return 1.0
    mine = part(one.operation, one.how, sizes).operation
    touched = (*mine.operands, *mine.results)
    return 1.0 + sum(value.type.bytes for value in touched if isinstance(value, Value))
