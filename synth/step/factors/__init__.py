"""Which axes an operation may use: its factors, and the rows that follow from them.

A *factor* of an operation is one index that it runs over. ``dot_general`` of ``[i,k]`` and
``[k,j]`` has three: to cut ``i`` along an axis cuts the left operand and the result (free), to cut
``k`` cuts both operands and leaves a partial sum (contracted). A *row* says for one axis how all
operands lie, and how then the results do. What has no row cannot be done on an axis without
communication before it. Rows are data; design of the step, sections 3 and 4.

>>> from grammar.tensors.operations import Operation, Value
>>> from grammar.tensors.sharding import Type
>>> from synth.step.factors import list_rows, shard_operation
>>> x, w = Value("x", Type("f32", (8, 16))), Value("w", Type("f32", (16, 4)))
>>> y = Value("y", Type("f32", (8, 4)))
>>> told = (("dimension_numbers", (((1,), (0,)), ((), ()))),)
>>> product = Operation("dot_general", (x, w), (y,), told)
>>> for row in list_rows(product):
...     print(row, "" if row.factor is None else row.factor.name)
[R, R] -> [R]
[0, R] -> [0] left 0
[1, 0] -> [sum] contracting 0
[R, 1] -> [1] right 1
[sum, R] -> [sum]
[R, sum] -> [sum]

Over two axes a row for each: here the batch over one, the features that are summed over the other.

>>> whole, left, contracting, *_ = list_rows(product)
>>> how = shard_operation(product, {"data": left, "model": contracting}, {"data": 4, "model": 2})
>>> [one.spelled() for one in (*how.operands, *how.results)]
['[?@data,?@model]', '[?@model,?]', '[?@data,?]{sum:model}']
"""

from synth.step.factors.factor import Cut, Factor, Index, Row
from synth.step.factors.parts import Offset, OperationPart, part_of, part_parameters
from synth.step.factors.rows import list_all_rows, list_rows
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
    "list_all_rows",
    "list_rows",
    "match_rows",
    "part_of",
    "part_parameters",
    "shard_operation",
]
