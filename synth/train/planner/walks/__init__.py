"""Plans that annealing meets, where all there are would be too many: a space, and walks in it.

A schedule and its chunks change together, as one says which the other may be:

>>> from synth.train.planner.walks.space import WORDS
>>> [words for words in WORDS if "chunks" in words]
[('schedule', 'chunks')]
"""
