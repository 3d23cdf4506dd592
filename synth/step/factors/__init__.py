"""Factors of operations, and their rows: the legal shardings of an operation along an axis.

A *factor* of an operation is one index that it iterates over. ``dot_general`` of ``[i,k]`` and
``[k,j]`` has three: to cut ``i`` along an axis cuts the left operand and the result (free), to cut
``k`` cuts both operands and leaves a partial sum (contracted). A *row* has, for one axis, the
shardings of all operands, and of the results that follow. An operation without a row for its
operands' shardings needs communication before it. The design is that of Shardy's factors.

>>> from grammar.tensors.operations import Operation, Value
>>> from grammar.tensors.sharding import Type
>>> from synth.step.factors import list_rows, shard_operation
>>> x, w = Value("x", Type("f32", (8, 16))), Value("w", Type("f32", (16, 4)))
>>> y = Value("y", Type("f32", (8, 4)))
>>> parameters = (("dimension_numbers", (((1,), (0,)), ((), ()))),)
>>> product = Operation("dot_general", (x, w), (y,), parameters)
>>> for row in list_rows(product):
...     print(row, "" if row.factor is None else row.factor.name)
[R, R] -> [R]
[0, R] -> [0] left 0
[1, 0] -> [sum] contracting 0
[R, 1] -> [1] right 1
[sum, R] -> [sum]
[R, sum] -> [sum]

Over two axes an operation has a row for each: here one cuts the batch, one the summed features.

>>> whole, left, contracting, *_ = list_rows(product)
>>> how = shard_operation(product, {"data": left, "model": contracting}, {"data": 4, "model": 2})
>>> [sharding.spelled() for sharding in (*how.operands, *how.results)]
['[?@data,?@model]', '[?@model,?]', '[?@data,?]{sum:model}']
"""

from synth.primitives.factor import Cut, Factor, Index, Offset, Row
from synth.step.factors.parts import OperationPart, part_of, part_parameters
from synth.step.factors.rows import find_all_rows, list_all_rows, list_rows
from synth.step.factors.several_axes import OperationSharding, match_rows, shard_operation
from synth.step.factors.table import factors_of

__all__ = [
    "Cut",
    "Factor",
    "Index",
    "Offset",
    "OperationPart",
    "OperationSharding",
    "Row",
    "factors_of",
    "find_all_rows",
    "list_all_rows",
    "list_rows",
    "match_rows",
    "part_of",
    "part_parameters",
    "shard_operation",
]
