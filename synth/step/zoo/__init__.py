"""The zoo: well-known models, each a page of plain JAX, with the sizes of its paper.

``sizes`` has the names and needs no JAX. A model consists of the shapes of its parameters and of a
batch, and a loss. An optimizer turns it into a step, which is traced.

>>> from synth.step.zoo.models import ModelOptions
>>> from synth.step.zoo.sizes import sizes_of
>>> from synth.step.zoo.table import model_of, step_of
>>> step = step_of(model_of("mlp", sizes_of("mlp", {"layers": 2}), ModelOptions(batch=8)), "sgd")
>>> print(step.labels, step.graph.outputs[-1].type)
('first/bias', 'first/weight', 'last/bias', 'last/weight', 'classes', 'features') f32[]
"""
