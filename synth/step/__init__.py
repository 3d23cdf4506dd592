"""Training steps: a model becomes a step, a graph of primitives, which is sharded and timed.

A step comes from the zoo, a saved text, or a user's own file. Only tracing needs JAX.

>>> from grammar.tensors.parser import parse_step
>>> from synth.step.work import peak_bytes, work_of
>>> step = parse_step('''
... step product
... in w: f32[16,4] parameter
... in x: f32[8,16] batch
... v0: f32[8,4] = dot_general(x, w) dimension_numbers=(((1),(0)),((),()))
... out v0
... ''')
>>> [(work.primitive, work.flops) for work in work_of(step)], peak_bytes(step)
([('dot_general', 1024)], 128)

The passes of each stage of a pipeline, in order, and when they end:

>>> from synth.step.schedules import Durations, gpipe, time_schedule
>>> order = gpipe(ranks=4, microbatches=8)
>>> timed = time_schedule(order, Durations(forward_seconds=1, backward_seconds=2).on(order))
>>> timed.seconds, round(timed.idle_share, 3)
(33.0, 0.273)

The shardings under which an operation needs no communication: a negation is linear, so it accepts
partial sums; a square root does not.

>>> from grammar.tensors.operations import Operation, Value
>>> from grammar.tensors.sharding import Type
>>> from synth.step.factors import list_rows
>>> x, y = Value("x", Type("f32", (8,))), Value("y", Type("f32", (8,)))
>>> for name in ("neg", "sqrt"):
...     print(name, *list_rows(Operation(name, (x,), (y,))), sep="  ")
neg  [R] -> [R]  [0] -> [0]  [sum] -> [sum]  [max] -> [min]  [min] -> [max]
sqrt  [R] -> [R]  [0] -> [0]

The redistribution of a value from one sharding to another by the fewest bytes:

>>> from grammar.tensors.sharding import ReductionKind, Sharding, Type, replicated_sharding
>>> from synth.step.redistribution import find_path
>>> partial = Sharding(((), ()), ((ReductionKind.SUM, "data"),))
>>> path = find_path(Type("f32", (8, 16)), partial, replicated_sharding(2), {"data": 4})
>>> print(*path.moves)
all-reduce (sum) over data
"""
