"""Completes a plan from the shardings of its inputs: operations follow their operands.

The sum of a value that is sharded by samples is a partial sum:

>>> from grammar.tensors.operations import Graph, Operation, Step, Value
>>> from grammar.tensors.sharding import Sharding, Type
>>> from synth.step.sharding.following import follow
>>> from synth.step.sharding.following.known import Rules
>>> x, total = Value("x", Type("f32", (8,))), Value("total", Type("f32", ()))
>>> sum_ = Operation("reduce_sum", (x,), (total,), (("axes", (0,)),))
>>> step = Step("sum", Graph((x,), (sum_,), (total,)), ("batch",), ("x",))
>>> [rows] = follow(step, [Sharding((("data",),))], Rules({"data": 4})).operations
>>> [(axis, str(row)) for axis, row in rows]
[('data', '[0] -> [sum]')]
"""

from synth.step.sharding.following.following import follow as follow
