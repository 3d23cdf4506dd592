"""Prices many plans of one model at once, composed of parts read from a step of two layers.

``writing`` writes out the inside of a stage once for each way to shard it; ``reading`` reads it
into an ``inside``. ``staged`` describes a recipe by its stages and ranks, ``sending`` computes the
seconds of gradients and parameters, and ``composer`` seconds and memory. Plans are rows of arrays
(``columns``): ``clock`` bounds their passes, and ``timing`` times these in the order of a schedule.

>>> from synth.step.search.composing.clock import lay_out_stages
>>> lay_out_stages(126, 16, 1, (7, *(8,) * 14, 7)).kinds
((7, True, False), (8, False, False), (7, False, True))
"""
