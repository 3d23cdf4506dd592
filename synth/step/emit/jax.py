"""JAX: a step inside ``shard_map``, primitives as calls of ``jax.lax``, loops by ``lax.scan``."""

from __future__ import annotations

from collections.abc import Mapping

from grammar.tensors.sharding import ReductionKind, Sharding, Type
from synth.primitives.calls.jax import JAX_SPELLING
from synth.primitives.calls.spelling import spell_words
from synth.step.emit.language import TargetLanguage
from synth.step.emit.moves import find_senders, spell_local_move
from synth.step.emit.spelling import trim_uncut
from synth.step.redistribution import MoveKind, ShardingMove

_REDUCES = {ReductionKind.SUM: "psum", ReductionKind.MAX: "pmax", ReductionKind.MIN: "pmin"}


def emit_move(text: str, move: ShardingMove, held: Type, sizes: Mapping[str, int]) -> str:
    """Spells one move of a value; ``held`` is the type of a device's part."""
    axes = spell_words(move.axes)
    match move.how:
        case MoveKind.SLICE | MoveKind.MASK | MoveKind.WIDEN:
            return spell_local_move(text, move, held, JAX_SPELLING)
        case MoveKind.ALL_GATHER:
            return f"lax.all_gather({text}, {axes}, axis={move.leaves}, tiled=True)"
        case MoveKind.ALL_TO_ALL:
            return _emit_all_to_all(text, move)
        case MoveKind.REDUCE_SCATTER:
            return _emit_reduce_scatter(text, move, held)
        case MoveKind.ALL_REDUCE:
            return _emit_reduction(text, move, held)
        case MoveKind.PERMUTE:
            ordered, senders = find_senders(move, sizes)
            pairs = [(sender, at) for at, sender in enumerate(senders)]
            return f"lax.ppermute({text}, {spell_words(ordered)}, {pairs})"


def _emit_all_to_all(text: str, move: ShardingMove) -> str:
    order = move.entering
    dimensions = f"{move.enters}, {move.leaves}"
    exchanged = f"lax.all_to_all({text}, {spell_words(order)}, {dimensions}, tiled=True)"
    if order == move.axes:
        return exchanged
    return f"reordered({exchanged}, {move.leaves}, {spell_words(order)}, {spell_words(move.axes)})"


def _emit_reduce_scatter(text: str, move: ShardingMove, held: Type) -> str:
    """Spells a reduce-scatter. JAX scatters no maxima: each device slices an all-reduced value."""
    axes = spell_words(move.entering)
    if move.kind is not ReductionKind.SUM:
        return f"own_block({_emit_reduction(text, move, held)}, {move.enters}, {axes})"
    return f"lax.psum_scatter({text}, {axes}, scatter_dimension={move.enters}, tiled=True)"


def _emit_reduction(text: str, move: ShardingMove, held: Type) -> str:
    name, axes = _REDUCES[move.kind], spell_words(move.axes)
    if held.dtype == "bool":
        return f"lax.{name}({text}.astype(jnp.int32), {axes}).astype(bool)"
    return f"lax.{name}({text}, {axes})"


def spell_partition(sharding: Sharding) -> str:
    """Returns the PartitionSpec of a sharding, without its partial axes.

    A flat value is an array of the pieces of all devices end to end: ``laid_flat`` in the template.
    """
    return f"P({', '.join(map(_spell_entry, trim_uncut(sharding)))})"


def _spell_entry(axes: tuple[str, ...]) -> str:
    """Returns the entry of one dimension in a PartitionSpec."""
    if not axes:
        return "None"
    return f'"{axes[0]}"' if len(axes) == 1 else spell_words(axes)


JAX = TargetLanguage(
    JAX_SPELLING,
    "step_jax.py.jinja",
    "jnp.zeros({shape}, {dtype})",
    lambda row: row.jax,
    emit_move,
    apart="lax.optimization_barrier({0})",
)
