"""Gather and scatter in PyTorch."""

from __future__ import annotations

from grammar.tensors.operations import Parameter
from grammar.tensors.sharding import is_float
from synth.primitives.calls.call import PrimitiveCall, Writer
from synth.primitives.calls.spelling import spell_parameter, spell_words
from synth.primitives.parameters import read_entry


def _indexing(call: PrimitiveCall, windows: str, places: str) -> str:
    """Spells which dimension each entry of an index refers to, for a gather or scatter."""
    names = ("operand_batching_dims", "start_indices_batching_dims")
    if places == "scatter_dims_to_operand_dims":
        names = ("operand_batching_dims", "scatter_indices_batching_dims")
    keys = (windows, places, *names)
    entries = [read_entry(call.operation, "dimension_numbers", key) for key in keys]
    return ", ".join(map(str, entries))


def gather(call: PrimitiveCall) -> str:
    """Writes ``gather``."""
    operand, indices = call.operands
    mode = str(call.operation.parameter["mode"])
    arguments = f"{_indexing(call, 'offset_dims', 'start_index_map')}, {call.spell('slice_sizes')}"
    arguments += f", {read_entry(call.operation, 'dimension_numbers', 'collapsed_slice_dims')}"
    fill = call.operation.parameter.get("fill_value", _find_fill_value(call.result.dtype))
    if mode == "fill_or_drop":
        arguments += f", fill={spell_parameter(fill, call.runtime.dtypes)}"
    return f"gather({operand}, {indices}, {arguments}{_index_own(call)})"


def _find_fill_value(dtype: str) -> Parameter:
    """Returns JAX's default fill value: nan, the least signed or the largest unsigned number."""
    if is_float(dtype):
        return float("nan")
    if dtype == "bool":
        return True
    bits = int(dtype[1:])
    return -(1 << bits - 1) if dtype.startswith("i") else (1 << bits) - 1


def _index_own(call: PrimitiveCall) -> str:
    if call.offset is None:
        return ""
    offset = call.offset
    return f", own=({offset.entry}, {offset.extent}, {offset.size}, {spell_words(offset.axes)})"


def scatter(how: str) -> Writer:
    """Returns the writer of a scatter; ``how``: see ``scatter`` in the template."""

    def write(call: PrimitiveCall) -> str:
        operand, indices, updates = call.operands
        arguments = _indexing(call, "update_window_dims", "scatter_dims_to_operand_dims")
        inserted = read_entry(call.operation, "dimension_numbers", "inserted_window_dims")
        clip = ", clip=True" if call.operation.parameter["mode"] == "clip" else ""
        arguments += f', {inserted}, how="{how}"{clip}{_index_own(call)}'
        return f"scatter({operand}, {indices}, {updates}, {arguments})"

    return write
