"""Rewrites repeated layers for a plan: recomputes them, or splits them by stage.

The results are ordinary steps that compute the same values.

>>> from grammar.tensors.parser import parse_step
>>> from synth.step.sharding.layers.apart import split_layers
>>> step = parse_step('''
... step tower
... in w: f32[4,2,2] parameter
... in x: f32[8,2] batch
... v0: f32[8,2] = scan(x, w) length=4 num_carry=1 num_consts=0 {
...   in v1: f32[8,2]
...   in v2: f32[2,2]
...   v3: f32[8,2] = dot_general(v1, v2) dimension_numbers=(((1),(0)),((),()))
...   out v3
... }
... out v0
... ''')
>>> split_layers(step, 2)[0].labels
('0/w', '1/w', 'x')
"""
