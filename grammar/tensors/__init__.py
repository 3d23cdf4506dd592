"""Training steps as text: typed values, operations, and shardings.

A step is the computation of one device, one primitive per line. In a sharded step, each value's
type says how it is divided over the axes of a placement. ``parse_step(str(step)) == step``.

>>> from grammar.tensors.parser import parse_step, parse_type
>>> step = parse_step('''
... step double
... in x: f32[8,2] batch
... v0: f32[8,2] = add(x, x) @double.py:3
... out v0
... ''')
>>> print(step.graph.operations[0])
v0: f32[8,2] = add(x, x) @double.py:3
>>> kind, sharding = parse_type("f32[8@data,2]{sum:model}")
>>> kind.shape, sharding.along("data"), sharding.along("model")
((8, 2), Split(dimension=0), <ReductionKind.SUM: 'sum'>)
"""
