"""Prices many plans of one model at once, composed of parts read from a step of two layers.

``writing`` writes out the inside of a stage once for each way to shard it; ``reading`` reads it
into an ``inside``. ``staged`` describes a recipe by its stages and ranks, ``sending`` computes the
seconds of gradients and parameters, and ``composer`` seconds and memory. ``clock`` times the passes
of many plans at once in the order of their schedule:

>>> from synth.step.search.composing.clock import PassSeconds, time_plans, lay_out_stages
>>> each, links = (1.0, 1.0, 1.0), [0.0, 0.0, 0.0]
>>> plan = PassSeconds(lay_out_stages(4, 4, 1), each, each, (2.0, 2.0, 2.0), (0.0, 0.0, 0.0), links)
>>> time_plans((4, "1f1b", 8, 1), [plan])
[22.0]
"""
