"""How a runtime executes a collective: algorithms, protocols, and the load on the links.

An all-reduce may be a ring, two trees, halving and doubling, direct messages or sums in the switch.
Each algorithm is a row of ``RECIPES`` that counts, for a buffer of one byte, the bytes a device
sends across a level and the messages that wait for each other; prices follow from these counts
alone. In a ring of 8 GPUs each passes on 7 of 8 pieces, twice; a tree moves more bytes and waits
for fewer messages, so trees win where buffers are small.

>>> from grammar import Collective
>>> from synth.collective.algorithms.algorithms import RECIPES, Algorithm
>>> for algorithm in (Algorithm.RING, Algorithm.TREE):
...     row = RECIPES[Collective.ALL_REDUCE, algorithm]
...     print(algorithm.value, row.crossing((8,), level=0), row.waits((8,), level=0))
ring 1.75 16.0
tree 2.0 6.0
"""
