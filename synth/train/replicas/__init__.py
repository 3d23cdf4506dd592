"""The judge of sharded steps: virtual devices that carry them out on numpy arrays.

It reads moves as data and knows no rule: concatenate, split, and reduce over groups. Two devices
hold a half each of four numbers; after an all-gather both have all of them.

>>> import numpy as np
>>> from grammar.tensors.sharding import Sharding, Type, replicated
>>> from synth.train.replicas.parts import cut, mismatch
>>> from synth.train.replicas.redistribution import carry_out
>>> from synth.train.resharding import path_between
>>> halves, sizes, value = Sharding((("data",),)), {"data": 2}, np.arange(4.0)
>>> parts = cut(value, halves, sizes, np.random.default_rng(0))
>>> path = path_between(Type("f64", (4,)), halves, replicated(1), sizes)
>>> found = carry_out(path, parts, sizes)
>>> print(parts[1,], found[1,], mismatch(found, value, path.target, sizes))
[2. 3.] [0. 1. 2. 3.] None
"""
