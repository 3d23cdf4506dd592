"""Training steps as text: typed values, operations, and how values lie on axes.

A step is what one device would compute, one primitive a line; how its values are cut over the axes
of a placement is said beside it. ``parse_step(str(step)) == step``.

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
((8, 2), Split(dimension=0), <Kind.SUM: 'sum'>)
"""
