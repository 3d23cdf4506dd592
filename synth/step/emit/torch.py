"""PyTorch: writes a step as plain collectives over process groups, primitives as torch calls."""

from __future__ import annotations

from collections.abc import Mapping

from grammar.tensors.sharding import ReductionKind, Type
from synth.primitives.calls.spelling import spell_words
from synth.primitives.calls.torch import TORCH_SPELLING
from synth.step.emit.language import TargetLanguage
from synth.step.emit.moves import find_senders, spell_local_move
from synth.step.redistribution import MoveKind, ShardingMove

CONTIGUOUS = "{0}.contiguous()"
"""Copies a transposed value into row-major order first, which is this rank's own work."""


def emit_move(text: str, move: ShardingMove, held: Type, sizes: Mapping[str, int]) -> str:
    """Spells one move of a value; ``held`` is the type of a device's part."""
    axes = spell_words(move.axes)
    match move.how:
        case MoveKind.SLICE | MoveKind.MASK | MoveKind.WIDEN:
            return spell_local_move(text, move, held, TORCH_SPELLING)
        case MoveKind.ALL_GATHER:
            return f"all_gather({text}, {move.leaves}, {axes})"
        case MoveKind.ALL_TO_ALL:
            order = spell_words(move.entering)
            more = "" if order == axes else f", {order}"
            return f"all_to_all({text}, {move.enters}, {move.leaves}, {axes}{more})"
        case MoveKind.REDUCE_SCATTER:
            order = spell_words(move.entering)
            kind = _reduce_operation(move.kind, held)
            return f'reduce_scatter({CONTIGUOUS.format(text)}, {move.enters}, {order}, "{kind}")'
        case MoveKind.ALL_REDUCE:
            return (
                f"all_reduce({CONTIGUOUS.format(text)}, {axes}, "
                f'"{_reduce_operation(move.kind, held)}")'
            )
        case MoveKind.PERMUTE:
            ordered, senders = find_senders(move, sizes)
            return f"permute({text}, {spell_words(ordered)}, {senders})"


def _reduce_operation(kind: ReductionKind, held: Type) -> str:
    """Returns how a collective reduces: a sum of u32, kept in 64 bits, is cut to 32 bits."""
    return "words" if kind is ReductionKind.SUM and held.dtype == "u32" else kind.value


TORCH = TargetLanguage(
    TORCH_SPELLING,
    "step_torch.py.jinja",
    "torch.zeros({shape}, dtype={dtype})",
    lambda row: row.torch,
    emit_move,
    word="({0}) & 0xFFFFFFFF",
    gets_by_shape=True,
    sent=CONTIGUOUS,
    later="{0}, later=True)",
)
